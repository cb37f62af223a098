//! Headers of `.npy` files: versions 1, 2 and 3 are read, version 1 is written.
//!
//! ```text
//! byte 0         6  7  8       10 or 12                                 multiple of 64
//!      \x93NUMPY 1  0  length  {'descr': '<f8', ... 'shape': (3, 4), }  \n data
//! ```
//!
//! Matrices are little-endian float64 and float32 in C order with two dimensions; arrays are of all
//! element types, also big-endian, in both orders, of two or three dimensions. The header is a
//! Python dictionary literal with exactly three keys, so a strict parser for these is shorter and
//! safer than a general one: `npyz` 0.9 overflows on a large shape, and its grammar takes
//! exponential time on nested brackets.
//!
//! Source: NumPy enhancement proposal 1 and `numpy.lib.format`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Element, ElementType, Error, Layout, Result, Shape};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The maximal length of a header. NumPy itself refuses headers over 10 000 bytes; its version 1
/// ends at 65 535.
const LONGEST: usize = 1 << 16;

/// The three keys of a header.
#[derive(Debug, PartialEq, Eq)]
struct Dictionary {
    descr: String,
    fortran: bool,
    dims: Vec<u64>,
}

/// Returns the header of a file with an array of two or three dimensions, padded so that the data
/// start at a multiple of 64.
pub(crate) fn header(element: ElementType, dims: &[usize]) -> Vec<u8> {
    let descr = element.descr();
    let shape = dims.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let total = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64);
    // The text has at most 123 bytes, so the length fits.
    let length = (total - MAGIC.len() - 4) as u16;
    let mut bytes = Vec::with_capacity(total);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(total - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// Reads the dictionary at the head of a file, and returns it with the offset behind it.
fn head(file: &File, path: &Path) -> Result<(Dictionary, usize)> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let mut head = Vec::new();
    file.take((LONGEST + 12) as u64).read_to_end(&mut head).map_err(failed)?;
    parse(&head).map_err(|why| Error::NotNpy { path: path.to_owned(), why })
}

/// The contents of a header: those of an array of any order and byte order.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) element: ElementType,
    pub(crate) big_endian: bool,
    pub(crate) fortran: bool,
    pub(crate) dims: Vec<usize>,
    /// The offset of the data.
    pub(crate) start: u64,
}

/// Reads the header of a file with an array of two or three dimensions, and checks that the length
/// of the file matches.
pub(crate) fn array(file: &File, path: &Path) -> Result<Header> {
    let (Dictionary { descr, fortran, dims }, start) = head(file, path)?;
    let little = |element: &ElementType| element.descr() == descr;
    let big = |element: &ElementType| {
        descr.strip_prefix('>').is_some_and(|rest| element.descr().strip_prefix('<') == Some(rest))
    };
    let known = ElementType::ALL.into_iter().find(little).map(|element| (element, false));
    let known = known.or_else(|| ElementType::ALL.into_iter().find(big).map(|e| (e, true)));
    let Some((element, big_endian)) = known else {
        return Err(Error::UnsupportedDtype { path: path.to_owned(), found: descr });
    };
    if !matches!(dims.len(), 2 | 3) {
        return Err(Error::NotTwoOrThreeDimensions { path: path.to_owned(), dims });
    }
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let actual = file.metadata().map_err(failed)?.len();
    if dims.contains(&0) {
        return Err(Error::NoElements { path: path.to_owned(), dims });
    }
    let elements = dims.iter().try_fold(1_u64, |product, n| product.checked_mul(*n));
    let bytes = elements.and_then(|n| n.checked_mul(element.bytes() as u64)).unwrap_or(u64::MAX);
    let expected = bytes.saturating_add(start as u64);
    if bytes == 0 || bytes > isize::MAX as u64 || actual != expected {
        let what = format!("a .npy array of {dims:?}");
        return Err(Error::Length { path: path.to_owned(), what, expected, actual });
    }
    // No dimension exceeds their product, which fits.
    let dims = dims.into_iter().map(|n| n as usize).collect();
    Ok(Header { element, big_endian, fortran, dims, start: start as u64 })
}

/// Returns the type of the elements in a `.npy` file, whatever the rest of its header contains.
pub(crate) fn element(file: &File, path: &Path) -> Result<ElementType> {
    let (Dictionary { descr, .. }, _) = head(file, path)?;
    let known = ElementType::REAL.into_iter().find(|element| element.descr() == descr);
    known.ok_or_else(|| Error::UnknownDtype { path: path.to_owned(), found: descr })
}

/// Returns the shape of the matrix of `T` in a `.npy` file and the offset of its data, after
/// checking that the length of the file matches.
///
/// # Errors
/// A separate error for each defect: not a `.npy` file, dtype, order, dimensions, no elements,
/// length, alignment.
pub(crate) fn open<T: Element>(file: &File, path: &Path) -> Result<(Shape, u64)> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let size = file.metadata().map_err(failed)?.len();
    let (Dictionary { descr, fortran, dims }, start) = head(file, path)?;
    if descr != T::DESCR {
        return Err(Error::Dtype { path: path.to_owned(), found: descr, asked: T::TYPE });
    }
    let &[rows, cols] = dims.as_slice() else {
        return Err(Error::NotTwoDimensions { path: path.to_owned(), dims });
    };
    if fortran {
        return Err(Error::FortranOrder { path: path.to_owned() });
    }
    let shape = Shape::new(
        usize::try_from(rows).unwrap_or(usize::MAX),
        usize::try_from(cols).unwrap_or(usize::MAX),
    );
    let start = start as u64;
    let impossible = |source| Error::Shape { path: path.to_owned(), source: Box::new(source) };
    let expected = start + (Layout::RowMajor.stored(shape).map_err(impossible)? * T::BYTES) as u64;
    if size != expected {
        return Err(Error::Length {
            path: path.to_owned(),
            what: format!("a .npy matrix of {shape}"),
            expected,
            actual: size,
        });
    }
    if !start.is_multiple_of(T::BYTES as u64) {
        return Err(Error::Unaligned { path: path.to_owned(), offset: start, element: T::TYPE });
    }
    Ok((shape, start))
}

/// Parses the dictionary at the head of a file, and returns it with the offset behind it, or the
/// reason of the failure.
fn parse(head: &[u8]) -> Result<(Dictionary, usize), String> {
    let rest = head.strip_prefix(MAGIC).ok_or("it does not start with \\x93NUMPY")?;
    let (length, start) = match *rest {
        [1, 0, a, b, ..] => (usize::from(u16::from_le_bytes([a, b])), 10),
        [2 | 3, 0, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 12),
        [1..=3, 0, ..] => return Err("it ends within its header".to_owned()),
        [major, minor, ..] => return Err(format!("format version {major}.{minor} is unknown")),
        _ => return Err("it ends within its header".to_owned()),
    };
    if length > LONGEST {
        return Err(format!("its header has {length} bytes, more than {LONGEST}"));
    }
    let text = head.get(start..start + length).ok_or("it ends within its header")?;
    let text = std::str::from_utf8(text).map_err(|_| "its header is not text")?;
    let dictionary = Parser { rest: text }.dictionary();
    Ok((dictionary.ok_or_else(|| format!("its header is {:?}", text.trim_end()))?, start + length))
}

/// A parser of exactly the syntax of `.npy` headers; its methods return `None` for other input.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn dictionary(mut self) -> Option<Dictionary> {
        let (mut descr, mut fortran, mut dims) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            match self.string()? {
                "descr" if descr.is_none() => descr = Some(self.key()?.descr()?),
                "fortran_order" if fortran.is_none() => fortran = Some(self.key()?.boolean()?),
                "shape" if dims.is_none() => dims = Some(self.key()?.tuple()?),
                _ => return None,
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        let end = self.rest.trim_start().is_empty();
        end.then_some(Dictionary { descr: descr?, fortran: fortran?, dims: dims? })
    }

    /// Parses the colon behind a key.
    fn key(&mut self) -> Option<&mut Self> {
        self.expect(':')?;
        Some(self)
    }

    fn accept(&mut self, symbol: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) -> Option<()> {
        self.accept(symbol).then_some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let quote = ['\'', '"'].into_iter().find(|&quote| self.accept(quote))?;
        let (string, rest) = self.rest.split_once(quote)?;
        self.rest = rest;
        (!string.contains('\\')).then_some(string)
    }

    /// Parses a type string, or the text of a structured type, which the error will name.
    fn descr(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        if !self.rest.starts_with(['[', '(']) {
            return self.string().map(str::to_owned);
        }
        let mut depth = 0_usize;
        for (at, symbol) in self.rest.char_indices() {
            match symbol {
                '[' | '(' => depth += 1,
                ']' | ')' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                let (text, rest) = self.rest.split_at(at + 1);
                self.rest = rest;
                return Some(text.to_owned());
            }
        }
        None
    }

    fn boolean(&mut self) -> Option<bool> {
        self.rest = self.rest.trim_start();
        let (value, rest) = match self.rest.strip_prefix("True") {
            Some(rest) => (true, rest),
            None => (false, self.rest.strip_prefix("False")?),
        };
        self.rest = rest;
        Some(value)
    }

    /// Parses a tuple such as `()`, `(3,)` or `(3, 4)`, with the `L` suffix of old Pythons.
    fn tuple(&mut self) -> Option<Vec<u64>> {
        let mut dims = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            self.rest = self.rest.trim_start();
            let digits = self.rest.find(|symbol: char| !symbol.is_ascii_digit())?;
            let (number, rest) = self.rest.split_at(digits);
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            dims.push(number.parse().ok()?);
            if !self.accept(',') {
                self.expect(')')?;
                // Without a comma a lone number in brackets is not a tuple.
                return (dims.len() > 1).then_some(dims);
            }
        }
        Some(dims)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    fn text(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((text.len() as u16).to_le_bytes()),
            _ => bytes.extend((text.len() as u32).to_le_bytes()),
        }
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn headers_of_all_versions_are_read() {
        let accepted = [
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }      \n",
            "{'descr':'<f8','fortran_order':False,'shape':(3,4)}",
            "{\"shape\": (3L, 4L,), \"descr\": \"<f8\", \"fortran_order\": False}\n",
        ];
        for version in 1..=3 {
            for header in accepted {
                let bytes = text(version, header);
                let wanted =
                    Dictionary { descr: "<f8".to_owned(), fortran: false, dims: vec![3, 4] };
                assert_eq!(parse(&bytes), Ok((wanted, bytes.len())), "{header}");
            }
        }
    }

    #[test]
    fn other_headers_are_refused() {
        let refused = [
            "",
            "{}",
            "{'descr': '<f8', 'fortran_order': False}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, -4)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 99999999999999999999)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), 'x': 1}",
            "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)} ()",
            "{'descr': [[[[, 'fortran_order': False, 'shape': (3, 4)}",
        ];
        for header in refused {
            assert!(parse(&text(1, header)).is_err(), "{header}");
        }
        assert!(parse(&text(4, "{}")).is_err_and(|why| why.contains("version 4.0")));
        assert!(
            parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff")
                .is_err_and(|why| why.contains("4294967295"))
        );
        assert!(parse(b"\x93NUMPY\x01").is_err_and(|why| why.contains("ends within")));
    }

    #[test]
    fn structured_types_are_named() {
        let structured = text(
            1,
            "{'descr': [('x', '<f4', (2,)), ('y', '<i2')], 'fortran_order': True, 'shape': ()}",
        );
        let found = parse(&structured).map(|(dictionary, _)| dictionary.descr);
        assert_eq!(found.as_deref(), Ok("[('x', '<f4', (2,)), ('y', '<i2')]"));
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn a_written_header_is_read_back(rows in 1_usize.., cols in 1_usize..) {
            for element in ElementType::ALL {
                let bytes = header(element, &[rows, cols]);
                prop_assert!(bytes.len().is_multiple_of(64));
                let dims = vec![rows as u64, cols as u64];
                let wanted = Dictionary { descr: element.descr().to_owned(), fortran: false, dims };
                prop_assert_eq!(parse(&bytes), Ok((wanted, bytes.len())));
            }
        }

        #[test]
        fn any_bytes_are_taken_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_text_is_taken_without_panic(
            header in "[\\[\\](){},:'\"a-zT<8 0-9\\\\é]{0,200}",
            version in 1_u8..4,
        ) {
            let _ = parse(&text(version, &header));
            let _ = parse(&text(version, &format!("{{'descr': {header}")));
            let _ = parse(&text(version, &format!("{{'shape': ({header}")));
        }
    }
}

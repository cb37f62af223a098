//! The points of results to look at when a change is not finite.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use syncline_store::ElementType;
use syncline_store::array::{ArraySource, Half};

/// The bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Returns what a change that is not finite says of its iteration, and how many points of the
/// results are such, with the first of them. Results that are no `.npy` files of real numbers are
/// left out.
pub(super) fn not_finite<'p>(change: f64, results: impl Iterator<Item = &'p Path>) -> String {
    let (mut text, kind) = match change.is_nan() {
        true => ("a point became NaN, or ceased to be NaN".to_owned(), "NaN"),
        false => ("a point became infinite, or finite".to_owned(), "infinite"),
    };
    for path in results {
        let Some((count, first)) = count(path, change.is_nan()) else { continue };
        // Writing to a string cannot fail.
        let _ = write!(text, "; {count} points of {} are {kind}", path.display());
        if let Some(first) = first {
            let _ = write!(text, ", the first at {first:?}");
        }
    }
    text
}

/// Returns the number of points that are NaN, or infinite, and the first of them.
fn count(path: &Path, nan: bool) -> Option<(u64, Option<Vec<usize>>)> {
    let Ok(ArraySource::File(file)) = ArraySource::open(path) else { return None };
    let (element, (_, start)) = (file.element(), file.direct());
    let is_such = |number: f64| if nan { number.is_nan() } else { number.is_infinite() };
    let is_such = |bytes: &[u8]| match element {
        ElementType::Float64 => bytes.try_into().is_ok_and(|b| is_such(f64::from_le_bytes(b))),
        ElementType::Float16 => {
            bytes.try_into().is_ok_and(|b| is_such(Half(u16::from_le_bytes(b)).to_f64()))
        }
        _ => bytes.try_into().is_ok_and(|b| is_such(f32::from_le_bytes(b).into())),
    };
    if !element.is_real() {
        return None;
    }
    let (dims, bytes) = (file.dims().to_vec(), element.bytes());
    let (all, file) = (dims.iter().product::<usize>() * bytes, File::open(path).ok()?);
    let (mut found, mut first, mut piece) = (0, None, vec![0; PIECE.min(all)]);
    for begin in (0..all).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(all - begin)];
        file.read_exact_at(piece, start + begin as u64).ok()?;
        for (n, _) in piece.chunks_exact(bytes).enumerate().filter(|(_, value)| is_such(value)) {
            found += 1;
            first = first.or(Some(begin / bytes + n));
        }
    }
    let place = |mut at: usize| {
        let mut place: Vec<usize> = Vec::new();
        for n in dims.iter().rev() {
            place.insert(0, at % n);
            at /= n;
        }
        place
    };
    Some((found, first.map(place)))
}

//! Valid and invalid `.npy` files and data directories.

use std::collections::BTreeMap;
use std::path::Path;

use syncline_store::{
    Block, DataDir, Element, ElementType, Error, Layout, Matrix, Shape, dir::write_layout_json,
};

use crate::common::{Sample, bits, file_bytes, read, values, write};

type Tested = Result<(), Box<dyn std::error::Error>>;

fn npy<T: Element>(version: u8, header: &str, data: &[T]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let length = header.len() as u32;
    bytes.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    bytes.extend(header.as_bytes());
    bytes.extend(data.iter().flat_map(|&value| file_bytes(value)));
    bytes
}

fn open<T: Element>(folder: &Path, bytes: &[u8]) -> Result<Matrix<T>, Error> {
    let path = folder.join("matrix.npy");
    std::fs::write(&path, bytes).expect("the folder is writable");
    Matrix::open(&path)
}

fn check_versions<T: Sample>() -> Tested {
    let folder = tempfile::tempdir()?;
    let shape = Shape::new(2, 3);
    for version in 1..=3 {
        for pad in 0..8 {
            let text =
                format!("{{'descr': '{}', 'fortran_order': False, 'shape': (2, 3), }}", T::DESCR);
            let bytes = npy::<T>(version, &format!("{text}{:pad$}\n", ""), &values(shape));
            let start = bytes.len() - 6 * T::BYTES;
            match open::<T>(folder.path(), &bytes) {
                Ok(matrix) => {
                    assert_eq!(start % T::BYTES, 0);
                    assert_eq!(bits(&read(&matrix)?), bits(&values::<T>(shape)));
                    let file = matrix.row_major_file().ok_or("it is on file")?;
                    assert_eq!(
                        (file.path, file.start),
                        (folder.path().join("matrix.npy"), start as u64)
                    );
                }
                Err(Error::Unaligned { offset, element, .. }) => {
                    assert_eq!((offset, element), (start as u64, T::TYPE));
                    assert_ne!(start % T::BYTES, 0);
                }
                Err(other) => return Err(other.into()),
            }
        }
    }
    Ok(())
}

#[test]
fn npy_files_of_all_versions_are_opened() -> Tested {
    check_versions::<f64>()?;
    check_versions::<f32>()
}

fn check_written<T: Element>() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("matrix.npy");
    let half = T::from_f64(0.5);
    write(&path, true, Shape::new(2, 3), Layout::RowMajor, &[half; 6])?;
    let mut wanted = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': (2, 3), }}", T::DESCR);
    wanted.extend(format!("{text:117}\n").as_bytes());
    wanted.extend(std::iter::repeat_n(file_bytes(half), 6).flatten());
    assert_eq!(std::fs::read(&path)?, wanted);
    Ok(())
}

#[test]
fn what_numpy_writes_is_what_we_write() -> Tested {
    check_written::<f64>()?;
    check_written::<f32>()
}

/// Opening a file as the wrong type is an error that names its actual type.
fn check_dtype<T: Element, U: Element>() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("matrix.npy");
    let shape = Shape::new(2, 3);
    write(&path, true, shape, Layout::RowMajor, &[T::default(); 6])?;
    write(&folder.path().join("raw"), false, shape, Layout::RowMajor, &[T::default(); 6])?;
    assert_eq!(ElementType::of_npy(&path)?, T::TYPE);
    let by_npy = DataDir::open(folder.path())?;
    write_layout_json(
        folder.path(),
        shape,
        &[("raw".to_owned(), (Layout::RowMajor, T::TYPE))].into(),
    )?;
    let by_json = DataDir::open(folder.path())?;
    for (dir, name) in [(by_npy, "matrix"), (by_json, "raw")] {
        assert_eq!(dir.element(name)?, T::TYPE);
        assert_eq!(dir.matrix::<T>(name)?.shape(), shape);
        let error = dir.matrix::<U>(name).map(|_| ()).unwrap_err();
        assert!(
            matches!(&error, Error::Dtype { found, asked, .. } if found == T::DESCR && *asked == U::TYPE)
        );
        let wanted = format!(
            "{} holds elements of type {}, not '{}' ({})",
            dir.file(name).display(),
            T::DESCR,
            U::DESCR,
            U::NAME
        );
        assert_eq!(error.to_string(), wanted);
    }
    let error =
        Matrix::<U>::open_raw(&folder.path().join("raw"), shape, Layout::RowMajor).map(|_| ());
    assert!(matches!(error, Err(Error::Length { .. })));
    Ok(())
}

#[test]
fn a_file_of_the_other_type_is_refused() -> Tested {
    check_dtype::<f64, f32>()?;
    check_dtype::<f32, f64>()
}

#[test]
fn bad_npy_files_are_refused_with_their_reason() -> Tested {
    let folder = tempfile::tempdir()?;
    let header = |descr: &str, order: &str, shape: &str| {
        let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
        format!("{text:117}\n")
    };
    let data = [1.0; 6];
    let cases = [
        (
            npy(1, &header("'<f4'", "False", "(2, 3)"), &data),
            "elements of type <f4, not '<f8' (float64)",
        ),
        (npy(1, &header("'>f8'", "False", "(2, 3)"), &data), "elements of type >f8"),
        (
            npy(1, &header("[('x', '<f8')]", "False", "(6,)"), &data),
            "elements of type [('x', '<f8')]",
        ),
        (npy(1, &header("'<f8'", "True", "(2, 3)"), &data), "Fortran"),
        (npy(1, &header("'<f8'", "False", "(6,)"), &data), "1 dimension(s) [6], not 2"),
        (npy(1, &header("'<f8'", "False", "()"), &data), "0 dimension(s)"),
        (npy(1, &header("'<f8'", "False", "(1, 2, 3)"), &data), "3 dimension(s) [1, 2, 3]"),
        (npy(1, &header("'<f8'", "False", "(0, 3)"), &data[..0]), "0 x 3 has no elements"),
        (npy(1, &header("'<f8'", "False", "(4294967296, 4294967296)"), &data), "is too large"),
        (
            npy(1, &header("'<f8'", "False", "(2, 3)"), &data[1..]),
            "has 168 bytes, but a .npy matrix of 2 x 3 takes 176",
        ),
        (
            npy(1, &header("'<f8'", "False", "(2, 2)"), &data),
            "has 176 bytes, but a .npy matrix of 2 x 2 takes 160",
        ),
        (npy(1, &header("'<f8'", "False", "(4294967296, 4294967296)"), &data), "too large"),
        (npy(1, "{'descr': '<f8'}", &data), "is not a .npy file: its header is"),
        (b"some text".to_vec(), "is not a .npy file: it does not start"),
        (Vec::new(), "is not a .npy file"),
    ];
    for (bytes, reason) in cases {
        let error = open::<f64>(folder.path(), &bytes).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} / {reason}");
        assert!(!error.contains('\n') && error.contains("matrix.npy"), "{error}");
    }
    std::fs::write(
        folder.path().join("matrix.npy"),
        npy(1, &header("'<i4'", "True", "(6,)"), &data),
    )?;
    let error = ElementType::of_npy(&folder.path().join("matrix.npy"));
    assert!(matches!(error, Err(Error::UnknownDtype { found, .. }) if found == "<i4"));
    let missing = Matrix::<f64>::open(&folder.path().join("none.npy"));
    assert!(matches!(missing, Err(Error::File { action: "open", .. })));
    assert!(Matrix::<f64>::open(folder.path()).is_err());
    Ok(())
}

#[test]
fn a_raw_directory_is_read_as_written() -> Tested {
    let folder = tempfile::tempdir()?;
    let (shape, block) = (Shape::new(20, 30), Block::new(8, 8));
    let framed = Layout::Framed { block, thickness: 2 };
    let (double, single) = (ElementType::Float64, ElementType::Float32);
    let entries = [
        ("za", (framed, double)),
        ("zb", (framed.without_frame(), double)),
        ("zr", (Layout::RowMajor, double)),
        ("zu", (framed, single)),
        ("zv", (Layout::RowMajor, single)),
    ];
    // All arrays of one type, of both types with either type first, and all of the other type.
    for range in [0..3, 0..5, 2..5, 3..5] {
        let entries = &entries[range];
        let all: BTreeMap<_, _> =
            entries.iter().map(|&(name, entry)| (name.to_owned(), entry)).collect();
        write_layout_json(folder.path(), shape, &all)?;
        let dir = DataDir::open(folder.path())?;
        assert!(dir.is_raw());
        assert_eq!(dir.names(), entries.iter().map(|&(name, _)| name).collect::<Vec<_>>());
        for &(name, (layout, element)) in entries {
            assert_eq!(dir.element(name)?, element);
            match element {
                ElementType::Float64 => check_entry::<f64>(&dir, name, shape, layout)?,
                ElementType::Float32 => check_entry::<f32>(&dir, name, shape, layout)?,
                other => panic!("no matrix is of {other}"),
            }
        }
        let names = dir.names().join(", ");
        for error in [dir.matrix::<f64>("zz").map(|_| ()), dir.element("zz").map(|_| ())] {
            let error = error.unwrap_err().to_string();
            assert!(error.ends_with(&format!("has no matrix zz; it has {names}")), "{error}");
        }
    }
    Ok(())
}

fn check_entry<T: Sample>(dir: &DataDir, name: &str, shape: Shape, layout: Layout) -> Tested {
    write::<T>(&dir.file(name), false, shape, layout, &values(shape))?;
    let matrix = dir.matrix::<T>(name)?;
    assert_eq!(matrix.layout(), layout);
    assert_eq!(bits(&read(&matrix)?), bits(&values::<T>(shape)));
    Ok(())
}

#[test]
fn a_description_without_types_is_of_doubles() -> Tested {
    let folder = tempfile::tempdir()?;
    let text = r#"{"version": 1, "rows": 2, "cols": 3, "arrays": {
        "za": {"layout": "row-major"}, "zb": {"layout": "row-major", "dtype": "float32"}}}"#;
    std::fs::write(folder.path().join("layout.json"), text)?;
    let dir = DataDir::open(folder.path())?;
    assert_eq!(
        (dir.element("za")?, dir.element("zb")?),
        (ElementType::Float64, ElementType::Float32)
    );
    Ok(())
}

#[test]
fn a_directory_of_npy_files_is_read() -> Tested {
    let folder = tempfile::tempdir()?;
    let shape = Shape::new(2, 3);
    for name in ["zb.npy", "za.npy"] {
        write(&folder.path().join(name), true, shape, Layout::RowMajor, &values::<f64>(shape))?;
    }
    std::fs::write(folder.path().join("notes.txt"), "")?;
    let dir = DataDir::open(folder.path())?;
    assert_eq!((dir.is_raw(), dir.names()), (false, &["za".to_owned(), "zb".to_owned()][..]));
    assert_eq!(bits(&read(&dir.matrix::<f64>("zb")?)?), bits(&values::<f64>(shape)));
    assert!(matches!(dir.matrix::<f64>("../za"), Err(Error::NoMatrix { .. })));
    Ok(())
}

#[test]
fn bad_directories_are_refused_with_their_reason() -> Tested {
    let folder = tempfile::tempdir()?;
    assert!(matches!(DataDir::open(folder.path()), Err(Error::Directory { .. })));
    assert!(matches!(DataDir::open(&folder.path().join("none")), Err(Error::File { .. })));
    let head = r#"{"version": 1, "dtype": "<f8", "rows": 2, "cols": 3, "arrays": "#;
    let cases = [
        ("{".to_owned(), "EOF"),
        (
            format!("{head}{{}}}}").replace("\"version\": 1", "\"version\": 2"),
            "version 2 is unknown",
        ),
        (format!("{head}{{}}}}").replace("<f8", "<i4"), "dtype: \"<i4\" is not a type of elements"),
        (
            format!("{head}{{\"za\": {{\"layout\": \"row-major\", \"dtype\": \"f\"}}}}}}"),
            "dtype: \"f\" is not a type of elements",
        ),
        (
            format!("{head}{{\"za\": {{\"layout\": \"row-major\", \"block\": [1, 1]}}}}}}"),
            "neither block",
        ),
        (format!("{head}{{}}}}"), "no .npy file"),
        (
            format!("{head}{{\"../za\": {{\"layout\": \"row-major\"}}}}}}"),
            "not a valid name for a matrix",
        ),
        (format!("{head}{{\"za\": {{\"layout\": \"spiral\"}}}}}}"), "spiral"),
        (
            format!("{head}{{\"za\": {{\"layout\": \"blocked\", \"block\": [0, 1]}}}}}}"),
            "za: layout blocked 0 x 1 has a zero",
        ),
        (format!("{head}{{\"za\": {{\"layout\": \"blocked\"}}}}}}"), "block"),
    ];
    for (text, reason) in cases {
        std::fs::write(folder.path().join("layout.json"), text)?;
        let error = DataDir::open(folder.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} / {reason}");
        let named = folder.path().to_string_lossy();
        assert!(error.contains(&*named), "{error} / {named}");
    }
    Ok(())
}

//! `.npy` files and data directories, good and bad.

use std::collections::BTreeMap;
use std::path::Path;

use syncline_store::{Block, DataDir, Error, Layout, Matrix, Shape, write_layout_json};

use crate::common::{bits, read, values, write};

type Tested = Result<(), Box<dyn std::error::Error>>;

fn npy(version: u8, header: &str, data: &[f64]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let length = header.len() as u32;
    bytes.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    bytes.extend(header.as_bytes());
    bytes.extend(data.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

fn open(folder: &Path, bytes: &[u8]) -> Result<Matrix, Error> {
    let path = folder.join("matrix.npy");
    std::fs::write(&path, bytes).expect("the folder is writable");
    Matrix::open(&path)
}

#[test]
fn npy_files_of_all_versions_are_opened() -> Tested {
    let folder = tempfile::tempdir()?;
    let shape = Shape::new(2, 3);
    for version in 1..=3 {
        for pad in 0..8 {
            let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
            let bytes = npy(version, &format!("{text}{:pad$}\n", ""), &values(shape));
            let start = bytes.len() - 48;
            match open(folder.path(), &bytes) {
                Ok(matrix) => {
                    assert_eq!(start % 8, 0);
                    assert_eq!(bits(&read(&matrix)?), bits(&values(shape)));
                }
                Err(Error::Unaligned { offset, .. }) => assert_eq!(offset, start as u64),
                Err(other) => return Err(other.into()),
            }
        }
    }
    Ok(())
}

#[test]
fn what_numpy_writes_is_what_we_write() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("matrix.npy");
    write(&path, true, Shape::new(2, 3), Layout::RowMajor, &[0.5; 6])?;
    let mut wanted = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
    wanted.extend(format!("{text:117}\n").as_bytes());
    wanted.extend(std::iter::repeat_n(0.5_f64.to_le_bytes(), 6).flatten());
    assert_eq!(std::fs::read(&path)?, wanted);
    Ok(())
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
        (npy(1, &header("'<f4'", "False", "(2, 3)"), &data), "elements of type <f4, not '<f8'"),
        (npy(1, &header("'>f8'", "False", "(2, 3)"), &data), "elements of type >f8"),
        (npy(1, &header("[('x', '<f8')]", "False", "(6,)"), &data), "elements of type [('x', '<f8')]"),
        (npy(1, &header("'<f8'", "True", "(2, 3)"), &data), "Fortran"),
        (npy(1, &header("'<f8'", "False", "(6,)"), &data), "1 dimension(s) [6], not 2"),
        (npy(1, &header("'<f8'", "False", "()"), &data), "0 dimension(s)"),
        (npy(1, &header("'<f8'", "False", "(1, 2, 3)"), &data), "3 dimension(s) [1, 2, 3]"),
        (npy(1, &header("'<f8'", "False", "(0, 3)"), &[]), "0 x 3 has no elements"),
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
        let error = open(folder.path(), &bytes).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} / {reason}");
        assert!(
            !error.contains('\n') && (error.contains("matrix.npy") || error.contains("matrix of")),
            "{error}"
        );
    }
    let missing = Matrix::open(&folder.path().join("none.npy"));
    assert!(matches!(missing, Err(Error::File { action: "open", .. })));
    assert!(Matrix::open(folder.path()).is_err());
    Ok(())
}

#[test]
fn a_raw_directory_is_read_as_written() -> Tested {
    let folder = tempfile::tempdir()?;
    let (shape, block) = (Shape::new(20, 30), Block::new(8, 8));
    let framed = Layout::Framed { block, thickness: 2 };
    let layouts: BTreeMap<String, Layout> =
        [("za", framed), ("zb", framed.without_frame()), ("zr", Layout::RowMajor)]
            .map(|(name, layout)| (name.to_owned(), layout))
            .into();
    for (name, layout) in &layouts {
        write(&folder.path().join(name), false, shape, *layout, &values(shape))?;
    }
    write_layout_json(folder.path(), shape, &layouts)?;
    let dir = DataDir::open(folder.path())?;
    assert!(dir.is_raw());
    assert_eq!(dir.names(), ["za", "zb", "zr"]);
    for (name, layout) in &layouts {
        let matrix = dir.matrix(name)?;
        assert_eq!(matrix.layout(), *layout);
        assert_eq!(bits(&read(&matrix)?), bits(&values(shape)));
    }
    let error = dir.matrix("zu").map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("has no matrix zu; it has za, zb, zr"), "{error}");
    Ok(())
}

#[test]
fn a_directory_of_npy_files_is_read() -> Tested {
    let folder = tempfile::tempdir()?;
    let shape = Shape::new(2, 3);
    for name in ["zb.npy", "za.npy"] {
        write(&folder.path().join(name), true, shape, Layout::RowMajor, &values(shape))?;
    }
    std::fs::write(folder.path().join("notes.txt"), "")?;
    let dir = DataDir::open(folder.path())?;
    assert_eq!((dir.is_raw(), dir.names()), (false, &["za".to_owned(), "zb".to_owned()][..]));
    assert_eq!(bits(&read(&dir.matrix("zb")?)?), bits(&values(shape)));
    assert!(matches!(dir.matrix("../za"), Err(Error::NoMatrix { .. })));
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
        (format!("{head}{{}}}}").replace("\"version\": 1", "\"version\": 2"), "version 2 is unknown"),
        (format!("{head}{{}}}}").replace("<f8", "<f4"), "dtype \"<f4\""),
        (format!("{head}{{}}}}"), "no .npy file"),
        (format!("{head}{{\"../za\": {{\"layout\": \"row-major\"}}}}}}"), "no name for a matrix"),
        (format!("{head}{{\"za\": {{\"layout\": \"spiral\"}}}}}}"), "spiral"),
        (format!("{head}{{\"za\": {{\"layout\": \"blocked\", \"block\": [0, 1]}}}}}}"), "has a zero"),
        (format!("{head}{{\"za\": {{\"layout\": \"blocked\"}}}}}}"), "block"),
    ];
    for (text, reason) in cases {
        std::fs::write(folder.path().join("layout.json"), text)?;
        let error = DataDir::open(folder.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} / {reason}");
    }
    Ok(())
}

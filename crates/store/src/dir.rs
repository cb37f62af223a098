//! Data directories: the matrices of one computation.
//!
//! | directory | files                | shape, layout      |
//! |-----------|----------------------|--------------------|
//! | `.npy`    | `NAME.npy`           | in each header     |
//! | raw       | `NAME`, `layout.json`| in `layout.json`   |
//!
//! ```json
//! { "version": 1, "dtype": "<f8", "rows": 16384, "cols": 16384,
//!   "arrays": { "za": { "layout": "framed", "block": [2048, 2048], "thickness": 1 },
//!               "zb": { "layout": "blocked", "block": [2048, 2048] },
//!               "zr": { "layout": "row-major" } } }
//! ```
//!
//! A directory with a `layout.json` is raw, whatever else is in it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Block, Error, Layout, Matrix, NewFile, Result, Shape};

const FILE: &str = "layout.json";
const VERSION: u32 = 1;
const DTYPE: &str = "<f8";
/// No directory has so many matrices that its description is longer.
const LONGEST: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    version: u32,
    dtype: String,
    rows: usize,
    cols: usize,
    arrays: BTreeMap<String, Array>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "layout", rename_all = "kebab-case", deny_unknown_fields)]
enum Array {
    RowMajor {},
    Blocked { block: [usize; 2] },
    Framed { block: [usize; 2], thickness: usize },
}

impl From<Layout> for Array {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::RowMajor => Self::RowMajor {},
            Layout::Blocked(block) => Self::Blocked { block: [block.rows, block.cols] },
            Layout::Framed { block, thickness } => {
                Self::Framed { block: [block.rows, block.cols], thickness }
            }
        }
    }
}

impl From<&Array> for Layout {
    fn from(array: &Array) -> Self {
        match *array {
            Array::RowMajor {} => Self::RowMajor,
            Array::Blocked { block: [rows, cols] } => Self::Blocked(Block::new(rows, cols)),
            Array::Framed { block: [rows, cols], thickness } => {
                Self::Framed { block: Block::new(rows, cols), thickness }
            }
        }
    }
}

/// A directory of matrices.
///
/// ```
/// use syncline_store::{DataDir, Layout, Matrix, NewFile, Shape};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path();
/// let shape = Shape::new(3, 3);
/// let new = NewFile::create(&path.join("za.npy"), Matrix::file_bytes(true, shape, Layout::RowMajor)?)?;
/// Matrix::create(&new, true, shape, Layout::RowMajor)?;
/// new.commit()?;
/// let dir = DataDir::open(path)?;
/// assert_eq!(dir.names(), ["za"]);
/// assert_eq!(dir.matrix("za")?.shape(), shape);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    names: Vec<String>,
    /// Shape and layouts of a raw directory.
    raw: Option<(Shape, BTreeMap<String, Layout>)>,
}

impl DataDir {
    /// Looks into the directory; its matrices are opened one by one.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::Directory`] when it has neither a `layout.json` nor a
    /// `.npy` file or its `layout.json` makes no sense.
    pub fn open(path: &Path) -> Result<Self> {
        let (names, raw) = match read_description(&path.join(FILE))? {
            Some((shape, arrays)) => (arrays.keys().cloned().collect(), Some((shape, arrays))),
            None => (npy_names(path)?, None),
        };
        if names.is_empty() {
            let why = format!("there is no .npy file and no {FILE} with matrices");
            return Err(Error::Directory { path: path.to_owned(), why });
        }
        Ok(Self { path: path.to_owned(), names, raw })
    }

    /// The matrices' names, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the matrices are raw files with a `layout.json`, rather than `.npy`.
    pub const fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the matrix `name`, whether there is one or not.
    pub fn file(&self, name: &str) -> PathBuf {
        match self.is_raw() {
            true => self.path.join(name),
            false => self.path.join(format!("{name}.npy")),
        }
    }

    /// Opens a matrix for reading.
    ///
    /// # Errors
    /// [`Error::NoMatrix`], and as [`Matrix::open`] or [`Matrix::open_raw`].
    pub fn matrix(&self, name: &str) -> Result<Matrix> {
        if !self.names.iter().any(|own| own == name) {
            let (path, name, names) = (self.path.clone(), name.to_owned(), self.names.clone());
            return Err(Error::NoMatrix { path, name, names });
        }
        match self.raw.as_ref().and_then(|(shape, arrays)| Some((*shape, *arrays.get(name)?))) {
            Some((shape, layout)) => Matrix::open_raw(&self.file(name), shape, layout),
            None => Matrix::open(&self.file(name)),
        }
    }
}

/// Writes the `layout.json` of a directory of raw matrices of one shape, at once or not at all.
///
/// # Errors
/// [`Error::File`] and [`Error::NoSpace`] when it cannot be written, [`Error::Directory`] for a name that is
/// no file name.
///
/// ```
/// use syncline_store::{DataDir, Layout, Shape, write_layout_json};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path();
/// std::fs::write(path.join("za"), 0.5_f64.to_le_bytes())?;
/// write_layout_json(path, Shape::new(1, 1), &[("za".to_owned(), Layout::RowMajor)].into())?;
/// assert!(DataDir::open(path)?.is_raw());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_layout_json(dir: &Path, shape: Shape, arrays: &BTreeMap<String, Layout>) -> Result<()> {
    let path = dir.join(FILE);
    for (name, layout) in arrays {
        check(&path, name, shape, *layout)?;
    }
    let description = Description {
        version: VERSION,
        dtype: DTYPE.to_owned(),
        rows: shape.rows,
        cols: shape.cols,
        arrays: arrays.iter().map(|(name, layout)| (name.clone(), Array::from(*layout))).collect(),
    };
    let failed = |source| Error::File { action: "write", path: path.clone(), source };
    let mut text = serde_json::to_vec_pretty(&description).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    let new = NewFile::create(&path, text.len() as u64)?;
    new.file().write_all_at(&text, 0).map_err(failed)?;
    new.commit()
}

/// A name of a plain file in the directory, and a layout that the shape can have.
fn check(path: &Path, name: &str, shape: Shape, layout: Layout) -> Result<()> {
    let odd = name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) || name == FILE;
    if odd {
        let why = format!("{name:?} is no name for a matrix");
        return Err(Error::Directory { path: path.to_owned(), why });
    }
    layout.stored(shape).map(drop)
}

type Arrays = BTreeMap<String, Layout>;

fn read_description(path: &Path) -> Result<Option<(Shape, Arrays)>> {
    let wrong = |why: String| Error::Directory { path: path.to_owned(), why };
    let failed = |action, source| Error::File { action, path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|source| failed("open", source))?,
    };
    let mut text = String::new();
    let read = io::Read::read_to_string(&mut io::Read::take(file, LONGEST), &mut text);
    read.map_err(|source| failed("read", source))?;
    let description: Description = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if description.version != VERSION {
        return Err(wrong(format!("version {} is unknown, not {VERSION}", description.version)));
    }
    if description.dtype != DTYPE {
        return Err(wrong(format!("dtype {:?} is not {DTYPE:?}", description.dtype)));
    }
    let shape = Shape::new(description.rows, description.cols);
    let arrays: Arrays =
        description.arrays.iter().map(|(name, array)| (name.clone(), array.into())).collect();
    for (name, layout) in &arrays {
        check(path, name, shape, *layout)?;
    }
    Ok(Some((shape, arrays)))
}

fn npy_names(path: &Path) -> Result<Vec<String>> {
    let failed = |source| Error::File { action: "open", path: path.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".npy"));
        names.extend(name.filter(|name| !name.starts_with('.')).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

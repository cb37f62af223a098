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
//!               "zr": { "layout": "row-major", "dtype": "<f4" } } }
//! ```
//!
//! `dtype` is the type of all elements, `<f8` (or `float64`) or `<f4` (or `float32`); it defaults
//! to float64. An array of another type has its own `dtype`.
//!
//! A directory with a `layout.json` is raw, whatever other files it contains; but a matrix that it
//! lists must not also exist as a `.npy` file.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::chunk::read_text;
use crate::{Block, Element, ElementType, Error, Layout, Matrix, NewFile, Result, Shape};

const FILE: &str = "layout.json";
const VERSION: u32 = 1;
/// The maximal length in bytes of a description, more than any practical directory needs.
const LONGEST: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    rows: usize,
    cols: usize,
    arrays: BTreeMap<String, Array>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Array {
    layout: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block: Option<[usize; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thickness: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    RowMajor,
    Blocked,
    Framed,
}

impl Array {
    fn new(layout: Layout, dtype: Option<ElementType>) -> Self {
        let block = layout.block().map(|block| [block.rows, block.cols]);
        let (kind, thickness) = match layout {
            Layout::RowMajor => (Kind::RowMajor, None),
            Layout::Blocked(_) => (Kind::Blocked, None),
            Layout::Framed { thickness, .. } => (Kind::Framed, Some(thickness)),
        };
        Self {
            layout: kind,
            block,
            thickness,
            dtype: dtype.map(|element| element.descr().to_owned()),
        }
    }

    /// Returns the layout, or an error that names the missing or superfluous member.
    fn layout(&self) -> Result<Layout, &'static str> {
        let block = self.block.map(|[rows, cols]| Block::new(rows, cols));
        match (self.layout, block, self.thickness) {
            (Kind::RowMajor, None, None) => Ok(Layout::RowMajor),
            (Kind::Blocked, Some(block), None) => Ok(Layout::Blocked(block)),
            (Kind::Framed, Some(block), Some(thickness)) => Ok(Layout::Framed { block, thickness }),
            (Kind::RowMajor, ..) => Err("row-major takes neither block nor thickness"),
            (Kind::Blocked, ..) => Err("blocked takes a block and no thickness"),
            (Kind::Framed, ..) => Err("framed takes a block and a thickness"),
        }
    }
}

/// A directory of matrices.
///
/// ```
/// use syncline_store::{DataDir, ElementType, Layout, Matrix, NewFile, Shape};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path();
/// let shape = Shape::new(3, 3);
/// let new = NewFile::create(
///     &path.join("za.npy"),
///     Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor)?
/// )?;
/// Matrix::<f64>::create(&new, true, shape, Layout::RowMajor)?;
/// new.commit()?;
/// let dir = DataDir::open(path)?;
/// assert_eq!(dir.names(), ["za"]);
/// assert!(dir.has("za"));
/// assert_eq!(dir.element("za")?, ElementType::Float64);
/// assert_eq!(dir.matrix::<f64>("za")?.shape(), shape);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    names: Vec<String>,
    /// The contents of the `layout.json` of a raw directory.
    raw: Option<(Shape, Arrays)>,
}

impl DataDir {
    /// Opens a directory; its matrices are opened one by one.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read; [`Error::Directory`] if it has neither a `layout.json`
    /// nor a `.npy` file, if its `layout.json` is invalid, or if a matrix exists both as a raw and
    /// as a `.npy` file.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_file() {
            let why = "it is a file, not a directory of matrices".to_owned();
            return Err(Error::Directory { path: path.to_owned(), why });
        }
        let (names, raw) = match read_description(&path.join(FILE))? {
            Some((shape, arrays)) => (arrays.keys().cloned().collect(), Some((shape, arrays))),
            None => (npy_names(path)?, None),
        };
        if names.is_empty() {
            let why = format!("there is no .npy file and no {FILE} with matrices");
            return Err(Error::Directory { path: path.to_owned(), why });
        }
        if let Some(name) =
            names.iter().find(|name| raw.is_some() && path.join(format!("{name}.npy")).exists())
        {
            let why = format!(
                "the matrix {name} is there twice: as {name}, which its {FILE} lists, and as {name}.npy"
            );
            return Err(Error::Directory { path: path.to_owned(), why });
        }
        Ok(Self { path: path.to_owned(), names, raw })
    }

    /// Returns the names of the matrices, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether there is a matrix `name`.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// Returns whether the matrices are raw files with a `layout.json`, rather than `.npy` files.
    pub const fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file of the matrix `name`, whether it exists or not.
    pub fn file(&self, name: &str) -> PathBuf {
        match self.is_raw() {
            true => self.path.join(name),
            false => self.path.join(format!("{name}.npy")),
        }
    }

    /// Returns the type of a matrix's elements without opening the matrix: from the `layout.json`,
    /// or from the header of its `.npy` file.
    ///
    /// # Errors
    /// [`Error::NoMatrix`], and those of [`ElementType::of_npy`].
    pub fn element(&self, name: &str) -> Result<ElementType> {
        match self.entry(name)? {
            Some((_, _, element)) => Ok(element),
            None => ElementType::of_npy(&self.file(name)),
        }
    }

    /// Opens a matrix for reading.
    ///
    /// # Errors
    /// [`Error::NoMatrix`], [`Error::Dtype`] if its elements are not of type `T`, and those of
    /// [`Matrix::open`] or [`Matrix::open_raw`].
    pub fn matrix<T: Element>(&self, name: &str) -> Result<Matrix<T>> {
        let path = self.file(name);
        match self.entry(name)? {
            Some((_, _, element)) if element != T::TYPE => {
                Err(Error::Dtype { path, found: element.descr().to_owned(), asked: T::TYPE })
            }
            Some((shape, layout, _)) => Matrix::open_raw(&path, shape, layout),
            None => Matrix::open(&path),
        }
    }

    /// Returns the entry of a matrix in the `layout.json`; `None` for `.npy` files.
    ///
    /// # Errors
    /// [`Error::NoMatrix`].
    pub fn entry(&self, name: &str) -> Result<Option<(Shape, Layout, ElementType)>> {
        if !self.has(name) {
            let (path, name, names) = (self.path.clone(), name.to_owned(), self.names.clone());
            return Err(Error::NoMatrix { path, name, names });
        }
        let raw = self.raw.as_ref();
        Ok(raw.and_then(|(shape, arrays)| {
            arrays.get(name).map(|&(layout, element)| (*shape, layout, element))
        }))
    }
}

/// Writes the `layout.json` of a directory of raw matrices of one shape, each with its layout and
/// element type. The file appears completely or not at all.
///
/// # Errors
/// [`Error::File`] and [`Error::NoSpace`] if it cannot be written, [`Error::Directory`] if a name
/// is not a valid file name.
///
/// ```
/// use syncline_store::{DataDir, ElementType, Layout, Shape, dir::write_layout_json};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path();
/// std::fs::write(path.join("za"), 0.5_f64.to_le_bytes())?;
/// let za = ("za".to_owned(), (Layout::RowMajor, ElementType::Float64));
/// write_layout_json(path, Shape::new(1, 1), &[za].into())?;
/// assert!(DataDir::open(path)?.is_raw());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_layout_json(
    dir: &Path,
    shape: Shape,
    arrays: &BTreeMap<String, (Layout, ElementType)>,
) -> Result<()> {
    let path = dir.join(FILE);
    for (name, (layout, _)) in arrays {
        check(&path, name, shape, *layout)?;
    }
    // The type of the first array is the common type; only arrays of another type have their own.
    let common = arrays.values().next().map_or(ElementType::Float64, |&(_, element)| element);
    let array = |&(layout, element)| Array::new(layout, (element != common).then_some(element));
    let description = Description {
        version: VERSION,
        dtype: Some(common.descr().to_owned()),
        rows: shape.rows,
        cols: shape.cols,
        arrays: arrays.iter().map(|(name, entry)| (name.clone(), array(entry))).collect(),
    };
    let failed = |source| Error::File { action: "write", path: path.clone(), source };
    let mut text = serde_json::to_vec_pretty(&description).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    let new = NewFile::create(&path, text.len() as u64)?;
    new.file().write_all_at(&text, 0).map_err(failed)?;
    new.commit()
}

/// Checks that `name` is the name of a plain file in the directory, and that the layout is valid
/// for the shape.
fn check(path: &Path, name: &str, shape: Shape, layout: Layout) -> Result<()> {
    let odd =
        name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) || name == FILE;
    if odd {
        let why = format!("{name:?} is not a valid name for a matrix");
        return Err(Error::Directory { path: path.to_owned(), why });
    }
    layout.stored(shape).map(drop)
}

type Arrays = BTreeMap<String, (Layout, ElementType)>;

fn read_description(path: &Path) -> Result<Option<(Shape, Arrays)>> {
    let wrong = |why: String| Error::Directory { path: path.to_owned(), why };
    let text = match read_text(path, LONGEST) {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        text => text?,
    };
    let description: Description =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if description.version != VERSION {
        return Err(wrong(format!("version {} is unknown, not {VERSION}", description.version)));
    }
    let element = |dtype: &Option<String>, missing| match dtype {
        None => Ok(missing),
        Some(text) => text.parse().map_err(|error: Error| wrong(format!("dtype: {error}"))),
    };
    let common = element(&description.dtype, ElementType::Float64)?;
    let shape = Shape::new(description.rows, description.cols);
    let mut arrays = Arrays::new();
    for (name, array) in description.arrays {
        let layout = array.layout().map_err(|why| wrong(format!("{name}: {why}")))?;
        check(path, &name, shape, layout).map_err(|error| match error {
            Error::Directory { .. } => error,
            error => wrong(format!("{name}: {error}")),
        })?;
        let element = element(&array.dtype, common)?;
        arrays.insert(name, (layout, element));
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

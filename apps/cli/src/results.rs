//! Raw files that no directory lists, results above all: what their bytes are.
//!
//! | told by                                               | where                                      |
//! |-------------------------------------------------------|--------------------------------------------|
//! | the mark of a result: shape, type and layout          | on the file; a plain copy loses it         |
//! | the entry of its field, `FIELD` of `FIELD.KERNEL.out` | in the `layout.json` beside it             |
//!
//! The mark comes first. An entry is taken only where the file has the length that it says: a run
//! writes a raw result in the layout of its field.

use std::fs;
use std::path::Path;

use syncline_store::{
    DataDir, ElementType, Layout, Matrix, Shape,
    generation::{Existing, ResultMark},
};
use syncline_wave::lanes::Real;

use crate::error::{Error, Result};
use crate::output;

/// The name by which a raw result says in what layout it is, if it is not row-major.
pub(crate) const LAYOUT: &str = "layout";

/// What the bytes of a raw file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) shape: Shape,
    pub(crate) layout: Layout,
    pub(crate) element: ElementType,
}

impl Raw {
    /// Finds out what a file is.
    ///
    /// # Errors
    /// [`Error::Unknown`] says what is missing.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let why = match Existing::at(path)? {
            Existing::Result(mark) => match Self::by_mark(&mark) {
                Some(raw) => return Ok(raw),
                None => "its mark is not that of raw data",
            },
            Existing::Other(why) => why,
            Existing::Nothing => {
                let source = std::io::ErrorKind::NotFound.into();
                return Err(Error::Io { what: format!("open {}", path.display()), source });
            }
            _ => "it is of an unknown kind",
        };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let field = field_of(name).to_owned();
        match Self::by_field(path, &field)? {
            Some(raw) => Ok(raw),
            None => Err(Error::Unknown { path: path.to_owned(), why, field }),
        }
    }

    fn by_mark(mark: &ResultMark) -> Option<Self> {
        let what = |name: &str| mark.identity.what.get(name);
        if what("format")? != "raw" {
            return None;
        }
        Some(Self {
            shape: Shape::new(what("rows")?.parse().ok()?, what("cols")?.parse().ok()?),
            layout: what(LAYOUT).map_or(Some(Layout::RowMajor), |layout| layout.parse().ok())?,
            element: what("element")?.parse().ok()?,
        })
    }

    /// As the field that it is a result of, by the directory that it is in.
    fn by_field(path: &Path, field: &str) -> Result<Option<Self>> {
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.join(output::LAYOUT).is_file() {
            return Ok(None);
        }
        let dir = DataDir::open(folder)?;
        if !dir.has(field) {
            return Ok(None);
        }
        let Some((shape, layout, element)) = dir.entry(field)? else { return Ok(None) };
        let raw = Self { shape, layout, element };
        let bytes = layout.stored(shape)?.saturating_mul(element.bytes()) as u64;
        Ok(fs::metadata(path).is_ok_and(|found| found.len() == bytes).then_some(raw))
    }

    /// Opens a file of this kind, whose elements were found to be `T`.
    ///
    /// # Errors
    /// When it has another length.
    pub(crate) fn open<T: Real>(self, path: &Path) -> syncline_store::Result<Matrix<T>> {
        Matrix::open_raw(path, self.shape, self.layout)
    }
}

/// The name of the field that a result is one of by its name: `za` of `za.lk23.out`.
pub(crate) fn field_of(name: &str) -> &str {
    name.strip_suffix(output::RESULT).and_then(|name| name.split('.').next()).unwrap_or(name)
}

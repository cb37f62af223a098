//! The shape, type and layout of raw files that no directory lists, in particular of results.
//!
//! | source                                              | place                              |
//! |-----------------------------------------------------|------------------------------------|
//! | the mark of a result: shape, type and layout        | the file; a plain copy loses it    |
//! | the entry of its field: `FIELD` of `FIELD.KERNEL.out` | the `layout.json` beside it      |
//!
//! The mark takes precedence. An entry is used only if the file has the length that it implies: a
//! run writes a raw result in the layout of its field.

use std::fs;
use std::path::Path;

use syncline_store::{
    DataDir, ElementType, Layout, Matrix, Shape,
    generation::{Existing, ResultMark},
};
use syncline_wave::lanes::Real;

use crate::error::{Error, Result};
use crate::output;

/// The parameter of a raw result that holds its layout, if that is not row-major.
pub(crate) const LAYOUT: &str = "layout";

/// The format of a raw file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) shape: Shape,
    pub(crate) layout: Layout,
    pub(crate) element: ElementType,
}

impl Raw {
    /// Determines the format of a file.
    ///
    /// # Errors
    /// [`Error::Unknown`] names the missing information.
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
        let (rows, cols) = what("dimensions")?.split_once(" x ")?;
        Some(Self {
            shape: Shape::new(rows.parse().ok()?, cols.parse().ok()?),
            layout: what(LAYOUT).map_or(Some(Layout::RowMajor), |layout| layout.parse().ok())?,
            element: what("types")?.parse().ok()?,
        })
    }

    /// Returns the format of its field, from the directory that contains the file.
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

    /// Opens a file of this format, whose elements are known to be `T`.
    ///
    /// # Errors
    /// If the file has another length.
    pub(crate) fn open<T: Real>(self, path: &Path) -> syncline_store::Result<Matrix<T>> {
        Matrix::open_raw(path, self.shape, self.layout)
    }
}

/// Returns the field that the name of a result contains: `za` of `za.lk23.out`.
pub(crate) fn field_of(name: &str) -> &str {
    name.strip_suffix(output::RESULT).and_then(|name| name.split('.').next()).unwrap_or(name)
}

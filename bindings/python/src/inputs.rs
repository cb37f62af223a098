//! The arrays of a sweep: memory of other owners, and files.

use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use syncline_store::array::{Array, ArraySource};
use syncline_store::{ElementType, Result};

use crate::error;

/// An array as Python gives it: a `.npy` file, or its bytes with its type and dimensions.
#[derive(FromPyObject)]
pub(crate) enum Given {
    Path(PathBuf),
    Memory(String, Vec<usize>, PyBuffer<u8>),
}

/// An array in memory, which the caller keeps.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    first: *const u8,
}

// SAFETY: the bytes are only read, and `Given` keeps them for as long as a sweep runs.
unsafe impl Send for Bytes {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bytes {}

/// An array that a sweep will read.
pub(crate) enum Input {
    Path(PathBuf),
    Memory(ElementType, Vec<usize>, Bytes),
}

impl Input {
    /// Checks the array. It must not be used after `given` is gone.
    pub(crate) fn of(py: Python<'_>, given: &Given) -> PyResult<Self> {
        let (element, dims, buffer) = match given {
            Given::Path(path) => return Ok(Input::Path(path.clone())),
            Given::Memory(element, dims, buffer) => (element, dims, buffer),
        };
        let wrong = |why: &str| error::exception(py, "ArrayError", why);
        let element = ElementType::ALL.into_iter().find(|known| known.name() == element);
        let element = element.ok_or_else(|| wrong("this type of elements is not supported"))?;
        let first = buffer.buf_ptr().cast::<u8>().cast_const();
        let bytes = dims.iter().try_fold(element.bytes(), |bytes, n| bytes.checked_mul(*n));
        let contiguous = buffer.is_c_contiguous() && bytes == Some(buffer.len_bytes());
        if !contiguous || !(first.addr()).is_multiple_of(element.bytes()) {
            return Err(wrong("the elements are not contiguous and aligned"));
        }
        Ok(Input::Memory(element, dims.clone(), Bytes { first }))
    }

    /// Returns the array.
    pub(crate) fn array(&self) -> Result<ArraySource> {
        match self {
            Input::Path(path) => ArraySource::open(path),
            // SAFETY: `of` has checked that these are the bytes of the elements, aligned; `Given`
            // outlives the sweep. Python code that writes them meanwhile races with the sweep, as
            // with any code that reads an array without the interpreter lock: the documentation
            // forbids it.
            Input::Memory(element, dims, bytes) => unsafe {
                Array::borrowed(*element, dims, bytes.first).map(ArraySource::Memory)
            },
        }
    }
}

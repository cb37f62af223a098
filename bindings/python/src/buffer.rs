//! Results, as memory that numpy views without a copy.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use syncline_store::array::Array;

/// Fills a view of bytes, to whose owner it then holds a reference.
///
/// # Safety
/// `view` is a view to be filled, or null. The bytes live as long as `owner`, and no Rust code uses
/// a reference to them.
pub(crate) unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    first: *mut u8,
    len: usize,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view is given"));
    }
    let (first, len) = (first.cast::<c_void>(), len as ffi::Py_ssize_t);
    // SAFETY: the caller says that the view is one to be filled, and that the bytes live as long as
    // the owner.
    match unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), first, len, 0, flags) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}

/// The bytes of a result, which have one owner: this object.
///
/// It supports the buffer protocol: `numpy.frombuffer(buffer, dtype)` is a view of it.
#[pyclass(frozen, module = "syncline._syncline")]
#[derive(Debug)]
pub(crate) struct Buffer {
    first: *mut u8,
    len: usize,
    /// Keeps the bytes.
    _owner: Array,
}

// SAFETY: the memory belongs to the owner in the object, which is not used otherwise, and any
// thread may drop it. Python code that reads and writes the bytes orders its accesses itself, as
// for any array.
unsafe impl Send for Buffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Takes the elements of an array.
    pub(crate) fn of_array(mut array: Array) -> Self {
        let bytes = array.bytes_mut();
        let (first, len) = (bytes.as_mut_ptr(), bytes.len());
        Buffer { first, len, _owner: array }
    }
}

#[pymethods]
impl Buffer {
    /// # Safety
    /// As the buffer protocol of Python says: `view` is a view to be filled, or null.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (first, len) = (slf.get().first, slf.get().len);
        // SAFETY: as for this function; the bytes belong to the object.
        unsafe { fill(slf.as_any(), view, first, len, flags) }
    }

    fn __len__(&self) -> usize {
        self.len
    }
}

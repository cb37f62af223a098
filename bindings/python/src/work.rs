//! Tasks of a pool and their answers, as messages.
//!
//! # Contract
//! A message is a pickle, and the large buffers of its objects beside it (protocol 5 of pickle).
//! The buffers are copied once, into the memory of the farm; the receiver's arrays are views of
//! them there.

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use syncline_farm::wire::Bulk;

use crate::buffer::fill;

/// The bytes of a pickle, which serde would otherwise take for a sequence of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pickle(Vec<u8>);

impl Serialize for Pickle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pickle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Pickle;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pickle")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Pickle, E> {
                Ok(Pickle(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A task, or an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    /// The number of a task that consists of several items; 0 for a single one.
    pub(crate) chunk: u64,
    pickle: Pickle,
    parts: Vec<Bulk>,
}

/// The buffer of an object of Python, which keeps it.
struct Part(PyBuffer<u8>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        let (first, len) = (self.0.buf_ptr().cast::<u8>(), self.0.len_bytes());
        if len == 0 {
            return &[];
        }
        // SAFETY: the buffer is contiguous (`Work::new`) and kept by this view. Code that writes it
        // meanwhile races with the copy, as with any copy without the interpreter lock: the
        // documentation says that the arguments of a task must not change before it has begun.
        unsafe { std::slice::from_raw_parts(first, len) }
    }
}

impl Work {
    pub(crate) fn new(chunk: u64, pickle: &[u8], parts: Vec<PyBuffer<u8>>) -> PyResult<Self> {
        if parts.iter().any(|part| !part.is_c_contiguous()) {
            return Err(PyBufferError::new_err("a buffer of a pickle is not contiguous"));
        }
        let parts = parts.into_iter().map(|part| Bulk::new(Part(part))).collect();
        Ok(Work { chunk, pickle: Pickle(pickle.to_vec()), parts })
    }

    /// Returns the pickle and the buffers. Buffers stay where they are as long as all that are
    /// `lent` are fewer bytes than `most`; others are copied.
    pub(crate) fn into_python<'py>(
        self,
        py: Python<'py>,
        lent: &Arc<AtomicUsize>,
        most: usize,
    ) -> (Bound<'py, PyBytes>, Vec<Lent>) {
        let lend = |bulk: Bulk| {
            // Relaxed: a count, which orders nothing.
            let before = lent.fetch_add(bulk.len(), Ordering::Relaxed);
            let len = bulk.len();
            // A large one would leave no room for another like it.
            let bulk = if before + len > most || 2 * len > most || !bulk.is_in_message() {
                Bulk::from(bulk.to_vec())
            } else {
                bulk
            };
            Lent { counted: Arc::clone(lent), len, bulk }
        };
        (PyBytes::new(py, &self.pickle.0), self.parts.into_iter().map(lend).collect())
    }
}

/// A buffer of a received pickle, which supports the buffer protocol. It may be written: it belongs
/// to this process.
#[pyclass(frozen, module = "syncline._syncline")]
pub(crate) struct Lent {
    bulk: Bulk,
    len: usize,
    counted: Arc<AtomicUsize>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.counted.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[pymethods]
impl Lent {
    /// # Safety
    /// As the buffer protocol of Python says: `view` is a view to be filled, or null.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bulk = &slf.get().bulk;
        // SAFETY: as for this function; the bytes belong to the object, and no Rust code uses a
        // reference to them any more.
        unsafe { fill(slf.as_any(), view, bulk.as_mut_ptr().cast(), bulk.len(), flags) }
    }
}

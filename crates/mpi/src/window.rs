//! MPI's one-sided memory, against which Syncline's is measured.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::communicator::{Communicator, length, rank_among};
use crate::error::{MpiError, Result};
use crate::ffi::Calls;
use crate::inner::Inner;

/// The same number of bytes in every process, accessible to all. It is locked for all from its
/// allocation until it is freed (`MPI_Win_lock_all`).
#[derive(Debug)]
pub struct Window {
    inner: Arc<Inner>,
    /// The number of processes of the window.
    size: usize,
    handle: c_int,
    base: *mut u8,
    bytes: usize,
    freed: bool,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: `base` points to memory of the window, which no thread owns; the type never dereferences
// it.
unsafe impl Send for Window {}

impl Communicator {
    /// Allocates the same number of bytes in every process. Collective. Its interface is not
    /// stable: see `unstable`.
    ///
    /// # Errors
    /// [`MpiError::Argument`] if the processes pass different numbers, and those of any call.
    #[doc(hidden)]
    pub fn window(&self, bytes: usize) -> Result<Window> {
        let what = "allocate a window";
        let all = self.allgather(&(bytes as u64).to_ne_bytes())?;
        let same = all.chunks_exact(8).all(|one| one == (bytes as u64).to_ne_bytes());
        let count = i64::try_from(bytes).ok().filter(|_| same);
        let count = count
            .ok_or(MpiError::Argument { what, why: "not all ask for as many bytes".to_owned() })?;
        let (mut base, mut handle) = (std::ptr::null_mut(), -1);
        self.inner.call(what, |calls| {
            // SAFETY: `base` and `handle` are valid for writes until the call returns.
            unsafe { (calls.win_allocate)(self.handle, count, &raw mut base, &raw mut handle) }
        })?;
        let base = base.cast();
        let (inner, size) = (Arc::clone(&self.inner), self.size());
        Ok(Window { inner, size, handle, base, bytes, freed: false, _not_sync: PhantomData })
    }
}

impl Window {
    /// Returns the memory of this process. Other processes write it; a [`sync`](Self::sync) makes
    /// their writes visible to loads.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the number of bytes of each process.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins to write to the memory of another process.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for an offset out of bounds, and those of any call.
    ///
    /// # Safety
    /// `bytes` must be valid for reads of `count` bytes, and no thread may write them, until a
    /// flush has returned.
    pub unsafe fn put(&self, to: usize, at: usize, bytes: *const u8, count: usize) -> Result<()> {
        let (to, at, count) = self.place("put", to, at, count, 1)?;
        // SAFETY: `place` checked the target range; the caller guarantees `bytes` (see `# Safety`).
        self.call("put", |calls| unsafe { (calls.put)(self.handle, to, at, bytes.cast(), count) })
    }

    /// Begins to read from the memory of another process.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Safety
    /// `into` must be valid for writes of `count` bytes, and no thread may access them, until a
    /// flush has returned.
    pub unsafe fn get(&self, from: usize, at: usize, into: *mut u8, count: usize) -> Result<()> {
        let (from, at, count) = self.place("get", from, at, count, 1)?;
        // SAFETY: `place` checked the source range; the caller guarantees `into` (see `# Safety`).
        self.call("get", |calls| unsafe { (calls.get)(self.handle, from, at, into.cast(), count) })
    }

    /// Begins to add to numbers in the memory of another process.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Safety
    /// `values` must be valid for reads of `count` numbers, and no thread may write them, until a
    /// flush has returned.
    pub unsafe fn accumulate(
        &self,
        to: usize,
        at: usize,
        values: *const f64,
        count: usize,
    ) -> Result<()> {
        let (to, at, count) = self.place("accumulate", to, at, count, 8)?;
        // SAFETY: `place` checked the target range; the caller guarantees `values` (see `#
        // Safety`).
        self.call("accumulate", |calls| unsafe {
            (calls.accumulate)(self.handle, to, at, values, count)
        })
    }

    /// Adds to an integer in the memory of another process and returns its previous value. The
    /// operation is complete when the call returns.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn fetch_add(&self, to: usize, at: usize, add: i64) -> Result<i64> {
        let (to, at, _) = self.place("fetch and add", to, at, 1, 8)?;
        let mut before = 0;
        // SAFETY: `place` checked the target; `before` is valid for a write until the call returns,
        // and the shim flushes before it returns.
        self.call("fetch and add", |calls| unsafe {
            (calls.fetch_add)(self.handle, to, at, add, &raw mut before)
        })?;
        Ok(before)
    }

    /// Blocks until all operations that this process has begun on the memory of `rank` are complete
    /// there.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for a rank out of range, and those of any call.
    pub fn flush(&self, rank: usize) -> Result<()> {
        let rank = rank_among("flush", rank, self.size)?;
        // SAFETY: the call takes no memory.
        self.call("flush", |calls| unsafe { (calls.flush)(self.handle, rank) })
    }

    /// Blocks until all operations that this process has begun are complete.
    ///
    /// # Errors
    /// Those of any call.
    pub fn flush_all(&self) -> Result<()> {
        // SAFETY: the call takes no memory.
        self.call("flush", |calls| unsafe { (calls.flush_all)(self.handle) })
    }

    /// Synchronises loads and stores of this process with the operations of others
    /// (`MPI_Win_sync`).
    ///
    /// # Errors
    /// Those of any call.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: the call takes no memory.
        self.call("synchronise a window", |calls| unsafe { (calls.win_sync)(self.handle) })
    }

    /// Frees the window. Collective; blocks. Dropping a window does the same.
    ///
    /// # Errors
    /// Those of any call.
    pub fn free(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.freed, true) {
            return Ok(());
        }
        // SAFETY: the handle was not freed before, as `freed` was false.
        self.call("free a window", |calls| unsafe { (calls.win_free)(self.handle) })
    }

    fn call(&self, what: &'static str, call: impl FnOnce(&Calls) -> c_int) -> Result<()> {
        self.inner.call(what, call)
    }

    /// Checks and converts the offset of `count` items of `each` bytes in the memory of `rank`.
    fn place(
        &self,
        what: &'static str,
        rank: usize,
        at: usize,
        count: usize,
        each: usize,
    ) -> Result<(c_int, i64, i64)> {
        let end = count.checked_mul(each).and_then(|bytes| bytes.checked_add(at));
        if end.is_none_or(|end| end > self.bytes) || !at.is_multiple_of(each) {
            let why = format!(
                "{count} x {each} bytes at {at} are not in a window of {}, or not aligned",
                self.bytes
            );
            return Err(MpiError::Argument { what, why });
        }
        Ok((rank_among(what, rank, self.size)?, at as i64, length(what, count)?))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

//! MPI's one-sided memory: what others are measured against.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::communicator::{Communicator, length, rank_among};
use crate::error::{MpiError, Result};
use crate::ffi::Calls;
use crate::inner::Inner;

/// As many bytes in every process, which all may reach. Locked for all from birth to end (`MPI_Win_lock_all`).
#[derive(Debug)]
pub struct Window {
    inner: Arc<Inner>,
    /// How many processes have a part of it.
    size: usize,
    handle: c_int,
    base: *mut u8,
    bytes: usize,
    freed: bool,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: `base` is memory of the window, not of a thread; it is only handed out.
unsafe impl Send for Window {}

impl Communicator {
    /// Allocates as many bytes in every process. Collective. No promise holds for it: see `unstable`.
    ///
    /// # Errors
    /// [`MpiError::Argument`] if not all ask for as many, and those of any call.
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
            // SAFETY: the results have room.
            unsafe { (calls.win_allocate)(self.handle, count, &raw mut base, &raw mut handle) }
        })?;
        let base = base.cast();
        let (inner, size) = (Arc::clone(&self.inner), self.size());
        Ok(Window { inner, size, handle, base, bytes, freed: false, _not_sync: PhantomData })
    }
}

impl Window {
    /// This process's memory. Others write it; a [`sync`](Self::sync) makes what they have put here visible to loads.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// How many bytes each process has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins to write to another's memory.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for a place outside, and those of any call.
    ///
    /// # Safety
    /// The bytes must stay, and nobody write them, until a flush has returned.
    pub unsafe fn put(&self, to: usize, at: usize, bytes: *const u8, count: usize) -> Result<()> {
        let (to, at, count) = self.place("put", to, at, count, 1)?;
        // SAFETY: the place is inside; the bytes are the caller's promise.
        self.call("put", |calls| unsafe { (calls.put)(self.handle, to, at, bytes.cast(), count) })
    }

    /// Begins to read from another's memory.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Safety
    /// The memory must stay, and nobody use it, until a flush has returned.
    pub unsafe fn get(&self, from: usize, at: usize, into: *mut u8, count: usize) -> Result<()> {
        let (from, at, count) = self.place("get", from, at, count, 1)?;
        // SAFETY: the place is inside; the memory is the caller's promise.
        self.call("get", |calls| unsafe { (calls.get)(self.handle, from, at, into.cast(), count) })
    }

    /// Begins to add to numbers in another's memory.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Safety
    /// The values must stay, and nobody write them, until a flush has returned.
    pub unsafe fn accumulate(
        &self,
        to: usize,
        at: usize,
        values: *const f64,
        count: usize,
    ) -> Result<()> {
        let (to, at, count) = self.place("accumulate", to, at, count, 8)?;
        // SAFETY: the place is inside; the values are the caller's promise.
        self.call("accumulate", |calls| unsafe {
            (calls.accumulate)(self.handle, to, at, values, count)
        })
    }

    /// Adds to an integer in another's memory, and tells what it was. Done when it returns.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn fetch_add(&self, to: usize, at: usize, add: i64) -> Result<i64> {
        let (to, at, _) = self.place("fetch and add", to, at, 1, 8)?;
        let mut before = 0;
        // SAFETY: the place is inside; the result has room until it returns, when all is done.
        self.call("fetch and add", |calls| unsafe {
            (calls.fetch_add)(self.handle, to, at, add, &raw mut before)
        })?;
        Ok(before)
    }

    /// Waits until all that was begun here towards a process is done there.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for no rank, and those of any call.
    pub fn flush(&self, rank: usize) -> Result<()> {
        let rank = rank_among("flush", rank, self.size)?;
        // SAFETY: takes no memory.
        self.call("flush", |calls| unsafe { (calls.flush)(self.handle, rank) })
    }

    /// Waits until all that was begun here is done.
    ///
    /// # Errors
    /// Those of any call.
    pub fn flush_all(&self) -> Result<()> {
        // SAFETY: takes no memory.
        self.call("flush", |calls| unsafe { (calls.flush_all)(self.handle) })
    }

    /// Loads and stores of this process see, and are seen by, what others do (`MPI_Win_sync`).
    ///
    /// # Errors
    /// Those of any call.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: takes no memory.
        self.call("synchronise a window", |calls| unsafe { (calls.win_sync)(self.handle) })
    }

    /// Gives it back. Collective, and blocks; dropping does the same.
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
        // SAFETY: it was not freed before.
        self.call("free a window", |calls| unsafe { (calls.win_free)(self.handle) })
    }

    fn call(&self, what: &'static str, call: impl FnOnce(&Calls) -> c_int) -> Result<()> {
        self.inner.call(what, call)
    }

    /// A place in another's memory, for `count` things of so many bytes.
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

//! A group of processes that exchange messages of bytes.

pub use crate::mpi::ThreadSupport;

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{MpiError, Result};
use crate::ffi::Calls;
use crate::inner::Inner;
use crate::message::{Kept, Message, Receiving, Request, Sending, Transfer};

/// The maximum length of a message, in bytes.
pub const MAX_MESSAGE: usize = i32::MAX as usize;
/// The greatest tag that every MPI supports.
pub const MAX_TAG: u16 = 32767;

/// A group of processes of the world with ranks of its own. Its messages are separate from those of
/// other communicators.
///
/// All of its processes must make the set-up calls and the collective calls
/// ([`barrier`](Self::barrier), [`allgather`](Self::allgather)...), in the same order; these calls
/// block. Messages do not block.
#[derive(Debug)]
pub struct Communicator {
    pub(crate) inner: Arc<Inner>,
    pub(crate) handle: c_int,
    rank: usize,
    size: usize,
    freed: bool,
    _not_sync: PhantomData<Cell<()>>,
}

impl Communicator {
    pub(crate) fn make(
        inner: &Arc<Inner>,
        what: &'static str,
        make: impl FnOnce(&Calls, *mut c_int) -> c_int,
    ) -> Result<Communicator> {
        let mut handle = -1;
        inner.call(what, |calls| make(calls, &raw mut handle))?;
        Communicator::of(inner, handle)
    }

    /// Wraps a communicator that the shim has made. The new value owns it and frees it.
    fn of(inner: &Arc<Inner>, handle: c_int) -> Result<Communicator> {
        let mut new = Communicator {
            inner: Arc::clone(inner),
            handle,
            rank: 0,
            size: 1,
            freed: false,
            _not_sync: PhantomData,
        };
        let (mut rank, mut size) = (0, 0);
        // SAFETY: `rank` is valid for a write until the call returns.
        inner.call("ask for the rank", |calls| unsafe { (calls.rank)(handle, &raw mut rank) })?;
        // SAFETY: as above, for `size`.
        inner.call("ask for the size", |calls| unsafe { (calls.size)(handle, &raw mut size) })?;
        (new.rank, new.size) = (rank as usize, size as usize);
        Ok(new)
    }

    /// Returns the rank of this process.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Blocks until all processes have entered the barrier. Collective.
    ///
    /// # Errors
    /// Those of any call.
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: the call takes no memory.
        self.inner.call("meet at a barrier", |calls| unsafe { (calls.barrier)(self.handle) })
    }

    /// Copies the bytes of `root` to all processes. All slices must have the same length.
    /// Collective.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for a rank out of range or too many bytes, and the errors of any
    /// call.
    pub fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        let what = "broadcast";
        let (root, count) = (rank_among(what, root, self.size)?, length(what, bytes.len())?);
        // SAFETY: `bytes` is borrowed mutably, and so valid and unshared, until the call returns.
        self.inner.call(what, |calls| unsafe {
            (calls.bcast)(self.handle, bytes.as_mut_ptr().cast(), count, root)
        })
    }

    /// Gathers the bytes of all processes in the order of ranks. All slices must have the same
    /// length. Collective.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for too many bytes, and those of any call.
    pub fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let what = "gather from all";
        let count = length(what, mine.len())?;
        let all = mine.len().checked_mul(self.size);
        let all = all.ok_or(MpiError::Argument {
            what,
            why: "all together have too many bytes".to_owned(),
        })?;
        let mut all = vec![0_u8; all];
        self.inner.call(what, |calls| {
            // SAFETY: `mine` and `all` are borrowed until the call returns; `all` has room for
            // `count` bytes of each process.
            unsafe {
                (calls.allgather)(self.handle, mine.as_ptr().cast(), count, all.as_mut_ptr().cast())
            }
        })?;
        Ok(all)
    }

    /// Returns the greatest of the numbers that the processes pass. Collective.
    ///
    /// # Errors
    /// Those of any call.
    pub fn max(&self, mine: f64) -> Result<f64> {
        let mut most = mine;
        // SAFETY: `most` is valid for a write until the call returns.
        self.inner.call("find the greatest", |calls| unsafe {
            (calls.allreduce_max)(self.handle, mine, &raw mut most)
        })?;
        Ok(most)
    }

    /// Splits the communicator: the processes that pass the same color form a communicator, ranked
    /// by their keys. Without a color, the result is `None`. Collective.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for a color above 2^31 - 1, and those of any call.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        let what = "split a communicator";
        let color = color.map_or(Ok(-1), c_int::try_from);
        let color = color.map_err(|_| MpiError::Argument {
            what,
            why: "the color is above 2^31 - 1".to_owned(),
        })?;
        let mut handle = -1;
        self.inner.call(what, |calls| {
            // SAFETY: `handle` is valid for a write until the call returns.
            unsafe { (calls.comm_split)(self.handle, color, key, &raw mut handle) }
        })?;
        if handle < 0 { Ok(None) } else { Communicator::of(&self.inner, handle).map(Some) }
    }

    /// Begins to send a message. Messages to one process with one tag arrive in the order in which
    /// they were begun.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for an invalid rank, tag or length, and the errors of any call.
    pub fn isend(&self, to: usize, tag: u16, bytes: Vec<u8>) -> Result<Sending> {
        // SAFETY: `Sending` owns the bytes, does not move or change them, and keeps them until the
        // request is done.
        let request = unsafe { self.begin_send(to, tag, bytes.as_ptr(), bytes.len()) }?;
        Ok(Sending::new(request, bytes))
    }

    /// Begins to receive the next message of a process with a tag. The message must not have more
    /// bytes than `buffer` has capacity.
    ///
    /// # Errors
    /// As [`Communicator::isend`]; a message that is too long is an error of the [`Receiving`].
    pub fn irecv(&self, from: usize, tag: u16, mut buffer: Vec<u8>) -> Result<Receiving> {
        buffer.clear();
        let (into, room) = (buffer.as_mut_ptr(), buffer.capacity().min(MAX_MESSAGE));
        // SAFETY: `Receiving` owns the buffer, does not move or use it, and keeps it until the
        // request is done.
        let request = unsafe { self.begin_receive(from, tag, into, room) }?;
        Ok(Receiving::new(request, buffer))
    }

    /// Begins to send bytes from memory of the caller.
    ///
    /// # Errors
    /// As [`Communicator::isend`].
    ///
    /// # Safety
    /// `bytes` must be valid for reads of `count` bytes, and no thread may write them, until the
    /// transfer is done, whether it is dropped or not.
    pub unsafe fn isend_from(
        &self,
        to: usize,
        tag: u16,
        bytes: *const u8,
        count: usize,
    ) -> Result<Transfer> {
        // SAFETY: the caller guarantees that the bytes stay valid and unchanged (see `# Safety`).
        unsafe { self.begin_send(to, tag, bytes, count) }.map(Transfer::new)
    }

    /// Begins to receive the next message of a process with a tag into memory of the caller.
    ///
    /// # Errors
    /// As [`Communicator::irecv`].
    ///
    /// # Safety
    /// `into` must be valid for writes of `room` bytes, and no thread may access them, until the
    /// transfer is done, whether it is dropped or not.
    pub unsafe fn irecv_into(
        &self,
        from: usize,
        tag: u16,
        into: *mut u8,
        room: usize,
    ) -> Result<Transfer> {
        // SAFETY: the caller guarantees that the memory stays valid and unused (see `# Safety`).
        unsafe { self.begin_receive(from, tag, into, room) }.map(Transfer::new)
    }

    /// Begins to send bytes from memory that an owner keeps valid.
    ///
    /// # Errors
    /// As [`Communicator::isend`].
    ///
    /// # Safety
    /// `bytes` must be valid for reads of `count` bytes until `owner` and all of its clones are
    /// dropped. Writes by other threads before the transfer is done must be such that the memory
    /// may be read at the same time, as the processor reads it.
    pub unsafe fn isend_kept(
        &self,
        to: usize,
        tag: u16,
        bytes: *const u8,
        count: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Kept> {
        // SAFETY: `Kept` keeps the owner, and so the bytes, until the request is done; the caller
        // guarantees the rest (see `# Safety`).
        let request = unsafe { self.begin_send(to, tag, bytes, count) }?;
        Ok(Kept::new(request, owner, false))
    }

    /// Begins to receive the next message of a process with a tag into memory that an owner keeps
    /// valid.
    ///
    /// # Errors
    /// As [`Communicator::irecv`].
    ///
    /// # Safety
    /// `into` must be valid for writes of `room` bytes until `owner` and all of its clones are
    /// dropped. Accesses by other threads before the transfer is done must be such that the memory
    /// may be written at the same time, as the processor writes it.
    pub unsafe fn irecv_kept(
        &self,
        from: usize,
        tag: u16,
        into: *mut u8,
        room: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Kept> {
        // SAFETY: `Kept` keeps the owner, and so the memory, until the request is done; the caller
        // guarantees the rest (see `# Safety`).
        let request = unsafe { self.begin_receive(from, tag, into, room) }?;
        Ok(Kept::new(request, owner, true))
    }

    /// Takes a message with this tag, from any process, out of the queue. Returns `None` if none
    /// has arrived. No other call receives a message that was taken out. The call also drives MPI's
    /// progress.
    ///
    /// # Errors
    /// [`MpiError::Argument`] for a tag above [`MAX_TAG`], and those of any call.
    pub fn probe(&self, tag: u16) -> Result<Option<Message>> {
        let what = "look for a message";
        let tag = tag_of(what, tag)?;
        let (mut found, mut source, mut bytes, mut message) = (0, 0, 0, 0);
        self.inner.call(what, |calls| {
            let out = (&raw mut found, &raw mut source, &raw mut bytes, &raw mut message);
            // SAFETY: all four results are valid for writes until the call returns.
            unsafe { (calls.improbe)(self.handle, tag, out.0, out.1, out.2, out.3) }
        })?;
        let new =
            || Message::new(Request::new(&self.inner, message), source as usize, bytes as usize);
        Ok((found != 0).then(new))
    }

    /// # Safety
    /// `bytes` must be valid for reads of `count` bytes, and unchanged, until the request is done.
    unsafe fn begin_send(
        &self,
        to: usize,
        tag: u16,
        bytes: *const u8,
        count: usize,
    ) -> Result<Request> {
        let what = "send a message";
        let (to, tag, count) =
            (rank_among(what, to, self.size)?, tag_of(what, tag)?, length(what, count)?);
        let mut request = 0;
        self.inner.call(what, |calls| {
            // SAFETY: the caller guarantees `bytes` (see `# Safety`); `request` is valid for a
            // write.
            unsafe { (calls.isend)(self.handle, bytes.cast(), count, to, tag, &raw mut request) }
        })?;
        Ok(Request::new(&self.inner, request))
    }

    /// # Safety
    /// `into` must be valid for writes of `room` bytes, and unused, until the request is done.
    unsafe fn begin_receive(
        &self,
        from: usize,
        tag: u16,
        into: *mut u8,
        room: usize,
    ) -> Result<Request> {
        let what = "receive a message";
        let (from, tag, room) =
            (rank_among(what, from, self.size)?, tag_of(what, tag)?, length(what, room)?);
        let mut request = 0;
        self.inner.call(what, |calls| {
            // SAFETY: the caller guarantees `into` (see `# Safety`); `request` is valid for a
            // write.
            unsafe { (calls.irecv)(self.handle, into.cast(), room, from, tag, &raw mut request) }
        })?;
        Ok(Request::new(&self.inner, request))
    }

    /// Frees the communicator, unless [all are kept](crate::Mpi::keep_communicators). Collective.
    /// Dropping a communicator does the same, if this thread may call MPI.
    ///
    /// # Errors
    /// Those of any call.
    pub fn free(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        // Relaxed: the flag is set before the communicators that it concerns exist.
        if std::mem::replace(&mut self.freed, true) || self.inner.keeps.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: the handle was not freed before, as `freed` was false.
        self.inner.call("free a communicator", |calls| unsafe { (calls.comm_free)(self.handle) })
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

pub(crate) fn rank_among(what: &'static str, rank: usize, size: usize) -> Result<c_int> {
    if rank < size {
        return Ok(rank as c_int);
    }
    Err(MpiError::Argument { what, why: format!("there is no rank {rank} among {size}") })
}

fn tag_of(what: &'static str, tag: u16) -> Result<c_int> {
    if tag <= MAX_TAG {
        return Ok(tag.into());
    }
    Err(MpiError::Argument { what, why: format!("the tag {tag} is above {MAX_TAG}") })
}

pub(crate) fn length(what: &'static str, bytes: usize) -> Result<i64> {
    if bytes <= MAX_MESSAGE {
        return Ok(bytes as i64);
    }
    Err(MpiError::Argument { what, why: format!("{bytes} bytes are more than {MAX_MESSAGE}") })
}

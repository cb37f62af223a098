//! Messages in flight.
//!
//! ```text
//!  isend ──> Sending ── test ... done ──> wait gives the buffer back
//!  probe ──> Message ── receive(buffer) ─────────────────────> the bytes, in that buffer
//!               └────── start(buffer) ──> Receiving ── wait ──┘
//!  isend_kept, irecv_kept ──> Kept ── test ... done ──> the owner may free the memory
//! ```

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use syncline_signal::poll_schedule::PollSchedule;

use crate::communicator::{MAX_MESSAGE, length};
use crate::error::{MpiError, Result};
use crate::inner::{InFlight, Inner};

/// A slot of the shim's table of requests.
#[derive(Debug)]
pub(crate) struct Request {
    inner: Arc<Inner>,
    slot: c_int,
    state: State,
    _not_sync: PhantomData<Cell<()>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Pending,
    Done { received: usize, cancelled: bool },
    Failed,
}

impl Request {
    pub(crate) fn new(inner: &Arc<Inner>, slot: c_int) -> Request {
        Request { inner: Arc::clone(inner), slot, state: State::Pending, _not_sync: PhantomData }
    }

    /// Whether the request is done.
    fn test(&mut self) -> Result<bool> {
        let what = "finish a message";
        match self.state {
            State::Pending => (),
            State::Done { .. } => return Ok(true),
            State::Failed => {
                return Err(MpiError::Argument { what, why: "it has failed already".to_owned() });
            }
        }
        let (mut done, mut received, mut cancelled) = (0, 0, 0);
        let mut asked = false;
        let tested = self.inner.call(what, |calls| {
            asked = true;
            // SAFETY: the slot holds a request, as no test has found it done; the results are valid
            // for writes.
            unsafe { (calls.test)(self.slot, &raw mut done, &raw mut received, &raw mut cancelled) }
        });
        match tested {
            Ok(()) if done == 0 => return Ok(false),
            Ok(()) => {
                self.state = State::Done { received: received as usize, cancelled: cancelled != 0 }
            }
            // MPI has released the request. An error before MPI was asked leaves it as it was.
            Err(_) if asked => self.state = State::Failed,
            Err(_) => (),
        }
        tested.map(|()| true)
    }

    fn wait(&mut self) -> Result<()> {
        // A blocked call of MPI spins, which takes the core from the process that is waited for. So
        // nothing here blocks in one.
        let mut schedule = PollSchedule::new();
        while !self.test()? {
            schedule.pause();
        }
        Ok(())
    }

    fn cancel(&mut self) -> Result<()> {
        let State::Pending = self.state else { return Ok(()) };
        self.inner.call("cancel a message", |calls| {
            // SAFETY: the slot holds a request, as no test has found it done.
            unsafe { (calls.cancel)(self.slot) }
        })
    }

    fn received(&self) -> usize {
        match self.state {
            State::Done { received, .. } => received,
            _ => 0,
        }
    }

    fn cancelled(&self) -> bool {
        matches!(self.state, State::Done { cancelled: true, .. })
    }

    /// Gives up the request: no caller waits for it any more.
    fn abandon(&mut self, memory: Option<InFlight>) {
        match self.state {
            State::Pending => self.inner.adopt(self.slot, memory),
            State::Done { .. } => (),
            // MPI does not say whether it still accesses the memory.
            State::Failed => std::mem::forget(memory),
        }
        self.state = State::Done { received: 0, cancelled: false };
    }
}

/// A message that is being sent, with its buffer.
#[derive(Debug)]
pub struct Sending {
    request: Request,
    bytes: Vec<u8>,
}

impl Sending {
    pub(crate) fn new(request: Request, bytes: Vec<u8>) -> Sending {
        Sending { request, bytes }
    }

    /// Whether the message is sent: the buffer is free, and [`wait`](Self::wait) returns it at
    /// once.
    ///
    /// # Errors
    /// Those of any call. If MPI fails, the buffer is lost.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Blocks until the message is sent, and returns the buffer.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn wait(mut self) -> Result<Vec<u8>> {
        self.request.wait()?;
        Ok(std::mem::take(&mut self.bytes))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.request.abandon(Some(InFlight::Buffer(std::mem::take(&mut self.bytes))));
    }
}

/// A message that is being received, with its buffer.
#[derive(Debug)]
pub struct Receiving {
    request: Request,
    buffer: Vec<u8>,
}

impl Receiving {
    pub(crate) fn new(request: Request, buffer: Vec<u8>) -> Receiving {
        Receiving { request, buffer }
    }

    /// The slot of the request, which is not known to be done.
    pub(crate) fn slot(&self) -> c_int {
        self.request.slot
    }

    /// Whether the message has arrived: [`wait`](Self::wait) returns it at once.
    ///
    /// # Errors
    /// Those of any call. If MPI fails, the buffer is lost.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Blocks until the message has arrived, and returns the buffer, which holds the message and
    /// nothing else.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn wait(mut self) -> Result<Vec<u8>> {
        self.request.wait()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = self.request.received().min(buffer.capacity());
        // SAFETY: MPI has initialised the first `received` bytes, and was given the capacity as the
        // limit.
        unsafe { buffer.set_len(received) };
        Ok(buffer)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.request.abandon(Some(InFlight::Buffer(std::mem::take(&mut self.buffer))));
    }
}

/// A transfer from or to memory of the caller.
#[derive(Debug)]
pub struct Transfer {
    request: Request,
}

impl Transfer {
    pub(crate) fn new(request: Request) -> Transfer {
        Transfer { request }
    }

    /// Whether the transfer is done.
    ///
    /// # Errors
    /// Those of any call.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Blocks until the transfer is done. Returns the number of bytes received; 0 for a send.
    ///
    /// # Errors
    /// Those of any call.
    pub fn wait(&mut self) -> Result<usize> {
        self.request.wait()?;
        Ok(self.request.received())
    }

    /// Asks MPI to cancel the transfer. The caller must still wait for it; then
    /// [`was_cancelled`](Self::was_cancelled) gives the result.
    ///
    /// # Errors
    /// Those of any call.
    pub fn cancel(&mut self) -> Result<()> {
        self.request.cancel()
    }

    /// Whether the transfer was cancelled.
    #[must_use]
    pub fn was_cancelled(&self) -> bool {
        self.request.cancelled()
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.request.abandon(None);
    }
}

/// A transfer from or to memory that an owner keeps valid.
///
/// If it is dropped before it is done, the owner passes to the process's MPI, which drops it when a
/// later call finds the transfer done, and leaks it where MPI does not say so.
#[derive(Debug)]
pub struct Kept {
    request: Request,
    owner: Option<Arc<dyn Any + Send + Sync>>,
    receives: bool,
}

impl Kept {
    pub(crate) fn new(request: Request, owner: Arc<dyn Any + Send + Sync>, receives: bool) -> Kept {
        Kept { request, owner: Some(owner), receives }
    }

    /// Whether the transfer is done: MPI does not access the memory any more.
    ///
    /// # Errors
    /// Those of any call. If MPI fails, the owner is leaked when the transfer is dropped.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Returns the number of bytes received, once the transfer is done; 0 for a send.
    #[must_use]
    pub fn received(&self) -> usize {
        self.request.received()
    }

    /// Gives the transfer up. A receive that no message has reached yet is cancelled; any other
    /// transfer may still take place, and the owner keeps the memory valid until then.
    pub fn give_up(mut self) {
        if self.receives {
            // If it cannot be cancelled, the owner is kept.
            let _ = self.request.cancel();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.request.abandon(self.owner.take().map(InFlight::Owner));
    }
}

/// A message that has arrived and is not yet received. Dropping it receives and discards it.
#[derive(Debug)]
pub struct Message {
    /// `None` once the message is received. Until then, the slot holds a message and no request.
    request: Option<Request>,
    source: usize,
    len: usize,
}

impl Message {
    pub(crate) fn new(request: Request, source: usize, len: usize) -> Message {
        Message { request: Some(request), source, len }
    }

    /// Returns the rank of the sender.
    #[must_use]
    pub fn source(&self) -> usize {
        self.source
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Receives the message into a buffer, which grows as needed and then holds the message and
    /// nothing else.
    ///
    /// # Errors
    /// Those of any call. If MPI fails, the buffer is lost.
    pub fn receive(self, buffer: Vec<u8>) -> Result<Vec<u8>> {
        self.start(buffer)?.wait()
    }

    /// Begins to receive the message into a buffer, which grows as needed.
    ///
    /// # Errors
    /// Those of any call.
    pub fn start(mut self, buffer: Vec<u8>) -> Result<Receiving> {
        self.begin(buffer)
    }

    fn begin(&mut self, mut buffer: Vec<u8>) -> Result<Receiving> {
        buffer.clear();
        buffer.reserve(self.len);
        let (into, room) = (buffer.as_mut_ptr(), buffer.capacity().min(MAX_MESSAGE));
        // SAFETY: `Receiving` owns the buffer, does not move or use it, and keeps it until the
        // request is done.
        let request = unsafe { self.begin_into(into, room) }?;
        Ok(Receiving::new(request, buffer))
    }

    /// Begins to receive the message into memory of the caller.
    ///
    /// # Errors
    /// Those of any call. If the message is longer than `room`, the transfer has the error.
    ///
    /// # Safety
    /// `into` must be valid for writes of `room` bytes, and no thread may access them, until the
    /// transfer is done, whether it is dropped or not.
    pub unsafe fn start_into(mut self, into: *mut u8, room: usize) -> Result<Transfer> {
        // SAFETY: the caller guarantees that the memory stays valid and unused (see `# Safety`).
        unsafe { self.begin_into(into, room) }.map(Transfer::new)
    }

    /// # Safety
    /// `into` must be valid for writes of `room` bytes, and unused, until the request is done.
    unsafe fn begin_into(&mut self, into: *mut u8, room: usize) -> Result<Request> {
        let what = "receive a message";
        let room = length(what, room)?;
        let taken = || MpiError::Argument { what, why: "it was received before".to_owned() };
        let request = self.request.take().ok_or_else(taken)?;
        request.inner.call(what, |calls| {
            // SAFETY: the slot holds a message, as `request` was not taken before; the caller
            // guarantees `into` (see `# Safety`).
            unsafe { (calls.imrecv)(request.slot, into.cast(), room) }
        })?;
        Ok(request)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.request.is_some() {
            // The buffer is freed when the bytes have arrived.
            let _ = self.begin(Vec::new());
        }
    }
}

//! Messages under way.
//!
//! ```text
//!  isend ──> Sending ── test ... done ──> wait gives the buffer back
//!  probe ──> Message ── receive(buffer) ─────────────────────> the bytes, in that buffer
//!               └────── start(buffer) ──> Receiving ── wait ──┘
//! ```

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::communicator::{MAX_MESSAGE, length};
use crate::error::{MpiError, Result};
use crate::inner::Inner;

/// A slot of the shim's table.
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

    /// Whether it is done.
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
            // SAFETY: the slot is a request, as nobody has seen it done; the results have room.
            unsafe { (calls.test)(self.slot, &raw mut done, &raw mut received, &raw mut cancelled) }
        });
        match tested {
            Ok(()) if done == 0 => return Ok(false),
            Ok(()) => {
                self.state = State::Done { received: received as usize, cancelled: cancelled != 0 }
            }
            // MPI has given up the request; an error of ours, before MPI was asked, leaves it.
            Err(_) if asked => self.state = State::Failed,
            Err(_) => (),
        }
        tested.map(|()| true)
    }

    fn wait(&mut self) -> Result<()> {
        let mut backoff = Backoff::default();
        while !self.test()? {
            backoff.pause();
        }
        Ok(())
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

    /// Nobody waits for it any more.
    fn abandon(&mut self, buffer: Option<Vec<u8>>) {
        match self.state {
            State::Pending => self.inner.adopt(self.slot, buffer),
            State::Done { .. } => (),
            // MPI does not say whether it still looks at it.
            State::Failed => std::mem::forget(buffer),
        }
        self.state = State::Done { received: 0, cancelled: false };
    }
}

/// A message that is being sent, and its buffer.
#[derive(Debug)]
pub struct Sending {
    request: Request,
    bytes: Vec<u8>,
}

impl Sending {
    pub(crate) fn new(request: Request, bytes: Vec<u8>) -> Sending {
        Sending { request, bytes }
    }

    /// Whether it is done: the buffer is free, and [`wait`](Self::wait) gives it back at once.
    ///
    /// # Errors
    /// Those of any call. The buffer is lost when MPI fails.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Waits until it is done, and gives the buffer back.
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
        self.request.abandon(Some(std::mem::take(&mut self.bytes)));
    }
}

/// A message that is being received, and its buffer.
#[derive(Debug)]
pub struct Receiving {
    request: Request,
    buffer: Vec<u8>,
}

impl Receiving {
    pub(crate) fn new(request: Request, buffer: Vec<u8>) -> Receiving {
        Receiving { request, buffer }
    }

    /// Whether it is done: [`wait`](Self::wait) gives the message at once.
    ///
    /// # Errors
    /// Those of any call. The buffer is lost when MPI fails.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Waits until it is done; the buffer then holds the message and nothing else.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn wait(mut self) -> Result<Vec<u8>> {
        self.request.wait()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = self.request.received().min(buffer.capacity());
        // SAFETY: MPI has written so many bytes from the start, within the capacity that it was told.
        unsafe { buffer.set_len(received) };
        Ok(buffer)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.request.abandon(Some(std::mem::take(&mut self.buffer)));
    }
}

/// A transfer from or to memory that is somebody else's.
#[derive(Debug)]
pub struct Transfer {
    request: Request,
}

impl Transfer {
    pub(crate) fn new(request: Request) -> Transfer {
        Transfer { request }
    }

    /// Whether it is done.
    ///
    /// # Errors
    /// Those of any call.
    pub fn test(&mut self) -> Result<bool> {
        self.request.test()
    }

    /// Waits until it is done; tells how many bytes were received (of what was sent, nothing: 0).
    ///
    /// # Errors
    /// Those of any call.
    pub fn wait(&mut self) -> Result<usize> {
        self.request.wait()?;
        Ok(self.request.received())
    }

    /// Asks MPI to cancel it. It must still be waited for; [`was_cancelled`](Self::was_cancelled) then tells.
    ///
    /// # Errors
    /// Those of any call.
    pub fn cancel(&mut self) -> Result<()> {
        match self.request.state {
            // SAFETY: the slot is a request, as nobody has seen it done.
            State::Pending => self
                .request
                .inner
                .call("cancel a message", |calls| unsafe { (calls.cancel)(self.request.slot) }),
            _ => Ok(()),
        }
    }

    /// Whether it is done without having taken place.
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

/// A message that has come, and is to be received. Dropped, it is received and forgotten.
#[derive(Debug)]
pub struct Message {
    /// Until it is received. Its slot is no request yet.
    request: Option<Request>,
    source: usize,
    len: usize,
}

impl Message {
    pub(crate) fn new(request: Request, source: usize, len: usize) -> Message {
        Message { request: Some(request), source, len }
    }

    /// Who sent it.
    #[must_use]
    pub fn source(&self) -> usize {
        self.source
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Receives it into a buffer, which grows if need be and then holds the message and nothing else.
    ///
    /// # Errors
    /// Those of any call. The buffer is lost when MPI fails.
    pub fn receive(self, buffer: Vec<u8>) -> Result<Vec<u8>> {
        self.start(buffer)?.wait()
    }

    /// Begins to receive it into a buffer, which grows if need be.
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
        // SAFETY: the room stays where it is, in the hands of `Receiving`, until it is done.
        let request = unsafe { self.begin_into(into, room) }?;
        Ok(Receiving::new(request, buffer))
    }

    /// Begins to receive it right into memory.
    ///
    /// # Errors
    /// Those of any call; that the message is longer is an error of the transfer.
    ///
    /// # Safety
    /// The memory must stay, and nobody use it, until the transfer is done, dropped or not.
    pub unsafe fn start_into(mut self, into: *mut u8, room: usize) -> Result<Transfer> {
        // SAFETY: the caller's promise.
        unsafe { self.begin_into(into, room) }.map(Transfer::new)
    }

    /// # Safety
    /// The room must stay, used by nobody, until the request is done.
    unsafe fn begin_into(&mut self, into: *mut u8, room: usize) -> Result<Request> {
        let what = "receive a message";
        let room = length(what, room)?;
        let taken = || MpiError::Argument { what, why: "it was received before".to_owned() };
        let request = self.request.take().ok_or_else(taken)?;
        request.inner.call(what, |calls| {
            // SAFETY: `request.slot` holds a matched message, as it was not received before; the
            // caller guarantees that `into` has room for it (see `# Safety`).
            unsafe { (calls.imrecv)(request.slot, into.cast(), room) }
        })?;
        Ok(request)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.request.is_some() {
            // The bytes go to a buffer that goes when they have come.
            let _ = self.begin(Vec::new());
        }
    }
}

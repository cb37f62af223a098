//! The interface of an endpoint for services: how they receive, and how they send.

use std::fmt;

use super::{Landing, Place, Way};
use crate::coalesce::{self, Coalescer};
use crate::failure_detector::FailureDetector;
use crate::long::{self, LongMessages};
use crate::transport::Transport;

/// A receiver of messages of one kind.
pub trait Service: Send + Sync + 'static {
    /// Handles a message from a process. `body` is the part that was written behind
    /// [`Out::message`].
    fn receive(&self, from: usize, body: &[u8], out: &mut Out<'_>);

    /// Called when no more messages are there for the moment, or many have been received. Called
    /// often.
    fn idle(&self, _out: &mut Out<'_>) {}

    /// Names the place for a long message of `len` bytes from another process. `header` is the part
    /// that was written behind [`Out::message`]. Called in the order of that process's messages;
    /// the bytes come later, and [`landed`](Self::landed) reports them with the token.
    ///
    /// The place must have exactly `len` bytes. A service without a place for them returns a buffer
    /// ([`Place::owned`]), as the default does.
    fn receive_long(
        &self,
        _from: usize,
        _header: &[u8],
        len: usize,
        _out: &mut Out<'_>,
    ) -> Landing {
        Landing { token: 0, place: Place::owned(vec![0; len]) }
    }

    /// The bytes of a long message are in the place that [`receive_long`](Self::receive_long) has
    /// named. Messages of one process may land in another order than they were announced in.
    fn landed(&self, _from: usize, _token: u64, _place: Place, _out: &mut Out<'_>) {}

    /// A long message has left its place, which may be changed from here on. It need not have
    /// landed.
    fn sent(&self, _to: usize, _token: u64, _place: Place, _out: &mut Out<'_>) {}

    /// A long message to a process, or from it, is given up, as the process has died. The network
    /// may still access the place: see [`endpoint`](super).
    fn given_up(&self, _process: usize, _token: u64, _way: Way, _out: &mut Out<'_>) {}
}

/// Access to sending for one service, by the thread that holds the endpoint's lock.
pub struct Out<'a> {
    pub(super) transport: &'a mut dyn Transport,
    pub(super) detector: &'a mut FailureDetector,
    pub(super) coalescer: &'a mut Coalescer,
    pub(super) long: &'a mut LongMessages,
    pub(super) service: u32,
}

impl Out<'_> {
    /// Starts a message for the same service of another process. The caller appends its body.
    #[must_use]
    pub fn message(&mut self) -> Vec<u8> {
        coalesce::begin(self.transport, self.service)
    }

    /// Sends a message that [`message`](Self::message) started, coalesced with others to the same
    /// process. A message to a dead process is dropped.
    pub fn send(&mut self, to: usize, message: Vec<u8>) {
        debug_assert!(message.len() >= coalesce::HEADER);
        self.coalescer.add(self.transport, self.detector, to, message);
    }

    /// Sends a long message to another process: `message`, which [`message`](Self::message)
    /// started, is its header, and `place` has its bytes, which must not change until
    /// [`Service::sent`] reports the token. A message to a dead process is given up.
    ///
    /// # Panics
    /// If `to` is this process.
    pub fn send_long(&mut self, to: usize, mut message: Vec<u8>, token: u64, place: Place) {
        assert_ne!(to, self.transport.process(), "a long message goes to another process");
        long::announce(&mut message, place.len());
        self.send(to, message);
        self.long.send(to, self.service, token, place);
    }

    /// Returns the part that was written behind [`message`](Self::message).
    #[must_use]
    pub fn body<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        message.get(coalesce::HEADER..)
    }
}

impl fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out")
            .field("wire", &self.transport)
            .field("service", &self.service)
            .finish()
    }
}

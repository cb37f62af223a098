//! The interface to the network: a transport carries messages between the processes of a team that
//! share no memory.
//!
//! # Contract
//! ```text
//!   process 0 ── send(2, m1), send(2, m2) ──> m1, m2 ──────┐ in this order
//!   process 1 ── send(2, n1) ──────────────────> n1 ───────┴──> process 2: receive() -> m1, n1, m2
//! ```
//! * No message is lost, and messages of one sender to one receiver arrive in the order in which
//!   they were sent. Messages of different senders have no order.
//! * No call blocks. A message that cannot leave yet stays with the transport; the senders bound
//!   their number by waiting for answers.
//! * One thread at a time drives a transport, different threads in turn: an
//!   [`Endpoint`](crate::endpoint::Endpoint) holds the lock.
//! * Long messages go from and to their [places](place), as *pieces* on *channels*. Pieces and
//!   messages are apart: neither waits for the other. The pieces that a process sends to another
//!   one on a channel go into the places of the receives that the other has begun for that channel,
//!   in the order in which each side has begun its own. `long` announces them by messages.
//! * Buffers are reused: [`buffer`](Transport::buffer) returns a used one, and the receiver of a
//!   message gives its buffer back with [`recycle`](Transport::recycle).
//!
//! [`in_memory`] is a transport within a process, for tests and experiments; MPI is the transport
//! between machines.

pub mod in_memory;
pub(crate) mod marked;
pub(crate) mod mpi;
pub mod place;

use std::fmt;

use self::place::Piece;

/// One process's end of the network that connects all processes.
pub trait Transport: Send + fmt::Debug {
    /// Returns the number of this process.
    fn process(&self) -> usize;

    /// Returns the number of processes.
    fn processes(&self) -> usize;

    /// Returns the name of the transport for messages to users: `MPI (Open MPI 4.1.4)`.
    fn describe(&self) -> String;

    /// Returns an empty buffer for a message.
    fn buffer(&mut self) -> Vec<u8>;

    /// Takes a buffer back for reuse.
    fn recycle(&mut self, buffer: Vec<u8>);

    /// Sends a message to another process.
    ///
    /// # Errors
    /// [`TransportError::Gone`] if that process is known to be gone; the message is dropped.
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError>;

    /// Returns the next message that has arrived, with its sender. Also continues sends that have
    /// not completed.
    ///
    /// # Errors
    /// [`TransportError::Gone`] if another process is found to be gone: once for each process.
    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError>;

    /// Returns the number of messages that have not left yet. Pieces do not count.
    fn unsent(&self) -> usize;

    /// Returns the length of the pieces that leave to a process at once, without an answer of it;
    /// `None` if short pieces do not arrive sooner. Both ends return the same.
    fn eager(&self, process: usize) -> Option<usize>;

    /// Begins to send a piece on a channel. Its bytes must not change until it is done.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_piece(&mut self, to: usize, channel: u16, piece: Piece) -> Result<(), TransportError>;

    /// Begins to receive a piece, which must have as many bytes as the one that is sent.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn receive_piece(
        &mut self,
        from: usize,
        channel: u16,
        piece: Piece,
    ) -> Result<(), TransportError>;

    /// Returns the key of the next piece that is done: sent, so that its bytes may change, or
    /// received.
    ///
    /// # Errors
    /// As [`receive`](Self::receive): the piece that has failed is given up.
    fn piece_done(&mut self) -> Result<Option<u64>, TransportError>;

    /// Gives up all pieces from and to a process that is gone: they are not reported as done. A
    /// piece that the network may still access keeps its owner until the network has finished.
    fn give_up(&mut self, process: usize);
}

/// The reason why a transport could not send or receive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The other process is gone.
    #[error("process {process} is gone")]
    Gone {
        /// Its number.
        process: usize,
    },
    /// The transport itself no longer works.
    #[error("{transport}: {what}: {why}")]
    Broken {
        /// The name of the transport.
        transport: String,
        /// The operation that failed.
        what: &'static str,
        /// The answer to it.
        why: String,
    },
}

//! What carries messages between the processes of a team that have no memory in common.
//!
//! # Contract
//! ```text
//!   process 0 ── send(2, m1), send(2, m2) ──> m1, m2 ──────┐ in this order
//!   process 1 ── send(2, n1) ──────────────────> n1 ───────┴──> process 2: receive() -> m1, n1, m2
//! ```
//! * Nothing is lost, and messages of one sender to one receiver arrive in the order in which they were sent. There is no
//!   order between those of different senders.
//! * Nothing blocks. A message that cannot leave yet stays with the wire; how many there can be is for those who send to
//!   bound, by waiting for answers.
//! * A wire is driven by one thread at a time, by different ones in turn: an [`Endpoint`](crate::endpoint::Endpoint) has the lock.
//! * Buffers go round: [`buffer`](Transport::buffer) gives one that was used before, and whoever has read a message gives it back.
//!
//! [`in_memory`] is a wire within a process, for tests and to try things; MPI is the wire between machines.

pub mod in_memory;
pub(crate) mod mpi;

use std::fmt;

/// One process's end of what connects all.
pub trait Transport: Send + fmt::Debug {
    /// The number of this process.
    fn process(&self) -> usize;

    /// How many processes there are.
    fn processes(&self) -> usize;

    /// What it is, in words, for people: `MPI (Open MPI 4.1.4)`.
    fn describe(&self) -> String;

    /// An empty buffer for a message.
    fn buffer(&mut self) -> Vec<u8>;

    /// Takes a buffer back.
    fn recycle(&mut self, buffer: Vec<u8>);

    /// Sends a message to another process.
    ///
    /// # Errors
    /// [`TransportError::Gone`] if that process is known to be gone; the message is dropped.
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError>;

    /// The next message that has come, and who sent it. Also goes on with what has not left yet.
    ///
    /// # Errors
    /// [`TransportError::Gone`] if another process is found to be gone: once for each.
    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError>;

    /// How many messages have not left yet.
    fn unsent(&self) -> usize;
}

/// Why a wire could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The other process is gone.
    #[error("process {process} is gone")]
    Gone {
        /// Its number.
        process: usize,
    },
    /// The wire itself does not work any more.
    #[error("{transport}: {what}: {why}")]
    Broken {
        /// Which wire.
        transport: String,
        /// What was tried.
        what: &'static str,
        /// What it answered.
        why: String,
    },
}

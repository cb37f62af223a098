//! Messages between the members of a team on several hosts.
//!
//! # Contract
//! Every member has a mailbox. A message that is sent to it arrives there exactly once, in order
//! for each sender; the member takes out the next message, or waits. A message is complete, however
//! long it is, and occupies memory of the receiver's process until it is taken out: the sender must
//! limit the total.
//!
//! ```text
//!   member r ── (to, from, bytes) ──> endpoint of the process ──> mailbox of `to` ──> member `to`
//! ```
//! # Costs
//! A message of the team's transport, and a copy into and out of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use syncline_fabric::Member;
use syncline_fabric::endpoint::{Endpoint, Out, Service};
use syncline_process::Generation;
use syncline_sync::Fault;

use crate::error::FarmError;
use crate::vpid::Vpid;

/// A received message, with the rank of its sender.
type Letter = (usize, Vec<u8>);

/// The mailboxes of the members of a process.
#[derive(Debug)]
struct Boxes {
    /// The rank of the first member.
    first: usize,
    boxes: Vec<Mutex<VecDeque<Letter>>>,
}

/// The number of bytes before the payload of a message: its receiver and its sender.
const HEAD: usize = 8;

impl Service for Boxes {
    fn receive(&self, _from: usize, body: &[u8], _out: &mut Out<'_>) {
        let Some((head, bytes)) = body.split_at_checked(HEAD) else { return };
        let number = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let (to, from) = (number(0), number(4));
        if let Some(of) = to.checked_sub(self.first).and_then(|at| self.boxes.get(at)) {
            of.lock().unwrap_or_else(PoisonError::into_inner).push_back((from, bytes.to_vec()));
        }
    }
}

/// A member's handle to send and receive.
#[derive(Debug)]
pub(crate) struct Mail {
    endpoint: Arc<Endpoint>,
    service: u32,
    boxes: Arc<Boxes>,
    rank: usize,
    threads: usize,
    /// The process of the member.
    born: Generation,
}

impl Mail {
    /// Creates the mailbox of a member; `None` if its team is on one host.
    ///
    /// # Collective
    /// All members call it.
    pub(crate) fn new(member: &mut Member) -> Option<Mail> {
        let (rank, threads) = (member.rank(), member.threads());
        let first = rank / threads * threads;
        let boxes = || Boxes { first, boxes: (0..threads).map(|_| Mutex::default()).collect() };
        let (service, boxes) = member.attach(boxes)?;
        let endpoint = Arc::clone(member.endpoint()?);
        Some(Mail { endpoint, service, boxes, rank, threads, born: Generation::current() })
    }

    /// Checks that this process is the member's, and not a child made by `fork`.
    pub(crate) fn check_not_forked(&self) -> Result<(), FarmError> {
        if self.born.is_current() { Ok(()) } else { Err(FarmError::Forked { vpid: self.vpid() }) }
    }

    pub(crate) fn vpid(&self) -> Vpid {
        Vpid::new(self.rank, 0)
    }

    /// Sends bytes. Nothing is sent to a dead member.
    pub(crate) fn send(&self, to: Vpid, write: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let (to, from) = (to.place(), self.rank);
        self.endpoint.enter(self.service, |out| {
            let mut message = out.message();
            message.extend_from_slice(&(to as u32).to_le_bytes());
            message.extend_from_slice(&(from as u32).to_le_bytes());
            out.send(to / self.threads, write(message));
        });
    }

    fn own(&self) -> &Mutex<VecDeque<Letter>> {
        &self.boxes.boxes[self.rank - self.boxes.first]
    }

    /// Returns the next message, if there is one.
    pub(crate) fn try_recv(&self) -> Option<(Vpid, Vec<u8>)> {
        let mut letters = self.own().lock().unwrap_or_else(PoisonError::into_inner);
        letters.pop_front().map(|(from, bytes)| (Vpid::new(from, 0), bytes))
    }

    /// Waits for the next message; `None` if the deadline passes first.
    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Result<Option<(Vpid, Vec<u8>)>, Fault> {
        let mut letter = None;
        let waited = self.endpoint.wait(deadline, || {
            letter = self.try_recv();
            letter.is_some()
        });
        match waited {
            Ok(()) => Ok(letter),
            Err(Fault::TimedOut) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

//! A queue that the server of the owner's host keeps.
//!
//! # Contract
//! See [`lock`](super). A member asks with a request, whose answer is the grant of the mutex. It
//! unlocks with another request, upon which the server answers the next member in the queue. In the
//! *hybrid* kind, the server takes a ticket (see `ticket`) for each request. So members of the
//! owner's host, which take their tickets in memory, and members of other hosts wait in one order.
//!
//! # Costs
//! Two messages to lock, one to unlock; two to hand over.
//!
//! # Source
//! ARMCI, as in Saify's thesis, sections 5.1.1 and 5.1.3. For comparison.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::poison::Wanted;
use super::ticket::SERVED;
use crate::engine::REFUSALS;
use crate::error::RmaError;
use crate::memory::{Global, Table};
use crate::message::RequestKind;
use crate::rma::{Rma, Syncs};

/// A process that asks, and the ticket of its request.
type Asking = (usize, u64);
/// Allocation, owner, first word.
type Mutex = (u32, u32, u64);

/// The mutexes whose queues a server keeps.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// By mutex: the holder, followed by the waiters.
    queues: HashMap<Mutex, VecDeque<Asking>>,
    /// The waiters for hybrid mutexes, and the tickets that they wait for.
    waiting: Vec<(Tickets, u64, Asking)>,
}

/// The words of a hybrid mutex.
#[derive(Clone, Debug)]
pub(crate) struct Tickets {
    table: Arc<Table>,
    rank: usize,
    at: usize,
}

impl Tickets {
    /// Returns the words of the mutex at `at` in the part of a member of this host.
    pub(crate) fn of(table: &Arc<Table>, rank: usize, at: u64) -> Result<Tickets, &'static str> {
        let part =
            table.parts.get(rank).filter(|part| !part.address.is_null()).ok_or(REFUSALS[2])?;
        let at = usize::try_from(at).map_err(|_| REFUSALS[3])?;
        let end = at.checked_add(SERVED + 1).and_then(|words| words.checked_mul(8));
        match end {
            Some(end) if end <= part.bytes => Ok(Tickets { table: Arc::clone(table), rank, at }),
            _ => Err(REFUSALS[3]),
        }
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        let address = self.table.parts[self.rank].address;
        // SAFETY: the word is inside the part, as `of` has checked; it is aligned, as the part and
        // `at` are. The table keeps the part alive for as long as `self`. Parts are shared memory,
        // whose words are changed only by read-modify-writes.
        unsafe { AtomicU64::from_ptr(address.add(8 * (self.at + number)).cast()) }
    }

    fn served(&self) -> u64 {
        // Acquire: pairs with the Release of the unlock.
        self.word(SERVED).load(Ordering::Acquire)
    }
}

impl Locks {
    /// Enqueues a request for a mutex. Returns a request that now holds its mutex, if there is one.
    pub(crate) fn ask(
        &mut self,
        mutex: Mutex,
        tickets: Option<Tickets>,
        asking: Asking,
    ) -> Option<Asking> {
        if let Some(tickets) = tickets {
            let number = tickets.word(0).fetch_add(1, Ordering::Relaxed);
            self.waiting.push((tickets, number, asking));
            return self.served();
        }
        let queue = self.queues.entry(mutex).or_default();
        queue.push_back(asking);
        (queue.len() == 1).then_some(asking)
    }

    /// Unlocks a mutex. Returns the request that now holds it, if there is one.
    pub(crate) fn let_go(&mut self, mutex: Mutex, tickets: Option<Tickets>) -> Option<Asking> {
        if let Some(tickets) = tickets {
            // Release: pairs with the Acquire in `served`, and with the poll in `ticket`.
            tickets.word(SERVED).fetch_add(1, Ordering::Release);
            return self.served();
        }
        let queue = self.queues.get_mut(&mutex)?;
        queue.pop_front();
        queue.front().copied()
    }

    /// Removes and returns a waiter whose ticket is served.
    pub(crate) fn served(&mut self) -> Option<Asking> {
        let at =
            self.waiting.iter().position(|(tickets, number, _)| tickets.served() == *number)?;
        Some(self.waiting.swap_remove(at).2)
    }
}

pub(crate) fn lock(
    rma: &mut Rma,
    words: &Global<u64>,
    at: usize,
    hybrid: bool,
    wanted: &Wanted<'_>,
    deadline: Option<Instant>,
) -> Result<u64, RmaError> {
    let rank = wanted.rank;
    let Syncs::Hosts(_) = &rma.sync else {
        // On one host there is no server: all members access the memory.
        return super::ticket::lock(rma, words, at, wanted, deadline);
    };
    if deadline.is_some() {
        if hybrid {
            // The tickets of a hybrid mutex are words in memory, too.
            return super::ticket::lock(rma, words, at, wanted, deadline);
        }
        let why = "a mutex that its server keeps has no deadlines between hosts".to_owned();
        return Err(RmaError::Shape { why });
    }
    let server = rma.server_of(rank);
    let far = rma.far();
    let ticket =
        far.ask_about(RequestKind::Lock, server, words.table.id, rank, [at as u64, hybrid.into()])?;
    far.answer_unless(ticket, || wanted.holds.check(wanted.mutex)).map(|_| 0)
}

pub(crate) fn unlock(
    rma: &mut Rma,
    words: &Global<u64>,
    rank: usize,
    at: usize,
    hybrid: bool,
) -> Result<(), RmaError> {
    let Syncs::Hosts(_) = &rma.sync else {
        return super::ticket::unlock(rma, words, rank, at, 0);
    };
    let server = rma.server_of(rank);
    rma.far().tell_about(
        RequestKind::Unlock,
        server,
        words.table.id,
        rank,
        [at as u64, hybrid.into()],
    )
}

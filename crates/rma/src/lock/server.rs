//! A queue that the server of the owner's host keeps.
//!
//! # Contract
//! See [`lock`](super). Who asks sends a request, whose answer is the mutex; who lets go sends another, and the server
//! answers the next one in its queue. As *hybrid*, the server takes a ticket (see `ticket`) for each request, so that members
//! of the owner's host, which take theirs in memory, and those of others wait in one order.
//!
//! # Costs
//! Two messages to get it, one to let go; two from one who lets go to the next.
//!
//! # Source
//! ARMCI, as in Saify's thesis, sections 5.1.1 and 5.1.3. Here to compare with.

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

/// A process that asks, and its ticket for the answer.
type Asking = (usize, u64);
/// Allocation, owner, first word.
type Mutex = (u32, u32, u64);

/// The mutexes that a server keeps the queues of.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Who holds each, and who waits for it.
    queues: HashMap<Mutex, VecDeque<Asking>>,
    /// Of hybrids, who waits for which number.
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
    /// The words of the mutex at `at` of a member of this host.
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
        // SAFETY: `of` has seen that the words are inside the part, which is shared memory that the table keeps; parts
        // are aligned.
        unsafe { AtomicU64::from_ptr(address.add(8 * (self.at + number)).cast()) }
    }

    fn served(&self) -> u64 {
        // Acquire: pairs with the release of who lets go.
        self.word(SERVED).load(Ordering::Acquire)
    }
}

impl Locks {
    /// Somebody asks for a mutex; who has it now, if that is new.
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

    /// Somebody lets a mutex go; who has it now.
    pub(crate) fn let_go(&mut self, mutex: Mutex, tickets: Option<Tickets>) -> Option<Asking> {
        if let Some(tickets) = tickets {
            // Release: pairs with the Acquire in `served`, here and in `ticket`.
            tickets.word(SERVED).fetch_add(1, Ordering::Release);
            return self.served();
        }
        let queue = self.queues.get_mut(&mutex)?;
        queue.pop_front();
        queue.front().copied()
    }

    /// Somebody whose number is served, by whomever.
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
        // There is no server: the memory is everybody's.
        return super::ticket::lock(rma, words, at, wanted, deadline);
    };
    if deadline.is_some() {
        if hybrid {
            // The server's tickets are words in memory, too.
            return super::ticket::lock(rma, words, at, wanted, deadline);
        }
        let why = "a mutex whose queue a server keeps has no deadlines between hosts".to_owned();
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

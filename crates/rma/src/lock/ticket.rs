//! Ticket locks: a ticket for each member that asks, and a word with the ticket that is served.
//!
//! # Contract
//! See [`lock`](super). The first word of the mutex is the next ticket. The word at `SERVED`, on
//! the next cache line, is the ticket that is served. A member that has taken a ticket polls that
//! word until it is its own ticket, with fetch-adds of 0: on the owner's host on the word itself,
//! from other hosts by messages, one poll after the other.
//!
//! # Costs
//! Two fetch-adds to lock if the mutex is free, one to unlock. All waiters poll one word: on a host
//! its cache line moves with each poll; from other hosts each poll takes two messages. A waiter
//! yields after 16 polls, and sleeps, up to 100 us, if no ticket has been served for 800.
//!
//! # Source
//! Mellor-Crummey and Scott (1991); ARMCI for locks of the own host, as in Saify's thesis, section
//! 5.1.2. For comparison.

use std::time::Instant;

use syncline_signal::poll_schedule::PollSchedule;
use syncline_sync::Fault;

use super::poison::Wanted;
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::Rma;

/// The offset of the word that is served, from the mutex's first word.
pub(crate) const SERVED: usize = 8;

pub(crate) fn lock(
    rma: &mut Rma,
    words: &Global<u64>,
    at: usize,
    wanted: &Wanted<'_>,
    deadline: Option<Instant>,
) -> Result<u64, RmaError> {
    let rank = wanted.rank;
    let mut ticket = match deadline {
        None => Some(rma.fetch_add(words, rank, at, 1)?),
        Some(_) => None,
    };
    let (mut looks, mut poll, mut before) = (0_u32, PollSchedule::driving(), None);
    loop {
        // Acquire: on the owner's host the fetch-add acquires the Release of the unlock; elsewhere
        // its answer is a received message.
        let served = rma.fetch_add(words, rank, at + SERVED, 0)?;
        // With a deadline, no ticket is taken in advance, as others would wait for it: the member
        // takes one only if it is served at once.
        if ticket.is_none() && rma.compare_swap(words, rank, at, served, served + 1)? == served {
            ticket = Some(served);
        }
        if ticket == Some(served) {
            return Ok(served);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            wanted.lost()?;
            return Err(Fault::TimedOut.into());
        }
        if before.replace(served).is_some_and(|before| before != served) {
            poll.begin_again();
        }
        looks += 1;
        if looks.is_multiple_of(16) {
            poll.pause();
            wanted.lost()?;
        }
    }
}

pub(crate) fn unlock(
    rma: &mut Rma,
    words: &Global<u64>,
    rank: usize,
    at: usize,
    _ticket: u64,
) -> Result<(), RmaError> {
    rma.fetch_add(words, rank, at + SERVED, 1).map(|_| ())
}

//! Tickets: a number for each who asks, and the number of who may go on.
//!
//! # Contract
//! See [`lock`](super). The word of the mutex is the next ticket; the word after it is the ticket that is served. Who has
//! asked looks at that one until it is its own: on the owner's host at the word, from other hosts by gets, one after the
//! other.
//!
//! # Costs
//! A fetch-add and a look to ask; a put to let go. All who wait look at one word: on a host each release sends its line to
//! all of them; from other hosts each look is two messages.
//!
//! # Source
//! Mellor-Crummey and Scott (1991); ARMCI for locks of the own host, as in Saify's thesis, section 5.1.2. Here to compare
//! with.

use std::time::Instant;

use syncline_sync::Fault;

use super::poison::Wanted;
use crate::error::RmaError;
use crate::memory::Global;
use crate::rma::Rma;

/// The word that is served, after the mutex's own.
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
    let mut looks = 0_u32;
    loop {
        // Acquire: a read-modify-write that changes nothing, on the own host; elsewhere an answer, which is received.
        let served = rma.fetch_add(words, rank, at + SERVED, 0)?;
        // With a deadline there is no ticket that others would wait for: it is taken when it is
        // served at once.
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
        looks += 1;
        if looks.is_multiple_of(16) {
            std::thread::yield_now();
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

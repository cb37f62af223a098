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
) -> Result<u64, RmaError> {
    let rank = wanted.rank;
    let ticket = rma.fetch_add(words, rank, at, 1)?;
    let mut looks = 0_u32;
    loop {
        // Acquire: a read-modify-write that changes nothing, on the own host; elsewhere an answer, which is received.
        if rma.fetch_add(words, rank, at + SERVED, 0)? == ticket {
            return Ok(ticket);
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

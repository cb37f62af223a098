//! The counter barrier with sense reversal, its count in a critical section.
//!
//! # Contract
//! The barrier has a fixed number of members, each with its own [`Member`]. No member leaves an
//! episode before all have arrived, and all operations before an arrival happen before every
//! departure.
//!
//! ```text
//! arrive:  own sense = !own sense; in the critical section: count += 1
//! last:    count = 0; sense = own sense
//! others:  wait until sense == own sense
//! ```
//!
//! # Costs
//! With n members: n critical sections, one after the other, and one write that the reads of all
//! others wait for. Each section moves the line of the lock, which also holds the count; then the
//! sense's line moves to every member.
//!
//! # Source
//! A. Kadur, D. Kochar, "Project writeup" (barriers for OpenMP, MPI and both): "This section is
//! executed once per barrier by every thread. The threads share a global sense and counter and each
//! have a private sense." There the section is OpenMP's; here it is a [`TestAndTestAndSet`], and a
//! waiting thread yields after a number of pauses.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Guarded, Padded, Patience, TestAndTestAndSet};

/// A counter barrier with sense reversal.
#[derive(Debug)]
pub struct CounterBarrier {
    members: usize,
    /// The number of members that have arrived, with the lock of the critical section.
    count: Padded<Guarded<TestAndTestAndSet, usize>>,
    /// The sense of the last episode that ended.
    sense: Padded<AtomicBool>,
}

/// A member of a barrier.
#[derive(Debug)]
pub struct Member<'b> {
    barrier: &'b CounterBarrier,
    /// The sense of its last episode.
    sense: bool,
}

impl CounterBarrier {
    /// Creates a barrier of `members` members.
    ///
    /// # Panics
    /// If `members` is 0.
    #[must_use]
    pub fn new(members: usize) -> Self {
        assert!(members > 0, "a barrier has members");
        Self {
            members,
            count: Padded(Guarded::new(TestAndTestAndSet::new(), 0)),
            sense: Padded::default(),
        }
    }

    /// Returns a member. Must be called once for each member, before any of them waits.
    #[must_use]
    pub fn member(&self) -> Member<'_> {
        // Relaxed: no episode has ended yet.
        Member { barrier: self, sense: self.sense.0.load(Ordering::Relaxed) }
    }
}

impl Member<'_> {
    /// Arrives, and blocks until all other members have arrived.
    pub fn wait(&mut self) {
        let CounterBarrier { members, count, sense } = self.barrier;
        self.sense = !self.sense;
        let last = count.0.with(|count| {
            *count = (*count + 1) % members;
            *count == 0
        });
        if last {
            // Release: pairs with the Acquire below. The critical sections pass on what the other
            // members did before.
            sense.0.store(self.sense, Ordering::Release);
            return;
        }
        let mut patience = Patience::default();
        // Acquire: pairs with the Release of the last member.
        while sense.0.load(Ordering::Acquire) != self.sense {
            patience.wait();
        }
    }
}

//! The counter barrier with sense reversal, its count in a critical section.
//!
//! # Contract
//! As many members as it was made for, each with a [`Member`] of its own. Nobody leaves an episode before all have
//! arrived, and all that was done before an arrival happens before every departure.
//!
//! ```text
//! arrive:  own sense = !own sense; in the critical section: count += 1
//! last:    count = 0; sense = own sense
//! others:  wait until sense == own sense
//! ```
//!
//! # Costs
//! With n members: n critical sections, one after the other, and one write that all others' reads wait for. Each
//! section moves the line of the lock, which the count stands on, and then the sense's line moves to every member.
//!
//! # Source
//! A. Kadur, D. Kochar, "Project writeup" (barriers for OpenMP, MPI and both): "This section is executed once per
//! barrier by every thread. The threads share a global sense and counter and each have a private sense." There the
//! section is OpenMP's; here it is a [`TestAndTestAndSet`], and who waits yields after some pauses.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Guarded, Padded, Patience, TestAndTestAndSet};

/// A counter barrier with sense reversal.
#[derive(Debug)]
pub struct CounterBarrier {
    members: usize,
    /// How many have arrived, with the lock of the critical section.
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
    /// A barrier of so many members.
    ///
    /// # Panics
    /// Without members.
    #[must_use]
    pub fn new(members: usize) -> Self {
        assert!(members > 0, "a barrier has members");
        Self {
            members,
            count: Padded(Guarded::new(TestAndTestAndSet::new(), 0)),
            sense: Padded::default(),
        }
    }

    /// One of its members. To be called as often as there are, before any of them waits.
    #[must_use]
    pub fn member(&self) -> Member<'_> {
        // Relaxed: no episode has ended yet.
        Member { barrier: self, sense: self.sense.0.load(Ordering::Relaxed) }
    }
}

impl Member<'_> {
    /// Arrives, and waits for all others.
    pub fn wait(&mut self) {
        let CounterBarrier { members, count, sense } = self.barrier;
        self.sense = !self.sense;
        let last = count.0.with(|count| {
            *count = (*count + 1) % members;
            *count == 0
        });
        if last {
            // Release: pairs with the Acquire below. What others did before is passed on by the critical sections.
            sense.0.store(self.sense, Ordering::Release);
            return;
        }
        let mut patience = Patience::default();
        // Acquire: pairs with the Release of the last.
        while sense.0.load(Ordering::Acquire) != self.sense {
            patience.wait();
        }
    }
}

//! A barrier without ranks, whose memory can be reused after it is destroyed.
//!
//! # Contract
//! Any thread may take part in an episode; only the number of threads counts. In each episode the
//! wait of exactly one thread, the last to arrive, returns `true`. As soon as one thread has
//! returned from its wait, the barrier may be destroyed and its memory then reused, although others
//! are still leaving: `destroy` waits for them.
//!
//! # State
//! ```text
//! arrivals   a signal that never decreases: with P members the e-th episode is complete at e P
//! left       the number of threads that have left `wait`, over all episodes
//! members    P
//! ```
//! | thread    | action                                          | proceeds when               |
//! |-----------|-------------------------------------------------|-----------------------------|
//! | last      | counts itself, to a multiple of P; wakes others | at once                     |
//! | others    | count themselves; goal: the next multiple of P  | `arrivals` is at least that |
//! | all       | count themselves in `left`, as last access      | at once                     |
//! | destroyer | fails if `arrivals` is no multiple of P         | `left` is at least that     |
//!
//! A slow thread that leaves an episode and a fast thread in the next do not interfere, as no
//! number ever decreases. The destroyer does not sleep on `left`: to wake it, a leaving thread
//! would have to touch the word after it has counted itself, when the memory may already be reused.
//! The destroyer therefore polls, first with yields, then with short sleeps.
//!
//! # Costs
//! An episode: 2 P additions to one pair of lines, as against P of a [`Counter`](super::Counter),
//! whose members have ranks and whose memory is reference counted; one system call if any thread
//! sleeps, regardless of the number of sleepers. The 63-bit counts do not overflow in practice. A
//! destruction after all have left: three loads.
//!
//! # Source
//! The word of [`Counter`](super::Counter); here a thread derives its episode from the number at
//! which it arrived. Counting the leaving threads too is as in glibc.

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Policy, Signal, plant};
use syncline_trace::{Activity, span};

use crate::membership::{pause, usual};

/// A barrier for threads without ranks, in 24 bytes of any memory, which can be reused after
/// [`destroy`](Self::destroy): the guarantees of `pthread_barrier_t`.
///
/// ```
/// use syncline_sync::barrier::RawCounter;
///
/// let barrier = RawCounter::new(2);
/// std::thread::scope(|scope| {
///     let other = scope.spawn(|| barrier.wait());
///     let last = barrier.wait();
///     assert_ne!(last, other.join().unwrap());
/// });
/// assert!(barrier.destroy());
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RawCounter {
    arrivals: Signal,
    left: Signal,
    members: AtomicU64,
}

impl RawCounter {
    /// Creates a barrier whose episodes have `members` threads (at least one).
    #[must_use]
    pub fn new(members: u32) -> Self {
        let members = AtomicU64::new(u64::from(members.max(1)));
        RawCounter { arrivals: Signal::new(0), left: Signal::new(0), members }
    }

    fn members(&self) -> u64 {
        // Relaxed: written before any other thread had access to the barrier.
        self.members.load(Ordering::Relaxed)
    }

    /// Waits until all members of the episode have arrived. Returns `true` to the last one to
    /// arrive.
    ///
    /// # Memory ordering
    /// Everything that a thread did before it arrived happens before everything that any thread of
    /// the episode does after it has returned.
    pub fn wait(&self) -> bool {
        let members = self.members();
        let mine = self.arrivals.count(|now| now.is_multiple_of(members));
        let early = plant::is("raw counter: counts a leaver before its last look");
        if early {
            self.left.increment();
        }
        let goal = mine.next_multiple_of(members);
        // There is no room for a number in the barrier: in traces its address stands for it.
        let address = std::ptr::from_ref(self).addr() / align_of::<Self>();
        let _waits = span(Activity::AwaitBarrier, 1 << 31 | address as u32, goal / members - 1);
        // The last thread has reached its goal; its wait only acquires what the others did before
        // they arrived, as `count` only releases. Without a deadline and without a failure
        // detector, a wait ends in no other way.
        let policy = usual(usize::try_from(members).unwrap_or(usize::MAX));
        while self.arrivals.wait_until(goal, &policy, None).is_err() {}
        if !early {
            // A release, which pairs with the loads in `destroy`. The destroyer does not sleep, so
            // this is the last access: the memory may be reused after it.
            self.left.increment();
        }
        mine == goal
    }

    /// Waits until all threads have left their waits; from then on the memory belongs to the
    /// caller. Returns `false`, and does nothing, if a thread waits for an episode that is not
    /// complete.
    ///
    /// No wait may begin once this has been called.
    pub fn destroy(&self) -> bool {
        let arrivals = self.arrivals.get();
        if !arrivals.is_multiple_of(self.members()) {
            return false;
        }
        if plant::is("raw counter: destroys while others leave") {
            return true;
        }
        while self.left.get() < arrivals {
            if self.left.look_until(arrivals, &Policy::default(), None).is_none() {
                pause();
            }
        }
        true
    }

    /// Marks the memory as reused: in models, an access that has not ended by then, or that comes
    /// later, is a failure.
    #[cfg(all(test, loom))]
    pub(crate) fn reuse(&mut self) {
        self.arrivals.reuse();
        self.left.reuse();
        self.members.with_mut(|word| *word = u64::MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_episode_has_one_last_and_who_waits_is_not_left_behind() {
        const EPISODES: usize = if cfg!(miri) { 10 } else { 1000 };
        let barrier = RawCounter::new(3);
        let last = std::thread::scope(|scope| {
            let run = || (0..EPISODES).filter(|_| barrier.wait()).count();
            let threads = [(); 3].map(|()| scope.spawn(run));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(last, EPISODES);
        std::thread::scope(|scope| {
            let two = [(); 2].map(|()| scope.spawn(|| barrier.wait()));
            // Waits for both, so that the third thread is the last one.
            while barrier.arrivals.get() % 3 != 2 {
                std::thread::yield_now();
            }
            assert!(!barrier.destroy(), "a thread waits");
            barrier.wait();
            let last = two.map(|thread| thread.join().unwrap());
            assert_eq!(last, [false; 2]);
        });
        assert!(barrier.destroy());
    }

    #[test]
    fn it_fits_where_it_is_to_stand() {
        assert_eq!((size_of::<RawCounter>(), align_of::<RawCounter>()), (24, 8));
        let alone = RawCounter::new(1);
        assert!(alone.wait() && alone.wait() && alone.destroy());
    }
}

//! A barrier without ranks, whose memory its users take back.
//!
//! # Contract
//! Any thread may be a member of an episode: what counts is how many come. In each exactly one, the last one, is told so.
//! As soon as one thread has come back from its wait the barrier may be destroyed, and after that its memory be used for
//! something else, though others are still on their way out: `destroy` waits for them.
//!
//! # State
//! ```text
//! arrivals   a signal that counts for ever: with P members the e-th episode is complete at e P
//! left       how many have gone out of wait, over all episodes
//! members    P
//! ```
//! | who        | does                                                | goes on when                        |
//! |------------|-----------------------------------------------------|-------------------------------------|
//! | the last   | counts itself: the number is a multiple of P; wakes | at once                             |
//! | the others | count themselves: the next multiple of P is their goal | `arrivals` is at least the goal |
//! | all        | count themselves in `left`, and touch nothing more  |                                     |
//! | destroyer  | finds `arrivals` at a multiple of P, else refuses   | `left` is as large                  |
//!
//! A thread that is slow to leave an episode and a fast one in the next do not meet: no number is ever lowered. The
//! destroyer does not sleep on `left`: to wake it, a leaver would have to touch the word after it has counted itself,
//! when the memory may be somebody else's already. So it looks again and again, first with yields, then with naps.
//!
//! # Costs
//! An episode: 2 P additions to one pair of lines, as against P of a [`Counter`](super::Counter), whose members are known
//! by rank and whose memory is counted; one system call if somebody sleeps, whatever their number. 63 bits are enough for
//! ever. A destruction after all have left: three loads.
//!
//! # Source
//! The word of [`Counter`](super::Counter); here the episode of a thread is found from the number at which it has arrived.
//! That leavers are counted too is as in glibc.

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Policy, Signal, plant};

use crate::membership::{pause, usual};

/// A barrier for threads that have no ranks, in 24 bytes of any memory, which may be taken back: what
/// `pthread_barrier_t` promises.
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
    /// A barrier whose episodes are of so many threads, at least one.
    #[must_use]
    pub fn new(members: u32) -> Self {
        let members = AtomicU64::new(u64::from(members.max(1)));
        RawCounter { arrivals: Signal::new(0), left: Signal::new(0), members }
    }

    fn members(&self) -> u64 {
        // Relaxed: written before anybody was told of the barrier.
        self.members.load(Ordering::Relaxed)
    }

    /// Waits until so many have come; true for the one that came last.
    ///
    /// # Memory ordering
    /// What a thread did before it came happened before what any thread of the episode does after it has waited.
    pub fn wait(&self) -> bool {
        let members = self.members();
        let mine = self.arrivals.count(|now| now.is_multiple_of(members));
        let early = plant::is("raw counter: counts a leaver before its last look");
        if early {
            self.left.increment();
        }
        let goal = mine.next_multiple_of(members);
        // The last one has its goal: the look is there to see what the others did before they came, as `count` only
        // releases. Without a deadline, and with nobody to be declared dead, a wait ends in no other way.
        let policy = usual(usize::try_from(members).unwrap_or(usize::MAX));
        while self.arrivals.wait_until(goal, &policy, None).is_err() {}
        if !early {
            // A release, which pairs with the looks in `destroy`. Nobody sleeps there, so it is the last touch: the
            // memory may be gone after it.
            self.left.increment();
        }
        mine == goal
    }

    /// Waits until all who have waited are out; from then on the memory is the caller's. False, and nothing is done, if
    /// somebody waits for an episode that is not complete.
    ///
    /// No wait begins from this call on.
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

    /// The memory is used for something else: in models a touch that is not over by then, or that comes later, is a
    /// failure.
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
            // Both, so that the third is the last.
            while barrier.arrivals.get() % 3 != 2 {
                std::thread::yield_now();
            }
            assert!(!barrier.destroy(), "somebody waits");
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

//! Textbook barriers and locks, and a published farm's messages: baselines for a race, not for use.
//!
//! | module                        | is                                                                      |
//! |-------------------------------|-------------------------------------------------------------------------|
//! | [`counter_barrier`]           | a count in a critical section and a sense that is reversed              |
//! | [`test_and_set`]              | a flag that all exchange until one of them finds it free                |
//! | [`test_and_test_and_set`]     | the same, but they look before, and keep away longer and longer         |
//! | [`array_lock`]                | a queue of slots, each on a line of its own                             |
//! | [`sysv`]                      | messages of processes by System V shared memory, and their cold start   |
//! | [`futex_ping_pong`]           | a word that two processes hand to each other, asleep: a yardstick       |
//!
//! The papers' processors each had one thread. So that threads that share a processor get on as well, all loops of
//! barriers and locks here yield after some pauses; none of them sleeps.
//!
//! # Example
//! ```
//! use syncline_lab::baselines::{ArrayLock, Guarded};
//!
//! let counter = Guarded::new(ArrayLock::new(2), 0);
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| (0..1000).for_each(|_| counter.with(|n| *n += 1)));
//!     }
//! });
//! assert_eq!(counter.into_inner(), 2000);
//! ```

pub mod array_lock;
pub mod counter_barrier;
pub mod futex_ping_pong;
pub mod sysv;
pub mod test_and_set;
pub mod test_and_test_and_set;

use std::cell::UnsafeCell;

pub use array_lock::ArrayLock;
pub use counter_barrier::CounterBarrier;
pub use test_and_set::TestAndSet;
pub use test_and_test_and_set::TestAndTestAndSet;

/// Mutual exclusion.
///
/// # Safety
/// Between a return of [`lock`](Self::lock) and the call of [`unlock`](Self::unlock) with what it returned, no other
/// `lock` returns; and all that was done before that `unlock` happens before the next return of `lock`.
pub unsafe trait Lock: Sync {
    /// What who has the lock keeps until it is given back.
    type Turn;

    /// Waits until nobody has the lock, and takes it.
    fn lock(&self) -> Self::Turn;

    /// Gives the lock back.
    ///
    /// # Safety
    /// The turn is what `lock` of this very lock returned, and the caller has not given it back.
    unsafe fn unlock(&self, turn: Self::Turn);
}

/// A value and the lock that guards it, side by side.
#[derive(Debug, Default)]
pub struct Guarded<L, T> {
    /// Who may touch the value.
    lock: L,
    /// Touched only by who has the lock.
    value: UnsafeCell<T>,
}

// SAFETY: `with` hands the value from thread to thread, which `Send` allows, and to one at a time, by the contract of
// `Lock`.
unsafe impl<L: Lock, T: Send> Sync for Guarded<L, T> {}

impl<L: Lock, T> Guarded<L, T> {
    /// A value with its lock, which nobody has.
    pub const fn new(lock: L, value: T) -> Self {
        Self { lock, value: UnsafeCell::new(value) }
    }

    /// Calls `f` with the value, by itself. If it panics, the lock is never free again.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let turn = self.lock.lock();
        // SAFETY: the lock is ours, so nobody else has a reference to the value: those that were given out before
        // ended with the calls of their `f`, which happened before.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: the turn is from the call above and is given back once.
        unsafe { self.lock.unlock(turn) };
        result
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// What a loop that waits does between two looks: pauses, then yields.
#[derive(Debug, Default)]
struct Patience {
    looks: u32,
}

impl Patience {
    /// Looks after which a thread that has not what it waits for lets others have its processor.
    const PAUSES: u32 = 64;

    #[inline]
    fn wait(&mut self) {
        if self.looks < Self::PAUSES {
            self.looks += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// Something on cache lines of its own: two, as some processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded<T>(T);

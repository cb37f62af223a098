//! Textbook barriers and locks, and a published farm's messages: baselines for a race, not for use.
//!
//! | module                    | contents                                                       |
//! |---------------------------|----------------------------------------------------------------|
//! | [`counter_barrier`]       | a count in a critical section, and sense reversal              |
//! | [`test_and_set`]          | a flag that each waiter exchanges until it finds it free       |
//! | [`test_and_test_and_set`] | the same, with reads before the exchange, and with backoff     |
//! | [`array_lock`]            | a queue of slots, each on its own cache line                   |
//! | [`sysv`]                  | messages by System V shared memory, and a process's cold start |
//! | [`futex_ping_pong`]       | a word passed between two sleeping processes: a yardstick      |
//!
//! The papers' processors each had one thread. To make progress where threads share a processor,
//! all wait loops of the barriers and locks here yield after a number of pauses; none of them
//! sleeps.
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
/// Between a return of [`lock`](Self::lock) and the call of [`unlock`](Self::unlock) with the turn
/// that it returned, no other `lock` may return. All operations before that `unlock` must happen
/// before the next return of `lock`.
pub unsafe trait Lock: Sync {
    /// The state that the holder of the lock keeps until it unlocks.
    type Turn;

    /// Blocks until the lock is free, and takes it.
    fn lock(&self) -> Self::Turn;

    /// Releases the lock.
    ///
    /// # Safety
    /// * `turn` must be the return value of `lock` on this lock.
    /// * The caller must not have passed it to `unlock` before.
    unsafe fn unlock(&self, turn: Self::Turn);
}

/// A value and the lock that guards it, side by side.
#[derive(Debug, Default)]
pub struct Guarded<L, T> {
    /// Guards `value`.
    lock: L,
    /// Accessed only by the holder of the lock.
    value: UnsafeCell<T>,
}

// SAFETY: `with` moves access to the value between threads, which `T: Send` allows, and grants it
// to one thread at a time, by the contract of `Lock`.
unsafe impl<L: Lock, T: Send> Sync for Guarded<L, T> {}

impl<L: Lock, T> Guarded<L, T> {
    /// Creates a value with its lock, which is free.
    pub const fn new(lock: L, value: T) -> Self {
        Self { lock, value: UnsafeCell::new(value) }
    }

    /// Calls `f` with exclusive access to the value. If `f` panics, the lock is never released.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let turn = self.lock.lock();
        // SAFETY: this thread holds the lock, so no other reference to the value exists: each
        // earlier one ended with the call of its `f`, which happened before this lock was taken.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: the turn is from the `lock` above, and is passed to `unlock` once.
        unsafe { self.lock.unlock(turn) };
        result
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// The wait between two checks of a condition: pauses, then yields.
#[derive(Debug, Default)]
struct Patience {
    looks: u32,
}

impl Patience {
    /// The number of checks after which a waiting thread yields its processor.
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

/// A value on cache lines of its own: two lines, because some processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded<T>(T);

//! The word that a thread can sleep on: a shared futex, or its mock when models are checked.
//!
//! The futex looks at the low half of the 64-bit word. Half a word is enough: it is only asked
//! whether the word is still what the sleeper saw.

#[cfg(not(loom))]
mod real {
    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::time::Duration;

    use rustix::thread::futex;

    /// A 64-bit word with a place to sleep.
    #[repr(transparent)]
    #[derive(Debug)]
    pub(crate) struct Word {
        pub(crate) bits: AtomicU64,
    }

    impl Word {
        pub(crate) const fn new(bits: u64) -> Self {
            Word { bits: AtomicU64::new(bits) }
        }

        fn low(&self) -> &AtomicU32 {
            let low = usize::from(cfg!(target_endian = "big"));
            // SAFETY: the pointer is to one of the two aligned halves of a live `AtomicU64`, and
            // the half is only handed to the kernel, which reads it atomically; no Rust code
            // accesses it at this size.
            unsafe { &*self.bits.as_ptr().cast::<AtomicU32>().add(low) }
        }

        /// Sleeps while the low half is that of `seen`, until woken, or at most `at_most`.
        /// May return early.
        pub(crate) fn sleep(&self, seen: u64, at_most: Option<Duration>) {
            if cfg!(miri) {
                // To Miri the kernel's look at half of the word is an access of another size that
                // races with those of Rust. A return is always early enough.
                return std::thread::yield_now();
            }
            let timeout = at_most.map(|d| futex::Timespec {
                tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(d.subsec_nanos()),
            });
            // Not FUTEX_PRIVATE: the word may stand in memory shared between processes. Every error
            // (word changed, timed out, interrupted) means the same to the caller: look again.
            let _ = futex::wait(self.low(), futex::Flags::empty(), seen as u32, timeout.as_ref());
        }

        /// Wakes all threads that sleep here.
        pub(crate) fn wake_all(&self) {
            if cfg!(miri) {
                return; // sleepers have yielded
            }
            let _ = futex::wake(self.low(), futex::Flags::empty(), i32::MAX as u32);
        }
    }
}

#[cfg(loom)]
mod mock {
    use std::time::Duration;

    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// A 64-bit word with a place to sleep. What the kernel promises, and no more: the look at the
    /// word and the going to sleep are one step as seen by a waker.
    #[derive(Debug)]
    pub(crate) struct Word {
        pub(crate) bits: AtomicU64,
        bucket: Mutex<()>,
        sleepers: Condvar,
    }

    impl Word {
        pub(crate) fn new(bits: u64) -> Self {
            Word { bits: AtomicU64::new(bits), bucket: Mutex::new(()), sleepers: Condvar::new() }
        }

        pub(crate) fn sleep(&self, seen: u64, _at_most: Option<Duration>) {
            let bucket = self.bucket.lock().unwrap();
            // The kernel reads the word under the lock of its bucket; an RMW reads the newest
            // value.
            if self.bits.fetch_add(0, Ordering::Relaxed) as u32 == seen as u32 {
                drop(self.sleepers.wait(bucket).unwrap());
            }
        }

        pub(crate) fn wake_all(&self) {
            drop(self.bucket.lock().unwrap());
            self.sleepers.notify_all();
        }
    }
}

#[cfg(loom)]
pub(crate) use mock::Word;
#[cfg(not(loom))]
pub(crate) use real::Word;

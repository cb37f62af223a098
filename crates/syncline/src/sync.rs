//! Barriers, queue locks, and the word that threads and processes wait for.
//!
//! # A barrier
//! [`Auto`] takes the algorithm that fits the members; [`barrier`] has each algorithm by its name.
//! A barrier is split in two: [`arrive`](BarrierMember::arrive) returns at once, and
//! [`wait`](BarrierMember::wait) returns when all members have arrived.
//!
//! ```
//! use syncline::sync::{Auto, Barrier, BarrierMember};
//!
//! let barrier = Auto::new(2)?;
//! let (mut here, mut there) = (barrier.member(0)?, barrier.member(1)?);
//! std::thread::scope(|scope| {
//!     scope.spawn(move || there.wait().unwrap());
//!     here.arrive().unwrap(); // work that needs no other member goes between the two
//!     here.wait().unwrap();
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A lock
//! A [`Lock`] is granted in the order of arrival. [`Mcs`] and [`Ticket`] are its queues. A member
//! that dies with the lock leaves it poisoned.
//!
//! ```
//! use syncline::sync::{Lock, Mcs};
//!
//! let counter = Lock::<Mcs, u64>::new(2, 0)?;
//! std::thread::scope(|scope| {
//!     for rank in 0..2 {
//!         let mut member = counter.member(rank).unwrap();
//!         scope.spawn(move || (0..1000).for_each(|_| *member.lock().unwrap() += 1));
//!     }
//! });
//! assert_eq!(*counter.member(0)?.lock()?, 2000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A word
//! A [`Signal`] is a number that only grows. A thread waits until the number reaches a value.
//!
//! ```
//! use syncline::sync::{Policy, Signal};
//!
//! let progress = Signal::new(0);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| progress.increment());
//!     progress.wait_until(1, &Policy::default(), None).unwrap();
//! });
//! ```

pub use syncline_signal::{AddError, Liveness, PaddedSignal, Policy, Signal, WaitError};
pub use syncline_sync::*;

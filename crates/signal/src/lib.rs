//! The monotone word that everything in Syncline waits on.
//!
//! * [`Signal`]: a number of up to 2^62 - 1 that only grows, in any memory, that threads and
//!   processes wait on.
//! * [`PaddedSignal`]: the same, alone on its cache lines.
//! * [`Policy`]: how to wait: pause, then yield, then sleep.
//!   [`SpinWait`](spin_wait::SpinWait): what all waits do before they sleep.
//!   [`PollSchedule`](poll_schedule::PollSchedule): what threads do that can only poll.
//! * [`EventCount`](event_count::EventCount): how one thread sleeps until a condition of any kind
//!   is true.
//! * [`Progress`](progress::Progress): a library, such as an MPI, whose work waits do as well.
//! * [`Liveness`]: asked by every wait again: is a member that it needs gone?
//! * [`asymmetric`]: a fence that is free where it is often, and dear where it is seldom.
//! * [`SpinLock`](spinlock::SpinLock): a word for critical sections of a few instructions.
//!
//! A signal is never reset. That removes the races of flags that are: a waiter that comes late
//! still finds what it waited for, and a raiser never has to know whether the last round has been
//! seen.
//!
//! ```
//! use syncline_signal::{Policy, Signal};
//!
//! let ready = Signal::new(0);
//! std::thread::scope(|s| {
//!     s.spawn(|| ready.raise_to(3));
//!     assert!(ready.wait_until(2, &Policy::default(), None).unwrap() >= 2);
//! });
//! ```

#[doc(hidden)]
pub mod asymmetric;
#[doc(hidden)]
pub mod event_count;
mod futex;
mod liveness;
mod policy;
#[doc(hidden)]
pub mod poll_schedule;
#[doc(hidden)]
pub mod primitive;
#[doc(hidden)]
pub mod progress;
mod signal;
#[doc(hidden)]
pub mod spin_wait;
#[doc(hidden)]
pub mod spinlock;
mod try_yield;

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use liveness::Liveness;
pub use policy::Policy;
pub use signal::{AddError, PaddedSignal, Signal, WaitError};
#[doc(hidden)]
pub use syncline_trace::plant;

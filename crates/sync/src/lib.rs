//! Barriers and queue locks, for threads and for processes that share memory.
//!
//! * Barriers: [`Counter`](barrier::Counter), [`Tournament`](barrier::Tournament), [`Dissemination`](barrier::Dissemination), [`Combined`](barrier::Combined); [`Auto`] takes the one that fits.
//!   [`RawCounter`](barrier::RawCounter): one without ranks, whose memory may be taken back.
//! * Locks, first come first served: [`Lock`] over [`Ticket`] or [`Mcs`], with typed guards.
//! * [`SignalBoard`](board::SignalBoard): the flags that tournament and dissemination are written over; [`MemoryBoard`](board::MemoryBoard) has them in memory.
//! * [`Space`]: the heap, or a segment that processes share. [`FaultList`](membership::FaultList): who of the members is dead.
//! * [`Calls`](calls::Calls): which collective call each member of a team is blocked in.
//! * [`cost`]: what a barrier costs, in transfers of cache lines.
//!
//! Every barrier has a *member* handle for each that takes part: nothing is looked up, and a member that is gone (its
//! handle dropped, its process killed) is an error for the others, not a wait for ever.
//!
//! ```
//! use syncline_sync::{Auto, Barrier, BarrierMember};
//!
//! let barrier = Auto::new(2)?;
//! let mut here = barrier.member(0)?;
//! let mut there = barrier.member(1)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(move || there.wait().unwrap());
//!     here.arrive().unwrap(); // and something that does not need the others, until
//!     here.wait().unwrap();
//! });
//! # Ok::<(), syncline_sync::SpaceError>(())
//! ```

#[doc(hidden)]
pub mod agreement;
pub mod barrier;
#[doc(hidden)]
pub mod board;
#[doc(hidden)]
pub mod calls;
#[doc(hidden)]
pub mod cost;
mod error;
pub mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
#[doc(hidden)]
pub mod membership;
pub mod space;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use barrier::{Auto, Barrier, BarrierMember};
pub use error::{Fault, LockError, Silence, SpaceError};
pub use lock::{Lock, LockGuard, Mcs, Ticket};
pub use space::Space;

//! Barriers and queue locks, for threads and for processes that share memory.
//!
//! * Barriers: [`Counter`](barrier::Counter), [`Tournament`](barrier::Tournament),
//!   [`Dissemination`](barrier::Dissemination) and [`Combined`](barrier::Combined); [`Auto`]
//!   selects one of them. [`RawCounter`](barrier::RawCounter) has no ranks, and its memory can be
//!   reused.
//! * Locks in FIFO order: [`Lock`] over [`Ticket`] or [`Mcs`], with typed guards.
//! * [`SignalBoard`](board::SignalBoard): the flags that the tournament and dissemination barriers
//!   are written over; [`MemoryBoard`](board::MemoryBoard) keeps them in memory.
//! * [`Space`]: allocates on the heap, or in a segment that processes share.
//! * [`FaultList`](membership::FaultList): the members that have died, left or been given up.
//! * [`Calls`](call_matching::Calls): the collective call that each member of a team is blocked in.
//! * [`cost`]: the cost of a barrier, in transfers of cache lines.
//!
//! Every participant of a barrier has a *member* handle, so no call looks anything up. A member
//! that is gone (its handle was dropped or its process was killed) is an error for the others, not
//! an endless wait.
//!
//! ```
//! use syncline_sync::{Auto, Barrier, BarrierMember};
//!
//! let barrier = Auto::new(2)?;
//! let mut here = barrier.member(0)?;
//! let mut there = barrier.member(1)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(move || there.wait().unwrap());
//!     here.arrive().unwrap(); // then work that needs no other member, until
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
pub mod call_matching;
#[doc(hidden)]
pub mod cost;
mod error;
pub mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
#[doc(hidden)]
pub mod membership;
pub mod space;
#[doc(hidden)]
pub mod traced;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use barrier::{Auto, Barrier, BarrierMember};
pub use error::{Fault, LockError, Silence, SpaceError};
pub use lock::{Lock, LockGuard, Mcs, Ticket};
pub use space::Space;

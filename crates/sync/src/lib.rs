//! Barriers and queue locks, for threads and for processes that share memory.
//!
//! * Barriers: [`Counter`], [`Tournament`], [`Dissemination`], [`Combined`]; [`Auto`] takes the one that fits.
//!   [`RawCounter`]: one without ranks, whose memory may be taken back.
//! * Locks, first come first served: [`Lock`] over [`Ticket`] or [`Mcs`], with typed guards.
//! * [`SignalBoard`]: the flags that tournament and dissemination are written over; [`MemoryBoard`] has them in memory.
//! * [`Space`]: the heap, or a segment that processes share. [`FaultList`]: who of the members is dead.
//! * [`Calls`]: which collective call each member of a team is blocked in.
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

mod agreement;
pub mod barrier;
mod board;
mod calls;
pub mod cost;
mod error;
pub mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
mod membership;
mod space;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use agreement::{Asked, Difference, Thing};
pub use barrier::{
    Auto, AutoMember, Barrier, BarrierMember, Combined, CombinedMember, Counter, CounterMember,
    Dissemination, DisseminationMember, LedMember, Phased, RawCounter, Role, Tournament,
    TournamentMember, roles,
};
pub use board::{Awaited, Flags, MemoryBoard, MemoryFlags, SignalBoard};
pub use calls::{ARRIVED, Blocking, Call, Caller, Calls, LAST, Naming, Needs, Peers};
pub use error::{Fault, LockError, Silence, SpaceError};
pub use lock::{Lock, LockGuard, LockMember, Mcs, RawLock, Ticket};
pub use membership::{FaultList, LAUNCHER, MAX_MEMBERS};
pub use space::{Array, Making, Shared, Space};

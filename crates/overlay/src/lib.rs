//! Ordered read-write locks, and the overlays made of them.
//!
//! Every piece of data is a *location* with a strict queue of exclusive and inclusive requests. A task
//! asks early (posts), is granted in order, and asks for its next turn before it gives the present one
//! back. So iterative tasks go round for ever: without a global barrier, without deadlock, each as far
//! ahead of its neighbours as their data allow, and with results that do not depend on the schedule.
//!
//! * [`Location`]: data with a queue. [`Handle`](handle::Handle), [`Guard`](handle::Guard), [`post_all`](handle::post_all): its use by hand.
//! * [`Granted`](handle::Granted): a request that is awaited, in any executor.
//! * [`Overlay`]: tasks declared with what they [`Read`](access::Read) and [`Write`](access::Write); [`Checked`]: one that cannot deadlock.
//! * [`Initial`]: who goes first. [`Runner`]: a pool, static parts, or a thread per task. [`Stop`]: when to end.
//! * [`Plan`]: who wants what, without data; [`Snapshot`]: who stands where, before the start or during a run,
//!   and its drawing as text, DOT or SVG ([`Format`](snapshot::Format)).
//! * [`Watch`]: who waits for whom during a run, and a report when nothing moves.
//! * [`Canonical`](canonical::Canonical): a plan in which each task writes one location, and each location has one writer.
//! * [`raw`]: the queue itself, without data, threads or pointers.
//!
//! # Example
//! Two cells smooth each other for 100 iterations, in the order of the sequential program:
//! ```
//! use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
//!
//! let (a, b) = (Location::new("a", 0.0), Location::new("b", 8.0));
//! let mut overlay = Overlay::new();
//! overlay.task("left", (a.write(), b.read()), |(a, b), _| *a = (*a + *b) / 2.0);
//! overlay.task("right", (b.write(), a.read()), |(b, a), _| *b = (*a + *b) / 2.0);
//! overlay.check(Initial::Wave)?.run(Runner::pool(2), Stop::after(100))?;
//! assert_eq!(*a.reader().acquire()?, *b.reader().acquire()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod access;
pub mod canonical;
mod claimed;
mod conflicts;
mod deadlock;
#[doc(hidden)]
pub mod draw;
mod engine;
pub mod error;
pub mod handle;
mod initial;
mod location;
mod overlay;
mod parked;
mod partitioned;
pub mod plan;
mod program;
mod queues;
#[doc(hidden)]
pub mod raw;
mod ready;
pub mod run;
pub mod snapshot;
mod stop;
mod wakers;
pub mod watch;

#[cfg(all(test, loom))]
mod future_loom_tests;
#[cfg(all(test, loom))]
mod loom_compiled;
#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use initial::Initial;
pub use location::Location;
pub use overlay::{Checked, Overlay, Step};
pub use plan::Plan;
pub use raw::AccessMode;
pub use run::Runner;
pub use snapshot::Snapshot;
pub use stop::Stop;
pub use watch::Watch;

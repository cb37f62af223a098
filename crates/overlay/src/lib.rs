//! Ordered read-write locks, and the overlays built from them.
//!
//! Each piece of data is a *location* with a strict queue of exclusive and inclusive requests. A
//! task posts its request early, is granted in order, and posts its next request before it releases
//! the current one. Iterative tasks thus run without a global barrier and without deadlock, each as
//! far ahead of its neighbours as their data allow, and with results that do not depend on the
//! schedule.
//!
//! * [`Location`]: data with a queue. [`Handle`](handle::Handle), [`Guard`](handle::Guard) and
//!   [`post_all`](handle::post_all) use it directly.
//! * [`Granted`](handle::Granted): the future of a grant, for any executor.
//! * [`Overlay`]: tasks, declared with the locations that they [`Read`](access::Read) and
//!   [`Write`](access::Write). [`Checked`]: an overlay that cannot deadlock.
//! * [`Initial`]: the order of the first requests. [`Runner`]: a pool, a static partition, or a
//!   thread per task. [`Stop`]: when to end.
//! * [`Plan`]: tasks and their requests, without data. [`Snapshot`]: the queues at one moment,
//!   before the start or during a run, which can be drawn as text, DOT or SVG
//!   ([`Format`](snapshot::Format)).
//! * [`Watch`]: shows which task waits for which during a run, and reports when nothing moves.
//! * [`Canonical`](canonical::Canonical): a plan in which each task writes one location, and each
//!   location has one writer.
//! * [`raw`]: the queue itself, without data, threads or pointers.
//!
//! # The ordering rules
//! The documentation refers to these rules by number. With a live start (see [`Overlay::check`]),
//! R1 to R3 suffice to exclude deadlock in every later iteration.
//!
//! | rule | statement                                                                            |
//! |------|--------------------------------------------------------------------------------------|
//! | R1   | Requests are granted in FIFO order; adjacent inclusive requests share the grant.     |
//! | R2   | A task posts its next request before it releases the current one, in a single step.  |
//! | R3   | A handle has one request at a time; a task asks for each location at most once.      |
//! | R4   | The first requests of a task over several locations are posted in a single step.     |
//! | R5   | A task may leave, or abandon a request: the queue then skips it.                     |
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
mod body;
pub mod canonical;
mod check_error;
mod compiled;
mod conflicts;
mod deadlock_check;
#[doc(hidden)]
pub mod draw;
mod engine;
pub mod error;
pub mod handle;
mod initial;
mod interpreted;
mod live;
mod location;
mod nodes;
mod overlay;
mod parked;
pub mod plan;
#[doc(hidden)]
pub mod raw;
mod ready;
pub mod run;
pub mod snapshot;
mod stop;
mod stuck;
mod team;
mod wakers;
pub mod watch;
mod wire;

#[cfg(all(test, loom))]
mod future_loom_tests;
#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use body::Step;
pub use initial::Initial;
pub use location::Location;
pub use overlay::{Checked, Overlay};
pub use plan::Plan;
pub use raw::AccessMode;
pub use run::Runner;
pub use snapshot::Snapshot;
pub use stop::Stop;
pub use watch::Watch;

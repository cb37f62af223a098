//! Recording what threads do and what they wait for, for `syncline report` and `syncline top`.
//!
//! A program needs no call for it: if the environment variable `SYNCLINE_TRACE` names a file, the
//! process records to it, and so do all processes of the run. [`start`] and [`finish`] record a
//! part of a program; [`enable`] and [`snapshot`] record in memory.
//!
//! ```
//! use syncline::trace::{Activity, enable, snapshot};
//! use syncline::{Initial, Location, Overlay, Runner, Stop};
//!
//! enable(1000); // the last 1000 spans of each thread
//! let sum = Location::new("sum", 0);
//! let mut overlay = Overlay::new();
//! overlay.task("add", sum.write(), |sum, step| *sum += step.iteration());
//! overlay.check(Initial::Wave)?.run(Runner::pool(1), Stop::after(5))?;
//! let steps = snapshot().into_iter().filter(|event| event.activity == Activity::Step);
//! assert_eq!(steps.map(|step| step.detail).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Names of sections, and facts about the run, are [`note`]s.

pub use syncline_trace::{
    Activity, ActivityClass, Event, Reader, Recorded, Role, Span, TraceError, VARIABLE, clear,
    disable, enable, finish, is_enabled, mark, note, set_role, snapshot, span, start,
};

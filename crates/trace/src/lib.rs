//! Records what threads do and what they wait for, into one ring of events per thread, and writes
//! the rings to a file while the program runs.
//!
//! This crate records, writes and reads. Reports, time lines and exports are made elsewhere.
//!
//! | call | called by | cost |
//! |---|---|---|
//! | [`span`], [`mark`], off | any thread, all the time | a relaxed load and a branch |
//! | [`span`], on | any thread | two time stamps and ten stores to lines of its own thread |
//! | [`snapshot`] | any thread, at any time | a copy of all rings; writers are not delayed |
//! | [`start`], [`finish`] | any thread, at any time | a thread that writes ten times a second |
//! | [`enable`], [`disable`], [`clear`] | any thread, at any time | short |
//!
//! A program need not call [`start`]: if the environment variable `SYNCLINE_TRACE` names a file
//! when a thread records for the first time, the process records to it.
//!
//! ```text
//!   program        span(..) ─┐  mark(..) ─┐  note::add(..) ─┐        Reader ──> reports, exports,
//!                            v            v                 v          ^        the live view
//!   this crate     ring per thread, open spans,      pending notes     │
//!                            └──────────── writer thread ──┴──> file ──┘
//! ```
//!
//! # Examples
//! ```
//! use syncline_trace::{Activity, clear, disable, enable, mark, snapshot, span};
//!
//! mark(Activity::Mark, 1, 0); // off: forgotten
//! enable(1000);
//! let step = span(Activity::Step, 7, 42);
//! std::thread::spawn(|| mark(Activity::Mark, 8, 43)).join().unwrap();
//! drop(step);
//! disable();
//!
//! let events = snapshot();
//! assert_eq!(events.iter().map(|event| event.detail).collect::<Vec<_>>(), [42, 43]);
//! assert!(events[0].since_ns <= events[1].since_ns && events[1].until_ns <= events[0].until_ns);
//! clear();
//! assert!(snapshot().is_empty());
//! ```

mod activity;
#[doc(hidden)]
pub mod clock;
mod error;
pub mod frame;
pub mod note;
mod open;
#[doc(hidden)]
pub mod plant;
mod reader;
#[doc(hidden)]
pub mod recorder;
mod ring;
mod sample;
mod slots;
mod sync;
mod writer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use activity::{Activity, ActivityClass, Event};
pub use error::TraceError;
pub use reader::Reader;
pub use recorder::{
    Role, Span, clear, disable, enable, is_enabled, mark, set_role, snapshot, span,
};
#[doc(hidden)]
pub use recorder::{memory_per_thread, since, span_since};
pub use writer::{Recorded, finish, start};
#[doc(hidden)]
pub use writer::{VARIABLE, recording_path};

//! Records thread activity, into one ring of events per thread.
//!
//! This crate only records: tables, plots and files are made elsewhere, from a [`snapshot`].
//!
//! | call | called by | cost |
//! |---|---|---|
//! | [`record`], off | any thread, all the time | one relaxed load and a predictable branch |
//! | [`record`], on | any thread | a clock reading and four stores to the thread's own ring |
//! | [`snapshot`] | any thread, at any time | a copy of all rings; writers are not delayed |
//! | [`enable`], [`disable`], [`clear`] | any thread, at any time | short |
//!
//! # Examples
//! ```
//! use syncline_trace::{EventKind, clear, disable, enable, record, snapshot};
//!
//! record(EventKind::Mark, 1, 0); // off: forgotten
//! enable(1000);
//! record(EventKind::Begin, 7, 42);
//! std::thread::spawn(|| record(EventKind::Mark, 8, 43)).join().unwrap();
//! record(EventKind::End, 7, 44);
//! disable();
//!
//! let events = snapshot();
//! assert_eq!(events.iter().map(|event| event.value).collect::<Vec<_>>(), [42, 43, 44]);
//! assert_eq!(events[0].thread, events[2].thread);
//! clear();
//! assert!(snapshot().is_empty());
//! ```

mod event;
#[doc(hidden)]
pub mod plant;
#[doc(hidden)]
pub mod recorder;
mod ring;
mod sync;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use event::{Event, EventKind};
pub use recorder::{clear, disable, enable, is_enabled, record, snapshot};

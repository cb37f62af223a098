//! Memory that threads and processes share.
//!
//! | module | holds |
//! |---|---|
//! | [`Segment`] | one owned mapping: private heap pages, a shared memfd, or a window of a file |
//! | [`room`] | the memory that a program can have: at most, and at present |
//!
//! A segment is raw bytes. Signals, boards, locations and arrays are typed views that the crates
//! above this one make. Code that makes a reference into a segment must exclude data races on it.

#[doc(hidden)]
pub mod control_group;
mod error;
pub mod room;
#[doc(hidden)]
pub mod segment;

pub use error::{Error, Result};
pub use segment::{Access, Advice, Pages, Segment};

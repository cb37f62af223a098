//! Memory that tasks share.
//!
//! | module | holds |
//! |---|---|
//! | [`Segment`] | one owned mapping: private heap pages, a shared memfd, or a window of a file |
//! | [`most`](room::most), [`left`](room::left) | how much memory a program can have here, and now |
//!
//! A segment is raw bytes. Signals, boards, locations and arrays are typed views made above this
//! crate, and whoever makes a reference into a segment answers for its races.

mod error;
pub mod room;
#[doc(hidden)]
pub mod segment;

pub use error::{Error, Result};
pub use segment::{Access, Advice, Pages, Segment};

//! Memory that tasks share, and who of them is alive.
//!
//! | module | holds |
//! |---|---|
//! | [`Segment`] | one owned mapping: private heap pages, a shared memfd, or a window of a file |
//! | [`ProcessWatch`] | has that process exited? answered by a pidfd, so never about a recycled number |
//! | [`Lifeline`] | has my parent died? answered by a pipe that only the parent keeps open |
//! | [`GroupLeader`] | a child and all that it starts: killed as a whole, before its number can be another's |
//! | [`StopForwarding`] | Ctrl-Z stops the groups of children as well |
//! | [`Generation`] | is this still the process that made something, or a child made by fork? |
//! | [`most`], [`left`] | how much memory a program can have here, and now |
//! | [`inherit`] | descriptors whose numbers a parent has told its child |
//!
//! A segment is raw bytes. Signals, boards, locations and arrays are typed views made above this
//! crate, and whoever makes a reference into a segment answers for its races.

mod alive;
mod disposition;
mod error;
mod fatal;
mod fork;
mod group;
pub mod inherit;
mod jobs;
mod room;
mod segment;

pub use alive::{Ending, Lifeline, LifelineEnd, LifelineKeeper, ProcessWatch};
pub use disposition::{Disposition, children_can_be_watched};
pub use error::{Error, Result};
pub use fork::Generation;
pub use group::GroupLeader;
pub use jobs::{FollowedGroup, StopForwarding, bear_the_terminal, continued_at, stop_as_by_default};
pub use room::{Size, left, most};
pub use segment::{Access, Advice, Pages, Segment};

#![doc = include_str!("../README.md")]

#[doc(hidden)]
pub mod disposition;
#[doc(hidden)]
pub mod error;
mod fatal;
mod generation;
mod group;
pub mod guard;
#[doc(hidden)]
pub mod inherit;
pub mod jobs;
pub mod lifeline;
#[doc(hidden)]
pub mod mark;
pub mod spawn;
#[doc(hidden)]
pub mod streams;
pub mod watch;

pub use error::Error;
pub use generation::Generation;
pub use group::GroupLeader;
pub use spawn::Spawn;

#![doc = include_str!("../README.md")]

mod disposition;
mod error;
mod fatal;
mod generation;
mod group;
pub mod guard;
pub mod inherit;
mod jobs;
mod lifeline;
mod mark;
mod spawn;
mod watch;

pub use disposition::{Disposition, children_can_be_watched};
pub use error::{Error, Result};
pub use generation::Generation;
pub use group::GroupLeader;
pub use jobs::{
    FollowedGroup, StopForwarding, bear_the_terminal, continued_at, stop_as_by_default,
};
pub use lifeline::{Lifeline, LifelineEnd, LifelineKeeper};
pub use mark::{EnvironmentMark, Process};
pub use spawn::{Child, Spawn, find};
pub use watch::{Ending, ProcessWatch};

//! Errors, each with the names of the task and the location.

use std::any::Any;
use std::error::Error;

use syncline_fabric::Advised;
use syncline_sync::{Fault, SpaceError};

pub use crate::check_error::{CheckError, OrderFault, Wait};
use crate::plan::Task;
use crate::stuck::Stuck;

/// The reason why a handle could not be acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The deadline passed. The request keeps its position in the queue.
    #[error("location '{location}' was not granted before the deadline")]
    TimedOut {
        /// The location.
        location: String,
    },
    /// A writer panicked and left the data in an unknown state.
    #[error("location '{location}' was poisoned when '{task}' panicked")]
    Poisoned {
        /// The location.
        location: String,
        /// The task or thread that panicked.
        task: String,
    },
}

/// The error that the body of a task may return.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// The reason why a run ended early. All tasks have stopped and released everything that they held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The body of a task returned an error.
    #[error("task '{task}' failed in iteration {iteration}: {source}")]
    Failed {
        /// The task.
        task: String,
        /// Its iteration, from 0.
        iteration: u64,
        /// The error that it returned.
        source: TaskError,
    },
    /// The body of a task panicked. The locations that it writes are poisoned.
    #[error("task '{task}' panicked in iteration {iteration}{}: {message}", at(.locations))]
    Panicked {
        /// The task.
        task: String,
        /// Its iteration, from 0.
        iteration: u64,
        /// The locations that it writes, which are poisoned.
        locations: Vec<String>,
        /// The message of the panic.
        message: String,
    },
    /// A location was poisoned before the run, or by a handle from outside during the run.
    #[error("location '{location}' was poisoned when '{task}' panicked")]
    Poisoned {
        /// The location.
        location: String,
        /// The task or thread that panicked.
        task: String,
    },
    /// A location belongs to another overlay that is running; in a run on a team also if a handle
    /// of this process holds it or waits for it.
    #[error(
        "location '{location}' is in use: another overlay runs with it, or a handle has a request"
    )]
    InUse {
        /// The location.
        location: String,
    },
    /// A convergence test was requested for tasks that never wait for each other, not even
    /// indirectly: one could be any number of iterations ahead.
    #[error("a convergence test needs tasks that depend on each other; '{a}' and '{b}' never do")]
    Unconnected {
        /// A task.
        a: String,
        /// A task that is not connected to it.
        b: String,
    },
    /// Nothing moved, and a watch ended the run ([`Watch::end`](crate::Watch::end)).
    #[error("{0}")]
    Stuck(Box<Stuck>),
    /// A member of the team is dead, or has left.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The run on a team failed, or could not begin, at another member.
    #[error("rank {rank}: {error}")]
    Elsewhere {
        /// The rank of that member.
        rank: usize,
        /// The error there; a long text is cut.
        error: String,
    },
    /// Members of a team have declared different overlays.
    #[error("the overlays differ: rank 0 has {first}; rank {rank} has {second}")]
    Differs {
        /// The first difference, as rank 0 has it.
        first: String,
        /// A member that has something else there.
        rank: usize,
        /// What that member has.
        second: String,
    },
    /// Tasks of several members use a location whose data cannot be copied between them.
    #[error(
        "location '{location}' is used by tasks of ranks {rank} and {other}, and its data cannot be \
         copied between members: make it a location of a plain value, of a slice of them, or of \
         a serialisable value, or place these tasks in one member"
    )]
    Private {
        /// The location.
        location: String,
        /// A member with a task that uses it.
        rank: usize,
        /// Another such member.
        other: usize,
    },
    /// The first or the final value of a location cannot be encoded or decoded.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A task is placed in a member that does not exist.
    #[error("task '{task}' is placed in rank {rank}; the team has the ranks 0 to {}", members - 1)]
    Rank {
        /// The task.
        task: String,
        /// The rank that was given for it.
        rank: usize,
        /// The number of members.
        members: usize,
    },
    /// The settings of the run are not available on a team.
    #[error("{what} is not available in a run on a team: use {instead}")]
    NotOnTeam {
        /// The setting.
        what: &'static str,
        /// What is available in its place.
        instead: &'static str,
    },
    /// The members of a host have no memory for what they share.
    #[error("the memory that members share: {}", Advised(.0))]
    Space(#[from] SpaceError),
    /// The system could not create a thread.
    #[error("could not start a thread for {what}: {source}")]
    Thread {
        /// The purpose of the thread.
        what: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// The reason why a value of a location was not encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The encoded value is longer than the bound of the location.
    #[error("the value of location '{location}' takes {bytes} bytes, and its bound is {bound}")]
    Long {
        /// The location.
        location: String,
        /// The length of the encoded value.
        bytes: usize,
        /// The bound.
        bound: usize,
    },
    /// The type's `Serialize` refuses the value.
    #[error("the value of location '{location}' cannot be serialised: {reason}")]
    Refused {
        /// The location.
        location: String,
        /// The error of the type.
        reason: String,
    },
    /// The bytes are not a value of the type.
    #[error(
        "the bytes of location '{location}' are not a value of its type: {reason}; members may run different builds \
         of the program, which declare the type differently, or the type does not read what it writes"
    )]
    Undecodable {
        /// The location.
        location: String,
        /// The reason.
        reason: String,
    },
}

/// Names the first locations. An error that other processes hear has a maximum length, and its
/// cause comes after them.
fn at(locations: &[String]) -> String {
    const NAMED: usize = 4;
    let names = locations.iter().take(NAMED).cloned().collect::<Vec<_>>().join("', '");
    match locations.len() {
        0 => String::new(),
        1 => format!(" at location '{names}'"),
        2..=NAMED => format!(" at locations '{names}'"),
        all => format!(" at locations '{names}' and {} more", all - NAMED),
    }
}

/// A task left a run whose end is decided by a convergence test.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a task of a run with a convergence test may not leave it")]
pub(crate) struct LeftTest(pub(crate) Task);

/// Returns the message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

//! What can go wrong, each named by task and location.

use std::error::Error;
use std::fmt;

use crate::overlay::Task;
use crate::watch::Stuck;

/// Why a handle could not be acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The deadline passed. The request keeps its place in the queue.
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

/// One step of a cycle: `task` waits at `location` for `ahead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits.
    pub task: String,
    /// Where.
    pub location: String,
    /// Who has an earlier request there that excludes it.
    pub ahead: String,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' waits at '{}' for '{}'", self.task, self.location, self.ahead)
    }
}

pub(crate) fn join(waits: &[Wait]) -> String {
    waits.iter().map(Wait::to_string).collect::<Vec<_>>().join(", ")
}

/// Why an overlay may not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// Tasks wait for each other in a circle: the overlay would stop and never go on.
    #[error("the overlay deadlocks: {}", join(.cycle))]
    Cycle {
        /// The circle, each step's `ahead` being the next one's `task`.
        cycle: Vec<Wait>,
    },
    /// A task asks for one location twice (R3).
    #[error("task '{task}' asks for location '{location}' twice")]
    Twice {
        /// The task.
        task: String,
        /// The location.
        location: String,
    },
    /// An order given for a location does not name each of its tasks exactly once.
    #[error(
        "the order given for location '{location}' must name each task that uses it exactly once: '{task}' {fault}"
    )]
    Order {
        /// The location.
        location: String,
        /// The task that is not.
        task: String,
        /// How it is not.
        fault: OrderFault,
    },
    /// A list of priorities has not one entry for each task.
    #[error("{given} priorities were given for {tasks} tasks")]
    Priorities {
        /// Entries in the list.
        given: usize,
        /// Tasks in the overlay.
        tasks: usize,
    },
    /// A part of a location is given to a task that does not read the location, or writes it.
    #[error("part '{part}' is given to task '{task}', which does not ask to read its location")]
    Part {
        /// The part.
        part: String,
        /// The task.
        task: String,
    },
}

/// What the body of a task may return when it fails.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// Why a run ended early. All tasks have stopped and given back what they held.
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
        /// What it returned.
        source: TaskError,
    },
    /// The body of a task panicked; what it writes is poisoned.
    #[error("task '{task}' panicked in iteration {iteration}{}: {message}", at(.locations))]
    Panicked {
        /// The task.
        task: String,
        /// Its iteration, from 0.
        iteration: u64,
        /// The locations that it writes, poisoned now.
        locations: Vec<String>,
        /// The message of the panic.
        message: String,
    },
    /// A location had been poisoned before the run.
    #[error("location '{location}' was poisoned when '{task}' panicked")]
    Poisoned {
        /// The location.
        location: String,
        /// The task that panicked.
        task: String,
    },
    /// A location belongs to another overlay that runs at this moment.
    #[error("location '{location}' is in use by another overlay that is running")]
    InUse {
        /// The location.
        location: String,
    },
    /// A convergence test was asked of tasks that never wait for each other, not even by way of others:
    /// one could be any number of iterations ahead.
    #[error("a convergence test needs tasks that depend on each other; '{a}' and '{b}' never do")]
    Unconnected {
        /// A task.
        a: String,
        /// A task out of its reach.
        b: String,
    },
    /// Nothing moved any more, and the run was ended from outside ([`Watch::end`](crate::Watch::end)).
    #[error("{0}")]
    Stuck(Box<Stuck>),
    /// The system gave no thread.
    #[error("could not start a thread for {what}: {source}")]
    Thread {
        /// What the thread was for.
        what: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

fn at(locations: &[String]) -> String {
    if locations.is_empty() {
        String::new()
    } else {
        format!(" at location '{}'", locations.join("', '"))
    }
}

/// A task left an overlay whose end is decided by a convergence test.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a task of a run with a convergence test may not leave it")]
pub(crate) struct LeftTest(pub(crate) Task);

/// How an order fails to name a task exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFault {
    /// It uses the location, and is not named.
    Missing,
    /// It is named twice.
    Twice,
    /// It is named, and does not use the location.
    Foreign,
}

impl std::fmt::Display for OrderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OrderFault::Missing => "is missing",
            OrderFault::Twice => "is named twice",
            OrderFault::Foreign => "does not use it",
        })
    }
}

//! The errors of the check of a plan. They are public in [`error`](crate::error).

use std::fmt;

/// One step of a cycle: `task` waits at `location` for `ahead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task that waits.
    pub task: String,
    /// The location where it waits.
    pub location: String,
    /// The task with an earlier request there that excludes it.
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

/// The reason why an overlay may not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// Tasks wait for each other in a cycle: the overlay would deadlock.
    #[error("the overlay deadlocks: {}", join(.cycle))]
    Cycle {
        /// The cycle. The `ahead` of each step is the `task` of the next.
        cycle: Vec<Wait>,
    },
    /// A task asks for the same location twice (R3).
    #[error("task '{task}' asks for location '{location}' twice")]
    Twice {
        /// The task.
        task: String,
        /// The location.
        location: String,
    },
    /// An explicit order for a location does not name each of its tasks exactly once.
    #[error(
        "the order given for location '{location}' must name each task that uses it exactly once: '{task}' {fault}"
    )]
    Order {
        /// The location.
        location: String,
        /// The task that is not named exactly once.
        task: String,
        /// The fault of the order with respect to the task.
        fault: OrderFault,
    },
    /// A list of priorities does not have one entry for each task.
    #[error("{given} priorities were given for {tasks} tasks")]
    Priorities {
        /// The number of entries in the list.
        given: usize,
        /// The number of tasks in the overlay.
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

/// The way in which an explicit order fails to name a task exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFault {
    /// The task uses the location and is not named.
    Missing,
    /// The task is named twice.
    Twice,
    /// The task is named and does not use the location.
    Foreign,
}

impl fmt::Display for OrderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OrderFault::Missing => "is missing",
            OrderFault::Twice => "is named twice",
            OrderFault::Foreign => "does not use it",
        })
    }
}

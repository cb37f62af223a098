//! The bodies of tasks, as their runners call them.

use crate::error::TaskError;
use crate::location::Placement;

/// The interface between the body of a task and its runner, for one iteration.
#[derive(Debug)]
pub struct Step {
    pub(crate) iteration: u64,
    pub(crate) norm: f64,
    pub(crate) leave: bool,
}

impl Step {
    /// Returns the current iteration of this task, from 0.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Reports the size of this task's update, for
    /// [`Stop::converged`](crate::Stop::converged): the residual of an iteration is the maximum
    /// over all tasks of the absolute values reported. A task that does not report counts as 0.
    pub fn report(&mut self, norm: f64) {
        self.norm = norm;
    }

    /// Makes this the last iteration of this task: its next requests are not posted, and no task
    /// waits for it any longer (R5). A run with a convergence test fails if a task leaves.
    pub fn leave(&mut self) {
        self.leave = true;
    }
}

/// The body of a task with its access.
pub(crate) trait Run: Send {
    /// Runs the body once. All requests of the access are granted to the task, and no two of them
    /// name one location.
    fn run(&mut self, step: &mut Step) -> Result<(), TaskError>;

    /// Sets the memory in which the requests find their data, as
    /// [`Access::place`](crate::access::Access::place) does.
    fn place(&mut self, next: &mut dyn FnMut() -> Placement);
}

pub(crate) type Body<'env> = Box<dyn Run + 'env>;

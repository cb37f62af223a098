//! Overlays: tasks, and what they read and write; the only type that runs is a checked one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::access::Access;
use crate::error::{CheckError, RunError, TaskError};
use crate::initial::Initial;
use crate::location::{Core, Location};
use crate::plan::{LocationId, Plan, Queues};
use crate::program::Program;
use crate::run::{self, RunReport, Runner};
use crate::snapshot::Snapshot;
use crate::stop::Stop;
use crate::watch::{Live, Unchecked, Watch};

/// A task of an overlay: its number in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task(pub(crate) u32);

/// What the body of a task is told about its present iteration, and can say about it.
#[derive(Debug)]
pub struct Step {
    pub(crate) iteration: u64,
    pub(crate) norm: f64,
    pub(crate) leave: bool,
}

impl Step {
    /// The iteration of this task, from 0.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Reports the size of this task's update, for [`Stop::converged`]: the residual of an iteration
    /// is the greatest report of all tasks, in absolute value. Without a report it is 0.
    pub fn report(&mut self, norm: f64) {
        self.norm = norm;
    }

    /// Makes this the last iteration of this task: its next requests are not posted, and nobody waits
    /// for it from now on (R5). Not for runs that end by a convergence test.
    pub fn leave(&mut self) {
        self.leave = true;
    }
}

/// What the body of a task may return: nothing, or a result whose error stops the run.
pub trait Outcome {
    /// As a result.
    ///
    /// # Errors
    /// The error of the body, if it is one.
    fn outcome(self) -> Result<(), TaskError>;
}

impl Outcome for () {
    #[inline]
    fn outcome(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError>> Outcome for Result<(), E> {
    #[inline]
    fn outcome(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

pub(crate) type Body<'env> = Box<dyn FnMut(&mut Step) -> Result<(), TaskError> + Send + 'env>;

/// Tasks that go round, each with the locations that it reads and writes.
///
/// Bodies may borrow from the surroundings (`'env`). They reach locations through the guards that they
/// are given, and through nothing else: a data race does not compile.
/// ```compile_fail,E0521
/// # use syncline_overlay::{Location, Overlay};
/// let cell = Location::new("cell", 1);
/// let mut out: Option<&i32> = None;
/// let mut overlay = Overlay::new();
/// overlay.task("t", cell.read(), |cell, _| out = Some(cell));
/// ```
/// ```compile_fail,E0594
/// # use syncline_overlay::{Location, Overlay};
/// let cell = Location::new("cell", 1);
/// let mut overlay = Overlay::new();
/// overlay.task("t", cell.read(), |cell, _| *cell = 2);
/// ```
/// An overlay that was not checked does not run:
/// ```compile_fail,E0599
/// # use syncline_overlay::{Location, Overlay, Runner, Stop};
/// let mut overlay = Overlay::new();
/// overlay.run(Runner::Threads, Stop::after(1));
/// ```
#[derive(Default)]
pub struct Overlay<'env> {
    plan: Plan,
    bodies: Vec<Body<'env>>,
    cores: Vec<Arc<Core>>,
    numbers: HashMap<*const Core, LocationId>,
}

impl<'env> Overlay<'env> {
    /// An overlay without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a task: its name, what it reads and writes, and what it does in each iteration.
    pub fn task<A, F, R>(&mut self, name: impl Into<String>, access: A, mut body: F) -> Task
    where
        A: Access,
        F: for<'g> FnMut(A::Guard<'g>, &mut Step) -> R + Send + 'env,
        R: Outcome,
    {
        let mut list = Vec::new();
        access.requests(&mut list);
        let requests: Vec<_> = list.iter().map(|r| (self.place(&r.core), r.kind)).collect();
        let mut access = access;
        let task = self.plan.task(name, requests);
        self.bodies.push(Box::new(move |step| {
            // SAFETY: runners call a body only while all requests that its access lists are granted,
            // and `check` refuses tasks that ask for one location twice.
            let guards = unsafe { access.open() };
            body(guards, step).outcome()
        }));
        task
    }

    /// Sets the order of the first requests at one location by hand, in place of the order that
    /// [`check`](Overlay::check) is given. It must name each task that uses the location once; of several
    /// orders for one location the last one counts. This is how a deadlock can be made; `check` finds it.
    pub fn order<T>(&mut self, location: &Location<T>, tasks: impl IntoIterator<Item = Task>) {
        let place = self.place(&location.core);
        self.plan.order(place, tasks);
    }

    fn place(&mut self, core: &Arc<Core>) -> LocationId {
        *self.numbers.entry(Arc::as_ptr(core)).or_insert_with(|| {
            self.cores.push(Arc::clone(core));
            self.plan.location(core.name.clone())
        })
    }

    /// Checks that the overlay can never deadlock when its first requests are queued in the order of `initial`,
    /// as long as bodies wait for nothing else and handles from outside are released.
    ///
    /// # Errors
    /// [`CheckError::Cycle`] names the tasks that would wait for each other; other errors say what is
    /// wrong with the description.
    ///
    /// # Examples
    /// ```
    /// use syncline_overlay::{Initial, Location, Overlay, error::CheckError};
    ///
    /// let (x, y) = (Location::new("x", ()), Location::new("y", ()));
    /// let mut overlay = Overlay::new();
    /// let a = overlay.task("a", (x.write(), y.write()), |_, _| ());
    /// let b = overlay.task("b", (x.write(), y.write()), |_, _| ());
    /// overlay.order(&x, [a, b]);
    /// overlay.order(&y, [b, a]);
    /// let error = overlay.check(Initial::Program).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the overlay deadlocks: 'a' waits at 'y' for 'b', 'b' waits at 'x' for 'a'",
    /// );
    /// ```
    pub fn check(self, initial: Initial) -> Result<Checked<'env>, CheckError> {
        let queues = self.plan.live(&initial)?;
        let Overlay { plan, bodies, cores, .. } = self;
        let program = Program::new(&queues, plan.tasks.len(), |_| true);
        Ok(Checked { live: Live::new(plan), bodies, cores, queues, program: Some(program) })
    }

    /// Leaves the check out, for those who want to see a deadlock. The result runs over its queues only, and is watched.
    ///
    /// # Errors
    /// What is wrong with the description; never [`CheckError::Cycle`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
    ///
    /// let (x, y) = (Location::new("x", ()), Location::new("y", ()));
    /// let mut overlay = Overlay::new();
    /// let a = overlay.task("a", (x.write(), y.write()), |_, _| ());
    /// let b = overlay.task("b", (x.write(), y.write()), |_, _| ());
    /// overlay.order(&x, [a, b]);
    /// overlay.order(&y, [b, a]);
    /// let mut overlay = overlay.unchecked(Initial::Program)?;
    /// let error = overlay.run(Runner::pool(2), Stop::after(1), Duration::from_millis(20)).unwrap_err();
    /// assert!(error.to_string().ends_with("a deadlock: 'a' waits at 'y' for 'b', 'b' waits at 'x' for 'a'"));
    /// # Ok::<(), syncline_overlay::error::CheckError>(())
    /// ```
    pub fn unchecked(self, initial: Initial) -> Result<Unchecked<'env>, CheckError> {
        let queues = self.plan.queues(&initial)?;
        let Overlay { plan, bodies, cores, .. } = self;
        Ok(Unchecked(Checked { live: Live::new(plan), bodies, cores, queues, program: None }))
    }

    /// The tasks and what they ask for, without data and bodies.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("tasks", &self.plan.tasks.len())
            .field("locations", &self.cores.len())
            .finish_non_exhaustive()
    }
}

/// An overlay that cannot deadlock. Made by [`Overlay::check`]; the only type that has [`run`](Checked::run).
pub struct Checked<'env> {
    /// The plan, and what a watch sees.
    pub(crate) live: Arc<Live>,
    pub(crate) bodies: Vec<Body<'env>>,
    pub(crate) cores: Vec<Arc<Core>>,
    /// Per location: the first requests in order.
    pub(crate) queues: Queues,
    /// The compiled form of the whole, if it was checked.
    pub(crate) program: Option<Program>,
}

impl Checked<'_> {
    /// Runs the tasks, each again and again, until `stop` says so.
    ///
    /// The first requests are queued anew, so an overlay can be run again after it has ended. Returns
    /// when every task has stopped and has given back what it held, also after an error.
    ///
    /// # Errors
    /// [`RunError::Failed`] and [`RunError::Panicked`] name the task; see the other variants for what
    /// can be wrong before the start.
    pub fn run(&mut self, runner: Runner, stop: Stop) -> Result<RunReport, RunError> {
        run::run(self, runner, stop)
    }

    /// The tasks and what they ask for, without data and bodies.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.live.plan
    }

    /// The first requests, as every run queues them.
    #[must_use]
    pub fn start(&self) -> Snapshot {
        Snapshot::of_start(self.plan(), &self.queues)
    }

    /// Looks at runs of this overlay from other threads: who waits for whom, and whether anything moves.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(&self.live)
    }

    /// The names of the tasks that can start at once.
    #[must_use]
    pub fn active(&self) -> Vec<&str> {
        self.start().active().into_iter().map(|t| self.plan().task_name(t)).collect()
    }
}

impl Drop for Checked<'_> {
    fn drop(&mut self) {
        self.live.close();
    }
}

impl fmt::Debug for Checked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("tasks", &self.plan().tasks.len())
            .field("locations", &self.cores.len())
            .finish_non_exhaustive()
    }
}

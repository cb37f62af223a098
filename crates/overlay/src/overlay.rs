//! Overlays: tasks and the locations that they read and write. Only a checked overlay runs.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::access::{Access, Outcome};
use crate::body::{Body, Run, Step};
use crate::compiled::Program;
use crate::error::{CheckError, TaskError};
use crate::initial::Initial;
use crate::live::Live;
use crate::location::{Core, Location, Placement};
use crate::plan::{LocationId, Plan, Queues, Task};
use crate::snapshot::Snapshot;

struct TaskBody<A, F> {
    access: A,
    body: F,
}

impl<A, F, R> Run for TaskBody<A, F>
where
    A: Access,
    F: for<'g> FnMut(A::Guard<'g>, &mut Step) -> R + Send,
    R: Outcome,
{
    fn run(&mut self, step: &mut Step) -> Result<(), TaskError> {
        // SAFETY: all requests that the access lists are granted while the guards live: runners
        // call a body only then. No two requests name one location: `check` refuses such tasks.
        // The memory is the locations' own, or that of a run on a team, which lasts as long as the
        // run.
        let guards = unsafe { self.access.open(step.iteration) };
        (self.body)(guards, step).outcome()
    }

    fn place(&mut self, next: &mut dyn FnMut() -> Placement) {
        self.access.place(next);
    }
}

/// Iterative tasks, each with the locations that it reads and writes.
///
/// Bodies may borrow from their environment (`'env`). They reach locations through the guards that
/// they receive, and through nothing else: a data race does not compile.
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
    /// The members that run tasks, where they are given.
    ranks: BTreeMap<u32, usize>,
    numbers: HashMap<*const Core, LocationId>,
}

impl<'env> Overlay<'env> {
    /// Creates an overlay without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a task: its name, the locations that it reads and writes, and its body, which runs
    /// once per iteration.
    pub fn task<A, F, R>(&mut self, name: impl Into<String>, access: A, body: F) -> Task
    where
        A: Access,
        F: for<'g> FnMut(A::Guard<'g>, &mut Step) -> R + Send + 'env,
        R: Outcome,
    {
        let mut list = Vec::new();
        access.requests(&mut list);
        let requests: Vec<_> = list.iter().map(|r| (self.number(&r.core), r.kind)).collect();
        let task = self.plan.task(name, requests);
        self.bodies.push(Box::new(TaskBody { access, body }));
        task
    }

    /// Sets the order of the first requests at one location explicitly, in place of the order
    /// passed to [`check`](Overlay::check). It must name each task that uses the location exactly
    /// once; a later call for the same location replaces the order. Explicit orders can deadlock;
    /// `check` detects that.
    pub fn order<T: ?Sized>(
        &mut self,
        location: &Location<T>,
        tasks: impl IntoIterator<Item = Task>,
    ) {
        let place = self.number(&location.core);
        self.plan.order(place, tasks);
    }

    /// Places a task in a member of a team: in a run [on a team](Checked::run_on), the member of
    /// this rank runs the task. A later call for the same task replaces the rank. By default the
    /// members have equal parts of the tasks, in the order of declaration.
    pub fn place(&mut self, task: Task, rank: usize) {
        self.ranks.insert(task.0, rank);
    }

    fn number(&mut self, core: &Arc<Core>) -> LocationId {
        *self.numbers.entry(Arc::as_ptr(core)).or_insert_with(|| {
            self.cores.push(Arc::clone(core));
            self.plan.location(core.name.clone())
        })
    }

    /// Checks that the overlay can never deadlock when its first requests are queued in the order
    /// of `initial`, provided that bodies wait for nothing else and handles from outside are
    /// released.
    ///
    /// # Errors
    /// [`CheckError::Cycle`] names the tasks that would wait for each other. The other errors
    /// describe a faulty declaration.
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
        let program = Program::new(&queues, self.plan.tasks.len(), |_| true);
        Ok(self.into_checked(queues, Some(program)))
    }

    pub(crate) fn into_checked(self, queues: Queues, program: Option<Program>) -> Checked<'env> {
        let Overlay { plan, bodies, cores, ranks, .. } = self;
        Checked { live: Live::new(plan), bodies, cores, ranks, queues, program }
    }

    /// Returns the tasks and their requests, without data and bodies.
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

/// An overlay that cannot deadlock, returned by [`Overlay::check`]. Only this type has
/// [`run`](Checked::run).
pub struct Checked<'env> {
    /// The plan, and the state shared with watches.
    pub(crate) live: Arc<Live>,
    pub(crate) bodies: Vec<Body<'env>>,
    pub(crate) cores: Vec<Arc<Core>>,
    /// The members that run tasks, where they are given.
    pub(crate) ranks: BTreeMap<u32, usize>,
    /// The queue of first requests of each location.
    pub(crate) queues: Queues,
    /// The compiled form of the whole overlay, if it was checked.
    pub(crate) program: Option<Program>,
}

impl Checked<'_> {
    /// Returns the tasks and their requests, without data and bodies.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.live.plan
    }

    /// Returns the queues of the first requests, as each run begins with them.
    #[must_use]
    pub fn start(&self) -> Snapshot {
        Snapshot::of_start(self.plan(), &self.queues)
    }

    /// Returns the names of the tasks that can start immediately.
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

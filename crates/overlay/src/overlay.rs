//! Overlays: tasks, and what they read and write; the only type that runs is a checked one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::access::Access;
use crate::check;
use crate::error::{CheckError, RunError, TaskError, Wait};
use crate::initial::Initial;
use crate::location::{Core, Location};
use crate::raw::Kind;
use crate::run::{self, Report, Runner};
use crate::stop::Stop;

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
    /// is the greatest report of all tasks, in absolute value.
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
    names: Vec<String>,
    requests: Vec<Vec<(u32, Kind)>>,
    bodies: Vec<Body<'env>>,
    cores: Vec<Arc<Core>>,
    numbers: HashMap<*const Core, u32>,
    orders: Vec<(u32, Vec<Task>)>,
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
        let requests = list.iter().map(|r| (self.number(&r.core), r.kind)).collect();
        let mut access = access;
        let task = Task(self.names.len() as u32);
        self.names.push(name.into());
        self.requests.push(requests);
        self.bodies.push(Box::new(move |step| {
            // SAFETY: runners call a body only while all requests that its access lists are granted,
            // and `check` refuses tasks that ask for one location twice.
            let guards = unsafe { access.open() };
            body(guards, step).outcome()
        }));
        task
    }

    /// Sets the order of the first requests at one location by hand, in place of the order that
    /// [`check`](Overlay::check) is given. It must name each task that uses the location once. This is
    /// how a deadlock can be made; `check` finds it.
    pub fn order<T>(&mut self, location: &Location<T>, tasks: impl IntoIterator<Item = Task>) {
        let number = self.number(&location.core);
        self.orders.push((number, tasks.into_iter().collect()));
    }

    fn number(&mut self, core: &Arc<Core>) -> u32 {
        *self.numbers.entry(Arc::as_ptr(core)).or_insert_with(|| {
            self.cores.push(Arc::clone(core));
            self.cores.len() as u32 - 1
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
    /// use syncline_overlay::{CheckError, Initial, Location, Overlay};
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
        self.check_twice()?;
        if let Initial::Priority(p) = &initial
            && p.len() != self.names.len()
        {
            return Err(CheckError::Priorities { given: p.len(), tasks: self.names.len() });
        }
        let mut queues = vec![Vec::new(); self.cores.len()];
        for t in initial.order(&self.requests, self.cores.len()) {
            for &(l, kind) in &self.requests[t as usize] {
                queues[l as usize].push((t, kind));
            }
        }
        for (location, tasks) in &self.orders {
            self.reorder(&mut queues[*location as usize], *location, tasks)?;
        }
        if let Some(cycle) = check::cycle(&queues, self.names.len()) {
            let name = |t: u32| self.names[t as usize].clone();
            let wait = |(task, location, ahead): check::Step| Wait {
                task: name(task),
                location: self.cores[location as usize].name.clone(),
                ahead: name(ahead),
            };
            return Err(CheckError::Cycle { cycle: cycle.into_iter().map(wait).collect() });
        }
        let Overlay { names, requests, bodies, cores, .. } = self;
        Ok(Checked { names, requests, bodies, cores, queues })
    }

    fn check_twice(&self) -> Result<(), CheckError> {
        for (name, requests) in self.names.iter().zip(&self.requests) {
            let mut locations: Vec<u32> = requests.iter().map(|r| r.0).collect();
            locations.sort_unstable();
            if let Some(twice) = locations.windows(2).find(|w| w[0] == w[1]) {
                let location = self.cores[twice[0] as usize].name.clone();
                return Err(CheckError::Twice { task: name.clone(), location });
            }
        }
        Ok(())
    }

    fn reorder(&self, queue: &mut [(u32, Kind)], location: u32, tasks: &[Task]) -> Result<(), CheckError> {
        let mut place: HashMap<u32, usize> = HashMap::new();
        let wrong = |t: u32| CheckError::Order {
            location: self.cores[location as usize].name.clone(),
            task: self.names.get(t as usize).cloned().unwrap_or_else(|| format!("task {t}")),
        };
        for (i, task) in tasks.iter().enumerate() {
            if place.insert(task.0, i).is_some() || !queue.iter().any(|q| q.0 == task.0) {
                return Err(wrong(task.0));
            }
        }
        if let Some(&(missing, _)) = queue.iter().find(|q| !place.contains_key(&q.0)) {
            return Err(wrong(missing));
        }
        queue.sort_by_key(|q| place[&q.0]);
        Ok(())
    }
}

impl fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("tasks", &self.names.len())
            .field("locations", &self.cores.len())
            .finish_non_exhaustive()
    }
}

/// An overlay that cannot deadlock. Made by [`Overlay::check`]; the only type that has [`run`](Checked::run).
pub struct Checked<'env> {
    pub(crate) names: Vec<String>,
    pub(crate) requests: Vec<Vec<(u32, Kind)>>,
    pub(crate) bodies: Vec<Body<'env>>,
    pub(crate) cores: Vec<Arc<Core>>,
    /// Per location: the first requests in order.
    pub(crate) queues: Vec<Vec<(u32, Kind)>>,
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
    pub fn run(&mut self, runner: Runner, stop: Stop) -> Result<Report, RunError> {
        run::run(self, runner, stop)
    }

    /// The names of the tasks that can start at once.
    #[must_use]
    pub fn active(&self) -> Vec<&str> {
        let mut waiting = vec![false; self.names.len()];
        for queue in &self.queues {
            let first = match queue.first() {
                Some((_, Kind::Exclusive)) => 1,
                _ => queue.iter().take_while(|q| q.1 == Kind::Inclusive).count(),
            };
            queue[first..].iter().for_each(|q| waiting[q.0 as usize] = true);
        }
        self.names.iter().zip(waiting).filter(|(_, w)| !w).map(|(n, _)| n.as_str()).collect()
    }
}

impl fmt::Debug for Checked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("tasks", &self.names.len())
            .field("locations", &self.cores.len())
            .finish_non_exhaustive()
    }
}

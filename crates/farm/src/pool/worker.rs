//! What a worker of a pool does.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::FarmError;
use crate::farm::Farm;
use crate::pool::order::{Order, Ran, ReportRef};
use crate::pool::{TaskError, monotonic};
use crate::vpid::Vpid;
use crate::wire;

/// How long results may be kept to be sent together.
const KEPT: Duration = Duration::from_millis(1);

/// Serves a pool, if this process is a worker of one: runs `f` for each task that it is given, and exits when there are no
/// more. In any other process it returns at once.
///
/// A task that panics is an error of that task ([`TaskError::Panicked`]); the worker goes on.
///
/// # Errors
/// As [`Farm::join`].
///
/// # Examples
/// ```
/// use syncline_farm::{Crew, serve};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     serve(|n: u64| n * n)?; // workers stay in here
///     let mut pool = Crew::of(2).start::<u64, u64>()?;
///     let mut squares: Vec<u64> = pool.map(0..100).map(|done| done.result).collect::<Result<_, _>>()?;
///     squares.sort();
///     assert_eq!(squares[99], 99 * 99);
///     Ok(())
/// }
/// ```
pub fn serve<T, R>(mut f: impl FnMut(T) -> R) -> Result<(), FarmError>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    let Some(farm) = Farm::join()? else { return Ok(()) };
    let mut worker = Worker::new(farm);
    let ended = worker.attend(|task, _| f(task));
    end(ended)
}

/// As [`serve`], for tasks that fork others and join them.
///
/// A task's children are run by whatever worker is free, or by the worker itself when it joins them; their results go to it
/// alone. Every task joins its children before it ends (what it does not join is lost): the computation is fully strict.
///
/// # Errors
/// As [`Farm::join`].
///
/// # Examples
/// ```
/// use syncline_farm::{Crew, Forks, serve_forks};
///
/// fn fibonacci(n: u32, forks: &mut Forks<'_, u32, u64>) -> u64 {
///     if n < 2 {
///         return n.into();
///     }
///     let other = forks.fork(n - 1);
///     let one = fibonacci(n - 2, forks);
///     one + forks.join(other).unwrap()
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     serve_forks(fibonacci)?;
///     let mut pool = Crew::of(2).forks().start::<u32, u64>()?;
///     assert_eq!(pool.run(10)?, 55);
///     Ok(())
/// }
/// ```
pub fn serve_forks<T, R>(f: impl Fn(T, &mut Forks<'_, T, R>) -> R) -> Result<(), FarmError>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    let Some(farm) = Farm::join()? else { return Ok(()) };
    let mut worker = Worker::new(farm);
    let ended = worker.attend(|task, worker| f(task, &mut Forks { worker, f: &f }));
    end(ended)
}

fn end(ended: Result<(), FarmError>) -> ! {
    let code = match ended {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("syncline: a worker ends: {error}");
            3
        }
    };
    std::process::exit(code)
}

/// What a worker has.
pub(crate) struct Worker<T, R> {
    farm: Farm,
    /// Results that were not sent yet, and how long their tasks took.
    results: Vec<Ran<R>>,
    nanos: u64,
    /// Children that were forked and not joined.
    forked: HashMap<u64, T>,
    forks: u64,
    begun: u64,
}

impl<T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Worker<T, R> {
    fn new(farm: Farm) -> Self {
        let (results, forked) = (Vec::new(), HashMap::new());
        Worker { farm, results, nanos: 0, forked, forks: 0, begun: 0 }
    }

    fn attend(&mut self, mut f: impl FnMut(T, &mut Self) -> R) -> Result<(), FarmError> {
        loop {
            match self.hear()? {
                Order::Run(tasks) => self.run(tasks, &mut f)?,
                Order::End => return Ok(()),
                // Nobody waits.
                Order::Yours | Order::Answer(_) => (),
            }
        }
    }

    fn run(&mut self, tasks: Vec<T>, f: &mut impl FnMut(T, &mut Self) -> R) -> Result<(), FarmError> {
        let mut begin = monotonic();
        for task in tasks {
            self.begun += 1;
            let diary = self.farm.diary(self.farm.vpid());
            // Relaxed, here and below: the manager reads it to guess, or when this process is no more.
            diary.since.store(begin, Ordering::Relaxed);
            diary.begun.store(self.begun, Ordering::Relaxed);
            let ran = catch_unwind(AssertUnwindSafe(|| f(task, self))).map_err(said);
            let now = monotonic();
            self.nanos += now - begin;
            begin = now;
            self.farm.diary(self.farm.vpid()).since.store(0, Ordering::Relaxed);
            self.results.push(ran);
            self.forked.clear();
            if self.nanos > KEPT.as_nanos() as u64 {
                self.send_results()?;
            }
        }
        self.send_results()
    }

    fn send_results(&mut self) -> Result<(), FarmError> {
        if self.results.is_empty() {
            return Ok(());
        }
        let (results, nanos) = (std::mem::take(&mut self.results), std::mem::take(&mut self.nanos));
        let report = ReportRef::Done { results: &results, nanos };
        match self.say(&report) {
            // What cannot be sent is an error of the task, if it is one.
            Err(FarmError::Unsendable { .. } | FarmError::Room { .. }) => self.one_by_one(results, nanos),
            said => said,
        }
    }

    fn one_by_one(&mut self, results: Vec<Ran<R>>, nanos: u64) -> Result<(), FarmError> {
        for (place, ran) in results.into_iter().enumerate() {
            let nanos = if place == 0 { nanos } else { 0 };
            match self.say(&ReportRef::Done { results: &[ran], nanos }) {
                Err(why @ (FarmError::Unsendable { .. } | FarmError::Room { .. })) => {
                    let ran = Err(format!("its result cannot be sent: {why}"));
                    self.say(&ReportRef::Done { results: &[ran], nanos })?;
                }
                said => said?,
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<Order<T, R>, FarmError> {
        let from = Vpid::MANAGER;
        let message = self.farm.recv_message(from)?;
        wire::read(message).map_err(|why| FarmError::Garbled { from, why })
    }

    fn say(&mut self, report: &ReportRef<'_, T, R>) -> Result<(), FarmError> {
        self.farm.send_serialized(Vpid::MANAGER, report)
    }

    fn fork(&mut self, task: T) -> Result<u64, FarmError> {
        self.forks += 1;
        let number = self.forks;
        self.say(&ReportRef::Fork { number, task: &task })?;
        self.forked.insert(number, task);
        Ok(number)
    }

    /// The result of a child, or the child itself, which nobody has begun.
    fn join(&mut self, number: u64) -> Result<Result<Result<R, TaskError>, T>, FarmError> {
        self.say(&ReportRef::Join { number })?;
        let task = self.forked.remove(&number);
        match (self.hear()?, task) {
            (Order::Yours, Some(task)) => Ok(Err(task)),
            (Order::Answer(result), _) => Ok(Ok(result)),
            // The manager says nothing else to one that waits.
            _ => Ok(Ok(Err(TaskError::Garbled { why: "the manager's answer is none".to_owned() }))),
        }
    }
}

/// What a panic said.
fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let message = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(not a text)").to_owned();
    // Its own end might panic.
    std::mem::forget(panic);
    message
}

/// By which a running task forks others, and joins them: see [`serve_forks`].
pub struct Forks<'w, T, R> {
    worker: &'w mut Worker<T, R>,
    f: &'w dyn Fn(T, &mut Forks<'_, T, R>) -> R,
}

/// A child that was forked. It is joined once.
#[derive(Debug)]
#[must_use = "a child that is not joined is lost"]
pub struct Forked<R> {
    number: Result<u64, TaskError>,
    of: PhantomData<fn() -> R>,
}

impl<T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Forks<'_, T, R> {
    /// Makes a task a child of the running one: from now on any worker may begin it.
    pub fn fork(&mut self, task: T) -> Forked<R> {
        let number = self.worker.fork(task).map_err(|error| TaskError::Unsendable { why: error.to_string() });
        Forked { number, of: PhantomData }
    }

    /// Waits for the result of a child. If nobody has begun it, it is run here and now.
    ///
    /// # Errors
    /// What has become of the child if it has no result.
    pub fn join(&mut self, child: Forked<R>) -> Result<R, TaskError> {
        match self.worker.join(child.number?) {
            Ok(Ok(result)) => result,
            Ok(Err(task)) => {
                let Forks { worker, f } = self;
                let run = AssertUnwindSafe(|| f(task, &mut Forks { worker, f: *f }));
                catch_unwind(run).map_err(|panic| TaskError::Panicked { message: said(panic) })
            }
            // The manager is gone, and soon so is this process.
            Err(error) => Err(TaskError::Garbled { why: error.to_string() }),
        }
    }
}

impl<T, R> fmt::Debug for Forks<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forks").field("forks", &self.worker.forks).finish_non_exhaustive()
    }
}

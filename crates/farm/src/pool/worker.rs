//! The worker of a pool.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_trace::{Activity, span};

use crate::error::FarmError;
use crate::farm::Farm;
use crate::pool::fork_table::{Offer, Right, WORKERS};
use crate::pool::order::{Order, Ran, ReportRef};
use crate::pool::steal::Seat;
use crate::pool::{TaskError, monotonic};
use crate::pool_transport::PoolTransport;
use crate::record::PUBLISHED;
use crate::vpid::Vpid;
use crate::wire::WireError;

/// The longest time for which results are kept to be sent together.
const KEPT: Duration = Duration::from_millis(1);

/// Serves a pool, if this process is a worker of one: runs `f` for each task that it is given, and
/// exits when there are no more. In any other process it returns at once.
///
/// A panic of a task ends that task with [`TaskError::Panicked`]; the worker continues.
///
/// # Errors
/// Those of [`Farm::join`].
///
/// # Examples
/// ```
/// use syncline_farm::{PoolBuilder, serve};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     serve(|n: u64| n * n)?; // workers stay in here
///     let mut pool = PoolBuilder::new(2).start::<u64, u64>()?;
///     let squares = pool.map(0..100).map(|done| done.result);
///     let mut squares: Vec<u64> = squares.collect::<Result<_, _>>()?;
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
    let mut worker = Worker::new(PoolTransport::Farm(Box::new(farm)));
    let ended = worker.attend(|task, _| f(task));
    end(ended)
}

/// Like [`serve`], for tasks that fork and join other tasks.
///
/// A task's children are run by any free worker, or by the worker itself when it joins them; their
/// results are returned to it only. The computation is fully strict: every task joins its children
/// before it ends, and children that it does not join are lost.
///
/// # Errors
/// Those of [`Farm::join`].
///
/// # Examples
/// ```
/// use syncline_farm::{PoolBuilder, pool::{Forks, serve_forks}};
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
///     let mut pool = PoolBuilder::new(2).forks().start::<u32, u64>()?;
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
    end(work(PoolTransport::Farm(Box::new(farm)), f))
}

/// Executes the manager's orders until the manager says that there are no more tasks.
pub(crate) fn work<T, R>(
    transport: PoolTransport,
    f: impl Fn(T, &mut Forks<'_, T, R>) -> R,
) -> Result<(), FarmError>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    let mut worker = Worker::new(transport);
    match worker.recv(Activity::AwaitJob)? {
        Order::ForkTable { block, worker: index } => {
            worker.sit(block, index).and_then(|()| worker.steal(&f))
        }
        order => worker.attend_to(order, |task, worker| f(task, &mut Forks::new(worker, &f))),
    }
}

fn end(ended: Result<(), FarmError>) -> ! {
    let code = match ended {
        Ok(()) => 0,
        Err(error) => {
            // One write, as other workers may write there too.
            let line = format!("syncline: a worker ends with an error: {error}\n");
            let _ = io::stderr().write_all(line.as_bytes());
            3
        }
    };
    std::process::exit(code)
}

/// The state of a worker.
pub(crate) struct Worker<T, R> {
    transport: PoolTransport,
    /// The results that were not sent yet, and the time that their tasks took.
    results: Vec<Ran<R>>,
    nanos: u64,
    /// Children that were forked and not joined, with their offers, if they are in a fork table.
    forked: HashMap<u64, (Option<Offer>, T)>,
    pub(crate) forks: u64,
    begun: u64,
    /// Whether forked tasks are reported to the manager.
    reports_forks: bool,
    /// Its seat at the fork table, if there is one.
    pub(crate) seat: Option<Seat>,
    /// Whether its current tasks are not wanted any more.
    cancelled: bool,
    /// Whether the result of the current task is sent at once.
    at_once: bool,
    /// The orders that arrived while it checked for cancellation.
    later: VecDeque<Order<T, R>>,
}

impl<T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Worker<T, R> {
    fn new(transport: PoolTransport) -> Self {
        let (results, forked) = (Vec::new(), HashMap::new());
        let (seat, later) = (None, VecDeque::new());
        Worker {
            transport,
            results,
            nanos: 0,
            forked,
            forks: 0,
            begun: 0,
            reports_forks: false,
            seat,
            cancelled: false,
            at_once: false,
            later,
        }
    }

    fn attend(&mut self, f: impl FnMut(T, &mut Self) -> R) -> Result<(), FarmError> {
        let first = self.recv(Activity::AwaitJob)?;
        self.attend_to(first, f)
    }

    fn attend_to(
        &mut self,
        mut order: Order<T, R>,
        mut f: impl FnMut(T, &mut Self) -> R,
    ) -> Result<(), FarmError> {
        loop {
            match order {
                Order::Run { tasks, numbers } => {
                    self.cancelled = false;
                    self.run(tasks, &numbers, &mut f)?;
                }
                Order::End => return Ok(()),
                Order::Forks => self.reports_forks = true,
                // No join is pending, and no task is running.
                Order::Yours | Order::Answer(_) | Order::Cancel => (),
                // Valid only as the first order, for workers that call `serve_forks`.
                Order::ForkTable { .. } => {
                    let why = WireError::Damaged {
                        what: "a fork table for a worker that does not fork (serve, not serve_forks)",
                    };
                    return Err(FarmError::Garbled { from: Vpid::MANAGER, why });
                }
            }
            order = match self.later.pop_front() {
                Some(order) => order,
                None => self.recv(Activity::AwaitJob)?,
            };
        }
    }

    /// Takes its seat at the fork table.
    fn sit(&mut self, block: u32, worker: u64) -> Result<(), FarmError> {
        let (vpid, worker) = (self.transport.vpid(), usize::try_from(worker).unwrap_or(usize::MAX));
        let arena = self.transport.farm().map(|farm| Arc::clone(farm.arena()));
        match arena.filter(|arena| worker < WORKERS && arena.may_be_fork_table(block)) {
            Some(arena) => {
                // SAFETY: the block is a fork table: the manager, which creates the fork tables,
                // says so.
                self.seat = Some(unsafe { Seat::new(&arena, block, worker, vpid) });
                Ok(())
            }
            None => {
                let why = WireError::Damaged { what: "the fork table" };
                Err(FarmError::Garbled { from: Vpid::MANAGER, why })
            }
        }
    }

    /// Records that a task begins, perhaps within another; returns the start time of the outer
    /// task.
    pub(crate) fn begin(&mut self, now: u64) -> u64 {
        self.begun += 1;
        let Some(progress) = self.transport.progress(self.transport.vpid()) else { return 0 };
        // Relaxed, as everywhere: the manager reads it as a hint, or after this process has ended.
        let outer = progress.since.load(Ordering::Relaxed);
        progress.since.store(now, Ordering::Relaxed);
        progress.begun.store(self.begun, Ordering::Relaxed);
        outer
    }

    /// Records that a task has ended, and that the outer task, if there is one, continues.
    pub(crate) fn resume(&mut self, outer: u64) {
        let since = if outer == 0 { 0 } else { monotonic() };
        if let Some(progress) = self.transport.progress(self.transport.vpid()) {
            progress.since.store(since, Ordering::Relaxed);
        }
    }

    /// Abandons the tasks that were forked after number `first` and not joined.
    pub(crate) fn forget_forks_after(&mut self, first: u64) {
        if self.check_not_forked().is_err() {
            return self.forked.clear();
        }
        let late = self.forked.keys().copied().filter(|&number| number > first).collect::<Vec<_>>();
        for number in late {
            if let (Some((Some(offer), _)), Some(seat)) = (self.forked.remove(&number), &self.seat)
            {
                seat.abandon(offer);
            }
        }
    }

    fn run(
        &mut self,
        tasks: Vec<T>,
        numbers: &[u64],
        f: &mut impl FnMut(T, &mut Self) -> R,
    ) -> Result<(), FarmError> {
        // For tasks that take less than a microsecond, the clock is read once for several tasks, as
        // a reading takes a considerable part of that time.
        let (mut begin, mut unread, mut stride) = (monotonic(), 0, 1);
        self.results.reserve(tasks.len());
        let last = tasks.len();
        for (place, task) in tasks.into_iter().enumerate() {
            self.begin(begin);
            let job = span(Activity::Job, 0, numbers.get(place).copied().unwrap_or(u64::MAX));
            let ran = catch_unwind(AssertUnwindSafe(|| f(task, self)));
            drop(job);
            let ran = ran.map_err(|panic| TaskError::Panicked { message: panic_message(panic) });
            // A child that the task has forked also gets here: the tasks do not belong to it.
            self.check_not_forked()?;
            self.results.push(ran);
            if !self.forked.is_empty() {
                self.forget_forks_after(0);
            }
            unread += 1;
            if unread >= stride || place + 1 == last {
                let now = monotonic();
                let took = now - begin;
                stride = if took < unread * 1000 { 32 } else { 1 };
                self.nanos += took;
                (begin, unread) = (now, 0);
                if self.nanos > KEPT.as_nanos() as u64 {
                    self.send_results()?;
                }
            }
            if std::mem::take(&mut self.at_once) {
                self.send_results()?;
            }
        }
        self.resume(0);
        self.send_results()
    }

    fn send_results(&mut self) -> Result<(), FarmError> {
        if self.results.is_empty() {
            return Ok(());
        }
        let (results, nanos) = (std::mem::take(&mut self.results), std::mem::take(&mut self.nanos));
        let report = ReportRef::Done { results: &results, nanos };
        match patiently(|| self.send_report(&report), may_come) {
            // A result that cannot be sent is the error of its task, if one task is at fault.
            Err(FarmError::Unsendable { .. } | FarmError::Room { .. }) => {
                self.one_by_one(results, nanos)
            }
            sent => sent,
        }
    }

    fn one_by_one(&mut self, results: Vec<Ran<R>>, nanos: u64) -> Result<(), FarmError> {
        for (place, ran) in results.into_iter().enumerate() {
            let nanos = if place == 0 { nanos } else { 0 };
            let report = ReportRef::Done { results: &[ran], nanos };
            match patiently(|| self.send_report(&report), may_come) {
                Err(why @ (FarmError::Unsendable { .. } | FarmError::Room { .. })) => {
                    let ran = Err(TaskError::Unsendable { why: format!("its result: {why}") });
                    self.send_report(&ReportRef::Done { results: &[ran], nanos })?;
                }
                sent => sent?,
            }
        }
        Ok(())
    }

    /// Checks that this process is the worker, and not a child that a task has forked.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), FarmError> {
        self.transport.check_not_forked()
    }

    fn recv(&mut self, awaits: Activity) -> Result<Order<T, R>, FarmError> {
        self.transport.recv(awaits)
    }

    fn send_report(&mut self, report: &ReportRef<'_, T, R>) -> Result<(), FarmError> {
        self.transport.send(Vpid::MANAGER, report)
    }

    pub(crate) fn try_recv(&mut self) -> Result<Option<Order<T, R>>, FarmError> {
        self.transport.try_recv()
    }

    /// Returns whether the manager has cancelled the current tasks. True if the manager is gone.
    fn is_cancelled(&mut self) -> bool {
        while !self.cancelled {
            match self.try_recv() {
                Ok(Some(Order::Cancel)) | Err(_) => self.cancelled = true,
                Ok(Some(order)) => self.later.push_back(order),
                Ok(None) => break,
            }
        }
        self.cancelled
    }

    fn fork(&mut self, task: T) -> Result<u64, FarmError> {
        self.check_not_forked()?;
        self.forks += 1;
        let number = self.forks;
        let offer = match &self.seat {
            // If it cannot be written, or there is no room, it is run here at the join.
            Some(seat) => seat.offer(&task).ok().flatten(),
            None if self.reports_forks => {
                self.send_report(&ReportRef::Fork { number, task: &task })?;
                None
            }
            // In a pool whose tasks do not fork, it is run at the join.
            None => None,
        };
        self.forked.insert(number, (offer, task));
        Ok(number)
    }

    /// Joins a child: returns its task or its result.
    fn join(&mut self, number: u64) -> Result<Child<T, R>, FarmError> {
        self.check_not_forked()?;
        let forked = self.forked.remove(&number);
        if let Some(seat) = &self.seat {
            return Ok(match forked {
                Some((Some(offer), task)) => match seat.table().take_back(offer, seat.worker) {
                    Ok(last) => {
                        seat.table().forget(last.ticket(), seat.worker);
                        seat.free(last);
                        Child::Here(task)
                    }
                    Err(begun) => Child::Elsewhere(begun),
                },
                Some((None, task)) => Child::Here(task),
                None => Child::Ended(Err(not_there(number))),
            });
        }
        if !self.reports_forks {
            return Ok(forked.map_or_else(
                || Child::Ended(Err(not_there(number))),
                |(_, task)| Child::Here(task),
            ));
        }
        self.send_report(&ReportRef::Join { number })?;
        let mut answer = self.recv(Activity::AwaitResult)?;
        while let Order::Cancel = answer {
            self.cancelled = true;
            answer = self.recv(Activity::AwaitResult)?;
        }
        Ok(match (answer, forked) {
            (Order::Yours, Some((_, task))) => Child::Here(task),
            (Order::Answer(result), _) => Child::Ended(result),
            // The manager sends nothing else to a worker that waits.
            _ => Child::Ended(Err(not_there(number))),
        })
    }
}

fn not_there(number: u64) -> TaskError {
    TaskError::Garbled {
        why: format!("there is no child {number}: it was forked by a task that has ended"),
    }
}

/// A joined child.
enum Child<T, R> {
    /// No worker has begun it.
    Here(T),
    /// Another worker runs it.
    Elsewhere(Offer),
    Ended(Result<R, TaskError>),
}

/// How long to wait for room: messages that are received by others make room.
const FOR_ROOM: Duration = Duration::from_secs(10);

/// Returns whether there may be room later for `asked` bytes: other messages need memory, too.
pub(crate) fn has_room_later(asked: usize, memory: usize) -> bool {
    asked.saturating_mul(2) < memory
}

fn may_come(error: &FarmError) -> bool {
    matches!(error, FarmError::Room { asked, memory } if has_room_later(*asked, *memory))
}

/// Retries, for a limited time, an operation that failed for lack of room.
pub(crate) fn patiently<X, E>(
    mut attempt: impl FnMut() -> Result<X, E>,
    may_come: impl Fn(&E) -> bool,
) -> Result<X, E> {
    let mut until = None;
    loop {
        match attempt() {
            Err(error) if may_come(&error) => {
                if Instant::now() > *until.get_or_insert_with(|| Instant::now() + FOR_ROOM) {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let message =
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(not a text)").to_owned();
    // Dropping the payload might panic.
    std::mem::forget(panic);
    message
}

/// The handle by which a running task forks and joins children: see [`serve_forks`].
pub struct Forks<'w, T, R> {
    worker: &'w mut Worker<T, R>,
    f: &'w dyn Fn(T, &mut Forks<'_, T, R>) -> R,
}

/// A forked child, which is joined once.
#[derive(Debug)]
#[must_use = "a child that is not joined is lost"]
pub struct Forked<R> {
    number: Result<u64, TaskError>,
    of: PhantomData<fn() -> R>,
}

impl<'w, T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Forks<'w, T, R> {
    pub(crate) fn new(
        worker: &'w mut Worker<T, R>,
        f: &'w dyn Fn(T, &mut Forks<'_, T, R>) -> R,
    ) -> Self {
        Forks { worker, f }
    }

    /// Returns whether the manager has cancelled the running tasks ([`Pool::cancel`]), or is gone.
    /// If so, the task may return at once, with a result that indicates it.
    ///
    /// It polls the messages from the manager; in a pool that steals it always returns false.
    ///
    /// [`Pool::cancel`]: crate::Pool::cancel
    pub fn is_cancelled(&mut self) -> bool {
        self.worker.seat.is_none() && self.worker.is_cancelled()
    }

    /// Publishes numbers of this worker, which the manager can read at any time
    /// ([`Pool::published`]), each by itself: for example how much of its work is done.
    ///
    /// It stores a line of shared memory. Workers on other hosts publish nothing.
    ///
    /// [`Pool::published`]: crate::Pool::published
    pub fn publish(&mut self, numbers: [u64; PUBLISHED]) {
        let transport = &self.worker.transport;
        if self.worker.check_not_forked().is_ok()
            && let Some(progress) = transport.progress(transport.vpid())
        {
            progress.publish(&numbers);
        }
    }

    /// Lets the result of the running task be sent when the task ends, not together with those of
    /// the next tasks: for results that share memory which later tasks may write.
    pub fn send_at_once(&mut self) {
        self.worker.at_once = true;
    }

    /// Forks a task as a child of the running one: any worker may begin it from now on.
    pub fn fork(&mut self, task: T) -> Forked<R> {
        let number = self.worker.fork(task).map_err(|error| match error {
            FarmError::Forked { .. } => TaskError::Forked,
            error => TaskError::Unsendable { why: error.to_string() },
        });
        Forked { number, of: PhantomData }
    }

    /// Waits for the result of a child. If no worker has begun it, the calling worker runs it.
    ///
    /// # Errors
    /// The reason why the child has no result.
    pub fn join(&mut self, child: Forked<R>) -> Result<R, TaskError> {
        match self.worker.join(child.number?) {
            Ok(Child::Ended(result)) => result,
            Ok(Child::Elsewhere(offer)) => self.worker.wait_for(offer, self.f),
            Ok(Child::Here(task)) => {
                let first = self.worker.forks;
                let run = AssertUnwindSafe(|| (self.f)(task, &mut Forks::new(self.worker, self.f)));
                let ran = catch_unwind(run);
                self.worker.forget_forks_after(first);
                ran.map_err(|panic| TaskError::Panicked { message: panic_message(panic) })
            }
            Err(FarmError::Forked { .. }) => Err(TaskError::Forked),
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

//! A pool of workers, used by any number of threads.
//!
//! # Contract
//! A pool of `syncline_farm` works while a thread waits for it: the *driver*. Any thread may become
//! the driver, one at a time: the thread that waits for a result drives the pool until that result
//! is there. So a task that is waited for takes two messages and no change of threads. A thread of
//! the crew drives when no other thread does, so that callbacks and other waits make progress.
//!
//! ```text
//!   submit ── inbox ──> driver ── pool ──> workers          settle(outcomes), in the driver
//!     │ no driver: the submitter hands it out itself          │ futures get their results
//!     └ a driver that sleeps: is woken                        └ waiting threads look again
//!
//!   turn:  free ── wait() ──> driven by a waiting thread ── its result is there ──> free
//!          free ── nap over, tasks left ──> driven by the crew's thread ── a thread waits ──> free
//! ```
//!
//! A callback that waits drives, too, also another pool, which then has several drivers. Each
//! outcome is settled by one of them, and its task is open until then.
//!
//! No thread locks anything while it holds the interpreter lock, except for moments in which no
//! holder of these locks needs the interpreter.
//!
//! # Costs
//! A lock and a look at the channels for a submitted task; for its result a wake-up of the worker
//! and one of the waiting thread.
//!
//! # Why the thread that waits drives
//! A thread of the pool that takes all results would have to wake the waiting one, with the
//! interpreter lock in between: two more changes of threads for each task that is waited for.
//! `bench/results` has the comparison with `concurrent.futures`.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use syncline_farm::pool::{Outcome, PoolWaker, TaskId};
use syncline_farm::{FarmError, Pool, PoolBuilder, Program, Task, TaskError};

use crate::attend::{Inside, check};
use crate::work::Work;
use crate::{error, locks};

/// The time between two looks for signals.
const SLICE: Duration = Duration::from_millis(50);
/// The time that the crew's thread leaves to other threads before it drives.
const NAP: Duration = Duration::from_millis(1);
/// The number of naps without tasks after which the crew's thread sleeps.
const NAPS: u32 = 100;
/// The number of outcomes that are settled together.
const TOGETHER: usize = 1024;

thread_local! {
    /// Whether this thread drives a pool. Callbacks that it runs meanwhile may wait for tasks.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// A task that no driver has seen yet: its token, and what the pool gets.
type Entry = (u64, Task<Work>);

/// What drivers and waiting threads share.
#[derive(Default)]
struct Turn {
    /// Whether a thread drives.
    driven: bool,
    /// The number of threads that wait for their turn to drive.
    wanting: usize,
    /// The number of turns that threads with a result to wait for have had.
    turns: u64,
    /// The tokens of the tasks that have not ended.
    open: HashSet<u64>,
    /// Whether the crew's thread sleeps until it is notified.
    asleep: bool,
    /// The number of threads for which the driver leaves the pool alone.
    pauses: usize,
    /// The number of calls that drive: callbacks that wait do, also for tasks of another pool.
    drivers: usize,
}

struct Inner {
    pool: Mutex<Driven>,
    inbox: Mutex<Vec<Entry>>,
    turn: Mutex<Turn>,
    changed: Condvar,
    waker: PoolWaker,
    closing: AtomicBool,
    /// A dictionary of outcomes in Python, by their tokens, and what settles and removes them. An
    /// interrupt may end a call in the middle: the next one goes on with the rest. Several threads
    /// may call it, each of which leaves out those that another call has in its turn.
    ended: Py<PyDict>,
    settle: Py<PyAny>,
    /// The tokens of the outcomes that were queued and perhaps not settled.
    unsettled: Mutex<Vec<u64>>,
    /// The tokens of tasks that were taken back, which is their outcome.
    withdrawn: Mutex<Vec<u64>>,
    /// The bytes of buffers that are views of the farm's memory, and how many they may be.
    lent: Arc<AtomicUsize>,
    most: usize,
}

/// The pool, and the tokens of its tasks.
struct Driven {
    pool: Option<Pool<Work, Work>>,
    tokens: HashMap<TaskId, u64>,
}

/// The reason why a driver stops.
enum Stop {
    /// What it waited for is there, or its time is over.
    Done,
    /// A thread that waits for a result wants to drive.
    Wanted,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the outcome of a task without a result: its kind, the reason, the tries, its chunk, and
/// the item that ran.
fn told_failure(
    py: Python<'_>,
    kind: &str,
    why: &str,
    tries: u32,
    [chunk, item]: [u64; 2],
) -> PyResult<Py<PyAny>> {
    let facts = (kind, why, tries, chunk, item);
    Ok((py.None(), facts, locks::Turn::default()).into_pyobject(py)?.into_any().unbind())
}

impl Inner {
    /// Gives the tasks of the inbox to the pool.
    fn empty_inbox(&self, driven: &mut Driven) {
        let entries = mem::take(&mut *lock(&self.inbox));
        let Some(pool) = &mut driven.pool else { return };
        for (token, task) in entries {
            driven.tokens.insert(pool.submit(task), token);
        }
    }

    /// Submits tasks: hands them out, or wakes the driver. Returns whether the crew takes tasks.
    fn submit(&self, entries: Vec<Entry>) -> bool {
        let asleep = {
            let mut turn = lock(&self.turn);
            // Relaxed: the flag is set with this lock.
            if self.closing.load(Ordering::Relaxed) {
                return false;
            }
            turn.open.extend(entries.iter().map(|(token, _)| *token));
            mem::take(&mut turn.asleep)
        };
        lock(&self.inbox).extend(entries);
        match self.pool.try_lock() {
            Ok(mut driven) => {
                self.empty_inbox(&mut driven);
                if let Some(pool) = &mut driven.pool {
                    pool.look();
                }
            }
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => self.waker.wake(),
        }
        if asleep {
            self.changed.notify_all();
        }
        true
    }

    /// Runs `work` on the pool, which the driver leaves alone meanwhile.
    fn paused<X>(&self, work: impl FnOnce(&mut Driven) -> X) -> X {
        lock(&self.turn).pauses += 1;
        self.waker.wake();
        let result = work(&mut lock(&self.pool));
        lock(&self.turn).pauses -= 1;
        self.changed.notify_all();
        result
    }

    /// Drives the pool until `stop`, which is asked after each step without any lock, or until the
    /// deadline. There is one step at least, so that a thread which only polls makes progress.
    fn drive(
        &self,
        deadline: Option<Instant>,
        stop: impl FnMut() -> PyResult<Option<Stop>>,
    ) -> PyResult<Stop> {
        lock(&self.turn).drivers += 1;
        let driven = self.drive_on(deadline, stop);
        lock(&self.turn).drivers -= 1;
        driven
    }

    fn drive_on(
        &self,
        deadline: Option<Instant>,
        mut stop: impl FnMut() -> PyResult<Option<Stop>>,
    ) -> PyResult<Stop> {
        loop {
            self.settle(Vec::new())?;
            let outcomes = self.step(deadline)?;
            self.settle(outcomes)?;
            if let Some(stop) = stop()? {
                return Ok(stop);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now())
                || lock(&self.pool).pool.is_none()
            {
                return Ok(Stop::Done);
            }
        }
    }

    /// Waits for outcomes, for a slice of time at most.
    fn step(&self, deadline: Option<Instant>) -> PyResult<Vec<(u64, Outcome<Work>)>> {
        let mut turn = lock(&self.turn);
        while turn.pauses > 0 {
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        drop(turn);
        let mut outcomes = Vec::new();
        let mut driven = lock(&self.pool);
        self.empty_inbox(&mut driven);
        let Driven { pool, tokens } = &mut *driven;
        let Some(pool) = pool else { return Ok(outcomes) };
        let slice = Instant::now().checked_add(SLICE);
        match pool.next_or_woken(slice.into_iter().chain(deadline).min()) {
            Ok(first) => {
                let mut next = first;
                while let Some(outcome) = next {
                    let token = tokens.remove(&outcome.id).unwrap_or(u64::MAX);
                    outcomes.push((token, outcome));
                    next = (outcomes.len() < TOGETHER).then(|| pool.try_next()).flatten();
                }
                Ok(outcomes)
            }
            Err(FarmError::TimedOut { .. }) => Ok(outcomes),
            Err(error) => Err(Python::attach(|py| error::exception(py, "PoolError", error))),
        }
    }

    /// Passes outcomes to Python, with those that are not settled yet, then closes the tokens of
    /// those that are.
    fn settle(&self, outcomes: Vec<(u64, Outcome<Work>)>) -> PyResult<()> {
        let withdrawn = mem::take(&mut *lock(&self.withdrawn));
        if outcomes.is_empty() && withdrawn.is_empty() && lock(&self.unsettled).is_empty() {
            return Ok(());
        }
        let settled = Python::attach(|py| {
            // No code of Python runs until all are there, so no interrupt can lose one.
            let ended = self.ended.bind(py);
            let mut tokens = Vec::with_capacity(outcomes.len() + withdrawn.len());
            for (token, outcome) in outcomes {
                ended.set_item(token, self.told(py, outcome)?)?;
                tokens.push(token);
            }
            for token in withdrawn {
                ended.set_item(token, told_failure(py, "cancelled", "", 0, [0; 2])?)?;
                tokens.push(token);
            }
            // Only now: to another thread one that is not in the dictionary is settled.
            lock(&self.unsettled).extend(tokens);
            locks::told(|| self.settle.call0(py))?;
            let (mut left, mut settled) = (Vec::new(), Vec::new());
            for token in mem::take(&mut *lock(&self.unsettled)) {
                if ended.contains(token)? { left.push(token) } else { settled.push(token) }
            }
            lock(&self.unsettled).extend(left);
            PyResult::Ok(settled)
        })?;
        let mut turn = lock(&self.turn);
        for token in &settled {
            turn.open.remove(token);
        }
        let are_more = turn.drivers > 1;
        drop(turn);
        self.changed.notify_all();
        if are_more && !settled.is_empty() {
            // Another one may wait for the workers, and want one of these.
            self.waker.wake();
        }
        Ok(())
    }

    /// Returns an outcome as a tuple: the pickle with its buffers or `None`, `None` or the failure,
    /// and the turn to settle it.
    fn told(&self, py: Python<'_>, outcome: Outcome<Work>) -> PyResult<Py<PyAny>> {
        match outcome.result {
            Ok(work) => {
                let (pickle, parts) = work.into_python(py, &self.lent, self.most);
                let told = ((pickle, parts), py.None(), locks::Turn::default());
                Ok(told.into_pyobject(py)?.into_any().unbind())
            }
            Err(error) => {
                let (kind, tries, published) = match &error {
                    TaskError::Worker { tries, published, .. } => ("died", *tries, *published),
                    TaskError::TimedOut { tries, published, .. } => ("late", *tries, *published),
                    TaskError::Killed => ("cancelled", 1, Default::default()),
                    _ => ("other", 1, Default::default()),
                };
                let [chunk, item, ..] = published;
                told_failure(py, kind, &error.to_string(), tries, [chunk, item])
            }
        }
    }

    /// Waits until a task has ended, as the driver if no other thread drives; returns whether it
    /// has.
    fn wait(&self, token: u64, deadline: Option<Instant>) -> PyResult<bool> {
        let mut looked = Instant::now();
        let stop = || {
            // Outcomes of other tasks may keep the driver busy all the time.
            if looked.elapsed() >= SLICE / 2 {
                looked = Instant::now();
                Python::attach(check)?;
            }
            Ok((!lock(&self.turn).open.contains(&token)).then_some(Stop::Done))
        };
        if DRIVES.get() {
            // A callback, or the handler of a signal, in the thread that drives already.
            if lock(&self.turn).open.contains(&token) {
                self.drive(deadline, stop)?;
            }
            return Ok(!lock(&self.turn).open.contains(&token));
        }
        loop {
            let mut turn = lock(&self.turn);
            if !turn.open.contains(&token) {
                return Ok(true);
            }
            if !turn.driven {
                (turn.driven, turn.turns) = (true, turn.turns + 1);
                break;
            }
            turn.wanting += 1;
            drop(turn);
            self.waker.wake();
            turn = lock(&self.turn);
            if turn.driven && turn.open.contains(&token) {
                let left = deadline.map_or(SLICE, |deadline| {
                    deadline.saturating_duration_since(Instant::now()).min(SLICE)
                });
                let slept = self.changed.wait_timeout(turn, left);
                turn = slept.unwrap_or_else(PoisonError::into_inner).0;
            }
            turn.wanting -= 1;
            drop(turn);
            Python::attach(check)?;
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(!lock(&self.turn).open.contains(&token));
            }
        }
        DRIVES.set(true);
        let driven = self.drive(deadline, stop);
        self.leave();
        driven?;
        Ok(!lock(&self.turn).open.contains(&token))
    }

    /// Lets the crew's thread end.
    fn end_attending(&self) {
        let turn = lock(&self.turn);
        // Release: pairs with the Acquire in `attend`. With the lock, so that the thread does not
        // fall asleep between its look at the flag and the notification.
        self.closing.store(true, Ordering::Release);
        drop(turn);
        self.waker.wake();
        self.changed.notify_all();
    }

    /// Ends the turn of the driver.
    fn leave(&self) {
        DRIVES.set(false);
        lock(&self.turn).driven = false;
        self.changed.notify_all();
    }

    /// Drives when no other thread does, until the crew is closed.
    fn attend(&self) {
        let (mut idle, mut turns) = (0, 0);
        loop {
            let mut turn = lock(&self.turn);
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            idle = if turn.open.is_empty() { idle + 1 } else { 0 };
            let may = !turn.driven && turn.wanting == 0 && !turn.open.is_empty();
            if !may || turn.turns != turns {
                turns = turn.turns;
                turn.asleep = idle > NAPS;
                let slept = if turn.asleep {
                    self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner)
                } else {
                    let slept = self.changed.wait_timeout(turn, NAP);
                    slept.unwrap_or_else(PoisonError::into_inner).0
                };
                drop(slept);
                continue;
            }
            turn.driven = true;
            drop(turn);
            DRIVES.set(true);
            let driven = self.drive(None, || {
                let turn = lock(&self.turn);
                Ok(if turn.wanting > 0 {
                    Some(Stop::Wanted)
                } else if turn.open.is_empty() || self.closing.load(Ordering::Acquire) {
                    Some(Stop::Done)
                } else {
                    None
                })
            });
            self.leave();
            match driven {
                Ok(Stop::Done) => (),
                // The thread that waits takes the turn.
                Ok(Stop::Wanted) => thread::sleep(NAP),
                Err(error) => {
                    Python::attach(|py| error.write_unraisable(py, None));
                    thread::sleep(NAP);
                }
            }
        }
    }
}

/// A pool of workers.
#[pyclass(frozen, module = "syncline._syncline")]
pub(crate) struct Crew {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that has founded the pool.
    home: u32,
}

/// The settings of a pool.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CrewSettings {
    workers: usize,
    program: String,
    arguments: Vec<String>,
    retries: u32,
    timeout: Option<f64>,
    batch: Option<usize>,
    worker_memory: u64,
    memory: usize,
}

/// A task to be submitted: its token, the number of a chunk or 0, its pickle and buffers, its
/// priority and its cost.
type Submitted<'py> = (u64, u64, Bound<'py, PyBytes>, Vec<PyBuffer<u8>>, i32, f64);

#[pymethods]
impl Crew {
    /// Founds a pool. Outcomes are added to `ended`, by their tokens; then `settle` is called, in
    /// the thread that drives.
    #[new]
    fn new(
        py: Python<'_>,
        settings: CrewSettings,
        ended: Py<PyDict>,
        settle: Py<PyAny>,
    ) -> PyResult<Self> {
        let program = Program::new(&settings.program).args(&settings.arguments);
        let mut builder = PoolBuilder::new(settings.workers)
            .program(program)
            .retries(settings.retries)
            .worker_memory(settings.worker_memory)
            .memory(settings.memory)
            .forward_stops(false);
        if let Some(timeout) = settings.timeout {
            builder =
                builder.timeout(Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX));
        }
        if let Some(batch) = settings.batch {
            builder = builder.batch(batch);
        }
        let failed = |why: FarmError| error::exception(py, "PoolError", why);
        let mut pool = builder.start::<Work, Work>().map_err(failed)?;
        let inner = Arc::new(Inner {
            waker: pool.waker(),
            pool: Mutex::new(Driven { pool: Some(pool), tokens: HashMap::new() }),
            inbox: Mutex::default(),
            turn: Mutex::default(),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            ended,
            settle,
            unsettled: Mutex::default(),
            withdrawn: Mutex::default(),
            lent: Arc::default(),
            most: settings.memory / 4,
        });
        let shared = Arc::clone(&inner);
        let named = thread::Builder::new().name("syncline-pool".to_owned());
        let thread = named.spawn(move || shared.attend());
        let thread = thread.map_err(|why| error::exception(py, "PoolError", why))?;
        Ok(Crew { inner, thread: Mutex::new(Some(thread)), home: process::id() })
    }

    /// Submits tasks; returns false, and takes none, if the crew is closed or about to be.
    fn submit(&self, py: Python<'_>, tasks: Vec<Submitted<'_>>) -> PyResult<bool> {
        let entry = |(token, chunk, pickle, parts, priority, cost): Submitted<'_>| {
            let work = Work::new(chunk, pickle.as_bytes(), parts)?;
            Ok((token, Task::new(work).priority(priority).cost(cost)))
        };
        let entries = tasks.into_iter().map(entry).collect::<PyResult<Vec<Entry>>>()?;
        Ok(py.detach(|| self.inner.submit(entries)))
    }

    /// Waits until a task has ended; returns whether it has, and false after `seconds`.
    fn wait(&self, py: Python<'_>, token: u64, seconds: Option<f64>) -> PyResult<bool> {
        let deadline = seconds.and_then(|seconds| {
            let seconds = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
            Instant::now().checked_add(seconds)
        });
        let _inside = Inside::new(py)?;
        py.detach(|| self.inner.wait(token, deadline))
    }

    /// Takes a task back that no worker has been given; returns whether it was. That is its
    /// outcome, which the thread that drives settles.
    fn withdraw(&self, py: Python<'_>, token: u64) -> bool {
        py.detach(|| {
            let is_withdrawn = self.inner.paused(|driven| {
                self.inner.empty_inbox(driven);
                let Driven { pool, tokens } = driven;
                let found = tokens.iter().find(|(_, known)| **known == token).map(|(id, _)| *id);
                let id = found.filter(|id| pool.as_mut().is_some_and(|pool| pool.withdraw(*id)));
                id.is_some_and(|id| tokens.remove(&id).is_some())
            });
            if is_withdrawn {
                lock(&self.inner.withdrawn).push(token);
                self.inner.waker.wake();
            }
            is_withdrawn
        })
    }

    /// Ends tasks: takes them back, or kills the workers that run them. Their outcomes follow.
    fn kill(&self, py: Python<'_>, these: Vec<u64>) {
        py.detach(|| {
            self.inner.paused(|driven| {
                self.inner.empty_inbox(driven);
                let Driven { pool: Some(pool), tokens } = driven else { return };
                let killed = tokens.iter().filter(|(_, token)| these.contains(token));
                killed.for_each(|(id, _)| pool.kill(*id));
            });
            self.inner.waker.wake();
        });
    }

    /// Ends the workers: waits for idle ones if `gently`, and kills the others. Tasks that have not
    /// ended are forgotten.
    fn close(&self, py: Python<'_>, gently: bool) {
        let _inside = Inside::at_the_end(py);
        py.detach(|| {
            self.inner.end_attending();
            match self.inner.paused(|driven| driven.pool.take()) {
                Some(pool) if gently => pool.finish(),
                pool => drop(pool),
            }
            lock(&self.inner.turn).open.clear();
            self.inner.changed.notify_all();
        });
    }

    /// Waits, after `close`, until the callbacks in the crew's thread have returned.
    fn join(&self, py: Python<'_>) {
        let _inside = Inside::at_the_end(py);
        py.detach(|| {
            let thread = lock(&self.thread).take();
            // A callback may wait in that very thread.
            let other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
            if let Some(thread) = thread.filter(other) {
                // A panic of the thread was told when it occurred.
                let _ = thread.join();
            }
        });
    }

    /// The process IDs of the workers.
    fn pids(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| {
            let pids = |driven: &mut Driven| driven.pool.as_mut().map(Pool::pids);
            self.inner.paused(pids).unwrap_or_default()
        })
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.home == process::id() {
            // The interpreter may be at its end: the thread is not waited for. It keeps `Inner`
            // until it sees the flag.
            self.inner.end_attending();
        } else {
            // A copy that `fork` has made has no such thread, but may have a copy of the lock that
            // the thread held, which is never released.
            let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(thread.take());
        }
    }
}

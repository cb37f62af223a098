//! Locks of Python code that the handler of a signal may leave at any step.
//!
//! # Contract
//! The handler of a signal, such as Ctrl-C, may raise between any two steps of the main thread's
//! Python code. A `with` block of a lock here is never left without the release: no Python code
//! runs between the acquisition and the begin of the block, and none before the release.
//!
//! | lock         | acquired by a thread that has it | while another thread has it                |
//! |--------------|----------------------------------|--------------------------------------------|
//! | `FutureLock` | once more                        | waits; takes over what `is_left` says is   |
//! | `Turn`       | no: enters without it            | enters without it, at once                 |
//!
//! Code of other owners acquires a `FutureLock` without `with`, and an interrupt makes it leave
//! without the release: `concurrent.futures.wait` does so, with the locks of thousands of futures.
//! `is_left(owner, seconds, is_circle)` decides on that; `is_circle` tells that the owner waits,
//! perhaps by other threads, for a lock of the thread that asks. It returns whether the lock is
//! left, and whether all are that the owner has. A lock that was acquired since then is not.
//!
//! Here is also the note that a thread calls what the user of a pool gave (`told`): set and reset
//! by native code, it survives interrupts, too.
//!
//! No thread holds the mutexes here while it calls Python or gives up the interpreter lock. So a
//! child that `fork` has made finds them free.
//!
//! # Costs
//! A mutex that no thread holds for longer than some instructions. A thread that waits looks again
//! after a time that grows to a millisecond.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::attend::Inside;

/// The longest time between two looks at a lock.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// The number that Python has for this thread; 0: it was not asked for.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// Whether this thread calls what the user of a pool gave.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// The number of acquisitions of all locks so far.
static USES: AtomicU64 = AtomicU64::new(0);
/// The thread that has left its locks, and the number of acquisitions until then.
static LEFT: Mutex<(u64, u64)> = Mutex::new((0, 0));

/// Returns the number that Python has for this thread.
fn this_thread(py: Python<'_>) -> PyResult<u64> {
    static GET_IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if THREAD.get() == 0 {
        THREAD.set(GET_IDENT.import(py, "_thread", "get_ident")?.call0()?.extract()?);
    }
    Ok(THREAD.get())
}

/// For each thread that waits, the lock for which it does.
static WAITING: Mutex<Option<HashMap<u64, Py<FutureLock>>>> = Mutex::new(None);

/// The note that a thread waits, until this is dropped. The thread has the interpreter lock then.
struct Waiting {
    thread: u64,
    /// What it waited for when the handler of a signal came.
    before: Option<Py<FutureLock>>,
}

impl Waiting {
    fn new(thread: u64, on: &Bound<'_, FutureLock>) -> Self {
        let on = on.clone().unbind();
        let before = lock(&WAITING).get_or_insert_default().insert(thread, on);
        Waiting { thread, before }
    }

    /// Returns whether a thread waits for a lock of this one, perhaps by other threads.
    fn is_waited_for_by(&self, mut thread: u64) -> bool {
        let waiting = lock(&WAITING);
        let Some(waiting) = &*waiting else { return false };
        // A circle may be one of other threads.
        for _ in 0..waiting.len() {
            let Some(on) = waiting.get(&thread) else { return false };
            let state = *lock(&on.get().state);
            thread = state.owner;
            if state.depth == 0 || thread == self.thread {
                return state.depth > 0;
            }
        }
        false
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = lock(&WAITING);
        let locks = waiting.get_or_insert_default();
        let on = match self.before.take() {
            Some(before) => locks.insert(self.thread, before),
            None => locks.remove(&self.thread),
        };
        drop(waiting);
        drop(on);
    }
}

/// The state of a lock.
#[derive(Clone, Copy, Default, PartialEq)]
struct Owned {
    owner: u64,
    /// How often the owner has it; 0: the lock is free.
    depth: usize,
    /// The number of the last acquisition, of those of all locks.
    use_number: u64,
}

impl Owned {
    /// Acquires the lock for a thread, if it is free or of this thread.
    fn acquire(&mut self, thread: u64) -> bool {
        let may = self.depth == 0 || self.owner == thread;
        if may {
            // Relaxed: a thread acquires and takes over with the mutex of the lock.
            let use_number = USES.fetch_add(1, Ordering::Relaxed) + 1;
            *self = Owned { owner: thread, depth: self.depth + 1, use_number };
        }
        may
    }

    /// Releases the lock once, if it is of this thread.
    fn release(&mut self, thread: u64) {
        if self.depth > 0 && self.owner == thread {
            self.depth -= 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock of a future, in place of its condition.
#[pyclass(frozen, module = "syncline._syncline")]
pub(crate) struct FutureLock {
    state: Mutex<Owned>,
    is_left: Py<PyAny>,
}

impl FutureLock {
    /// Returns whether the owner has left with the lock.
    fn is_left(
        &self,
        py: Python<'_>,
        seen: Owned,
        began: Instant,
        waiting: &Waiting,
    ) -> PyResult<bool> {
        let (thread, until) = *lock(&LEFT);
        if thread == seen.owner && seen.use_number <= until {
            return Ok(true);
        }
        let uses = USES.load(Ordering::Relaxed);
        let is_circle = waiting.is_waited_for_by(seen.owner);
        let asked = (seen.owner, began.elapsed().as_secs_f64(), is_circle);
        let (is_left, are_all) = self.is_left.call1(py, asked)?.extract::<(bool, bool)>(py)?;
        if is_left && are_all {
            *lock(&LEFT) = (seen.owner, uses);
        }
        Ok(is_left)
    }
}

#[pymethods]
impl FutureLock {
    #[new]
    fn new(is_left: Py<PyAny>) -> Self {
        FutureLock { state: Mutex::default(), is_left }
    }

    /// Acquires the lock.
    fn acquire(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let (py, this, thread) = (slf.py(), slf.get(), this_thread(slf.py())?);
        if lock(&this.state).acquire(thread) {
            return Ok(true);
        }
        let (began, waiting, mut nap) = (Instant::now(), Waiting::new(thread, slf), Duration::ZERO);
        loop {
            let seen = {
                let mut state = lock(&this.state);
                if state.acquire(thread) {
                    return Ok(true);
                }
                *state
            };
            if this.is_left(py, seen, began, &waiting)? {
                let mut state = lock(&this.state);
                if *state == seen {
                    state.depth = 0;
                }
                continue;
            }
            let inside = Inside::new(py)?;
            py.detach(|| thread::sleep(nap));
            drop(inside);
            nap = (2 * nap + Duration::from_micros(10)).min(LOOK);
        }
    }

    /// Releases the lock; does nothing if it was taken over.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        lock(&self.state).release(this_thread(py)?);
        Ok(())
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::acquire(slf)
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }

    /// Does nothing: a thread waits for a future by its pool, and not for its condition.
    fn notify_all(&self) {}
}

/// A turn to do something, which one thread has at a time.
#[pyclass(frozen, module = "syncline._syncline")]
#[derive(Default)]
pub(crate) struct Turn(Mutex<Owned>);

#[pymethods]
impl Turn {
    #[new]
    fn new() -> Self {
        Turn::default()
    }

    /// Returns whether this block has the turn: not if another one has it, of any thread.
    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        let thread = this_thread(py)?;
        let mut state = lock(&self.0);
        Ok(state.acquire(thread) && state.depth == 1)
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        lock(&self.0).release(this_thread(py)?);
        Ok(())
    }

    /// Returns whether a block has the turn, and whether it is one of this thread.
    fn is_taken(&self, py: Python<'_>) -> PyResult<(bool, bool)> {
        let thread = this_thread(py)?;
        let state = lock(&self.0);
        Ok((state.depth > 0, state.depth > 0 && state.owner == thread))
    }
}

/// Calls what a user gave, or what calls that.
pub(crate) fn told<X>(call: impl FnOnce() -> X) -> X {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            TELLS.set(self.0);
        }
    }
    let _before = Before(TELLS.replace(true));
    call()
}

/// Calls a function, during which `is_telling` is true.
#[pyfunction]
pub(crate) fn telling(call: &Bound<'_, PyAny>) -> PyResult<()> {
    told(|| call.call0())?;
    Ok(())
}

/// Returns whether this thread calls what the user of a pool gave.
#[pyfunction]
pub(crate) fn is_telling() -> bool {
    TELLS.get()
}

//! Work in a thread of its own, while the calling thread watches for signals.
//!
//! # Contract
//! [`attend`] returns when the work has ended, whatever happens: on an exception of the watcher, of
//! which Ctrl-C is one, it cancels the work, waits for its end, and then returns the exception. So
//! borrowed arrays outlive their use, and nothing goes on behind the caller's back. [`abandon`] is
//! for work that only reads, and borrows nothing: Ctrl-C leaves it to end by itself.
//!
//! # The end of the interpreter
//! At its end the interpreter kills threads that ask for its lock, also inside of Rust code. So
//! an exit handler ends their waits before that: [`end`].
//!
//! # Costs
//! One thread for each call. A signal is noticed within [`PERIOD`].

use std::process;
use std::sync::atomic::{AtomicIsize, AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error;

/// The number of threads that wait here without the interpreter lock, and the process of which they
/// are. In a child that `fork` has made a thread may leave that has not entered there.
static INSIDE: AtomicIsize = AtomicIsize::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The thread in which the interpreter ends: then no other one may begin, as it could never return.
static ENDS_IN: OnceLock<ThreadId> = OnceLock::new();

/// A thread that waits without the interpreter lock, until this is dropped.
///
/// At its end the interpreter kills each thread that asks for its lock, in the middle of the Rust
/// code that asks. So [`end`] waits for these threads before that.
pub(crate) struct Inside;

impl Inside {
    /// # Errors
    /// `Error` if the interpreter ends.
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let inside = Inside::at_the_end(py);
        check(py)?;
        Ok(inside)
    }

    /// For what has to be done also if the interpreter ends, and is done soon.
    pub(crate) fn at_the_end(_: Python<'_>) -> Self {
        // Relaxed: this thread has the interpreter lock, and so has `end` when it notes the end.
        if PROCESS.swap(process::id(), Ordering::Relaxed) != process::id() {
            INSIDE.store(0, Ordering::Relaxed);
        }
        INSIDE.fetch_add(1, Ordering::Relaxed);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `end`.
        INSIDE.fetch_sub(1, Ordering::Release);
    }
}

/// Work of a thread, in Python, to whose end the interpreter waits: a context manager.
#[pyclass(module = "syncline._syncline")]
pub(crate) struct Busy(Option<Inside>);

#[pymethods]
impl Busy {
    #[new]
    fn new() -> Self {
        Busy(None)
    }

    fn __enter__(&mut self, py: Python<'_>) -> PyResult<()> {
        self.0 = Some(Inside::new(py)?);
        Ok(())
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&mut self, _args: &Bound<'_, PyTuple>) {
        self.0 = None;
    }
}

/// Runs the handlers of signals.
///
/// # Errors
/// The exception of a handler; `Error` if the interpreter ends in another thread.
pub(crate) fn check(py: Python<'_>) -> PyResult<()> {
    py.check_signals()?;
    if ENDS_IN.get().is_some_and(|ender| *ender != thread::current().id()) {
        return Err(error::exception(py, "Error", "the interpreter ends"));
    }
    Ok(())
}

/// Ends what other threads wait for, as the interpreter does, and waits for them for a few seconds.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    // Only the first call has an effect.
    let _ = ENDS_IN.set(thread::current().id());
    if PROCESS.load(Ordering::Relaxed) != process::id() {
        return;
    }
    py.detach(|| {
        for _ in 0..5000 {
            if INSIDE.load(Ordering::Acquire) <= 0 {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// The time between two looks for signals.
const PERIOD: Duration = Duration::from_millis(20);

/// Runs `work` without the interpreter lock. Calls `watch`, with the lock, every [`PERIOD`], and
/// `cancel` when it has failed.
///
/// # Errors
/// The exception of `watch`, or that of a signal handler; `Error` if the work panics.
pub(crate) fn attend<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send,
    mut watch: impl FnMut(Python<'_>) -> PyResult<()> + Send,
    cancel: impl Fn() + Send + Sync,
) -> PyResult<T> {
    let _inside = Inside::new(py)?;
    py.detach(|| {
        thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            let worker = scope.spawn(move || {
                // The receiver waits for it; if the work panics, it finds the sender gone.
                let _ = done.send(work());
            });
            let mut failed = None;
            loop {
                match ended.recv_timeout(PERIOD) {
                    Ok(result) => return failed.map_or(Ok(result), Err),
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        let panic = worker.join().err();
                        return Err(Python::attach(|py| error::of_panic(py, panic.as_deref())));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) if failed.is_some() => (),
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        let watched = Python::attach(|py| {
                            check(py)?;
                            watch(py)
                        });
                        failed = watched.err();
                        if failed.is_some() {
                            cancel();
                        }
                    }
                }
            }
        })
    })
}

/// Runs `work` without the interpreter lock. A signal handler that raises leaves it alone.
///
/// # Errors
/// The exception of a signal handler; `Error` if the work panics.
pub(crate) fn abandon<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let _inside = Inside::new(py)?;
    let (done, ended) = mpsc::channel();
    let worker = thread::spawn(move || {
        // After a signal there is no receiver.
        let _ = done.send(work());
    });
    py.detach(move || {
        loop {
            match ended.recv_timeout(PERIOD) {
                Ok(result) => return Ok(result),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let panic = worker.join().err();
                    return Err(Python::attach(|py| error::of_panic(py, panic.as_deref())));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => Python::attach(check)?,
            }
        }
    })
}

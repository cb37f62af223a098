//! Work in a thread of its own, while the calling thread watches for signals.
//!
//! # Contract
//! [`attend`] returns when the work has ended, whatever happens: on an exception of the watcher, of
//! which Ctrl-C is one, it cancels the work, waits for its end, and then returns the exception. So
//! borrowed arrays outlive their use, and nothing goes on behind the caller's back. [`abandon`] is
//! for work that only reads, and borrows nothing: Ctrl-C leaves it to end by itself.
//!
//! # Costs
//! One thread for each call. A signal is noticed within [`PERIOD`].

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error;

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
                            py.check_signals()?;
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
                Err(mpsc::RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            }
        }
    })
}

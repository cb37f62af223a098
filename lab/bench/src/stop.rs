//! Work that SIGINT and SIGTERM end.
//!
//! ```text
//! main thread    every 50 ms: a signal? ── yes ──> sets `over`, cancels; Err(Interrupted)
//! worker         ───┴──────── work ─────────────> its result
//! ```
//!
//! Work ends where it calls [`Signals::check`], and has [`PATIENCE`] to do so. After that, or at a
//! second signal, it is abandoned, and ends with the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

use crate::error::{Interrupted, Result, failed};

/// The interval between checks for signals.
const TICK: Duration = Duration::from_millis(50);

/// The time that work has to end after a signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// The signals that end a race.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    /// The last signal caught and not taken; 0: none.
    caught: Arc<AtomicUsize>,
    /// Whether the work must end.
    over: Arc<AtomicBool>,
    /// The time that work has to end after a signal.
    patience: Duration,
}

impl Default for Signals {
    /// Catches no signals.
    fn default() -> Self {
        Self { caught: Arc::default(), over: Arc::default(), patience: PATIENCE }
    }
}

impl Signals {
    /// Catches SIGINT and SIGTERM from this call on. A write beyond the file size limit then
    /// returns an error.
    pub(crate) fn catch() -> Result<Self> {
        let signals = Self::default();
        let failed = |error| failed("catch signals", error);
        for signal in [SIGINT, SIGTERM] {
            let caught = Arc::clone(&signals.caught);
            signal_hook::flag::register_usize(signal, caught, signal as usize).map_err(failed)?;
        }
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
        Ok(signals)
    }

    /// Returns a state in which `signal` has been caught.
    #[cfg(test)]
    pub(crate) fn caught(signal: usize) -> Self {
        Self { caught: Arc::new(AtomicUsize::new(signal)), ..Self::default() }
    }

    /// Takes the caught signal, so that a second signal is recognised.
    fn take(&self) -> Option<u8> {
        // Relaxed: only the number is communicated; the same holds for the other accesses here.
        Some(self.caught.swap(0, Ordering::Relaxed) as u8).filter(|&signal| signal > 0)
    }

    /// Checks that work may continue.
    ///
    /// # Errors
    /// [`Interrupted`] after a signal.
    pub(crate) fn check(&self) -> Result<()> {
        let caught = self.caught.load(Ordering::Relaxed) as u8;
        let over = caught > 0 || self.over.load(Ordering::Relaxed);
        if over { Err(Interrupted(caught).into()) } else { Ok(()) }
    }

    /// Does `work` in another thread. A signal calls `cancel`, after which the work may end by
    /// itself.
    ///
    /// # Errors
    /// Those of `work`, and [`Interrupted`].
    pub(crate) fn cancel<T: Send + 'static>(
        &self,
        cancel: impl FnOnce(),
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::channel();
        // After a signal the receiver is gone, and the result is not needed.
        let worker = move || drop(sender.send(work()));
        let started = thread::Builder::new().name("work".to_owned()).spawn(worker);
        started.map_err(|error| failed("start a thread", error))?;
        let mut cancel = Some(cancel);
        let mut first: Option<(u8, Instant)> = None;
        loop {
            let result = match receiver.recv_timeout(TICK) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Disconnected) => {
                    Some(Err("the command failed by a fault of its own (a panic)".into()))
                }
                Err(RecvTimeoutError::Timeout) => None,
            };
            match (first, self.take(), result) {
                (None, None, Some(result)) => return result,
                (None, None, None) => {}
                (Some((_, since)), None, None) if since.elapsed() < self.patience => {}
                (None, Some(signal), None) => {
                    self.over.store(true, Ordering::Relaxed);
                    if let Some(cancel) = cancel.take() {
                        cancel();
                    }
                    first = Some((signal, Instant::now()));
                }
                (Some((signal, _)), ..) | (None, Some(signal), Some(_)) => {
                    return Err(Interrupted(signal).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupted<T>(result: Result<T>) -> Option<u8> {
        result.err()?.downcast_ref().map(|Interrupted(signal)| *signal)
    }

    #[test]
    fn results_and_panics_come_back() {
        let signals = Signals::default();
        assert_eq!(signals.cancel(|| (), || Ok(7)).unwrap(), 7);
        let panic = signals.cancel(|| (), || -> Result<()> { panic!("on purpose") });
        assert!(panic.unwrap_err().to_string().contains("a panic"));
    }

    #[test]
    fn a_signal_ends_the_wait_for_work_that_never_ends() {
        let signals = Signals { patience: Duration::ZERO, ..Signals::caught(15) };
        let (keep, never) = mpsc::channel::<()>();
        let ended = signals.cancel(|| (), move || Ok(never.recv().is_ok()));
        assert_eq!(interrupted(ended), Some(15));
        drop(keep);
    }

    #[test]
    fn work_that_is_cancelled_may_end_and_learns_of_it() {
        let signals = Signals::caught(2);
        let (cancel, cancelled) = mpsc::channel::<()>();
        let (told, ended) = mpsc::channel();
        let asked = signals.clone();
        let result = signals.cancel(
            move || drop(cancel),
            move || {
                let _ = cancelled.recv();
                let _ = told.send(asked.check().is_err());
                Ok(())
            },
        );
        assert_eq!(interrupted(result), Some(2));
        assert!(ended.recv().unwrap(), "the work has ended by itself");
    }

    #[test]
    fn a_second_signal_ends_the_wait_for_the_end() {
        let signals = Signals::caught(15);
        let caught = Arc::clone(&signals.caught);
        let (keep, never) = mpsc::channel::<()>();
        let again = move || caught.store(2, Ordering::Relaxed);
        let ended = signals.cancel(again, move || Ok(never.recv().is_ok()));
        assert_eq!(interrupted(ended), Some(15));
        drop(keep);
    }
}

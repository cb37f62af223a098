//! Work that SIGINT and SIGTERM end.
//!
//! ```text
//! main thread    every 50 ms: a signal? ── yes ──> tells the work to end, if it can be told; Err(Interrupted)
//! worker         ───┴──────── work ─────────────> its result
//! ```
//!
//! Work that cannot be told to end is left: it ends with the process. Work that can be told has
//! [`PATIENCE`] to remove its files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

use crate::error::{Error, Result};

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);

/// How long work may take to end after it was told to.
const PATIENCE: Duration = Duration::from_secs(10);

/// The signals that end a race.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    caught: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches SIGINT and SIGTERM from now on. A write beyond the limit on a file's size is an error.
    pub(crate) fn catch() -> Result<Self> {
        let signals = Self::default();
        let failed = |source| Error::Io { what: "catch signals".to_owned(), source };
        for signal in [SIGINT, SIGTERM] {
            let caught = Arc::clone(&signals.caught);
            signal_hook::flag::register_usize(signal, caught, signal as usize).map_err(failed)?;
        }
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
        Ok(signals)
    }

    /// Takes the signal that was caught, so that the next one can be told from it.
    fn take(&self) -> Option<u8> {
        // Relaxed: the number is all that is communicated.
        Some(self.caught.swap(0, Ordering::Relaxed) as u8).filter(|&signal| signal > 0)
    }

    /// Does `work` in another thread; a signal ends the wait for it at once.
    ///
    /// # Errors
    /// Those of `work`, and [`Error::Interrupted`].
    pub(crate) fn abandon<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.wait(None::<fn()>, work)
    }

    /// Does `work` in another thread; a signal calls `cancel`, and the work may then end by itself.
    /// A second signal ends the wait for that.
    ///
    /// # Errors
    /// Those of `work`, and [`Error::Interrupted`].
    pub(crate) fn cancel<T: Send + 'static>(
        &self,
        cancel: impl FnOnce(),
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.wait(Some(cancel), work)
    }

    fn wait<T: Send + 'static>(
        &self,
        mut cancel: Option<impl FnOnce()>,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::channel();
        // The receiver is gone after a signal; then the result is not wanted.
        let worker = move || drop(sender.send(work()));
        let failed = |source| Error::Io { what: "start a thread".to_owned(), source };
        thread::Builder::new().name("work".to_owned()).spawn(worker).map_err(failed)?;
        let mut first: Option<(u8, Instant)> = None;
        loop {
            let result = match receiver.recv_timeout(TICK) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Disconnected) => Some(Err(Error::Panic)),
                Err(RecvTimeoutError::Timeout) => None,
            };
            match (first, self.take(), result) {
                (None, None, Some(result)) => return result,
                (None, None, None) => {}
                (Some((_, since)), None, None) if since.elapsed() < PATIENCE => {}
                (None, Some(signal), None) => match cancel.take() {
                    Some(cancel) => {
                        cancel();
                        first = Some((signal, Instant::now()));
                    }
                    None => return Err(Error::Interrupted(signal)),
                },
                (Some((signal, _)), ..) | (None, Some(signal), Some(_)) => {
                    return Err(Error::Interrupted(signal));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_panics_come_back() {
        let signals = Signals::default();
        assert_eq!(signals.abandon(|| Ok(7)).unwrap(), 7);
        let panic = signals.abandon(|| -> Result<()> { panic!("on purpose") });
        assert!(matches!(panic, Err(Error::Panic)));
    }

    #[test]
    fn a_signal_ends_the_wait_for_work_that_never_ends() {
        let signals = Signals::default();
        signals.caught.store(15, Ordering::Relaxed);
        let (keep, never) = mpsc::channel::<()>();
        let ended = signals.abandon(move || Ok(never.recv().is_ok()));
        assert!(matches!(ended, Err(Error::Interrupted(15))));
        drop(keep);
    }

    #[test]
    fn work_that_is_cancelled_may_end() {
        let signals = Signals::default();
        signals.caught.store(2, Ordering::Relaxed);
        let (cancel, cancelled) = mpsc::channel::<()>();
        let (told, ended) = mpsc::channel();
        let result = signals.cancel(
            move || drop(cancel),
            move || {
                let _ = cancelled.recv();
                let _ = told.send(());
                Ok(())
            },
        );
        assert!(matches!(result, Err(Error::Interrupted(2))));
        assert!(ended.recv().is_ok(), "the work has ended by itself");
    }

    #[test]
    fn a_second_signal_ends_the_wait_for_the_end() {
        let signals = Signals::default();
        let caught = Arc::clone(&signals.caught);
        caught.store(15, Ordering::Relaxed);
        let (keep, never) = mpsc::channel::<()>();
        let again = move || caught.store(2, Ordering::Relaxed);
        let ended = signals.cancel(again, move || Ok(never.recv().is_ok()));
        assert!(matches!(ended, Err(Error::Interrupted(15))));
        drop(keep);
    }
}

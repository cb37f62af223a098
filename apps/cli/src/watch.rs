//! Work in a thread of its own, under a progress bar, ended by signals.
//!
//! ```text
//! main thread    every 50 ms: a signal? ── yes ──> Err(Interrupted): unnamed outputs are dropped, exit
//!                   │ no: move the bar
//! worker         ───┴──────── work ───────────> its result
//! ```
//!
//! An interrupted worker is not waited for: it may be in the middle of a block of a slow disk. It can do no
//! harm, as it writes nothing but files that have no name yet, and ends with the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Error, Result};

/// How often the bar moves and signals are looked for.
const TICK: Duration = Duration::from_millis(50);

/// The signals that end a command.
#[derive(Debug)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Catches SIGINT and SIGTERM from now on.
    pub(crate) fn catch() -> Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), signal as usize)
                .map_err(|source| Error::Io { what: "catch signals".to_owned(), source })?;
        }
        Ok(Self(caught))
    }

    fn check(&self) -> Result<()> {
        // Relaxed: the number is all that is communicated.
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Error::Interrupted(signal as u8)),
        }
    }
}

/// A bar on standard error, or nothing where that is no terminal.
///
/// The template is one of indicatif's.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// A bar over bytes: its length is how many, its position how many are done.
pub(crate) fn bar_of_bytes(what: &str) -> ProgressBar {
    let bar = bar("{msg} [{bar:30}] {percent:>3} %  {binary_bytes_per_sec}  ETA {eta}");
    bar.set_message(what.to_owned());
    bar
}

/// Does `work` in another thread, with `look` moving the bar meanwhile; afterwards the bar is gone.
///
/// # Errors
/// Those of `work`, and [`Error::Interrupted`] at once after a signal.
pub(crate) fn watch<T: Send + 'static>(
    signals: &Signals,
    bar: &ProgressBar,
    mut look: impl FnMut(&ProgressBar),
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let failed = |source: io::Error| Error::Io { what: "start a thread".to_owned(), source };
    let (sender, receiver) = mpsc::channel();
    // The main thread is not there any more after a signal; then nobody wants the result.
    let worker = move || drop(sender.send(work()));
    thread::Builder::new().name("work".to_owned()).spawn(worker).map_err(failed)?;
    let result = loop {
        match receiver.recv_timeout(TICK) {
            Ok(result) => break result,
            Err(RecvTimeoutError::Disconnected) => break Err(Error::Panic),
            Err(RecvTimeoutError::Timeout) => look(bar),
        }
        if let Err(interrupted) = signals.check() {
            break Err(interrupted);
        }
    };
    bar.finish_and_clear();
    // One that came at the very end still counts: nothing has its name yet.
    signals.check().and(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> ProgressBar {
        ProgressBar::hidden()
    }

    #[test]
    fn results_come_back() {
        let signals = Signals(Arc::default());
        assert_eq!(watch(&signals, &hidden(), |_| (), || Ok(7)).unwrap(), 7);
        let error = watch(&signals, &hidden(), |_| (), || Err::<(), _>(Error::Usage("no".to_owned())));
        assert!(matches!(error, Err(Error::Usage(_))));
    }

    #[test]
    fn a_panic_is_an_error() {
        let signals = Signals(Arc::default());
        let panic = watch(&signals, &hidden(), |_| (), || -> Result<()> { panic!("on purpose") });
        assert!(matches!(panic, Err(Error::Panic)));
    }

    #[test]
    fn a_signal_ends_the_wait_for_work_that_never_ends() {
        let signals = Signals(Arc::default());
        let caught = Arc::clone(&signals.0);
        let (keep, never) = mpsc::channel::<()>();
        let look = move |_: &ProgressBar| caught.store(15, Ordering::Relaxed);
        let result = watch(&signals, &hidden(), look, move || Ok(never.recv().is_ok()));
        assert!(matches!(result, Err(Error::Interrupted(15))));
        drop(keep);
    }

    #[test]
    fn the_templates_are_understood() {
        assert!(ProgressStyle::with_template(crate::run::BAR).is_ok());
        bar_of_bytes("x").finish_and_clear();
    }
}

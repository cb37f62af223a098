//! Work in its own thread, with a progress bar, ended by signals.
//!
//! ```text
//! main thread    every 50 ms: a signal? ── yes ──> Err(Interrupted), drop unnamed outputs, exit
//!                   │ no: update the bar; without a terminal, a line every 10 s
//! worker         ───┴──────── work ───────────> its result
//! ```
//!
//! An interrupted worker is not joined: it may be in the middle of a block on a slow disk. It does
//! no harm, as it writes only files that have no name yet, and it ends with the process. A worker
//! that owns such files itself, or gives them their names, is cancelled and given a limited time to
//! end ([`attend`]).

use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use syncline_common::signals::Signals;
use syncline_common::terminal;
use syncline_common::units::Bytes;

use crate::error::{Error, Result};
use crate::progress::Line;

/// The interval at which the bar is updated and signals are checked.
const TICK: Duration = Duration::from_millis(50);

/// The maximum time for cancelled work to end: a panel of rows on a slow disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The template of a bar that is a redrawn line of text.
pub(crate) const LINE: &str = "{prefix}{msg}";

/// The template for work of which only the elapsed time is known.
pub(crate) const SYNC: &str = "{spinner} {wide_msg} {elapsed}";

/// Returns a bar over bytes: its length is the total, its position the number of bytes done.
pub(crate) fn bar_of_bytes(what: &'static str, signals: &Signals) -> ProgressBar {
    let bar = signals.bar("");
    let line = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        // The callback cannot report an error.
        let _ = out.write_str(&line_of_bytes(what, state).fit(usize::from(terminal::columns())));
    };
    if let Ok(style) = ProgressStyle::with_template("{line}") {
        bar.set_style(style.with_key("line", line));
    }
    bar.set_message(what);
    bar
}

fn line_of_bytes(what: &str, state: &ProgressState) -> Line {
    let part = match state.len() {
        None | Some(0) => 0.0,
        Some(all) => (state.pos() as f64 / all as f64).min(1.0),
    };
    let rates = Some(format!("{}/s", Bytes(state.per_sec() as u64)));
    Line { stages: vec![what.to_owned()], part: Some(part), rates, left: Some(state.eta()) }
}

/// Runs `work` in another thread while `look` updates the bar, then removes the bar.
///
/// # Errors
/// The errors of `work`, and [`Error::Interrupted`] immediately after a signal.
pub(crate) fn watch<T: Send + 'static>(
    signals: &Signals,
    bar: &ProgressBar,
    mut look: impl FnMut(&ProgressBar),
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let receiver = start(work)?;
    let result = loop {
        if let Some(result) = wait(&receiver) {
            break result;
        }
        look(bar);
        signals.tell(bar);
        if let Err(interrupted) = signals.check() {
            break Err(interrupted.into());
        }
    };
    bar.finish_and_clear();
    // A signal that arrives at the very end still counts: no file has its name yet.
    signals.check()?;
    result
}

/// The end of work that a signal only cancels.
#[derive(Debug)]
pub(crate) struct Attended<T> {
    /// The result; `None` if the work did not end in time after a signal, or a second signal
    /// arrived.
    pub(crate) result: Option<Result<T>>,
    /// The first signal.
    pub(crate) signal: Option<u8>,
}

/// Like [`watch`], but calls `cancel` after a signal and waits up to [`PATIENCE`] for the work to
/// end.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn attend<T: Send + 'static>(
    signals: &Signals,
    bar: &ProgressBar,
    mut look: impl FnMut(&ProgressBar),
    cancel: impl FnOnce(),
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Attended<T>> {
    let receiver = start(work)?;
    let (mut first, mut cancel) = (None, Some(cancel));
    let attended = loop {
        if let Some(result) = wait(&receiver) {
            let signal = first.map(|(signal, _)| signal).or_else(|| signals.take());
            break Attended { result: Some(result), signal };
        }
        look(bar);
        signals.tell(bar);
        match (first, signals.take()) {
            (None, None) => {}
            (None, Some(signal)) => {
                first = Some((signal, Instant::now()));
                cancel.take().into_iter().for_each(|cancel| cancel());
                bar.set_prefix("ending: ");
            }
            (Some((_, since)), None) if since.elapsed() < PATIENCE => {}
            (Some((signal, _)), _) => break Attended { result: None, signal: Some(signal) },
        }
    };
    bar.finish_and_clear();
    Ok(attended)
}

/// Starts the work; its result is sent through the channel.
fn start<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Receiver<Result<T>>> {
    let failed = |source: io::Error| Error::Io { what: "start a thread".to_owned(), source };
    let (sender, receiver) = mpsc::channel();
    // After a signal the receiver is gone, and the result is not needed.
    let worker = move || drop(sender.send(work()));
    thread::Builder::new().name("work".to_owned()).spawn(worker).map_err(failed)?;
    Ok(receiver)
}

/// Waits for a tick, or for the result.
fn wait<T>(receiver: &Receiver<Result<T>>) -> Option<Result<T>> {
    match receiver.recv_timeout(TICK) {
        Ok(result) => Some(result),
        Err(RecvTimeoutError::Disconnected) => Some(Err(Error::Panic)),
        Err(RecvTimeoutError::Timeout) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> ProgressBar {
        ProgressBar::hidden()
    }

    #[test]
    fn results_come_back() {
        let signals = Signals::default();
        assert_eq!(watch(&signals, &hidden(), |_| (), || Ok(7)).unwrap(), 7);
        let error =
            watch(&signals, &hidden(), |_| (), || Err::<(), _>(Error::Usage("no".to_owned())));
        assert!(matches!(error, Err(Error::Usage(_))));
    }

    #[test]
    fn a_panic_is_an_error() {
        let signals = Signals::default();
        let panic = watch(&signals, &hidden(), |_| (), || -> Result<()> { panic!("on purpose") });
        assert!(matches!(panic, Err(Error::Panic)));
    }

    #[test]
    fn a_signal_ends_the_wait_for_work_that_never_ends() {
        let signals = Signals::default();
        let (keep, never) = mpsc::channel::<()>();
        let look = |_: &ProgressBar| signals.note(15);
        let result = watch(&signals, &hidden(), look, move || Ok(never.recv().is_ok()));
        assert!(matches!(result, Err(Error::Interrupted { signal: 15, .. })));
        drop(keep);
    }

    #[test]
    fn work_that_is_cancelled_may_end() {
        let signals = Signals::default();
        let mut first = Some(2);
        let (cancel, cancelled) = mpsc::channel::<()>();
        let look =
            |_: &ProgressBar| first.take().into_iter().for_each(|signal| signals.note(signal));
        let cancel = move || drop(cancel);
        let ended =
            attend(&signals, &hidden(), look, cancel, move || Ok(cancelled.recv().is_err()))
                .unwrap();
        assert!(matches!(ended, Attended { result: Some(Ok(true)), signal: Some(2) }));
    }

    #[test]
    fn a_second_signal_ends_the_wait_for_the_end() {
        let signals = Signals::default();
        let (keep, never) = mpsc::channel::<()>();
        let look = |_: &ProgressBar| signals.note(15);
        let ended =
            attend(&signals, &hidden(), look, || (), move || Ok(never.recv().is_ok())).unwrap();
        assert!(matches!(ended, Attended { result: None, signal: Some(15) }));
        drop(keep);
    }

    #[test]
    fn the_templates_are_understood() {
        let signals = Signals::default();
        signals.speak(false);
        for template in [LINE, SYNC] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
        bar_of_bytes("x", &signals).finish_and_clear();
    }
}

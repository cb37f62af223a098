//! Work in its own thread, with a progress bar, ended by signals.
//!
//! ```text
//! main thread    every 50 ms: a signal? ── yes ──> Err(Interrupted), drop unnamed outputs, exit
//!                   │ no: update the bar; without a terminal, a line every 10 s ([`Lines`])
//! worker         ───┴──────── work ───────────> its result
//! ```
//!
//! An interrupted worker is not joined: it may be in the middle of a block on a slow disk. It does
//! no harm, as it writes only files that have no name yet, and it ends with the process. A worker
//! that owns such files itself, or gives them their names, is cancelled and given a limited time to
//! end ([`attend`]).
//!
//! Where nothing looks at signals, they have their default action, as the command could not end
//! otherwise. That is so in commands that do not look at them, and in a process of a team outside
//! of its members' functions ([`Signals::while_joining`]): before them it waits in MPI's
//! initialisation, or for a compiler, and after them for the other processes. Outputs have their
//! names then, or will never have them. A signal that is ignored stays ignored, such as SIGINT of
//! what a shell script has started by `&`.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use syncline_process::disposition::Disposition;

use crate::error::{Error, Result};
use crate::progress::Line;
use crate::terminal;
use crate::units::Bytes;

/// The interval at which the bar is updated and signals are checked.
const TICK: Duration = Duration::from_millis(50);

/// The interval of progress lines without a terminal.
const LINES: Duration = Duration::from_secs(10);

/// The maximum time for cancelled work to end: a panel of rows on a slow disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The signals that end a command, and the one that asks for its progress.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    caught: Arc<AtomicUsize>,
    /// Whether nothing looks at `caught`, so that a signal has its default action.
    unattended: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    /// The number of members of this process whose functions run.
    members: Mutex<usize>,
    lines: Mutex<Lines>,
}

/// The time of the next progress line without a terminal.
#[derive(Debug, Default)]
struct Lines {
    /// `None` if no lines are printed.
    next: Option<Instant>,
}

impl Lines {
    /// Returns whether a line is due; if so, the next one is due [`LINES`] later.
    fn are_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|next| next <= now);
        if due {
            self.next = now.checked_add(LINES);
        }
        due
    }
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGUSR1 from this call on, the first two unless they are
    /// ignored. If nothing is to look at those, they keep their default action.
    pub(crate) fn catch(attended: bool) -> Result<Self> {
        let signals = Self { unattended: Arc::new(AtomicBool::new(!attended)), ..Self::default() };
        signals.catch_unless_ignored(SIGINT)?;
        signals.catch_unless_ignored(SIGTERM)?;
        catch_others(&signals.asked)?;
        Ok(signals)
    }

    /// Catches SIGHUP as well from this call on, unless it is ignored (nohup).
    pub(crate) fn catch_hang_up(&self) -> Result<()> {
        self.catch_unless_ignored(SIGHUP)
    }

    fn catch_unless_ignored(&self, signal: i32) -> Result<()> {
        if Disposition::of(signal) == Disposition::Ignored {
            return Ok(());
        }
        let failed = |source| Error::Io { what: "catch signals".to_owned(), source };
        // Handlers run in the order in which they are registered.
        let unattended = Arc::clone(&self.unattended);
        signal_hook::flag::register_conditional_default(signal, unattended).map_err(failed)?;
        let caught = Arc::clone(&self.caught);
        signal_hook::flag::register_usize(signal, caught, signal as usize).map_err(failed)?;
        Ok(())
    }

    /// Calls `join`, which waits for other processes without a look at signals, and runs the
    /// members of this process, each [`as_member`](Self::as_member). Signals have their default
    /// action while no member runs.
    ///
    /// # Errors
    /// Those of `join`, and [`Error::Interrupted`] if a signal was caught before.
    pub(crate) fn while_joining<R>(&self, join: impl FnOnce() -> Result<R>) -> Result<R> {
        // Relaxed: the flag is all that is communicated; a signal that is caught at the same time
        // is found by `check`.
        self.unattended.store(true, Ordering::Relaxed);
        let joined = self.check().and_then(|()| join());
        self.unattended.store(false, Ordering::Relaxed);
        joined
    }

    /// Runs the function of a member, which looks at signals until it returns or panics.
    pub(crate) fn as_member<R>(&self, function: impl FnOnce() -> R) -> R {
        struct Running<'s>(&'s Signals);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.count_members(|members| members - 1);
            }
        }
        self.count_members(|members| members + 1);
        let _running = Running(self);
        function()
    }

    fn count_members(&self, count: impl FnOnce(usize) -> usize) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        *members = count(*members);
        self.unattended.store(*members == 0, Ordering::Relaxed);
    }

    /// Returns the flag that SIGUSR1 sets when a user asks for the progress.
    pub(crate) fn asked(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Starts to report progress, on a terminal by a bar, elsewhere by a line every [`LINES`]; with
    /// `quiet`, nothing is reported.
    pub(crate) fn speak(&self, quiet: bool) {
        let next = if quiet { None } else { Instant::now().checked_add(LINES) };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).next = next;
    }

    /// Returns a [`bar`] with this template, or a hidden one if the command is quiet.
    pub(crate) fn bar(&self, template: &str) -> ProgressBar {
        match self.lines.lock().unwrap_or_else(PoisonError::into_inner).next {
            Some(_) => bar(template),
            None => ProgressBar::hidden(),
        }
    }

    /// Prints the text of the bar if no bar is drawn and a line is due. The first word
    /// distinguishes the line from other output.
    pub(crate) fn tell(&self, bar: &ProgressBar) {
        let due =
            || self.lines.lock().unwrap_or_else(PoisonError::into_inner).are_due(Instant::now());
        if bar.is_hidden() && due() {
            terminal::say(format_args!("progress: {}", in_words(bar)));
        }
    }

    /// Returns the signal that was caught, if any.
    fn caught(&self) -> Option<u8> {
        // Relaxed: the number itself is all that is communicated.
        Some(self.caught.load(Ordering::Relaxed) as u8).filter(|&signal| signal > 0)
    }

    /// Returns an error if a signal was caught.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn check(&self) -> Result<()> {
        self.caught().map_or(Ok(()), |signal| Err(Error::interrupted(signal)))
    }

    /// Takes the caught signal, so that the next one can be distinguished from it.
    pub(crate) fn take(&self) -> Option<u8> {
        // Relaxed: as in `caught`.
        Some(self.caught.swap(0, Ordering::Relaxed) as u8).filter(|&signal| signal > 0)
    }
}

/// Catches the signals that end no command: SIGUSR1, which sets `asked`, and those of files.
pub(crate) fn catch_others(asked: &Arc<AtomicBool>) -> Result<()> {
    let failed = |source| Error::Io { what: "catch signals".to_owned(), source };
    signal_hook::flag::register(SIGUSR1, Arc::clone(asked)).map_err(failed)?;
    catch_faults()
}

/// Turns the signals that report file errors into errors. A write beyond the limit on file sizes
/// fails. An access to a mapped file that was truncated, or whose disk fails, ends the program with
/// an error line.
fn catch_faults() -> Result<()> {
    const LINE: &[u8] =
        b"error: a file that is in use was cut short, or its disk has failed; the output is as it was\n";
    let failed = |source| Error::Io { what: "catch signals".to_owned(), source };
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed)?;
    let end = || {
        let _ = rustix::io::write(rustix::stdio::stderr(), LINE);
        signal_hook::low_level::exit(1);
    };
    // The standard library's handler would run first. It looks for stack overflows, which are
    // SIGSEGV on Linux, and otherwise restores the default action: a second thread that faults
    // before the first one exits would end the program without the line. SAFETY: the default action
    // uses no memory of this program.
    unsafe { libc::signal(SIGBUS, libc::SIG_DFL) };
    // SAFETY: the handler only writes and exits, which is async-signal-safe: neither call
    // allocates, takes a lock or panics.
    unsafe { signal_hook::low_level::register(SIGBUS, end) }.map_err(failed)?;
    Ok(())
}

/// The template of a bar that is a redrawn line of text.
pub(crate) const LINE: &str = "{prefix}{msg}";

/// The template for work of which only the elapsed time is known.
pub(crate) const SYNC: &str = "{spinner} {wide_msg} {elapsed}";

/// Returns a bar on standard error, or a hidden one if that is not a terminal.
///
/// The template is one of indicatif's.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, terminal::target());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Returns the text of a bar, without the bar.
fn in_words(bar: &ProgressBar) -> String {
    let part =
        |len: u64| format!("{}, {} %", bar.message(), bar.position().saturating_mul(100) / len);
    bar.length().filter(|&len| len > 0).map_or_else(|| bar.message(), part)
}

/// Returns the columns of the terminal for the text of a [`LINE`], or `None` if the bar is not
/// drawn.
pub(crate) fn columns(bar: &ProgressBar) -> Option<usize> {
    let all = || usize::from(terminal::columns());
    (!bar.is_hidden()).then(|| all().saturating_sub(bar.prefix().chars().count()))
}

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
            break Err(interrupted);
        }
    };
    bar.finish_and_clear();
    // A signal that arrives at the very end still counts: no file has its name yet.
    signals.check().and(result)
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
    fn signals_are_attended_while_a_member_runs() {
        let signals = Signals::default();
        let unattended = || signals.unattended.load(Ordering::Relaxed);
        let joined = signals.while_joining(|| {
            assert!(unattended());
            signals.as_member(|| {
                signals.as_member(|| assert!(!unattended()));
                assert!(!unattended(), "another member runs");
            });
            assert!(unattended(), "the others are waited for");
            let panics = || signals.as_member(|| panic!("on purpose"));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
            assert!(unattended(), "also after a panic");
            Ok(())
        });
        joined.unwrap();
        assert!(!unattended());
    }

    #[test]
    fn a_signal_ends_the_wait_for_work_that_never_ends() {
        let signals = Signals::default();
        let caught = Arc::clone(&signals.caught);
        let (keep, never) = mpsc::channel::<()>();
        let look = move |_: &ProgressBar| caught.store(15, Ordering::Relaxed);
        let result = watch(&signals, &hidden(), look, move || Ok(never.recv().is_ok()));
        assert!(matches!(result, Err(Error::Interrupted { signal: 15, .. })));
        drop(keep);
    }

    #[test]
    fn work_that_is_cancelled_may_end() {
        let signals = Signals::default();
        let mut caught = Some(Arc::clone(&signals.caught));
        let (cancel, cancelled) = mpsc::channel::<()>();
        let look = move |_: &ProgressBar| {
            caught.take().into_iter().for_each(|caught| caught.store(2, Ordering::Relaxed));
        };
        let cancel = move || drop(cancel);
        let ended =
            attend(&signals, &hidden(), look, cancel, move || Ok(cancelled.recv().is_err()))
                .unwrap();
        assert!(matches!(ended, Attended { result: Some(Ok(true)), signal: Some(2) }));
    }

    #[test]
    fn a_second_signal_ends_the_wait_for_the_end() {
        let signals = Signals::default();
        let caught = Arc::clone(&signals.caught);
        let (keep, never) = mpsc::channel::<()>();
        let look = move |_: &ProgressBar| caught.store(15, Ordering::Relaxed);
        let ended =
            attend(&signals, &hidden(), look, || (), move || Ok(never.recv().is_ok())).unwrap();
        assert!(matches!(ended, Attended { result: None, signal: Some(15) }));
        drop(keep);
    }

    #[test]
    fn a_line_is_due_every_ten_seconds() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        assert!(!lines.are_due(after(1000)), "nothing was said about lines");
        lines.next = Some(after(10));
        let due: Vec<u64> = (0..50).filter(|&seconds| lines.are_due(after(seconds))).collect();
        assert_eq!(due, [10, 20, 30, 40]);
        // A late line does not bring the next one closer.
        assert!(lines.are_due(after(57)) && !lines.are_due(after(66)) && lines.are_due(after(67)));
        let signals = Signals::default();
        signals.speak(true);
        assert!(signals.lines.lock().unwrap().next.is_none());
        signals.speak(false);
        assert!(signals.lines.lock().unwrap().next > Some(Instant::now()));
    }

    #[test]
    fn a_bar_in_words() {
        let bar = hidden();
        bar.set_message("pass 1 of 2");
        assert_eq!(in_words(&bar), "pass 1 of 2");
        bar.set_length(8);
        bar.set_position(2);
        assert_eq!(in_words(&bar), "pass 1 of 2, 25 %");
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

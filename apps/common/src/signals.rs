//! The signals that end a command, and the one that asks for its progress.
//!
//! # Contract
//! SIGINT and SIGTERM are caught once for the whole command, and stay caught. The command looks at
//! [`Signals`] and ends by itself. SIGUSR1 sets a flag. A write beyond the limit on file sizes is
//! an error, and a mapped file that is cut short ends the command with one line.
//!
//! Where nothing looks at signals, they have their default action, as the command could not end
//! otherwise. That is so in commands that do not look at them, and in a process of a team outside
//! of its members' functions ([`Signals::while_joining`]): before them it waits in MPI's
//! initialisation, or for a compiler, and after them for the other processes. Outputs have their
//! names then, or will never have them. A signal that is ignored stays ignored, such as SIGINT of
//! what a shell script has started by `&`.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use syncline_process::disposition::Disposition;

use crate::terminal;

/// The interval of progress lines without a terminal.
const LINES: Duration = Duration::from_secs(10);

/// The system does not let this process catch a signal.
#[derive(Debug, thiserror::Error)]
#[error("cannot catch signals: {0}")]
pub struct Uncaught(#[from] pub io::Error);

/// A signal was caught that ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by {}", signal_name(self.signal))]
pub struct Interrupted {
    /// The number of the signal.
    pub signal: u8,
}

/// Returns the name of a signal.
#[must_use]
pub fn signal_name(signal: u8) -> &'static str {
    signal_hook::low_level::signal_name(signal.into()).unwrap_or("a signal")
}

/// The signals that end a command, and the one that asks for its progress.
#[derive(Debug, Default)]
pub struct Signals {
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
    ///
    /// # Errors
    /// If the system refuses.
    pub fn catch(attended: bool) -> Result<Self, Uncaught> {
        let signals = Self { unattended: Arc::new(AtomicBool::new(!attended)), ..Self::default() };
        signals.catch_unless_ignored(SIGINT)?;
        signals.catch_unless_ignored(SIGTERM)?;
        catch_others(&signals.asked)?;
        Ok(signals)
    }

    /// Catches SIGHUP as well from this call on, unless it is ignored (nohup).
    ///
    /// # Errors
    /// If the system refuses.
    pub fn catch_hang_up(&self) -> Result<(), Uncaught> {
        self.catch_unless_ignored(SIGHUP)
    }

    fn catch_unless_ignored(&self, signal: i32) -> Result<(), Uncaught> {
        if Disposition::of(signal) == Disposition::Ignored {
            return Ok(());
        }
        // Handlers run in the order in which they are registered.
        let unattended = Arc::clone(&self.unattended);
        signal_hook::flag::register_conditional_default(signal, unattended)?;
        let caught = Arc::clone(&self.caught);
        signal_hook::flag::register_usize(signal, caught, signal as usize)?;
        Ok(())
    }

    /// Calls `join`, which waits for other processes without a look at signals, and runs the
    /// members of this process, each [`as_member`](Self::as_member). Signals have their default
    /// action while no member runs.
    ///
    /// # Errors
    /// Those of `join`, and [`Interrupted`] if a signal was caught before.
    pub fn while_joining<R, E: From<Interrupted>>(
        &self,
        join: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        // Relaxed: the flag is all that is communicated; a signal that is caught at the same time
        // is found by `check`.
        self.unattended.store(true, Ordering::Relaxed);
        let joined = self.check().map_err(E::from).and_then(|()| join());
        self.unattended.store(false, Ordering::Relaxed);
        joined
    }

    /// Runs the function of a member, which looks at signals until it returns or panics.
    pub fn as_member<R>(&self, function: impl FnOnce() -> R) -> R {
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
    pub fn asked(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Starts to report progress, on a terminal by a bar, elsewhere by a line every ten seconds;
    /// with `quiet`, nothing is reported.
    pub fn speak(&self, quiet: bool) {
        let next = if quiet { None } else { Instant::now().checked_add(LINES) };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).next = next;
    }

    /// Returns a [`terminal::bar`] with this template, or a hidden one if the command is quiet.
    pub fn bar(&self, template: &str) -> ProgressBar {
        match self.lines.lock().unwrap_or_else(PoisonError::into_inner).next {
            Some(_) => terminal::bar(template),
            None => ProgressBar::hidden(),
        }
    }

    /// Prints the text of the bar if no bar is drawn and a line is due. The first word
    /// distinguishes the line from other output.
    pub fn tell(&self, bar: &ProgressBar) {
        let due =
            || self.lines.lock().unwrap_or_else(PoisonError::into_inner).are_due(Instant::now());
        if bar.is_hidden() && due() {
            terminal::say(format_args!("progress: {}", terminal::in_words(bar)));
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
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        self.caught().map_or(Ok(()), |signal| Err(Interrupted { signal }))
    }

    /// Does what the handler of a signal does. For tests of code that looks at signals.
    #[doc(hidden)]
    pub fn note(&self, signal: u8) {
        self.caught.store(signal.into(), Ordering::Relaxed);
    }

    /// Takes the caught signal, so that the next one can be distinguished from it.
    pub fn take(&self) -> Option<u8> {
        // Relaxed: as in `caught`.
        Some(self.caught.swap(0, Ordering::Relaxed) as u8).filter(|&signal| signal > 0)
    }
}

/// Catches the signals that end no command: SIGUSR1, which sets `asked`, and those of files.
///
/// # Errors
/// If the system refuses.
pub fn catch_others(asked: &Arc<AtomicBool>) -> Result<(), Uncaught> {
    signal_hook::flag::register(SIGUSR1, Arc::clone(asked))?;
    catch_faults()
}

/// Turns the signals that report file errors into errors. A write beyond the limit on file sizes
/// fails. An access to a mapped file that was truncated, or whose disk fails, ends the program with
/// an error line.
fn catch_faults() -> Result<(), Uncaught> {
    const LINE: &[u8] =
        b"error: a file that is in use was cut short, or its disk has failed; the output is as it was\n";
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
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
    unsafe { signal_hook::low_level::register(SIGBUS, end) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_attended_while_a_member_runs() {
        let signals = Signals::default();
        let unattended = || signals.unattended.load(Ordering::Relaxed);
        let joined: Result<(), Interrupted> = signals.while_joining(|| {
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
}

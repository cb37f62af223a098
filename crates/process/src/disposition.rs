//! What a process does with a signal that comes.

use std::io;

use rustix::process::Signal;

/// What this process does with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// What the system does by default.
    Default,
    /// Nothing. Programs that it starts ignore the signal as well, unless they change that.
    Ignored,
    /// It has a handler.
    Caught,
}

impl Disposition {
    /// What this process does with a signal, as the kernel says it (in `/proc`; without that: what is usual).
    ///
    /// ```
    /// use syncline_process::disposition::Disposition;
    ///
    /// let sigterm = 15;
    /// assert_eq!(Disposition::of(sigterm), Disposition::Default);
    /// ```
    #[must_use]
    pub fn of(signal: i32) -> Disposition {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let has = |name: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix(name));
            let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
        };
        match (has("SigIgn:"), has("SigCgt:")) {
            (true, _) => Disposition::Ignored,
            (_, true) => Disposition::Caught,
            _ => Disposition::Default,
        }
    }
}

/// Whether this process is told how its children end: not if it ignores SIGCHLD, which it may have inherited.
///
/// # Errors
/// It ignores it; the message says what to do.
///
/// ```
/// syncline_process::disposition::children_can_be_watched()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn children_can_be_watched() -> io::Result<()> {
    match Disposition::of(Signal::CHILD.as_raw()) {
        Disposition::Ignored => Err(io::Error::other(
            "this process ignores SIGCHLD, so it is not told how they end; give that signal its default (from a shell: \
             env --default-signal=CHLD ...)",
        )),
        _ => Ok(()),
    }
}

//! The disposition of signals in this process.

use std::io;

use rustix::process::Signal;

/// The disposition of a signal in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The system's default action.
    Default,
    /// The signal is ignored. Programs that this process starts ignore it as well, unless they
    /// change that.
    Ignored,
    /// The signal has a handler.
    Caught,
}

impl Disposition {
    /// Returns the disposition of a signal in this process, as `/proc/self/status` reports it.
    /// Returns [`Default`](Self::Default) if that file cannot be read.
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

/// Checks that this process receives the exit status of its children. It does not if it ignores
/// SIGCHLD, a disposition that it may have inherited.
///
/// # Errors
/// Returns an error if the process ignores SIGCHLD; the message says how to restore the default.
///
/// ```
/// syncline_process::disposition::children_can_be_watched()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn children_can_be_watched() -> io::Result<()> {
    match Disposition::of(Signal::CHILD.as_raw()) {
        Disposition::Ignored => Err(io::Error::other(
            "this process ignores SIGCHLD, so the kernel discards how its children end; restore the \
             signal's default (from a shell: env --default-signal=CHLD ...)",
        )),
        _ => Ok(()),
    }
}

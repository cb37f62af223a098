//! The signals that a launcher forwards.
//!
//! While a launcher runs, SIGINT and SIGTERM are written to pipes that it polls. The program's own
//! disposition of them is kept: a program that ignores them still ignores them; a handler of the
//! program is still called; and if they had their default effect, they end the program again when
//! no launcher runs any more.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::low_level::{pipe, unregister};
use syncline_process::disposition::Disposition;

/// Receives signals while it exists.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: Vec<Caught>,
}

#[derive(Debug)]
struct Caught {
    signal: Signal,
    pipe: UnixStream,
    id: SigId,
}

/// The number of launchers that run.
static LAUNCHERS: Mutex<usize> = Mutex::new(0);
/// Whether no launcher runs: then a signal has its default effect, if that was its disposition
/// before.
static NONE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

impl Signals {
    pub(crate) fn catch() -> io::Result<Signals> {
        count(|launchers| launchers + 1);
        let mut signals = Signals { caught: Vec::new() };
        for signal in [Signal::INT, Signal::TERM] {
            let number = signal.as_raw();
            match Disposition::of(number) {
                Disposition::Ignored => continue,
                Disposition::Caught => (),
                Disposition::Default => {
                    signal_hook::flag::register_conditional_default(number, Arc::clone(none()))?;
                }
            }
            let (pipe, sender) = UnixStream::pair()?;
            pipe.set_nonblocking(true)?;
            signals.caught.push(Caught { signal, pipe, id: pipe::register(number, sender)? });
        }
        Ok(signals)
    }

    /// Returns the pipes to poll: each is readable when a signal has arrived.
    pub(crate) fn pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.caught.iter().map(|caught| caught.pipe.as_fd())
    }

    /// Returns the signals that have arrived since the last call.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        let came = |caught: &mut Caught| {
            let mut bytes = [0; 64];
            let mut any = false;
            while caught.pipe.read(&mut bytes).is_ok_and(|read| read > 0) {
                any = true;
            }
            any.then_some(caught.signal)
        };
        self.caught.iter_mut().filter_map(came).collect()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for caught in &self.caught {
            unregister(caught.id);
        }
        count(|launchers| launchers - 1);
    }
}

fn none() -> &'static Arc<AtomicBool> {
    NONE.get_or_init(Arc::default)
}

fn count(change: impl FnOnce(usize) -> usize) {
    let mut launchers = LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    *launchers = change(*launchers);
    // Relaxed: no other memory depends on the flag.
    none().store(*launchers == 0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_caught_while_somebody_wants_it() {
        assert_eq!(Disposition::of(Signal::TERM.as_raw()), Disposition::Default);
        let mut signals = Signals::catch().unwrap();
        assert_eq!(Disposition::of(Signal::TERM.as_raw()), Disposition::Caught);
        assert!(signals.take().is_empty());
        signal_hook::low_level::raise(Signal::TERM.as_raw()).unwrap();
        assert_eq!(signals.take(), [Signal::TERM]);
        assert!(signals.take().is_empty());
        assert!(!none().load(Ordering::Relaxed));
        drop(signals);
        assert!(none().load(Ordering::Relaxed));
    }
}

//! The state that an `Mpi` and all objects made from it share, and the single entry to the shim.

use std::any::Any;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use syncline_process::Generation;
use syncline_signal::progress::Advance;

use crate::error::{MpiError, Result};
use crate::ffi::{self, Calls, OK};
use crate::mpi::ThreadSupport;
use crate::progress::AWAKE;

#[derive(Debug)]
pub(crate) struct Inner {
    calls: &'static Calls,
    /// The generation of the process that belongs to MPI. A child that `fork` makes of it does not
    /// belong to MPI.
    born: Generation,
    state: Mutex<State>,
    /// The thread that MPI treats as its main thread.
    home: ThreadId,
    granted: ThreadSupport,
    /// Communicators are not freed any more: see `Mpi::keep_communicators`.
    pub(crate) keeps: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    finalized: bool,
    /// Abandoned requests, with the memory that they use.
    orphans: Vec<Orphan>,
    /// The shortest time of a look, and until when more work is expected after one that has done
    /// some.
    shortest: Option<Duration>,
    busy_until: Option<Instant>,
}

#[derive(Debug)]
struct Orphan {
    request: c_int,
    memory: Option<InFlight>,
}

/// What keeps the memory of a transfer in flight valid. It is never read: it is freed when MPI has
/// finished with the memory, or leaked.
#[derive(Debug)]
pub(crate) enum InFlight {
    #[expect(dead_code, reason = "kept, not read")]
    Buffer(Vec<u8>),
    #[expect(dead_code, reason = "kept, not read")]
    Owner(Arc<dyn Any + Send + Sync>),
}

impl Inner {
    pub(crate) fn new(calls: &'static Calls, home: ThreadId, granted: ThreadSupport) -> Inner {
        Inner {
            calls,
            born: Generation::current(),
            state: Mutex::default(),
            home,
            granted,
            keeps: AtomicBool::new(false),
        }
    }

    pub(crate) fn granted(&self) -> ThreadSupport {
        self.granted
    }

    /// Returns the functions without the checks of [`Inner::call`].
    pub(crate) fn calls(&self) -> &'static Calls {
        self.calls
    }

    /// Calls functions of the shim, after checks that MPI is not finalised and that this thread may
    /// call it. No other thread is in the shim meanwhile. `what` names the operation for errors:
    /// "send a message".
    pub(crate) fn call(
        &self,
        what: &'static str,
        call: impl FnOnce(&Calls) -> c_int,
    ) -> Result<()> {
        let mut state = self.enter(what)?;
        if !state.orphans.is_empty() {
            self.sweep(&mut state);
        }
        self.check(what, call(self.calls))
    }

    fn enter(&self, what: &'static str) -> Result<MutexGuard<'_, State>> {
        if !self.born.is_current() {
            return Err(MpiError::Forked { what });
        }
        if self.granted <= ThreadSupport::Funneled && std::thread::current().id() != self.home {
            return Err(MpiError::Thread { what, granted: self.granted });
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.finalized { Err(MpiError::Finalized { what }) } else { Ok(state) }
    }

    /// Tests a request that stays open, which drives MPI, if this thread may: see
    /// [`progress`](crate::progress). If the request has `failed`, there is no other test of it.
    pub(crate) fn look(&self, request: c_int, first_only: bool, failed: &AtomicBool) -> Advance {
        if !self.born.is_current() || first_only && std::thread::current().id() != self.home {
            return Advance::NoPart;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            // This thread or another one is in MPI, which drives it.
            Err(TryLockError::WouldBlock) => return Advance::Idle,
        };
        let mut finalized = 0;
        // SAFETY: MPI answers this at any time, in any thread; `finalized` is valid for a write.
        let asked = unsafe { (self.calls.finalized)(&raw mut finalized) };
        // Relaxed: the flag is set under the lock.
        if state.finalized || asked != OK || finalized != 0 || failed.load(Ordering::Relaxed) {
            return Advance::NoPart;
        }
        let (mut done, mut received, mut cancelled) = (0, 0, 0);
        let out = (&raw mut done, &raw mut received, &raw mut cancelled);
        let start = Instant::now();
        // SAFETY: the slot holds the request, as no test has found it done or failed; all three
        // results are valid for writes until the call returns. MPI is initialised and not
        // finalised, this thread may call it, and no other thread is in the shim.
        let code = unsafe { (self.calls.test)(request, out.0, out.1, out.2) };
        let now = Instant::now();
        if code != OK || done != 0 {
            failed.store(true, Ordering::Relaxed);
            return Advance::NoPart;
        }
        let took = now.saturating_duration_since(start);
        let shortest = state.shortest.map_or(took, |shortest| shortest.min(took));
        state.shortest = Some(shortest);
        if took * 2 > shortest * 5 {
            state.busy_until = now.checked_add(AWAKE);
        }
        if state.busy_until.is_some_and(|until| now < until) {
            Advance::Busy
        } else {
            Advance::Idle
        }
    }

    /// Whether this process belongs to MPI, and is not a child that `fork` has made of it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.born.is_current()
    }

    /// Returns the error that a code stands for. Call it before the next call of MPI.
    fn check(&self, what: &'static str, code: c_int) -> Result<()> {
        check(self.calls, what, code)
    }

    /// Takes over an abandoned request and its memory until a later call finds the request done.
    pub(crate) fn adopt(&self, request: c_int, memory: Option<InFlight>) {
        if !self.born.is_current() {
            return std::mem::forget(memory);
        }
        match self.state.lock() {
            Ok(mut state) if !state.finalized => state.orphans.push(Orphan { request, memory }),
            // MPI may still access the memory.
            _ => std::mem::forget(memory),
        }
    }

    fn sweep(&self, state: &mut State) {
        state.orphans.retain_mut(|orphan| {
            let (mut done, mut received, mut cancelled) = (0, 0, 0);
            // SAFETY: the slot holds a request, as it stays in `orphans` until it is done; the
            // results are valid for writes.
            let code = unsafe {
                (self.calls.test)(
                    orphan.request,
                    &raw mut done,
                    &raw mut received,
                    &raw mut cancelled,
                )
            };
            if code != OK {
                // The error does not say whether MPI still accesses the memory.
                std::mem::forget(orphan.memory.take());
            }
            code == OK && done == 0
        });
    }

    /// Finalises MPI. Every later call is an error.
    pub(crate) fn finalize(&self) -> Result<()> {
        let what = "finalise MPI";
        if std::thread::current().id() != self.home {
            return Err(MpiError::Thread { what, granted: self.granted });
        }
        let mut state = self.enter(what)?;
        self.sweep(&mut state);
        state.finalized = true;
        // SAFETY: MPI is initialised and not finalised, and this is its main thread.
        let code = unsafe { (self.calls.finalize)() };
        for orphan in state.orphans.drain(..) {
            std::mem::forget(orphan.memory);
        }
        // After MPI_Finalize, MPI has no text for an error code.
        if code == OK { Ok(()) } else { Err(no_words(what, code)) }
    }

    /// Ends this library's calls. MPI belongs to the program and stays initialised.
    pub(crate) fn leave(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).finalized = true;
    }
}

/// Returns the error that a code stands for, with MPI's text if the code is MPI's.
pub(crate) fn check(calls: &Calls, what: &'static str, code: c_int) -> Result<()> {
    if code == OK {
        return Ok(());
    }
    if ffi::own_words(code).is_some() {
        return Err(no_words(what, code));
    }
    // SAFETY: `into` is valid for writes of `room` bytes.
    let text = ffi::text(|into, room| unsafe { (calls.error_string)(into, room) });
    Err(MpiError::Call {
        what,
        fault: ffi::fault(code),
        text: text.unwrap_or_else(|_| "an error of MPI".to_owned()),
    })
}

fn no_words(what: &'static str, code: c_int) -> MpiError {
    let text = ffi::own_words(code).unwrap_or("an error of MPI").to_owned();
    MpiError::Call { what, fault: ffi::fault(code), text }
}

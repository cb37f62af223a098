//! Progress of MPI in threads that wait for something else.
//!
//! # Contract
//! An MPI completes messages and one-sided operations only while the program is in one of its
//! functions. A thread that waits in memory, at a barrier or for a lock, is in none, and a partner
//! may need such a completion before it arrives. So a wait that would sleep looks into MPI: see
//! [`syncline_signal::progress`]. The look is a test of a receive that is not complete, in a
//! communicator of this process alone: it matches nothing of the program, and fails for no process.
//! (A probe drives MPI less: in such a communicator MPICH 4 looks nowhere else, and Open MPI only
//! if it finds nothing.)
//!
//! | threads that MPI permits | threads whose waits look                                         |
//! |--------------------------|------------------------------------------------------------------|
//! | `Single`, `Funneled`     | the one that initialised MPI                                     |
//! | `Serialized`             | all, if this crate has initialised MPI: its calls take turns     |
//! |                          | in a program's MPI the one that called [`Mpi::start`], and none  |
//! |                          | if several threads of the process take part in what waits        |
//! | `Multiple`               | all                                                              |
//!
//! No look is made before MPI is initialised or after it is finalised, in a child that `fork` has
//! made, or while a thread of this process, such as the waiting one itself, is in this crate.
//!
//! # Costs
//! A look that finds nothing takes some 0.4 us. One that completes the smallest message takes three
//! times as long, so a look that takes two and a half times as long as the shortest one has done
//! something. Then looks follow one another without sleeps, until none has done anything for
//! 100 us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use syncline_signal::progress::{Advance, Installed, Progress, install};

use crate::communicator::Communicator;
use crate::error::Result;
use crate::inner::Inner;
use crate::message::Receiving;
use crate::mpi::{Mpi, ThreadSupport};

/// How long looks go on without sleeps after one that has done something.
pub(crate) const AWAKE: Duration = Duration::from_micros(100);

/// While it exists, waits of this process that sleep look into MPI.
#[derive(Debug)]
pub struct Driven {
    installed: Option<Installed>,
    engine: Arc<Engine>,
    receiving: Option<Receiving>,
    alone: Communicator,
}

#[derive(Debug)]
struct Engine {
    inner: Arc<Inner>,
    /// The slot of the receive.
    request: i32,
    /// Whether only the thread that MPI treats as the first may look.
    first_only: bool,
    /// The receive has failed, so its slot may be used for another request.
    has_failed: AtomicBool,
}

impl Progress for Engine {
    fn advance(&self) -> Advance {
        self.inner.look(self.request, self.first_only, &self.has_failed)
    }
}

impl Mpi {
    /// Makes waits of this process that sleep drive MPI until the result is dropped, in the thread
    /// that has called this. `alone` is a communicator of this process only; `threads` is the
    /// number of threads of this process that take part in what waits, and that may call MPI
    /// meanwhile.
    ///
    /// Returns `None` if MPI permits it in no thread.
    ///
    /// # Errors
    /// Those of any call.
    pub fn drive_in_waits(&self, alone: Communicator, threads: usize) -> Result<Option<Driven>> {
        let first_only = match self.threads() {
            ThreadSupport::Single | ThreadSupport::Funneled => true,
            // All calls of this crate take turns.
            ThreadSupport::Serialized if self.is_ours() => false,
            ThreadSupport::Serialized if threads > 1 => return Ok(None),
            ThreadSupport::Serialized => true,
            ThreadSupport::Multiple => false,
        };
        let (inner, has_failed) = (Arc::clone(&alone.inner), AtomicBool::new(false));
        let receiving = alone.irecv(alone.rank(), TAG, Vec::with_capacity(1))?;
        let engine = Engine { inner, request: receiving.slot(), first_only, has_failed };
        let engine = Arc::new(engine);
        let installed = Some(install(Arc::<Engine>::clone(&engine)));
        Ok(Some(Driven { installed, engine, receiving: Some(receiving), alone }))
    }
}

/// The tag of the message that ends the receive.
const TAG: u16 = 0;

impl Drop for Driven {
    fn drop(&mut self) {
        if !self.alone.inner.is_of_this_process() {
            // The lock of the list may be held by a thread that does not exist in this child.
            std::mem::forget(self.installed.take());
        }
        self.installed = None; // no thread looks from here on
        let Some(receiving) = self.receiving.take() else { return };
        // Relaxed: the drop of `installed` has waited for all looks, under a lock.
        if self.engine.has_failed.load(Ordering::Relaxed) {
            return std::mem::forget(receiving);
        }
        // MPI is not finalised while a receive is open. If it fails, the receive is left to MPI.
        if let Ok(sending) = self.alone.isend(self.alone.rank(), TAG, Vec::new()) {
            let _ = receiving.wait().and_then(|_| sending.wait());
        }
    }
}

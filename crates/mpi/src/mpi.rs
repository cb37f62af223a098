//! MPI in this process, initialised once by this crate or by the program.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::communicator::Communicator;
use crate::error::{MpiError, Result};
use crate::ffi;
use crate::inner::{Inner, check};
use crate::launched::Launched;
use crate::shim_loader::Library;

/// The threads of a process that may call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadSupport {
    /// The process has one thread.
    Single,
    /// Only the main thread calls MPI.
    Funneled,
    /// All threads call MPI, one at a time.
    Serialized,
    /// All threads call MPI, at any time.
    Multiple,
}

impl ThreadSupport {
    fn of(level: i32) -> ThreadSupport {
        match level {
            3.. => ThreadSupport::Multiple,
            2 => ThreadSupport::Serialized,
            1 => ThreadSupport::Funneled,
            _ => ThreadSupport::Single,
        }
    }
}

impl fmt::Display for ThreadSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ThreadSupport::Single => "MPI_THREAD_SINGLE",
            ThreadSupport::Funneled => "MPI_THREAD_FUNNELED",
            ThreadSupport::Serialized => "MPI_THREAD_SERIALIZED",
            ThreadSupport::Multiple => "MPI_THREAD_MULTIPLE",
        })
    }
}

/// Whether this process has an [`Mpi`].
static TAKEN: AtomicBool = AtomicBool::new(false);

/// MPI in this process. There is at most one; dropping it finalises MPI if this crate initialised
/// it.
///
/// Only the thread that initialised MPI can finalise it: that is MPI's rule. A drop in another
/// thread does not.
#[derive(Debug)]
pub struct Mpi {
    inner: Arc<Inner>,
    library: Library,
    ours: bool,
    /// One thread at a time may use it.
    _not_sync: PhantomData<Cell<()>>,
}

impl Mpi {
    /// Initialises MPI, or joins the MPI that the program has initialised.
    ///
    /// MPI may grant less than is `wanted`. If the program initialised it first, it grants what the
    /// program asked for: see [`Mpi::threads`]. The call is collective if it initialises MPI.
    ///
    /// # Errors
    /// * [`MpiError::Taken`] if there is an `Mpi` in this process.
    /// * [`MpiError::Finalized`] if MPI has been finalised.
    /// * [`MpiError::OtherMpi`] if `launched` names another MPI.
    /// * [`MpiError::Alone`] if the world has one process although `launched` says more.
    /// * [`MpiError::Thread`] if this thread must not call the program's MPI.
    pub fn start(
        library: Library,
        wanted: ThreadSupport,
        launched: Option<&Launched>,
    ) -> Result<Mpi> {
        let mut mpi = Mpi::take(|| Mpi::begin(library, Some(wanted), launched))?;
        // On an error, dropping `mpi` releases everything.
        if let Err(error) = mpi.check_size(launched) {
            if mpi.ours {
                let _ = mpi.finalize();
            }
            return Err(error);
        }
        Ok(mpi)
    }

    /// Joins the MPI that the program has initialised. Never initialises it.
    ///
    /// # Errors
    /// * [`MpiError::Uninitialized`] if the program has not initialised MPI yet.
    /// * [`MpiError::Taken`], [`MpiError::Finalized`] and [`MpiError::Thread`] as for
    ///   [`Mpi::start`].
    pub fn join(library: Library) -> Result<Mpi> {
        Mpi::take(|| Mpi::begin(library, None, None))
    }

    /// Calls `begin` unless there is an `Mpi` in this process.
    fn take(begin: impl FnOnce() -> Result<Mpi>) -> Result<Mpi> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(MpiError::Taken);
        }
        begin().inspect_err(|_| TAKEN.store(false, Ordering::Release))
    }

    /// Initialises MPI at the `wanted` level if the program has not. If no level is wanted, the
    /// program must have initialised it.
    fn begin(
        library: Library,
        wanted: Option<ThreadSupport>,
        launched: Option<&Launched>,
    ) -> Result<Mpi> {
        let calls = library.calls;
        let what = if wanted.is_some() { "initialise MPI" } else { "join the program's MPI" };
        let flag = |ask: unsafe extern "C" fn(*mut i32) -> i32| {
            let mut flag = 0;
            // SAFETY: MPI answers these questions at any time; `flag` is valid for a write.
            check(calls, what, unsafe { ask(&raw mut flag) }).map(|()| flag)
        };
        if flag(calls.finalized)? != 0 {
            return Err(MpiError::Finalized { what });
        }
        let ours = flag(calls.initialized)? == 0;
        if let Some(launched) = launched.filter(|_| ours) {
            library.check_launcher(launched)?;
        }
        let mut level = 0;
        let code = if ours {
            let wanted = wanted.ok_or(MpiError::Uninitialized { what })?;
            // SAFETY: MPI is not initialised, and no other thread of this crate initialises it, as
            // there is one `Mpi`; `level` is valid for a write.
            unsafe { (calls.init_thread)(wanted as i32, &raw mut level) }
        } else {
            // SAFETY: MPI is initialised and answers this in any thread; `level` is valid for a
            // write.
            unsafe { (calls.query_thread)(&raw mut level) }
        };
        check(calls, what, code)?;
        let granted = ThreadSupport::of(level);
        if !ours && granted <= ThreadSupport::Funneled && flag(calls.is_thread_main)? == 0 {
            return Err(MpiError::Thread { what: "take part in the program's MPI", granted });
        }
        let inner = Arc::new(Inner::new(calls, std::thread::current().id(), granted));
        Ok(Mpi { inner, library, ours, _not_sync: PhantomData })
    }

    fn check_size(&self, launched: Option<&Launched>) -> Result<()> {
        let Some((launched, size)) = launched.and_then(|launched| Some((launched, launched.size?)))
        else {
            return Ok(());
        };
        // A program that has initialised MPI itself defines its own world.
        if size <= 1 || !self.ours || self.world()?.size() > 1 {
            return Ok(());
        }
        let (shim, library) = (self.library.shim().path.clone(), self.library.name());
        Err(MpiError::Alone { shim, library, launcher: launched.to_string(), size })
    }

    /// Returns the library.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the threads that may call MPI.
    #[must_use]
    pub fn threads(&self) -> ThreadSupport {
        self.inner.granted()
    }

    /// Whether this crate has initialised MPI, and therefore finalises it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Duplicates the communicator of all processes. Collective.
    ///
    /// # Errors
    /// Those of any call: [`MpiError::Call`], [`MpiError::Thread`], [`MpiError::Finalized`].
    pub fn world(&self) -> Result<Communicator> {
        Communicator::make(&self.inner, "duplicate the world", |calls, handle| {
            // SAFETY: MPI is initialised; `handle` is valid for a write.
            unsafe { (calls.comm_world)(handle) }
        })
    }

    /// Duplicates a communicator of the program, given by its Fortran handle (`MPI_Comm_c2f`).
    /// Collective over its processes.
    ///
    /// # Errors
    /// [`MpiError::Communicator`] for `MPI_COMM_NULL`, [`MpiError::Intercommunicator`] for an
    /// intercommunicator, and those of any call. An error of the duplication goes to the error
    /// handler of the program's communicator first.
    ///
    /// # Safety
    /// The handle must be that of a communicator of this process, or of `MPI_COMM_NULL`.
    pub unsafe fn from_fortran(&self, handle: i32) -> Result<Communicator> {
        let (what, mut refused) = ("duplicate the program's communicator", ffi::OK);
        let made = Communicator::make(&self.inner, what, |calls, own| {
            // SAFETY: the caller guarantees the handle (see `# Safety`); `own` is valid for a
            // write.
            let code = unsafe { (calls.comm_from_fortran)(handle, own) };
            refused = code;
            code
        });
        match refused {
            ffi::NO_SUCH => Err(MpiError::Communicator { what }),
            ffi::INTER => Err(MpiError::Intercommunicator { what }),
            _ => made,
        }
    }

    /// Makes dropped and freed communicators stay allocated in MPI until it is finalised.
    ///
    /// Programs that continue after the death of a process need this. A message that was sent in a
    /// communicator with a dead process may arrive late; if MPI has reused the number of that
    /// communicator by then, the message reaches the new one. (Open MPI 5 ends the job: "received a
    /// message from a rank outside the valid range of the communicator".)
    pub fn keep_communicators(&self) {
        self.inner.keeps.store(true, Ordering::Relaxed);
    }

    /// Returns MPI's name of this host.
    ///
    /// # Errors
    /// Those of any call.
    pub fn processor_name(&self) -> Result<String> {
        let mut name = String::new();
        self.inner.call("ask for the host's name", |calls| {
            // SAFETY: `into` is valid for writes of `room` bytes.
            match ffi::text(|into, room| unsafe { (calls.processor_name)(into, room) }) {
                Ok(text) => name = text,
                Err(code) => return code,
            }
            ffi::OK
        })?;
        Ok(name)
    }

    /// Returns the time of MPI's clock, in seconds.
    ///
    /// # Errors
    /// Those of any call.
    pub fn time(&self) -> Result<f64> {
        let mut time = 0.0;
        self.inner.call("read MPI's clock", |calls| {
            // SAFETY: the function takes no arguments.
            time = unsafe { (calls.wtime)() };
            ffi::OK
        })?;
        Ok(time)
    }

    /// Terminates all processes of the world at once, without waiting for calls of other threads.
    pub fn abort(&self, code: i32) -> ! {
        // SAFETY: the process ends here, in whatever state MPI is.
        unsafe { (self.inner.calls().abort)(code) };
        std::process::abort()
    }

    /// Finalises MPI if this crate has initialised it; otherwise ends only this crate's use of it.
    /// Collective; spins until all processes have called it.
    ///
    /// Every later call of a communicator or message that is left returns an error.
    ///
    /// # Errors
    /// [`MpiError::Finalized`] if MPI was finalised before, [`MpiError::Thread`] in another thread
    /// than that of [`Mpi::start`].
    pub fn finalize(&mut self) -> Result<()> {
        if self.ours {
            return self.inner.finalize();
        }
        self.inner.call("finalise MPI", |_| ffi::OK)?;
        self.inner.leave();
        Ok(())
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let ended = matches!(self.finalize(), Ok(()) | Err(MpiError::Finalized { .. }));
        if ended || !self.ours {
            TAKEN.store(false, Ordering::Release);
        }
    }
}

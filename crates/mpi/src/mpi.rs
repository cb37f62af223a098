//! MPI in this process: initialised by us or by the program, once.

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
use crate::library::Library;

/// Which threads of a process may call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadSupport {
    /// There is one.
    Single,
    /// The first only.
    Funneled,
    /// All, one at a time.
    Serialized,
    /// All, at any time.
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

/// Whether there is an [`Mpi`] in this process.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// MPI in this process. There is one; when it goes, MPI ends if we began it.
///
/// Dropped in another thread than the one that initialised MPI, it cannot end it: that is MPI's rule.
#[derive(Debug)]
pub struct Mpi {
    inner: Arc<Inner>,
    library: Library,
    ours: bool,
    /// One thread at a time.
    _not_sync: PhantomData<Cell<()>>,
}

impl Mpi {
    /// Initialises MPI, or takes it as the program has initialised it.
    ///
    /// It may grant less than is `wanted`, and grants what the program asked for if that came first: see [`Mpi::threads`].
    /// This call is collective if it initialises.
    ///
    /// # Errors
    /// [`MpiError::Taken`] if there is an `Mpi`, [`MpiError::Finalized`] if MPI has ended, [`MpiError::OtherMpi`] if
    /// `launched` names another MPI, [`MpiError::Alone`] if the world has one process though `launched` says more, [`MpiError::Thread`] if this thread must not call the program's MPI.
    pub fn start(
        library: Library,
        wanted: ThreadSupport,
        launched: Option<&Launched>,
    ) -> Result<Mpi> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(MpiError::Taken);
        }
        let started = Mpi::begin(library, wanted, launched);
        let mut mpi = started.inspect_err(|_| TAKEN.store(false, Ordering::Release))?;
        // On an error `mpi` goes, and gives all back.
        if let Err(error) = mpi.check_size(launched) {
            if mpi.ours {
                let _ = mpi.finalize();
            }
            return Err(error);
        }
        Ok(mpi)
    }

    fn begin(library: Library, wanted: ThreadSupport, launched: Option<&Launched>) -> Result<Mpi> {
        let (calls, what) = (library.calls, "initialise MPI");
        let flag = |ask: unsafe extern "C" fn(*mut i32) -> i32| {
            let mut flag = 0;
            // SAFETY: MPI answers these questions at any time; the answer has room.
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
            // SAFETY: MPI is not initialised, and nobody else of us does it, as there is one `Mpi`.
            unsafe { (calls.init_thread)(wanted as i32, &raw mut level) }
        } else {
            // SAFETY: MPI is initialised, and answers this in any thread.
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
        // A program that has initialised MPI itself knows in which world it is.
        if size <= 1 || !self.ours || self.world()?.size() > 1 {
            return Ok(());
        }
        let (shim, library) = (self.library.shim().path.clone(), self.library.name());
        Err(MpiError::Alone { shim, library, launcher: launched.to_string(), size })
    }

    /// The library.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Which threads may call.
    #[must_use]
    pub fn threads(&self) -> ThreadSupport {
        self.inner.granted()
    }

    /// Whether we have initialised it, and so end it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// All processes, in a communicator of their own. Collective.
    ///
    /// # Errors
    /// Those of any call: [`MpiError::Call`], [`MpiError::Thread`], [`MpiError::Finalized`].
    pub fn world(&self) -> Result<Communicator> {
        Communicator::make(&self.inner, "duplicate the world", |calls, handle| {
            // SAFETY: MPI is initialised; the handle has room.
            unsafe { (calls.comm_world)(handle) }
        })
    }

    /// The processes of the program's own communicator, by its Fortran handle (`MPI_Comm_c2f`), in one of their own.
    /// Collective over them.
    ///
    /// # Errors
    /// [`MpiError::Communicator`] for `MPI_COMM_NULL`, and those of any call. Errors of the duplication go to the handler
    /// of the program's communicator first.
    ///
    /// # Safety
    /// The handle must be that of a communicator of this process, or of `MPI_COMM_NULL`.
    pub unsafe fn from_fortran(&self, handle: i32) -> Result<Communicator> {
        let (what, mut null) = ("duplicate the program's communicator", false);
        let made = Communicator::make(&self.inner, what, |calls, own| {
            // SAFETY: the caller promises that the handle is one; ours has room.
            let code = unsafe { (calls.comm_from_fortran)(handle, own) };
            null = code == ffi::NO_SUCH;
            code
        });
        if null { Err(MpiError::Communicator { what }) } else { made }
    }

    /// From here on communicators are left to MPI until its end when they are dropped or freed.
    ///
    /// For programs that go on after a death: what was sent in a communicator whose processes are not all there may come
    /// late, and if MPI has given its number to another communicator by then, it comes there. (Open MPI 5 ends the job:
    /// "received a message from a rank outside the valid range of the communicator".)
    pub fn keep_communicators(&self) {
        self.inner.keeps.store(true, Ordering::Relaxed);
    }

    /// What MPI calls this host.
    ///
    /// # Errors
    /// Those of any call.
    pub fn processor_name(&self) -> Result<String> {
        let mut name = String::new();
        self.inner.call("ask for the host's name", |calls| {
            // SAFETY: the room is as long as the function is told.
            match ffi::text(|into, room| unsafe { (calls.processor_name)(into, room) }) {
                Ok(text) => name = text,
                Err(code) => return code,
            }
            ffi::OK
        })?;
        Ok(name)
    }

    /// MPI's clock, in seconds.
    ///
    /// # Errors
    /// Those of any call.
    pub fn time(&self) -> Result<f64> {
        let mut time = 0.0;
        self.inner.call("read MPI's clock", |calls| {
            // SAFETY: takes nothing.
            time = unsafe { (calls.wtime)() };
            ffi::OK
        })?;
        Ok(time)
    }

    /// Ends all processes of the world, at once. Waits for nobody, not even for calls of other threads.
    pub fn abort(&self, code: i32) -> ! {
        // SAFETY: whatever goes on in MPI, this is its end.
        unsafe { (self.inner.calls().abort)(code) };
        std::process::abort()
    }

    /// Ends MPI if we have initialised it; else only our part. Collective, and spins until all have come.
    ///
    /// Communicators that are left, and their messages, give errors from here on.
    ///
    /// # Errors
    /// [`MpiError::Finalized`] the second time, [`MpiError::Thread`] in another thread than that of [`Mpi::start`].
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

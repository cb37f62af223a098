//! Access to the site's MPI, which is loaded at run time. No MPI is needed at build time.
//!
//! ```text
//!  mpirun ──starts──> this process ── dlopen ──> shim ──linked──> libmpi of the site
//!                          │                      ▲
//!               environment: which MPI?           └── shim.c, compiled once by the site's mpicc
//! ```
//!
//! MPIs differ in what a handle is and in the values of constants, so a program is normally
//! compiled for one of them. Here all calls go through a *shim*: a small C library that keeps the
//! handles to itself. The first program under an MPI builds it; `syncline mpi build`
//! ([`build`](build::build)) compiles one for each MPI of a site. One program then runs under each
//! of them.
//!
//! * [`launched`](launched::launched) detects whether an MPI launcher started this process, and
//!   which.
//! * [`Library::find`] loads the shim that fits. `SYNCLINE_MPI=/path/to/shim.so` selects it;
//!   otherwise it is searched for in `$XDG_DATA_HOME/syncline/mpi` (`~/.local/share/syncline/mpi`)
//!   and in `lib/syncline/mpi` beside the program's `bin`. If none is there, one process builds it
//!   into the first of these folders, with the `mpicc` on the path.
//! * [`Mpi`] is MPI in this process. Either this crate initialises and finalises it, or the program
//!   has initialised it before, and then the program finalises it.
//! * [`Communicator`] has messages of bytes, collective set-up calls, and
//!   [failures](Communicator::failures) if the MPI supports them.
//!
//! ```no_run
//! use syncline_mpi::communicator::ThreadSupport;
//! use syncline_mpi::launched::launched;
//! use syncline_mpi::{Library, Mpi};
//!
//! if let Some(launched) = launched() {
//!     let library = Library::find(&launched)?;
//!     let mut mpi = Mpi::start(library, ThreadSupport::Multiple, Some(&launched))?;
//!     let world = mpi.world()?;
//!     let sending = world.isend((world.rank() + 1) % world.size(), 7, b"hello".to_vec())?;
//!     let message = loop {
//!         match world.probe(7)? {
//!             Some(message) => break message,
//!             None => std::thread::sleep(std::time::Duration::from_micros(20)),
//!         }
//!     };
//!     assert_eq!(message.receive(Vec::new())?, b"hello");
//!     sending.wait()?;
//!     mpi.finalize()?;
//! }
//! # Ok::<(), syncline_mpi::MpiError>(())
//! ```
//!
//! # Threads
//! An [`Mpi`] and all objects made from it may move to another thread, but one thread at a time
//! uses each of them; callers that share one need a lock of their own. Concurrent calls on
//! different objects wait for one another inside this crate, since the shim's tables admit one
//! thread at a time. If the MPI grants less than
//! [`ThreadSupport::Serialized`](communicator::ThreadSupport::Serialized), a call from any thread
//! but the first is an [error](MpiError::Thread).
//!
//! Blocking calls (collectives, and MPI's own initialisation and finalisation) keep other threads
//! out while they wait, and spin. Waits for messages ([`Sending::wait`](message::Sending::wait),
//! [`Message::receive`](message::Message::receive)) do neither: they look, yield, and then sleep
//! for up to 100 microseconds at a time.
//!
//! A process drives MPI while its threads wait for something else, such as a barrier in memory:
//! see [`Mpi::drive_in_waits`].
//!
//! # Buffers
//! A buffer in flight belongs to MPI. [`Sending`](message::Sending) and
//! [`Receiving`](message::Receiving) own their buffers until the transfer is done. If one is
//! dropped earlier, its buffer passes to the process's MPI, which frees it when a later call finds
//! the transfer done. [`Kept`](message::Kept) does the same with the owner of memory that is not a
//! buffer. Transfers from and to raw memory are `unsafe`: the memory must stay valid until they are
//! done.

pub mod build;
#[doc(hidden)]
pub mod communicator;
pub mod error;
mod failures;
mod family;
mod ffi;
mod first_use;
#[doc(hidden)]
pub mod host_lines;
mod inner;
pub mod launched;
#[doc(hidden)]
pub mod message;
mod mpi;
#[doc(hidden)]
pub mod outside;
#[doc(hidden)]
pub mod progress;
pub mod shim;
mod shim_loader;
mod window;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use communicator::Communicator;
pub use error::MpiError;
pub use mpi::Mpi;
pub use shim_loader::Library;

/// MPI's one-sided memory, with which benchmarks compare Syncline's. Its interface is not stable.
#[doc(hidden)]
pub mod unstable {
    pub use crate::window::Window;
}

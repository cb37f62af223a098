//! The MPI that is there, loaded at run time; no MPI at build time.
//!
//! ```text
//!  mpirun ──starts──> this process ── dlopen ──> shim ──linked──> libmpi of the site
//!                          │                      ▲
//!               environment: which MPI?           └── shim.c, compiled once by the site's mpicc
//! ```
//!
//! MPIs differ in what a handle is, and in the values of constants; so a program is compiled for one of them. Here all
//! calls go through a *shim*: a small C library in which handles stay, compiled by `syncline mpi build` ([`build`](build::build))
//! for each MPI of a site. One program then runs under each of them.
//!
//! * [`launched`]: whether an MPI launcher started this process, and which.
//! * [`Library::find`]: the shim that fits, loaded. `SYNCLINE_MPI=/path/to/shim.so` says which; otherwise it is looked for in
//!   `$XDG_DATA_HOME/syncline/mpi` (`~/.local/share/syncline/mpi`) and in `lib/syncline/mpi` beside the program's `bin`.
//! * [`Mpi`]: MPI, initialised by us and then finalised by us, or by the program before us and then left alone.
//! * [`Communicator`]: messages of bytes, set-up calls; [failures](Communicator::failures) where the MPI has them.
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
//!     let mut sending = world.isend((world.rank() + 1) % world.size(), 7, b"hello".to_vec())?;
//!     let message = loop {
//!         match world.probe(7)? {
//!             Some(message) => break message,
//!             None => std::thread::yield_now(),
//!         }
//!     };
//!     assert_eq!(message.receive(Vec::new())?, b"hello");
//!     while !sending.test()? {}
//!     mpi.finalize()?;
//! }
//! # Ok::<(), syncline_mpi::MpiError>(())
//! ```
//!
//! # Threads
//! All that comes of an [`Mpi`] may go to another thread, but is used by one at a time; callers that share it have a lock
//! of their own. Calls that come together all the same wait for one another in here, since the shim's tables have room for one
//! thread. If the MPI grants less than [`ThreadSupport::Serialized`](communicator::ThreadSupport::Serialized), any call from another thread than the first is an
//! [error](MpiError::Thread).
//!
//! Blocking calls (collectives, and MPI's own start and end) keep others out while they wait, and spin. Waits for messages
//! ([`Sending::wait`](message::Sending::wait), [`Message::receive`](message::Message::receive)) do neither: they look, yield, and then sleep for up to 200 microseconds.
//!
//! # Buffers
//! A buffer under way belongs to MPI. [`Sending`](message::Sending) and [`Receiving`](message::Receiving) hold theirs until it is done; dropped before,
//! they leave it to the process's MPI, which frees it when a later call finds it done. Transfers from and to raw memory are
//! `unsafe`: the memory must stay until they are done.

mod backoff;
pub mod build;
#[doc(hidden)]
pub mod communicator;
pub mod error;
mod failures;
mod family;
mod ffi;
mod inner;
pub mod launched;
mod library;
#[doc(hidden)]
pub mod message;
mod mpi;
pub mod shim;
mod window;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use communicator::Communicator;
pub use error::MpiError;
pub use library::Library;
pub use mpi::Mpi;

/// What benchmarks compare Syncline's one-sided memory with: MPI's. No promise holds for it.
#[doc(hidden)]
pub mod unstable {
    pub use crate::window::Window;
}

//! The C interface of Syncline, for C, C++ and Fortran: ordered read-write locks and overlays,
//! signals, barriers, queue locks, teams, one-sided memory and farms of processes.
//!
//! cbindgen generates the header, `include/syncline.h`, from this crate; it is the complete
//! reference for C programs. A location in this crate is control only: it has a name and a queue,
//! and the data that it orders belong to the C program. The compiler cannot see which data a body
//! touches, so the guarantee that a program with a data race does not compile ends at this
//! interface. The other guarantees hold: a checked overlay does not deadlock, and its results do
//! not depend on the schedule.
//!
//! * [`locations`]: names with a queue.
//! * [`handles`]: ordered locks that a program acquires and releases directly.
//! * [`overlay`]: tasks and their check. [`run`]: the run of a checked overlay. [`watch`]:
//!   drawings, and the state of a run: which task waits for which.
//! * [`signals`]: numbers that only grow, and that threads wait on. [`barriers`]: no member
//!   continues before all have arrived.
//! * [`locks`]: first-come, first-served queue locks.
//! * [`teams`]: one function in threads or processes, which share memory, barriers and locks.
//! * [`rma`]: memory of each member that all members read and write. [`moves`], [`words`]: the
//!   operations on it. [`syncs`]: their completion.
//! * [`farms`]: processes as tasks. [`messages`]: the messages that they exchange. [`pools`]: tasks
//!   in, results out.
//! * [`trace`]: what the threads of a program do and wait for, in a file.
//! * [`status`]: the return values of all functions. [`error`]: the last failure of a thread, in
//!   words.
//!
//! # Conventions of all functions
//! * Each exported name begins with `syncline_`, a prefix that no other library uses, so
//!   `no_mangle` replaces no other function.
//! * No panic crosses the interface: it becomes [`Status::Internal`](status::Status::Internal).
//! * A detectable mistake is an error and changes nothing: `NULL`, a number that is no value of its
//!   enumeration, a call in the wrong stage, an object that another thread is using. The `Safety`
//!   section of each function lists the conditions that cannot be checked.

use std::ffi::c_char;

pub mod barriers;
pub mod error;
pub mod farms;
pub mod handles;
pub mod locations;
pub mod locks;
pub mod messages;
pub mod moves;
pub mod mutexes;
pub mod operate;
pub mod overlay;
pub mod pools;
pub mod rma;
pub mod run;
pub mod signals;
pub mod status;
pub mod syncs;
pub mod teams;
pub mod trace;
pub mod watch;
pub mod words;

/// The major version of the header. The version of the library, `syncline_version`, may be older or
/// newer.
pub const SYNCLINE_VERSION_MAJOR: u32 = 0;
/// The minor version of the header. Until 1.0, each minor version is a different interface.
pub const SYNCLINE_VERSION_MINOR: u32 = 1;
/// The patch version of the header.
pub const SYNCLINE_VERSION_PATCH: u32 = 0;
/// The nanoseconds with which a `..._for` function waits without a limit.
pub const SYNCLINE_FOREVER: u64 = u64::MAX;

/// Returns the version of the library, such as "0.1.0". The string is static: do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0") }.as_ptr().cast()
}

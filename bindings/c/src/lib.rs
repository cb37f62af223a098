//! Ordered read-write locks and overlays, signals, barriers, queue locks, teams, one-sided memory and farms of processes for C,
//! C++ and Fortran.
//!
//! The header, `include/syncline.h`, is made from this crate by cbindgen and has all that C needs to know. Locations
//! here are control only: they have a name and a queue, and the data that they order belong to the C
//! program. The compiler cannot see what a body touches, so the promise that no data race compiles ends
//! at this border; that nothing deadlocks which was checked, and that results do not depend on the schedule, go on.
//!
//! * [`locations`]: names with a queue.
//! * [`handles`]: ordered locks used by hand.
//! * [`overlay`]: tasks, and their check. [`run`]: their run. [`watch`]: drawings, and who waits for whom in a run.
//! * [`signals`]: numbers that only grow, to wait on. [`barriers`]: nobody goes on before all have arrived.
//! * [`locks`]: first come, first served.
//! * [`teams`]: one function in threads or processes, which share memory, barriers and locks.
//! * [`rma`]: memory of members that all members read and write. [`moves`], [`words`]: what they do to it. [`syncs`]: when it
//!   is done.
//! * [`farms`]: processes as tasks. [`messages`]: what they send. [`pools`]: tasks in, results out.
//! * [`status`]: what every function says. [`error`]: the last failure of a thread, in words.
//!
//! # What holds for all functions
//! * An exported name begins with `syncline_`, which no other library uses: so `no_mangle` hides no other function.
//! * No panic crosses the border: it becomes [`Status::Internal`](status::Status::Internal).
//! * What can be seen to be wrong is an error, and changes nothing: `NULL`, numbers that mean nothing, the wrong
//!   stage, an object that another thread uses at this moment. What cannot be seen is in the `Safety` section
//!   of each function.

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
pub mod watch;
pub mod words;

/// The version of the header: what it was made from. It may be older or newer than the library.
pub const SYNCLINE_VERSION_MAJOR: u32 = 0;
/// See `SYNCLINE_VERSION_MAJOR`. Until 1.0, other minor versions are other interfaces.
pub const SYNCLINE_VERSION_MINOR: u32 = 1;
/// See `SYNCLINE_VERSION_MAJOR`.
pub const SYNCLINE_VERSION_PATCH: u32 = 0;
/// The nanoseconds of a `..._for` function that waits without an end.
pub const SYNCLINE_FOREVER: u64 = u64::MAX;

/// The version of the library, as in "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn syncline_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0") }.as_ptr().cast()
}

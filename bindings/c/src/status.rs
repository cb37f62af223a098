//! The status codes that functions return, and a text for each.

use std::ffi::{CStr, c_char, c_int};

/// The result of a function. Later versions may add values: treat an unknown value as a failure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A `..._try_...` function would have to wait. A posted request keeps its place in the queue.
    NotGranted = 1,
    /// An argument is `NULL`, or not among the values that exist.
    InvalidArgument = 2,
    /// The call is valid, but not at this time: a release without an acquisition, a run before the
    /// check, an object that another thread is using. Nothing was changed.
    Misuse = 3,
    /// The tasks would wait for each other in a cycle; the message names it.
    Deadlock = 4,
    /// The tasks cannot be run as they are declared; the message says why.
    BadOverlay = 5,
    /// The body of a task returned a number other than 0; see `task`, `iteration` and `code`. In an
    /// outcome of a pool: the function of the worker reported that there is no result.
    BodyFailed = 6,
    /// A location belongs to another overlay that is running.
    InUse = 7,
    /// The system could not create a thread.
    NoThread = 8,
    /// An error inside the library.
    Internal = 9,
    /// No task made progress, and `syncline_watch_stuck` ended the run; the message is its report.
    Stuck = 10,
    /// The time limit expired before the wait was over. Nothing is lost: the call may be repeated.
    TimedOut = 11,
    /// A member has left or is dead, so that the others would wait without end; the message names
    /// it. In a farm: a process that was to send or receive something has ended; `code` is its exit
    /// code, or 128 plus the number of the signal that killed it.
    Gone = 12,
    /// A member died or returned while it held the lock, and the data that the lock guards may be
    /// partly changed; the message names the member.
    Poisoned = 13,
    /// A member of a team returned a number other than 0, or one of its processes failed; the
    /// message names it, and `code` is the number or the exit code.
    MemberFailed = 14,
    /// The system refused a resource that a team or a farm needs: memory, a process; the message
    /// names it.
    System = 15,
    /// There is no room for the request: in the memory of a team, on its host, or in a farm (for
    /// processes, or for messages that have not been received). Ask for less, or create the team or
    /// farm with more.
    NoRoom = 16,
    /// A message has more elements than the buffer. The message is not lost, and the function
    /// reported its number of elements.
    TooSmall = 17,
    /// A message is not of the requested type; the message of the failure names the type it has.
    Garbled = 18,
    /// No process of the farm is left that could send a message.
    Alone = 19,
    /// A signal is closed: an addition exceeded the largest number, `SYNCLINE_SIGNAL_MAX`. The
    /// signal keeps that number, and every wait for a number ends.
    Closed = 20,
    /// There is no MPI, or no shim that fits it: see `syncline mpi build`.
    NoMpi = 21,
    /// The communicator is `MPI_COMM_NULL`, or not a communicator of this MPI.
    BadCommunicator = 22,
    /// The MPI was initialised with, or provides, a thread level that is too low for the call.
    ThreadLevel = 23,
    /// A call of MPI failed; the message contains MPI's own text.
    MpiFailed = 24,
}

impl Status {
    /// All values.
    const ALL: [Status; 25] = [
        Status::Ok,
        Status::NotGranted,
        Status::InvalidArgument,
        Status::Misuse,
        Status::Deadlock,
        Status::BadOverlay,
        Status::BodyFailed,
        Status::InUse,
        Status::NoThread,
        Status::Internal,
        Status::Stuck,
        Status::TimedOut,
        Status::Gone,
        Status::Poisoned,
        Status::MemberFailed,
        Status::System,
        Status::NoRoom,
        Status::TooSmall,
        Status::Garbled,
        Status::Alone,
        Status::Closed,
        Status::NoMpi,
        Status::BadCommunicator,
        Status::ThreadLevel,
        Status::MpiFailed,
    ];

    fn text(self) -> &'static CStr {
        match self {
            Status::Ok => c"success",
            Status::NotGranted => c"not granted without waiting",
            Status::InvalidArgument => c"invalid argument",
            Status::Misuse => c"the call is not allowed at this time",
            Status::Deadlock => c"the tasks would deadlock",
            Status::BadOverlay => c"the tasks cannot be run as they are declared",
            Status::BodyFailed => c"a function of the program failed",
            Status::InUse => c"the location is in use by another overlay",
            Status::NoThread => c"the system could not create a thread",
            Status::Internal => c"error inside the library",
            Status::Stuck => c"the run was ended because no task made progress",
            Status::TimedOut => c"timed out",
            Status::Gone => c"a member or process is gone",
            Status::Poisoned => c"the lock was held by a member that died or returned",
            Status::MemberFailed => c"a member of the team failed",
            Status::System => c"the system refused a resource",
            Status::NoRoom => c"no room left for the request",
            Status::TooSmall => c"the buffer is too small for the message",
            Status::Garbled => c"the message is of another kind",
            Status::Alone => c"no process is left that could send",
            Status::Closed => c"the signal is at its largest number",
            Status::NoMpi => c"no MPI, or no shim for it",
            Status::BadCommunicator => c"invalid MPI communicator",
            Status::ThreadLevel => c"the MPI's thread level is too low",
            Status::MpiFailed => c"a call of MPI failed",
        }
    }
}

/// Returns a short text for a status, such as "timed out". Never returns `NULL`: the text of a
/// number that is no status is "unknown status".
///
/// `status` is a `syncline_status`, or a number in which a program has stored one. The string is
/// static: do not free it. `syncline_last_failure` describes the failure itself.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_status_text(status: c_int) -> *const c_char {
    let known = Status::ALL.into_iter().find(|&known| known as c_int == status);
    known.map_or(c"unknown status", Status::text).as_ptr()
}

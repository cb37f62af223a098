//! What functions say of how they went, as numbers and in words.

use std::ffi::{CStr, c_char, c_int};

/// What a function says. Later versions may say more: treat what is not known as a failure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// A `..._try_...` function would have to wait. A request that was posted keeps its place in
    /// the queue.
    NotGranted = 1,
    /// An argument is `NULL`, or not one of those that exist.
    InvalidArgument = 2,
    /// The right call at the wrong time: a release of what is not held, a run before the check, an
    /// object that another thread is using at this moment. Nothing was changed.
    Misuse = 3,
    /// Tasks would wait for each other in a circle; the message names it.
    Deadlock = 4,
    /// The tasks cannot be run as they are declared; the message says why.
    BadOverlay = 5,
    /// The body of a task returned another number than 0; see `task`, `iteration` and `code`. In an
    /// outcome of a pool: the function of the worker said that there is no result.
    BodyFailed = 6,
    /// A location is in another overlay that runs at this moment.
    InUse = 7,
    /// The system gave no thread.
    NoThread = 8,
    /// An error inside the library.
    Internal = 9,
    /// Nothing moved any more, and `syncline_watch_stuck` ended the run; the message is its report.
    Stuck = 10,
    /// The time was over before a wait was. Nothing is lost: it may be called again.
    TimedOut = 11,
    /// A member is gone (it has left, or is dead), so that the others would wait for ever; the
    /// message names it. In a farm: a process that was to send or receive something has ended;
    /// `code` is its exit code, or 128 and the signal.
    Gone = 12,
    /// A member died or returned while it held the lock, and what the lock guards may be half
    /// changed; the message names it.
    Poisoned = 13,
    /// A member of a team returned another number than 0, or a process of it did not end well; the
    /// message names it, and `code` is the number, or the exit code.
    MemberFailed = 14,
    /// The system refused what a team or a farm needs: memory, a process; the message says which.
    System = 15,
    /// There is no room for what was asked for: in the memory of a team, on its host, or in a farm,
    /// of processes or of messages that are not received yet. Less is to be asked for, or the team
    /// or farm is to be made with more.
    NoRoom = 16,
    /// A message has more elements than there is room for. It is not lost; how many there are was
    /// told.
    TooSmall = 17,
    /// A message is something else than was asked for; the message of the failure says what.
    Garbled = 18,
    /// No process of the farm is left that could send anything.
    Alone = 19,
    /// A signal is at its end: an addition went past the largest number, `SYNCLINE_SIGNAL_MAX`. It
    /// stays there, and every wait for a number ends.
    Closed = 20,
    /// There is no MPI, or no shim that fits it: see `syncline mpi build`.
    NoMpi = 21,
    /// The communicator is `MPI_COMM_NULL`, or none of this MPI.
    BadCommunicator = 22,
    /// The MPI was asked for, or grants, a level of threads that is too low for the call.
    ThreadLevel = 23,
    /// A call of MPI failed; the message has MPI's own words.
    MpiFailed = 24,
}

impl Status {
    /// All of them.
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
            Status::NoThread => c"the system gave no thread",
            Status::Internal => c"error inside the library",
            Status::Stuck => c"the run was ended because nothing moved",
            Status::TimedOut => c"timed out",
            Status::Gone => c"a member or process is gone",
            Status::Poisoned => c"the lock was held by a member that died or returned",
            Status::MemberFailed => c"a member of the team failed",
            Status::System => c"the system refused something",
            Status::NoRoom => c"no room left for what was asked for",
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

/// What a status is, in a few words: "timed out". Never `NULL`; for a number that is no status,
/// "unknown status".
///
/// `status` is a `syncline_status`, or a number that a program has kept as one. The text stays for
/// ever. What exactly happened is in `syncline_last_failure`.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_status_text(status: c_int) -> *const c_char {
    let known = Status::ALL.into_iter().find(|&known| known as c_int == status);
    known.map_or(c"unknown status", Status::text).as_ptr()
}

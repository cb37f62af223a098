//! Errors for C: a status from every function, and a description of the last failure of the thread.
//!
//! # Contract
//! Every exported function runs inside `call`, which turns every result of its body, a panic
//! included, into a [`Status`]. A failure is stored for the calling thread until the next failure
//! of that thread; a success leaves it unchanged, as with `errno`.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use syncline_fabric::{Advised, TeamError};
use syncline_farm::wire::WireError;
use syncline_farm::{ExitCause, FarmError};
use syncline_memory::Error as MemoryError;
use syncline_mpi::MpiError;
use syncline_overlay::error::{AcquireError, CheckError, RunError};
use syncline_process::{Generation, watch::Ending};
use syncline_rma::RmaError;
use syncline_signal::{AddError, WaitError};
use syncline_sync::{Fault, LockError, SpaceError};

use crate::SYNCLINE_FOREVER;
pub use crate::status::Status;

/// The last failure of a thread. Later versions may have more fields at the end.
#[repr(C)]
#[derive(Debug)]
pub struct Failure {
    /// The status that the function returned.
    pub status: Status,
    /// With `SYNCLINE_STATUS_BODY_FAILED`, the number that the body of a task returned; with
    /// `SYNCLINE_STATUS_MEMBER_FAILED`, the number that a member of a team returned, or its exit
    /// code; with `SYNCLINE_STATUS_GONE` from a farm, the exit code of the process that has ended,
    /// or 128 plus the number of the signal that killed it; else 0.
    pub code: c_int,
    /// The iteration of the task, from 0, if a task failed; else 0.
    pub iteration: u64,
    /// The name of the task that failed; `NULL` if no task did.
    pub task: *const c_char,
    /// A description of the failure, with the names of tasks and locations.
    pub message: *const c_char,
}

/// Returns the last failure of the calling thread; `NULL` if there was none.
///
/// The library owns the failure and its strings: do not free them. They are valid and unchanged
/// until the next call that fails on this thread, or until the thread ends. A call that succeeds
/// leaves them unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_last_failure() -> *const Failure {
    LAST.try_with(|last| match last.try_borrow().as_deref() {
        Ok(Some(kept)) => &raw const kept.failure,
        _ => ptr::null(),
    })
    .unwrap_or(ptr::null())
}

/// A failure with the strings that it points to.
struct Kept {
    failure: Failure,
    _task: Option<CString>,
    _message: CString,
}

thread_local! {
    static LAST: RefCell<Option<Box<Kept>>> = const { RefCell::new(None) };
}

/// A failure that `call` will store for C.
#[derive(Debug)]
pub(crate) struct Error {
    status: Status,
    code: c_int,
    task: Option<(String, u64)>,
    message: String,
}

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Error { status, code: 0, task: None, message: message.into() }
    }

    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::new(Status::Misuse, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, message)
    }

    /// Returns the error for a member of a team that returned a number other than 0.
    pub(crate) fn member(rank: usize, code: c_int) -> Self {
        let error = Self::new(Status::MemberFailed, format!("rank {rank} returned {code}"));
        Error { code, ..error }
    }

    /// Returns the error for a rank without a seat in an object: the rank does not exist, or it has
    /// its own object, in a team.
    #[cold]
    pub(crate) fn not_here(rank: usize, members: usize, what: &str) -> Self {
        if rank >= members {
            return SpaceError::Rank { rank, members }.into();
        }
        Self::misuse(format!("rank {rank} has a pointer to the {what} of its own"))
    }

    pub(crate) fn is_misuse(&self) -> bool {
        self.status == Status::Misuse
    }

    fn keep(self) -> Status {
        let status = self.status;
        let (task, iteration) = self.task.unzip();
        let (task, message) = (task.map(c_string), c_string(self.message));
        let failure = Failure {
            status,
            code: self.code,
            iteration: iteration.unwrap_or(0),
            task: task.as_ref().map_or(ptr::null(), |task| task.as_ptr()),
            message: message.as_ptr(),
        };
        let kept = Box::new(Kept { failure, _task: task, _message: message });
        // The thread-local may be destroyed already at the end of a thread; the status suffices
        // then.
        let _ = LAST.try_with(|last| last.replace(Some(kept)));
        status
    }
}

impl From<AcquireError> for Error {
    fn from(error: AcquireError) -> Self {
        let status = match error {
            AcquireError::TimedOut { .. } => Status::TimedOut,
            _ => Status::Internal, // no body in C poisons a location
        };
        Self::new(status, error.to_string())
    }
}

impl From<CheckError> for Error {
    fn from(error: CheckError) -> Self {
        let status = match error {
            CheckError::Cycle { .. } => Status::Deadlock,
            _ => Status::BadOverlay,
        };
        Self::new(status, error.to_string())
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        let message = error.to_string();
        let (status, code, task) = match error {
            RunError::Failed { task, iteration, source } => match source.downcast_ref::<Returned>()
            {
                Some(&Returned(code)) => (Status::BodyFailed, code, Some((task, iteration))),
                // The task left a run that ends by a convergence test.
                None => (Status::Misuse, 0, Some((task, iteration))),
            },
            RunError::Unconnected { .. } => (Status::BadOverlay, 0, None),
            RunError::InUse { .. } => (Status::InUse, 0, None),
            RunError::Thread { .. } => (Status::NoThread, 0, None),
            RunError::Stuck(_) => (Status::Stuck, 0, None),
            _ => (Status::Internal, 0, None),
        };
        Error { status, code, task, message }
    }
}

impl From<WaitError> for Error {
    fn from(error: WaitError) -> Self {
        let status = match error {
            WaitError::TimedOut => Status::TimedOut,
            WaitError::Unreachable { .. } => Status::InvalidArgument,
            _ => Status::Internal, // signals in C watch no other process
        };
        Self::new(status, error.to_string())
    }
}

impl From<AddError> for Error {
    fn from(error: AddError) -> Self {
        let status = match error {
            AddError::Closed => Status::Closed,
            _ => Status::InvalidArgument,
        };
        Self::new(status, error.to_string())
    }
}

impl From<SpaceError> for Error {
    fn from(error: SpaceError) -> Self {
        Self::new(of_space(&error), Advised(&error).to_string())
    }
}

fn of_space(error: &SpaceError) -> Status {
    match error {
        SpaceError::Forked { .. } | SpaceError::Mismatch(_) => Status::Misuse,
        SpaceError::Full { .. } | SpaceError::Memory { .. } | SpaceError::Many { .. } => {
            Status::NoRoom
        }
        _ => Status::InvalidArgument,
    }
}

/// Returns `NoRoom` if a segment is too large, and `System` if the system refused it for another
/// reason.
fn of_memory(error: &MemoryError) -> Status {
    use std::io::ErrorKind::{OutOfMemory, StorageFull};
    match error {
        MemoryError::TooLong { .. } => Status::NoRoom,
        MemoryError::Segment { source, .. }
            if matches!(source.kind(), OutOfMemory | StorageFull) =>
        {
            Status::NoRoom
        }
        _ => Status::System,
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let status = match fault {
            Fault::TimedOut => Status::TimedOut,
            Fault::Forked { .. } | Fault::Mismatch { .. } | Fault::Differs(_) => Status::Misuse,
            _ if fault.rank().is_some() => Status::Gone,
            _ => Status::Internal,
        };
        Self::new(status, fault.to_string())
    }
}

impl From<TeamError> for Error {
    fn from(error: TeamError) -> Self {
        let status = match &error {
            TeamError::Variable { .. } | TeamError::Descriptor { .. } => Status::InvalidArgument,
            TeamError::Members { .. } | TeamError::Disagree { .. } => Status::InvalidArgument,
            TeamError::Space(error) => of_space(error),
            TeamError::Nested { .. } | TeamError::Taken { .. } | TeamError::Forked { .. } => {
                Status::Misuse
            }
            TeamError::Thread { .. } => Status::NoThread,
            TeamError::Memory(error) => of_memory(error),
            TeamError::Process(_) | TeamError::Start { .. } | TeamError::System { .. } => {
                Status::System
            }
            TeamError::Sharing { .. } => Status::System,
            TeamError::Failed(_) | TeamError::Others => Status::MemberFailed,
            TeamError::Unshrunk { .. } => Status::Gone,
            TeamError::Threads { .. } => Status::ThreadLevel,
            TeamError::Mpi(error) => of_mpi(error),
            _ => Status::Internal, // no member in C panics
        };
        let code = match &error {
            TeamError::Failed(failure) => failure.exit_code().into(),
            _ => 0,
        };
        Error { code, ..Self::new(status, error.to_string()) }
    }
}

fn of_mpi(error: &MpiError) -> Status {
    match error {
        MpiError::NoMpi
        | MpiError::NoShim { .. }
        | MpiError::Unbuilt { .. }
        | MpiError::Several { .. } => Status::NoMpi,
        MpiError::OtherMpi { .. } | MpiError::Alone { .. } | MpiError::Process { .. } => {
            Status::NoMpi
        }
        MpiError::Abi { .. } | MpiError::NotAShim { .. } => Status::NoMpi,
        MpiError::NoLibrary { .. } | MpiError::Load { .. } => Status::NoMpi,
        MpiError::Taken | MpiError::Finalized { .. } | MpiError::Uninitialized { .. } => {
            Status::Misuse
        }
        MpiError::Thread { .. } => Status::ThreadLevel,
        MpiError::Communicator { .. } | MpiError::Intercommunicator { .. } => {
            Status::BadCommunicator
        }
        MpiError::Argument { .. } => Status::InvalidArgument,
        MpiError::Call { .. } => Status::MpiFailed,
        _ => Status::System,
    }
}

impl From<RmaError> for Error {
    fn from(error: RmaError) -> Self {
        let status = match error {
            RmaError::Fault(fault) => return fault.into(),
            RmaError::Mismatch { .. } | RmaError::Refused { .. } => Status::Misuse,
            RmaError::HeldBy { .. } | RmaError::Unfinished => Status::Misuse,
            RmaError::Poisoned { .. } => Status::Poisoned,
            RmaError::Space(error) => of_space(&error),
            RmaError::Room { .. } => Status::NoRoom,
            RmaError::Bounds { rank, from, to, len } => {
                let all = format!("the {len} that rank {rank} has in this allocation");
                return Self::invalid(format!("bytes {from} to {to} are not all among {all}"));
            }
            _ => Status::InvalidArgument,
        };
        Self::new(status, error.to_string())
    }
}

impl From<FarmError> for Error {
    fn from(error: FarmError) -> Self {
        let status = match &error {
            FarmError::Gone { .. } => Status::Gone,
            FarmError::TimedOut { .. } => Status::TimedOut,
            FarmError::Alone => Status::Alone,
            FarmError::Unknown { .. } | FarmError::Range { .. } | FarmError::Variable { .. } => {
                Status::InvalidArgument
            }
            FarmError::NotReserved { .. } | FarmError::Taken { .. } | FarmError::Manager { .. } => {
                Status::Misuse
            }
            FarmError::Worker | FarmError::Forked { .. } | FarmError::Itself { .. } => {
                Status::Misuse
            }
            FarmError::Full { .. } | FarmError::Room { .. } | FarmError::Memory { .. } => {
                Status::NoRoom
            }
            FarmError::Unsendable { why: WireError::Long { .. }, .. } => Status::NoRoom,
            FarmError::Garbled { .. } => Status::Garbled,
            FarmError::Lifeline(_) | FarmError::Start { .. } | FarmError::System { .. } => {
                Status::System
            }
            FarmError::Memories(error) => of_memory(error),
            FarmError::Space(error) => of_space(error),
            _ => Status::Internal, // every message from C can be encoded
        };
        let code = match &error {
            FarmError::Gone { cause: ExitCause::Ended(Ending::Exited(code)), .. } => (*code).into(),
            FarmError::Gone { cause: ExitCause::Ended(Ending::Killed(signal)), .. } => 128 + signal,
            _ => 0,
        };
        Error { code, ..Self::new(status, error.to_string()) }
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        let status = match error {
            LockError::TimedOut => Status::TimedOut,
            LockError::Dead { .. } | LockError::Left { .. } => Status::Gone,
            LockError::Forked { .. } => Status::Misuse,
            LockError::Poisoned { .. } => Status::Poisoned,
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

/// The error of a task whose body returned this number, which is not 0.
#[derive(Debug)]
pub(crate) struct Returned(pub(crate) c_int);

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its body returned {}", self.0)
    }
}

impl std::error::Error for Returned {}

/// Runs the body of an exported function, and stores its failure, a panic included.
pub(crate) fn call(inside: impl FnOnce() -> Result<(), Error>) -> Status {
    let error = match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(error)) => error,
        Err(panic) => {
            Error::new(Status::Internal, format!("a fault of the library: {}", words(panic)))
        }
    };
    error.keep()
}

fn words(panic: Box<dyn Any + Send>) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    // Dropping a panic payload may panic.
    std::mem::forget(panic);
    words
}

/// Returns a text for C, without the zero bytes that a C string cannot contain.
pub(crate) fn c_string(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.retain(|&b| b != 0);
    CString::new(bytes).unwrap_or_default()
}

/// Returns a reference to the target of a pointer, or the error that names the argument.
///
/// # Safety
/// The pointer must be `NULL`, or point to a `T` that lives for `'a` and that no thread writes in
/// that time.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Error> {
    // SAFETY: the caller guarantees that a non-null pointer points to a live `T` (see `# Safety`).
    unsafe { pointer.as_ref() }.ok_or_else(|| Error::invalid(format!("{what} is NULL")))
}

/// Returns an array as a slice, or the error that names the argument. An empty array may be `NULL`.
///
/// # Safety
/// The pointer must be `NULL`, or point to `length` values of `T` that live for `'a` and that no
/// thread writes in that time.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    length: usize,
    what: &str,
) -> Result<&'a [T], Error> {
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: `length` is not 0, so a non-null pointer points to a live `T`: the caller guarantees
    // it (see `# Safety`).
    let first = unsafe { borrow(pointer, what) }?;
    if length > isize::MAX as usize / size_of::<T>() {
        return Err(Error::invalid(format!("{what} cannot have {length} elements")));
    }
    // SAFETY: the pointer is not `NULL`, and the size is at most `isize::MAX`, as checked above;
    // the caller guarantees that `length` values are there (see `# Safety`).
    Ok(unsafe { std::slice::from_raw_parts(first, length) })
}

/// Returns a copy of a name, or the error that describes its fault.
///
/// # Safety
/// The pointer must be `NULL`, or point to a string that ends in a zero byte and that no thread
/// writes during this call.
pub(crate) unsafe fn name(pointer: *const c_char, what: &str) -> Result<String, Error> {
    // SAFETY: the caller guarantees that a non-null pointer points to a string (see `# Safety`).
    let first = unsafe { borrow(pointer, what) }?;
    // SAFETY: the pointer is not `NULL`, and the caller guarantees the zero byte at its end.
    let text = unsafe { CStr::from_ptr(first) };
    let text = text.to_str().map_err(|_| Error::invalid(format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// Returns a pointer, or the error that names the argument if it is `NULL`.
pub(crate) fn present<T>(pointer: *const T, what: &str) -> Result<*const T, Error> {
    if pointer.is_null() { Err(Error::invalid(format!("{what} is NULL"))) } else { Ok(pointer) }
}

/// The value that an output of this type has after a failure: 0, `false` or `NULL`.
pub(crate) trait Zero {
    const ZERO: Self;
}

impl<T> Zero for *mut T {
    const ZERO: Self = ptr::null_mut();
}

impl<T> Zero for *const T {
    const ZERO: Self = ptr::null();
}

macro_rules! zero {
    ($($kind:ty = $zero:expr),*) => {
        $(impl Zero for $kind {
            const ZERO: Self = $zero;
        })*
    };
}

zero!(bool = false, usize = 0, u32 = 0, u64 = 0, i32 = 0, i64 = 0);

/// The place to which a function writes a result; it is zero until then.
#[derive(Debug)]
pub(crate) struct Out<T>(ptr::NonNull<T>);

impl<T> Out<T> {
    pub(crate) fn write(&self, value: T) {
        // SAFETY: the caller of `out` or `optional` guarantees that the place is valid for writes.
        unsafe { self.0.write(value) };
    }
}

/// Sets an output to zero and returns it as the place for a result, or the error that names the
/// argument. The output need not be initialised.
///
/// A function calls this for each of its outputs before anything else can fail, so that every
/// output is zero after a failure.
///
/// # Safety
/// The pointer must be `NULL`, or be valid for writes until the C function returns.
pub(crate) unsafe fn out<T: Zero>(pointer: *mut T, what: &str) -> Result<Out<T>, Error> {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { optional(pointer) }.ok_or_else(|| Error::invalid(format!("{what} is NULL")))
}

/// Like [`out`], for an output that the caller may omit: returns `None` if the pointer is `NULL`.
///
/// # Safety
/// The conditions of [`out`] apply.
pub(crate) unsafe fn optional<T: Zero>(pointer: *mut T) -> Option<Out<T>> {
    let out = Out(ptr::NonNull::new(pointer)?);
    out.write(T::ZERO);
    Some(out)
}

/// Returns the end of a wait of `nanoseconds` that begins now; `None` for `SYNCLINE_FOREVER`, or if
/// the clock cannot represent it.
pub(crate) fn deadline(nanoseconds: u64) -> Option<Instant> {
    if nanoseconds == SYNCLINE_FOREVER {
        return None;
    }
    Instant::now().checked_add(Duration::from_nanos(nanoseconds))
}

/// Takes an object for the length of a call; an error if another call, on any thread, is using it.
pub(crate) fn claim<'a, T>(object: &'a Mutex<T>, what: &str) -> Result<MutexGuard<'a, T>, Error> {
    object.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Error::misuse(format!("another call is using {what} at this moment"))
        }
        TryLockError::Poisoned(_) => {
            Error::new(Status::Internal, format!("a fault of the library has left {what} unusable"))
        }
    })
}

/// Returns an error if this process is a child that `fork` made of the process that created the
/// object.
#[inline]
pub(crate) fn check_not_forked(born: Generation, what: &str) -> Result<(), Error> {
    if born.is_current() { Ok(()) } else { Err(forked(what)) }
}

#[cold]
fn forked(what: &str) -> Error {
    Error::misuse(format!(
        "this process is a copy that fork() has made, and so is {what}: only the process that was forked may use it"
    ))
}

/// Returns an error if a call is using an object, so that it may not be freed. An object that a
/// panic has left unusable may be freed.
pub(crate) fn unused<T>(object: &Mutex<T>, what: &str) -> Result<(), Error> {
    match claim(object, what) {
        Err(error) if error.is_misuse() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> (Status, String) {
        // SAFETY: the failure stays unchanged until the next failure of this thread.
        let failure = unsafe { &*syncline_last_failure() };
        // SAFETY: the string belongs to the failure, and ends in a zero byte.
        let message = unsafe { CStr::from_ptr(failure.message) };
        (failure.status, message.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_panic_becomes_a_status() {
        assert!(syncline_last_failure().is_null());
        assert_eq!(call(|| panic!("cannot {}", "be")), Status::Internal);
        assert_eq!(last(), (Status::Internal, "a fault of the library: cannot be".to_owned()));
        assert_eq!(call(|| std::panic::panic_any(7)), Status::Internal);
        assert_eq!(last().1, "a fault of the library: no message");
    }

    #[test]
    fn what_a_panic_left_half_done_is_not_used_again() {
        let object = Mutex::new(1);
        let fault = || {
            let _held = claim(&object, "the handle")?;
            panic!("half done")
        };
        assert_eq!(call(fault), Status::Internal);
        assert_eq!(call(|| claim(&object, "the handle").map(drop)), Status::Internal);
        assert_eq!(last().1, "a fault of the library has left the handle unusable");
    }

    #[test]
    fn a_success_leaves_the_last_failure_alone() {
        let failed = call(|| Err(Error::invalid("zero\0byte")));
        assert_eq!(failed, Status::InvalidArgument);
        assert_eq!(call(|| Ok(())), Status::Ok);
        assert_eq!(last(), (Status::InvalidArgument, "zerobyte".to_owned()));
        let elsewhere = std::thread::spawn(|| syncline_last_failure().is_null()).join().unwrap();
        assert!(elsewhere, "each thread has its own");
    }

    #[test]
    fn every_message_about_full_memory_names_the_option_that_sets_it() {
        let full = SpaceError::Full { asked: 100, left: 10 };
        let errors = [
            Error::from(full),
            TeamError::from(full).into(),
            RmaError::from(full).into(),
            FarmError::from(full).into(),
            RunError::from(full).into(),
        ];
        for error in errors {
            assert!(error.message.contains("`syncline launch --memory`"), "{}", error.message);
        }
    }

    #[test]
    fn arrays_that_are_longer_than_memory_are_refused() {
        let one = 1_u64;
        // SAFETY: the length is refused before more than the first element is read.
        let result = unsafe { array(&raw const one, usize::MAX / 8, "numbers") };
        assert_eq!(result.unwrap_err().status, Status::InvalidArgument);
    }
}

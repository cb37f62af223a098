//! Pools of workers for tasks of bytes: submit them, take what they come to, serve as a worker.
//!
//! # Contract
//! A task is bytes, and what it comes to is bytes or an error in words. Programs in Rust take part in both roles: there a
//! task is a `Vec<u8>`, and its result a `Result<Vec<u8>, String>`. Whatever a worker does, exit and crash included, is the
//! error of its task.
//!
//! ```text
//!   submit ──> Pool<Bytes, Result<Bytes, String>> ──> a worker: function(task, length, result, context)
//!   next <───────── outcome: bytes or words <────────────────── result: bytes or words
//! ```
//!
//! # Costs
//! Those in Rust. Bytes are copied when they are submitted, into the farm's memory, and out of it; the same on the way back.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use syncline_farm::{Pool, PoolBuilder, Task, TaskError, pool::Outcome};
use syncline_process::Generation;

use crate::SYNCLINE_FOREVER;
use crate::error::{
    Error, Status, Zero, array, borrow, c_string, call, check_not_forked, claim, deadline,
    optional, out, unused,
};
use crate::farms::program;

/// Bytes in one piece: what serde makes of a `Vec<u8>`, without a look at each.
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Copied;

        impl Visitor<'_> for Copied {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                vec(bytes).map(Bytes).ok_or_else(|| E::custom("there is no memory for it"))
            }
        }

        deserializer.deserialize_bytes(Copied)
    }
}

/// A copy, if there is memory for it.
fn vec(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.extend_from_slice(bytes);
    Some(copy)
}

fn no_memory(bytes: usize) -> Error {
    Error::new(Status::NoRoom, format!("there is no memory for {bytes} bytes"))
}

type Done = Result<Bytes, String>;

/// A pool of workers, which are processes. It is used by one thread at a time, and works while that thread waits for
/// outcomes. In a child that `fork` has made of the process, every call with its copy is
/// `SYNCLINE_STATUS_MISUSE`, and undoes nothing.
#[derive(Debug)]
pub struct FarmPool {
    born: Generation,
    inside: Mutex<Option<Pool<Bytes, Done>>>,
}

/// How a pool works. All that is 0 is left to the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FarmPoolOptions {
    /// How long a task may take, in nanoseconds; its worker is killed then, with what it has
    /// started. 0: as long as it takes.
    pub timeout: u64,
    /// How many bytes each worker may have for itself; 0: as many as the system gives.
    pub worker_memory: u64,
    /// How many bytes tasks and results under way may take, in all; 0 is 1 GiB.
    pub memory: usize,
    /// How many tasks are handed out together; 0: as the time that they take suggests. Of a batch whose worker is killed
    /// those are run again that it had done in the last millisecond: tasks that must never be run twice want 1.
    pub batch: usize,
    /// How often a task is tried again whose worker has failed; 0: never.
    pub retries: u32,
    /// A process of its own for each task: for libraries that leak, or keep what they should not.
    pub cold: bool,
}

/// What has become of a task. Later versions may have more fields, at the end.
#[repr(C)]
#[derive(Debug)]
pub struct FarmOutcome {
    /// Which: the number that `syncline_farm_pool_submit` gave.
    pub id: u64,
    /// `SYNCLINE_STATUS_OK`: it has a result. `SYNCLINE_STATUS_BODY_FAILED`: the function of the worker said that it has
    /// not. `SYNCLINE_STATUS_GONE`: its worker has ended. `SYNCLINE_STATUS_TIMED_OUT`: it took too long.
    /// `SYNCLINE_STATUS_NO_ROOM`: it cannot be sent. `SYNCLINE_STATUS_SYSTEM`: no worker could be started.
    /// `SYNCLINE_STATUS_GARBLED`: its worker is none of this kind.
    pub status: Status,
    /// Why it has no result, in words; `NULL` if it has one.
    pub error: *const c_char,
    /// The result, of `length` bytes, aligned as `malloc` does; not `NULL`.
    pub bytes: *const c_void,
    /// How many bytes the result has; 0 if there is none.
    pub length: usize,
}

/// An outcome with what it shows.
#[repr(C)]
struct Kept {
    shown: FarmOutcome,
    _bytes: Vec<u8>,
    _error: Option<CString>,
}

/// How far a pool has come.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FarmProgress {
    /// Tasks that were submitted.
    pub submitted: u64,
    /// Tasks that have ended, of those.
    pub ended: u64,
    /// Tasks whose worker has failed for good, of those. What a worker's function says is a result here.
    pub failed: u64,
    /// How often a task was tried again.
    pub retried: u64,
    /// Workers that were started.
    pub started: u64,
    /// Workers that have ended otherwise than they should.
    pub lost: u64,
}

impl Zero for FarmProgress {
    const ZERO: Self =
        FarmProgress { submitted: 0, ended: 0, failed: 0, retried: 0, started: 0, lost: 0 };
}

/// What a task comes to: set by the function of a worker.
#[derive(Debug)]
pub struct FarmResult {
    bytes: Vec<u8>,
    error: Option<String>,
}

/// What a worker does for each task, one after the other: `length` bytes at `task`, aligned as `malloc` does, and the pointer
/// of `syncline_farm_serve`. 0 is success, with the bytes of `result`, none if they are not set; any other number is an error
/// of the task.
///
/// It may exit or crash: that is the error of the task, and another worker goes on with the others. It must not be taken
/// away by `longjmp`; an exception that leaves it is a crash. `task` and `result` are valid until it returns.
pub type FarmFunction = Option<
    unsafe extern "C-unwind" fn(
        task: *const c_void,
        length: usize,
        result: *mut FarmResult,
        context: *mut c_void,
    ) -> c_int,
>;

/// Takes a pool for a call.
///
/// # Safety
/// The pool is `NULL`, or lives for `'a`.
unsafe fn the_pool<'a>(pool: *const FarmPool) -> Result<InUse<'a>, Error> {
    // SAFETY: as the caller vouches.
    let FarmPool { born, inside } = unsafe { borrow(pool, "the pool") }?;
    check_not_forked(*born, "the pool")?;
    claim(inside, "the pool").map(InUse)
}

/// A pool that a call uses.
struct InUse<'a>(MutexGuard<'a, Option<Pool<Bytes, Done>>>);

impl InUse<'_> {
    /// The pool, unless it was finished.
    fn pool(&mut self) -> Result<&mut Pool<Bytes, Done>, Error> {
        self.0.as_mut().ok_or_else(finished)
    }
}

fn finished() -> Error {
    Error::misuse("the pool was finished")
}

/// Makes a pool of so many workers, which run a program with arguments, as at `syncline_farm_start`: `NULL` is this program
/// again. They call `syncline_farm_serve`, early. `options` may be `NULL`.
///
/// Workers are started when there is something to do. It is `SYNCLINE_STATUS_INVALID_ARGUMENT` if there are to be none, or
/// more than 1024, or an option makes no sense; `SYNCLINE_STATUS_SYSTEM` if the system refuses something. `*pool` is to be
/// given back by `syncline_farm_pool_free`.
///
/// # Safety
/// `program` and `arguments` are as at `syncline_farm_start`. `options` is `NULL` or can be read. `*pool` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_new(
    workers: usize,
    program: *const c_char,
    arguments: *const *const c_char,
    options: *const FarmPoolOptions,
    pool: *mut *mut FarmPool,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let pool = unsafe { out(pool, "pool") }?;
        // SAFETY: as the caller vouches.
        let mut builder =
            PoolBuilder::new(workers).program(unsafe { self::program(program, arguments) }?);
        // SAFETY: as the caller vouches.
        if let Some(options) = unsafe { options.as_ref() } {
            let &FarmPoolOptions { timeout, worker_memory, memory, batch, retries, cold } = options;
            builder = builder.retries(retries).batch(batch).worker_memory(worker_memory);
            if timeout != 0 {
                builder = builder.timeout(Duration::from_nanos(timeout));
            }
            if memory != 0 {
                builder = builder.memory(memory);
            }
            if cold {
                builder = builder.cold();
            }
        }
        let inside = Mutex::new(Some(builder.start()?));
        let new = Box::new(FarmPool { born: Generation::current(), inside });
        pool.write(Box::into_raw(new));
        Ok(())
    })
}

/// Submits a task of `length` bytes; `*id`, if it is not `NULL`, is its number: they are counted from 0. It is begun when
/// somebody waits for outcomes.
///
/// Tasks of higher `priority` are begun first, and of one priority those of the largest `cost`, in whatever unit; 0 for
/// both is in the order in which they come. `task` may be `NULL` if `length` is 0, and is the caller's again when this
/// returns.
///
/// # Safety
/// `pool` was not freed. `length` bytes can be read from `task` on, and nobody writes them meanwhile. `*id` can be written,
/// if it is not `NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_submit(
    pool: *mut FarmPool,
    task: *const c_void,
    length: usize,
    priority: i32,
    cost: f64,
    id: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let id = unsafe { optional(id) };
        if cost.is_nan() {
            return Err(Error::invalid("the cost of the task is not a number"));
        }
        // SAFETY: as the caller vouches.
        let (mut pool, bytes) =
            unsafe { (the_pool(pool)?, array(task.cast::<u8>(), length, "the task")?) };
        let bytes = Bytes(vec(bytes).ok_or_else(|| no_memory(length))?);
        let number = pool.pool()?.submit(Task::new(bytes).priority(priority).cost(cost)).number();
        if let Some(id) = id {
            id.write(number);
        }
        Ok(())
    })
}

/// Waits for the next task that ends, whichever it is. `*outcome` is to be given back by
/// `syncline_farm_outcome_dispose`; it is `NULL` when all tasks have ended and were told.
///
/// What becomes of a task is in its outcome, and no failure of this call.
///
/// # Safety
/// `pool` was not freed. `*outcome` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_next(
    pool: *mut FarmPool,
    outcome: *mut *const FarmOutcome,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_farm_pool_next_for(pool, SYNCLINE_FOREVER, outcome) }
}

/// Like `syncline_farm_pool_next`, but waits for `nanoseconds` at most (0: takes what is there),
/// and is `SYNCLINE_STATUS_TIMED_OUT` then: tasks go on, but nothing is handed out before the next
/// call.
///
/// # Safety
/// As `syncline_farm_pool_next`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_next_for(
    pool: *mut FarmPool,
    nanoseconds: u64,
    outcome: *mut *const FarmOutcome,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let outcome = unsafe { out(outcome, "outcome") }?;
        // SAFETY: as the caller vouches.
        let next = unsafe { the_pool(pool) }?.pool()?.next_deadline(deadline(nanoseconds))?;
        outcome.write(next.map_or(ptr::null(), shown));
        Ok(())
    })
}

fn shown(Outcome { id, result }: Outcome<Done>) -> *const FarmOutcome {
    let (status, bytes, error) = match result {
        Ok(Ok(Bytes(bytes))) => (Status::Ok, bytes, None),
        Ok(Err(words)) => (Status::BodyFailed, Vec::new(), Some(words)),
        Err(error) => {
            let status = match error {
                TaskError::Worker { .. } => Status::Gone,
                TaskError::TimedOut { .. } => Status::TimedOut,
                TaskError::Panicked { .. } => Status::BodyFailed,
                TaskError::Garbled { .. } => Status::Garbled,
                TaskError::Unsendable { .. } => Status::NoRoom,
                TaskError::NoWorker { .. } => Status::System,
                TaskError::Forked => Status::Misuse,
                _ => Status::Internal,
            };
            (status, Vec::new(), Some(error.to_string()))
        }
    };
    let error = error.map(c_string);
    let shown = FarmOutcome {
        id: id.number(),
        status,
        error: error.as_ref().map_or(ptr::null(), |error| error.as_ptr()),
        bytes: bytes.as_ptr().cast(),
        length: bytes.len(),
    };
    // What is shown is the beginning of the object; bytes and words stay where they are.
    Box::into_raw(Box::new(Kept { shown, _bytes: bytes, _error: error })).cast_const().cast()
}

/// Gives an outcome back; `NULL` is nothing. Any thread may, also after the pool was freed.
///
/// # Safety
/// `outcome` comes from `syncline_farm_pool_next_for` as it is, and is not used from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_outcome_dispose(outcome: *const FarmOutcome) {
    if !outcome.is_null() {
        // SAFETY: as the caller vouches; `shown` made it so.
        drop(unsafe { Box::from_raw(outcome.cast_mut().cast::<Kept>()) });
    }
}

/// Tells how far a pool has come.
///
/// # Safety
/// `pool` was not freed. `*progress` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_progress(
    pool: *const FarmPool,
    progress: *mut FarmProgress,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let progress = unsafe { out(progress, "progress") }?;
        // SAFETY: as the caller vouches.
        let now = unsafe { the_pool(pool) }?.pool()?.progress();
        let syncline_farm::pool::Progress { submitted, ended, failed, retried, started, lost } =
            now;
        progress.write(FarmProgress { submitted, ended, failed, retried, started, lost });
        Ok(())
    })
}

/// Has the workers of a pool end by themselves, those that are at nothing, waits for that, and
/// kills the others. Tasks that have not ended are lost. From then on all calls with the pool but
/// `syncline_farm_pool_free` are `SYNCLINE_STATUS_MISUSE`.
///
/// It is `SYNCLINE_STATUS_MISUSE`, and nothing happens, while a call uses it.
///
/// # Safety
/// `pool` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_finish(pool: *mut FarmPool) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let mut pool = unsafe { the_pool(pool) }?;
        pool.0.take().ok_or_else(finished)?.finish();
        Ok(())
    })
}

/// Gives a pool back, and kills its workers; `NULL` is nothing. Outcomes that were taken stay as they are.
///
/// It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it.
///
/// # Safety
/// `pool` comes from `syncline_farm_pool_new`, and no other call with it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_free(pool: *mut FarmPool) -> Status {
    if pool.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: as the caller vouches.
        let FarmPool { born, inside } = unsafe { &*pool };
        check_not_forked(*born, "the pool")?;
        unused(inside, "the pool")?;
        // SAFETY: as the caller vouches; no call uses it.
        drop(unsafe { Box::from_raw(pool) });
        Ok(())
    })
}

/// Serves a pool, if this process is a worker of one: calls `function` with `context` for each task that it is given, and
/// exits when there are no more. In any other process it returns at once, with success.
///
/// A worker calls it early, before it makes threads, and in place of `syncline_farm_join`: after that it is
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `function` may be called with `context`, on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_serve(
    function: FarmFunction,
    context: *mut c_void,
) -> Status {
    call(|| {
        let function =
            function.ok_or_else(|| Error::invalid("the function of the worker is NULL"))?;
        let serve = |Bytes(task): Bytes| {
            let mut result = FarmResult { bytes: Vec::new(), error: None };
            // SAFETY: as the caller vouches; the task and the result outlive the call.
            let code =
                unsafe { function(task.as_ptr().cast(), task.len(), &raw mut result, context) };
            result.end(code)
        };
        Ok(syncline_farm::serve(serve)?)
    })
}

impl FarmResult {
    fn end(self, code: c_int) -> Done {
        match (self.error, code) {
            (None, 0) => Ok(Bytes(self.bytes)),
            (None, code) => Err(format!("its function returned {code}")),
            (Some(words), _) => Err(words),
        }
    }
}

/// A result, for a call of the function that it was given to.
///
/// # Safety
/// The result is `NULL`, or its function has not returned, and nobody else uses it.
unsafe fn the_result<'a>(result: *mut FarmResult) -> Result<&'a mut FarmResult, Error> {
    // SAFETY: as the caller vouches.
    unsafe { result.as_mut() }.ok_or_else(|| Error::invalid("the result is NULL"))
}

/// Sets the result of a task to a copy of `length` bytes, in place of what was set before. For the function of a worker.
/// `bytes` may be `NULL` if `length` is 0. `SYNCLINE_STATUS_NO_ROOM` if there is no memory for it.
///
/// # Safety
/// `result` is `NULL`, or its function has not returned. `length` bytes can be read from `bytes` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_result_set(
    result: *mut FarmResult,
    bytes: *const c_void,
    length: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (result, bytes) = unsafe {
            (the_result(result)?, array(bytes.cast::<u8>(), length, "the array of bytes")?)
        };
        result.bytes = vec(bytes).ok_or_else(|| no_memory(length))?;
        Ok(())
    })
}

/// Makes the result of a task `length` bytes, all zero, in place of what was set before; they are written from `*bytes` on,
/// aligned as `malloc` does. For the function of a worker. `SYNCLINE_STATUS_NO_ROOM` if there is no
/// memory for it.
///
/// # Safety
/// `result` is `NULL`, or its function has not returned. `*bytes` can be written; what it points to is used until the
/// function returns, or the result is set again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_result_room(
    result: *mut FarmResult,
    length: usize,
    bytes: *mut *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let to = unsafe { out(bytes, "bytes") }?;
        // SAFETY: as the caller vouches.
        let result = unsafe { the_result(result) }?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| no_memory(length))?;
        bytes.resize(length, 0);
        result.bytes = bytes;
        to.write(result.bytes.as_mut_ptr().cast());
        Ok(())
    })
}

/// Says why a task has no result, in words, which are copied. For the function of a worker; whatever that returns is then an
/// error of the task, with these words.
///
/// # Safety
/// `result` is `NULL`, or its function has not returned. `words` is `NULL`, which is an error, or a string that ends in a
/// zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_result_fail(
    result: *mut FarmResult,
    words: *const c_char,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (result, words) = unsafe { (the_result(result)?, borrow(words, "the text")?) };
        // SAFETY: as the caller vouches; not `NULL`.
        let words = unsafe { CStr::from_ptr(words) };
        result.error = Some(words.to_string_lossy().into_owned());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_farm::wire::{decode, encode};

    #[test]
    fn bytes_are_what_a_vector_of_bytes_is() {
        for len in [0, 1, 127, 128, 70_000] {
            let bytes: Vec<u8> = (0..len).map(|n: u32| n as u8).collect();
            let sent = encode(&Ok::<_, String>(Bytes(bytes.clone()))).unwrap();
            assert_eq!(sent, encode(&Ok::<_, String>(bytes.clone())).unwrap());
            assert_eq!(decode::<Done>(&sent).unwrap().unwrap().0, bytes);
        }
        assert!(decode::<Bytes>(&[200, 1, 7]).is_err());
    }

    #[test]
    fn one_thread_after_the_other_may_use_a_pool() {
        fn may_go<T: Send>() {}
        may_go::<Pool<Bytes, Done>>();
    }

    #[test]
    fn a_result_is_what_was_said_last() {
        let result =
            |error: Option<&str>| FarmResult { bytes: vec![7], error: error.map(str::to_owned) };
        assert_eq!(result(None).end(0).unwrap().0, [7]);
        assert_eq!(result(None).end(5).err().as_deref(), Some("its function returned 5"));
        assert_eq!(result(Some("no")).end(0).err().as_deref(), Some("no"));
    }
}

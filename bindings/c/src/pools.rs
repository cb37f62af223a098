//! Pools of workers for tasks of bytes: submit tasks, take their results, serve as a worker.
//!
//! # Contract
//! A task is bytes, and its result is bytes or an error text. Rust programs can take either role:
//! there a task is a `Vec<u8>`, and its result a `Result<Vec<u8>, String>`. Any failure of a
//! worker, exit and crash included, is the error of its task.
//!
//! ```text
//!   submit ──> Pool<Bytes, Result<Bytes, String>> ──> worker: function(task, length, result, ...)
//!   next <───────── outcome: bytes or words <──────────────── result: bytes or words
//! ```
//!
//! # Costs
//! Those of the Rust pool. Bytes are copied into the farm's memory when they are submitted, and out
//! of it by the worker; the same holds for results.

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

/// Bytes in one piece: the serde encoding of a `Vec<u8>`, without a visit of each byte.
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

/// Returns a copy, if there is enough memory.
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

/// A pool of workers, which are processes. One thread at a time uses it, and the pool hands out
/// tasks while that thread waits for outcomes. In a child that `fork` made of the process, every
/// call with the copy of the pool is `SYNCLINE_STATUS_MISUSE`, and has no effect.
#[derive(Debug)]
pub struct FarmPool {
    born: Generation,
    inside: Mutex<Option<Pool<Bytes, Done>>>,
}

/// The options of a pool. The library chooses each value that is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FarmPoolOptions {
    /// The largest duration of a task, in nanoseconds; after it, the worker and its child processes
    /// are killed. 0: no limit.
    pub timeout: u64,
    /// The largest number of bytes of memory of each worker; 0: the limit of the system.
    pub worker_memory: u64,
    /// The largest number of bytes of all tasks and results in flight; 0 is 1 GiB.
    pub memory: usize,
    /// The number of tasks that are handed out together; 0: derived from the duration of the tasks.
    /// If the worker of a batch is killed, the tasks that it completed in the last millisecond are
    /// run again: set 1 for tasks that must never run twice.
    pub batch: usize,
    /// The number of retries of a task whose worker has failed; 0: none.
    pub retries: u32,
    /// Whether each task runs in a process of its own: for libraries that leak, or keep state
    /// between tasks.
    pub cold: bool,
}

/// The outcome of a task. Later versions may have more fields at the end.
#[repr(C)]
#[derive(Debug)]
pub struct FarmOutcome {
    /// The number of the task, as `syncline_farm_pool_submit` returned it.
    pub id: u64,
    /// `SYNCLINE_STATUS_OK`: the task has a result. `SYNCLINE_STATUS_BODY_FAILED`: the function of
    /// the worker reported an error. `SYNCLINE_STATUS_GONE`: its worker has ended.
    /// `SYNCLINE_STATUS_TIMED_OUT`: the task took too long. `SYNCLINE_STATUS_NO_ROOM`: it cannot be
    /// sent. `SYNCLINE_STATUS_SYSTEM`: no worker could be started. `SYNCLINE_STATUS_GARBLED`: its
    /// worker does not serve tasks of bytes.
    pub status: Status,
    /// The reason why there is no result, in words; `NULL` if there is one.
    pub error: *const c_char,
    /// The result, of `length` bytes, aligned as by `malloc`; not `NULL`.
    pub bytes: *const c_void,
    /// The number of bytes of the result; 0 if there is none.
    pub length: usize,
}

/// An outcome with the structure that C sees.
#[repr(C)]
struct Kept {
    shown: FarmOutcome,
    _bytes: Vec<u8>,
    _error: Option<CString>,
}

/// The counts of a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FarmProgress {
    /// The number of tasks that were submitted.
    pub submitted: u64,
    /// The number of those tasks that have ended.
    pub ended: u64,
    /// The number of those tasks whose worker has failed, after all retries. An error that a
    /// worker's function reports counts as a result here.
    pub failed: u64,
    /// The number of retries of tasks.
    pub retried: u64,
    /// The number of workers that were started.
    pub started: u64,
    /// The number of workers that ended unexpectedly.
    pub lost: u64,
}

impl Zero for FarmProgress {
    const ZERO: Self =
        FarmProgress { submitted: 0, ended: 0, failed: 0, retried: 0, started: 0, lost: 0 };
}

/// The result of a task, which the function of a worker sets.
#[derive(Debug)]
pub struct FarmResult {
    bytes: Vec<u8>,
    error: Option<String>,
}

/// The function of a worker. It is called for each task, one after the other, with the `length`
/// bytes at `task`, aligned as by `malloc`, and the pointer that was passed to
/// `syncline_farm_serve`. It returns 0 for success, with the bytes of `result`, which are none if
/// they are not set; any other number is an error of the task.
///
/// It may exit or crash: that is the error of the task, and another worker continues with the other
/// tasks. Neither `longjmp` nor the end of its thread (`pthread_exit`) may leave it; an exception
/// that leaves it is a crash. `task` and `result` are valid until it returns.
pub type FarmFunction = Option<
    unsafe extern "C-unwind" fn(
        task: *const c_void,
        length: usize,
        result: *mut FarmResult,
        context: *mut c_void,
    ) -> c_int,
>;

/// Takes a pool for the length of a call.
///
/// # Safety
/// The pool must be `NULL`, or live for `'a`.
unsafe fn the_pool<'a>(pool: *const FarmPool) -> Result<InUse<'a>, Error> {
    // SAFETY: the caller guarantees that a non-null `pool` points to a live pool.
    let FarmPool { born, inside } = unsafe { borrow(pool, "the pool") }?;
    check_not_forked(*born, "the pool")?;
    claim(inside, "the pool").map(InUse)
}

/// A pool that a call is using.
struct InUse<'a>(MutexGuard<'a, Option<Pool<Bytes, Done>>>);

impl InUse<'_> {
    /// Returns the pool, unless it was finished.
    fn pool(&mut self) -> Result<&mut Pool<Bytes, Done>, Error> {
        self.0.as_mut().ok_or_else(finished)
    }
}

fn finished() -> Error {
    Error::misuse("the pool was finished")
}

/// Creates a pool of `workers` workers, which run a program with arguments, as in
/// `syncline_farm_start`: `NULL` is this program. The workers must call `syncline_farm_serve`,
/// early. `options` may be `NULL`.
///
/// Workers are started when there are tasks. If `workers` is 0 or more than 1024, or an option is
/// invalid, this is `SYNCLINE_STATUS_INVALID_ARGUMENT`; a refusal of the system is
/// `SYNCLINE_STATUS_SYSTEM`. Free `*pool` with `syncline_farm_pool_free`.
///
/// # Safety
/// `program` and `arguments` must be as in `syncline_farm_start`. `options` must be `NULL`, or
/// valid for reads. `*pool` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_new(
    workers: usize,
    program: *const c_char,
    arguments: *const *const c_char,
    options: *const FarmPoolOptions,
    pool: *mut *mut FarmPool,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `pool` is valid for writes.
        let pool = unsafe { out(pool, "pool") }?;
        // SAFETY: the caller guarantees that `program` and `arguments` are `NULL` or strings as in
        // `syncline_farm_start`.
        let mut builder =
            PoolBuilder::new(workers).program(unsafe { self::program(program, arguments) }?);
        // SAFETY: the caller guarantees that a non-null `options` is valid for reads.
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

/// Submits a task of `length` bytes, and stores its number in `*id`, unless `id` is `NULL`; tasks
/// are numbered from 0. The task begins when a thread waits for outcomes.
///
/// Tasks of higher `priority` begin first, and among tasks of one priority those of the largest
/// `cost`, in any unit; with 0 for both, tasks begin in the order of submission. `task` may be
/// `NULL` if `length` is 0. The bytes are copied: the caller may reuse the memory when this
/// returns.
///
/// # Safety
/// `pool` must not have been freed. `length` bytes must be valid for reads from `task` on, and no
/// other thread may write them during the call. `id` must be `NULL`, or `*id` must be valid for
/// writes.
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
        // SAFETY: the caller guarantees that a non-null `id` is valid for writes.
        let id = unsafe { optional(id) };
        if cost.is_nan() {
            return Err(Error::invalid("the cost of the task is not a number"));
        }
        // SAFETY: the caller guarantees that `pool` was not freed, and that `length` bytes are
        // readable from `task` on.
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

/// Waits for the next task that ends, in any order. The caller frees `*outcome` with
/// `syncline_farm_outcome_dispose`; it is `NULL` when all tasks have ended and their outcomes were
/// returned.
///
/// The failure of a task is in its outcome, and is not a failure of this call.
///
/// # Safety
/// `pool` must not have been freed. `*outcome` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_next(
    pool: *mut FarmPool,
    outcome: *mut *const FarmOutcome,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_farm_pool_next_for(pool, SYNCLINE_FOREVER, outcome) }
}

/// Like `syncline_farm_pool_next`, but waits for at most `nanoseconds` (0: does not wait), and then
/// returns `SYNCLINE_STATUS_TIMED_OUT`: running tasks continue, but no task is handed out before
/// the next call.
///
/// # Safety
/// The conditions of `syncline_farm_pool_next` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_next_for(
    pool: *mut FarmPool,
    nanoseconds: u64,
    outcome: *mut *const FarmOutcome,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `outcome` is valid for writes.
        let outcome = unsafe { out(outcome, "outcome") }?;
        // SAFETY: the caller guarantees that a non-null `pool` points to a live pool.
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
    // The structure for C is the first field of the object; moving the object leaves bytes and text
    // in place.
    Box::into_raw(Box::new(Kept { shown, _bytes: bytes, _error: error })).cast_const().cast()
}

/// Frees an outcome; does nothing for `NULL`. Any thread may call it, also after the pool was
/// freed.
///
/// # Safety
/// `outcome` must be the unchanged pointer from `syncline_farm_pool_next` or
/// `syncline_farm_pool_next_for`, and must not be used after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_outcome_dispose(outcome: *const FarmOutcome) {
    if !outcome.is_null() {
        // SAFETY: `shown` made the box, as the caller guarantees that the outcome comes from this
        // library; it is not used after this call.
        drop(unsafe { Box::from_raw(outcome.cast_mut().cast::<Kept>()) });
    }
}

/// Stores the counts of a pool in `*progress`.
///
/// # Safety
/// `pool` must not have been freed. `*progress` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_progress(
    pool: *const FarmPool,
    progress: *mut FarmProgress,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `progress` is valid for writes.
        let progress = unsafe { out(progress, "progress") }?;
        // SAFETY: the caller guarantees that a non-null `pool` points to a live pool.
        let now = unsafe { the_pool(pool) }?.pool()?.progress();
        let syncline_farm::pool::Progress { submitted, ended, failed, retried, started, lost } =
            now;
        progress.write(FarmProgress { submitted, ended, failed, retried, started, lost });
        Ok(())
    })
}

/// Lets idle workers of a pool exit, waits for that, and kills the others. Tasks that have not
/// ended are lost. Afterwards, all calls with the pool except `syncline_farm_pool_free` are
/// `SYNCLINE_STATUS_MISUSE`.
///
/// Returns `SYNCLINE_STATUS_MISUSE`, and has no effect, while a call uses the pool.
///
/// # Safety
/// `pool` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_finish(pool: *mut FarmPool) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `pool` points to a live pool.
        let mut pool = unsafe { the_pool(pool) }?;
        pool.0.take().ok_or_else(finished)?.finish();
        Ok(())
    })
}

/// Frees a pool, and kills its workers; does nothing for `NULL`. Outcomes that were returned remain
/// valid.
///
/// Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing, while a call uses the pool.
///
/// # Safety
/// `pool` must come from `syncline_farm_pool_new`, and no other call with it may begin after this
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pool_free(pool: *mut FarmPool) -> Status {
    if pool.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: `pool` is not `NULL`, and the caller guarantees that it was not freed.
        let FarmPool { born, inside } = unsafe { &*pool };
        check_not_forked(*born, "the pool")?;
        unused(inside, "the pool")?;
        // SAFETY: `syncline_farm_pool_new` made the box; no call is using the pool, as checked
        // above, and the caller guarantees that none begins.
        drop(unsafe { Box::from_raw(pool) });
        Ok(())
    })
}

/// Serves a pool, if this process is a worker of one: calls `function` with `context` for each task
/// that it gets, and exits when there are no more. In any other process it returns at once, with
/// success.
///
/// A worker must call it early, before it creates threads, and instead of `syncline_farm_join`:
/// after that call it is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// It must be possible to call `function` with `context`, on this thread.
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
            // SAFETY: the caller guarantees that `function` may be called with `context` on this
            // thread; the task and the result outlive the call.
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

/// Returns a result, for a call by the function that it was given to.
///
/// # Safety
/// The result must be `NULL`, or its function must not have returned, and no other thread may use
/// it.
unsafe fn the_result<'a>(result: *mut FarmResult) -> Result<&'a mut FarmResult, Error> {
    // SAFETY: the caller guarantees that a non-null result is live and not used otherwise.
    unsafe { result.as_mut() }.ok_or_else(|| Error::invalid("the result is NULL"))
}

/// Sets the result of a task to a copy of `length` bytes, replacing an earlier one. Only the
/// function of a worker may call it. `bytes` may be `NULL` if `length` is 0. If there is not enough
/// memory, this is `SYNCLINE_STATUS_NO_ROOM`.
///
/// # Safety
/// `result` must be `NULL`, or its function must not have returned. `length` bytes must be valid
/// for reads from `bytes` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_result_set(
    result: *mut FarmResult,
    bytes: *const c_void,
    length: usize,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `result` is `NULL` or live, and that `length` bytes
        // are readable from `bytes` on.
        let (result, bytes) = unsafe {
            (the_result(result)?, array(bytes.cast::<u8>(), length, "the array of bytes")?)
        };
        result.bytes = vec(bytes).ok_or_else(|| no_memory(length))?;
        Ok(())
    })
}

/// Sets the result of a task to `length` zero bytes, replacing an earlier one, and stores their
/// address, aligned as by `malloc`, in `*bytes`, so that the function can write them in place. Only
/// the function of a worker may call it. If there is not enough memory, this is
/// `SYNCLINE_STATUS_NO_ROOM`.
///
/// # Safety
/// `result` must be `NULL`, or its function must not have returned. `*bytes` must be valid for
/// writes; its target must not be used after the function has returned, or after the result was set
/// again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_result_room(
    result: *mut FarmResult,
    length: usize,
    bytes: *mut *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `bytes` is valid for writes.
        let to = unsafe { out(bytes, "bytes") }?;
        // SAFETY: the caller guarantees that a non-null `result` points to a live result.
        let result = unsafe { the_result(result) }?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| no_memory(length))?;
        bytes.resize(length, 0);
        result.bytes = bytes;
        to.write(result.bytes.as_mut_ptr().cast());
        Ok(())
    })
}

/// Sets the error text of a task, which is copied. Only the function of a worker may call it.
/// Whatever number the function then returns, the task has failed, with this text.
///
/// # Safety
/// `result` must be `NULL`, or its function must not have returned. `words` must be `NULL`, which
/// is an error, or a string that ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_result_fail(
    result: *mut FarmResult,
    words: *const c_char,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `result` is `NULL` or live, and that `words` is `NULL`
        // or a string.
        let (result, words) = unsafe { (the_result(result)?, borrow(words, "the text")?) };
        // SAFETY: `words` is not `NULL`, as `borrow` refuses that, and the caller guarantees the
        // zero byte at its end.
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

//! Syncline's barriers for existing programs: `LD_PRELOAD=libsyncline_preload.so program` replaces
//! `pthread_barrier_init`, `pthread_barrier_wait` and `pthread_barrier_destroy`.
//!
//! # Contract
//! The contract of POSIX applies. In each episode exactly one thread, the last one, gets
//! `PTHREAD_BARRIER_SERIAL_THREAD`. A barrier may be destroyed, and its memory reused, as soon as
//! one thread has returned from its wait: `destroy` waits until the others have left. Processes may
//! share a barrier, whether or not its attributes say so, if all of them are preloaded. A barrier
//! that another library has initialised is passed to the next library, and none of its bytes are
//! touched. Detectable mistakes are errors: a count of 0 or of more than 2^31 - 1 and any use of a
//! destroyed barrier (`EINVAL`), and a destruction while a thread waits (`EBUSY`).
//!
//! With `SYNCLINE_PRELOAD_VERBOSE=1` the program reports on stderr at its end the number of
//! barriers that were taken over.
//!
//! # State: the 32 bytes of a `pthread_barrier_t`
//! ```text
//! magic      marks a barrier of this library; the last word that init writes. Another value marks
//!            a destroyed one; the last word that destroy writes
//! counter    a `syncline_sync::barrier::RawCounter`: protocol, costs and source are there
//! ```
//!
//! # Panics
//! Nothing here panics. If something did, the `extern "C"` of its function would abort the program
//! there.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::io::Write as _;
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use libc::{
    EBUSY, EINVAL, PTHREAD_BARRIER_SERIAL_THREAD, pthread_barrier_t, pthread_barrierattr_t,
};
use syncline_sync::barrier::RawCounter;

/// The contents of a `pthread_barrier_t` that `pthread_barrier_init` has initialised.
#[repr(C)]
#[derive(Debug)]
struct State {
    magic: AtomicU64,
    counter: RawCounter,
}

const _: () = assert!(size_of::<State>() <= size_of::<pthread_barrier_t>());
const _: () = assert!(align_of::<State>() <= align_of::<pthread_barrier_t>());

/// A value that the first two words of a glibc barrier never have. They count all arrivals (the
/// lower half) and the arrivals in complete rounds (the upper half), which are never more.
const MAGIC: u64 = 0xF5E5_CB01_53C1_11E3;
const _: () = assert!(MAGIC >> 32 > MAGIC & 0xFFFF_FFFF);
/// The mark of a destroyed barrier of this library.
const DESTROYED: u64 = MAGIC - (1 << 32);
const _: () = assert!(DESTROYED >> 32 > DESTROYED & 0xFFFF_FFFF);

/// The number of barriers that were initialised in this process.
static TAKEN_OVER: AtomicU64 = AtomicU64::new(0);

/// The owner of a barrier.
enum Whose<'a> {
    /// This library.
    Ours(&'a State),
    /// None: the barrier was this library's, and was destroyed.
    Nobodys,
    /// The next library.
    Others,
}

impl State {
    /// Returns the owner of a barrier.
    ///
    /// # Safety
    /// The pointer must be `NULL`, or point to the bytes of a `pthread_barrier_t` that live for
    /// `'a`, and that only the functions of pthread write in that time.
    unsafe fn of<'a>(barrier: *mut pthread_barrier_t) -> Whose<'a> {
        // SAFETY: the caller guarantees that a non-null pointer points to a live
        // `pthread_barrier_t`, which is large enough and aligned for a `State`, as asserted above;
        // any bytes are a valid `State`.
        let Some(state) = (unsafe { barrier.cast::<State>().as_ref() }) else {
            return Whose::Others;
        };
        // Acquire: pairs with the Release in `init`.
        match state.magic.load(Ordering::Acquire) {
            MAGIC => Whose::Ours(state),
            DESTROYED => Whose::Nobodys,
            _ => Whose::Others,
        }
    }

    fn wait(&self) -> c_int {
        if self.counter.wait() { PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
    }

    fn destroy(&self) -> c_int {
        if !self.counter.destroy() {
            return EBUSY;
        }
        self.magic.store(DESTROYED, Ordering::Relaxed); // the counter has no other thread
        0
    }
}

/// Initialises a barrier for `count` threads, of this process or of several.
///
/// # Safety
/// As in POSIX: `barrier` must be valid for writes, and no thread may be using it.
// SAFETY: the name is that of POSIX on purpose; the function has its type and keeps its contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    _attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    if barrier.is_null() || count == 0 || count > c_int::MAX as c_uint {
        return EINVAL;
    }
    let state = State { magic: AtomicU64::new(0), counter: RawCounter::new(count) };
    let place = barrier.cast::<State>();
    // SAFETY: the caller guarantees that `barrier` is valid for writes; it is large enough and
    // aligned for a `State`, as asserted above.
    unsafe { place.write(state) };
    // Release: pairs with the Acquire in `of`, for threads that find the barrier by reading its
    // bytes.
    // SAFETY: as above; the line before has initialised the state.
    unsafe { (*place).magic.store(MAGIC, Ordering::Release) };
    TAKEN_OVER.fetch_add(1, Ordering::Relaxed);
    0
}

/// Waits until `count` threads have called this.
///
/// # Safety
/// As in POSIX: `barrier` must have been initialised, and must not be destroyed before this is
/// called.
// SAFETY: the name is that of POSIX on purpose; the function has its type and keeps its contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller guarantees that `barrier` points to a live `pthread_barrier_t`.
    match unsafe { State::of(barrier) } {
        Whose::Ours(state) => state.wait(),
        Whose::Nobodys => EINVAL,
        // SAFETY: the conditions are those of this function, and the caller guarantees them.
        Whose::Others => unsafe { WAIT.call(barrier) },
    }
}

/// Ends the use of a barrier once all threads have left it.
///
/// # Safety
/// As in POSIX: `barrier` must have been initialised, and no wait may begin after this call.
// SAFETY: the name is that of POSIX on purpose; the function has its type and keeps its contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller guarantees that `barrier` points to a live `pthread_barrier_t`.
    match unsafe { State::of(barrier) } {
        Whose::Ours(state) => state.destroy(),
        Whose::Nobodys => EINVAL,
        // SAFETY: the conditions are those of this function, and the caller guarantees them.
        Whose::Others => unsafe { DESTROY.call(barrier) },
    }
}

/// A function of the next library, looked up at its first use.
#[derive(Debug)]
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

static WAIT: Next = Next::new(c"pthread_barrier_wait");
static DESTROY: Next = Next::new(c"pthread_barrier_destroy");

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Calls the function; returns `EINVAL` if there is none.
    ///
    /// # Safety
    /// The conditions of the function of that name apply.
    unsafe fn call(&self, barrier: *mut pthread_barrier_t) -> c_int {
        // Relaxed, here and below: a thread that finds no pointer looks it up again, with the same
        // result.
        let mut function = self.found.load(Ordering::Relaxed);
        if function.is_null() {
            // SAFETY: the name ends in a zero byte.
            function = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(function, Ordering::Relaxed);
        }
        if barrier.is_null() || function.is_null() {
            return EINVAL;
        }
        // SAFETY: both names are those of functions of this type.
        let function: unsafe extern "C" fn(*mut pthread_barrier_t) -> c_int =
            unsafe { transmute(function) };
        // SAFETY: the caller guarantees the conditions of the function of that name.
        unsafe { function(barrier) }
    }
}

/// A function that runs at the end of the program.
#[used]
// SAFETY: the section is an array of pointers to functions without arguments, which are called
// once each.
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = report;

extern "C" fn report() {
    if std::env::var_os("SYNCLINE_PRELOAD_VERBOSE").is_some_and(|value| value == "1") {
        let count = TAKEN_OVER.load(Ordering::Relaxed);
        let barriers = if count == 1 { "barrier" } else { "barriers" };
        // A failed write is ignored: the program ends, and there is no other place to report it.
        let line = format!("syncline: took over {count} {barriers} of pthread\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

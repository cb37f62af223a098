//! Syncline's barriers in programs that exist: `LD_PRELOAD=libsyncline_preload.so program` replaces
//! `pthread_barrier_init`, `pthread_barrier_wait` and `pthread_barrier_destroy`.
//!
//! # Contract
//! That of POSIX. In each episode exactly one thread, the last one, gets `PTHREAD_BARRIER_SERIAL_THREAD`. A barrier may
//! be destroyed, and its memory used for something else, as soon as one thread has come back from its wait: `destroy`
//! waits until the others have left. Processes may share a barrier, whether or not its attributes say so, if all of
//! them are preloaded. A barrier that somebody else has initialised goes to the next library: none of its bytes are
//! touched. What is seen to be wrong is an error: a count of 0 or of more than 2^31 - 1, and whatever is done with a
//! barrier that was destroyed (`EINVAL`), a destruction while somebody waits (`EBUSY`).
//!
//! With `SYNCLINE_PRELOAD_VERBOSE=1` the program says on stderr at its end how many barriers were taken over.
//!
//! # State: the 32 bytes of a `pthread_barrier_t`
//! ```text
//! magic      a barrier of ours, the last thing that init writes; or one that was, the last that destroy writes
//! counter    a `syncline_sync::barrier::RawCounter`, which has the protocol, its costs and its source
//! ```
//!
//! # Panics
//! Nothing here panics. If something did, the `extern "C"` of its function would end the program there.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::io::Write as _;
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use libc::{
    EBUSY, EINVAL, PTHREAD_BARRIER_SERIAL_THREAD, pthread_barrier_t, pthread_barrierattr_t,
};
use syncline_sync::barrier::RawCounter;

/// What stands in a `pthread_barrier_t` that `pthread_barrier_init` has made.
#[repr(C)]
#[derive(Debug)]
struct State {
    magic: AtomicU64,
    counter: RawCounter,
}

const _: () = assert!(size_of::<State>() <= size_of::<pthread_barrier_t>());
const _: () = assert!(align_of::<State>() <= align_of::<pthread_barrier_t>());

/// Never the first two words of a barrier of glibc: arrivals at all (the lower half) and those in complete rounds (the
/// upper half), which are never more.
const MAGIC: u64 = 0xF5E5_CB01_53C1_11E3;
const _: () = assert!(MAGIC >> 32 > MAGIC & 0xFFFF_FFFF);
/// Of a barrier of ours that was destroyed.
const DESTROYED: u64 = MAGIC - (1 << 32);
const _: () = assert!(DESTROYED >> 32 > DESTROYED & 0xFFFF_FFFF);

/// How many barriers were initialised in this process.
static TAKEN_OVER: AtomicU64 = AtomicU64::new(0);

/// Whose a barrier is.
enum Whose<'a> {
    /// Ours.
    Ours(&'a State),
    /// Nobody's: it was ours, and was destroyed.
    Nobodys,
    /// The next library's.
    Others,
}

impl State {
    /// Whose a barrier is.
    ///
    /// # Safety
    /// The pointer is `NULL`, or points to the bytes of a `pthread_barrier_t` that live for `'a`, written meanwhile by
    /// the functions of pthread only.
    unsafe fn of<'a>(barrier: *mut pthread_barrier_t) -> Whose<'a> {
        // SAFETY: as the caller vouches; large enough and aligned, see above; any bytes are a `State`.
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
        self.magic.store(DESTROYED, Ordering::Relaxed); // nobody else is here
        0
    }
}

/// Makes a barrier for `count` threads, of this process or of several.
///
/// # Safety
/// As POSIX has it: `barrier` can be written, and nobody uses it.
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
    // SAFETY: as the caller vouches; large enough and aligned, see above.
    unsafe { place.write(state) };
    // Release: pairs with the Acquire in `of`, for those who learn of the barrier by looking at it.
    // SAFETY: as above; written a line ago.
    unsafe { (*place).magic.store(MAGIC, Ordering::Release) };
    TAKEN_OVER.fetch_add(1, Ordering::Relaxed);
    0
}

/// Waits until `count` threads have called this.
///
/// # Safety
/// As POSIX has it: `barrier` was initialised, and is not destroyed before this is called.
// SAFETY: the name is that of POSIX on purpose; the function has its type and keeps its contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: as the caller vouches.
    match unsafe { State::of(barrier) } {
        Whose::Ours(state) => state.wait(),
        Whose::Nobodys => EINVAL,
        // SAFETY: as the caller vouches.
        Whose::Others => unsafe { WAIT.call(barrier) },
    }
}

/// Ends the use of a barrier, when all threads have left it.
///
/// # Safety
/// As POSIX has it: `barrier` was initialised, and no wait begins from now on.
// SAFETY: the name is that of POSIX on purpose; the function has its type and keeps its contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: as the caller vouches.
    match unsafe { State::of(barrier) } {
        Whose::Ours(state) => state.destroy(),
        Whose::Nobodys => EINVAL,
        // SAFETY: as the caller vouches.
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

    /// Calls it; `EINVAL` if there is none.
    ///
    /// # Safety
    /// As the function of that name.
    unsafe fn call(&self, barrier: *mut pthread_barrier_t) -> c_int {
        // Relaxed, here and below: who finds nothing looks it up again, and finds the same.
        let mut function = self.found.load(Ordering::Relaxed);
        if function.is_null() {
            // SAFETY: the name ends in a zero byte.
            function = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(function, Ordering::Relaxed);
        }
        if barrier.is_null() || function.is_null() {
            return EINVAL;
        }
        // SAFETY: both names stand for functions of this type.
        let function: unsafe extern "C" fn(*mut pthread_barrier_t) -> c_int =
            unsafe { transmute(function) };
        // SAFETY: as the caller vouches.
        unsafe { function(barrier) }
    }
}

/// Run at the end of the program.
#[used]
// SAFETY: the section is an array of pointers to functions without arguments, which are called once each.
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = report;

extern "C" fn report() {
    if std::env::var_os("SYNCLINE_PRELOAD_VERBOSE").is_some_and(|value| value == "1") {
        let count = TAKEN_OVER.load(Ordering::Relaxed);
        let barriers = if count == 1 { "barrier" } else { "barriers" };
        // Nobody is left who could be told that stderr is closed.
        let _ = writeln!(std::io::stderr(), "syncline: took over {count} {barriers} of pthread");
    }
}

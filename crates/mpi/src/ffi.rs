//! The functions of a shim.

use std::ffi::{c_char, c_int, c_void};

use libloading::os::unix::Library;

use crate::error::ErrorClass;

/// Codes that the shim's functions return.
pub(crate) const OK: c_int = 0;
pub(crate) const NO_SUCH: c_int = 6;
pub(crate) const TOO_LONG: c_int = 8;
pub(crate) const INTER: c_int = 10;

/// Returns the kind of error that a code stands for.
pub(crate) fn fault(code: c_int) -> ErrorClass {
    match code {
        1 => ErrorClass::ProcessFailed,
        2 => ErrorClass::Revoked,
        3 => ErrorClass::Truncated,
        4 => ErrorClass::NoMemory,
        9 => ErrorClass::NotSupported,
        _ => ErrorClass::Other,
    }
}

/// Returns the message of a code of the shim itself. The other codes are MPI's, which has its own
/// messages.
pub(crate) fn own_words(code: c_int) -> Option<&'static str> {
    match code {
        NO_SUCH => Some("there is no such communicator, request or window"),
        7 => Some("there are too many communicators or windows"),
        TOO_LONG => Some("it is longer than 2 GiB minus one byte"),
        9 => Some("this MPI, or the shim, has no call for it"),
        INTER => Some("it is an intercommunicator"),
        _ => None,
    }
}

macro_rules! calls {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        /// The functions of a shim that stays loaded.
        #[derive(Debug)]
        pub(crate) struct Calls {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Calls {
            /// Looks all functions up. The error is the loader's.
            ///
            /// # Safety
            /// The library must be a shim of this [`ABI`](crate::shim::ABI), and must never be
            /// unloaded.
            pub(crate) unsafe fn of(library: &Library) -> Result<Calls, libloading::Error> {
                Ok(Calls {
                    $($name: {
                        // SAFETY: a shim of this ABI has the function with this type, and stays
                        // loaded.
                        *unsafe { library.get(concat!("syncline_mpi_", stringify!($name)).as_bytes()) }?
                    },)*
                })
            }
        }
    };
}

calls! {
    abi() -> c_int;
    library_version(*mut c_char, c_int) -> c_int;
    error_string(*mut c_char, c_int) -> c_int;
    initialized(*mut c_int) -> c_int;
    finalized(*mut c_int) -> c_int;
    init_thread(c_int, *mut c_int) -> c_int;
    query_thread(*mut c_int) -> c_int;
    is_thread_main(*mut c_int) -> c_int;
    finalize() -> c_int;
    abort(c_int) -> c_int;
    processor_name(*mut c_char, c_int) -> c_int;
    wtime() -> f64;
    comm_world(*mut c_int) -> c_int;
    comm_from_fortran(c_int, *mut c_int) -> c_int;
    comm_split(c_int, c_int, c_int, *mut c_int) -> c_int;
    comm_free(c_int) -> c_int;
    rank(c_int, *mut c_int) -> c_int;
    size(c_int, *mut c_int) -> c_int;
    barrier(c_int) -> c_int;
    bcast(c_int, *mut c_void, i64, c_int) -> c_int;
    allgather(c_int, *const c_void, i64, *mut c_void) -> c_int;
    allreduce_max(c_int, f64, *mut f64) -> c_int;
    isend(c_int, *const c_void, i64, c_int, c_int, *mut c_int) -> c_int;
    irecv(c_int, *mut c_void, i64, c_int, c_int, *mut c_int) -> c_int;
    improbe(c_int, c_int, *mut c_int, *mut c_int, *mut i64, *mut c_int) -> c_int;
    imrecv(c_int, *mut c_void, i64) -> c_int;
    test(c_int, *mut c_int, *mut i64, *mut c_int) -> c_int;
    cancel(c_int) -> c_int;
    win_allocate(c_int, i64, *mut *mut c_void, *mut c_int) -> c_int;
    win_free(c_int) -> c_int;
    put(c_int, c_int, i64, *const c_void, i64) -> c_int;
    get(c_int, c_int, i64, *mut c_void, i64) -> c_int;
    accumulate(c_int, c_int, i64, *const f64, i64) -> c_int;
    fetch_add(c_int, c_int, i64, i64, *mut i64) -> c_int;
    flush(c_int, c_int) -> c_int;
    flush_all(c_int) -> c_int;
    win_sync(c_int) -> c_int;
    comm_revoke(c_int) -> c_int;
    comm_shrink(c_int, *mut c_int) -> c_int;
    comm_agree(c_int, *mut c_int) -> c_int;
    comm_failures(c_int, *mut c_int, c_int, *mut c_int) -> c_int;
}

/// Calls a function of the shim that writes a text, and returns the text.
pub(crate) fn text(write: impl FnOnce(*mut c_char, c_int) -> c_int) -> Result<String, c_int> {
    let mut room = vec![0_u8; 8192];
    match write(room.as_mut_ptr().cast(), room.len() as c_int) {
        OK => {
            let end = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
            Ok(String::from_utf8_lossy(&room[..end]).into_owned())
        }
        code => Err(code),
    }
}

//! `posix_spawn`, and the two objects that it takes.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;

use rustix::io::Errno;
use rustix::process::Pid;

/// Starts a program. Each pair is a descriptor of this process, and its number in the child; the
/// other descriptors are closed in the child.
pub(super) fn spawn(
    program: &CStr,
    args: &[CString],
    environment: &[CString],
    (descriptors, closed): (&[(RawFd, RawFd)], &[RawFd]),
    own_group: bool,
) -> io::Result<Pid> {
    let mut actions = Actions::new()?;
    for &(from, to) in descriptors {
        actions.copy(from, to)?;
    }
    for &number in closed {
        actions.close(number)?;
    }
    let attributes = Attributes::new(own_group)?;
    let (args, environment) = (pointers(args), pointers(environment));
    let mut pid = 0;
    // SAFETY:
    // * `program` is a C string;
    // * `args` and `environment` are arrays of pointers to C strings that outlive the call, each
    //   terminated by a null pointer;
    // * `actions` and `attributes` are initialised and not modified during the call;
    // * `pid` is valid for writes.
    done(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            args.as_ptr(),
            environment.as_ptr(),
        )
    })?;
    Pid::from_raw(pid).ok_or_else(|| Errno::SRCH.into())
}

/// Converts strings to the array that C expects: pointers, with a null pointer at the end.
fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// Converts a return value: these functions return the error number, and do not set `errno`.
fn done(returned: libc::c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The operations on descriptors that the child performs before exec.
struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the pointer is valid for writes of the object, which the function initialises.
        done(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Actions(actions))
    }

    fn copy(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: `new` has initialised the object, and nothing else accesses it; an invalid
        // descriptor number is an error, here or at the start of the child.
        done(unsafe { libc::posix_spawn_file_actions_adddup2(self.0.as_mut_ptr(), from, to) })
    }

    fn close(&mut self, number: RawFd) -> io::Result<()> {
        // SAFETY: as in `copy`.
        done(unsafe { libc::posix_spawn_file_actions_addclose(self.0.as_mut_ptr(), number) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised the object, and nothing uses it from here on.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

/// The process group and the signals of the child.
struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    fn new(own_group: bool) -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the pointer is valid for writes of the object, which the function initialises.
        done(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        let mut attributes = Attributes(attributes);
        let object = attributes.0.as_mut_ptr();
        let mut flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let (mut none, mut defaults) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY:
        // * `sigemptyset` initialises both sets, which are valid for writes;
        // * `sigaddset` gets an initialised set and a valid signal;
        // * the `posix_spawnattr_` functions get an initialised object and an initialised set or a
        //   number, and keep no pointer.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigemptyset(defaults.as_mut_ptr());
            libc::sigaddset(defaults.as_mut_ptr(), libc::SIGPIPE);
            done(libc::posix_spawnattr_setsigmask(object, none.as_ptr()))?;
            done(libc::posix_spawnattr_setsigdefault(object, defaults.as_ptr()))?;
            if own_group {
                flags |= libc::POSIX_SPAWN_SETPGROUP;
                done(libc::posix_spawnattr_setpgroup(object, 0))?;
            }
            done(libc::posix_spawnattr_setflags(object, flags as libc::c_short))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised the object, and nothing uses it from here on.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

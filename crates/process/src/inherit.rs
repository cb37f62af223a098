//! Descriptors and variables that pass from a process to its children.
//!
//! A child gets the numbers of descriptors, and its own number, in an environment variable: see
//! [`Told`]. The content of the variable is untrusted, so all functions here return an error where
//! a number is not one of the process's descriptors.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Numbers that one process passes to another in a variable: `version=4 memory=5 process=0`.
///
/// ```
/// use syncline_process::inherit::Told;
///
/// const PLACE: Told<2> = Told {
///     by: "launcher",
///     version: 4,
///     fields: [("memory", 0..=99), ("process", 0..=7)],
/// };
/// assert_eq!(PLACE.write([5, 0]), "version=4 memory=5 process=0");
/// assert_eq!(PLACE.read("version=4 memory=5 process=0"), Ok([5, 0]));
/// let wrong = PLACE.read("version=4 memory=x process=0").unwrap_err();
/// assert_eq!(wrong, "memory is \"x\", not a number from 0 to 99");
/// ```
#[derive(Clone, Debug)]
pub struct Told<const N: usize> {
    /// The name of the writer in error messages.
    pub by: &'static str,
    /// The version of the format. Must be raised with any change of the data that the two processes
    /// share: both must have the same version.
    pub version: u64,
    /// The name of each number, and its range.
    pub fields: [(&'static str, RangeInclusive<u64>); N],
}

/// The range of valid descriptor numbers.
pub const DESCRIPTOR: RangeInclusive<u64> = 0..=i32::MAX as u64;

impl<const N: usize> Told<N> {
    /// Returns the value to which the variable is set.
    #[must_use]
    pub fn write(&self, numbers: [u64; N]) -> String {
        let fields =
            self.fields.iter().zip(numbers).map(|((name, _), number)| format!(" {name}={number}"));
        format!("version={}{}", self.version, fields.collect::<String>())
    }

    /// Parses the numbers from the value of the variable.
    ///
    /// # Errors
    /// Returns a description of the fault, phrased as the end of a sentence.
    pub fn read(&self, value: &str) -> std::result::Result<[u64; N], String> {
        let mut words = value.split_whitespace();
        let mut field = |name: &str| {
            let word = words.next().ok_or(format!("{name} is missing"))?;
            let text = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            text.ok_or(format!("{word:?} stands where {name}= is expected"))
        };
        let (version, own) = (field("version")?, self.version);
        if version != own.to_string() {
            return Err(format!(
                "the {} is of version {version}, this program of version {own}",
                self.by
            ));
        }
        let mut numbers = [0; N];
        for ((name, range), number) in self.fields.iter().zip(&mut numbers) {
            let text = field(name)?;
            let said = text.parse().ok().filter(|number| range.contains(number));
            let (least, most) = (range.start(), range.end());
            *number =
                said.ok_or(format!("{name} is {text:?}, not a number from {least} to {most}"))?;
        }
        match words.next() {
            Some(rest) => Err(format!("nothing is expected where {rest:?} stands")),
            None => Ok(numbers),
        }
    }
}

/// Returns a copy, closed on exec, of a descriptor that was inherited under this number. The number
/// itself stays as it is.
///
/// # Errors
/// Returns the system's error: there is no such descriptor, or no descriptor is left.
///
/// ```
/// use std::os::fd::AsRawFd;
/// use syncline_process::inherit;
///
/// let file = std::fs::File::open("/dev/null")?;
/// let copy = inherit::copy(file.as_raw_fd())?;
/// assert_ne!(copy.as_raw_fd(), file.as_raw_fd());
/// assert!(inherit::copy(-1).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy(number: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(borrow(number)?, 3)?)
}

/// Sets close-on-exec on an inherited descriptor, so that it is not passed on to other programs.
///
/// # Errors
/// Returns the system's error: there is no such descriptor.
pub fn close_on_exec(number: RawFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(borrow(number)?, FdFlags::CLOEXEC)?)
}

fn borrow(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not -1. The parent that passes a number in a variable keeps the
    // descriptor open in the child, and no other code of the child uses the number, so none closes
    // it. If the variable is wrong, the callers above, which only make fcntl calls on the
    // descriptor, get an error, or act on whichever descriptor the variable names.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Removes a variable from the environment of this process if it has a single thread; otherwise the
/// variable stays, as other threads may be reading the environment.
pub fn forget_variable(variable: &str) {
    if is_alone() {
        // SAFETY: no other thread can read or write the environment: this thread is the only one,
        // and only it could create another.
        unsafe { std::env::remove_var(variable) };
    }
}

/// Returns whether this thread is the only one of its process.
fn is_alone() -> bool {
    let thread = UnshareFlags::from_bits_retain(CLONE_THREAD);
    // SAFETY: `unshare(CLONE_THREAD)` fails in a process with several threads, and changes nothing
    // in one with a single thread: unshare(2).
    match unsafe { unshare_unsafe(thread) } {
        Ok(()) => true,
        Err(Errno::INVAL) => false,
        // Some containers forbid the call. A directory has two links, and one more for each
        // subdirectory: here, one for each thread. On a file system that counts differently, the
        // result is not 3.
        Err(_) => rustix::fs::stat("/proc/self/task").is_ok_and(|tasks| tasks.st_nlink == 3),
    }
}

/// Not among the flags that rustix defines.
const CLONE_THREAD: u32 = 0x0001_0000;

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Told<3> = Told {
        by: "launcher",
        version: 4,
        fields: [("segment", DESCRIPTOR), ("process", 0..=9), ("threads", 1..=4096)],
    };

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(PLACE.read(&PLACE.write([5, 3, 2])), Ok([5, 3, 2]));
        assert_eq!(PLACE.write([5, 3, 2]), "version=4 segment=5 process=3 threads=2");
    }

    #[test]
    fn garbage_is_named() {
        let cases = [
            ("", "", "version is missing"),
            ("version=4", "version=7", "the launcher is of version 7, this program of version 4"),
            ("segment=5", "fragment=5", "\"fragment=5\" stands where segment= is expected"),
            ("segment=5", "segment=-1", "segment is \"-1\", not a number"),
            (
                "segment=5",
                "segment=99999999999",
                "segment is \"99999999999\", not a number from 0 to 2147483647",
            ),
            ("threads=2", "threads=0", "threads is \"0\", not a number from 1 to 4096"),
            ("threads=2", "threads=2 x", "nothing is expected where \"x\" stands"),
            (" threads=2", "", "threads is missing"),
        ];
        for (from, to, why) in cases {
            let good = PLACE.write([5, 3, 2]);
            let value = if from.is_empty() { String::new() } else { good.replace(from, to) };
            let found = PLACE.read(&value).unwrap_err();
            assert!(found.starts_with(why), "{value}: {found}");
        }
    }

    #[test]
    fn a_test_is_not_alone() {
        // At least the thread of the test harness exists beside this one, or the harness runs this
        // test on its own thread.
        let alone = std::thread::scope(|scope| scope.spawn(is_alone).join().unwrap());
        assert!(!alone);
    }
}

//! System V shared memory: the five calls, and their attachments. All the `unsafe` code of the
//! protocol is in this file.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicI32;

use libc::{c_int, key_t};

/// Processes of the same user may read and write.
const MODE: c_int = 0o600;

/// `ftok`: the key of an existing file, for a number of which eight bits count.
pub(super) fn key(file: &Path, number: u8) -> io::Result<key_t> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the path is zero-terminated and lives until the call returns.
    let key = unsafe { libc::ftok(path.as_ptr(), c_int::from(number)) };
    match key {
        -1 => Err(io::Error::last_os_error()),
        libc::IPC_PRIVATE => {
            Err(io::Error::other("the key of this file is that of private segments"))
        }
        key => Ok(key),
    }
}

/// A segment of the system, attached or not. It exists until it is deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    id: c_int,
    /// The least number of integers in the segment. Identifiers are not reused, so this stays true.
    integers: usize,
}

/// How `shmget` treats an existing or missing segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It must exist; otherwise `NotFound`.
    There,
    /// It is created, all zero, if it does not exist.
    Anyway,
    /// It is created; if it exists, `AlreadyExists`.
    New,
}

impl Id {
    /// `shmget`: the segment with this key, of at least `integers` integers.
    pub(super) fn of(key: key_t, integers: usize, wanted: Wanted) -> io::Result<Self> {
        let flags = match wanted {
            Wanted::There => 0,
            Wanted::Anyway => libc::IPC_CREAT | MODE,
            Wanted::New => libc::IPC_CREAT | libc::IPC_EXCL | MODE,
        };
        // SAFETY: the call takes numbers only.
        match unsafe { libc::shmget(key, integers * size_of::<i32>(), flags) } {
            -1 => Err(io::Error::last_os_error()),
            id => Ok(Self { id, integers }),
        }
    }

    /// `shmat`: maps the segment.
    pub(super) fn attach(self) -> io::Result<Attached> {
        // SAFETY: the address is null, so the system chooses one, and no existing mapping is
        // replaced.
        let start = unsafe { libc::shmat(self.id, ptr::null(), 0) };
        if start as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("shmat: mapped at 0"))?;
        Ok(Attached { start, integers: self.integers })
    }

    /// `shmctl`: deletes the segment. Its key is free at once, its memory when the last process
    /// detaches it.
    pub(super) fn delete(self) -> io::Result<()> {
        // SAFETY: attached memory stays mapped until it is detached; this command does not use the
        // pointer.
        match unsafe { libc::shmctl(self.id, libc::IPC_RMID, ptr::null_mut()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// An attached segment; dropping it calls `shmdt`.
#[derive(Debug)]
pub(super) struct Attached {
    start: NonNull<i32>,
    /// The number of accessible integers.
    integers: usize,
}

impl Attached {
    /// Returns the first integer as an atomic word.
    pub(super) fn tag(&self) -> &AtomicI32 {
        assert!(self.integers > 0, "a tag is an integer");
        // SAFETY: the segment has an integer, is page-aligned, and is mapped until `self` is
        // dropped, which outlives the reference; a tag is accessed only as an atomic, here and in
        // other processes.
        unsafe { AtomicI32::from_ptr(self.start.as_ptr()) }
    }

    /// Copies all integers out.
    pub(super) fn read(&self) -> Vec<i32> {
        let mut data = Vec::with_capacity(self.integers);
        // SAFETY: the source is mapped for `integers` values, the target has capacity for them, and
        // the two do not overlap. No reference to the segment is made. By the protocol no process
        // writes meanwhile: the sender wrote the tag after the data, and no sender creates a
        // segment before the tag is 0 again. As with all shared memory, this relies on the other
        // processes to keep the protocol.
        unsafe {
            self.start.as_ptr().copy_to_nonoverlapping(data.as_mut_ptr(), self.integers);
            data.set_len(self.integers);
        }
        data
    }

    /// Copies integers in; their number must be that of the segment.
    pub(super) fn write(&mut self, data: &[i32]) {
        assert_eq!(data.len(), self.integers, "the segment was made for other data");
        // SAFETY: the target is mapped for `data.len()` values, and does not overlap `data`, which
        // is borrowed. By the protocol no process reads meanwhile: the tag does not yet announce
        // the data.
        unsafe { self.start.as_ptr().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: `shmat` returned this address, and all references to the memory borrow from
        // `self`. With this argument the call cannot fail.
        unsafe { libc::shmdt(self.start.as_ptr().cast()) };
    }
}

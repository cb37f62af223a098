//! System V shared memory: the five calls, and what they attach. All the `unsafe` of the protocol is in this file.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicI32;

use libc::{c_int, key_t};

/// Whoever runs as the same user may read and write.
const MODE: c_int = 0o600;

/// `ftok`: the key of a file that exists, for a number of which eight bits count.
pub(super) fn key(file: &Path, number: u8) -> io::Result<key_t> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero and lives until the call returns.
    let key = unsafe { libc::ftok(path.as_ptr(), c_int::from(number)) };
    match key {
        -1 => Err(io::Error::last_os_error()),
        libc::IPC_PRIVATE => {
            Err(io::Error::other("the key of this file is that of private segments"))
        }
        key => Ok(key),
    }
}

/// A segment of the system, attached or not. It is there until somebody deletes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    id: c_int,
    /// How many integers it has at least: an identifier is never of another segment.
    integers: usize,
}

/// How a segment is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It is there; otherwise `NotFound`.
    There,
    /// It is there, or is made, all zero.
    Anyway,
    /// It is made; if it is there, `AlreadyExists`.
    New,
}

impl Id {
    /// `shmget`: the segment of this key, of at least so many integers.
    pub(super) fn of(key: key_t, integers: usize, wanted: Wanted) -> io::Result<Self> {
        let flags = match wanted {
            Wanted::There => 0,
            Wanted::Anyway => libc::IPC_CREAT | MODE,
            Wanted::New => libc::IPC_CREAT | libc::IPC_EXCL | MODE,
        };
        // SAFETY: takes numbers only.
        match unsafe { libc::shmget(key, integers * size_of::<i32>(), flags) } {
            -1 => Err(io::Error::last_os_error()),
            id => Ok(Self { id, integers }),
        }
    }

    /// `shmat`: maps it.
    pub(super) fn attach(self) -> io::Result<Attached> {
        // SAFETY: where it is mapped is the system's choice, so nothing else is replaced.
        let start = unsafe { libc::shmat(self.id, ptr::null(), 0) };
        if start as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("shmat: mapped at 0"))?;
        Ok(Attached { start, integers: self.integers })
    }

    /// `shmctl`: deletes it. Its key is free at once, its memory when nobody has it attached.
    pub(super) fn delete(self) -> io::Result<()> {
        // SAFETY: what is attached stays mapped until it is detached; nothing is written for this command.
        match unsafe { libc::shmctl(self.id, libc::IPC_RMID, ptr::null_mut()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// A segment that is mapped: `shmdt` when dropped.
#[derive(Debug)]
pub(super) struct Attached {
    start: NonNull<i32>,
    /// How many integers may be touched.
    integers: usize,
}

impl Attached {
    /// The first integer, as the word that all look at.
    pub(super) fn tag(&self) -> &AtomicI32 {
        assert!(self.integers > 0, "a tag is an integer");
        // SAFETY: mapped at least so far, on a page's boundary, until this is dropped; a tag is touched as an atomic
        // only, here and in other processes.
        unsafe { AtomicI32::from_ptr(self.start.as_ptr()) }
    }

    /// Copies all the integers out.
    pub(super) fn read(&self) -> Vec<i32> {
        let mut data = Vec::with_capacity(self.integers);
        // SAFETY: mapped at least so far, and reserved so far, and not the same memory. No reference to the segment is
        // made. Nobody writes meanwhile, by the protocol: whoever wrote has written the tag after that, and nobody makes
        // a segment before the tag is 0 again. For other processes nothing can vouch, as with all memory that is shared.
        unsafe {
            self.start.as_ptr().copy_to_nonoverlapping(data.as_mut_ptr(), self.integers);
            data.set_len(self.integers);
        }
        data
    }

    /// Copies integers in, as many as it has.
    pub(super) fn write(&mut self, data: &[i32]) {
        assert_eq!(data.len(), self.integers, "the segment was made for other data");
        // SAFETY: mapped so far, and not the memory of the data, which a reference keeps from being written. Nobody reads
        // meanwhile, by the protocol: the tag is not yet what a receiver waits for.
        unsafe { self.start.as_ptr().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: mapped there by `shmat`, and all references to it are borrowed from this. It can only fail if that were
        // not so.
        unsafe { libc::shmdt(self.start.as_ptr().cast()) };
    }
}

//! The memory of a ring: zeros that take room only where they were written.
//!
//! The slots are mapped for themselves, page by page. An allocator would write zeros to memory that
//! it has used before, and would keep the memory of threads that have ended: a program that starts
//! its threads again and again would hold a ring's memory many times.

use std::ops::Deref;

use crate::ring::Words;
use crate::sync::AtomicU64;

/// A slot: the words of an entry.
type Slot = [AtomicU64; size_of::<Words>() / 8];

#[cfg(not(any(loom, miri)))]
mod mapped {
    use std::ptr::NonNull;

    use rustix::mm::{self, Advice, MapFlags, ProtFlags};

    use super::Slot;

    /// Slots in a mapping of their own.
    #[derive(Debug)]
    pub(crate) struct Slots {
        first: NonNull<Slot>,
        count: usize,
    }

    // SAFETY: the value owns its mapping, as a box owns its memory, and slots are atomics, which
    // may be sent and shared.
    unsafe impl Send for Slots {}
    // SAFETY: as above.
    unsafe impl Sync for Slots {}

    impl Slots {
        /// Makes slots of zeros; `count` is at least 1. Returns `None` if there is no memory.
        pub(crate) fn new(count: usize) -> Option<Slots> {
            let bytes = count.checked_mul(size_of::<Slot>())?;
            let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new mapping, at an address that the system chooses, changes no memory that
            // is in use.
            let start = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, kind) };
            let start = start.ok()?;
            // A huge page would take its room at the first event. Kernels without them refuse.
            // SAFETY: the range is the mapping above; the advice does not change its contents.
            let _ = unsafe { mm::madvise(start, bytes, Advice::LinuxNoHugepage) };
            Some(Slots { first: NonNull::new(start.cast())?, count })
        }

        pub(super) fn all(&self) -> &[Slot] {
            // SAFETY: the mapping has `count` slots, is page-aligned, and lives as long as `self`.
            // Zeros are valid atomics, which are only changed by shared references.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
        }
    }

    impl Drop for Slots {
        fn drop(&mut self) {
            // SAFETY: the range is the mapping of `new`; references to its slots borrow `self`, and
            // have ended. A failure leaves the mapping, which harms nothing.
            let _ =
                unsafe { mm::munmap(self.first.as_ptr().cast(), self.count * size_of::<Slot>()) };
        }
    }
}

#[cfg(any(loom, miri))]
mod mapped {
    use super::{AtomicU64, Slot};

    /// Slots of a model, which cannot map memory.
    #[derive(Debug)]
    pub(crate) struct Slots(Box<[Slot]>);

    impl Slots {
        pub(crate) fn new(count: usize) -> Option<Slots> {
            Some(Slots((0..count).map(|_| [(); 4].map(|()| AtomicU64::new(0))).collect()))
        }

        pub(super) fn all(&self) -> &[Slot] {
            &self.0
        }
    }
}

pub(crate) use mapped::Slots;

impl Deref for Slots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        self.all()
    }
}

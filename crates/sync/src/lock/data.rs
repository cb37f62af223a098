//! What a lock guards: a value on the heap, or plain bytes in a space.
//!
//! This file and the guards in `lock` are all the `unsafe` of locks.

use std::cell::UnsafeCell;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use crate::error::SpaceError;
use crate::space::{Array, Shared, Space};

/// A place for a value that many may point to, and that one at a time may touch.
pub(super) struct Data<T> {
    value: *mut T,
    _home: Home<T>,
}

/// What keeps the value where it is.
enum Home<T> {
    Heap(Arc<UnsafeCell<T>>),
    Space(Array<Plain<T>>),
}

/// Plain data, in memory that processes may share.
#[repr(transparent)]
pub(super) struct Plain<T>(UnsafeCell<T>);

impl<T: Zeroable> Default for Plain<T> {
    fn default() -> Self {
        Plain(UnsafeCell::new(T::zeroed()))
    }
}

// SAFETY: only reached through the pointer of `Data`, which only guards use, one at a time.
unsafe impl<T: Send> Sync for Plain<T> {}
// SAFETY: `Pod` types have no pointers, need no drop and are valid with all bytes zero, which is their default here; guards
// keep others away while they change it.
unsafe impl<T: Pod + Send> Shared for Plain<T> {}

// SAFETY: a pointer to a value that is `Send`, which guards hand out to one thread at a time, and what keeps it: an `Arc`
// that may drop it on any thread, or an array.
unsafe impl<T: Send> Send for Data<T> {}
// SAFETY: as above; a shared `Data` gives nothing but the pointer.
unsafe impl<T: Send> Sync for Data<T> {}

impl<T> Data<T> {
    pub(super) fn heap(value: T) -> Self {
        let home = Arc::new(UnsafeCell::new(value));
        Data { value: home.get(), _home: Home::Heap(home) }
    }

    /// Where the value is. To touch it is up to who holds the lock.
    #[inline]
    pub(super) fn get(&self) -> *mut T {
        self.value
    }
}

impl<T: Pod + Send> Data<T> {
    pub(super) fn within(space: &mut Space) -> Result<Self, SpaceError> {
        let home: Array<Plain<T>> = space.array(1)?;
        Ok(Data { value: home[0].0.get(), _home: Home::Space(home) })
    }
}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Self {
        let home = match &self._home {
            Home::Heap(value) => Home::Heap(Arc::clone(value)),
            Home::Space(array) => Home::Space(array.clone()),
        };
        Data { value: self.value, _home: home }
    }
}

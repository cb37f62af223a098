//! The value that a lock guards: on the heap, or plain bytes in a space.
//!
//! This file and the guards in `lock` hold all the `unsafe` code of locks.

use std::cell::UnsafeCell;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use crate::error::SpaceError;
use crate::space::{Array, Shared, Space};

/// A value that many handles point to, and that one at a time may access.
pub(super) struct Data<T> {
    value: *mut T,
    _home: Home<T>,
}

/// The owner of the value, which keeps it in place.
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

// SAFETY: the value is only reached through the pointer of `Data`, which only guards use, one at a
// time.
unsafe impl<T: Send> Sync for Plain<T> {}
// SAFETY: `Pod` types have no pointers, need no drop and are valid with all bytes zero, which is
// their default here; guards exclude all others while they change the value.
unsafe impl<T: Pod + Send> Shared for Plain<T> {}

// SAFETY: the pointer leads to a value that is `Send`, and guards give it to one thread at a time;
// the owner is an `Arc`, which may drop the value on any thread as it is `Send`, or an array, which
// is `Send`.
unsafe impl<T: Send> Send for Data<T> {}
// SAFETY: as for `Send`; a shared `Data` only gives out the pointer.
unsafe impl<T: Send> Sync for Data<T> {}

impl<T> Data<T> {
    pub(super) fn heap(value: T) -> Self {
        let home = Arc::new(UnsafeCell::new(value));
        Data { value: home.get(), _home: Home::Heap(home) }
    }

    /// Returns a pointer to the value. Only the holder of the lock may dereference it.
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

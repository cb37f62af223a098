//! Atomics and threads from `std`, or from loom when models are checked (`--cfg loom`).
//!
//! Everything above imports these names and no others, so that the code that ships is the code that
//! the models check.

#[cfg(not(loom))]
pub use std::{
    cell::UnsafeCell,
    hint,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};

//! Planted bugs, which prove that the models detect an error.
//!
//! Each protocol has one or two places where `plant::is("name")` switches to a broken variant. In
//! every build except a loom build the result is the constant `false`, and the compiler removes the
//! branch. A loom test plants a bug and expects the model to fail.

/// Returns whether the bug `name` is planted in this model run; always `false` outside of loom.
#[cfg(not(loom))]
#[inline(always)]
#[must_use]
pub const fn is(_name: &str) -> bool {
    false
}

#[cfg(loom)]
mod planted {
    use std::cell::Cell;

    // Loom runs all threads of a model on one operating system thread, so this variable reaches all
    // of them and no other test.
    std::thread_local! {
        static PLANTED: Cell<&'static str> = const { Cell::new("") };
    }

    /// Returns whether the bug `name` is planted in this model run.
    #[must_use]
    pub fn is(name: &str) -> bool {
        PLANTED.get() == name
    }

    /// Plants the bug `name` while `model` runs.
    pub fn with(name: &'static str, model: impl FnOnce()) {
        PLANTED.set(name);
        model();
        PLANTED.set("");
    }
}

#[cfg(loom)]
pub use planted::{is, with};

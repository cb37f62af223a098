//! Planted bugs: proof that the models would notice.
//!
//! Each protocol has one or two places where `plant::is("name")` switches to a broken variant. In
//! every build but a loom one the answer is the constant `false` and nothing is left of it. A loom
//! test plants a bug and expects the model to fail.

/// Whether the bug `name` is planted in this model run; always `false` outside of loom.
#[cfg(not(loom))]
#[inline(always)]
#[must_use]
pub const fn is(_name: &str) -> bool {
    false
}

#[cfg(loom)]
mod planted {
    use std::cell::Cell;

    // Loom runs all threads of a model on one thread of the system, so this reaches all of them and
    // no other test.
    std::thread_local! {
        static PLANTED: Cell<&'static str> = const { Cell::new("") };
    }

    /// Whether the bug `name` is planted in this model run.
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

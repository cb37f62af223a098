//! Members that are gone: every wait asks for them at least ten times a second.

/// Answers, for a wait that lasts, whether a member that it needs is gone.
///
/// The waiting thread asks before every sleep, at least ten times a second. The answer must not
/// block.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use syncline_signal::{Liveness, Policy, Signal, WaitError};
///
/// #[derive(Debug)]
/// struct Partner {
///     dead: AtomicBool,
/// }
///
/// impl Liveness for Partner {
///     fn gone(&self) -> Option<u32> {
///         self.dead.load(Ordering::Acquire).then_some(7)
///     }
/// }
///
/// let partner = Partner { dead: AtomicBool::new(true) };
/// let policy = Policy::default().watching(&partner);
/// let waited = Signal::new(0).wait_until(1, &policy, None);
/// assert_eq!(waited, Err(WaitError::Dead { member: 7 }));
/// ```
pub trait Liveness: Sync + std::fmt::Debug {
    /// Returns a member that is gone, if one is.
    fn gone(&self) -> Option<u32>;
}

/// For tests: names the member that was declared dead first.
#[cfg(all(test, not(loom)))]
#[derive(Debug, Default)]
pub(crate) struct FirstDeath(std::sync::OnceLock<u32>);

#[cfg(all(test, not(loom)))]
impl FirstDeath {
    pub(crate) fn declare(&self, member: u32) {
        let _ = self.0.set(member); // the first stays
    }
}

#[cfg(all(test, not(loom)))]
impl Liveness for FirstDeath {
    fn gone(&self) -> Option<u32> {
        self.0.get().copied()
    }
}

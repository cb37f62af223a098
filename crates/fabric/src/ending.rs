//! Cleanup for a member when its function has ended.

use std::fmt;
use std::sync::{Arc, Weak};

/// A cleanup that runs when the function of a member has returned or panicked: see
/// [`Member::at_end`](crate::Member::at_end).
pub trait AtEnd: Send + Sync {
    /// Runs when the function of the member has ended.
    fn end(&self);
}

/// The cleanups to run at the end of a member's function.
#[derive(Default)]
pub(crate) struct Endings(Vec<Weak<dyn AtEnd>>);

impl Endings {
    /// Adds a cleanup, and removes those that have been dropped.
    pub(crate) fn push(&mut self, ending: &Arc<impl AtEnd + 'static>) {
        self.0.retain(|other| other.strong_count() > 0);
        let ending: Weak<dyn AtEnd> = Arc::downgrade(ending) as Weak<_>;
        self.0.push(ending);
    }

    pub(crate) fn end(&self) {
        self.0.iter().filter_map(Weak::upgrade).for_each(|ending| ending.end());
    }
}

impl fmt::Debug for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endings").field(&self.0.len()).finish()
    }
}

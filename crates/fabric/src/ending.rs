//! What is done for a member when its function has ended.

use std::fmt;
use std::sync::{Arc, Weak};

/// Something that a member leaves in order when its function has returned or panicked: see
/// [`Member::at_end`](crate::Member::at_end).
pub trait AtEnd: Send + Sync {
    /// The function of the member has ended.
    fn end(&self);
}

/// What is to be called at the end of a member's function.
#[derive(Default)]
pub(crate) struct Endings(Vec<Weak<dyn AtEnd>>);

impl Endings {
    /// Adds one, and forgets those that have been dropped.
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

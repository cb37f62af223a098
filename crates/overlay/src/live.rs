//! What an overlay and its watches share: the engine of the present run.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::engine::Engine;
use crate::plan::Plan;

/// The state shared by watches and their overlay.
pub(crate) struct Live {
    pub(crate) plan: Plan,
    now: Mutex<Now>,
    pub(crate) changed: Condvar,
}

#[derive(Default)]
pub(crate) struct Now {
    /// The engine, while the overlay runs.
    pub(crate) engine: Option<Arc<Engine>>,
    /// The number of runs so far.
    pub(crate) runs: u64,
    /// Whether the overlay has been dropped, or an unchecked run has ended: watches then return.
    pub(crate) over: bool,
}

impl Live {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Live { plan, now: Mutex::default(), changed: Condvar::new() })
    }

    pub(crate) fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, engine: &Arc<Engine>) {
        let mut now = self.now();
        now.engine = Some(Arc::clone(engine));
        now.runs += 1;
        drop(now);
        self.changed.notify_all();
    }

    pub(crate) fn end(&self) {
        self.now().engine = None;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        self.now().over = true;
        self.changed.notify_all();
    }
}

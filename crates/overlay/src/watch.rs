//! Watching a run: the queues at any moment, and a report when nothing moves.
//!
//! A checked overlay cannot deadlock, but a body may wait for an event that never comes, and an
//! unchecked overlay may deadlock. A [`Watch`] shows which task waits for which, and since when,
//! and can end the run.
//!
//! # How a standstill is detected
//! The watch samples the rounds of all tasks periodically. This adds nothing to the work of the
//! tasks but two stores per step to a cache line of the worker's own. *Since when* is therefore as
//! exact as the sampling period: an eighth of the time that is waited for.

pub use crate::stuck::Stuck;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::Failure;
use crate::error::{CheckError, RunError};
use crate::initial::Initial;
use crate::live::{Live, Now};
use crate::overlay::{Checked, Overlay};
use crate::run::{RunReport, Runner};
use crate::snapshot::Snapshot;
use crate::stop::Stop;

/// An observer of an overlay while it runs, usable from any thread. Returned by
/// [`Checked::watch`](crate::Checked::watch).
///
/// ```
/// use std::time::Duration;
/// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
///
/// let cell = Location::new("cell", 0);
/// let (send, receive) = std::sync::mpsc::channel::<()>();
/// let mut overlay = Overlay::new();
/// overlay.task("first", cell.write(), move |n, _| {
///     receive.recv_timeout(Duration::from_secs(60)).ok(); // waits for a message
///     *n += 1;
/// });
/// overlay.task("second", cell.write(), |n, _| *n += 1);
/// let mut overlay = overlay.check(Initial::Program)?;
/// let watch = overlay.watch();
/// std::thread::scope(|s| {
///     s.spawn(move || {
///         let stuck = watch.stuck(Duration::from_secs(1)).expect("nothing moves");
///         assert!(stuck.to_string().contains("'second' waits at 'cell' for 'first'"), "{stuck}");
///         assert_eq!(stuck.deadlock(), None); // 'first' runs, and may go on
///         drop(send);
///     });
///     overlay.run(Runner::pool(2), Stop::after(1)).map(|_| ())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watch {
    live: Arc<Live>,
    /// The number of runs whose end this watch has reported.
    told: AtomicU64,
}

impl Clone for Watch {
    fn clone(&self) -> Self {
        Watch {
            live: Arc::clone(&self.live),
            told: AtomicU64::new(self.told.load(Ordering::Relaxed)),
        }
    }
}

impl Watch {
    pub(crate) fn new(live: &Arc<Live>) -> Self {
        let told = AtomicU64::new(live.now().runs);
        Watch { live: Arc::clone(live), told }
    }

    /// Returns the present queues, or `None` if the overlay does not run.
    ///
    /// While an overlay runs over its queues, all queues are seen at one moment. While it runs
    /// compiled, each task is seen at its own moment; for tasks that do not move the result is the
    /// same.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let engine = self.live.now().engine.clone()?;
        Some(engine.look(&self.live.plan))
    }

    /// Blocks until nothing has moved for `patience`, and returns a report of which task waits for
    /// which. Returns `None` when the run ends (once for each run), when the overlay has been
    /// dropped, or if no run is under way and none begins within `patience`.
    ///
    /// Nothing moves if no task ends an iteration: because one takes longer, or waits for something
    /// else, or because tasks wait for each other in a cycle ([`Stuck::deadlock`]).
    #[must_use]
    pub fn stuck(&self, patience: Duration) -> Option<Stuck> {
        let told = |runs: u64| self.told.swap(runs, Ordering::Relaxed) == runs;
        let idle = |now: &mut Now| now.engine.is_none() && !now.over && told(now.runs);
        let waited = self.live.changed.wait_timeout_while(self.live.now(), patience, idle);
        let mut now = waited.unwrap_or_else(PoisonError::into_inner).0;
        let (engine, run) = (now.engine.clone()?, now.runs);
        let mut seen = engine.rounds();
        let mut since = vec![Instant::now(); seen.len()];
        loop {
            let nap = (patience / 8).max(Duration::from_millis(1));
            now =
                self.live.changed.wait_timeout(now, nap).unwrap_or_else(PoisonError::into_inner).0;
            if now.over || now.engine.is_none() || now.runs != run {
                told(run);
                return None;
            }
            let moment = Instant::now();
            let rounds = engine.rounds();
            for ((since, before), round) in since.iter_mut().zip(&seen).zip(&rounds) {
                if before != round {
                    *since = moment;
                }
            }
            seen = rounds;
            let still = since.iter().map(|&s| moment - s).min().unwrap_or_default();
            if still >= patience {
                drop(now);
                let mut snapshot = engine.look(&self.live.plan);
                for (task, since) in snapshot.tasks.iter_mut().zip(&since) {
                    task.since = Some(moment - *since);
                }
                return Some(Stuck { snapshot, still, run });
            }
        }
    }

    /// Ends the run that `report` describes, unless it has already ended: it fails with
    /// [`RunError::Stuck`], which holds the report, after all
    /// running bodies have returned. Returns whether the run was still under way.
    pub fn end(&self, report: Stuck) -> bool {
        // Locked until the run has failed, so that no other run begins meanwhile.
        let now = self.live.now();
        let Some(engine) = now.engine.as_ref().filter(|_| now.runs == report.run) else {
            return false;
        };
        engine.fail(Failure::Stuck(Box::new(report)));
        true
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("running", &self.live.now().engine.is_some())
            .finish_non_exhaustive()
    }
}

impl<'env> Overlay<'env> {
    /// Skips the deadlock check, to demonstrate a deadlock. The result runs over its queues only,
    /// under a watch.
    ///
    /// # Errors
    /// The errors describe a faulty declaration; never [`CheckError::Cycle`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
    ///
    /// let (x, y) = (Location::new("x", ()), Location::new("y", ()));
    /// let mut overlay = Overlay::new();
    /// let a = overlay.task("a", (x.write(), y.write()), |_, _| ());
    /// let b = overlay.task("b", (x.write(), y.write()), |_, _| ());
    /// overlay.order(&x, [a, b]);
    /// overlay.order(&y, [b, a]);
    /// let mut overlay = overlay.unchecked(Initial::Program)?;
    /// let error = overlay
    ///     .run(Runner::pool(2), Stop::after(1), Duration::from_millis(20))
    ///     .unwrap_err();
    /// assert!(error
    ///     .to_string()
    ///     .ends_with("a deadlock: 'a' waits at 'y' for 'b', 'b' waits at 'x' for 'a'"));
    /// # Ok::<(), syncline_overlay::error::CheckError>(())
    /// ```
    pub fn unchecked(self, initial: Initial) -> Result<Unchecked<'env>, CheckError> {
        let queues = self.plan().queues(&initial)?;
        Ok(Unchecked(self.into_checked(queues, None)))
    }
}

impl Checked<'_> {
    /// Creates a watch, which observes runs of this overlay from other threads: which task waits
    /// for which, and whether anything moves.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(&self.live)
    }
}

/// An overlay that was not checked and may deadlock. Returned by
/// [`Overlay::unchecked`](crate::Overlay::unchecked).
pub struct Unchecked<'env>(pub(crate) Checked<'env>);

impl Unchecked<'_> {
    /// Runs the tasks over their queues like [`Checked::run`](crate::Checked::run), with a thread
    /// that watches: if nothing moves for `patience`, the run fails with a report. So the call
    /// returns as long as bodies end. A run whose bodies take longer than `patience` may fail, too.
    ///
    /// # Errors
    /// [`RunError::Stuck`] shows which task waits for which. Other errors are those of a checked
    /// overlay.
    pub fn run(
        &mut self,
        runner: Runner,
        stop: Stop,
        patience: Duration,
    ) -> Result<RunReport, RunError> {
        let watch = self.0.watch();
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !watch.live.now().over {
                    if let Some(stuck) = watch.stuck(patience) {
                        watch.end(stuck);
                    }
                }
            });
            // A panic is held back until the watcher has ended, since the scope waits for it.
            let done = catch_unwind(AssertUnwindSafe(|| self.0.run(runner.over_queues(), stop)));
            watch.live.close();
            done
        });
        watch.live.now().over = false;
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Returns the queues of the first requests, as each run begins with them.
    #[must_use]
    pub fn start(&self) -> Snapshot {
        self.0.start()
    }
}

impl fmt::Debug for Unchecked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unchecked").field(&self.0).finish()
    }
}

//! Threads that begin together, each on its place.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use syncline_sync::space::Shared;

use crate::error::{Result, failed};
use crate::places::Places;

/// A value on cache lines of its own: two lines, because some processors fetch them in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

// SAFETY: the value is one word, alone on its lines; 0 is valid, and is what `Default` creates; it
// is changed by atomic operations only.
unsafe impl Shared for Line<AtomicU64> {}

/// The phase of a run: members wait for its beginning, and may check for its end.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Phase(Line<AtomicU64>);

// SAFETY: the only field is the word; 0 is `EARLY`, which `Default` creates.
unsafe impl Shared for Phase {}

const EARLY: u64 = 0;
const OPEN: u64 = 1;
const TIMED: u64 = 2;
const OVER: u64 = 3;
/// Not all threads could be started: none begins.
const ABANDONED: u64 = 4;

impl Phase {
    /// Returns whether members have begun and are not timed yet.
    #[inline]
    pub(crate) fn is_warm_up(&self) -> bool {
        // Relaxed: only the number is communicated; the same holds for all other accesses here.
        self.0.0.load(Ordering::Relaxed) == OPEN
    }

    /// Returns whether members are timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) == TIMED
    }

    /// Lets members begin.
    pub(crate) fn open(&self) {
        self.0.0.store(OPEN, Ordering::Relaxed);
    }

    /// Begins the timed phase.
    pub(crate) fn time(&self) {
        self.0.0.store(TIMED, Ordering::Relaxed);
    }

    /// Ends the run.
    pub(crate) fn end(&self) {
        self.0.0.store(OVER, Ordering::Relaxed);
    }

    /// Cancels the run before any member begins.
    fn abandon(&self) {
        self.0.0.store(ABANDONED, Ordering::Relaxed);
    }

    /// Blocks until members may begin, and returns whether they may. They may begin even if the run
    /// is over by then.
    pub(crate) fn begins(&self) -> bool {
        loop {
            match self.0.0.load(Ordering::Relaxed) {
                EARLY => thread::yield_now(),
                phase => return phase != ABANDONED,
            }
        }
    }
}

/// The results of a team.
#[derive(Debug)]
pub(crate) struct Done<T> {
    /// The results of the members.
    pub(crate) members: Vec<T>,
    /// Whether each member had its own processor, if there is one for each.
    pub(crate) pinned: bool,
}

/// Calls each of `bodies` in its own thread, pinned to one of the places if there are any, and
/// `lead` in the calling thread, when all threads have started.
///
/// # Errors
/// If a thread cannot be started; in this case no body is called.
pub(crate) fn team<T: Send>(
    places: Option<&Places>,
    phase: &Phase,
    bodies: impl IntoIterator<Item = impl FnOnce() -> T + Send>,
    lead: impl FnOnce(),
) -> Result<Done<T>> {
    let (ready, unpinned) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (me, body) in bodies.into_iter().enumerate() {
            let start = move || {
                if places.is_some_and(|places| !places.pin(me)) {
                    unpinned.store(true, Ordering::Relaxed);
                }
                ready.fetch_add(1, Ordering::Relaxed);
                phase.begins().then(body)
            };
            match thread::Builder::new().spawn_scoped(scope, start) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    phase.abandon();
                    return Err(failed("start a thread", error));
                }
            }
        }
        while ready.load(Ordering::Relaxed) < threads.len() {
            thread::yield_now();
        }
        phase.open();
        lead();
        let ended = threads.into_iter().map(|thread| thread.join().ok().flatten());
        let members = ended.collect::<Option<Vec<T>>>().ok_or("a member panicked")?;
        Ok(Done { members, pinned: !unpinned.load(Ordering::Relaxed) })
    })
}

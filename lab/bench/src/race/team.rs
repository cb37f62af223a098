//! Threads that begin together, each at its place.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use syncline_sync::space::Shared;

use crate::error::{Result, failed};
use crate::places::Places;

/// Something on cache lines of its own: two, as some processors fetch them in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

// SAFETY: a word, alone on its lines; 0 is what `Default` makes, and it is changed by atomic
// operations only.
unsafe impl Shared for Line<AtomicU64> {}

/// What members look at before they begin, and may look at to see when to end.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Phase(Line<AtomicU64>);

// SAFETY: the word in it; 0 is early, which `Default` makes.
unsafe impl Shared for Phase {}

const EARLY: u64 = 0;
const OPEN: u64 = 1;
const TIMED: u64 = 2;
const OVER: u64 = 3;
/// Not all threads could be started: none begins.
const ABANDONED: u64 = 4;

impl Phase {
    /// Whether members have begun and are not timed yet.
    #[inline]
    pub(crate) fn is_warm_up(&self) -> bool {
        // Relaxed: nothing but the number is handed over; the same holds for all others here.
        self.0.0.load(Ordering::Relaxed) == OPEN
    }

    /// Whether members are timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) == TIMED
    }

    /// Lets members begin.
    pub(crate) fn open(&self) {
        self.0.0.store(OPEN, Ordering::Relaxed);
    }

    /// Tells members that they are timed from now on.
    pub(crate) fn time(&self) {
        self.0.0.store(TIMED, Ordering::Relaxed);
    }

    /// Tells members to end.
    pub(crate) fn end(&self) {
        self.0.0.store(OVER, Ordering::Relaxed);
    }

    /// Tells members that they will never begin.
    fn abandon(&self) {
        self.0.0.store(ABANDONED, Ordering::Relaxed);
    }

    /// Waits until members may begin, which they may even if it is all over by then; whether they
    /// may.
    pub(crate) fn begins(&self) -> bool {
        loop {
            match self.0.0.load(Ordering::Relaxed) {
                EARLY => thread::yield_now(),
                phase => return phase != ABANDONED,
            }
        }
    }
}

/// What a team has done.
#[derive(Debug)]
pub(crate) struct Done<T> {
    /// What came of each member.
    pub(crate) members: Vec<T>,
    /// Whether each member had a processor of its own, if there is one for each.
    pub(crate) pinned: bool,
}

/// Calls each of `bodies` in a thread of its own, pinned to one of the places if there are any, and
/// `lead` in this one, when all threads have started.
///
/// # Errors
/// When a thread cannot be started: then no body is called.
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

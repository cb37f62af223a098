//! The progress that a waiting thread makes for a library which needs calls of its threads.
//!
//! # Contract
//! Some libraries do their work only inside calls: an MPI completes a message when the program is
//! in one of its functions, and a partner may wait for that message before it raises the signal
//! that this thread waits for. Such a library is [installed](install) as a [`Progress`]. From then
//! on a wait that would sleep sleeps for a short time, calls [`Progress::advance`], sleeps a little
//! longer, and so on, until it is over. A wake-up ends a short sleep like any other.
//!
//! ```text
//! pauses, yields │ 50 us, advance │ 50 us, advance │ 100 us, advance │ ... │ 500 us, advance ...
//! ───────────────┼──────────────────────────────────────────────────────────────────────────> time
//! as ever        │ where the wait would sleep; after `Busy` it looks again or yields instead
//! ```
//! While computing threads keep the processors busy, so that waits do not yield, the first sleep
//! lasts for 5 ms.
//!
//! | wait                                    | calls `advance`                                  |
//! |-----------------------------------------|--------------------------------------------------|
//! | [`Signal`], [`EventCount`]              | between short sleeps                             |
//! | [`PollSchedule::driving`]               | before each sleep                                |
//! | [`SpinWait`] of an unusually long policy | when it asks for deaths, then each millisecond  |
//!
//! Other schedules do not call it: their threads drive what they wait for, or wait for a few
//! instructions of another thread.
//!
//! No `advance` is called from within another one of the same thread, nor after the drop of
//! [`Installed`] has returned.
//!
//! # Costs
//! Nothing in the pauses and yields of a wait. Before a sleep, while nothing is installed: one
//! relaxed load. While something is: a time limit for the first sleep, and if it passes some 2000
//! calls and sleeps a second for each waiting thread that takes part. A thread that takes no part
//! sleeps as ever from then on.
//!
//! # Source
//! The progress engines of MPI libraries, which all blocking calls drive (Gropp and Lusk, 1996).
//! That waits in memory drive the engine of another library is Syncline's own.
//!
//! [`EventCount`]: crate::event_count::EventCount
//! [`PollSchedule::driving`]: crate::poll_schedule::PollSchedule::driving
//! [`Signal`]: crate::Signal
//! [`SpinWait`]: crate::spin_wait::SpinWait

use std::cell::Cell;
use std::fmt;
// Not those of the models: in a model nothing is installed or removed while threads run.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use crate::plant;
use crate::primitive::{hint, yield_now};
use crate::try_yield::{may_yield, try_yield};

/// The sleep before the first call, after the yields of a wait.
const FIRST: Duration = Duration::from_micros(50);
/// The sleep before the first call of a wait that has not yielded, as computing threads keep the
/// processors busy. It is longer than a tick of the scheduler: a shorter one sets the processor's
/// timer, which takes microseconds in a virtual machine, while such a wait may be over in one.
const FIRST_BUSY: Duration = Duration::from_millis(5);
/// The longest sleep between two calls; each is twice as long as the last.
const LONGEST: Duration = Duration::from_micros(500);
/// The number of calls that follow one another between two yields: the next message of a partner
/// that waits for each takes less time than a yield.
const LOOKS: u32 = 16;

/// A library that does its work only inside calls.
pub trait Progress: Send + Sync + fmt::Debug {
    /// Does what there is to do, if this thread may. It must neither block nor wait.
    fn advance(&self) -> Advance;
}

/// What an [`advance`](Progress::advance) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Advance {
    /// This thread takes no part, and may sleep as if nothing were installed.
    NoPart,
    /// There was nothing to do.
    Idle,
    /// There was something to do a moment ago, so more may follow soon.
    Busy,
}

/// The number of installed libraries.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ALL: RwLock<Vec<(usize, Arc<dyn Progress>)>> = RwLock::new(Vec::new());

thread_local! {
    /// Whether this thread is in `advance`.
    static IS_IN: Cell<bool> = const { Cell::new(false) };
}

/// A library whose progress waits make until this is dropped. The drop returns when no thread is in
/// its [`advance`](Progress::advance) any more.
#[derive(Debug)]
#[must_use = "waits make no progress for the library once this is dropped"]
pub struct Installed(usize);

/// Makes all waits of this process that sleep make progress for a library.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use syncline_signal::progress::{Advance, Progress, install};
/// use syncline_signal::{Policy, Signal};
///
/// /// Raises the signal at the third call.
/// #[derive(Debug)]
/// struct Library(AtomicU64, Signal);
///
/// impl Progress for Library {
///     fn advance(&self) -> Advance {
///         if self.0.fetch_add(1, Ordering::Relaxed) == 2 {
///             self.1.raise_to(1);
///         }
///         Advance::Idle
///     }
/// }
///
/// let library = Arc::new(Library(AtomicU64::new(0), Signal::new(0)));
/// let installed = install(library.clone());
/// library.1.wait_until(1, &Policy::default(), None)?; // no other thread raises it
/// drop(installed);
/// # Ok::<(), syncline_signal::WaitError>(())
/// ```
pub fn install(progress: Arc<dyn Progress>) -> Installed {
    let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
    let key = all.last().map_or(0, |(key, _)| key + 1);
    all.push((key, progress));
    // Relaxed: the lock publishes the list. A wait that has begun to sleep before does not notice.
    COUNT.store(all.len(), Ordering::Relaxed);
    Installed(key)
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(key, _)| *key != self.0);
        COUNT.store(all.len(), Ordering::Relaxed); // as above
    }
}

/// Whether anything is installed.
#[inline]
pub(crate) fn is_installed() -> bool {
    COUNT.load(Ordering::Relaxed) != 0 && !plant::is("progress: never made")
}

/// Makes progress once for everything that is installed.
pub(crate) fn advance() -> Advance {
    if !is_installed() || IS_IN.replace(true) {
        return Advance::NoPart;
    }
    /// Ends the call, also by a panic.
    struct Call;
    impl Drop for Call {
        fn drop(&mut self) {
            IS_IN.set(false);
        }
    }
    let _call = Call;
    // It does not wait: in a child made by fork the lock may be held by a thread that is not there.
    let all = match ALL.try_read() {
        Ok(all) => all,
        Err(TryLockError::Poisoned(all)) => all.into_inner(),
        Err(TryLockError::WouldBlock) => return Advance::Idle,
    };
    all.iter().map(|(_, progress)| progress.advance()).max().unwrap_or(Advance::NoPart)
}

/// The first sleep of a wait, before any progress.
pub(crate) fn first_sleep() -> Duration {
    if may_yield(Instant::now()) { FIRST } else { FIRST_BUSY }
}

/// What a wait does next that would sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Sleeps as long as it likes.
    Sleep,
    /// Sleeps for this time at most.
    SleepAtMost(Duration),
    /// Looks again at once.
    Look,
}

/// One sleep of a wait, cut into short ones.
#[derive(Debug)]
pub(crate) struct Driver {
    interval: Duration,
    looks: u32,
}

impl Driver {
    pub(crate) fn new() -> Driver {
        Driver { interval: FIRST, looks: 0 }
    }

    /// Makes progress, and returns what the wait does next.
    pub(crate) fn next(&mut self) -> Next {
        if plant::is("progress: made once") && self.interval > FIRST {
            return Next::Sleep;
        }
        let advanced = advance();
        let interval = self.interval;
        self.interval = (2 * interval).min(LONGEST);
        match advanced {
            Advance::NoPart => Next::Sleep,
            // A model has no time.
            _ if cfg!(loom) => {
                yield_now();
                Next::Look
            }
            Advance::Idle => Next::SleepAtMost(interval),
            Advance::Busy => {
                self.interval = FIRST;
                self.looks += 1;
                let now = Instant::now();
                // While computing threads keep the processors busy, the partner may need this one.
                if !may_yield(now) {
                    return Next::SleepAtMost(FIRST / 10);
                }
                if self.looks.is_multiple_of(LOOKS) {
                    try_yield(now);
                } else {
                    hint::spin_loop();
                }
                Next::Look
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! Who takes part, who has left, and who is dead: what ends waits that would last for ever.
//!
//! | who        | does                                                                                   |
//! |------------|----------------------------------------------------------------------------------------|
//! | a member   | takes its seat; on leaving writes in how many episodes it has done its part             |
//! | a watcher  | (a launcher, say) declares a member dead in [`Deaths`], or gives it up, once             |
//! | a waiter   | looks at both, at least ten times a second, and never while what it waits for is there   |
//!
//! A seat that was left after `e` episodes ends the waits of those who are in a later one. Those who are still in
//! episode `e` go on: the one who left had done its part.

use std::sync::OnceLock;
use std::time::Duration;

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Policy, Watch};

use crate::error::{Fault, SpaceError};
use crate::space::{Array, Space};

/// How many members a barrier or lock can have.
pub const MAX_MEMBERS: usize = 4096;

/// Stands in [`Deaths`], where ranks of members do, for whoever has started them and watches them.
pub const LAUNCHER: usize = MAX_MEMBERS;

/// The dead of a team, in the order in which they were declared, and those who were given up. A clone is the same list.
///
/// | told by                      | known of the member                  | waits for it | what it holds of a lock     |
/// |------------------------------|--------------------------------------|--------------|-----------------------------|
/// | [`give_up`](Deaths::give_up) | it does not do its part any more      | end          | it keeps until it lets go   |
/// | [`declare`](Deaths::declare) | nothing of it runs any more           | end          | is taken from it, by repair |
///
/// ```
/// use syncline_sync::{Deaths, Space};
///
/// let deaths = Deaths::within(&mut Space::heap(), 4)?;
/// deaths.give_up(2);
/// assert_eq!((deaths.count(), deaths.after(0), deaths.includes(2)), (1, Some(2), true));
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Deaths {
    /// 0, or 1 + the rank; in the upper half the process that is gone, or 0 if the member was given up.
    words: Array<AtomicU64>,
}

/// A wait for anything else, such as a [`Signal`](syncline_signal::Signal) that stands in the team's memory, ends when
/// anybody is dead or given up, of whom it names the first.
///
/// ```
/// use syncline_signal::{Policy, Signal, WaitError};
/// use syncline_sync::{Deaths, Space};
///
/// let deaths = Deaths::within(&mut Space::heap(), 4)?;
/// deaths.give_up(2);
/// let waited = Signal::new(0).wait_until(1, &Policy::default().watching(&deaths), None);
/// assert_eq!(waited, Err(WaitError::Dead { who: 2 }));
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
impl Watch for Deaths {
    fn who(&self) -> Option<u32> {
        self.after(0).map(|rank| rank as u32)
    }
}

/// Where the process stands in a word of [`Deaths`].
const PROCESS: u32 = 32;

fn rank_in(word: u64) -> Option<usize> {
    (word as u32).checked_sub(1).map(|rank| rank as usize)
}

impl Deaths {
    /// A list for `members`, all of them alive.
    ///
    /// # Errors
    /// If the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<Deaths, SpaceError> {
        possible(members)?;
        // One may be given up, and then be dead.
        Ok(Deaths { words: space.array(2 * members)? })
    }

    /// Tells that a member, or [`LAUNCHER`], does not do its part: everybody who waits for it, and waits with this list,
    /// is told within a fifth of a second. It may live: what it holds of locks it holds until it lets go, and if it never
    /// does, a recovery ends at its deadline only. Once is enough; more often changes nothing.
    pub fn give_up(&self, rank: usize) {
        self.enter(rank, 0);
    }

    /// Tells that a member is dead, which is, or was, in the process of that number
    /// ([`std::process::id`]). As [`give_up`](Self::give_up); and what it held of locks by handles that were taken in this
    /// process, a repair hands on.
    ///
    /// # Safety
    /// No lock that watches this list is, or will be, asked for or held by a handle for this rank that was taken in this
    /// process, or dropped there. So it is if the process has ended; or if the handle was passed to `mem::forget`, or is
    /// never touched again. Otherwise two may hold a lock at once, with two exclusive references to what it guards.
    pub unsafe fn declare(&self, rank: usize, process: u32) {
        self.enter(rank, process);
    }

    fn enter(&self, rank: usize, process: u32) {
        let entry = u64::from(process) << PROCESS | (rank as u64 + 1);
        for word in &*self.words {
            // Release: what was written before (how it ended, say) is seen by whoever reads the word. Pairs with the
            // Acquire below.
            match word.compare_exchange(0, entry, Ordering::Release, Ordering::Relaxed) {
                Err(other) if other != entry && (process != 0 || rank_in(other) != Some(rank)) => (),
                _ => return,
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        // Acquire: pairs with the Release in `enter`.
        self.words.iter().map(|word| word.load(Ordering::Acquire)).take_while(|&word| word != 0)
    }

    /// How many are dead or given up; one that was given up and died later counts twice.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries().count()
    }

    /// The one who died, or was given up, when `known` had been already.
    #[must_use]
    pub fn after(&self, known: usize) -> Option<usize> {
        // Acquire: as above.
        self.words.get(known).and_then(|word| rank_in(word.load(Ordering::Acquire)))
    }

    /// Whether a member is dead or given up.
    #[must_use]
    pub fn includes(&self, rank: usize) -> bool {
        self.entries().any(|word| rank_in(word) == Some(rank))
    }

    /// Whether the member was declared dead as one of this process.
    pub(crate) fn gone(&self, rank: usize, process: u32) -> bool {
        process != 0 && self.entries().any(|word| word == u64::from(process) << PROCESS | (rank as u64 + 1))
    }
}

/// How members wait unless told otherwise: as the policy of everything here, but without pauses if they outnumber the cores
/// of this process. Then whoever is waited for needs the core.
pub(crate) fn usual(members: usize) -> Policy<'static> {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    let policy = Policy::default();
    if members > cores { Policy { pauses: 0, ..policy } } else { policy }
}

/// Between two looks of one who cannot be woken: others take their time.
pub(crate) fn pause() {
    #[cfg(not(loom))]
    std::thread::sleep(Duration::from_micros(100));
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// The seats of a barrier or lock: a word for each member.
///
/// 0: free; 1: taken; 2 + e: left when it had done its part in e episodes.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    words: Array<AtomicU64>,
}

const FREE: u64 = 0;
const TAKEN: u64 = 1;
const LEFT: u64 = 2;

/// Whether there can be so many members: to be asked before anything is computed from the number.
pub(crate) fn possible(members: usize) -> Result<(), SpaceError> {
    match members {
        1..=MAX_MEMBERS => Ok(()),
        _ => Err(SpaceError::Members { members, most: MAX_MEMBERS }),
    }
}

impl Seats {
    pub(crate) fn within(space: &mut Space, members: usize) -> Result<Seats, SpaceError> {
        possible(members)?;
        Ok(Seats { words: space.array(members)? })
    }

    pub(crate) fn members(&self) -> usize {
        self.words.len()
    }

    fn take(&self, rank: usize) -> Result<(), SpaceError> {
        let word = self.words.get(rank).ok_or(SpaceError::Rank { rank, members: self.words.len() })?;
        // Relaxed, here and below: a seat stands for itself; what members tell one another goes by other words.
        word.compare_exchange(FREE, TAKEN, Ordering::Relaxed, Ordering::Relaxed)
            .map(|_| ())
            .map_err(|_| SpaceError::Taken { rank })
    }

    /// A member who left before it had done its part in `episodes`.
    fn left_before(&self, episodes: u64) -> Option<usize> {
        self.words.iter().position(|word| {
            let state = word.load(Ordering::Relaxed);
            state >= LEFT && state - LEFT < episodes
        })
    }
}

/// A member's seat, and how it waits. To drop it is to leave.
#[derive(Debug)]
pub(crate) struct Vigil {
    seats: Seats,
    deaths: Option<Deaths>,
    pub(crate) rank: usize,
    /// Episodes completed.
    pub(crate) episodes: u64,
    /// Episodes for which the others need nothing of this member any more.
    pub(crate) parts: u64,
    /// How many deaths this member knows of and goes on in spite of.
    pub(crate) known: usize,
    pauses: u32,
    yield_for: Duration,
    /// Looks that found nothing, since the last question who is gone.
    misses: u32,
}

/// So many looks that find nothing go by before a member that only looks asks who is gone.
const LOOKS: u32 = 256;

impl Vigil {
    pub(crate) fn new(seats: &Seats, deaths: Option<&Deaths>, rank: usize) -> Result<Vigil, SpaceError> {
        seats.take(rank)?;
        let Policy { pauses, yield_for, .. } = usual(seats.members());
        let (seats, deaths) = (seats.clone(), deaths.cloned());
        Ok(Vigil { seats, deaths, rank, episodes: 0, parts: 0, known: 0, pauses, yield_for, misses: 0 })
    }

    pub(crate) fn members(&self) -> usize {
        self.seats.members()
    }

    /// How to wait: spinning and yielding as `policy` says, and asking who is gone.
    pub(crate) fn policy(&self) -> Policy<'_> {
        // In models nobody leaves, and to look for them would make many more.
        let death: Option<&dyn Watch> = if cfg!(loom) { None } else { Some(self) };
        Policy { pauses: self.pauses, yield_for: self.yield_for, death }
    }

    pub(crate) fn set_policy(&mut self, policy: &Policy<'_>) {
        (self.pauses, self.yield_for) = (policy.pauses, policy.yield_for);
    }

    /// Who ends a wait in the episode after those that are complete.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let dead = self.deaths.as_ref().and_then(|deaths| deaths.after(self.known));
        let left = || self.seats.left_before(self.episodes + 1).map(|rank| Fault::Left { rank });
        dead.map(|rank| Fault::Dead { rank }).or_else(left)
    }

    /// After a look that found nothing: now and then, who is gone.
    pub(crate) fn missed(&mut self) -> Result<(), Fault> {
        self.misses += 1;
        if self.misses < LOOKS {
            return Ok(());
        }
        self.misses = 0;
        self.fault().map_or(Ok(()), Err)
    }
}

impl Watch for Vigil {
    fn who(&self) -> Option<u32> {
        self.fault().map(|fault| match fault {
            Fault::Dead { rank } | Fault::Left { rank } => rank as u32,
            Fault::TimedOut => u32::MAX,
        })
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        // A model that has failed has no words any more.
        if cfg!(loom) && std::thread::panicking() {
            return;
        }
        self.seats.words[self.rank].store(LEFT + self.parts.max(self.episodes), Ordering::Relaxed);
    }
}

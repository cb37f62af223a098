//! Membership: the members that take part, have left, or are dead.
//!
//! A wait for a member that is gone would never end; this module ends it.
//!
//! | role     | action                                                                            |
//! |----------|-----------------------------------------------------------------------------------|
//! | member   | takes its seat; on leaving, stores the number of episodes it has done its part in |
//! | detector | (such as a launcher) declares a member dead or given up in [`FaultList`], once;   |
//! |          | reports processes that have ended, which may not have left their seats            |
//! | waiter   | checks both at least ten times a second, but not if its condition holds           |
//!
//! A seat that was left after `e` episodes ends the waits of members that are in a later episode.
//! Members still in episode `e` proceed, as the member that left had done its part. (In barriers
//! where a member forwards arrivals of others, it has done its part when it has observed the
//! episode complete.)
//!
//! # Why waits poll
//! Waking all threads that sleep anywhere in a segment would need a list of them, which a
//! process that dies could break. So each wait checks for missing members ten times a second,
//! while it sleeps anyway.
//!
//! # Why seats have the number of a process
//! A process that has ended well is missing only where it has left something behind, and a
//! repair takes from a dead process what that process held for any rank.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use syncline_process::Generation;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, WaitError, plant};

use crate::call_matching::{Blocking, Caller, Needs};
use crate::error::{Fault, Silence, SpaceError};
use crate::space::{Array, Shared, Space};
use crate::traced::Traced;

/// The maximum number of members of a barrier or lock.
pub const MAX_MEMBERS: usize = 4096;

/// Stands in a [`FaultList`] for the process that started the members and watches them.
pub const LAUNCHER: usize = MAX_MEMBERS;

/// The faults of a team: members that are dead, have left or were given up, in the order of their
/// declaration. A clone is the same list.
///
/// | entry by                | of a member             | ends waits        | its locks are      |
/// |-------------------------|-------------------------|-------------------|--------------------|
/// | [`give_up`], [`report`] | it does not do its part | all with the list | kept by the member |
/// | [`declare_dead`]        | none of its code runs   | all with the list | freed by a repair  |
/// | [`process_ended`]       | its process has ended   | that need it      | freed by a repair  |
///
/// The list has room for three entries per member; further entries are lost.
///
/// [`give_up`]: FaultList::give_up
/// [`report`]: FaultList::report
/// [`declare_dead`]: FaultList::declare_dead
/// [`process_ended`]: FaultList::process_ended
///
/// ```
/// use syncline_sync::{Space, membership::FaultList};
///
/// let fault_list = FaultList::within(&mut Space::heap(), 4)?;
/// fault_list.give_up(2);
/// assert_eq!((fault_list.count(), fault_list.after(0)), (1, Some(2)));
/// assert!(fault_list.includes(2));
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FaultList {
    entries: Array<Entry>,
    members: usize,
    /// The caller that notes the waits of a barrier made with this list.
    caller: Option<Caller>,
}

/// An entry: 0 if unused; otherwise 1 + the rank of the member (0: none), the kind of fault above
/// it, and in the upper half the process, if there is one, or the milliseconds for which a member
/// was silent.
///
/// A private type, so that no other code can have an array of it at the same place of a segment.
#[derive(Debug, Default)]
#[repr(transparent)]
struct Entry(AtomicU64);

// SAFETY: a word, without pointers or drop, changed by atomic operations only; 0 is an unused
// entry.
unsafe impl Shared for Entry {}

/// With this implementation, a wait for anything else, such as a
/// [`Signal`](syncline_signal::Signal) in the team's memory, ends when any member is dead or given
/// up, and reports the first such member.
///
/// ```
/// use syncline_signal::{Policy, Signal, WaitError};
/// use syncline_sync::{Space, membership::FaultList};
///
/// let fault_list = FaultList::within(&mut Space::heap(), 4)?;
/// fault_list.give_up(2);
/// let waited = Signal::new(0).wait_until(1, &Policy::default().watching(&fault_list), None);
/// assert_eq!(waited, Err(WaitError::Dead { member: 2 }));
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
impl Liveness for FaultList {
    fn gone(&self) -> Option<u32> {
        self.after(0).map(|rank| rank as u32)
    }
}

/// The position of the process in an entry.
const PROCESS: u32 = 32;
/// The whole process has ended.
const ENDED: u64 = 1 << 31;
/// The kind of fault; none of these bits: the member is dead.
const REPORTED: u64 = 1 << 30;
const SILENT: u64 = 1 << 29;
const GONE: u64 = 1 << 28;
const RANK: u64 = GONE - 1;

fn rank_in(word: u64) -> Option<usize> {
    ((word & RANK) as usize).checked_sub(1)
}

/// Returns the fault of the member in an entry.
fn fault_in(word: u64) -> Option<Fault> {
    let rank = rank_in(word)?;
    Some(match word & (REPORTED | SILENT | GONE) {
        GONE => Fault::Left { rank },
        SILENT => Fault::Silent(Silence::new(rank, (word >> PROCESS) as u32)),
        REPORTED => Fault::Reported { rank },
        _ => Fault::Dead { rank },
    })
}

impl FaultList {
    /// Creates a list for `members`, all of them alive.
    ///
    /// # Errors
    /// Errors of [`Space::array`] if the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<FaultList, SpaceError> {
        possible(members)?;
        // A member may be given up, then die, and then its process may end; one more for the
        // launcher.
        Ok(FaultList { entries: space.array(3 * members + 1)?, members, caller: None })
    }

    /// Returns the same list, for a barrier in which the caller's member takes its seat and notes
    /// its waits. The members of the barrier are those of the team with the same ranks, or those
    /// that the caller is [among](Caller::among).
    #[must_use]
    pub fn called(&self, caller: Option<Caller>) -> FaultList {
        FaultList { caller, ..self.clone() }
    }

    /// Declares that a member, or [`LAUNCHER`], does not do its part. Waits with this list end
    /// within 0.2 s. The member may be alive: it keeps its locks until it releases them, and if it
    /// never does, a recovery ends only at its deadline. A repeated call has no effect, nor has a
    /// rank that is not a member's.
    pub fn give_up(&self, rank: usize) {
        self.enter(Some(rank), 0);
    }

    /// As [`give_up`](Self::give_up), with the fault that was observed: waits end with this fault.
    /// A fault that concerns no member has no effect.
    pub fn report(&self, fault: Fault) {
        let seen = match fault {
            Fault::Dead { .. } => 0,
            Fault::Left { .. } => GONE,
            Fault::Silent(silence) => SILENT | u64::from(silence.milliseconds()) << PROCESS,
            Fault::Reported { .. } => REPORTED,
            Fault::TimedOut | Fault::Mismatch { .. } | Fault::Differs(_) | Fault::Forked { .. } => {
                return;
            }
        };
        self.enter(fault.rank(), seen);
    }

    /// Declares that a member is dead that runs, or ran, in the process with the number `process`
    /// ([`std::process::id`]). As [`give_up`](Self::give_up); in addition, a repair releases the
    /// locks that the member held by handles taken in this process.
    ///
    /// # Safety
    /// For each lock that watches this list, the handle for this rank that was taken in this
    /// process must not be used to ask for the lock, hold it or be dropped, from this call on. That
    /// is so if the process has ended, or if the handle was passed to `mem::forget` or is never
    /// accessed again. Otherwise two members may hold a lock at once, with two exclusive references
    /// to its data.
    pub unsafe fn declare_dead(&self, rank: usize, process: u32) {
        self.enter(Some(rank), u64::from(process) << PROCESS);
    }

    /// Declares that a process has ended, and that the members `missed` are dead with it, as by
    /// [`declare_dead`](Self::declare_dead). Other waits end only if they need the process: if it
    /// has taken a seat of a barrier, for any rank, and not dropped it, regardless of the episodes
    /// it had completed; or if it is in the queue of a lock, from which a repair removes it.
    ///
    /// # Safety
    /// As for [`declare_dead`](Self::declare_dead), for every rank.
    pub unsafe fn process_ended(&self, process: u32, missed: Range<usize>) {
        self.enter_process(u64::from(process) << PROCESS | ENDED, missed);
    }

    /// As [`process_ended`](Self::process_ended), for a process that has exited successfully: the
    /// members `missed` have [left](Fault::Left).
    ///
    /// # Safety
    /// As for [`process_ended`](Self::process_ended).
    pub unsafe fn process_exited(&self, process: u32, missed: Range<usize>) {
        self.enter_process(u64::from(process) << PROCESS | ENDED | GONE, missed);
    }

    fn enter_process(&self, of: u64, missed: Range<usize>) {
        if missed.is_empty() {
            self.enter(None, of);
        }
        missed.for_each(|rank| self.enter(Some(rank), of));
    }

    fn enter(&self, rank: Option<usize>, of: u64) {
        if rank.is_some_and(|rank| rank >= self.members && rank != LAUNCHER) {
            return;
        }
        let entry = of | rank.map_or(0, |rank| rank as u64 + 1);
        // For a member already in the list, only an entry with an ended process adds information.
        let known = of & SILENT != 0 || of >> PROCESS == 0;
        for Entry(word) in &*self.entries {
            // Release: what was written before (the exit cause, say) is visible to each reader of
            // the entry. Pairs with the Acquire in `entries`.
            match word.compare_exchange(0, entry, Ordering::Release, Ordering::Relaxed) {
                Err(other) if other != entry && !(known && rank_in(other) == rank) => (),
                _ => return,
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        // Acquire: pairs with the Release in `enter`.
        self.entries
            .iter()
            .map(|Entry(word)| word.load(Ordering::Acquire))
            .take_while(|&word| word != 0)
    }

    /// Returns the number of entries. A member that was given up and died later has two entries,
    /// and a process that ended has one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries().count()
    }

    /// Returns the rank of the first member that died or was given up after the first `known`
    /// entries.
    #[must_use]
    pub fn after(&self, known: usize) -> Option<usize> {
        self.missing(known, |_| None)
    }

    /// Returns the fault that ends the waits of a member that ignores the first `known` entries:
    /// that of the first member after those.
    #[must_use]
    pub fn fault(&self, known: usize) -> Option<Fault> {
        self.entries().skip(known).find_map(fault_in)
    }

    /// Returns the first fault of a member, if it is in the list.
    #[must_use]
    pub fn fault_of(&self, rank: usize) -> Option<Fault> {
        self.entries().filter(|&word| rank_in(word) == Some(rank)).find_map(fault_in)
    }

    /// Like [`after`](Self::after), but also maps processes that have ended to their ranks, with
    /// `part`.
    pub(crate) fn missing(
        &self,
        known: usize,
        part: impl Fn(u32) -> Option<usize>,
    ) -> Option<usize> {
        self.entries()
            .skip(known)
            .find_map(|word| rank_in(word).or_else(|| part((word >> PROCESS) as u32)))
    }

    /// Returns whether a process has ended.
    #[must_use]
    pub fn has_ended(&self, process: u32) -> bool {
        self.entries().any(|word| word & ENDED != 0 && word >> PROCESS == u64::from(process))
    }

    /// Returns whether a process has exited successfully.
    pub(crate) fn has_exited(&self, process: u32) -> bool {
        let of = ENDED | GONE;
        self.entries().any(|word| word & of == of && word >> PROCESS == u64::from(process))
    }

    /// Returns whether a member is dead or given up.
    #[must_use]
    pub fn includes(&self, rank: usize) -> bool {
        self.entries().any(|word| rank_in(word) == Some(rank))
    }

    /// Returns whether a lock taken for a rank in this process may be released by a repair.
    pub(crate) fn gone(&self, rank: usize, process: u32) -> bool {
        let dead = |word: u64| word & ENDED != 0 || rank_in(word) == Some(rank);
        let of = |word: u64| word & SILENT == 0 && word >> PROCESS == u64::from(process);
        process != 0 && self.entries().any(|word| of(word) && dead(word))
    }
}

/// Returns the default policy: that of this library, but without pauses if members outnumber the
/// cores of this process. In that case a member that is waited for needs the core.
pub(crate) fn usual(members: usize) -> Policy<'static> {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    let policy = Policy::default();
    if members > cores { Policy { pauses: 0, ..policy } } else { policy }
}

/// Pauses between two polls of a member that cannot be woken.
pub(crate) fn pause() {
    #[cfg(not(loom))]
    std::thread::sleep(Duration::from_micros(100));
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// The seats of a barrier or lock: a word for each member.
///
/// 0: free; a process number: taken by that process; `LEFT` + e: left after the member had done its
/// part in e episodes.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    words: Array<AtomicU64>,
    pub(crate) traced: Traced,
}

const FREE: u64 = 0;
const LEFT: u64 = 1 << 63;

/// Checks the number of members; called before anything is computed from it.
pub(crate) fn possible(members: usize) -> Result<(), SpaceError> {
    match members {
        1..=MAX_MEMBERS => Ok(()),
        _ => Err(SpaceError::Members { members, most: MAX_MEMBERS }),
    }
}

impl Seats {
    pub(crate) fn within(space: &mut Space, members: usize) -> Result<Seats, SpaceError> {
        possible(members)?;
        Ok(Seats { words: space.array(members)?, traced: space.traced() })
    }

    pub(crate) fn members(&self) -> usize {
        self.words.len()
    }

    fn take(&self, rank: usize) -> Result<(), SpaceError> {
        let word =
            self.words.get(rank).ok_or(SpaceError::Rank { rank, members: self.words.len() })?;
        // Relaxed, here and in `taken_by`: a seat publishes nothing else; members synchronise by
        // other words.
        let process = u64::from(std::process::id());
        word.compare_exchange(FREE, process, Ordering::Relaxed, Ordering::Relaxed)
            .map(|_| ())
            .map_err(|_| SpaceError::Taken { rank })
    }

    /// Returns whether no process has taken the seat, in a barrier where every member of the team
    /// has one.
    fn was_never_taken(&self, rank: usize) -> bool {
        self.words.get(rank).is_some_and(|word| word.load(Ordering::Relaxed) == FREE)
    }

    /// Returns a member that left before it had done its part in `episodes` episodes.
    fn left_before(&self, episodes: u64) -> Option<usize> {
        self.words.iter().position(|word| {
            // Acquire: pairs with the Release in the drop of `Membership`, and so with the entry of
            // a death for which that member may have left.
            let state = word.load(Ordering::Acquire);
            state >= LEFT && state - LEFT < episodes
        })
    }

    /// Returns a member whose seat was taken in this process and not left.
    fn taken_by(&self, process: u32) -> Option<usize> {
        self.words.iter().position(|word| word.load(Ordering::Relaxed) == u64::from(process))
    }
}

/// A member's seat and its wait policy. Dropping it leaves the seat.
#[derive(Debug)]
pub(crate) struct Membership {
    seats: Seats,
    fault_list: Option<FaultList>,
    caller: Option<Caller>,
    pub(crate) rank: usize,
    /// The generation of the process that took the seat.
    born: Generation,
    /// The number of completed episodes.
    pub(crate) episodes: u64,
    /// The number of episodes for which the others need nothing more of this member.
    pub(crate) parts: u64,
    pauses: u32,
    yield_for: Duration,
    /// The number of failed polls since the last check for faults.
    misses: u32,
}

/// The number of failed polls after which a member that only polls checks for faults.
const LOOKS: u32 = 256;

impl Membership {
    pub(crate) fn new(
        seats: &Seats,
        fault_list: Option<&FaultList>,
        rank: usize,
    ) -> Result<Membership, SpaceError> {
        seats.take(rank)?;
        let Policy { pauses, yield_for, .. } = usual(seats.members());
        let (seats, fault_list) = (seats.clone(), fault_list.cloned());
        let caller = fault_list.as_ref().and_then(|fault_list| fault_list.caller.clone());
        let caller = caller.map(|caller| caller.seated(rank, seats.members()));
        let born = Generation::current();
        Ok(Membership {
            seats,
            fault_list,
            caller,
            rank,
            born,
            episodes: 0,
            parts: 0,
            pauses,
            yield_for,
            misses: 0,
        })
    }

    /// Fails in a child that `fork` has made of the member's process.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), Fault> {
        if self.born.is_current() { Ok(()) } else { Err(Fault::Forked { rank: self.rank }) }
    }

    pub(crate) fn members(&self) -> usize {
        self.seats.members()
    }

    pub(crate) fn traced(&self) -> Traced {
        self.seats.traced
    }

    /// Begins a wait, with this member's policy and its checks for faults.
    #[inline]
    pub(crate) fn waiting(&self, needs: Needs, deadline: Option<Instant>) -> Waiting<'_> {
        let blocking = Blocking::new(self.caller.as_ref(), self.episodes + 1, deadline);
        Waiting { membership: self, blocking: blocking.needing(needs) }
    }

    /// Notes how many steps of the next episode this member has made.
    #[inline]
    pub(crate) fn reached(&self, step: u32) {
        if let Some(caller) = &self.caller
            && self.born.is_current()
        {
            let late = u32::from(plant::is("calls: progress lags"));
            caller.reached(self.episodes + 1, step.saturating_sub(late));
        }
    }

    pub(crate) fn set_policy(&mut self, policy: &Policy<'_>) {
        (self.pauses, self.yield_for) = (policy.pauses, policy.yield_for);
    }

    /// Returns the fault that ends a wait in the current episode.
    pub(crate) fn fault(&self) -> Option<Fault> {
        // Departures are read first: a member may have left because of a death, which is then
        // reported.
        let left = self.seats.left_before(self.episodes + 1);
        let fault_list = self.fault_list.as_ref();
        let dead = fault_list.and_then(|fault_list| fault_list.fault(0));
        let part = || {
            let fault_list = fault_list?;
            let rank = fault_list.missing(0, |process| self.seats.taken_by(process))?;
            // A member that has died in the meantime is found here, too.
            Some(fault_list.fault_of(rank).unwrap_or(Fault::Left { rank }))
        };
        let found = dead.or(left.map(|rank| Fault::Left { rank })).or_else(part);
        // The verdict is read last: members that left because of it are not its cause.
        self.caller.as_ref().and_then(Caller::verdict).or(found)
    }

    /// Counts a failed poll; checks for faults after every `LOOKS` of them.
    pub(crate) fn missed(&mut self) -> Result<(), Fault> {
        self.misses += 1;
        if self.misses < LOOKS {
            return Ok(());
        }
        self.misses = 0;
        self.fault().map_or(Ok(()), Err)
    }
}

/// A wait of a member.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    membership: &'a Membership,
    pub(crate) blocking: Blocking<'a>,
}

impl Waiting<'_> {
    pub(crate) fn policy(&self) -> Policy<'_> {
        // In models no member leaves, and the check would multiply the number of states.
        let liveness: Option<&dyn Liveness> = if cfg!(loom) { None } else { Some(self) };
        Policy { pauses: self.membership.pauses, yield_for: self.membership.yield_for, liveness }
    }

    /// Returns the fault for a wait that ended early.
    #[cold]
    pub(crate) fn fault(&self, error: WaitError) -> Fault {
        match error {
            WaitError::TimedOut => Fault::TimedOut,
            _ => self.gone().unwrap_or(Fault::TimedOut),
        }
    }

    fn gone(&self) -> Option<Fault> {
        // Departures are read first, as in `Membership::fault`.
        let seats = &self.membership.seats;
        let left = self.blocking.absent_if(|rank| seats.was_never_taken(rank));
        self.membership.fault().or(left)
    }
}

impl Liveness for Waiting<'_> {
    fn gone(&self) -> Option<u32> {
        let fault = self.gone().or_else(|| self.blocking.look())?;
        Some(fault.rank().map_or(u32::MAX, |rank| rank as u32))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // After a failed model its words are gone. Only the process that took a seat leaves it.
        if cfg!(loom) && std::thread::panicking() || !self.born.is_current() {
            return;
        }
        // Release: see `left_before`.
        self.seats.words[self.rank].store(LEFT + self.parts.max(self.episodes), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::call_matching::{Call, Calls};
    use syncline_testkit::cases;

    /// A member that leaves because of a death is not reported as the cause of other failures.
    #[test]
    fn a_death_is_told_before_those_who_left_for_it() {
        for turn in 0..cases(4000) {
            let space = &mut Space::heap();
            let (seats, fault_list) =
                (Seats::within(space, 3).unwrap(), FaultList::within(space, 3).unwrap());
            let waits = Membership::new(&seats, Some(&fault_list), 0).unwrap();
            let leaves = Membership::new(&seats, Some(&fault_list), 1).unwrap();
            let fault = std::thread::scope(|scope| {
                scope.spawn(|| {
                    (0..turn % 200).for_each(|_| std::hint::spin_loop());
                    fault_list.give_up(2);
                    drop(leaves);
                });
                loop {
                    if let Some(fault) = waits.fault() {
                        break fault;
                    }
                }
            });
            assert_eq!(fault, Fault::Dead { rank: 2 }, "{turn}");
        }
    }

    /// A member that leaves because its call matches no other is not reported as the cause.
    #[test]
    fn a_verdict_is_told_before_those_who_left_for_it() {
        for turn in 0..cases(1500) {
            let space = &mut Space::heap();
            let seats = Seats::within(space, 2).unwrap();
            let calls = Calls::within(space, 2).unwrap();
            let fault_list =
                FaultList::within(space, 2).unwrap().called(calls.caller(0, 0, Call::Wait));
            let waits = Membership::new(&seats, Some(&fault_list), 0).unwrap();
            let leaves = Membership::new(&seats, None, 1).unwrap();
            let fault = std::thread::scope(|scope| {
                scope.spawn(|| {
                    (0..turn % 200).for_each(|_| std::hint::spin_loop());
                    calls.decide(u64::MAX);
                    drop(leaves);
                });
                loop {
                    if let Some(fault) = waits.fault() {
                        break fault;
                    }
                }
            });
            assert_eq!(Some(fault), calls.verdict(), "{turn}");
        }
    }

    #[test]
    fn deaths_tell_of_members_and_of_processes() {
        let fault_list = FaultList::within(&mut Space::heap(), 4).unwrap();
        // Neither a member, nor an encoding of a member and a process.
        for rank in [4, LAUNCHER + 1, 7 << PROCESS | 1, usize::MAX] {
            fault_list.give_up(rank);
        }
        assert_eq!((fault_list.count(), fault_list.after(0)), (0, None));
        // SAFETY: here as below, no handle was taken in a process of this number.
        unsafe { fault_list.process_ended(u32::MAX, 0..0) };
        assert_eq!((fault_list.count(), fault_list.after(0)), (1, None), "no member is missed");
        let part = |process| (process == u32::MAX).then_some(3);
        assert_eq!((fault_list.missing(0, part), fault_list.missing(1, part)), (Some(3), None));
        // SAFETY: no handle was taken in a process of this number.
        unsafe { fault_list.process_ended(u32::MAX - 1, 1..3) };
        assert_eq!(
            (fault_list.count(), fault_list.after(1), fault_list.after(2)),
            (3, Some(1), Some(2))
        );
        for rank in 0..4 {
            let gone = [u32::MAX, u32::MAX - 1, u32::MAX - 2, 0]
                .map(|process| fault_list.gone(rank, process));
            assert_eq!(gone, [true, true, false, false], "{rank}");
        }
        // SAFETY: no handle was taken in a process of this number.
        unsafe { fault_list.declare_dead(0, u32::MAX - 2) };
        assert_eq!([0, 1].map(|rank| fault_list.gone(rank, u32::MAX - 2)), [true, false]);
        for _ in 0..2 {
            (0..4).chain([LAUNCHER]).for_each(|rank| fault_list.give_up(rank));
        }
        assert_eq!(fault_list.count(), 6, "a dead member is not given up again");
        assert!(fault_list.includes(3) && fault_list.includes(LAUNCHER));
    }

    #[test]
    fn what_was_seen_of_a_member_is_what_is_told() {
        let fault_list = FaultList::within(&mut Space::heap(), 6).unwrap();
        let faults = [
            Fault::Left { rank: 0 },
            Fault::Silent(Silence::new(1, 86_400_000)),
            Fault::Reported { rank: 2 },
            Fault::Dead { rank: 3 },
        ];
        for fault in faults.into_iter().chain([Fault::TimedOut, Fault::Forked { rank: 5 }]) {
            fault_list.report(fault);
            // The first fault of a member remains, whatever is reported later.
            fault.rank().into_iter().for_each(|rank| fault_list.give_up(rank));
            fault
                .rank()
                .into_iter()
                .for_each(|rank| fault_list.report(Fault::Silent(Silence::new(rank, 7))));
        }
        assert_eq!(
            std::array::from_fn(|known| fault_list.fault(known)),
            [0, 1, 2, 3].map(|n| Some(faults[n]))
        );
        assert_eq!(
            (fault_list.count(), fault_list.fault_of(2), fault_list.fault_of(5)),
            (4, Some(faults[2]), None)
        );
        assert!(!fault_list.gone(1, 86_400_000), "no number of a process");
        // SAFETY: no handle was taken in a process of this number.
        unsafe { fault_list.process_exited(u32::MAX, 4..5) };
        assert_eq!(fault_list.fault(4), Some(Fault::Left { rank: 4 }));
        assert!(fault_list.gone(4, u32::MAX) && fault_list.has_ended(u32::MAX));
    }
}

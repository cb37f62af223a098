//! Who takes part, who has left, and who is dead: what ends waits that would last for ever.
//!
//! | who        | does                                                                                   |
//! |------------|----------------------------------------------------------------------------------------|
//! | a member   | takes its seat; on leaving writes in how many episodes it has done its part             |
//! | a watcher  | (a launcher, say) declares a member dead in [`FaultList`], or gives it up, once; and tells of |
//! |            | processes that have ended, whose members may have taken seats and not left them         |
//! | a waiter   | looks at both, at least ten times a second, and never while what it waits for is there   |
//!
//! A seat that was left after `e` episodes ends the waits of those who are in a later one. Those who are still in
//! episode `e` go on: the one who left had done its part. (Where it passes on what others have told it, that is when it
//! has seen the episode complete.)

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use syncline_process::Generation;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, WaitError, plant};

use crate::calls::{Blocking, Caller, Needs};
use crate::error::{Fault, Silence, SpaceError};
use crate::space::{Array, Shared, Space};

/// How many members a barrier or lock can have.
pub const MAX_MEMBERS: usize = 4096;

/// Stands in [`FaultList`], where ranks of members do, for whoever has started them and watches them.
pub const LAUNCHER: usize = MAX_MEMBERS;

/// The dead of a team, in the order in which they were declared, and those who were given up. A clone is the same list.
///
/// | told by                      | known                            | waits with the list end       | what it holds of a lock      |
/// |------------------------------|----------------------------------|-------------------------------|------------------------------|
/// | [`give_up`](FaultList::give_up), [`report`](FaultList::report) | a member does not do its part | all     | it keeps until it lets go    |
/// | [`declare_dead`](FaultList::declare_dead) | nothing of a member runs any more | all                           | is taken from it, by repair  |
/// | [`process_ended`](FaultList::process_ended)     | a process has ended               | where it has a part still      | is taken from it, by repair  |
///
/// It has room for three entries a member; more are lost.
///
/// ```
/// use syncline_sync::{Space, membership::FaultList};
///
/// let fault_list = FaultList::within(&mut Space::heap(), 4)?;
/// fault_list.give_up(2);
/// assert_eq!((fault_list.count(), fault_list.after(0), fault_list.includes(2)), (1, Some(2), true));
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FaultList {
    entries: Array<Entry>,
    members: usize,
    /// For what is made with this list: who waits there, and as what.
    caller: Option<Caller>,
}

/// 0, or 1 + the rank, if a member is meant; above it what was seen; and in the upper half the
/// process, if one is meant, or how many milliseconds a member was silent.
///
/// A type of its own: nobody else can have an array of these, at whatever place.
#[derive(Debug, Default)]
#[repr(transparent)]
struct Entry(AtomicU64);

// SAFETY: a word; 0 is nobody.
unsafe impl Shared for Entry {}

/// A wait for anything else, such as a [`Signal`](syncline_signal::Signal) that stands in the team's memory, ends when
/// anybody is dead or given up, of whom it names the first.
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

/// Where the process stands in a word of [`FaultList`].
const PROCESS: u32 = 32;
/// Of a word of [`FaultList`]: all of the process has ended.
const ENDED: u64 = 1 << 31;
/// What was seen, unless it is that a member is dead.
const REPORTED: u64 = 1 << 30;
const SILENT: u64 = 1 << 29;
const GONE: u64 = 1 << 28;
const RANK: u64 = GONE - 1;

fn rank_in(word: u64) -> Option<usize> {
    ((word & RANK) as usize).checked_sub(1)
}

/// What a word says of a member.
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
    /// A list for `members`, all of them alive.
    ///
    /// # Errors
    /// If the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<FaultList, SpaceError> {
        possible(members)?;
        // One may be given up, and then be dead, and its process have ended; and there is the launcher.
        Ok(FaultList { entries: space.array(3 * members + 1)?, members, caller: None })
    }

    /// The same list, for a barrier of which that member takes its seat: it notes its waits there.
    /// The barrier has the members of the team with their ranks, or those that the caller is
    /// [among](Caller::among).
    #[must_use]
    pub fn called(&self, caller: Option<Caller>) -> FaultList {
        FaultList { caller, ..self.clone() }
    }

    /// Tells that a member, or [`LAUNCHER`], does not do its part: everybody who waits for it, and waits with this list,
    /// is told within a fifth of a second. It may live: what it holds of locks it holds until it lets go, and if it never
    /// does, a recovery ends at its deadline only. Once is enough; more often changes nothing, nor does a rank that is
    /// none of the members.
    pub fn give_up(&self, rank: usize) {
        self.enter(Some(rank), 0);
    }

    /// As [`give_up`](Self::give_up), with what was seen: those who wait are told just that. A
    /// fault that is about no member changes nothing.
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

    /// Tells that a member is dead, which is, or was, in the process of that number
    /// ([`std::process::id`]). As [`give_up`](Self::give_up); and what it held of locks by handles that were taken in this
    /// process, a repair hands on.
    ///
    /// # Safety
    /// No lock that watches this list is, or will be, asked for or held by a handle for this rank that was taken in this
    /// process, or dropped there. So it is if the process has ended; or if the handle was passed to `mem::forget`, or is
    /// never touched again. Otherwise two may hold a lock at once, with two exclusive references to what it guards.
    pub unsafe fn declare_dead(&self, rank: usize, process: u32) {
        self.enter(Some(rank), u64::from(process) << PROCESS);
    }

    /// Tells that a process has ended, and members of these ranks with it that are missed, as by
    /// [`declare_dead`](Self::declare_dead). Other waits end only where the process has taken a part of a barrier, for whatever rank,
    /// and not dropped it, whatever it had done there, or is in the queue of a lock, which a repair takes it out of.
    ///
    /// # Safety
    /// As `declare`, for every rank.
    pub unsafe fn process_ended(&self, process: u32, missed: Range<usize>) {
        self.enter_process(u64::from(process) << PROCESS | ENDED, missed);
    }

    /// As [`process_ended`](Self::process_ended), of a process that has exited well: the members that are missed
    /// have [left](Fault::Left).
    ///
    /// # Safety
    /// As `ended`.
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
        // Of one who is in the list already, only more is entered: which process has ended with it.
        let known = of & SILENT != 0 || of >> PROCESS == 0;
        for Entry(word) in &*self.entries {
            // Release: what was written before (how it ended, say) is seen by whoever reads the word. Pairs with the
            // Acquire below.
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

    /// How many entries there are: a member that was given up and died later has two, and a process that has ended one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries().count()
    }

    /// The one who died, or was given up, when there were `known` entries already.
    #[must_use]
    pub fn after(&self, known: usize) -> Option<usize> {
        self.missing(known, |_| None)
    }

    /// Why the waits end of a member that goes on in spite of `known` entries: what was seen of the
    /// first member after those.
    #[must_use]
    pub fn fault(&self, known: usize) -> Option<Fault> {
        self.entries().skip(known).find_map(fault_in)
    }

    /// What was seen of a member first, if it is in the list.
    #[must_use]
    pub fn fault_of(&self, rank: usize) -> Option<Fault> {
        self.entries().filter(|&word| rank_in(word) == Some(rank)).find_map(fault_in)
    }

    /// Like [`after`](Self::after), but also maps processes that have ended to their ranks, as
    /// `part` tells of it.
    pub(crate) fn missing(
        &self,
        known: usize,
        part: impl Fn(u32) -> Option<usize>,
    ) -> Option<usize> {
        self.entries()
            .skip(known)
            .find_map(|word| rank_in(word).or_else(|| part((word >> PROCESS) as u32)))
    }

    /// Whether a process has ended.
    #[must_use]
    pub fn has_ended(&self, process: u32) -> bool {
        self.entries().any(|word| word & ENDED != 0 && word >> PROCESS == u64::from(process))
    }

    /// Whether a process has exited well.
    pub(crate) fn has_exited(&self, process: u32) -> bool {
        let of = ENDED | GONE;
        self.entries().any(|word| word & of == of && word >> PROCESS == u64::from(process))
    }

    /// Whether a member is dead or given up.
    #[must_use]
    pub fn includes(&self, rank: usize) -> bool {
        self.entries().any(|word| rank_in(word) == Some(rank))
    }

    /// Whether what was taken for a rank in this process can be handed on.
    pub(crate) fn gone(&self, rank: usize, process: u32) -> bool {
        let dead = |word: u64| word & ENDED != 0 || rank_in(word) == Some(rank);
        let of = |word: u64| word & SILENT == 0 && word >> PROCESS == u64::from(process);
        process != 0 && self.entries().any(|word| of(word) && dead(word))
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

/// Between two looks of a member that cannot be woken: others take their time.
pub(crate) fn pause() {
    #[cfg(not(loom))]
    std::thread::sleep(Duration::from_micros(100));
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// The seats of a barrier or lock: a word for each member.
///
/// 0: free; a number: taken by that process; `LEFT` + e: left when it had done its part in e episodes.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    words: Array<AtomicU64>,
}

const FREE: u64 = 0;
const LEFT: u64 = 1 << 63;

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
        let word =
            self.words.get(rank).ok_or(SpaceError::Rank { rank, members: self.words.len() })?;
        // Relaxed, here and in `taken_by`: a seat stands for itself; what members tell one another goes by other words.
        let process = u64::from(std::process::id());
        word.compare_exchange(FREE, process, Ordering::Relaxed, Ordering::Relaxed)
            .map(|_| ())
            .map_err(|_| SpaceError::Taken { rank })
    }

    /// Whether no process has taken the seat, where all members of the team have one.
    fn was_never_taken(&self, rank: usize) -> bool {
        self.words.get(rank).is_some_and(|word| word.load(Ordering::Relaxed) == FREE)
    }

    /// A member who left before it had done its part in `episodes`.
    fn left_before(&self, episodes: u64) -> Option<usize> {
        self.words.iter().position(|word| {
            // Acquire: pairs with the Release of who leaves, and so with the death that it may have left for.
            let state = word.load(Ordering::Acquire);
            state >= LEFT && state - LEFT < episodes
        })
    }

    /// A member whose seat was taken in this process, and not left.
    fn taken_by(&self, process: u32) -> Option<usize> {
        self.words.iter().position(|word| word.load(Ordering::Relaxed) == u64::from(process))
    }
}

/// A member's seat, and how it waits. To drop it is to leave.
#[derive(Debug)]
pub(crate) struct Membership {
    seats: Seats,
    fault_list: Option<FaultList>,
    caller: Option<Caller>,
    pub(crate) rank: usize,
    /// That of the process whose seat it is.
    born: Generation,
    /// Episodes completed.
    pub(crate) episodes: u64,
    /// Episodes for which the others need nothing of this member any more.
    pub(crate) parts: u64,
    pauses: u32,
    yield_for: Duration,
    /// Looks that found nothing, since the last question who is gone.
    misses: u32,
}

/// So many looks that find nothing go by before a member that only looks asks who is gone.
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

    /// An error in a child that `fork` has made of the member's process.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), Fault> {
        if self.born.is_current() { Ok(()) } else { Err(Fault::Forked { rank: self.rank }) }
    }

    pub(crate) fn members(&self) -> usize {
        self.seats.members()
    }

    /// A wait that begins: spinning and yielding as `policy` says, and asking who is gone.
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

    /// Who ends a wait in the episode after those that are complete.
    pub(crate) fn fault(&self) -> Option<Fault> {
        // First the members that have left: it may be for a death, which is then to be told.
        let left = self.seats.left_before(self.episodes + 1);
        let fault_list = self.fault_list.as_ref();
        let dead = fault_list.and_then(|fault_list| fault_list.fault(0));
        let part = || {
            let fault_list = fault_list?;
            let rank = fault_list.missing(0, |process| self.seats.taken_by(process))?;
            // One who has died meanwhile is found here, too.
            Some(fault_list.fault_of(rank).unwrap_or(Fault::Left { rank }))
        };
        let found = dead.or(left.map(|rank| Fault::Left { rank })).or_else(part);
        // At last the verdict: members that have left because of it are not its cause.
        self.caller.as_ref().and_then(Caller::verdict).or(found)
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

/// A wait of a member.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    membership: &'a Membership,
    pub(crate) blocking: Blocking<'a>,
}

impl Waiting<'_> {
    pub(crate) fn policy(&self) -> Policy<'_> {
        // In models no member leaves, and to look for such members would make many more states.
        let liveness: Option<&dyn Liveness> = if cfg!(loom) { None } else { Some(self) };
        Policy { pauses: self.membership.pauses, yield_for: self.membership.yield_for, liveness }
    }

    /// What a wait that has ended early has ended for.
    #[cold]
    pub(crate) fn fault(&self, error: WaitError) -> Fault {
        match error {
            WaitError::TimedOut => Fault::TimedOut,
            _ => self.gone().unwrap_or(Fault::TimedOut),
        }
    }

    fn gone(&self) -> Option<Fault> {
        // First who has left, as in `Membership::fault`.
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
        // A model that has failed has no words any more. A seat is left by the process that has
        // taken it.
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
    use crate::calls::{Call, Calls};

    /// Whoever leaves because it was told of a death is not the reason why others do.
    #[test]
    fn a_death_is_told_before_those_who_left_for_it() {
        for turn in 0..if cfg!(miri) { 5 } else { 4000 } {
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

    /// A member that leaves because its call matches no other is not the reason why others do.
    #[test]
    fn a_verdict_is_told_before_those_who_left_for_it() {
        for turn in 0..if cfg!(miri) { 5 } else { 1500 } {
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
        // None of the members, and none that could be taken for one and a process.
        for rank in [4, LAUNCHER + 1, 7 << PROCESS | 1, usize::MAX] {
            fault_list.give_up(rank);
        }
        assert_eq!((fault_list.count(), fault_list.after(0)), (0, None));
        // SAFETY: here as below, no handle was taken in a process of this number.
        unsafe { fault_list.process_ended(u32::MAX, 0..0) };
        assert_eq!((fault_list.count(), fault_list.after(0)), (1, None), "nobody is missed");
        let part = |process| (process == u32::MAX).then_some(3);
        assert_eq!((fault_list.missing(0, part), fault_list.missing(1, part)), (Some(3), None));
        // SAFETY: as above.
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
        // SAFETY: as above.
        unsafe { fault_list.declare_dead(0, u32::MAX - 2) };
        assert_eq!([0, 1].map(|rank| fault_list.gone(rank, u32::MAX - 2)), [true, false]);
        for _ in 0..2 {
            (0..4).chain([LAUNCHER]).for_each(|rank| fault_list.give_up(rank));
        }
        assert_eq!(fault_list.count(), 6, "who is dead already is not given up");
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
            // The first word stands, whatever else is told.
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

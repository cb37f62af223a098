//! Queue locks: first come, first served, for threads and for processes.
//!
//! # Contract
//! One member at a time holds the lock. What was done under it is seen by whoever holds it next. Members get it strictly
//! in the order in which they asked (FIFO): that is the policy, and its price is a hand-over to another core each time
//! that several want it. Locks that let the same thread in again are faster then, and starve.
//!
//! # Layers
//! ```text
//! Lock<R, T>      data, one handle per member, guards, poison                                    this file
//!   repair        of the queue, after a death                                                    lock/repair.rs
//!   R: RawLock    the queue: Ticket, Mcs, each in its file                                       lock/*.rs
//! ```
//!
//! # The desk of a member: a word of its own, which says how far it is
//! | number   | it                                                         | dies here: the repair         |
//! |----------|------------------------------------------------------------|-------------------------------|
//! | idle     | is not in the queue (it may have given up a place there)    | has nothing to do             |
//! | queueing | asks, or waits, or lets go                                  | empties the queue             |
//! | holding  | may change the data                                         | also poisons the lock         |
//!
//! # Repair
//! A death leaves a queue that nobody can trust: a place without an owner, a link that was never made. So a *repair* waits
//! until every member that is not known to be gone is idle (those who wait are told of the death, and give up, or get the
//! lock in their turn; who holds it ends its section first), empties the queue, and poisons the lock if the dead held it. While it lasts nobody
//! comes in. It begins when a member calls [`LockMember::recover`]; a repairer that dies is replaced by the next.
//!
//! Dekker's pattern keeps the two apart: a member marks its desk and then looks whether a repair is on; a repairer says
//! so and then looks at the desks. The member's side is passed at every acquisition, so the fence between is asymmetric.
//!
//! Handles are foreign to ranks: one for a rank may be used by any thread, and outlive what the program takes for that
//! member. So a desk notes in which process its handle was taken, and is the dead's only if that process is gone, or if
//! whoever declared the death in it vouches ([`FaultList::declare_dead`]). Else the repair waits for it.
//!
//! # Costs
//! On top of the queue's own: four stores to a line that the member has for itself, and two loads of one that changes
//! only when something is wrong.
//!
//! # Source
//! The cut between raw locks and guards is that of lock_api; poison and what may be done about it those of POSIX robust
//! mutexes and of std. The repair is our own.

mod data;
mod mcs;
mod queue;
mod repair;
mod ticket;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use bytemuck::Pod;
use syncline_process::Generation;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, Signal, WaitError, asymmetric};

use self::data::Data;
pub use self::mcs::Mcs;
use self::queue::{Inside, Queue};
use self::repair::{Unrepaired, stuck};
pub use self::ticket::Ticket;
use crate::agreement::Thing;
use crate::error::{Fault, LockError, SpaceError};
use crate::membership::{FaultList, possible, usual};
use crate::space::{Array, Element, Shared, Space};

/// A queue of members, ranked from 0: what is under a [`Lock`]. [`Ticket`] and [`Mcs`] are all there are, as the data of a
/// lock rest on them.
pub trait RawLock: Queue {}

impl RawLock for Ticket {}
impl RawLock for Mcs {}

/// How far a member is, alone on its lines.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct MemberState {
    /// The process whose handle there is for this rank; 0: there is none.
    taken: AtomicU64,
    state: AtomicU64,
}

// SAFETY: two words, for which 0 is free and idle.
unsafe impl Shared for MemberState {}

/// This file, and its repair, keep to the contract of queues.
const INSIDE: Inside = Inside(());

const IDLE: u64 = 0;
const QUEUEING: u64 = 1;
const HOLDING: u64 = 2;

/// What all look at, and what changes only when something is wrong.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Marks {
    /// Odd: a repair is on.
    repair: Signal,
    /// 1 + the rank of whoever left the data half changed; 0: nobody.
    poison: AtomicU64,
    /// 1 + the rank of the repairer.
    repairer: AtomicU64,
    /// How many deaths the last repair knew of.
    covered: AtomicU64,
}

// SAFETY: four words, for which 0 says that nothing is wrong.
unsafe impl Shared for Marks {}

/// A lock with what it guards. A clone is the same lock.
///
/// # Examples
/// ```
/// use syncline_sync::{Lock, Mcs};
///
/// let counter = Lock::<Mcs, u64>::new(2, 0)?;
/// std::thread::scope(|scope| {
///     for rank in 0..2 {
///         let mut mine = counter.member(rank).unwrap();
///         scope.spawn(move || {
///             for _ in 0..1000 {
///                 *mine.lock().unwrap() += 1;
///             }
///         });
///     }
/// });
/// assert_eq!(*counter.member(0)?.lock()?, 2000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lock<R, T = ()> {
    raw: R,
    slots: Array<MemberState>,
    marks: Element<Marks>,
    data: Data<T>,
    fault_list: Option<FaultList>,
}

impl<R: RawLock, T: Send> Lock<R, T> {
    /// A lock for threads.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize, value: T) -> Result<Self, SpaceError> {
        Self::build(&mut Space::heap(), members, |_| Ok(Data::heap(value)))
    }

    fn build(
        space: &mut Space,
        members: usize,
        data: impl FnOnce(&mut Space) -> Result<Data<T>, SpaceError>,
    ) -> Result<Self, SpaceError> {
        possible(members)?;
        let space = &mut *space.making(Thing::Lock);
        let raw = R::within(space, members)?;
        let (slots, marks) = (space.array(members)?, space.array(1)?.element(0));
        Ok(Lock { raw, slots, marks, data: data(space)?, fault_list: None })
    }

    /// The same lock; its members are told of these deaths.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Lock { fault_list: Some(fault_list.clone()), ..self }
    }

    /// How many members it has.
    #[must_use]
    pub fn members(&self) -> usize {
        self.slots.len()
    }

    /// The handle of the member `rank`. When it is dropped, another may be made.
    ///
    /// It belongs to the process that calls this: in a child that `fork` makes of it, calls are
    /// [`LockError::Forked`], and to drop the handle, or a guard of it, changes nothing.
    ///
    /// # Errors
    /// [`SpaceError::Rank`] if there is no such rank; [`SpaceError::Taken`] if somebody has its handle.
    pub fn member(&self, rank: usize) -> Result<LockMember<R, T>, SpaceError> {
        let slot =
            self.slots.get(rank).ok_or(SpaceError::Rank { rank, members: self.slots.len() })?;
        // Acquire: pairs with the Release in the drop of the handle before: its desk is as that left it.
        let process = u64::from(std::process::id());
        let free = slot.taken.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed);
        free.map_err(|_| SpaceError::Taken { rank })?;
        let Policy { pauses, yield_for, .. } = usual(self.slots.len());
        let (fault_list, slots, marks) =
            (self.fault_list.clone(), self.slots.clone(), self.marks.clone());
        let waiting = LockWait { fault_list, slots, marks, known: 0, pauses, yield_for };
        let (slot, born) = (self.slots.element(rank), Generation::current());
        Ok(LockMember { lock: self.clone(), rank, slot, born, waiting })
    }

    /// Who holds it, as far as can be told from outside, where it may change at any moment.
    #[must_use]
    pub fn holder(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.state.load(Ordering::Relaxed) == HOLDING)
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl<R: RawLock, T: Pod + Send + Sync> Lock<R, T> {
    /// A lock in `space`, its data there too, all zero at first.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many, or if the space has no room.
    pub fn within(space: &mut Space, members: usize) -> Result<Self, SpaceError> {
        Self::build(space, members, Data::within)
    }
}

impl<R: Clone, T> Clone for Lock<R, T> {
    fn clone(&self) -> Self {
        Lock {
            raw: self.raw.clone(),
            slots: self.slots.clone(),
            marks: self.marks.clone(),
            data: self.data.clone(),
            fault_list: self.fault_list.clone(),
        }
    }
}

impl<R: fmt::Debug, T> fmt::Debug for Lock<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("raw", &self.raw)
            .field("members", &self.slots.len())
            .finish_non_exhaustive()
    }
}

/// How a member waits, and whom it knows to be dead.
#[derive(Debug)]
struct LockWait {
    fault_list: Option<FaultList>,
    slots: Array<MemberState>,
    marks: Element<Marks>,
    /// How many deaths it goes on in spite of.
    known: usize,
    pauses: u32,
    yield_for: Duration,
}

impl LockWait {
    fn policy(&self) -> Policy<'_> {
        let liveness = self.fault_list.is_some().then_some(self as &dyn Liveness);
        Policy { pauses: self.pauses, yield_for: self.yield_for, liveness }
    }

    /// Who ends the waits of this member, which does not know of it.
    fn dead(&self) -> Option<usize> {
        let stuck = |process| stuck(&self.slots, &self.marks, process);
        self.fault_list.as_ref().and_then(|fault_list| fault_list.missing(self.known, stuck))
    }

    /// What was seen of the one who ends a wait.
    fn gone_for(&self, rank: usize) -> LockError {
        match self.fault_list.as_ref().and_then(|fault_list| fault_list.fault_of(rank)) {
            Some(Fault::Left { rank }) => LockError::Left { rank },
            // Its process has ended, when it had done its part.
            None if self.has_exited(rank) => LockError::Left { rank },
            _ => LockError::Dead { rank },
        }
    }

    fn has_exited(&self, rank: usize) -> bool {
        // Relaxed: as in `stuck`.
        let process = self.slots.get(rank).map_or(0, |slot| slot.taken.load(Ordering::Relaxed));
        self.fault_list.as_ref().is_some_and(|fault_list| fault_list.has_exited(process as u32))
    }

    fn count(&self) -> usize {
        self.fault_list.as_ref().map_or(0, FaultList::count)
    }

    fn gone(&self, rank: usize, process: u64) -> bool {
        self.fault_list.as_ref().is_some_and(|fault_list| fault_list.gone(rank, process as u32))
    }
}

impl Liveness for LockWait {
    fn gone(&self) -> Option<u32> {
        self.dead().map(|rank| rank as u32)
    }
}

/// A member's handle to a [`Lock`].
#[derive(Debug)]
pub struct LockMember<R: RawLock, T: Send = ()> {
    lock: Lock<R, T>,
    rank: usize,
    slot: Element<MemberState>,
    /// That of the process whose handle it is.
    born: Generation,
    waiting: LockWait,
}

impl<R: RawLock, T: Send> LockMember<R, T> {
    /// Its rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The lock.
    #[must_use]
    pub fn shared(&self) -> &Lock<R, T> {
        &self.lock
    }

    /// Waits for the lock.
    ///
    /// # Memory ordering
    /// What was done under the lock before happened before.
    ///
    /// # Errors
    /// [`LockError::Dead`] if it would have to wait, and a member has died; [`LockError::Poisoned`] if somebody panicked
    /// or died while holding it. Either way it is not held; [`recover`](Self::recover) goes on.
    // The way of a free lock is some forty instructions, of which a call and its result through memory would make twice as
    // many: so all of it is always inlined, and what is seldom is cold.
    #[inline(always)]
    pub fn lock(&mut self) -> Result<LockGuard<'_, R, T>, LockError> {
        self.lock_deadline(None)
    }

    /// Waits for the lock until a time. Who gives up keeps its place in the queue, and finds it again if its turn has
    /// not come before the next call. (Some five hundred times; then the place is lost, and the next call asks anew.)
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when the deadline passes first; others as [`lock`](Self::lock).
    #[inline(always)]
    pub fn lock_deadline(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<LockGuard<'_, R, T>, LockError> {
        self.acquire(deadline)?;
        self.entered()
    }

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// # Errors
    /// [`LockError::Dead`] if it is not to be had, and a member has died; [`LockError::Poisoned`].
    #[inline]
    pub fn try_lock(&mut self) -> Result<Option<LockGuard<'_, R, T>>, LockError> {
        match self.enter(Some(Instant::now())) {
            Err(LockError::TimedOut) => return Ok(None),
            entered => entered?,
        }
        if self.lock.raw.try_acquire(self.rank, INSIDE) {
            return self.entered().map(Some);
        }
        self.slot(IDLE);
        self.waiting.dead().map_or(Ok(None), |rank| Err(self.waiting.gone_for(rank)))
    }

    /// Takes the lock in spite of the deaths so far, and of poison: repairs the queue if need be, and waits for the lock.
    /// It waits for a living member that holds the lock, however long that takes, unless there is a deadline.
    /// From then on this handle's waits end only for deaths to come. [`LockGuard::poisoned_by`] says whose data these may be.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when the deadline passes first; [`LockError::Dead`] if another member dies meanwhile.
    pub fn recover(&mut self, deadline: Option<Instant>) -> Result<LockGuard<'_, R, T>, LockError> {
        self.check_not_forked()?;
        self.end_leaked();
        // Known only when the queue has been repaired: before that, waits have to end for them.
        let before = self.waiting.known;
        self.waiting.known = self.waiting.count();
        if let Err(error) = self.repair(deadline) {
            self.waiting.known = before;
            return Err(error);
        }
        self.acquire(deadline)?;
        self.slot(HOLDING);
        // Relaxed: poison is read and written by who holds the lock, or by a repairer when nobody does.
        let poison = self.lock.marks().poison.swap(0, Ordering::Relaxed);
        Ok(LockGuard {
            member: self,
            poisoned_by: poison.checked_sub(1).map(|rank| rank as usize),
            unwinding: std::thread::panicking(),
            _data: PhantomData,
        })
    }

    /// Spins and yields from now on as `policy` says. Its death word is not used: locks know who is dead.
    pub fn set_policy(&mut self, policy: &Policy<'_>) {
        (self.waiting.pauses, self.waiting.yield_for) = (policy.pauses, policy.yield_for);
    }

    /// Ends a section whose guard was forgotten.
    ///
    /// # Safety
    /// The last guard of this handle was passed to `mem::forget`, nothing of it is in use, and no other function of the
    /// handle was called since.
    pub unsafe fn unlock(&mut self) {
        if self.born.is_current() {
            self.leave();
        }
    }

    /// Whether this process is the one that has the handle, and not a child that `fork` has made of
    /// it, whose calls do nothing.
    ///
    /// # Errors
    /// [`LockError::Forked`].
    #[inline(always)]
    pub fn check_not_forked(&self) -> Result<(), LockError> {
        if self.born.is_current() { Ok(()) } else { Err(LockError::Forked { rank: self.rank }) }
    }

    #[inline]
    fn slot(&self, state: u64) {
        // Release: pairs with the Acquire of a repairer: what this member did in the queue is done.
        self.slot.state.store(state, Ordering::Release);
    }

    #[inline(always)]
    fn acquire(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        self.enter(deadline)?;
        match self.lock.raw.ask(self.rank, INSIDE) {
            None => Ok(()),
            Some(asked) => self.wait(asked, deadline),
        }
    }

    #[cold]
    fn wait(&self, mut asked: u64, deadline: Option<Instant>) -> Result<(), LockError> {
        let (raw, policy) = (&self.lock.raw, self.waiting.policy());
        while !raw.wait(self.rank, asked, &policy, deadline, INSIDE).map_err(|error| {
            self.slot(IDLE);
            self.told(error)
        })? {
            match raw.ask(self.rank, INSIDE) {
                Some(again) => asked = again,
                None => break,
            }
        }
        Ok(())
    }

    /// Marks the desk, unless a repair is on; waits for its end.
    #[inline(always)]
    fn enter(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        self.check_not_forked()?;
        self.end_leaked();
        self.slot(QUEUEING);
        asymmetric::light();
        if self.lock.marks().repair.get().is_multiple_of(2) {
            Ok(())
        } else {
            self.enter_slowly(deadline)
        }
    }

    /// If the last guard was leaked, its section ends here. Nothing that was borrowed from it is left, as it had borrowed
    /// this handle.
    #[inline(always)]
    fn end_leaked(&self) {
        // Relaxed: its own word.
        if self.slot.state.load(Ordering::Relaxed) == HOLDING {
            self.leave_poisoned();
        }
    }

    #[cold]
    fn leave_poisoned(&self) {
        // Relaxed: as in `recover`.
        self.lock.marks().poison.store(self.rank as u64 + 1, Ordering::Relaxed);
        self.leave();
    }

    #[cold]
    fn enter_slowly(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        loop {
            let now = self.lock.marks().repair.get();
            if now.is_multiple_of(2) {
                return Ok(());
            }
            self.slot(IDLE);
            let ended =
                self.lock.marks().repair.wait_until(now + 1, &self.waiting.policy(), deadline);
            ended.map_err(|error| self.told(error))?;
            self.slot(QUEUEING);
            asymmetric::light();
        }
    }

    /// Holding, unless the lock is poisoned.
    #[inline(always)]
    fn entered(&mut self) -> Result<LockGuard<'_, R, T>, LockError> {
        self.slot(HOLDING);
        // Relaxed: as in `recover`.
        let poison = self.lock.marks().poison.load(Ordering::Relaxed);
        if poison != 0 {
            return Err(self.poisoned(poison));
        }
        Ok(LockGuard {
            member: self,
            poisoned_by: None,
            unwinding: std::thread::panicking(),
            _data: PhantomData,
        })
    }

    #[cold]
    fn poisoned(&self, poison: u64) -> LockError {
        self.leave();
        LockError::Poisoned { rank: poison as usize - 1 }
    }

    #[inline]
    fn leave(&self) {
        // From here on the data are whole, so a death is no poison.
        self.slot(QUEUEING);
        let Lock { raw, slots, marks, .. } = &self.lock;
        let gone = Unrepaired { fault_list: self.waiting.fault_list.as_ref(), slots, marks };
        raw.release(self.rank, &gone, INSIDE);
        self.slot(IDLE);
    }

    fn told(&self, error: WaitError) -> LockError {
        match error {
            WaitError::Dead { member } => self.waiting.gone_for(member as usize),
            _ => LockError::TimedOut,
        }
    }
}

impl<R: RawLock, T: Send> Drop for LockMember<R, T> {
    fn drop(&mut self) {
        // A model that has failed has no words any more. A handle is given back by the process that
        // has taken it.
        if cfg!(loom) && std::thread::panicking() || !self.born.is_current() {
            return;
        }
        self.end_leaked();
        // Release: pairs with the Acquire in `Lock::member`.
        self.slot.taken.store(0, Ordering::Release);
    }
}

/// The lock is held as long as this lives.
///
/// Dropped by a panic it leaves the lock poisoned. One that is leaked (`mem::forget`) holds it until the member's handle
/// is used again or dropped, which poisons the lock as well.
#[derive(Debug)]
#[must_use = "the lock is free again as soon as this is dropped"]
pub struct LockGuard<'a, R: RawLock, T: Send = ()> {
    member: &'a mut LockMember<R, T>,
    poisoned_by: Option<usize>,
    /// The thread was panicking already: the section is whole if it ends.
    unwinding: bool,
    /// Several threads may look at the data through a shared guard if the data allow it.
    _data: PhantomData<&'a mut T>,
}

impl<R: RawLock, T: Send> LockGuard<'_, R, T> {
    /// Who left the data half changed, if this guard comes from [`LockMember::recover`] and somebody has.
    #[must_use]
    pub fn poisoned_by(&self) -> Option<usize> {
        self.poisoned_by
    }
}

impl<R: RawLock, T: Send> Deref for LockGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so nobody else has a reference into the data but through this guard.
        unsafe { &*self.member.lock.data.get() }
    }
}

impl<R: RawLock, T: Send> DerefMut for LockGuard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.member.lock.data.get() }
    }
}

impl<R: RawLock, T: Send> Drop for LockGuard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.member.born.is_current() {
            return; // the member's process holds it
        }
        if !self.unwinding && std::thread::panicking() {
            if cfg!(loom) {
                return; // as above
            }
            return self.member.leave_poisoned();
        }
        self.member.leave();
    }
}

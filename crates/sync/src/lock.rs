//! Queue locks in FIFO order, for threads and for processes.
//!
//! # Contract
//! One member at a time holds the lock. Everything done under it is visible to the next holder.
//! Members acquire it strictly in the order in which they asked (FIFO). The price of that policy is
//! a hand-over to another core each time several members want the lock. Locks that let the same
//! thread in again are faster in that case, and starve others.
//!
//! # Layers
//! ```text
//! Lock<R, T>      data, one handle per member, guards, poison                    this file
//!   repair        repairs the queue after a death                                lock/repair.rs
//!   R: RawLock    the queue: Ticket or Mcs                                       lock/*.rs
//! ```
//!
//! # Member state
//! Each member publishes its state in a word of its own:
//!
//! | state    | the member                                       | repair after a death in it |
//! |----------|--------------------------------------------------|----------------------------|
//! | idle     | is not in the queue (or gave up its place there) | nothing to do              |
//! | queueing | enqueues itself, waits or releases               | empties the queue          |
//! | holding  | may change the data                              | also poisons the lock      |
//!
//! # Repair
//! A death leaves a queue that cannot be trusted: a place without an owner, or a link that was
//! never made. A *repair* therefore waits until every member that is not known to be gone is idle:
//! waiters get the death as an error and give up, or get the lock in their turn; a holder ends its
//! section first. The repair then empties the queue, and poisons the lock if the dead member held
//! it. No member enters while a repair is in progress. A repair begins when a member calls
//! [`LockMember::recover`]; a repairer that dies is replaced by the next one.
//!
//! The repair does not mend the queue link by link. The order among the waiters is lost; in
//! exchange no code has to understand the state of a killed process.
//!
//! Dekker's pattern keeps members and repairers apart: a member stores its state and then loads the
//! repair mark; a repairer stores the repair mark and then loads the states. Every acquisition
//! executes the member's side, so the fence between store and load is asymmetric.
//!
//! A handle is not tied to a thread: any thread may use the handle for a rank, and the handle may
//! outlive what the program regards as that member. The member state therefore records the process
//! that took the handle. It counts as the dead member's only if that process is gone, or if the
//! caller that declared the death in that process guarantees it ([`FaultList::declare_dead`]).
//! Otherwise the repair waits for the member to become idle.
//!
//! # Costs
//! In addition to those of the queue: four stores to a line of the member's own, and two loads of a
//! line that changes only when something is wrong.
//!
//! # Source
//! The separation of raw locks and guards is that of lock_api; poison and its recovery are those of
//! POSIX robust mutexes and of std. The repair is our own.

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
use syncline_trace::{Activity, note::ObjectClass, since, span, span_since};

use self::data::Data;
pub use self::mcs::Mcs;
use self::queue::{Inside, Queue};
use self::repair::{Unrepaired, stuck};
pub use self::ticket::Ticket;
use crate::agreement::Thing;
use crate::error::{Fault, LockError, SpaceError};
use crate::membership::{FaultList, possible, usual};
use crate::space::{Array, Element, Shared, Space};
use crate::traced::Traced;

/// A queue of members, ranked from 0, below a [`Lock`]. Only [`Ticket`] and [`Mcs`] implement it,
/// as the soundness of a lock's data depends on the queue.
pub trait RawLock: Queue {}

impl RawLock for Ticket {}
impl RawLock for Mcs {}

/// The state of one member, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct MemberState {
    /// The process that has the handle for this rank; 0: there is no handle.
    taken: AtomicU64,
    state: AtomicU64,
}

// SAFETY: two words, without pointers or drop, changed by atomic operations only; 0 is a free rank
// that is idle.
unsafe impl Shared for MemberState {}

/// This file and the repair keep the contract of [`Queue`].
const INSIDE: Inside = Inside(());

const IDLE: u64 = 0;
const QUEUEING: u64 = 1;
const HOLDING: u64 = 2;

/// State that all members read, and that changes only when something is wrong.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Marks {
    /// Odd: a repair is in progress.
    repair: Signal,
    /// 1 + the rank of the member that left the data half changed; 0: not poisoned.
    poison: AtomicU64,
    /// 1 + the rank of the repairer; 0: none.
    repairer: AtomicU64,
    /// The number of entries of the fault list that repairs have covered.
    covered: AtomicU64,
}

// SAFETY: four words, without pointers or drop, changed by atomic operations only; 0 means that
// nothing is wrong.
unsafe impl Shared for Marks {}

/// A lock and the value that it guards. A clone is the same lock.
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
    traced: Traced,
}

impl<R: RawLock, T: Send> Lock<R, T> {
    /// Creates a lock for threads.
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
        let (traced, data) = (space.traced(), data(space)?);
        Ok(Lock { raw, slots, marks, data, fault_list: None, traced })
    }

    /// Returns the same lock, whose waits end for the faults in `fault_list`.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Lock { fault_list: Some(fault_list.clone()), ..self }
    }

    /// Returns the number of members.
    #[must_use]
    pub fn members(&self) -> usize {
        self.slots.len()
    }

    /// Returns the handle of the member `rank`. After it is dropped, another one can be made.
    ///
    /// It belongs to the process that calls this: in a child made by `fork`, its calls return
    /// [`LockError::Forked`], and dropping the handle or one of its guards has no effect.
    ///
    /// # Errors
    /// [`SpaceError::Rank`] if there is no such rank; [`SpaceError::Taken`] if the handle exists
    /// already.
    pub fn member(&self, rank: usize) -> Result<LockMember<R, T>, SpaceError> {
        let slot =
            self.slots.get(rank).ok_or(SpaceError::Rank { rank, members: self.slots.len() })?;
        // Acquire: pairs with the Release in the drop of the previous handle, whose state is seen.
        let process = u64::from(std::process::id());
        let free = slot.taken.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed);
        free.map_err(|_| SpaceError::Taken { rank })?;
        self.traced.name(ObjectClass::Lock, R::NAME);
        let Policy { pauses, yield_for, .. } = usual(self.slots.len());
        let (fault_list, slots, marks) =
            (self.fault_list.clone(), self.slots.clone(), self.marks.clone());
        let waiting = LockWait { fault_list, slots, marks, known: 0, pauses, yield_for };
        let (slot, born) = (self.slots.element(rank), Generation::current());
        Ok(LockMember { lock: self.clone(), rank, slot, born, waiting, held_since: 0 })
    }

    /// Returns the rank of the holder. It may change at any moment, so it is only a hint.
    #[must_use]
    pub fn holder(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.state.load(Ordering::Relaxed) == HOLDING)
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl<R: RawLock, T: Pod + Send + Sync> Lock<R, T> {
    /// Creates a lock in `space`, with its data in the same space, all zero at first.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many; errors of [`Space::array`] if the
    /// space has no room.
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
            traced: self.traced,
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

/// The wait policy of a member, and the faults that it ignores.
#[derive(Debug)]
struct LockWait {
    fault_list: Option<FaultList>,
    slots: Array<MemberState>,
    marks: Element<Marks>,
    /// The number of leading entries of the fault list that this member ignores.
    known: usize,
    pauses: u32,
    yield_for: Duration,
}

impl LockWait {
    fn policy(&self) -> Policy<'_> {
        let liveness = self.fault_list.is_some().then_some(self as &dyn Liveness);
        Policy { pauses: self.pauses, yield_for: self.yield_for, liveness }
    }

    /// Returns the rank of a fault that ends the waits of this member.
    fn dead(&self) -> Option<usize> {
        let stuck = |process| stuck(&self.slots, &self.marks, process);
        self.fault_list.as_ref().and_then(|fault_list| fault_list.missing(self.known, stuck))
    }

    /// Returns the error for a fault of `rank` that ends a wait.
    fn gone_for(&self, rank: usize) -> LockError {
        match self.fault_list.as_ref().and_then(|fault_list| fault_list.fault_of(rank)) {
            Some(Fault::Left { rank }) => LockError::Left { rank },
            // Its process has exited after it had done its part.
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

/// The handle of one member of a [`Lock`].
#[derive(Debug)]
pub struct LockMember<R: RawLock, T: Send = ()> {
    lock: Lock<R, T>,
    rank: usize,
    slot: Element<MemberState>,
    /// The generation of the process that took the handle.
    born: Generation,
    waiting: LockWait,
    /// When the lock was acquired; 0 if recording was off.
    held_since: u64,
}

impl<R: RawLock, T: Send> LockMember<R, T> {
    /// Returns the rank of this member.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the lock.
    #[must_use]
    pub fn shared(&self) -> &Lock<R, T> {
        &self.lock
    }

    /// Waits for the lock.
    ///
    /// # Memory ordering
    /// Everything done under the lock before happens before this call returns.
    ///
    /// # Errors
    /// [`LockError::Dead`] if it would have to wait and a member has died; [`LockError::Poisoned`]
    /// if a holder panicked or died. In both cases the lock is not held, and
    /// [`recover`](Self::recover) takes it.
    // Acquiring a free lock takes about forty instructions; a call with its result in memory would
    // double that. So the whole fast path is always inlined, and the rare paths are cold.
    #[inline(always)]
    pub fn lock(&mut self) -> Result<LockGuard<'_, R, T>, LockError> {
        self.lock_deadline(None)
    }

    /// Waits for the lock until a deadline. A member that gives up keeps its place in the queue,
    /// and resumes it if its turn has not come before the next call. (After about five hundred
    /// resumptions the place is lost, and the next call enqueues the member again.)
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

    /// Takes the lock if it is free and no member waits for it; returns `None` otherwise.
    ///
    /// # Errors
    /// [`LockError::Dead`] if the lock is not free and a member has died; [`LockError::Poisoned`]
    /// if a holder panicked or died.
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

    /// Takes the lock despite the deaths so far and despite poison: repairs the queue if necessary,
    /// and waits for the lock. It waits for a living holder without limit, unless there is a
    /// deadline. From then on, only later deaths end the waits of this handle.
    /// [`LockGuard::poisoned_by`] returns the member that may have left the data half changed.
    ///
    /// # Errors
    /// [`LockError::TimedOut`] when the deadline passes first; [`LockError::Dead`] if another
    /// member dies in the meantime.
    pub fn recover(&mut self, deadline: Option<Instant>) -> Result<LockGuard<'_, R, T>, LockError> {
        self.check_not_forked()?;
        self.end_leaked();
        // Kept only if the queue is repaired: before that, these deaths must still end waits.
        let before = self.waiting.known;
        self.waiting.known = self.waiting.count();
        let waits = self.waits();
        let repaired = self.repair(deadline);
        drop(waits);
        if let Err(error) = repaired {
            self.waiting.known = before;
            return Err(error);
        }
        self.acquire(deadline)?;
        self.slot(HOLDING);
        self.held_since = since();
        // Relaxed: only the holder accesses poison, or a repairer while there is no holder.
        let poison = self.lock.marks().poison.swap(0, Ordering::Relaxed);
        Ok(LockGuard {
            member: self,
            poisoned_by: poison.checked_sub(1).map(|rank| rank as usize),
            unwinding: std::thread::panicking(),
            _data: PhantomData,
        })
    }

    /// Sets how this member spins and yields. The policy's `liveness` is not used: locks check
    /// their own fault list.
    pub fn set_policy(&mut self, policy: &Policy<'_>) {
        (self.waiting.pauses, self.waiting.yield_for) = (policy.pauses, policy.yield_for);
    }

    /// Ends the section of a guard that was forgotten.
    ///
    /// # Safety
    /// The last guard of this handle was passed to `mem::forget`, no reference obtained from it is
    /// in use, and no other function of the handle was called since.
    pub unsafe fn unlock(&mut self) {
        if self.born.is_current() {
            self.leave();
        }
    }

    /// Checks that this process is the one that took the handle, and not a child made by `fork`, in
    /// which calls have no effect.
    ///
    /// # Errors
    /// [`LockError::Forked`] in such a child.
    #[inline(always)]
    pub fn check_not_forked(&self) -> Result<(), LockError> {
        if self.born.is_current() { Ok(()) } else { Err(LockError::Forked { rank: self.rank }) }
    }

    #[inline]
    fn slot(&self, state: u64) {
        // Release: pairs with the Acquire of a repairer, which then sees what this member did in
        // the queue.
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
        let _waits = self.waits();
        let (raw, policy) = (&self.lock.raw, self.waiting.policy());
        while !raw.wait(self.rank, asked, &policy, deadline, INSIDE).map_err(|error| {
            self.slot(IDLE);
            self.lock_error(error)
        })? {
            match raw.ask(self.rank, INSIDE) {
                Some(again) => asked = again,
                None => break,
            }
        }
        Ok(())
    }

    /// Stores the state `QUEUEING`; during a repair, waits for its end first.
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

    /// Ends the section of a guard that was leaked. No reference obtained from that guard is left,
    /// as it had borrowed this handle.
    #[inline(always)]
    fn end_leaked(&self) {
        // Relaxed: the member's own word.
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
            let _waits = self.waits();
            let ended =
                self.lock.marks().repair.wait_until(now + 1, &self.waiting.policy(), deadline);
            ended.map_err(|error| self.lock_error(error))?;
            self.slot(QUEUEING);
            asymmetric::light();
        }
    }

    /// Stores the state `HOLDING` and returns a guard; if the lock is poisoned, releases it and
    /// fails.
    #[inline(always)]
    fn entered(&mut self) -> Result<LockGuard<'_, R, T>, LockError> {
        self.slot(HOLDING);
        self.held_since = since();
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

    fn waits(&self) -> syncline_trace::Span {
        span(Activity::AwaitLock, self.lock.traced.id(), self.rank as u64)
    }

    /// Records that the lock was held, if another member waits for it.
    #[cold]
    fn held(&self) {
        if self.lock.raw.is_awaited(self.rank, INSIDE) {
            let id = self.lock.traced.id();
            span_since(Activity::HoldLock, id, self.rank as u64, self.held_since);
        }
    }

    #[inline]
    fn leave(&self) {
        if self.held_since != 0 {
            self.held();
        }
        // From here on the data are consistent, so a death does not poison the lock.
        self.slot(QUEUEING);
        let Lock { raw, slots, marks, .. } = &self.lock;
        let gone = Unrepaired { fault_list: self.waiting.fault_list.as_ref(), slots, marks };
        raw.release(self.rank, &gone, INSIDE);
        self.slot(IDLE);
    }

    fn lock_error(&self, error: WaitError) -> LockError {
        match error {
            WaitError::Dead { member } => self.waiting.gone_for(member as usize),
            _ => LockError::TimedOut,
        }
    }
}

impl<R: RawLock, T: Send> Drop for LockMember<R, T> {
    fn drop(&mut self) {
        // After a failed model its words are gone. Only the process that took a handle gives it
        // back.
        if cfg!(loom) && std::thread::panicking() || !self.born.is_current() {
            return;
        }
        self.end_leaked();
        // Release: pairs with the Acquire in `Lock::member`.
        self.slot.taken.store(0, Ordering::Release);
    }
}

/// Holds the lock until it is dropped.
///
/// If a panic drops it, the lock is poisoned. A guard that is leaked (`mem::forget`) holds the lock
/// until the member's handle is used again or dropped, which poisons the lock as well.
#[derive(Debug)]
#[must_use = "the lock is free again as soon as this is dropped"]
pub struct LockGuard<'a, R: RawLock, T: Send = ()> {
    member: &'a mut LockMember<R, T>,
    poisoned_by: Option<usize>,
    /// Whether the thread was already panicking: then a drop of this guard does not poison the
    /// lock.
    unwinding: bool,
    /// Makes a shared guard usable from several threads only if the data allow it.
    _data: PhantomData<&'a mut T>,
}

impl<R: RawLock, T: Send> LockGuard<'_, R, T> {
    /// Returns the rank of the member that left the data half changed, if this guard comes from
    /// [`LockMember::recover`] and the lock was poisoned.
    #[must_use]
    pub fn poisoned_by(&self) -> Option<usize> {
        self.poisoned_by
    }
}

impl<R: RawLock, T: Send> Deref for LockGuard<'_, R, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the pointer is valid, as the lock keeps its value alive. This guard holds the
        // lock, so every other reference into the data was derived from this guard, whose borrow
        // rules apply.
        unsafe { &*self.member.lock.data.get() }
    }
}

impl<R: RawLock, T: Send> DerefMut for LockGuard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; and the guard is exclusively borrowed.
        unsafe { &mut *self.member.lock.data.get() }
    }
}

impl<R: RawLock, T: Send> Drop for LockGuard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.member.born.is_current() {
            return; // the member's process holds the lock
        }
        if !self.unwinding && std::thread::panicking() {
            if cfg!(loom) {
                return; // a failed model has no words any more
            }
            return self.member.leave_poisoned();
        }
        self.member.leave();
    }
}

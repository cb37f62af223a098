//! The worker's side of a pool whose workers steal: see `fork_table`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_signal::{Policy, spin_wait::SpinWait};
use syncline_trace::{Activity, span};

use crate::arena::Arena;
use crate::channel::Body;
use crate::error::FarmError;
use crate::message::{Draft, Message, MessageKind};
use crate::pool::fork_table::{Claim, ForkState, ForkTable, Last, Offer};
use crate::pool::order::Order;
use crate::pool::worker::{Forks, Worker, has_room_later, panic_message, patiently};
use crate::pool::{TaskError, monotonic};
use crate::record::ProcessState;
use crate::vpid::Vpid;
use crate::wire;

/// The look phase of a thief: no pauses, as each look takes lines from the workers that have tasks.
const LOOKS: Policy<'_> =
    Policy { pauses: 0, yield_for: Duration::from_micros(50), liveness: None };
/// The look phase is over by then.
const ASLEEP: Policy<'_> = Policy { yield_for: Duration::ZERO, ..LOOKS };
/// The longest sleep of a thief.
const NAP: Duration = Duration::from_millis(100);

/// A worker's seat at a fork table.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) arena: Arc<Arena>,
    block: u32,
    pub(crate) worker: usize,
    pub(crate) vpid: Vpid,
}

/// The next event for a worker that is idle or waits for a child.
enum Next<T, R> {
    Stolen(Claim),
    Joined,
    Order(Order<T, R>),
}

impl Seat {
    /// Creates the seat of this process at the fork table in a block.
    ///
    /// # Safety
    /// The block must be a fork table of the arena.
    pub(crate) unsafe fn new(arena: &Arc<Arena>, block: u32, worker: usize, vpid: Vpid) -> Seat {
        Seat { arena: Arc::clone(arena), block, worker, vpid }
    }

    pub(crate) fn table(&self) -> ForkTable<'_> {
        // SAFETY: the block is a fork table: the caller of `new` guarantees it.
        unsafe { self.arena.table(self.block) }
    }

    /// Returns the block of the fork table, by which other processes find it.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// Notifies a process.
    pub(crate) fn notify(&self, vpid: u64) {
        let place = Vpid::from_raw(vpid).place();
        if place < self.arena.processes() {
            self.arena.record(place).events.notify();
        }
    }

    /// Wakes a sleeping worker, if there is one. Called after something was offered.
    pub(crate) fn wake(&self) {
        if let Some(worker) = self.table().wake() {
            self.notify(self.table().vpid(worker));
        }
    }

    /// Serializes a value for a cell. `holder` becomes the holder of its block, if it needs one.
    pub(crate) fn write(
        &self,
        holder: Vpid,
        value: &impl Serialize,
    ) -> Result<Body, wire::WireError> {
        let mut draft = Draft::new(&self.arena, self.vpid);
        wire::write(&mut draft, value)?;
        Ok(draft.into_body(holder, MessageKind::VALUE))
    }

    /// Offers a task of this process; `Ok(None)` if there is no room.
    pub(crate) fn offer(&self, task: &impl Serialize) -> Result<Option<Offer>, wire::WireError> {
        let body = self.write(self.vpid, task)?;
        let offer = self.table().offer(self.worker, self.vpid.to_raw(), body);
        match offer {
            Some(_) => self.wake(),
            // SAFETY: the body was written just now and not published, so no process uses its
            // bytes.
            None => unsafe { self.give(&body, self.vpid.to_raw()) },
        }
        Ok(offer)
    }

    /// Frees the block of a body, if `vpid` holds it.
    ///
    /// # Safety
    /// No process may use its bytes any more.
    unsafe fn give(&self, body: &Body, vpid: u64) {
        if let Some(block) = body.block().filter(|&block| self.arena.blocks().size(block).is_some())
        {
            // SAFETY: the caller guarantees it (see `# Safety`).
            unsafe { self.arena.blocks().give(block, vpid + 1) };
        }
    }

    /// Frees the cell and the block of a task.
    pub(crate) fn free(&self, last: Last) {
        let table = self.table();
        // SAFETY: only holders of tokens read a task, and this is the last token.
        unsafe { self.give(&table.task(&last), table.owner(&last)) };
        table.free(last);
    }

    /// Takes the result of a task for its owner; returns the offer if the task has not ended.
    pub(crate) fn result<R: DeserializeOwned>(
        &self,
        offer: Offer,
    ) -> Result<Result<R, TaskError>, Offer> {
        self.table().ended(offer).map(|last| self.last_result(last))
    }

    fn last_result<R: DeserializeOwned>(&self, last: Last) -> Result<R, TaskError> {
        let body = self.table().result(&last);
        self.free(last);
        // SAFETY: `body` is the result of a task that this process has offered, so this process
        // holds its block, if it has one. Its last token is used up, so it is read once.
        let message = unsafe { Message::new(&self.arena, self.vpid, body) };
        let read = message.and_then(wire::read::<Result<R, TaskError>>);
        read.unwrap_or_else(|why| Err(TaskError::Garbled { why: format!("its result {why}") }))
    }

    /// Abandons a task on behalf of its owner.
    pub(crate) fn abandon(&self, offer: Offer) {
        match self.table().abandon(offer, self.worker) {
            // The result is freed, whatever its type.
            Some(last) if self.table().state(&last) == ForkState::Ended => {
                drop(self.last_result::<()>(last))
            }
            Some(last) => self.free(last),
            None => (),
        }
    }

    /// Ends a task and notifies its owner, if there is one.
    pub(crate) fn end(&self, claim: Claim, result: &Result<impl Serialize, TaskError>) {
        let owner = self.table().owner(&claim);
        let holder = Vpid::from_raw(owner);
        let memory = self.arena.memory();
        let may_come = |why: &wire::WireError| match why {
            wire::WireError::Long { bytes } => has_room_later(*bytes, memory),
            _ => false,
        };
        let body = patiently(|| self.write(holder, result), may_come).or_else(|why| {
            let why = format!("its result {why}");
            self.write(holder, &Err::<(), _>(TaskError::Unsendable { why }))
        });
        // If there is no room even for the error, the owner reads an empty result.
        let body = body.unwrap_or_default();
        match self.table().end(claim, body) {
            Ok(()) => self.notify(owner),
            Err(last) => {
                // The result is not wanted. If the owner is alive, the owner still holds the block;
                // if not, the block was swept.
                // SAFETY: only the owner would read the body, and it has abandoned the task.
                unsafe { self.give(&body, owner) };
                self.free(last);
            }
        }
    }
}

impl<T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Worker<T, R> {
    /// Steals and runs tasks until the manager says that there are no more.
    pub(crate) fn steal(
        &mut self,
        f: &dyn Fn(T, &mut Forks<'_, T, R>) -> R,
    ) -> Result<(), FarmError> {
        loop {
            match self.next(None)? {
                Next::Stolen(claim) => self.run_stolen(claim, f),
                Next::Order(Order::End) => return Ok(()),
                Next::Order(_) | Next::Joined => (),
            }
        }
    }

    /// Waits for a child, and runs other tasks meanwhile.
    pub(crate) fn wait_for(
        &mut self,
        mut child: Offer,
        f: &dyn Fn(T, &mut Forks<'_, T, R>) -> R,
    ) -> Result<R, TaskError> {
        loop {
            child = match self.seat().result(child) {
                Ok(result) => return result,
                Err(child) => child,
            };
            match self.next(Some(&child)) {
                Ok(Next::Stolen(claim)) => self.run_stolen(claim, f),
                Ok(Next::Joined | Next::Order(_)) => (),
                Err(FarmError::Forked { .. }) => return Err(TaskError::Forked),
                // The manager is gone, and soon so is this process.
                Err(error) => return Err(TaskError::Garbled { why: error.to_string() }),
            }
        }
    }

    pub(crate) fn seat(&self) -> &Seat {
        self.seat.as_ref().expect("one that steals has a seat")
    }

    fn look(&mut self, child: Option<&Offer>) -> Result<Option<Next<T, R>>, FarmError> {
        self.check_not_forked()?;
        let seat = self.seat.as_ref().expect("one that steals has a seat");
        let (table, worker) = (seat.table(), seat.worker);
        if child.is_some_and(|child| table.state(child) == ForkState::Ended) {
            return Ok(Some(Next::Joined));
        }
        if let Some(claim) = table.steal(worker, worker) {
            return Ok(Some(Next::Stolen(claim)));
        }
        Ok(self.try_recv()?.map(Next::Order))
    }

    /// Looks for something to do, and sleeps while there is nothing.
    fn next(&mut self, child: Option<&Offer>) -> Result<Next<T, R>, FarmError> {
        let seat = self.seat().clone();
        let events = &seat.arena.record(seat.vpid.place()).events;
        // Whether another worker counts on this one to take what was offered.
        let mut chosen = false;
        let found = loop {
            let mut spin = SpinWait::new(&LOOKS, None);
            let mut next = self.look(child)?;
            while next.is_none() && spin.spin() {
                next = self.look(child)?;
            }
            if let Some(next) = next {
                break next;
            }
            let seen = events.prepare();
            seat.table().announce(seat.worker);
            let next = self.look(child)?;
            if next.is_none() {
                // Not for long: the worker that has chosen this one to be woken may be killed
                // before it notifies.
                let awaits =
                    if child.is_some() { Activity::AwaitResult } else { Activity::AwaitJob };
                let _waits = span(awaits, 0, 0);
                let _ = events.wait(seen, &ASLEEP, Instant::now().checked_add(NAP));
            }
            chosen |= seat.table().cancel(seat.worker);
            if let Some(next) = next {
                break next;
            }
        };
        if chosen && !matches!(found, Next::Stolen(_)) {
            seat.wake();
        }
        Ok(found)
    }

    /// Runs a claimed task.
    fn run_stolen(&mut self, claim: Claim, f: &dyn Fn(T, &mut Forks<'_, T, R>) -> R) {
        let seat = self.seat().clone();
        let table = seat.table();
        let now = monotonic();
        table.cell(&claim).since.store(now, Ordering::Relaxed);
        let owner = Vpid::from_raw(table.owner(&claim));
        let copied = Message::copied(&seat.arena, owner, table.task(&claim));
        // The blocks of an owner that has ended may have been reused. Acquire: the check below must
        // not be reordered before the copy; blocks are reused only after the end is published.
        fence(Ordering::Acquire);
        let result = match copied.and_then(wire::read::<T>) {
            _ if seat.arena.life(owner) == ProcessState::Ended => {
                Err(TaskError::Garbled { why: "no process waits for it".to_owned() })
            }
            Err(why) => Err(TaskError::Garbled { why: format!("the task {why}") }),
            Ok(task) => {
                let outer = self.begin(now);
                let first = self.forks;
                let run = AssertUnwindSafe(|| f(task, &mut Forks::new(self, f)));
                let job = span(Activity::Job, 0, u64::MAX);
                let ran = catch_unwind(run);
                drop(job);
                self.forget_forks_after(first);
                if self.check_not_forked().is_err() {
                    // In a child that the task has forked: the fork table is not its own.
                    return;
                }
                self.resume(outer);
                ran.map_err(|panic| TaskError::Panicked { message: panic_message(panic) })
            }
        };
        seat.end(claim, &result);
    }
}

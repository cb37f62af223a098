//! What a worker does whose pool steals: see `table`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_signal::Policy;

use crate::arena::Arena;
use crate::channel::Body;
use crate::error::FarmError;
use crate::message::{Draft, Message, MessageKind};
use crate::pool::fork_table::{Claim, ForkState, ForkTable, Last, Offer};
use crate::pool::order::Order;
use crate::pool::worker::{Forks, Worker, patiently, said};
use crate::pool::{TaskError, monotonic};
use crate::record::ProcessState;
use crate::vpid::Vpid;
use crate::wire;

/// How long to look, with yields in between, before the sleep.
const LOOKS: Duration = Duration::from_micros(50);
/// The longest sleep of a thief.
const NAP: Duration = Duration::from_millis(100);

/// A worker's place at a board.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) arena: Arc<Arena>,
    block: u32,
    pub(crate) worker: usize,
    pub(crate) vpid: Vpid,
}

/// What comes next for one that has nothing to do, or waits for a child.
enum Next<T, R> {
    Stolen(Claim),
    Joined,
    Order(Order<T, R>),
}

impl Seat {
    /// The seat of this process at the board in a block.
    ///
    /// # Safety
    /// The block is a board of the arena.
    pub(crate) unsafe fn new(arena: &Arc<Arena>, block: u32, worker: usize, vpid: Vpid) -> Seat {
        Seat { arena: Arc::clone(arena), block, worker, vpid }
    }

    pub(crate) fn table(&self) -> ForkTable<'_> {
        // SAFETY: the caller of `new` has promised it.
        unsafe { self.arena.table(self.block) }
    }

    /// Which board it is at, as others are told.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// Rings the bell of a process.
    pub(crate) fn ring(&self, vpid: u64) {
        let place = Vpid::from_raw(vpid).place();
        if place < self.arena.processes() {
            self.arena.record(place).bell.increment();
        }
    }

    /// Something was offered: wakes a worker that sleeps.
    pub(crate) fn wake(&self) {
        if let Some(worker) = self.table().wake() {
            self.ring(self.table().vpid(worker));
        }
    }

    /// A value as it stands in a cell, of which `holder` has what stands elsewhere.
    pub(crate) fn write(
        &self,
        holder: Vpid,
        value: &impl Serialize,
    ) -> Result<Body, wire::WireError> {
        let mut draft = Draft::new(&self.arena, self.vpid);
        wire::write(&mut draft, value)?;
        Ok(draft.into_body(holder, MessageKind::VALUE))
    }

    /// Offers a task of this process.
    pub(crate) fn offer(&self, task: &impl Serialize) -> Result<Option<Offer>, wire::WireError> {
        let body = self.write(self.vpid, task)?;
        let offer = self.table().offer(self.worker, self.vpid.to_raw(), body);
        match offer {
            Some(_) => self.wake(),
            // SAFETY: it was written just now, and no process was told of it.
            None => unsafe { self.give(&body, self.vpid.to_raw()) },
        }
        Ok(offer)
    }

    /// Gives back what stands elsewhere, and is held by that process.
    ///
    /// # Safety
    /// No process uses these bytes any more.
    unsafe fn give(&self, body: &Body, vpid: u64) {
        if let Some(block) = body.block().filter(|&block| self.arena.blocks().size(block).is_some())
        {
            // SAFETY: the caller promises it.
            unsafe { self.arena.blocks().give(block, vpid + 1) };
        }
    }

    /// Gives back what a task takes.
    pub(crate) fn free(&self, last: Last) {
        let table = self.table();
        // SAFETY: only holders of tokens read a task, and this is the last.
        unsafe { self.give(&table.task(&last), table.owner(&last)) };
        table.free(last);
    }

    /// The owner takes the result of a task; the offer, if it has not ended.
    pub(crate) fn result<R: DeserializeOwned>(
        &self,
        offer: Offer,
    ) -> Result<Result<R, TaskError>, Offer> {
        self.table().ended(offer).map(|last| self.last_result(last))
    }

    fn last_result<R: DeserializeOwned>(&self, last: Last) -> Result<R, TaskError> {
        let body = self.table().result(&last);
        self.free(last);
        // SAFETY: the result of a task that this process has offered; its last token is used up.
        let message = unsafe { Message::new(&self.arena, self.vpid, body) };
        let read = message.and_then(wire::read::<Result<R, TaskError>>);
        read.unwrap_or_else(|why| Err(TaskError::Garbled { why: format!("its result {why}") }))
    }

    /// The owner does not want to know of a task any more.
    pub(crate) fn abandon(&self, offer: Offer) {
        match self.table().abandon(offer, self.worker) {
            // Whatever it is.
            Some(last) if self.table().state(&last) == ForkState::Ended => {
                drop(self.last_result::<()>(last))
            }
            Some(last) => self.free(last),
            None => (),
        }
    }

    /// The task has ended: its owner is told, if there is one.
    pub(crate) fn end(&self, claim: Claim, result: &Result<impl Serialize, TaskError>) {
        let owner = self.table().owner(&claim);
        let holder = Vpid::from_raw(owner);
        let memory = self.arena.memory();
        let may_come = |why: &wire::WireError| matches!(why, wire::WireError::Long { bytes } if 4 * bytes <= memory);
        let body = patiently(|| self.write(holder, result), may_come).or_else(|why| {
            let why = format!("its result {why}");
            self.write(holder, &Err::<(), _>(TaskError::Unsendable { why }))
        });
        // If there is no room even for that, nothing is what is read.
        let body = body.unwrap_or_default();
        match self.table().end(claim, body) {
            Ok(()) => self.ring(owner),
            Err(last) => {
                // Its result is not wanted. If its owner lives, what it has given is there still;
                // if not, it was swept.
                // SAFETY: only the owner would read it, which has abandoned the task.
                unsafe { self.give(&body, owner) };
                self.free(last);
            }
        }
    }
}

impl<T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Worker<T, R> {
    /// Steals and runs tasks until there are no more.
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

    /// Waits for a child, and does other tasks meanwhile.
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
        Ok(self.try_hear()?.map(Next::Order))
    }

    /// Looks for something to do, and sleeps while there is nothing.
    fn next(&mut self, child: Option<&Offer>) -> Result<Next<T, R>, FarmError> {
        let seat = self.seat().clone();
        let bell = &seat.arena.record(seat.vpid.place()).bell;
        let asleep = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };
        // Whether another worker counts on this one to take what was offered.
        let mut chosen = false;
        let found = loop {
            let seen = bell.get();
            if let Some(next) = self.look(child)? {
                break next;
            }
            let until = Instant::now() + LOOKS;
            let mut next = None;
            while next.is_none() && Instant::now() < until {
                std::thread::yield_now();
                next = self.look(child)?;
            }
            if let Some(next) = next {
                break next;
            }
            seat.table().nod(seat.worker);
            let next = self.look(child)?;
            if next.is_none() {
                // Not for long: the worker that has chosen this one to be woken may be killed
                // before it rings.
                let _ = bell.wait_until(seen + 1, &asleep, Instant::now().checked_add(NAP));
            }
            chosen |= seat.table().rise(seat.worker);
            if let Some(next) = next {
                break next;
            }
        };
        if chosen && !matches!(found, Next::Stolen(_)) {
            seat.wake();
        }
        Ok(found)
    }

    /// Runs a task that was claimed.
    fn run_stolen(&mut self, claim: Claim, f: &dyn Fn(T, &mut Forks<'_, T, R>) -> R) {
        let seat = self.seat().clone();
        let table = seat.table();
        let now = monotonic();
        table.cell(&claim).since.store(now, Ordering::Relaxed);
        let owner = Vpid::from_raw(table.owner(&claim));
        let copied = Message::copied(&seat.arena, owner, table.task(&claim));
        // What belongs to one that has ended may be another's by now. Acquire: that look is not to
        // come before the copy; whatever took the place of what was there came after the end.
        fence(Ordering::Acquire);
        let result = match copied.and_then(wire::read::<T>) {
            _ if seat.arena.life(owner) == ProcessState::Ended => {
                Err(TaskError::Garbled { why: "nobody waits for it".to_owned() })
            }
            Err(why) => Err(TaskError::Garbled { why: format!("the task {why}") }),
            Ok(task) => {
                let outer = self.begin(now);
                let first = self.forks;
                let run = AssertUnwindSafe(|| f(task, &mut Forks::new(self, f)));
                let ran = catch_unwind(run);
                self.forget_forks_after(first);
                if self.check_not_forked().is_err() {
                    // A child that the task has forked: the board is not its own.
                    return;
                }
                self.resume(outer);
                ran.map_err(|panic| TaskError::Panicked { message: said(panic) })
            }
        };
        seat.end(claim, &result);
    }
}

//! Collective allocation, in steps, so that the next call resumes one whose deadline has passed.
//!
//! ```text
//!  Call ──> Sizes ──> Room ──> Taken ──> Sync ──> allocated      each arrow: all members arrived
//!   do all   which    has every  has each   all bytes
//!   call it? sizes?   host room? its part?    zero?
//! ```

use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_sync::{Fault, SpaceError, agreement::Thing, call_matching::Call};

use crate::element::Element;
use crate::error::RmaError;
use crate::memory::{Global, Lines, Table, room};
use crate::rma::{Rma, Syncs, call, left_after};

/// An allocation that this member has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The number of bytes of an element, and of this member's part.
    asked: (usize, usize),
    step: Step,
}

#[derive(Debug)]
enum Step {
    Call,
    Sizes,
    /// The sizes of all parts, this member's report about the room on its host, and the lines that
    /// it has found there.
    Room(Vec<usize>, u64, Result<Lines, SpaceError>),
    /// The sizes of all parts, the lines, and this member's report about the memory of its own
    /// part.
    Taken(Vec<usize>, Lines, u64),
    Sync(Arc<Table>),
}

impl Rma {
    /// Allocates `len` elements at this member, with all bytes zero. Each member chooses its own
    /// length.
    ///
    /// It waits for all members.
    ///
    /// # Collective
    /// All members make the same allocations and frees in the same order.
    ///
    /// # Errors
    /// [`RmaError::Room`] if a host has no room, the same error for all members;
    /// [`RmaError::Mismatch`] if other members call another function, or allocate elements of
    /// another size.
    ///
    /// # Panics
    /// If `me` is not the member that this `Rma` belongs to.
    pub fn allocate<T: Element>(
        &mut self,
        me: &mut Member,
        len: usize,
    ) -> Result<Global<T>, RmaError> {
        self.allocate_deadline(me, len, None)
    }

    /// Like [`allocate`](Self::allocate), with a deadline.
    ///
    /// When the deadline passes, the allocation has begun and is not complete. A call with the same
    /// number of elements of the same size resumes it. Until it is complete, other collective calls
    /// return [`RmaError::Unfinished`].
    ///
    /// # Collective
    /// As [`allocate`](Self::allocate). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] if the deadline passes first; as [`allocate`](Self::allocate).
    ///
    /// # Panics
    /// As [`allocate`](Self::allocate).
    pub fn allocate_deadline<T: Element>(
        &mut self,
        me: &mut Member,
        len: usize,
        deadline: Option<Instant>,
    ) -> Result<Global<T>, RmaError> {
        assert_eq!(me.rank(), self.rank, "memory is allocated by the member itself");
        self.check_not_forked()?;
        let asked = (size_of::<T>(), len.saturating_mul(size_of::<T>()));
        if self.begun.as_ref().is_some_and(|begun| begun.asked != asked) {
            return Err(RmaError::Unfinished);
        }
        let mut begun =
            self.begun.take().unwrap_or_else(|| Box::new(Begun { asked, step: Step::Call }));
        let _naming = me.naming(Call::Allocate);
        let done = self.go_on(me, &mut begun, deadline);
        if let Err(RmaError::Fault(Fault::TimedOut)) = done {
            self.begun = Some(begun);
        }
        Ok(Global::new(done?))
    }

    /// Performs the remaining steps.
    fn go_on(
        &mut self,
        me: &mut Member,
        begun: &mut Begun,
        deadline: Option<Instant>,
    ) -> Result<Arc<Table>, RmaError> {
        let (size, bytes) = begun.asked;
        loop {
            begun.step = match &mut begun.step {
                Step::Call => {
                    self.all_call_deadline(me, call::ALLOCATE | size as u64, 0, deadline)?;
                    Step::Sizes
                }
                Step::Sizes => {
                    let all = me.gather_deadline(bytes as u64, deadline)?;
                    let all = all.into_iter().map(|bytes| bytes as usize).collect::<Vec<_>>();
                    let needed = self.here.iter().try_fold(0_usize, |sum, &rank| {
                        let part =
                            all[rank].checked_next_multiple_of(4096).map(|_| room(all[rank]));
                        part.and_then(|part| sum.checked_add(part))
                    });
                    let space = &mut *me.space().making(Thing::Allocation);
                    let lines = self.arena.take(space, needed.unwrap_or(usize::MAX / 2));
                    let verdict = self.verdict(&lines, needed.unwrap_or(usize::MAX));
                    Step::Room(all, verdict, lines)
                }
                Step::Room(all, verdict, lines) => {
                    // If a host has no room, all members get the report here, and none gets the
                    // allocation.
                    let rooms = me.gather_deadline(*verdict, deadline)?;
                    if let Some(error) = self.no_room(all, &rooms) {
                        lines.iter().for_each(|lines| self.arena.give(lines.clone()));
                        return Err(error);
                    }
                    let lines = lines.clone()?;
                    // Each member commits its own part, so that the memory is near to it.
                    let before = self.here.iter().take_while(|&&rank| rank != self.rank);
                    let at = before.map(|&rank| room(all[rank])).sum();
                    let taken = left_after(lines.commit(at, bytes).as_ref().err());
                    Step::Taken(std::mem::take(all), lines, taken)
                }
                Step::Taken(all, lines, taken) => {
                    let rooms = me.gather_deadline(*taken, deadline)?;
                    let lines = lines.clone();
                    if let Some(error) = self.no_room(all, &rooms) {
                        self.arena.give(lines);
                        return Err(error);
                    }
                    let table = self.table(all, lines);
                    table.clear(self.rank);
                    if let Syncs::Hosts(far) = &self.sync {
                        far.engine.register(&table);
                    }
                    Step::Sync(table)
                }
                Step::Sync(table) => {
                    let table = Arc::clone(table);
                    self.sync_deadline(deadline)?;
                    return Ok(table);
                }
            };
        }
    }
}

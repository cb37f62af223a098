//! Allocating together: in steps, so that a call whose deadline has passed is gone on with by the
//! next one.
//!
//! ```text
//!  Call ──> Sizes ──> Room ──> Taken ──> Sync ──> allocated      each arrow: all members have come
//!   do all    who     has every  has each   all bytes
//!   call it?  wants   host room? its part?    zero?
//!             what?
//! ```

use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_sync::{Fault, SpaceError, agreement::Thing, calls::Call};

use crate::element::Element;
use crate::error::RmaError;
use crate::memory::{Global, Lines, Table, room};
use crate::rma::{Rma, Syncs, call, left_after};

/// An allocation that this member has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Bytes of an element, and all.
    asked: (usize, usize),
    step: Step,
}

#[derive(Debug)]
enum Step {
    Call,
    Sizes,
    /// What each member asks for, what this member says of the room on its host, and what it has
    /// found there.
    Room(Vec<usize>, u64, Result<Lines, SpaceError>),
    /// What each member asks for, where, and what this member says of the memory of its own part.
    Taken(Vec<usize>, Lines, u64),
    Sync(Arc<Table>),
}

impl Rma {
    /// Allocates `len` elements at this member, all bytes zero; each of the others has a length of
    /// its own.
    ///
    /// # Collective
    /// All members allocate and free the same in the same order. It waits for all.
    ///
    /// # Errors
    /// [`RmaError::Room`] if a host has no room: the same for all members; [`RmaError::Mismatch`]
    /// if the others free, or allocate other elements.
    ///
    /// # Panics
    /// If `me` is another member than this one.
    pub fn allocate<T: Element>(
        &mut self,
        me: &mut Member,
        len: usize,
    ) -> Result<Global<T>, RmaError> {
        self.allocate_deadline(me, len, None)
    }

    /// As [`allocate`](Self::allocate), and waits until a time.
    ///
    /// When the deadline passes, the allocation is begun and not done. The same call, with as many
    /// elements of as large a type, goes on where it was. Until it is done, other collective calls
    /// are [`RmaError::Unfinished`].
    ///
    /// # Collective
    /// As [`allocate`](Self::allocate). Each member has a deadline of its own, or none.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first; as [`allocate`](Self::allocate).
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

    /// From step to step.
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
                    // A host that has no room tells all: no member has the allocation then.
                    let rooms = me.gather_deadline(*verdict, deadline)?;
                    if let Some(error) = self.no_room(all, &rooms) {
                        lines.iter().for_each(|lines| self.arena.give(lines.clone()));
                        return Err(error);
                    }
                    let lines = lines.clone()?;
                    // Each member takes its own part, so that it is in memory near to it.
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

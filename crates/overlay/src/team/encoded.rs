//! The values of `Location::wire` in a run on a team: decoded before a body, encoded after it.
//!
//! Each request of a task of this member has a copy (`wire`), beside the location's slots in the
//! memory of the host. A task without such requests costs the lookup of its empty list.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::WireError;
use crate::location::Core;
use crate::overlay::Checked;
use crate::raw::AccessMode;
use crate::team::exchange::Exchange;
use crate::team::layout::{Offsets, Team};
use crate::wire::WireCopy;

/// The copies of the tasks of one member, by task.
pub(super) struct Encoded {
    tasks: Box<[Option<Mutex<Vec<Copied>>>]>,
}

/// A request of a task for an encoded value.
struct Copied {
    location: u32,
    core: Arc<Core>,
    writes: bool,
    /// The place of the encoded value, in even and in odd rounds.
    at: Offsets,
    copy: WireCopy,
}

impl Encoded {
    /// Makes the copies of this member's tasks, without values.
    pub(super) fn new(
        overlay: &Checked<'_>,
        team: &Team,
        exchange: &Exchange,
        rank: usize,
    ) -> Encoded {
        let copies = |(t, requests): (u32, &Vec<(u32, AccessMode)>)| {
            let copied = |&(location, kind): &(u32, AccessMode)| {
                let core = &overlay.cores[location as usize];
                let copy = core.wire.as_ref()?.copy();
                let at = exchange.layout.offsets(t, location)?;
                let (core, writes) = (Arc::clone(core), kind == AccessMode::Exclusive);
                Some(Copied { location, core, writes, at, copy })
            };
            let here = team.rank(t) as usize == rank;
            let copies: Vec<_> = requests.iter().filter(|_| here).filter_map(copied).collect();
            (!copies.is_empty()).then(|| Mutex::new(copies))
        };
        Encoded { tasks: (0..).zip(&overlay.plan().requests).map(copies).collect() }
    }

    /// The address of the copy of a request, if its location has an encoded value.
    pub(super) fn address(&self, task: u32, location: u32) -> Option<*mut u8> {
        let copies = self.tasks[task as usize].as_ref()?;
        let copies = copies.lock().unwrap_or_else(PoisonError::into_inner);
        let copied = copies.iter().find(|copied| copied.location == location)?;
        Some(copied.copy.address())
    }

    /// Decodes the values of a task that may run this round, and has not begun.
    #[inline]
    pub(super) fn load(&self, exchange: &Exchange, task: u32, round: u64) -> Result<(), WireError> {
        let Some(copies) = &self.tasks[task as usize] else { return Ok(()) };
        for copied in &mut *copies.lock().unwrap_or_else(PoisonError::into_inner) {
            let Copied { core, at, copy, .. } = copied;
            let Some(wire) = &core.wire else { continue };
            // SAFETY: the task holds the location in this round, so no thread writes the bytes; its
            // body does not run, so no reference to the copy exists.
            unsafe {
                let from = exchange.memory.encoded(at[(round & 1) as usize], wire.len());
                copy.load(&core.name, from)?;
            }
        }
        Ok(())
    }

    /// Encodes the values that a task has written in this round, and still holds.
    #[inline]
    pub(super) fn store(
        &self,
        exchange: &Exchange,
        task: u32,
        round: u64,
    ) -> Result<(), WireError> {
        let Some(copies) = &self.tasks[task as usize] else { return Ok(()) };
        let mut copies = copies.lock().unwrap_or_else(PoisonError::into_inner);
        for copied in copies.iter_mut().filter(|copied| copied.writes) {
            let Copied { core, at, copy, .. } = copied;
            let Some(wire) = &core.wire else { continue };
            let version = (u64::from(task) + 1, round + 1);
            // SAFETY: the task still holds the location exclusively, so no other thread accesses
            // the bytes; its body has returned, so no reference to the copy exists, which was
            // loaded before.
            unsafe {
                let to = exchange.memory.encoded_mut(at[(round & 1) as usize], wire.len());
                copy.store(&core.name, wire, version, to)?;
            }
        }
        Ok(())
    }
}

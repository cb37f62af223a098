//! Poisoned mutexes: their holders have dropped the set, or have ended.
//!
//! # Contract
//! A member notes the mutexes of a set that it holds. If its handle to the set is dropped, or its
//! function ends, it enters each mutex that it still holds into a list on its own host, and sends
//! it to every other host, which enters it there. A mutex in the list is *poisoned*: it never
//! becomes free again, and members that wait or ask for it get [`RmaError::Poisoned`], with the
//! holder's rank. The queue of the mutex does not change, so poisoning works for every kind of
//! mutex.
//!
//! ```text
//!  rank 0: lock(2, 5) ── notes 2, 5 ── its function returns ──> list of its host <── waiters look
//!                                      └── message to the server of each other host ──> list there
//! ```
//!
//! # Costs
//! A lock and an unlock each store to a line of the member's own, and a lock checks the first word
//! of the list. A list has room for 16 mutexes per member. When it is full, every mutex of the set
//! is poisoned.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_fabric::endpoint::{Out, Service};
use syncline_fabric::{Member, ending::AtEnd, endpoint::Endpoint};
use syncline_signal::Liveness;
use syncline_signal::primitive::AtomicU64 as SharedU64;
use syncline_sync::{Space, SpaceError, agreement::Thing, membership::FaultList, space::Array};

use crate::error::RmaError;

/// The number of mutexes of a set that a member may hold, or wait for, at once.
pub(crate) const MOST: usize = 64;

/// The capacity of the list, per member.
const EACH: usize = 16;

/// The list of the poisoned mutexes of a set, in the memory of a host. A clone is the same list.
#[derive(Clone, Debug)]
pub(crate) struct Poison {
    entries: Array<SharedU64>,
}

/// A mutex of a set, with the member that holds it or asks for it, encoded as a word that is not 0.
///
/// ```text
///   bit 63 .. 48      47 .. 34          33 .. 0
///   1 + the member    the owner's rank  the index; all bits: every mutex of the set
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named(u64);

const HOLDER: u32 = 48;
const OWNER: u32 = 34;
const INDEX: u64 = (1 << OWNER) - 1;

impl Named {
    /// The maximum number of mutexes of a set that a member may own: they would take 2 TiB.
    pub(crate) const INDICES: usize = INDEX as usize - 1;

    #[inline]
    pub(crate) fn new(holder: usize, owner: usize, index: usize) -> Named {
        Named((holder as u64 + 1) << HOLDER | (owner as u64) << OWNER | index as u64)
    }

    fn every(self) -> Named {
        Named(self.0 | INDEX)
    }

    /// Returns the rank of the owner, and the index.
    pub(crate) fn place(self) -> (usize, usize) {
        ((self.0 >> OWNER) as usize & 0x3fff, (self.0 & INDEX) as usize)
    }

    fn holder(self) -> usize {
        (self.0 >> HOLDER) as usize - 1
    }

    /// Returns whether an entry of the list is for the given mutex, whichever member it names.
    fn is_of(self, mutex: Named) -> bool {
        (self.0 ^ mutex.0) & ((1 << HOLDER) - 1) == 0 || self.0 & INDEX == INDEX
    }
}

impl Poison {
    pub(crate) fn within(space: &mut Space, members: usize) -> Result<Poison, SpaceError> {
        Ok(Poison { entries: space.array(EACH * members + 1)? })
    }

    fn enter(&self, entry: Named) {
        let (last, others) = self.entries.split_last().expect("a list has room");
        for word in others {
            // Release: pairs with the Acquire in `holder` and `look`.
            match word.compare_exchange(0, entry.0, Ordering::Release, Ordering::Relaxed) {
                Err(other) if other != entry.0 => (),
                _ => return,
            }
        }
        // Release: as above.
        last.store(entry.every().0, Ordering::Release);
    }

    /// Returns the member that has left with a mutex.
    #[inline]
    pub(crate) fn holder(&self, mutex: Named) -> Option<usize> {
        // Acquire: pairs with the Release in `enter`, so that the writes of the holder before it
        // left are seen.
        if self.entries[0].load(Ordering::Acquire) == 0 { None } else { self.look(mutex) }
    }

    #[cold]
    fn look(&self, mutex: Named) -> Option<usize> {
        // Acquire: as in `holder`.
        let words =
            self.entries.iter().map(|word| word.load(Ordering::Acquire)).filter(|&word| word != 0);
        words.map(Named).find(|entry| entry.is_of(mutex)).map(Named::holder)
    }
}

impl Service for Poison {
    fn receive(&self, _from: usize, body: &[u8], _out: &mut Out<'_>) {
        let entries = crate::message::words(body).filter(|word| word >> HOLDER != 0);
        entries.for_each(|word| self.enter(Named(word)));
    }
}

/// The mutexes of a set that a member holds, and the means to report them if it leaves.
#[derive(Debug)]
pub(crate) struct Holds {
    words: [AtomicU64; MOST],
    poison: Poison,
    fault_list: FaultList,
    /// The endpoint to other hosts, and the number of the service there.
    far: Option<(Arc<Endpoint>, u32)>,
    /// The process that has created it: in a child that `fork` has made, nothing is reported.
    process: u32,
}

impl Holds {
    /// Creates one for a set. All members call it together.
    pub(crate) fn new(me: &mut Member) -> Result<Arc<Holds>, SpaceError> {
        let size = me.size();
        let poison = Poison::within(&mut me.space().making(Thing::Mutexes), size)?;
        let attached = me.attach(|| poison.clone());
        let far = attached.and_then(|(service, _)| Some((Arc::clone(me.endpoint()?), service)));
        let (words, process) = ([const { AtomicU64::new(0) }; MOST], std::process::id());
        let fault_list = me.fault_list().clone();
        let holds = Arc::new(Holds { words, poison, fault_list, far, process });
        me.at_end(&holds);
        Ok(holds)
    }

    /// Notes a mutex that this member holds, at an index below `MOST`.
    #[inline]
    pub(crate) fn note(&self, place: usize, mutex: Named) {
        // Relaxed, here and in `clear`: this member reads it at its end; a thread that ends the
        // member has synchronised with it before.
        self.words[place].store(mutex.0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self, place: usize) {
        self.words[place].store(0, Ordering::Relaxed);
    }

    /// Returns the error for a mutex whose holder has left.
    #[inline]
    pub(crate) fn check(&self, mutex: Named) -> Result<(), RmaError> {
        match self.poison.holder(mutex) {
            None => Ok(()),
            Some(by) => Err(poisoned(mutex, by)),
        }
    }

    /// Poisons every mutex that is held, on all hosts.
    fn leave(&self) {
        if self.process != std::process::id() {
            return;
        }
        // Relaxed: see `note`. A swap, as the end of the member and the drop of the set may run at
        // the same time.
        let held =
            self.words.iter().map(|word| word.swap(0, Ordering::Relaxed)).filter(|&word| word != 0);
        let held = held.collect::<Vec<_>>();
        held.iter().for_each(|&entry| self.poison.enter(Named(entry)));
        let Some((endpoint, service)) = self.far.as_ref().filter(|_| !held.is_empty()) else {
            return;
        };
        let hosts = endpoint.hosts();
        let here = hosts.of(endpoint.process());
        endpoint.enter(*service, |out| {
            for host in (0..hosts.count()).filter(|&host| host != here) {
                let mut message = out.message();
                held.iter().for_each(|&entry| crate::message::push(&mut message, entry));
                out.send(hosts.server(host), message);
            }
        });
    }
}

#[cold]
#[inline(never)]
fn poisoned(mutex: Named, by: usize) -> RmaError {
    let (rank, index) = mutex.place();
    RmaError::Poisoned { rank, index, by }
}

impl AtEnd for Holds {
    fn end(&self) {
        self.leave();
    }
}

/// A mutex that a member waits for. The wait ends if the holder has left with it or a member is
/// dead.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) holds: &'a Holds,
    pub(crate) rank: usize,
    pub(crate) index: usize,
    pub(crate) mutex: Named,
}

impl Wanted<'_> {
    /// Returns the reason why the mutex will never be free again, if there is one.
    pub(crate) fn lost(&self) -> Result<(), RmaError> {
        self.holds.check(self.mutex)?;
        self.holds.fault_list.fault(0).map_or(Ok(()), |fault| Err(fault.into()))
    }
}

impl Liveness for Wanted<'_> {
    fn gone(&self) -> Option<u32> {
        self.lost().err().map(|_| u32::MAX)
    }
}

/// A member's own handle, whose drop poisons the mutexes that are held.
#[derive(Debug)]
pub(crate) struct Own(pub(crate) Arc<Holds>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_is_found_and_a_full_list_poisons_the_set() {
        let poison = Poison::within(&mut Space::heap(), 1).unwrap();
        let holder = |owner, index| poison.holder(Named::new(9, owner, index));
        let enter = |by, owner, index| poison.enter(Named::new(by, owner, index));
        assert_eq!(holder(0, 0), None);
        enter(4095, 4094, 7);
        enter(4095, 4094, 7);
        assert_eq!((holder(4094, 7), holder(4094, 8)), (Some(4095), None));
        assert_eq!((holder(4093, 7), holder(0, 0)), (None, None));
        (1..EACH).for_each(|index| enter(3, 0, index));
        assert_eq!((holder(0, EACH - 1), holder(0, EACH)), (Some(3), None));
        enter(5, 0, EACH);
        assert_eq!((holder(0, EACH), holder(1, Named::INDICES - 1)), (Some(5), Some(5)));
        assert_eq!(holder(0, 1), Some(3));
    }

    #[test]
    fn a_name_is_what_it_was_made_of() {
        for place in [(0, 0), (4095, 7), (0x3fff, Named::INDICES - 1)] {
            let name = Named::new(4095, place.0, place.1);
            assert_eq!((name.place(), name.holder()), (place, 4095));
            assert_ne!(name, name.every());
        }
    }
}

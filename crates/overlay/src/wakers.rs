//! The wakers of requests that are awaited by futures.
//!
//! # Contract
//! A future that is told "not yet" is woken once its request is granted: no wake-up is lost. A waker is
//! foreign code: it may use this location and any other, so it is cloned, woken and dropped outside of
//! all sections. Whoever does not use futures pays for one branch where a handle is granted, and one
//! where a section has been left.
//!
//! # State: a flag in the node, and a slot beside it
//! ```text
//! no waker ──not granted: register──> waker ──grant──> taken by the granter ──section left──> woken
//!     ^                               │  │^
//!     └─────────── abandon ───────────┘  └┘ register: the new one in place of the old
//! ```
//!
//! | who     | step, each one section                                                    |
//! |---------|---------------------------------------------------------------------------|
//! | future  | looks for the grant again; there: ready; not there: puts its waker        |
//! | granter | counts the grant; takes the waker if there is one; wakes when it is out   |
//!
//! A wake-up is lost only if the granter found no waker and the future no grant. Both look in a section,
//! so one of them comes second and sees the other. The same holds for a request that is given up in the
//! moment of its grant: it leaves the queue before the grant, or releases after it.
//!
//! The slots are not in the nodes, which have no pointers and may stand in shared memory.
//!
//! # Costs
//! A poll that finds the grant: one load. One that does not: one section, a clone of the waker when it is
//! not the one of the last poll. A grant: one move of the waker. A location allocates its slots when the
//! first future waits there; after that nothing allocates, except when one release lets in more than
//! eight futures.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use syncline_signal::plant;

use crate::location::Core;
use crate::raw::{Node, Nodes};

/// A place for the waker of one node. Locked only by those who are in a section of the location, or own
/// the idle node: nobody ever waits for it.
#[derive(Debug, Default)]
pub(crate) struct WakerSlot(Mutex<Option<Waker>>);

impl WakerSlot {
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Counts a grant of the handle with node `n`, and takes its waker if it waits with one. In a section.
    #[inline]
    pub(crate) fn tell_handle(&self, n: u32, wakes: &mut Wakes) {
        let node = self.nodes.node(n);
        node.grants().increment();
        if node.has_waker() {
            self.take_waker(n, node, wakes);
        }
    }

    #[cold]
    fn take_waker(&self, n: u32, node: &Node, wakes: &mut Wakes) {
        node.set_has_waker(false);
        if let Some(waker) = self.nodes.waker_slot(n).and_then(|slot| slot.lock().take()) {
            wakes.push(waker);
        }
    }

    /// Whether node `n` has had its grant number `grants`. If not, `waker` is woken when it has.
    pub(crate) fn granted_or_wakes(&self, n: u32, grants: u64, waker: &Waker) -> bool {
        let node = self.nodes.node(n);
        if node.grants().get() >= grants {
            return true;
        }
        if node.has_waker() {
            let _section = self.raw.section();
            let slot = self.nodes.waker_slot(n).map(WakerSlot::lock);
            let any = plant::is("future: first waker kept");
            if slot.is_some_and(|slot| slot.as_ref().is_some_and(|w| any || w.will_wake(waker))) {
                return false;
            }
        }
        let slot = self.nodes.make_waker_slot(n);
        let mut waker = Some(waker.clone());
        let section = self.raw.section();
        let granted = node.grants().get() >= grants && !plant::is("future: no second look");
        if !granted {
            std::mem::swap(&mut waker, &mut *slot.lock());
            node.set_has_waker(true);
        }
        drop(section);
        drop(waker); // the one that was not needed, or not any more
        granted
    }

    /// Drops the waker of the idle node `n`, if there is one.
    pub(crate) fn forget_waker(&self, n: u32) {
        let node = self.nodes.node(n);
        if node.has_waker() {
            node.set_has_waker(false);
            let waker = self.nodes.waker_slot(n).and_then(|slot| slot.lock().take());
            drop(waker); // after the slot is unlocked
        }
    }
}

/// Wakers that were taken in a section. They are woken, in the order of their grants, when this is
/// dropped: so it must be made before the section is entered.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Option<Taken>);

/// Only made when there is a waker: an empty `Wakes` is one store, and one branch when it is dropped.
#[derive(Debug, Default)]
struct Taken {
    few: [Option<Waker>; 8],
    /// Of the few: how many were put there, and how many of those have been woken.
    put: usize,
    woken: usize,
    more: VecDeque<Waker>,
}

impl Wakes {
    fn push(&mut self, waker: Waker) {
        let taken = self.0.get_or_insert_default();
        if let Some(free) = taken.few.get_mut(taken.put) {
            *free = Some(waker);
            taken.put += 1;
        } else {
            taken.more.push_back(waker);
        }
    }
}

impl Drop for Wakes {
    #[inline]
    fn drop(&mut self) {
        if let Some(taken) = &mut self.0 {
            taken.wake_all();
        }
    }
}

impl Taken {
    fn pop(&mut self) -> Option<Waker> {
        if self.woken == self.put {
            return self.more.pop_front();
        }
        self.woken += 1;
        self.few[self.woken - 1].take()
    }

    /// If a waker panics, the others are woken while the panic unwinds.
    #[cold]
    fn wake_all(&mut self) {
        struct Rest<'a>(&'a mut Taken);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                while let Some(waker) = self.0.pop() {
                    waker.wake();
                }
            }
        }
        let rest = Rest(self);
        while let Some(waker) = rest.0.pop() {
            waker.wake();
        }
    }
}

//! The wakers of requests that futures await.
//!
//! # Contract
//! A future that returns `Pending` is woken once its request is granted: no wake-up is lost. A
//! waker is foreign code that may use this location and any other, so it is cloned, woken and
//! dropped outside all sections. A program without futures pays one branch where a handle is
//! granted, and one after a section.
//!
//! # State: a flag in the node, and a slot beside it
//! ```text
//! no waker ──not granted: register──> waker ──grant──> taken by granter ──section ends──> woken
//!     ^                               │  │^
//!     └─────────── abandon ───────────┘  └┘ register: the new waker replaces the old one
//! ```
//!
//! | party   | step, each in one section                                                   |
//! |---------|-----------------------------------------------------------------------------|
//! | future  | checks for the grant again: ready if granted, else registers its waker      |
//! | granter | counts the grant, takes the waker if there is one, wakes it after leaving   |
//!
//! A wake-up is lost only if the granter finds no waker and the future finds no grant. Both look
//! inside a section, so one of them comes second and sees the step of the first. The same argument
//! holds for a request that is abandoned at the moment of its grant: it either leaves the queue
//! before the grant, or is released after it.
//!
//! The slots are not part of the nodes, which have no pointers and may lie in shared memory.
//!
//! # Costs
//! A poll that finds the grant takes one load. A poll that does not takes a section; it clones the
//! waker and takes a second section if the waker differs from that of the last poll. A grant moves
//! the waker once. A location allocates its slots when the first future waits there; after that
//! nothing allocates, except when one release grants more than eight futures.

use std::collections::VecDeque;
use std::task::Waker;

use syncline_signal::plant;

use crate::nodes::{NodePool, WakerSlot};
use crate::raw::{Node, Nodes, RawLocation};

impl NodePool {
    /// Counts a grant of the handle with node `n`, and moves its waker, if any, to `wakes`. Must be
    /// called in a section.
    #[inline]
    pub(crate) fn tell_handle(&self, n: u32, wakes: &mut Wakes) {
        let node = self.node(n);
        node.grants().increment();
        if node.has_waker() {
            self.take_waker(n, node, wakes);
        }
    }

    #[cold]
    fn take_waker(&self, n: u32, node: &Node, wakes: &mut Wakes) {
        node.set_has_waker(false);
        if let Some(waker) = self.waker_slot(n).and_then(|slot| slot.lock().take()) {
            wakes.push(waker);
        }
    }

    /// Returns whether node `n` has reached grant number `grants`. If not, registers `waker` for
    /// that grant.
    pub(crate) fn granted_or_wakes(
        &self,
        raw: &RawLocation,
        n: u32,
        grants: u64,
        waker: &Waker,
    ) -> bool {
        let node = self.node(n);
        if node.grants().get() >= grants {
            return true;
        }
        // Only polls set the flag, so this one sees the flag of the last poll. A granter may have
        // cleared it meanwhile: the slot decides, inside the section.
        if node.has_waker() {
            let _section = raw.section();
            let slot = self.waker_slot(n).map(WakerSlot::lock);
            let any = plant::is("future: first waker kept");
            if slot.is_some_and(|slot| slot.as_ref().is_some_and(|w| any || w.will_wake(waker))) {
                return false;
            }
        }
        let slot = self.make_waker_slot(n);
        let mut waker = Some(waker.clone());
        let section = raw.section();
        let granted = node.grants().get() >= grants && !plant::is("future: no second look");
        if !granted {
            std::mem::swap(&mut waker, &mut *slot.lock());
            node.set_has_waker(true);
        }
        drop(section);
        drop(waker); // the replaced waker, or the unused clone; outside the section
        granted
    }

    /// Drops the waker of the idle node `n`, if there is one.
    pub(crate) fn forget_waker(&self, n: u32) {
        let node = self.node(n);
        if node.has_waker() {
            node.set_has_waker(false);
            let waker = self.waker_slot(n).and_then(|slot| slot.lock().take());
            drop(waker); // after the slot is unlocked
        }
    }
}

/// Wakers that were taken in a section. Dropping the value wakes them in the order of their grants,
/// so it must be created before the section is entered.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Option<Taken>);

/// The collected wakers. Created on the first push: an empty `Wakes` costs one store, and one
/// branch when it is dropped.
#[derive(Debug, Default)]
struct Taken {
    few: [Option<Waker>; 8],
    /// The number of entries of `few` that were filled, and the number of those that were woken.
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

    /// Wakes all collected wakers. If one panics, the rest are woken while the panic unwinds.
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

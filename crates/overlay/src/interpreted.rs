//! Running over the queues themselves: the reference for the compiled forms, and the form for
//! handles from outside.
//!
//! # One step of a task
//! The last request that the task lacks is granted; the task is ready; a thread runs its body;
//! then, at each location, its next request is queued and the current one released (R2). One word
//! counts what the task still lacks: its requests, and one more for the task itself, so that it
//! does not start again while its requests are still being advanced.
//!
//! ```text
//! missing   n+1 ──grant──> n ──grant──> ... ──own──> 0: ready ──body──> n+1, advance all requests
//! ```
//!
//! Among the tasks of an overlay it would suffice to advance location by location: the task waits
//! for nothing meanwhile, so every edge of the waits-for graph that it reverses starts at a sink.
//! But a handle's task that posts over two locations could interleave. So all sections are locked
//! first.
//!
//! # Costs
//! Per step and request: one section of the location, and one atomic subtraction for each grant.
//! Per step: a push to and a pop from a ready queue, or the wake-up of a thread. Nothing allocates.

use std::sync::Arc;

use syncline_signal::primitive::Ordering;
use syncline_signal::{Policy, Signal};
use syncline_trace::{Activity, is_enabled, span};

use crate::body::Body;
use crate::compiled::claimed::{CLAIMED, rounds};
use crate::engine::{Engine, Failure, Seat};
use crate::location::{Core, Route};
use crate::nodes::BY_HAND;
use crate::raw::Nodes;
use crate::wakers::Wakes;

impl Engine {
    #[inline]
    fn tell(&self, core: &Core, n: u32, wakes: &mut Wakes) {
        match core.nodes.node(n).waiter() {
            BY_HAND => core.nodes.tell_handle(n, wakes),
            task => self.granted(task),
        }
    }

    /// Runs one iteration of a ready task. Returns false when the task has stopped, or the run is
    /// over.
    ///
    /// `traced` is no parameter of the type: with two copies of this function, what it calls has
    /// two callers, and the compiler inlines less. A step over queues took 11 to 60 instructions
    /// more then; the branch takes one or two.
    pub(crate) fn step_in_queues(
        &self,
        seat: &Seat,
        task: u32,
        body: &mut Body<'_>,
        traced: bool,
    ) -> bool {
        let slot = &self.slots[task as usize];
        let iteration = rounds(self.states[task as usize].load(Ordering::Relaxed));
        let requests = self.requests_of(task);
        // A handle from outside may have panicked and poisoned a location.
        if let Some((core, task)) =
            requests.iter().find_map(|(core, _)| Some((core, core.poisoned()?)))
        {
            self.fail(Failure::Poisoned { location: core.name.clone(), task });
            return false;
        }
        seat.take(task);
        let state = match traced {
            false => self.iterate(task, iteration, body),
            true => self.iterate_traced(task, iteration, body),
        };
        let Some(state) = state else { return false };
        self.states[task as usize].store(state, Ordering::Relaxed);
        let goes_on = state & CLAIMED == 0;
        if goes_on {
            slot.missing.store(slot.count + 1, Ordering::Relaxed);
            self.turn_over(requests);
            self.granted(task);
        } else {
            let mut wakes = Wakes::default();
            for (core, node) in requests {
                core.raw
                    .section()
                    .release(&core.nodes, *node, &mut |n| self.tell(core, n, &mut wakes));
            }
            self.one_less();
        }
        seat.leave();
        goes_on
    }

    /// Advances all requests of a task. All sections are locked, in the order of addresses, before
    /// the first is left: a post over several locations that locks in the same way stands either
    /// before the task at all of them, or behind it at all of them.
    #[inline]
    fn turn_over(&self, requests: &[(Arc<Core>, u32)]) {
        let mut wakes = Wakes::default();
        for (core, _) in requests {
            core.raw.enter();
        }
        for (core, node) in requests {
            core.raw.entered().next(&core.nodes, *node, &mut |n| self.tell(core, n, &mut wakes));
        }
    }

    /// Runs a task in a thread of its own until it stops, or the run is over.
    pub(crate) fn own_thread(&self, task: u32, start: &Signal, body: &mut Body<'_>) {
        let seat = &self.seats[task as usize];
        for turn in 1.. {
            // Without a death word and a deadline the wait cannot fail.
            let waits = span(Activity::AwaitTask, 0, 0);
            let _ = start.wait_until(turn, &Policy::default(), None);
            drop(waits);
            // A failed run raises the signal beyond all turns. Acquire: pairs with `halt`.
            if self.halt.load(Ordering::Acquire) {
                return;
            }
            if !self.step_in_queues(seat, task, body, is_enabled()) {
                return;
            }
        }
    }
}

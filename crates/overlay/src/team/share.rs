//! How the workers of a member wait for other members, and how a failure here ends the run there.
//!
//! # How a worker waits
//! A worker that has nothing to run looks some 50 times, as in `claimed`. Then:
//!
//! | worker                                | waits                                                |
//! |---------------------------------------|------------------------------------------------------|
//! | the member's own, if there are hosts  | in the endpoint, which receives messages and first   |
//! | that it exchanges messages with       | sends those that were kept                           |
//! | all others                            | on its event count in the memory of the host         |
//!
//! Both waits look ten times a second for members that are dead. A wait in the endpoint expects to
//! take as long as the one before, as waits in a pipeline do.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use syncline_signal::Policy;
use syncline_signal::primitive::Ordering;
use syncline_sync::{Fault, membership::FaultList};

use crate::compiled::claimed::Rest;
use crate::engine::{Engine, Failure, Share};
use crate::error::{RunError, message};
use crate::live::Live;
use crate::team::exchange::{Exchange, Link};
use crate::team::memory::Failed;

/// The rest of the workers of one member.
pub(super) struct Resting<'a> {
    pub(super) exchange: &'a Exchange,
    pub(super) engine: &'a Engine,
    /// The number of this member's first worker, the member's own thread.
    pub(super) first: usize,
    pub(super) workers: usize,
    pub(super) fault_list: FaultList,
    /// The nanoseconds of the last wait of the member's own thread.
    pub(super) last_wait: AtomicU64,
}

impl Rest for Resting<'_> {
    fn rest(&self, me: usize, nothing: &mut dyn FnMut() -> bool) {
        let Resting { exchange, engine, .. } = self;
        let mut still = || !exchange.is_over() && !self.is_done() && nothing();
        let waited = match &exchange.link {
            Some(Link { endpoint, .. }) if me == self.first => {
                let begun = Instant::now();
                // Relaxed: the thread's own word, which is read by no other thread.
                let before = Duration::from_nanos(self.last_wait.load(Ordering::Relaxed));
                let waited = endpoint.wait_about(before, || !still());
                self.last_wait.store(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                waited
            }
            _ => {
                let policy = Policy::default().watching(&self.fault_list);
                let waited = exchange.parked.park_watching(me, &policy, still);
                waited.map_err(|_| self.fault_list.fault(0).unwrap_or(Fault::TimedOut))
            }
        };
        if let Err(fault) = waited {
            engine.fail(Failure::Fault(fault));
        }
        if exchange.is_over() || self.is_done() {
            engine.halt();
        }
    }
}

impl Resting<'_> {
    /// Whether the tasks of this member that have not ended wait for no task that goes on, as all
    /// tasks that they could wait for have left.
    fn is_done(&self) -> bool {
        let Resting { exchange, engine, first, workers, .. } = self;
        if exchange.memory.departed() == 0 {
            return false;
        }
        let own = (0..).zip(&exchange.home);
        let own = own.filter(|(_, home)| (*first..first + workers).contains(&(**home as usize)));
        let stop_at = engine.stop_at.load(Ordering::Relaxed);
        own.map(|(t, _)| t).all(|t| exchange.rounds(t) >= stop_at || exchange.is_finished(t))
    }
}

/// Publishes the failures of a member to all members of the team.
pub(super) struct Publish {
    pub(super) exchange: Arc<Exchange>,
    pub(super) live: Arc<Live>,
    pub(super) rank: usize,
}

impl Share for Publish {
    fn failed(&self, failure: &Failure, rounds: &dyn Fn(u32) -> u64) {
        let Publish { exchange, live, rank } = self;
        let name = |task: u32| live.plan.tasks[task as usize].clone();
        let (task, error) = match failure {
            // Each member finds it out by itself.
            Failure::Fault(_) => return,
            Failure::Body { task, source } => {
                let source = source.to_string().into();
                let (task_name, iteration) = (name(*task), rounds(*task));
                let error = RunError::Failed { task: task_name, iteration, source };
                (Some((*task, false)), error.to_string())
            }
            Failure::Panic { task, payload } => {
                let (task_name, iteration) = (name(*task), rounds(*task));
                let (locations, message) = (live.plan.written(*task), message(&**payload));
                let error = RunError::Panicked { task: task_name, iteration, locations, message };
                (Some((*task, true)), error.to_string())
            }
            Failure::Thread { what, source } => {
                (None, format!("could not start a thread for {what}: {source}"))
            }
            Failure::Stuck(stuck) => (None, stuck.to_string()),
            Failure::Poisoned { location, task } => {
                let (location, task) = (location.clone(), task.clone());
                (None, RunError::Poisoned { location, task }.to_string())
            }
        };
        exchange.fail(&Failed { rank: *rank, task, error });
    }
}

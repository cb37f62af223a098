//! The manager's side of a pool whose workers steal: it offers the submitted tasks, and settles the
//! tasks of workers that have ended.

use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::FarmError;
use crate::farm::Farm;
use crate::pool::TaskError;
use crate::pool::fork_table::{ForkState, Left, Offer, WORKERS};
use crate::pool::manager::{Manager, WorkerEnd, WorkerState};
use crate::pool::ready::Id;
use crate::pool::steal::Seat;
use crate::record::ProcessState;
use crate::vpid::Vpid;
use crate::wire::WireError;

/// The number of offered tasks per worker: enough that no worker waits for the manager, and few
/// enough that an urgent task that comes later is not behind all others.
const OFFERED: usize = 32;
/// The largest number of offered tasks: a deque holds that number.
const MOST: usize = 1000;

/// The manager's seat at the fork table, and its offered tasks.
pub(crate) struct StealManager {
    pub(crate) seat: Seat,
    /// The tasks that were offered and whose results were not taken yet.
    offered: Vec<(Offer, Id)>,
}

impl StealManager {
    /// Creates the fork table.
    pub(crate) fn new(farm: &Farm) -> Result<StealManager, FarmError> {
        let arena = farm.arena();
        let memory = arena.memory();
        let block = arena.make_fork_table().ok_or(FarmError::Room { asked: 16 << 20, memory })?;
        // SAFETY: the fork table was created just now.
        let seat = unsafe { Seat::new(arena, block, 0, Vpid::MANAGER) };
        Ok(StealManager { seat, offered: Vec::new() })
    }

    /// Returns whether an offered task has ended.
    pub(crate) fn any_ended(&self) -> bool {
        self.offered.iter().any(|(offer, _)| self.seat.table().state(offer) == ForkState::Ended)
    }
}

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Offers ready tasks, the best first, and starts all workers if there is work.
    pub(crate) fn offer_ready(&mut self) {
        let most = (OFFERED * self.builder.workers).min(MOST);
        while let Some(steal_manager) =
            self.steal_manager.as_ref().filter(|steal_manager| steal_manager.offered.len() < most)
        {
            let Some(id) = self.ready.pop() else { break };
            let Some(job) = self.job(id) else { continue };
            match steal_manager.seat.offer(&job.task) {
                Ok(Some(offer)) => self
                    .steal_manager
                    .as_mut()
                    .map_or((), |manager| manager.offered.push((offer, id))),
                // The fork table or the memory is full: tries later, when a task has ended.
                Ok(None) => {
                    self.again(id);
                    break;
                }
                Err(WireError::Long { .. }) if !steal_manager.offered.is_empty() => {
                    self.again(id);
                    break;
                }
                Err(why) => self.end(id, Err(TaskError::Unsendable { why: format!("it {why}") })),
            }
        }
        // An offered task may fork enough for all workers.
        let work = self
            .steal_manager
            .as_ref()
            .is_some_and(|steal_manager| !steal_manager.offered.is_empty());
        while work && self.workers.len() < self.builder.workers {
            match self.start() {
                Ok(()) => (),
                Err(error) if self.workers.is_empty() => {
                    return self.fail_all(&error.to_string());
                }
                Err(_) => return, // the existing workers continue
            }
        }
    }

    /// Assigns a new worker its seat at the fork table.
    pub(crate) fn seat(&mut self, vpid: Vpid) -> Option<(u32, usize)> {
        let taken = |worker: usize| self.workers.iter().any(|other| other.number == worker);
        let worker = (1..WORKERS).find(|&worker| !taken(worker))?;
        let seat = &self.steal_manager.as_ref()?.seat;
        seat.table().reset(worker, vpid.to_raw());
        Some((seat.block(), worker))
    }

    /// Takes the results of ended tasks.
    pub(crate) fn collect(&mut self) {
        let Some(StealManager { seat, offered }) = &mut self.steal_manager else { return };
        let there = |(offer, _): &mut (Offer, Id)| seat.table().state(offer) == ForkState::Ended;
        let taken = offered
            .extract_if(.., there)
            .filter_map(|(offer, id)| Some((id, seat.result(offer).ok()?)));
        let ended = taken.collect::<Vec<_>>();
        for (id, result) in ended {
            (self.exited_early, self.killed_early) = (0, 0);
            self.end(id, result);
        }
    }

    /// Takes an offered task back; returns whether no worker has begun it. A task that is not
    /// offered has not begun.
    pub(crate) fn unoffer(&mut self, id: Id) -> bool {
        let Some(StealManager { seat, offered }) = &mut self.steal_manager else { return true };
        let Some(at) = offered.iter().position(|(_, other)| *other == id) else { return true };
        let (offer, _) = offered.swap_remove(at);
        match seat.table().take_back(offer, 0) {
            Ok(last) => seat.free(last),
            Err(begun) => {
                offered.push((begun, id));
                return false;
            }
        }
        true
    }

    /// Fails the offered tasks that no worker has begun: there is no worker for them.
    pub(crate) fn withdraw(&mut self, why: &str) {
        let Some(StealManager { seat, offered }) = &mut self.steal_manager else { return };
        let mut withdrawn = Vec::new();
        for (offer, id) in std::mem::take(offered) {
            match seat.table().take_back(offer, 0) {
                Ok(last) => {
                    seat.free(last);
                    withdrawn.push(id);
                }
                Err(begun) => offered.push((begun, id)),
            }
        }
        for id in withdrawn {
            self.end(id, Err(TaskError::NoWorker { why: why.to_owned() }));
        }
    }

    /// Settles the tasks of a worker that has ended.
    pub(crate) fn settle(&mut self, worker: &WorkerState, worker_end: &WorkerEnd<'_>) {
        let Some(steal_manager) = &self.steal_manager else { return };
        let (seat, retries) = (steal_manager.seat.clone(), u64::from(self.builder.retries));
        let table = seat.table();
        if seat.arena.life(worker.vpid) != ProcessState::Ended {
            return; // it keeps what it has
        }
        // SAFETY: the process has ended, and it alone was this worker, as `seat` has assigned the
        // number to it. Its `WorkerState` was removed from the manager's list, so this is called
        // once for it.
        let left = unsafe { table.left_by(worker.number, worker.vpid.to_raw()) };
        table.reset(worker.number, 0);
        // The worker was running the task that it began last; the tasks around it wait for others.
        let since = |left: &Left| match left {
            Left::Begun(claim) => Some(table.cell(claim).since.load(Ordering::Relaxed)),
            Left::Last(_) => None,
        };
        let latest = left.iter().filter_map(since).max();
        for left in left {
            let claim = match left {
                Left::Begun(claim) => claim,
                Left::Last(last) => {
                    // The supervisor has freed what belonged to the dead process; what belongs to
                    // others is still there.
                    seat.free(last);
                    continue;
                }
            };
            let cell = table.cell(&claim);
            let tries = cell.tries.fetch_add(1, Ordering::Relaxed) + 1;
            let owner = Vpid::from_raw(table.owner(&claim));
            if tries <= retries && seat.arena.life(owner) != ProcessState::Ended {
                self.progress.retried += 1;
                match table.again(claim) {
                    Ok(()) => seat.wake(),
                    Err(last) => seat.free(last),
                }
                continue;
            }
            let tries = u32::try_from(tries).unwrap_or(u32::MAX);
            let at_it = latest == Some(cell.since.load(Ordering::Relaxed));
            let error = match &worker.killed {
                Some(TaskError::TimedOut { after, .. }) if at_it => {
                    worker_end.timed_out(*after, tries)
                }
                Some(other @ TaskError::Garbled { .. }) => other.clone(),
                _ => worker_end.error(tries),
            };
            seat.end(claim, &Err::<(), _>(error));
        }
        self.collect();
    }
}

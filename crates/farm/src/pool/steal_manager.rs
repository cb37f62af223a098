//! What the manager of a pool that steals does: it offers what was submitted, and settles what the
//! dead have left.

use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::FarmError;
use crate::farm::Farm;
use crate::pool::TaskError;
use crate::pool::fork_table::{ForkState, Left, Offer, WORKERS};
use crate::pool::manager::{Manager, WorkerState};
use crate::pool::ready::Id;
use crate::pool::steal::Seat;
use crate::record::ProcessState;
use crate::vpid::Vpid;
use crate::wire::WireError;

/// How many tasks are offered for each worker: enough that no worker waits for the manager, few
/// enough that what is urgent and comes later is not behind all others.
const OFFERED: usize = 32;
/// How many are offered at most: a deck holds as many.
const MOST: usize = 1000;

/// The manager's place at the board.
pub(crate) struct StealManager {
    pub(crate) seat: Seat,
    /// What was offered and has not ended.
    offered: Vec<(Offer, Id)>,
}

impl StealManager {
    /// Makes the board.
    pub(crate) fn new(farm: &Farm) -> Result<StealManager, FarmError> {
        let arena = farm.arena();
        let memory = arena.memory();
        let block = arena.make_fork_table().ok_or(FarmError::Room { asked: 16 << 20, memory })?;
        // SAFETY: the board was made just now.
        let seat = unsafe { Seat::new(arena, block, 0, Vpid::MANAGER) };
        Ok(StealManager { seat, offered: Vec::new() })
    }

    /// Whether something that was offered has ended.
    pub(crate) fn any_ended(&self) -> bool {
        self.offered.iter().any(|(offer, _)| self.seat.table().state(offer) == ForkState::Ended)
    }
}

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Offers what is ready, the best first, and has as many workers as there is work for.
    pub(crate) fn deal(&mut self) {
        let most = (OFFERED * self.builder.workers).min(MOST);
        while let Some(dealer) = self.dealer.as_ref().filter(|dealer| dealer.offered.len() < most) {
            let Some(id) = self.ready.pop() else { break };
            let Some(job) = self.job(id) else { continue };
            match dealer.seat.offer(&job.task) {
                Ok(Some(offer)) => self.dealer.as_mut().map_or((), |d| d.offered.push((offer, id))),
                // The board is full, or the memory: later, when something has ended.
                Ok(None) => {
                    self.again(id);
                    break;
                }
                Err(WireError::Long { .. }) if !dealer.offered.is_empty() => {
                    self.again(id);
                    break;
                }
                Err(why) => self.end(id, Err(TaskError::Unsendable { why: format!("it {why}") })),
            }
        }
        // What was offered may fork enough for all.
        let work = self.dealer.as_ref().is_some_and(|dealer| !dealer.offered.is_empty());
        while work && self.workers.len() < self.builder.workers {
            match self.start() {
                Ok(()) => (),
                Err(error) if self.workers.is_empty() => {
                    return self.fail_all(&error.to_string());
                }
                Err(_) => return, // those who are there go on
            }
        }
    }

    /// Gives a new worker its place at the board.
    pub(crate) fn seat(&mut self, vpid: Vpid) -> Option<(u32, usize)> {
        let taken = |worker: usize| self.workers.iter().any(|other| other.number == worker);
        let worker = (1..WORKERS).find(|&worker| !taken(worker))?;
        let seat = &self.dealer.as_ref()?.seat;
        seat.table().reset(worker, vpid.to_raw());
        Some((seat.block(), worker))
    }

    /// Takes the results of what has ended.
    pub(crate) fn collect(&mut self) {
        let Some(StealManager { seat, offered }) = &mut self.dealer else { return };
        let there = |(offer, _): &mut (Offer, Id)| seat.table().state(offer) == ForkState::Ended;
        let taken = offered
            .extract_if(.., there)
            .filter_map(|(offer, id)| Some((id, seat.result(offer).ok()?)));
        let ended = taken.collect::<Vec<_>>();
        for (id, result) in ended {
            self.stillborn = 0;
            self.end(id, result);
        }
    }

    /// No worker can do what was offered and not begun.
    pub(crate) fn withdraw(&mut self, why: &str) {
        let Some(StealManager { seat, offered }) = &mut self.dealer else { return };
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

    /// Settles what a worker has left that has ended.
    pub(crate) fn settle(&mut self, worker: &WorkerState, how: &str) {
        let Some(dealer) = &self.dealer else { return };
        let (seat, retries) = (dealer.seat.clone(), u64::from(self.builder.retries));
        let table = seat.table();
        if seat.arena.life(worker.vpid) != ProcessState::Ended {
            return; // it keeps what it has
        }
        // SAFETY: the process has ended, and it alone had this hand, which `seat` has given it. Its
        // `WorkerState` has left the manager's list, so it is settled once.
        let left = unsafe { table.left_by(worker.number, worker.vpid.to_raw()) };
        table.reset(worker.number, 0);
        // It was at the last that it had begun; those around that wait for others.
        let since = |left: &Left| match left {
            Left::Begun(claim) => Some(table.cell(claim).since.load(Ordering::Relaxed)),
            Left::Last(_) => None,
        };
        let latest = left.iter().filter_map(since).max();
        for left in left {
            let claim = match left {
                Left::Begun(claim) => claim,
                Left::Last(last) => {
                    // What belonged to the dead was given back by the steward; what to others is
                    // there still.
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
                    TaskError::TimedOut { after: *after, tries }
                }
                Some(other @ TaskError::Garbled { .. }) => other.clone(),
                _ => TaskError::Worker { vpid: worker.vpid, how: how.to_owned(), tries },
            };
            seat.end(claim, &Err::<(), _>(error));
        }
        self.collect();
    }
}

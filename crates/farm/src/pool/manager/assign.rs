//! Assignment of tasks to workers: which tasks, when, and in which batches. Starts the workers.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CHILD, Manager, WorkerState};
use crate::error::FarmError;
use crate::pool::order::OrderRef;
use crate::pool::ready::Id;
use crate::pool::{PoolKind, TaskError, monotonic};
use crate::program::Program;
use crate::vpid::Vpid;

/// The intended duration of a batch, in nanoseconds.
const BATCH: f64 = 200_000.0;
/// The largest number of tasks in a batch.
const MOST: usize = 4096;
/// The largest number of batches of a worker, including the one that it is running.
const BATCHES: usize = 2;

/// The type of the tasks of an order without tasks.
type NoTasks<'a, T> = std::slice::Iter<'a, T>;

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Hands out ready tasks, as far as there are workers for them.
    pub(super) fn hand_out(&mut self) {
        if self.steal_manager.is_some() {
            return self.offer_ready();
        }
        while !self.ready.is_empty() {
            // Workers that wait for children are not counted as busy. Once they continue, no more
            // than the pool's number of workers run at once.
            let busy = |worker: &&WorkerState| !worker.tasks.is_empty() && worker.waiting.is_none();
            if self.workers.iter().filter(busy).count() < self.builder.workers {
                let idle = |worker: &WorkerState| worker.tasks.is_empty() && !worker.ending;
                if let Some(at) = self.workers.iter().position(idle) {
                    if !self.give(at) {
                        return;
                    }
                    continue;
                }
                match self.start() {
                    Ok(()) => continue,
                    Err(error) if self.workers.is_empty() => self.fail_all(&error.to_string()),
                    Err(_) => (), // the existing workers continue, and a later start may succeed
                }
            }
            let is_alone = |id: &Id| self.job(*id).is_some_and(|job| job.alone);
            let room = |worker: &WorkerState| {
                worker.batches.len() < BATCHES
                    && !worker.ending
                    && !worker.tasks.front().is_some_and(is_alone)
            };
            match self.workers.iter().position(room).filter(|_| self.goes_ahead()) {
                Some(at) if self.give(at) => (),
                _ => return,
            }
        }
    }

    /// Returns whether workers are handed tasks ahead of time: only small tasks, as otherwise one
    /// would wait behind a long one.
    fn goes_ahead(&self) -> bool {
        let small = self.mean.is_some_and(|mean| mean < BATCH);
        self.builder.kind == PoolKind::Warm
            && (small || self.builder.batch.is_some_and(|batch| batch.get() > 1))
    }

    /// Returns the number of tasks to hand out together.
    fn batch(&self) -> usize {
        if self.builder.kind != PoolKind::Warm {
            return 1;
        }
        match (self.builder.batch, self.mean) {
            (Some(batch), _) => batch.get().min(1 << 20),
            (None, None) => 1,
            (None, Some(mean)) => {
                let share = self.ready.len() / (4 * self.builder.workers);
                ((BATCH / mean.max(1.0)) as usize).min(share).clamp(1, MOST)
            }
        }
    }

    /// Hands a worker its next tasks; returns whether there was room for them.
    fn give(&mut self, at: usize) -> bool {
        let (mut batch, mut ids) = (self.batch(), Vec::new());
        let has_tasks = !self.workers[at].tasks.is_empty();
        while ids.len() < batch
            && let Some(id) = self.ready.pop()
        {
            // A child whose parent has ended, or has taken it back, does not exist any more.
            let Some(job) = self.job_mut(id) else { continue };
            if job.alone {
                if has_tasks || !ids.is_empty() {
                    self.again(id);
                    return !ids.is_empty() && self.send(at, &ids);
                }
                batch = 1;
            }
            job.handed = true;
            ids.push(id);
        }
        ids.is_empty() || self.send(at, &ids)
    }

    /// Sends tasks to a worker: all together, or one by one, if one of them cannot be sent. Returns
    /// whether there was room.
    fn send(&mut self, at: usize, ids: &[Id]) -> bool {
        let vpid = self.workers[at].vpid;
        let (roots, children, first) = (&self.roots, &self.children, self.first);
        let task = |id: &Id| match id & CHILD {
            0 => roots[(id - first) as usize].as_ref().map(|job| &job.task),
            _ => children.get(id).map(|job| &job.task),
        };
        // All of them exist: `give` has checked it.
        let tasks = ids.iter().map(|id| task(id).expect("a task that was popped is there"));
        let numbers = if syncline_trace::is_enabled() { ids } else { &[] };
        let order: OrderRef<'_, _, R> = OrderRef::Run { tasks, numbers };
        // Tasks whose arguments take all of the memory would leave none for their results. But a
        // parent may wait for a child, and one task at least must be under way.
        let waits = |worker: &WorkerState| worker.waiting.is_some();
        let is_first = self.workers.iter().all(|worker| worker.tasks.is_empty() || waits(worker));
        let leaves_room = !is_first && ids.iter().all(|id| id & CHILD == 0);
        match self.transport.send_and_leave(vpid, &order, leaves_room) {
            Ok(()) => {
                let worker = &mut self.workers[at];
                if worker.tasks.is_empty() {
                    worker.at = monotonic();
                }
                worker.tasks.extend(ids);
                worker.batches.push_back(ids.len());
            }
            Err(FarmError::Unsendable { .. } | FarmError::Room { .. }) if ids.len() > 1 => {
                // One by one, until the channel is full.
                let (now, later) = ids.split_at(1);
                later.iter().rev().for_each(|&id| self.again(id));
                return self.send(at, now);
            }
            // The tasks of the other workers will free some memory when they end.
            Err(FarmError::Room { .. })
                if self.workers.iter().any(|worker| !worker.tasks.is_empty()) =>
            {
                self.again(ids[0]);
                return false;
            }
            Err(error @ (FarmError::Unsendable { .. } | FarmError::Room { .. })) => {
                self.end(ids[0], Err(TaskError::Unsendable { why: error.to_string() }));
            }
            // The worker has ended, which will be reported.
            Err(_) => {
                self.workers[at].ending = true;
                ids.iter().rev().for_each(|&id| self.again(id));
            }
        }
        true
    }

    /// Makes a task ready again.
    pub(crate) fn again(&mut self, id: Id) {
        let Some(job) = self.job_mut(id) else { return };
        job.handed = false;
        let (priority, cost, child) = (job.priority, job.cost, job.child.is_some());
        if child {
            self.ready.push_child(id, priority)
        } else {
            self.ready.push_back(id, priority, cost)
        }
    }

    /// Starts a worker.
    pub(crate) fn start(&mut self) -> Result<(), FarmError> {
        if let Some(team) = &mut self.team {
            let vpid = team.pop_front().ok_or(FarmError::Alone)?;
            self.workers.push(WorkerState::new(vpid, 0));
            self.progress.started += 1;
            return self.introduce(vpid, None);
        }
        let program = match &self.program {
            Some(program) => program.clone(),
            None => self.program.insert(Program::this()?).clone(),
        };
        let farm = self.transport.farm().ok_or(FarmError::Alone)?;
        let vpid = match farm.reserve_now() {
            Some(vpid) => vpid,
            // There is no worker that could continue meanwhile.
            None if self.workers.is_empty() => farm.reserve()?,
            None => return Err(FarmError::Full { processes: farm.arena().processes() }),
        };
        let seat = self.seat(vpid);
        self.workers.push(WorkerState::new(vpid, seat.map_or(0, |(_, worker)| worker)));
        let started = self.introduce(vpid, seat).and_then(|()| {
            // Such workers are sent their orders before they are started.
            self.transport.farm().ok_or(FarmError::Alone)?.start(vpid, &program)
        });
        if started.is_err() {
            self.transport.farm().into_iter().for_each(|farm| farm.give_up(vpid));
            let worker = self.workers.pop();
            worker.iter().flat_map(|worker| &worker.tasks).rev().for_each(|&id| self.again(id));
        }
        self.progress.started += u64::from(started.is_ok());
        started
    }

    /// Sends a worker the orders that must come first.
    fn introduce(&mut self, vpid: Vpid, seat: Option<(u32, usize)>) -> Result<(), FarmError> {
        match (self.builder.kind, seat) {
            (PoolKind::Cold, _) => {
                let at = self.workers.len() - 1;
                self.give(at);
                self.workers[at].ending = true;
                self.send_order(vpid, &OrderRef::End)
            }
            (PoolKind::Forks, _) => self.send_order(vpid, &OrderRef::Forks),
            (_, Some((block, worker))) => {
                self.send_order(vpid, &OrderRef::ForkTable { block, worker: worker as u64 })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn send_order(
        &mut self,
        vpid: Vpid,
        order: &OrderRef<'_, NoTasks<'_, T>, R>,
    ) -> Result<(), FarmError> {
        self.transport.send(vpid, order)
    }
}

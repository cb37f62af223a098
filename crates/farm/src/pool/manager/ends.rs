//! Ends before their time: workers that have ended, exceed the time limit or run a task that is to
//! end, and what becomes of their tasks.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use syncline_process::watch::Ending;

use super::{Manager, WorkerState};
use crate::pool::ready::Id;
use crate::pool::{TaskError, monotonic};
use crate::record::{ExitCause, PUBLISHED, ProgressRecord};
use crate::vpid::Vpid;

/// The pool fails its tasks when this number of workers has exited before beginning a task.
const EXITED_EARLY: u32 = 3;
/// The pool fails its tasks when this number of workers was killed before beginning a task.
const KILLED_EARLY: u32 = 100;
/// The time that a worker may need to begin its first task, in addition to the time limit of the
/// task.
const STARTUP: Duration = Duration::from_secs(10);
/// The time between two looks whether a worker has begun a task that is to end.
const UNWANTED: Duration = Duration::from_millis(10);

/// How a worker has ended.
pub(crate) struct WorkerEnd<'a> {
    vpid: Vpid,
    how: &'a str,
    published: [u64; PUBLISHED],
}

impl WorkerEnd<'_> {
    /// Returns the error of its task.
    pub(crate) fn error(&self, tries: u32) -> TaskError {
        let WorkerEnd { vpid, how, published } = *self;
        TaskError::Worker { vpid, how: how.to_owned(), tries, published }
    }

    /// Returns the error of its task, for which it was killed.
    pub(crate) fn timed_out(&self, after: Duration, tries: u32) -> TaskError {
        TaskError::TimedOut { after, tries, published: self.published }
    }
}

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Ends a task that no worker has; kills the worker that runs it, or that begins it later.
    pub(crate) fn kill_task(&mut self, id: Id) {
        let can_kill = self.steal_manager.is_none() && self.team.is_none();
        let Some(job) = self.job_mut(id) else { return };
        if job.handed && can_kill {
            job.unwanted = true;
            self.unwanted.push(id);
            self.check();
        } else if !job.handed && self.unoffer(id) {
            self.end(id, Err(TaskError::Killed));
        }
    }

    /// Kills the workers that run tasks which are to end.
    fn check_unwanted(&mut self) {
        let mut unwanted = std::mem::take(&mut self.unwanted);
        unwanted.retain(|id| self.job(*id).is_some());
        for id in &unwanted {
            let Some(worker) = self.workers.iter().find(|worker| worker.tasks.contains(id)) else {
                continue;
            };
            let (vpid, reported) = (worker.vpid, worker.reported);
            let running = self.transport.begun(vpid, reported).saturating_sub(reported);
            let running = usize::try_from(running).ok().and_then(|running| running.checked_sub(1));
            if worker.killed.is_none() && running.and_then(|at| worker.tasks.get(at)) == Some(id) {
                self.kill(vpid, TaskError::Killed);
            }
        }
        self.unwanted = unwanted;
    }

    /// Kills a worker that has sent something invalid. Which of the tasks that it has begun is at
    /// fault is not known if there are several: each of them runs again, alone.
    pub(super) fn garbled(&mut self, vpid: Vpid, why: String) {
        self.kill(vpid, TaskError::Garbled { why });
    }

    pub(super) fn kill(&mut self, vpid: Vpid, why: TaskError) {
        let reported = self.worker_mut(vpid).map_or(0, |worker| worker.reported);
        let begun = self.transport.begun(vpid, reported);
        if let Some(worker) = self.worker_mut(vpid) {
            if worker.killed.is_none() {
                (worker.killed, worker.killed_at) = (Some(why), begun);
            }
            worker.ending = true;
            if self.team.is_some() {
                // A member cannot be killed: it is given no further tasks.
                self.lost(vpid, &ExitCause::Dead);
            } else if let Some(farm) = self.transport.farm() {
                let _ = farm.kill(vpid); // the manager may kill
            }
        }
    }

    /// Handles the end of a worker.
    pub(super) fn lost(&mut self, vpid: Vpid, cause: &ExitCause) {
        let Some(at) = self.workers.iter().position(|worker| worker.vpid == vpid) else { return };
        let worker = self.workers.swap_remove(at);
        self.disown(vpid);
        if worker.tasks.is_empty() && worker.ending && worker.killed.is_none() {
            return; // a regular end
        }
        self.progress.lost += 1;
        // The end of the worker is published after its last write, so this count is final.
        let begun = self.transport.begun(vpid, worker.reported);
        let at = usize::try_from(begun.saturating_sub(worker.reported))
            .unwrap_or(usize::MAX)
            .min(worker.tasks.len());
        let how = cause.to_string();
        let published = self.transport.progress(vpid).map(ProgressRecord::published);
        let end = WorkerEnd { vpid, how: &how, published: published.unwrap_or_default() };
        self.settle(&worker, &end);
        // The task for which it was killed may have ended at the last moment: then no task is at
        // fault.
        let moved_on = worker.killed.is_some() && begun > worker.killed_at;
        // Of a member of another host it is not known how many tasks it has begun.
        let begun_at_most = if published.is_some() { at } else { worker.tasks.len() };
        let several = begun_at_most > 1 && matches!(worker.killed, Some(TaskError::Garbled { .. }));
        for (place, &id) in worker.tasks.iter().enumerate().rev() {
            if several
                && place < begun_at_most
                && let Some(job) = self.job_mut(id)
            {
                job.alone = true;
            }
            if self.job(id).is_some_and(|job| job.unwanted) {
                self.end(id, Err(TaskError::Killed));
            } else if place + 1 == at && !moved_on && !several {
                self.tried(id, &end, worker.killed.as_ref());
            } else {
                self.again(id);
            }
        }
        let killed = matches!(cause, ExitCause::Ended(Ending::Killed(_)));
        if begun > 0 {
            (self.exited_early, self.killed_early) = (0, 0);
            return;
        }
        let (count, most) = match killed {
            true => (&mut self.killed_early, KILLED_EARLY),
            false => (&mut self.exited_early, EXITED_EARLY),
        };
        *count += 1;
        if *count >= most {
            (self.exited_early, self.killed_early) = (0, 0);
            let mut why = format!(
                "{most} workers in a row ended before they had begun a task; the last {how}"
            );
            if !killed {
                why.push_str("; does the program serve the pool before all else?");
            }
            self.fail_all(&why);
        }
    }

    /// Retries a task whose worker has ended, or ends it with an error.
    fn tried(&mut self, id: Id, end: &WorkerEnd<'_>, killed: Option<&TaskError>) {
        let retries = self.builder.retries;
        let Some(job) = self.job_mut(id) else { return };
        job.tries += 1;
        let tries = job.tries;
        if retries.allow(tries) {
            self.progress.retried += 1;
            return self.again(id);
        }
        let error = match killed {
            Some(TaskError::TimedOut { after, .. }) => end.timed_out(*after, tries),
            Some(other) => other.clone(),
            None => end.error(tries),
        };
        self.end(id, Err(error));
    }

    /// Returns the time at which the next task may exceed its time limit, or a worker may have
    /// begun one that is to end.
    pub(super) fn next_check(&self) -> Option<Instant> {
        let soon = Instant::now().checked_add(UNWANTED).filter(|_| !self.unwanted.is_empty());
        soon.into_iter().chain(self.next_late()).min()
    }

    /// Returns the time at which the next task may exceed its time limit.
    fn next_late(&self) -> Option<Instant> {
        let timeout = self.builder.timeout?;
        let now = monotonic();
        let left = |worker: &WorkerState| {
            let since = self.since(worker);
            let gone = if since == 0 { 0 } else { now.saturating_sub(since) };
            timeout.saturating_sub(Duration::from_nanos(gone)) + Duration::from_millis(1)
        };
        // It is unknown whether workers that steal are running a task.
        let may_be =
            |worker: &&WorkerState| self.steal_manager.is_some() || !worker.tasks.is_empty();
        let busy = self.workers.iter().filter(|worker| worker.killed.is_none()).filter(may_be);
        Instant::now().checked_add(busy.map(left).min()?)
    }

    /// Returns the time at which a worker began its current task, as far as is known; 0: it has
    /// none. A worker that has not begun its first task is granted some time to start.
    fn since(&self, worker: &WorkerState) -> u64 {
        let since =
            match self.transport.progress(worker.vpid).map(|_| self.transport.since(worker.vpid)) {
                Some(since) if since != 0 => since,
                _ if worker.tasks.is_empty() => 0,
                Some(_) => worker.at + STARTUP.as_nanos() as u64,
                None => worker.at,
            };
        // After a stop, the time starts again.
        if since == 0 { 0 } else { since.max(syncline_process::jobs::continued_at()) }
    }

    /// Kills the workers whose task exceeds the time limit, or is to end.
    pub(super) fn check(&mut self) {
        self.check_unwanted();
        let Some(after) = self.builder.timeout else { return };
        let now = monotonic();
        let late = |worker: &&WorkerState| {
            let since = self.since(worker);
            let gone = Duration::from_nanos(now.saturating_sub(since));
            worker.killed.is_none() && since != 0 && gone > after
        };
        for vpid in self.workers.iter().filter(late).map(|worker| worker.vpid).collect::<Vec<_>>() {
            let published = [0; PUBLISHED]; // those at its end are told
            self.kill(vpid, TaskError::TimedOut { after, tries: 1, published });
        }
    }
}

//! Tasks that were forked through the manager: the children, the workers that wait for them, and
//! their results.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CHILD, Job, Manager};
use crate::error::FarmError;
use crate::pool::TaskError;
use crate::pool::order::OrderRef;
use crate::vpid::Vpid;

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    pub(super) fn fork(&mut self, vpid: Vpid, number: u64, task: T) {
        self.forks += 1;
        let id = CHILD | self.forks;
        let parent = self.worker_mut(vpid).and_then(|worker| worker.tasks.front().copied());
        let priority = parent.and_then(|parent| self.job(parent)).map_or(0, |job| job.priority);
        let child = Some((vpid, number));
        self.children.insert(id, Job::new(task, priority, 0.0, child));
        self.forked.insert((vpid, number), id);
        self.ready.push_child(id, priority);
    }

    /// Handles a worker's wait for a child: for its result, or for the order to run it itself.
    pub(super) fn join(&mut self, vpid: Vpid, number: u64) {
        let key = (vpid, number);
        let child = self.forked.remove(&key);
        if let Some(result) = self.answers.remove(&key) {
            return self.answer(vpid, number, result);
        }
        let Some(child) = child.filter(|child| self.children.contains_key(child)) else {
            return self.garbled(vpid, format!("it joins child {number}, which does not exist"));
        };
        if self.children[&child].handed {
            if let Some(worker) = self.worker_mut(vpid) {
                worker.waiting = Some(number);
            }
            return;
        }
        // Its number remains in `ready`, where it is skipped.
        self.children.remove(&child);
        let _ = self.send_order(vpid, &OrderRef::Yours); // if it has ended, that will be reported
    }

    pub(super) fn answer(&mut self, vpid: Vpid, number: u64, result: Result<R, TaskError>) {
        if let Some(worker) = self.worker_mut(vpid) {
            worker.waiting = None;
        }
        self.forked.remove(&(vpid, number));
        let sent = self.send_order(vpid, &OrderRef::Answer(&result));
        // If the worker has ended, that will be reported.
        if let Err(error @ (FarmError::Unsendable { .. } | FarmError::Room { .. })) = sent {
            let error = Err(TaskError::Unsendable { why: error.to_string() });
            let _ = self.send_order(vpid, &OrderRef::Answer(&error));
        }
    }

    /// Drops the children of a worker's current task: they have no parent any more.
    pub(super) fn disown(&mut self, vpid: Vpid) {
        self.children.retain(|_, job| job.child.is_none_or(|(parent, _)| parent != vpid));
        self.forked.retain(|(parent, _), _| *parent != vpid);
        self.answers.retain(|(parent, _), _| *parent != vpid);
    }
}

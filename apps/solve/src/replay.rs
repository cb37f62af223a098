//! The speed-up that more processors would see, from a recorded decomposition.
//!
//! A [`Record`] has, for each step, the step whose task it took and its duration. [`Record::span`]
//! replays it on a number of virtual workers: a free worker begins the ready step of the greatest
//! dimension, the oldest first, and nothing but the steps takes time.
//!
//! # Source
//! List scheduling: Graham, "Bounds on multiprocessing timing anomalies" (1969).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::chain::Chain;
use crate::decompose::{Decomposer, Step};
use crate::task::Task;

/// A recorded step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    /// The number of the step that made its task.
    parent: Option<usize>,
    dimension: usize,
    duration: Duration,
}

/// The steps of a decomposition, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Record {
    steps: Vec<Recorded>,
}

impl Record {
    /// Runs a task and all that follow from it; returns the solved chains and the record.
    #[must_use]
    pub fn of(decomposer: &Decomposer, first: Task) -> (Vec<Chain>, Record) {
        let mut record = Record::default();
        let mut tasks = vec![(first, None)];
        let mut solved = Vec::new();
        while let Some(index) = (0..tasks.len()).max_by_key(|&at| (tasks[at].0.dimension(), at)) {
            let (task, parent) = tasks.swap_remove(index);
            let dimension = task.dimension();
            let began = Instant::now();
            let step = decomposer.step(task);
            let duration = began.elapsed();
            let number = record.steps.len();
            record.steps.push(Recorded { parent, dimension, duration });
            match step {
                Step::Tasks(more) => {
                    tasks.extend(more.into_iter().map(|task| (task, Some(number))))
                }
                Step::Solved(chain) => solved.push(chain),
            }
        }
        (solved, record)
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the time that all steps take, one after the other.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.steps.iter().map(|step| step.duration).sum()
    }

    /// Returns the time that the steps take on a number of workers.
    ///
    /// # Panics
    /// Without a worker.
    #[must_use]
    pub fn span(&self, workers: usize) -> Duration {
        assert!(workers > 0, "steps need a worker");
        let mut children = vec![Vec::new(); self.steps.len()];
        let mut ready = BinaryHeap::new();
        for (number, step) in self.steps.iter().enumerate() {
            match step.parent {
                Some(parent) => children[parent].push(number),
                None => ready.push((step.dimension, Reverse(number))),
            }
        }
        let mut busy = BinaryHeap::new();
        let mut now = Duration::ZERO;
        loop {
            while busy.len() < workers
                && let Some((_, Reverse(number))) = ready.pop()
            {
                busy.push(Reverse((now + self.steps[number].duration, number)));
            }
            let Some(Reverse((end, number))) = busy.pop() else { return now };
            now = end;
            let made = children[number].iter().map(|&at| (self.steps[at].dimension, Reverse(at)));
            ready.extend(made);
        }
    }
}

/// Returns the time that independent steps take on a number of workers, begun in their order.
///
/// # Panics
/// Without a worker.
#[must_use]
pub fn span_of(durations: &[Duration], workers: usize) -> Duration {
    let step = |&duration| Recorded { parent: None, dimension: 0, duration };
    Record { steps: durations.iter().map(step).collect() }.span(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_steps_share_workers() {
        let step = |parent, millis| Recorded {
            parent,
            dimension: 0,
            duration: Duration::from_millis(millis),
        };
        let steps = vec![step(None, 10), step(Some(0), 4), step(Some(0), 4), step(Some(0), 4)];
        let record = Record { steps };
        let spans = [1, 2, 3, 9].map(|workers| record.span(workers).as_millis());
        assert_eq!(spans, [22, 18, 14, 14]);
        assert_eq!(record.total().as_millis(), 22);
        let durations = [3, 1, 1, 1].map(Duration::from_millis);
        assert_eq!([1, 2, 4].map(|n| span_of(&durations, n).as_millis()), [6, 3, 3]);
    }
}

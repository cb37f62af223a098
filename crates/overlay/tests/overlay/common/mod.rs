//! Shared parts of the tests: a deadline for every test, random numbers from seeds, overlays as
//! plain data.
#![allow(dead_code, reason = "each file of tests uses a part of this")]

pub(crate) mod polling;

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use syncline_overlay::AccessMode;
use syncline_overlay::{
    Location, Runner,
    access::{Read, Write},
    run::ReadyOrder,
};
pub(crate) use syncline_testkit::Random;
use syncline_testkit::{cases, seed};

pub(crate) const I: AccessMode = AccessMode::Inclusive;
pub(crate) const X: AccessMode = AccessMode::Exclusive;

/// The time after which a wait, or a test of the full tier, counts as hung: far beyond its
/// duration, on any machine.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// Returns a deadline that no wait meets.
pub(crate) fn late() -> Instant {
    Instant::now() + HANG
}

/// Returns the seeds of a test that tries `full` random cases in the full tier, and has `fixed` as
/// its first seed outside of soak.
pub(crate) fn seeds(fixed: u64, full: u32) -> Range<u64> {
    let first = seed(fixed);
    first..first + u64::from(cases(full))
}

/// Runs `test` in a thread of its own, and fails if it has not ended after [`HANG`], or after as
/// much longer as the tier tries more. A hung thread is left behind, and ends with the process.
pub(crate) fn within<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = channel();
    let thread = std::thread::spawn(move || {
        // The receiver is gone if the test ends after the deadline.
        let _ = sender.send(test());
    });
    let hang = HANG * cases(1);
    match done.recv_timeout(hang) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: not done after {hang:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => panic!("the test ended without a result"),
        },
    }
}

/// Runs a test of this program once more, with a variable that makes it the processes of a team,
/// and with one seed for all of them. Returns what they print, on standard output and standard
/// error.
pub(crate) fn in_processes(role: &'static str, variable: &'static str) -> [String; 2] {
    let output = within(move || {
        let mut command = syncline_testkit::again(role);
        command.env(variable, "processes").env("SYNCLINE_SEED", seed(1).to_string());
        for variable in ["SYNCLINE_TEAM", "SYNCLINE_THREADS"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    });
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{out}{error}");
    [out, error]
}

/// Mixes two numbers well (the finalizer of SplitMix64).
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut z =
        a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An overlay as plain data: for each task its locations, and the access to each.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) locations: usize,
    pub(crate) tasks: Vec<Vec<(usize, AccessMode)>>,
}

/// The access of a task of a plan: at most six written locations, any number of read ones.
pub(crate) type PlanAccess<T> = ([Option<Write<T>>; 6], Vec<Read<T>>);

impl Plan {
    /// Creates a random plan in which each task requests one to `most` locations (at most six),
    /// half of them to write.
    pub(crate) fn random(
        random: &mut Random,
        tasks: RangeInclusive<usize>,
        locations: RangeInclusive<usize>,
        most: usize,
    ) -> Self {
        let locations = random.within(locations);
        let tasks = (0..random.within(tasks))
            .map(|_| {
                let mut all: Vec<usize> = (0..locations).collect();
                random.shuffle(&mut all);
                all.truncate(random.within(1..=most.min(locations)));
                all.into_iter().map(|l| (l, [I, X][random.within(0..=1)])).collect()
            })
            .collect();
        Plan { locations, tasks }
    }

    /// Creates a five-point grid: each block has a task that writes it, and reads the blocks above,
    /// left, right and below.
    pub(crate) fn grid(rows: usize, cols: usize) -> Self {
        let task = |t: usize| {
            let (i, j) = (t / cols, t % cols);
            let around = [
                (i > 0).then(|| t - cols),
                (j > 0).then(|| t - 1),
                (j + 1 < cols).then(|| t + 1),
                (i + 1 < rows).then(|| t + cols),
            ];
            std::iter::once((t, X)).chain(around.into_iter().flatten().map(|u| (u, I))).collect()
        };
        Plan { locations: rows * cols, tasks: (0..rows * cols).map(task).collect() }
    }

    /// Returns whether two tasks share a location that one of them writes.
    pub(crate) fn conflict(&self, t: usize, u: usize) -> bool {
        let both = |a: &(usize, AccessMode)| {
            self.tasks[u].iter().any(|b| a.0 == b.0 && (a.1 == X || b.1 == X))
        };
        t != u && self.tasks[t].iter().any(both)
    }

    /// Returns the distances between tasks in the conflict graph; `None` where there is no path.
    pub(crate) fn distances(&self) -> Vec<Vec<Option<u64>>> {
        let from = |start: usize| {
            let mut distance = vec![None; self.tasks.len()];
            distance[start] = Some(0);
            let mut queue = VecDeque::from([(start, 0)]);
            while let Some((t, d)) = queue.pop_front() {
                for (u, place) in distance.iter_mut().enumerate() {
                    if place.is_none() && self.conflict(t, u) {
                        *place = Some(d + 1);
                        queue.push_back((u, d + 1));
                    }
                }
            }
            distance
        };
        (0..self.tasks.len()).map(from).collect()
    }

    /// Returns the greatest distance, if all tasks are connected.
    pub(crate) fn diameter(&self) -> Option<u64> {
        self.distances().into_iter().flatten().try_fold(0, |max, d| Some(max.max(d?)))
    }

    /// Creates a location for each of the plan, named "l0", "l1" and so on.
    pub(crate) fn cells<T>(&self, value: impl Fn(usize) -> T) -> Vec<Location<T>> {
        (0..self.locations).map(|l| Location::new(format!("l{l}"), value(l))).collect()
    }

    /// Returns the access of task `t`, in the order of the plan.
    pub(crate) fn access<T>(&self, t: usize, cells: &[Location<T>]) -> PlanAccess<T> {
        let mut written = self.tasks[t].iter().filter(|r| r.1 == X).map(|r| cells[r.0].write());
        let writes = std::array::from_fn(|_| written.next());
        assert!(written.next().is_none(), "too many for the array");
        (writes, self.tasks[t].iter().filter(|r| r.1 == I).map(|r| cells[r.0].read()).collect())
    }
}

/// Returns runners of all kinds.
pub(crate) fn runners() -> Vec<Runner> {
    let pool = |order| move |workers| Runner::Pool { workers, order };
    let queues = |order| move |workers| Runner::Queues { workers, order };
    std::iter::once(Runner::Threads)
        .chain((1..=4).map(queues(ReadyOrder::Fifo)))
        .chain((1..=4).map(queues(ReadyOrder::DepthFirst)))
        .chain((1..=4).map(|workers| Runner::Static { workers }))
        .chain((1..=4).map(pool(ReadyOrder::Fifo)))
        .chain((1..=4).map(pool(ReadyOrder::DepthFirst)))
        .collect()
}

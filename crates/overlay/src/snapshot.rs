//! Snapshots: the queues of an overlay at one moment.
//!
//! A snapshot shows an overlay before the start ([`Plan::check`](crate::Plan::check),
//! [`Checked::start`](crate::Checked::start)), or a run that is under way. The states of the paper
//! follow from it: a task is *active* when all its requests are granted, *partly delayed* when some
//! are, and *delayed* when none is. So do the tasks that each task waits for.

use std::fmt;
use std::time::Duration;

use crate::check_error::{CheckError, Wait, join};
use crate::deadlock_check;
use crate::initial::Initial;
use crate::plan::{Plan, Queues, Task};
use crate::raw::AccessMode;

/// The queues of an overlay at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The tasks, in the order of declaration.
    pub tasks: Vec<TaskView>,
    /// The locations, in the order of declaration (for an overlay, of first use).
    pub locations: Vec<LocationView>,
}

/// A task at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskView {
    /// The name of the task.
    pub name: String,
    /// The number of iterations that it has done.
    pub iteration: u64,
    /// Whether its body runs.
    pub running: bool,
    /// Whether it has ended or left, and has no more requests.
    pub stopped: bool,
    /// The time that it has spent in this iteration, where known.
    pub since: Option<Duration>,
}

/// A location at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocationView {
    /// The name of the location.
    pub name: String,
    /// Its requests, front first: the holders, then the waiting ones.
    pub queue: Vec<RequestView>,
}

/// A request in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestView {
    /// The owner of the request.
    pub who: RequestOwner,
    /// The access that it asks for.
    pub kind: AccessMode,
    /// Whether it holds the location.
    pub granted: bool,
}

/// The owner of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOwner {
    /// A task of the overlay.
    Task(Task),
    /// A handle from outside the overlay.
    Handle,
}

/// The state of a task, as defined in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// All its requests are granted: it runs, or may run.
    Active,
    /// Some of its requests are granted.
    PartlyDelayed,
    /// None of its requests is granted.
    Delayed,
    /// It has no more requests: it has ended or left.
    Stopped,
}

/// The format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// For terminals: a grid of Unicode squares and circles, at most about a hundred characters
    /// wide. Locations that do not fit across continue in a further grid below. Long names are
    /// replaced by letters and numbers, with a key.
    Text,
    /// For graphviz (`dot -Tsvg`): a cluster for each location.
    Dot,
    /// For browsers and papers: the figure as SVG, without scripts.
    Svg,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskState::Active => "active",
            TaskState::PartlyDelayed => "partly delayed",
            TaskState::Delayed => "delayed",
            TaskState::Stopped => "stopped",
        })
    }
}

impl Plan {
    /// Checks that iterative tasks with these requests can never deadlock, and returns the first
    /// requests.
    ///
    /// # Errors
    /// [`CheckError::Cycle`] names the tasks that would wait for each other. The other errors
    /// describe a faulty declaration.
    pub fn check(&self, initial: &Initial) -> Result<Snapshot, CheckError> {
        Ok(Snapshot::of_start(self, &self.live(initial)?))
    }

    /// Returns the first requests whether or not they deadlock, for inspection or drawing.
    ///
    /// # Errors
    /// The errors describe a faulty declaration; never [`CheckError::Cycle`].
    pub fn start(&self, initial: &Initial) -> Result<Snapshot, CheckError> {
        Ok(Snapshot::of_start(self, &self.queues(initial)?))
    }
}

impl Snapshot {
    /// Creates the snapshot of the first requests of a plan.
    pub(crate) fn of_start(plan: &Plan, queues: &Queues) -> Self {
        let task = |name: &String| TaskView {
            name: name.clone(),
            iteration: 0,
            running: false,
            stopped: false,
            since: None,
        };
        let location = |(name, queue): (&String, &Vec<(u32, AccessMode)>)| LocationView {
            name: name.clone(),
            queue: granted_in_order(
                queue.iter().map(|&(t, kind)| (RequestOwner::Task(Task(t)), kind)),
            ),
        };
        Snapshot {
            tasks: plan.tasks.iter().map(task).collect(),
            locations: plan.locations.iter().zip(queues).map(location).collect(),
        }
    }

    /// Returns the state of a task.
    ///
    /// # Panics
    /// Panics if the task does not exist.
    #[must_use]
    pub fn state(&self, task: Task) -> TaskState {
        self.states()[task.0 as usize]
    }

    /// Returns the states of all tasks. A task without requests is active until it stops.
    #[must_use]
    pub fn states(&self) -> Vec<TaskState> {
        let mut counts = vec![(0, 0); self.tasks.len()];
        for request in self.locations.iter().flat_map(|l| &l.queue) {
            if let RequestOwner::Task(t) = request.who {
                let (all, granted) = &mut counts[t.0 as usize];
                *all += 1;
                *granted += usize::from(request.granted);
            }
        }
        let state = |(task, (all, granted)): (&TaskView, (usize, usize))| match granted {
            _ if task.stopped => TaskState::Stopped,
            _ if all == granted => TaskState::Active,
            0 => TaskState::Delayed,
            _ => TaskState::PartlyDelayed,
        };
        self.tasks.iter().zip(counts).map(state).collect()
    }

    /// Returns the tasks that are active.
    #[must_use]
    pub fn active(&self) -> Vec<Task> {
        let active = |(t, state)| (state == TaskState::Active).then_some(Task(t));
        (0..).zip(self.states()).filter_map(active).collect()
    }

    /// Returns which task waits for which, and where. The tasks waited for are the group just ahead
    /// in each queue where the waiting task is not granted.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        self.edges().into_iter().map(|edge| self.by_name(edge)).collect()
    }

    pub(crate) fn by_name(
        &self,
        (who, location, ahead): (RequestOwner, usize, RequestOwner),
    ) -> Wait {
        let name = |who: RequestOwner| match who {
            RequestOwner::Task(t) => self.tasks[t.0 as usize].name.clone(),
            RequestOwner::Handle => "a handle".to_owned(),
        };
        Wait {
            task: name(who),
            location: self.locations[location].name.clone(),
            ahead: name(ahead),
        }
    }

    /// Returns a cycle of tasks that wait for each other, if there is one: a deadlock.
    #[must_use]
    pub fn cycle(&self) -> Option<Vec<Wait>> {
        let wait = |(task, location, ahead): deadlock_check::Step| Wait {
            task: self.tasks[task as usize].name.clone(),
            location: self.locations[location as usize].name.clone(),
            ahead: self.tasks[ahead as usize].name.clone(),
        };
        Some(self.circle()?.into_iter().map(wait).collect())
    }

    /// Returns the number of tasks in the longest chain in which each waits for the next: for a
    /// wave, its number of fronts. Returns 1 if no task waits for another, and `None` if tasks wait
    /// in a cycle.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        let mut behind = vec![Vec::new(); self.tasks.len()];
        let mut ahead = vec![0_usize; self.tasks.len()];
        for edge in self.edges() {
            if let (RequestOwner::Task(t), _, RequestOwner::Task(u)) = edge {
                behind[u.0 as usize].push(t.0 as usize);
                ahead[t.0 as usize] += 1;
            }
        }
        let mut front: Vec<usize> = (0..ahead.len()).filter(|&t| ahead[t] == 0).collect();
        let (mut seen, mut depth) = (0, 0);
        while !front.is_empty() {
            (seen, depth) = (seen + front.len(), depth + 1);
            let mut next = Vec::new();
            for &t in front.iter().flat_map(|&u| &behind[u]) {
                ahead[t] -= 1;
                if ahead[t] == 0 {
                    next.push(t);
                }
            }
            front = next;
        }
        (seen == ahead.len()).then_some(depth)
    }

    /// Returns each waiting request's owner, its location, and an owner that it waits for, as in
    /// [`waits`](Self::waits).
    pub(crate) fn edges(&self) -> Vec<(RequestOwner, usize, RequestOwner)> {
        let mut edges = Vec::new();
        for (l, location) in self.locations.iter().enumerate() {
            let mut ahead: &[RequestView] = &[];
            for group in location.queue.chunk_by(same_group) {
                for request in group.iter().filter(|r| !r.granted) {
                    edges.extend(ahead.iter().map(|a| (request.who, l, a.who)));
                }
                ahead = group;
            }
        }
        edges
    }

    /// Returns the cycle of [`cycle`](Self::cycle) by numbers.
    pub(crate) fn circle(&self) -> Option<Vec<deadlock_check::Step>> {
        let tasks_of = |queue: &[RequestView]| {
            let task = |r: &RequestView| match r.who {
                RequestOwner::Task(t) => Some((t.0, r.kind)),
                RequestOwner::Handle => None,
            };
            queue.iter().filter_map(task).collect()
        };
        let queues: Queues = self.locations.iter().map(|l| tasks_of(&l.queue)).collect();
        deadlock_check::cycle(&queues, self.tasks.len())
    }
}

/// The maximum number of tasks of one kind that are listed.
const MANY: usize = 40;

/// Lists the running tasks, the waiting ones with the tasks that they wait for, and the ones that
/// may run, one per line; then the deadlock, if there is one.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self.states();
        let mut waits = vec![Vec::new(); states.len()];
        for edge in self.edges() {
            if let RequestOwner::Task(t) = edge.0 {
                waits[t.0 as usize].push(self.by_name(edge).to_string());
            }
        }
        let time = |since: Option<Duration>| match since {
            Some(since) => format!(" for {:.1} s", since.as_secs_f64()),
            None => String::new(),
        };
        let mut lines = Vec::new();
        let mut list = |which: &dyn Fn(usize) -> bool, line: &dyn Fn(usize) -> String| {
            let all: Vec<usize> = (0..states.len()).filter(|&t| which(t)).collect();
            lines.extend(all.iter().take(MANY).map(|&t| line(t)));
            if all.len() > MANY {
                lines.push(format!("  and {} more", all.len() - MANY));
            }
        };
        let of =
            |t: usize| (&self.tasks[t].name, self.tasks[t].iteration, time(self.tasks[t].since));
        list(&|t| self.tasks[t].running, &|t| {
            let (name, iteration, time) = of(t);
            format!("  '{name}' runs its iteration {iteration}{time}")
        });
        list(&|t| matches!(states[t], TaskState::PartlyDelayed | TaskState::Delayed), &|t| {
            let (_, iteration, time) = of(t);
            format!("  iteration {iteration}, {}{time}: {}", states[t], waits[t].join(", "))
        });
        list(&|t| states[t] == TaskState::Active && !self.tasks[t].running, &|t| {
            let (name, iteration, _) = of(t);
            format!("  '{name}' may run its iteration {iteration}")
        });
        let stopped = states.iter().filter(|&&state| state == TaskState::Stopped).count();
        if stopped > 0 {
            lines.push(format!("  {stopped} of {} tasks have ended", states.len()));
        }
        if let Some(cycle) = self.cycle() {
            lines.push(format!("  a deadlock: {}", join(&cycle)));
        }
        f.write_str(&lines.join("\n"))
    }
}

fn same_group(a: &RequestView, b: &RequestView) -> bool {
    a.kind == AccessMode::Inclusive && b.kind == AccessMode::Inclusive
}

/// Returns a queue whose first request is granted; if it is a reader, also the readers right behind
/// it.
pub(crate) fn granted_in_order(
    queue: impl Iterator<Item = (RequestOwner, AccessMode)>,
) -> Vec<RequestView> {
    let mut list: Vec<RequestView> =
        queue.map(|(who, kind)| RequestView { who, kind, granted: false }).collect();
    if let Some(group) = list.chunk_by_mut(same_group).next() {
        group.iter_mut().for_each(|r| r.granted = true);
    }
    list
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const X: AccessMode = AccessMode::Exclusive;
    const I: AccessMode = AccessMode::Inclusive;

    /// Five tasks similar to the paper's figure: some active, one partly delayed, some delayed.
    #[test]
    fn states_are_those_of_the_paper() {
        let mut plan = Plan::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| plan.location(name));
        let first = plan.task("first", [(a, X), (b, I)]);
        let second = plan.task("second", [(c, X), (b, I)]);
        let third = plan.task("third", [(b, X), (a, I)]);
        let fourth = plan.task("fourth", [(b, I), (c, I)]);
        let idle = plan.task("idle", []);
        let start = plan.check(&Initial::Program).unwrap();
        assert_eq!(
            start.states(),
            [
                TaskState::Active,
                TaskState::Active,
                TaskState::Delayed,
                TaskState::Delayed,
                TaskState::Active
            ]
        );
        assert_eq!(start.active(), [first, second, idle]);
        let waits: Vec<String> = start.waits().iter().map(ToString::to_string).collect();
        assert_eq!(
            waits,
            [
                "'third' waits at 'a' for 'first'",
                "'third' waits at 'b' for 'first'",
                "'third' waits at 'b' for 'second'",
                "'fourth' waits at 'b' for 'third'",
                "'fourth' waits at 'c' for 'second'",
            ]
        );
        assert_eq!(start.cycle(), None);
        plan.order(b, [fourth, third, second, first]);
        assert_eq!(plan.start(&Initial::Program).unwrap().state(first), TaskState::PartlyDelayed);
        let error = plan.check(&Initial::Program).unwrap_err();
        let cycle = plan.start(&Initial::Program).unwrap().cycle();
        assert_eq!(error, CheckError::Cycle { cycle: cycle.unwrap() });
        let _ = third;
    }
}

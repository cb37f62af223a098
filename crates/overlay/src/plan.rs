//! Plans: named tasks and their requests, without data or bodies.
//!
//! A plan holds all that the theory needs: the requests of each task, and the order of the first
//! ones. It can be [checked](Plan::check), drawn, and brought into canonical form without being
//! run. An [`Overlay`](crate::Overlay) is a plan with data and bodies.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::check_error::{CheckError, OrderFault, Wait};
use crate::deadlock_check;
use crate::initial::Initial;
use crate::raw::AccessMode;

/// A task of an overlay, identified by its number in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task(pub(crate) u32);

/// A location of a [`Plan`], identified by its number in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocationId(pub(crate) u32);

/// The queue of each location: tasks and the access that they ask for, front first.
pub(crate) type Queues = Vec<Vec<(u32, AccessMode)>>;

/// Named tasks and their requests, without data or bodies.
///
/// ```
/// use syncline_overlay::AccessMode::{Exclusive, Inclusive};
/// use syncline_overlay::{Initial, Plan, snapshot::TaskState};
///
/// let mut plan = Plan::new();
/// let (a, b) = (plan.location("a"), plan.location("b"));
/// let left = plan.task("left", [(a, Exclusive), (b, Inclusive)]);
/// let right = plan.task("right", [(b, Exclusive), (a, Inclusive)]);
/// let start = plan.check(&Initial::Wave)?;
/// assert_eq!((start.state(left), start.state(right)), (TaskState::Active, TaskState::Delayed));
/// # Ok::<(), syncline_overlay::error::CheckError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub(crate) tasks: Vec<String>,
    pub(crate) locations: Vec<String>,
    /// The requests of each task, location and kind, in the order of declaration.
    pub(crate) requests: Vec<Vec<(u32, AccessMode)>>,
    pub(crate) orders: BTreeMap<u32, Vec<Task>>,
}

impl Plan {
    /// Creates a plan without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a location.
    pub fn location(&mut self, name: impl Into<String>) -> LocationId {
        self.locations.push(name.into());
        LocationId(self.locations.len() as u32 - 1)
    }

    /// Declares a task, and the requests that it makes in each iteration.
    ///
    /// # Panics
    /// Panics if a location belongs to another plan and this plan has no location of that number.
    pub fn task(
        &mut self,
        name: impl Into<String>,
        requests: impl IntoIterator<Item = (LocationId, AccessMode)>,
    ) -> Task {
        let requests: Vec<_> = requests.into_iter().map(|(place, kind)| (place.0, kind)).collect();
        assert!(
            requests.iter().all(|r| (r.0 as usize) < self.locations.len()),
            "the location belongs to another plan"
        );
        self.tasks.push(name.into());
        self.requests.push(requests);
        Task(self.tasks.len() as u32 - 1)
    }

    /// Sets the order of the first requests at one location explicitly, in place of the order
    /// passed to [`check`](Plan::check). It must name each task that uses the location exactly
    /// once. A later call for the same location replaces the order.
    ///
    /// # Panics
    /// Panics if the location belongs to another plan and this plan has no location of that number.
    pub fn order(&mut self, location: LocationId, tasks: impl IntoIterator<Item = Task>) {
        assert!(
            (location.0 as usize) < self.locations.len(),
            "the location belongs to another plan"
        );
        self.orders.insert(location.0, tasks.into_iter().collect());
    }

    /// Returns the tasks, in the order of declaration.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = Task> + use<> {
        (0..self.tasks.len() as u32).map(Task)
    }

    /// Returns the locations, in the order of declaration.
    pub fn locations(&self) -> impl ExactSizeIterator<Item = LocationId> + use<> {
        (0..self.locations.len() as u32).map(LocationId)
    }

    /// Returns the name of a task.
    #[must_use]
    pub fn task_name(&self, task: Task) -> &str {
        &self.tasks[task.0 as usize]
    }

    /// Returns the name of a location.
    #[must_use]
    pub fn location_name(&self, place: LocationId) -> &str {
        &self.locations[place.0 as usize]
    }

    /// Returns the requests of a task, in the order of declaration.
    pub fn requests(
        &self,
        task: Task,
    ) -> impl ExactSizeIterator<Item = (LocationId, AccessMode)> + '_ {
        self.requests[task.0 as usize].iter().map(|&(l, kind)| (LocationId(l), kind))
    }

    /// Returns the names of the locations that a task writes.
    pub(crate) fn written(&self, task: u32) -> Vec<String> {
        let requests = self.requests[task as usize].iter();
        let written = requests.filter(|(_, mode)| *mode == AccessMode::Exclusive);
        written.map(|&(location, _)| self.locations[location as usize].clone()).collect()
    }

    /// Returns the queues of the first requests, after checking that they cannot deadlock.
    pub(crate) fn live(&self, initial: &Initial) -> Result<Queues, CheckError> {
        let queues = self.queues(initial)?;
        match self.cycle(&queues) {
            None => Ok(queues),
            Some(cycle) => Err(CheckError::Cycle { cycle }),
        }
    }

    pub(crate) fn cycle(&self, queues: &Queues) -> Option<Vec<Wait>> {
        let name = |t: u32| self.tasks[t as usize].clone();
        let wait = |(task, location, ahead): deadlock_check::Step| Wait {
            task: name(task),
            location: self.locations[location as usize].clone(),
            ahead: name(ahead),
        };
        Some(deadlock_check::cycle(queues, self.tasks.len())?.into_iter().map(wait).collect())
    }

    /// Returns the queues of the first requests, unchecked for deadlock.
    pub(crate) fn queues(&self, initial: &Initial) -> Result<Queues, CheckError> {
        self.check_twice()?;
        if let Initial::Priority(p) = initial
            && p.len() != self.tasks.len()
        {
            return Err(CheckError::Priorities { given: p.len(), tasks: self.tasks.len() });
        }
        let mut queues = vec![Vec::new(); self.locations.len()];
        for t in initial.order(&self.requests, self.locations.len()) {
            for &(l, kind) in &self.requests[t as usize] {
                queues[l as usize].push((t, kind));
            }
        }
        for (location, tasks) in &self.orders {
            self.reorder(&mut queues[*location as usize], *location, tasks)?;
        }
        Ok(queues)
    }

    /// Returns the name of a task, which may belong to another plan.
    pub(crate) fn name_of(&self, Task(t): Task) -> String {
        self.tasks.get(t as usize).cloned().unwrap_or_else(|| format!("task {t}"))
    }

    fn check_twice(&self) -> Result<(), CheckError> {
        for (name, requests) in self.tasks.iter().zip(&self.requests) {
            let mut locations: Vec<u32> = requests.iter().map(|r| r.0).collect();
            locations.sort_unstable();
            if let Some(twice) = locations.windows(2).find(|w| w[0] == w[1]) {
                let location = self.locations[twice[0] as usize].clone();
                return Err(CheckError::Twice { task: name.clone(), location });
            }
        }
        Ok(())
    }

    fn reorder(
        &self,
        queue: &mut [(u32, AccessMode)],
        location: u32,
        tasks: &[Task],
    ) -> Result<(), CheckError> {
        let users: HashSet<u32> = queue.iter().map(|q| q.0).collect();
        let mut place: HashMap<u32, usize> = HashMap::new();
        let wrong = |t: u32, fault| CheckError::Order {
            location: self.locations[location as usize].clone(),
            task: self.name_of(Task(t)),
            fault,
        };
        for (i, task) in tasks.iter().enumerate() {
            if !users.contains(&task.0) {
                return Err(wrong(task.0, OrderFault::Foreign));
            }
            if place.insert(task.0, i).is_some() {
                return Err(wrong(task.0, OrderFault::Twice));
            }
        }
        if let Some(&(missing, _)) = queue.iter().find(|q| !place.contains_key(&q.0)) {
            return Err(wrong(missing, OrderFault::Missing));
        }
        queue.sort_by_key(|q| place[&q.0]);
        Ok(())
    }
}

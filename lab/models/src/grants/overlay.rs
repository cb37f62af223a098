//! Overlays over hosts, and what one queue for each location gives.
//!
//! # Contract
//! An overlay has tasks, each on one host, and locations, each with a cyclic queue of accesses. All
//! queues follow one order of the tasks, so that the first requests form no cycle. A version of a
//! location is a release of one of its writers; [`Overlay::version`] numbers them in the order of
//! the queue, from 1, and [`Overlay::due`] is the version that an access must find: the one of the
//! last body that has written before it in that order. Turns that are passed on write nothing.

/// The largest number of hosts.
pub const HOSTS: usize = 4;
/// The largest number of tasks.
pub const TASKS: usize = 8;
/// The largest number of locations.
pub const LOCATIONS: usize = 5;

/// An access of a task in the queue of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Exclusive: the task modifies the location.
    Write(usize),
    /// Inclusive: the task reads the location.
    Read(usize),
}

impl Access {
    /// Returns the task.
    pub fn task(self) -> usize {
        match self {
            Access::Write(task) | Access::Read(task) => task,
        }
    }

    /// Returns whether the access is exclusive.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write(_))
    }
}

/// A location.
#[derive(Clone, Debug)]
pub struct Location {
    /// The accesses, in the order of the first requests; a task has at most one.
    pub queue: Vec<Access>,
    /// Whether messages carry its contents. Without, it is a control location: one object that all
    /// hosts share by other means, such as a file.
    pub data: bool,
}

impl Location {
    /// Returns the places of the writers in the queue.
    pub fn writers(&self) -> Vec<usize> {
        (0..self.queue.len()).filter(|&at| self.queue[at].writes()).collect()
    }

    /// Returns the index, among the writers, of the last writer that stands before a place. For the
    /// places before the first writer that is the last writer, with its release of the round
    /// before.
    pub fn previous(&self, place: usize) -> usize {
        let writers = self.writers();
        (writers.iter().filter(|&&at| at < place).count() + writers.len() - 1) % writers.len()
    }
}

/// Tasks on hosts, and the queues of their locations.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The number of hosts.
    pub hosts: usize,
    /// By task: its host.
    pub homes: Vec<usize>,
    /// The locations.
    pub locations: Vec<Location>,
}

impl Overlay {
    /// Creates an overlay without locations.
    ///
    /// # Panics
    /// If there are too many hosts or tasks.
    pub fn new(hosts: usize, homes: &[usize]) -> Self {
        assert!(hosts <= HOSTS && homes.len() <= TASKS && homes.iter().all(|&home| home < hosts));
        Overlay { hosts, homes: homes.to_vec(), locations: Vec::new() }
    }

    /// Adds a location whose contents travel.
    #[must_use]
    pub fn data(self, queue: &[Access]) -> Self {
        self.location(queue, true)
    }

    /// Adds a control location.
    #[must_use]
    pub fn control(self, queue: &[Access]) -> Self {
        self.location(queue, false)
    }

    fn location(mut self, queue: &[Access], data: bool) -> Self {
        self.locations.push(Location { queue: queue.to_vec(), data });
        assert!(self.locations.len() <= LOCATIONS);
        assert!(self.is_ordered(), "no order of the tasks gives all queues: {:?}", self.locations);
        self
    }

    /// Returns whether one order of the tasks gives all queues.
    fn is_ordered(&self) -> bool {
        let mut left: Vec<usize> = (0..self.homes.len()).collect();
        let before = |a: usize, b: usize| {
            self.locations.iter().any(|location| {
                let place = |task| location.queue.iter().position(|access| access.task() == task);
                place(a).zip(place(b)).is_some_and(|(a, b)| a < b)
            })
        };
        while let Some(first) =
            left.iter().position(|&task| !left.iter().any(|&other| before(other, task)))
        {
            left.swap_remove(first);
        }
        left.is_empty()
    }

    /// Returns the number of the version that the writer at a place makes in a round.
    pub fn version(&self, location: usize, place: usize, round: u8) -> u8 {
        let writers = self.locations[location].writers();
        let before = writers.iter().filter(|&&at| at < place).count() as u8;
        1 + round * writers.len() as u8 + before
    }

    /// Returns the version that the access at a place must find in a round: 0 is the initial value.
    /// Task `t` has a body in the rounds below `bodies[t]`, and passes on its later turns.
    pub fn due(&self, location: usize, place: usize, round: u8, bodies: &[u8]) -> u8 {
        let queue = &self.locations[location].queue;
        let body =
            |at: usize, in_round: u8| queue[at].writes() && in_round < bodies[queue[at].task()];
        let here = (0..place).rev().find(|&at| body(at, round)).map(|at| (at, round));
        let earlier = || {
            let mut all =
                (0..round).rev().flat_map(|of| (0..queue.len()).rev().map(move |at| (at, of)));
            all.find(|&(at, of)| body(at, of))
        };
        here.or_else(earlier).map_or(0, |(at, of)| self.version(location, at, of))
    }

    /// Returns the last place and round of a location in which a body writes.
    pub fn last(&self, location: usize, bodies: &[u8]) -> Option<(usize, u8)> {
        let queue = &self.locations[location].queue;
        let writers = (0..queue.len()).filter(|&at| queue[at].writes());
        let last = writers.filter_map(|at| Some((bodies[queue[at].task()].checked_sub(1)?, at)));
        last.max().map(|(round, at)| (at, round))
    }
}

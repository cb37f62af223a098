//! The processors of the threads in a race.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors to which threads are pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places(pub(crate) Vec<usize>);

impl Places {
    /// Returns the processors on which the calling thread may run.
    ///
    /// # Errors
    /// Errors of the system, for example if it has too many processors for a [`CpuSet`].
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        let set = sched_getaffinity(None)?;
        Ok(Self((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()))
    }

    /// Like [`of_this_thread`](Self::of_this_thread); after an error, prints it and returns none.
    pub(crate) fn or_none() -> Self {
        Self::of_this_thread().unwrap_or_else(|error| {
            eprintln!("threads are not pinned: {error}");
            Self::none()
        })
    }

    /// Returns no places: threads are not pinned.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns the number of places.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of processors; if the places are unknown, the number that the system
    /// reports.
    pub(crate) fn processors(&self) -> usize {
        match self.len() {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            known => known,
        }
    }

    /// Returns the places in the syntax of `OMP_PLACES`; `None` if there are none.
    pub(crate) fn openmp(&self) -> Option<String> {
        let places: Vec<_> = self.0.iter().map(|cpu| format!("{{{cpu}}}")).collect();
        (!places.is_empty()).then(|| places.join(","))
    }

    /// Lets the calling thread run on all places again.
    pub(crate) fn release(&self) {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        // Without places, or after an error, the thread stays where it is.
        let _ = sched_setaffinity(None, &set);
    }

    /// Pins the calling thread to the place of a worker; returns whether it is pinned.
    pub(crate) fn pin(&self, worker: usize) -> bool {
        let Some(place) = worker.checked_rem(self.0.len()) else { return false };
        let mut set = CpuSet::new();
        set.set(self.0[place]);
        sched_setaffinity(None, &set).is_ok()
    }
}

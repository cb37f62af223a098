//! The processors of the threads that are raced.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that threads are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places(pub(crate) Vec<usize>);

impl Places {
    /// Those that the calling thread may run on.
    ///
    /// # Errors
    /// What the system says, for example if it has too many processors for a [`CpuSet`].
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        let set = sched_getaffinity(None)?;
        Ok(Self((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()))
    }

    /// As [`of_this_thread`](Self::of_this_thread); if that cannot be said, none, which is told.
    pub(crate) fn or_none() -> Self {
        Self::of_this_thread().unwrap_or_else(|error| {
            eprintln!("threads are not pinned: {error}");
            Self::none()
        })
    }

    /// None: nothing is pinned.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many processors there are; if it is not known which, as many as the system says.
    pub(crate) fn processors(&self) -> usize {
        match self.len() {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            known => known,
        }
    }

    /// As OpenMP wants them in `OMP_PLACES`; `None` if there are none.
    pub(crate) fn openmp(&self) -> Option<String> {
        let places: Vec<_> = self.0.iter().map(|cpu| format!("{{{cpu}}}")).collect();
        (!places.is_empty()).then(|| places.join(","))
    }

    /// Lets the calling thread run on all of them again.
    pub(crate) fn release(&self) {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        // With none, or if it fails, it stays where it is.
        let _ = sched_setaffinity(None, &set);
    }

    /// Pins the calling thread to the place of a worker; whether that could be done.
    pub(crate) fn pin(&self, worker: usize) -> bool {
        let Some(place) = worker.checked_rem(self.0.len()) else { return false };
        let mut set = CpuSet::new();
        set.set(self.0[place]);
        sched_setaffinity(None, &set).is_ok()
    }
}

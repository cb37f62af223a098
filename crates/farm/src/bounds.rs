//! What a farm may take.

use std::num::NonZeroU64;

/// What a farm may take, set by its founder.
///
/// ```
/// use syncline_farm::{Farm, bounds::Bounds};
///
/// let farm = Farm::with(Bounds::default().processes(64).memory(1 << 30).worker_memory(2 << 30).depth(4))?;
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub(crate) processes: usize,
    pub(crate) memory: usize,
    pub(crate) worker_memory: Option<NonZeroU64>,
    pub(crate) depth: usize,
    pub(crate) forward_stops: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            processes: 1024,
            memory: 1 << 30,
            worker_memory: None,
            depth: 1,
            forward_stops: true,
        }
    }
}

impl Bounds {
    /// How many processes there are at a time, at most, the manager among them [default: 1024].
    #[must_use]
    pub fn processes(self, processes: usize) -> Self {
        Bounds { processes, ..self }
    }

    /// How many bytes messages under way may take, in all [default: 1 GiB]. They take none before
    /// they are used. What was used for messages of one size stays for such as are not larger: many
    /// sizes, one after the other, may need several times as much as is under way.
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        Bounds { memory, ..self }
    }

    /// How many bytes each process may have for itself [default: as many as the system gives]. One
    /// that wants more is refused by the system, and usually ends. (Its limit on data: see
    /// `RLIMIT_DATA` in setrlimit(2). 0: no bound.)
    #[must_use]
    pub fn worker_memory(self, bytes: u64) -> Self {
        Bounds { worker_memory: NonZeroU64::new(bytes), ..self }
    }

    /// How many messages can wait in a channel [default: 1, as in the paper]. A sender of one more
    /// waits.
    #[must_use]
    pub fn depth(self, depth: usize) -> Self {
        Bounds { depth, ..self }
    }

    /// Whether Ctrl-Z at the manager stops all processes, and `fg` continues them [default: yes].
    ///
    /// The manager has a handler of SIGTSTP for that, from its first start of a process until the
    /// farm is dropped, if it has a terminal and nothing has changed what the signal does. The
    /// handler stops the manager, too, as the signal does by default. A system call of the program
    /// that sleeps may return `EINTR` after that. A program that has its own handler, or ignores
    /// the signal, keeps that: it can send signals to the groups of the processes itself (their
    /// numbers are [`Farm::pid`](crate::Farm::pid) and [`Pool::pids`](crate::Pool::pids)).
    #[must_use]
    pub fn forward_stops(self, forward_stops: bool) -> Self {
        Bounds { forward_stops, ..self }
    }
}

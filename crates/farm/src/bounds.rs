//! The resource limits of a farm.

use std::num::NonZeroU64;

/// The resource limits of a farm, set by its founder.
///
/// ```
/// use syncline_farm::{Farm, bounds::Bounds};
///
/// let bounds = Bounds::default().processes(64).memory(1 << 30).worker_memory(2 << 30).depth(4);
/// let farm = Farm::with(bounds)?;
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
    /// Sets the largest number of processes at a time, including the manager [default: 1024].
    #[must_use]
    pub fn processes(self, processes: usize) -> Self {
        Bounds { processes, ..self }
    }

    /// Sets the number of bytes that all messages in flight may occupy together [default: 1 GiB].
    /// No memory is used before a message needs it. Memory that was used for messages of one size
    /// is reused only for messages that are not larger: a sequence of many sizes may need several
    /// times the memory that is in flight.
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        Bounds { memory, ..self }
    }

    /// Sets the number of bytes of private data of each process [default: no limit; 0: no limit].
    /// The system refuses a process more memory than that, which usually ends the process. (This is
    /// `RLIMIT_DATA`: see setrlimit(2).)
    #[must_use]
    pub fn worker_memory(self, bytes: u64) -> Self {
        Bounds { worker_memory: NonZeroU64::new(bytes), ..self }
    }

    /// Sets the number of messages that can wait in a channel [default: 1, as in the paper]. The
    /// sender of a further message blocks.
    #[must_use]
    pub fn depth(self, depth: usize) -> Self {
        Bounds { depth, ..self }
    }

    /// Sets whether Ctrl-Z at the manager stops all processes, and `fg` continues them [default:
    /// yes].
    ///
    /// For this, the manager installs a handler of SIGTSTP from its first start of a process until
    /// the farm is dropped, if it has a terminal and the signal has its default action. The handler
    /// also stops the manager, as the default action does. A sleeping system call of the program
    /// may return `EINTR` afterwards. A program that has its own handler, or ignores the signal,
    /// keeps that disposition: it can send signals to the process groups itself (their numbers are
    /// [`Farm::pid`](crate::Farm::pid) and [`Pool::pids`](crate::Pool::pids)).
    #[must_use]
    pub fn forward_stops(self, forward_stops: bool) -> Self {
        Bounds { forward_stops, ..self }
    }
}

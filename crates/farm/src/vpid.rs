//! The numbers that identify the processes of a farm.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest number of processes that a farm can have at a time.
pub const MAX_PROCESSES: usize = 1 << 14;

/// The number of low bits of a vpid that hold the place in the farm's table of processes.
const PLACE: u32 = 16;

/// A virtual process number, which identifies a process of a farm and is never reused.
///
/// The founder of the farm is [`Vpid::MANAGER`], 0; the other processes are numbered in the order
/// in which they are reserved or spawned. When no unused place is left, the place of an ended
/// process is reused by the next generation: `3` and `3.1` are two different processes, and no
/// message for the first ever reaches the second.
///
/// ```
/// use syncline_farm::Vpid;
///
/// assert_eq!(Vpid::MANAGER.to_string(), "0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Vpid(u64);

impl Vpid {
    /// The process that founded the farm.
    pub const MANAGER: Vpid = Vpid(0);

    pub(crate) fn new(place: usize, generation: u64) -> Vpid {
        Vpid(generation << PLACE | place as u64)
    }

    /// Returns the number as one word, to be stored or passed to other languages.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// Creates a vpid from the result of [`to_raw`](Self::to_raw). Any word is accepted, although
    /// it may not be the vpid of an existing process.
    #[must_use]
    pub fn from_raw(raw: u64) -> Vpid {
        Vpid(raw)
    }

    /// Returns its index in the table of processes.
    pub(crate) fn place(self) -> usize {
        (self.0 & ((1 << PLACE) - 1)) as usize
    }

    /// Returns how many processes had this place before.
    pub(crate) fn generation(self) -> u64 {
        self.0 >> PLACE
    }
}

impl fmt::Display for Vpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation() {
            0 => write!(f, "{}", self.place()),
            generation => write!(f, "{}.{generation}", self.place()),
        }
    }
}

impl fmt::Debug for Vpid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vpid({self})")
    }
}

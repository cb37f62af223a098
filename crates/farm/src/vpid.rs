//! The numbers by which tasks know one another.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many processes a farm can have at a time, at most.
pub const MAX_PROCESSES: usize = 1 << 14;

/// Of a number, the bits that are the place in the farm's table.
const PLACE: u32 = 16;

/// A virtual process number: names a process of a farm, for ever.
///
/// The one that founded the farm is [`Vpid::MANAGER`], 0; the others are counted as they are
/// reserved or spawned. When there are no fresh places left the place of one that has ended is used
/// again, by another generation: what is printed as `3` and as `3.1` are two processes, and nothing
/// that was meant for the first ever reaches the second.
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

    /// The number in one word, to be stored or handed to other languages.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// The number that [`to_raw`](Self::to_raw) gave. Any word is a number, if not one of a process
    /// that there is.
    #[must_use]
    pub fn from_raw(raw: u64) -> Vpid {
        Vpid(raw)
    }

    /// Where it stands in the table of processes.
    pub(crate) fn place(self) -> usize {
        (self.0 & ((1 << PLACE) - 1)) as usize
    }

    /// How many processes stood there before it.
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

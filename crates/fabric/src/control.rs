//! The words at the beginning of a team's segment, which launcher and processes share.
//!
//! ```text
//! | ledger of the space | part of process 0, 1, ... | the dead | team barrier | what members make ... |
//!                         not begun > begun > done
//! ```

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_sync::{Array, Deaths, Space, SpaceError};

use crate::error::Part;

const NOT_BEGUN: u64 = 0;
const BEGUN: u64 = 1;
const DONE: u64 = 2;

/// How far each process has come, and who is dead. A clone is the same words.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    parts: Array<AtomicU64>,
    pub(crate) deaths: Deaths,
}

impl Control {
    /// The first things in a space.
    pub(crate) fn within(space: &mut Space, processes: usize, members: usize) -> Result<Control, SpaceError> {
        Ok(Control { parts: space.array(processes)?, deaths: Deaths::within(space, members)? })
    }

    /// A process begins its part; false if it has before.
    pub(crate) fn begin(&self, process: usize) -> bool {
        // Relaxed, here and below: the word stands for itself. The launcher acts on it when the process has exited.
        self.parts[process].compare_exchange(NOT_BEGUN, BEGUN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// All members of a process have ended.
    pub(crate) fn finish(&self, process: usize) {
        self.parts[process].store(DONE, Ordering::Relaxed);
    }

    /// How far a process has come.
    pub(crate) fn part(&self, process: usize) -> Part {
        match self.parts[process].load(Ordering::Relaxed) {
            NOT_BEGUN => Part::NotBegun,
            BEGUN => Part::Begun,
            _ => Part::Done,
        }
    }

    /// Whether any process has begun.
    pub(crate) fn any_begun(&self) -> bool {
        self.parts.iter().any(|part| part.load(Ordering::Relaxed) != NOT_BEGUN)
    }
}

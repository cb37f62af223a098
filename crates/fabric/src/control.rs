//! The words at the beginning of a team's segment, which launcher and processes share.
//!
//! ```text
//! | ledger of the space | part of process 0, 1, ... | things made by rank 0, 1, ... | the dead | team barrier | ... |
//!                         not begun > begun > done    how many | ENDED
//! ```
//!
//! # Who ends too early
//! Everything that members make needs all of them. So a member that ends when it has made less than another is missed
//! for ever by those who wait for it there; it is declared dead. The one who ends and the one who makes both write their
//! word and then look at the others', with a fence in between: at least one of the two sees the other.

use syncline_signal::primitive::{AtomicU64, Ordering, fence};
use syncline_sync::{Array, Deaths, Space, SpaceError};

use crate::error::Part;

const NOT_BEGUN: u64 = 0;
const BEGUN: u64 = 1;
const DONE: u64 = 2;
/// Of a member's word: it has ended.
const ENDED: u64 = 1 << 63;

/// How far each process has come, and who is dead. A clone is the same words.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    parts: Array<AtomicU64>,
    things: Array<AtomicU64>,
    pub(crate) deaths: Deaths,
}

impl Control {
    /// The first things in a space.
    pub(crate) fn within(space: &mut Space, processes: usize, members: usize) -> Result<Control, SpaceError> {
        let (parts, things) = (space.array(processes)?, space.array(members)?);
        // One more for the launcher.
        Ok(Control { parts, things, deaths: Deaths::within(space, members + 1)? })
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

    /// A member has made so many things by now. Those who have ended with fewer are dead.
    pub(crate) fn made(&self, rank: usize, things: u64) {
        self.things[rank].store(things, Ordering::Relaxed);
        // SeqCst: with the one in `ended` the two fences of Dekker's pattern; no weaker one orders a store before a
        // later load.
        fence(Ordering::SeqCst);
        for (other, word) in self.things.iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            if word & ENDED != 0 && word & !ENDED < things {
                self.deaths.declare(other);
            }
        }
    }

    /// A member ends when it has made so many things. If another has made more, it is dead.
    pub(crate) fn ended(&self, rank: usize, things: u64) {
        self.things[rank].store(things | ENDED, Ordering::Relaxed);
        // SeqCst: see `made`.
        fence(Ordering::SeqCst);
        if self.things.iter().any(|word| word.load(Ordering::Relaxed) & !ENDED > things) {
            self.deaths.declare(rank);
        }
    }
}

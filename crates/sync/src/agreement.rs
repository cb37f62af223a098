//! Detects members that create different things where all should create the same.
//!
//! The request of a member is one word, so that it can stand in shared memory. A difference is two
//! words, which are sent to other hosts in a message.

use std::fmt;

/// The kinds of things that members create together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Thing {
    /// Memory, not as a part of another thing.
    Memory = 1,
    /// A barrier.
    Barrier = 2,
    /// A lock.
    Lock = 3,
    /// A board of flags.
    Board = 4,
    /// One-sided memory.
    OneSided = 5,
    /// Space for allocations of one-sided memory.
    Allocation = 6,
    /// Mutexes of one-sided memory.
    Mutexes = 7,
    /// A group of members.
    Group = 8,
    /// A farm or a pool of workers.
    Farm = 9,
}

impl Thing {
    const ALL: [Thing; 9] = [
        Thing::Memory,
        Thing::Barrier,
        Thing::Lock,
        Thing::Board,
        Thing::OneSided,
        Thing::Allocation,
        Thing::Mutexes,
        Thing::Group,
        Thing::Farm,
    ];

    /// The action that creates it, for messages.
    fn made(self) -> &'static str {
        match self {
            Thing::Memory => "allocates memory",
            Thing::Barrier => "makes a barrier",
            Thing::Lock => "makes a lock",
            Thing::Board => "makes a board",
            Thing::OneSided => "makes one-sided memory",
            Thing::Allocation => "allocates one-sided memory",
            Thing::Mutexes => "makes a set of mutexes",
            Thing::Group => "makes a group",
            Thing::Farm => "makes a farm or a pool",
        }
    }
}

/// The request of one view of a space.
///
/// ```text
/// | thing: 8 bits | rank + 1: 16 bits, 0: unknown | bytes + 1: 40 bits, 0: unknown |
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Asked(u64);

const THING: u32 = 56;
const RANK: u32 = 40;
const BYTES: u64 = (1 << RANK) - 1;
const _: () = assert!(crate::membership::MAX_MEMBERS < 1 << (THING - RANK));

impl Asked {
    /// Creates the request of a member for a thing of `bytes` bytes. A size of 2^40 - 1 or more is
    /// not recorded.
    #[must_use]
    pub fn new(thing: Thing, rank: Option<usize>, bytes: Option<usize>) -> Asked {
        let bytes =
            bytes.map(|bytes| (bytes as u64).saturating_add(1)).filter(|&bytes| bytes <= BYTES);
        let rank = rank.map_or(0, |rank| rank as u64 + 1) << RANK;
        Asked((thing as u64) << THING | rank | bytes.unwrap_or(0))
    }

    /// Returns the thing, if it is known.
    #[must_use]
    pub fn thing(self) -> Option<Thing> {
        Thing::ALL.into_iter().find(|&thing| thing as u64 == self.0 >> THING)
    }

    /// Returns the rank of the member that made the request, if the view belongs to a member.
    #[must_use]
    pub fn rank(self) -> Option<usize> {
        (self.0 >> RANK & ((1 << (THING - RANK)) - 1)).checked_sub(1).map(|rank| rank as usize)
    }

    /// Returns the number of bytes, if it is known.
    #[must_use]
    pub fn bytes(self) -> Option<usize> {
        (self.0 & BYTES).checked_sub(1).map(|bytes| bytes as usize)
    }

    /// Returns the request as a word, which is 0 only if nothing is known.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn of_word(word: u64) -> Asked {
        Asked(word)
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("thing", &self.thing())
            .field("rank", &self.rank())
            .field("bytes", &self.bytes())
            .finish()
    }
}

/// Two views of a space that requested different things where both should request the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The first request.
    pub first: Asked,
    /// The request of another view in the same position.
    pub second: Asked,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { first, second } = *self;
        let member = |asked: Asked, unknown: &str| match asked.rank() {
            Some(rank) => format!("rank {rank}"),
            None => unknown.to_owned(),
        };
        let made = |asked: Asked| match (asked.thing(), asked.bytes()) {
            (Some(Thing::Memory), Some(bytes)) => format!("allocates {bytes} bytes of memory"),
            (Some(thing), _) => thing.made().to_owned(),
            (None, _) => "makes something else".to_owned(),
        };
        let (this, that) = (made(first), made(second));
        let other = match first.thing() {
            _ if this != that => "",
            Some(Thing::Memory) => " for other elements",
            _ => " of another kind or size",
        };
        let (one, another) = (member(first, "one view"), member(second, "another"));
        write!(f, "{one} {this}, {another} {that}{other}")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_what_was_asked_for() {
        for thing in Thing::ALL {
            for rank in [None, Some(0), Some(crate::membership::MAX_MEMBERS - 1)] {
                for bytes in [None, Some(0), Some(100), Some((1 << 40) - 2)] {
                    let asked = Asked::of_word(Asked::new(thing, rank, bytes).word());
                    assert_eq!(
                        (asked.thing(), asked.rank(), asked.bytes()),
                        (Some(thing), rank, bytes)
                    );
                }
            }
        }
        let large =
            [(1 << 40) - 1, usize::MAX].map(|bytes| Asked::new(Thing::Lock, Some(7), Some(bytes)));
        assert!(
            large.iter().all(|asked| (asked.rank(), asked.bytes()) == (Some(7), None)),
            "{large:?}"
        );
        let nothing = Asked::of_word(0);
        assert_eq!((nothing.thing(), nothing.rank(), nothing.bytes()), (None, None, None));
    }

    #[test]
    fn a_difference_says_what_each_has_made() {
        let asked = |thing, rank, bytes| Asked::new(thing, Some(rank), Some(bytes));
        let message = |first, second| Difference { first, second }.to_string();
        let memory = |rank, bytes| asked(Thing::Memory, rank, bytes);
        assert_eq!(
            message(asked(Thing::Barrier, 0, 24), memory(1, 128)),
            "rank 0 makes a barrier, rank 1 allocates 128 bytes of memory"
        );
        assert_eq!(
            message(memory(2, 100), memory(0, 200)),
            "rank 2 allocates 100 bytes of memory, rank 0 allocates 200 bytes of memory"
        );
        assert_eq!(
            message(memory(0, 64), memory(1, 64)),
            "rank 0 allocates 64 bytes of memory, rank 1 allocates 64 bytes of memory for other elements"
        );
        assert_eq!(
            message(asked(Thing::Lock, 0, 8), asked(Thing::Lock, 1, 8)),
            "rank 0 makes a lock, rank 1 makes a lock of another kind or size"
        );
        assert_eq!(
            message(Asked::of_word(0), Asked::new(Thing::Memory, None, None)),
            "one view makes something else, another allocates memory"
        );
    }
}

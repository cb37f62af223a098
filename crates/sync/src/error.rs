//! Why something could not be made, and why a wait ended without what it waited for.

use std::fmt;

use crate::calls::Call;
use crate::vigil::LAUNCHER;

/// Why the memory of a barrier or lock could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// The segment has no room left.
    #[error("no room in the segment for {asked} bytes more: {left} are left")]
    Full {
        /// Bytes asked for.
        asked: usize,
        /// Bytes left.
        left: usize,
    },
    /// The segment has all the allocations that its ledger can hold.
    #[error(
        "a segment holds at most {most} arrays, and a lock is five or six of them: use one lock for more data, or more segments"
    )]
    Many {
        /// How many it can hold.
        most: usize,
    },
    /// Members did not ask for the same things in the same order.
    #[error("members do not make the same things in the same order: they differ at allocation {number}")]
    Mismatch {
        /// Which allocation, counted from 1.
        number: usize,
    },
    /// So many members, or none.
    #[error("a barrier or lock has 1 to {most} members, not {members}")]
    Members {
        /// How many were asked for.
        members: usize,
        /// How many there may be.
        most: usize,
    },
    /// A radix below 2.
    #[error("a radix of {radix} disseminates nothing: it must be at least 2")]
    Radix {
        /// What was asked for.
        radix: usize,
    },
    /// There is no such rank.
    #[error("rank {rank} is none of {members} members")]
    Rank {
        /// The rank asked for.
        rank: usize,
        /// How many members there are.
        members: usize,
    },
    /// The members have no memory in common.
    #[error(
        "the members are on {hosts} hosts, which have no memory in common: between hosts there are barriers over \
         messages, as the team's own, and one-sided memory"
    )]
    Hosts {
        /// How many hosts there are.
        hosts: usize,
    },
    /// The rank has, or had, another holder.
    #[error("rank {rank} is taken: each member takes part once")]
    Taken {
        /// The rank asked for.
        rank: usize,
    },
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The deadline passed. Nothing is lost: the same wait may be called again.
    #[error("the deadline passed")]
    TimedOut,
    /// A member's process was killed or has exited, or its thread has panicked.
    #[error("{} is dead", Who(*rank))]
    Dead {
        /// Its rank, or [`LAUNCHER`].
        rank: usize,
    },
    /// Members are in calls of which none can complete before another, as they did not call the same in the same order. The
    /// team is of no use any more: every call of a member that would have to wait ends with this.
    #[error("rank {rank} is in {call}, rank {other} is in {other_call}: neither can complete")]
    Mismatch {
        /// A member.
        rank: usize,
        /// What it has called.
        call: Call,
        /// Another member.
        other: usize,
        /// What that has called.
        other_call: Call,
    },
    /// A member gave its part up, and the others wait for it in vain.
    #[error("member {rank} has left the barrier")]
    Left {
        /// Its rank.
        rank: usize,
    },
}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The deadline passed. The place in the queue stays.
    #[error("the lock was not free before the deadline")]
    TimedOut,
    /// A member has died, and the lock or the queue may be with it.
    #[error("{} is dead, and the lock may never be free again", Who(*rank))]
    Dead {
        /// Its rank, or [`LAUNCHER`].
        rank: usize,
    },
    /// A member panicked or died while it held the lock.
    #[error("member {rank} left what the lock guards half changed")]
    Poisoned {
        /// Its rank.
        rank: usize,
    },
}

/// Of whom something is told.
struct Who(usize);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LAUNCHER => f.write_str("the launcher"),
            rank => write!(f, "member {rank}"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_is_called_by_its_name() {
        assert_eq!(Fault::Dead { rank: 4 }.to_string(), "member 4 is dead");
        assert_eq!(Fault::Dead { rank: LAUNCHER }.to_string(), "the launcher is dead");
        let lock = LockError::Dead { rank: LAUNCHER }.to_string();
        assert_eq!(lock, "the launcher is dead, and the lock may never be free again");
    }
}

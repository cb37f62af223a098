//! Why something could not be made, and why a wait ended without what it waited for.

use std::fmt;

use syncline_memory::room::Size;

use crate::agreement::Difference;
use crate::calls::Call;
use crate::membership::LAUNCHER;

/// Why the memory of a barrier or lock could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// The segment has no room left.
    #[error("no room in the segment for {} more: {} are left", Size(*asked as u64), Size(*left as u64))]
    Full {
        /// Bytes asked for.
        asked: usize,
        /// Bytes left.
        left: usize,
    },
    /// The segment has room, but the host or a control group of it has no memory left that could be
    /// taken without harm.
    #[error("no memory for {} more: the host, or the control group of this program, has {} left", Size(*asked as u64), Size(*left as u64))]
    Memory {
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
    #[error("{0}: all members must make the same things in the same order")]
    Mismatch(Difference),
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
    #[error("there is no rank {rank}: the members are ranks 0 to {}", members.saturating_sub(1))]
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
    /// This process is a copy that `fork` has made of a member's.
    #[error("{}", Child(*rank))]
    Forked {
        /// The rank of the member.
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
    /// Members are in calls of which none can complete before another, as they did not call the
    /// same in the same order. The team is of no use any more: every call of a member that would
    /// have to wait ends with this.
    #[error(
        "rank {rank} is in {call}, rank {other} is in {other_call}: neither can complete; all members \
         must make the same collective calls in the same order"
    )]
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
    /// Members have not made the same things in the same order, so no thing that they have made
    /// later is the same for all. The team is of no use any more, as after
    /// [`Mismatch`](Fault::Mismatch).
    #[error("{0}: all members must make the same things in the same order")]
    Differs(Difference),
    /// A member gave its part up, or has returned without it, and the others wait for it in vain.
    #[error("{} has left", Who(*rank))]
    Left {
        /// Its rank.
        rank: usize,
    },
    /// A member's host is silent, and is taken for dead.
    #[error("{0}")]
    Silent(Silence),
    /// MPI has reported that a member's process has failed.
    #[error("{}'s process has died, MPI says", Who(*rank))]
    Reported {
        /// Its rank.
        rank: usize,
    },
    /// This process is a copy that `fork` has made of a member's: it is no member, and the call has
    /// done nothing.
    #[error("{}", Child(*rank))]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
}

impl Fault {
    /// The member, or [`LAUNCHER`], without which the wait never ends.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        match *self {
            Fault::Dead { rank } | Fault::Left { rank } | Fault::Reported { rank } => Some(rank),
            Fault::Silent(silence) => Some(silence.rank()),
            Fault::TimedOut | Fault::Mismatch { .. } | Fault::Differs(_) | Fault::Forked { .. } => {
                None
            }
        }
    }
}

/// Which member has not been heard of, and for how long: in one word, so that a [`Fault`] is
/// returned in two registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Silence(u64);

impl Silence {
    /// A member of this rank, for that many milliseconds.
    #[must_use]
    pub fn new(rank: usize, milliseconds: u32) -> Silence {
        Silence(rank as u64 & u64::from(u32::MAX) | u64::from(milliseconds) << 32)
    }

    /// The rank of the member.
    #[must_use]
    pub fn rank(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// For how long it was silent.
    #[must_use]
    pub fn milliseconds(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = f64::from(self.milliseconds()) / 1e3;
        write!(
            f,
            "{} has not been heard of for {seconds} s; SYNCLINE_TIMEOUT sets the limit",
            Who(self.rank())
        )
    }
}

impl fmt::Debug for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Silence")
            .field("rank", &self.rank())
            .field("milliseconds", &self.milliseconds())
            .finish()
    }
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
    /// A member has returned or given its part up, and the lock or the queue may be with it.
    #[error("{} has left, and the lock may never be free again", Who(*rank))]
    Left {
        /// Its rank.
        rank: usize,
    },
    /// A member panicked or died while it held the lock.
    #[error("rank {rank} left what the lock guards half changed")]
    Poisoned {
        /// Its rank.
        rank: usize,
    },
    /// This process is a copy that `fork` has made of a member's: it is no member, and the call has
    /// done nothing.
    #[error("{}", Child(*rank))]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
}

/// Of whom something is told.
struct Who(usize);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LAUNCHER => f.write_str("the launcher"),
            rank => write!(f, "rank {rank}"),
        }
    }
}

/// What a child of a member's process is told.
struct Child(usize);

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this process is a child made by fork() of rank {}'s process: it is no member",
            self.0
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_was_seen() {
        let silent = Fault::Silent(Silence::new(3, 10_000));
        assert_eq!(
            silent.to_string(),
            "rank 3 has not been heard of for 10 s; SYNCLINE_TIMEOUT sets the limit"
        );
        assert_eq!(Fault::Reported { rank: 3 }.to_string(), "rank 3's process has died, MPI says");
        assert_eq!(Fault::Left { rank: 1 }.to_string(), "rank 1 has left");
        let child = "this process is a child made by fork() of rank 2's process: it is no member";
        assert_eq!(Fault::Forked { rank: 2 }.to_string(), child);
        assert_eq!((silent.rank(), Fault::Forked { rank: 2 }.rank()), (Some(3), None));
    }

    #[test]
    fn the_launcher_is_called_by_its_name() {
        assert_eq!(Fault::Dead { rank: 4 }.to_string(), "rank 4 is dead");
        assert_eq!(Fault::Dead { rank: LAUNCHER }.to_string(), "the launcher is dead");
        let lock = LockError::Dead { rank: LAUNCHER }.to_string();
        assert_eq!(lock, "the launcher is dead, and the lock may never be free again");
    }
}

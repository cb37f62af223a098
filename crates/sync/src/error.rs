//! Errors: why a barrier, lock or array could not be made, and why a wait ended early.

use std::fmt;

use syncline_memory::room::Size;

use crate::agreement::Difference;
use crate::call_matching::Call;
use crate::membership::LAUNCHER;

/// The reason why a barrier, lock or array could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// The segment has no room left.
    #[error("no room in the segment for {} more: {} are left", Size(*asked as u64), Size(*left as u64))]
    Full {
        /// The number of bytes requested.
        asked: usize,
        /// The number of bytes left.
        left: usize,
    },
    /// The segment has room, but the host or the control group has no memory left that could be
    /// taken safely.
    #[error("no memory for {} more: the host, or the control group of this program, has {} left", Size(*asked as u64), Size(*left as u64))]
    Memory {
        /// The number of bytes requested.
        asked: usize,
        /// The number of bytes left.
        left: usize,
    },
    /// The ledger of the segment is full.
    #[error(
        "a segment holds at most {most} arrays, and a lock is five or six of them: use one lock for more data, or more segments"
    )]
    Many {
        /// The capacity of the ledger.
        most: usize,
    },
    /// Members did not create the same things in the same order.
    #[error("{0}: all members must make the same things in the same order")]
    Mismatch(Difference),
    /// The number of members is zero or too great.
    #[error("a barrier or lock has 1 to {most} members, not {members}")]
    Members {
        /// The number of members requested.
        members: usize,
        /// The maximum number.
        most: usize,
    },
    /// The radix is below 2.
    #[error("a radix of {radix} disseminates nothing: it must be at least 2")]
    Radix {
        /// The radix requested.
        radix: usize,
    },
    /// There is no such rank.
    #[error("there is no rank {rank}: the members are ranks 0 to {}", members.saturating_sub(1))]
    Rank {
        /// The rank requested.
        rank: usize,
        /// The number of members.
        members: usize,
    },
    /// The members share no memory.
    #[error(
        "the members are on {hosts} hosts, which share no memory: between hosts use the team's own barrier, which \
         sends messages, or one-sided memory"
    )]
    Hosts {
        /// The number of hosts.
        hosts: usize,
    },
    /// The rank has, or had, another handle.
    #[error("rank {rank} is taken: each member takes part once")]
    Taken {
        /// The rank requested.
        rank: usize,
    },
    /// This process is a child made by `fork` of a member's process.
    #[error("{}", ForkedChild(*rank))]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
}

/// The reason why a wait ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The deadline passed. Nothing is lost: the same wait may be repeated.
    #[error("the deadline passed")]
    TimedOut,
    /// A member's process was killed or has exited, or its thread has panicked.
    #[error("{} is dead", Subject(*rank))]
    Dead {
        /// The rank of the member, or [`LAUNCHER`].
        rank: usize,
    },
    /// Members are in calls that wait for one another, as the members did not make the same calls
    /// in the same order. The team is unusable: from now on, every call that would have to wait
    /// fails with this.
    #[error(
        "rank {rank} is in {call}, rank {other} is in {other_call}: neither can complete; all members \
         must make the same collective calls in the same order"
    )]
    Mismatch {
        /// The rank of a member.
        rank: usize,
        /// The call of that member.
        call: Call,
        /// The rank of another member.
        other: usize,
        /// The call of the other member.
        other_call: Call,
    },
    /// Members did not create the same things in the same order, so things created later do not
    /// match either. The team is unusable, as after [`Mismatch`](Fault::Mismatch).
    #[error("{0}: all members must make the same things in the same order")]
    Differs(Difference),
    /// A member has given up its part, or has returned without doing it, while other members wait
    /// for it.
    #[error("{} has left", Subject(*rank))]
    Left {
        /// The rank of the member.
        rank: usize,
    },
    /// A member's host is silent, and is considered dead.
    #[error("{0}")]
    Silent(Silence),
    /// MPI has reported that a member's process has failed.
    #[error("{}'s process has failed, MPI reports", Subject(*rank))]
    Reported {
        /// The rank of the member.
        rank: usize,
    },
    /// This process is a child made by `fork` of a member's process: it is not a member, and the
    /// call had no effect.
    #[error("{}", ForkedChild(*rank))]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
}

impl Fault {
    /// Returns the rank of the member, or [`LAUNCHER`], that would keep the wait from ending.
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

/// A silent member and the duration of the silence, in one word, so that a [`Fault`] is returned in
/// two registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Silence(u64);

impl Silence {
    /// Creates the silence of the member `rank`, which has lasted that number of milliseconds.
    #[must_use]
    pub fn new(rank: usize, milliseconds: u32) -> Silence {
        Silence(rank as u64 & u64::from(u32::MAX) | u64::from(milliseconds) << 32)
    }

    /// Returns the rank of the member.
    #[must_use]
    pub fn rank(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// Returns the duration of the silence.
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
            Subject(self.rank())
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

/// The reason why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The deadline passed. The place in the queue is kept.
    #[error("the lock was not free before the deadline")]
    TimedOut,
    /// A member has died, and may have held the lock or broken its queue.
    #[error("{} is dead, and the lock may never be free again: call recover", Subject(*rank))]
    Dead {
        /// The rank of the member, or [`LAUNCHER`].
        rank: usize,
    },
    /// A member has returned or given up its part, and may have held the lock or broken its queue.
    #[error("{} has left, and the lock may never be free again: call recover", Subject(*rank))]
    Left {
        /// The rank of the member.
        rank: usize,
    },
    /// A member panicked or died while it held the lock.
    #[error("the lock is poisoned: rank {rank} left its data half changed")]
    Poisoned {
        /// The rank of the member.
        rank: usize,
    },
    /// This process is a child made by `fork` of a member's process: it is not a member, and the
    /// call had no effect.
    #[error("{}", ForkedChild(*rank))]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
}

/// Displays a rank, or the launcher.
struct Subject(usize);

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LAUNCHER => f.write_str("the launcher"),
            rank => write!(f, "rank {rank}"),
        }
    }
}

/// Displays the message for calls in a child made by `fork`.
struct ForkedChild(usize);

impl fmt::Display for ForkedChild {
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
        assert_eq!(
            Fault::Reported { rank: 3 }.to_string(),
            "rank 3's process has failed, MPI reports"
        );
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
        assert_eq!(
            lock,
            "the launcher is dead, and the lock may never be free again: call recover"
        );
    }
}

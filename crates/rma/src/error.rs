//! The errors of operations on global memory.

use std::fmt;

use syncline_fabric::{Advised, MORE_MEMORY};
use syncline_memory::room::Size;
use syncline_sync::{Fault, SpaceError};

/// The reason why an operation on global memory was not performed, or is not known to be complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RmaError {
    /// A member that the operation needs is gone, or a deadline has passed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The team's memory has no room, or an argument is invalid. If members make different things,
    /// the error is [`Fault::Differs`], as in waits.
    #[error("the team's memory: {}", Advised(.0))]
    Space(SpaceError),
    /// A host has no room for the parts of its members. All members get the same error.
    #[error(
        "rank {rank} asked for {}{}; host {host} has {} left ({MORE_MEMORY})",
        Size(*asked),
        Together(*asked, *together),
        Size(*left)
    )]
    Room {
        /// The member of that host that asked for the most.
        rank: usize,
        /// The number of bytes that it asked for.
        asked: u64,
        /// The number of bytes that all members of that host asked for.
        together: u64,
        /// The first host that has no room.
        host: usize,
        /// The number of bytes that the host has left.
        left: u64,
    },
    /// The rank is not the rank of a member.
    #[error("there is no rank {rank}: the members are ranks 0 to {}", size.saturating_sub(1))]
    Rank {
        /// The given rank.
        rank: usize,
        /// The number of members.
        size: usize,
    },
    /// A range of elements is not inside the allocation.
    #[error(
        "elements {from} to {to} are not all among the {len} that rank {rank} has in this allocation"
    )]
    Bounds {
        /// The member whose part was addressed.
        rank: usize,
        /// The first element of the range.
        from: usize,
        /// The element after the last one of the range.
        to: usize,
        /// The number of elements of the part.
        len: usize,
    },
    /// A range of elements is not inside the caller's own buffer.
    #[error("elements {from} to {to} are not all among the {len} of the buffer")]
    Buffer {
        /// The first element of the range.
        from: usize,
        /// The element after the last one of the range.
        to: usize,
        /// The number of elements of the buffer.
        len: usize,
    },
    /// An argument is invalid: a shape, a group without members, memory that has been freed or
    /// belongs to another [`Rma`](crate::Rma), or too many mutexes.
    #[error("invalid argument: {why}")]
    Shape {
        /// The reason.
        why: String,
    },
    /// The size of a part is not a multiple of the size of the element.
    #[error("a part of {len} bytes is not a whole number of elements of {size} bytes")]
    View {
        /// The number of bytes of the part.
        len: usize,
        /// The number of bytes of an element.
        size: usize,
    },
    /// A range of bytes does not consist of aligned elements: see
    /// [`Rma::accumulate_from`](crate::Rma::accumulate_from).
    #[error("{len} bytes at offset {offset} are not whole, aligned elements of {size} bytes")]
    Align {
        /// The first byte of the range.
        offset: usize,
        /// The number of bytes of the range.
        len: usize,
        /// The number of bytes of an element.
        size: usize,
    },
    /// Members have called different collective functions, or with different arguments where these
    /// must be the same.
    ///
    /// Functions in which all members exchange their arguments detect this: allocations, mutexes,
    /// groups. A sync exchanges no arguments. If a member waits in a sync and another one in
    /// another call, so that neither can return, the error is [`Fault::Mismatch`].
    #[error("rank {rank} did not call the same function as rank {other}: all members {what}")]
    Mismatch {
        /// A member.
        rank: usize,
        /// A member whose call differs.
        other: usize,
        /// The calls that all members have to make together.
        what: &'static str,
    },
    /// Another host has refused an operation that had already been sent.
    #[error("host {host} refused an operation: {why}")]
    Refused {
        /// The host that refused it.
        host: usize,
        /// The reason.
        why: &'static str,
    },
    /// A member locks a mutex that it holds, or frees a set while it holds a mutex of the set.
    #[error("mutex {index} of rank {rank} is held by this member already: unlock it first")]
    Held {
        /// The owner of the mutex.
        rank: usize,
        /// The index of the mutex.
        index: usize,
    },
    /// A member has left the team, or has dropped the set, while it held a mutex: see
    /// [`lock`](crate::lock#a-holder-that-is-gone).
    #[error(
        "rank {by} left while it held mutex {index} of rank {rank}: what the mutex guards may be half changed"
    )]
    Poisoned {
        /// The owner of the mutex.
        rank: usize,
        /// The index of the mutex.
        index: usize,
        /// The member that held it.
        by: usize,
    },
    /// A set of mutexes is to be freed while another member holds one of them.
    #[error(
        "the set of mutexes is not freed: rank {by} holds one of them, and must unlock it first"
    )]
    HeldBy {
        /// The holder.
        by: usize,
    },
    /// An allocation has timed out, and a collective function other than the same allocation is
    /// called.
    #[error(
        "an allocation has timed out: call the same allocation again before any other collective function"
    )]
    Unfinished,
    /// A member unlocks a mutex that it does not hold.
    #[error("mutex {index} of rank {rank} is not held by this member")]
    NotHeld {
        /// The owner of the mutex.
        rank: usize,
        /// The index of the mutex.
        index: usize,
    },
    /// The index is not that of a mutex.
    #[error("there is no mutex {index} of rank {rank}, which has {count} in this set")]
    Mutex {
        /// The given owner.
        rank: usize,
        /// The given index.
        index: usize,
        /// The number of mutexes of that owner in the set.
        count: usize,
    },
}

impl From<SpaceError> for RmaError {
    fn from(error: SpaceError) -> RmaError {
        match error {
            SpaceError::Mismatch(difference) => RmaError::Fault(Fault::Differs(difference)),
            error => RmaError::Space(error),
        }
    }
}

/// The bytes that one member asked for, and those that all members of its host asked for: displays
/// the sum if it is greater.
struct Together(u64, u64);

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Together(one, all) = self;
        if all > one { write!(f, ", all of its host for {}", Size(*all)) } else { Ok(()) }
    }
}

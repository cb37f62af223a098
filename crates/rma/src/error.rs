//! What can go wrong.

use std::fmt;

use syncline_fabric::{Advised, MORE_MEMORY};
use syncline_memory::room::Size;
use syncline_sync::{Fault, SpaceError};

/// Why an operation on global memory was not done, or is not known to be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RmaError {
    /// A member without which it cannot be done is gone, or a deadline passed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The members' memory has no room, or the argument is wrong. Members that do not make the same
    /// things are [`Fault::Differs`], as in waits.
    #[error("the team's memory: {}", Advised(.0))]
    Space(SpaceError),
    /// A host has no room for what its members asked for together. All members are told the same.
    #[error(
        "rank {rank} asked for {}{}; host {host} has {} left ({MORE_MEMORY})",
        Size(*asked),
        Together(*asked, *together),
        Size(*left)
    )]
    Room {
        /// The member of that host that asked for the most.
        rank: usize,
        /// Bytes that it asked for.
        asked: u64,
        /// Bytes that all members of that host asked for.
        together: u64,
        /// The first host that has no room.
        host: usize,
        /// Bytes that it has left.
        left: u64,
    },
    /// There is no such member.
    #[error("there is no rank {rank}: the members are ranks 0 to {}", size.saturating_sub(1))]
    Rank {
        /// The rank asked for.
        rank: usize,
        /// How many members there are.
        size: usize,
    },
    /// Elements that are not in the allocation.
    #[error(
        "elements {from} to {to} are not all among the {len} that rank {rank} has in this allocation"
    )]
    Bounds {
        /// The member.
        rank: usize,
        /// The first element asked for.
        from: usize,
        /// The element after the last one asked for.
        to: usize,
        /// How many it has.
        len: usize,
    },
    /// Elements that are not in the caller's own buffer.
    #[error("elements {from} to {to} are not all among the {len} of the buffer")]
    Buffer {
        /// The first element asked for.
        from: usize,
        /// The element after the last one asked for.
        to: usize,
        /// How many it has.
        len: usize,
    },
    /// A shape that makes no sense.
    #[error("this shape cannot be: {why}")]
    Shape {
        /// What is wrong with it.
        why: String,
    },
    /// An element that is not where its type may stand.
    #[error("a part of {len} bytes is no whole number of elements of {size} bytes")]
    View {
        /// How many bytes it has.
        len: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// Bytes that are no elements of the type: see [`Rma::accumulate_from`](crate::Rma::accumulate_from).
    #[error("{len} bytes at {offset} are no whole elements of {size} bytes at a multiple of that")]
    Align {
        /// The first byte asked for.
        offset: usize,
        /// How many bytes.
        len: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// Members called different collective functions, or with other arguments where they must be the same. This is seen where
    /// all tell one another what they want: allocations, mutexes, groups. A sync tells nothing: who is in one waits for those
    /// who are in something else.
    #[error("rank {rank} did not call the same as rank {other}: all members {what}")]
    Mismatch {
        /// A member.
        rank: usize,
        /// Another.
        other: usize,
        /// What all have to do.
        what: &'static str,
    },
    /// Another host refused an operation that had left already.
    #[error("host {host} refused an operation: {why}")]
    Refused {
        /// The host.
        host: usize,
        /// Why.
        why: &'static str,
    },
    /// A mutex is asked for, or its set freed, by the member that holds it.
    #[error("mutex {index} of rank {rank} is held by this very member: unlock it first")]
    Held {
        /// The member whose mutex it is.
        rank: usize,
        /// Its number.
        index: usize,
    },
    /// A member has left, or has dropped the set, while it held a mutex: see
    /// [`lock`](crate::lock#a-holder-that-is-gone).
    #[error(
        "rank {by} left while it held mutex {index} of rank {rank}: what the mutex guards may be half changed"
    )]
    Poisoned {
        /// The member whose mutex it is.
        rank: usize,
        /// Its number.
        index: usize,
        /// The member that held it.
        by: usize,
    },
    /// A set of mutexes is to be freed while another member holds one of them.
    #[error("rank {by} holds a mutex of the set: it is not freed before that is let go")]
    HeldBy {
        /// The member that holds one.
        by: usize,
    },
    /// An allocation has timed out, and something else is called that all members do together.
    #[error(
        "an allocation has timed out: the same allocation is called again before anything else that all members do"
    )]
    Unfinished,
    /// A mutex is let go by a member that does not hold it.
    #[error("mutex {index} of rank {rank} is not held by this member")]
    NotHeld {
        /// The member whose mutex it is.
        rank: usize,
        /// Its number.
        index: usize,
    },
    /// There is no such mutex.
    #[error("there is no mutex {index} of rank {rank}, which has {count} in this set")]
    Mutex {
        /// The member that was to have it.
        rank: usize,
        /// Its number.
        index: usize,
        /// How many it has.
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

/// What others of a host asked for beside one of them.
struct Together(u64, u64);

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Together(one, all) = self;
        if all > one { write!(f, ", all of its host for {}", Size(*all)) } else { Ok(()) }
    }
}

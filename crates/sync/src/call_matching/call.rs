//! The names of collective calls.

use std::fmt;

/// A call that members make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Call {
    /// The wait of all members of a team.
    Wait = 1,
    /// The wait of a barrier that members have created.
    Barrier = 2,
    /// The exchange of one word of every member with every member.
    Gather = 3,
    /// A sync of one-sided memory.
    Sync = 4,
    /// A sync of a group.
    GroupSync = 5,
    /// An allocation of one-sided memory.
    Allocate = 6,
    /// A deallocation of one-sided memory.
    Free = 7,
    /// The creation of a set of mutexes.
    Mutexes = 8,
    /// The destruction of a set of mutexes.
    FreeMutexes = 9,
}

impl Call {
    const ALL: [Call; 9] = [
        Call::Wait,
        Call::Barrier,
        Call::Gather,
        Call::Sync,
        Call::GroupSync,
        Call::Allocate,
        Call::Free,
        Call::Mutexes,
        Call::FreeMutexes,
    ];

    pub(super) fn of(number: u64) -> Option<Call> {
        Call::ALL.into_iter().find(|&call| call as u64 == number & 0xff)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Wait => "member wait",
            Call::Barrier => "barrier wait",
            Call::Gather => "gather",
            Call::Sync => "sync",
            Call::GroupSync => "group sync",
            Call::Allocate => "allocate",
            Call::Free => "deallocate",
            Call::Mutexes => "mutexes new",
            Call::FreeMutexes => "mutexes free",
        })
    }
}

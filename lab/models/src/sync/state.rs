//! The state of the model: hosts, members, and the messages in flight between them.

use crate::fifo::Fifo;

/// The largest number of hosts, and of members.
pub const MOST: usize = 4;

pub(super) const REQUESTS: usize = 6;
/// The largest number of servers of a host.
pub(super) const SERVERS: usize = 2;
pub(super) const CONTROLS: usize = 4;
/// The largest number of long puts of a host that have begun at a server. More than one only with
/// the planted bugs.
pub(super) const BEGUN: usize = 3;

/// A request in flight, or held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) member: u8,
    pub(super) op: u8,
    pub(super) left: u8,
    pub(super) parity: u8,
}

/// A message of an exchange; its counts are by offset, as it is before the round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Control {
    pub(super) exchange: u8,
    pub(super) round: u8,
    pub(super) counts: [u8; MOST],
}

/// The received part of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Inbox {
    /// A bit for each distance.
    pub(super) got: u8,
    /// By remaining offset.
    pub(super) entries: [u8; MOST],
    /// By origin, with [`Counters::Origins`].
    pub(super) origins: [u8; MOST],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Host {
    /// The number of members that have arrived at the next sync.
    pub(super) arrived: u8,
    pub(super) started: u8,
    pub(super) completed: u8,
    pub(super) exchange: u8,
    pub(super) round: u8,
    pub(super) sent: [[u8; MOST]; 2],
    /// By parity and, with [`Counters::Origins`], origin.
    pub(super) applied: [[u8; MOST]; 2],
    pub(super) inboxes: [Inbox; 2],
    /// A bit for each put.
    pub(super) memory: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) next: u8,
    pub(super) waiting: bool,
    /// The largest number of completed syncs that a signal to this member carried.
    pub(super) heard: u8,
    /// The request between the two steps of a planted [`Issue`].
    pub(super) issuing: Option<Request>,
}

/// All hosts, members and channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) hosts: [Host; MOST],
    pub(super) members: [Member; MOST],
    /// By origin, target, and server of the target.
    pub(super) requests: [[[Fifo<Request, REQUESTS>; SERVERS]; MOST]; MOST],
    /// By the same: the long puts whose turn has come and whose data have not arrived.
    pub(super) begun: [[[Fifo<Request, BEGUN>; SERVERS]; MOST]; MOST],
    /// A bit for each long put: its data are in flight; have arrived before its turn.
    pub(super) flying: u16,
    pub(super) early: u16,
    pub(super) controls: [[Fifo<Control, CONTROLS>; MOST]; MOST],
    /// By member: one more than the number of syncs that its host had completed when it signalled;
    /// 0 before.
    pub(super) told: [u8; MOST],
    pub(super) stale: bool,
    pub(super) ahead: bool,
}

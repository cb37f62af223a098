//! The state of a run: words, slots, and the messages in flight.

use super::long::{Move, Step};
use super::overlay::{HOSTS, LOCATIONS, TASKS};

/// The contents of a slot in which a body or a receiver writes.
pub const TORN: u8 = 255;
/// The contents of a slot that nothing has filled.
pub const EMPTY: u8 = 254;
/// No value for this location in a message.
pub const NONE: u8 = 253;

/// The phase of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Between two rounds.
    #[default]
    Idle,
    /// In its body.
    Running,
    /// Between the two steps of a release.
    Releasing,
    /// The body has failed.
    Failed,
}

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Words, and the data of a release of the task, if one is named.
    Words(Option<u8>),
    /// A task has left.
    Left(u8),
    /// A task has failed.
    Failed(u8),
    /// The number of rounds that all tasks of a host have ended.
    Ended(u8),
    /// The number of rounds that host 0 has judged.
    Judged(u8),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The kind.
    pub kind: Kind,
    /// By task: the number of rounds that it has released; 0 says nothing.
    pub words: [u8; TASKS],
    /// By location: the version.
    pub values: [u8; LOCATIONS],
    /// Whether the first of two steps of the receiver has been done.
    pub half: bool,
}

impl Message {
    /// Creates a message without contents.
    pub fn new(kind: Kind) -> Self {
        Message { kind, words: [0; TASKS], values: [NONE; LOCATIONS], half: false }
    }

    /// Returns whether the message carries data.
    pub fn has_data(&self) -> bool {
        self.values != [NONE; LOCATIONS]
    }
}

/// The faults of a run: none of them may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// An access has found another version than the one that one queue gives.
    pub stale: bool,
    /// A slot was written while an access used it, or while data were leaving it.
    pub torn: bool,
    /// A third reception is under way to a host that still uses the first one.
    pub crowded: bool,
    /// Two messages to one host for one release.
    pub twice: bool,
    /// A message follows a host's notice of a failure.
    pub late: bool,
}

impl Faults {
    /// Returns whether one of them has happened.
    pub fn any(self) -> bool {
        self != Faults::default()
    }
}

/// The words, slots and notices of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Host {
    /// By task: the number of rounds that it has released; of tasks on other hosts, the mirror.
    pub words: [u8; TASKS],
    /// By task of another host: the rounds of the releases that have been received; the mirror
    /// follows when their long data have landed.
    pub heard: [u8; TASKS],
    /// By location.
    pub slots: [[u8; 2]; LOCATIONS],
    /// By location: the number of receptions.
    pub arrived: [u8; LOCATIONS],
    /// By destination and task: the word that is posted as room; 0 is none.
    pub rooms: [[u8; TASKS]; HOSTS],
    /// By host: the number of rounds that all its tasks have ended; host 0 has those of all hosts.
    pub ended: [u8; HOSTS],
    /// The number of rounds that are judged.
    pub judged: u8,
    /// The tasks that are known to have left, a bit for each.
    pub left: u8,
    /// One more than the first failed task that the host has noted; 0 is none.
    pub failed: u8,
    /// One more than the least failed task that the host has noted.
    pub least: u8,
    /// The hosts that have sent a notice of a failure, a bit for each.
    pub notified: u8,
}

/// All hosts, tasks and channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The hosts.
    pub hosts: [Host; HOSTS],
    /// By task.
    pub phases: [Phase; TASKS],
    /// By task: the values that a release has copied for its messages.
    pub copies: [[u8; LOCATIONS]; TASKS],
    /// By control location: its contents.
    pub shared: [u8; LOCATIONS],
    /// By sender and receiver.
    pub channels: [[Vec<Message>; HOSTS]; HOSTS],
    /// The data that go by themselves, and are not over.
    pub moves: Vec<Move>,
    /// The faults so far.
    pub faults: Faults,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A task begins a round: it reads its locations.
    Begin(usize),
    /// A body ends: it writes its locations, and the release begins.
    End(usize),
    /// The second step of a release.
    Finish(usize),
    /// A host receives a message, or does the second half of that.
    Receive {
        /// The sending host.
        from: usize,
        /// The receiving host.
        to: usize,
        /// The place of the message in the channel: 0, except for [`Bug::Overtaking`].
        ///
        /// [`Bug::Overtaking`]: super::Bug::Overtaking
        at: usize,
    },
    /// Data that go by themselves take a step.
    Move(usize, Step),
    /// Room messages leave alone.
    Flush {
        /// The sending host.
        from: usize,
        /// The receiving host.
        to: usize,
    },
}

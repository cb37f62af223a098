//! The configuration of the protocol, with its planted bugs.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// No bug.
    None,
    /// A writer does not wait for room.
    NoRoom,
    /// Room for reception `n` is the end of the accesses to `n - 1`: correct, and too strict.
    RoomStrict,
    /// Room for reception `n` is the end of the accesses to `n - 3`.
    RoomLoose,
    /// A task posts its word, as room, when its body begins.
    RoomEarly,
    /// The slot of a reception follows the order of arrival.
    SlotByArrival,
    /// The slot of a reception is the parity of its round.
    SlotByRound,
    /// The mirror is raised before all data of the message are in place.
    RaisedEarly,
    /// A writer behind remote readers does not wait for the version of the previous writer.
    SkipsReaders,
    /// The copy for the message is taken after the local word has been raised.
    CopiedLate,
    /// Room is never sent to a host to which no other message goes.
    RoomNotAlone,
    /// Room is sent with other messages only.
    RoomRides,
    /// A control location gives writers one round of slack to remote readers.
    ControlSlack,
    /// A task that has left has no turns any more, and no other task waits for it.
    LeaverIgnored,
    /// The turns of a task that has left are not passed on.
    LeaverStops,
    /// The notice of a failure goes to the hosts to which the failed task sends, and to no other.
    FailureToFollowers,
    /// A host completes its releases after its notice of a failure.
    SentAfterNotice,
    /// A task begins a round without the verdict that decides whether the run has it.
    NoVerdict,
    /// Hosts other than that of the first writer begin without the initial value.
    NoInitial,
    /// A host fills in the initial value when its first body begins, not before the run.
    InitialLate,
    /// The messages of a pair of hosts overtake each other.
    Overtaking,
    /// The mirror is raised before the long data of the release have landed.
    RaisedUnlanded,
    /// The mirror is raised when the long data of one release have landed, and those of the release
    /// before it have not.
    RaisedOutOfTurn,
    /// Data leave the slot although an access of the writer's host uses it before the next
    /// reception.
    StaysUsed,
    /// Data leave the slot although the next reception in it may come before they are sent.
    StaysTight,
    /// A task releases its next round before its data have been sent.
    NotSent,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 26] = [
        Bug::None,
        Bug::NoRoom,
        Bug::RoomStrict,
        Bug::RoomLoose,
        Bug::RoomEarly,
        Bug::SlotByArrival,
        Bug::SlotByRound,
        Bug::RaisedEarly,
        Bug::SkipsReaders,
        Bug::CopiedLate,
        Bug::RoomNotAlone,
        Bug::RoomRides,
        Bug::ControlSlack,
        Bug::LeaverIgnored,
        Bug::LeaverStops,
        Bug::FailureToFollowers,
        Bug::SentAfterNotice,
        Bug::NoVerdict,
        Bug::NoInitial,
        Bug::InitialLate,
        Bug::Overtaking,
        Bug::RaisedUnlanded,
        Bug::RaisedOutOfTurn,
        Bug::StaysUsed,
        Bug::StaysTight,
        Bug::NotSent,
    ];

    /// Whether the bug is one of data that go by themselves.
    pub fn is_long(self) -> bool {
        use Bug::{NotSent, RaisedOutOfTurn, RaisedUnlanded, StaysTight, StaysUsed};
        matches!(self, RaisedUnlanded | RaisedOutOfTurn | StaysUsed | StaysTight | NotSent)
    }
}

/// The order of the steps of a release: the local word, and the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// In one step.
    OneStep,
    /// The copy is taken and the local word raised; the messages follow in a second step.
    RaiseFirst,
    /// The messages leave; the local word is raised in a second step.
    SendFirst,
}

/// When room messages may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// At any time.
    Any,
    /// When no task of the host can begin, and none is in its body.
    Idle,
}

/// The notices of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host of the failed task sends a notice to all hosts.
    Broadcast,
    /// Each host sends one notice to all hosts, with the first failure that it has or receives, and
    /// ends when it has the notices of all; the run's failure is the least task in them.
    Agreed,
}

/// A convergence test: host 0 judges each round when all hosts have ended it. A task begins a round
/// when its host has the verdict of the round `delay` before it; so all tasks end after
/// `converges + delay` rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// The first round whose residual is small enough.
    pub converges: u8,
    /// The number of rounds that a verdict may be late; at least 1.
    pub delay: u8,
}

impl Test {
    /// Returns the number of rounds that all tasks do.
    pub fn rounds(self) -> u8 {
        self.converges + self.delay
    }
}

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The number of rounds of the run; without it, the run is over when all tasks have left.
    pub rounds: Option<u8>,
    /// By task: the number of rounds with a body.
    pub bodies: Vec<u8>,
    /// By task: the round in which its body fails.
    pub fails: Vec<Option<u8>>,
    /// The convergence test, if there is one.
    pub test: Option<Test>,
    /// The steps of a release.
    pub release: Release,
    /// Whether a receiver copies the data in one step, and raises the mirrors in another.
    pub two_steps: bool,
    /// The locations whose data go by themselves, a bit for each.
    pub long: u8,
    /// When room messages leave.
    pub flush: Flush,
    /// The notices of a failure.
    pub failure: Failure,
    /// The planted bug.
    pub bug: Bug,
}

impl Rules {
    /// Creates the correct protocol, for a run of `tasks` tasks.
    pub fn new(tasks: usize, rounds: u8) -> Self {
        Rules {
            rounds: Some(rounds),
            bodies: vec![rounds; tasks],
            fails: vec![None; tasks],
            test: None,
            release: Release::OneStep,
            two_steps: false,
            long: 0,
            flush: Flush::Any,
            failure: Failure::Broadcast,
            bug: Bug::None,
        }
    }
}

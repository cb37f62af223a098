//! The operations of members, and the configuration of the protocol, with its planted bugs.

use super::state::REQUESTS;

/// An operation of a member's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes to the memory of a host, without waiting.
    Put(usize),
    /// Like a put, with data that travel apart from the request, and arrive at any time.
    Long(usize),
    /// Reads the memory of a host, and waits for the answer. On the member's own host, it is a
    /// load.
    Get(usize),
    /// Reads the memory of a host, without waiting; the answer arrives later.
    Ask(usize),
    /// Reads the memory of a host at once and past its server, like a network card or another
    /// program on that host.
    Peek(usize),
    /// Sends a signal outside the channels of the model: a message, a lock, a pipe.
    Tell,
    /// Waits for the signal of another member.
    Hear(usize),
    /// Begins a sync.
    Start,
    /// Waits until the sync is complete.
    Finish,
}

/// The rule that holds requests back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A request waits until its target has completed at least as many syncs as its origin had.
    Held,
    /// Planted bug: no request is held back.
    None,
    /// Planted bug: a request waits until its target has completed more syncs.
    More,
    /// Planted bug: the first server of a host has a gate, and the second has none.
    First,
}

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// Sums over origins, by parity.
    Parities,
    /// By origin; the radix is at least the number of hosts.
    Origins,
    /// Sums over origins. Wrong if a member issues a request while a sync is in progress.
    One,
    /// Planted bug, as printed in the papers: sums over origins, which a member zeroes when it
    /// leaves a sync.
    Zeroed,
}

/// Which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Requests that change memory. Wrong if a member asks and does not wait for the answer before
    /// the next sync.
    Changes,
    /// All requests, including reads.
    All,
}

/// The number of exchanges in a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanges {
    /// One exchange, of counts.
    One,
    /// An exchange of counts and, when a host's counts are met, a second exchange, after which each
    /// host has proof that all hosts have met their counts.
    Two,
}

/// When a round is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// When the previous round is complete.
    Complete,
    /// Planted bug: at once.
    AtOnce,
}

/// How a request is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// In one step.
    OneStep,
    /// Planted bug: the parity is read in one step; the request is counted under it and queued in
    /// the next.
    ParityFirst,
    /// Planted bug: the request is counted in one step, and queued in the next.
    CountFirst,
}

/// When a long put is applied, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// When its turn has come and its data are in place. The requests behind it wait.
    InPlace,
    /// Planted bug: it is counted when its turn has come; its data may arrive later.
    AtTurn,
    /// Planted bug: the requests behind it do not wait.
    Overtaken,
}

/// The configuration of the protocol.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of hosts.
    pub hosts: usize,
    /// The radix of the schedule.
    pub radix: usize,
    /// The host of each member.
    pub homes: Vec<usize>,
    /// The rule that holds requests back.
    pub gate: Gate,
    /// How requests are counted.
    pub counters: Counters,
    /// Which requests are counted.
    pub counted: Counted,
    /// When a long put is applied.
    pub data: Data,
    /// The number of exchanges in a sync.
    pub exchanges: Exchanges,
    /// When a round is entered.
    pub rounds: Rounds,
    /// How requests are issued.
    pub issue: Issue,
    /// Whether a member that has begun a sync and not finished it issues in one step, whatever
    /// `issue` says.
    pub split_in_one_step: bool,
    /// Whether a signal carries the number of syncs that its sender's host has completed; the
    /// receiver then issues requests as if its own host had completed that number.
    pub told: bool,
    /// The number of exchanges whose messages are kept apart; fewer than two is a planted bug.
    pub inboxes: usize,
    /// The largest number of requests of a host to a server that may be in flight.
    pub window: usize,
    /// The number of servers of a host; the operations of a program use them in turn.
    pub servers: usize,
}

impl Config {
    /// Creates the correct protocol, with one member on each host.
    pub fn new(hosts: usize, radix: usize) -> Self {
        Config {
            hosts,
            radix,
            homes: (0..hosts).collect(),
            gate: Gate::Held,
            counters: Counters::Parities,
            counted: Counted::Changes,
            data: Data::InPlace,
            exchanges: Exchanges::One,
            rounds: Rounds::Complete,
            issue: Issue::OneStep,
            split_in_one_step: false,
            told: false,
            inboxes: 2,
            window: REQUESTS,
            servers: 1,
        }
    }
}

//! What members do, and the protocol: the right one and planted bugs.

use super::state::REQUESTS;

/// What a member does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Changes memory of a host, and goes on.
    Put(usize),
    /// Reads memory of a host, and waits for the answer. From its own host, it is a load.
    Get(usize),
    /// Reads memory of a host, and goes on; the answer comes some time.
    Ask(usize),
    /// Reads memory of a host at once and past its server, as a network card can, or another program there.
    Peek(usize),
    /// Tells the others something, past all channels here: by a message, a lock, a pipe.
    Tell,
    /// Waits until another member has told.
    Hear(usize),
    /// Begins a sync.
    Start,
    /// Waits until it is complete.
    Finish,
}

/// What holds requests back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A request waits until its target has completed as many syncs as its origin had.
    Held,
    /// Planted: nothing does.
    None,
    /// Planted: it waits until the target has completed more.
    More,
    /// Planted: the first server of a host has one, and the second does not.
    First,
}

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// Sums over origins, by parity.
    Parities,
    /// By origin; the radix is the number of hosts.
    Origins,
    /// Sums over origins. Wrong if anybody issues while a sync is under way.
    One,
    /// Planted, as the papers have it: sums over origins, zeroed by who leaves a sync.
    Zeroed,
}

/// Which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those that change memory. Wrong if anybody asks and does not wait for the answer before the next sync.
    Changes,
    /// Reads as well.
    All,
}

/// How many exchanges there are in a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanges {
    /// Of counts.
    One,
    /// Of counts and, when they are met, once more, so that all know that all have met theirs.
    Two,
}

/// When a round is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// When the one before is complete.
    Complete,
    /// Planted: at once.
    AtOnce,
}

/// How a request is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// In one step.
    OneStep,
    /// Planted: the parity is read, then the request is counted under it and queued.
    ParityFirst,
    /// Planted: it is counted, then queued.
    CountFirst,
}

/// The protocol.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many hosts.
    pub hosts: usize,
    /// Of the schedule.
    pub radix: usize,
    /// The host of each member.
    pub homes: Vec<usize>,
    /// What holds requests back.
    pub gate: Gate,
    /// How requests are counted.
    pub counters: Counters,
    /// Which are.
    pub counted: Counted,
    /// How many exchanges a sync has.
    pub exchanges: Exchanges,
    /// When a round is entered.
    pub rounds: Rounds,
    /// How requests are issued.
    pub issue: Issue,
    /// Whether they are issued in one step at least by a member that has begun a sync and not finished it.
    pub split_in_one_step: bool,
    /// Whether what is told carries how many syncs its teller's host has completed, and who has heard it issues
    /// requests as if its own had.
    pub told: bool,
    /// How many exchanges are kept apart; less than two is planted.
    pub inboxes: usize,
    /// How many requests of a host to a server may be under way.
    pub window: usize,
    /// How many servers a host has; ops go to them in turn.
    pub servers: usize,
}

impl Config {
    /// The right one, with a member on each host.
    pub fn new(hosts: usize, radix: usize) -> Self {
        Config {
            hosts,
            radix,
            homes: (0..hosts).collect(),
            gate: Gate::Held,
            counters: Counters::Parities,
            counted: Counted::Changes,
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

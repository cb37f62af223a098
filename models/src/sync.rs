//! Fence and barrier in one exchange, with the gate; and the papers' form, with two.
//!
//! # Contract
//! *Counted.* A host counts the requests that change memory by target, forever: `sent[parity][target]` where they are
//! issued, `applied[parity]` where they are applied, summed over origins. The parity is that of the syncs that the
//! origin had begun, and travels with the request. So what is issued after the beginning of a sync is not in its sums.
//!
//! *Exchanged.* To begin sync `e`, a host (when all its members have come) sends its counts of parity `e - 1` along a
//! [`Schedule`]. Its epoch `e` is complete once it has every round, and has applied as many as the sum says. The server
//! sees to that; no member need be there. What comes of the exchange after this one is kept apart.
//!
//! *The gate.* A request carries how many syncs its origin has completed. A server takes the first request of an
//! origin's queue only if it has itself completed as many; else that queue waits. What it waits for is under way,
//! whatever members do.
//!
//! *In one step.* Where several members share a host, a member that has begun a sync, and not finished it, must look at
//! the parity, count and take its place in the queue in one step against the host's beginning of that sync. Else a sum
//! misses a request that is applied under its parity; or a request that is counted stands in the queue behind one that
//! the gate holds back until it is applied: either way everybody hangs ([`Issue`]). A member that has not begun the
//! sync needs no such care, as the host cannot begin it without that member.
//!
//! *Reads.* A get whose answer is waited for before the next sync need not be counted. One that is not must be, like a
//! put ([`Counted`]): else it may come to its target after the puts of the next epoch.
//!
//! *Word of mouth.* A sync that is complete at one host is not known to be complete at another; only requests that
//! carry its number are kept from seeing less. A put to a member's own host comes past the gate there, so what it says
//! comes after. But one that hears during a sync, from a third host or outside, that others have left it, may ask a
//! host that has not: unless messages and answers carry the number and it goes on with the greater ([`Config::told`]).
//! With two exchanges there is no such case.
//!
//! Then, with counts that are sums over origins, and members that issue while a sync is under way:
//!
//! | property                                      | says                                                      |
//! |-----------------------------------------------|-----------------------------------------------------------|
//! | gets are never stale                          | a get after k syncs sees what anybody put before its k-th |
//! | gets see nothing of later epochs              | nor what was put after a sync that began after it         |
//! | an epoch that is complete has all its puts    | loads by the members of the target need nothing more      |
//! | no epoch completes before all have started it | it is a barrier                                           |
//! | every run ends                                | no deadlock, also with a window of one request            |
//! | no exchange runs two ahead                    | two inboxes do                                            |
//!
//! # Figure: why there must be a gate
//! ```text
//! host 0   put(2) ═══════════════ slow ═══════════════╗
//!          start ──counts──> 1, 2                      ║
//! host 1   start .. finish: has heard of 0 and 2       ║
//!          get(2) ═══════════> 2: without gate stale   v        with it, the get waits here
//! host 2   start ..................................... complete, then the get
//! ```
//!
//! # Why sums are exact
//! After the beginning of sync `e + 1` the counters of sync `e` are used again, for requests that have left `e`. The
//! gate keeps them from being applied before the target has completed `e`; so `applied` meets the sum and never runs
//! past it. Without gate, the same sums are wrong.
//!
//! # Figure: why an issue is one step
//! ```text
//! host 0, member a   start, put(2): counted ............................ queued (behind)
//! host 0, member b             start; host 0 begins sync 1      finish, put(2): queued, left = 1
//! host 2                       its sum has a's put              b's put: held back until sync 1 is complete here,
//!                                                               which waits for a's put, behind it
//! ```
//!
//! # Explored
//! | hosts, members, syncs    | radix | states  | seconds |
//! |--------------------------|-------|---------|---------|
//! | 3, 3, 2                  | 2     | 21 669  | 0.1     |
//! | 3, 3, 2                  | 3     | 54 267  | 0.3     |
//! | 3, 3, 3, longer programs | 2     | 98 034  | 0.5     |
//! | 3, 3, 3, longer programs | 3     | 260 931 | 1.5     |
//! | 3, 4, 2, longer programs | 2     | 233 768 | 1.3     |
//! | 3, 4, 2, longer programs | 3     | 544 249 | 3.5     |
//! | 4, 4, 2                  | 2     | 17 524  | 0.1     |
//! | 4, 4, 2                  | 3     | 64 070  | 0.3     |
//! | 4, 4, 2                  | 4     | 536 922 | 3       |
//! | two exchanges: 3, 3, 3   | 3     | 34 975  | 0.2     |
//!
//! One core of two, optimised. Beside these, programs at random: two to four hosts, two members on one of them, up to
//! three syncs, a window of one to three, any radix.
//!
//! | planted                                               | broken, after so many steps                            |
//! |-------------------------------------------------------|--------------------------------------------------------|
//! | no gate, with sums or with counts by origin           | gets are never stale, 12                               |
//! | no gate, with sums, three syncs                       | an epoch has all its puts, 15; every run ends, 27      |
//! | a gate that asks for one sync more                    | every run ends, 16                                     |
//! | counters zeroed on leaving, as printed; with the gate | every run ends, 43; 39                                 |
//! | one counter in place of two, puts during a sync       | an epoch has all its puts, 29; with two exchanges, 43  |
//! | rounds entered at once, four hosts, radix 2           | no epoch completes before all have started, 8; puts, 8 |
//! | one inbox                                             | every run ends, 27                                     |
//! | an issue in two steps, two members on a host          | every run ends, 28 or 29                               |
//! | reads that nobody waits for and nobody counts         | gets see nothing of later epochs, 13                   |
//! | what is heard during a sync, without its number       | gets are never stale, 24                               |
//! | reads past the gate after one exchange                | gets are never stale, 14                               |

use stateright::{Model, Property};

use crate::fifo::Fifo;
use crate::schedule::Schedule;

/// As many hosts and members there may be.
pub const MOST: usize = 4;

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
    /// How many requests of a host to another may be under way.
    pub window: usize,
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
        }
    }
}

const REQUESTS: usize = 6;
const CONTROLS: usize = 4;

/// A request under way, or held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Request {
    member: u8,
    op: u8,
    left: u8,
    parity: u8,
}

/// A message of an exchange; counts by offset as it is before the round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Control {
    exchange: u8,
    round: u8,
    counts: [u8; MOST],
}

/// What has come of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Inbox {
    /// A bit for each distance.
    got: u8,
    /// By offset that is left.
    entries: [u8; MOST],
    /// With [`Counters::Origins`].
    origins: [u8; MOST],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Host {
    /// Members that have come to the next sync.
    arrived: u8,
    started: u8,
    completed: u8,
    exchange: u8,
    round: u8,
    sent: [[u8; MOST]; 2],
    /// By parity and, with [`Counters::Origins`], origin.
    applied: [[u8; MOST]; 2],
    inboxes: [Inbox; 2],
    /// A bit for each put.
    memory: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    next: u8,
    waiting: bool,
    /// The syncs of a host from which it has heard.
    heard: u8,
    /// Between the two steps of a planted [`Issue`].
    issuing: Option<Request>,
}

/// All hosts, members and channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    hosts: [Host; MOST],
    members: [Member; MOST],
    /// By origin and target.
    requests: [[Fifo<Request, REQUESTS>; MOST]; MOST],
    controls: [[Fifo<Control, CONTROLS>; MOST]; MOST],
    /// By member: one more than the syncs that its host had completed when it told.
    told: [u8; MOST],
    stale: bool,
    ahead: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member goes on, with what it does.
    Step(usize, Op),
    /// The second half of a planted [`Issue`].
    Issue(usize),
    /// A server applies the first request of an origin.
    Apply {
        /// Who issued it.
        origin: usize,
        /// Whose server.
        target: usize,
    },
    /// A message of an exchange is delivered.
    Deliver {
        /// Who sent it.
        from: usize,
        /// Who gets it.
        to: usize,
    },
}

/// The model: a protocol, and a program for each member.
#[derive(Clone, Debug)]
pub struct Sync {
    config: Config,
    schedule: Schedule,
    programs: Vec<Vec<Op>>,
    /// By member and op: the bit of a put.
    bits: Vec<Vec<u16>>,
    /// By member and op: what a get must see.
    due: Vec<Vec<u16>>,
    /// By member and op: what a get must not see.
    early: Vec<Vec<u16>>,
    /// By number of syncs and host: what must be in memory when it has completed as many.
    covered: Vec<Vec<u16>>,
}

impl Sync {
    /// A program for each of the config's homes.
    ///
    /// # Panics
    /// If there are too many hosts, members or puts, or programs that do not sync alike.
    pub fn new(config: Config, programs: &[Vec<Op>]) -> Self {
        let count = |program: &[Op], op: Op| program.iter().filter(|&&other| other == op).count();
        let syncs = count(&programs[0], Op::Start);
        assert!(config.hosts <= MOST && programs.len() <= MOST && config.homes.len() == programs.len());
        assert!(programs.iter().all(|p| count(p, Op::Start) == syncs && count(p, Op::Finish) == syncs));
        let mut bits: Vec<Vec<u16>> = programs.iter().map(|program| vec![0; program.len()]).collect();
        let mut covered = vec![vec![0; config.hosts]; syncs + 1];
        // By number of syncs and host: what is put after so many.
        let mut later = covered.clone();
        later.push(vec![0; config.hosts]);
        let mut puts = 0;
        for (member, program) in programs.iter().enumerate() {
            for (at, &op) in program.iter().enumerate() {
                let Op::Put(host) = op else { continue };
                assert!(puts < 16, "too many puts");
                bits[member][at] = 1 << puts;
                puts += 1;
                for covered in &mut covered[count(&program[..at], Op::Start) + 1..] {
                    covered[host] |= bits[member][at];
                }
                for later in &mut later[..=count(&program[..at], Op::Finish)] {
                    later[host] |= bits[member][at];
                }
            }
        }
        let mut due = bits.iter().map(|bits| vec![0; bits.len()]).collect::<Vec<_>>();
        let mut early = due.clone();
        for (member, program) in programs.iter().enumerate() {
            for (at, &op) in program.iter().enumerate() {
                let (Op::Get(host) | Op::Ask(host) | Op::Peek(host)) = op else { continue };
                early[member][at] = later[count(&program[..at], Op::Start) + 1][host];
                let own = |&put: &usize| program[put] == Op::Put(host) && !matches!(op, Op::Peek(_));
                let own = (0..at).filter(own).map(|put| bits[member][put]);
                // Who has heard from a member expects to see what that one may.
                let heard = program[..at]
                    .iter()
                    .filter_map(|op| if let Op::Hear(from) = op { Some(from) } else { None });
                let seen = heard.map(|&from| {
                    let told = programs[from].iter().take_while(|&&op| op != Op::Tell);
                    told.filter(|&&op| op == Op::Finish).count()
                });
                let syncs = seen.max().unwrap_or(0).max(count(&program[..at], Op::Finish));
                due[member][at] = own.fold(covered[syncs][host], |all, bit| all | bit);
            }
        }
        let schedule = Schedule::new(config.hosts, config.radix);
        assert!(config.counters != Counters::Origins || config.radix >= config.hosts);
        Sync { config, schedule, programs: programs.to_vec(), bits, due, early, covered }
    }

    fn op(&self, state: &State, member: usize) -> Option<Op> {
        self.programs[member].get(usize::from(state.members[member].next)).copied()
    }

    fn can_step(&self, state: &State, member: usize) -> bool {
        let home = self.config.homes[member];
        let at = usize::from(state.members[member].next);
        match self.op(state, member) {
            None => false,
            Some(_) if state.members[member].waiting => false,
            Some(Op::Put(host) | Op::Get(host) | Op::Ask(host)) => {
                host == home || state.requests[home][host].len() < self.config.window
            }
            Some(Op::Start | Op::Peek(_) | Op::Tell) => true,
            Some(Op::Hear(from)) => state.told[from] > 0,
            Some(Op::Finish) => {
                let finished = self.programs[member][..at].iter().filter(|&&op| op == Op::Finish).count();
                usize::from(state.hosts[home].completed) > finished
            }
        }
    }

    fn step(&self, state: &mut State, member: usize, op: Op) {
        let home = self.config.homes[member];
        let at = usize::from(state.members[member].next);
        let host = &mut state.hosts[home];
        let parity = if self.config.counters == Counters::Parities { host.started % 2 } else { 0 };
        let heard = if self.config.told { state.members[member].heard } else { 0 };
        let left = host.completed.max(heard);
        let request = Request { member: member as u8, op: at as u8, left, parity };
        match op {
            Op::Put(target) if target == home => host.memory |= self.bits[member][at],
            Op::Get(target) | Op::Ask(target) if target == home => self.read(state, home, member, at),
            Op::Peek(target) => self.read(state, target, member, at),
            Op::Put(target) | Op::Get(target) | Op::Ask(target) => {
                if self.config.issue != Issue::ParityFirst && self.is_counted(op) {
                    host.sent[usize::from(parity)][target] += 1;
                }
                let program = self.programs[member][..at].iter().rev();
                let split = { program }.find(|op| matches!(op, Op::Start | Op::Finish)) == Some(&Op::Start);
                if self.config.issue != Issue::OneStep && !(split && self.config.split_in_one_step) {
                    state.members[member].issuing = Some(request);
                    return;
                }
                if self.config.issue == Issue::ParityFirst && self.is_counted(op) {
                    host.sent[usize::from(parity)][target] += 1;
                }
                state.requests[home][target].push(request);
                state.members[member].waiting = matches!(op, Op::Get(_));
            }
            Op::Start => {
                host.arrived += 1;
                if usize::from(host.arrived)
                    == self.config.homes.iter().filter(|&&other| other == home).count()
                {
                    host.arrived = 0;
                    host.started += 1;
                    self.begin(state, home);
                    self.settle(state, home);
                }
            }
            Op::Finish if self.config.counters == Counters::Zeroed => {
                host.sent = Default::default();
                host.applied = Default::default();
            }
            Op::Finish => {}
            Op::Tell => state.told[member] = 1 + left,
            Op::Hear(from) => {
                let heard = &mut state.members[member].heard;
                *heard = (*heard).max(state.told[from] - 1);
            }
        }
        state.members[member].next += 1;
    }

    fn issue(&self, state: &mut State, member: usize) {
        let home = self.config.homes[member];
        let request = state.members[member].issuing.take().expect("a request in hand");
        let op = self.op(state, member).expect("an op");
        let (Op::Put(target) | Op::Get(target) | Op::Ask(target)) = op else {
            unreachable!("no request: {op:?}")
        };
        if self.config.issue == Issue::ParityFirst && self.is_counted(op) {
            state.hosts[home].sent[usize::from(request.parity)][target] += 1;
        }
        state.requests[home][target].push(request);
        state.members[member].waiting = matches!(op, Op::Get(_));
        state.members[member].next += 1;
    }

    fn is_counted(&self, op: Op) -> bool {
        matches!(op, Op::Put(_)) || self.config.counted == Counted::All
    }

    fn passes(&self, state: &State, target: usize, request: Request) -> bool {
        let completed = state.hosts[target].completed;
        match self.config.gate {
            Gate::Held => request.left <= completed,
            Gate::None => true,
            Gate::More => request.left < completed,
        }
    }

    fn apply(&self, state: &mut State, origin: usize, target: usize) {
        let request = state.requests[origin][target].pop().expect("a request");
        let (member, at) = (usize::from(request.member), usize::from(request.op));
        let op = self.programs[member][at];
        match op {
            Op::Put(_) => state.hosts[target].memory |= self.bits[member][at],
            _ => self.read(state, target, member, at),
        }
        if matches!(op, Op::Get(_)) {
            state.members[member].waiting = false;
        }
        if self.is_counted(op) {
            let origin = if self.config.counters == Counters::Origins { origin } else { 0 };
            state.hosts[target].applied[usize::from(request.parity)][origin] += 1;
            self.settle(state, target);
        }
    }

    fn read(&self, state: &mut State, host: usize, member: usize, at: usize) {
        let memory = state.hosts[host].memory;
        state.stale |= self.due[member][at] & !memory != 0;
        state.ahead |= self.early[member][at] & memory != 0;
    }

    /// Whether the exchange under way is one of counts.
    fn counts(&self, host: &Host) -> bool {
        self.config.exchanges == Exchanges::One || host.exchange % 2 == 1
    }

    /// Begins the next exchange of a host.
    fn begin(&self, state: &mut State, at: usize) {
        let n = self.config.hosts;
        let host = &mut state.hosts[at];
        host.exchange += 1;
        host.round = 0;
        if self.counts(host) {
            let parity = if self.config.counters == Counters::Parities { (host.started - 1) % 2 } else { 0 };
            let sent = host.sent[usize::from(parity)];
            let inbox = &mut host.inboxes[usize::from(host.exchange) % self.config.inboxes];
            for offset in 1..n {
                inbox.entries[offset] += sent[(at + offset) % n];
            }
        }
        let rounds = if self.config.rounds == Rounds::AtOnce { self.schedule.rounds() } else { 1 };
        (0..rounds).for_each(|round| self.send(state, at, round));
    }

    fn send(&self, state: &mut State, at: usize, round: usize) {
        for distance in self.schedule.distances(round) {
            let host = &mut state.hosts[at];
            let mut control = Control { exchange: host.exchange, round: round as u8, counts: [0; MOST] };
            let inbox = &mut host.inboxes[usize::from(host.exchange) % self.config.inboxes];
            for offset in self.schedule.offsets(round, distance) {
                control.counts[offset] = std::mem::take(&mut inbox.entries[offset]);
            }
            state.controls[at][(at + distance) % self.config.hosts].push(control);
        }
    }

    fn deliver(&self, state: &mut State, from: usize, to: usize) {
        let control = state.controls[from][to].pop().expect("a message");
        let distance = (to + self.config.hosts - from) % self.config.hosts;
        let inbox = &mut state.hosts[to].inboxes[usize::from(control.exchange) % self.config.inboxes];
        inbox.got |= 1 << distance;
        for offset in self.schedule.offsets(usize::from(control.round), distance) {
            inbox.entries[offset - distance] += control.counts[offset];
            if self.config.counters == Counters::Origins {
                inbox.origins[from] = control.counts[offset];
            }
        }
        self.settle(state, to);
    }

    /// What the server does after whatever has happened at its host.
    fn settle(&self, state: &mut State, at: usize) {
        loop {
            let host = &mut state.hosts[at];
            let closed =
                if self.config.exchanges == Exchanges::Two { 2 * host.completed } else { host.completed };
            if host.exchange == closed {
                return;
            }
            let inbox = host.inboxes[usize::from(host.exchange) % self.config.inboxes];
            let round = usize::from(host.round);
            if round < self.schedule.rounds() {
                if !self.schedule.distances(round).all(|distance| inbox.got >> distance & 1 == 1) {
                    return;
                }
                host.round += 1;
                if round + 1 < self.schedule.rounds() && self.config.rounds == Rounds::Complete {
                    self.send(state, at, round + 1);
                }
                continue;
            }
            let met = match self.config.counters {
                Counters::Parities => host.applied[usize::from(host.started - 1) % 2][0] == inbox.entries[0],
                Counters::Origins => (0..self.config.hosts).all(|o| host.applied[0][o] >= inbox.origins[o]),
                Counters::One | Counters::Zeroed => host.applied[0][0] == inbox.entries[0],
            };
            let counts = self.counts(host);
            if counts && !met {
                return;
            }
            host.inboxes[usize::from(host.exchange) % self.config.inboxes] = Inbox::default();
            if counts && self.config.exchanges == Exchanges::Two {
                self.begin(state, at);
            } else {
                host.completed += 1;
                return;
            }
        }
    }

    fn hosts<'s>(&self, state: &'s State) -> &'s [Host] {
        &state.hosts[..self.config.hosts]
    }

    fn over(&self, state: &State) -> bool {
        (0..self.programs.len()).all(|member| self.op(state, member).is_none())
            && state.requests.iter().flatten().all(Fifo::is_empty)
            && state.controls.iter().flatten().all(Fifo::is_empty)
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let n = self.config.hosts;
        (0..n).flat_map(move |a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b)
    }
}

impl Model for Sync {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for member in 0..self.programs.len() {
            if state.members[member].issuing.is_some() {
                actions.push(Action::Issue(member));
            } else if self.can_step(state, member) {
                actions.push(Action::Step(member, self.op(state, member).expect("an op")));
            }
        }
        for (a, b) in self.pairs() {
            if state.requests[a][b].head().is_some_and(|request| self.passes(state, b, request)) {
                actions.push(Action::Apply { origin: a, target: b });
            }
            if !state.controls[a][b].is_empty() {
                actions.push(Action::Deliver { from: a, to: b });
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = *state;
        match action {
            Action::Step(member, op) => self.step(&mut state, member, op),
            Action::Issue(member) => self.issue(&mut state, member),
            Action::Apply { origin, target } => self.apply(&mut state, origin, target),
            Action::Deliver { from, to } => self.deliver(&mut state, from, to),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("gets are never stale", |_: &Self, state: &State| !state.stale),
            Property::always("gets see nothing of later epochs", |_: &Self, state: &State| !state.ahead),
            Property::always("an epoch that is complete has all its puts", |model: &Self, state: &State| {
                let hosts = model.hosts(state).iter().enumerate();
                hosts
                    .into_iter()
                    .all(|(at, host)| model.covered[usize::from(host.completed)][at] & !host.memory == 0)
            }),
            Property::always(
                "no epoch completes before all have started it",
                |model: &Self, state: &State| {
                    let started = model.hosts(state).iter().map(|host| host.started).min();
                    started >= model.hosts(state).iter().map(|host| host.completed).max()
                },
            ),
            Property::always("every run ends", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || model.over(state)
            }),
            Property::always("no exchange runs two ahead", |model: &Self, state: &State| {
                model.pairs().all(|(from, to)| {
                    let mut ahead = state.controls[from][to].as_slice().iter();
                    ahead.all(|control| control.exchange <= state.hosts[to].exchange + 1)
                })
            }),
            Property::sometimes("a run ends", |model: &Self, state: &State| model.over(state)),
        ];
        if self.config.gate == Gate::Held {
            properties.push(Property::sometimes("a request is held back", |model: &Self, state: &State| {
                let mut pairs = model.pairs();
                pairs.any(|(a, b)| {
                    state.requests[a][b].head().is_some_and(|request| !model.passes(state, b, request))
                })
            }));
        }
        properties
    }
}

#[cfg(test)]
mod tests {
    use Op::{Ask, Finish, Get, Hear, Peek, Put, Start, Tell};
    use proptest::prelude::*;

    use super::*;
    use crate::explore::{breaks, holds, safe};

    const STALE: &str = "gets are never stale";
    const AHEAD: &str = "gets see nothing of later epochs";
    const COMPLETE: &str = "an epoch that is complete has all its puts";
    const BARRIER: &str = "no epoch completes before all have started it";
    const ENDS: &str = "every run ends";

    /// Three hosts, two syncs: puts before, between and, split-phase, during them; gets by third parties; loads.
    fn three() -> Vec<Vec<Op>> {
        vec![
            vec![Put(2), Start, Put(2), Finish, Put(1), Start, Finish, Get(2)],
            vec![Start, Finish, Get(2), Start, Put(2), Finish, Get(2)],
            vec![Put(0), Start, Put(1), Finish, Get(2), Start, Put(0), Finish, Get(1)],
        ]
    }

    /// The same without anything issued during a sync.
    fn three_blocking() -> Vec<Vec<Op>> {
        vec![
            vec![Put(2), Start, Finish, Put(2), Start, Finish, Get(2)],
            vec![Start, Finish, Get(2), Put(2), Start, Finish, Get(2)],
            vec![Put(0), Start, Finish, Put(1), Start, Finish, Get(0)],
        ]
    }

    /// Three syncs, so that the counters of a parity are used again, before others have left the sync before.
    fn thrice() -> Vec<Vec<Op>> {
        vec![
            vec![Put(2), Start, Put(2), Finish, Start, Put(2), Finish, Start, Finish],
            vec![Start, Put(2), Finish, Start, Put(2), Finish, Put(2), Start, Finish, Get(2)],
            vec![Start, Finish, Start, Finish, Get(2), Start, Put(1), Finish, Get(2)],
        ]
    }

    fn four() -> Vec<Vec<Op>> {
        vec![
            vec![Put(3), Start, Put(3), Finish, Start, Finish, Get(3)],
            vec![Start, Finish, Get(3), Start, Finish],
            vec![Start, Put(3), Finish, Start, Finish],
            vec![Start, Finish, Start, Finish, Get(3)],
        ]
    }

    /// Two members on host 0.
    fn shared() -> Vec<Vec<Op>> {
        vec![
            vec![Start, Put(2), Finish, Start, Put(2), Finish],
            vec![Put(2), Start, Finish, Put(2), Start, Finish, Get(2)],
            vec![Start, Finish, Get(2), Start, Finish],
            vec![Start, Finish, Start, Finish, Get(2)],
        ]
    }

    fn at_home(radix: usize) -> Config {
        Config { homes: vec![0, 0, 1, 2], ..Config::new(3, radix) }
    }

    #[test]
    fn one_exchange_with_the_gate_is_right_for_three() {
        for radix in [2, 3] {
            holds(&format!("3 hosts, radix {radix}, 2 syncs"), Sync::new(Config::new(3, radix), &three()));
            holds(&format!("3 hosts, radix {radix}, 3 syncs"), Sync::new(Config::new(3, radix), &thrice()));
        }
    }

    #[test]
    fn it_is_right_for_four() {
        for radix in [2, 3, 4] {
            holds(&format!("4 hosts, radix {radix}, 2 syncs"), Sync::new(Config::new(4, radix), &four()));
        }
    }

    #[test]
    fn it_is_right_with_two_members_on_a_host() {
        for radix in [2, 3] {
            holds(&format!("2 members on a host, radix {radix}"), Sync::new(at_home(radix), &shared()));
        }
    }

    #[test]
    fn longer_programs() {
        let programs = [
            vec![Put(2), Start, Put(2), Finish, Put(1), Start, Put(1), Finish, Start, Put(2), Finish],
            vec![Start, Ask(2), Finish, Get(2), Start, Put(2), Finish, Put(2), Start, Finish, Get(2)],
            vec![Put(0), Start, Put(1), Finish, Start, Put(0), Finish, Ask(1), Start, Finish, Get(1)],
        ];
        let shared = [
            vec![Put(2), Start, Put(2), Finish, Put(1), Start, Put(1), Finish],
            vec![Put(2), Start, Ask(2), Finish, Get(2), Start, Put(2), Finish],
            vec![Start, Put(2), Finish, Get(2), Start, Finish, Get(0)],
            vec![Put(0), Start, Finish, Start, Put(0), Finish, Get(1)],
        ];
        for radix in [2, 3] {
            let config = Config { counted: Counted::All, ..Config::new(3, radix) };
            holds(&format!("longer, radix {radix}"), Sync::new(config, &programs));
            let config = Config { counted: Counted::All, ..at_home(radix) };
            holds(&format!("longer, 2 members on a host, radix {radix}"), Sync::new(config, &shared));
        }
    }

    #[test]
    fn it_is_right_with_counts_by_origin() {
        let config = Config { counters: Counters::Origins, ..Config::new(3, 3) };
        holds("counts by origin", Sync::new(config, &thrice()));
    }

    /// A member that waits for room keeps nobody from what lets it go on.
    #[test]
    fn it_is_right_with_a_window_of_one() {
        for radix in [2, 3] {
            let config = Config { window: 1, ..Config::new(3, radix) };
            holds(&format!("a window of one, radix {radix}"), Sync::new(config, &thrice()));
            let config = Config { window: 1, ..at_home(radix) };
            holds(
                &format!("a window of one, 2 members on a host, radix {radix}"),
                Sync::new(config, &shared()),
            );
        }
    }

    /// Nothing waits for a get that is under way, unless it is counted.
    #[test]
    fn gets_that_nobody_waits_for() {
        let programs = [
            vec![Ask(2), Start, Ask(2), Finish, Start, Finish, Put(2)],
            vec![Start, Finish, Put(2), Start, Finish],
            vec![Start, Finish, Start, Finish],
        ];
        breaks("asks, puts counted", Sync::new(Config::new(3, 3), &programs), AHEAD);
        for radix in [2, 3] {
            let config = Config { counted: Counted::All, ..Config::new(3, radix) };
            holds(&format!("asks, all counted, radix {radix}"), Sync::new(config, &programs));
        }
    }

    /// For who reads past the gate there must be two exchanges.
    #[test]
    fn readers_outside_the_gate() {
        let programs = [
            vec![Put(2), Start, Put(2), Finish, Put(2), Start, Finish],
            vec![Start, Finish, Peek(2), Start, Finish, Peek(2)],
            vec![Start, Finish, Start, Finish, Get(0)],
        ];
        breaks("past the gate", Sync::new(Config::new(3, 3), &programs), STALE);
        for radix in [2, 3] {
            let config = Config { exchanges: Exchanges::Two, ..Config::new(3, radix) };
            holds(&format!("past the gate, two exchanges, radix {radix}"), Sync::new(config, &programs));
        }
    }

    /// Who has completed a sync may say so to one who has begun and not completed it. That one's gets are not for that
    /// sync yet, unless what is said carries the number.
    #[test]
    fn word_of_mouth() {
        let programs = |hears: Vec<Op>| {
            [vec![Put(3), Start, Finish], vec![Start, Finish, Tell], hears, vec![Start, Finish, Get(0)]]
        };
        let early = programs(vec![Start, Hear(1), Get(3), Finish]);
        breaks("heard during a sync", Sync::new(Config::new(4, 2), &early), STALE);
        let config = Config { told: true, ..Config::new(4, 2) };
        holds("heard during a sync, with its number", Sync::new(config, &early));
        let config = Config { exchanges: Exchanges::Two, ..Config::new(4, 2) };
        holds("heard during a sync, two exchanges", Sync::new(config, &early));
        let late = programs(vec![Start, Finish, Hear(1), Get(3)]);
        holds("heard after a sync", Sync::new(Config::new(4, 2), &late));
    }

    #[test]
    fn no_gate() {
        let config = Config { gate: Gate::None, ..Config::new(3, 3) };
        breaks("no gate", Sync::new(config.clone(), &three()), STALE);
        // Not even counts by origin help; sums are then wrong as well.
        let origins = Config { counters: Counters::Origins, ..config.clone() };
        breaks("no gate, counts by origin", Sync::new(origins, &three()), STALE);
        breaks("no gate", Sync::new(config.clone(), &thrice()), COMPLETE);
        breaks("no gate", Sync::new(config, &thrice()), ENDS);
    }

    #[test]
    fn a_gate_that_asks_for_more() {
        breaks(
            "left < completed",
            Sync::new(Config { gate: Gate::More, ..Config::new(3, 3) }, &three()),
            ENDS,
        );
    }

    /// The papers zero their counters on leaving: by then a faster host may have put again.
    #[test]
    fn counters_that_are_zeroed() {
        let config = Config { counters: Counters::Zeroed, ..Config::new(3, 3) };
        breaks("zeroed, gate", Sync::new(config.clone(), &three_blocking()), ENDS);
        let config = Config { exchanges: Exchanges::Two, gate: Gate::None, ..config };
        breaks("zeroed, two exchanges", Sync::new(config, &three_blocking()), ENDS);
    }

    #[test]
    fn one_counter() {
        let config = Config { counters: Counters::One, ..Config::new(3, 3) };
        breaks("one counter", Sync::new(config.clone(), &three()), COMPLETE);
        holds("one counter, nothing during a sync", Sync::new(config, &three_blocking()));
    }

    /// Among three, rounds of radix 2 go straight to all anyway.
    #[test]
    fn a_round_too_early() {
        let at_once = |hosts| Config { rounds: Rounds::AtOnce, ..Config::new(hosts, 2) };
        breaks("rounds at once", Sync::new(at_once(4), &four()), BARRIER);
        breaks("rounds at once", Sync::new(at_once(4), &four()), COMPLETE);
        holds("rounds at once, 3 hosts", Sync::new(at_once(3), &three()));
    }

    #[test]
    fn one_inbox() {
        breaks("one inbox", Sync::new(Config { inboxes: 1, ..Config::new(3, 2) }, &three()), ENDS);
    }

    /// With one member on a host that begins its syncs, the steps of an issue are at nobody's mercy. With two they are,
    /// but only those of a member that has itself begun a sync: until then the host cannot begin it.
    #[test]
    fn an_issue_in_two_steps() {
        for issue in [Issue::ParityFirst, Issue::CountFirst] {
            holds(
                &format!("{issue:?}, one member"),
                Sync::new(Config { issue, ..Config::new(3, 3) }, &thrice()),
            );
            let config = Config { issue, ..at_home(3) };
            breaks(&format!("{issue:?}"), Sync::new(config.clone(), &shared()), ENDS);
            let config = Config { split_in_one_step: true, ..config };
            holds(&format!("{issue:?}, but not during a sync"), Sync::new(config, &shared()));
        }
    }

    #[test]
    fn the_papers_two_exchanges() {
        let two = Config { exchanges: Exchanges::Two, gate: Gate::None, ..Config::new(3, 3) };
        let origins = Config { counters: Counters::Origins, ..two.clone() };
        holds("two exchanges, counts by origin", Sync::new(origins, &thrice()));
        let one = Config { counters: Counters::One, ..two.clone() };
        holds("two exchanges, one counter, nothing during a sync", Sync::new(one.clone(), &three_blocking()));
        breaks("two exchanges, one counter", Sync::new(one, &three()), COMPLETE);
        holds("two exchanges, parities", Sync::new(two, &thrice()));
    }

    /// Some hosts, up to two members on the first, and a few requests anywhere before, between and in up to three
    /// syncs.
    fn any_programs() -> impl Strategy<Value = (Config, Vec<Vec<Op>>)> {
        let issues = prop::sample::select(vec![Issue::OneStep, Issue::ParityFirst, Issue::CountFirst]);
        (2usize..=4, 2usize..=4, any::<bool>(), 1usize..=3, 1usize..=3, issues).prop_flat_map(
            |(hosts, radix, shared, syncs, window, issue)| {
                // What is explored grows fast with the hosts.
                let (syncs, shared) = if hosts == 4 { (1, false) } else { (syncs, shared) };
                let mut config = Config {
                    window,
                    counted: Counted::All,
                    issue,
                    split_in_one_step: true,
                    ..Config::new(hosts, radix.min(hosts))
                };
                if shared {
                    config.homes.insert(0, 0);
                }
                let members = config.homes.len();
                let op = (0..members, 0..=2 * syncs, 0..4usize, 0..hosts);
                let ops = prop::collection::vec(op, 1..=if hosts == 2 { 7 } else { 5 });
                (Just(config), ops).prop_map(move |(config, ops)| {
                    let program = |member| {
                        let issued = |gap| {
                            let here = ops.iter().filter(move |op| (op.0, op.1) == (member, gap));
                            here.map(|&(_, _, kind, host)| [Put(host), Put(host), Get(host), Ask(host)][kind])
                        };
                        let before = |gap| [Finish, Start][gap % 2];
                        let rest =
                            (1..=2 * syncs).flat_map(|gap| [before(gap)].into_iter().chain(issued(gap)));
                        issued(0).chain(rest).collect()
                    };
                    (config, (0..members).map(program).collect())
                })
            },
        )
    }

    proptest! {
        // Each case is an exploration of its own.
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]
        #[test]
        fn any_small_programs_are_right((config, programs) in any_programs()) {
            let safe = safe(Sync::new(config, &programs));
            prop_assert!(safe.is_ok(), "{}", safe.unwrap_err());
        }
    }
}

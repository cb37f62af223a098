//! Fence and barrier in one exchange, with the gate; and the papers' form, with two exchanges.
//!
//! # Contract
//! *Counts.* A host counts the requests that change memory, by target, and never resets the counts:
//! `sent[parity][target]` where they are issued; `applied[parity]`, summed over origins, where they
//! are applied. The parity is that of the number of syncs that the origin had begun, and travels
//! with the request. Requests issued after the beginning of a sync are therefore not in its sums.
//!
//! *Exchange.* To begin sync `e`, a host (when all its members have arrived) sends its counts of
//! parity `e - 1` along a [`Schedule`]. Its epoch `e` is complete when it has received every round,
//! and has applied as many requests as the sum says. The server does this; no member has to run.
//! Messages of the following exchange go to a separate inbox.
//!
//! *Gate.* A request carries the number of syncs that its origin has completed. A server takes the
//! first request of an origin's queue only if its own host has completed at least that number of
//! syncs; otherwise that queue waits. The messages that end this wait are in flight already, and
//! depend on no member.
//!
//! *Atomic issue.* Where several members share a host, a member that has begun a sync and not
//! finished it must read the parity, count the request and enqueue it in one step with respect to
//! the host's beginning of that sync. Otherwise a sum misses a request that is applied under its
//! parity, or a counted request stands in the queue behind one that the gate holds back until the
//! counted request is applied: in either case all hosts hang ([`Issue`]). A member that has not
//! begun the sync needs no such step, because the host cannot begin the sync without that member.
//!
//! *Several servers* of a host each have a queue for every origin, and a gate. They share the
//! counts of applied requests and the number of completed syncs of their host. No order holds
//! between their queues.
//!
//! *Reads.* A get whose answer is awaited before the next sync need not be counted. Any other get
//! must be counted like a put ([`Counted`]): otherwise it can reach its target after the puts of
//! the next epoch.
//!
//! *Long puts.* The data of a long put travel apart from its request, and arrive at any time after
//! its issue. At its turn, the put begins: it is applied, and counted, when its data are in place.
//! Until then the later requests of the same origin to the same server wait, and those of other
//! origins do not ([`Data`]). Data that arrive before the turn wait in a buffer.
//!
//! *Signals outside the protocol.* When a host has completed a sync, another may not have; only
//! requests that carry the number of the sync are guaranteed to see its effects. A put to a
//! member's own host bypasses the gate, so a signal after it is ordered after it. A member that
//! receives, during a sync, a signal from a third host or from outside that others have left the
//! sync can send a get to a host that has not left it. The get is then stale, unless signals and
//! answers carry the number of completed syncs and the receiver continues with the maximum
//! ([`Config::told`]). Two exchanges exclude this case.
//!
//! With counts that are sums over origins, and members that issue requests while a sync is in
//! progress, these properties hold:
//!
//! | property                                      | meaning                                      |
//! |-----------------------------------------------|----------------------------------------------|
//! | gets are never stale                          | after k syncs, gets see puts before the k-th |
//! | gets see nothing of later epochs              | no get sees a put that follows a later sync  |
//! | an epoch that is complete has all its puts    | loads by the members of the target suffice   |
//! | no epoch completes before all have started it | a sync is a barrier                          |
//! | every run ends                                | no deadlock, even with a window of 1 request |
//! | no exchange runs two ahead                    | two inboxes suffice                          |
//!
//! # Figure: why there must be a gate
//! ```text
//! host 0   put(2) ═══════════════ slow ═══════════════╗
//!          start ──counts──> 1, 2                     ║
//! host 1   start .. finish: has messages of 0 and 2   ║
//!          get(2) ═══════════> 2: stale without gate  v        with it, the get waits here
//! host 2   start ..................................... complete, then the get
//! ```
//!
//! # Why sums are exact
//! After the beginning of sync `e + 1` the counters of sync `e` are reused, for requests that have
//! left `e`. The gate prevents their application before the target has completed `e`; so `applied`
//! reaches the sum and never exceeds it before that. Without the gate, the same sums are wrong.
//!
//! # Figure: why an issue is one step
//! ```text
//! host 0, member a   start, put(2): counted ......................... queued (behind b's put)
//! host 0, member b            start; host 0 begins sync 1    finish, put(2): queued, left = 1
//! host 2                      its sum has a's put            b's put: held back until sync 1 is
//!                                                            complete here; that waits for a's
//!                                                            put, which is behind it
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
//! | two servers: 3, 3, 3     | 3     | 51 019  | 0.2     |
//! | two exchanges: 3, 3, 3   | 3     | 34 975  | 0.2     |
//!
//! Measured on one core of two, optimised. Random programs are explored as well: two to four hosts,
//! two members on one of them, up to three syncs, a window of one to three, any radix.
//!
//! | planted bug                             | broken property, after how many steps             |
//! |-----------------------------------------|---------------------------------------------------|
//! | no gate, sums or counts by origin       | gets are never stale, 10                          |
//! | no gate, with sums, three syncs         | an epoch has all its puts, 14; every run ends, 27 |
//! | a gate at the first of two servers only | gets are never stale, 30                          |
//! | a gate that requires one more sync      | every run ends, 16                                |
//! | counters zeroed on leaving, as printed  | every run ends, 41; with the gate, 35             |
//! | one counter, and puts during a sync     | an epoch has all its puts, 29; two exchanges, 43  |
//! | rounds at once, four hosts, radix 2     | no epoch completes before all ..., 5; puts, 5     |
//! | one inbox                               | every run ends, 26                                |
//! | issue in two steps, two members a host  | every run ends, 28 or 29                          |
//! | reads neither awaited nor counted       | gets see nothing of later epochs, 12              |
//! | a signal in a sync, without its number  | gets are never stale, 13                          |
//! | reads past the gate after one exchange  | gets are never stale, 8                           |

mod config;
mod state;

use stateright::{Model, Property};

use crate::fifo::Fifo;
use crate::schedule::Schedule;
pub use config::{Config, Counted, Counters, Data, Exchanges, Gate, Issue, Op, Rounds};
use state::{Control, Host, Inbox, Request, SERVERS};
pub use state::{MOST, State};

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member takes its next step, the given operation.
    Step(usize, Op),
    /// The second half of a planted [`Issue`].
    Issue(usize),
    /// A server applies the first request of an origin.
    Apply {
        /// The host that issued it.
        origin: usize,
        /// The target host.
        target: usize,
        /// The server of that host.
        server: usize,
    },
    /// The data of a long put, of this member and with this operation, arrive.
    Land(usize, usize),
    /// A message of an exchange is delivered.
    Deliver {
        /// The sending host.
        from: usize,
        /// The receiving host.
        to: usize,
    },
}

/// The model: a protocol, and a program for each member.
#[derive(Clone, Debug)]
pub struct Sync {
    config: Config,
    schedule: Schedule,
    programs: Vec<Vec<Op>>,
    /// By member and operation: the bit of a put.
    bits: Vec<Vec<u16>>,
    /// By member and operation: the puts that a get must see.
    due: Vec<Vec<u16>>,
    /// By member and operation: the puts that a get must not see.
    early: Vec<Vec<u16>>,
    /// By number of syncs and host: the puts that must be in memory when the host has completed
    /// that number.
    covered: Vec<Vec<u16>>,
}

impl Sync {
    /// Creates the model; `programs` has one program for each of the config's homes.
    ///
    /// # Panics
    /// If there are too many hosts, members, servers or puts, or if programs differ in their number
    /// of syncs.
    pub fn new(config: Config, programs: &[Vec<Op>]) -> Self {
        let count = |program: &[Op], op: Op| program.iter().filter(|&&other| other == op).count();
        let syncs = count(&programs[0], Op::Start);
        assert!((1..=SERVERS).contains(&config.servers));
        assert!(
            config.hosts <= MOST && programs.len() <= MOST && config.homes.len() == programs.len()
        );
        assert!(
            programs.iter().all(|p| count(p, Op::Start) == syncs && count(p, Op::Finish) == syncs)
        );
        let mut bits: Vec<Vec<u16>> =
            programs.iter().map(|program| vec![0; program.len()]).collect();
        let mut covered = vec![vec![0; config.hosts]; syncs + 1];
        // By number of syncs and host: the puts issued after that number of syncs.
        let mut later = covered.clone();
        later.push(vec![0; config.hosts]);
        let mut puts = 0;
        for (member, program) in programs.iter().enumerate() {
            for (at, &op) in program.iter().enumerate() {
                let (Op::Put(host) | Op::Long(host)) = op else { continue };
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
                // No order holds between the servers of a host.
                let same = |&put: &usize| {
                    put % config.servers == at % config.servers || host == config.homes[member]
                };
                let own = |put: &usize| {
                    [Op::Put(host), Op::Long(host)].contains(&program[*put])
                        && !matches!(op, Op::Peek(_))
                        && same(put)
                };
                let own = (0..at).filter(own).map(|put| bits[member][put]);
                // A member that has received a signal expects to see whatever its sender may see.
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
            Some(Op::Put(host) | Op::Long(host) | Op::Get(host) | Op::Ask(host)) => {
                host == home
                    || state.requests[home][host][self.server(at)].len() < self.config.window
            }
            Some(Op::Start | Op::Peek(_) | Op::Tell) => true,
            Some(Op::Hear(from)) => state.told[from] > 0,
            Some(Op::Finish) => {
                let finished =
                    self.programs[member][..at].iter().filter(|&&op| op == Op::Finish).count();
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
            Op::Put(target) | Op::Long(target) if target == home => {
                host.memory |= self.bits[member][at]
            }
            Op::Get(target) | Op::Ask(target) if target == home => {
                self.read(state, home, member, at)
            }
            Op::Peek(target) => self.read(state, target, member, at),
            Op::Put(target) | Op::Long(target) | Op::Get(target) | Op::Ask(target) => {
                if let Op::Long(_) = op {
                    state.flying |= self.bits[member][at];
                }
                if self.config.issue != Issue::ParityFirst && self.is_counted(op) {
                    host.sent[usize::from(parity)][target] += 1;
                }
                let program = self.programs[member][..at].iter().rev();
                let split =
                    { program }.find(|op| matches!(op, Op::Start | Op::Finish)) == Some(&Op::Start);
                if self.config.issue != Issue::OneStep && !(split && self.config.split_in_one_step)
                {
                    state.members[member].issuing = Some(request);
                    return;
                }
                if self.config.issue == Issue::ParityFirst && self.is_counted(op) {
                    host.sent[usize::from(parity)][target] += 1;
                }
                state.requests[home][target][self.server(at)].push(request);
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
        let (Op::Put(target) | Op::Long(target) | Op::Get(target) | Op::Ask(target)) = op else {
            unreachable!("no request: {op:?}")
        };
        if self.config.issue == Issue::ParityFirst && self.is_counted(op) {
            state.hosts[home].sent[usize::from(request.parity)][target] += 1;
        }
        let server = self.server(usize::from(request.op));
        state.requests[home][target][server].push(request);
        state.members[member].waiting = matches!(op, Op::Get(_));
        state.members[member].next += 1;
    }

    fn is_counted(&self, op: Op) -> bool {
        matches!(op, Op::Put(_) | Op::Long(_)) || self.config.counted == Counted::All
    }

    /// Returns the server that an operation is for. All servers use the completed syncs of their
    /// host.
    fn server(&self, at: usize) -> usize {
        at % self.config.servers
    }

    fn passes(&self, state: &State, target: usize, request: Request) -> bool {
        let completed = state.hosts[target].completed;
        match self.config.gate {
            Gate::Held => request.left <= completed,
            Gate::None => true,
            Gate::More => request.left < completed,
            Gate::First => self.server(request.op.into()) > 0 || request.left <= completed,
        }
    }

    /// Whether the first request of an origin may be applied, or begin.
    fn has_turn(&self, state: &State, (origin, target, server): (usize, usize, usize)) -> bool {
        let head = state.requests[origin][target][server].head();
        let waits =
            self.config.data == Data::InPlace && !state.begun[origin][target][server].is_empty();
        !waits && head.is_some_and(|request| self.passes(state, target, request))
    }

    fn apply(&self, state: &mut State, origin: usize, target: usize, server: usize) {
        let request = state.requests[origin][target][server].pop().expect("a request");
        let (member, at) = (usize::from(request.member), usize::from(request.op));
        let op = self.programs[member][at];
        let bit = self.bits[member][at];
        match op {
            Op::Put(_) => state.hosts[target].memory |= bit,
            Op::Long(_) if state.early & bit != 0 => {
                state.early &= !bit;
                state.hosts[target].memory |= bit;
            }
            Op::Long(_) => {
                state.begun[origin][target][server].push(request);
                if self.config.data != Data::AtTurn {
                    return;
                }
            }
            _ => self.read(state, target, member, at),
        }
        if matches!(op, Op::Get(_)) {
            state.members[member].waiting = false;
        }
        self.count(state, origin, target, request);
    }

    /// Counts a request that is applied.
    fn count(&self, state: &mut State, origin: usize, target: usize, request: Request) {
        let op = self.programs[usize::from(request.member)][usize::from(request.op)];
        if self.is_counted(op) {
            let origin = if self.config.counters == Counters::Origins { origin } else { 0 };
            state.hosts[target].applied[usize::from(request.parity)][origin] += 1;
            self.settle(state, target);
        }
    }

    fn land(&self, state: &mut State, member: usize, at: usize) {
        let Op::Long(target) = self.programs[member][at] else { unreachable!("no long put") };
        let (origin, server, bit) =
            (self.config.homes[member], self.server(at), self.bits[member][at]);
        state.flying &= !bit;
        let begun = &mut state.begun[origin][target][server];
        let all = begun.as_slice().to_vec();
        let this = |request: &Request| {
            (usize::from(request.member), usize::from(request.op)) == (member, at)
        };
        let Some(&request) = all.iter().find(|request| this(request)) else {
            state.early |= bit;
            return;
        };
        *begun = Fifo::default();
        all.into_iter().filter(|other| !this(other)).for_each(|other| begun.push(other));
        state.hosts[target].memory |= bit;
        if self.config.data != Data::AtTurn {
            self.count(state, origin, target, request);
        }
    }

    fn read(&self, state: &mut State, host: usize, member: usize, at: usize) {
        let memory = state.hosts[host].memory;
        state.stale |= self.due[member][at] & !memory != 0;
        state.ahead |= self.early[member][at] & memory != 0;
    }

    /// Returns whether the exchange in progress is one of counts.
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
            let parity =
                if self.config.counters == Counters::Parities { (host.started - 1) % 2 } else { 0 };
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
            let mut control =
                Control { exchange: host.exchange, round: round as u8, counts: [0; MOST] };
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
        let inbox =
            &mut state.hosts[to].inboxes[usize::from(control.exchange) % self.config.inboxes];
        inbox.got |= 1 << distance;
        for offset in self.schedule.offsets(usize::from(control.round), distance) {
            inbox.entries[offset - distance] += control.counts[offset];
            if self.config.counters == Counters::Origins {
                inbox.origins[from] = control.counts[offset];
            }
        }
        self.settle(state, to);
    }

    /// Does the work of the server after any event at its host: enters rounds, and completes
    /// exchanges.
    fn settle(&self, state: &mut State, at: usize) {
        loop {
            let host = &mut state.hosts[at];
            let closed = if self.config.exchanges == Exchanges::Two {
                2 * host.completed
            } else {
                host.completed
            };
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
                Counters::Parities => {
                    host.applied[usize::from(host.started - 1) % 2][0] == inbox.entries[0]
                }
                Counters::Origins => {
                    (0..self.config.hosts).all(|o| host.applied[0][o] >= inbox.origins[o])
                }
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
            && state.requests.iter().flatten().flatten().all(Fifo::is_empty)
            && state.controls.iter().flatten().all(Fifo::is_empty)
            && state.flying == 0
            && state.begun.iter().flatten().flatten().all(Fifo::is_empty)
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
        for (member, bits) in self.bits.iter().enumerate() {
            let flying = |at: &usize| state.flying & bits[*at] != 0;
            actions.extend((0..bits.len()).filter(flying).map(|at| Action::Land(member, at)));
        }
        for (a, b) in self.pairs() {
            for server in 0..SERVERS {
                if self.has_turn(state, (a, b, server)) {
                    actions.push(Action::Apply { origin: a, target: b, server });
                }
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
            Action::Apply { origin, target, server } => {
                self.apply(&mut state, origin, target, server)
            }
            Action::Land(member, at) => self.land(&mut state, member, at),
            Action::Deliver { from, to } => self.deliver(&mut state, from, to),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("gets are never stale", |_: &Self, state: &State| !state.stale),
            Property::always("gets see nothing of later epochs", |_: &Self, state: &State| {
                !state.ahead
            }),
            Property::always(
                "an epoch that is complete has all its puts",
                |model: &Self, state: &State| {
                    let hosts = model.hosts(state).iter().enumerate();
                    hosts.into_iter().all(|(at, host)| {
                        model.covered[usize::from(host.completed)][at] & !host.memory == 0
                    })
                },
            ),
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
            properties.push(Property::sometimes(
                "a request is held back",
                |model: &Self, state: &State| {
                    let mut pairs = model.pairs();
                    pairs.any(|(a, b)| {
                        let mut heads = state.requests[a][b].iter().filter_map(Fifo::head);
                        heads.any(|request| !model.passes(state, b, request))
                    })
                },
            ));
        }
        properties
    }
}

#[cfg(test)]
mod tests;

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
//! *Several servers* of a host each have a queue of every origin, and a gate; they apply to the same counts, and look at
//! the same number of complete syncs. There is no order between their queues.
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
//! | two servers: 3, 3, 3     | 3     | 51 019  | 0.2     |
//! | two exchanges: 3, 3, 3   | 3     | 34 975  | 0.2     |
//!
//! One core of two, optimised. Beside these, programs at random: two to four hosts, two members on one of them, up to
//! three syncs, a window of one to three, any radix.
//!
//! | planted                                               | broken, after so many steps                            |
//! |-------------------------------------------------------|--------------------------------------------------------|
//! | no gate, with sums or with counts by origin           | gets are never stale, 12                               |
//! | no gate, with sums, three syncs                       | an epoch has all its puts, 15; every run ends, 27      |
//! | a gate at the first server of two only                | gets are never stale, 30                               |
//! | a gate that asks for one sync more                    | every run ends, 16                                     |
//! | counters zeroed on leaving, as printed; with the gate | every run ends, 43; 39                                 |
//! | one counter in place of two, puts during a sync       | an epoch has all its puts, 29; with two exchanges, 43  |
//! | rounds entered at once, four hosts, radix 2           | no epoch completes before all have started, 8; puts, 8 |
//! | one inbox                                             | every run ends, 27                                     |
//! | an issue in two steps, two members on a host          | every run ends, 28 or 29                               |
//! | reads that nobody waits for and nobody counts         | gets see nothing of later epochs, 13                   |
//! | what is heard during a sync, without its number       | gets are never stale, 24                               |
//! | reads past the gate after one exchange                | gets are never stale, 14                               |

mod config;
mod state;

use stateright::{Model, Property};

use crate::fifo::Fifo;
use crate::schedule::Schedule;
pub use config::{Config, Counted, Counters, Exchanges, Gate, Issue, Op, Rounds};
use state::{Control, Host, Inbox, Request, SERVERS};
pub use state::{MOST, State};

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
        /// Which of them.
        server: usize,
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
                // What another server does is in no order with this.
                let same = |&put: &usize| {
                    put % config.servers == at % config.servers || host == config.homes[member]
                };
                let own = |put: &usize| {
                    program[*put] == Op::Put(host) && !matches!(op, Op::Peek(_)) && same(put)
                };
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
            Op::Put(target) if target == home => host.memory |= self.bits[member][at],
            Op::Get(target) | Op::Ask(target) if target == home => {
                self.read(state, home, member, at)
            }
            Op::Peek(target) => self.read(state, target, member, at),
            Op::Put(target) | Op::Get(target) | Op::Ask(target) => {
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
        let (Op::Put(target) | Op::Get(target) | Op::Ask(target)) = op else {
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
        matches!(op, Op::Put(_)) || self.config.counted == Counted::All
    }

    /// The server of its target that an op is for: all look at the syncs of their host, which the first completes.
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

    fn apply(&self, state: &mut State, origin: usize, target: usize, server: usize) {
        let request = state.requests[origin][target][server].pop().expect("a request");
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

    /// What the server does after whatever has happened at its host.
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
            for (server, requests) in state.requests[a][b].iter().enumerate() {
                if requests.head().is_some_and(|request| self.passes(state, b, request)) {
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

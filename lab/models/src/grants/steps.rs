//! The steps of the protocol, and when each can be taken.

use super::long::Move;
use super::overlay::{HOSTS, LOCATIONS, TASKS};
use super::plan::{Delivery, Use};
use super::rules::{Bug, Failure, Flush, Release};
use super::state::{Action, EMPTY, Host, Kind, Message, NONE, Phase, State, TORN};
use super::{Grants, has};

impl Grants {
    /// Returns the state before the first step.
    pub fn start(&self) -> State {
        let mut hosts = [Host::default(); HOSTS];
        if self.rules.bug == Bug::NoInitial {
            for (at, location) in self.overlay.locations.iter().enumerate() {
                let first = location.writers().first().map(|&place| location.queue[place].task());
                for (host, state) in hosts.iter_mut().enumerate() {
                    if first.is_some_and(|first| self.overlay.homes[first] != host) {
                        state.slots[at][0] = EMPTY;
                    }
                }
            }
        }
        State {
            hosts,
            phases: [Phase::Idle; TASKS],
            copies: [[NONE; LOCATIONS]; TASKS],
            shared: [0; LOCATIONS],
            channels: Default::default(),
            moves: Vec::new(),
            faults: Default::default(),
        }
    }

    /// Returns whether a task has a next turn: a body, or a turn that its host passes on.
    fn has_turn(&self, state: &State, task: usize) -> bool {
        let host = &state.hosts[self.overlay.homes[task]];
        let round = host.words[task];
        let stops = matches!(self.rules.bug, Bug::LeaverIgnored | Bug::LeaverStops);
        if round >= self.rules.bodies[task] && stops {
            return false;
        }
        if let Some(test) = self.rules.test {
            let early = round >= test.delay && host.judged <= round - test.delay;
            let stops = host.judged > test.converges && round >= test.rounds();
            if stops || early && self.rules.bug != Bug::NoVerdict {
                return false;
            }
        }
        match self.rules.rounds {
            Some(rounds) => round < rounds,
            None => self.plan.component[task] & !host.left != 0,
        }
    }

    /// Returns whether a task can begin its next round.
    fn can_begin(&self, state: &State, task: usize) -> bool {
        let host = &state.hosts[self.overlay.homes[task]];
        let round = i16::from(host.words[task]);
        let ignored = |other: usize| self.rules.bug == Bug::LeaverIgnored && has(host.left, other);
        state.phases[task] == Phase::Idle
            && host.failed == 0
            && self.has_turn(state, task)
            && self.plan.waits[task].iter().all(|wait| {
                i16::from(host.words[wait.task]) >= round + wait.lag || ignored(wait.task)
            })
    }

    /// Returns whether room messages can leave without another message.
    fn can_flush(&self, state: &State, from: usize, to: usize) -> bool {
        let host = &state.hosts[from];
        let alone = match self.rules.bug {
            Bug::RoomRides => false,
            Bug::RoomNotAlone => self.tasks_of(from).any(|task| has(self.plan.direct[task], to)),
            _ => true,
        };
        let busy = |task| {
            self.can_begin(state, task)
                || matches!(state.phases[task], Phase::Running | Phase::Releasing)
        };
        host.failed == 0
            && host.rooms[to] != [0; TASKS]
            && alone
            && (self.rules.flush == Flush::Any || !self.tasks_of(from).any(busy))
    }

    /// Lists the actions that can be taken.
    pub fn list(&self, state: &State, actions: &mut Vec<Action>) {
        for task in 0..self.overlay.homes.len() {
            match state.phases[task] {
                Phase::Idle if self.can_begin(state, task) => actions.push(Action::Begin(task)),
                Phase::Running if self.waits_for_sent(state, task) => {}
                Phase::Running => actions.push(Action::End(task)),
                Phase::Releasing => actions.push(Action::Finish(task)),
                Phase::Idle | Phase::Failed => {}
            }
        }
        actions.extend(self.list_moves(state).map(|(at, step)| Action::Move(at, step)));
        for from in 0..self.overlay.hosts {
            for to in 0..self.overlay.hosts {
                let count = state.channels[from][to].len();
                let most = if self.rules.bug == Bug::Overtaking { count } else { count.min(1) };
                actions.extend((0..most).map(|at| Action::Receive { from, to, at }));
                if self.can_flush(state, from, to) {
                    actions.push(Action::Flush { from, to });
                }
            }
        }
    }

    /// Takes a step.
    pub fn take(&self, state: &mut State, action: Action) {
        match action {
            Action::Begin(task) => self.begin(state, task),
            Action::End(task) => self.end(state, task),
            Action::Finish(task) => self.finish(state, task),
            Action::Receive { from, to, at } => self.receive(state, from, to, at),
            Action::Move(at, step) => self.take_move(state, at, step),
            Action::Flush { from, to } => {
                let mut message = Message::new(Kind::Words(None));
                message.words = std::mem::take(&mut state.hosts[from].rooms[to]);
                self.push(state, from, to, message);
            }
        }
    }

    /// Returns the slot that an access uses in a round.
    pub(super) fn slot(&self, using: &Use, round: u8) -> usize {
        let slot = match self.rules.bug {
            Bug::SlotByRound => round + u8::from(using.behind > 0),
            _ => using.reception(round),
        };
        usize::from(if using.per_round == 0 { 0 } else { slot % 2 })
    }

    /// Returns the contents that an access reads and writes in a round.
    pub(super) fn cell<'a>(
        &self,
        state: &'a mut State,
        task: usize,
        using: &Use,
        round: u8,
    ) -> &'a mut u8 {
        if using.data {
            let slot = self.slot(using, round);
            &mut state.hosts[self.overlay.homes[task]].slots[using.location][slot]
        } else {
            &mut state.shared[using.location]
        }
    }

    fn begin(&self, state: &mut State, task: usize) {
        let home = self.overlay.homes[task];
        let round = self.word(state, task);
        let body = round < self.rules.bodies[task];
        let fresh = |at| self.word(state, at) == 0 && state.phases[at] == Phase::Idle;
        if self.rules.bug == Bug::InitialLate && self.tasks_of(home).all(fresh) {
            state.hosts[home].slots.iter_mut().for_each(|slots| slots[0] = 0);
        }
        for using in &self.plan.uses[task] {
            let due = self.overlay.due(using.location, using.place, round, &self.rules.bodies);
            let cell = self.cell(state, task, using, round);
            let stale = *cell != due;
            if using.writes && body {
                *cell = TORN;
                let slot = self.slot(using, round);
                state.faults.torn |=
                    using.data && self.is_leaving(state, home, using.location, slot);
            }
            state.faults.stale |= stale;
        }
        if self.rules.bug == Bug::RoomEarly {
            self.post_room(state, task, round + 1);
        }
        state.phases[task] = Phase::Running;
    }

    fn end(&self, state: &mut State, task: usize) {
        let home = self.overlay.homes[task];
        let round = self.word(state, task);
        if self.rules.fails[task] == Some(round) {
            state.phases[task] = Phase::Failed;
            let to = match self.rules.bug {
                Bug::FailureToFollowers => self.plan.direct[task],
                _ => u8::MAX,
            };
            // A host names one failure: a later one of its own tasks is not counted.
            if state.hosts[home].failed == 0 {
                self.note_failure(state, home, task as u8 + 1, to);
            }
            return;
        }
        let body = round < self.rules.bodies[task];
        for using in &self.plan.uses[task] {
            let due = self.overlay.due(using.location, using.place, round, &self.rules.bodies);
            let version = self.overlay.version(using.location, using.place, round);
            let cell = self.cell(state, task, using, round);
            let writes = using.writes && body;
            let torn = *cell != if writes { TORN } else { due };
            if writes {
                *cell = version;
            }
            state.faults.torn |= torn;
        }
        if state.hosts[home].failed != 0 {
            // The host has stopped and makes no release.
            state.phases[task] = Phase::Idle;
            return;
        }
        if self.rules.bug != Bug::CopiedLate {
            self.copy(state, task, round);
        }
        state.phases[task] = Phase::Releasing;
        if self.rules.test.is_some() {
            self.report(state, task);
        }
        match self.rules.release {
            Release::OneStep => {
                self.raise(state, task);
                self.send(state, task, round + 1);
                state.phases[task] = Phase::Idle;
            }
            Release::RaiseFirst => self.raise(state, task),
            Release::SendFirst => self.send(state, task, round + 1),
        }
    }

    /// Reports the rounds that all tasks of a host have ended, after the end of a body and before
    /// its release.
    fn report(&self, state: &mut State, task: usize) {
        let host = self.overlay.homes[task];
        let ended = |at| {
            if at == task { self.word(state, at) + 1 } else { self.released(state, at) }
        };
        let count = self.tasks_of(host).map(ended).min().unwrap_or(0);
        if count == state.hosts[host].ended[host] {
            return;
        }
        state.hosts[host].ended[host] = count;
        if host == 0 {
            self.note_ended(state, 0, count);
        } else {
            self.push(state, host, 0, Message::new(Kind::Ended(count)));
        }
    }

    /// Notes at host 0 the rounds that a host has ended, and judges those that all have ended.
    fn note_ended(&self, state: &mut State, host: usize, count: u8) {
        let judge = &mut state.hosts[0];
        judge.ended[host] = count;
        let hosts = (0..self.overlay.hosts).filter(|&host| self.tasks_of(host).next().is_some());
        let judged = hosts.map(|host| judge.ended[host]).min().unwrap_or(0);
        if judged > judge.judged && judge.failed == 0 {
            judge.judged = judged;
            self.notify(state, 0, Kind::Judged(judged), u8::MAX);
        }
    }

    fn finish(&self, state: &mut State, task: usize) {
        state.phases[task] = Phase::Idle;
        if self.rules.release == Release::SendFirst {
            self.raise(state, task);
        } else if state.hosts[self.overlay.homes[task]].failed == 0
            || self.rules.bug == Bug::SentAfterNotice
        {
            let word = self.word(state, task);
            if self.rules.bug == Bug::CopiedLate {
                self.copy(state, task, word - 1);
            }
            self.send(state, task, word);
        }
    }

    /// Copies the data of the release of a round.
    fn copy(&self, state: &mut State, task: usize, round: u8) {
        for using in &self.plan.uses[task] {
            let mut deliveries = self.plan.deliveries[task].iter();
            if deliveries.any(|delivery| delivery.location == using.location) {
                let value = *self.cell(state, task, using, round);
                state.copies[task][using.location] = value;
            }
        }
    }

    /// Raises the word of a task on its own host. After its last body the task leaves; in a run of
    /// a fixed number of rounds, a task that has a body in all of them does not.
    fn raise(&self, state: &mut State, task: usize) {
        let home = self.overlay.homes[task];
        state.hosts[home].words[task] += 1;
        let bodies = self.rules.bodies[task];
        let leaves =
            self.rules.rounds.is_none_or(|rounds| bodies < rounds) && state.hosts[home].failed == 0;
        if leaves && state.hosts[home].words[task] == bodies {
            state.hosts[home].left |= 1 << task;
            self.notify(state, home, Kind::Left(task as u8), u8::MAX);
        }
    }

    /// Puts a message in a channel.
    fn push(&self, state: &mut State, from: usize, to: usize, message: Message) {
        let notified = has(state.hosts[from].notified, from);
        state.faults.late |= notified && !matches!(message.kind, Kind::Failed(_));
        state.channels[from][to].push(message);
    }

    /// Sends a notice to the other hosts of a set.
    fn notify(&self, state: &mut State, from: usize, kind: Kind, set: u8) {
        for to in (0..self.overlay.hosts).filter(|&to| to != from && has(set, to)) {
            self.push(state, from, to, Message::new(kind));
        }
    }

    /// Posts a word for the hosts that wait for room, and that get no message of the release.
    fn post_room(&self, state: &mut State, task: usize, word: u8) {
        let set = self.plan.rooms[task] & !self.plan.direct[task];
        for to in (0..self.overlay.hosts).filter(|&to| has(set, to)) {
            state.hosts[self.overlay.homes[task]].rooms[to][task] = word;
        }
    }

    /// Sends the messages of the release that makes `word` rounds.
    fn send(&self, state: &mut State, task: usize, word: u8) {
        let home = self.overlay.homes[task];
        for to in (0..self.overlay.hosts).filter(|&to| has(self.plan.direct[task], to)) {
            let mut message = Message::new(Kind::Words(Some(task as u8)));
            message.words = std::mem::take(&mut state.hosts[home].rooms[to]);
            message.words[task] = word;
            let deliveries = self.plan.deliveries[task].iter();
            for delivery in deliveries.filter(|delivery| delivery.to == to) {
                let copy = state.copies[task][delivery.location];
                if self.is_long(delivery.location) {
                    state.moves.push(Move {
                        task: task as u8,
                        round: word - 1,
                        to: to as u8,
                        location: delivery.location as u8,
                        stays: delivery.stays,
                        value: (!delivery.stays).then_some(copy),
                        sent: false,
                        landed: false,
                    });
                } else {
                    message.values[delivery.location] = copy;
                }
                state.faults.crowded |= self.is_crowded(state, delivery, word - 1);
            }
            let same = |other: &Message| {
                other.kind == message.kind && other.words[task] == message.words[task]
            };
            state.faults.twice |= state.channels[home][to].iter().any(same);
            self.push(state, home, to, message);
        }
        self.post_room(state, task, word);
        state.copies[task] = [NONE; LOCATIONS];
    }

    fn receive(&self, state: &mut State, from: usize, to: usize, at: usize) {
        let mut message = state.channels[from][to][at];
        match message.kind {
            Kind::Left(task) => state.hosts[to].left |= 1 << task,
            Kind::Ended(count) => self.note_ended(state, from, count),
            Kind::Judged(count) => state.hosts[to].judged = count,
            Kind::Failed(task) => {
                state.hosts[to].notified |= 1 << from;
                self.note_failure(state, to, task + 1, u8::MAX);
            }
            Kind::Words(source) => {
                let early = self.rules.bug == Bug::RaisedEarly;
                let in_two = message.has_data() && (self.rules.two_steps || early);
                if in_two && !message.half {
                    if early {
                        self.raise_mirrors(state, to, source, &message);
                    } else {
                        self.place(state, to, source, &message);
                    }
                    message.half = true;
                    state.channels[from][to][at] = message;
                    return;
                }
                if !in_two || early {
                    self.place(state, to, source, &message);
                }
                self.raise_mirrors(state, to, source, &message);
            }
        }
        state.channels[from][to].remove(at);
    }

    /// Copies the data of a message to their slots.
    fn place(&self, state: &mut State, to: usize, source: Option<u8>, message: &Message) {
        let Some(source) = source.map(usize::from) else { return };
        let round = message.words[source] - 1;
        let deliveries = self.plan.deliveries[source].iter();
        let own = |delivery: &&Delivery| delivery.to == to && !self.is_long(delivery.location);
        for delivery in deliveries.filter(own) {
            self.fill(state, delivery, round, message.values[delivery.location]);
        }
    }

    /// Puts a version in its slot.
    pub(super) fn fill(&self, state: &mut State, delivery: &Delivery, round: u8, value: u8) {
        let (to, location) = (delivery.to, delivery.location);
        let host = &mut state.hosts[to];
        host.arrived[location] += 1;
        let slot = usize::from(match self.rules.bug {
            Bug::SlotByArrival => host.arrived[location],
            Bug::SlotByRound => round + 1,
            _ => delivery.reception(round),
        }) % 2;
        host.slots[location][slot] = value;
        state.faults.torn |= self.is_used(state, to, location, slot);
        state.faults.torn |= self.is_leaving(state, to, location, slot);
    }

    /// Raises the mirrors of a message at a host; that of a release when its long data have landed.
    fn raise_mirrors(&self, state: &mut State, at: usize, source: Option<u8>, message: &Message) {
        for (task, &word) in message.words.iter().enumerate().filter(|(_, word)| **word > 0) {
            let host = &mut state.hosts[at];
            if source == Some(task as u8) {
                host.heard[task] = host.heard[task].max(word);
                self.settle(state, at, task);
            } else {
                host.words[task] = host.words[task].max(word);
            }
        }
    }

    /// Notes a failure at a host, which passes the first one on if it is its own or if hosts agree.
    fn note_failure(&self, state: &mut State, at: usize, named: u8, to: u8) {
        let host = &mut state.hosts[at];
        host.least = if host.least == 0 { named } else { host.least.min(named) };
        if host.failed != 0 {
            return;
        }
        host.failed = named;
        let own = self.overlay.homes[usize::from(named) - 1] == at;
        if own || self.rules.failure == Failure::Agreed {
            host.notified |= 1 << at;
            self.notify(state, at, Kind::Failed(named - 1), to);
        }
    }
}

//! What must hold in every state, and at the end of a run.

use super::Grants;
use super::overlay::TASKS;
use super::plan::Delivery;
use super::rules::{Failure, Release, Test};
use super::state::{Host, Phase, State};

impl Grants {
    /// Returns the number of rounds that a task has released, as its host has it.
    pub fn word(&self, state: &State, task: usize) -> u8 {
        state.hosts[self.overlay.homes[task]].words[task]
    }

    /// Returns the number of rounds that a task has released, as the first host has it that has
    /// raised its word or mirror.
    pub fn released(&self, state: &State, task: usize) -> u8 {
        let sent =
            state.phases[task] == Phase::Releasing && self.rules.release == Release::SendFirst;
        self.word(state, task) + u8::from(sent)
    }

    /// Returns the tasks of a host.
    pub fn tasks_of(&self, host: usize) -> impl Iterator<Item = usize> {
        (0..self.overlay.homes.len()).filter(move |&task| self.overlay.homes[task] == host)
    }

    /// Returns whether an access still has to use a reception that is two or more before the one
    /// that the release of a round is.
    pub(super) fn is_crowded(&self, state: &State, delivery: &Delivery, round: u8) -> bool {
        self.is_unread(state, delivery, delivery.reception(round).saturating_sub(1))
    }

    /// Returns whether an access still has to use a reception below a number.
    fn is_unread(&self, state: &State, delivery: &Delivery, number: u8) -> bool {
        self.tasks_of(delivery.to).any(|task| {
            let next = self.released(state, task);
            let mut uses = self.plan.uses[task].iter();
            uses.any(|using| using.location == delivery.location && using.reception(next) < number)
        })
    }

    /// Returns whether a body uses a slot.
    pub(super) fn is_used(&self, state: &State, host: usize, location: usize, slot: usize) -> bool {
        let mut running = self.tasks_of(host).filter(|&at| state.phases[at] == Phase::Running);
        running.any(|task| {
            let round = self.word(state, task);
            let mut uses = self.plan.uses[task].iter();
            uses.any(|using| using.location == location && self.slot(using, round) == slot)
        })
    }

    /// Returns whether a reception is sent, or in place, and an access still has to use the one
    /// before it: the second slot is in use.
    pub fn is_ahead(&self, state: &State) -> bool {
        (0..self.overlay.homes.len()).any(|task| {
            let Some(round) = self.word(state, task).checked_sub(1) else { return false };
            let mut deliveries = self.plan.deliveries[task].iter();
            deliveries.any(|delivery| self.is_unread(state, delivery, delivery.reception(round)))
        })
    }

    /// Returns whether no two tasks are further apart than the bounds that follow from the waits.
    pub fn is_fair(&self, state: &State) -> bool {
        let tasks = 0..self.overlay.homes.len();
        tasks.clone().all(|a| {
            tasks.clone().all(|b| {
                let (of_a, of_b) = (self.released(state, a), self.released(state, b));
                i16::from(of_a) - i16::from(of_b) <= self.plan.ahead[a][b]
            })
        })
    }

    /// Returns whether the run has ended as it should: after all rounds, or with a failure of which
    /// all hosts have a notice.
    pub fn is_over(&self, state: &State) -> bool {
        let hosts = &state.hosts[..self.overlay.hosts];
        let tasks = self.overlay.homes.len();
        let all = |count: usize| ((1_u16 << count) - 1) as u8;
        let idle = |&phase: &Phase| matches!(phase, Phase::Idle | Phase::Failed);
        let ended = if hosts.iter().any(|host| host.failed != 0) {
            hosts.iter().all(|host| match self.rules.failure {
                Failure::Broadcast => host.failed != 0,
                Failure::Agreed => host.notified == all(self.overlay.hosts),
            })
        } else if let Some(rounds) = self.rules.rounds {
            let rounds = self.rules.test.map_or(rounds, |test| rounds.min(test.rounds()));
            (0..tasks).all(|task| self.word(state, task) == rounds)
        } else {
            hosts.iter().all(|host| host.left == all(tasks))
        };
        ended
            && state.channels.iter().flatten().all(Vec::is_empty)
            && state.moves.is_empty()
            && state.phases[..TASKS].iter().all(idle)
    }

    /// Returns whether no task has passed the round after which all tasks stop.
    pub fn is_in_time(&self, state: &State) -> bool {
        let mut tasks = 0..self.overlay.homes.len();
        self.rules.test.is_none_or(|test| tasks.all(|task| self.word(state, task) <= test.rounds()))
    }

    /// Returns whether all hosts name the same failed task. The run must be over.
    pub fn is_agreed(&self, state: &State) -> bool {
        let name = |host: &Host| match self.rules.failure {
            Failure::Broadcast => host.failed,
            Failure::Agreed => host.least,
        };
        state.hosts[..self.overlay.hosts].iter().all(|host| name(host) == name(&state.hosts[0]))
    }

    /// Returns whether the host of the last body that writes a location has its version, for each
    /// location. The run must be over.
    pub fn has_results(&self, state: &State) -> bool {
        let mut state = state.clone();
        let most = self.rules.test.map_or(u8::MAX, Test::rounds);
        let bodies: Vec<u8> = self.rules.bodies.iter().map(|&bodies| bodies.min(most)).collect();
        (0..self.overlay.locations.len()).all(|location| {
            let Some((place, round)) = self.overlay.last(location, &bodies) else {
                return true;
            };
            let task = self.overlay.locations[location].queue[place].task();
            let mut uses = self.plan.uses[task].iter();
            let using = uses.find(|using| using.location == location).expect("its use");
            let version = self.overlay.version(location, place, round);
            *self.cell(&mut state, task, using, round) == version
        })
    }
}

//! The queue lock whose waits have deadlines: a place is abandoned at a timeout, and resumed later.
//!
//! # Contract
//! The lock is that of [`mcs`](crate::mcs); this model covers the part that differs. A member whose
//! deadline passes marks its place *absent*. Links and grants are messages, which arrive in any
//! order; each changes the link word of a place in one step.
//!
//! ```text
//!  link arrives     at an absent, granted place: the grant passes to the successor
//!  grant arrives    at an absent place with a successor: the grant passes to it; without: it stays
//!  leave            only if no grant has arrived
//!  come back        granted, no successor: holds; granted, with a successor: requests again
//!                   not granted: waits again
//! ```
//!
//! | planted bug                                        | broken property     |
//! |----------------------------------------------------|---------------------|
//! | a link does not check whether the grant has stayed | every run ends      |
//! | a member leaves after the grant has arrived        | every run ends      |
//! | a returning member does not check for a successor  | there is one holder |

use stateright::{Model, Property};

/// The largest number of members.
const MOST: usize = 4;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// No bug.
    None,
    /// A link does not check whether the grant has stayed at the place.
    BlindLink,
    /// A member leaves although the grant has arrived.
    LateLeave,
    /// A returning member takes the mutex although the grant has passed to its successor.
    BlindBack,
}

/// The configuration of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// The number of members.
    pub members: usize,
    /// The number of times that each member takes the mutex.
    pub times: u8,
    /// The number of times that each member gives up a wait.
    pub leaves: u8,
    /// The planted bug.
    pub bug: Bug,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Out,
    Waiting,
    Away,
    Holding,
    /// Releases, and waits for the link of a member that has swapped the tail.
    Linked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    phase: Phase,
    taken: u8,
    left: u8,
    /// The link word: 1 + the successor, or 0.
    next: u8,
    granted: bool,
    absent: bool,
}

/// All members, the tail of the queue, and the links and grants in flight, by receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    members: [Member; MOST],
    tail: u8,
    links: [u8; MOST],
    grants: [u8; MOST],
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member takes its next step.
    Step(usize),
    /// The deadline of a member passes.
    Leave(usize),
    /// A link arrives at a member.
    Link(usize),
    /// A grant arrives at a member.
    Grant(usize),
}

impl Absent {
    fn step(self, state: &mut State, at: usize) {
        let member = &mut state.members[at];
        match member.phase {
            Phase::Out => {
                (member.next, member.granted, member.absent) = (0, false, false);
                let before = std::mem::replace(&mut state.tail, at as u8 + 1);
                member.phase = if before == 0 { Phase::Holding } else { Phase::Waiting };
                if before != 0 {
                    state.links[usize::from(before) - 1] = at as u8 + 1;
                }
            }
            Phase::Waiting => member.phase = Phase::Holding,
            Phase::Away if !member.granted => {
                (member.absent, member.phase) = (false, Phase::Waiting);
            }
            Phase::Away if member.next == 0 || self.bug == Bug::BlindBack => {
                (member.absent, member.phase) = (false, Phase::Holding);
            }
            Phase::Away => member.phase = Phase::Out,
            Phase::Holding if member.next == 0 && state.tail != at as u8 + 1 => {
                member.phase = Phase::Linked
            }
            Phase::Holding | Phase::Linked => {
                member.taken += 1;
                member.phase = Phase::Out;
                if member.next == 0 {
                    state.tail = 0;
                } else {
                    state.grants[usize::from(member.next) - 1] += 1;
                }
            }
        }
    }

    fn can_step(self, member: &Member) -> bool {
        match member.phase {
            Phase::Out => member.taken < self.times,
            Phase::Waiting => member.granted,
            Phase::Linked => member.next != 0,
            Phase::Away | Phase::Holding => true,
        }
    }
}

impl Model for Absent {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, member) in state.members[..self.members].iter().enumerate() {
            if self.can_step(member) {
                actions.push(Action::Step(at));
            }
            let may = !member.granted || self.bug == Bug::LateLeave;
            if member.phase == Phase::Waiting && member.left < self.leaves && may {
                actions.push(Action::Leave(at));
            }
            if state.links[at] != 0 {
                actions.push(Action::Link(at));
            }
            if state.grants[at] != 0 {
                actions.push(Action::Grant(at));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = *state;
        match action {
            Action::Step(at) => self.step(&mut state, at),
            Action::Leave(at) => {
                let member = &mut state.members[at];
                (member.absent, member.phase) = (true, Phase::Away);
                member.left += 1;
            }
            Action::Link(at) => {
                let next = std::mem::take(&mut state.links[at]);
                let member = &mut state.members[at];
                member.next = next;
                if member.granted && member.absent && self.bug != Bug::BlindLink {
                    state.grants[usize::from(next) - 1] += 1;
                }
            }
            Action::Grant(at) => {
                state.grants[at] -= 1;
                let member = &mut state.members[at];
                member.granted = true;
                if member.absent && member.next != 0 {
                    state.grants[usize::from(member.next) - 1] += 1;
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("there is one holder", |_: &Self, state: &State| {
                let holds =
                    |member: &&Member| matches!(member.phase, Phase::Holding | Phase::Linked);
                state.members.iter().filter(holds).count() <= 1
            }),
            Property::always("every run ends", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let over =
                    |member: &Member| member.phase == Phase::Out && member.taken == model.times;
                !actions.is_empty() || state.members[..model.members].iter().all(over)
            }),
            Property::sometimes("the mutex stays at a place", |_: &Self, state: &State| {
                state
                    .members
                    .iter()
                    .any(|member| member.granted && member.absent && member.next == 0)
            }),
            Property::sometimes("the mutex goes past a place", |_: &Self, state: &State| {
                state
                    .members
                    .iter()
                    .any(|member| member.granted && member.absent && member.next != 0)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{breaks, holds};

    fn model(members: usize, times: u8, leaves: u8, bug: Bug) -> Absent {
        Absent { members, times, leaves, bug }
    }

    #[test]
    fn it_is_right() {
        holds("2 members, 3 times, 3 time-outs", model(2, 3, 3, Bug::None));
        holds("3 members, 2 times, 2 time-outs", model(3, 2, 2, Bug::None));
        holds("4 members, once, 1 time-out", model(4, 1, 1, Bug::None));
    }

    #[test]
    fn a_link_that_does_not_look() {
        breaks("blind link", model(3, 2, 1, Bug::BlindLink), "every run ends");
    }

    #[test]
    fn a_member_that_leaves_with_the_mutex() {
        breaks("late leave", model(3, 2, 1, Bug::LateLeave), "every run ends");
    }

    #[test]
    fn a_member_that_comes_back_too_late() {
        breaks("blind back", model(3, 2, 1, Bug::BlindBack), "there is one holder");
    }
}

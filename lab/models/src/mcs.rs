//! The software queue lock over messages, after Mellor-Crummey and Scott.
//!
//! # Contract
//! The lock word `tail`, on the host of the owner, names the last member of the queue. Each member
//! has two words on its own host: `next`, its successor, and `locked`, whether it must wait. All
//! remote steps are requests: a swap or compare_swap of `tail` has an answer, a put to `next` or
//! `locked` has none. A member spins only on its own words.
//!
//! ```text
//! acquire   next = none; previous = swap(tail, me)
//!           if previous is a member: locked = true; put previous.next = me;
//!                                    wait until locked is false
//! release   fence the writes of the critical section
//!           if next is none and compare_swap(tail, me, none) succeeds: end
//!           wait until next is a member; put next.locked = false
//! ```
//!
//! That is [`Form::Paper`]. In [`Form::Rounds`] words only grow, and none is reset: a place is a
//! member and its round; `next` is raised to (own round, successor's place), `locked` to the
//! granted round. Two of the planted bugs, in the order of resets and messages, cannot be expressed
//! in that form.
//!
//! In the critical section a member reads a word of some host, compares it with the value that the
//! previous holder put there, and puts another value without waiting. The model therefore tests the
//! purpose of the fence in `release`: the put goes to a third host, and the grant that leads to the
//! next holder's get takes another path, which may be faster. The fence can be omitted only before
//! a compare_swap on the host of the data: the answer to that request implies that all earlier
//! requests in its queue have been applied.
//!
//! | property                                       | meaning                      |
//! |------------------------------------------------|------------------------------|
//! | there is one holder                            | mutual exclusion             |
//! | a holder reads what the one before has written | the fence works              |
//! | first come, first served                       | grants follow the swap order |
//! | every run ends                                 | no deadlock                  |
//!
//! # Figure: why release must fence
//! ```text
//! holder   put(data) ═════════ slow ══════════════╗
//!          put(locked = false) ──> next           ║
//! next                              get(data) ══> host of the data: stale without the fence
//! ```
//!
//! # Explored
//! | members, times       | paper's form: states, seconds | rounds: states, seconds         |
//! |----------------------|-------------------------------|---------------------------------|
//! | 3, 2                 | 19 221, 0.02                  | 66 111, 0.1                     |
//! | 4, 1                 | 20 717, 0.03                  | 20 717, 0.03                    |
//! | 2, 4, on other hosts | 3 233, 0.01                   | 20 531, 0.02                    |
//! | 4, 2                 | 806 731, 1.5                  | 7 518 425, 16; not in the tests |
//!
//! Measured on one core of two, optimised.
//!
//! | planted bug                                          | broken property, after how many steps |
//! |------------------------------------------------------|---------------------------------------|
//! | `locked` set, not cleared, after failed compare_swap | every run ends, 21                    |
//! | no fence                                             | a holder reads ..., 11; 16 if local   |
//! | no fence before a compare_swap                       | a holder reads ..., 11; none if local |
//! | no wait for `next` after a failed compare_swap       | every run ends, 19                    |
//! | `locked` set after the put to `previous.next`        | every run ends, 22                    |
//! | `next` cleared after the swap                        | every run ends, 15                    |
//! | a swap in two steps                                  | there is one holder, 8                |
//!
//! "If local" means that the data and the lock word are on the same host.

use stateright::{Model, Property};

use crate::fifo::Fifo;

/// The largest number of hosts.
pub const MOST: usize = 4;

/// How the words are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in the papers: words are reset.
    Paper,
    /// Words only grow.
    Rounds,
}

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// No bug.
    None,
    /// After a failed compare_swap the successor's `locked` is set, not cleared, as the text of the
    /// papers says.
    LockedSet,
    /// Release does not fence.
    NoFence,
    /// Release fences only if it has a successor when it checks; it does not fence before a
    /// compare_swap.
    FenceIfNext,
    /// After a failed compare_swap, release does not wait for `next`.
    NoWait,
    /// `locked` is set after the put to the predecessor's `next`.
    LockedLate,
    /// `next` is cleared after the swap.
    NextLate,
    /// The swap of `tail` is a get and a put.
    TornSwap,
}

/// The configuration of the protocol: member `i` is on host `i`.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// The number of hosts.
    pub hosts: usize,
    /// The number of members, which are on the first hosts.
    pub members: usize,
    /// The number of times that each member takes the lock.
    pub times: u8,
    /// The host of the lock word.
    pub owner: usize,
    /// The host of the word that holders read and write.
    pub data: usize,
    /// How the words are written.
    pub form: Form,
    /// The planted bug.
    pub bug: Bug,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Idle,
    /// Waits for the answer to a swap.
    Swap,
    /// With [`Bug::TornSwap`]: has read the tail, and not yet written it.
    Torn,
    /// Has a place in the queue, with or without a predecessor.
    Placed,
    /// With [`Bug::LockedLate`]: has put the predecessor's `next`, and not yet set `locked`.
    Told,
    Waiting,
    /// From this phase to [`Phase::Leaving`] the member holds the lock.
    Holding,
    /// Waits for the answer to a get.
    Reading,
    Read,
    /// Waits for the fence.
    Fence,
    Leaving,
    /// Waits for the answer to a compare_swap.
    Free,
    /// Waits for `next`.
    Successor,
    Over,
}

/// A place in the queue: the member, and its round (from 1). Round 0 means no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Place {
    member: u8,
    round: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    phase: Phase,
    round: u8,
    /// The predecessor, as returned by the swap.
    before: Place,
    /// The successor; with [`Form::Rounds`], the successor of the round in `next_of`.
    next: Place,
    next_of: u8,
    /// With [`Form::Paper`]: whether to wait. With [`Form::Rounds`]: the granted round.
    locked: u8,
    /// The number of swaps before this member's swap.
    ticket: u8,
    /// Whether a compare_swap has failed in this round.
    failed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Request {
    #[default]
    None,
    Swap,
    CompareSwap,
    /// With [`Bug::TornSwap`]: the second half of a swap.
    SetTail,
    /// Puts `next` of a member, for one of its rounds.
    Next {
        round: u8,
        place: Place,
    },
    Locked(u8),
    Get,
    Put(u8),
}

/// All members, words and channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    members: [Member; MOST],
    tail: Place,
    data: u8,
    swaps: u8,
    entered: u8,
    /// By origin and target.
    requests: [[Fifo<Request, 4>; MOST]; MOST],
    stale: bool,
    unfair: bool,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member takes its next step.
    Step(usize),
    /// A server applies the first request of an origin.
    Apply {
        /// The member that issued the request.
        origin: usize,
        /// The host whose server applies it.
        target: usize,
    },
}

impl Lock {
    /// Creates the correct protocol: one member on each host, the lock on the first host, the data
    /// on the last.
    pub fn new(hosts: usize, times: u8, form: Form) -> Self {
        Lock { hosts, members: hosts, times, owner: 0, data: hosts - 1, form, bug: Bug::None }
    }

    /// Issues a request; a request to the member's own host is applied at once.
    fn issue(self, state: &mut State, origin: usize, target: usize, request: Request) {
        if origin == target {
            self.done(state, origin, target, request);
        } else {
            state.requests[origin][target].push(request);
        }
    }

    /// Applies a request at the server, and the effect of its answer on the member that waits for
    /// it.
    fn done(self, state: &mut State, origin: usize, target: usize, request: Request) {
        let here = Place { member: origin as u8, round: state.members[origin].round };
        match request {
            Request::None => unreachable!("no member issues `None`"),
            Request::Swap => {
                let member = &mut state.members[origin];
                member.before = state.tail;
                if self.bug == Bug::TornSwap {
                    member.phase = Phase::Torn;
                    return;
                }
                state.tail = here;
                member.ticket = state.swaps;
                state.swaps += 1;
                member.phase = Phase::Placed;
            }
            Request::SetTail => {
                state.tail = here;
                state.members[origin].ticket = state.swaps;
                state.swaps += 1;
                state.members[origin].phase = Phase::Placed;
            }
            Request::CompareSwap => {
                let free = state.tail == here;
                if free {
                    state.tail = Place::default();
                    self.leave(state, origin);
                } else {
                    state.members[origin].failed = true;
                    state.members[origin].phase = Phase::Successor;
                    if self.bug == Bug::NoWait {
                        self.leave(state, origin);
                    }
                }
            }
            Request::Next { round, place } => {
                state.members[target].next = place;
                state.members[target].next_of = if self.form == Form::Rounds { round } else { 0 };
            }
            Request::Locked(locked) => state.members[target].locked = locked,
            Request::Get => {
                let member = &mut state.members[origin];
                state.stale |= state.data != member.ticket;
                member.phase = Phase::Read;
            }
            Request::Put(value) => state.data = value,
        }
    }

    fn leave(self, state: &mut State, at: usize) {
        let member = &mut state.members[at];
        member.phase = if member.round == self.times { Phase::Over } else { Phase::Idle };
        member.before = Place::default();
        member.failed = false;
        member.ticket = 0;
    }

    fn has_next(self, member: &Member) -> bool {
        member.next.round > 0 && (self.form == Form::Paper || member.next_of == member.round)
    }

    fn can_step(self, state: &State, at: usize) -> bool {
        let member = &state.members[at];
        let written = || {
            let mut under_way = state.requests[at][self.data].as_slice().iter();
            !under_way.any(|request| matches!(request, Request::Put(_)))
        };
        match member.phase {
            Phase::Swap | Phase::Reading | Phase::Free | Phase::Over => false,
            Phase::Waiting if self.form == Form::Paper => member.locked == 0,
            Phase::Waiting => member.locked == member.round,
            Phase::Fence => matches!(self.bug, Bug::NoFence | Bug::FenceIfNext) || written(),
            Phase::Leaving => self.bug != Bug::FenceIfNext || !self.has_next(member) || written(),
            Phase::Successor => self.has_next(member),
            _ => true,
        }
    }

    fn step(self, state: &mut State, at: usize) {
        let member = &mut state.members[at];
        let here = Place { member: at as u8, round: member.round };
        match member.phase {
            Phase::Idle => {
                member.round += 1;
                member.phase = Phase::Swap;
                if self.form == Form::Paper && self.bug != Bug::NextLate {
                    member.next = Place::default();
                }
                self.issue(state, at, self.owner, Request::Swap);
            }
            Phase::Torn => {
                member.phase = Phase::Swap;
                self.issue(state, at, self.owner, Request::SetTail);
            }
            Phase::Placed => {
                let before = member.before;
                if self.bug == Bug::NextLate {
                    member.next = Place::default();
                }
                if before.round == 0 {
                    self.enter(state, at);
                    return;
                }
                member.phase = Phase::Waiting;
                if self.bug == Bug::LockedLate {
                    member.phase = Phase::Told;
                } else if self.form == Form::Paper {
                    member.locked = 1;
                }
                let request = Request::Next { round: before.round, place: here };
                self.issue(state, at, usize::from(before.member), request);
            }
            Phase::Told => {
                member.locked = 1;
                member.phase = Phase::Waiting;
            }
            Phase::Waiting => self.enter(state, at),
            Phase::Holding => {
                member.phase = Phase::Reading;
                self.issue(state, at, self.data, Request::Get);
            }
            Phase::Read => {
                let value = member.ticket + 1;
                member.phase = Phase::Fence;
                self.issue(state, at, self.data, Request::Put(value));
            }
            Phase::Fence => member.phase = Phase::Leaving,
            Phase::Leaving if !self.has_next(member) => {
                member.phase = Phase::Free;
                self.issue(state, at, self.owner, Request::CompareSwap);
            }
            Phase::Leaving | Phase::Successor => {
                let next = member.next;
                let locked = match self.form {
                    Form::Rounds => next.round,
                    Form::Paper => u8::from(member.failed && self.bug == Bug::LockedSet),
                };
                self.leave(state, at);
                self.issue(state, at, usize::from(next.member), Request::Locked(locked));
            }
            Phase::Swap | Phase::Reading | Phase::Free | Phase::Over => unreachable!("no step"),
        }
    }

    fn enter(self, state: &mut State, at: usize) {
        let member = &mut state.members[at];
        state.unfair |= member.ticket != state.entered;
        state.entered += 1;
        member.phase = Phase::Holding;
    }

    fn over(self, state: &State) -> bool {
        state.members[..self.members].iter().all(|member| member.phase == Phase::Over)
            && state.requests.iter().flatten().all(Fifo::is_empty)
    }
}

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..self.members).filter(|&at| self.can_step(state, at)).map(Action::Step));
        let pairs = (0..self.members)
            .flat_map(|origin| (0..self.hosts).map(move |target| (origin, target)));
        let busy = pairs.filter(|&(origin, target)| !state.requests[origin][target].is_empty());
        actions.extend(busy.map(|(origin, target)| Action::Apply { origin, target }));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = *state;
        match action {
            Action::Step(at) => self.step(&mut state, at),
            Action::Apply { origin, target } => {
                let request = state.requests[origin][target].pop().expect("a request");
                self.done(&mut state, origin, target, request);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("there is one holder", |_: &Self, state: &State| {
                let holds = |member: &&Member| {
                    matches!(
                        member.phase,
                        Phase::Holding
                            | Phase::Reading
                            | Phase::Read
                            | Phase::Fence
                            | Phase::Leaving
                    )
                };
                state.members.iter().filter(holds).count() <= 1
            }),
            Property::always(
                "a holder reads what the one before has written",
                |_: &Self, state: &State| !state.stale,
            ),
            Property::always("first come, first served", |_: &Self, state: &State| !state.unfair),
            Property::always("every run ends", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || model.over(state)
            }),
            Property::sometimes("a run ends", |model: &Self, state: &State| model.over(state)),
            Property::sometimes("a compare_swap fails", |_: &Self, state: &State| {
                state.members.iter().any(|member| member.failed)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{breaks, holds};

    const ONE: &str = "there is one holder";
    const STALE: &str = "a holder reads what the one before has written";
    const ENDS: &str = "every run ends";

    #[test]
    fn it_is_right() {
        for form in [Form::Paper, Form::Rounds] {
            holds(&format!("{form:?}, 3 members, 2 times"), Lock::new(3, 2, form));
            holds(&format!("{form:?}, 4 members, once"), Lock::new(4, 1, form));
            let lock = Lock { data: 0, ..Lock::new(3, 2, form) };
            holds(&format!("{form:?}, 3 members, 2 times, data at the owner's"), lock);
            let lock = Lock { members: 2, owner: 2, ..Lock::new(4, 4, form) };
            holds(&format!("{form:?}, 2 members, 4 times, lock and data on other hosts"), lock);
        }
        holds("Paper, 4 members, 2 times", Lock::new(4, 2, Form::Paper));
    }

    fn planted(form: Form, bug: Bug) -> Lock {
        Lock { bug, ..Lock::new(3, 2, form) }
    }

    #[test]
    fn the_papers_text_of_release_hangs() {
        breaks("locked is set", planted(Form::Paper, Bug::LockedSet), ENDS);
    }

    #[test]
    fn release_without_fence() {
        for form in [Form::Paper, Form::Rounds] {
            for data in [0, 2] {
                let lock = Lock { data, ..planted(form, Bug::NoFence) };
                breaks(&format!("{form:?}, no fence, data on host {data}"), lock, STALE);
            }
            breaks(&format!("{form:?}, fence if next"), planted(form, Bug::FenceIfNext), STALE);
            // With the data on the owner's host, the put and the compare_swap share a queue: the
            // answer to the compare_swap implies that the put has been applied.
            let lock = Lock { data: 0, ..planted(form, Bug::FenceIfNext) };
            holds(&format!("{form:?}, fence if next, data on host 0"), lock);
        }
    }

    #[test]
    fn release_that_does_not_wait() {
        for form in [Form::Paper, Form::Rounds] {
            breaks(&format!("{form:?}, no wait for next"), planted(form, Bug::NoWait), ENDS);
        }
    }

    #[test]
    fn resets_in_the_wrong_order() {
        breaks("locked is set late", planted(Form::Paper, Bug::LockedLate), ENDS);
        breaks("next is cleared late", planted(Form::Paper, Bug::NextLate), ENDS);
    }

    #[test]
    fn a_swap_in_two_steps() {
        for form in [Form::Paper, Form::Rounds] {
            breaks(&format!("{form:?}, torn swap"), planted(form, Bug::TornSwap), ONE);
        }
    }
}

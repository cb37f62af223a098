//! The window of requests under way, and acknowledgements in batches.
//!
//! # Contract
//! A host may have at most `W` requests unacknowledged at another, where all its members' requests stand in one queue.
//! The target's server applies the first of an origin's queue if the gate lets it, and counts, by origin and forever,
//! what it has applied. It acknowledges by that number, to one origin:
//!
//! * when it has applied `W / 2` requests since its last acknowledgement to this origin (at least one),
//! * when what it has applied is a question (or anything else that is answered), which is counted among the rest, and
//! * whenever it likes: with a message of another kind, or after some time.
//!
//! A fence waits until as many are acknowledged as were sent when it was called. If they are not, it asks; unless somebody
//! of its host has asked after the last of them.
//!
//! | property                   | says                                                      |
//! |----------------------------|-----------------------------------------------------------|
//! | the window is kept         | no origin has more than `W` requests that are not applied |
//! | buffers are bounded        | nor the server more than `W` of an origin                 |
//! | a fence means applied      | all that its host had sent when it was called             |
//! | every run ends             | every request is applied, and every fence ends            |
//!
//! *Without a clock.* Acknowledgements of the third kind are a convenience. Every run ends without any ([`Credits::clock`]),
//! and what is said above holds wherever there are some.
//!
//! # Figure: W = 4
//! ```text
//! origin   put put put put ═══> server: apply, apply ──2──> (half of the window)
//!          fence: 4, asks ════>         apply, apply ──4──> (the same)     apply ──5──> (the question)
//!          ends  <────────────────────────────────────
//! ```
//!
//! # Explored
//! | programs                                             | W = 1 | 2      | 3       | 4       |
//! |------------------------------------------------------|-------|--------|---------|---------|
//! | two origins, states                                  | 1 038 | 17 471 | 35 103  | 24 653  |
//! | the same, with acknowledgements at any time, states  | 1 038 | 17 471 | 35 103  | 113 474 |
//! | two members of an origin, and another origin, states | 3 650 | 79 536 | 194 304 | 113 010 |
//!
//! The greatest takes 0.9 s on one core of two, optimised. Beside these, programs at random: up to three members, a
//! window of one to five.
//!
//! | planted                                         | broken, after so many steps                        |
//! |-------------------------------------------------|----------------------------------------------------|
//! | acknowledged on receipt                         | a fence means applied, 10; window, 11; buffers, 12 |
//! | nobody asks                                     | every run ends, 43                                 |
//! | a question stands for what is sent after it     | every run ends, 13                                 |
//! | no acknowledgement of half a window             | every run ends, 32                                 |
//! | increments, with a batch that is not begun anew | a fence means applied, 17; window, 30; buffers, 30 |

use stateright::{Model, Property};

use crate::fifo::Fifo;

/// As many origins as there may be.
pub const ORIGINS: usize = 3;
/// As many members as there may be.
pub const MEMBERS: usize = 3;

/// What a member does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sends a request, when there is room.
    Put,
    /// Waits until all that its host has sent is acknowledged.
    Fence,
    /// Leaves a sync; so what follows is newer than the target until that has completed as many.
    Sync,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// How many requests have been applied, ever.
    Applied,
    /// Planted: how many have been received.
    Received,
    /// How many have been applied since the last one.
    More,
    /// Planted: the same, but the answer to a question forgets to begin a new batch.
    MoreTwice,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A fence that waits for more than what the last question was sent after.
    Since,
    /// Planted: the same, unless it finds any question under way.
    Unless,
    /// Planted: nobody.
    Never,
}

/// The protocol, and a program for each member.
#[derive(Clone, Debug)]
pub struct Credits {
    /// `W`.
    pub window: u8,
    /// What an acknowledgement says.
    pub acks: Acks,
    /// Who asks for one.
    pub asks: Asks,
    /// One comes with every half of a window; if not, that is planted.
    pub halves: bool,
    /// One may come at any time.
    pub clock: bool,
    /// The origin that each member belongs to, and what it does.
    pub programs: Vec<(usize, Vec<Op>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    next: u8,
    left: u8,
    /// How many must be acknowledged for the fence that it waits in, and whether it may ask.
    until: Option<(u8, bool)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Request {
    /// The syncs that its sender had left.
    left: u8,
    asks: bool,
}

/// An origin, its channels, and what the server has of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Origin {
    sent: u8,
    acknowledged: u8,
    /// The number of the last question.
    asked: u8,
    /// Requests on their way.
    requests: Fifo<Request, 12>,
    acks: Fifo<u8, 12>,
    /// Requests that the server has received.
    queue: Fifo<Request, 12>,
    received: u8,
    applied: u8,
    since: u8,
}

/// All members, origins and the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    members: [Member; MEMBERS],
    origins: [Origin; ORIGINS],
    completed: u8,
    broken: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member goes on.
    Step(usize),
    /// The server receives a request.
    Receive(usize),
    /// It applies one, and acknowledges if it is time.
    Apply(usize),
    /// It acknowledges because it likes to.
    Tell(usize),
    /// An acknowledgement arrives.
    Acknowledged(usize),
    /// The target completes an epoch, whenever it likes: the gate lets requests go.
    Complete,
}

impl Credits {
    /// The right one.
    pub fn new(window: u8, programs: Vec<(usize, Vec<Op>)>) -> Self {
        assert!(programs.len() <= MEMBERS && programs.iter().all(|(origin, _)| *origin < ORIGINS));
        Credits {
            window,
            acks: Acks::Applied,
            asks: Asks::Since,
            halves: true,
            clock: false,
            programs,
        }
    }

    fn op(&self, state: &State, member: usize) -> Option<Op> {
        self.programs[member].1.get(usize::from(state.members[member].next)).copied()
    }

    fn room(&self, origin: &Origin) -> bool {
        i16::from(origin.sent) - i16::from(origin.acknowledged) < i16::from(self.window)
    }

    fn can_step(&self, state: &State, member: usize) -> bool {
        let origin = &state.origins[self.programs[member].0];
        match (self.op(state, member), state.members[member].until) {
            (None, _) => false,
            (Some(Op::Put), _) => self.room(origin),
            (Some(Op::Fence), Some((until, asks))) => {
                origin.acknowledged >= until || asks && origin.asked < until && self.room(origin)
            }
            (Some(Op::Fence | Op::Sync), _) => true,
        }
    }

    fn step(&self, state: &mut State, at: usize) {
        let (member, origin) = (&mut state.members[at], &mut state.origins[self.programs[at].0]);
        match (self.programs[at].1[usize::from(member.next)], member.until) {
            (Op::Put, _) => {
                origin.sent += 1;
                origin.requests.push(Request { left: member.left, asks: false });
            }
            (Op::Sync, _) => member.left += 1,
            (Op::Fence, None) => {
                let asks = match self.asks {
                    Asks::Since => true,
                    Asks::Unless => origin.asked <= origin.acknowledged,
                    Asks::Never => false,
                };
                member.until = Some((origin.sent, asks));
                return;
            }
            (Op::Fence, Some((until, _))) if origin.acknowledged < until => {
                origin.sent += 1;
                origin.asked = origin.sent;
                origin.requests.push(Request { left: member.left, asks: true });
                return;
            }
            (Op::Fence, Some((until, _))) => {
                member.until = None;
                state.broken |= origin.applied < until;
            }
        }
        member.next += 1;
    }

    /// Whether the first of a queue may be applied.
    fn ready(state: &State, origin: usize) -> bool {
        state.origins[origin].queue.head().is_some_and(|request| request.left <= state.completed)
    }

    fn apply(&self, state: &mut State, at: usize) {
        let origin = &mut state.origins[at];
        let asks = origin.queue.pop().is_some_and(|request| request.asks);
        origin.applied += 1;
        origin.since += 1;
        if asks || self.halves && origin.since >= (self.window / 2).max(1) {
            self.acknowledge(origin, asks);
        }
    }

    fn acknowledge(&self, origin: &mut Origin, asked: bool) {
        origin.acks.push(match self.acks {
            Acks::Applied => origin.applied,
            Acks::Received => origin.received,
            Acks::More | Acks::MoreTwice => origin.since,
        });
        if self.acks != Acks::MoreTwice || !asked {
            origin.since = 0;
        }
    }

    fn over(&self, state: &State) -> bool {
        let idle = |origin: &Origin| {
            origin.requests.is_empty() && origin.queue.is_empty() && origin.acks.is_empty()
        };
        (0..self.programs.len()).all(|member| self.op(state, member).is_none())
            && state.origins.iter().all(idle)
    }
}

impl Model for Credits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(
            (0..self.programs.len()).filter(|&at| self.can_step(state, at)).map(Action::Step),
        );
        for (at, origin) in state.origins.iter().enumerate() {
            if !origin.requests.is_empty() {
                actions.push(Action::Receive(at));
            }
            if Self::ready(state, at) {
                actions.push(Action::Apply(at));
            }
            if self.clock && origin.since > 0 {
                actions.push(Action::Tell(at));
            }
            if !origin.acks.is_empty() {
                actions.push(Action::Acknowledged(at));
            }
        }
        if state.members.iter().any(|member| member.left > state.completed) {
            actions.push(Action::Complete);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = *state;
        match action {
            Action::Step(at) => self.step(&mut state, at),
            Action::Receive(at) => {
                let origin = &mut state.origins[at];
                let request = origin.requests.pop().expect("a request");
                origin.queue.push(request);
                origin.received += 1;
                // So that an acknowledgement on receipt has its chance as well as one on application.
                if self.acks == Acks::Received {
                    origin.acks.push(origin.received);
                }
            }
            Action::Apply(at) => self.apply(&mut state, at),
            Action::Tell(at) => self.acknowledge(&mut state.origins[at], false),
            Action::Acknowledged(at) => {
                let origin = &mut state.origins[at];
                let ack = origin.acks.pop().expect("an acknowledgement");
                origin.acknowledged = match self.acks {
                    Acks::Applied | Acks::Received => origin.acknowledged.max(ack),
                    Acks::More | Acks::MoreTwice => origin.acknowledged + ack,
                };
            }
            Action::Complete => state.completed += 1,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the window is kept", |model: &Self, state: &State| {
                state.origins.iter().all(|origin| origin.sent - origin.applied <= model.window)
            }),
            Property::always("buffers are bounded", |model: &Self, state: &State| {
                state.origins.iter().all(|origin| origin.queue.len() <= usize::from(model.window))
            }),
            Property::always("a fence means applied", |_: &Self, state: &State| !state.broken),
            Property::always("every run ends", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || model.over(state)
            }),
            Property::sometimes("a run ends", |model: &Self, state: &State| model.over(state)),
            Property::sometimes("the window is full", |model: &Self, state: &State| {
                state.origins.iter().any(|origin| {
                    origin.sent - origin.acknowledged.min(origin.sent) == model.window
                })
            }),
            Property::sometimes("a request is held back", |_: &Self, state: &State| {
                (0..ORIGINS)
                    .any(|at| !state.origins[at].queue.is_empty() && !Self::ready(state, at))
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use Op::{Fence, Put, Sync};

    use proptest::prelude::*;

    use super::*;
    use crate::explore::{breaks, holds, safe};

    const WINDOW: &str = "the window is kept";
    const BUFFERS: &str = "buffers are bounded";
    const FENCE: &str = "a fence means applied";
    const ENDS: &str = "every run ends";

    /// Two origins of one member each.
    fn two(window: u8) -> Credits {
        Credits::new(
            window,
            vec![
                (0, vec![Put, Put, Put, Put, Fence, Sync, Put, Put, Put, Fence]),
                (1, vec![Sync, Put, Put, Fence, Put, Fence]),
            ],
        )
    }

    /// Two members of one origin, of which one fences while the other goes on; and another origin.
    fn shared(window: u8) -> Credits {
        Credits::new(
            window,
            vec![
                (0, vec![Put, Fence, Sync, Put, Fence]),
                (0, vec![Put, Put, Sync, Put, Put]),
                (1, vec![Put, Fence]),
            ],
        )
    }

    #[test]
    fn it_is_right() {
        for window in 1..=4 {
            holds(&format!("two origins, W = {window}"), two(window));
            holds(&format!("two members of an origin, W = {window}"), shared(window));
            holds(&format!("at any time, W = {window}"), Credits { clock: true, ..two(window) });
        }
    }

    #[test]
    fn increments_are_right_too() {
        holds("increments, W = 2", Credits { acks: Acks::More, ..two(2) });
    }

    #[test]
    fn acknowledged_on_receipt() {
        breaks("on receipt", Credits { acks: Acks::Received, ..two(3) }, FENCE);
        breaks("on receipt", Credits { acks: Acks::Received, ..two(3) }, WINDOW);
        breaks("on receipt", Credits { acks: Acks::Received, ..two(2) }, BUFFERS);
    }

    #[test]
    fn a_credit_that_is_returned_twice() {
        breaks("twice", Credits { acks: Acks::MoreTwice, ..shared(4) }, FENCE);
        let stream = Credits::new(4, vec![(0, [vec![Put, Fence], vec![Put; 8]].concat())]);
        breaks("twice", Credits { acks: Acks::MoreTwice, ..stream.clone() }, WINDOW);
        breaks("twice", Credits { acks: Acks::MoreTwice, ..stream }, BUFFERS);
    }

    #[test]
    fn acknowledgements_that_nobody_asks_for() {
        breaks("nobody asks", Credits { asks: Asks::Never, ..two(4) }, ENDS);
        let both = Credits::new(4, vec![(0, vec![Put, Fence]), (0, vec![Put, Fence])]);
        breaks("a question for all that comes", Credits { asks: Asks::Unless, ..both }, ENDS);
        breaks("no halves", Credits { halves: false, ..two(3) }, ENDS);
    }

    proptest! {
        #[test]
        fn any_small_programs_are_right(
            window in 1u8..=5,
            shared in any::<bool>(),
            clock in any::<bool>(),
            programs in prop::collection::vec(prop::collection::vec(0..4usize, 0..5), 1..=3),
        ) {
            let op = |kind: usize| [Put, Put, Fence, Sync][kind];
            let program = |(at, ops): (usize, Vec<usize>)| {
                (at.saturating_sub(usize::from(shared)), ops.into_iter().map(op).collect())
            };
            let right = Credits::new(window, programs.into_iter().enumerate().map(program).collect());
            let safe = safe(Credits { clock, ..right });
            prop_assert!(safe.is_ok(), "{}", safe.unwrap_err());
        }
    }
}

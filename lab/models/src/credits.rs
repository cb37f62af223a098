//! The window of requests in flight, and acknowledgements in batches.
//!
//! # Contract
//! A host may have at most `W` unacknowledged requests to another host; the requests of all its
//! members share one queue. The target's server applies the first request of an origin's queue when
//! the gate admits it. For each origin it counts the requests that it has ever applied, and sends
//! that count as the acknowledgement to this origin:
//!
//! * when it has applied `W / 2` requests (at least one) since its last acknowledgement to this
//!   origin,
//! * when it has applied a question, or another request that has an answer; such requests count
//!   like the others, and
//! * at any other time, with a message of another kind or after a delay.
//!
//! A fence waits until the requests sent before its call are acknowledged. If they are not, it
//! sends a question, unless a member of its host has sent a question after the last of them.
//!
//! | property              | meaning                                                     |
//! |-----------------------|-------------------------------------------------------------|
//! | the window is kept    | an origin has at most `W` requests that are not applied     |
//! | buffers are bounded   | the server buffers at most `W` requests of an origin        |
//! | a fence means applied | the requests that its host sent before its call are applied |
//! | every run ends        | every request is applied, and every fence returns           |
//!
//! *Without a clock.* Acknowledgements of the third kind are optional: every run ends without them
//! ([`Credits::clock`]), and the properties hold with any number of them.
//!
//! # Figure: W = 4
//! ```text
//! origin   put put put put ═══> server: apply, apply ──2──> (half of the window)
//!          fence: 4, asks ════>         apply, apply ──4──> (the same)   apply ──5──> (asked)
//!          returns <────────────────────────────────────
//! ```
//!
//! # Explored
//! | programs                                             | W = 1 | 2      | 3       | 4       |
//! |------------------------------------------------------|-------|--------|---------|---------|
//! | two origins, states                                  | 1 038 | 17 471 | 35 103  | 24 653  |
//! | the same, with acknowledgements at any time, states  | 1 038 | 17 471 | 35 103  | 113 474 |
//! | two members of an origin, and another origin, states | 3 650 | 79 536 | 194 304 | 113 010 |
//!
//! The largest takes 0.9 s on one core of two, optimised. Random programs are explored as well: up
//! to three members, a window of one to five.
//!
//! | planted bug                           | broken property, after how many steps              |
//! |---------------------------------------|----------------------------------------------------|
//! | acknowledged on receipt               | a fence means applied, 10; window, 11; buffers, 12 |
//! | no fence asks                         | every run ends, 43                                 |
//! | a question covers later requests      | every run ends, 13                                 |
//! | no acknowledgement for half a window  | every run ends, 32                                 |
//! | increments, a batch that is not reset | a fence means applied, 17; window, 30; buffers, 30 |

use stateright::{Model, Property};

use crate::fifo::Fifo;

/// The largest number of origins.
pub const ORIGINS: usize = 3;
/// The largest number of members.
pub const MEMBERS: usize = 3;

/// An operation of a member's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sends a request, when the window has room.
    Put,
    /// Waits until all requests that its host has sent are acknowledged.
    Fence,
    /// Leaves a sync: the gate holds the member's later requests until the target has completed as
    /// many syncs.
    Sync,
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The number of requests ever applied.
    Applied,
    /// Planted bug: the number of requests received.
    Received,
    /// The number of requests applied since the last acknowledgement.
    More,
    /// Planted bug: like `More`, but the answer to a question does not start a new batch.
    MoreTwice,
}

/// Which fences send a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A fence that waits for a request sent after the last question.
    Since,
    /// Planted bug: like `Since`, unless any question is in flight when the fence begins.
    Unless,
    /// Planted bug: no fence does.
    Never,
}

/// The configuration of the protocol, and a program for each member.
#[derive(Clone, Debug)]
pub struct Credits {
    /// The window `W`, in requests.
    pub window: u8,
    /// The content of an acknowledgement.
    pub acks: Acks,
    /// Which fences ask for an acknowledgement.
    pub asks: Asks,
    /// Whether the server acknowledges every half of a window; `false` is a planted bug.
    pub halves: bool,
    /// Whether the server may acknowledge at any time.
    pub clock: bool,
    /// The origin of each member, and its program.
    pub programs: Vec<(usize, Vec<Op>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    next: u8,
    left: u8,
    /// During a fence: the number of requests that must be acknowledged, and whether it may ask.
    until: Option<(u8, bool)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Request {
    /// The number of syncs that the sender had left.
    left: u8,
    asks: bool,
}

/// An origin, its channels, and the server's state for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Origin {
    sent: u8,
    acknowledged: u8,
    /// The number of requests sent up to and including the last question.
    asked: u8,
    /// Requests in flight.
    requests: Fifo<Request, 12>,
    acks: Fifo<u8, 12>,
    /// Requests received by the server, not yet applied.
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

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member takes its next step.
    Step(usize),
    /// The server receives a request of an origin.
    Receive(usize),
    /// The server applies a request of an origin, and acknowledges if one is due.
    Apply(usize),
    /// The server acknowledges at a time of its choice.
    Tell(usize),
    /// An acknowledgement arrives at an origin.
    Acknowledged(usize),
    /// The target completes an epoch, at any time: the gate admits more requests.
    Complete,
}

impl Credits {
    /// Creates the correct protocol.
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

    /// Returns whether the gate admits the first request of an origin's queue.
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
                // Acknowledges on receipt in addition to the acknowledgements on application.
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
    use syncline_testkit::property;

    use super::*;
    use crate::explore::{breaks, holds, safe};

    const WINDOW: &str = "the window is kept";
    const BUFFERS: &str = "buffers are bounded";
    const FENCE: &str = "a fence means applied";
    const ENDS: &str = "every run ends";

    /// Returns two origins of one member each.
    fn two(window: u8) -> Credits {
        Credits::new(
            window,
            vec![
                (0, vec![Put, Put, Put, Put, Fence, Sync, Put, Put, Put, Fence]),
                (1, vec![Sync, Put, Put, Fence, Put, Fence]),
            ],
        )
    }

    /// Returns an origin with two members, one of which fences while the other continues, and a
    /// second origin.
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
        breaks("no fence asks", Credits { asks: Asks::Never, ..two(4) }, ENDS);
        let both = Credits::new(4, vec![(0, vec![Put, Fence]), (0, vec![Put, Fence])]);
        breaks("a question for all that comes", Credits { asks: Asks::Unless, ..both }, ENDS);
        breaks("no halves", Credits { halves: false, ..two(3) }, ENDS);
    }

    proptest! {
        #![proptest_config(property(256))]

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

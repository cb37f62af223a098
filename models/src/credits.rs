//! The window of requests under way, and acknowledgements in batches.
//!
//! # Contract
//! A host may have at most `W` requests unacknowledged at another, where all its members' requests stand in one queue.
//! The target's server applies the first of an origin's queue if the gate lets it, and counts, by origin and forever,
//! what it has applied. It acknowledges by that number, to one origin:
//!
//! * when it has applied `W / 2` requests since its last acknowledgement to this origin (at least one), or
//! * when, after it has applied one, nothing more of this origin can be applied: its queue is empty, or its first is held back.
//!
//! A fence waits until as many are acknowledged as were sent when it was called.
//!
//! | property                   | says                                                         |
//! |----------------------------|--------------------------------------------------------------|
//! | the window is kept         | no origin has more than `W` requests that are not applied    |
//! | buffers are bounded        | nor the server more than `W` of an origin                    |
//! | a fence means applied      | all that its host had sent when it was called                |
//! | what rests is acknowledged | if nothing of an origin can be applied, all that was is told |
//! | every run ends             | every request is applied, and every fence ends               |
//!
//! *By origin.* A server that acknowledges when its queues are *all* empty ([`Drain::All`]) ends every run of a model,
//! as programs there end. But an origin that waits for one acknowledgement then waits as long as others keep the server
//! busy, and those get theirs by halves of their windows: forever, if they go on. "What rests is acknowledged" is what
//! forbids that.
//!
//! # Figure: W = 4
//! ```text
//! origin   put put put ═══> server: apply, apply ──2──> (half of the window)
//!          fence: 3                 apply        ──3──> (nothing left to apply)
//!          ends  <──────────────────────────────────
//! ```
//!
//! # Explored
//! | programs                                             | W = 1 | 2      | 3      | 4      |
//! |------------------------------------------------------|-------|--------|--------|--------|
//! | two origins, states                                  | 1 103 | 4 798  | 8 720  | 15 105 |
//! | two members of an origin, and another origin, states | 3 810 | 11 970 | 26 300 | 53 890 |
//!
//! The greatest takes 0.2 s on one core of two, optimised. Beside these, programs at random: up to three members, a
//! window of one to five.
//!
//! | planted                                               | broken, after so many steps                        |
//! |-------------------------------------------------------|----------------------------------------------------|
//! | acknowledged on receipt                               | a fence means applied, 10; window, 11; buffers, 11 |
//! | no acknowledgement when nothing is left to apply      | every run ends, 43                                 |
//! | the same, only after what the gate has let go         | every run ends, 45                                 |
//! | acknowledged when nothing of anybody is left to apply | what rests is acknowledged, 12                     |
//! | increments, with a batch that is not begun anew       | a fence means applied, 11                          |

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
    /// Planted: the same, but one that is sent for want of work forgets to begin a new batch.
    MoreTwice,
}

/// When it is sent, beside every half of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// When nothing more of its origin can be applied.
    Own,
    /// Planted: when nothing more of anybody can be applied.
    All,
    /// Planted: never.
    Never,
    /// Planted: as [`Drain::Own`], but after requests that have come, not after those that the gate has let go.
    Arrivals,
}

/// The protocol, and a program for each member.
#[derive(Clone, Debug)]
pub struct Credits {
    /// `W`.
    pub window: u8,
    /// What an acknowledgement says.
    pub acks: Acks,
    /// When it is sent.
    pub drain: Drain,
    /// The origin that each member belongs to, and what it does.
    pub programs: Vec<(usize, Vec<Op>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    next: u8,
    left: u8,
    /// How many must be acknowledged for the fence that it waits in.
    until: Option<u8>,
}

/// An origin, its channels, and what the server has of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Origin {
    sent: u8,
    acknowledged: u8,
    /// Requests on their way; each is the number of syncs that its sender had left.
    requests: Fifo<u8, 12>,
    acks: Fifo<u8, 12>,
    /// Requests that the server has received.
    queue: Fifo<u8, 12>,
    received: u8,
    applied: u8,
    since: u8,
    /// Of the queue, how many the gate has let go at once.
    released: u8,
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
    /// An acknowledgement arrives.
    Acknowledged(usize),
    /// The target completes an epoch, whenever it likes: the gate lets requests go.
    Complete,
}

impl Credits {
    /// The right one.
    pub fn new(window: u8, programs: Vec<(usize, Vec<Op>)>) -> Self {
        assert!(programs.len() <= MEMBERS && programs.iter().all(|(origin, _)| *origin < ORIGINS));
        Credits { window, acks: Acks::Applied, drain: Drain::Own, programs }
    }

    fn op(&self, state: &State, member: usize) -> Option<Op> {
        self.programs[member].1.get(usize::from(state.members[member].next)).copied()
    }

    fn can_step(&self, state: &State, member: usize) -> bool {
        let origin = &state.origins[self.programs[member].0];
        match (self.op(state, member), state.members[member].until) {
            (None, _) => false,
            (Some(Op::Put), _) => {
                i16::from(origin.sent) - i16::from(origin.acknowledged) < i16::from(self.window)
            }
            (Some(Op::Fence), Some(until)) => origin.acknowledged >= until,
            (Some(Op::Fence | Op::Sync), _) => true,
        }
    }

    fn step(&self, state: &mut State, at: usize) {
        let (member, origin) = (&mut state.members[at], &mut state.origins[self.programs[at].0]);
        match self.programs[at].1[usize::from(member.next)] {
            Op::Put => {
                origin.sent += 1;
                origin.requests.push(member.left);
            }
            Op::Sync => member.left += 1,
            Op::Fence => {
                let Some(until) = member.until.take() else {
                    member.until = Some(origin.sent);
                    return;
                };
                state.broken |= origin.applied < until;
            }
        }
        member.next += 1;
    }

    /// Whether the first of a queue may be applied.
    fn ready(state: &State, origin: usize) -> bool {
        state.origins[origin].queue.head().is_some_and(|left| left <= state.completed)
    }

    fn apply(&self, state: &mut State, at: usize) {
        let origin = &mut state.origins[at];
        origin.queue.pop();
        origin.applied += 1;
        origin.since += 1;
        let late = origin.released > 0;
        origin.released = origin.released.saturating_sub(1);
        if origin.since >= (self.window / 2).max(1) {
            self.acknowledge(origin, false);
        }
        let rests = match self.drain {
            Drain::Never => false,
            Drain::Own => !Self::ready(state, at),
            Drain::Arrivals => !late && !Self::ready(state, at),
            Drain::All => (0..ORIGINS).all(|origin| !Self::ready(state, origin)),
        };
        if rests {
            let whom = if self.drain == Drain::All { 0..ORIGINS } else { at..at + 1 };
            state.origins[whom]
                .iter_mut()
                .filter(|origin| origin.since > 0)
                .for_each(|origin| self.acknowledge(origin, true));
        }
    }

    fn acknowledge(&self, origin: &mut Origin, rests: bool) {
        origin.acks.push(match self.acks {
            Acks::Applied => origin.applied,
            Acks::Received => origin.received,
            Acks::More | Acks::MoreTwice => origin.since,
        });
        if self.acks != Acks::MoreTwice || !rests {
            origin.since = 0;
        }
    }

    fn over(&self, state: &State) -> bool {
        let idle =
            |origin: &Origin| origin.requests.is_empty() && origin.queue.is_empty() && origin.acks.is_empty();
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
        actions.extend((0..self.programs.len()).filter(|&at| self.can_step(state, at)).map(Action::Step));
        for (at, origin) in state.origins.iter().enumerate() {
            if !origin.requests.is_empty() {
                actions.push(Action::Receive(at));
            }
            if Self::ready(state, at) {
                actions.push(Action::Apply(at));
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
            Action::Acknowledged(at) => {
                let origin = &mut state.origins[at];
                let ack = origin.acks.pop().expect("an acknowledgement");
                origin.acknowledged = match self.acks {
                    Acks::Applied | Acks::Received => origin.acknowledged.max(ack),
                    Acks::More | Acks::MoreTwice => origin.acknowledged + ack,
                };
            }
            Action::Complete => {
                let completed = state.completed;
                for origin in &mut state.origins {
                    if origin.queue.head().is_some_and(|left| left > completed) {
                        let held = origin.queue.as_slice().iter();
                        origin.released = held.take_while(|&&left| left <= completed + 1).count() as u8;
                    }
                }
                state.completed += 1;
            }
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
            Property::always("what rests is acknowledged", |_: &Self, state: &State| {
                (0..ORIGINS).all(|at| state.origins[at].since == 0 || Self::ready(state, at))
            }),
            Property::always("every run ends", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || model.over(state)
            }),
            Property::sometimes("a run ends", |model: &Self, state: &State| model.over(state)),
            Property::sometimes("the window is full", |model: &Self, state: &State| {
                state
                    .origins
                    .iter()
                    .any(|origin| origin.sent - origin.acknowledged.min(origin.sent) == model.window)
            }),
            Property::sometimes("a request is held back", |_: &Self, state: &State| {
                (0..ORIGINS).any(|at| !state.origins[at].queue.is_empty() && !Self::ready(state, at))
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
    const RESTS: &str = "what rests is acknowledged";
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
        breaks("twice", Credits { acks: Acks::MoreTwice, ..two(4) }, FENCE);
        let stream = Credits::new(4, vec![(0, vec![Put; 8])]);
        breaks("twice", Credits { acks: Acks::MoreTwice, ..stream.clone() }, WINDOW);
        breaks("twice", Credits { acks: Acks::MoreTwice, ..stream }, BUFFERS);
    }

    #[test]
    fn no_acknowledgement_for_want_of_work() {
        breaks("never", Credits { drain: Drain::Never, ..two(4) }, ENDS);
        breaks("not after the gate", Credits { drain: Drain::Arrivals, ..two(4) }, ENDS);
        breaks("when all rest", Credits { drain: Drain::All, ..two(4) }, RESTS);
    }

    proptest! {
        #[test]
        fn any_small_programs_are_right(
            window in 1u8..=5,
            shared in any::<bool>(),
            programs in prop::collection::vec(prop::collection::vec(0..4usize, 0..5), 1..=3),
        ) {
            let op = |kind: usize| [Put, Put, Fence, Sync][kind];
            let program = |(at, ops): (usize, Vec<usize>)| {
                (at.saturating_sub(usize::from(shared)), ops.into_iter().map(op).collect())
            };
            let safe = safe(Credits::new(window, programs.into_iter().enumerate().map(program).collect()));
            prop_assert!(safe.is_ok(), "{}", safe.unwrap_err());
        }
    }
}

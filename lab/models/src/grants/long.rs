//! Data that go by themselves: the messages of a release announce them, and they move later.
//!
//! # State of a move
//! ```text
//!                        ┌─> sent ──────────┐
//!   announced ──> taken ─┤                  ├─> over
//!                        └─> landed ────────┘
//!                            if the release has been received
//! ```
//! The value is taken from the slot of the writer if it *stays* (see [`Plan`](super::Plan)), or
//! else from a copy that was made at the release. From the release until it is sent, nothing may
//! write that slot. A task ends its next round only when its data that stay have been sent.

use super::rules::Bug;
use super::state::State;
use super::{Grants, has};

/// A move of the data of one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// The writer, and the round of its release.
    pub task: u8,
    /// The round.
    pub round: u8,
    /// The destination.
    pub to: u8,
    /// The location.
    pub location: u8,
    /// Whether the value is in the slot of the writer until it is taken.
    pub stays: bool,
    /// The value, once it is taken or copied.
    pub value: Option<u8>,
    /// Whether it has left its place.
    pub sent: bool,
    /// Whether it is in the slot of the receiver.
    pub landed: bool,
}

/// A step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The network takes the value.
    Take,
    /// The sender learns that the value has been taken.
    Send,
    /// The value lands.
    Land,
}

impl Grants {
    /// Whether data of a location go by themselves.
    pub(super) fn is_long(&self, location: usize) -> bool {
        has(self.rules.long, location)
    }

    /// Lists the steps that moves can take.
    pub(super) fn list_moves(&self, state: &State) -> impl Iterator<Item = (usize, Step)> {
        let moves = state.moves.iter().enumerate();
        let all = moves.flat_map(|(at, this)| {
            let heard = state.hosts[usize::from(this.to)].heard[usize::from(this.task)];
            let taken = this.value.is_some();
            [
                (!taken, Step::Take),
                (taken && !this.sent, Step::Send),
                (taken && !this.landed && heard > this.round, Step::Land),
            ]
            .map(|(may, step)| may.then_some((at, step)))
        });
        all.flatten().collect::<Vec<_>>().into_iter()
    }

    /// Takes a step of a move.
    pub(super) fn take_move(&self, state: &mut State, at: usize, step: Step) {
        let Move { task, round, to, location, value, .. } = state.moves[at];
        let (task, to, location) = (usize::from(task), usize::from(to), usize::from(location));
        match step {
            Step::Take => {
                let mut uses = self.plan.uses[task].iter();
                let using = *uses.find(|using| using.location == location).expect("its use");
                let value = *self.cell(state, task, &using, round);
                state.moves[at].value = Some(value);
            }
            Step::Send => state.moves[at].sent = true,
            Step::Land => {
                let mut deliveries = self.plan.deliveries[task].iter();
                let delivery = deliveries.find(|it| it.to == to && it.location == location);
                let delivery = *delivery.expect("its delivery");
                self.fill(state, &delivery, round, value.expect("a value"));
                state.moves[at].landed = true;
                self.settle(state, to, task);
                let left = |other: &Move| self.is_to(other, to, task) && other.round == round;
                if self.rules.bug == Bug::RaisedOutOfTurn && !state.moves.iter().any(left) {
                    let word = &mut state.hosts[to].words[task];
                    *word = (*word).max(round + 1);
                }
            }
        }
        let Move { sent, landed, .. } = state.moves[at];
        if sent && landed {
            state.moves.remove(at);
        }
    }

    /// Whether a move is to a host, of the data of a task, and has not landed.
    fn is_to(&self, this: &Move, to: usize, task: usize) -> bool {
        usize::from(this.to) == to && usize::from(this.task) == task && !this.landed
    }

    /// Raises the mirror of a task as far as its releases have been received, and all data of them
    /// have landed.
    pub(super) fn settle(&self, state: &mut State, at: usize, task: usize) {
        let moves = state.moves.iter().filter(|this| self.is_to(this, at, task));
        let landed = match self.rules.bug {
            Bug::RaisedUnlanded => None,
            _ => moves.map(|this| this.round).min(),
        };
        let host = &mut state.hosts[at];
        let word = host.heard[task].min(landed.unwrap_or(u8::MAX));
        host.words[task] = host.words[task].max(word);
    }

    /// Whether data are leaving a slot.
    pub(super) fn is_leaving(
        &self,
        state: &State,
        host: usize,
        location: usize,
        slot: usize,
    ) -> bool {
        let leaving = |this: &&Move| {
            let task = usize::from(this.task);
            this.stays
                && !this.sent
                && usize::from(this.location) == location
                && self.overlay.homes[task] == host
        };
        state.moves.iter().filter(leaving).any(|this| {
            let mut uses = self.plan.uses[usize::from(this.task)].iter();
            let using = uses.find(|using| using.location == location).expect("its use");
            self.slot(using, this.round) == slot
        })
    }

    /// Whether a task must wait, before it releases, until its data have been sent.
    pub(super) fn waits_for_sent(&self, state: &State, task: usize) -> bool {
        let own = |this: &Move| usize::from(this.task) == task && this.stays && !this.sent;
        self.rules.bug != Bug::NotSent && state.moves.iter().any(own)
    }
}

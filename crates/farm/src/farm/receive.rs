//! The receiving half of a farm: from one process or from any, and discovery of channels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_process::watch::Ending;
use syncline_signal::primitive::Ordering;
use syncline_signal::{Liveness, Policy};
use syncline_trace::span;

use super::{Farm, Inbound, Role, traced};
use crate::arena::{Arena, Slots};
use crate::channel::{BLOCK, Body, LEN, Reader};
use crate::error::FarmError;
use crate::message::{Message, MessageKind};
use crate::record::{ExitCause, ProcessState};
use crate::vpid::Vpid;
use crate::wire::{Wire, WireError};

/// The contents of a slot.
enum Read<T> {
    /// A value that was decoded in the slot.
    Value(Result<T, WireError>),
    /// Any other message.
    Message(Body),
}

impl Farm {
    /// Receives the next value from a process. Blocks until there is one.
    ///
    /// # Errors
    /// [`FarmError::Gone`] if the process has ended and all its messages were received;
    /// [`FarmError::Garbled`] if the message is not a `T`: then that message is lost;
    /// [`FarmError::Itself`] if `from` is this process, and it has sent itself nothing.
    #[inline]
    pub fn recv<T: Wire>(&mut self, from: Vpid) -> Result<T, FarmError> {
        self.recv_deadline(from, None)
    }

    /// Like [`recv`](Self::recv), with a deadline.
    ///
    /// # Errors
    /// [`FarmError::TimedOut`]: a later message can still be received.
    #[inline]
    pub fn recv_deadline<T: Wire>(
        &mut self,
        from: Vpid,
        deadline: Option<Instant>,
    ) -> Result<T, FarmError> {
        self.recv_with(from, deadline, |farm| farm.take_value(from))
    }

    /// Receives the next message from a process, of any kind.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn recv_message(&mut self, from: Vpid) -> Result<Message, FarmError> {
        self.recv_message_deadline(from, None)
    }

    /// Like [`recv_message`](Self::recv_message), with a deadline.
    ///
    /// # Errors
    /// Those of [`recv_deadline`](Self::recv_deadline).
    #[inline]
    pub fn recv_message_deadline(
        &mut self,
        from: Vpid,
        deadline: Option<Instant>,
    ) -> Result<Message, FarmError> {
        self.recv_with(from, deadline, |farm| farm.take(from))
    }

    /// Blocks until `take` returns something from a process.
    #[inline]
    fn recv_with<X>(
        &mut self,
        from: Vpid,
        deadline: Option<Instant>,
        mut take: impl FnMut(&mut Farm) -> Result<Option<X>, FarmError>,
    ) -> Result<X, FarmError> {
        self.known(from)?;
        if self.life(from) != ProcessState::Ended
            && let Some(taken) = take(self)?
        {
            return Ok(taken);
        }
        if deadline.is_none() {
            self.is_another(from, "wait for a message from itself")?;
        }
        let (arena, fault_list) = (Arc::clone(&self.arena), self.role.fault_list());
        let policy = Policy {
            liveness: fault_list.as_ref().map(|fault_list| fault_list as &dyn Liveness),
            ..self.policy_for(from)
        };
        let _waits = span(self.awaits, traced(from), 0);
        let events = &arena.record(self.me.place()).events;
        let came = events.wait_for(&policy, deadline, || match take(self)? {
            Some(taken) => Ok(Some(taken)),
            // All messages that it sent before its end are there by now.
            None if self.life(from) == ProcessState::Ended => match take(self)? {
                Some(taken) => Ok(Some(taken)),
                None => Err(self.end_error(from)),
            },
            None => Ok(None),
        })?;
        came.ok_or_else(|| FarmError::TimedOut { what: format!("a message from process {from}") })
    }

    /// Returns the policy for waiting for a process. As a rule, a process that has not joined yet
    /// begins on the processor of its parent: a parent that yields to it does not get the processor
    /// back soon, but a sleeping one is woken on another. Starting a process takes longer than
    /// yielding lasts.
    fn policy_for(&self, from: Vpid) -> Policy<'static> {
        let is_there = matches!(self.life(from), ProcessState::Joined | ProcessState::Ended);
        if is_there { self.policy } else { Policy { yield_for: Duration::ZERO, ..self.policy } }
    }

    /// Returns the policy for waiting for any process: that for a child that has not joined, if
    /// any.
    fn policy_for_any(&self) -> Policy<'static> {
        let not_joined = self.children.iter().find(|&&child| {
            !matches!(self.life(child), ProcessState::Joined | ProcessState::Ended)
        });
        not_joined.map_or(self.policy, |&child| self.policy_for(child))
    }

    /// Returns the next value from a process, if there is one. A small one is decoded in its slot.
    #[inline]
    fn take_value<T: Wire>(&mut self, from: Vpid) -> Result<Option<T>, FarmError> {
        let Some(reader) = self.reader_of(from) else { return Ok(None) };
        let read = reader.take_with(|head, bytes| {
            let small = head & BLOCK == 0 && head & LEN == bytes.len() as u64;
            let read = small.then(|| T::decode_in_place(MessageKind::of(head), bytes)).flatten();
            read.map_or_else(|| Read::Message(Body::new(head, bytes)), Read::Value)
        });
        let value = match read {
            None => return Ok(None),
            Some(Read::Value(value)) => value,
            Some(Read::Message(body)) => {
                // SAFETY: the body was taken from a channel of this process just now, and is used
                // once.
                unsafe { Message::new(&self.arena, self.me, body) }.and_then(T::decode)
            }
        };
        value.map(Some).map_err(|why| FarmError::Garbled { from, why })
    }

    /// Returns the next message from a process, if there is one.
    #[inline]
    fn take(&mut self, from: Vpid) -> Result<Option<Message>, FarmError> {
        let Some(reader) = self.reader_of(from) else { return Ok(None) };
        let Some(body) = reader.take() else { return Ok(None) };
        // SAFETY: the body was taken from a channel of this process just now, and is used once.
        let message = unsafe { Message::new(&self.arena, self.me, body) };
        message.map(Some).map_err(|why| FarmError::Garbled { from, why })
    }

    /// Returns the channel from a process, if that process has opened one.
    #[inline]
    fn reader_of(&mut self, from: Vpid) -> Option<&mut Reader<Slots>> {
        let known = |inbound: &Option<Inbound>| {
            inbound.as_ref().is_some_and(|inbound| inbound.from == from)
        };
        if !self.inbound.get(from.place()).is_some_and(known) {
            self.look_for_channels();
        }
        let inbound = self.inbound.get_mut(from.place())?.as_mut()?;
        (inbound.from == from).then_some(&mut inbound.reader)
    }

    /// Receives the next value from any process that has sent one, in round-robin order.
    ///
    /// # Errors
    /// [`FarmError::Gone`] if a child of this process has ended other than by exiting with 0: once
    /// for each, when all its messages were received. [`FarmError::Alone`], at the manager, if no
    /// other process is alive. [`FarmError::Garbled`], which names the sender.
    pub fn recv_any<T: Wire>(&mut self) -> Result<(Vpid, T), FarmError> {
        self.recv_any_deadline(None)
    }

    /// Like [`recv_any`](Self::recv_any), with a deadline.
    ///
    /// # Errors
    /// [`FarmError::TimedOut`].
    pub fn recv_any_deadline<T: Wire>(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<(Vpid, T), FarmError> {
        let (from, message) = self.recv_any_message_deadline(deadline)?;
        T::decode(message)
            .map(|value| (from, value))
            .map_err(|why| FarmError::Garbled { from, why })
    }

    /// Receives the next message of any kind from any process that has sent one, with a deadline.
    ///
    /// # Errors
    /// Those of [`recv_any_deadline`](Self::recv_any_deadline).
    pub fn recv_any_message_deadline(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<(Vpid, Message), FarmError> {
        self.check_not_forked()?;
        let (arena, fault_list) = (Arc::clone(&self.arena), self.role.fault_list());
        let policy = Policy {
            liveness: fault_list.as_ref().map(|fault_list| fault_list as &dyn Liveness),
            ..self.policy_for_any()
        };
        let _waits = span(self.awaits, u32::MAX, 0);
        let events = &arena.record(self.me.place()).events;
        let came = events.wait_for(&policy, deadline, || self.take_any())?;
        came.ok_or_else(|| FarmError::TimedOut { what: "a message from any process".to_owned() })
    }

    /// Like [`recv_any_message_deadline`](Self::recv_any_message_deadline), but returns `None` when
    /// the deadline has passed, when `other` returns true, or when there is a place that
    /// [`reserve_now`](Self::reserve_now) lacked.
    pub(crate) fn recv_any_or(
        &mut self,
        deadline: Option<Instant>,
        mut other: impl FnMut() -> bool,
    ) -> Result<Option<(Vpid, Message)>, FarmError> {
        self.check_not_forked()?;
        let (arena, fault_list) = (Arc::clone(&self.arena), self.role.fault_list());
        let policy = Policy {
            liveness: fault_list.as_ref().map(|fault_list| fault_list as &dyn Liveness),
            ..self.policy_for_any()
        };
        let _waits = span(self.awaits, u32::MAX, 0);
        let events = &arena.record(self.me.place()).events;
        let came = events.wait_for(&policy, deadline, || {
            let record = arena.record(self.me.place());
            if record.is_waiting() && arena.has_place() {
                // Reported once: the caller decides whether it still needs the place.
                record.set_waiting(false);
                return Ok(Some(None));
            }
            if other() {
                return Ok(Some(None));
            }
            Ok::<_, FarmError>(self.take_any()?.map(Some))
        })?;
        Ok(came.flatten())
    }

    /// Returns the next message from a process, if there is one. It does not block.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn try_recv_message(&mut self, from: Vpid) -> Result<Option<Message>, FarmError> {
        self.known(from)?;
        let ended = self.life(from) == ProcessState::Ended;
        match self.take(from)? {
            None if ended => Err(self.end_error(from)),
            message => Ok(message),
        }
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn take_any(&mut self) -> Result<Option<(Vpid, Message)>, FarmError> {
        // Read before the channels: the messages of the processes that have ended by then are found
        // in the channels.
        let ends = self.role.ends(&self.arena);
        let alone = matches!(&self.role, Role::Manager(supervisor) if supervisor.living() == 0);
        self.look_for_channels();
        for _ in 0..self.senders.len() {
            self.turn = (self.turn + 1) % self.senders.len();
            let place = self.senders[self.turn];
            let Some(Some(inbound)) = self.inbound.get_mut(place) else { continue };
            if let Some(body) = inbound.reader.take() {
                let from = inbound.from;
                // SAFETY: the body was taken from a channel of this process just now, and is used
                // once.
                let message = unsafe { Message::new(&self.arena, self.me, body) };
                return message
                    .map(|m| Some((from, m)))
                    .map_err(|why| FarmError::Garbled { from, why });
            }
        }
        if ends != self.ends {
            self.ends = ends;
            self.release_ended();
        }
        for at in 0..self.children.len() {
            let vpid = self.children[at];
            match self.cause(vpid)? {
                None => (),
                Some(ExitCause::Ended(Ending::Exited(0))) if !self.every_end => (),
                // It may have sent something between the two checks: that message comes first.
                Some(_) if self.has_sent(vpid) => return self.take_any(),
                Some(_) => return Err(self.end_error(vpid)),
            }
        }
        if alone { Err(FarmError::Alone) } else { Ok(None) }
    }

    /// Returns the error that reports an end. All messages of the process were received.
    fn end_error(&mut self, vpid: Vpid) -> FarmError {
        // First, as its place may be reused after the calls below.
        let gone = self.gone(vpid);
        self.unlink(vpid);
        self.note(vpid);
        gone
    }

    /// Releases the channels of processes that have ended, and notes the children that exited with
    /// 0.
    pub(super) fn release_ended(&mut self) {
        self.look_for_channels();
        let dead = |vpid: Vpid| self.life(vpid) == ProcessState::Ended;
        let channels = self.senders.iter().filter_map(|&place| self.inbound.get(place)?.as_ref());
        // A process that has just ended may have sent something immediately before: that end is, or
        // will be, reported separately.
        let done = channels.filter(|inbound| dead(inbound.from) && !inbound.reader.is_full());
        for vpid in done.map(|inbound| inbound.from).collect::<Vec<_>>() {
            self.unlink(vpid);
        }
        if self.every_end {
            return;
        }
        let well = Some(ExitCause::Ended(Ending::Exited(0)));
        let children = self.children.iter().copied();
        for child in children
            .filter(|&child| self.cause(child).is_ok_and(|cause| cause == well))
            .collect::<Vec<_>>()
        {
            self.note(child);
        }
    }

    /// Notes that the end of a child was seen, so that its place may be reused. A pool reads the
    /// record once more, and releases the child itself.
    pub(super) fn note(&mut self, child: Vpid) {
        if let Some(at) = self.children.iter().position(|&other| other == child) {
            self.children.swap_remove(at);
            if !self.every_end {
                self.let_go_of(child);
            }
        }
    }

    /// Returns whether there is a message from a process.
    pub(super) fn has_sent(&mut self, vpid: Vpid) -> bool {
        self.look_for_channels();
        let inbound = self.inbound.get(vpid.place()).and_then(Option::as_ref);
        inbound.is_some_and(|inbound| inbound.from == vpid && inbound.reader.is_full())
    }

    /// Finds the channels that other processes have opened to this one since the last call.
    #[inline]
    fn look_for_channels(&mut self) {
        let record = self.arena.record(self.me.place());
        // Acquire: pairs with the Release in `Arena::open`.
        let opened = record.inbound.load(Ordering::Acquire);
        if opened != self.opened {
            self.opened = opened;
            self.look_at_all();
        }
    }

    #[cold]
    fn look_at_all(&mut self) {
        for place in 0..self.arena.used() {
            let Some((from, slots)) = self.arena.found(place, self.me) else { continue };
            if self.inbound.len() <= place {
                self.inbound.resize_with(place + 1, || None);
            }
            let known =
                self.inbound[place].as_ref().is_some_and(|inbound| inbound.block == slots.block());
            if !known {
                if self.inbound[place].is_none() {
                    self.senders.push(place);
                }
                let block = slots.block();
                // SAFETY: this process is the receiver, and has no reader of that channel:
                // otherwise the channel would be `known`.
                let reader = unsafe { Reader::new(slots) };
                self.inbound[place] = Some(Inbound { from, block, reader });
            }
        }
    }

    /// Unlinks the channel of an ended sender, which is not read any more.
    pub(super) fn unlink(&mut self, sender: Vpid) {
        let Some(slot) = self.inbound.get_mut(sender.place()) else { return };
        if let Some(inbound) = slot.take_if(|inbound| inbound.from == sender) {
            self.senders.retain(|&place| place != sender.place());
            // SAFETY: the block is a channel of which this process is the reader, and the reader
            // was dropped.
            unsafe { self.arena.unlink(sender.place(), self.me.place(), inbound.block) };
            self.has_let_go();
        }
    }
}

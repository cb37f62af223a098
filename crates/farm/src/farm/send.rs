//! The sending half of a farm: the channel to the receiver, room in it, and the message.

use std::time::Instant;

use serde::Serialize;
use syncline_signal::{Liveness, Policy, WaitError};
use syncline_trace::{Activity, span};

use super::{Farm, Outbound, Role, traced};
use crate::arena::{Arena, End};
use crate::channel::Writer;
use crate::error::FarmError;
use crate::message::{Draft, MessageKind};
use crate::record::ProcessState;
use crate::vpid::Vpid;
use crate::wire::{self, Encoder, Wire, WireError};

/// Ends a sender's wait when the receiver has ended.
#[derive(Debug)]
struct Receiver<'a> {
    arena: &'a Arena,
    role: &'a Role,
    vpid: Vpid,
}

impl Liveness for Receiver<'_> {
    fn gone(&self) -> Option<u32> {
        (self.role.life(self.arena, self.vpid) == ProcessState::Ended)
            .then_some(self.vpid.place() as u32)
    }
}

impl Farm {
    /// Sends a value. Blocks until there is room in the channel; returns when the message is in it.
    ///
    /// # Memory ordering
    /// All earlier operations of this process happen before the receiver's use of the message.
    ///
    /// # Errors
    /// [`FarmError::Gone`] if the receiver has ended; [`FarmError::Room`],
    /// [`FarmError::Unsendable`]; [`FarmError::Itself`] if the receiver is this process, and its
    /// channel is full.
    #[inline]
    pub fn send<T: Wire>(&mut self, to: Vpid, value: &T) -> Result<(), FarmError> {
        self.send_deadline(to, value, None)
    }

    /// Like [`send`](Self::send), with a deadline.
    ///
    /// # Errors
    /// [`FarmError::TimedOut`]: nothing was sent.
    #[inline]
    pub fn send_deadline<T: Wire>(
        &mut self,
        to: Vpid,
        value: &T,
        deadline: Option<Instant>,
    ) -> Result<(), FarmError> {
        self.send_written(to, deadline, |draft| Encoder::write(draft, value))
    }

    /// Sends bytes whose kind is given: those of a message that is forwarded, or of a program in
    /// another language. The deadline is as in [`send_deadline`](Self::send_deadline).
    ///
    /// # Errors
    /// Those of [`send_deadline`](Self::send_deadline); [`FarmError::Unsendable`] if the length is
    /// not possible for the kind.
    pub fn send_bytes(
        &mut self,
        to: Vpid,
        kind: MessageKind,
        bytes: &[u8],
        deadline: Option<Instant>,
    ) -> Result<(), FarmError> {
        self.send_written(to, deadline, |draft| match kind.size() {
            Some(size) if bytes.len().is_multiple_of(size) => draft.extend(bytes).map(|()| kind),
            _ => Err(WireError::Damaged { what: "its length" }),
        })
    }

    /// Sends a value that serde serializes; if it is large, only if that leaves room for an answer
    /// of its size, or need not.
    pub(crate) fn send_serialized(
        &mut self,
        to: Vpid,
        value: &impl Serialize,
        leaves_room: bool,
    ) -> Result<(), FarmError> {
        self.send_written(to, None, |draft| {
            if leaves_room {
                draft.leave_room();
            }
            wire::write(draft, value).map(|()| MessageKind::VALUE)
        })
    }

    #[inline]
    fn send_written(
        &mut self,
        to: Vpid,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Draft<'_>) -> Result<MessageKind, WireError>,
    ) -> Result<(), FarmError> {
        if !self.is_ready(to) {
            self.make_ready(to, deadline)?;
        }
        let Farm { arena, me, outbound, .. } = self;
        let mut draft = Draft::new(arena, *me);
        let kind = write(&mut draft).map_err(|why| match why {
            WireError::Long { bytes } => FarmError::Room { asked: bytes, memory: arena.memory() },
            why => FarmError::Unsendable { to, why },
        })?;
        let events = &arena.record(to.place()).events;
        if let Some(Some(outbound)) = outbound.get_mut(to.place()) {
            draft.hand_over(to, kind, |head, bytes| outbound.writer.put(head, bytes, events));
        }
        Ok(())
    }

    /// Returns whether there is a channel to a live process, and room in it.
    #[inline]
    fn is_ready(&self, to: Vpid) -> bool {
        let outbound = self.outbound.get(to.place()).and_then(Option::as_ref);
        self.arena.is_home()
            && outbound.is_some_and(|outbound| outbound.to == to && outbound.writer.is_free())
            && self.life(to) != ProcessState::Ended
    }

    /// Opens a channel to a process if necessary, and waits for room in it.
    #[cold]
    fn make_ready(&mut self, to: Vpid, deadline: Option<Instant>) -> Result<(), FarmError> {
        self.known(to)?;
        if self.life(to) == ProcessState::Ended {
            self.close(to);
            return Err(self.gone(to));
        }
        if self.outbound.len() <= to.place() {
            self.outbound.resize_with(to.place() + 1, || None);
        }
        if self.outbound[to.place()].as_ref().is_none_or(|outbound| outbound.to != to) {
            // The place belonged to another process, which has ended.
            self.close(to);
            let slots = self.arena.open(self.me, to);
            let slots =
                slots.ok_or(FarmError::Room { asked: 4096, memory: self.arena.memory() })?;
            let block = slots.block();
            // SAFETY: this process has just opened the channel, and creates no other writer of it.
            let writer = unsafe { Writer::new(slots) };
            self.outbound[to.place()] = Some(Outbound { to, block, writer });
        }
        let free = |outbound: &Outbound| outbound.writer.is_free();
        if deadline.is_none() && !self.outbound[to.place()].as_ref().is_some_and(free) {
            self.is_another(to, "wait until it receives what it has sent itself")?;
        }
        let receiver = Receiver { arena: &self.arena, role: &self.role, vpid: to };
        let policy = Policy { liveness: Some(&receiver), ..self.policy };
        let waited = match &self.outbound[to.place()] {
            Some(outbound) if outbound.writer.is_free() => Ok(()),
            Some(outbound) => {
                let _waits = span(Activity::AwaitPermit, traced(to), 0);
                outbound.writer.wait(&policy, deadline)
            }
            None => Ok(()),
        };
        match waited {
            Ok(()) => Ok(()),
            Err(WaitError::TimedOut) => Err(FarmError::TimedOut {
                what: format!("process {to} to receive what it was sent before"),
            }),
            Err(_) => {
                self.close(to);
                Err(self.gone(to))
            }
        }
    }

    /// Closes the channel to a process.
    fn close(&mut self, to: Vpid) {
        if let Some(outbound) = self.outbound.get_mut(to.place()).and_then(Option::take) {
            // SAFETY: the block is a channel that this process has opened, and its writer is not
            // used any more.
            unsafe { self.arena.let_go(outbound.block, End::Writer) };
        }
    }
}

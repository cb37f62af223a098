//! Answers and acknowledgements, on the side of the server that sends them and of the process that
//! receives them.
//!
//! # Contract
//! For each process, `done` counts its requests that were done here, and `told` those that were
//! acknowledged to it. Every message to the process acknowledges all that are done: an answer, or a
//! message of a sync. If there is no such message for [`LATE`], an acknowledgement is sent by
//! itself.

use std::sync::atomic::Ordering;
use std::time::Instant;

use syncline_fabric::endpoint::Out;

use super::{Destination, Engine, LATE, State};
use crate::message::{Head, RequestKind};

impl Engine {
    /// Answers the request that is being performed. The answer acknowledges it and all earlier
    /// ones.
    pub(super) fn answer(
        &self,
        state: &mut State,
        to: usize,
        ticket: u64,
        out: &mut Out<'_>,
        data: impl FnOnce(&mut Vec<u8>),
    ) {
        let told = state.queues[to].tell() + 1;
        state.queues[to].told = told;
        self.say(state, to, (ticket, told), out, data);
    }

    /// Answers a request that was performed earlier.
    pub(super) fn reply(
        &self,
        state: &mut State,
        to: usize,
        ticket: u64,
        out: &mut Out<'_>,
        data: impl FnOnce(&mut Vec<u8>),
    ) {
        let done = state.queues[to].tell();
        self.say(state, to, (ticket, done), out, data);
    }

    /// Sends an answer, which acknowledges the first `epoch` requests of the process.
    fn say(
        &self,
        state: &mut State,
        to: usize,
        (ticket, epoch): (u64, u64),
        out: &mut Out<'_>,
        data: impl FnOnce(&mut Vec<u8>),
    ) {
        let completed = self.epoch();
        let place = (completed as u32, (completed >> 32) as u32);
        let head = Head {
            epoch,
            ticket,
            allocation: place.0,
            rank: place.1,
            ..Head::new(RequestKind::Reply)
        };
        if to == self.process {
            let mut message = Vec::new();
            data(&mut message);
            self.acknowledged(state, to, epoch);
            return self.replied(state, head, &message);
        }
        let mut message = out.message();
        head.write(&mut message);
        data(&mut message);
        out.send(to, message);
    }

    /// Receives an answer.
    pub(super) fn replied(&self, state: &mut State, head: Head, data: &[u8]) {
        let asked = state.asked.get_mut(&head.ticket);
        let into = asked.and_then(|asked| asked.into.pop_front()).unwrap_or_default();
        self.filled(state, head.ticket, into, data);
    }

    /// Copies the data of an answer to their destinations, unless the request was given up.
    pub(super) fn filled(
        &self,
        state: &mut State,
        ticket: u64,
        into: Vec<Destination>,
        data: &[u8],
    ) {
        let Some(asked) = state.asked.get_mut(&ticket) else { return };
        asked.left = asked.left.saturating_sub(1);
        let mut value = [0; 16];
        let len = data.len().min(16);
        value[..len].copy_from_slice(&data[..len]);
        asked.value = u128::from_le_bytes(value);
        let mut rest = data;
        for Destination { at, len } in into {
            let (data, others) = rest.split_at(len.min(rest.len()));
            rest = others;
            // SAFETY: `at` points to `len` bytes that may be written, at least as many as are
            // copied: the caller of `ask` guarantees it until the ticket is removed, and the ticket
            // is in the table. The engine's lock excludes other writers. `data` is the body of a
            // message, which does not overlap private memory of the caller.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), at, data.len()) };
        }
    }

    pub(super) fn acknowledge(&self, state: &mut State, to: usize, out: &mut Out<'_>) {
        let epoch = state.queues[to].tell();
        if to == self.process {
            return self.acknowledged(state, to, epoch);
        }
        let mut message = out.message();
        Head { epoch, ..Head::new(RequestKind::Ack) }.write(&mut message);
        out.send(to, message);
    }

    /// Sends the acknowledgements that have been due for [`LATE`].
    pub(super) fn acknowledge_late(&self, state: &mut State, out: &mut Out<'_>) {
        let now = Instant::now();
        let mut owed = std::mem::take(&mut state.owed);
        owed.retain(|&to| {
            let since = state.queues[to].since;
            if since.is_some_and(|since| now.duration_since(since) >= LATE) {
                self.acknowledge(state, to, out);
            }
            let queue = &mut state.queues[to];
            queue.owed = queue.since.is_some();
            queue.owed
        });
        state.owed = owed;
    }

    /// Receives an acknowledgement: `process` has done `done` requests of this process.
    pub(super) fn acknowledged(&self, state: &mut State, process: usize, done: u64) {
        let Some(server) = self.hosts.serves(process) else { return };
        let acked = self.acked[server].load(Ordering::Relaxed);
        let more = done.saturating_sub(acked).min(state.sizes[server].len() as u64);
        let bytes: u64 = state.sizes[server].drain(..more as usize).map(u64::from).sum();
        self.bytes[server].fetch_sub(bytes, Ordering::Relaxed);
        self.words.under_way().fetch_sub(more, Ordering::Relaxed);
        // Release: pairs with the Acquire in `acked` and in `room`.
        self.acked[server].fetch_add(more, Ordering::Release);
    }
}

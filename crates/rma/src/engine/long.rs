//! Long requests and answers: their data go by themselves, between buffers of the process that asks
//! and the memory of the host, by the long messages of the endpoint.
//!
//! # Contract
//! The header of a long request takes part in the order of requests; its data come or go later. The
//! request is *done*, for fences, syncs and acknowledgements, when the data of a put are in place,
//! or those of a get have been read.
//!
//! ```text
//!   put   ── header ──> held, or begun: the place is the memory itself ── landed ──> done
//!                        │ its turn                                        in order
//!                        └─ landed in a buffer, copied at its turn ──────────────> done
//!   get   ── header ──> begun: header of the answer ── sent ──> done
//!         <── data ──── from the memory itself
//! ```
//! *Order.* The requests of a process take effect in their order. So a request waits until the long
//! ones before it are done, unless the order among them cannot be seen: the parts of one put go to
//! different places and land at the same time, and long gets read at the same time. A put whose
//! turn has not come, because of the gate or of an earlier request, lands in a buffer. Requests of
//! other processes do not wait.
//!
//! # Costs
//! A put is copied once, by its own process, and returns when all of it is copied; a get is copied
//! once, where it arrives: private memory of a caller must not be accessed by the network after a
//! fault has ended the operation. The memory of the host is not copied.

use std::sync::{Arc, PoisonError};

use syncline_fabric::endpoint::{Landing, Out, Place};

use super::{Destination, Engine, LONGEST, MOST, Queue, State};
use crate::memory::Table;
use crate::message::{self, Head, RequestKind};
use crate::shape::Piece;

/// The maximum number of buffers to keep.
const SPARE: usize = 8;

/// The data of a request that is not begun.
#[derive(Debug)]
pub(super) enum Body {
    /// Behind the head and the pieces, in the same message.
    Within,
    /// To land in a buffer; the token of the long message.
    Coming(u64),
    /// In a buffer.
    There(Vec<u8>),
}

/// A request that is not begun.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) message: Vec<u8>,
    pub(super) body: Body,
}

/// A long request that is begun: its data move from or to the memory of the host.
#[derive(Debug)]
pub(super) struct Begun {
    head: Head,
    /// The number of bytes of the data.
    len: usize,
    token: u64,
    done: bool,
}

/// A long message in flight to or from this process.
#[derive(Debug)]
pub(super) enum Moving {
    /// The data of a put of this process.
    Put,
    /// The data of a put of another process.
    Landing,
    /// The data of an answer to another process.
    Answer,
    /// The data of an answer to this process: the ticket, and the destinations.
    Answered(u64, Vec<Destination>),
}

impl State {
    pub(super) fn token(&mut self, moving: Moving) -> u64 {
        self.tokens += 1;
        self.moving.insert(self.tokens, moving);
        self.tokens
    }
}

impl Queue {
    /// Whether a request may begin, as far as the long requests that are begun allow it.
    pub(super) fn may_begin(&self, head: Head, is_long: bool) -> bool {
        let together = |begun: &Begun| match head.kind {
            RequestKind::Get => begun.head.kind == RequestKind::Get,
            // Parts of the same put.
            RequestKind::Put => {
                begun.head.kind == RequestKind::Put && begun.head.ticket == head.ticket
            }
            _ => false,
        };
        self.begun.is_empty() || is_long && self.begun.iter().all(together)
    }
}

/// Returns whether the answer to a get is a long message.
pub(super) fn answers_long(head: Head, rest: &[u8]) -> bool {
    if head.kind != RequestKind::Get {
        return false;
    }
    let pieces = message::pieces(head, rest).map(|(pieces, _)| pieces);
    let all = pieces.map(|pieces| pieces.map(|piece| piece.bytes()).fold(0, u64::saturating_add));
    all.is_some_and(|all| all > MOST as u64 && all <= LONGEST as u64)
}

/// Returns the memory of a contiguous request, if it is valid.
fn place(table: &Arc<Table>, head: Head, rest: &[u8]) -> Option<Place> {
    let (mut pieces, _) = message::pieces(head, rest)?;
    let (piece, None) = (pieces.next()?, pieces.next()) else { return None };
    let Piece { offset, len, count: 1, .. } = piece else { return None };
    let part = table.parts.get(head.rank as usize)?;
    let inside = piece.end().is_some_and(|end| end <= part.bytes as u64);
    if part.address.is_null() || !inside || u64::from(len) > LONGEST as u64 {
        return None;
    }
    let at = part.address.wrapping_add(offset as usize);
    // SAFETY: the bytes lie inside the part, as checked. The table keeps the part's memory, which
    // all threads and processes access as `copy` does: by instructions that may race.
    Some(unsafe { Place::new(at, len as usize, table.clone()) })
}

impl Engine {
    /// Returns a buffer of `len` bytes of any content.
    pub(crate) fn buffer(&self, len: usize) -> Vec<u8> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = spare.unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    pub(super) fn recycle(&self, buffer: Option<Vec<u8>>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.extend(buffer);
        }
    }

    /// Names the place for the data of a put of another process, or of an answer to this one.
    pub(super) fn lands(
        &self,
        state: &mut State,
        from: usize,
        header: &[u8],
        len: usize,
    ) -> Landing {
        let buffer = |token| Landing { token, place: Place::owned(self.buffer(len)) };
        let Some((head, rest)) = Head::read(header) else { return buffer(0) };
        if head.kind == RequestKind::Reply {
            self.hear(u64::from(head.allocation) | u64::from(head.rank) << 32);
            self.acknowledged(state, from, head.epoch);
            let asked = state.asked.get_mut(&head.ticket);
            let into = asked.and_then(|asked| asked.into.pop_front()).unwrap_or_default();
            return buffer(state.token(Moving::Answered(head.ticket, into)));
        }
        let token = state.token(Moving::Landing);
        let queue = &mut state.queues[from];
        let turn = queue.held.is_empty()
            && head.epoch <= self.words.completed().get()
            && head.kind == RequestKind::Put
            && queue.may_begin(head, true);
        let table = state.tables.get(&head.allocation).filter(|_| turn);
        match table.and_then(|table| place(table, head, rest)).filter(|place| place.len() == len) {
            Some(place) => {
                queue.begun.push_back(Begun { head, len, token, done: false });
                Landing { token, place }
            }
            // An invalid request lands in a buffer, too, and is refused at its turn.
            None => {
                let held = Held { message: header.to_vec(), body: Body::Coming(token) };
                queue.held.push_back(held);
                state.held += 1;
                buffer(token)
            }
        }
    }

    /// The data of a long message are in their place.
    pub(super) fn has_landed(
        &self,
        state: &mut State,
        from: usize,
        token: u64,
        place: Place,
        out: &mut Out<'_>,
    ) {
        match state.moving.remove(&token) {
            Some(Moving::Answered(ticket, into)) => {
                let data = place.into_bytes();
                self.filled(state, ticket, into, data.as_deref().unwrap_or_default());
                self.recycle(data);
            }
            Some(_) => {
                let held = &mut state.queues[from].held;
                let coming = held
                    .iter_mut()
                    .find(|held| matches!(held.body, Body::Coming(number) if number == token));
                match coming {
                    Some(held) => held.body = Body::There(place.into_bytes().unwrap_or_default()),
                    None => self.done(state, from, token, out),
                }
                self.let_through(state, from, out);
                self.go_on(state, out);
            }
            None => (),
        }
    }

    /// The data of a long message have left their place.
    pub(super) fn has_left(
        &self,
        state: &mut State,
        to: usize,
        token: u64,
        place: Place,
        out: &mut Out<'_>,
    ) {
        let moving = state.moving.remove(&token);
        self.recycle(place.into_bytes());
        if matches!(moving, Some(Moving::Answer)) {
            self.done(state, to, token, out);
            self.let_through(state, to, out);
            self.go_on(state, out);
        }
    }

    /// Notes that the data of a request have moved, and completes the requests of the process as
    /// far as their order allows.
    fn done(&self, state: &mut State, from: usize, token: u64, out: &mut Out<'_>) {
        let mut begun = state.queues[from].begun.iter_mut();
        if let Some(begun) = begun.find(|begun| begun.token == token) {
            begun.done = true;
        }
        let mut read = false;
        while state.queues[from].begun.front().is_some_and(|begun| begun.done) {
            let Some(Begun { head, len, .. }) = state.queues[from].begun.pop_front() else { break };
            self.finished(state, from, head, len, out);
            read = head.kind == RequestKind::Get;
        }
        // The process takes the answer for an acknowledgement of the get: see `Engine::is_asked`.
        let queue = &state.queues[from];
        if read && queue.begun.is_empty() && queue.done > queue.told {
            self.acknowledge(state, from, out);
        }
    }

    /// Begins to answer a get by a long message: from the memory itself, if that is one run.
    pub(super) fn answer_long(
        &self,
        state: &mut State,
        to: usize,
        head: Head,
        rest: &[u8],
        out: &mut Out<'_>,
        read: impl FnOnce(&mut Vec<u8>),
    ) {
        let table = state.tables.get(&head.allocation);
        let place = table.and_then(|table| place(table, head, rest)).unwrap_or_else(|| {
            let mut data = self.buffer(0);
            read(&mut data);
            Place::owned(data)
        });
        let (len, token) = (place.len(), state.token(Moving::Answer));
        // The answer acknowledges the requests before this one.
        let (completed, epoch) = (self.epoch(), state.queues[to].tell());
        let (allocation, rank) = (completed as u32, (completed >> 32) as u32);
        let ticket = head.ticket;
        let reply = Head { epoch, ticket, allocation, rank, ..Head::new(RequestKind::Reply) };
        let mut message = out.message();
        reply.write(&mut message);
        state.queues[to].begun.push_back(Begun { head, len, token, done: false });
        out.send_long(to, message, token, place);
    }
}

/// Returns whether no run overlaps another one of the list in the part: only then may they land in
/// any order. Lists that do not go upwards are taken for overlapping.
pub(crate) fn are_apart(runs: &[crate::runs::Run]) -> bool {
    runs.windows(2).all(|pair| pair[0].there + pair[0].len <= pair[1].there)
}

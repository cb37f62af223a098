//! The server: performs the requests of other processes on the memory of its host.
//!
//! # Contract
//! A request is validated as untrusted input: its allocation, its member, and every piece. An
//! invalid request is refused, and the refusal is sent to the process that asked. It counts as
//! done, so no fence or sync waits for it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use syncline_fabric::endpoint::Out;
use syncline_trace::{Activity, span};

use super::{Engine, LONGEST, MOST, State, WINDOW, WINDOW_BYTES};
use crate::lock::server::Tickets;
use crate::memory::MemberPart;
use crate::message::{self, Head, RequestKind};
use crate::rmw::Rmw;
use crate::shape::Piece;
use crate::{copy, element};

/// The reasons of refusals, by the number that is sent.
pub(crate) const REFUSALS: [&str; 4] = [
    "the request is malformed",
    "the allocation has been freed, or does not exist there",
    "the member is not on that host",
    "the bytes are not inside the allocation",
];

impl Engine {
    /// Performs a request. `data` are those that have come as a long message.
    pub(super) fn perform(
        &self,
        state: &mut State,
        from: usize,
        head: Head,
        rest: &[u8],
        data: Option<&[u8]>,
        out: &mut Out<'_>,
    ) {
        let _serves = span(Activity::Serve, from as u32, 0);
        let refused = match head.kind {
            RequestKind::Put | RequestKind::Add | RequestKind::Rmw | RequestKind::Get => {
                match self.touch(state, from, head, rest, data, out) {
                    Ok(true) => None,
                    // `done` finishes it.
                    Ok(false) => return,
                    Err(why) => Some(why),
                }
            }
            RequestKind::Fence => {
                self.answer(state, from, head.ticket, out, |_| ());
                None
            }
            RequestKind::Lock | RequestKind::Unlock => {
                self.queue(state, from, head, rest, out).err()
            }
            _ => Some("this version has no such request"),
        };
        if let Some(why) = refused {
            let code = REFUSALS.iter().position(|&known| known == why).unwrap_or_default();
            let mut message = out.message();
            let head =
                Head { detail: code as u8, ticket: head.ticket, ..Head::new(RequestKind::Refused) };
            head.write(&mut message);
            out.send(from, message);
        }
        self.finished(state, from, head, rest.len() + data.map_or(0, <[u8]>::len), out);
    }

    /// Counts a request as done, and acknowledges it if that is due. `len` is the number of bytes
    /// behind its head.
    pub(super) fn finished(
        &self,
        state: &mut State,
        from: usize,
        head: Head,
        len: usize,
        out: &mut Out<'_>,
    ) {
        if head.kind.counts() {
            // Release: pairs with the Acquire in `go_on`, where the sync is completed.
            self.words.done[usize::from(head.parity)].fetch_add(1, Ordering::Release);
        }
        let queue = &mut state.queues[from];
        queue.done += 1;
        let owed = queue.done.saturating_sub(queue.told);
        if owed == 0 {
            return;
        }
        queue.bytes += (message::HEAD + len) as u64;
        if from == self.process || owed >= WINDOW / 2 || queue.bytes >= WINDOW_BYTES / 2 {
            return self.acknowledge(state, from, out);
        }
        queue.since.get_or_insert_with(Instant::now);
        if !std::mem::replace(&mut queue.owed, true) {
            state.owed.push(from);
        }
    }

    /// Performs a request to lock or unlock a mutex.
    fn queue(
        &self,
        state: &mut State,
        from: usize,
        head: Head,
        rest: &[u8],
        out: &mut Out<'_>,
    ) -> Result<(), &'static str> {
        let mut words = message::words(rest);
        let (at, hybrid) = (words.next().unwrap_or_default(), words.next() == Some(1));
        let table = state.tables.get(&head.allocation).ok_or(REFUSALS[1])?;
        let place = (head.allocation, head.rank, at);
        let tickets = if hybrid { Some(Tickets::of(table, head.rank as usize, at)?) } else { None };
        let next = match head.kind {
            RequestKind::Lock => state.locks.ask(place, tickets, (from, head.ticket)),
            _ => state.locks.let_go(place, tickets),
        };
        if let Some((to, ticket)) = next {
            self.reply(state, to, ticket, out, |_| ());
        }
        Ok(())
    }

    /// Performs a request that accesses memory. Returns whether it is done.
    fn touch(
        &self,
        state: &mut State,
        from: usize,
        head: Head,
        rest: &[u8],
        data: Option<&[u8]>,
        out: &mut Out<'_>,
    ) -> Result<bool, &'static str> {
        let (pieces, within) = message::pieces(head, rest).ok_or(REFUSALS[0])?;
        let mut data = data.unwrap_or(within);
        let table = state.tables.get(&head.allocation).ok_or(REFUSALS[1])?;
        let MemberPart { address, bytes } =
            *table.parts.get(head.rank as usize).ok_or(REFUSALS[2])?;
        if address.is_null() {
            return Err(REFUSALS[2]);
        }
        let (mut all, mut ends) = (0_u64, 0);
        for piece in pieces.clone() {
            all = all.checked_add(piece.bytes()).ok_or(REFUSALS[3])?;
            ends = ends.max(piece.end().ok_or(REFUSALS[3])?);
        }
        if ends > bytes as u64 || all > LONGEST as u64 {
            return Err(REFUSALS[3]);
        }
        let run = |piece: Piece| piece.offsets().map(move |at| (at as usize, piece.len as usize));
        let mut runs = pieces.flat_map(run);
        match head.kind {
            RequestKind::Put | RequestKind::Add => {
                let number = element::ElementKind::ALL.get(usize::from(head.detail)).copied();
                if data.len() as u64 != all {
                    return Err(REFUSALS[0]);
                }
                for (at, len) in runs {
                    let (run, others) = data.split_at(len);
                    data = others;
                    let to = address.wrapping_add(at);
                    match (head.kind, number) {
                        // SAFETY: `to` points to as many bytes as `run` has: the run ends at or
                        // before `ends`, which is inside the part. Parts are shared memory,
                        // accessed only as `copy` does.
                        (RequestKind::Put, _) => unsafe { copy::write(to, run) },
                        (_, Some(kind)) if at % kind.size() == 0 => {
                            // SAFETY: as above. `to` is aligned for the type: the part is aligned
                            // for all numbers, and `at` is a multiple of the size.
                            unsafe { kind.add(to, run) }
                        }
                        _ => return Err(REFUSALS[0]),
                    }
                }
            }
            RequestKind::Rmw => {
                let mut words = message::words(data);
                let operands = [(); 4].map(|()| words.next().unwrap_or_default());
                let rmw = Rmw::from_words(head.detail, operands).ok_or(REFUSALS[0])?;
                let (at, len) = runs.next().ok_or(REFUSALS[0])?;
                if len != rmw.size() || at % len != 0 {
                    return Err(REFUSALS[0]);
                }
                // SAFETY: a word of this size is inside the part, as the run is. It is aligned: the
                // part is aligned for all words, and `at` is a multiple of the size. Parts are
                // shared memory.
                let before = unsafe { rmw.apply(address.add(at)) };
                self.answer(state, from, head.ticket, out, |message| {
                    message.extend_from_slice(&before.to_le_bytes());
                });
            }
            _ => {
                let runs = runs.collect::<Vec<_>>();
                let read = |message: &mut Vec<u8>| {
                    for (at, len) in runs {
                        let start = message.len();
                        message.resize(start + len, 0);
                        // SAFETY: the run is inside the part, as it ends at or before `ends`; parts
                        // are shared memory. The message has `len` bytes from `start` on, and no
                        // other thread accesses it.
                        unsafe { copy::read(address.add(at), message[start..].as_mut_ptr(), len) };
                    }
                };
                if all > MOST as u64 {
                    self.answer_long(state, from, head, rest, out, read);
                    return Ok(false);
                }
                self.answer(state, from, head.ticket, out, read);
            }
        }
        Ok(true)
    }
}

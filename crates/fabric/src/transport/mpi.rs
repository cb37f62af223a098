//! A transport over MPI messages.
//!
//! At most [`RECEIVING`] messages are received at the same time, each into a reused buffer. A
//! process that MPI reports as failed (ULFM) is reported once; any other error means that the
//! transport is broken. A piece is a message straight from and to its place, with the tag of its
//! channel; MPI matches messages and receives with the same tag in order.
//!
//! MPI sends a message of more than some length only after the receiver has answered, which takes a
//! round trip more: Open MPI over TCP beyond 64 KiB. So a message of [`PART`] to [`DIVIDED`] bytes
//! goes in parts, all at once. A part of exactly [`PART`] bytes is followed by another one of the
//! same message; every other part is the last.

use std::collections::{HashMap, VecDeque};

use syncline_mpi::{
    Communicator, MpiError,
    error::ErrorClass,
    message::{Kept, Receiving, Sending},
};

use super::place::Piece;
use super::{Transport, TransportError};

/// The tag of messages, and that of pieces on channel 0.
const TAG: u16 = 1;
const PIECES: u16 = 2;
/// The length of the parts of a message, and the length beyond which a message is not divided: the
/// round trip is short then, compared with the transfer, and parts are copied.
const PART: usize = 48 << 10;
const DIVIDED: usize = 1 << 20;
/// The length of pieces that leave at once. Open MPI sends up to 64 KiB so over TCP. With MPICH,
/// whose limit is lower, 4 MiB in such pieces take 1.5 times as long as in longer ones.
const EAGER: usize = PART;
/// The maximum number of buffers to keep.
const SPARE: usize = 64;
/// The maximum number of messages that are received at the same time; further messages wait.
const RECEIVING: usize = 16;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MpiTransport {
    world: Communicator,
    name: String,
    /// The processes to which short pieces leave at once.
    eager: Vec<bool>,
    sending: VecDeque<Sending>,
    /// Messages that have been found and are not complete: long messages, whose senders may stop in
    /// the middle.
    receiving: VecDeque<(usize, Receiving)>,
    joining: Joining,
    /// The pieces that are sent and received.
    pieces: Vec<Moving>,
    /// Where the next look for a piece that is done begins.
    look: usize,
    spare: Vec<Vec<u8>>,
    /// The processes that MPI has reported as failed, and those of them that are not yet reported
    /// by `receive`.
    failed: Vec<usize>,
    untold: VecDeque<usize>,
}

/// Whether a message goes in several parts.
fn is_divided(message: &[u8]) -> bool {
    (PART..=DIVIDED).contains(&message.len())
}

/// Returns the parts of a message that is divided. The last one may be empty.
fn parts(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (parts, last) = message.as_chunks::<PART>();
    parts.iter().map(|part| &part[..]).chain([last])
}

/// By sender: the parts so far of a message that is not complete.
#[derive(Debug, Default)]
struct Joining(HashMap<usize, Vec<u8>>);

impl Joining {
    /// Adds the next part from a process. Returns the message if it is complete, and the buffer of
    /// the part if it was copied.
    fn add(&mut self, from: usize, part: Vec<u8>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if part.len() == PART {
            let message = self.0.entry(from).or_insert_with(|| Vec::with_capacity(4 * PART));
            message.extend_from_slice(&part);
            return (None, Some(part));
        }
        match self.0.remove(&from) {
            Some(mut message) => {
                message.extend_from_slice(&part);
                (Some(message), Some(part))
            }
            None => (Some(part), None),
        }
    }
}

/// A piece in flight.
#[derive(Debug)]
struct Moving {
    key: u64,
    process: usize,
    transfer: Kept,
}

impl MpiTransport {
    /// Creates the transport of the processes of a communicator, which it owns. `name` is that of
    /// the MPI. `eager` has the processes to which short pieces leave at once, the same ones at
    /// both ends.
    pub(crate) fn new(world: Communicator, name: String, eager: Vec<bool>) -> MpiTransport {
        MpiTransport {
            world,
            name,
            eager,
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
            joining: Joining::default(),
            pieces: Vec::new(),
            look: 0,
            spare: Vec::new(),
            failed: Vec::new(),
            untold: VecDeque::new(),
        }
    }

    /// Converts an error of MPI.
    fn error(&mut self, what: &'static str, error: &MpiError) -> TransportError {
        if error.fault() == Some(ErrorClass::ProcessFailed) {
            for process in self.world.failures().unwrap_or_default() {
                if !self.failed.contains(&process) {
                    self.failed.push(process);
                    self.untold.push_back(process);
                }
            }
            // A process that has been reported already is reported again to a caller that sends to
            // it.
            if let Some(process) = self.untold.pop_front().or(self.failed.last().copied()) {
                return TransportError::Gone { process };
            }
        }
        TransportError::Broken { transport: self.name.clone(), what, why: error.to_string() }
    }

    /// Continues sends that have not completed, and takes buffers back from those that have.
    fn sent(&mut self) -> Result<(), TransportError> {
        while let Some(sending) = self.sending.front_mut() {
            match sending.test() {
                Ok(false) => break,
                Ok(true) => {
                    let sending = self.sending.pop_front().map(Sending::wait);
                    if let Some(Ok(buffer)) = sending {
                        self.recycle(buffer);
                    }
                }
                Err(error) => {
                    self.sending.pop_front();
                    return Err(self.error("send a message", &error));
                }
            }
        }
        Ok(())
    }
}

impl MpiTransport {
    fn send_part(&mut self, to: usize, part: Vec<u8>) -> Result<(), TransportError> {
        match self.world.isend(to, TAG, part) {
            Ok(sending) => {
                self.sending.push_back(sending);
                Ok(())
            }
            Err(error) => Err(self.error("send a message", &error)),
        }
    }

    /// Returns the first message that is complete, and behind no other message of its sender.
    fn received(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        while let Some((from, part)) = self.received_part()? {
            let (message, spare) = self.joining.add(from, part);
            if let Some(spare) = spare {
                self.recycle(spare);
            }
            if let Some(message) = message {
                return Ok(Some((from, message)));
            }
        }
        Ok(None)
    }

    /// Returns the first part that is complete, and behind no other part of its sender.
    fn received_part(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        for at in 0..self.receiving.len() {
            let from = self.receiving[at].0;
            if self.receiving.range(..at).any(|&(other, _)| other == from) {
                continue;
            }
            match self.receiving[at].1.test() {
                Ok(false) => (),
                Ok(true) => {
                    let received = self.receiving.remove(at).map(|(_, receiving)| receiving.wait());
                    let bytes = received
                        .transpose()
                        .map_err(|error| self.error("receive a message", &error))?;
                    return Ok(bytes.map(|bytes| (from, bytes)));
                }
                Err(error) => {
                    self.receiving.remove(at);
                    return Err(self.error("receive a message", &error));
                }
            }
        }
        Ok(None)
    }
}

impl Transport for MpiTransport {
    fn process(&self) -> usize {
        self.world.rank()
    }

    fn processes(&self) -> usize {
        self.world.size()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError> {
        if !is_divided(&message) {
            return self.send_part(to, message);
        }
        for part in parts(&message) {
            let mut buffer = self.buffer();
            buffer.extend_from_slice(part);
            self.send_part(to, buffer)?;
        }
        self.recycle(message);
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        if let Some(process) = self.untold.pop_front() {
            return Err(TransportError::Gone { process });
        }
        self.sent()?;
        while self.receiving.len() < RECEIVING {
            let probed = self.world.probe(TAG);
            let Some(message) = probed.map_err(|error| self.error("look for a message", &error))?
            else {
                break;
            };
            let (from, buffer) = (message.source(), self.spare.pop().unwrap_or_default());
            let started = message.start(buffer);
            let started = started.map_err(|error| self.error("receive a message", &error))?;
            self.receiving.push_back((from, started));
            if let Some(received) = self.received()? {
                return Ok(Some(received));
            }
        }
        self.received()
    }

    fn unsent(&self) -> usize {
        self.sending.len()
    }

    fn eager(&self, process: usize) -> Option<usize> {
        self.eager[process].then_some(EAGER)
    }

    fn send_piece(&mut self, to: usize, channel: u16, piece: Piece) -> Result<(), TransportError> {
        let (key, at, len) = (piece.key, piece.as_ptr(), piece.len());
        // SAFETY: the owner keeps `len` bytes at `at` valid, and writes to them meanwhile are such
        // that the memory may be read: `Place::new` requires both.
        let sent = unsafe { self.world.isend_kept(to, PIECES + channel, at, len, piece.owner()) };
        let transfer = sent.map_err(|error| self.error("send a long message", &error))?;
        self.pieces.push(Moving { key, process: to, transfer });
        Ok(())
    }

    fn receive_piece(
        &mut self,
        from: usize,
        channel: u16,
        piece: Piece,
    ) -> Result<(), TransportError> {
        let (key, at, len) = (piece.key, piece.as_ptr(), piece.len());
        // SAFETY: as above, for writes.
        let begun =
            unsafe { self.world.irecv_kept(from, PIECES + channel, at, len, piece.owner()) };
        let transfer = begun.map_err(|error| self.error("receive a long message", &error))?;
        self.pieces.push(Moving { key, process: from, transfer });
        Ok(())
    }

    fn piece_done(&mut self) -> Result<Option<u64>, TransportError> {
        // On from the last one: many pieces are done in one look over all.
        for _ in 0..self.pieces.len() {
            let at = self.look % self.pieces.len();
            match self.pieces[at].transfer.test() {
                Ok(false) => self.look = at + 1,
                Ok(true) => return Ok(Some(self.pieces.swap_remove(at).key)),
                Err(error) => {
                    self.pieces.swap_remove(at);
                    return Err(self.error("move a long message", &error));
                }
            }
        }
        Ok(None)
    }

    fn give_up(&mut self, process: usize) {
        self.joining.0.remove(&process);
        for at in (0..self.pieces.len()).rev() {
            if self.pieces[at].process == process {
                self.pieces.swap_remove(at).transfer.give_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_testkit::{Random, cases, seed};

    #[test]
    fn messages_are_joined_whatever_their_length() {
        let seed = seed(1);
        println!("seed {seed}");
        let (mut random, mut joining) = (Random::new(seed), Joining::default());
        let mut unread: [VecDeque<Vec<u8>>; 3] = Default::default();
        let mut sent: [VecDeque<Vec<u8>>; 3] = Default::default();
        for _ in 0..cases(300) {
            let edge = random.one_of(&[0, PART, 2 * PART, 5 * PART, DIVIDED]);
            let len = (edge + random.below(3)).saturating_sub(1);
            let (from, message) = (random.below(3), vec![random.below(256) as u8; len]);
            match is_divided(&message) {
                true => unread[from].extend(parts(&message).map(<[u8]>::to_vec)),
                false => unread[from].push_back(message.clone()),
            }
            sent[from].push_back(message);
            for _ in 0..random.below(8) {
                let from = random.below(3);
                let Some(part) = unread[from].pop_front() else { continue };
                if let (Some(message), _) = joining.add(from, part) {
                    assert!(sent[from].pop_front() == Some(message));
                }
            }
        }
        for (from, parts) in unread.into_iter().enumerate() {
            for part in parts {
                if let (Some(message), _) = joining.add(from, part) {
                    assert!(sent[from].pop_front() == Some(message));
                }
            }
        }
        assert!(sent.iter().all(VecDeque::is_empty) && joining.0.is_empty());
    }
}

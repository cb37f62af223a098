//! A transport that leaves marks in traces: one where a message is passed to the network, and one
//! where it is taken from it.
//!
//! # Contract
//! The subject of a mark is the other process. The two marks of a message have the same detail, and
//! no other message of the team has it:
//!
//! ```text
//! | number: 28 bits | way: 4 bits | sender: 16 bits | receiver: 16 bits |
//! ```
//! Way 0 is that of messages; way 1 + c is that of the pieces of long messages on channel c. On
//! each way from one process to another the messages have the numbers 0, 1, 2 and so on, in the
//! order in which they are sent, which is also the order in which they arrive. They are counted
//! while nothing is recorded, too, and numbers wrap after 2^28. So the detail alone tells where a
//! message goes, also if one process simulates several.
//!
//! A message is marked before it is passed to the network, so its mark is earlier than that of its
//! arrival. A message that the network drops, as its receiver is gone, has no other mark.

use std::collections::{HashMap, VecDeque};

use syncline_trace::{Activity, is_enabled, mark};

use super::place::Piece;
use super::{Transport, TransportError};
use crate::long::CHANNELS;

/// The numbers of the next messages to other processes, or of those from them.
#[derive(Debug)]
struct Numbers {
    messages: Vec<u32>,
    /// By process and channel.
    pieces: HashMap<(usize, u16), u32>,
}

impl Numbers {
    fn new(processes: usize) -> Numbers {
        Numbers { messages: vec![0; processes], pieces: HashMap::new() }
    }

    /// Returns the number of the next message on a channel, or on none, and counts it.
    fn next(&mut self, process: usize, channel: Option<u16>) -> u32 {
        let next = match channel {
            None => &mut self.messages[process],
            Some(channel) => self.pieces.entry((process, channel)).or_default(),
        };
        *next = next.wrapping_add(1);
        next.wrapping_sub(1)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MarkedTransport {
    inner: Box<dyn Transport>,
    process: usize,
    sent: Numbers,
    received: Numbers,
    /// By key, which several pieces may have: the pieces that are being received, as the sender,
    /// the channel and the number. Kept while recording is on.
    coming: HashMap<u64, VecDeque<(usize, u16, u32)>>,
}

impl MarkedTransport {
    pub(crate) fn new(inner: Box<dyn Transport>) -> MarkedTransport {
        let process = inner.process();
        let numbers = || Numbers::new(inner.processes());
        let (sent, received, coming) = (numbers(), numbers(), HashMap::new());
        MarkedTransport { inner, process, sent, received, coming }
    }

    /// Marks a message to `other`.
    #[inline]
    fn sends(&self, other: usize, channel: Option<u16>, number: u32) {
        mark(Activity::Sent, other as u32, detail(number, channel, self.process, other));
    }

    /// Marks a message from `other`.
    #[inline]
    fn receives(&self, other: usize, channel: Option<u16>, number: u32) {
        mark(Activity::Received, other as u32, detail(number, channel, other, self.process));
    }
}

const _: () = assert!(CHANNELS < 15, "a way has four bits");

fn detail(number: u32, channel: Option<u16>, from: usize, to: usize) -> u64 {
    let way = channel.map_or(0, |channel| u64::from(channel) + 1) & 0xf;
    let [from, to] = [from, to].map(|process| process as u64 & 0xffff);
    u64::from(number) << 36 | way << 32 | from << 16 | to
}

impl Transport for MarkedTransport {
    fn process(&self) -> usize {
        self.process
    }

    fn processes(&self) -> usize {
        self.inner.processes()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.inner.buffer()
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.inner.recycle(buffer);
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError> {
        let number = self.sent.next(to, None);
        self.sends(to, None, number);
        self.inner.send(to, message)
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        let received = self.inner.receive()?;
        if let Some((from, _)) = received {
            let number = self.received.next(from, None);
            self.receives(from, None, number);
        }
        Ok(received)
    }

    fn unsent(&self) -> usize {
        self.inner.unsent()
    }

    fn eager(&self, process: usize) -> Option<usize> {
        self.inner.eager(process)
    }

    fn send_piece(&mut self, to: usize, channel: u16, piece: Piece) -> Result<(), TransportError> {
        let number = self.sent.next(to, Some(channel));
        self.sends(to, Some(channel), number);
        self.inner.send_piece(to, channel, piece)
    }

    fn receive_piece(
        &mut self,
        from: usize,
        channel: u16,
        piece: Piece,
    ) -> Result<(), TransportError> {
        let number = self.received.next(from, Some(channel));
        if is_enabled() {
            let of_key = self.coming.entry(piece.key).or_default();
            of_key.push_back((from, channel, number));
        }
        self.inner.receive_piece(from, channel, piece)
    }

    fn piece_done(&mut self) -> Result<Option<u64>, TransportError> {
        let done = self.inner.piece_done()?;
        if let Some(key) = done
            && let Some(of_key) = self.coming.get_mut(&key)
            && let Some((from, channel, number)) = of_key.pop_front()
        {
            self.receives(from, Some(channel), number);
        }
        Ok(done)
    }

    fn give_up(&mut self, process: usize) {
        for of_key in self.coming.values_mut() {
            of_key.retain(|&(from, ..)| from != process);
        }
        self.inner.give_up(process);
    }
}

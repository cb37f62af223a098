//! A transport within a process: queues in memory, with an optional latency.
//!
//! # Contract
//! The minimum that [`Transport`] requires: with a jitter, messages of different senders overtake
//! one another at random. So code that works over it does not depend on the habits of a particular
//! network.
//!
//! ```text
//!  send(to) ──> due = now + latency + random up to jitter, not before the last of this pair
//!           ──> queue of `to`
//!                               receive(): the earliest message, if its time has come
//!
//!  send_piece(to) ──> due as above, but after no other ──> channel of the pair, in order
//!                               piece_done(): the first piece of a channel, if its time has come
//!                               and its receive has begun: the receiver copies it
//! ```
//! A piece is copied from its place when it is received, so a sender that changes it before it is
//! done is noticed.
//!
//! # Costs
//! A lock and a push into a heap per message. Not optimised: members in one process share memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::place::Piece;
use super::{Transport, TransportError};

/// The properties of a network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// The minimum time of every message.
    pub latency: Duration,
    /// The maximum of the random additional time. One message in eight takes up to eight times
    /// that.
    pub jitter: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// A network that connects processes in memory. A clone refers to the same network.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    conditions: Conditions,
    inboxes: Vec<Mutex<BinaryHeap<Reverse<Letter>>>>,
    pieces: Vec<Mutex<Pieces>>,
    cut: Vec<AtomicBool>,
    reported: Vec<AtomicBool>,
    /// The numbers of messages and bytes that were sent.
    messages: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Letter {
    due: Instant,
    number: u64,
    from: usize,
    message: Vec<u8>,
}

/// The pieces at a process.
#[derive(Debug, Default)]
struct Pieces {
    /// By sender and channel: the pieces that are sent to the process and not received, and when
    /// they are due.
    coming: HashMap<(usize, u16), VecDeque<(Instant, Piece)>>,
    /// By receiver: the keys of the pieces of the process that others have received.
    sent: VecDeque<(usize, u64)>,
}

impl Network {
    /// Creates a network of `processes` processes.
    #[must_use]
    pub fn new(processes: usize, conditions: Conditions) -> Network {
        let shared = Shared {
            conditions,
            inboxes: (0..processes).map(|_| Mutex::default()).collect(),
            pieces: (0..processes).map(|_| Mutex::default()).collect(),
            cut: (0..processes).map(|_| AtomicBool::new(false)).collect(),
            reported: (0..processes).map(|_| AtomicBool::new(false)).collect(),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        Network { shared: Arc::new(shared) }
    }

    /// Returns the transport of a process. Call it once for each process.
    #[must_use]
    pub fn transport(&self, process: usize) -> Channel {
        let processes = self.shared.inboxes.len();
        Channel {
            shared: Arc::clone(&self.shared),
            process,
            last: vec![None; processes],
            number: 0,
            random: self.shared.conditions.seed
                ^ (process as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            spare: Vec::new(),
            receives: Vec::new(),
            told: vec![false; processes],
        }
    }

    /// Cuts a process off: from this moment no message leaves it, and none arrives.
    pub fn cut(&self, process: usize) {
        // Relaxed: no other memory depends on the flag, as with all flags here; messages go through
        // locks.
        self.shared.cut[process].store(true, Ordering::Relaxed);
    }

    /// Cuts a process off, and reports it as failed to all others, as an MPI does that notices
    /// deaths. Its own transport is broken.
    pub fn report(&self, process: usize) {
        self.cut(process);
        self.shared.reported[process].store(true, Ordering::Relaxed);
    }

    /// Returns the number of messages that were sent and not received.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        let inboxes = self.shared.inboxes.iter();
        inboxes.map(|inbox| inbox.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Returns the number of messages, and of bytes in them, that have been sent so far.
    #[must_use]
    pub fn traffic(&self) -> (u64, u64) {
        (self.shared.messages.load(Ordering::Relaxed), self.shared.bytes.load(Ordering::Relaxed))
    }
}

/// One process's end of a [`Network`].
#[derive(Debug)]
pub struct Channel {
    shared: Arc<Shared>,
    process: usize,
    /// The due time of the last message to each process.
    last: Vec<Option<Instant>>,
    number: u64,
    random: u64,
    spare: Vec<Vec<u8>>,
    /// The receives of pieces that have begun: the sender, the channel and the place.
    receives: Vec<(usize, u16, Piece)>,
    /// The processes whose failure was reported to this process.
    told: Vec<bool>,
}

/// The length of the first pieces of long messages.
const EAGER: usize = 48 << 10;
/// The maximum number of buffers to keep.
const SPARE: usize = 64;

impl Channel {
    /// xorshift64*: the quality of the generator does not matter.
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn is_cut(&self, process: usize) -> bool {
        self.shared.cut[process].load(Ordering::Relaxed)
    }

    /// Returns the time at which something that is sent now arrives.
    fn due(&mut self) -> Instant {
        let Conditions { latency, jitter, .. } = self.shared.conditions;
        let more = match jitter.as_nanos() as u64 {
            0 => 0,
            jitter => {
                let most = if self.random().is_multiple_of(8) { 8 * jitter } else { jitter };
                self.random() % (most + 1)
            }
        };
        Instant::now() + latency + Duration::from_nanos(more)
    }

    fn pieces(&self, process: usize) -> MutexGuard<'_, Pieces> {
        self.shared.pieces[process].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the first piece whose receive has begun and whose time has come. Returns the key of
    /// the receive.
    fn receive_next(&mut self) -> Option<u64> {
        let now = Instant::now();
        let mut pieces =
            self.shared.pieces[self.process].lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Vec::new();
        for at in 0..self.receives.len() {
            let (from, channel, ref into) = self.receives[at];
            // Only the first receive of a channel matches its first piece.
            if seen.contains(&(from, channel)) || self.is_cut(from) {
                continue;
            }
            seen.push((from, channel));
            let Some(coming) = pieces.coming.get_mut(&(from, channel)) else { continue };
            if coming.front().is_none_or(|(due, _)| *due > now) {
                continue;
            }
            let Some((_, piece)) = coming.pop_front() else { continue };
            into.copy_from(&piece);
            drop(pieces);
            let key = piece.key;
            // Before the sender is told, which takes its buffer back then.
            drop(piece);
            self.pieces(from).sent.push_back((self.process, key));
            return Some(self.receives.remove(at).2.key);
        }
        None
    }
}

impl Transport for Channel {
    fn process(&self) -> usize {
        self.process
    }

    fn processes(&self) -> usize {
        self.last.len()
    }

    fn describe(&self) -> String {
        "queues within a process".to_owned()
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
        self.shared.messages.fetch_add(1, Ordering::Relaxed);
        self.shared.bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
        if self.is_cut(self.process) || self.is_cut(to) {
            return Ok(());
        }
        let due = self.due();
        let due = self.last[to].map_or(due, |last| due.max(last));
        self.last[to] = Some(due);
        self.number += 1;
        let letter = Letter { due, number: self.number, from: self.process, message };
        self.shared.inboxes[to]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Reverse(letter));
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        if self.shared.reported[self.process].load(Ordering::Relaxed) {
            let (transport, why) =
                (self.describe(), "this process was reported as failed".to_owned());
            return Err(TransportError::Broken { transport, what: "receive a message", why });
        }
        if self.is_cut(self.process) {
            return Ok(None);
        }
        for (process, reported) in self.shared.reported.iter().enumerate() {
            if reported.load(Ordering::Relaxed) && !std::mem::replace(&mut self.told[process], true)
            {
                return Err(TransportError::Gone { process });
            }
        }
        let mut inbox =
            self.shared.inboxes[self.process].lock().unwrap_or_else(PoisonError::into_inner);
        match inbox.peek() {
            Some(Reverse(letter)) if letter.due <= Instant::now() => {
                Ok(inbox.pop().map(|Reverse(letter)| (letter.from, letter.message)))
            }
            _ => Ok(None),
        }
    }

    fn unsent(&self) -> usize {
        0
    }

    fn eager(&self, _process: usize) -> Option<usize> {
        Some(EAGER)
    }

    fn send_piece(&mut self, to: usize, channel: u16, piece: Piece) -> Result<(), TransportError> {
        self.shared.messages.fetch_add(1, Ordering::Relaxed);
        self.shared.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let due = self.due();
        let from = self.process;
        self.pieces(to).coming.entry((from, channel)).or_default().push_back((due, piece));
        Ok(())
    }

    fn receive_piece(
        &mut self,
        from: usize,
        channel: u16,
        piece: Piece,
    ) -> Result<(), TransportError> {
        self.receives.push((from, channel, piece));
        Ok(())
    }

    fn piece_done(&mut self) -> Result<Option<u64>, TransportError> {
        if self.is_cut(self.process) {
            return Ok(None);
        }
        if let Some((_, key)) = self.pieces(self.process).sent.pop_front() {
            return Ok(Some(key));
        }
        Ok(self.receive_next())
    }

    fn give_up(&mut self, process: usize) {
        self.receives.retain(|&(from, ..)| from != process);
        self.pieces(self.process).sent.retain(|&(to, _)| to != process);
        let own = self.process;
        self.pieces(process).coming.retain(|&(from, _), _| from != own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages mix on every machine, as the delays of a seed are the same: the first delay of
    /// one sender is less than a later one of the other, whose message leaves later.
    #[test]
    fn the_order_of_a_pair_is_kept_and_nothing_is_lost() {
        let conditions = Conditions {
            latency: Duration::from_micros(5),
            jitter: Duration::from_micros(50),
            seed: 3,
        };
        let network = Network::new(3, conditions);
        let (mut a, mut b, mut c) =
            (network.transport(0), network.transport(1), network.transport(2));
        for n in 0..200_u8 {
            a.send(2, vec![n]).unwrap();
            b.send(2, vec![n]).unwrap();
        }
        let (mut next, mut order) = ([0, 0], Vec::new());
        while next != [200, 200] {
            if let Some((from, message)) = c.receive().unwrap() {
                assert_eq!(message, [next[from]]);
                next[from] += 1;
                order.push(from);
                c.recycle(message);
            }
        }
        assert!(order.windows(2).any(|pair| pair[0] > pair[1]), "they mix");
        assert_eq!((c.receive(), network.traffic()), (Ok(None), (400, 400)));
    }

    #[test]
    fn nothing_passes_a_cut() {
        let network = Network::new(2, Conditions::default());
        let (mut a, mut b) = (network.transport(0), network.transport(1));
        network.cut(0);
        a.send(1, vec![1]).unwrap();
        b.send(0, vec![2]).unwrap();
        assert_eq!((a.receive(), b.receive()), (Ok(None), Ok(None)));
    }
}

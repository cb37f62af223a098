//! Long messages: they go straight from a place of their sender to the place that the receiving
//! service names, without a copy in between.
//!
//! # Contract
//! A long message is *announced* by a frame among the other messages of its sender: its header and
//! its length. The service of the receiver gets the header in this order, and names the place. The
//! bytes are a matter of their own: no other message waits for them, and they arrive in any order
//! relative to other messages.
//!
//! ```text
//!   sender                                     receiver
//!   send_long(header, place) ── header ──────> receive_long: the place
//!     │ on channel n % 8       ── pieces ═══>    │ on channel n % 8
//!   sent: place may change                     landed: the bytes are there
//!
//!   the n-th long message of this sender to this receiver, at both ends
//! ```
//! * The messages of a channel go one after the other, each in pieces, of which [`WINDOW`] bytes
//!   are in flight. Both ends count the messages alike, so that the pieces match without numbers.
//!   Messages on different channels go at the same time: a very long one occupies one channel. So
//!   at most `CHANNELS * WINDOW` bytes are in flight from a process to another one. The number of
//!   messages that wait is bounded by the services.
//! * The two ends are done independently of one another: `sent` does not mean `landed`.
//! * If a process has died, all long messages from and to it are *given up*: the service is told
//!   so, and a place that receives may be written until its owner is dropped (see
//!   [`place`](crate::transport::place)). A long message that a dead process announces is ignored.
//!
//! # Pieces
//! ```text
//! | eager | eager | ... up to AHEAD | PIECE               | PIECE               | ... rest |
//! ```
//! Where a short piece leaves at once ([`Transport::eager`]), a long one leaves after a reply of
//! the receiver, which takes a round trip. That of the first long piece passes while the short ones
//! are on their way.
//!
//! # Costs
//! A frame, and a message of the network for each piece. While a long message is in flight, both
//! ends look for its completion as often as a thread that waits.

use std::collections::{HashMap, VecDeque};

use crate::transport::place::Place;
use crate::transport::{Transport, TransportError};

/// The number of long messages that are in flight from a process to another one.
pub(crate) const CHANNELS: usize = 8;
/// The bytes that go in short pieces. With a round trip of 0.4 ms, 256 KiB arrive in 0.6 of the
/// time of a single piece; between processes of one machine it would be 1.4 of it.
const AHEAD: usize = 1 << 20;
/// The length of the other pieces.
pub(crate) const PIECE: usize = 4 << 20;
/// The number of bytes of a message that are in flight.
const WINDOW: usize = 2 * PIECE;

/// The bit of a frame's service number that marks the announcement of a long message.
const ANNOUNCES: u32 = 1 << 31;

/// The place that a service names for a long message, and the number by which it recognises the
/// message.
#[derive(Debug)]
pub struct Landing {
    /// A number of the service's choice.
    pub token: u64,
    /// The place, with exactly as many bytes as the message.
    pub place: Place,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// This process sends it.
    Out,
    /// This process receives it.
    In,
}

/// The end of a long message, for its service.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) service: u32,
    pub(crate) process: usize,
    pub(crate) token: u64,
    pub(crate) way: Way,
    /// `None` if the message is given up.
    pub(crate) place: Option<Place>,
}

/// The receiver of a long message.
#[derive(Debug)]
enum For {
    /// A service, and its number for the message.
    Service(u32, u64),
    /// A service that is not attached yet; the endpoint has given the message this number.
    Later(u64),
    /// The same service, once it is attached: it has named another place than the message goes to.
    Elsewhere(u32, Landing),
}

/// A long message at one of its ends.
#[derive(Debug)]
struct Message {
    of: For,
    place: Place,
    /// The number of bytes whose transfer has begun, and is done.
    begun: usize,
    done: usize,
}

impl Message {
    /// Returns the length of the next piece, if it can begin.
    fn next_piece(&self, eager: Option<usize>) -> Option<usize> {
        let most = eager.filter(|_| self.begun < AHEAD).unwrap_or(PIECE);
        let some = most.min(self.place.len() - self.begun);
        (some > 0 && self.begun + some - self.done <= WINDOW).then_some(some)
    }
}

/// The messages of one direction, by channel.
#[derive(Debug, Default)]
struct Lanes {
    count: u64,
    channels: [VecDeque<Message>; CHANNELS],
}

/// All long messages of a process: see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct LongMessages {
    /// By process, and `Way`.
    peers: HashMap<usize, [Lanes; 2]>,
    /// The channels on which a message may begin.
    ready: Vec<(usize, Way, usize)>,
    /// The number of messages that are not done.
    pending: usize,
    ended: VecDeque<Ended>,
    /// The places of messages that have landed before their service is attached.
    early: HashMap<u64, Place>,
    laters: u64,
}

/// Turns a frame into the announcement of a long message: appends the length, and sets the mark.
pub(crate) fn announce(frame: &mut Vec<u8>, len: usize) {
    frame.extend_from_slice(&(len as u64).to_le_bytes());
    frame[3] |= (ANNOUNCES >> 24) as u8;
}

/// Returns the service, the header and the length that a frame announces; `None` for a frame of
/// another kind.
pub(crate) fn announced(service: u32, body: &[u8]) -> Option<(u32, &[u8], usize)> {
    if service & ANNOUNCES == 0 {
        return None;
    }
    let (header, len) = body.split_last_chunk()?;
    Some((service & !ANNOUNCES, header, usize::try_from(u64::from_le_bytes(*len)).ok()?))
}

/// Encodes a piece as its key: the direction, the process, the channel and the number of bytes.
fn key(way: Way, process: usize, channel: usize, len: usize) -> u64 {
    (way as u64) << 63 | (process as u64) << 32 | (channel as u64) << 28 | len as u64
}

fn of_key(key: u64) -> (usize, Way, usize, usize) {
    let way = if key >> 63 == Way::Out as u64 { Way::Out } else { Way::In };
    let process = (key >> 32) as usize & 0x7FFF_FFFF;
    (process, way, (key >> 28) as usize & 0xF, key as usize & 0xFFF_FFFF)
}

impl LongMessages {
    /// Adds a message to another process, whose announcement is being sent.
    pub(crate) fn send(&mut self, to: usize, service: u32, token: u64, place: Place) {
        self.add(to, Way::Out, For::Service(service, token), place);
    }

    /// Adds a message that another process has announced, and for which its service has named a
    /// place.
    pub(crate) fn receive(&mut self, from: usize, service: u32, landing: Landing) {
        self.add(from, Way::In, For::Service(service, landing.token), landing.place);
    }

    /// Adds a message that another process has announced to a service that is not attached yet.
    /// Returns a number for [`attach`](Self::attach).
    pub(crate) fn receive_early(&mut self, from: usize, len: usize) -> u64 {
        self.laters += 1;
        self.add(from, Way::In, For::Later(self.laters), Place::owned(vec![0; len]));
        self.laters
    }

    /// Directs a message of [`receive_early`](Self::receive_early) to its service.
    pub(crate) fn attach(&mut self, from: usize, number: u64, service: u32, landing: Landing) {
        if let Some(early) = self.early.remove(&number) {
            landing.place.copy_from(&early);
            let Landing { token, place } = landing;
            self.end(from, Way::In, service, token, Some(place));
            return;
        }
        let lanes = self.peers.get_mut(&from).into_iter();
        let messages =
            lanes.flat_map(|lanes| lanes[Way::In as usize].channels.iter_mut().flatten());
        for message in messages {
            if matches!(message.of, For::Later(other) if other == number) {
                message.of = For::Elsewhere(service, landing);
                return;
            }
        }
        // It was given up.
        self.end(from, Way::In, service, landing.token, None);
    }

    fn add(&mut self, process: usize, way: Way, of: For, place: Place) {
        let lanes = &mut self.peers.entry(process).or_default()[way as usize];
        let channel = (lanes.count % CHANNELS as u64) as usize;
        lanes.count += 1;
        lanes.channels[channel].push_back(Message { of, place, begun: 0, done: 0 });
        self.pending += 1;
        self.ready.push((process, way, channel));
    }

    fn end(&mut self, process: usize, way: Way, service: u32, token: u64, place: Option<Place>) {
        self.ended.push_back(Ended { service, process, token, way, place });
    }

    /// Whether no message is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// Returns the next message that has ended.
    pub(crate) fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Begins the pieces that can begin.
    ///
    /// # Errors
    /// As the transport: the message does not go on, and is to be given up.
    pub(crate) fn begin(&mut self, transport: &mut dyn Transport) -> Result<(), TransportError> {
        while let Some((process, way, channel)) = self.ready.pop() {
            self.begin_on(transport, process, way, channel)?;
        }
        Ok(())
    }

    fn begin_on(
        &mut self,
        transport: &mut dyn Transport,
        process: usize,
        way: Way,
        channel: usize,
    ) -> Result<(), TransportError> {
        let Some(lanes) = self.peers.get_mut(&process) else { return Ok(()) };
        let messages = &mut lanes[way as usize].channels[channel];
        let eager = transport.eager(process);
        while let Some(message) = messages.front_mut() {
            while let Some(some) = message.next_piece(eager) {
                let piece =
                    message.place.piece(key(way, process, channel, some), message.begun, some);
                match way {
                    Way::Out => transport.send_piece(process, channel as u16, piece),
                    Way::In => transport.receive_piece(process, channel as u16, piece),
                }?;
                message.begun += some;
            }
            if message.done < message.place.len() {
                break;
            }
            let Some(Message { of, place, .. }) = messages.pop_front() else { break };
            self.pending -= 1;
            match of {
                For::Service(service, token) => {
                    let place = Some(place);
                    self.ended.push_back(Ended { service, process, token, way, place });
                }
                For::Later(number) => {
                    self.early.insert(number, place);
                }
                For::Elsewhere(service, Landing { token, place: named }) => {
                    named.copy_from(&place);
                    let place = Some(named);
                    self.ended.push_back(Ended { service, process, token, way, place });
                }
            }
        }
        Ok(())
    }

    /// Takes note of the pieces that are done, and begins the next ones. Returns whether any was.
    ///
    /// # Errors
    /// As the transport, of which each process that is gone is reported once.
    pub(crate) fn advance(
        &mut self,
        transport: &mut dyn Transport,
    ) -> Result<bool, TransportError> {
        let mut any = false;
        while self.pending > 0 {
            let Some(key) = transport.piece_done()? else { break };
            let (process, way, channel, len) = of_key(key);
            let lanes = self.peers.get_mut(&process);
            let messages = lanes.map(|lanes| &mut lanes[way as usize].channels[channel]);
            if let Some(message) = messages.and_then(|messages| messages.front_mut()) {
                message.done += len;
            }
            any = true;
            self.begin_on(transport, process, way, channel)?;
        }
        Ok(any)
    }

    /// Gives up all messages from and to the processes that are dead.
    pub(crate) fn give_up(
        &mut self,
        transport: &mut dyn Transport,
        is_dead: impl Fn(usize) -> bool,
    ) {
        for (&process, lanes) in self.peers.iter_mut().filter(|(process, _)| is_dead(**process)) {
            let all =
                lanes.iter().flat_map(|lanes| &lanes.channels).map(VecDeque::len).sum::<usize>();
            if all == 0 {
                continue;
            }
            self.pending -= all;
            transport.give_up(process);
            for (lanes, way) in lanes.iter_mut().zip([Way::Out, Way::In]) {
                for message in lanes.channels.iter_mut().flat_map(|messages| messages.drain(..)) {
                    let (service, token) = match message.of {
                        For::Service(service, token) => (service, token),
                        For::Elsewhere(service, landing) => (service, landing.token),
                        For::Later(_) => continue,
                    };
                    self.ended.push_back(Ended { service, process, token, way, place: None });
                }
            }
        }
    }
}

//! The protocol between processes for memory of other hosts: the client half sends this process's
//! requests, the server half performs the requests of other processes on the memory of this host.
//!
//! # Contract
//! *Requests* go to the server of the member that owns the memory. The server performs the requests
//! of each process in the order in which that process sent them. It acknowledges them in batches:
//! an acknowledgement is the number of requests of that process that are done. It goes
//! * with every answer to the process that asked,
//! * with every message of a sync from server to server,
//! * by itself as soon as half of the *window* is done but unacknowledged,
//! * by itself after [`LATE`] at the latest.
//!
//! A process never has more requests in flight to a server than the window allows, so a server
//! never holds more than one window of requests per process. A fence asks for an acknowledgement,
//! unless everything is acknowledged or an answer in flight will acknowledge it. Its question
//! travels with the requests that precede it.
//!
//! ```text
//!   process A                             server of host B
//!   sent: 5 ── put put get put add ──>    [held, in order] ──gate──> done: 4 ──> memory of host B
//!   acked: 3 <── answer to the get: 3 ──  told: 3
//!   asked: 3
//! ```
//!
//! *Long data* go as messages of their own, straight to and from the memory of the host (`long`).
//! The request counts as done when they are in place, or have been read.
//!
//! *The gate.* A request carries an epoch: the last sync that is complete on the sender's host, or
//! on another host whose epoch has reached it. A server whose host has completed fewer syncs holds
//! the request back, and all later ones from the same process. The messages that open the gate are
//! already in flight. So no member sees memory in a state between two syncs that the member itself
//! has not reached.
//!
//! *Epochs of other hosts.* A member that has begun a sync and not left it may receive a message
//! from a member that has left it: an answer, or a mutex that is handed over. Such messages also
//! carry the epoch of their sender's host. A member that gets one waits until its own host has
//! completed that sync. So the memory that a member reads is as recent as the messages that it has
//! received.
//!
//! *The counts.* A request that touches memory is counted twice: where it is sent and where it is
//! done. There is one pair of counters for each parity of the number of syncs that the sender has
//! begun. Two parities suffice: requests sent before the sync before the last one are done
//! everywhere, and requests sent after the next sync has begun are behind the gate. The counters
//! only grow.
//!
//! *Several servers on a host*, its first processes, each handle the requests for the memory of
//! their members; most hosts have one server. The counts belong to the host, and its first server
//! exchanges them. The other servers open their gates when they see that the first one has
//! completed a sync.
//!
//! # Why requests are acknowledged when they are done
//! An acknowledgement at the arrival would bound the buffers of a server, but not answer a
//! fence. The number of requests that are done does both.
//!
//! # Why acknowledgements travel with other messages
//! When servers acknowledged as soon as they were idle, a third of all messages of a sync were
//! acknowledgements for which no member waited, and each took some 60 microseconds of a core.
//! Without them, and with puts that leave with the counts of their sync, a sync of 4 hosts is
//! three times as fast.
//!
//! # Why two sums
//! One sum of all requests is wrong: those that are sent while a sync is in progress belong to
//! the next one. The models in `lab/models` find that, and show that two suffice.
//!
//! # Costs
//! A put between hosts is one message or part of one. Its acknowledgement is part of a message that
//! mostly has to be sent anyway. A get or a read-modify-write takes two messages. A put and a fence
//! take two messages, as the question travels with the put.
//!
//! # Source
//! The client and the server of ARMCI, and the counters of Saify's thesis (2002), which has one
//! array of counts and a barrier of two exchanges. Changed: one exchange (see `sync_exchange`); the
//! gate; windows in place of buffers that may run out; acknowledgements that travel with other
//! messages.

mod answer;
mod long;
mod serve;
mod words;

pub(crate) use self::long::are_apart;
use self::long::{Begun, Body, Held, Moving};
pub(crate) use self::serve::REFUSALS;
pub(crate) use self::words::HostWords;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syncline_fabric::Hosts;
use syncline_fabric::endpoint::{Endpoint, Landing, Out, Place, Service, Way};
use syncline_process::Generation;
use syncline_sync::Fault;
use syncline_trace::{Activity, is_enabled, span};

use crate::error::RmaError;
use crate::lock::server::Locks;
use crate::memory::Table;
use crate::message::{self, Head, RequestKind};
use crate::shape::Piece;
use crate::sync_exchange::{Exchange, Told};

/// The number of requests that may be in flight from a process to a server, and the number of bytes
/// of these requests and their answers. Several long ones land at about the same time, and their
/// places are free again a round trip later: 2 MiB took 1.3 times as long for 4 MiB.
pub(crate) const WINDOW: u64 = 1024;
pub(crate) const WINDOW_BYTES: u64 = 8 << 20;
/// The maximum number of bytes of data in a message. More data are sent as long messages.
pub(crate) const MOST: usize = 32 << 10;
/// The maximum number of bytes of a long message. More data are sent as several ones.
pub(crate) const LONGEST: usize = 256 << 10;

/// The time after which requests that are done are acknowledged by a message of their own.
pub(crate) const LATE: Duration = Duration::from_millis(4);

/// A request, or several, whose answers a member of this process waits for.
#[derive(Debug, Default)]
struct Asked {
    /// The number of answers that are still to come.
    left: usize,
    /// The destinations of the data of each answer, in the order in which the answers come.
    into: VecDeque<Vec<Destination>>,
    value: u128,
    /// The process that answers; known while recording is on.
    peer: Option<u32>,
    refused: Option<RmaError>,
}

/// A piece of private memory that receives data of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: one thread at a time writes to `at`, under the engine's lock. The memory stays valid, and
// no other thread accesses it, as long as the engine has the ticket: the caller of `Engine::ask`
// guarantees it.
unsafe impl Send for Destination {}

/// The server's state for the requests of one process.
#[derive(Debug, Default)]
struct Queue {
    /// The requests that are not begun, and the long ones that are begun and not done.
    held: VecDeque<Held>,
    begun: VecDeque<Begun>,
    done: u64,
    told: u64,
    /// The number of bytes of the requests that are done and not acknowledged, and the time of the
    /// first one.
    bytes: u64,
    since: Option<Instant>,
    /// Whether the process is in `State::owed`.
    owed: bool,
}

impl Queue {
    /// Returns the number of requests that are done, and marks them as acknowledged.
    fn tell(&mut self) -> u64 {
        (self.told, self.bytes, self.since) = (self.done, 0, None);
        self.done
    }
}

#[derive(Debug)]
struct State {
    /// By server: the number of bytes of each unacknowledged request.
    sizes: Vec<VecDeque<u32>>,
    asked: HashMap<u64, Asked>,
    tickets: u64,
    /// The long messages in flight, by token.
    moving: HashMap<u64, Moving>,
    tokens: u64,
    /// The queues by process; and the number of messages that are held in all of them.
    queues: Vec<Queue>,
    held: usize,
    /// The processes that are owed an acknowledgement. Some of them may have got it meanwhile.
    owed: Vec<usize>,
    tables: HashMap<u32, Arc<Table>>,
    exchange: Exchange,
    /// The sync whose exchange is over, and the number of requests that this host has to have done
    /// before the sync is complete.
    awaited: Option<(u64, u64)>,
    locks: Locks,
    refused: Option<RmaError>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Engine {
    process: usize,
    /// The generation of the process: differs in a child that `fork` has made.
    born: Generation,
    hosts: Hosts,
    here: usize,
    /// The number of members on this host.
    members: u64,
    pub(crate) words: HostWords,
    /// By server: the number of requests that were sent, that an answer in flight will acknowledge,
    /// and that are acknowledged; and the number of bytes in flight.
    sent: Box<[AtomicU64]>,
    asked: Box<[AtomicU64]>,
    acked: Box<[AtomicU64]>,
    bytes: Box<[AtomicU64]>,
    /// Buffers for long messages.
    spare: Mutex<Vec<Vec<u8>>>,
    state: Mutex<State>,
}

/// The data of a request.
pub(crate) enum Data<'a> {
    /// Written behind the pieces.
    Within(&'a dyn Fn(&mut Vec<u8>)),
    /// Sent as a long message.
    Long(Vec<u8>),
}

/// The content of a request, without its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) detail: u8,
    pub(crate) parity: u8,
    pub(crate) allocation: u32,
    pub(crate) rank: usize,
    pub(crate) ticket: u64,
    pub(crate) pieces: &'a [Piece],
    /// The number of bytes of the answer.
    pub(crate) answer: usize,
}

impl Engine {
    pub(crate) fn new(
        endpoint: &Endpoint,
        members: usize,
        words: HostWords,
        radix: usize,
    ) -> Engine {
        let (hosts, process) = (endpoint.hosts().clone(), endpoint.process());
        let (count, here) = (hosts.count(), hosts.of(process));
        let processes: usize = (0..count).map(|host| hosts.processes(host).len()).sum();
        let servers = hosts.servers().len();
        let counters = || (0..servers).map(|_| AtomicU64::new(0)).collect();
        let state = State {
            sizes: vec![VecDeque::new(); servers],
            asked: HashMap::new(),
            tickets: 0,
            moving: HashMap::new(),
            tokens: 0,
            queues: (0..processes).map(|_| Queue::default()).collect(),
            held: 0,
            owed: Vec::new(),
            tables: HashMap::new(),
            exchange: Exchange::new(count, here, radix),
            awaited: None,
            locks: Locks::default(),
            refused: None,
        };
        Engine {
            process,
            born: Generation::current(),
            here,
            members: members as u64,
            words,
            sent: counters(),
            asked: counters(),
            acked: counters(),
            bytes: counters(),
            spare: Mutex::default(),
            state: Mutex::new(state),
            hosts,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of members on this host.
    pub(crate) fn members(&self) -> u64 {
        self.members
    }

    /// Returns the last sync that is known to be complete on some host.
    pub(crate) fn epoch(&self) -> u64 {
        self.words.completed().get().max(self.words.heard().get())
    }

    /// Returns whether this host has completed all syncs that are known to be complete on some
    /// host. If not, it will soon: all members have begun them.
    pub(crate) fn is_level(&self) -> bool {
        self.words.completed().get() >= self.words.heard().get()
    }

    /// Notes that a sync is complete on another host.
    pub(crate) fn hear(&self, epoch: u64) {
        if epoch > self.words.heard().get() {
            self.words.heard().raise_to(epoch);
        }
    }

    /// Returns whether this process exchanges the counts of its host.
    fn leads(&self) -> bool {
        self.hosts.server(self.here) == self.process
    }

    /// Makes an allocation available to requests.
    pub(crate) fn register(&self, table: &Arc<Table>) {
        self.state().tables.insert(table.id, Arc::clone(table));
    }

    pub(crate) fn unregister(&self, id: u32) {
        self.state().tables.remove(&id);
    }

    /// Takes the error of a request without an answer that another host has refused.
    pub(crate) fn refused(&self) -> Option<RmaError> {
        self.state().refused.take()
    }

    /// Returns the number of requests that this process has sent to a server.
    pub(crate) fn sent(&self, server: usize) -> u64 {
        // Relaxed: a member only needs to see its own requests.
        self.sent[server].load(Ordering::Relaxed)
    }

    /// Returns whether `requests` requests to a server are acknowledged.
    pub(crate) fn acked(&self, server: usize, requests: u64) -> bool {
        // Acquire: pairs with the Release in `acknowledged`, where the acknowledgement is received,
        // and so with the operations of the server before it.
        self.acked.get(server).is_none_or(|acked| acked.load(Ordering::Acquire) >= requests)
    }

    /// Returns whether an answer in flight will acknowledge `requests` requests to a server.
    pub(crate) fn is_asked(&self, server: usize, requests: u64) -> bool {
        // Relaxed: a stale value costs one superfluous question.
        self.asked[server].load(Ordering::Relaxed) >= requests
    }

    /// Returns whether the window has room for `cost` more bytes.
    pub(crate) fn room(&self, server: usize, cost: u64) -> bool {
        // Acquire: pairs with the Release in `acknowledged`, so that the value of `sent` that is
        // read next is at least `acked`, also when other threads send and receive meanwhile.
        let acked = self.acked[server].load(Ordering::Acquire);
        let under_way = self.sent[server].load(Ordering::Relaxed) - acked;
        let bytes = self.bytes[server].load(Ordering::Relaxed);
        under_way == 0 || (under_way < WINDOW && bytes + cost <= WINDOW_BYTES)
    }

    /// Sends a request as soon as the window has room for it.
    pub(crate) fn request(
        &self,
        endpoint: &Endpoint,
        service: u32,
        request: Request<'_>,
        server: usize,
        size: usize,
        mut data: Data<'_>,
    ) -> Result<(), Fault> {
        let cost = (message::HEAD
            + 8 * Piece::WORDS * request.pieces.len()
            + size.max(request.answer)) as u64;
        let is_long = matches!(data, Data::Long(_));
        let mut send = |out: &mut Out<'_>| {
            // Another thread may have used the room.
            let room = self.room(server, cost);
            if room {
                self.send(out, &request, server, cost, &mut data);
            }
            room
        };
        loop {
            if !self.room(server, cost) {
                let _waits = span(Activity::AwaitMessage, self.process_of(server), 0);
                endpoint.wait(None, || self.room(server, cost))?;
            }
            // These may leave with later messages: a thread that waits for them does so in
            // `Endpoint::wait`, which drives the endpoint.
            let written =
                matches!(request.kind, RequestKind::Put | RequestKind::Add | RequestKind::Fence);
            let sent = if written && !is_long {
                endpoint.post(service, &mut send)
            } else {
                endpoint.enter(service, &mut send)
            };
            if sent {
                return Ok(());
            }
        }
    }

    fn send(
        &self,
        out: &mut Out<'_>,
        request: &Request<'_>,
        server: usize,
        cost: u64,
        data: &mut Data<'_>,
    ) {
        let Request { kind, detail, parity, allocation, rank, ticket, pieces, .. } = *request;
        let (pieces_sent, rank, to) =
            (pieces.len() as u32, rank as u32, self.hosts.servers()[server]);
        // The epoch is read under the endpoint's lock, so that the epochs of successive messages do
        // not decrease.
        let epoch = self.epoch();
        let head =
            Head { kind, detail, parity, pieces: pieces_sent, epoch, allocation, rank, ticket };
        let mut message = out.message();
        head.write(&mut message);
        pieces.iter().for_each(|&piece| message::push_piece(&mut message, piece));
        if let Data::Within(write) = data {
            write(&mut message);
        }
        let mut state = self.state();
        state.sizes[server].push_back(cost as u32);
        // Relaxed: the sum is read after the arrival of this member at the sync has been acquired,
        // and the arrival comes after this addition.
        if kind.counts() {
            self.words.sent(parity, self.hosts.of(to)).fetch_add(1, Ordering::Relaxed);
        }
        self.words.under_way().fetch_add(1, Ordering::Relaxed);
        self.bytes[server].fetch_add(cost, Ordering::Relaxed);
        let sent = self.sent[server].fetch_add(1, Ordering::Relaxed) + 1;
        if kind.is_answered() {
            self.asked[server].store(sent, Ordering::Relaxed);
            if is_enabled()
                && let Some(asked) = state.asked.get_mut(&ticket)
            {
                asked.peer = Some(to as u32);
            }
        }
        if let Data::Long(bytes) = data {
            let token = state.token(Moving::Put);
            return out.send_long(to, message, token, Place::owned(std::mem::take(bytes)));
        }
        if to != self.process {
            return out.send(to, message);
        }
        // A process that serves performs its requests to its own host at once.
        if let Some((head, rest)) = out.body(&message).and_then(Head::read) {
            self.perform(&mut state, to, head, rest, None, out);
        }
    }

    /// Returns a new number for the parts of a put.
    pub(crate) fn ticket(&self) -> u64 {
        let mut state = self.state();
        state.tickets += 1;
        state.tickets
    }

    /// Registers a request, and returns its ticket. `into` has one list of destinations for each
    /// answer. The destinations must stay valid, and no other thread may access them, until all
    /// answers have come or [`give_up`](Self::give_up) has been called.
    pub(crate) fn ask(&self, into: VecDeque<Vec<Destination>>) -> u64 {
        let mut state = self.state();
        state.tickets += 1;
        let ticket = state.tickets;
        state.asked.insert(ticket, Asked { left: into.len(), into, ..Asked::default() });
        ticket
    }

    /// Returns the process that answers a request, for traces.
    pub(crate) fn peer(&self, ticket: u64) -> u32 {
        self.state().asked.get(&ticket).and_then(|asked| asked.peer).unwrap_or(u32::MAX)
    }

    /// Returns the process of a server, for traces.
    pub(crate) fn process_of(&self, server: usize) -> u32 {
        self.hosts.servers()[server] as u32
    }

    /// Returns `None` until all answers have come or a request is refused; then removes the ticket,
    /// and returns the value of the last answer, or the error.
    pub(crate) fn answered(&self, ticket: u64) -> Option<Result<u128, RmaError>> {
        let mut state = self.state();
        if state.asked.get(&ticket).is_some_and(|asked| asked.left > 0 && asked.refused.is_none()) {
            return None;
        }
        let Some(asked) = state.asked.remove(&ticket) else { return Some(Ok(0)) };
        Some(asked.refused.map_or(Ok(asked.value), Err))
    }

    /// Removes a ticket: answers that are still to come are not written to their destinations.
    pub(crate) fn give_up(&self, ticket: u64) {
        // In a child that `fork` has made no answer comes, and a thread that does not exist there
        // may hold the lock.
        if self.born.is_current() {
            self.state().asked.remove(&ticket);
        }
    }

    /// Notes that a member of this host has arrived at a sync. When all have, the exchange begins.
    pub(crate) fn arrived(&self, out: &mut Out<'_>) {
        if self.leads() {
            self.go_on(&mut self.state(), out);
        }
    }

    /// Advances the syncs as far as possible.
    fn go_on(&self, state: &mut State, out: &mut Out<'_>) {
        if !self.leads() {
            // The first server of the host may have completed a sync.
            return self.let_all_through(state, out);
        }
        let completed = self.words.completed();
        loop {
            let epoch = completed.get() + 1;
            let parity = ((epoch - 1) % 2) as u8;
            let queues = &mut state.queues;
            let mut send = |told: Told| {
                let Told { to, epoch, stride, step, counts, known } = told;
                let mut message = out.message();
                let place = (stride as u32, step as u32);
                let to = self.hosts.server(to);
                let head = Head {
                    epoch,
                    allocation: place.0,
                    rank: place.1,
                    detail: known.into(),
                    ticket: queues[to].tell(),
                    ..Head::new(RequestKind::Sync)
                };
                head.write(&mut message);
                counts.into_iter().for_each(|count| message::push(&mut message, count));
                out.send(to, message);
            };
            if state.awaited.is_none() && state.exchange.is_idle() {
                // Acquire, in `get`: pairs with the arrivals of this host's members, so that
                // everything they did before is seen.
                if self.words.arrived().get() < epoch * self.members {
                    return;
                }
                let known = self.words.under_way().load(Ordering::Relaxed) == 0;
                let count = |ahead| {
                    let host = (self.here + ahead) % self.hosts.count();
                    self.words.sent(parity, host).load(Ordering::Relaxed)
                };
                state.exchange.start(epoch, count, known, &mut send);
            }
            if state.awaited.is_none() {
                let Some((count, known)) = state.exchange.advance(&mut send) else { return };
                if known {
                    self.words.known().raise_to(epoch);
                }
                state.awaited = Some((epoch, count));
            }
            // Acquire: pairs with the additions of all servers of this host, and so with their
            // operations on memory before them.
            let done = self.words.done[usize::from(parity)].load(Ordering::Acquire);
            if state.awaited.is_none_or(|(_, count)| done < count) {
                return;
            }
            state.awaited = None;
            // Release, in `raise_to`: a member that sees the sync complete also sees the servers'
            // operations on memory.
            completed.raise_to(epoch);
            self.let_all_through(state, out);
        }
    }

    fn let_all_through(&self, state: &mut State, out: &mut Out<'_>) {
        if state.held > 0 {
            (0..state.queues.len()).for_each(|from| self.let_through(state, from, out));
        }
    }

    /// Performs the requests that are held for a process, as far as the gate and the long requests
    /// before them allow.
    fn let_through(&self, state: &mut State, from: usize, out: &mut Out<'_>) {
        while let Some(Held { message, body }) = state.queues[from].held.front() {
            let Some((head, rest)) = Head::read(message) else { break };
            if matches!(body, Body::Coming(_)) || !self.has_turn(state, from, head, rest) {
                break;
            }
            let Some(Held { message, body }) = state.queues[from].held.pop_front() else { break };
            state.held -= 1;
            let data = if let Body::There(data) = body { Some(data) } else { None };
            if let Some((head, rest)) = Head::read(&message) {
                self.perform(state, from, head, rest, data.as_deref(), out);
            }
            self.recycle(data);
        }
    }

    /// Whether a request may begin, if no other one of its process is held.
    fn has_turn(&self, state: &State, from: usize, head: Head, rest: &[u8]) -> bool {
        head.epoch <= self.words.completed().get()
            && state.queues[from].may_begin(head, long::answers_long(head, rest))
    }
}

impl Service for Engine {
    fn receive(&self, from: usize, body: &[u8], out: &mut Out<'_>) {
        let Some((head, rest)) = Head::read(body) else { return };
        let state = &mut *self.state();
        match head.kind {
            RequestKind::Reply => {
                self.hear(u64::from(head.allocation) | u64::from(head.rank) << 32);
                self.acknowledged(state, from, head.epoch);
                self.replied(state, head, rest);
            }
            RequestKind::Ack => self.acknowledged(state, from, head.epoch),
            RequestKind::Refused => {
                let why = REFUSALS.get(usize::from(head.detail)).copied().unwrap_or(REFUSALS[0]);
                // A request without an answer: the next fence, sync or wait returns the error.
                let refused = match state.asked.get_mut(&head.ticket) {
                    Some(asked) => &mut asked.refused,
                    None => &mut state.refused,
                };
                refused.get_or_insert(RmaError::Refused { host: self.hosts.of(from), why });
            }
            RequestKind::Sync => {
                self.acknowledged(state, from, head.ticket);
                let (stride, step) = (head.allocation as usize, head.rank as usize);
                let counts = message::words(rest).collect();
                state.exchange.receive(head.epoch, stride, step, counts, head.detail != 0);
                self.go_on(state, out);
            }
            _ => {
                if state.queues[from].held.is_empty() && self.has_turn(state, from, head, rest) {
                    self.perform(state, from, head, rest, None, out);
                } else {
                    let held = Held { message: body.to_vec(), body: Body::Within };
                    state.queues[from].held.push_back(held);
                    state.held += 1;
                }
                self.go_on(state, out);
            }
        }
    }

    fn receive_long(&self, from: usize, header: &[u8], len: usize, _: &mut Out<'_>) -> Landing {
        self.lands(&mut self.state(), from, header, len)
    }

    fn landed(&self, from: usize, token: u64, place: Place, out: &mut Out<'_>) {
        self.has_landed(&mut self.state(), from, token, place, out);
    }

    fn sent(&self, to: usize, token: u64, place: Place, out: &mut Out<'_>) {
        self.has_left(&mut self.state(), to, token, place, out);
    }

    fn given_up(&self, _: usize, token: u64, _: Way, _: &mut Out<'_>) {
        // The requests of a dead process stay undone: no sync completes without it.
        self.state().moving.remove(&token);
    }

    fn idle(&self, out: &mut Out<'_>) {
        let state = &mut *self.state();
        if !state.owed.is_empty() {
            self.acknowledge_late(state, out);
        }
        while let Some((to, ticket)) = state.locks.served() {
            self.reply(state, to, ticket, out, |_| ());
        }
        self.go_on(state, out);
    }
}

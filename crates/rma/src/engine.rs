//! A process's part in global memory that other hosts have: what it asks of them, and what they ask of its host.
//!
//! # Contract
//! *Requests* go to the server of the member that has the memory, and are done there in the order of each asking process.
//! They are acknowledged in batches, by the number of those that have been done: with every answer, and so to who asks; with
//! every message of a sync, from server to server; when half of the *window* is; and after [`LATE`] by itself. A process has
//! no more requests under way to a server than the window allows, so that never holds more than that of it, whatever
//! happens. A fence asks, unless all is acknowledged, or will be by an answer that is under way; its question goes with what
//! was sent before.
//!
//! ```text
//!   process A                               server of host B
//!   sent: 5 ── put put get put add ──>  [held, in order] ──gate──> done: 4 ──> memory of host B
//!   acked: 3 <── answer to the get: 3 ──  told: 3
//!   asked: 3
//! ```
//!
//! *The gate.* A request carries the number of syncs that its sender's host has completed; a server whose host has not
//! completed as many holds it back, and all that follow it from the same process. What the gate waits for is under way
//! already. So nobody sees memory as it is between two syncs in which they are not.
//!
//! *Word of mouth.* Who has begun a sync and not left it may hear from one who has: by an answer, or as the next holder of a
//! mutex. Such messages say how many syncs their sender's host has completed, and requests carry the greatest number that
//! their host has heard of; who has heard of a sync waits until its own host has completed it. So what one looks at is as
//! new as what one knows.
//!
//! *The counts.* A request that touches memory is counted twice, where it is sent and where it is done, by the parity of the
//! number of syncs that its sender has begun. Two sums suffice: what was sent before the sync before the last has been done
//! everywhere, and what is sent after the next has begun is behind the gate. They only grow.
//!
//! *Several servers on a host* (its first processes; mostly there is one) do their members' requests each. The counts are of
//! the host, and the first server exchanges them; the others open their gates when they see that it has completed a sync.
//!
//! # Costs
//! A put between hosts is one message, or a share of one; its acknowledgement is a share of one, which mostly has to be sent
//! anyhow. A get or a read-modify-write is two. A put and a fence are two, the question being with the put.
//!
//! # Source
//! The client and server of ARMCI, and the counters of Saify's thesis (2002), there one array of counts and a barrier of two
//! exchanges. Changed: see `exchange`; the gate; windows instead of buffers that may run out; acknowledgements with whatever
//! is said anyhow.

mod answer;
mod serve;

pub(crate) use serve::REFUSALS;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syncline_fabric::Hosts;
use syncline_fabric::endpoint::{Endpoint, Out, Service};
use syncline_process::Generation;
use syncline_signal::PaddedSignal;
use syncline_signal::primitive::AtomicU64 as SharedU64;
use syncline_sync::{Fault, Space, SpaceError, space::Array};

use crate::error::RmaError;
use crate::lock::server::Locks;
use crate::memory::Table;
use crate::message::{self, Head, RequestKind};
use crate::shape::Piece;
use crate::sync_exchange::{Exchange, Told};

/// So many requests, and so many bytes of them and their answers, may be under way from a process to a server.
pub(crate) const WINDOW: u64 = 1024;
pub(crate) const WINDOW_BYTES: u64 = 2 << 20;
/// The data of a message: more is sent as several.
pub(crate) const MOST: usize = 32 << 10;

/// What is done is told of after so long, if there was no occasion before.
pub(crate) const LATE: Duration = Duration::from_millis(4);

/// What the members of a host share.
#[derive(Clone, Debug)]
pub(crate) struct HostWords {
    /// Arrivals of members at syncs, and syncs that this host has completed.
    signals: Array<PaddedSignal>,
    /// By parity: requests that were done here.
    done: Array<SharedU64>,
    /// By parity and host: requests that were sent there. The last: requests under way.
    sent: Array<SharedU64>,
    hosts: usize,
}

impl HostWords {
    pub(crate) fn within(space: &mut Space, hosts: usize) -> Result<HostWords, SpaceError> {
        Ok(HostWords {
            signals: space.array(4)?,
            done: space.array(2)?,
            sent: space.array(2 * hosts + 1)?,
            hosts,
        })
    }

    pub(crate) fn arrived(&self) -> &PaddedSignal {
        &self.signals[0]
    }

    pub(crate) fn completed(&self) -> &PaddedSignal {
        &self.signals[1]
    }

    /// The last sync that everybody began knowing that everything of theirs was done.
    pub(crate) fn known(&self) -> &PaddedSignal {
        &self.signals[2]
    }

    /// The last sync that any host is known to have completed.
    pub(crate) fn heard(&self) -> &PaddedSignal {
        &self.signals[3]
    }

    fn sent(&self, parity: u8, host: usize) -> &SharedU64 {
        &self.sent[usize::from(parity) * self.hosts + host]
    }

    fn under_way(&self) -> &SharedU64 {
        &self.sent[2 * self.hosts]
    }
}

/// What a process asks for, and who waits for the answer.
#[derive(Debug, Default)]
struct Asked {
    /// Answers that are still to come.
    left: usize,
    /// Where their data go, in the order in which they come.
    into: VecDeque<Vec<Destination>>,
    value: u128,
    refused: Option<RmaError>,
}

/// A piece of private memory that an answer goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: a place is written by one thread at a time, under the engine's lock, as long as whoever asked waits for it or
// owns it: see `Engine::ask`.
unsafe impl Send for Destination {}

/// What is held of one process.
#[derive(Debug, Default)]
struct Queue {
    held: VecDeque<Vec<u8>>,
    done: u64,
    told: u64,
    /// Of those that were done and not told of: their bytes, and since when there are any.
    bytes: u64,
    since: Option<Instant>,
    /// It is in the list of those that are owed.
    owed: bool,
}

impl Queue {
    /// How many have been done, which is told now.
    fn tell(&mut self) -> u64 {
        (self.told, self.bytes, self.since) = (self.done, 0, None);
        self.done
    }
}

#[derive(Debug)]
struct State {
    /// By server: bytes of each request that is not acknowledged.
    sizes: Vec<VecDeque<u32>>,
    asked: HashMap<u64, Asked>,
    tickets: u64,
    /// By process; and how many messages are held of all.
    queues: Vec<Queue>,
    held: usize,
    /// Processes that are to be told of what has been done, and maybe some that know.
    owed: Vec<usize>,
    tables: HashMap<u32, Arc<Table>>,
    exchange: Exchange,
    /// The sync of which the exchange is over, and what this host has to wait for still.
    awaited: Option<(u64, u64)>,
    locks: Locks,
    refused: Option<RmaError>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Engine {
    process: usize,
    /// That of the process.
    born: Generation,
    hosts: Hosts,
    here: usize,
    /// Members on this host.
    members: u64,
    pub(crate) words: HostWords,
    /// By server: requests sent, those that will be acknowledged by an answer, and those that are; bytes under way.
    sent: Box<[AtomicU64]>,
    asked: Box<[AtomicU64]>,
    acked: Box<[AtomicU64]>,
    bytes: Box<[AtomicU64]>,
    state: Mutex<State>,
}

/// What a request says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) detail: u8,
    pub(crate) parity: u8,
    pub(crate) allocation: u32,
    pub(crate) rank: usize,
    pub(crate) ticket: u64,
    pub(crate) pieces: &'a [Piece],
    /// Bytes of the answer.
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
            state: Mutex::new(state),
            hosts,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many members are on this host.
    pub(crate) fn members(&self) -> u64 {
        self.members
    }

    /// The last sync that is known to be complete somewhere.
    pub(crate) fn epoch(&self) -> u64 {
        self.words.completed().get().max(self.words.heard().get())
    }

    /// Whether this host has completed all syncs that it has heard of. It will have, soon: everybody has begun them.
    pub(crate) fn is_level(&self) -> bool {
        self.words.completed().get() >= self.words.heard().get()
    }

    /// Somebody has said that a sync is complete there.
    pub(crate) fn hear(&self, epoch: u64) {
        if epoch > self.words.heard().get() {
            self.words.heard().raise_to(epoch);
        }
    }

    /// Whether this process exchanges counts for its host.
    fn leads(&self) -> bool {
        self.hosts.server(self.here) == self.process
    }

    /// The allocation is known from now on.
    pub(crate) fn register(&self, table: &Arc<Table>) {
        self.state().tables.insert(table.id, Arc::clone(table));
    }

    pub(crate) fn unregister(&self, id: u32) {
        self.state().tables.remove(&id);
    }

    /// What another host has refused since the last time this was asked.
    pub(crate) fn refused(&self) -> Option<RmaError> {
        self.state().refused.take()
    }

    /// How many requests this process has sent to a server.
    pub(crate) fn sent(&self, server: usize) -> u64 {
        // Relaxed: a member asks for what it has sent itself.
        self.sent[server].load(Ordering::Relaxed)
    }

    /// Whether so many requests to a server are acknowledged.
    pub(crate) fn acked(&self, server: usize, requests: u64) -> bool {
        // Acquire: pairs with the Release where the acknowledgement came in, and so with what the server did before.
        self.acked.get(server).is_none_or(|acked| acked.load(Ordering::Acquire) >= requests)
    }

    /// Whether so many requests to a server will be acknowledged soon, without being asked for.
    pub(crate) fn is_asked(&self, server: usize, requests: u64) -> bool {
        // Relaxed: whoever asks once too often is answered.
        self.asked[server].load(Ordering::Relaxed) >= requests
    }

    /// Whether the window has room for so many bytes more.
    pub(crate) fn room(&self, server: usize, cost: u64) -> bool {
        // Acquire: pairs with the Release in `acknowledged`, so that no fewer are seen to be sent; other threads go on.
        let acked = self.acked[server].load(Ordering::Acquire);
        let under_way = self.sent[server].load(Ordering::Relaxed) - acked;
        let bytes = self.bytes[server].load(Ordering::Relaxed);
        under_way == 0 || (under_way < WINDOW && bytes + cost <= WINDOW_BYTES)
    }

    /// Sends a request, when the window has room for it. `data` writes what is behind the pieces.
    pub(crate) fn request(
        &self,
        endpoint: &Endpoint,
        service: u32,
        request: Request<'_>,
        server: usize,
        size: usize,
        data: impl Fn(&mut Vec<u8>),
    ) -> Result<(), Fault> {
        let cost = (message::HEAD
            + 8 * Piece::WORDS * request.pieces.len()
            + size.max(request.answer)) as u64;
        let send = |out: &mut Out<'_>| {
            // Another thread may have been faster.
            let room = self.room(server, cost);
            if room {
                self.send(out, &request, server, cost, &data);
            }
            room
        };
        loop {
            endpoint.wait(None, || self.room(server, cost))?;
            // What is only written is waited for by nobody before somebody asks; and who asks waits.
            let written =
                matches!(request.kind, RequestKind::Put | RequestKind::Add | RequestKind::Fence);
            let sent =
                if written { endpoint.post(service, send) } else { endpoint.enter(service, send) };
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
        data: impl Fn(&mut Vec<u8>),
    ) {
        let Request { kind, detail, parity, allocation, rank, ticket, pieces, .. } = *request;
        let (pieces_sent, rank, to) =
            (pieces.len() as u32, rank as u32, self.hosts.servers()[server]);
        // Under the lock of the endpoint: so that numbers do not fall from one message to the next.
        let epoch = self.epoch();
        let head =
            Head { kind, detail, parity, pieces: pieces_sent, epoch, allocation, rank, ticket };
        let mut message = out.message();
        head.write(&mut message);
        pieces.iter().for_each(|&piece| message::push_piece(&mut message, piece));
        data(&mut message);
        let mut state = self.state();
        state.sizes[server].push_back(cost as u32);
        // Relaxed: who begins the sync has synchronised with this member's arrival, which comes after this.
        if kind.counts() {
            self.words.sent(parity, self.hosts.of(to)).fetch_add(1, Ordering::Relaxed);
        }
        self.words.under_way().fetch_add(1, Ordering::Relaxed);
        self.bytes[server].fetch_add(cost, Ordering::Relaxed);
        let sent = self.sent[server].fetch_add(1, Ordering::Relaxed) + 1;
        if kind.is_answered() {
            self.asked[server].store(sent, Ordering::Relaxed);
        }
        if to != self.process {
            return out.send(to, message);
        }
        // Of its own host, a process that serves asks itself.
        if let Some((head, rest)) = out.body(&message).and_then(Head::read) {
            self.perform(&mut state, to, head, rest, out);
        }
    }

    /// Prepares for answers whose data go into these places, one list for each. The places are there, and nobody else's,
    /// until all has come or [`give_up`](Self::give_up) has been called.
    pub(crate) fn ask(&self, into: VecDeque<Vec<Destination>>) -> u64 {
        let mut state = self.state();
        state.tickets += 1;
        let ticket = state.tickets;
        state.asked.insert(ticket, Asked { left: into.len(), into, value: 0, refused: None });
        ticket
    }

    /// Whether all answers have come. Then they are forgotten, and the value of the last is returned; or why there is none.
    pub(crate) fn answered(&self, ticket: u64) -> Option<Result<u128, RmaError>> {
        let mut state = self.state();
        if state.asked.get(&ticket).is_some_and(|asked| asked.left > 0 && asked.refused.is_none()) {
            return None;
        }
        let Some(asked) = state.asked.remove(&ticket) else { return Some(Ok(0)) };
        Some(asked.refused.map_or(Ok(asked.value), Err))
    }

    /// What comes still is not written any more.
    pub(crate) fn give_up(&self, ticket: u64) {
        // In a child made by fork nothing comes, and the lock may be with a thread that is not
        // there.
        if self.born.is_current() {
            self.state().asked.remove(&ticket);
        }
    }

    /// A member of this host has arrived at a sync: if all have, it begins between hosts.
    pub(crate) fn arrived(&self, out: &mut Out<'_>) {
        if self.leads() {
            self.go_on(&mut self.state(), out);
        }
    }

    /// Goes on with the syncs as far as possible.
    fn go_on(&self, state: &mut State, out: &mut Out<'_>) {
        if !self.leads() {
            // Who does may have completed one.
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
                // Acquire, in `get`: what members of this host did before they arrived has happened.
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
            // Acquire: pairs with the additions of all servers, and so with what they have done to memory.
            let done = self.words.done[usize::from(parity)].load(Ordering::Acquire);
            if state.awaited.is_none_or(|(_, count)| done < count) {
                return;
            }
            state.awaited = None;
            // A release: what the server has done is seen by those who see the sync complete.
            completed.raise_to(epoch);
            self.let_all_through(state, out);
        }
    }

    fn let_all_through(&self, state: &mut State, out: &mut Out<'_>) {
        if state.held > 0 {
            (0..state.queues.len()).for_each(|from| self.let_through(state, from, out));
        }
    }

    /// Does what is held of a process, as far as the gate allows.
    fn let_through(&self, state: &mut State, from: usize, out: &mut Out<'_>) {
        while let Some(message) = state.queues[from].held.front() {
            let Some((head, _)) = Head::read(message) else { break };
            if head.epoch > self.words.completed().get() {
                break;
            }
            let message = state.queues[from].held.pop_front().unwrap_or_default();
            state.held -= 1;
            if let Some((head, rest)) = Head::read(&message) {
                self.perform(state, from, head, rest, out);
            }
        }
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
                // Of a request that has no answer, whoever asks next is told.
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
                let queue = &mut state.queues[from];
                if queue.held.is_empty() && head.epoch <= self.words.completed().get() {
                    self.perform(state, from, head, rest, out);
                } else {
                    queue.held.push_back(body.to_vec());
                    state.held += 1;
                }
                self.go_on(state, out);
            }
        }
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

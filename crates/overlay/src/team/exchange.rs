//! The messages of a run on a team: grants with data, room, first and final values, and failures.
//!
//! # Contract
//! [`Exchange::released`] sends what the release of a task sends, before the task's own word is
//! raised: nothing on this host changes the data until then. The receiver copies all data of a
//! message to their slots, raises the mirror of the task's word, and unparks the workers of tasks
//! that wait for it. Long data go by themselves, from slot to slot: see [`long`](super::long).
//!
//! | message | sent                                        | to                                  |
//! |---------|---------------------------------------------|-------------------------------------|
//! | release | at the release, at once                     | each host that waits for the task   |
//! | room    | at the release, with the next message, or   | each host with writers that wait    |
//! |         | when a worker has nothing to run            | for room, if no release goes there  |
//! | initial | before the start, by the owner              | hosts that read it before a version |
//! | final   | after the end, by the last writer           | hosts that have an earlier version  |
//! | left    | when a task leaves                          | the server of each other host       |
//! | failed  | when a task fails or panics                 | the server of each other host       |
//! | rounds  | ten times a second, by the server           | the server of each other host       |
//!
//! # Format
//! Numbers are little-endian.
//!
//! ```text
//! | run (4) | kind (4) | task or location (8) | state, rounds or offset (8) | data ... |
//! ```
//! Long data of a release have the number of their part in the upper half of the task.
//!
//! # Costs
//! A release: one message for each other host that waits, and two copies of short data, into the
//! message and out of it. Nothing allocates in the steady state, but for long data. The rounds,
//! which only watches need, are at most 640 KB a second.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use syncline_fabric::endpoint::{Endpoint, Landing, Out, Owner, Place, Service, Way};
use syncline_signal::primitive::{AtomicU64, Ordering, fence};
use syncline_sync::{Fault, space::Array};

use crate::compiled::Program;
use crate::compiled::claimed::{ELSEWHERE, rounds};
use crate::parked::ParkedWorkers;
use crate::team::layout::{Layout, Message, Outgoing};
use crate::team::long::{Arriving, LongGrants, Unsent};
use crate::team::memory::{Failed, HostMemory};

/// The kinds of messages.
pub(super) const RELEASE: u32 = 0;
const ROOM: u32 = 1;
pub(super) const INITIAL: u32 = 2;
pub(super) const FINAL: u32 = 3;
const LEFT: u32 = 4;
const FAILED: u32 = 5;
const ROUNDS: u32 = 6;

/// The least time between two reports of rounds, and the bytes of a report in that time.
const REPORT: Duration = Duration::from_millis(100);
const REPORTED: u32 = 64 << 10;

/// The service of a process that receives the messages of runs.
#[derive(Default)]
pub(crate) struct Grants {
    runs: Mutex<Runs>,
    /// Locked after `runs`.
    long: Mutex<LongGrants>,
}

#[derive(Default)]
struct Runs {
    /// The number of runs that each member of the process has begun.
    begun: HashMap<usize, u32>,
    /// The runs under way, with the number of this process's members in each.
    now: Vec<(u32, usize, Arc<Exchange>)>,
}

impl Grants {
    fn lock(&self) -> std::sync::MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the next run of a member, which is the same for all members.
    pub(super) fn next(&self, rank: usize) -> u32 {
        let mut runs = self.lock();
        let number = runs.begun.entry(rank).or_default();
        *number = number.wrapping_add(1);
        *number
    }

    /// Lets the process receive for a run.
    pub(super) fn enter(&self, exchange: &Arc<Exchange>) {
        let mut runs = self.lock();
        match runs.now.iter_mut().find(|run| run.0 == exchange.run) {
            Some(run) => run.1 += 1,
            None => runs.now.push((exchange.run, 1, Arc::clone(exchange))),
        }
    }

    /// Ends that for one member; for the last one of the process, when no data are on the way to
    /// the slots of the run.
    ///
    /// # Errors
    /// If a member is dead. The run has ended then, too.
    pub(super) fn leave(&self, exchange: &Exchange) -> Result<(), Fault> {
        let leave = |now: bool| {
            let mut runs = self.lock();
            if let Some(run) = runs.now.iter_mut().find(|run| run.0 == exchange.run) {
                if !now && run.1 == 1 && self.long().lands_in(exchange.run) {
                    return false;
                }
                run.1 -= 1;
            }
            runs.now.retain(|run| run.1 > 0);
            if runs.now.is_empty() {
                self.long().rest();
            }
            true
        };
        let Some(Link { endpoint, .. }) = &exchange.link else { return Ok(()) };
        let mut left = false;
        let waited = endpoint.wait(None, || {
            left = left || leave(false);
            left
        });
        if !left {
            leave(true);
        }
        waited
    }

    pub(super) fn long(&self) -> std::sync::MutexGuard<'_, LongGrants> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Grants {
    fn idle(&self, out: &mut Out<'_>) {
        for (_, _, exchange) in &self.lock().now {
            exchange.report(out);
        }
    }

    fn receive(&self, _from: usize, body: &[u8], _out: &mut Out<'_>) {
        let Some(head) = Head::of(body) else { return };
        // Under the lock: the memory is used by this run until all members have left it. A message
        // of a run that has ended comes too late for all tasks.
        let runs = self.lock();
        if let Some((_, _, exchange)) = runs.now.iter().find(|run| run.0 == head.run) {
            exchange.receive(&head, &body[Head::BYTES..]);
        }
    }

    fn receive_long(&self, _from: usize, header: &[u8], len: usize, _out: &mut Out<'_>) -> Landing {
        let head = Head::of(header).unwrap_or(Head { run: 0, kind: u32::MAX, what: 0, state: 0 });
        // Under the lock, as above.
        let runs = self.lock();
        let run = runs.now.iter().find(|run| run.0 == head.run);
        self.long().place_for(run.map(|run| &run.2), &head, len)
    }

    fn landed(&self, _from: usize, token: u64, _place: Place, _out: &mut Out<'_>) {
        // Under the lock, as above: the run is not left meanwhile.
        let _runs = self.lock();
        let landed = self.long().landed(token);
        landed.into_iter().for_each(|landed| landed());
    }

    fn sent(&self, _to: usize, token: u64, place: Place, _out: &mut Out<'_>) {
        self.long().sent(token, place);
    }

    fn given_up(&self, _process: usize, token: u64, _way: Way, _out: &mut Out<'_>) {
        self.long().give_up(token);
    }
}

/// The beginning of a message.
pub(super) struct Head {
    pub(super) run: u32,
    pub(super) kind: u32,
    pub(super) what: u64,
    pub(super) state: u64,
}

impl Head {
    const BYTES: usize = 24;

    fn of(body: &[u8]) -> Option<Head> {
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
        };
        let first = word(0)?;
        Some(Head {
            run: first as u32,
            kind: (first >> 32) as u32,
            what: word(8)?,
            state: word(16)?,
        })
    }

    /// The round that a release ends.
    pub(super) fn round(&self) -> u64 {
        // The task has ended one more.
        (self.state >> 1).wrapping_sub(1)
    }

    pub(super) fn put(&self, to: &mut Vec<u8>) {
        for word in [u64::from(self.run) | u64::from(self.kind) << 32, self.what, self.state] {
            to.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// The connection of a process to the other hosts.
pub(super) struct Link {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) service: u32,
    pub(super) grants: Arc<Grants>,
}

/// What the members of a process need to send and to receive during a run.
pub(crate) struct Exchange {
    pub(super) run: u32,
    pub(super) link: Option<Link>,
    pub(super) memory: HostMemory,
    /// What keeps the memory.
    pub(super) owner: Owner,
    pub(super) states: Array<AtomicU64>,
    pub(super) layout: Layout,
    pub(super) program: Program,
    /// The home of each task, as the number of a worker of this host.
    pub(super) home: Box<[u32]>,
    pub(super) parked: ParkedWorkers,
    /// What each task of this member sends: an index into `outgoing`, or `NOTHING`.
    sends: Box<[u32]>,
    outgoing: Box<[Outgoing]>,
    /// The long data of this member that have not been sent.
    pub(super) unsent: Arc<Unsent>,
    /// By task of another host, where data are on the way to the slots of this one.
    pub(super) arriving: Mutex<HashMap<u32, Arriving>>,
    /// The number of releases and of rooms that were sent.
    pub(super) sent: AtomicU64,
    pub(super) rooms: AtomicU64,
    /// The tasks of this host, if this process reports their rounds, and when it did.
    reports: Option<(Box<[u32]>, Mutex<Instant>)>,
}

const NOTHING: u32 = u32::MAX;

impl Exchange {
    pub(super) fn new(
        link: Option<Link>,
        run: u32,
        memory: HostMemory,
        mut layout: Layout,
        program: Program,
        home: Box<[u32]>,
        group: usize,
    ) -> Exchange {
        let mut sends = vec![NOTHING; home.len()];
        let mut outgoing = Vec::new();
        for (task, messages) in std::mem::take(&mut layout.outgoing) {
            sends[task as usize] = outgoing.len() as u32;
            outgoing.push(messages);
        }
        let is_server = |endpoint: &Endpoint| {
            let (hosts, process) = (endpoint.hosts(), endpoint.process());
            hosts.server(hosts.of(process)) == process
        };
        let reports = link.as_ref().filter(|link| is_server(&link.endpoint)).map(|_| {
            let here = (0..).zip(&home).filter(|(_, home)| **home != ELSEWHERE);
            (here.map(|(t, _)| t).collect(), Mutex::new(Instant::now()))
        });
        Exchange {
            run,
            link,
            states: memory.states(),
            parked: memory.parked(group),
            owner: Arc::new(memory.clone()),
            memory,
            layout,
            program,
            home,
            sends: sends.into(),
            unsent: Arc::new(Unsent::new(outgoing.len())),
            arriving: Mutex::default(),
            outgoing: outgoing.into(),
            sent: AtomicU64::new(0),
            rooms: AtomicU64::new(0),
            reports,
        }
    }

    /// Reports the rounds of this host's tasks to the other hosts, if it is time to.
    fn report(&self, out: &mut Out<'_>) {
        let Some((tasks, last)) = &self.reports else { return };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < REPORT * (1 + 8 * tasks.len() as u32 / REPORTED) {
            return;
        }
        *last = Instant::now();
        let Some(Link { endpoint, .. }) = &self.link else { return };
        let hosts = endpoint.hosts();
        for host in (0..hosts.count()).filter(|&host| host != hosts.of(endpoint.process())) {
            let mut message = out.message();
            Head { run: self.run, kind: ROUNDS, what: 0, state: 0 }.put(&mut message);
            for &task in tasks {
                // Relaxed: a watch sees the task at some moment.
                let state = self.states[task as usize].load(Ordering::Relaxed);
                for word in [task.into(), state] {
                    message.extend_from_slice(&word.to_le_bytes());
                }
            }
            out.send(hosts.server(host), message);
        }
    }

    /// Sends what the release of a task of this member sends. `state` is the state that the task
    /// will have.
    ///
    /// # Errors
    /// If a member is dead.
    pub(super) fn released(&self, task: u32, round: u64, state: u64) -> Result<(), Fault> {
        let of = self.sends[task as usize] as usize;
        let Some(outgoing) = self.outgoing.get(of) else { return Ok(()) };
        let Some(Link { endpoint, service, .. }) = &self.link else { return Ok(()) };
        if !self.unsent.is_sent(Unsent::of(of)) {
            endpoint.wait(None, || self.unsent.is_sent(Unsent::of(of)))?;
        }
        let head = |kind| Head { run: self.run, kind, what: task.into(), state };
        if !outgoing.rooms.is_empty() {
            endpoint.post(*service, |out| {
                for &process in &outgoing.rooms {
                    let mut message = out.message();
                    head(ROOM).put(&mut message);
                    out.send(process, message);
                }
            });
            // Relaxed, here and below: statistics.
            self.rooms.fetch_add(outgoing.rooms.len() as u64, Ordering::Relaxed);
        }
        if !outgoing.messages.is_empty() {
            endpoint.enter(*service, |out| {
                for Message { process, parts } in &outgoing.messages {
                    let head = head(RELEASE);
                    // SAFETY: the data are those of locations that the task has written in this
                    // round, and still holds: its word is raised after this call.
                    unsafe { self.send_long_parts(out, (*process, parts), &head, (of, round)) };
                    let mut message = out.message();
                    head.put(&mut message);
                    for part in parts {
                        // SAFETY: as above.
                        unsafe { self.append(part, round, &mut message) };
                    }
                    out.send(*process, message);
                }
            });
            self.sent.fetch_add(outgoing.messages.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends the value of a location to a process: its first one, or its final one.
    pub(super) fn send_value(
        &self,
        is_final: bool,
        location: u32,
        at: usize,
        len: usize,
        to: usize,
    ) {
        let Some(Link { endpoint, service, .. }) = &self.link else { return };
        let kind = if is_final { FINAL } else { INITIAL };
        endpoint.enter(*service, |out| {
            let head = Head { run: self.run, kind, what: location.into(), state: 0 };
            // SAFETY: no task has begun, or all tasks have ended, and the member waits until all
            // values have been sent: no thread writes the data.
            if unsafe { self.send_long_value(out, to, &head, (at, len)) } {
                return;
            }
            let mut message = out.message();
            head.put(&mut message);
            // SAFETY: as above.
            unsafe { self.memory.append(at, len, &mut message) };
            out.send(to, message);
        });
    }

    /// Tells all hosts that a task has left after this number of rounds.
    pub(super) fn leave(&self, task: u32, rounds: u64) {
        self.depart(task, rounds);
        self.tell_servers(
            &Head { run: self.run, kind: LEFT, what: task.into(), state: rounds },
            &[],
        );
    }

    fn depart(&self, task: u32, rounds: u64) {
        let component = self.layout.component[task as usize];
        self.memory.depart(task, component, rounds);
        if self.is_finished(task) {
            self.parked.unpark_all();
        }
    }

    /// Whether all tasks that a task could wait for, even indirectly, have left, and so has the
    /// task itself.
    pub(super) fn is_finished(&self, task: u32) -> bool {
        let component = self.layout.component[task as usize];
        self.memory.departed_of(component) == self.layout.sizes[component as usize]
    }

    /// Publishes a failure of this member on all hosts.
    pub(super) fn fail(&self, failed: &Failed) {
        if !self.memory.fail(failed) {
            return;
        }
        self.parked.unpark_all();
        let (fields, text) = failed.words();
        let mut data: Vec<u8> = fields[2..].iter().flat_map(|word| word.to_le_bytes()).collect();
        data.extend_from_slice(text.as_bytes());
        let head = Head { run: self.run, kind: FAILED, what: fields[0], state: fields[1] };
        self.tell_servers(&head, &data);
    }

    fn tell_servers(&self, head: &Head, data: &[u8]) {
        let Some(Link { endpoint, service, .. }) = &self.link else { return };
        let hosts = endpoint.hosts();
        let here = hosts.of(endpoint.process());
        endpoint.enter(*service, |out| {
            for host in (0..hosts.count()).filter(|&host| host != here) {
                let mut message = out.message();
                head.put(&mut message);
                message.extend_from_slice(data);
                out.send(hosts.server(host), message);
            }
        });
    }

    /// Receives the messages that are there: for a thread that computes, between two steps.
    pub(super) fn look(&self) {
        if let Some(link) = &self.link {
            link.endpoint.look();
        }
    }

    /// Returns the number of rounds that a task has released, as far as this host knows.
    pub(super) fn rounds(&self, task: u32) -> u64 {
        // Acquire: pairs with the Release in `raise`: the data are in place.
        rounds(self.states[task as usize].load(Ordering::Acquire))
    }

    /// Whether all workers must return: a member has failed, or all tasks have left.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.memory.has_failed() || self.memory.departed() == self.states.len() as u64
    }

    fn receive(&self, head: &Head, data: &[u8]) {
        let task = u32::try_from(head.what).unwrap_or(u32::MAX);
        let known = (task as usize) < self.states.len();
        match head.kind {
            RELEASE if known => {
                let parts = self.layout.arrivals.get(&task).map_or(&[][..], |parts| parts);
                let rest = parts.iter().try_fold(data, |data, part| Some(part.split(data)?.1));
                if rest.is_none_or(|rest| !rest.is_empty()) {
                    return; // of another plan; the members have agreed on theirs
                }
                let (round, mut data) = (head.round(), data);
                for part in parts {
                    let Some((own, rest)) = part.split(data) else { return };
                    // SAFETY: the sender has waited until the accesses to the reception before the
                    // last one have been released, and accesses to this one wait for the word that
                    // is raised below.
                    unsafe { self.memory.write(part.at[(round & 1) as usize], own) };
                    data = rest;
                }
                self.has_released(task, parts, head);
            }
            ROOM if known => self.raise(task, head.state),
            INITIAL | FINAL => {
                let Some(stored) = self.layout.stored.get(&task) else { return };
                if data.len() == stored.len {
                    // SAFETY: no task of this host has begun, or all have ended, and no other
                    // message has data for this location.
                    unsafe { self.memory.write(stored.offset, data) };
                }
                if head.kind == INITIAL {
                    self.memory.count_initial();
                } else {
                    self.memory.count_final();
                }
            }
            LEFT if known => self.depart(task, head.state),
            ROUNDS => {
                for pair in data.chunks_exact(16) {
                    let word =
                        |at: usize| pair[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
                    // The words for which tasks wait are raised by their own messages only.
                    let task = u32::try_from(word(0)).unwrap_or(u32::MAX);
                    if let Some(state) = self.states.get(task as usize)
                        && self.home[task as usize] == ELSEWHERE
                        && self.program.followers(task).is_empty()
                    {
                        state.store(word(8), Ordering::Relaxed);
                    }
                }
            }
            FAILED if data.len() >= 16 => {
                let word = |at: usize| data[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
                let fields = [head.what, head.state, word(0), word(8)];
                if self.memory.fail(&Failed::of_words(fields, &data[16..])) {
                    self.parked.unpark_all();
                }
            }
            _ => (),
        }
    }

    /// Raises the mirror of a task of another host, and unparks the workers of tasks that wait for
    /// it.
    pub(super) fn raise(&self, task: u32, state: u64) {
        // Release: pairs with the Acquire loads of workers: the data are in place.
        self.states[task as usize].store(state, Ordering::Release);
        // SeqCst: pairs with the fence of a worker that parks (`parked`).
        fence(Ordering::SeqCst);
        if self.parked.any() {
            for &follower in self.program.followers(task) {
                self.parked.unpark_one(self.home[follower as usize]);
            }
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("run", &self.run).finish_non_exhaustive()
    }
}

//! The failure detector: which processes of other hosts have died, and which have ended.
//!
//! # Contract
//! Each server sends a beat to the two next live servers in the ring of servers, unless it has sent
//! them another message anyway. A server from which no message has come for the *timeout* is dead,
//! and so is its host, if the host has no other server: the detector gives up their members and
//! notifies all other hosts, which then do the same. A process that the transport reports as gone
//! is handled in the same way.
//!
//! ```text
//!   host 0 ──beat──> host 1 ──beat──> host 2 ──beat──> host 3      each has two watchers:
//!      └───────────────beat─────────────┘                          one may die with it
//!                                                                  (one server per host, as usual)
//! ```
//! * A process whose members have ended sends *bye* to all, with the number of objects that its
//!   members have made. These members are not missed.
//! * A member is missed if it has left early or has panicked, or if its process has died. *lost*
//!   notifies all hosts of a missed member, and ends waits for it. *died* notifies all hosts of a
//!   process that has died.
//! * A process may live though all of its members are missed. It continues to serve, and the others
//!   wait for its bye. If it dies before its last message, this is detected as for any other
//!   process.
//! * A server continues after its bye, for the others. When all have sent bye it sends its *last*
//!   message to each process, and no other message after it. A process that has the last message of
//!   every server has received all messages that were sent to it: some MPIs complain at their end
//!   about messages that were not received.
//! * A process that was itself stopped accuses no other process: time in which it did not run does
//!   not count.
//! * A process that has a *verdict* (see `Calls`) sends it to each process of other hosts, before
//!   it sends any message that may follow from the verdict: a bye, a death, the note of an end. So
//!   each process receives the verdict first, whichever process it receives from first. If only one
//!   process sent the verdict, it could arrive later than the bye of another process that had
//!   received it.
//! * Within a host, deaths are recorded in the shared memory. A message from another process of its
//!   host is no sign of life of a server.
//!
//! # Costs
//! Two messages per server and eighth of the timeout, while no other message is sent. Beats are not
//! coalesced with other messages. At the end a message from each process to each other, and one
//! more from each server.

use std::time::{Duration, Instant};

use syncline_sync::{Fault, Silence};

use crate::coalesce;
use crate::environment::Shape;
use crate::hosts::Hosts;
use crate::team_state::{ProcessState, TeamState};
use crate::transport::{Transport, TransportError};

/// The state of the other processes, as seen by this one.
#[derive(Debug)]
pub(crate) struct FailureDetector {
    process: usize,
    hosts: Hosts,
    shape: Shape,
    control: TeamState,
    timeout: Duration,
    /// For each server: when the last message came from it, and when the last message was sent to
    /// it.
    heard: Vec<Instant>,
    said: Vec<Instant>,
    /// The servers that this server watches.
    watched: Vec<usize>,
    /// The processes that have sent bye.
    over: Vec<bool>,
    /// The processes whose last message has come.
    ended: Vec<bool>,
    /// Whether this process has sent its own last message.
    quiet: bool,
    /// The dead processes that the transport has reported, or that were silent. Other dead
    /// processes may still receive.
    gone: Vec<bool>,
    /// For each process: whether the other servers have been notified of its death.
    died_told: Vec<bool>,
    /// The number of entries of the list of the dead that have been handled.
    known: usize,
    /// For each rank: whether the other servers have been notified of it.
    told: Vec<bool>,
    /// Whether this process has sent the other hosts the verdict about calls that do not match.
    decided: bool,
    /// The time of the last check.
    looked: Instant,
}

/// The service number of the endpoints themselves.
pub(crate) const OWN: u32 = 0;

const BEAT: u64 = 1;
const LOST: u64 = 2;
const BYE: u64 = 3;
// 4 is `wait_reports::NOTE`.
const VERDICT: u64 = 5;
const LAST: u64 = 6;
const DIED: u64 = 7;

/// The longest time between two checks for silent servers.
const LOOKS: Duration = Duration::from_millis(25);

fn dead(rank: usize) -> Fault {
    Fault::Dead { rank }
}

/// Encodes the fault of a member as a word of a message: a kind, and in the upper half the
/// milliseconds of silence.
fn to_word(seen: Fault) -> u64 {
    match seen {
        Fault::Left { .. } => 1,
        Fault::Reported { .. } => 2,
        Fault::Silent(silence) => 3 | u64::from(silence.milliseconds()) << 32,
        _ => 0,
    }
}

/// Decodes the fault of a member from a word of [`to_word`].
fn from_word(rank: usize, word: u64) -> Fault {
    match word as u32 {
        1 => Fault::Left { rank },
        2 => Fault::Reported { rank },
        3 => Fault::Silent(Silence::new(rank, (word >> 32) as u32)),
        _ => Fault::Dead { rank },
    }
}

/// The number of servers to which a server sends beats.
const WATCHERS: usize = 2;

impl FailureDetector {
    pub(crate) fn new(
        process: usize,
        hosts: Hosts,
        control: TeamState,
        shape: Shape,
        timeout: Duration,
    ) -> FailureDetector {
        let now = Instant::now();
        let (processes, count) = (shape.processes, hosts.servers().len());
        FailureDetector {
            process,
            hosts,
            shape,
            control,
            timeout,
            heard: vec![now; count],
            said: vec![now; count],
            watched: Vec::new(),
            over: vec![false; processes],
            ended: vec![false; processes],
            quiet: false,
            gone: vec![false; processes],
            died_told: vec![false; processes],
            known: 0,
            told: vec![false; shape.members()],
            decided: false,
            looked: now,
        }
    }

    /// Notes that a message is sent to a process. Only messages to servers count.
    pub(crate) fn said(&mut self, to: usize) {
        if let Some(server) = self.hosts.serves(to) {
            self.said[server] = self.looked;
        }
    }

    /// Notes that a message has come from a process.
    pub(crate) fn heard(&mut self, from: usize) {
        if let Some(server) = self.hosts.serves(from) {
            self.heard[server] = self.looked;
        }
    }

    /// Handles a message that cannot be parsed.
    pub(crate) fn garbled(&mut self, from: usize, message: &[u8]) {
        crate::say(format_args!(
            "process {} got {} bytes from process {from} that are not a message of this version",
            self.process,
            message.len()
        ));
        self.gone(from, dead);
    }

    /// Handles an error of the transport.
    pub(crate) fn failed(&mut self, error: &TransportError) {
        match error {
            TransportError::Gone { process } => {
                self.gone(*process, |rank| Fault::Reported { rank })
            }
            broken => {
                let here = self.hosts.of(self.process);
                let others =
                    (0..self.shape.processes).filter(|&process| self.hosts.of(process) != here);
                let others = others.filter(|&process| !self.control.has_died(process));
                let others = others.collect::<Vec<_>>();
                if !others.is_empty() {
                    crate::say(format_args!(
                        "process {} can reach no other host: {broken}",
                        self.process
                    ));
                }
                others.into_iter().for_each(|process| self.gone(process, dead));
            }
        }
    }

    /// Handles the death of a process. After all processes have sent bye a process may exit, so
    /// this is then no death. `seen` returns the fault to record for a rank. Members that have
    /// ended are not missed.
    fn gone(&mut self, process: usize, seen: impl Fn(usize) -> Fault) {
        if self.over[process] && (self.quiet || self.all_over()) {
            return;
        }
        self.gone[process] = true;
        if !self.over[process] {
            self.shape.ranks(process).for_each(|rank| self.control.fault_list.report(seen(rank)));
        }
        self.control.set_died(process);
    }

    /// Whether a process has died, or is taken for dead.
    pub(crate) fn has_died(&self, process: usize) -> bool {
        self.control.has_died(process)
    }

    /// Returns the state of a process of this host or another.
    fn standing(&self, process: usize) -> ProcessState {
        match self.control.has_died(process) {
            true => ProcessState::Died,
            false if self.over[process] => ProcessState::Done,
            false => ProcessState::Alive,
        }
    }

    /// Notifies the other servers of members that are missed and of processes that have died, if
    /// this host or this process has detected it.
    fn notify(&mut self, transport: &mut dyn Transport) {
        // Collected before the members are handled, so that messages about the members are sent
        // first.
        let died = (0..self.shape.processes).filter(|&process| self.control.has_died(process));
        let died = died.filter(|&process| !self.died_told[process]).collect::<Vec<_>>();
        self.notify_missed(transport);
        let here = self.hosts.of(self.process);
        for process in died {
            self.died_told[process] = true;
            for host in (0..self.hosts.count()).filter(|&host| host != here) {
                // Also to a host whose members have all ended: it waits for this process.
                let servers =
                    self.hosts.servers_of(host).map(|server| self.hosts.servers()[server]);
                let living = servers.into_iter().find(|&server| !self.control.has_died(server));
                if let Some(server) = living {
                    self.send(transport, server, &[DIED, process as u64]);
                }
            }
        }
    }

    fn notify_missed(&mut self, transport: &mut dyn Transport) {
        let members = self.shape.members();
        while let Some(rank) = self.control.fault_list.after(self.known) {
            self.known += 1;
            if rank >= members {
                continue;
            }
            if std::mem::replace(&mut self.told[rank], true) {
                continue;
            }
            // Members that have ended because of the verdict are not its cause.
            self.tell_verdict(transport);
            let here = self.hosts.of(self.process);
            for host in (0..self.hosts.count()).filter(|&host| host != here) {
                let mut servers = self.hosts.servers_of(host);
                if let Some(server) = servers.find(|&server| self.lives(server)) {
                    let seen =
                        self.control.fault_list.fault_of(rank).unwrap_or(Fault::Dead { rank });
                    self.send(
                        transport,
                        self.hosts.servers()[server],
                        &[LOST, rank as u64, to_word(seen)],
                    );
                }
            }
        }
    }

    /// Sends the verdict, if there is one, to the other hosts, before all messages that follow from
    /// it.
    pub(crate) fn tell_verdict(&mut self, transport: &mut dyn Transport) {
        let Some([word, first, second]) = self.control.calls.verdict_words() else { return };
        // The bye of a process that is not a server is its last message.
        let has_ended = self.over[self.process] && self.hosts.serves(self.process).is_none();
        if has_ended || std::mem::replace(&mut self.decided, true) {
            return;
        }
        let here = self.hosts.of(self.process);
        for process in 0..self.shape.processes {
            if self.hosts.of(process) != here && !self.gone[process] && !self.over[process] {
                self.send(transport, process, &[VERDICT, word, first, second]);
            }
        }
    }

    /// Whether a server sends beats: until it dies or sends its last message. After its bye it
    /// waits for the others.
    fn lives(&self, server: usize) -> bool {
        let process = self.hosts.servers()[server];
        !self.control.has_died(process) && !self.ended[process]
    }

    /// Returns the servers that a server watches: the nearest live servers before it in the ring.
    fn watched_by(&self, server: usize) -> Vec<usize> {
        let count = self.hosts.servers().len();
        let ring = (1..count).map(|n| (server + count - n) % count);
        ring.filter(|&other| self.lives(other)).take(WATCHERS).collect()
    }

    /// Returns the servers that watch a server. A server that has sent its last message is not
    /// watched, and the ring skips it.
    fn watchers(&self, server: usize) -> Vec<usize> {
        if !self.lives(server) {
            return Vec::new();
        }
        let count = self.hosts.servers().len();
        let ring = (1..count).map(|n| (server + n) % count);
        let mut living = 0;
        let watches = |&other: &usize| {
            let near = living < WATCHERS;
            living += usize::from(self.lives(other));
            near && !self.gone[self.hosts.servers()[other]]
        };
        ring.filter(watches).collect()
    }

    /// Called often: sends beats that are due, and checks for servers that were silent for too
    /// long.
    pub(crate) fn beat(&mut self, transport: &mut dyn Transport, now: Instant) {
        let interval = self.timeout / 8;
        let since = now.duration_since(self.looked);
        if since < (interval / 4).min(LOOKS) {
            return;
        }
        self.looked = now;
        let Some(here) = self.hosts.serves(self.process) else {
            // A server notifies the other hosts of deaths by itself, but not of its own death.
            let own = self.hosts.of(self.process);
            if !self.hosts.servers_of(own).any(|server| self.lives(server)) {
                self.notify(transport);
            }
            return;
        };
        if since > self.timeout / 2 {
            // This process was not running.
            self.heard.fill(now);
        }
        let before = self.watched_by(here);
        for &server in before.iter().filter(|server| !self.watched.contains(server)) {
            self.heard[server] = now;
        }
        self.watched = before;
        let silent = |server: &usize| now.duration_since(self.heard[*server]) > self.timeout;
        let silent = self.watched.iter().copied().filter(silent).collect::<Vec<_>>();
        for server in silent {
            self.silent(server);
        }
        let due = |server: &usize| now.duration_since(self.said[*server]) >= interval;
        let due = self.watchers(here).into_iter().filter(due).collect::<Vec<_>>();
        due.into_iter()
            .for_each(|server| self.send(transport, self.hosts.servers()[server], &[BEAT]));
        self.notify(transport);
    }

    /// Handles a server from which no message has come in time.
    fn silent(&mut self, server: usize) {
        let (timeout, process) = (self.timeout, self.hosts.servers()[server]);
        let host = self.hosts.of(process);
        let another = |other: usize| other != server && self.lives(other);
        let (what, gone) = if self.hosts.servers_of(host).any(another) {
            (format!("process {process} of host {host}"), vec![process])
        } else {
            (format!("host {host}"), self.hosts.processes(host).to_vec())
        };
        let ranks =
            gone.iter().flat_map(|&process| self.shape.ranks(process)).map(|rank| rank.to_string());
        let ranks = ranks.collect::<Vec<_>>();
        let names = if let [rank] = &*ranks {
            format!("rank {rank}")
        } else {
            format!("ranks {}", ranks.join(", "))
        };
        crate::say(format_args!(
            "{what} ({names}) has not been heard of for {} s and is taken for dead; SYNCLINE_TIMEOUT sets the limit",
            timeout.as_secs_f64()
        ));
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let seen = |rank| Fault::Silent(Silence::new(rank, milliseconds));
        gone.into_iter().for_each(|process| self.gone(process, seen));
    }

    pub(crate) fn send(&mut self, transport: &mut dyn Transport, to: usize, words: &[u64]) {
        let mut message = coalesce::begin(transport, OWN);
        words.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()));
        coalesce::seal(&mut message);
        self.said(to);
        if let Err(error) = transport.send(to, message) {
            self.failed(&error);
        }
    }

    /// Handles a message of the endpoints.
    pub(crate) fn receive(&mut self, from: usize, body: &[u8]) {
        let mut words = body
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        match words.next() {
            Some(BEAT) => (),
            Some(LOST) => {
                let rank = words.next().map_or(usize::MAX, |rank| rank as usize);
                let seen = from_word(rank, words.next().unwrap_or_default());
                let mine = self.shape.ranks(self.process).contains(&rank);
                let has_left = matches!(seen, Fault::Left { .. });
                if mine && !has_left && !self.control.fault_list.includes(rank) {
                    crate::say(format_args!("rank {rank} is taken for dead by process {from}"));
                }
                if let Some(told) = self.told.get_mut(rank) {
                    *told = true;
                    self.control.fault_list.report(seen);
                }
            }
            Some(DIED) => {
                let process = words.next().map_or(usize::MAX, |process| process as usize);
                if let Some(died_told) = self.died_told.get_mut(process) {
                    *died_told = true;
                    self.control.set_died(process);
                }
            }
            Some(VERDICT) => {
                // This process sends the verdict to the others as well, before its bye: see the
                // contract.
                let word = |_| words.next().unwrap_or_default();
                self.control.calls.decide_as([(); 3].map(word));
            }
            Some(LAST) => self.ended[from] = true,
            Some(BYE) => {
                self.over[from] = true;
                for (rank, things) in self.shape.ranks(from).zip(words) {
                    self.control.ended(rank, things);
                }
            }
            _ => self.garbled(from, body),
        }
    }

    /// Sends bye: all members of this process have ended.
    pub(crate) fn bye(&mut self, transport: &mut dyn Transport, things: &[u64]) {
        let words = std::iter::once(BYE).chain(things.iter().copied()).collect::<Vec<_>>();
        self.tell_verdict(transport);
        self.over[self.process] = true;
        for process in 0..self.shape.processes {
            if process != self.process && !self.gone[process] {
                self.send(transport, process, &words);
            }
        }
    }

    /// Whether all processes have sent bye, or have died.
    pub(crate) fn all_over(&self) -> bool {
        (0..self.shape.processes).all(|process| self.standing(process) != ProcessState::Alive)
    }

    /// Whether any process has died.
    pub(crate) fn any_died(&self) -> bool {
        (0..self.shape.processes).any(|process| self.control.has_died(process))
    }

    /// Sends the last message, if this process serves: called when all are over. No message may be
    /// sent after it.
    pub(crate) fn last(&mut self, transport: &mut dyn Transport) {
        if std::mem::replace(&mut self.quiet, true) || self.hosts.serves(self.process).is_none() {
            return;
        }
        for process in 0..self.shape.processes {
            if process != self.process && !self.gone[process] {
                self.send(transport, process, &[LAST]);
            }
        }
    }

    /// Whether this process has sent its last message.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether no message can come from any other process any more.
    pub(crate) fn all_quiet(&self) -> bool {
        let mut others = self.hosts.servers().iter().filter(|&&server| server != self.process);
        others.all(|&server| self.ended[server] || self.control.has_died(server))
    }
}

#[cfg(test)]
mod tests;

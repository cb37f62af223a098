//! Who of the processes on other hosts is gone, and who has ended.
//!
//! # Contract
//! The server of each host sends a beat to the two servers after it in the ring of hosts that live, unless it has sent them
//! something anyway. From whom nothing has come for the *timeout*, that host is dead: its members are given up here, and all
//! other servers are told, who then do the same. A process that the wire says is gone is told of in the same way.
//!
//! ```text
//!   host 0 ──beat──> host 1 ──beat──> host 2 ──beat──> host 3          each is heard by two: one may die with it
//!      └───────────────beat─────────────┘
//! ```
//! * A process that ends well says *bye* to all, and how many things its members have made, and is not missed.
//! * A process that was stopped itself accuses nobody: time in which it did not run does not count.
//! * Within a host, the dead are told in its memory.
//!
//! # Costs
//! Two messages per host and eighth of the timeout, while nothing else is sent. They are not put together with others.

use std::time::{Duration, Instant};

use crate::control::Control;
use crate::environment::Shape;
use crate::hosts::Hosts;
use crate::parcel;
use crate::wire::{Wire, WireError};

/// What is known of the others.
#[derive(Debug)]
pub(crate) struct Heart {
    process: usize,
    hosts: Hosts,
    shape: Shape,
    control: Control,
    timeout: Duration,
    /// When something last came from each host, and when something was last sent to its server.
    heard: Vec<Instant>,
    said: Vec<Instant>,
    /// The hosts that are to be heard of.
    watched: Vec<usize>,
    /// Processes that have ended well, and that are dead.
    over: Vec<bool>,
    dead: Vec<bool>,
    /// So many entries of the list of the dead have been looked at.
    known: usize,
    /// By rank: the other servers know.
    told: Vec<bool>,
    /// When there was last a look at the clock.
    looked: Instant,
}

/// The service of the endpoints themselves.
pub(crate) const OWN: u32 = 0;

const BEAT: u64 = 1;
const LOST: u64 = 2;
const BYE: u64 = 3;

/// To so many servers a beat goes.
const WATCHERS: usize = 2;

impl Heart {
    pub(crate) fn new(
        process: usize,
        hosts: Hosts,
        control: Control,
        shape: Shape,
        timeout: Duration,
    ) -> Heart {
        let now = Instant::now();
        let (processes, count) = (shape.processes, hosts.count());
        Heart {
            process,
            hosts,
            shape,
            control,
            timeout,
            heard: vec![now; count],
            said: vec![now; count],
            watched: Vec::new(),
            over: vec![false; processes],
            dead: vec![false; processes],
            known: 0,
            told: vec![false; shape.members()],
            looked: now,
        }
    }

    /// Something goes to a process. Servers are those that count.
    pub(crate) fn said(&mut self, to: usize) {
        let host = self.hosts.of(to);
        if self.hosts.server(host) == to {
            self.said[host] = self.looked;
        }
    }

    /// Something has come from a process.
    pub(crate) fn heard(&mut self, from: usize) {
        self.heard[self.hosts.of(from)] = self.looked;
    }

    /// A message makes no sense.
    pub(crate) fn garbled(&mut self, from: usize, message: &[u8]) {
        crate::say(format_args!(
            "process {} got {} bytes from process {from} that are no message of this version",
            self.process,
            message.len()
        ));
        self.gone(from);
    }

    /// The wire has told of an error.
    pub(crate) fn failed(&mut self, error: &WireError) {
        match error {
            WireError::Gone { process } => self.gone(*process),
            broken => {
                let here = self.hosts.of(self.process);
                let others = (0..self.shape.processes).filter(|&process| self.hosts.of(process) != here);
                let others = others.filter(|&process| !self.dead[process]).collect::<Vec<_>>();
                if !others.is_empty() {
                    crate::say(format_args!("process {} can reach no other host: {broken}", self.process));
                }
                others.into_iter().for_each(|process| self.gone(process));
            }
        }
    }

    /// A process is dead, unless it has ended well.
    fn gone(&mut self, process: usize) {
        if !self.dead[process] && !self.over[process] {
            self.dead[process] = true;
            self.shape.ranks(process).for_each(|rank| self.control.deaths.give_up(rank));
        }
    }

    /// Tells the other servers of those who were found dead, or given up, on this host or by it.
    fn spread(&mut self, wire: &mut dyn Wire) {
        let members = self.shape.members();
        while let Some(rank) = self.control.deaths.after(self.known) {
            self.known += 1;
            if rank >= members {
                continue;
            }
            let process = rank / self.shape.threads;
            let lost = |rank| self.control.deaths.includes(rank);
            self.dead[process] = self.dead[process] || self.shape.ranks(process).all(lost);
            if std::mem::replace(&mut self.told[rank], true) {
                continue;
            }
            let here = self.hosts.of(self.process);
            for host in (0..self.hosts.count()).filter(|&host| host != here) {
                if self.lives(host) {
                    self.send(wire, self.hosts.server(host), &[LOST, rank as u64]);
                }
            }
        }
    }

    fn serves(&self) -> bool {
        self.hosts.server(self.hosts.of(self.process)) == self.process
    }

    /// Whether a host takes part still.
    fn lives(&self, host: usize) -> bool {
        self.hosts.processes(host).iter().any(|&process| !self.dead[process] && !self.over[process])
    }

    /// The next hosts that live, in the direction of `step`, which is 1 or the number of hosts less one.
    fn neighbours(&self, step: usize) -> impl Iterator<Item = usize> + use<> {
        let (here, count) = (self.hosts.of(self.process), self.hosts.count());
        let ring = (1..count).map(|n| (here + n * step) % count);
        ring.filter(|&host| self.lives(host)).take(WATCHERS).collect::<Vec<_>>().into_iter()
    }

    /// Now and then: says that this host lives, and looks who has not been heard of.
    pub(crate) fn beat(&mut self, wire: &mut dyn Wire, now: Instant) {
        let interval = self.timeout / 8;
        let since = now.duration_since(self.looked);
        if since < interval / 4 {
            return;
        }
        self.looked = now;
        if !self.serves() {
            return;
        }
        if since > self.timeout / 2 {
            // It was not running.
            self.heard.fill(now);
        }
        let count = self.hosts.count();
        let before = self.neighbours(count - 1).collect::<Vec<_>>();
        for &host in before.iter().filter(|host| !self.watched.contains(host)) {
            self.heard[host] = now;
        }
        self.watched = before;
        let silent = |host: &usize| now.duration_since(self.heard[*host]) > self.timeout;
        let silent = self.watched.iter().copied().filter(silent).collect::<Vec<_>>();
        for host in silent {
            let timeout = self.timeout.as_millis();
            crate::say(format_args!(
                "host {host} ({}) has not been heard of for {timeout} ms",
                self.names(host)
            ));
            self.hosts.clone().processes(host).iter().for_each(|&process| self.gone(process));
        }
        let due = |host: &usize| now.duration_since(self.said[*host]) >= interval;
        let due = self.neighbours(1).filter(due).collect::<Vec<_>>();
        due.into_iter().for_each(|host| self.send(wire, self.hosts.server(host), &[BEAT]));
        self.spread(wire);
    }

    /// The members of a host, in words.
    fn names(&self, host: usize) -> String {
        let ranks = self.hosts.processes(host).iter().flat_map(|&process| self.shape.ranks(process));
        let ranks = ranks.map(|rank| rank.to_string()).collect::<Vec<_>>();
        if let [rank] = &*ranks { format!("rank {rank}") } else { format!("ranks {}", ranks.join(", ")) }
    }

    fn send(&mut self, wire: &mut dyn Wire, to: usize, words: &[u64]) {
        let mut message = parcel::begin(wire, OWN);
        words.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()));
        parcel::seal(&mut message);
        self.said(to);
        if let Err(error) = wire.send(to, message) {
            self.failed(&error);
        }
    }

    /// A message of the endpoints has come.
    pub(crate) fn receive(&mut self, from: usize, body: &[u8]) {
        let mut words =
            body.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        match words.next() {
            Some(BEAT) => (),
            Some(LOST) => {
                let rank = words.next().map_or(usize::MAX, |rank| rank as usize);
                let mine = self.shape.ranks(self.process).contains(&rank);
                if mine && !self.control.deaths.includes(rank) {
                    crate::say(format_args!("rank {rank} is taken for dead by process {from}"));
                }
                if let Some(told) = self.told.get_mut(rank) {
                    *told = true;
                    self.control.deaths.give_up(rank);
                }
            }
            Some(BYE) => {
                self.over[from] = true;
                for (rank, things) in self.shape.ranks(from).zip(words) {
                    self.control.ended(rank, things);
                }
            }
            _ => self.garbled(from, body),
        }
    }

    /// All members of this process have ended.
    pub(crate) fn bye(&mut self, wire: &mut dyn Wire, things: &[u64]) {
        let words = std::iter::once(BYE).chain(things.iter().copied()).collect::<Vec<_>>();
        self.over[self.process] = true;
        for process in 0..self.shape.processes {
            if process != self.process && !self.dead[process] {
                self.send(wire, process, &words);
            }
        }
    }

    /// Whether all others have ended, or are dead.
    pub(crate) fn all_over(&self) -> bool {
        let dead = |process: usize| self.shape.ranks(process).all(|rank| self.control.deaths.includes(rank));
        (0..self.shape.processes).all(|process| self.over[process] || self.dead[process] || dead(process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::channel::{Conditions, Network};
    use syncline_sync::Space;

    const TIMEOUT: Duration = Duration::from_millis(800);

    /// A process, and its wire.
    type Process = (Heart, Box<dyn Wire>);

    fn hearts(hosts: usize) -> (Network, Vec<Process>) {
        let network = Network::new(hosts, Conditions::default());
        let shape = Shape { processes: hosts, threads: 2, cores: 1 };
        let heart = |process| {
            let control = Control::within(&mut Space::heap(), hosts, 2 * hosts).unwrap();
            let named = Hosts::new(&(0..hosts).collect::<Vec<_>>());
            let heart = Heart::new(process, named, control, shape, TIMEOUT);
            (heart, Box::new(network.wire(process)) as Box<dyn Wire>)
        };
        (network.clone(), (0..hosts).map(heart).collect())
    }

    /// All go on by `step` for a while, but those who are stopped.
    fn pass(hearts: &mut [Process], now: &mut Instant, steps: u32, stopped: &[usize]) {
        for _ in 0..steps {
            *now += TIMEOUT / 16;
            for (process, (heart, wire)) in hearts.iter_mut().enumerate() {
                if stopped.contains(&process) {
                    continue;
                }
                while let Some((from, message)) = wire.receive().unwrap() {
                    heart.heard(from);
                    heart.receive(from, &message[8..]);
                }
                heart.beat(&mut **wire, *now);
            }
        }
    }

    fn dead(hearts: &[Process]) -> Vec<usize> {
        hearts.iter().map(|(heart, _)| heart.control.deaths.count()).collect()
    }

    #[test]
    fn a_silent_host_is_told_of_to_all_and_nobody_else_is() {
        let (network, mut hearts) = hearts(5);
        let mut now = Instant::now();
        pass(&mut hearts, &mut now, 100, &[]);
        assert_eq!(dead(&hearts), [0; 5]);
        network.cut(2);
        pass(&mut hearts, &mut now, 20, &[]);
        for (process, (heart, _)) in hearts.iter().enumerate().filter(|(process, _)| *process != 2) {
            assert_eq!(heart.control.deaths.count(), 2, "process {process}");
            assert!(heart.control.deaths.includes(4) && heart.control.deaths.includes(5));
        }
        // The one cut off has lost all others, in the end.
        pass(&mut hearts, &mut now, 100, &[]);
        assert_eq!(dead(&hearts), [2, 2, 8, 2, 2]);
    }

    #[test]
    fn one_who_was_stopped_accuses_nobody_and_is_not_accused_too_soon() {
        let (_, mut hearts) = hearts(4);
        let mut now = Instant::now();
        pass(&mut hearts, &mut now, 10, &[]);
        for _ in 0..5 {
            pass(&mut hearts, &mut now, 10, &[1]);
            pass(&mut hearts, &mut now, 10, &[]);
        }
        assert_eq!(dead(&hearts), [0; 4]);
        pass(&mut hearts, &mut now, 40, &[1]);
        assert_eq!(dead(&hearts), [2, 0, 2, 2]);
    }

    #[test]
    fn two_neighbours_may_die_together() {
        let (network, mut hearts) = hearts(6);
        let mut now = Instant::now();
        pass(&mut hearts, &mut now, 10, &[]);
        network.cut(3);
        network.cut(4);
        pass(&mut hearts, &mut now, 60, &[]);
        let told = dead(&hearts);
        assert_eq!([told[0], told[1], told[2], told[5]], [4; 4]);
    }

    #[test]
    fn whoever_has_said_bye_is_not_missed() {
        let (_, mut hearts) = hearts(3);
        let mut now = Instant::now();
        let (heart, wire) = &mut hearts[1];
        heart.bye(&mut **wire, &[0, 0]);
        pass(&mut hearts, &mut now, 60, &[1]);
        assert_eq!(dead(&hearts), [0; 3]);
        assert!(!hearts[0].0.all_over());
        let (heart, wire) = &mut hearts[2];
        heart.bye(&mut **wire, &[0, 1]);
        pass(&mut hearts, &mut now, 1, &[1]);
        assert!(!hearts[0].0.all_over());
        let (heart, _) = &mut hearts[0];
        heart.over[0] = true;
        assert!(hearts[0].0.all_over());
        // A member has made less than another of them.
        hearts[0].0.control.made(0, 1);
        assert!(hearts[0].0.control.deaths.includes(2));
    }
}

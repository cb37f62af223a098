//! The simulation of a scheme on a machine, message by message.
//!
//! # Contract
//! At time 0 all members begin, and their puts have just left: the last one at that moment, the
//! others before it. A processor takes messages in order of arrival. A member has left when its
//! last step is over.
//!
//! # One member for all
//! Where all members do the same, simulating one is enough: each message that it sends to others
//! stands for the equal message that it receives. So 4096 members that send 126 messages each cost
//! the simulation of 126 messages. Tests compare the result with the simulation of all members.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use syncline_rma::unstable::sync_exchange::HEAD;

use crate::machine::{L, Machine, Time, in_latencies};
use crate::scheme::{Driven, Load, Scheme, Step};

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The time at which the last member left, in units of [`L`].
    pub time: f64,
    /// The time at which each member left; a single time if one member represents all.
    pub left: Vec<f64>,
    /// The number of messages of all members, without puts.
    pub messages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Begin,
    Put,
    Asked,
    Answer,
    Told(usize),
    /// No message; a condition that the member waits for may have become true.
    Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message arrives. Arrivals precede `Free` at the same time: the processor is not idle then.
    Come { what: What, from: usize },
    /// The processor is free for the next message.
    Free,
}

#[derive(Debug, Default)]
struct Processor {
    come: VecDeque<(What, usize)>,
    busy: bool,
}

#[derive(Debug)]
struct Host {
    steps: Vec<Step>,
    /// The current step, and whether its messages have been sent.
    step: usize,
    sent: bool,
    begun: bool,
    /// By step: the number of messages received.
    heard: Vec<usize>,
    answers: usize,
    done: usize,
    done_at: Time,
    wire: Time,
    left: Option<Time>,
}

#[derive(Debug)]
struct Simulation<'a> {
    machine: Machine,
    load: &'a Load,
    apart: bool,
    /// Whether one member represents all.
    one: bool,
    hosts: Vec<Host>,
    /// For each host, the client's processor and the server's.
    processors: Vec<Processor>,
    events: BinaryHeap<Reverse<(Time, Event, usize, usize)>>,
    sequence: usize,
    messages: usize,
}

/// Simulates a scheme on a machine; one member represents all where the scheme and the load allow
/// it.
///
/// # Panics
/// If a member never leaves.
#[must_use]
pub fn simulate(scheme: &dyn Scheme, machine: Machine, load: &Load) -> Outcome {
    run(scheme, machine, load, scheme.alike(load) && load.late.is_none() && load.slow.is_none())
}

/// Simulates a scheme on a machine, with every member.
///
/// # Panics
/// If a member never leaves.
#[must_use]
pub fn simulate_all(scheme: &dyn Scheme, machine: Machine, load: &Load) -> Outcome {
    run(scheme, machine, load, false)
}

fn run(scheme: &dyn Scheme, machine: Machine, load: &Load, one: bool) -> Outcome {
    let members = if one { load.members.min(1) } else { load.members };
    let host = |member| {
        let steps = scheme.steps(load, member);
        let heard = vec![0; steps.len()];
        let before = if load.quiet { load.targets } else { 0 };
        Host {
            steps,
            step: 0,
            sent: false,
            begun: false,
            heard,
            answers: 0,
            done: before,
            done_at: 0,
            wire: 0,
            left: None,
        }
    };
    let mut simulation = Simulation {
        machine,
        load,
        apart: scheme.driven() == Driven::Apart,
        one,
        hosts: (0..members).map(host).collect(),
        processors: (0..2 * members).map(|_| Processor::default()).collect(),
        events: BinaryHeap::new(),
        sequence: 0,
        messages: 0,
    };
    // The clock starts earlier, for the puts that leave before time 0.
    let zero = load.targets as Time * simulation.pace();
    simulation.begin(zero);
    simulation.go();
    let all = if one { load.members } else { 1 };
    let left = simulation.hosts.iter().map(|host| {
        let left = host
            .left
            .unwrap_or_else(|| panic!("{} members, {}: stuck", load.members, scheme.name()));
        in_latencies(left - zero)
    });
    let left = left.collect::<Vec<_>>();
    Outcome {
        time: left.iter().copied().fold(0.0, f64::max),
        left,
        messages: all * simulation.messages,
    }
}

impl Simulation<'_> {
    fn begin(&mut self, zero: Time) {
        for member in 0..self.hosts.len() {
            let late = self.load.late.filter(|late| late.0 == member).map_or(0, |late| late.1);
            if !self.load.quiet {
                // The last put has just left the wire; the others left before it at full pace.
                let slow = self.load.slow.filter(|slow| slow.0 == member).map_or(0, |slow| slow.1);
                for ahead in 1..=self.load.targets {
                    let to = if self.one { member } else { (member + ahead) % self.load.members };
                    let earlier = (self.load.targets - ahead) as Time * self.pace();
                    self.come(zero + late + slow + L - earlier, 2 * to + 1, What::Put, member);
                }
            }
            self.come(zero + late, self.client(member), What::Begin, member);
        }
    }

    /// Returns the time between two puts.
    fn pace(&self) -> Time {
        self.machine.overhead.max((HEAD + 1) as Time * self.machine.gap)
    }

    fn client(&self, member: usize) -> usize {
        2 * member + usize::from(!self.apart)
    }

    fn come(&mut self, time: Time, processor: usize, what: What, from: usize) {
        self.sequence += 1;
        self.events.push(Reverse((time, Event::Come { what, from }, self.sequence, processor)));
    }

    /// Sends a message, starting at `time`; returns the time at which the processor is done.
    fn send(&mut self, time: Time, from: usize, to: usize, what: What, words: usize) -> Time {
        let ready = time + self.machine.overhead;
        let wire = &mut self.hosts[from].wire;
        *wire = ready.max(*wire) + (HEAD + words) as Time * self.machine.gap;
        let serves = what == What::Asked;
        let slow = self.load.slow.filter(|slow| slow.0 == from && serves).map_or(0, |slow| slow.1);
        let comes = *wire + L + slow;
        self.messages += 1;
        // A member that represents all receives the messages that others would send to it.
        let to = if self.one { from } else { to };
        let processor = if serves { 2 * to + 1 } else { self.client(to) };
        self.come(comes, processor, what, from);
        ready
    }

    fn go(&mut self) {
        while let Some(Reverse((now, event, _, at))) = self.events.pop() {
            let processor = &mut self.processors[at];
            if let Event::Come { what, from } = event {
                processor.come.push_back((what, from));
                if processor.busy {
                    continue;
                }
            }
            let free = if let Some((what, from)) = processor.come.pop_front() {
                self.take(now, at, what, from)
            } else {
                processor.busy = false;
                continue;
            };
            self.processors[at].busy = true;
            self.sequence += 1;
            self.events.push(Reverse((free, Event::Free, self.sequence, at)));
        }
    }

    /// Handles a message on a processor; returns the time at which the processor is done.
    fn take(&mut self, now: Time, at: usize, what: What, from: usize) -> Time {
        let member = at / 2;
        let own = matches!(what, What::Begin | What::Look);
        let now = if own { now } else { now + self.machine.overhead };
        let host = &mut self.hosts[member];
        match what {
            What::Begin => host.begun = true,
            What::Look => {}
            What::Answer => host.answers += 1,
            What::Told(step) => host.heard[step] += 1,
            What::Asked => return self.send(now, member, from, What::Answer, 0),
            What::Put => {
                host.done += 1;
                host.done_at = now;
                if self.apart {
                    self.come(now, self.client(member), What::Look, member);
                    return now;
                }
            }
        }
        self.go_on(now, member)
    }

    /// Advances a member through its steps as far as possible; returns the time at which it is
    /// done.
    fn go_on(&mut self, mut now: Time, member: usize) -> Time {
        loop {
            let host = &mut self.hosts[member];
            if !host.begun || host.left.is_some() {
                return now;
            }
            let Some(step) = host.steps.get(host.step) else {
                host.left = Some(now);
                return now;
            };
            if !std::mem::replace(&mut host.sent, true) {
                let index = host.step;
                match step.clone() {
                    Step::Ask(to) => {
                        host.answers = 0;
                        now = to
                            .into_iter()
                            .fold(now, |time, to| self.send(time, member, to, What::Asked, 0));
                    }
                    Step::Tell { to, .. } => {
                        now = to.into_iter().fold(now, |time, (to, words)| {
                            self.send(time, member, to, What::Told(index), words)
                        });
                    }
                    Step::Done => {}
                }
                continue;
            }
            let over = match step {
                Step::Ask(asked) => host.answers == asked.len(),
                Step::Tell { hear, .. } => host.heard[host.step] == *hear,
                Step::Done => host.done == self.load.targets && host.done_at <= now,
            };
            if !over {
                return now;
            }
            host.step += 1;
            host.sent = false;
        }
    }
}

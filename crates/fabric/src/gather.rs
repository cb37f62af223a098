//! The gather: every member contributes one word, and gets the words of all.
//!
//! # Contract
//! All members give a word, and get the words of all, by rank. The memory of each host has two sets
//! of words, used in turn. A member that gives its word for time `t+2` has all words of time `t+1`,
//! and each other member gave its word of `t+1` only after it had the words of `t`. So no word of
//! `t` is overwritten before all members have read it.
//!
//! ```text
//!  rank 2: value ──> values[turn][2] on its own host, count[turn] + 1
//!             └── message to the server of every other host, which does the same there
//!  all: wait until count[turn] = members x (times of this turn), then read
//! ```
//! # Costs
//! A message for each member and each other host: meant for rare operations, such as making
//! objects.

use std::sync::Arc;
use std::time::Instant;

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, Signal, WaitError};
use syncline_sync::{
    Fault, Space, SpaceError,
    call_matching::{Blocking, Caller},
    membership::FaultList,
    space::Array,
};

use crate::endpoint::{Endpoint, Out, Service};

/// The words of a host.
#[derive(Clone, Debug)]
pub(crate) struct Gathering {
    values: Array<AtomicU64>,
    counts: Array<Signal>,
}

impl Gathering {
    pub(crate) fn within(space: &mut Space, members: usize) -> Result<Gathering, SpaceError> {
        Ok(Gathering { values: space.array(2 * members)?, counts: space.array(2)? })
    }

    fn members(&self) -> usize {
        self.values.len() / 2
    }

    fn put(&self, turn: usize, rank: usize, value: u64) {
        let turn = turn % 2;
        if let Some(word) =
            self.values.get(turn * self.members() + rank).filter(|_| rank < self.members())
        {
            // Relaxed: ordered by the increment of the count, which is a release.
            word.store(value, Ordering::Relaxed);
            self.counts[turn].increment();
        }
    }

    /// Gives the word of a member for the `time`-th time, counted from 0.
    pub(crate) fn give(
        &self,
        endpoint: Option<(&Arc<Endpoint>, u32)>,
        rank: usize,
        time: u64,
        value: u64,
    ) {
        let turn = (time % 2) as usize;
        self.put(turn, rank, value);
        let Some((endpoint, service)) = endpoint else { return };
        let hosts = endpoint.hosts();
        let here = hosts.of(endpoint.process());
        endpoint.enter(service, |out| {
            for host in (0..hosts.count()).filter(|&host| host != here) {
                let mut message = out.message();
                for word in [turn as u64, rank as u64, value] {
                    message.extend_from_slice(&word.to_le_bytes());
                }
                out.send(hosts.server(host), message);
            }
        });
    }

    /// Waits until all words have been given for the `time`-th time, or until the deadline.
    pub(crate) fn take(
        &self,
        endpoint: Option<&Arc<Endpoint>>,
        fault_list: &FaultList,
        caller: Option<&Caller>,
        time: u64,
        deadline: Option<Instant>,
    ) -> Result<Vec<u64>, Fault> {
        let turn = (time % 2) as usize;
        let enough = self.members() as u64 * (time / 2 + 1);
        let blocking = Blocking::new(caller, time + 1, deadline).in_person();
        match endpoint {
            None => {
                let waiting = Waiting { fault_list, blocking };
                let waited = self.counts[turn].wait_until(
                    enough,
                    &Policy::default().watching(&waiting),
                    deadline,
                );
                waited.map_err(|error| match error {
                    WaitError::TimedOut => Fault::TimedOut,
                    _ => waiting.fault().unwrap_or(Fault::TimedOut),
                })?;
            }
            Some(endpoint) => {
                endpoint.wait_in(&blocking, deadline, || self.counts[turn].get() >= enough)?;
            }
        }
        let first = turn * self.members();
        Ok(self.values[first..first + self.members()]
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect())
    }
}

/// A wait for the words of all members of a single host.
#[derive(Debug)]
struct Waiting<'a> {
    fault_list: &'a FaultList,
    blocking: Blocking<'a>,
}

impl Waiting<'_> {
    /// Returns the reason why the wait must end. The verdict comes first: members that leave
    /// because of it are not its cause.
    fn fault(&self) -> Option<Fault> {
        // Read before the verdict: a member may have left for a reason that must then be reported.
        let left = self.blocking.absent();
        let dead = self.fault_list.fault(0);
        self.blocking.look().or(dead).or(left)
    }
}

impl Liveness for Waiting<'_> {
    fn gone(&self) -> Option<u32> {
        self.fault().map(|_| u32::MAX)
    }
}

impl Service for Gathering {
    fn receive(&self, _from: usize, body: &[u8], _out: &mut Out<'_>) {
        let mut words = body
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        if let (Some(turn), Some(rank), Some(value)) = (words.next(), words.next(), words.next()) {
            self.put(turn as usize, rank as usize, value);
        }
    }
}

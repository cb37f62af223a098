//! The values of shared locations before and after a run on a team.
//!
//! # Contract
//! The first value of a location is that of the member that runs its first writer, or its first
//! reader if there is no writer: its *owner*. The final value is the version of the last writer: of
//! the writer with the most rounds, the last in the queue among equals. A task that has left counts
//! with the rounds in which its body ran: later versions of it are copies.
//!
//! ```text
//! before   owner: own memory ─> slot 0 of its host ─> slot 0 of hosts that read it first
//! after    last writer's slot ─> hosts that do not receive its versions: slot 0
//!          slot of each host ─> own memory of the location, in each member that uses it
//! ```

use syncline_sync::Fault;

use crate::error::RunError;
use crate::location::Bytes;
use crate::overlay::Checked;
use crate::raw::AccessMode;
use crate::team::exchange::Exchange;
use crate::team::layout::{Remote, Team};

/// A member's view of the shared locations of a run.
pub(super) struct Values<'a> {
    pub(super) overlay: &'a Checked<'a>,
    pub(super) team: &'a Team,
    pub(super) exchange: &'a Exchange,
    pub(super) rank: usize,
    pub(super) host: usize,
}

impl Values<'_> {
    fn own(&self, location: u32) -> Option<Bytes> {
        self.overlay.cores[location as usize].bytes.filter(|own| !own.first.is_null())
    }

    /// Returns the task whose member has the first value of a location.
    fn owner(&self, location: u32) -> u32 {
        let queue = &self.overlay.queues[location as usize];
        let writer = queue.iter().find(|q| q.1 == AccessMode::Exclusive);
        writer.unwrap_or(&queue[0]).0
    }

    /// Puts the first values that this member owns into the memory of its host.
    ///
    /// # Errors
    /// If a value cannot be encoded.
    pub(super) fn put_first(&self) -> Result<(), RunError> {
        for (&l, stored) in &self.exchange.layout.stored {
            if let Some(own) = self.own(l)
                && self.team.rank(self.owner(l)) as usize == self.rank
            {
                // SAFETY: the run holds the location, and no member reads the memory before all
                // have waited for one another.
                unsafe { self.exchange.memory.put(stored.offset, own) };
            }
            let core = &self.overlay.cores[l as usize];
            if let Some(wire) = &core.wire
                && self.team.rank(self.owner(l)) as usize == self.rank
            {
                // SAFETY: as above; `put` gets the only reference to the bytes.
                unsafe {
                    let to = self.exchange.memory.encoded_mut(stored.offset, stored.len);
                    wire.put(&core.name, to)?;
                }
            }
        }
        Ok(())
    }

    /// Sends the first values that this member owns to the hosts that read them.
    pub(super) fn send_first(&self) {
        let layout = &self.exchange.layout;
        for (&l, remote) in &layout.remote {
            if self.team.rank(remote.owner) as usize != self.rank {
                continue;
            }
            let stored = layout.stored[&l];
            for (_, used) in
                remote.hosts.iter().filter(|(host, used)| **host != self.host && used.initial)
            {
                self.exchange.send_value(false, l, stored.offset, stored.len, used.process);
            }
        }
    }

    /// Waits until `count` values have come from other hosts.
    pub(super) fn wait(&self, count: usize, come: impl Fn() -> u64) -> Result<(), Fault> {
        match &self.exchange.link {
            Some(link) => link.endpoint.wait(None, || come() >= count as u64),
            None => Ok(()),
        }
    }

    /// Returns the index of the writer that has made the final version, and its last round.
    fn last(&self, remote: &Remote, rounds: u64) -> Option<(usize, u64)> {
        let real = |&w: &u32| self.exchange.memory.left(w).unwrap_or(rounds);
        let last = remote.writers.iter().map(real).zip(0_usize..).max()?;
        Some((last.1, last.0 - 1))
    }

    /// Waits until the receptions of this host before the final versions are in their slots, or a
    /// task has failed. Where all tasks of a location have left, no task may have waited for the
    /// last ones, and a final value that comes as a message goes to the slot of one of them.
    /// Receptions after the final version are passed on unchanged: they bring the same bytes.
    pub(super) fn wait_received(&self, rounds: u64) -> Result<(), Fault> {
        let Values { exchange, .. } = self;
        let has_received = |remote: &Remote| {
            let used = remote.hosts.get(&self.host);
            let (Some(used), Some((j, round))) = (used, self.last(remote, rounds)) else {
                return true;
            };
            let before = |&k: &usize| round + u64::from(k < j);
            used.received.iter().all(|k| exchange.rounds(remote.writers[*k]) >= before(k))
        };
        let mut all = exchange.layout.remote.values().peekable();
        let is_over = move || {
            while all.next_if(|remote| has_received(remote)).is_some() {}
            exchange.memory.has_failed() || all.peek().is_none()
        };
        match &exchange.link {
            Some(link) => link.endpoint.wait(None, is_over),
            None => Ok(()),
        }
    }

    /// Exchanges the final values after `rounds` rounds, and copies those of this host to the
    /// locations of this member. All members have ended their tasks.
    ///
    /// # Errors
    /// If a member is dead, or an encoded value cannot be decoded.
    pub(super) fn finish(&self, rounds: u64) -> Result<(), RunError> {
        let Values { exchange, team, .. } = self;
        let layout = &exchange.layout;
        let mut lacking = 0;
        for (&l, remote) in &layout.remote {
            let Some((j, round)) = self.last(remote, rounds) else { continue };
            let writer = remote.writers[j];
            if team.host(writer) == self.host {
                if team.rank(writer) as usize == self.rank {
                    let at = self.slot(l, remote, j, round);
                    let lacks = |used: &&crate::team::layout::Use| !used.received.contains(&j);
                    let others = remote.hosts.iter().filter(|(host, _)| **host != self.host);
                    for used in others.map(|(_, used)| used).filter(lacks) {
                        let len = layout.stored[&l].len;
                        exchange.send_value(true, l, at, len, used.process);
                    }
                }
            } else if let Some(used) = remote.hosts.get(&self.host) {
                if used.received.contains(&j) {
                    let there = || exchange.rounds(writer) > round;
                    self.wait(1, || u64::from(there()))?;
                } else {
                    lacking += 1;
                }
            }
        }
        self.wait(lacking, || exchange.memory.finals())?;
        exchange.wait_sent()?;
        for (&l, &stored) in &layout.stored {
            let queue = &self.overlay.queues[l as usize];
            let uses = queue.iter().any(|q| team.rank(q.0) as usize == self.rank);
            let core = &self.overlay.cores[l as usize];
            if uses {
                let at = match layout.remote.get(&l).and_then(|r| Some((r, self.last(r, rounds)?)))
                {
                    Some((remote, (j, round))) => self.slot(l, remote, j, round),
                    None => stored.offset,
                };
                if let Some(own) = self.own(l) {
                    // SAFETY: the run holds the location, all tasks have ended, and the final value
                    // has come: no thread accesses the own data or writes those of the host.
                    unsafe { exchange.memory.take(at, own) };
                } else if let Some(wire) = &core.wire {
                    // SAFETY: as for plain values.
                    unsafe { wire.take(&core.name, exchange.memory.encoded(at, stored.len))? };
                }
            }
        }
        Ok(())
    }

    /// Returns the offset of the final version, of writer `j` in this round, on this host.
    fn slot(&self, location: u32, remote: &Remote, j: usize, round: u64) -> usize {
        let stored = self.exchange.layout.stored[&location];
        let used = &remote.hosts[&self.host];
        let slot = if self.team.host(remote.writers[j]) == self.host {
            let queue = &self.overlay.queues[location as usize];
            remote.slots_of(queue, remote.writers[j], self.host)[(round & 1) as usize]
        } else {
            used.slot(j, round).unwrap_or(0)
        };
        stored.slot(slot)
    }
}

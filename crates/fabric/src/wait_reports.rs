//! What members of other hosts are blocked in: notes that travel.
//!
//! # Contract
//! The server of a host sends what its members have noted about their waits (see [`Calls`]) to the
//! servers of the other hosts, each note once. Notes may be old: see there. The verdict is for
//! `detector`, as it comes before what is said of those that end because of it.
//!
//! # Costs
//! A look at a word of each member of the host, ten times a second. A message of 64 words to every
//! other host for each member whose wait has lasted for a fifth of a second.

use std::time::{Duration, Instant};

use syncline_sync::calls::Calls;

use crate::environment::Shape;
use crate::hosts::Hosts;
use crate::team_state::TeamState;

/// What the first word of a message says, among those of the endpoints.
pub(crate) const NOTE: u64 = 4;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// What the other hosts know.
#[derive(Debug)]
pub(crate) struct WaitReports {
    calls: Calls,
    /// Servers of other hosts; none if this process is not the first server of its own.
    to: Vec<usize>,
    /// The members of this host, and what was sent of each.
    sent: Vec<(usize, u64)>,
    next: Instant,
}

impl WaitReports {
    pub(crate) fn new(
        process: usize,
        hosts: &Hosts,
        control: &TeamState,
        shape: Shape,
    ) -> WaitReports {
        let here = hosts.of(process);
        let leads = hosts.server(here) == process;
        let others = (0..hosts.count()).filter(|&host| leads && host != here);
        let ranks = hosts.processes(here).iter().flat_map(|&process| shape.ranks(process));
        WaitReports {
            calls: control.calls.clone(),
            to: others.map(|host| hosts.server(host)).collect(),
            sent: ranks.map(|rank| (rank, 0)).collect(),
            next: Instant::now() + INTERVAL,
        }
    }

    /// Sends what is new.
    pub(crate) fn go(&mut self, now: Instant, mut send: impl FnMut(usize, &[u64])) {
        if now < self.next || self.to.is_empty() {
            return;
        }
        self.next = now + INTERVAL;
        for (rank, sent) in &mut self.sent {
            if let Some(note) = self.calls.note_of(*rank, *sent) {
                *sent = note[0];
                let words = [NOTE, *rank as u64].into_iter().chain(note).collect::<Vec<_>>();
                self.to.iter().for_each(|&to| send(to, &words));
            }
        }
    }

    /// A message has come from another host; false if it is none of these.
    pub(crate) fn receive(&self, words: &[u64]) -> bool {
        match *words {
            [NOTE, rank, ref note @ ..] => {
                let rank = rank as usize;
                // Of its own members a host knows better.
                if self.sent.iter().all(|&(here, _)| here != rank) {
                    self.calls.note(rank, note);
                }
                true
            }
            _ => false,
        }
    }
}

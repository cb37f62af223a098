//! Wait reports: the hosts exchange notes on what their members are blocked in.
//!
//! # Contract
//! The server of a host sends the notes of its members about their waits (see [`Calls`]) to the
//! servers of the other hosts, each note once. Notes may be out of date: see [`Calls`]. The verdict
//! is sent by the failure detector, since it must precede the messages about members that end
//! because of it.
//!
//! # Costs
//! A read of a word of each member of the host, ten times a second. A message of 64 words to every
//! other host for each member whose wait has lasted for a fifth of a second.

use std::time::{Duration, Instant};

use syncline_sync::call_matching::Calls;

use crate::environment::Shape;
use crate::hosts::Hosts;
use crate::team_state::TeamState;

/// The first word of a message of this kind, among the messages of the endpoints themselves.
pub(crate) const NOTE: u64 = 4;

/// The time between two looks at the notes of this host.
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of the reports: the notes that the other hosts have.
#[derive(Debug)]
pub(crate) struct WaitReports {
    calls: Calls,
    /// The first servers of the other hosts; empty if this process is not the first server of its
    /// own.
    to: Vec<usize>,
    /// The members of this host, and the first word of the last note that was sent of each.
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

    /// Sends the notes that are new.
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

    /// Handles a message from another host. Returns false if it is of another kind.
    pub(crate) fn receive(&self, words: &[u64]) -> bool {
        match *words {
            [NOTE, rank, ref note @ ..] => {
                let rank = rank as usize;
                // The notes of this host's own members in its memory are newer.
                if self.sent.iter().all(|&(here, _)| here != rank) {
                    self.calls.note(rank, note);
                }
                true
            }
            _ => false,
        }
    }
}

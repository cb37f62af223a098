//! A second implementation of the barriers, in terms of the members' progress only.

use super::{ARRIVED, LAST, progress};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Dissemination(usize),
    Tournament,
    /// A counter in each group of that many members, and a dissemination barrier of the groups.
    Levels(usize),
}

/// The progress of the members of a barrier.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    kind: Kind,
    /// By member: the progress it has sent.
    pub(super) sent: Vec<u64>,
    /// By member: the episode and the round that it is in, if it has arrived.
    at: Vec<Option<(u64, u32)>>,
    pub(super) completed: Vec<u64>,
}

impl Plain {
    pub(super) fn new(kind: Kind, members: usize) -> Plain {
        Plain { kind, sent: vec![0; members], at: vec![None; members], completed: vec![0; members] }
    }

    fn members(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn is_in(&self, member: usize) -> bool {
        self.at[member].is_some()
    }

    fn send(&mut self, member: usize, episode: u64, step: u32) {
        self.sent[member] = progress(episode, step);
    }

    /// Returns the members that have to send something before this member can proceed.
    pub(super) fn missing(&self, member: usize) -> Vec<usize> {
        let Some((episode, round)) = self.at[member] else { return Vec::new() };
        let members = self.members();
        let lacks = |peers: Vec<usize>, step: u32| {
            let behind = |&peer: &usize| self.sent[peer] < progress(episode, step);
            peers.into_iter().filter(behind).collect::<Vec<_>>()
        };
        match self.kind {
            Kind::Counter => lacks((0..members).collect(), ARRIVED),
            Kind::Dissemination(radix) => {
                let peers = behind(member, members, radix, round);
                // The member waits for one flag after the other.
                lacks(peers, round + 1).into_iter().take(1).collect()
            }
            Kind::Tournament => match member >> round & 1 {
                // The member's winner.
                1 => lacks(vec![member & !(1 << round)], LAST),
                _ if 1 << round >= members => Vec::new(),
                _ if member + (1 << round) >= members => Vec::new(),
                _ => lacks(vec![member + (1 << round)], ARRIVED),
            },
            Kind::Levels(size) if !member.is_multiple_of(size) => {
                lacks(vec![member / size * size], LAST)
            }
            Kind::Levels(size) if round == 0 => {
                lacks((member + 1..member + size).collect(), ARRIVED)
            }
            Kind::Levels(size) => {
                let (groups, round) = (members / size, round - 1);
                let peers =
                    behind(member / size, groups, 2, round).into_iter().map(|group| group * size);
                lacks(peers.collect(), round + 1).into_iter().take(1).collect()
            }
        }
    }

    pub(super) fn arrive(&mut self, member: usize) {
        if self.is_in(member) {
            return;
        }
        let episode = self.completed[member] + 1;
        self.at[member] = Some((episode, 0));
        match self.kind {
            Kind::Counter | Kind::Dissemination(_) => self.send(member, episode, ARRIVED),
            Kind::Tournament => drop(self.climb(member)),
            Kind::Levels(size) if !member.is_multiple_of(size) => {
                self.send(member, episode, ARRIVED)
            }
            Kind::Levels(_) => {
                if self.missing(member).is_empty() {
                    self.at[member] = Some((episode, 1));
                    self.send(member, episode, ARRIVED);
                }
            }
        }
    }

    /// Advances a member of a tournament to the round that it loses, or to the top; returns `false`
    /// if it has to wait before that.
    fn climb(&mut self, member: usize) -> bool {
        while let Some((episode, round)) = self.at[member] {
            if 1 << round >= self.members() {
                break;
            }
            if member >> round & 1 == 1 {
                self.send(member, episode, ARRIVED);
                break;
            }
            if !self.missing(member).is_empty() {
                return false;
            }
            self.at[member] = Some((episode, round + 1));
        }
        true
    }

    /// Advances as far as possible; returns whether the episode is complete.
    pub(super) fn done(&mut self, member: usize) -> bool {
        if matches!(self.kind, Kind::Tournament) && !self.climb(member) {
            return false;
        }
        while let Some((episode, round)) = self.at[member] {
            if !self.missing(member).is_empty() {
                return false;
            }
            let members = self.members();
            // The next round of the dissemination, if there is one.
            let has_round = |members: usize, radix: usize, next: u32| radix.pow(next) < members;
            match self.kind {
                Kind::Dissemination(radix) if has_round(members, radix, round + 1) => {
                    self.send(member, episode, round + 2);
                    self.at[member] = Some((episode, round + 1));
                    continue;
                }
                Kind::Levels(size)
                    if member.is_multiple_of(size) && has_round(members / size, 2, round) =>
                {
                    self.send(member, episode, round + 1);
                    self.at[member] = Some((episode, round + 1));
                    continue;
                }
                Kind::Counter | Kind::Dissemination(_) => (),
                Kind::Levels(size) if !member.is_multiple_of(size) => (),
                Kind::Tournament | Kind::Levels(_) => self.send(member, episode, LAST),
            }
            self.at[member] = None;
            self.completed[member] += 1;
        }
        true
    }
}

/// Returns the members that signal a member in a round of a dissemination.
fn behind(member: usize, members: usize, radix: usize, round: u32) -> Vec<usize> {
    let distance = radix.pow(round);
    let distances = (1..radix).map(|j| j * distance).filter(|&distance| distance < members);
    distances.map(|distance| (member + members - distance) % members).collect()
}

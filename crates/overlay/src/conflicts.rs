//! The conflict graph: tasks conflict if they share a location that at least one of them writes.
//!
//! # Why not a list of pairs
//! Where `n` tasks write one location there are `n²` pairs. This module never lists them. A search
//! treats a location as one step from a user to all users that conflict with it, and expands it at
//! most twice: once from a reader and once from a writer.
//!
//! # Costs
//! A search is linear in the requests. A colouring takes time for each request, times a word for
//! each 64 colours.
//!
//! # Source
//! Breadth-first search over a hypergraph; greedy colouring. Tested against lists of pairs on
//! random overlays.

use std::collections::VecDeque;

use crate::raw::AccessMode;

/// The requests of each task: location and kind.
pub(crate) type Requests = [Vec<(u32, AccessMode)>];

/// The tasks of an overlay, with the users of each location.
pub(crate) struct Conflicts<'r> {
    requests: &'r Requests,
    /// Per location: the tasks that ask for it, and how.
    users: Vec<Vec<(u32, AccessMode)>>,
}

/// The users of a location that a search has reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Nothing,
    /// The search came from a reader: it has reached the writers.
    Writers,
    /// The search came from a writer: it has reached all users.
    All,
}

impl<'r> Conflicts<'r> {
    pub(crate) fn new(requests: &'r Requests, locations: usize) -> Self {
        let mut users = vec![Vec::new(); locations];
        for (task, requests) in (0..).zip(requests) {
            requests.iter().for_each(|&(l, kind)| users[l as usize].push((task, kind)));
        }
        Conflicts { requests, users }
    }

    /// Returns the greatest distance of a task from `from`, and a task without a path to it, if
    /// there is one.
    fn farthest(&self, from: u32) -> (u64, Option<u32>) {
        let mut distance = vec![u32::MAX; self.requests.len()];
        let mut reached = vec![Reached::Nothing; self.users.len()];
        let mut queue = VecDeque::from([from]);
        distance[from as usize] = 0;
        let mut last = from;
        while let Some(task) = queue.pop_front() {
            last = task;
            for &(l, kind) in &self.requests[task as usize] {
                let now =
                    if kind == AccessMode::Exclusive { Reached::All } else { Reached::Writers };
                if reached[l as usize] >= now {
                    continue;
                }
                reached[l as usize] = now;
                for &(other, its_kind) in &self.users[l as usize] {
                    let conflict = now == Reached::All || its_kind == AccessMode::Exclusive;
                    if conflict && distance[other as usize] == u32::MAX {
                        distance[other as usize] = distance[task as usize] + 1;
                        queue.push_back(other);
                    }
                }
            }
        }
        let lost = distance.iter().position(|&d| d == u32::MAX);
        (u64::from(distance[last as usize]), lost.map(|t| t as u32))
    }

    /// Returns the diameter of the conflict graph: the greatest distance between two tasks. For
    /// more than 1024 tasks this is an upper bound, at most twice as large. The error is a pair of
    /// tasks without a path.
    pub(crate) fn diameter(&self) -> Result<u64, (u32, u32)> {
        /// The greatest number of tasks for which all distances are computed, with one search each.
        const EXACT: usize = 1024;
        let tasks = self.requests.len();
        if tasks == 0 {
            return Ok(0);
        }
        if let (_, Some(lost)) = self.farthest(0) {
            return Err((0, lost));
        }
        if tasks <= EXACT {
            Ok((0..tasks as u32).map(|t| self.farthest(t).0).max().unwrap_or(0))
        } else {
            // For any middle task m, each path can be led through m: the diameter is at most twice
            // the greatest distance from m.
            let stride = tasks / 64;
            Ok(2 * (0..64).map(|k| self.farthest((k * stride) as u32).0).min().unwrap_or(0))
        }
    }
}

/// Colours the tasks: each gets the least colour that no conflicting task declared before it has.
pub(crate) fn colours(requests: &Requests, locations: usize) -> Vec<u32> {
    // Per location: the colours of its readers, and those of its writers.
    let mut taken = vec![[Bits::default(), Bits::default()]; locations];
    let colour = |task: &Vec<(u32, AccessMode)>| {
        let mut all = Bits::default();
        for &(l, kind) in task {
            let [readers, writers] = &taken[l as usize];
            all.add(writers);
            if kind == AccessMode::Exclusive {
                all.add(readers);
            }
        }
        let least = all.least_absent();
        for &(l, kind) in task {
            taken[l as usize][usize::from(kind == AccessMode::Exclusive)].insert(least);
        }
        least
    };
    requests.iter().map(colour).collect()
}

/// A set of small numbers.
#[derive(Clone, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn add(&mut self, other: &Bits) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    fn insert(&mut self, n: u32) {
        let word = n as usize / 64;
        self.0.resize(self.0.len().max(word + 1), 0);
        self.0[word] |= 1 << (n % 64);
    }

    fn least_absent(&self) -> u32 {
        let full = self.0.iter().take_while(|&&word| word == u64::MAX).count();
        64 * full as u32 + self.0.get(full).map_or(0, |word| word.trailing_ones())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use syncline_testkit::{Random, cases, seed};

    /// Returns for each task the tasks that it conflicts with.
    fn pairs(requests: &Requests) -> Vec<Vec<u32>> {
        let conflict = |a: &[(u32, AccessMode)], b: &[(u32, AccessMode)]| {
            a.iter().any(|x| {
                b.iter().any(|y| {
                    x.0 == y.0 && (x.1 == AccessMode::Exclusive || y.1 == AccessMode::Exclusive)
                })
            })
        };
        let of = |t: usize| {
            let others =
                (0..requests.len()).filter(|&u| u != t && conflict(&requests[t], &requests[u]));
            others.map(|u| u as u32).collect()
        };
        (0..requests.len()).map(of).collect()
    }

    /// Returns the distances from `from`, computed in as many rounds as there are tasks.
    fn distances(pairs: &[Vec<u32>], from: usize) -> Vec<Option<u64>> {
        let mut distance = vec![None; pairs.len()];
        distance[from] = Some(0);
        for d in 0..pairs.len() as u64 {
            for t in (0..pairs.len()).filter(|&t| distance[t] == Some(d)).collect::<Vec<_>>() {
                for &u in &pairs[t] {
                    distance[u as usize].get_or_insert(d + 1);
                }
            }
        }
        distance
    }

    #[test]
    #[cfg_attr(miri, ignore = "too large; the code is safe and in one thread")]
    fn searches_and_colours_are_those_of_the_pairs() {
        let first = seed(0);
        for seed in first..first + u64::from(cases(300)) {
            let mut random = Random::new(seed);
            let (tasks, locations) = (1 + random.below(90), 1 + random.below(8));
            let mut requests = vec![Vec::new(); tasks];
            for task in &mut requests {
                for l in 0..locations as u32 {
                    match random.below(8) {
                        0 => task.push((l, AccessMode::Exclusive)),
                        1 => task.push((l, AccessMode::Inclusive)),
                        _ => {}
                    }
                }
            }
            let (pairs, conflicts) = (pairs(&requests), Conflicts::new(&requests, locations));
            for t in 0..tasks {
                let all = distances(&pairs, t);
                let (far, lost) = conflicts.farthest(t as u32);
                assert_eq!(
                    lost,
                    all.iter().position(Option::is_none).map(|t| t as u32),
                    "seed {seed}"
                );
                assert_eq!(Some(far), all.into_iter().flatten().max(), "seed {seed}");
            }
            let colour = colours(&requests, locations);
            for (t, others) in pairs.iter().enumerate() {
                let before: Vec<u32> = others
                    .iter()
                    .filter(|&&u| (u as usize) < t)
                    .map(|&u| colour[u as usize])
                    .collect();
                assert_eq!(Some(colour[t]), (0..).find(|c| !before.contains(c)), "seed {seed}");
            }
        }
    }

    /// Returns tasks in a row, each of which shares a location with the next.
    fn row(tasks: u32) -> Vec<Vec<(u32, AccessMode)>> {
        (0..tasks)
            .map(|t| vec![(t, AccessMode::Exclusive), (t + 1, AccessMode::Exclusive)])
            .collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "too large; the code is safe and in one thread")]
    fn diameters() {
        let diameter = |requests: &Requests| Conflicts::new(requests, 3001).diameter();
        assert_eq!(diameter(&[]), Ok(0));
        assert_eq!(diameter(&row(1)), Ok(0));
        assert_eq!(diameter(&row(9)), Ok(8));
        let apart = [row(2), vec![vec![(9, AccessMode::Exclusive)]]].concat();
        assert_eq!(diameter(&apart), Err((0, 2)));
        let long = diameter(&row(3000)).unwrap();
        assert!((2999..=2 * 2999).contains(&long));
    }

    /// One location that all tasks write: there are 2^40 pairs, the number of bytes in a tebibyte.
    #[test]
    #[ignore = "full: it computes for 3 s"]
    fn a_million_writers_of_one_location() {
        let requests = vec![vec![(0, AccessMode::Exclusive)]; 1 << 20];
        assert_eq!(Conflicts::new(&requests, 1).diameter(), Ok(2));
        assert_eq!(*colours(&requests[..1 << 14], 1).last().unwrap(), (1 << 14) - 1);
    }
}

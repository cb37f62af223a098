//! Who tells whom how many operations are under way, and in which round: the messages of a sync between hosts.
//!
//! # Contract
//! Every host `i` has a count for every other host `t`: how many operations it has sent there. After the last round each
//! host has the sum of all counts for it, in which each is there exactly once; and it has heard, directly or through
//! others, from every host. So it knows that all have arrived, and for how many operations to wait.
//!
//! # Figure: radix 3, nine hosts; what host 0 sends of its counts, named by how far they have to go
//! ```text
//!  round 0, stride 1:  to 1: those for 1, 4, 7 ahead    to 2: those for 2, 5, 8 ahead
//!  round 1, stride 3:  to 3: those for 3 ahead, with what came in round 0 for as far      to 6: those for 6 ahead
//! ```
//! A count that has to go `k` hosts ahead goes by the digits of `k` to the base of the radix, the lowest first, and is
//! summed with others that have as far to go still. That works for any number of hosts: no `k` is the same as another.
//!
//! # Costs
//! ceil(log_r N) rounds; a host sends at most r - 1 messages in a round; all its messages together carry at most N words
//! for radix N, and N (1 + 1/r + ...) at most for others. With the radix N it is one round: all tell all.
//!
//! # Source
//! The barrier of Saify's thesis (ARMCI, 2002) has two pairwise exchanges of whole arrays of counts, for powers of two.
//! Changed: a reduce-scatter, as each needs only the sum for itself; any number of hosts; any radix, as dissemination
//! barriers have it; one exchange (see `sync`). The order of digits is that of Bruck's algorithm for all-to-all, backwards.

use std::collections::HashMap;

/// The rounds of an exchange of so many hosts with that radix: their strides.
pub fn strides(hosts: usize, radix: usize) -> impl Iterator<Item = usize> {
    let radix = radix.max(2);
    std::iter::successors(Some(1_usize), move |stride| stride.checked_mul(radix))
        .take_while(move |&stride| stride < hosts)
}

/// How far ahead those stand to whom a host sends in the round of that stride.
pub fn steps(hosts: usize, radix: usize, stride: usize) -> impl Iterator<Item = usize> {
    (1..radix.max(2)).map(move |digit| digit * stride).take_while(move |&step| step < hosts)
}

/// Of the counts by how far they have to go, those that go `step` ahead in the round of that stride.
pub fn entries(hosts: usize, radix: usize, stride: usize, step: usize) -> impl Iterator<Item = usize> {
    let next = stride.saturating_mul(radix.max(2));
    (step..hosts).step_by(next)
}

/// What an exchange costs a host: rounds, messages, words in all of them.
#[must_use]
pub fn cost(hosts: usize, radix: usize) -> (usize, usize, usize) {
    let mut cost = (0, 0, 0);
    for stride in strides(hosts, radix) {
        cost.0 += 1;
        for step in steps(hosts, radix, stride) {
            cost.1 += 1;
            cost.2 += entries(hosts, radix, stride, step).count();
        }
    }
    cost
}

/// What a message costs the processor of its sender, in units of the time that it is under way: of a network of
/// microseconds, where all is decided. On slower ones a greater radix would be no worse.
const OVERHEAD: f64 = 0.02;

/// The radix with the least time for so many hosts: rounds, each of them a message's way and the time in which it is sent
/// beside others.
#[must_use]
pub fn best_radix(hosts: usize) -> usize {
    let time = |radix: usize| {
        let (rounds, messages, words) = cost(hosts, radix);
        rounds as f64 + OVERHEAD * messages as f64 + OVERHEAD / 200.0 * words as f64
    };
    let all = (2..=hosts.clamp(2, 64)).chain([hosts.max(2)]);
    all.min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(2)
}

/// One host's part in exchange after exchange, message by message; it sends by what it is given.
#[derive(Debug)]
pub(crate) struct Exchange {
    hosts: usize,
    here: usize,
    radix: usize,
    /// The stride of the round in which it is; `None`: in none.
    round: Option<usize>,
    epoch: u64,
    /// By how far they have to go still.
    counts: Vec<u64>,
    /// All who have been heard know that everything of theirs is done.
    known: bool,
    /// What has come for rounds that this host is not in yet: epoch, stride, step.
    early: HashMap<(u64, usize, usize), (Vec<u64>, bool)>,
}

/// A message of an exchange, and the host that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) to: usize,
    pub(crate) epoch: u64,
    pub(crate) stride: usize,
    pub(crate) step: usize,
    pub(crate) counts: Vec<u64>,
    pub(crate) known: bool,
}

impl Exchange {
    pub(crate) fn new(hosts: usize, here: usize, radix: usize) -> Exchange {
        let (counts, early) = (vec![0; hosts], HashMap::new());
        Exchange { hosts, here, radix, round: None, epoch: 0, counts, known: true, early }
    }

    /// Begins the exchange of an epoch: `count(ahead)` operations have been sent to the host so far ahead.
    pub(crate) fn start(
        &mut self,
        epoch: u64,
        count: impl Fn(usize) -> u64,
        known: bool,
        send: &mut impl FnMut(Told),
    ) {
        debug_assert!(self.round.is_none());
        (self.epoch, self.known) = (epoch, known);
        self.counts = (0..self.hosts).map(count).collect();
        self.enter(1, send);
    }

    fn enter(&mut self, stride: usize, send: &mut impl FnMut(Told)) {
        self.round = Some(stride);
        for step in steps(self.hosts, self.radix, stride) {
            let counts =
                entries(self.hosts, self.radix, stride, step).map(|ahead| self.counts[ahead]).collect();
            let (to, epoch, known) = ((self.here + step) % self.hosts, self.epoch, self.known);
            send(Told { to, epoch, stride, step, counts, known });
        }
    }

    /// Whether it is in no round.
    pub(crate) fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    /// A message has come. The same one does not come twice.
    pub(crate) fn receive(&mut self, epoch: u64, stride: usize, step: usize, counts: Vec<u64>, known: bool) {
        self.early.insert((epoch, stride, step), (counts, known));
    }

    /// Goes on as far as what has come allows. At the end of the last round: how many operations are for this host, and
    /// whether everybody knew that all of theirs were done.
    pub(crate) fn advance(&mut self, send: &mut impl FnMut(Told)) -> Option<(u64, bool)> {
        while let Some(stride) = self.round {
            if stride >= self.hosts {
                self.round = None;
                return Some((self.counts[0], self.known));
            }
            let steps = steps(self.hosts, self.radix, stride).collect::<Vec<_>>();
            if !steps.iter().all(|&step| self.early.contains_key(&(self.epoch, stride, step))) {
                return None;
            }
            for step in steps {
                let (counts, known) = self.early.remove(&(self.epoch, stride, step)).unwrap_or_default();
                for (ahead, count) in entries(self.hosts, self.radix, stride, step).zip(counts) {
                    self.counts[ahead - step] += count;
                }
                self.known &= known;
            }
            self.enter(stride.saturating_mul(self.radix), send);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_late_or_early_get_their_sums() {
        for (hosts, radix) in [(1, 2), (2, 2), (3, 2), (5, 2), (5, 5), (7, 3), (9, 4)] {
            let mut all = (0..hosts).map(|here| Exchange::new(hosts, here, radix)).collect::<Vec<_>>();
            let mut random = 7_u64;
            let mut next = |n: usize| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize % n
            };
            let mut way: Vec<Told> = Vec::new();
            let mut epochs = vec![0_u64; hosts];
            let count = |epoch: u64, from: usize, to: usize| epoch * 1000 + (from * 10 + to) as u64;
            while epochs.iter().any(|&epoch| epoch < 6) {
                let host = next(hosts);
                if next(2) == 0 && !way.is_empty() {
                    let told = way.swap_remove(next(way.len()));
                    all[told.to].receive(told.epoch, told.stride, told.step, told.counts, told.known);
                }
                if all[host].round.is_none() && epochs[host] < 6 {
                    // Nobody is two epochs ahead.
                    let epoch = epochs[host] + 1;
                    let counts = |ahead| count(epoch, host, (host + ahead) % hosts);
                    all[host].start(epoch, counts, epoch % 2 == 0 || host > 0, &mut |told| way.push(told));
                }
                for host in 0..hosts {
                    if let Some((sum, known)) = all[host].advance(&mut |told| way.push(told)) {
                        epochs[host] += 1;
                        let epoch = epochs[host];
                        assert_eq!(sum, (0..hosts).map(|from| count(epoch, from, host)).sum::<u64>());
                        assert_eq!(known, epoch % 2 == 0);
                    }
                }
                let (least, most) = (epochs.iter().min(), epochs.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1);
            }
        }
    }

    /// An exchange, message by message, in which counts are sets of whose they are.
    #[expect(clippy::type_complexity, clippy::needless_range_loop, reason = "hosts are numbers here")]
    fn exchanged(hosts: usize, radix: usize) -> Vec<(Vec<(usize, usize)>, Vec<bool>)> {
        let own =
            |host: usize| (0..hosts).map(|ahead| vec![(host, (host + ahead) % hosts)]).collect::<Vec<_>>();
        let mut counts = (0..hosts).map(own).collect::<Vec<_>>();
        let mut heard =
            (0..hosts).map(|host| (0..hosts).map(|other| other == host).collect()).collect::<Vec<Vec<_>>>();
        for stride in strides(hosts, radix) {
            let mut sent = Vec::new();
            for host in 0..hosts {
                for step in steps(hosts, radix, stride) {
                    for ahead in entries(hosts, radix, stride, step) {
                        sent.push((
                            (host + step) % hosts,
                            ahead - step,
                            std::mem::take(&mut counts[host][ahead]),
                        ));
                    }
                }
            }
            let before = heard.clone();
            for host in 0..hosts {
                for step in steps(hosts, radix, stride) {
                    let to = (host + step) % hosts;
                    (0..hosts).for_each(|other| heard[to][other] |= before[host][other]);
                }
            }
            sent.into_iter().for_each(|(to, ahead, counts_of)| counts[to][ahead].extend(counts_of));
        }
        counts.into_iter().map(|mut counts| counts.swap_remove(0)).zip(heard).collect()
    }

    #[test]
    fn every_count_arrives_once_and_all_are_heard() {
        for hosts in 1..=40 {
            for radix in 2..=hosts.max(2) {
                for (host, (mut counts, heard)) in exchanged(hosts, radix).into_iter().enumerate() {
                    counts.sort_unstable();
                    let expected = (0..hosts).map(|origin| (origin, host)).collect::<Vec<_>>();
                    assert_eq!(counts, expected, "{hosts} hosts, radix {radix}");
                    assert!(heard.into_iter().all(|heard| heard), "{hosts} hosts, radix {radix}");
                }
            }
        }
    }

    #[test]
    fn costs_are_as_they_say() {
        assert_eq!(cost(1, 2), (0, 0, 0));
        assert_eq!(cost(9, 3), (2, 4, 8));
        assert_eq!(cost(8, 8), (1, 7, 7));
        assert_eq!(cost(8, 2), (3, 3, 4 + 2 + 1));
        for hosts in 2..200 {
            let (rounds, messages, _) = cost(hosts, best_radix(hosts));
            assert!(rounds <= 2 || hosts > 64, "{hosts}");
            assert!(messages < hosts);
        }
        assert_eq!((best_radix(2), best_radix(8)), (2, 8));
    }
}

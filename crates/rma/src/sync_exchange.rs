//! The message schedule of a sync: which host sends which operation counts to which host in each
//! round.
//!
//! Every host `i` has a count for every other host `t`: the number of operations that it has sent
//! to `t`. After the last round each host has the sum of all counts for it, in which each count
//! appears exactly once. Messages from every host have then reached it, directly or through others.
//! So the host has the two facts that a sync needs: all hosts have arrived, and the number of
//! operations to wait for.
//!
//! # Figure
//! Radix 3, nine hosts: the counts that host 0 sends, named by the distance that they have to
//! travel.
//! ```text
//!  round 0, stride 1   to host 1: distances 1, 4, 7    to host 2: distances 2, 5, 8
//!  round 1, stride 3   to host 3: distance 3           to host 6: distance 6
//!                      (each with the counts of round 0 that have the same distance left)
//! ```
//!
//! A count that has to travel `k` hosts ahead moves by the digits of `k` in the base of the radix,
//! the lowest digit first. It is summed with other counts that have the same distance left. That
//! works for any number of hosts, as each distance `k` has its own digits.
//!
//! # Costs
//! ceil(log_r N) rounds for N hosts and radix r. A host sends at most r - 1 messages in a round.
//! All its messages of an exchange together carry at most N words if r = N, and otherwise at most
//! N (1 + 1/r + ...) words. With r = N there is one round, in which each host sends to all others.
//!
//! # Source
//! The barrier of Saify's thesis (ARMCI, 2002) has two pairwise exchanges of whole arrays of
//! counts, for powers of two. Changed: a reduce-scatter, as each host needs only the sum for
//! itself; any number of hosts; any radix, as in dissemination barriers; one exchange (see
//! [`Rma::sync`](crate::Rma::sync)). The order of digits is that of Bruck's algorithm for
//! all-to-all, reversed.

use std::collections::HashMap;

use crate::message;

/// Returns the stride of each round of an exchange.
pub fn strides(hosts: usize, radix: usize) -> impl Iterator<Item = usize> {
    let radix = radix.max(2);
    std::iter::successors(Some(1_usize), move |stride| stride.checked_mul(radix))
        .take_while(move |&stride| stride < hosts)
}

/// Returns the distances of the hosts to which a host sends in the round of the given stride.
pub fn steps(hosts: usize, radix: usize, stride: usize) -> impl Iterator<Item = usize> {
    (1..radix.max(2)).map(move |digit| digit * stride).take_while(move |&step| step < hosts)
}

/// Returns the distances of the counts that move `step` hosts ahead in the round of the given
/// stride.
pub fn entries(
    hosts: usize,
    radix: usize,
    stride: usize,
    step: usize,
) -> impl Iterator<Item = usize> {
    let next = stride.saturating_mul(radix.max(2));
    (step..hosts).step_by(next)
}

/// Returns, for each round, the number of messages of a host and the number of counts in them.
fn rounds(hosts: usize, radix: usize) -> impl Iterator<Item = (usize, usize)> {
    strides(hosts, radix).map(move |stride| {
        let next = stride.saturating_mul(radix.max(2));
        let sent = |(messages, counts): (usize, usize), step: usize| {
            (messages + 1, counts + (hosts - step).div_ceil(next))
        };
        steps(hosts, radix, stride).fold((0, 0), sent)
    })
}

/// Returns the costs of an exchange for a host: rounds, messages, and words in all messages.
#[must_use]
pub fn cost(hosts: usize, radix: usize) -> (usize, usize, usize) {
    let add = |cost: (usize, usize, usize), round: (usize, usize)| {
        (cost.0 + 1, cost.1 + round.0, cost.2 + round.1)
    };
    rounds(hosts, radix).fold((0, 0, 0), add)
}

/// The number of words of a message before its counts: its head, and one word of the frame.
pub const HEAD: usize = message::WORDS + 1;

/// The costs of messages between hosts, in units of the latency of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The time for which a message occupies a processor, at each end.
    pub overhead: f64,
    /// The time for which 8 bytes of a message occupy the network.
    pub gap: f64,
}

/// Returns the time of an exchange that all hosts begin at once, in the network's unit.
///
/// In a round, the messages of the hosts behind arrive while a host sends its own. So the last
/// message arrives one latency after all messages of the round have been sent; or later, if the
/// processor, which sends and receives all of them, is busy until then.
///
/// ```
/// use syncline_rma::unstable::sync_exchange::{Network, time};
///
/// let network = Network { overhead: 0.1, gap: 0.0 };
/// assert!((time(8, 8, network) - 1.8).abs() < 1e-9);
/// assert!((time(64, 64, network) - 12.6).abs() < 1e-9);
/// ```
#[must_use]
pub fn time(hosts: usize, radix: usize, network: Network) -> f64 {
    let Network { overhead, gap } = network;
    let round = |(messages, counts): (usize, usize)| {
        let (messages, wire) = (messages as f64, gap * (counts + HEAD * messages) as f64);
        let sent = (messages * overhead + wire / messages).max(overhead + wire);
        (sent + 1.0 + overhead).max(2.0 * messages * overhead)
    };
    rounds(hosts, radix).map(round).sum()
}

/// Returns radices among which one is optimal or as good as that: in a round of more messages than
/// the limit, another round takes less time.
fn radices(hosts: usize) -> impl Iterator<Item = usize> + Clone {
    (2..=hosts.clamp(2, 128)).chain((hosts > 128).then_some(hosts))
}

/// Returns the radix with the least [`time`] for a number of hosts on a known network.
///
/// It is an argument for [`with_radix`](crate::unstable::with_radix). By simulation
/// (`docs/growth.md`), for overheads from 0.01 to 0.1 and up to 4096 hosts, an exchange with this
/// radix takes at most 0.3 % longer than with the best one. If puts are in flight, which the model
/// does not include, it takes at most a fifth longer, and for most numbers of hosts no longer.
#[must_use]
pub fn best_radix_for(hosts: usize, network: Network) -> usize {
    let time = |&radix: &usize| time(hosts, radix, network);
    radices(hosts).min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(2)
}

/// The networks for which [`best_radix`] is a compromise: overheads from 0.01 to 0.1, each with a
/// gap of 0 and with the gap of 1 GB/s at a latency of 2 µs.
const NETWORKS: [Network; 8] = [
    Network { overhead: 0.01, gap: 0.0 },
    Network { overhead: 0.01, gap: 0.004 },
    Network { overhead: 0.02, gap: 0.0 },
    Network { overhead: 0.02, gap: 0.004 },
    Network { overhead: 0.05, gap: 0.0 },
    Network { overhead: 0.05, gap: 0.004 },
    Network { overhead: 0.1, gap: 0.0 },
    Network { overhead: 0.1, gap: 0.004 },
];

/// Returns the radix for a number of hosts on an unknown network.
///
/// It minimises, over several networks, the maximum ratio of its [`time`] to the best time on that
/// network.
///
/// By simulation (`docs/growth.md`), for overheads from 0.01 to 0.1: up to 12 hosts, each host
/// sends to all others in one round, which is optimal, or takes 7 % longer if puts are in flight.
/// From 16 to 64 hosts no radix is good for all networks: one round is 1.3 to 1.8 times as fast as
/// two if the overhead is 0.01, and up to 3.5 times as slow if it is 0.1. There the choice loses up
/// to two thirds, at 27 hosts, and with puts in flight up to 83 %, at 25. From 100 hosts on it
/// loses up to 36 %, and mostly nothing. For a known network, use [`best_radix_for`].
#[must_use]
pub fn best_radix(hosts: usize) -> usize {
    let best = NETWORKS.map(|network| time(hosts, best_radix_for(hosts, network), network));
    let loss = |&radix: &usize| {
        let losses =
            NETWORKS.iter().zip(best).map(|(&network, best)| time(hosts, radix, network) / best);
        losses.fold(1.0, f64::max)
    };
    radices(hosts).min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap_or(2)
}

/// The state of one host in successive exchanges. It is driven by the messages that it is given,
/// and sends through a closure.
#[derive(Debug)]
pub(crate) struct Exchange {
    hosts: usize,
    here: usize,
    radix: usize,
    /// The stride of the current round; `None` between exchanges.
    round: Option<usize>,
    epoch: u64,
    /// The counts, by the distance that they still have to travel.
    counts: Vec<u64>,
    /// Whether all hosts whose counts have come so far began the sync with all of their requests
    /// acknowledged.
    known: bool,
    /// The messages for rounds that this host has not reached yet, by epoch, stride and step.
    early: HashMap<(u64, usize, usize), (Vec<u64>, bool)>,
}

/// A message of an exchange, and its destination.
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

    /// Begins the exchange of an epoch. `count(ahead)` is the number of operations that were sent
    /// to the host at that distance.
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
            let counts = entries(self.hosts, self.radix, stride, step)
                .map(|ahead| self.counts[ahead])
                .collect();
            let (to, epoch, known) = ((self.here + step) % self.hosts, self.epoch, self.known);
            send(Told { to, epoch, stride, step, counts, known });
        }
    }

    /// Returns whether no exchange is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    /// Receives a message. Each message is received once.
    pub(crate) fn receive(
        &mut self,
        epoch: u64,
        stride: usize,
        step: usize,
        counts: Vec<u64>,
        known: bool,
    ) {
        self.early.insert((epoch, stride, step), (counts, known));
    }

    /// Advances as far as the received messages allow. At the end of the last round, returns the
    /// number of operations for this host, and whether all hosts began with all of their requests
    /// acknowledged.
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
                let (counts, known) =
                    self.early.remove(&(self.epoch, stride, step)).unwrap_or_default();
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
            let mut all =
                (0..hosts).map(|here| Exchange::new(hosts, here, radix)).collect::<Vec<_>>();
            let mut random = 7_u64;
            let mut next = |n: usize| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize % n
            };
            let mut way: Vec<Told> = Vec::new();
            let mut epochs = vec![0_u64; hosts];
            let count = |epoch: u64, from: usize, to: usize| epoch * 1000 + (from * 10 + to) as u64;
            while epochs.iter().any(|&epoch| epoch < 6) {
                let host = next(hosts);
                if next(2) == 0 && !way.is_empty() {
                    let told = way.swap_remove(next(way.len()));
                    all[told.to].receive(
                        told.epoch,
                        told.stride,
                        told.step,
                        told.counts,
                        told.known,
                    );
                }
                if all[host].round.is_none() && epochs[host] < 6 {
                    // No host is two epochs ahead.
                    let epoch = epochs[host] + 1;
                    let counts = |ahead| count(epoch, host, (host + ahead) % hosts);
                    all[host].start(epoch, counts, epoch % 2 == 0 || host > 0, &mut |told| {
                        way.push(told)
                    });
                }
                for host in 0..hosts {
                    if let Some((sum, known)) = all[host].advance(&mut |told| way.push(told)) {
                        epochs[host] += 1;
                        let epoch = epochs[host];
                        assert_eq!(
                            sum,
                            (0..hosts).map(|from| count(epoch, from, host)).sum::<u64>()
                        );
                        assert_eq!(known, epoch % 2 == 0);
                    }
                }
                let (least, most) = (epochs.iter().min(), epochs.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1);
            }
        }
    }

    /// A count, as its origin and its destination.
    type Count = (usize, usize);

    /// Performs an exchange message by message. Returns the counts that each host has in the end,
    /// and the hosts whose messages have reached it.
    fn exchanged(hosts: usize, radix: usize) -> (Vec<Vec<Count>>, Vec<Vec<bool>>) {
        let own = |host: usize| {
            (0..hosts).map(|ahead| vec![(host, (host + ahead) % hosts)]).collect::<Vec<_>>()
        };
        let mut counts = (0..hosts).map(own).collect::<Vec<_>>();
        let itself = |host: usize| (0..hosts).map(|other| other == host).collect::<Vec<_>>();
        let mut heard = (0..hosts).map(itself).collect::<Vec<_>>();
        for stride in strides(hosts, radix) {
            let mut sent: Vec<(usize, usize, Vec<Count>)> = Vec::new();
            let before = heard.clone();
            for (host, counts) in counts.iter_mut().enumerate() {
                for step in steps(hosts, radix, stride) {
                    let to = (host + step) % hosts;
                    heard[to]
                        .iter_mut()
                        .zip(&before[host])
                        .for_each(|(heard, &before)| *heard |= before);
                    for ahead in entries(hosts, radix, stride, step) {
                        sent.push((to, ahead - step, std::mem::take(&mut counts[ahead])));
                    }
                }
            }
            sent.into_iter().for_each(|(to, ahead, more)| counts[to][ahead].extend(more));
        }
        (counts.into_iter().map(|mut counts| counts.swap_remove(0)).collect(), heard)
    }

    #[test]
    fn every_count_arrives_once_and_all_are_heard() {
        for hosts in 1..=40 {
            for radix in 2..=hosts.max(2) {
                let (counts, heard) = exchanged(hosts, radix);
                for (host, (mut counts, heard)) in counts.into_iter().zip(heard).enumerate() {
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
        assert_eq!((best_radix(0), best_radix(1), best_radix(2), best_radix(8)), (2, 2, 2, 8));
        // Higher costs per word and per message lead to other radices.
        let best = |hosts, overhead, gap| best_radix_for(hosts, Network { overhead, gap });
        assert_eq!((best(64, 0.0, 0.0), best(64, 0.01, 0.0), best(64, 0.1, 0.0)), (64, 64, 8));
        assert_eq!(
            (best(4096, 0.0, 0.0), best(4096, 0.01, 0.0), best(4096, 0.01, 0.004)),
            (4096, 64, 16)
        );
    }
}

//! The message schedule of an exchange of counts: each host obtains the sum of the counts that all
//! other hosts have for it.
//!
//! # Contract
//! Each of `n` hosts has a count for each other host. The count of host `o` for host `o + k` is an
//! *entry* with offset `k`. It travels the digits of `k` in base `r` (the radix), the least
//! significant first, and each host on its way adds it to its entries with the same remaining
//! offset. In round `j`, of stride `s = r^j`, host `i` sends to host `i + z s`, for each digit
//! `z >= 1` with `z s < n`, the entries whose offset has the digit `z` at position `j` and zeros
//! below; the message reduces their offset by `z s`. A host enters a round when all messages of the
//! previous round have arrived.
//!
//! Each count therefore arrives exactly once, and within the exchange. Each message is sent after
//! its sender has received all messages of earlier rounds, so a host that has received all its
//! messages depends, through other hosts, on the arrival of every host: an exchange is a barrier.
//! This holds for any `n`. A pair of hosts has at most one message in an exchange.
//!
//! # Figure: radix 2, five hosts, the entry of host 0 for host 3 (offset 3 = 11 in base 2)
//! ```text
//! round 0, stride 1     0 ──3──> 1                   offset 3 - 1 = 2, added to host 1's entry
//! round 1, stride 2              1 ──2────────> 3    offset 0: arrived
//! round 2, stride 4     (offset 4 only: from each host to the one behind it)
//! ```
//!
//! # Costs
//! An exchange has ceil(log_r n) rounds. A host sends up to r - 1 messages in a round; each carries
//! n / r counts in the first round and 1 in the last. A radix of `n` or more gives one round, with
//! one count for each pair.

/// The schedule of an exchange of counts over `hosts` hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    hosts: usize,
    radix: usize,
}

impl Schedule {
    /// Creates a schedule.
    ///
    /// # Panics
    /// If there is no host, or if the radix is less than 2.
    pub fn new(hosts: usize, radix: usize) -> Self {
        assert!(hosts > 0 && radix > 1, "a schedule of {hosts} hosts with radix {radix}");
        Schedule { hosts, radix }
    }

    /// Returns the number of rounds.
    pub fn rounds(self) -> usize {
        (0..).take_while(|&round| self.stride(round) < self.hosts).count()
    }

    /// Returns the stride of a round: the distance of each of its messages is a multiple of it.
    fn stride(self, round: usize) -> usize {
        (0..round).fold(1, |stride, _| stride.saturating_mul(self.radix))
    }

    /// Returns the distances over which a round sends; the messages received in it come over the
    /// same distances.
    pub fn distances(self, round: usize) -> impl Iterator<Item = usize> {
        let stride = self.stride(round);
        (1..self.radix)
            .map(move |z| z.saturating_mul(stride))
            .take_while(move |&distance| distance < self.hosts)
    }

    /// Returns the offsets, before the round, of the entries that the message over `distance`
    /// carries.
    pub fn offsets(self, round: usize, distance: usize) -> impl Iterator<Item = usize> {
        let stride = self.stride(round);
        (distance..self.hosts).step_by(stride.saturating_mul(self.radix))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    /// Entries in flight or arrived: (origin, target) pairs.
    type Entries = Vec<(usize, usize)>;

    #[derive(Clone, Default)]
    struct Host {
        started: bool,
        round: usize,
        /// By distance: whether the message has arrived.
        got: Vec<bool>,
        /// By remaining offset.
        entries: Vec<Entries>,
        /// The hosts that this host depends on, one bit for each.
        heard: u64,
    }

    struct Message {
        from: usize,
        distance: usize,
        entries: Vec<(usize, Entries)>,
        heard: u64,
    }

    /// Runs the exchange among the hosts that start, with events in an order that `pick` chooses.
    fn exchange(
        schedule: Schedule,
        starts: &[usize],
        mut pick: impl FnMut(usize) -> usize,
    ) -> Vec<Host> {
        let n = schedule.hosts;
        let blank =
            Host { got: vec![false; n], entries: vec![Entries::new(); n], ..Host::default() };
        let mut hosts = vec![blank; n];
        let mut wire: Vec<Message> = Vec::new();
        let mut starts = starts.to_vec();
        while starts.len() + wire.len() > 0 {
            let event = pick(starts.len() + wire.len());
            let at = if event < starts.len() {
                let at = starts.swap_remove(event);
                hosts[at].started = true;
                hosts[at].heard |= 1 << at;
                for k in 1..n {
                    hosts[at].entries[k].push((at, (at + k) % n));
                }
                send(schedule, &mut hosts[at], at, &mut wire);
                at
            } else {
                let message = wire.swap_remove(event - starts.len());
                let at = (message.from + message.distance) % n;
                assert!(!hosts[at].got[message.distance], "two messages for one pair");
                hosts[at].got[message.distance] = true;
                hosts[at].heard |= message.heard;
                for (offset, entries) in message.entries {
                    hosts[at].entries[offset - message.distance].extend(entries);
                }
                at
            };
            while hosts[at].started
                && hosts[at].round < schedule.rounds()
                && schedule.distances(hosts[at].round).all(|distance| hosts[at].got[distance])
            {
                hosts[at].round += 1;
                if hosts[at].round < schedule.rounds() {
                    send(schedule, &mut hosts[at], at, &mut wire);
                }
            }
        }
        hosts
    }

    fn send(schedule: Schedule, host: &mut Host, at: usize, wire: &mut Vec<Message>) {
        for distance in schedule.distances(host.round) {
            let offsets = schedule.offsets(host.round, distance);
            let entries: Vec<_> =
                offsets.map(|k| (k, std::mem::take(&mut host.entries[k]))).collect();
            assert!(!entries.is_empty());
            wire.push(Message { from: at, distance, entries, heard: host.heard });
        }
    }

    fn check(hosts: usize, radix: usize, mut pick: impl FnMut(usize) -> usize) {
        let schedule = Schedule::new(hosts, radix);
        let all: Vec<usize> = (0..hosts).collect();
        for (at, host) in exchange(schedule, &all, &mut pick).iter_mut().enumerate() {
            assert_eq!(
                host.round,
                schedule.rounds(),
                "{hosts} hosts, radix {radix}: host {at} hangs"
            );
            assert_eq!(
                host.heard,
                (1 << hosts) - 1,
                "{hosts} hosts, radix {radix}: host {at} leaves too early"
            );
            host.entries[0].sort_unstable();
            let due: Entries =
                (0..hosts).filter(|&origin| origin != at).map(|origin| (origin, at)).collect();
            assert_eq!(
                host.entries[0], due,
                "{hosts} hosts, radix {radix}: the counts for host {at}"
            );
            assert!(host.entries[1..].iter().all(Vec::is_empty), "counts have stayed at host {at}");
        }
    }

    /// Checks any number of hosts and any radix, in the order of sending and in its reverse.
    #[test]
    fn every_count_arrives_once_and_all_are_heard_of() {
        for hosts in 1..=40 {
            for radix in 2..=hosts.max(2) {
                check(hosts, radix, |_| 0);
                check(hosts, radix, |events| events - 1);
            }
        }
    }

    /// If one host never starts, no host completes the exchange.
    #[test]
    fn nobody_leaves_before_all_have_come() {
        for hosts in 2..=40 {
            for radix in 2..=hosts {
                let schedule = Schedule::new(hosts, radix);
                for missing in 0..hosts.min(3) {
                    let others: Vec<usize> = (0..hosts).filter(|&host| host != missing).collect();
                    let left = exchange(schedule, &others, |_| 0);
                    assert!(
                        left.iter().all(|host| host.round < schedule.rounds()),
                        "{hosts} hosts, radix {radix}"
                    );
                }
            }
        }
    }

    #[test]
    fn rounds_are_as_many_as_digits() {
        let rounds = |hosts, radix| Schedule::new(hosts, radix).rounds();
        assert_eq!(
            [rounds(1, 2), rounds(2, 2), rounds(5, 2), rounds(9, 3), rounds(10, 3)],
            [0, 1, 3, 2, 3]
        );
        assert_eq!((2..=40).map(|hosts| rounds(hosts, hosts)).max(), Some(1));
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn in_any_order_of_events(
            hosts in 1usize..=40,
            radix in 2usize..=40,
            picks in prop::collection::vec(any::<u32>(), 1..64),
        ) {
            let mut picks = picks.into_iter().cycle();
            check(hosts, radix, |events| picks.next().unwrap() as usize % events);
        }
    }
}

//! Which data stay in their slot, and the order of the releases that wait for data.

use super::*;
use crate::plan::Queues;
use crate::raw::AccessMode::{Exclusive, Inclusive};
use crate::team::layout::{Layout, Team};
use syncline_testkit::{Random, cases, seed};

#[test]
fn releases_are_raised_in_order_when_all_their_data_have_landed() {
    let mut task = Arriving::default();
    let raised = |task: &mut Arriving| -> Vec<u64> { std::iter::from_fn(|| task.next()).collect() };
    task.announced(3);
    task.announced(3);
    task.landed(3);
    assert!(raised(&mut task).is_empty(), "the release itself has not come");
    task.released(3, 8);
    task.announced(4);
    task.released(4, 10);
    task.landed(4);
    assert!(raised(&mut task).is_empty(), "data of the release before are on the way");
    task.landed(3);
    assert_eq!(raised(&mut task), [8, 10]);
    // A release without long data.
    task.released(5, 12);
    assert_eq!(raised(&mut task), [12]);
    task.announced(6);
    task.landed(6);
    assert!(raised(&mut task).is_empty());
    task.released(6, 14);
    assert_eq!(raised(&mut task), [14]);
}

/// The layouts of all members, each on a host of its own; task t runs in member `homes[t]`.
fn layouts(queues: &Queues, homes: &[u32], hosts: usize) -> Vec<Layout> {
    let team = Team {
        rank_of: homes.to_vec(),
        process_of: (0..hosts).collect(),
        host_of: (0..hosts).collect(),
    };
    let bytes = vec![(LONG, false); queues.len()];
    (0..hosts as u32).map(|me| Layout::new(queues, &bytes, &team, me)).collect()
}

/// The tasks and locations whose data stay in their slot.
fn staying(layouts: &[Layout]) -> Vec<(u32, u32)> {
    let mut staying = Vec::new();
    for layout in layouts {
        for (&task, outgoing) in &layout.outgoing {
            let parts = outgoing.messages.iter().flat_map(|message| &message.parts);
            for part in parts.filter(|part| part.stays) {
                let of = |l: &&u32| layout.offsets(task, **l) == Some(part.at);
                staying.push((task, *layout.stored.keys().find(of).unwrap()));
            }
        }
    }
    staying.sort_unstable();
    staying.dedup();
    staying
}

#[test]
fn data_stay_where_they_flow_back() {
    let ring = vec![vec![(0, Exclusive), (1, Exclusive), (2, Exclusive)]];
    assert_eq!(staying(&layouts(&ring, &[0, 1, 2], 3)), [(0, 0), (1, 0), (2, 0)]);
    // The data flow one way: the writer goes on to its next round.
    let one_way = vec![vec![(0, Exclusive), (1, Inclusive)]];
    assert_eq!(staying(&layouts(&one_way, &[0, 1], 2)), []);
    // The third task changes the slot of the first one. Its version may reach the second host as
    // soon as the last task has released the round before.
    let pair = vec![vec![(0, Exclusive), (1, Inclusive), (2, Exclusive), (3, Exclusive)]];
    assert_eq!(staying(&layouts(&pair, &[0, 1, 0, 1], 2)), [(2, 0)]);
    // The second reception of a round reaches the first host by way of the third, as soon as
    // the first task has released the round.
    let tight = vec![vec![(0, Exclusive), (1, Exclusive), (2, Inclusive), (3, Exclusive)]];
    assert_eq!(staying(&layouts(&tight, &[0, 1, 0, 2], 3)), [(1, 0), (3, 0)]);
}

/// The numbers of rounds that all tasks must have released before a task begins a round, found
/// from the waits one by one.
struct Implied {
    waits: Vec<Vec<(u32, i64)>>,
    known: HashMap<(u32, i64), Vec<i64>>,
}

impl Implied {
    fn before(&mut self, task: u32, round: i64) -> Vec<i64> {
        if let Some(known) = self.known.get(&(task, round)) {
            return known.clone();
        }
        let mut rounds = vec![0; self.waits.len()];
        let mut imply = |implied: &mut Implied, other: u32, released: i64| {
            if released > 0 {
                let before = implied.before(other, released - 1);
                rounds.iter_mut().zip(before).for_each(|(all, one)| *all = one.max(*all));
                let own = &mut rounds[other as usize];
                *own = released.max(*own);
            }
        };
        imply(self, task, round);
        for (other, lag) in self.waits[task as usize].clone() {
            imply(self, other, round + lag);
        }
        self.known.insert((task, round), rounds.clone());
        rounds
    }
}

#[test]
fn no_host_fills_or_uses_a_slot_that_data_are_leaving() {
    let (mut checked, mut copied) = (0, 0);
    let (first, plans) = (seed(0), cases(400) as usize);
    for seed in first..first + plans as u64 {
        let mut random = Random::new(seed);
        let (hosts, tasks) = (random.within(2..=4), random.within(2..=8));
        let homes: Vec<u32> = (0..tasks).map(|_| random.below(hosts) as u32).collect();
        let queues: Queues = (0..random.within(1..=3))
            .map(|_| {
                let of = |t: u32| match random.below(4) {
                    0 | 1 => Some((t, Exclusive)),
                    2 => Some((t, Inclusive)),
                    _ => None,
                };
                (0..tasks as u32).filter_map(of).collect()
            })
            .filter(|queue: &Vec<_>| !queue.is_empty())
            .collect();
        let layouts = layouts(&queues, &homes, hosts);
        let mut waits = vec![Vec::new(); tasks];
        for (task, wait) in layouts.iter().flat_map(|layout| &layout.waits) {
            waits[*task as usize].push((wait.task, i64::from(wait.lag / 2)));
        }
        let mut implied = Implied { waits, known: HashMap::new() };
        let staying = staying(&layouts);
        let all = layouts.iter().flat_map(|layout| layout.outgoing.values());
        copied += all.flat_map(|o| &o.messages).flat_map(|m| &m.parts).filter(|p| !p.stays).count();
        for (task, l) in staying {
            let (queue, host) = (&queues[l as usize], homes[task as usize]);
            let remote = &layouts[host as usize].remote[&l];
            let received = &remote.hosts[&(host as usize)].received;
            let q = received.len() as i64;
            // The accesses of the host, with their receptions, as one queue gives them.
            let mut count = 0;
            let mut accesses = Vec::new();
            for (round, &(t, kind)) in
                (0..6).flat_map(|round| queue.iter().map(move |access| (round, access)))
            {
                if homes[t as usize] == host {
                    accesses.push((count, round, t));
                } else if kind == Exclusive {
                    let writer = remote.writers.iter().position(|&w| w == t).unwrap();
                    count += i64::from(received.contains(&writer));
                }
            }
            for round in 0..2 {
                let at = accesses.iter().position(|a| (a.1, a.2) == (round, task)).unwrap();
                let reception = accesses[at].0;
                assert!(
                    accesses[at + 1..].iter().all(|access| access.0 != reception),
                    "seed {seed}: task {task} at {l}"
                );
                // The writer and the round of the reception after the next.
                let (i, r) = ((reception + 1) % q, (reception + 1) / q);
                let writer = remote.writers[received[i as usize]];
                let rounds = implied.before(writer, r);
                assert!(rounds[task as usize] >= round + 2, "seed {seed}: {task} at {l}");
                checked += 1;
            }
        }
    }
    assert!(4 * checked > plans && 4 * copied > plans, "{checked} {copied}: not a fair sample");
}

//! Random farms: with any interleaving of spawns, sends and receives, every message is delivered
//! once, complete, and in order for each pair.
//!
//! A script is generated as one sequence of steps that could happen one after the other; each
//! process executes its own part of it, at its own pace. So no script deadlocks, and in every run
//! each process receives the messages that the script contains.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use syncline_farm::{Farm, Vpid, bounds::Bounds, wire::Numbers};
use syncline_testkit::property;

use crate::worker::Role;
use crate::{late, program};

/// A step of a process. Other processes are named by their index in the script.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Step {
    Start(usize),
    Send {
        to: usize,
        seed: u64,
        len: usize,
    },
    Receive {
        from: usize,
        seed: u64,
        len: usize,
    },
    /// Receives a number of messages from any process, and checks the sum of their seeds.
    ReceiveAny {
        count: usize,
        seeds: u64,
    },
}

/// The part of a process, and the vpids of all.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Part {
    vpids: Vec<Vpid>,
    parts: Vec<Vec<Step>>,
    me: usize,
}

fn numbers(seed: u64, len: usize) -> Vec<u64> {
    (0..len as u64).map(|n| (seed + n).wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect()
}

/// Sends a message: a value for an even seed, numbers for an odd one.
fn send(farm: &mut Farm, to: Vpid, seed: u64, len: usize) {
    let numbers = numbers(seed, len);
    match seed % 2 {
        0 => farm.send_deadline(to, &(seed, numbers), late()).unwrap(),
        _ => farm.send_deadline(to, &Numbers::from(&numbers[..]), late()).unwrap(),
    }
}

pub(crate) fn play(farm: &mut Farm, part: Part) {
    let Part { ref vpids, ref parts, me } = part;
    for step in &parts[me] {
        match *step {
            Step::Start(child) => {
                let role = Role::Script(Part { me: child, ..part.clone() });
                farm.send_deadline(vpids[child], &role, late()).unwrap();
                farm.start(vpids[child], &program()).unwrap();
            }
            Step::Send { to, seed, len } => send(farm, vpids[to], seed, len),
            Step::Receive { from, seed, len } if seed % 2 == 0 => {
                let value: (u64, Vec<u64>) = farm.recv_deadline(vpids[from], late()).unwrap();
                assert_eq!(value, (seed, numbers(seed, len)));
            }
            Step::Receive { from, seed, len } => {
                let value: Numbers<'_, u64> = farm.recv_deadline(vpids[from], late()).unwrap();
                assert_eq!(*value, numbers(seed, len));
            }
            Step::ReceiveAny { count, seeds } => {
                let got =
                    (0..count).map(|_| farm.recv_any_deadline::<(u64, Vec<u64>)>(late()).unwrap());
                let got = got.map(|(_, (seed, found))| {
                    assert_eq!(found, numbers(seed, found.len()));
                    seed
                });
                assert_eq!(got.fold(0, u64::wrapping_add), seeds);
            }
        }
    }
}

/// A random draw: the acting process, the action, the other process, and the length of the message.
type Draw = (usize, u8, usize, usize);

/// Generates a script from draws: a possible sequence, split by process.
fn script(processes: usize, depth: usize, draws: &[Draw]) -> Vec<Vec<Step>> {
    let mut parts = vec![Vec::new(); processes];
    let mut born = vec![0];
    let mut under_way = vec![vec![std::collections::VecDeque::new(); processes]; processes];
    let mut seed = 0_u64;
    for &(actor, what, other, len) in draws {
        let (me, other) = (born[actor % born.len()], other % processes);
        match what {
            0 if born.len() < processes => {
                // Its role is a message, too, and the first that it receives.
                let child = (1..processes).find(|child| !born.contains(child)).unwrap();
                if under_way[me][child].is_empty() {
                    parts[me].push(Step::Start(child));
                    born.push(child);
                }
            }
            // A process that has not been started must get its role first.
            1..=4 if born.contains(&other) && under_way[me][other].len() < depth => {
                seed += 1;
                let len = if len % 10 == 0 { len * 20 } else { len % 30 };
                under_way[me][other].push_back((seed, len));
                parts[me].push(Step::Send { to: other, seed, len });
            }
            _ => {
                if let Some((seed, len)) = under_way[other][me].pop_front() {
                    parts[me].push(Step::Receive { from: other, seed, len });
                }
            }
        }
    }
    // All remaining messages are received; the last message of each worker reports to the manager
    // that the worker is done.
    for to in born.clone() {
        for from in born.clone() {
            for (seed, len) in std::mem::take(&mut under_way[from][to]) {
                parts[to].push(Step::Receive { from, seed, len });
            }
        }
    }
    let workers: Vec<usize> = born.into_iter().filter(|&process| process != 0).collect();
    let mut seeds = 0;
    for &worker in &workers {
        seed += 2 - seed % 2; // an even seed: a value
        seeds += seed;
        parts[worker].push(Step::Send { to: 0, seed, len: 3 });
    }
    parts[0].push(Step::ReceiveAny { count: workers.len(), seeds });
    parts
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 60, ..property(24) })]

    #[test]
    fn every_message_arrives_once_in_order_and_whole(
        processes in 2_usize..=16,
        depth in 1_usize..4,
        draws in prop::collection::vec((any::<usize>(), 0_u8..9, any::<usize>(), 0_usize..1000), 1..400),
    ) {
        let parts = script(processes, depth, &draws);
        let mut farm = Farm::with(Bounds::default().processes(24).depth(depth)).unwrap();
        let reserved = (1..processes).map(|_| farm.reserve().unwrap());
        let vpids: Vec<Vpid> = std::iter::once(Vpid::MANAGER).chain(reserved).collect();
        play(&mut farm, Part { vpids, parts, me: 0 });
    }
}

//! The processes that the tests start.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use syncline_farm::{Farm, FarmError, Program, Vpid, wire::Numbers};

use crate::{late, random};

/// The role of a worker, which is the first message that it receives.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Role {
    /// Sends back every `Vec<u64>`, until an empty one.
    Echo,
    /// Sends back numbers unchanged.
    Reflect { times: usize },
    /// Sends a number, and exits with this code.
    Exit(i32),
    /// Sends a number, and sleeps.
    Hang,
    /// Sends a number, and computes without end, making no calls.
    Spin,
    /// Spawns workers with the same role one level deeper, and sends 1 plus the sum of their
    /// numbers.
    Tree { width: usize, depth: usize },
    /// Spawns a program whose request or start is too long, and then one that does not exist, each
    /// `times` times, and sleeps.
    Missing { times: usize },
    /// For every number that it receives, reserves that number of places at once, and sends the
    /// number back. After the next message it uses the places for programs that end at once.
    Ask,
    /// Starts every vpid that it receives, and sends the error, or an empty text.
    Start,
    /// Reserves a vpid, sends it to the manager, and ends.
    Abandon,
    /// Allocates this number of bytes.
    Eat(usize),
    /// Plays its part of a random script.
    Script(random::Part),
}

/// Not a test: a process of a farm.
#[test]
fn process() {
    let Some(mut farm) = Farm::join().unwrap() else { return };
    let manager = Vpid::MANAGER;
    // From its parent: other processes may have sent something already.
    let from = farm.parent().unwrap();
    let role: Role = farm.recv_deadline(from, late()).unwrap();
    match role {
        Role::Echo => loop {
            let value: Vec<u64> = farm.recv_deadline(from, late()).unwrap();
            farm.send_deadline(from, &value, late()).unwrap();
            if value.is_empty() {
                break;
            }
        },
        Role::Reflect { times } => {
            for _ in 0..times {
                let numbers: Numbers<'_, f64> = farm.recv_deadline(from, late()).unwrap();
                farm.send_deadline(from, &numbers, late()).unwrap();
            }
        }
        Role::Exit(code) => {
            farm.send(manager, &7_u64).unwrap();
            std::process::exit(code);
        }
        Role::Hang => {
            farm.send(manager, &7_u64).unwrap();
            std::thread::sleep(Duration::from_secs(300));
        }
        Role::Spin => {
            farm.send(manager, &7_u64).unwrap();
            loop {
                std::hint::spin_loop();
            }
        }
        Role::Tree { width, depth } => {
            let role = || Role::Tree { width, depth: depth - 1 };
            let children = if depth == 0 { 0 } else { width };
            let children: Vec<Vpid> =
                (0..children).map(|_| crate::worker(&mut farm, role())).collect();
            let sums =
                children.iter().map(|&child| farm.recv_deadline::<u64>(child, late()).unwrap());
            let sum = 1 + sums.sum::<u64>();
            farm.send(from, &sum).unwrap();
        }
        Role::Missing { times } => {
            let (long, end) = ("x".repeat(2 << 20), late());
            for _ in 0..times {
                let error = loop {
                    match farm.spawn(&Program::new("true").arg(&long)).unwrap_err() {
                        // The places belong to ended processes. It may take longer than `spawn`
                        // waits until one is free.
                        FarmError::Full { .. } if Some(Instant::now()) < end => (),
                        error => break error,
                    }
                };
                assert!(
                    matches!(error, FarmError::Unsendable { .. } | FarmError::Start { .. }),
                    "{error}"
                );
            }
            for _ in 0..times {
                let vpid = farm.reserve_deadline(late()).unwrap();
                let error = farm.start(vpid, &Program::new("/nowhere/to/be/found")).unwrap_err();
                farm.send_deadline(manager, &error.to_string(), late()).unwrap();
            }
            std::thread::sleep(Duration::from_secs(300));
        }
        Role::Ask => loop {
            let places: u64 = farm.recv_deadline(from, late()).unwrap();
            let all: Vec<_> = (0..places).map(|_| farm.reserve_deadline(late()).unwrap()).collect();
            farm.send_deadline(from, &places, late()).unwrap();
            let _: u64 = farm.recv_deadline(from, late()).unwrap();
            for vpid in all {
                farm.start(vpid, &Program::new("true")).unwrap();
                farm.wait(vpid, late()).unwrap();
            }
        },
        Role::Start => loop {
            let vpid: Vpid = farm.recv_deadline(from, late()).unwrap();
            let started = farm.start(vpid, &Program::new("true"));
            let refused = started.as_ref().map_or_else(ToString::to_string, |()| String::new());
            farm.send_deadline(from, &refused, late()).unwrap();
            if started.is_ok() {
                farm.wait(vpid, late()).unwrap();
            }
        },
        Role::Abandon => {
            let vpid = farm.reserve().unwrap();
            farm.send(manager, &vpid).unwrap();
        }
        Role::Eat(bytes) => {
            let eaten = vec![1_u8; bytes];
            farm.send(manager, &(eaten.iter().map(|&byte| u64::from(byte)).sum::<u64>())).unwrap();
        }
        Role::Script(part) => random::play(&mut farm, part),
    }
}

//! Puts and gets around the lengths from which their data go as long messages, between hosts on
//! which the data arrive late, and in any order relative to other messages.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use syncline_fabric::transport::in_memory::{Conditions, Network};
use syncline_fabric::{Member, Team};
use syncline_rma::{Global, Rma, RmaError, Strided};
use syncline_testkit::{Random, cases, seed};

/// The length from which on data are long, and that of the longest long message.
const LONG: usize = 32 << 10;
const LONGEST: usize = 256 << 10;
const ROOM: usize = 3 * LONGEST;

fn conditions(seed: u64) -> Conditions {
    let latency = Duration::from_micros(20);
    Conditions { latency, jitter: Duration::from_micros(400), seed }
}

/// Returns a length around one of the limits, or any other.
fn length(random: &mut Random) -> usize {
    let near = |random: &mut Random, len: usize| len - 9 + random.below(19_usize);
    match random.below(6_u32) {
        0 => near(random, LONG),
        1 => near(random, LONGEST),
        2 => near(random, 2 * LONGEST),
        3 => 1 + random.below(ROOM),
        _ => 1 + random.below(2 * LONG),
    }
}

fn on_hosts<R: Send + std::fmt::Debug>(
    hosts: usize,
    seed: u64,
    f: impl Fn(&mut Member, &mut Rma, &Global<u8>) -> Result<R, RmaError> + Sync,
) {
    let ran = Team::hosts(hosts).quiet().conditions(conditions(seed)).run(|me| {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u8>(me, ROOM + 8)?;
        f(me, &mut rma, &memory)
    });
    for result in ran.unwrap() {
        result.unwrap();
    }
}

#[test]
fn a_sync_completes_long_puts() {
    on_hosts(3, 1, |me, rma, memory| {
        let (rank, size) = (me.rank(), me.size());
        let mut common = Random::new(7);
        for round in 1..=40_u8 {
            // Each member puts to the next one, and reads at the one behind that.
            let len = length(&mut common);
            let at = common.below(ROOM - len + 1);
            rma.put(memory, (rank + 1) % size, at, &vec![round; len])?;
            rma.sync()?;
            let mut found = vec![0; len];
            rma.get(memory, (rank + 2) % size, at, &mut found)?;
            assert!(found.iter().all(|&byte| byte == round), "round {round}, {len} bytes");
            rma.sync()?;
        }
        Ok(())
    });
}

#[test]
fn a_fence_completes_long_puts() {
    // The flag takes no time: it is memory of this process.
    let flag = AtomicU8::new(0);
    on_hosts(3, 2, |me, rma, memory| {
        let mut common = Random::new(8);
        for round in 1..=40_u8 {
            let (len, strided) = (length(&mut common).min(ROOM / 2), common.one_in(3));
            if me.rank() == 0 {
                let data = vec![round; len];
                if strided {
                    let there = Strided { counts: &[len / 3, 3], strides: &[len / 2] };
                    rma.put_strided(memory, 1, 0, there, &data, 0, &[len / 3])?;
                } else {
                    rma.put(memory, 1, 0, &data)?;
                }
                rma.fence(1)?;
                flag.store(round, Ordering::Release);
            } else if me.rank() == 2 {
                // Acquire: pairs with the Release above.
                while flag.load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
                // Short gets read at once; a long one would read when its data travel.
                let run = if strided { len / 3 } else { len };
                for at in (0..4).map(|part| part * (run - 1) / 3).rev() {
                    let mut found = [0];
                    rma.get(memory, 1, at, &mut found)?;
                    assert_eq!(found, [round], "byte {at} of {len}");
                }
            }
            rma.sync()?;
        }
        Ok(())
    });
}

#[test]
fn the_operations_of_a_member_on_another_one_keep_their_order() {
    on_hosts(3, 3, |me, rma, memory| {
        let mut common = Random::new(9);
        for round in 1..=40_u8 {
            let (len, other) = (length(&mut common), length(&mut common));
            match me.rank() {
                // Without a fence: the second put is seen after the first one, also if the first
                // is long and the second is not, or both are.
                0 => {
                    rma.put(memory, 1, 0, &vec![round; len])?;
                    rma.put(memory, 1, ROOM, &[round])?;
                    let old = rma.start_get(memory, 1, 0, vec![0; len])?;
                    rma.put(memory, 1, 0, &vec![round + 100; len.max(other)])?;
                    let second = rma.start_get(memory, 1, 0, vec![0; len])?;
                    let (old, second) = (rma.wait(old)?, rma.wait(second)?);
                    assert!(old.iter().all(|&byte| byte == round), "a later put is seen");
                    assert!(second.iter().all(|&byte| byte == round + 100), "a put is not seen");
                }
                2 => {
                    let mut flag = [0];
                    while flag != [round] {
                        rma.get(memory, 1, ROOM, &mut flag)?;
                    }
                    let mut found = vec![0; len];
                    rma.get(memory, 1, 0, &mut found)?;
                    let right = |&byte: &u8| byte == round || byte == round + 100;
                    assert!(found.iter().all(right), "the flag is seen before the data");
                }
                _ => (),
            }
            rma.sync()?;
        }
        Ok(())
    });
}

#[test]
fn lists_whose_runs_overlap_are_written_in_their_order() {
    on_hosts(2, 4, |me, rma, memory| {
        for round in 1..=10_u8 {
            if me.rank() == 0 {
                let data = [vec![round; LONGEST], vec![round + 100; LONGEST]].concat();
                let list = [(0, 0, LONGEST), (1000, LONGEST, LONGEST), (500, 7, LONG)];
                rma.put_list(memory, 1, &list, &data)?;
                let mut found = vec![0; 1000 + LONGEST];
                rma.get(memory, 1, 0, &mut found)?;
                let expected = |at: usize| match at {
                    at if at < 500 + LONG => round,
                    _ => round + 100,
                };
                assert!(found.iter().enumerate().all(|(at, &byte)| byte == expected(at)));
            }
            rma.sync()?;
        }
        Ok(())
    });
}

/// Levels that interleave have no element twice, so they are written and read, on a host and
/// between hosts.
#[test]
fn levels_that_interleave_are_written_and_read() {
    on_hosts(2, 6, |me, rma, memory| {
        // Bytes 0, 8, 16 and 12, 20, 28, four contiguous bytes each.
        let (counts, there, here) = (&[4, 3, 2], &[8, 12], &[4, 12]);
        let shape = Strided { counts, strides: there };
        let starts = [0, 8, 16, 12, 20, 28];
        let data: Vec<u8> = (1..=24).collect();
        let mut expected = vec![0; 32];
        for (run, start) in starts.into_iter().enumerate() {
            expected[start..start + 4].copy_from_slice(&data[4 * run..][..4]);
        }
        for target in 0..2 {
            if me.rank() == 0 {
                rma.put_strided(memory, target, 0, shape, &data, 0, here)?;
                rma.fence_all()?;
                let mut found = vec![0; 32];
                rma.get(memory, target, 0, &mut found)?;
                assert_eq!(found, expected);
                let mut back = vec![0; 32];
                let packed = Strided { counts, strides: here };
                rma.get_strided(memory, target, 0, shape, &mut back[..24], 0, here)?;
                assert_eq!(back[..24], data);
                // And into a buffer in which they interleave.
                rma.put(memory, target, 0, &data)?;
                back.fill(0);
                rma.get_strided(memory, target, 0, packed, &mut back, 0, there)?;
                assert_eq!(back, expected);
            }
            rma.sync()?;
        }
        Ok(())
    });
}

#[test]
fn a_get_that_is_dropped_does_not_write() {
    on_hosts(2, 5, |me, rma, memory| {
        if me.rank() == 0 {
            for turn in 0..20 {
                let get = rma.start_get(memory, 1, 0, vec![1; 1 + turn * LONG])?;
                drop(get);
            }
        }
        rma.sync()
    });
}

#[test]
fn a_death_in_the_middle_of_long_operations_is_an_error() {
    let first = seed(0);
    for seed in first..first + u64::from(cases(12)) {
        let ready = AtomicUsize::new(0);
        let network: Mutex<Option<Network>> = Mutex::new(None);
        let team = Team::hosts(3).quiet().conditions(conditions(seed));
        let keep = |links: &Network| *network.lock().unwrap() = Some(links.clone());
        let ran = team.run_on(keep, |me| {
            let mut rma = Rma::new(me).unwrap();
            let memory = rma.allocate::<u8>(me, ROOM).unwrap();
            // A member that is still in the allocation would be told of the death there.
            ready.fetch_add(1, Ordering::Relaxed);
            while ready.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            let (rank, mut random) = (me.rank(), Random::stream(seed, me.rank() as u64));
            let dies = 5 + Random::new(seed).below(20_u32);
            let mut ended = Ok(());
            for turn in 0.. {
                if rank == 2 && turn == dies {
                    network.lock().unwrap().as_ref().unwrap().report(2);
                }
                let (len, other) = (length(&mut random), (rank + 1 + turn as usize % 2) % 3);
                let mut data = vec![rank as u8; len];
                ended = match random.below(3_u32) {
                    0 => rma.get(&memory, other, 0, &mut data),
                    1 => rma.put(&memory, other, 0, &data).and_then(|()| rma.fence(other)),
                    _ => rma.put(&memory, other, 0, &data),
                };
                if ended.is_err() {
                    break;
                }
            }
            ended
        });
        for ended in ran.unwrap() {
            assert!(matches!(ended, Err(RmaError::Fault(_))), "seed {seed}: {ended:?}");
        }
    }
}

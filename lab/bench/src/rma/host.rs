//! One host: the cost of each operation on memory that processes share, by itself.
//!
//! Member 0 operates on the memory of member 1, which sleeps meanwhile unless the entry says
//! otherwise. Each entry is a loop of operations, whose mean is a sample; H is measured in between,
//! by two threads of one process.

use std::hint::black_box;
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_rma::unstable::mutexes;
use syncline_rma::{Global, Mutexes, Rma, Strided};

use super::kit::KINDS;
use super::race::{self, Entry, Of, Pace, all, race};
use super::report::{Report, Team};
use super::targets;
use crate::error::Result;
use crate::kernel::kernel;
use crate::places::Places;
use crate::race::{Hops, Machine, median};

/// The number of operations in a batch, for operations that take nanoseconds.
const MANY: usize = 1000;
/// The number of operations in a batch, for operations that take microseconds.
const FEW: usize = 16;
/// The size of large copies, in bytes.
const LARGE: usize = 1 << 20;
/// The number of other allocations that exist at the same time.
const BESIDE: usize = 1000;

struct Kit<'m> {
    me: &'m mut Member,
    rma: Rma,
    words: Global<u64>,
    doubles: Global<f64>,
    large: Global<u8>,
    mutexes: Vec<Mutexes>,
    beside: Vec<Global<u64>>,
    data: Vec<u8>,
    numbers: Vec<f64>,
    buffer: Vec<u8>,
    rounds: u64,
}

impl race::Kit for Kit<'_> {
    fn me(&mut self) -> &mut Member {
        self.me
    }
}

/// The number of words in a pair of lines.
const APART: usize = 16;
/// The value that ends a reading loop.
const END: u64 = u64::MAX;

/// Measures all entries, in a team on one host.
pub(super) fn report(me: &mut Member, pace: Pace<'_>) -> Result<Report> {
    // Before this thread is pinned to one of them.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let places = Places::or_none();
    if places.len() >= me.size() {
        places.pin(me.rank());
    }
    let mut rma = Rma::new(me)?;
    let (words, doubles) = (rma.allocate(me, 4 * APART)?, rma.allocate(me, 1024)?);
    let large = rma.allocate(me, LARGE)?;
    let made = KINDS.map(|(kind, _)| mutexes(&mut rma, me, kind, 1));
    let mutexes = made.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (data, buffer, numbers) = (vec![1; LARGE], vec![0; LARGE], vec![1.0; 1024]);
    let (beside, rounds) = (Vec::new(), 0);
    let mut kit =
        Kit { me, rma, words, doubles, large, mutexes, beside, data, numbers, buffer, rounds };
    let mut hops = Hops::new(places);
    let mut look = |kit: &mut Kit<'_>| -> Result<()> {
        kit.me.gather(0)?;
        if kit.me.rank() == 0 {
            hops.look()?;
        }
        kit.me.gather(0)?;
        Ok(())
    };
    look(&mut kit)?;
    let half = Pace { most: pace.most / 2, ..pace };
    let mut cells = race(&mut kit, "operations", operations(), half)?;
    look(&mut kit)?;
    cells.extend(race(&mut kit, "data", copies(), half)?);
    for _ in 0..BESIDE {
        let more = kit.rma.allocate(kit.me, 8)?;
        kit.beside.push(more);
    }
    cells.extend(race(&mut kit, "with 1000 allocations more", with_more(), half)?);
    look(&mut kit)?;
    let hop = hops.median();
    let (hosts, processes, threads) = (1, kit.me.processes(), kit.me.threads());
    let targets = targets::host(&cells, hop);
    let machine = Machine::here(processors);
    let transport = "memory".to_owned();
    let team =
        Team { machine, hosts, processes, threads, transport, hop_ns: hop, unit: ("ns", 1.0) };
    Ok(Report { team, cells, skipped: Vec::new(), targets })
}

/// Returns an entry that the first member runs by itself.
fn alone<'m>(
    setting: &str,
    way: &str,
    operations: usize,
    mut operation: impl FnMut(&mut Kit<'_>, u64) -> Result<()> + 'static,
) -> Entry<'static, Kit<'m>> {
    Entry::time(way, setting, 0, move |kit: &mut Kit<'m>| match kit.me.rank() {
        0 => all(operations, |n| operation(kit, n as u64)),
        _ => Ok(f64::NAN),
    })
}

fn operations<'m>() -> Vec<Entry<'static, Kit<'m>>> {
    let mut entries = vec![
        alone("8 B", "put", MANY, |kit, n| Ok(kit.rma.put(&kit.words, 1, 0, &[n])?)),
        alone("8 B", "get", MANY, |kit, _| {
            let mut word = [0];
            kit.rma.get(&kit.words, 1, 0, &mut word)?;
            black_box(word);
            Ok(())
        }),
        alone("8 B", "put; fence", MANY, |kit, n| {
            kit.rma.put(&kit.words, 1, 0, &[n])?;
            Ok(kit.rma.fence(1)?)
        }),
        Entry::time("put; fence; the other reads that line", "8 B", 0, read),
        Entry::time("put both ways; sync; get one's own", "8 B", 0, both_ways),
        alone("8 B", "fetch_add", MANY, |kit, _| {
            kit.rma.fetch_add(&kit.words, 1, APART, 1)?;
            Ok(())
        }),
        alone("8 B", "accumulate, a double", MANY, |kit, _| {
            Ok(kit.rma.accumulate(&kit.doubles, 1, 0, 1.0, &[1.0])?)
        }),
        alone("nothing under way", "fence_all", MANY, |kit, _| Ok(kit.rma.fence_all()?)),
    ];
    for (n, (_, name)) in KINDS.into_iter().enumerate() {
        entries.push(alone(
            "free, of another",
            &format!("lock; unlock: {name}"),
            MANY,
            move |kit, _| {
                let mutexes = &mut kit.mutexes[n];
                mutexes.lock(&mut kit.rma, 1, 0)?;
                Ok(mutexes.unlock(&mut kit.rma, 1, 0)?)
            },
        ));
    }
    let (way, metrics) = ("get, from one that computes for 20 ms", &["", "the longest of them"]);
    entries.push(Entry::of(way, "8 B", 0, metrics, &[Of::Slowest, Of::Slowest], computing));
    entries
}

/// Measures puts and fences of the first member, while the second reads that word in its own memory
/// in a loop.
fn read(kit: &mut Kit<'_>) -> Result<f64> {
    let Kit { me, rma, words, .. } = kit;
    match me.rank() {
        0 => {
            let took = all(MANY, |n| {
                rma.put(words, 1, 0, &[n as u64])?;
                rma.fence(1)
            })?;
            rma.put(words, 1, 0, &[END])?;
            rma.fence(1)?;
            Ok(took)
        }
        1 => {
            let mut word = [0];
            while word[0] != END {
                rma.get(words, 1, 0, &mut word)?;
            }
            rma.put(words, 1, 0, &[0])?;
            Ok(f64::NAN)
        }
        _ => Ok(f64::NAN),
    }
}

/// Measures two members that write to one another, meet, and read the received values; other
/// members meet with them.
fn both_ways(kit: &mut Kit<'_>) -> Result<f64> {
    let Kit { me, rma, words, rounds, .. } = kit;
    let rank = me.rank();
    let took = all(MANY, |_| -> Result<()> {
        *rounds += 1;
        let at = APART * (2 + (*rounds % 2) as usize);
        if rank < 2 {
            rma.put(words, 1 - rank, at, &[*rounds])?;
        }
        rma.sync()?;
        let mut word = [*rounds];
        if rank < 2 {
            rma.get(words, rank, at, &mut word)?;
        }
        if word == [*rounds] {
            Ok(())
        } else {
            Err("what was put before a sync is not there after it".into())
        }
    })?;
    Ok(if rank < 2 { took } else { f64::NAN })
}

/// The second member computes for 20 ms without a call, and the first reads its memory meanwhile;
/// returns a get's median and maximum.
fn computing(kit: &mut Kit<'_>) -> Result<Vec<f64>> {
    let Kit { me, rma, words, .. } = kit;
    let start = Instant::now();
    let during = |time: u64| start.elapsed() < Duration::from_millis(time);
    match me.rank() {
        0 => {
            let (mut times, mut word) = (Vec::new(), [0]);
            while during(18) {
                let from = Instant::now();
                rma.get(words, 1, 0, &mut word)?;
                times.push(from.elapsed().as_nanos() as f64);
            }
            let longest = times.iter().copied().fold(0.0, f64::max);
            Ok(vec![median(times).unwrap_or(f64::NAN), longest])
        }
        1 => {
            let mut number = 1;
            while during(20) {
                number = black_box(kernel(number, 10_000));
            }
            Ok(vec![f64::NAN; 2])
        }
        _ => Ok(vec![f64::NAN; 2]),
    }
}

/// The number of rows of a strided copy, and their length in bytes.
const ROWS: (usize, usize) = (64, 256);

fn copies<'m>() -> Vec<Entry<'static, Kit<'m>>> {
    let (rows, row) = ROWS;
    vec![
        alone("1 MiB", "memcpy", FEW, |kit, _| {
            black_box(&mut kit.buffer).copy_from_slice(black_box(&kit.data));
            Ok(())
        }),
        alone("1 MiB", "put", FEW, |kit, _| Ok(kit.rma.put(&kit.large, 1, 0, &kit.data)?)),
        alone("1 MiB", "get", FEW, |kit, _| Ok(kit.rma.get(&kit.large, 1, 0, &mut kit.buffer)?)),
        alone("64 rows of 256 B", "memcpy, row by row", MANY, move |kit, _| {
            let to = black_box(&mut kit.buffer).chunks_exact_mut(2 * row);
            to.zip(black_box(&kit.data).chunks_exact(row))
                .take(rows)
                .for_each(|(to, from)| to[..row].copy_from_slice(from));
            Ok(())
        }),
        alone("64 rows of 256 B", "put_strided", MANY, move |kit, _| {
            let there = Strided { counts: &[row, rows], strides: &[2 * row] };
            Ok(kit.rma.put_strided(&kit.large, 1, 0, there, &kit.data, 0, &[row])?)
        }),
        alone("1000 doubles", "accumulate", FEW, |kit, _| {
            Ok(kit.rma.accumulate(&kit.doubles, 1, 0, 1.0, &kit.numbers[..1000])?)
        }),
    ]
}

/// Returns puts and gets with many allocations: of the first and of the last.
fn with_more<'m>() -> Vec<Entry<'static, Kit<'m>>> {
    vec![
        alone("8 B", "put", MANY, |kit, n| Ok(kit.rma.put(&kit.words, 1, 0, &[n])?)),
        alone("8 B", "put, to the last", MANY, |kit, n| {
            let last = kit.beside.last().ok_or("no allocation")?;
            Ok(kit.rma.put(last, 1, 0, &[n])?)
        }),
        alone("8 B", "get", MANY, |kit, _| {
            let mut word = [0];
            kit.rma.get(&kit.words, 1, 0, &mut word)?;
            black_box(word);
            Ok(())
        }),
        alone("8 B", "put, to one after the other", MANY, |kit, n| {
            let one = &kit.beside[n as usize % BESIDE];
            Ok(kit.rma.put(one, 1, 0, &[n])?)
        }),
    ]
}

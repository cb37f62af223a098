//! Messages of many integers, and of many bytes.

use std::hint::black_box;
use std::time::Instant;

use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use syncline_farm::{Farm, FarmError, Vpid, wire::Numbers};

use super::rivals;
use super::worker::{Role, program, sum};
use super::{Heat, Kit};
use crate::error::Result;
use crate::race::Samples;
use crate::race::Side;

/// The number of integers in a message.
const COUNT: usize = 100_000;
/// The number of messages in a round.
const TIMES: usize = 10;
/// The size of the large message, in bytes.
const LARGE: usize = 64 << 20;

/// The names of our entries.
pub(super) const NUMBERS: &str = "Numbers<u64>";
pub(super) const SMALL: &str = "Vec<u64>, small ones";
pub(super) const RANDOM: &str = "Vec<u64>, random ones";
pub(super) const METRICS: [&str; 2] = ["written", "read"];
/// The entries that they are compared with.
pub(super) const PICKLE: [(&str, &str); 2] = [
    ("pickle, small ones: dumps and loads", SMALL),
    ("pickle, random ones: dumps and loads", RANDOM),
];
pub(super) const TRANSFERS: [(&str, &str); 3] = [
    ("Numbers<u64>: to another process", "Pipe, list of random ones: to another process"),
    ("Vec<u64>, small ones: to another process", "Pipe, list of small ones: to another process"),
    ("Vec<u64>, random ones: to another process", "Pipe, list of random ones: to another process"),
];
pub(super) const MEMCPY: &str = "memcpy";
pub(super) const SENT: &str = "Numbers<u64>, looked at";
pub(super) const PUBLISHED: &str = "published farm: to another process";
const SUMMED: &str = "Numbers<u64>, summed";

/// Returns numbers from 0 to 255, like Python's small integers.
fn small() -> Vec<u64> {
    (0..COUNT as u64).map(|n| n & 255).collect()
}

fn random(count: usize) -> Vec<u64> {
    let mut source = Pcg64Mcg::seed_from_u64(7);
    (0..count).map(|_| source.next_u64()).collect()
}

/// Makes the heat of integers.
pub(super) fn integers(kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("integers", ("ns per integer", 1.0));
    let numbers = random(COUNT);
    heat.add_all(
        Side::Ours,
        NUMBERS,
        &METRICS,
        to_itself(move |farm, seconds| {
            let start = Instant::now();
            farm.send(Vpid::MANAGER, &Numbers::from(&numbers[..]))?;
            seconds[0].push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            black_box(sum(&farm.recv::<Numbers<u64>>(Vpid::MANAGER)?));
            seconds[1].push(start.elapsed().as_secs_f64());
            Ok(())
        }),
    );
    for (way, values) in [(SMALL, small()), (RANDOM, random(COUNT))] {
        heat.add_all(Side::Ours, way, &METRICS, values_to_itself(values));
    }
    let numbers = random(COUNT);
    let total = sum(&numbers);
    let sent = move |farm: &mut Farm, worker| farm.send(worker, &Numbers::from(&numbers[..]));
    heat.add(Side::Ours, TRANSFERS[0].0, to_another(Role::Sum, COUNT, TIMES, total, sent));
    for (n, values) in [(1, small()), (2, random(COUNT))] {
        let sent = move |farm: &mut Farm, worker| farm.send(worker, &values);
        heat.add(
            Side::Ours,
            TRANSFERS[n].0,
            to_another(Role::Values, COUNT, TIMES, COUNT as u64, sent),
        );
    }
    let python = rivals::python(kit.folder, 0);
    let lines = [
        (PICKLE[0].0, "pickle small", 5),
        (PICKLE[1].0, "pickle random", 3),
        (TRANSFERS[1].1, "transfer small", 5),
        (TRANSFERS[2].1, "transfer random", 3),
    ];
    for (way, line, times) in lines {
        let line = format!("{line} {COUNT} {times}");
        heat.ask(&python, way, &line, COUNT);
    }
    heat.add(Side::Baseline, PUBLISHED, published());
    heat.notes = vec![
        format!("{COUNT} in a message; small: 0 to 255; random: of 64 bits; written and read by one process"),
        "the published farm as published in 2007, an integer: 9 to 18 us written, 130 to 152 us read"
            .to_owned(),
    ];
    Ok(heat)
}

/// Measures integers by a published farm.
fn published() -> Result<impl FnMut() -> Result<Samples>> {
    rivals::paper_trips(None, TIMES, COUNT).map(|mut run| {
        move || Ok(run()?.into_iter().map(|seconds| seconds / COUNT as f64).collect())
    })
}

/// Makes the heat of small integers by our farm, and by a published one.
pub(super) fn plain() -> Result<Heat> {
    let mut heat = Heat::new("integers", ("ns per integer", 1.0));
    heat.add_all(Side::Ours, SMALL, &METRICS, values_to_itself(small()));
    let values = small();
    let sent = move |farm: &mut Farm, worker| farm.send(worker, &values);
    let run = to_another(Role::Values, COUNT, TIMES, COUNT as u64, sent);
    heat.add(Side::Ours, TRANSFERS[1].0, run);
    heat.add(Side::Baseline, PUBLISHED, published());
    Ok(heat)
}

/// Measures messages of a process to itself: integers, one by one.
fn values_to_itself(values: Vec<u64>) -> Result<impl FnMut() -> Result<Vec<Samples>>> {
    to_itself(move |farm, seconds| {
        let start = Instant::now();
        farm.send(Vpid::MANAGER, &values)?;
        seconds[0].push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        black_box(farm.recv::<Vec<u64>>(Vpid::MANAGER)?);
        seconds[1].push(start.elapsed().as_secs_f64());
        Ok(())
    })
}

/// Measures messages of a process to itself: seconds per integer to write and to read them.
fn to_itself(
    mut once: impl FnMut(&mut Farm, &mut [Samples]) -> std::result::Result<(), FarmError> + 'static,
) -> Result<impl FnMut() -> Result<Vec<Samples>>> {
    let mut farm = Farm::new()?;
    Ok(move || {
        let mut seconds = vec![Samples::new(); 2];
        for _ in 0..TIMES {
            once(&mut farm, &mut seconds)?;
        }
        seconds.iter_mut().flatten().for_each(|seconds| *seconds /= COUNT as f64);
        Ok(seconds)
    })
}

/// Measures messages to a worker until it has acknowledged them: seconds for each message.
fn to_another(
    role: Role,
    count: usize,
    times: usize,
    answer: u64,
    mut send: impl FnMut(&mut Farm, Vpid) -> std::result::Result<(), FarmError> + 'static,
) -> Result<impl FnMut() -> Result<Samples>> {
    let mut farm = Farm::new()?;
    let worker = farm.spawn(&program(role)?)?;
    let mut once = move || {
        let start = Instant::now();
        send(&mut farm, worker)?;
        let answered: u64 = farm.recv(worker)?;
        Ok::<_, FarmError>((answered, start.elapsed().as_secs_f64() / count as f64))
    };
    let mut once = move || match once()? {
        (answered, seconds) if answered == answer => Ok(seconds),
        (answered, _) => Err(format!("it has answered {answered} in place of {answer}").into()),
    };
    Ok(move || (0..times).map(|_| once()).collect())
}

/// Makes the heat of bytes.
pub(super) fn bytes(_: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("bytes", ("ms", 1e6));
    let words = random(LARGE / 8);
    let (first, total) = (words[0].to_ne_bytes()[0], sum(&words));
    let words = std::rc::Rc::new(words);
    let (from, mut to) = (words.clone(), vec![1; LARGE / 8]);
    heat.add(
        Side::Baseline,
        MEMCPY,
        Ok(move || {
            let start = Instant::now();
            black_box(&mut to).copy_from_slice(black_box(&from));
            Ok(vec![start.elapsed().as_secs_f64()])
        }),
    );
    for (way, role, answer) in [(SENT, Role::Look, u64::from(first)), (SUMMED, Role::Sum, total)] {
        let words = words.clone();
        let sent = move |farm: &mut Farm, worker| farm.send(worker, &Numbers::from(&words[..]));
        heat.add(Side::Ours, way, to_another(role, 1, 1, answer, sent));
    }
    heat.notes = vec![format!("{} MiB to another process, until it has answered", LARGE >> 20)];
    Ok(heat)
}

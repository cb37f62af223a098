//! 8 bytes to another process and back.

use std::time::Instant;

use syncline_farm::{Farm, FarmError, Vpid};

use super::super::contest::Side;
use super::super::places::Places;
use super::Kit;
use super::race::{Group, Outcome, Samples, words};
use super::rivals::{self, WARM_UP};
use super::worker::{Role, policy, program};
use crate::error::Result;

/// How both processes wait.
#[derive(Clone, Copy, Debug)]
struct Waits {
    pauses: Option<u32>,
    yields: Option<u64>,
}

/// Looks for a millisecond or two, and sleeps only then.
const SPINNING: Waits = Waits { pauses: Some(1 << 16), yields: Some(0) };
const SLEEPING: Waits = Waits { pauses: Some(0), yields: Some(0) };
const DEFAULT: Waits = Waits { pauses: None, yields: None };

/// Where both processes are; nothing: wherever the system puts them.
type At = Option<[usize; 2]>;

/// The names of ours and of those that they are compared with.
pub(super) const SPUN: &str = "spinning, a processor each";
/// Where they sleep: ours, and the futex.
pub(super) const ASLEEP: [(&str, &str, &str); 3] = [
    ("on one processor", "asleep, on one processor", "futex, on one processor"),
    ("a processor each", "asleep, a processor each", "futex, a processor each"),
    ("anywhere", "asleep, anywhere", "futex, anywhere"),
];
pub(super) const USUAL: &str = "default policy, anywhere";
pub(super) const PIPE: &str = "Pipe, send_bytes";
pub(super) const PAPER: &str = "published farm, yielding";

/// Trips of a sample: of those that spin, and of those that sleep.
const MANY: usize = 2000;
const FEW: usize = 200;

/// The group.
pub(super) fn group(kit: &Kit<'_>) -> Result<Group> {
    let mut group = Group::new("trip", ("us", 1e3));
    let places = &kit.places;
    let two = match places.0[..] {
        [one, other, ..] => Ok([one, other]),
        _ => Err("there is one processor".to_owned()),
    };
    let spinning = two.clone().and_then(|at| trips(SPINNING, Some(at), places, MANY));
    group.add(Side::Ours, SPUN, spinning);
    group.add(Side::Ours, USUAL, trips(DEFAULT, None, places, FEW));
    let one = places.0.first().map(|&one| [one, one]).ok_or_else(|| "nothing can be pinned".to_owned());
    let at: [Outcome<At>; 3] = [one.map(Some), two.map(Some), Ok(None)];
    for ((_, ours, futex), at) in ASLEEP.into_iter().zip(at) {
        group.add(Side::Ours, ours, at.clone().and_then(|at| trips(SLEEPING, at, places, FEW)));
        let raw = at.and_then(|at| {
            let mut run = rivals::futex(at.map(|[_, other]| other))?;
            Ok(pinned(move || run(WARM_UP).and_then(|_| Ok(vec![run(FEW)?])), at, places))
        });
        group.add(Side::Baseline, futex, raw);
    }
    let python = rivals::python(kit.folder, 0)?;
    for (way, line) in [(PIPE, "trip bytes 200"), ("Pipe, send of an integer", "trip pickle 200")] {
        let run = python.as_ref().map_err(Clone::clone).map(|python| {
            let mut run = python.asks(line, 1);
            // As of the others: means of many.
            move || run().map(|all| vec![all.iter().sum::<f64>() / all.len() as f64])
        });
        group.add(Side::Peer, way, run);
    }
    group.add(Side::Baseline, PAPER, rivals::paper_trips(None, FEW));
    group.add(Side::Baseline, "published farm, asleep for 100 us", rivals::paper_trips(Some(100), 20));
    group.notes.push("a sample is the mean of 20 to 2000 trips".to_owned());
    Ok(group)
}

/// Trips of ours.
fn trips(
    waits: Waits,
    at: At,
    places: &Places,
    count: usize,
) -> Outcome<impl FnMut() -> Outcome<Samples> + use<>> {
    let mut other = program(Role::Echo)?;
    let Waits { pauses, yields } = waits;
    let options = [("--pauses", pauses.map(u64::from)), ("--yields", yields)];
    let processor = ("--processor", at.map(|[_, other]| other as u64));
    for (name, value) in options.into_iter().chain([processor]) {
        if let Some(value) = value {
            other = other.arg(name).arg(value.to_string());
        }
    }
    let mut farm = Farm::new().map_err(words)?;
    farm.set_policy(policy(pauses, yields));
    let worker = farm.spawn(&other).map_err(words)?;
    let run = move || {
        for n in 0..WARM_UP {
            trip(&mut farm, worker, n as u64)?;
        }
        let start = Instant::now();
        for n in 0..count {
            trip(&mut farm, worker, n as u64)?;
        }
        Ok(vec![start.elapsed().as_secs_f64() / count as f64])
    };
    Ok(pinned(run, at, places))
}

fn trip(farm: &mut Farm, worker: Vpid, word: u64) -> Outcome<()> {
    let mut once = || {
        farm.send(worker, &word)?;
        Ok::<bool, FarmError>(farm.recv::<u64>(worker)? == word)
    };
    if once().map_err(words)? { Ok(()) } else { Err("not what was sent".to_owned()) }
}

/// The same, with this thread where it is to be, as long as it runs.
fn pinned<F: FnMut() -> Outcome<Samples>>(
    mut run: F,
    at: At,
    places: &Places,
) -> impl FnMut() -> Outcome<Samples> + use<F> {
    let places = places.clone();
    move || {
        let Some([here, _]) = at else { return run() };
        Places(vec![here]).pin(0);
        let ran = run();
        places.release();
        ran
    }
}

//! Trips of 8 bytes to another process and back.

use std::time::Instant;

use syncline_farm::{Farm, Vpid};

use super::rivals::{self, WARM_UP};
use super::worker::{Role, policy, program};
use super::{Heat, Kit};
use crate::error::Result;
use crate::places::Places;
use crate::race::Samples;
use crate::race::Side;

/// How both processes wait.
#[derive(Clone, Copy, Debug)]
struct Waits {
    pauses: Option<u32>,
    yields: Option<u64>,
}

/// Spins for a millisecond or two before it sleeps.
const SPINNING: Waits = Waits { pauses: Some(1 << 16), yields: Some(0) };
const SLEEPING: Waits = Waits { pauses: Some(0), yields: Some(0) };
const DEFAULT: Waits = Waits { pauses: None, yields: None };

/// The processors of both processes; `None`: the system places them.
type At = Option<[usize; 2]>;

/// The names of our entries and of those that they are compared with.
pub(super) const SPUN: &str = "spinning, a processor each";
/// The entries that sleep: ours, and the futex.
pub(super) const ASLEEP: [(&str, &str, &str); 3] = [
    ("on one processor", "asleep, on one processor", "futex, on one processor"),
    ("a processor each", "asleep, a processor each", "futex, a processor each"),
    ("anywhere", "asleep, anywhere", "futex, anywhere"),
];
pub(super) const USUAL: &str = "default policy, anywhere";
pub(super) const PIPE: &str = "Pipe, send_bytes";
pub(super) const PAPER: &str = "published farm, yielding";

/// The number of trips in a sample: for entries that spin, and for those that sleep.
const MANY: usize = 2000;
const FEW: usize = 200;

/// Makes the heat.
pub(super) fn heat(kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("trip", ("us", 1e3));
    let places = &kit.places;
    let two = match places.0[..] {
        [one, other, ..] => Ok([one, other]),
        _ => Err("there is one processor"),
    };
    let spinning = two.map_err(Into::into).and_then(|at| trips(SPINNING, Some(at), places, MANY));
    heat.add(Side::Ours, SPUN, spinning);
    heat.add(Side::Ours, USUAL, trips(DEFAULT, None, places, FEW));
    let one = places.0.first().map(|&one| [one, one]).ok_or("nothing can be pinned");
    let at: [Result<At, &str>; 3] = [one.map(Some), two.map(Some), Ok(None)];
    for ((_, ours, futex), at) in ASLEEP.into_iter().zip(at) {
        heat.add(
            Side::Ours,
            ours,
            at.map_err(Into::into).and_then(|at| trips(SLEEPING, at, places, FEW)),
        );
        let raw = at.map_err(Into::into).and_then(|at| {
            let mut run = rivals::futex(at.map(|[_, other]| other))?;
            Ok(pinned(move || run(WARM_UP).and_then(|_| Ok(vec![run(FEW)?])), at, places))
        });
        heat.add(Side::Baseline, futex, raw);
    }
    let python = rivals::python(kit.folder, 0);
    for (way, line) in [(PIPE, "trip bytes 200"), ("Pipe, send of an integer", "trip pickle 200")] {
        let run = python.as_ref().map(|python| {
            let mut run = python.asks(line, 1);
            // Like the samples of the others: a mean of many.
            move || run().map(|all| vec![all.iter().sum::<f64>() / all.len() as f64])
        });
        heat.add(Side::Peer, way, run.map_err(|why| why.to_string().into()));
    }
    heat.add(Side::Baseline, PAPER, rivals::paper_trips(None, FEW, 2));
    heat.add(
        Side::Baseline,
        "published farm, asleep for 100 us",
        rivals::paper_trips(Some(100), 20, 2),
    );
    heat.notes.push("a sample is the mean of 20 to 2000 trips".to_owned());
    Ok(heat)
}

/// Makes the heat of our trips by default, and of a published farm's.
pub(super) fn plain() -> Result<Heat> {
    let mut heat = Heat::new("trip", ("us", 1e3));
    heat.add(Side::Ours, USUAL, trips(DEFAULT, None, &Places::none(), FEW));
    heat.add(Side::Baseline, PAPER, rivals::paper_trips(None, FEW, 2));
    Ok(heat)
}

/// Measures our trips.
fn trips(
    waits: Waits,
    at: At,
    places: &Places,
    count: usize,
) -> Result<impl FnMut() -> Result<Samples> + use<>> {
    let mut other = program(Role::Echo)?;
    let Waits { pauses, yields } = waits;
    let options = [("--pauses", pauses.map(u64::from)), ("--yields", yields)];
    let processor = ("--processor", at.map(|[_, other]| other as u64));
    for (name, value) in options.into_iter().chain([processor]) {
        if let Some(value) = value {
            other = other.arg(name).arg(value.to_string());
        }
    }
    let mut farm = Farm::new()?;
    farm.set_policy(policy(pauses, yields));
    let worker = farm.spawn(&other)?;
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

fn trip(farm: &mut Farm, worker: Vpid, word: u64) -> Result<()> {
    farm.send(worker, &word)?;
    if farm.recv::<u64>(worker)? == word { Ok(()) } else { Err("not what was sent".into()) }
}

/// Pins this thread while `run` runs.
fn pinned<F: FnMut() -> Result<Samples>>(
    mut run: F,
    at: At,
    places: &Places,
) -> impl FnMut() -> Result<Samples> + use<F> {
    let places = places.clone();
    move || {
        let Some([here, _]) = at else { return run() };
        Places(vec![here]).pin(0);
        let ran = run();
        places.release();
        ran
    }
}

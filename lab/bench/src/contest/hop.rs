//! The limit: how long a cache line takes from one processor to another.
//!
//! Two threads, each on a processor of its own, pass a number to and fro in one word: each adds 1
//! when it is its turn. A hop is half a round trip. A member that waits for another cannot know
//! sooner than after one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::places::Places;
use super::super::spread::Spread;
use super::Bout;
use super::team::{Line, Phase, team};

/// Runs of which the least, and the middle one, are told.
const RUNS: usize = 20;
/// Round trips of a run.
const TRIPS: u64 = 500;

/// Nanoseconds of a hop between the first two places; `None` if there are no two.
///
/// # Errors
/// When a thread cannot be started.
pub(crate) fn hop(places: &Places) -> Result<Option<Spread>, String> {
    if places.len() < 2 {
        return Ok(None);
    }
    let bout = Bout { places, members: 2, work_ns: 0.0, time: Duration::ZERO };
    let word = &Line(AtomicU64::new(0));
    let player = |me: u64| {
        move || {
            let mut times = Vec::new();
            for run in 0..RUNS as u64 {
                let start = Instant::now();
                for trip in run * TRIPS..(run + 1) * TRIPS {
                    let turn = 2 * trip + me;
                    // Relaxed: nothing but the number is handed over. No pauses, which are as long
                    // as a hop.
                    while word.0.load(Ordering::Relaxed) != turn {}
                    word.0.store(turn + 1, Ordering::Relaxed);
                }
                times.push(start.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64);
            }
            times
        }
    };
    let done = team(&bout, &Phase::default(), [player(0), player(1)], || ())?;
    Ok(done.members.into_iter().next().and_then(Spread::of))
}

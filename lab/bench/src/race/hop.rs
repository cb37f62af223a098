//! The limit: the time that a cache line takes from one processor to another.
//!
//! Two threads, each on its own processor, pass a number to and fro in one word; each adds 1 in its
//! turn. A hop is half a round trip. A member that waits for another cannot be notified in less
//! than a hop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::team::{Line, Phase, team};
use super::{Spread, Stage};
use crate::error::{Result, failed};
use crate::places::Places;

/// The number of runs, of which the least and the median are reported.
const RUNS: usize = 20;
/// The number of round trips of a run.
const TRIPS: u64 = 500;

/// Returns the nanoseconds of a hop between the first two places; `None` if there are fewer than
/// two.
///
/// # Errors
/// If a thread cannot be started.
fn hop(places: &Places) -> Result<Option<Spread>> {
    if places.len() < 2 {
        return Ok(None);
    }
    let word = &Line(AtomicU64::new(0));
    let player = |me: u64| {
        move || {
            let mut times = Vec::new();
            for run in 0..RUNS as u64 {
                let start = Instant::now();
                for trip in run * TRIPS..(run + 1) * TRIPS {
                    let turn = 2 * trip + me;
                    // Relaxed: only the number is communicated. No pauses, which take as long as a
                    // hop.
                    while word.0.load(Ordering::Relaxed) != turn {}
                    word.0.store(turn + 1, Ordering::Relaxed);
                }
                times.push(start.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64);
            }
            times
        }
    };
    let done = team(Some(places), &Phase::default(), [player(0), player(1)], || ())?;
    Ok(done.members.into_iter().next().and_then(Spread::of))
}

/// The limit as a stage: a hop is measured at the beginning of each round.
#[derive(Debug)]
pub(crate) struct Hops {
    /// The places to which threads are pinned.
    pub(crate) places: Places,
    /// One hop for each round.
    pub(crate) hops: Vec<Spread>,
    /// The ways whose threads could not be pinned.
    pub(crate) unpinned: Vec<String>,
}

impl Hops {
    /// Returns a stage without measurements.
    pub(crate) fn new(places: Places) -> Self {
        Self { places, hops: Vec::new(), unpinned: Vec::new() }
    }

    /// Measures a hop.
    pub(crate) fn look(&mut self) -> Result<()> {
        let hop = hop(&self.places).map_err(|why| failed("measure a hop of a cache line", why))?;
        self.hops.extend(hop);
        Ok(())
    }

    /// Returns the spread of the rounds' least hops.
    pub(crate) fn best(&self) -> Option<Spread> {
        Spread::of(self.hops.iter().map(|hop| hop.best).collect())
    }

    /// Returns the median of the rounds' least hops, in nanoseconds.
    pub(crate) fn median(&self) -> Option<f64> {
        self.best().map(|hop| hop.median)
    }

    /// Prints, once, that the threads of a way could not be pinned.
    pub(crate) fn unpinned(&mut self, way: &str) {
        if !self.unpinned.iter().any(|known| known == way) {
            eprintln!("not pinned: {way}");
            self.unpinned.push(way.to_owned());
        }
    }
}

impl Stage for Hops {
    fn round(&mut self, round: usize) -> Result<()> {
        eprintln!("round {}", round + 1);
        self.look()
    }
}

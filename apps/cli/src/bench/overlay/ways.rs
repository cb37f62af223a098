//! The ways of running a program: overlays, what one would write by hand, and libraries of others.

use std::path::Path;
use std::time::{Duration, Instant};

use syncline_overlay::{Checked, Initial, Location, Overlay, ReadyOrder, Runner, Stop};

use super::super::peers::failed;
use super::by_hand::{Barrier, Locks};
use super::compiled::Peer;
use super::program::Program;
use super::work::{Body, WithWork, Work, checksum, kernel};
use crate::error::Result;

/// A runner of so many workers.
type OnWorkers = fn(usize) -> Runner;

/// Our runners: a line each.
const OURS: [(&str, OnWorkers); 4] = [
    ("overlay, pool", Runner::pool),
    ("overlay, pool, depth first", |workers| Runner::Pool { workers, order: ReadyOrder::DepthFirst }),
    ("overlay, static", |workers| Runner::Static { workers }),
    ("overlay, over queues", |workers| Runner::Queues { workers, order: ReadyOrder::Fifo }),
];

/// A way of running a program.
#[derive(Debug)]
pub(crate) enum Way {
    /// A runner of ours.
    Overlay(&'static str, OnWorkers),
    /// A barrier after every level.
    Barrier,
    /// Locks and conditions.
    Locks,
    /// A library of others.
    Compiled(Peer),
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Wall time of the rounds that are timed.
    pub(crate) seconds: f64,
    /// Of all values.
    pub(crate) checksum: u64,
}

/// All ways, with these peers.
pub(crate) fn all(peers: impl IntoIterator<Item = Peer>) -> Vec<Way> {
    let ours = OURS.iter().map(|&(name, runner)| Way::Overlay(name, runner));
    ours.chain([Way::Barrier, Way::Locks]).chain(peers.into_iter().map(Way::Compiled)).collect()
}

impl Way {
    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Overlay(name, _) => name,
            Self::Barrier => "barrier per level, by hand",
            Self::Locks => "RwLock + Condvar, by hand",
            Self::Compiled(peer) => peer.source.way,
        }
    }

    /// Whether it is one of ours.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Overlay(..))
    }

    /// Runs a program on that many threads: rounds that are not timed, then rounds that are. The checksum means
    /// something without the former only. Peers find the program in `folder`.
    pub(crate) fn run(
        &self,
        folder: &Path,
        program: &Program,
        body: Body,
        workers: usize,
        rounds: [u64; 2],
    ) -> Result<Measured> {
        let by_hand = |run: &dyn Fn(u64) -> u64| {
            if rounds[0] > 0 {
                run(rounds[0]);
            }
            let start = Instant::now();
            let checksum = run(rounds[1]);
            Measured { seconds: start.elapsed().as_secs_f64(), checksum }
        };
        Ok(match self {
            Self::Overlay(name, runner) => {
                let (mut overlay, values) = body.with(Declare(program));
                let mut run = |rounds: u64| {
                    let done = overlay.run(runner(workers), Stop::after(rounds));
                    done.map_err(|error| failed(&format!("run {name}"), error))
                };
                run(rounds[0])?;
                let start = Instant::now();
                run(rounds[1])?;
                let seconds = start.elapsed().as_secs_f64();
                let value = |location: &Location<u64>| Ok(*location.reader().acquire()?);
                let values: Result<Vec<u64>, syncline_overlay::AcquireError> =
                    values.iter().map(value).collect();
                let values = values.map_err(|error| failed(&format!("run {name}"), error))?;
                Measured { seconds, checksum: checksum(values.into_iter()) }
            }
            Self::Barrier => by_hand(&|rounds| body.with(Barrier { program, workers, rounds })),
            Self::Locks => by_hand(&|rounds| body.with(Locks { program, workers, rounds })),
            Self::Compiled(peer) => peer.run(folder, program, body, workers, rounds)?,
        })
    }
}

/// Keeps all processors busy for a moment: of two threads that start on an idle machine some kernels put both on one
/// processor for the first ten milliseconds, and a run would measure that.
pub(crate) fn warm_up(workers: usize) {
    const MOMENT: Duration = Duration::from_millis(12);
    let spin = || {
        let start = Instant::now();
        while start.elapsed() < MOMENT {
            std::hint::black_box(kernel(1, 1000));
        }
    };
    if workers > 1 {
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(spin))));
    }
}

/// Makes an overlay of a program.
struct Declare<'a>(&'a Program);

impl WithWork for Declare<'_> {
    type Output = (Checked<'static>, Vec<Location<u64>>);

    fn call<W: Work>(self, work: W) -> Self::Output {
        let tasks = &self.0.tasks;
        let values: Vec<_> = (0..tasks.len()).map(|t| Location::new(format!("value {t}"), 0_u64)).collect();
        let mut overlay = Overlay::new();
        for (t, task) in tasks.iter().enumerate() {
            let reads: Vec<_> = task.reads.iter().map(|&u| values[u as usize].read()).collect();
            overlay.task(format!("task {t}"), (values[t].write(), reads), move |(own, reads), step| {
                if let Some(new) = work.step(t as u32, step.iteration(), reads.iter().copied()) {
                    *own = new;
                }
            });
        }
        let levels = tasks.iter().map(|task| i64::from(task.level)).collect();
        let checked = overlay.check(Initial::Priority(levels));
        (checked.expect("a total order of tasks is live"), values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::patterns::Pattern;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn every_way_gives_the_values_of_the_plain_loop(
            width in 1_usize..40,
            rows in 1_usize..6,
            workers in 1_usize..4,
            rounds in 1_u64..20,
        ) {
            let patterns = Pattern::ALL.into_iter().map(|pattern| Program::of(pattern, width));
            for program in patterns.chain([Program::grid(rows, width)]) {
                for way in all([]) {
                    let run = way.run(Path::new(""), &program, Body::Verify, workers, [0, rounds]).unwrap();
                    prop_assert_eq!(run.checksum, program.plain(rounds), "{}, {}", program.name, way.name());
                }
            }
        }
    }
}

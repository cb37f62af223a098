//! The ways of running a program: overlays, hand-written code, and libraries of others.

use std::path::PathBuf;

use syncline_overlay::{Checked, Initial, Location, Overlay, Runner, Stop, run::ReadyOrder};

use super::by_hand::{Barrier, ByHand, Locks, Plain};
use super::compiled::Peer;
use super::crew::{Measured, PoolBuilder};
use super::program::Program;
use super::work::{Body, WithWork, Work, checksum};
use crate::error::{Result, failed};
use crate::places::Places;
use crate::race::Side;

/// A runner with a number of workers.
type OnWorkers = fn(usize) -> Runner;

/// Our runners.
const OURS: [(&str, OnWorkers); 4] = [
    ("overlay, pool", Runner::pool),
    ("overlay, pool, depth first", |workers| Runner::Pool {
        workers,
        order: ReadyOrder::DepthFirst,
    }),
    ("overlay, static", |workers| Runner::Static { workers }),
    ("overlay, over queues", |workers| Runner::Queues { workers, order: ReadyOrder::Fifo }),
];

/// A way of running a program.
#[derive(Debug)]
pub(crate) enum Way {
    /// A runner of ours.
    Overlay(&'static str, OnWorkers),
    /// Only the order within a thread is kept.
    Plain,
    /// A barrier after each level.
    Barrier,
    /// Locks and condition variables.
    Locks,
    /// A library of another project.
    Compiled(Peer),
}

/// The environment in which ways run.
#[derive(Debug)]
pub(crate) struct Site {
    /// The folder in which peers find programs.
    pub(crate) folder: PathBuf,
    /// The places to which threads are pinned.
    pub(crate) places: Places,
}

/// Returns all ways, including these peers.
pub(crate) fn all(peers: impl IntoIterator<Item = Peer>) -> Vec<Way> {
    let ours = OURS.iter().map(|&(name, runner)| Way::Overlay(name, runner));
    ours.chain([Way::Plain, Way::Barrier, Way::Locks])
        .chain(peers.into_iter().map(Way::Compiled))
        .collect()
}

impl Way {
    /// Returns the way's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Overlay(name, _) => name,
            Self::Plain => "plain loop, no order",
            Self::Barrier => "barrier per level, by hand",
            Self::Locks => "RwLock + Condvar, by hand",
            Self::Compiled(peer) => peer.source.way,
        }
    }

    /// Returns the way's side.
    pub(crate) fn side(&self) -> Side {
        match self {
            Self::Overlay(..) => Side::Ours,
            Self::Compiled(_) => Side::Peer,
            _ => Side::Baseline,
        }
    }

    /// Returns whether it keeps the order on this number of threads.
    pub(crate) fn keeps_order(&self, workers: usize) -> bool {
        workers == 1 || !matches!(self, Self::Plain)
    }

    /// Runs a program on a number of threads: untimed rounds, then timed rounds. A peer's checksum
    /// is meaningful only without untimed rounds.
    pub(crate) fn run(
        &self,
        site: &Site,
        program: &Program,
        body: Body,
        workers: usize,
        rounds: [u64; 2],
    ) -> Result<Measured> {
        let tasks = program.tasks.len() as u64;
        let crew = &PoolBuilder::new(&site.places, workers, rounds[0] * tasks);
        let checksum = match self {
            Self::Overlay(name, runner) => {
                let (mut overlay, values) = body.with(Declare { program, crew });
                let done =
                    crew.lead(|| overlay.run(runner(workers), Stop::after(rounds[0] + rounds[1])));
                done.map_err(|error| failed(&format!("run {name}"), error))?;
                let value = |location: &Location<u64>| Ok(*location.reader().acquire()?);
                checksum(values.iter().map(value).collect::<Result<Vec<u64>>>()?.into_iter())
            }
            Self::Plain => body.with(Plain(ByHand { program, crew, rounds })),
            Self::Barrier => body.with(Barrier(ByHand { program, crew, rounds })),
            Self::Locks => body.with(Locks(ByHand { program, crew, rounds })),
            Self::Compiled(peer) => return peer.run(site, program, body, workers, rounds),
        };
        Ok(crew.measured((rounds[0] + rounds[1]) * tasks, checksum))
    }
}

/// Declares the overlay of a program, whose bodies notify the crew at their beginning.
struct Declare<'a> {
    program: &'a Program,
    crew: &'a PoolBuilder<'a>,
}

impl<'a> WithWork for Declare<'a> {
    type Output = (Checked<'a>, Vec<Location<u64>>);

    fn call<W: Work>(self, work: W) -> Self::Output {
        let Self { program: Program { tasks, .. }, crew } = self;
        let values: Vec<_> =
            (0..tasks.len()).map(|t| Location::new(format!("value {t}"), 0_u64)).collect();
        let mut overlay = Overlay::new();
        for (t, task) in tasks.iter().enumerate() {
            let reads: Vec<_> = task.reads.iter().map(|&u| values[u as usize].read()).collect();
            overlay.task(
                format!("task {t}"),
                (values[t].write(), reads),
                move |(own, reads), step| {
                    crew.step();
                    if let Some(new) = work.step(t as u32, step.iteration(), reads.iter().copied())
                    {
                        *own = new;
                    }
                },
            );
        }
        let levels = tasks.iter().map(|task| i64::from(task.level)).collect();
        let checked = overlay.check(Initial::Priority(levels));
        (checked.expect("a total order of tasks is live"), values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::super::patterns::Pattern;
    use super::*;

    proptest! {
        #![proptest_config(property(40))]

        #[test]
        fn every_way_gives_the_values_of_the_plain_loop_and_the_processors_back(
            width in 1_usize..40,
            rows in 1_usize..6,
            workers in 1_usize..4,
            warm in 0_u64..4,
            rounds in 1_u64..20,
        ) {
            let places = Places::of_this_thread().unwrap();
            let site = Site { folder: PathBuf::new(), places };
            let patterns = Pattern::ALL.into_iter().map(|pattern| Program::of(pattern, width));
            for program in patterns.chain([Program::grid(rows, width)]) {
                let all_steps = (warm + rounds) * program.tasks.len() as u64;
                for way in all([]).into_iter().filter(|way| way.keeps_order(workers)) {
                    let run = way.run(&site, &program, Body::Verify, workers, [warm, rounds]).unwrap();
                    let plain = program.plain(warm + rounds);
                    prop_assert_eq!(run.checksum, plain, "{}, {}", program.name, way.name());
                    prop_assert!(run.pinned && run.seconds > 0.0 && run.steps <= all_steps, "{:?}", run);
                    let after = Places::of_this_thread().unwrap();
                    prop_assert_eq!(&after, &site.places, "{}", way.name());
                }
            }
        }
    }
}

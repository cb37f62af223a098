//! The experiments of Clauss and Gustedt on ordered read-write locks (PDP 2010).

mod disk;
mod pictures;
mod progress;

pub(super) use self::disk::{bandwidth, computed_bandwidth, machine, setting};
pub(super) use self::pictures::{kernel_and_wave, overlay};
pub(super) use self::progress::{cumulative, detailed, pipelined, scenario};

use super::lab::Lab;
use super::outcome::{Claim, Outcome};
use crate::error::Result;
use crate::papers::data::Data;
use crate::papers::race::{Name, Run};
use crate::papers::report::Runs;
use crate::plot::{Axis, Chart, Figure, Line};

/// O31: the time of one iteration, by block size.
pub(super) fn block_sizes(lab: &Lab) -> Result<Outcome> {
    let runs = Runs(lab.schemes()?);
    let side = lab.scale.side();
    let line = |name: &str, data| {
        let seconds = |block| runs.seconds((Name::Blocks, data), Some(block), 1);
        let points = runs.blocks().into_iter();
        Line::of(name, points.filter_map(|block| Some((block as f64, seconds(block)?))))
    };
    let lines = [line("block layout", Data::Blocked), line("optimized layout", Data::Framed)];
    let best = |data| runs.best((Name::Blocks, data), 1);
    let (Some(blocked), Some(framed)) = (best(Data::Blocked), best(Data::Framed)) else {
        return Err("no block size was measured".into());
    };
    let chart = Chart::new(
        "",
        Axis::each_log("side of a block, elements"),
        Axis::log("time of an iteration, s"),
    )
    .lines(lines);
    let share = |block: usize| side / block.max(1);
    let here = format!(
        "with {}^2 blocks for the block layout and {}^2 for the optimized one, of {side}^2: \
         {}^2 and {}^2 blocks",
        blocked.0,
        framed.0,
        share(blocked.0),
        share(framed.0)
    );
    let same = blocked.0 == framed.0 && share(blocked.0) == 8;
    let why = cached(lab.schemes()?);
    let claim = Claim::new(
        "the best time for both layouts with 2048^2 blocks of 16384^2: 8^2 blocks",
        here,
        same,
    );
    let faster = framed.1 / blocked.1;
    Ok(Outcome::default()
        .claim(claim.because(why))
        .claim(Claim::beside(
            "no number for the gain of the optimized layout in this figure",
            format!(
                "the optimized layout takes {faster:.2} of the time of the block layout, \
                 each at its best"
            ),
        ))
        .note("the paper's figure has no numbers in the text, so there is no line of it")
        .note(memory(lab))
        .figure(Figure::charts(
            "ORWL, Fig. 3: one iteration of Livermore kernel 23",
            1,
            vec![chart],
        )))
}

/// Returns which part of the bytes that sweeps of one iteration asked for came from the disk, as a
/// reason why its speed matters less here.
pub(super) fn cached(runs: &[Run]) -> String {
    let sum = |of: fn(&Run) -> u64| {
        let one = runs.iter().filter(|run| run.iterations == 1 && run.block.is_some());
        one.map(of).sum::<u64>().max(1) as f64
    };
    from_disk(sum(|run| run.disk_read) / sum(|run| run.asked_read))
}

/// Tells which part of some bytes came from the disk.
pub(super) fn from_disk(part: f64) -> String {
    format!(
        "{:.0} % of the bytes that were asked for came from the disk, and the page cache \
         gave the rest",
        100.0 * part.min(1.0)
    )
}

/// Returns the sizes and the memory of sweeps out of core, as a note.
pub(super) fn memory(lab: &Lab) -> String {
    let side = lab.scale.side();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "six matrices of {side}^2 doubles, {:.1} MiB; a sweep maps at most {:.0} MiB; the page \
         cache is emptied before \
         a run, and keeps what a run has read where the machine has the memory",
        mib(6 * 8 * (side * side) as u64),
        mib(lab.scale.memory())
    )
}

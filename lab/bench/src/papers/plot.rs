//! Fig. 7(a) and 7(b): seconds per iteration, on a logarithmic scale, over the side of a block.

use super::race::{CHAINED, Run, SINGLE, WHOLE, Way};
use super::report::{Runs, label};
use crate::plot::{Axis, Chart, Figure, Line};

/// Returns both panels as SVG.
///
/// # Errors
/// Those of [`Figure::svg`].
pub(crate) fn svg(runs: &[Run]) -> crate::error::Result<String> {
    let several = Runs(runs).several();
    let title = format!("Fig. 7(b): {several} iterations, seconds of each");
    let charts = [("Fig. 7(a): seconds of one iteration", 1), (title.as_str(), several)];
    let charts = charts.map(|(title, iterations)| chart(runs, title, iterations));
    Figure::charts("Schemes of Livermore kernel 23 out of core", 2, charts.into()).svg()
}

/// Returns the panel of the runs with this number of iterations: 7(a) for one, 7(b) for several.
pub(crate) fn chart(runs: &[Run], title: &str, iterations: u64) -> Chart {
    let runs = Runs(runs);
    let ways: &[Way] = if iterations == 1 { &SINGLE } else { &CHAINED };
    let blocks = runs.blocks();
    let line = |way: Way, whole: bool| {
        let seconds = |block: usize| runs.seconds(way, Some(block).filter(|_| !whole), iterations);
        let points = blocks.iter().filter_map(|block| Some((*block as f64, seconds(*block)?)));
        let line = Line::of(label(way), points);
        if whole { line.plain() } else { line }
    };
    Chart::new(
        title,
        Axis::each_log("side of a block, elements"),
        Axis::log("seconds per iteration"),
    )
    .lines(WHOLE.iter().map(|way| line(*way, true)))
    .lines(ways.iter().map(|way| line(*way, false)))
}

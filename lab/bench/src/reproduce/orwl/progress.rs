//! Twenty iterations with a thread for each block: Figs. 4 to 8.

use super::{from_disk, memory};
use syncline_blocks::plan::Order;

use crate::error::Result;
use crate::papers::data::Data;
use crate::papers::race::Name;
use crate::papers::report::Runs;
use crate::plot::{Axis, Chart, Figure, Grid, Line, Panel};
use crate::race::{figure, median};
use crate::reproduce::lab::Lab;
use crate::reproduce::outcome::{Claim, Outcome, Table};
use crate::reproduce::steps::{ITERATIONS, Twenty, name};

fn label(run: &Twenty) -> String {
    let (layout, start) = name(run.data, run.order);
    format!("{layout}, {start}")
}

/// O35: the number of computed blocks over time.
pub(in crate::reproduce) fn cumulative(lab: &Lab) -> Result<Outcome> {
    let runs = lab.twenty()?;
    let line = |run: &Twenty| {
        let count = run.steps.len();
        // A point for every blocks of a whole number, so that the figure stays small.
        let each = (count / 160).max(1);
        let points = run.steps.iter().enumerate().filter(|(n, _)| n % each == 0 || n + 1 == count);
        Line::of(label(run), points.map(|(n, step)| (step.end, (n + 1) as f64))).plain()
    };
    let chart = Chart::new("", Axis::linear("time, s"), Axis::linear("computed blocks"))
        .lines(runs.iter().map(line));
    let mut table = Table::new("runs", ["layout", "start", "seconds", "linear: R^2"]);
    let mut worst: f64 = 1.0;
    for run in runs {
        let (layout, start) = name(run.data, run.order);
        let fit = linear(run.steps.iter().enumerate().map(|(n, step)| (step.end, n as f64)));
        worst = worst.min(fit);
        table.row([layout.into(), start.into(), run.seconds.into(), fit.into()]);
    }
    let time = |data| {
        let of = runs.iter().filter(|run| run.data == data && run.order == Order::Wave);
        of.map(|run| run.seconds).next().unwrap_or(f64::NAN)
    };
    let (blocked, framed) = (time(Data::Blocked), time(Data::Framed));
    let sum = |of: fn(&Twenty) -> u64| runs.iter().map(of).sum::<u64>().max(1) as f64;
    let why = from_disk(sum(|run| run.disk_read) / sum(|run| run.read));
    let linear = Claim::new(
        "linear progress with both layouts",
        format!(
            "a straight line explains at least {:.1} % of the progress of each run",
            100.0 * worst
        ),
        worst > 0.97,
    );
    let faster = Claim::new(
        "the optimized layout ahead of the block layout",
        format!("{framed:.2} s and {blocked:.2} s for {ITERATIONS} iterations, started as a wave"),
        framed < blocked,
    );
    Ok(Outcome::default()
        .claim(linear)
        .claim(faster.because(why))
        .note(starts())
        .note(memory(lab))
        .table(table)
        .figure(Figure::charts(
            "ORWL, Fig. 4: computed blocks over time, 20 iterations",
            1,
            vec![chart],
        )))
}

/// The paper is ambiguous about the start.
fn starts() -> &'static str {
    "the paper's text has a start of maximal parallelism, and its figures the wave: both are shown"
}

/// Returns the part of the variance that a straight line explains.
fn linear(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = points.clone().count().max(1) as f64;
    let mean = |of: fn((f64, f64)) -> f64| points.clone().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.clone().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let (xy, xx, yy) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    if xx > 0.0 && yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 }
}

/// The mean of all values, and their standard deviation divided by it.
fn spread(rows: &[Vec<f64>]) -> (f64, f64) {
    // The first iteration fills caches and the pipeline.
    let all: Vec<f64> = rows.iter().flat_map(|row| row.iter().skip(1).copied()).collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let square = all.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (square / all.len().max(1) as f64).sqrt() / mean.max(1e-12))
}

/// O36: grids of the times of each task in each iteration.
pub(in crate::reproduce) fn detailed(lab: &Lab) -> Result<Outcome> {
    let runs = lab.twenty()?;
    let mut outcome = Outcome::default();
    let head = [
        "layout",
        "start",
        "compute ms",
        "wait ms",
        "wait / compute",
        "variation of compute",
        "of wait",
        "of the sum",
        "lag in iterations",
    ];
    let mut table = Table::new("runs", head);
    let (mut waits, mut regular, mut lags) = (Vec::new(), Vec::new(), Vec::new());
    for data in [Data::Blocked, Data::Framed] {
        let mut panels = Vec::new();
        for run in runs.iter().filter(|run| run.data == data) {
            let (layout, start) = name(run.data, run.order);
            let [work, wait] = run.times().map(|rows| {
                rows.into_iter()
                    .map(|row| row.into_iter().map(|s| 1e3 * s).collect())
                    .collect::<Vec<Vec<f64>>>()
            });
            let add =
                |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
            let sum: Vec<Vec<f64>> = work.iter().zip(&wait).map(add).collect();
            let [(compute, vc), (waited, vw), (_, vs)] =
                [&work, &wait, &sum].map(|rows| spread(rows));
            let lag = ripples(run);
            let ratio = waited / compute;
            table.row([
                layout.into(),
                start.into(),
                compute.into(),
                waited.into(),
                ratio.into(),
                vc.into(),
                vw.into(),
                vs.into(),
                lag.into(),
            ]);
            waits.push(ratio);
            regular.push(vs / vc);
            lags.push((run.order, lag));
            for (what, rows) in [("compute and I/O", work), ("wait for locks", wait), ("sum", sum)]
            {
                let title = format!("{layout}, {start}: {what}");
                panels.push(Panel::Grid(Grid::new(title, ["iteration", "task", "time, ms"], rows)));
            }
        }
        let (layout, _) = name(data, Order::Wave);
        let title = format!("ORWL, Figs. 5 to 8: time of each task in each iteration, {layout}");
        outcome = outcome.figure(Figure { title, columns: 3, panels });
    }
    let range = |values: &[f64]| {
        let (low, high) =
            values.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)));
        (low, high)
    };
    let (low, high) = range(&waits);
    let (first, last) = range(&regular);
    let wave: Vec<f64> = lags.iter().filter(|lag| lag.0 == Order::Wave).map(|lag| lag.1).collect();
    let lag = median(wave).unwrap_or(f64::NAN);
    let tasks = runs.first().map_or(0, |run| run.along * run.along);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let waiting = Claim::new(
        "a wait of about 10 times the computation",
        format!("{low:.1} to {high:.1} times"),
        low > 5.0 && high < 20.0,
    );
    let why = format!(
        "{tasks} threads share {processors} processors and data in memory, not a saturated disk \
         with 4 cores"
    );
    let sum = Claim::new(
        "sums much more regular than computations: waits absorb irregularity",
        format!(
            "the sum varies {} to {} times as much as the computation",
            figure(first),
            figure(last)
        ),
        last < 0.8,
    );
    let ripple = Claim::new(
        "ripples, one for each row of blocks: the last thread of a row starts an iteration \
         later than the leader of the next row",
        format!("started as a wave, it is {lag:.1} iterations later, in the median"),
        lag >= 1.0,
    );
    Ok(outcome
        .claim(waiting.because(why))
        .claim(sum)
        .claim(ripple)
        .note(starts())
        .note(
            "grids have 12 equal levels of grey; the first iteration, which fills the caches, \
             is in the grids and not in the means",
        )
        .note(memory(lab))
        .table(table))
}

/// Returns by how many iterations the last task of a row is behind the first one of the next row,
/// in the median.
fn ripples(run: &Twenty) -> f64 {
    let along = run.along;
    let mut begins = vec![vec![0.0; ITERATIONS]; along * along];
    run.steps.iter().for_each(|step| begins[step.task][step.iteration] = step.begin);
    let mut lags = Vec::new();
    for row in 0..along - 1 {
        let (last, leader) = (&begins[row * along + along - 1], &begins[(row + 1) * along]);
        for (n, begin) in last.iter().enumerate().take(ITERATIONS - 4).skip(1) {
            // The iterations that the leader has begun by then.
            let ahead = leader.iter().filter(|time| *time <= begin).count() as f64 - 1.0;
            lags.push(ahead - n as f64);
        }
    }
    median(lags).unwrap_or(f64::NAN)
}

/// O18: blocks pipelined from the upper left to the lower right.
pub(in crate::reproduce) fn pipelined(lab: &Lab) -> Result<Outcome> {
    let runs = lab.twenty()?;
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    for order in [Order::Wave, Order::MaxParallel] {
        let of = runs.iter().filter(|run| run.data == Data::Framed && run.order == order);
        for run in of {
            let line = |iteration: usize| {
                let mut all = vec![Vec::new(); 2 * run.along - 1];
                for step in run.steps.iter().filter(|step| step.iteration == iteration) {
                    all[step.task / run.along + step.task % run.along].push(step.begin * 1e3);
                }
                let points = all.into_iter().enumerate();
                let points = points.filter_map(|(n, all)| Some((n as f64, median(all)?)));
                Line::of(format!("iteration {}", iteration + 1), points)
            };
            let lines: Vec<Line> = [0, 1, 2, 3].map(line).into();
            let rising = lines[0].points.windows(2).filter(|pair| pair[1].1 > pair[0].1).count();
            let steps = lines[0].points.len() - 1;
            let (_, start) = name(run.data, run.order);
            if order == Order::Wave {
                claims.push(Claim::new(
                    "blocks pipelined from the upper left to the lower right",
                    format!(
                        "in the first iteration {rising} of {steps} diagonals start after \
                         the one before"
                    ),
                    rising * 10 >= steps * 8,
                ));
                // An iteration has been chained if it begins before the previous one has ended.
                let first_end = run
                    .steps
                    .iter()
                    .filter(|step| step.iteration == 0)
                    .map(|step| step.end)
                    .fold(0.0, f64::max);
                let next =
                    run.steps.iter().filter(|step| step.iteration == 1).map(|step| step.begin);
                let next = next.fold(f64::INFINITY, f64::min);
                claims.push(Claim::new(
                    "wave chaining: a new iteration starts while the last blocks finish the \
                     present one",
                    format!(
                        "iteration 2 begins at {:.1} ms, and iteration 1 ends at {:.1} ms",
                        next * 1e3,
                        first_end * 1e3
                    ),
                    next < first_end,
                ));
            }
            let chart = Chart::new(
                format!("start: {start}"),
                Axis::linear("anti-diagonal of blocks"),
                Axis::linear("begin of the blocks, median, ms"),
            );
            panels.push(chart.lines(lines));
        }
    }
    let outcome = claims.into_iter().fold(Outcome::default(), Outcome::claim);
    Ok(outcome.note(starts()).note(memory(lab)).figure(Figure::charts(
        "Livermore kernel 23 in blocks: when the diagonals begin",
        2,
        panels,
    )))
}

/// O22: the three steps of the scenario.
pub(in crate::reproduce) fn scenario(lab: &Lab) -> Result<Outcome> {
    let runs = lab.twenty()?;
    let schemes = Runs(lab.schemes()?);
    let best = |data| schemes.best((Name::Blocks, data), 1).map_or(0, |best| best.0);
    let mut table = Table::new(
        "scenario",
        ["layout", "start", "best block", "compute ms", "wait ms", "read MiB/s"],
    );
    let mut lines = Vec::new();
    let mut compute = Vec::new();
    for run in runs {
        let (layout, start) = name(run.data, run.order);
        let [work, wait] = run.times();
        let ([mean, _], [waited, _]) = ([spread(&work).0, 0.0], [spread(&wait).0, 0.0]);
        let rate = run.read as f64 / run.seconds / f64::from(1 << 20);
        table.row([
            layout.into(),
            start.into(),
            best(run.data).into(),
            (1e3 * mean).into(),
            (1e3 * waited).into(),
            rate.into(),
        ]);
        compute.push(waited / mean);
        if run.order == Order::Wave {
            for (what, rows) in [("compute", &work), ("wait", &wait)] {
                let points = rows.iter().enumerate().map(|(t, row)| {
                    (t as f64, 1e3 * row.iter().skip(1).sum::<f64>() / (row.len() - 1) as f64)
                });
                lines.push(Line::of(format!("{layout}: {what}"), points).plain());
            }
        }
    }
    let chart = Chart::new(
        "started as a wave",
        Axis::linear("thread (block)"),
        Axis::log("mean time per iteration, ms"),
    )
    .lines(lines);
    let mean = compute.iter().sum::<f64>() / compute.len().max(1) as f64;
    Ok(Outcome::default()
        .claim(Claim::beside(
            "three steps: the best block size, 20 iterations with times, compute and wait per \
             thread and the disk's bandwidth",
            format!(
                "the best blocks have sides {} and {}, threads wait {mean:.1} times as long as \
                 they compute, and the rates are in the table",
                best(Data::Blocked),
                best(Data::Framed)
            ),
        ))
        .note(memory(lab))
        .table(table)
        .figure(Figure::charts("ORWL: compute and wait per thread, 20 iterations", 1, vec![chart])))
}

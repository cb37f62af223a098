//! The experiments of Clauss, Gustedt and Suter on out-of-core wavefronts (PDP 2008).

use std::sync::Arc;
use std::time::Instant;

use syncline_blocks::{BlockedSweep, plan::io_model};
use syncline_store::{Block, ElementType, Grid, Layout, Matrix, Shape, convert};
use syncline_wave::reference::plain_sweep;
use syncline_wave::{Sweep, kernels::Lk23};

use super::lab::Lab;
use super::orwl::{cached, memory};
use super::outcome::{Claim, Outcome, Table};
use crate::disk::numbers;
use crate::error::{Result, failed};
use crate::papers::data::Data;
use crate::papers::plot;
use crate::papers::race::{Name, SINGLE, WHOLE};
use crate::papers::report::{Runs, label};
use crate::plot::{Axis, Chart, Figure, Line};
use crate::race::median;

/// W6: sweeps until convergence.
pub(super) fn convergence(lab: &Lab) -> Result<Outcome> {
    let side = lab.scale.pick(40, 1000, 4000);
    let shape = Shape::new(side, side);
    let random = |seed: u64, scale: f64| -> Result<Arc<Matrix>> {
        let values = numbers(seed, side * side).into_iter().map(|value| value * scale).collect();
        Ok(Arc::new(Matrix::from_vec(shape, values)?))
    };
    let field = random(1, 1.0)?;
    // The four coefficients of neighbours sum to less than 1, as in a relaxation.
    let coefficients: Vec<_> = (2..7).map(|seed| random(seed, 0.25)).collect::<Result<_>>()?;
    let coefficients: [Arc<Matrix>; 5] =
        coefficients.try_into().map_err(|_| "five coefficients")?;
    let tolerance = 1e-9;
    let sweep = BlockedSweep::of(Sweep::new(Lk23).iterations(1000).until(tolerance));
    let sweep = sweep.block(Block::new(side.div_ceil(8), side.div_ceil(8)));
    let zeros = || Matrix::zeros(shape, Layout::RowMajor);
    let (result, report) = sweep.run(&field, &coefficients, zeros()?)?;
    lab.signals.check()?;
    // The same number of iterations by the plain double loop.
    let mut plain = field.as_slice().ok_or("a matrix in memory")?.to_vec();
    let slices: Vec<&[f64]> =
        coefficients.iter().map(|m| m.as_slice().unwrap_or_default()).collect();
    let slices: [&[f64]; 5] = slices.try_into().map_err(|_| "five coefficients")?;
    for _ in 0..report.iterations {
        plain_sweep(&Lk23, &mut plain, slices, side, side);
    }
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let same = bits(result.as_slice().ok_or("a matrix in memory")?) == bits(&plain);
    let within = |limit: f64| {
        let found = report.residuals.iter().position(|&residual| residual <= limit);
        found.map_or(f64::NAN, |n| (n + 1) as f64)
    };
    let mut table = Table::new("iterations", ["largest change of an element", "iterations"]);
    let limits = [1e-2, 1e-4, 1e-6, tolerance];
    limits.iter().for_each(|&limit| table.row([limit.into(), within(limit).into()]));
    let points =
        report.residuals.iter().enumerate().map(|(n, &residual)| ((n + 1) as f64, residual));
    let chart =
        Chart::new("", Axis::linear("iteration"), Axis::log("largest change of an element")).line(
            Line::of(format!("{side}^2 elements"), points.filter(|point| point.1 > 0.0)).plain(),
        );
    let dozens = within(1e-4);
    Ok(Outcome::default()
        .claim(Claim::new(
            "convergence after several dozens of iterations",
            format!(
                "changes below 1e-4 after {dozens:.0} iterations, and below {tolerance:e} \
                 after {:.0}",
                within(tolerance)
            ),
            (12.0..240.0).contains(&dozens),
        ))
        .claim(Claim::new(
            "the update of each element in five steps, in the order of the double loop",
            format!(
                "after {} iterations the result {} the bits of the plain double loop",
                report.iterations,
                if same { "has" } else { "does not have" }
            ),
            same,
        ))
        .note(
            "coefficients are random numbers in [0, 0.25); the paper does not tell its own, \
             nor its tolerance. The pseudo-code of its Fig. 1 is the plain double loop, which \
             the book's page blocked-sweep describes",
        )
        .table(table)
        .figure(Figure::charts(
            "Out of core, Sec. 3: Livermore loop 23 until convergence",
            1,
            vec![chart],
        )))
}

/// The rows of the paper's Table 1: the side of a block, the bytes and the percentage it prints.
const OVERHEADS: [(usize, u64, &str); 4] = [
    (4096, 512, "2.38e-05"),
    (512, 32 << 10, "0.0015"),
    (64, 2 << 20, "0.098"),
    (8, 128 << 20, "6.25"),
];

/// Returns the bytes that the optimized layout stores twice, for a thickness of one, as the layout
/// itself has them.
fn duplicated(shape: Shape, side: usize) -> Result<u64> {
    let block = Block::new(side, side);
    let framed = Layout::Framed { block, thickness: 1 }.stored(shape)?;
    let blocked = Layout::Blocked(block).stored(shape)?;
    Ok(((framed - blocked) * size_of::<f64>()) as u64)
}

/// W12: the space overhead of the optimized layout.
pub(super) fn space(_: &Lab) -> Result<Outcome> {
    let shape = Shape::new(16384, 16384);
    let whole = (shape.rows * shape.cols * size_of::<f64>()) as f64;
    let mut table = Table::new(
        "overhead",
        ["side of a block", "bytes, the paper", "%, the paper", "bytes here", "% here"],
    );
    let (mut same, mut points, mut paper) = (0, Vec::new(), Vec::new());
    for (side, bytes, percent) in OVERHEADS {
        let here = duplicated(shape, side)?;
        same += usize::from(here == bytes);
        table.row([
            side.into(),
            bytes.into(),
            percent.into(),
            here.into(),
            (100.0 * here as f64 / whole).into(),
        ]);
        points.push((side as f64, here as f64));
        paper.push((side as f64, bytes as f64));
    }
    let chart = Chart::new(
        "",
        Axis::each_log("side of a block, elements"),
        Axis::log("bytes stored twice"),
    )
    .line(Line::of("here", points))
    .line(Line::of("the paper", paper).of_paper());
    Ok(Outcome::default()
        .claim(Claim::new(
            "512 bytes, 32 KiB, 2 MiB and 128 MiB of overhead for blocks of 4096^2, 512^2, 64^2 \
             and 8^2 of 16384^2 doubles",
            format!("{same} of {} rows are exactly these", OVERHEADS.len()),
            same == OVERHEADS.len(),
        ))
        .note("computed from the layout that files have, in all scales")
        .table(table)
        .figure(Figure::charts(
            "Out of core, Table 1: space overhead of the optimized layout",
            1,
            vec![chart],
        )))
}

/// W14: the time of converting a matrix to a layout, and back.
pub(super) fn conversion(lab: &Lab) -> Result<Outcome> {
    let blocks = lab.scale.blocks();
    let folder = lab.matrices(&blocks)?;
    let ways = [
        ("pre-processing", Data::Blocked),
        ("pre-processing", Data::Framed),
        ("post-processing", Data::Blocked),
        ("post-processing", Data::Framed),
    ];
    let name = |data| if data == Data::Framed { "optimized" } else { "block" };
    let mut times = vec![vec![Vec::new(); ways.len()]; blocks.len()];
    for _ in 0..lab.scale.pick(1, 5, 1) {
        for (n, &side) in blocks.iter().enumerate() {
            for (w, &(way, data)) in ways.iter().enumerate() {
                lab.signals.check()?;
                let pre = way == "pre-processing";
                let (from, to) = if pre { (Data::RowMajor, data) } else { (data, Data::RowMajor) };
                let source = folder.open(from, side)?.field;
                let (file, mut result) = folder.result(to.layout(folder.block(side)))?;
                folder.drop_caches()?;
                let start = Instant::now();
                convert(&source, &mut result, lab.scale.pick(1 << 20, 8 << 20, 128 << 20))?;
                file.file()
                    .sync_data()
                    .map_err(|error| failed("write a converted matrix", error))?;
                times[n][w].push(start.elapsed().as_secs_f64());
            }
        }
    }
    let mut table = Table::new(
        "seconds",
        [
            "side of a block",
            "block, before",
            "optimized, before",
            "block, after",
            "optimized, after",
        ],
    );
    let seconds: Vec<Vec<f64>> = times
        .into_iter()
        .map(|row| row.into_iter().map(|all| median(all).unwrap_or(f64::NAN)).collect())
        .collect();
    for (side, row) in blocks.iter().zip(&seconds) {
        table.row([(*side).into()].into_iter().chain(row.iter().map(|&s| s.into())));
    }
    let line = |w: usize| {
        let (way, data) = ways[w];
        let points = blocks.iter().zip(&seconds).map(|(side, row)| (*side as f64, row[w]));
        Line::of(format!("{} layout, {way}", name(data)), points)
    };
    let chart =
        Chart::new("", Axis::each_log("side of a block, elements"), Axis::linear("time, s"))
            .lines((0..ways.len()).map(line));
    let mean = |w: usize| seconds.iter().map(|row| row[w]).sum::<f64>() / seconds.len() as f64;
    let others = [0, 2, 3].map(mean);
    let most = others.iter().copied().fold(0.0, f64::max);
    let least = others.iter().copied().fold(f64::INFINITY, f64::min);
    let framed = mean(1);
    Ok(Outcome::default()
        .claim(
            Claim::new(
                "almost the same time for all conversions, except that to the optimized layout, \
                 which takes longer",
                format!(
                    "{framed:.3} s to the optimized layout, and {least:.3} to {most:.3} s for \
                     the others, in the mean over block sizes"
                ),
                framed > 1.15 * most && most < 1.5 * least,
            )
            .because(
                "the conversion here reads each row once, and takes the columns of frontiers \
                 from memory, where the paper's reads them from the file again",
            ),
        )
        .note(memory(lab))
        .note("the time of a converted matrix contains the time until it is on the disk")
        .table(table)
        .figure(Figure::charts("Out of core, Fig. 4: changing the layout", 1, vec![chart])))
}

/// Returns the seconds of a scheme at its best block, and the block.
type Best = Option<(usize, f64)>;

fn told(best: Best) -> String {
    best.map_or("-".to_owned(), |(_, seconds)| format!("{seconds:.3} s"))
}

/// Returns whether the best block is inside the range of all.
fn inside(runs: Runs<'_>, best: Best) -> bool {
    let blocks = runs.blocks();
    best.is_some_and(|(block, _)| blocks.first() != Some(&block) && blocks.last() != Some(&block))
}

/// W21: the time of one iteration, by block size and scheme.
pub(super) fn one_iteration(lab: &Lab) -> Result<Outcome> {
    let all = lab.schemes()?;
    let runs = Runs(all);
    let best = |name, data| runs.best((name, data), 1);
    let sequential = runs.seconds(WHOLE[0], None, 1).unwrap_or(f64::NAN);
    let [rows, blocked, framed] =
        [Data::RowMajor, Data::Blocked, Data::Framed].map(|data| best(Name::Ring, data));
    let ratio = |a: Best, b: f64| a.map_or(f64::NAN, |a| a.1 / b);
    let gain = ratio(framed, blocked.map_or(f64::NAN, |b| b.1));
    let seconds = |best: Best| best.map_or(f64::NAN, |best| best.1);
    let [locked, locks] = [Data::Blocked, Data::Framed].map(|data| best(Name::Blocks, data));
    let locks = ratio(locks, seconds(locked));
    let slow = ratio(rows, sequential);
    let faster = ratio(framed, sequential);
    let mut table = Table::new(
        "seconds",
        [
            "scheme",
            "side of a block",
            "seconds of an iteration",
            "MiB asked for",
            "MiB of the model",
        ],
    );
    for way in WHOLE.into_iter().chain(SINGLE) {
        let of = all
            .iter()
            .filter(|run| (run.scheme, run.data) == way && run.iterations == 1 && run.round == 0);
        for run in of {
            let seconds = runs.seconds(way, run.block, 1);
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let block = run.block.map_or(f64::NAN, |block| block as f64);
            let model = run.block.and_then(|side| {
                let block = Block::new(side, side);
                let grid = Grid::new(Shape::new(run.rows, run.cols), block);
                io_model(run.data.layout(block), grid, 5, ElementType::Float64).ok()
            });
            table.row([
                label(way).into(),
                block.into(),
                seconds.into(),
                mib(run.asked_read).into(),
                model.map(|m| mib(m.read)).into(),
            ]);
        }
    }
    let bests: Vec<String> = [blocked, framed]
        .iter()
        .map(|b| b.map_or("-".to_owned(), |b| format!("{}^2", b.0)))
        .collect();
    let why = cached(all);
    let chart = plot::chart(all, "one iteration", 1);
    Ok(Outcome::default()
        .claim(Claim::new(
            "macro-pipelining on row-major data at best ten times slower than the sequential loop",
            format!("{} and {sequential:.3} s: {slow:.2} times", told(rows)),
            slow > 5.0,
        ).because(why.clone()))
        .claim(Claim::new(
            "an optimal block size inside the range, for block and optimized layout",
            format!("best with blocks of {} (ring)", bests.join(" and ")),
            inside(runs, blocked) && inside(runs, framed),
        ))
        .claim(Claim::new(
            "the optimized layout 20 % faster than the block layout",
            format!(
                "it takes {gain:.2} of the time (ring), and {locks:.2} with a lock for each block"
            ),
            (0.7..0.9).contains(&gain),
        ).because(why.clone()))
        .claim(Claim::new(
            "parallel schemes below the time of the sequential loop",
            format!("the ring with the optimized layout takes {faster:.2} of it"),
            faster < 1.0,
        ))
        .note("the paper's figure has no numbers in the text, so there is no line of it")
        .note(memory(lab))
        .table(table)
        .figure(Figure::charts("Out of core, Fig. 7(a)", 1, vec![chart])))
}

/// W22: wave chaining.
pub(super) fn chaining(lab: &Lab) -> Result<Outcome> {
    let all = lab.schemes()?;
    let runs = Runs(all);
    let several = runs.several();
    let best = |name, data, iterations| runs.best((name, data), iterations);
    let mut table = Table::new("ratios", ["layout", "scheme", "chained s", "flushed s", "ratio"]);
    let mut ratios = Vec::new();
    for data in [Data::Blocked, Data::Framed] {
        for (scheme, chained, flushed) in [
            ("ring", Name::Ring, Name::RingLate),
            ("a lock for each block", Name::Blocks, Name::BlocksOneByOne),
        ] {
            let [a, b] = [chained, flushed]
                .map(|name| best(name, data, several).map_or(f64::NAN, |best| best.1));
            let layout = if data == Data::Framed { "optimized" } else { "block" };
            table.row([layout.into(), scheme.into(), a.into(), b.into(), (a / b).into()]);
            ratios.push(a / b);
        }
    }
    let (low, high) =
        ratios.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &r| (a.min(r), b.max(r)));
    let each = best(Name::Ring, Data::Framed, several).map_or(f64::NAN, |b| b.1);
    let one = best(Name::Ring, Data::Framed, 1).map_or(f64::NAN, |b| b.1);
    let part = |iterations: u64| {
        let of = all.iter().filter(|run| run.block.is_some() && run.iterations == iterations);
        let (disk, asked) =
            of.fold((0, 1), |sum, run| (sum.0 + run.disk_read, sum.1 + run.asked_read));
        100.0 * disk as f64 / asked as f64
    };
    let later = format!(
        "runs of several iterations took {:.0} % of their bytes from the disk, those of one \
         {:.0} %",
        part(several),
        part(1)
    );
    let two = best(Name::RingTwoWaves, Data::Framed, several).map_or(f64::NAN, |b| b.1);
    Ok(Outcome::default()
        .claim(Claim::new(
            "another gain of 20 % by wave chaining",
            format!(
                "chained iterations take {low:.2} to {high:.2} of the time of flushed ones, \
                 each scheme at its best block"
            ),
            high < 0.9,
        ))
        .claim(
            Claim::new(
                "a higher mean time of an iteration when several run at once",
                format!("{each:.3} s of {several} and {one:.3} s of one (ring, optimized layout)"),
                each > one,
            )
            .because(later),
        )
        .note(format!(
            "two waves in each band of the ring take {:.2} of the time of one",
            two / each
        ))
        .note(memory(lab))
        .table(table)
        .figure(Figure::charts(
            "Out of core, Fig. 7(b)",
            1,
            vec![plot::chart(all, &format!("{several} iterations"), several)],
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_overheads_is_exact() {
        let shape = Shape::new(16384, 16384);
        let whole = (1_u64 << 31) as f64;
        for (side, bytes, percent) in OVERHEADS {
            let here = duplicated(shape, side).unwrap();
            assert_eq!(here, bytes, "blocks of {side}");
            // The paper's formula, for a thickness of 1.
            assert_eq!(here, (4 * size_of::<f64>() * (16384 / side).pow(2)) as u64);
            let exact = 100.0 * here as f64 / whole;
            let printed: f64 = percent.parse().unwrap();
            assert!((exact / printed - 1.0).abs() < 0.02, "{side}: {exact} %, not {printed} %");
        }
    }
}

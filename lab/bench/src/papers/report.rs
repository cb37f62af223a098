//! The tables of the papers' Fig. 7, and the papers' statements beside our results.

use std::fmt::Write;

use super::data::Data;
use super::race::{CHAINED, Name, Run, SINGLE, WHOLE, Way};
use crate::race::median;

const GIB: f64 = (1 << 30) as f64;

/// Returns the name of a scheme.
pub(crate) fn label((name, data): Way) -> String {
    let scheme = match name {
        Name::Sequential => return "sequential".to_owned(),
        Name::Streamed => return "streamed".to_owned(),
        Name::ThreeBuffer => "three buffers",
        Name::RingLate => "ring, late exchange",
        Name::Ring => "ring",
        Name::RingTwoWaves => "ring, two waves",
        Name::BlocksOneByOne => "blocks, one by one",
        Name::Blocks => "blocks",
    };
    let data = match data {
        Data::RowMajor => "row-major",
        Data::Blocked => "blocked",
        Data::Framed => "framed",
    };
    format!("{scheme}, {data}")
}

/// Queries over the runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs<'r>(pub(crate) &'r [Run]);

impl<'r> Runs<'r> {
    fn of(self, way: Way, block: Option<usize>, iterations: u64) -> impl Iterator<Item = &'r Run> {
        let same = move |run: &&Run| {
            (run.scheme, run.data) == way && run.block == block && run.iterations == iterations
        };
        self.0.iter().filter(same)
    }

    /// Returns the median of a value over a cell's runs, per iteration.
    fn median(
        self,
        way: Way,
        block: Option<usize>,
        iterations: u64,
        value: impl Fn(&Run) -> f64,
    ) -> Option<f64> {
        Some(median(self.of(way, block, iterations).map(value).collect())? / iterations as f64)
    }

    /// Returns the median seconds per iteration.
    pub(crate) fn seconds(self, way: Way, block: Option<usize>, iterations: u64) -> Option<f64> {
        self.median(way, block, iterations, |run| run.seconds)
    }

    /// Returns the sides of the blocks.
    pub(crate) fn blocks(self) -> Vec<usize> {
        let mut blocks: Vec<usize> = self.0.iter().filter_map(|run| run.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Returns the number of iterations of the runs of several.
    pub(crate) fn several(self) -> u64 {
        self.0.iter().map(|run| run.iterations).max().unwrap_or(1)
    }

    /// Returns the block with the least time, and the time.
    pub(crate) fn best(self, way: Way, iterations: u64) -> Option<(usize, f64)> {
        let times = self
            .blocks()
            .into_iter()
            .filter_map(|b| Some((b, self.seconds(way, Some(b), iterations)?)));
        times.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Returns all tables.
pub(crate) fn text(runs: &[Run]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = tables(Runs(runs), &mut out);
    out
}

fn tables(runs: Runs<'_>, out: &mut String) -> std::fmt::Result {
    let Some(first) = runs.0.first() else {
        return writeln!(out, "no runs");
    };
    let rounds = runs.0.iter().map(|run| run.round).max().map_or(0, |last| last + 1);
    let several = runs.several();
    writeln!(
        out,
        "{} x {}, six matrices, {:.2} GiB; at most {} MiB in memory; rings of {} processors; medians of {rounds} \
         round(s); caches emptied by {}",
        first.rows,
        first.cols,
        (6 * 8 * first.rows * first.cols) as f64 / GIB,
        first.memory >> 20,
        first.processors,
        first.caches,
    )?;
    let seconds = |iterations| {
        move |way: Way, block| runs.seconds(way, block, iterations).map(|s| format!("{s:.3}"))
    };
    table(out, "Fig. 7(a): seconds of one iteration, by block size", runs, &SINGLE, seconds(1))?;
    let title = format!("Fig. 7(b): seconds per iteration of {several} iterations");
    table(out, &title, runs, &CHAINED, seconds(several))?;
    let bytes = |way: Way, block: Option<usize>| {
        let gib = |value: fn(&Run) -> f64| Some(runs.median(way, block, 1, value)? / GIB);
        let disk = gib(|run| run.disk_read as f64)?;
        let asked = gib(|run| run.asked_read as f64)?;
        let model = runs.of(way, block, 1).find_map(|run| run.model_read);
        let model =
            model.map_or_else(|| "-".to_owned(), |model| format!("{:.2}", model as f64 / GIB));
        Some(format!("{disk:.2} / {asked:.2} / {model}"))
    };
    table(
        out,
        "GiB read in one iteration: from the disk / asked for / the papers' model",
        runs,
        &SINGLE,
        bytes,
    )?;
    words(runs, out)
}

fn table(
    out: &mut String,
    title: &str,
    runs: Runs<'_>,
    ways: &[Way],
    cell: impl Fn(Way, Option<usize>) -> Option<String>,
) -> std::fmt::Result {
    let blocks = runs.blocks();
    write!(out, "\n{title}\n\n| |")?;
    blocks.iter().try_for_each(|block| write!(out, " {block} |"))?;
    write!(out, "\n|---|{}", "---|".repeat(blocks.len()))?;
    for (ways, whole) in [(&WHOLE[..], true), (ways, false)] {
        for way in ways {
            write!(out, "\n| {} |", label(*way))?;
            for block in &blocks {
                let cell = cell(*way, Some(*block).filter(|_| !whole));
                write!(out, " {} |", cell.as_deref().unwrap_or("-"))?;
            }
        }
    }
    writeln!(out)
}

/// Writes the papers' statements, each with the result here.
fn words(runs: Runs<'_>, out: &mut String) -> std::fmt::Result {
    let several = runs.several();
    let single = |way| runs.best(way, 1);
    let chained = |way| runs.best(way, several);
    let whole = |way, iterations| Some((0, runs.seconds(way, None, iterations)?));
    let [sequential, streamed] = WHOLE;
    let of = |name, data| (name, data);
    let (blocked, framed) = (Data::Blocked, Data::Framed);
    let ratios = [
        ("row-major / sequential", "10", single(SINGLE[0]), whole(sequential, 1)),
        (
            "ring, framed / sequential",
            "below 1",
            single(of(Name::Ring, framed)),
            whole(sequential, 1),
        ),
        (
            "ring: framed / blocked",
            "0.80",
            single(of(Name::Ring, framed)),
            single(of(Name::Ring, blocked)),
        ),
        (
            "blocks: framed / blocked",
            "0.80",
            single(of(Name::Blocks, framed)),
            single(of(Name::Blocks, blocked)),
        ),
        (
            "ring, framed: early / late exchange",
            "0.80",
            chained(of(Name::Ring, framed)),
            chained(of(Name::RingLate, framed)),
        ),
        (
            "ring, blocked: early / late exchange",
            "0.80",
            chained(of(Name::Ring, blocked)),
            chained(of(Name::RingLate, blocked)),
        ),
        (
            "blocks, framed: chained / one by one",
            "0.80",
            chained(of(Name::Blocks, framed)),
            chained(of(Name::BlocksOneByOne, framed)),
        ),
        (
            "blocks, blocked: chained / one by one",
            "0.80",
            chained(of(Name::Blocks, blocked)),
            chained(of(Name::BlocksOneByOne, blocked)),
        ),
        (
            "ring, framed: two waves / one",
            "below 1, with more disks",
            chained(of(Name::RingTwoWaves, framed)),
            chained(of(Name::Ring, framed)),
        ),
        (
            "ring, framed: an iteration of several / of one",
            "above 1",
            chained(of(Name::Ring, framed)),
            single(of(Name::Ring, framed)),
        ),
        (
            "streamed / best of all others, several iterations",
            "-",
            whole(streamed, several),
            CHAINED
                .into_iter()
                .filter_map(chained)
                .chain(whole(sequential, several))
                .min_by(|a, b| a.1.total_cmp(&b.1)),
        ),
    ];
    writeln!(
        out,
        "\nThe papers' words, each scheme with its best block\n\n| | papers | here | blocks |\n|---|---|---|---|"
    )?;
    let side = |block: usize| if block == 0 { "-".to_owned() } else { block.to_string() };
    for (what, papers, ours, other) in ratios {
        let (Some(ours), Some(other)) = (ours, other) else { continue };
        let (ratio, blocks) = (ours.1 / other.1, format!("{}, {}", side(ours.0), side(other.0)));
        writeln!(out, "| {what} | {papers} | {ratio:.2} | {blocks} |")?;
    }
    for way in SINGLE {
        let times = runs.blocks().into_iter().filter(|b| runs.seconds(way, Some(*b), 1).is_some());
        let (Some((best, _)), blocks) = (single(way), times.collect::<Vec<_>>()) else { continue };
        // With two blocks, both are at an end of the range.
        if blocks.len() < 3 {
            continue;
        }
        let inside = blocks.first() != Some(&best) && blocks.last() != Some(&best);
        let place = if inside { "inside" } else { "at an end" };
        let range = format!("{} to {}", blocks[0], blocks[blocks.len() - 1]);
        writeln!(out, "| best block, {} | inside | {place} | {best} of {range} |", label(way))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of the ring with three blocks, in three rounds, and of the sequential scheme; and a run
    /// of two iterations.
    pub(crate) fn some() -> Vec<Run> {
        let line = |scheme: &str, data: &str, block: &str, round: u32, seconds: f64| {
            let text = format!(
                r#"{{"scheme":"{scheme}","data":"{data}","block":{block},"iterations":1,"round":{round},
                "seconds":{seconds},"disk_read":1073741824,"disk_written":0,"asked_read":2147483648,"asked_written":0,
                "model_read":3221225472,"rows":4096,"cols":4096,"processors":4,"memory":1048576,"caches":"none"}}"#
            );
            serde_json::from_str(&text).expect("it is a run")
        };
        let mut runs = Vec::new();
        for (round, seconds) in [(0, 4.0), (1, 2.0), (2, 9.0)] {
            runs.push(line("sequential", "row-major", "null", round, 8.0));
            runs.push(line("ring", "framed", "256", round, seconds));
            runs.push(line("ring", "framed", "512", round, 2.0 * seconds));
            runs.push(line("ring", "framed", "1024", round, 3.0 * seconds));
            runs.push(line("ring", "blocked", "256", round, 1.25 * seconds));
        }
        runs.push(Run { iterations: 2, ..line("ring", "framed", "256", 0, 6.0) });
        runs
    }

    #[test]
    fn cells_are_medians_and_words_compare_the_best() {
        let text = text(&some());
        assert!(text.contains("| ring, framed | 4.000 | 8.000 | 12.000 |"), "{text}");
        assert!(text.contains("| sequential | 8.000 | 8.000 | 8.000 |"), "{text}");
        assert!(text.contains("| ring, framed | 3.000 | - | - |"), "{text}");
        assert!(text.contains("| ring: framed / blocked | 0.80 | 0.80 | 256, 256 |"), "{text}");
        assert!(text.contains("| ring, framed | 1.00 / 2.00 / 3.00 |"), "{text}");
        assert!(
            text.contains("| best block, ring, framed | inside | at an end | 256 of 256 to 1024 |"),
            "{text}"
        );
        // A missing run has no ratio and no number.
        assert!(!text.contains("NaN") && text.contains("| streamed | - | - | - |"), "{text}");
        assert!(super::text(&[]).contains("no runs"));
    }

    #[test]
    fn a_picture_has_a_line_for_each_scheme_that_was_run() {
        // Three lines for one iteration, one for two.
        let lines = |iterations| super::super::plot::chart(&some(), "", iterations).lines.len();
        assert_eq!((lines(1), lines(2)), (3, 1));
        let svg = super::super::plot::svg(&some()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(super::super::plot::svg(&[]).unwrap().contains("<svg"));
    }
}

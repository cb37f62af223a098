//! Fig. 7(a) and 7(b) as SVG: seconds per iteration, on a logarithmic scale, over the side of a
//! block.

use std::fmt::Write;

use super::race::{CHAINED, Run, SINGLE, WHOLE, Way};
use super::report::{Runs, label};

/// The size of the area between the axes.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 320.0;
/// The width of a panel: axes, their labels and the legend.
const PANEL: f64 = 720.0;
/// The offset of the area from the corner of its panel.
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;

/// The colours of the lines, the same in both panels: those of [`WHOLE`], of [`CHAINED`], and the
/// lines that only [`SINGLE`] has.
const COLOURS: [&str; 14] = [
    "#000000", "#7f7f7f", "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b",
    "#e377c2", "#bcbd22", "#17becf", "#3b5323", "#ffbb00", "#aec7e8",
];

/// A line of a panel: its name and its points.
struct Line {
    name: String,
    /// Positions on the axis of blocks, and seconds.
    points: Vec<(usize, f64)>,
    dashed: bool,
    colour: &'static str,
}

fn colour(way: Way) -> &'static str {
    let only = SINGLE.iter().filter(|way| !CHAINED.contains(way));
    let place = WHOLE.iter().chain(&CHAINED).chain(only).position(|other| *other == way);
    COLOURS[place.unwrap_or(0) % COLOURS.len()]
}

/// Returns both panels.
pub(crate) fn svg(runs: &[Run]) -> String {
    let runs = Runs(runs);
    let (width, height) = (2.0 * PANEL, TOP + HEIGHT + 60.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let several = runs.several();
    let title = format!("Fig. 7(b): {several} iterations, seconds of each");
    // Writing to a string cannot fail.
    let _ = panel(&mut out, runs, 0.0, "Fig. 7(a): seconds of one iteration", &SINGLE, 1);
    let _ = panel(&mut out, runs, PANEL, &title, &CHAINED, several);
    out.push_str("</svg>\n");
    out
}

fn lines(runs: Runs<'_>, ways: &[Way], iterations: u64) -> Vec<Line> {
    let blocks = runs.blocks();
    let line = |way: Way, whole: bool| {
        let seconds = |block: usize| runs.seconds(way, Some(block).filter(|_| !whole), iterations);
        let points = blocks.iter().enumerate().filter_map(|(x, block)| Some((x, seconds(*block)?)));
        Line { name: label(way), points: points.collect(), dashed: whole, colour: colour(way) }
    };
    let all =
        WHOLE.iter().map(|way| line(*way, true)).chain(ways.iter().map(|way| line(*way, false)));
    all.filter(|line| !line.points.is_empty()).collect()
}

fn panel(
    out: &mut String,
    runs: Runs<'_>,
    x: f64,
    title: &str,
    ways: &[Way],
    iterations: u64,
) -> std::fmt::Result {
    let (blocks, lines) = (runs.blocks(), lines(runs, ways, iterations));
    let times = || lines.iter().flat_map(|line| &line.points).map(|point| point.1.max(1e-9));
    let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    if lines.is_empty() {
        return Ok(());
    }
    // A margin above and below.
    let (low, high) = ((least / 1.2).log10(), (most * 1.2).log10());
    let at_x = |place: usize| LEFT + WIDTH * (place as f64 + 0.5) / blocks.len() as f64;
    let at_y = |seconds: f64| TOP + HEIGHT * (high - seconds.max(1e-9).log10()) / (high - low);
    writeln!(
        out,
        "<g transform=\"translate({x} 0)\">\n<text x=\"{LEFT}\" y=\"20\">{title}</text>"
    )?;
    writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"black\"/>"
    )?;
    for (place, block) in blocks.iter().enumerate() {
        let (x, y) = (at_x(place), TOP + HEIGHT + 18.0);
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{block}</text>")?;
    }
    let (middle, below) = (LEFT + WIDTH / 2.0, TOP + HEIGHT + 40.0);
    writeln!(
        out,
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">side of a block</text>"
    )?;
    for tick in ticks(low, high) {
        let (y, end) = (at_y(tick), LEFT + WIDTH);
        writeln!(out, "<path d=\"M{LEFT} {y:.1}H{end}\" stroke=\"#dddddd\"/>")?;
        let (x, y) = (LEFT - 6.0, y + 4.0);
        writeln!(out, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{tick}</text>")?;
    }
    for (n, line) in lines.iter().enumerate() {
        let colour = line.colour;
        let points: Vec<String> =
            line.points.iter().map(|(x, s)| format!("{:.1},{:.1}", at_x(*x), at_y(*s))).collect();
        let dash = if line.dashed { " stroke-dasharray=\"6 3\"" } else { "" };
        let style = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}");
        writeln!(out, "<polyline points=\"{}\" {style}/>", points.join(" "))?;
        for (x, seconds) in line.points.iter().filter(|_| !line.dashed) {
            writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                at_x(*x),
                at_y(*seconds)
            )?;
        }
        let (x, y) = (LEFT + WIDTH + 15.0, TOP + 10.0 + 20.0 * n as f64);
        writeln!(out, "<path d=\"M{x} {y}h24\" {style}/>")?;
        writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", x + 30.0, y + 4.0, line.name)?;
    }
    writeln!(out, "</g>")
}

/// Returns 1, 2 and 5 times powers of ten between two logarithms.
fn ticks(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let powers = low.floor() as i32..=high.ceil() as i32;
    let all = powers.flat_map(|power| {
        // A negative power of ten is not exact; its reciprocal, rounded once, prints without an
        // error.
        let ten = 10_f64.powi(power.abs());
        [1.0, 2.0, 5.0].map(|digit| if power < 0 { digit / ten } else { digit * ten })
    });
    all.filter(move |tick| (low..=high).contains(&tick.log10()))
}

//! Drawings for browsers and papers.
//!
//! Links lie under the marks: an arrow from the home of each task (its square) to each of its other
//! requests, bent upwards so that it passes between the rows. The lines of a deadlock lie above the
//! marks.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;

use super::{Labels, Picture, Spot, letters, lines, printable, shortened, task_of};
use crate::raw::AccessMode;
use crate::snapshot::TaskState;

/// Lengths in pixels: half a mark, and the distances between columns and between rows.
const HALF: f64 = 17.0;
const COLUMN: f64 = 64.0;
const ROW: f64 = 60.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 46.0;
/// The approximate height of a line of text, and width of a character.
const LINE: f64 = 17.0;
const CHARACTER: f64 = 6.2;
/// The least width of a drawing: its legend must fit.
const NARROWEST: f64 = 600.0;
/// The greatest length in characters of a task name in its marks, and of a location name.
const LONGEST: usize = 7;
const LONGEST_LOCATION: usize = 24;

const STYLE: &str = "\
text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#000}
.request text{text-anchor:middle}
.request>*,.sample>*{stroke:#000;stroke-width:1.2;stroke-dasharray:4 2.5}
.granted>*{stroke-width:2.6;stroke-dasharray:none}
.plain>*{stroke-dasharray:none}
.request>text,.sample>text{stroke:none}
.active{fill:#f4f4f4}.partly{fill:#bcbcbc}.delayed{fill:#666}.handle{fill:#fff}
.request .light{fill:#fff}
.request .small{font-size:8px}
.deadlocked>rect,.deadlocked>circle{stroke:#c00000}
.link{fill:none;stroke:#333;stroke-width:1.1}
.waits{stroke:#8a8a8a;stroke-dasharray:4 3}
.deadlock{fill:none;stroke:#c00000;stroke-width:2.4}
.red{fill:#c00000}
.axis{fill:none;stroke:#000;stroke-width:1.2}
.guide{stroke:#e4e4e4}
.rank{fill:#666;text-anchor:end}
";

pub(super) struct Svg<'p> {
    picture: &'p Picture<'p>,
    labels: Labels,
    /// The length of the longest queue, at least 1.
    rows: usize,
    width: f64,
    /// Whether the names of the locations are slanted, as they are too long to stand side by side.
    slanted: bool,
    /// The height that the names take.
    names: f64,
}

impl<'p> Svg<'p> {
    pub(super) fn new(picture: &'p Picture<'p>) -> Self {
        let snapshot = picture.snapshot;
        let plain = |c: char| !c.is_control() && !c.is_whitespace();
        let labels = Labels::new(snapshot.tasks.iter().map(|t| &t.name), LONGEST, plain, letters);
        let rows = snapshot.locations.iter().map(|l| l.queue.len()).max().unwrap_or(0).max(1);
        let longest = snapshot.locations.iter().map(|l| l.name.chars().count()).max().unwrap_or(0);
        let slanted = longest > 9;
        let names = if slanted {
            0.65 * CHARACTER * longest.min(LONGEST_LOCATION) as f64 + 18.0
        } else {
            22.0
        };
        let width = (LEFT + COLUMN * snapshot.locations.len() as f64 + 30.0).max(NARROWEST);
        Svg { picture, labels, rows, width, slanted, names }
    }

    /// Returns the y coordinate of the line on which the queues stand.
    fn base(&self) -> f64 {
        TOP + ROW * self.rows as f64
    }

    fn at(&self, (location, place): Spot) -> (f64, f64) {
        (LEFT + COLUMN * (location as f64 + 0.5), self.base() - ROW * (place as f64 + 0.5))
    }

    fn axes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locations = &self.picture.snapshot.locations;
        let (base, right) = (self.base(), LEFT + COLUMN * locations.len() as f64);
        for (l, location) in locations.iter().enumerate() {
            let (x, _) = self.at((l, 0));
            writeln!(f, "<path class=\"guide\" d=\"M{x} {base}V{TOP}\"/>")?;
            let name = escaped(&shortened(&location.name, LONGEST_LOCATION));
            let title = escaped(&printable(&location.name));
            let y = base + 18.0;
            let place = if self.slanted {
                format!(
                    "text-anchor=\"end\" transform=\"translate({:.1} {y:.1}) rotate(-40)\"",
                    x + 6.0
                )
            } else {
                format!("text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\"")
            };
            writeln!(f, "<text {place}><title>{title}</title>{name}</text>")?;
        }
        for rank in 0..self.rows {
            let (_, y) = self.at((0, rank));
            writeln!(
                f,
                "<text class=\"rank\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                rank + 1
            )?;
        }
        let x = LEFT - 2.0;
        writeln!(
            f,
            "<path class=\"axis\" marker-end=\"url(#arrow)\" d=\"M{x} {base}V{:.1}\"/>",
            TOP - 12.0
        )?;
        writeln!(f, "<path class=\"axis\" d=\"M{x} {base}H{right}\"/>")?;
        let middle = base - ROW * self.rows as f64 / 2.0;
        writeln!(
            f,
            "<text text-anchor=\"middle\" transform=\"translate(18 {middle:.1}) rotate(-90)\">FIFO rank</text>"
        )
    }

    /// Draws an arrow between two marks: it leaves and enters by the sides that face each other,
    /// and crosses between the rows, where there are no marks.
    fn arrow(
        &self,
        f: &mut fmt::Formatter<'_>,
        class: &str,
        head: &str,
        from: Spot,
        to: Spot,
    ) -> fmt::Result {
        let ((x1, y1), (x2, y2)) = (self.at(from), self.at(to));
        write!(f, "<path class=\"{class}\" marker-end=\"url(#{head})\" d=\"")?;
        if from.0 == to.0 {
            let (edge, bulge) = (x1 - HALF, x1 - HALF - 20.0);
            let end = edge - 2.0;
            return writeln!(
                f,
                "M{edge:.1} {y1:.1}C{bulge:.1} {y1:.1} {bulge:.1} {y2:.1} {end:.1} {y2:.1}\"/>"
            );
        }
        // Arrows to the left and to the right cross at an angle.
        let across = if x2 < x1 { 0.35 * ROW } else { 0.55 * ROW };
        // y grows downwards. An arrow within one row passes over the marks between.
        let (out, into, reach) = match y2.total_cmp(&y1) {
            Ordering::Greater => (1.0, -1.0, across),
            Ordering::Less => (-1.0, 1.0, across),
            Ordering::Equal => (-1.0, -1.0, 0.7 * ROW),
        };
        let (start, end) = (y1 + out * HALF, y2 + into * (HALF + 3.0));
        let (c1, c2) = (y1 + out * reach, y2 + into * reach);
        writeln!(f, "M{x1:.1} {start:.1}C{x1:.1} {c1:.1} {x2:.1} {c2:.1} {x2:.1} {end:.1}\"/>")
    }

    /// Draws the arrow from a waiting request to one ahead of it, down the right side of the
    /// column.
    fn wait(&self, f: &mut fmt::Formatter<'_>, waiting: Spot, ahead: Spot) -> fmt::Result {
        let ((x, y1), (_, y2)) = (self.at(waiting), self.at(ahead));
        let (edge, bulge) = (x + HALF + 2.0, x + HALF + 20.0);
        writeln!(
            f,
            "<path class=\"deadlock\" marker-end=\"url(#redarrow)\" \
             d=\"M{edge:.1} {y1:.1}C{bulge:.1} {y1:.1} {bulge:.1} {y2:.1} {:.1} {y2:.1}\"/>",
            edge + 1.0
        )
    }

    fn request(&self, f: &mut fmt::Formatter<'_>, spot: Spot) -> fmt::Result {
        let request = self.picture.request(spot);
        let (x, y) = self.at(spot);
        let task = task_of(request);
        let state = task.map(|t| self.picture.states[t]);
        let granted = if request.granted { " granted" } else { "" };
        let stuck =
            if task.is_some_and(|t| self.picture.stuck.contains(&t)) { " deadlocked" } else { "" };
        let title = escaped(&self.picture.describe(spot));
        write!(
            f,
            "<g class=\"request{granted}{stuck}\" transform=\"translate({x:.1} {y:.1})\"><title>{title}</title>"
        )?;
        mark(f, request.kind, fill(state), task.is_none(), HALF)?;
        if let Some(t) = task {
            self.label(f, t, self.picture.home(t) == Some(spot))?;
        }
        writeln!(f, "</g>")
    }

    /// Draws the name of a task in its mark, and at its home its progress.
    fn label(&self, f: &mut fmt::Formatter<'_>, t: usize, home: bool) -> fmt::Result {
        let (label, task) = (&self.labels.short[t], &self.picture.snapshot.tasks[t]);
        let light = if fill(Some(self.picture.states[t])) == "delayed" { "light" } else { "" };
        let size =
            [12.0, 12.0, 12.0, 12.0, 11.0, 10.0, 9.0, 8.0][label.chars().count().min(LONGEST)];
        let progress = home && self.picture.has_run;
        let y = if progress { -4.0 } else { 0.35 * size };
        write!(
            f,
            "<text class=\"{light}\" style=\"font-size:{size}px\" y=\"{y:.1}\">{}</text>",
            escaped(label)
        )?;
        if progress {
            write!(f, "<text class=\"small {light}\" y=\"5\">#{}</text>", task.iteration)?;
            if let Some(since) = task.since {
                write!(f, "<text class=\"small {light}\" y=\"14\">{since:.1?}</text>")?;
            }
            if task.running {
                // The sign stands outside, at the corner of the mark.
                write!(
                    f,
                    "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">▶</text>",
                    -HALF - 5.0,
                    -HALF + 2.0
                )?;
            }
        }
        Ok(())
    }

    /// Draws the legend: the meaning of the marks.
    fn legend(&self, f: &mut fmt::Formatter<'_>, y: f64) -> fmt::Result {
        use AccessMode::{Exclusive, Inclusive};
        let all = [
            ("exclusive", Exclusive, "handle", "plain"),
            ("inclusive", Inclusive, "handle", "plain"),
            ("granted", Exclusive, "handle", "granted"),
            ("waiting", Exclusive, "handle", ""),
            ("active", Exclusive, "active", "plain"),
            ("partly delayed", Exclusive, "partly", "plain"),
            ("delayed", Exclusive, "delayed", "plain"),
            ("handle", Exclusive, "handle", "plain"),
        ];
        let handles = usize::from(self.picture.has_handles());
        for (n, (name, kind, class, outline)) in all.into_iter().take(7 + handles).enumerate() {
            let x = LEFT + 0.5 * HALF + LEGEND_COLUMN * (n % LEGEND_COLUMNS) as f64;
            let y = y + LEGEND_ROW * (n / LEGEND_COLUMNS) as f64;
            write!(f, "<g class=\"sample {outline}\" transform=\"translate({x:.1} {y:.1})\">")?;
            mark(f, kind, class, name == "handle", 0.5 * HALF)?;
            writeln!(f, "<text x=\"16\" y=\"4\">{name}</text></g>")?;
        }
        Ok(())
    }
}

const LEGEND_ROW: f64 = 26.0;
const LEGEND_COLUMN: f64 = 130.0;
const LEGEND_COLUMNS: usize = 4;

/// Lines of text in one colour.
struct Words {
    class: &'static str,
    lines: Vec<String>,
}

impl fmt::Display for Svg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let across = ((self.width - LEFT - 20.0) / CHARACTER) as usize;
        let words = self.sentences(across);
        let legend = self.base() + self.names + 30.0;
        let said = words.iter().map(|w| LINE * w.lines.len() as f64 + 6.0).sum::<f64>();
        let height = legend + 2.0 * LEGEND_ROW + said;
        let width = self.width;
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\">"
        )?;
        writeln!(f, "<title>{}</title>", escaped(&self.picture.caption()))?;
        writeln!(f, "<style>\n{STYLE}</style>\n<defs>")?;
        for (id, colour) in [("arrow", "#333"), ("grey", "#8a8a8a"), ("redarrow", "#c00000")] {
            writeln!(
                f,
                "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
                 markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 1L8 4L0 7z\" fill=\"{colour}\"/></marker>"
            )?;
        }
        writeln!(f, "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>")?;
        writeln!(f, "<text x=\"{LEFT}\" y=\"20\">{}</text>", escaped(&self.picture.caption()))?;
        self.axes(f)?;
        let red: HashSet<_> =
            self.picture.stuck_links().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        for (from, to) in self.picture.links().filter(|link| !red.contains(link)) {
            let (class, head) = if self.picture.request(to).granted {
                ("link", "arrow")
            } else {
                ("link waits", "grey")
            };
            self.arrow(f, class, head, from, to)?;
        }
        for (l, location) in self.picture.snapshot.locations.iter().enumerate() {
            (0..location.queue.len()).try_for_each(|place| self.request(f, (l, place)))?;
        }
        for (from, to) in self.picture.stuck_links().filter(|(from, to)| from != to) {
            self.arrow(f, "deadlock", "redarrow", from, to)?;
        }
        self.picture.circle.iter().try_for_each(|wait| self.wait(f, wait.waiting, wait.ahead))?;
        self.legend(f, legend)?;
        let mut y = legend + 2.0 * LEGEND_ROW + 10.0;
        for Words { class, lines } in &words {
            for line in lines {
                writeln!(
                    f,
                    "<text class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\">{}</text>",
                    escaped(line)
                )?;
                y += LINE;
            }
            y += 6.0;
        }
        writeln!(f, "</svg>")
    }
}

impl Svg<'_> {
    /// Returns the sentences below the legend.
    fn sentences(&self, across: usize) -> Vec<Words> {
        let tasks = &self.picture.snapshot.tasks;
        let name = |t: usize| shortened(&tasks[t].name, 60);
        let mut all = Vec::new();
        let mut add = |class, title: &str, mut texts: Vec<String>| {
            if let Some(first) = texts.first_mut() {
                first.insert_str(0, title);
                all.push(Words { class, lines: lines(texts, ", ", across) });
            }
        };
        let deadlock = self.picture.deadlock().into_iter();
        add("red", "Deadlock: ", deadlock.map(|step| shortened(&step, across.max(200))).collect());
        let undrawn = (0..tasks.len()).filter(|&t| self.picture.spots[t].is_empty());
        add(
            "",
            "Without requests: ",
            undrawn.map(|t| format!("{} ({})", name(t), self.picture.states[t])).collect(),
        );
        if self.labels.keyed {
            let key = self
                .labels
                .short
                .iter()
                .enumerate()
                .map(|(t, label)| format!("{label} = {}", name(t)));
            add("", "Tasks: ", key.collect());
        }
        all
    }
}

/// Returns the class that colours a mark.
fn fill(state: Option<TaskState>) -> &'static str {
    match state {
        Some(TaskState::Active) => "active",
        Some(TaskState::PartlyDelayed) => "partly",
        Some(TaskState::Delayed | TaskState::Stopped) => "delayed",
        None => "handle",
    }
}

/// Draws a square or a circle of half-width `half`; for a handle, a diamond with the mark in it.
fn mark(
    f: &mut fmt::Formatter<'_>,
    kind: AccessMode,
    class: &str,
    handle: bool,
    half: f64,
) -> fmt::Result {
    let mut inner = half;
    if handle {
        let reach = 1.2 * half;
        write!(
            f,
            "<path class=\"{class}\" d=\"M0 {reach:.1}L{reach:.1} 0L0 -{reach:.1}L-{reach:.1} 0z\"/>"
        )?;
        inner = 0.4 * half;
    }
    match kind {
        AccessMode::Exclusive => {
            let side = 2.0 * inner;
            write!(
                f,
                "<rect class=\"{class}\" x=\"-{inner:.1}\" y=\"-{inner:.1}\" width=\"{side:.1}\" height=\"{side:.1}\"/>"
            )
        }
        AccessMode::Inclusive => write!(f, "<circle class=\"{class}\" r=\"{inner:.1}\"/>"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

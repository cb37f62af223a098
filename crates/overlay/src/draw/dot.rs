//! Drawings for graphviz.
//!
//! Each location is a cluster, with a node for each request. Invisible edges keep queues upright
//! and locations in their order; edges between clusters join the requests of one task.

use std::collections::HashSet;
use std::fmt;

use super::{Picture, Spot, shortened, task_of};
use crate::raw::AccessMode;
use crate::snapshot::TaskState;

/// The greatest length of a name in characters; the tooltip shows the full name.
const LONGEST: usize = 20;
const RED: &str = "#c00000";

pub(super) struct Dot<'p>(pub(super) &'p Picture<'p>);

impl Dot<'_> {
    fn cluster(&self, f: &mut fmt::Formatter<'_>, location: usize) -> fmt::Result {
        let view = &self.0.snapshot.locations[location];
        writeln!(f, "  subgraph cluster_{location} {{")?;
        writeln!(f, "    label={};", quoted(&shortened(&view.name, LONGEST)))?;
        if view.queue.is_empty() {
            // A cluster without nodes would not be drawn.
            writeln!(f, "    empty_{location} [style=invis, label=\"\"];")?;
        }
        (0..view.queue.len()).try_for_each(|place| self.node(f, (location, place)))?;
        for place in 1..view.queue.len() {
            writeln!(
                f,
                "    {} -> {} [style=invis, weight=100];",
                id((location, place - 1)),
                id((location, place))
            )?;
        }
        writeln!(f, "  }}")
    }

    fn node(&self, f: &mut fmt::Formatter<'_>, spot: Spot) -> fmt::Result {
        let request = self.0.request(spot);
        let task = task_of(request);
        let exclusive = request.kind == AccessMode::Exclusive;
        let (shape, label) = match task {
            Some(t) => {
                let label = shortened(&self.0.snapshot.tasks[t].name, LONGEST);
                let progress = if self.0.has_run && self.0.home(t) == Some(spot) {
                    format!("\n{}", self.0.progress(t).replace(", ", "\n"))
                } else {
                    String::new()
                };
                (if exclusive { "square" } else { "circle" }, format!("{label}{progress}"))
            }
            None => ("diamond", if exclusive { "x" } else { "i" }.to_owned()),
        };
        let (fill, ink) = match task.map(|t| self.0.states[t]) {
            None => ("#ffffff", "black"),
            Some(TaskState::Active) => ("#f2f2f2", "black"),
            Some(TaskState::PartlyDelayed) => ("#b8b8b8", "black"),
            Some(TaskState::Delayed | TaskState::Stopped) => ("#666666", "white"),
        };
        let (width, style) =
            if request.granted { ("2.5", "filled") } else { ("1", "filled,dashed") };
        let colour = if task.is_some_and(|t| self.0.stuck.contains(&t)) { RED } else { "black" };
        writeln!(
            f,
            "    {} [shape={shape}, label={}, tooltip={}, style=\"{style}\", penwidth={width}, fillcolor=\"{fill}\", \
             fontcolor={ink}, color=\"{colour}\"];",
            id(spot),
            quoted(&label),
            quoted(&self.0.describe(spot)),
        )
    }
}

impl fmt::Display for Dot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caption = [
            self.0.caption(),
            "Locations across, FIFO rank up. Squares: exclusive, circles: inclusive, diamonds: handles from outside."
                .to_owned(),
            "Light: active, grey: partly delayed, dark: delayed. Bold outline: granted, dashed: waiting.".to_owned(),
        ];
        let deadlock = self.0.deadlock();
        let deadlock =
            (!deadlock.is_empty()).then(|| format!("Deadlock (red): {}", deadlock.join(",\n")));
        let caption = caption.into_iter().chain(deadlock).collect::<Vec<_>>().join("\n");
        writeln!(f, "digraph overlay {{")?;
        writeln!(
            f,
            "  graph [rankdir=BT, newrank=true, fontname=\"Helvetica\", nodesep=0.15, ranksep=0.3, labelloc=b];"
        )?;
        writeln!(
            f,
            "  node [fontname=\"Helvetica\", fontsize=10, margin=0.02, width=0.5, height=0.5];"
        )?;
        writeln!(f, "  edge [arrowsize=0.6, color=\"#555555\"];")?;
        writeln!(f, "  label={};", quoted(&caption))?;
        let locations = &self.0.snapshot.locations;
        (0..locations.len()).try_for_each(|l| self.cluster(f, l))?;
        // The fronts of the queues side by side, in order.
        let head = |l: usize| {
            if locations[l].queue.is_empty() { format!("empty_{l}") } else { id((l, 0)) }
        };
        let heads: Vec<String> = (0..locations.len()).map(head).collect();
        if !heads.is_empty() {
            writeln!(f, "  {{ rank=same; {} [style=invis]; }}", heads.join(" -> "))?;
        }
        let red: HashSet<_> = self.0.stuck_links().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        for (from, to) in self.0.links().filter(|link| !red.contains(link)) {
            let style = if self.0.request(to).granted { "solid" } else { "dashed" };
            writeln!(f, "  {} -> {} [constraint=false, style={style}];", id(from), id(to))?;
        }
        for (from, to) in self.0.stuck_links().filter(|(from, to)| from != to) {
            writeln!(
                f,
                "  {} -> {} [constraint=false, color=\"{RED}\", penwidth=2];",
                id(from),
                id(to)
            )?;
        }
        for wait in &self.0.circle {
            let (from, to) = (id(wait.waiting), id(wait.ahead));
            writeln!(
                f,
                "  {from} -> {to} [constraint=false, color=\"{RED}\", penwidth=2, style=bold];"
            )?;
        }
        writeln!(f, "}}")
    }
}

fn id((location, place): Spot) -> String {
    format!("r{location}_{place}")
}

/// Returns a text in quotation marks for graphviz: line breaks are kept, entities are not resolved.
fn quoted(text: &str) -> String {
    let text =
        text.replace('&', "&amp;").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}

//! Drawings of snapshots, after the first figure of the papers.
//!
//! ```text
//!   FIFO rank
//!     2  [B]   (A)   [C]        [ ] exclusive   ( ) inclusive
//!     1  [A]---(B)---(C)        lines join the requests of one task
//!       -----------------       the head of each queue is at the bottom
//!         a     b     c         locations
//! ```
//! The three formats show the same picture; each draws every request once.
//!
//! # Costs
//! Time and length are linear in the tasks, locations and requests. The text may be some 30 times
//! longer where one queue is much longer than the others.
//!
//! # Source
//! Figure 1 of the experiments' paper on ordered read-write locks. There, squares are exclusive and
//! circles inclusive requests; active tasks are light and delayed ones dark. Added here: the
//! outline shows which requests are granted; handles from outside; the progress of running tasks; a
//! deadlock in red.

mod dot;
mod svg;
mod text;

pub use crate::snapshot::Format;

use std::collections::HashSet;

use crate::raw::AccessMode;
use crate::snapshot::{RequestOwner, RequestView, Snapshot, TaskState, TaskView};

impl Snapshot {
    /// Draws the queues: locations across, FIFO rank upwards; squares for exclusive and circles for
    /// inclusive requests; active tasks light, delayed ones dark; tasks that wait for each other in
    /// a cycle in red.
    ///
    /// The same snapshot always gives the same text, byte for byte.
    /// ```
    /// use syncline_overlay::AccessMode::{Exclusive, Inclusive};
    /// use syncline_overlay::{Initial, Plan, draw::Format};
    ///
    /// let mut plan = Plan::new();
    /// let (a, b) = (plan.location("a"), plan.location("b"));
    /// plan.task("left", [(a, Exclusive), (b, Inclusive)]);
    /// plan.task("right", [(b, Exclusive), (a, Inclusive)]);
    /// let drawing = plan.check(&Initial::Program)?.draw(Format::Text);
    /// assert!(drawing.contains("2 │ ○right    □right"));
    /// assert!(drawing.contains("1 │ ■left*    ●left*"));
    /// # Ok::<(), syncline_overlay::error::CheckError>(())
    /// ```
    #[must_use]
    pub fn draw(&self, format: Format) -> String {
        let picture = Picture::new(self);
        match format {
            Format::Text => text::Text::new(&picture).to_string(),
            Format::Dot => dot::Dot(&picture).to_string(),
            Format::Svg => svg::Svg::new(&picture).to_string(),
        }
    }
}

/// A request, by location and position in its queue.
type Spot = (usize, usize);

/// A step of a cycle: the waiting request, and the request ahead of it at the same location.
#[derive(Clone, Copy, Debug)]
struct Wait {
    waiting: Spot,
    ahead: Spot,
}

/// The content that all formats draw.
struct Picture<'s> {
    snapshot: &'s Snapshot,
    states: Vec<TaskState>,
    /// The requests of each task.
    spots: Vec<Vec<Spot>>,
    /// The cycle of tasks that wait for each other; empty without a deadlock.
    circle: Vec<Wait>,
    /// The tasks of the cycle.
    stuck: HashSet<usize>,
    /// Whether the snapshot is of a run in which tasks have begun.
    has_run: bool,
}

impl<'s> Picture<'s> {
    fn new(snapshot: &'s Snapshot) -> Self {
        let mut spots = vec![Vec::new(); snapshot.tasks.len()];
        for (l, location) in snapshot.locations.iter().enumerate() {
            for (place, request) in location.queue.iter().enumerate() {
                if let Some(t) = task_of(request) {
                    spots[t].push((l, place));
                }
            }
        }
        let steps = snapshot.circle().unwrap_or_default();
        let stuck = steps.iter().map(|step| step.0 as usize).collect();
        let wait = |&(task, location, ahead): &(u32, u32, u32)| {
            let queue = &snapshot.locations[location as usize].queue;
            let of = |r: &RequestView, t: u32| task_of(r) == Some(t as usize);
            let waiting = queue.iter().rposition(|r| of(r, task))?;
            let ahead = queue[..waiting].iter().rposition(|r| of(r, ahead))?;
            Some(Wait { waiting: (location as usize, waiting), ahead: (location as usize, ahead) })
        };
        let circle = steps.iter().filter_map(wait).collect();
        let begun = |t: &TaskView| t.iteration > 0 || t.running || t.stopped || t.since.is_some();
        let has_run = snapshot.tasks.iter().any(begun);
        Picture { snapshot, states: snapshot.states(), spots, circle, stuck, has_run }
    }

    /// Returns the home of a task: its first exclusive request, or else its first request.
    fn home(&self, task: usize) -> Option<Spot> {
        let spots = &self.spots[task];
        let exclusive =
            spots.iter().find(|&&spot| self.request(spot).kind == AccessMode::Exclusive);
        exclusive.or(spots.first()).copied()
    }

    fn request(&self, (location, place): Spot) -> &'s RequestView {
        &self.snapshot.locations[location].queue[place]
    }

    /// Returns the links from the home of each task to its other requests.
    fn links(&self) -> impl Iterator<Item = (Spot, Spot)> + '_ {
        (0..self.spots.len()).filter_map(|t| Some((t, self.home(t)?))).flat_map(|(t, home)| {
            self.spots[t].iter().filter(move |&&spot| spot != home).map(move |&spot| (home, spot))
        })
    }

    /// Returns a link for each task of the cycle: from the request that another task waits for to
    /// the request with which it waits itself.
    fn stuck_links(&self) -> impl Iterator<Item = (Spot, Spot)> + '_ {
        let next = self.circle.iter().cycle().skip(1);
        self.circle.iter().zip(next).map(|(step, next)| (step.ahead, next.waiting))
    }

    /// Returns whether any request belongs to a handle from outside.
    fn has_handles(&self) -> bool {
        self.snapshot.locations.iter().flat_map(|l| &l.queue).any(|r| task_of(r).is_none())
    }

    /// Returns the numbers of tasks, locations and requests, and of the tasks in each state.
    fn caption(&self) -> String {
        let requests = self.snapshot.locations.iter().map(|l| l.queue.len()).sum();
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (tasks, locations) = (self.snapshot.tasks.len(), self.snapshot.locations.len());
        let all = [count(tasks, "task"), count(locations, "location"), count(requests, "request")];
        let states =
            self.by_state().into_iter().map(|(state, tasks)| format!("{} {state}", tasks.len()));
        match states.collect::<Vec<_>>().join(", ") {
            states if states.is_empty() => all.join(", "),
            states => format!("{}: {states}", all.join(", ")),
        }
    }

    /// Returns the tasks of each state that occurs.
    fn by_state(&self) -> Vec<(TaskState, Vec<usize>)> {
        let of = |state| (0..self.states.len()).filter(|&t| self.states[t] == state).collect();
        [TaskState::Active, TaskState::PartlyDelayed, TaskState::Delayed, TaskState::Stopped]
            .map(|state| (state, of(state)))
            .into_iter()
            .filter(|(_, tasks): &(_, Vec<usize>)| !tasks.is_empty())
            .collect()
    }

    /// Describes the cycle in words, step by step.
    fn deadlock(&self) -> Vec<String> {
        self.snapshot
            .cycle()
            .unwrap_or_default()
            .iter()
            .map(|wait| printable(&wait.to_string()))
            .collect()
    }

    /// Describes a request in words.
    fn describe(&self, (location, place): Spot) -> String {
        let request = self.request((location, place));
        let kind = if request.kind == AccessMode::Exclusive { "exclusive" } else { "inclusive" };
        let granted = if request.granted { "granted" } else { "waiting" };
        let at = printable(&self.snapshot.locations[location].name);
        let owner = match task_of(request) {
            None => "a handle".to_owned(),
            Some(t) => {
                let task =
                    format!("{}, {}", printable(&self.snapshot.tasks[t].name), self.states[t]);
                if self.has_run { format!("{task}, {}", self.progress(t)) } else { task }
            }
        };
        format!("{owner}: {kind} on {at}, rank {}, {granted}", place + 1)
    }

    /// Describes the progress of a task of a run.
    fn progress(&self, task: usize) -> String {
        let task = &self.snapshot.tasks[task];
        let running = if task.running { ", running" } else { "" };
        let since = task.since.map_or(String::new(), |since| format!(", for {since:.1?}"));
        format!("iteration {}{running}{since}", task.iteration)
    }
}

fn task_of(request: &RequestView) -> Option<usize> {
    match request.who {
        RequestOwner::Task(t) => Some(t.0 as usize),
        RequestOwner::Handle => None,
    }
}

/// Returns a name on one line, without characters that a terminal would interpret or that XML
/// forbids.
fn printable(name: &str) -> String {
    name.replace(|c: char| c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}'), "\u{FFFD}")
}

/// Returns a printable name of at most `most` characters.
fn shortened(name: &str, most: usize) -> String {
    let name = printable(name);
    if name.chars().count() <= most {
        return name;
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

/// Short texts that stand for names in a drawing.
struct Labels {
    short: Vec<String>,
    /// Whether the texts differ from the names, so that the drawing needs a key.
    keyed: bool,
}

impl Labels {
    /// Uses the names themselves if all are different, plain, and at most `most` characters long;
    /// otherwise uses `other` of their numbers.
    fn new<'n>(
        names: impl Iterator<Item = &'n String> + Clone,
        most: usize,
        plain: fn(char) -> bool,
        other: fn(usize) -> String,
    ) -> Self {
        let mut seen = HashSet::new();
        let fits = |name: &String| {
            !name.is_empty() && name.chars().count() <= most && name.chars().all(plain)
        };
        let keyed = !names.clone().all(|name| fits(name) && seen.insert(name));
        let short =
            if keyed { (0..names.count()).map(other).collect() } else { names.cloned().collect() };
        Labels { short, keyed }
    }
}

/// Returns a spreadsheet-style label: A, B, ... Z, AA, AB, ...
fn letters(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'A' + (number % 26) as u8);
        number /= 26;
        if number == 0 {
            break;
        }
        number -= 1;
    }
    letters.iter().rev().map(|&letter| letter as char).collect()
}

/// Joins texts by `between` into lines of at most `width` characters, unless a single text is
/// longer.
fn lines(texts: impl IntoIterator<Item = String>, between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for text in texts {
        let length = text.chars().count() + between.chars().count();
        match lines.last_mut() {
            Some(line) if used + length <= width => {
                line.push_str(between);
                line.push_str(&text);
                used += length;
            }
            _ => {
                used = length;
                lines.push(text);
            }
        }
    }
    lines
}

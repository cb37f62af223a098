//! Steps of overlays: times by iteration and task, progress, the wave over the matrix of blocks.
//!
//! Tasks are the same if they have the same name: a sweep in several passes runs an overlay for
//! each, and a team runs a part of it in each process. The words before the first number of a name
//! are the kind of the task; `wave 3, 7` and `block (3, 7)` have a place in a matrix.
//!
//! A step's wait is the time from the end of the same task's step before (or from the begin of its
//! run) to the begin of this one. It is the wait for grants and for a worker, whichever runner runs
//! the tasks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use syncline_trace::Activity;

use super::Histogram;
use crate::error::ReportError;
use crate::load::{Span, Trace};
use crate::model::{Grid, OverlayGraph, Series, Wave};

/// The most rows and columns of a grid; more iterations or tasks share cells.
const MOST_CELLS: usize = 512;
/// The most steps of which the wave is shown.
const MOST_STEPS: u64 = 300_000;
/// The most tasks of an overlay: a damaged trace may hold any number.
const MOST_TASKS: u32 = 1 << 22;
/// The number of bins of the progress.
const BINS: usize = 500;
/// The most tasks of the drawing of an overlay, and the most steps of each.
const DRAWN_TASKS: usize = 24;
const DRAWN_STEPS: usize = 200;

/// Steps of all kinds of tasks.
#[derive(Debug)]
pub(crate) struct StepCollector {
    /// The kinds, in the order of the first task.
    pub(crate) kinds: Vec<Kind>,
    /// The kind and the column of each process's tasks.
    columns: HashMap<(usize, u32), (usize, usize)>,
    /// Runs of overlays, by process and first task.
    runs: BTreeMap<(usize, u32), Run>,
    ends: HashMap<(usize, u32), u64>,
    /// Waits for the disk of each thread, since its last step.
    disk: Vec<u64>,
    bin: u64,
    /// The overlay of which the first tasks are drawn: process and first task.
    drawn: Option<(usize, u32)>,
    drawn_steps: Vec<Vec<(f64, f64)>>,
}

/// A run of an overlay.
#[derive(Clone, Copy, Debug)]
struct Run {
    begin: u64,
    end: u64,
    iterations: u64,
    /// The iterations of earlier runs.
    before: u64,
}

/// The tasks of a kind.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    /// The names of the tasks, in the order of their numbers.
    pub(crate) tasks: Vec<String>,
    numbers: Vec<Vec<u32>>,
    stride: (usize, u64),
    cells: Vec<Vec<Cell>>,
    /// Steps by thread: without the waits inside, and without those for other threads.
    pub(crate) lanes: BTreeMap<usize, [Histogram; 2]>,
    /// Work by task, and the number of steps.
    pub(crate) work: Vec<(u64, u64)>,
    first_begin: Vec<u64>,
    last_end: Vec<u64>,
    progress: Vec<u64>,
    /// Column, iteration of its run, begin and end of all steps, if they are few.
    steps: Option<Vec<(usize, u64, u64, u64)>>,
    ring: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    work: u64,
    wait: u64,
    count: u64,
    begin: u64,
}

impl StepCollector {
    pub(crate) fn new(trace: &Trace) -> Result<StepCollector, ReportError> {
        let runs = runs(trace)?;
        let mut kinds: Vec<Kind> = Vec::new();
        let mut named: BTreeMap<String, Vec<(Vec<u32>, String)>> = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        for (process, id) in tasks(trace, &runs) {
            let (name, numbers) = parse(&task_name(trace, process, id));
            if !named.contains_key(&name) {
                order.push(name.clone());
            }
            named.entry(name).or_default().push((numbers, task_name(trace, process, id)));
        }
        let iterations = runs.values().map(|run| run.before + run.iterations).max().unwrap_or(0);
        let steps: u64 = trace.lanes.iter().map(|lane| lane.spans).sum();
        for name in order {
            let mut tasks = named.remove(&name).unwrap_or_default();
            tasks.sort();
            tasks.dedup();
            let columns = tasks.len().div_ceil(MOST_CELLS).max(1);
            let stride = (columns, iterations.div_ceil(MOST_CELLS as u64).max(1));
            let mut firsts: Vec<u32> =
                tasks.iter().filter_map(|(numbers, _)| numbers.first().copied()).collect();
            firsts.dedup();
            kinds.push(Kind {
                name,
                stride,
                cells: Vec::new(),
                lanes: BTreeMap::new(),
                work: vec![(0, 0); tasks.len()],
                first_begin: vec![u64::MAX; tasks.len()],
                last_end: vec![0; tasks.len()],
                progress: vec![0; BINS],
                steps: (steps <= MOST_STEPS).then(Vec::new),
                ring: firsts.len() as u64,
                numbers: tasks.iter().map(|(numbers, _)| numbers.clone()).collect(),
                tasks: tasks.into_iter().map(|(_, name)| name).collect(),
            });
        }
        let mut columns = HashMap::new();
        for (process, id) in tasks(trace, &runs) {
            let full = task_name(trace, process, id);
            let (name, numbers) = parse(&full);
            let kind = kinds.iter().position(|kind| kind.name == name).unwrap_or(0);
            let column = kinds[kind].column(&numbers, &full);
            columns.insert((process, id), (kind, column));
        }
        let drawn = runs.iter().max_by_key(|(_, run)| run.end - run.begin).map(|(&run, _)| run);
        let bin = trace.length.div_ceil(BINS as u64).max(1);
        let drawn_steps = vec![Vec::new(); DRAWN_TASKS];
        let disk = vec![0; trace.lanes.len()];
        let ends = HashMap::new();
        Ok(StepCollector { kinds, columns, runs, ends, disk, bin, drawn, drawn_steps })
    }

    /// Adds a step; `inside` is the time of waits in it.
    pub(crate) fn take(&mut self, trace: &Trace, span: &Span, inside: u64) {
        if span.activity == Activity::AwaitDisk {
            self.disk[span.lane] += span.length().saturating_sub(inside);
        }
        if span.activity != Activity::Step {
            return;
        }
        let disk = std::mem::take(&mut self.disk[span.lane]).min(inside);
        let process = trace.lanes[span.lane].process;
        let task = (process, span.subject);
        let Some(&(kind, column)) = self.columns.get(&task) else { return };
        let run = self.runs.range(..=task).next_back();
        let Some((&(_, first), run)) = run.filter(|(key, _)| key.0 == process) else { return };
        let iteration = run.before + iteration_of(span);
        let before = self.ends.insert(task, span.until).unwrap_or(run.begin);
        let own = span.length().saturating_sub(inside);
        if self.drawn == Some((process, first))
            && let Some(steps) = self.drawn_steps.get_mut((span.subject - first) as usize)
            && steps.len() < DRAWN_STEPS
        {
            steps.push((span.since as f64 / 1e9, span.until as f64 / 1e9));
        }
        let bin = ((span.until / self.bin) as usize).min(BINS - 1);
        let kind = &mut self.kinds[kind];
        kind.progress[bin] += 1;
        let [without, with_disk] = kind.lanes.entry(span.lane).or_default();
        without.add(own);
        with_disk.add(own + disk);
        kind.work[column].0 += own;
        kind.work[column].1 += 1;
        kind.first_begin[column] = kind.first_begin[column].min(span.since);
        kind.last_end[column] = kind.last_end[column].max(span.until);
        if let Some(steps) = &mut kind.steps {
            steps.push((column, iteration_of(span), span.since, span.until));
        }
        let cell = kind.cell(iteration, column);
        cell.work += span.length();
        cell.wait += span.since.saturating_sub(before);
        cell.count += 1;
        cell.begin = cell.begin.min(span.since);
    }

    /// Returns the grids of all kinds, those with the most work first.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        self.by_work().map(Kind::grid).collect()
    }

    fn by_work(&self) -> impl Iterator<Item = &Kind> {
        let mut kinds: Vec<&Kind> = self.kinds.iter().filter(|kind| kind.steps() > 0).collect();
        kinds.sort_by_key(|kind| Reverse(kind.work.iter().map(|work| work.0).sum::<u64>()));
        kinds.into_iter()
    }

    /// Returns how many steps of each kind were complete when.
    pub(crate) fn progress(&self) -> Vec<Series> {
        let bin = self.bin as f64 / 1e9;
        let series = |kind: &Kind| {
            let mut sum = 0;
            let points = kind.progress.iter().enumerate().map(|(index, &count)| {
                sum += count;
                ((index + 1) as f64 * bin, sum as f64)
            });
            let points = std::iter::once((0.0, 0.0)).chain(points).collect();
            Series { name: format!("{} steps", kind.name), unit: "steps".into(), points }
        };
        self.by_work().map(series).collect()
    }

    /// Returns the wave of the kind with the most work that has places in a matrix. Kinds with a
    /// comma between their numbers come first: those of others, as in `sum 1 5`, may not be places.
    pub(crate) fn wave(&self, trace: &Trace) -> Option<Wave> {
        let streamed = trace.fact("sweep.executor") == Some("streamed");
        let with_comma = self.by_work().filter(|kind| kind.tasks.iter().all(|t| has_comma(t)));
        with_comma.chain(self.by_work()).find_map(|kind| kind.wave(streamed))
    }

    /// Returns the drawing of the first tasks of the longest run.
    pub(crate) fn overlay(&self, trace: &Trace) -> Option<OverlayGraph> {
        let (index, first) = self.drawn?;
        let process = &trace.processes[index];
        let &(_, count) = process.overlays.iter().find(|overlay| overlay.0 == first)?;
        let shown = (count as usize).min(DRAWN_TASKS) as u32;
        let of_run = |task: u32| task.checked_sub(first).is_some_and(|task| task < count);
        let accesses: Vec<_> = process.accesses.iter().filter(|access| of_run(access.0)).collect();
        let mut all: Vec<u32> = accesses.iter().map(|access| access.1).collect();
        all.sort_unstable();
        all.dedup();
        let near = accesses.iter().filter(|access| access.0 - first < shown);
        let mut locations: Vec<u32> = near.clone().map(|access| access.1).collect();
        locations.sort_unstable();
        locations.dedup();
        let requests = near.filter_map(|access| {
            let location = locations.binary_search(&access.1).ok()? as u32;
            Some((access.0 - first, location, access.2))
        });
        let name = |&id: &u32| trace.object(index, Activity::AwaitLocation, id, 0);
        Some(OverlayGraph {
            requests: requests.collect(),
            tasks: (first..first + shown).map(|id| task_name(trace, index, id)).collect(),
            locations: locations.iter().map(name).collect(),
            steps: self.drawn_steps[..shown as usize].to_vec(),
            all: (count, all.len() as u32),
        })
    }
}

impl Kind {
    /// Returns the number of steps.
    pub(crate) fn steps(&self) -> u64 {
        self.work.iter().map(|work| work.1).sum()
    }

    /// Returns the times between which all tasks were under way: the end of loading, the begin of
    /// the flush.
    pub(crate) fn stable(&self) -> (u64, u64) {
        let ran = |&&time: &&u64| time != u64::MAX && time != 0;
        let loaded = self.first_begin.iter().filter(ran).max().copied().unwrap_or(0);
        let flush = self.last_end.iter().filter(ran).min().copied().unwrap_or(u64::MAX);
        (loaded, flush)
    }

    /// Returns the column of a task: columns are sorted by numbers, then by name.
    fn column(&self, numbers: &[u32], name: &str) -> usize {
        let mut range = 0..self.tasks.len();
        while range.len() > 1 {
            let middle = range.start + range.len() / 2;
            if (self.numbers[middle].as_slice(), self.tasks[middle].as_str()) <= (numbers, name) {
                range.start = middle;
            } else {
                range.end = middle;
            }
        }
        range.start
    }

    fn cell(&mut self, iteration: u64, column: usize) -> &mut Cell {
        const NONE: Cell = Cell { work: 0, wait: 0, count: 0, begin: u64::MAX };
        let row = ((iteration / self.stride.1) as usize).min(2 * MOST_CELLS);
        let columns = self.tasks.len().div_ceil(self.stride.0);
        if self.cells.len() <= row {
            self.cells.resize(row + 1, vec![NONE; columns]);
        }
        &mut self.cells[row][column / self.stride.0]
    }

    fn grid(&self) -> Grid {
        let (loaded, flush) = self.stable();
        let phase = |cell: &Cell| match cell.begin {
            begin if begin < loaded => 0,
            begin if begin >= flush => 2,
            _ => 1,
        };
        let mean = |cell: &Cell, sum: u64| match cell.count {
            0 => -1.0,
            count => sum as f64 / count as f64 / 1e9,
        };
        // Runs of other tasks may precede the first one of these.
        let is_empty = |row: &&Vec<Cell>| row.iter().all(|cell| cell.count == 0);
        let cells = &self.cells[self.cells.iter().take_while(is_empty).count()..];
        let rows = |value: &dyn Fn(&Cell) -> f64| -> Vec<Vec<f64>> {
            cells.iter().map(|row| row.iter().map(value).collect()).collect()
        };
        let mut sums = [(0, 0); 3];
        for cell in cells.iter().flatten().filter(|cell| cell.count > 0) {
            let sum: &mut (u64, u64) = &mut sums[usize::from(phase(cell))];
            *sum = (sum.0 + cell.work, sum.1 + cell.wait);
        }
        let ratio =
            |(work, wait): (u64, u64)| if work == 0 { 0.0 } else { wait as f64 / work as f64 };
        let tasks = self.tasks.chunks(self.stride.0).map(|tasks| match tasks {
            [first, .., last] => format!("{first} to {last}"),
            tasks => tasks.concat(),
        });
        Grid {
            name: self.name.clone(),
            tasks: tasks.collect(),
            first: 0,
            stride: self.stride.1,
            work: rows(&|cell| mean(cell, cell.work)),
            wait: rows(&|cell| mean(cell, cell.wait)),
            phase: cells.iter().map(|row| row.iter().map(phase).collect()).collect(),
            ratio: ratio(sums.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))),
            ratios: sums.map(ratio),
        }
    }

    fn wave(&self, streamed: bool) -> Option<Wave> {
        let steps = self.steps.as_ref()?;
        // Ranks of a team have columns of their own, one rank beside the other.
        let mut widths: BTreeMap<u32, u64> = BTreeMap::new();
        let rank = |numbers: &[u32]| numbers.get(2).copied().unwrap_or(0);
        for numbers in self.numbers.iter().filter(|numbers| numbers.len() > 1) {
            let width = widths.entry(rank(numbers)).or_default();
            *width = (*width).max(u64::from(numbers[1]) + 1);
        }
        let before = |own: u32| widths.range(..own).map(|(_, width)| width).sum::<u64>();
        let place = |column: usize, iteration: u64| -> Option<(u64, u64)> {
            let numbers = &self.numbers[column][..];
            let &[row, col, ..] = numbers else { return None };
            // Streamed: a slot of the ring holds another panel in every turn.
            let row = u64::from(row) + if streamed { iteration * self.ring } else { 0 };
            Some((row, before(rank(numbers)) + u64::from(col)))
        };
        let places: Option<Vec<_>> = steps.iter().map(|&(c, i, ..)| place(c, i)).collect();
        let places = places.filter(|places| !places.is_empty())?;
        let rows = 1 + places.iter().map(|place| place.0).max()?;
        let cols = 1 + places.iter().map(|place| place.1).max()?;
        if rows * cols > MOST_STEPS {
            return None;
        }
        let mut blocks = vec![Vec::new(); (rows * cols) as usize];
        for (&(row, col), &(_, _, since, until)) in places.iter().zip(steps) {
            blocks[(row * cols + col) as usize].push((since as f64 / 1e9, until as f64 / 1e9));
        }
        blocks.iter_mut().for_each(|steps| steps.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let unit = if streamed { "pass" } else { "iteration" };
        Some(Wave { rows: rows as u32, cols: cols as u32, unit: unit.into(), steps: blocks })
    }
}

/// Returns the tasks that have executed steps, by process and number.
fn tasks(trace: &Trace, runs: &BTreeMap<(usize, u32), Run>) -> Vec<(usize, u32)> {
    let mut all = Vec::new();
    for &(process, first) in runs.keys() {
        let overlay = trace.processes[process].overlays.iter().find(|overlay| overlay.0 == first);
        let count = overlay.map_or(1, |overlay| overlay.1).min(MOST_TASKS);
        all.extend((first..first.saturating_add(count)).map(|id| (process, id)));
    }
    all
}

/// Returns the iteration of a step within its run.
fn iteration_of(span: &Span) -> u64 {
    // So that sums of a damaged trace's numbers do not overflow.
    span.detail.min(u64::MAX >> 16)
}

fn task_name(trace: &Trace, process: usize, id: u32) -> String {
    match trace.processes[process].tasks.get(&id) {
        Some(task) => task.name.clone(),
        None => format!("task {id}"),
    }
}

/// Returns the words before the first number of a task's name, and all of its numbers.
fn parse(name: &str) -> (String, Vec<u32>) {
    let digit = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let kind = name[..digit].trim_end_matches(|c: char| !c.is_alphanumeric());
    let numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    (if kind.is_empty() { "task" } else { kind }.to_owned(), numbers.collect())
}

/// Returns whether a comma follows the first number of a task's name.
fn has_comma(name: &str) -> bool {
    let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    number.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(',')
}

/// Returns the runs of overlays that have executed steps. A run continues the iterations of those
/// that had ended before it began, in the same process.
fn runs(trace: &Trace) -> Result<BTreeMap<(usize, u32), Run>, ReportError> {
    let mut runs: BTreeMap<(usize, u32), Run> = BTreeMap::new();
    let starts: Vec<Vec<u32>> = trace
        .processes
        .iter()
        .map(|process| {
            let mut starts: Vec<u32> = process.overlays.iter().map(|overlay| overlay.0).collect();
            starts.sort_unstable();
            starts
        })
        .collect();
    trace.for_each(&mut |span| {
        if span.activity != Activity::Step {
            return;
        }
        let process = trace.lanes[span.lane].process;
        let after = starts[process].partition_point(|&first| first <= span.subject);
        // A task without a note is a run of its own.
        let first = after.checked_sub(1).map_or(span.subject, |index| starts[process][index]);
        let run = runs.entry((process, first)).or_insert(Run {
            begin: span.since,
            end: span.until,
            iterations: 0,
            before: 0,
        });
        run.begin = run.begin.min(span.since);
        run.end = run.end.max(span.until);
        run.iterations = run.iterations.max(iteration_of(span) + 1);
    })?;
    for process in 0..trace.processes.len() {
        let of_process = runs.range((process, 0)..=(process, u32::MAX));
        let mut order: Vec<((usize, u32), Run)> =
            of_process.map(|(&key, &run)| (key, run)).collect();
        order.sort_by_key(|(_, run)| run.begin);
        let mut ended: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut before = 0;
        for (key, run) in order {
            while ended.peek().is_some_and(|Reverse((end, _))| *end <= run.begin) {
                before = before.max(ended.pop().map_or(0, |Reverse((_, after))| after));
            }
            ended.push(Reverse((run.end, before + run.iterations)));
            if let Some(run) = runs.get_mut(&key) {
                run.before = before;
            }
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_kind_and_numbers() {
        assert_eq!(parse("block (3, 14)"), ("block".into(), vec![3, 14]));
        assert_eq!(parse("wave 3, 7 of rank 2"), ("wave".into(), vec![3, 7, 2]));
        assert_eq!(parse("left"), ("left".into(), vec![]));
        assert_eq!(parse("7"), ("task".into(), vec![7]));
        assert_eq!(parse("99999999999 x"), ("task".into(), vec![]));
    }
}

//! Fig. 1, a sample overlay, and Fig. 2, the update of an element and the wave.

use std::collections::HashMap;

use syncline_overlay::AccessMode::{self, Exclusive, Inclusive};
use syncline_overlay::plan::Task;
use syncline_overlay::snapshot::{Format, RequestOwner, TaskState};
use syncline_overlay::{Initial, Location, Overlay, Plan, Runner, Snapshot, Stop};
use syncline_wave::PointKernel as _;
use syncline_wave::kernels::Lk23;

use crate::error::{Result, failed};
use crate::plot::{Drawing, Figure, Grid, Panel, Shape};
use crate::reproduce::lab::Lab;
use crate::reproduce::outcome::{Claim, Outcome, Table};

/// The five tasks of the paper's figure.
fn sample() -> Result<(Vec<Task>, Snapshot)> {
    let mut plan = Plan::new();
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|name| plan.location(name));
    plan.task("light", [(a, Exclusive), (b, Inclusive)]);
    plan.task("dark", [(e, Exclusive), (d, Inclusive), (a, Inclusive)]);
    plan.task("white", [(c, Exclusive), (b, Inclusive), (d, Inclusive), (e, Inclusive)]);
    plan.task("fourth", [(b, Exclusive), (a, Inclusive)]);
    plan.task("fifth", [(d, Exclusive), (b, Inclusive)]);
    let snapshot = plan.check(&Initial::Program);
    let snapshot = snapshot.map_err(|why| failed("check the sample overlay", why))?;
    Ok((plan.tasks().collect(), snapshot))
}

/// Returns the brightness of a task: light if it is active, dark if it is delayed.
fn light(state: TaskState) -> f64 {
    match state {
        TaskState::Active => 0.88,
        TaskState::PartlyDelayed => 0.6,
        _ => 0.35,
    }
}

/// Draws the queues of a snapshot: squares are exclusive and circles inclusive requests.
fn picture(tasks: &[Task], snapshot: &Snapshot) -> Drawing {
    let states = snapshot.states();
    let (across, up, left) = (4.2, 2.2, 3.4);
    let ranks = snapshot.locations.iter().map(|location| location.queue.len()).max().unwrap_or(1);
    let height = up * ranks as f64 + 2.0;
    let at = |l: usize, rank: usize| (left + across * l as f64, height - 2.2 - up * rank as f64);
    let mut homes = HashMap::new();
    let mut requests = Vec::new();
    for (l, location) in snapshot.locations.iter().enumerate() {
        for (rank, request) in location.queue.iter().enumerate() {
            let RequestOwner::Task(task) = request.who else { continue };
            let Some(t) = tasks.iter().position(|&other| other == task) else { continue };
            if request.kind == Exclusive {
                homes.insert(t, at(l, rank));
            }
            requests.push((t, at(l, rank), request.kind));
        }
    }
    let width = left + across * snapshot.locations.len() as f64;
    let mut drawing = Drawing::new(
        "squares: exclusive; circles: inclusive; light: active; dark: delayed",
        width,
        height,
    );
    let base = height - 0.9;
    drawing = drawing.with(Shape::line((left - 1.6, base), (width - 1.0, base), false));
    drawing = drawing.with(Shape::words((0.0, base + 0.7), "location"));
    drawing = drawing.with(Shape::words((0.0, 0.4), "rank"));
    for rank in 0..ranks {
        drawing = drawing.with(Shape::words((0.4, at(0, rank).1), (rank + 1).to_string()));
    }
    for (l, location) in snapshot.locations.iter().enumerate() {
        drawing = drawing.with(Shape::centred((at(l, 0).0, base + 0.7), location.name.clone()));
    }
    for &(t, to, _) in requests.iter().filter(|request| request.2 == Inclusive) {
        if let Some(&from) = homes.get(&t) {
            let (dx, dy): (f64, f64) = (to.0 - from.0, to.1 - from.1);
            let part = 1.0 - 0.95 / dx.hypot(dy).max(1.0);
            let end = (from.0 + dx * part, from.1 + dy * part);
            drawing = drawing.with(Shape::arrow(from, end, "", false));
        }
    }
    for (t, at, kind) in requests {
        let (text, light) = (name(snapshot, t), light(states[t]));
        drawing = drawing.with(match kind {
            AccessMode::Exclusive => {
                Shape::boxed((at.0 - 1.15, at.1 - 0.65), (2.3, 1.3), text, light)
            }
            AccessMode::Inclusive => Shape::circle(at, 0.95, text, light),
        });
    }
    drawing
}

fn name(snapshot: &Snapshot, task: usize) -> String {
    snapshot.tasks[task].name.clone()
}

/// O12: a sample overlay.
pub(in crate::reproduce) fn overlay(_: &Lab) -> Result<Outcome> {
    let (tasks, snapshot) = sample()?;
    let states = snapshot.states();
    let active: Vec<_> = (0..states.len())
        .filter(|&t| states[t] == TaskState::Active)
        .map(|t| name(&snapshot, t))
        .collect();
    let mut table = Table::new("tasks", ["task", "state"]);
    for (t, state) in states.iter().enumerate() {
        table.row([name(&snapshot, t).into(), state.to_string().into()]);
    }
    let heads = snapshot
        .locations
        .iter()
        .filter(|l| l.queue.first().is_some_and(|r| r.kind == Exclusive))
        .count();
    let claim = Claim::new(
        "five tasks, three of which hold their exclusive request, and one active task, the \
         light one",
        format!(
            "{} tasks, {heads} of which hold theirs, and active: {}",
            states.len(),
            active.join(", ")
        ),
        states.len() == 5 && heads == 3 && active == ["light"],
    );
    let mut outcome = Outcome::default()
        .claim(claim)
        .note(
            "drawn from the queues of a checked plan; overlay.svg and overlay.txt are the \
             product's own drawings of it",
        )
        .table(table)
        .figure(Figure::of(
            "ORWL, Fig. 1: sample overlay",
            Panel::Drawing(picture(&tasks, &snapshot)),
        ));
    outcome.files = vec![
        ("overlay.svg".to_owned(), snapshot.draw(Format::Svg)),
        ("overlay.txt".to_owned(), snapshot.draw(Format::Text)),
    ];
    Ok(outcome)
}

/// Runs an overlay of blocks, each of which reads its neighbours; returns for each iteration and
/// block the length of the longest chain of steps that it had to wait for, with itself.
fn clocks(along: usize, iterations: u64, initial: Initial) -> Result<Vec<Vec<u64>>> {
    let at = |row: usize, col: usize| row * along + col;
    let blocks: Vec<Location<u64>> =
        (0..along * along).map(|n| Location::new(format!("block {n}"), 0)).collect();
    let log = std::sync::Mutex::new(vec![vec![0; along * along]; iterations as usize]);
    let mut overlay = Overlay::new();
    for row in 0..along {
        for col in 0..along {
            let read = |there: bool, n: usize| there.then(|| blocks[n].read());
            let around = [
                read(row > 0, at(row.saturating_sub(1), col)),
                read(col > 0, at(row, col.saturating_sub(1))),
                read(col + 1 < along, at(row, (col + 1).min(along - 1))),
                read(row + 1 < along, at((row + 1).min(along - 1), col)),
            ];
            let (own, log) = (at(row, col), &log);
            overlay.task(
                format!("task {own}"),
                (blocks[own].write(), around),
                move |(clock, around), step| {
                    let latest = around.iter().flatten().map(|clock| **clock).max().unwrap_or(0);
                    *clock = 1 + latest.max(*clock);
                    let mut log = log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    log[step.iteration() as usize][own] = *clock;
                },
            );
        }
    }
    let failed = |why: String| failed("run the overlay of a wave", why);
    let mut overlay = overlay.check(initial).map_err(|why| failed(why.to_string()))?;
    overlay.run(Runner::pool(2), Stop::after(iterations)).map_err(|why| failed(why.to_string()))?;
    drop(overlay);
    Ok(log.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Draws the update of an element: its neighbours, and their coefficients.
fn element() -> Drawing {
    let [south, north, east, west, rest] = Lk23::COEFFICIENTS;
    let stencil = Lk23::STENCIL;
    let (x, y) = (9.0, 5.4);
    let cell = |dx: f64, dy: f64, text: &str, light: f64| {
        Shape::boxed((x + 4.6 * dx - 1.8, y + 2.6 * dy - 0.9), (3.6, 1.8), text, light)
    };
    let mut drawing = Drawing::new("the update of element (i, j)", 19.0, 12.6);
    let around = [
        (0.0, -1.0, "za[i-1][j]\ndone", north, 0.88),
        (-1.0, 0.0, "za[i][j-1]\ndone", west, 0.88),
        (1.0, 0.0, "za[i][j+1]\nlater", east, 0.4),
        (0.0, 1.0, "za[i+1][j]\nlater", south, 0.4),
    ];
    for (dx, dy, text, coefficient, light) in around {
        let from = (x + 2.7 * dx, y + 1.65 * dy);
        drawing = drawing.with(cell(dx, dy, text, light)).with(Shape::arrow(
            from,
            (x + 1.8 * dx, y + 0.9 * dy),
            "",
            false,
        ));
        let at = (
            x + 2.3 * dx + if dx == 0.0 { 0.9 } else { 0.0 },
            y + 1.3 * dy - if dy == 0.0 { 0.6 } else { 0.0 },
        );
        drawing = drawing.with(Shape::centred(at, coefficient));
    }
    let names = stencil.neighbours().map(|n| format!("{n:?}").to_lowercase()).collect::<Vec<_>>();
    drawing
        .with(cell(0.0, 0.0, "za[i][j]", 1.0))
        .with(Shape::words(
            (0.0, 10.2),
            format!("1. the products of neighbours and coefficients; 2. their sum with {rest};"),
        ))
        .with(Shape::words(
            (0.0, 11.0),
            "3. minus the element; 4. times 0.175; 5. added to the element",
        ))
        .with(Shape::words((0.0, 11.9), format!("neighbours of the kernel: {}", names.join(", "))))
}

/// O19: the update of an element, and the wave.
pub(in crate::reproduce) fn kernel_and_wave(lab: &Lab) -> Result<Outcome> {
    let along = lab.scale.pick(4, 8, 8);
    let wave = clocks(along, 3, Initial::Wave)?;
    let most = clocks(along, 3, Initial::MaxParallel)?;
    let square = |clocks: &[u64]| -> Vec<Vec<f64>> {
        clocks.chunks(along).map(|row| row.iter().map(|&c| c as f64).collect()).collect()
    };
    let mut panels = vec![Panel::Drawing(element())];
    for (start, all) in [("wave", &wave), ("maximal parallelism", &most)] {
        let title = format!("step of each block in iteration 1, start: {start}");
        panels.push(Panel::Grid(
            Grid::new(title, ["column of blocks", "row of blocks", "step"], square(&all[0]))
                .downwards(),
        ));
    }
    let mut table = Table::new("steps", ["start", "iteration", "row", "column", "step"]);
    for (start, all) in [("wave", &wave), ("maximal parallelism", &most)] {
        for (iteration, clocks) in all.iter().enumerate() {
            for (n, clock) in clocks.iter().enumerate() {
                table.row([
                    start.into(),
                    iteration.into(),
                    (n / along).into(),
                    (n % along).into(),
                    (*clock).into(),
                ]);
            }
        }
    }
    let diagonal = |n: usize| (n / along + n % along + 1) as u64;
    let right = wave[0].iter().enumerate().filter(|&(n, &clock)| clock == diagonal(n)).count();
    let colours = most[0].iter().max().copied().unwrap_or(0);
    let chained = wave[1].first().copied().unwrap_or(0);
    Ok(Outcome::default()
        .claim(Claim::new(
            "elements on the same anti-diagonal computed in parallel, in a wave from the upper \
             left to the lower right",
            format!("{right} of {} blocks run in the step of their anti-diagonal", along * along),
            right == along * along,
        ))
        .claim(Claim::beside(
            "a start with the maximal degree of parallelism",
            format!(
                "such a start updates all blocks in {colours} steps, the wave in {}; its \
                 next iteration begins in step {chained}",
                wave[0].iter().max().copied().unwrap_or(0)
            ),
        ))
        .note(
            "steps are counted by the tasks of a real overlay: one more than the latest step \
             of the blocks that a task reads. The element's update is a drawing; the book's \
             page blocked-sweep describes it",
        )
        .table(table)
        .figure(Figure {
            title: "ORWL, Fig. 2: Livermore kernel 23".to_owned(),
            columns: 3,
            panels,
        }))
}

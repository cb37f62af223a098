//! The tables of the race.

use super::{Job, MEAN, Race, SIDE, WIDTH};
use crate::race::{self, Column, Results, Side, Table, figure, ratio};

/// Returns the text to print.
pub(super) fn text(race: &Race, results: &Results<Job>) -> String {
    let mut lines = head(race, results);
    lines.extend(race.crews().into_iter().map(|workers| empty(results, workers).to_string()));
    lines.extend(irregular(race, results));
    lines.push(metg(race, results).to_string());
    lines.extend(efficiencies(race, results).map(|table| table.to_string()));
    lines.join("\n")
}

fn head(race: &Race, results: &Results<Job>) -> Vec<String> {
    let Race { workers, site, kernels, .. } = race;
    let pinned = match site.places.len() {
        0 => "not pinned".to_owned(),
        1 => "pinned to 1 processor".to_owned(),
        places if places < *workers => format!("pinned to {places} processors in turn"),
        _ => "each pinned to a processor".to_owned(),
    };
    let kernels: Vec<_> = kernels.iter().map(|(by, ns)| format!("{by} {ns:.3}")).collect();
    let lines = [
        format!(
            "{}; {workers} workers, {pinned}; {} alternating rounds; ns of wall time per task, after a warm-up",
            race.machine.line(),
            results.rounds
        ),
        format!("an iteration of the loop of bodies, ns: {}", kernels.join("; ")),
    ];
    let skipped = race.skipped.iter().map(ToString::to_string);
    let unpinned = race.unpinned.iter().map(|way| format!("not pinned: {way}"));
    lines.into_iter().chain(skipped).chain(unpinned).collect()
}

fn plural(workers: usize) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

/// Formats cells with their ratios to our best time and to other times.
fn by_ours(
    title: String,
    results: &Results<Job>,
    wanted: impl Fn(&Job) -> bool,
    others: &[(&str, Option<f64>)],
) -> Table {
    let cells = || results.main().filter(|cell| wanted(&cell.key));
    let ours = cells().filter(|cell| cell.side == Side::Ours).map(|cell| cell.spread.median);
    let all = [("/ ours", ours.reduce(f64::min))].into_iter().chain(others.iter().copied());
    type By = Box<dyn Fn(&race::Cell<Job>) -> Option<f64>>;
    let by = |by| -> By { Box::new(move |cell| ratio(Some(cell.spread.median), by)) };
    let columns: Vec<_> = all.map(|(head, time)| (head, by(time))).collect();
    let columns: Vec<Column<'_, Job>> =
        columns.iter().map(|(head, by)| (*head, &**by as _)).collect();
    Table::of(title, cells(), 1.0, |cell| cell.way.clone(), &columns)
}

fn empty(results: &Results<Job>, workers: usize) -> Table {
    let title = format!("empty, grid {SIDE} x {SIDE}, {}", plural(workers));
    by_ours(title, results, |job| job.body == "empty" && job.workers == workers, &[])
}

fn irregular(race: &Race, results: &Results<Job>) -> [String; 2] {
    let workers = race.workers;
    let plain = race.ways.iter().find(|way| !way.keeps_order(2)).map_or("", |way| way.name());
    let wanted = |job: &Job, n| job.body == "irregular" && job.workers == n;
    let without_order = |n| {
        let mut cells = results.main().filter(|cell| cell.way == plain && wanted(&cell.key, n));
        cells.next().map(|cell| cell.spread.median)
    };
    let (alone, free) = (without_order(1), without_order(workers));
    let ideal = alone.map(|alone| alone / workers as f64);
    let title = format!("0 to 2 us, the same grid, {}", plural(workers));
    let others = [("/ ideal", ideal), ("/ no order", free)];
    let table = by_ours(title, results, |job| wanted(job, workers), &others);
    let alone = alone.unwrap_or(f64::NAN);
    let ideal = format!(
        "ideal: the plain loop on one thread / {workers} workers = {:.1} ns; its tasks are {:.3} times their mean by \
         the loop of bodies",
        alone / workers as f64,
        alone / MEAN
    );
    [table.to_string(), ideal]
}

fn metg(race: &Race, results: &Results<Job>) -> Table {
    let programs: Vec<_> = race.programs.iter().map(|program| program.name).collect();
    let title = format!(
        "METG(50 %) in ns, and by the least of ours, {}, patterns of {WIDTH} points",
        plural(race.workers)
    );
    let mut table = Table::new(title, programs.iter().copied());
    for way in race.ordered() {
        let cell = |&program: &&'static str| {
            let ours = race.ordered().filter(|way| way.side() == Side::Ours);
            let ours = ours.filter_map(|way| race.metg(results, program, way.name()));
            let ours = ours.map(|metg| metg.ns()).fold(f64::INFINITY, f64::min);
            let cell = race.metg(results, program, way.name()).map(|metg| {
                let sign = match metg.bound() {
                    "at most" => "<",
                    "more than" => ">",
                    _ => "",
                };
                format!("{sign}{:.0} {:>6.2}", metg.ns(), metg.ns() / ours)
            });
            cell.unwrap_or_default()
        };
        table.row(way.name(), programs.iter().map(cell));
    }
    table
}

fn efficiencies<'a>(race: &'a Race, results: &'a Results<Job>) -> impl Iterator<Item = Table> + 'a {
    race.programs.iter().map(|program| {
        let grains = race.grains.iter().map(|&n| figure(n as f64 * race.ns_per_iteration));
        let mut table = Table::new(format!("{}, % of ideal, by ns", program.name), grains);
        for way in race.ordered() {
            let points = race.points(results, program.name, way.name());
            table.row(
                way.name(),
                points.iter().map(|point| format!("{:.0}", point.efficiency * 100.0)),
            );
        }
        table
    })
}

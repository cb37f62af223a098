//! The tables and curves of `docs/growth.md`.

use std::fmt::Write;

use syncline_rma::unstable::sync_exchange::{Network, best_radix, best_radix_for};

use crate::machine::{L, Machine, in_latencies};
use crate::scheme::{Load, Scheme};
use crate::schemes::{Asking, Fence, Global, Pairwise, Sync, Twice};
use crate::simulation::{Outcome, simulate};

/// The numbers of members in the tables.
const MEMBERS: [usize; 9] = [2, 3, 4, 8, 16, 64, 256, 1024, 4096];

/// Pairs of overhead and gap. The gap is none, or 8 bytes at 1 GB/s with a latency of two
/// microseconds.
const MACHINES: [(f64, f64); 4] = [(0.01, 0.0), (0.1, 0.0), (0.01, 0.004), (0.1, 0.004)];

/// Returns the radix with which a scheme takes the least simulated time, and that outcome.
///
/// Radices that cannot improve on the best are skipped: a member's messages keep its processor busy
/// for at least their overheads.
#[must_use]
pub fn optimum<S: Scheme>(
    machine: Machine,
    load: &Load,
    scheme: impl Fn(usize) -> S,
) -> (usize, Outcome) {
    let mut best = None;
    for radix in 2..=load.members.max(2) {
        let tried = scheme(radix);
        let messages = 2 * tried.messages(load) / load.members.max(1);
        let busy = messages as f64 * (machine.overhead as f64 / L as f64);
        let least = busy.max(tried.rounds(load) as f64);
        if best.as_ref().is_some_and(|(_, best): &(usize, Outcome)| best.time <= least) {
            continue;
        }
        let found = simulate(&tried, machine, load);
        if best.as_ref().is_none_or(|(_, best)| found.time < best.time) {
            best = Some((radix, found));
        }
    }
    best.expect("there is a radix")
}

/// A scheme's column: its heading, and a cell for each machine and number of members.
struct Column {
    head: &'static str,
    cell: fn(Machine, usize) -> Cell,
}

/// The result of a scheme.
struct Cell {
    outcome: Outcome,
    rounds: usize,
    radix: Option<usize>,
}

fn cell(scheme: &dyn Scheme, machine: Machine, load: &Load, radix: Option<usize>) -> Cell {
    Cell { outcome: simulate(scheme, machine, load), rounds: scheme.rounds(load), radix }
}

fn best<S: Scheme>(machine: Machine, load: &Load, scheme: fn(usize) -> S) -> Cell {
    let (radix, outcome) = optimum(machine, load, scheme);
    Cell { outcome, rounds: scheme(radix).rounds(load), radix: Some(radix) }
}

/// Returns the product's choice of radix for a machine with known parameters.
fn known(machine: Machine, members: usize) -> usize {
    let (overhead, gap) = (in_latencies(machine.overhead), in_latencies(machine.gap));
    best_radix_for(members, Network { overhead, gap })
}

fn sync(machine: Machine, members: usize, radix: usize) -> Cell {
    cell(&Sync { radix }, machine, &Load::puts(members), Some(radix))
}

const COLUMNS: [Column; 11] = [
    Column {
        head: "fences one by one + barrier",
        cell: |machine, n| cell(&Asking { window: 1 }, machine, &Load::puts(n), None),
    },
    Column {
        head: "fences, K = 3, + barrier",
        cell: |machine, n| cell(&Asking { window: 3 }, machine, &Load::puts(n), None),
    },
    Column {
        head: "fences at once + barrier",
        cell: |machine, n| cell(&Asking { window: usize::MAX }, machine, &Load::puts(n), None),
    },
    Column {
        head: "the thesis",
        cell: |machine, n| cell(&Pairwise, machine, &Load::puts(n), None),
    },
    Column {
        head: "two exchanges, best",
        cell: |machine, n| best(machine, &Load::puts(n), |radix| Twice { radix }),
    },
    Column {
        head: "`fence_all` + barrier, best",
        cell: |machine, n| best(machine, &Load::puts(n), |radix| Fence { radix }),
    },
    Column {
        head: "`fence_all` + barrier, quiet, best",
        cell: |machine, n| best(machine, &Load::quiet(n), |radix| Fence { radix }),
    },
    Column {
        head: "`sync_global`",
        cell: |machine, n| {
            let radix = known(machine, n);
            cell(&Global { radix }, machine, &Load::puts(n), Some(radix))
        },
    },
    Column { head: "`sync`, `best_radix`", cell: |machine, n| sync(machine, n, best_radix(n)) },
    Column {
        head: "`sync`, `best_radix_for`",
        cell: |machine, n| sync(machine, n, known(machine, n)),
    },
    Column {
        head: "`sync`, best",
        cell: |machine, n| best(machine, &Load::puts(n), |radix| Sync { radix }),
    },
];

fn row(text: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells = cells.into_iter().collect::<Vec<_>>().join(" | ");
    writeln!(text, "| {cells} |").expect("a string takes it");
}

fn head(text: &mut String, heads: &[&str]) {
    row(text, heads.iter().map(|&head| head.to_owned()));
    writeln!(text, "|{}", "---|".repeat(heads.len())).expect("a string takes it");
}

/// Returns all tables, as they appear in `docs/growth.md`.
#[must_use]
pub fn tables() -> String {
    let mut text = String::new();
    let heads =
        ["N"].into_iter().chain(COLUMNS.iter().map(|column| column.head)).collect::<Vec<_>>();
    for (overhead, gap) in MACHINES {
        let machine = Machine::new(overhead, gap);
        writeln!(text, "## o = {overhead} L, G = {gap} L").expect("a string takes it");
        let (mut times, mut messages) = (String::new(), String::new());
        head(&mut times, &heads);
        head(&mut messages, &heads);
        for members in MEMBERS {
            let cells =
                COLUMNS.iter().map(|column| (column.cell)(machine, members)).collect::<Vec<_>>();
            let time = |cell: &Cell| {
                let radix = cell.radix.map_or(String::new(), |radix| format!(", r {radix}"));
                format!("{:.2}{radix}", cell.outcome.time)
            };
            let sent = |cell: &Cell| {
                let each = |all: usize| (all as f64 / members as f64 * 10.0).round() / 10.0;
                format!("{} in {}", each(cell.outcome.messages), cell.rounds)
            };
            row(&mut times, [members.to_string()].into_iter().chain(cells.iter().map(time)));
            row(&mut messages, [members.to_string()].into_iter().chain(cells.iter().map(sent)));
        }
        writeln!(text, "\nTime in L, and radix:\n\n{times}").expect("a string takes it");
        writeln!(text, "Messages of a member, in rounds:\n\n{messages}")
            .expect("a string takes it");
    }
    text + &losses()
}

/// Returns the loss of the product's choices against the simulated optimum.
fn losses() -> String {
    let mut text =
        "## The time of `sync` by `best_radix` / by `best_radix_for`, as multiples of the best\n\n"
            .to_owned();
    let machines = [0.01, 0.02, 0.05, 0.1].map(|overhead| (overhead, 0.0));
    let heads =
        machines.map(|(overhead, _)| [format!("o = {overhead}"), format!("o = {overhead}, quiet")]);
    let heads = heads.iter().flatten().map(String::as_str);
    head(&mut text, &["N", "r"].into_iter().chain(heads).collect::<Vec<_>>());
    for members in [2, 8, 12, 16, 24, 32, 48, 64, 100, 256, 512, 1024, 4096] {
        let mut cells = vec![members.to_string(), best_radix(members).to_string()];
        for (overhead, gap) in machines {
            for load in [Load::puts(members), Load::quiet(members)] {
                let (unknown, known) = lost(Machine::new(overhead, gap), &load);
                cells.push(format!("{unknown:.2} / {known:.2}"));
            }
        }
        row(&mut text, cells);
    }
    text
}

/// Returns the time of `sync` by [`best_radix`] and by [`best_radix_for`], as multiples of the
/// simulated optimum.
#[must_use]
pub fn lost(machine: Machine, load: &Load) -> (f64, f64) {
    let best = optimum(machine, load, |radix| Sync { radix }).1.time;
    let time = |radix| simulate(&Sync { radix }, machine, load).time / best;
    (time(best_radix(load.members)), time(known(machine, load.members)))
}

/// Returns the curves for an overhead of 0.1 without a gap, one JSON object per line, for
/// `lab/scripts/curves.py`.
#[must_use]
pub fn curves() -> String {
    let mut text = "{\"kind\":\"unit\",\"name\":\"L\"}\n".to_owned();
    let machine = Machine::new(0.1, 0.0);
    for column in COLUMNS.iter().filter(|column| !column.head.contains("_for")) {
        for members in MEMBERS.into_iter().filter(|members| members.is_power_of_two()) {
            let (way, time) = (
                column.head.replace('`', "").replace("quiet, best", "quiet"),
                (column.cell)(machine, members).outcome.time,
            );
            writeln!(
                text,
                "{{\"kind\":\"cell\",\"work_ns\":0,\"way\":\"{way}\",\"members\":{members},\"median\":{time:.3}}}"
            )
            .expect("a string takes it");
        }
    }
    text
}

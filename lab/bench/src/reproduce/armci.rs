//! The experiments of Saify's thesis on the collectives of ARMCI (2002), between hosts that are
//! groups of threads.

mod diagrams;

pub(super) use self::diagrams::{barrier_diagram, fence_diagrams, queue_states};

use std::collections::BTreeMap;

use super::lab::Lab;
use super::outcome::{Cell, Claim, Outcome, Table};
use crate::error::Result;
use crate::plot::{Axis, Chart, Figure, Line};
use crate::rma::Measured;

/// What all items of this paper have in common.
fn hosts(lab: &Lab) -> String {
    format!(
        "hosts are groups of threads of one process; a message between them takes {} us, and no \
         network or MPI takes part",
        lab.scale.latency().as_micros()
    )
}

/// Returns the microseconds of a way.
fn us(all: &[Measured], setting: &str, way: &str) -> Option<f64> {
    let found = all.iter().find(|m| m.setting == setting && m.way == way);
    found.map(|measured| measured.ns / 1e3)
}

/// Returns the numbers of targets of a setting, and of requests in flight of each way.
fn fences(all: &[Measured], bytes: usize) -> BTreeMap<usize, BTreeMap<usize, f64>> {
    let mut found: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
    for measured in all {
        let targets = measured.setting.strip_prefix(&format!("{bytes} B, "));
        let targets = targets.and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
        let window = measured.way.strip_prefix("asking, K = ");
        let (Some(targets), Some(window)) = (targets, window) else { continue };
        let window = window.parse().unwrap_or(targets);
        found.entry(targets).or_default().insert(window, measured.ns / 1e3);
    }
    found
}

/// Returns the table of all fences.
fn fence_table(all: &BTreeMap<usize, Vec<Measured>>, only: Option<usize>) -> Table {
    let mut table =
        Table::new("fences", ["hosts", "bytes", "targets", "K", "us", "times faster than K = 1"]);
    for (hosts, measured) in all.iter().filter(|(hosts, _)| only.is_none_or(|only| only == **hosts))
    {
        for bytes in [100, 4000] {
            for (targets, windows) in fences(measured, bytes) {
                for (k, us) in &windows {
                    let faster = windows.get(&1).map(|one| one / us);
                    table.row([
                        (*hosts).into(),
                        bytes.into(),
                        targets.into(),
                        (*k).into(),
                        (*us).into(),
                        faster.into(),
                    ]);
                }
            }
        }
    }
    table
}

/// A21: accumulate or puts, and a fence.
pub(super) fn fence_test(lab: &Lab) -> Result<Outcome> {
    let all = lab.fences()?;
    let mut claims = Vec::new();
    for (hosts, measured) in all {
        let windows = fences(measured, 100);
        let better = |(targets, windows): (&usize, &BTreeMap<usize, f64>)| {
            (*targets > 1)
                .then(|| windows.get(&1).zip(windows.get(targets)).map(|(one, all)| one / all))?
        };
        let ratios: Vec<f64> = windows.iter().filter_map(better).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        claims.push(Claim::new(
            "a faster fence with more request buffers",
            format!(
                "between {hosts} hosts, all requests at once are at least {least:.2} times \
                 as fast as one after the other"
            ),
            least > 1.05,
        ));
    }
    let most = all.keys().last().copied().unwrap_or(0);
    let outcome = claims.into_iter().fold(Outcome::default(), Outcome::claim);
    Ok(outcome
        .note(hosts(lab))
        .note(
            "the thesis has the mean of 1000 iterations over all clients; here one member \
             fences, and the median of rounds is told, because all clients of a machine with \
             few cores would wait for its scheduler",
        )
        .figure(Figure::charts("ARMCI: fence after puts of 100 B", 1, vec![latency(all, most)]))
        .table(fence_table(all, None)))
}

/// Names a number of targets.
fn targets_name(targets: usize) -> String {
    format!("{targets} target{}", if targets == 1 { "" } else { "s" })
}

fn latency(all: &BTreeMap<usize, Vec<Measured>>, hosts: usize) -> Chart {
    let windows = all.get(&hosts).map(|measured| fences(measured, 100)).unwrap_or_default();
    let lines = windows.into_iter().map(|(targets, windows)| {
        Line::of(targets_name(targets), windows.into_iter().map(|(k, us)| (k as f64, us)))
    });
    Chart::new(
        format!("{hosts} hosts: latency"),
        Axis::each("K, requests in flight"),
        Axis::linear("time of a fence, us"),
    )
    .lines(lines)
}

fn improvement(all: &BTreeMap<usize, Vec<Measured>>, hosts: usize, paper: f64) -> (Chart, f64) {
    let windows = all.get(&hosts).map(|measured| fences(measured, 100)).unwrap_or_default();
    let mut greatest: f64 = 0.0;
    let mut last: f64 = 2.0;
    let mut chart = Chart::new(
        format!("{hosts} hosts: improvement"),
        Axis::each("K, requests in flight"),
        Axis::linear("times faster than K = 1"),
    );
    for (targets, windows) in windows {
        let Some(&one) = windows.get(&1) else { continue };
        let points: Vec<_> = windows.iter().map(|(k, us)| (*k as f64, one / us)).collect();
        greatest = points.iter().map(|point| point.1).fold(greatest, f64::max);
        last = points.iter().map(|point| point.0).fold(last, f64::max);
        chart = chart.line(Line::of(targets_name(targets), points));
    }
    let line = Line::of("greatest, the thesis", [(1.0, paper), (last, paper)]).of_paper().plain();
    (chart.line(line), greatest)
}

/// A22 and A23: latency and improvement of a fence.
fn fence_figure(lab: &Lab, place: usize, paper: f64, figures: &str, told: &str) -> Result<Outcome> {
    let all = lab.fences()?;
    let hosts_ = all.keys().nth(place).copied().ok_or("no hosts were measured")?;
    let (chart, greatest) = improvement(all, hosts_, paper);
    let claim = Claim::new(
        format!("at most {paper} times between {told} nodes, by more requests in flight"),
        format!("at most {greatest:.2} times between {hosts_} hosts"),
        (greatest / paper - 1.0).abs() < 0.25,
    );
    let why = "these messages only wait, for a fixed time that overlaps entirely, while those \
               of the thesis kept processors and network cards busy";
    Ok(Outcome::default()
        .claim(claim.because(why))
        .note(hosts(lab))
        .table(fence_table(all, Some(hosts_)))
        .figure(Figure::charts(
            format!("ARMCI, Figs. {figures}: fence"),
            2,
            vec![latency(all, hosts_), chart],
        )))
}

/// A22: 4 nodes.
pub(super) fn fence_4(lab: &Lab) -> Result<Outcome> {
    fence_figure(lab, 0, 1.31, "3.3 and 3.4", "4")
}

/// A23: 8 nodes.
pub(super) fn fence_8(lab: &Lab) -> Result<Outcome> {
    fence_figure(lab, 1, 1.72, "3.5 and 3.6", "8")
}

/// The old and the new way of completing all puts and meeting, and ours.
const CURRENT: &str = "asking, K = 1; dissemination";
const NEW: &str = "two exchanges of radix 2";
const OURS: &str = "sync";

/// Returns the microseconds of a way of a sync; the name of the new one may have an addition.
fn sync_us(all: &[Measured], setting: &str, way: &str) -> Option<f64> {
    us(all, setting, way).or_else(|| {
        let found =
            all.iter().find(|m| m.setting == setting && m.way.starts_with(&format!("{way};")));
        found.map(|measured| measured.ns / 1e3)
    })
}

/// Returns the table of syncs.
fn sync_table(all: &BTreeMap<usize, Vec<Measured>>, delays: bool) -> Table {
    let mut table = Table::new("syncs", ["hosts", "setting", "way", "us", "messages of all hosts"]);
    for (hosts, measured) in all {
        for m in measured.iter().filter(|m| delays == (m.group == "delay")) {
            table.row([
                (*hosts).into(),
                m.setting.as_str().into(),
                m.way.as_str().into(),
                (m.ns / 1e3).into(),
                m.messages.into(),
            ]);
        }
    }
    table
}

/// A29: puts that a barrier follows at once.
pub(super) fn worst_case(lab: &Lab) -> Result<Outcome> {
    let all = lab.syncs()?;
    let mut outcome = Outcome::default();
    let mut lines = Vec::new();
    for (name, way) in
        [("fence and barrier", CURRENT), ("two exchanges", NEW), ("one exchange (ours)", OURS)]
    {
        for bytes in [100, 4000] {
            let points = all
                .iter()
                .filter_map(|(n, m)| Some((*n as f64, sync_us(m, &format!("{bytes} B"), way)?)));
            lines.push(Line::of(format!("{name}, {bytes} B"), points));
        }
    }
    let most = all.keys().last().copied().unwrap_or(0);
    let ratio = |bytes: usize| {
        let m = all.get(&most)?;
        let of = |way| sync_us(m, &format!("{bytes} B"), way);
        Some(of(CURRENT)? / of(NEW)?)
    };
    let ratios = [100, 4000].map(|bytes| ratio(bytes).unwrap_or(f64::NAN));
    outcome = outcome.claim(Claim::new(
        "a new barrier that is faster than fence and barrier, with messages of 100 and of 4000 \
         bytes",
        format!("between {most} hosts {:.2} and {:.2} times as fast", ratios[0], ratios[1]),
        ratios.iter().all(|&ratio| ratio > 1.0),
    ));
    let chart = Chart::new(
        "puts to all others, and at once a barrier",
        Axis::each("hosts"),
        Axis::linear("time, us"),
    )
    .lines(lines);
    Ok(outcome.note(hosts(lab)).table(sync_table(all, false)).figure(Figure::charts(
        "ARMCI: the worst case of a barrier",
        1,
        vec![chart],
    )))
}

/// A30: the latency of a barrier, by the number of nodes.
pub(super) fn barrier_latency(lab: &Lab) -> Result<Outcome> {
    let all = lab.syncs()?;
    let mut charts = Vec::new();
    let mut greatest: f64 = 0.0;
    let mut lines = Vec::new();
    let mut ratios = Vec::new();
    for bytes in [100, 4000] {
        let setting = format!("{bytes} B");
        for (name, way) in [("current", CURRENT), ("new", NEW)] {
            let points =
                all.iter().filter_map(|(n, m)| Some((*n as f64, sync_us(m, &setting, way)?)));
            lines.push(Line::of(format!("{name}, {bytes} B"), points));
        }
        let ratio: Vec<_> = all
            .iter()
            .filter_map(|(n, m)| {
                Some((*n as f64, sync_us(m, &setting, CURRENT)? / sync_us(m, &setting, NEW)?))
            })
            .collect();
        greatest = ratio.iter().map(|point| point.1).fold(greatest, f64::max);
        ratios.push(Line::of(format!("{bytes} B"), ratio));
    }
    charts.push(
        Chart::new("latency, no delay", Axis::each("hosts"), Axis::linear("time, us")).lines(lines),
    );
    let paper = Line::of("8 nodes, the thesis", [(8.0, 3.58)]).of_paper();
    charts.push(
        Chart::new("improvement", Axis::each("hosts"), Axis::linear("current / new"))
            .lines(ratios)
            .line(paper),
    );
    let most = all.keys().last().copied().unwrap_or(0);
    let at_most = all
        .get(&most)
        .and_then(|m| Some(sync_us(m, "100 B", CURRENT)? / sync_us(m, "100 B", NEW)?))
        .unwrap_or(f64::NAN);
    let claim = Claim::new(
        "3.58 times at 8 nodes",
        format!("{at_most:.2} times between {most} hosts with 100 B; at most {greatest:.2} times"),
        (greatest / 3.58 - 1.0).abs() < 0.3,
    );
    let rounds = (most as f64).log2().ceil();
    let expected = (2.0 * (most as f64 - 1.0) + rounds) / (2.0 * rounds);
    let why = format!(
        "each message here takes the same time: {} serial messages against {}, which is \
         {expected:.2} times",
        2 * (most - 1) + rounds as usize,
        2 * rounds as usize
    );
    let counts = |way| {
        all.get(&most)?
            .iter()
            .find(|m| {
                m.setting == "100 B" && (m.way == way || m.way.starts_with(&format!("{way};")))
            })?
            .messages
    };
    let (old, new) = (counts(CURRENT), counts(NEW));
    let told = |count: Option<f64>| count.map_or("-".to_owned(), |count| format!("{count:.0}"));
    let messages = Claim::new(
        "2 (N - 1) + log2 N messages of each process before, and 2 log2 N with the new barrier",
        format!("{} and {} messages of all {most} hosts", told(old), told(new)),
        new.zip(old).is_some_and(|(new, old)| new < old),
    );
    let ours = all
        .get(&most)
        .and_then(|m| Some(sync_us(m, "100 B", CURRENT)? / sync_us(m, "100 B", OURS)?));
    let note = format!(
        "ours, with one exchange, is {:.2} times as fast as the current way",
        ours.unwrap_or(f64::NAN)
    );
    Ok(Outcome::default()
        .claim(claim.because(why))
        .claim(messages)
        .note(note)
        .note(hosts(lab))
        .table(sync_table(all, false))
        .figure(Figure::charts("ARMCI, Fig. 4.3: fence and barrier", 2, charts)))
}

/// A31: the latency of a barrier, after a delay.
pub(super) fn barrier_delay(lab: &Lab) -> Result<Outcome> {
    let all = lab.syncs()?;
    let mut charts = Vec::new();
    let mut changes: Vec<f64> = Vec::new();
    for (figure, bytes, delays) in [("4.4", 100, [10, 50, 100]), ("4.5", 4000, [50, 100, 200])] {
        let mut lines = Vec::new();
        for (name, way) in [("current", CURRENT), ("new", NEW)] {
            for delay in delays {
                let setting = format!("{bytes} B, {delay} us");
                let points =
                    all.iter().filter_map(|(n, m)| Some((*n as f64, sync_us(m, &setting, way)?)));
                lines.push(Line::of(format!("{name}, {delay} us"), points));
                let plain = format!("{bytes} B");
                changes.extend(
                    all.values().filter_map(|m| {
                        Some(sync_us(m, &setting, way)? / sync_us(m, &plain, way)?)
                    }),
                );
            }
        }
        charts.push(
            Chart::new(
                format!("Fig. {figure}: {bytes} B"),
                Axis::each("hosts"),
                Axis::linear("time, us"),
            )
            .lines(lines),
        );
    }
    let (low, high) =
        changes.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &c| (a.min(c), b.max(c)));
    let middle = crate::race::median(changes).unwrap_or(f64::NAN);
    let claim = Claim::new(
        "no change in the behaviour of the barrier by a delay before it",
        format!(
            "a barrier after a delay takes {middle:.2} of the time without it, in the median, \
             and {low:.2} to {high:.2}"
        ),
        (0.75..1.25).contains(&middle),
    );
    Ok(Outcome::default()
        .claim(claim.because("puts that are under way are complete when a delayed barrier begins"))
        .note("members sleep through delays; a sleep is some 60 us longer than asked for")
        .note(hosts(lab))
        .table(sync_table(all, true))
        .figure(Figure::charts(
            "ARMCI, Figs. 4.4 and 4.5: fence and barrier after a delay",
            2,
            charts,
        )))
}

/// A metric of a lock: the microseconds for each number of members that contend.
fn lock_points(all: &[Measured], kind: &str, metric: &str) -> Vec<(f64, f64)> {
    let way = format!("{kind}: {metric}");
    let of = all.iter().filter(|m| m.way == way);
    of.filter_map(|m| Some((m.setting.split(' ').next()?.parse().ok()?, m.ns / 1e3))).collect()
}

fn lock_table(all: &[Measured]) -> Table {
    let mut table =
        Table::new("locks", ["contend", "kind and metric", "us", "messages of all hosts"]);
    for m in all {
        table.row([
            Cell::from(m.setting.as_str()),
            m.way.as_str().into(),
            (m.ns / 1e3).into(),
            m.messages.into(),
        ]);
    }
    table
}

const KINDS: [(&str, &str); 4] = [
    ("hybrid", "ticket and server queue (current)"),
    ("mcs", "software queue (new)"),
    ("server", "server queue"),
    ("ticket", "ticket"),
];

/// A43: members repeatedly lock and unlock one remote lock.
pub(super) fn lock_contention(lab: &Lab) -> Result<Outcome> {
    let all = lab.locks()?;
    let lines = KINDS.map(|(kind, name)| Line::of(name, lock_points(all, kind, "each hand-over")));
    let last = |kind: &str| lock_points(all, kind, "each hand-over").last().map(|point| point.1);
    let (old, new) = (last("hybrid").unwrap_or(f64::NAN), last("mcs").unwrap_or(f64::NAN));
    let chart =
        Chart::new("", Axis::each("members that contend"), Axis::linear("lock and unlock, us"))
            .lines(lines);
    Ok(Outcome::default()
        .claim(Claim::new(
            "a software queue that scales well with the number of nodes",
            format!(
                "a lock and an unlock take {new:.0} us in the queue and {old:.0} us in \
                 ARMCI's way, with the most members"
            ),
            new < old,
        ))
        .note(hosts(lab))
        .table(lock_table(all))
        .figure(Figure::charts("ARMCI: one remote lock, contended", 1, vec![chart])))
}

/// A44: the latencies of lock and unlock.
pub(super) fn lock_latency(lab: &Lab) -> Result<Outcome> {
    let all = lab.locks()?;
    let chart = |title: &str, metric: &str| {
        let lines =
            KINDS[..2].iter().map(|(kind, name)| Line::of(*name, lock_points(all, kind, metric)));
        Chart::new(title, Axis::each("members that contend"), Axis::linear("time, us")).lines(lines)
    };
    let ratios = |metric: &str| -> Vec<(f64, f64)> {
        let (old, new) = (lock_points(all, "hybrid", metric), lock_points(all, "mcs", metric));
        old.iter().zip(new).map(|(old, new)| (old.0, old.1 / new.1)).collect()
    };
    let locks = ratios("lock");
    // One member alone does not contend.
    let greatest =
        locks.iter().filter(|ratio| ratio.0 > 1.0).map(|ratio| ratio.1).fold(0.0, f64::max);
    let ends = |kind: &str| {
        let points = lock_points(all, kind, "unlock");
        let at = |n: Option<&(f64, f64)>| n.map_or(f64::NAN, |point| point.1);
        (at(points.first()), at(points.last()))
    };
    let (old, new) = (ends("hybrid"), ends("mcs"));
    let paper = Line::of(
        "greatest, the thesis",
        locks
            .first()
            .into_iter()
            .chain(locks.last())
            .map(|point| (point.0, 1.7))
            .collect::<Vec<_>>(),
    )
    .of_paper()
    .plain();
    let improvement = Chart::new(
        "improvement of lock",
        Axis::each("members that contend"),
        Axis::linear("current / new"),
    )
    .line(Line::of("lock", locks))
    .line(paper);
    let claim = Claim::new(
        "a lock at most 1.7 times as fast by the software queue",
        format!("at most {greatest:.2} times"),
        (greatest / 1.7 - 1.0).abs() < 0.3,
    );
    let unlock = Claim::new(
        "an unlock slower than before with few members that contend, and on a par with many",
        format!(
            "with the fewest {:.1} us in place of {:.1} us, and with the most {:.1} in place of \
             {:.1}",
            new.0, old.0, new.1, old.1
        ),
        new.0 > old.0 && new.1 < 1.3 * old.1,
    );
    Ok(Outcome::default()
        .claim(claim.because(
            "a hand-over is one message in place of two, and messages take all \
             of the time here",
        ))
        .claim(unlock.because(
            "an unlock of the current way does not wait for its message, and \
             a lone release of the queue asks the owner and waits",
        ))
        .note(hosts(lab))
        .table(lock_table(all))
        .figure(Figure::charts(
            "ARMCI, Figs. 5.4 and 5.5: lock and unlock",
            3,
            vec![chart("Fig. 5.4: lock", "lock"), chart("Fig. 5.5: unlock", "unlock"), improvement],
        )))
}

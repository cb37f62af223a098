//! The experiments of Kadur and Kochar on barriers of threads, of processes, and of both.

mod checks;

pub(super) use self::checks::{correctness, timing};

use std::collections::BTreeMap;

use super::lab::Lab;
use super::outcome::{Cell, Claim, Outcome, Table};
use crate::barrier::{self, OPENMP_DEFAULT};
use crate::contest::Contest;
use crate::error::Result;
use crate::plot::{Axis, Chart, Figure, Line};
use crate::rma::Measured;

const COUNTER: &str = "counter, sense reversal (Kadur, Kochar)";
const TOURNAMENT: &str = "tournament, padded";
/// The barriers of threads that are raced.
const THREADS: [&str; 5] =
    [COUNTER, TOURNAMENT, "tournament, packed", "dissemination, padded", OPENMP_DEFAULT[0]];

/// Returns the numbers of threads.
fn members(lab: &Lab) -> Vec<usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let few = lab.scale.pick(&[2, 3][..], &[2, 3, 4, 6, 8], &[2, 3, 4, 5, 6, 7, 8, 12, 16]);
    let more = [12, 16, 24, 32, 48, 64].into_iter().filter(|&n| n <= processors);
    let mut all: Vec<usize> = few.iter().copied().chain(more).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Races barriers of threads.
pub(super) fn race(lab: &Lab) -> Result<Contest> {
    let pace = lab.scale.pick((1, 1), (15, 8), (50, 20));
    barrier::race_of(&THREADS, &members(lab), pace, &lab.folder, &lab.signals)
}

/// Returns the exponent b of the best fit of a power c x^b.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (mx, my) = (
        logs.iter().map(|p| p.0).sum::<f64>() / count,
        logs.iter().map(|p| p.1).sum::<f64>() / count,
    );
    let xy = logs.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>();
    let xx = logs.iter().map(|p| (p.0 - mx).powi(2)).sum::<f64>();
    xy / xx
}

/// B13: barriers of threads.
pub(super) fn threads(lab: &Lab) -> Result<Outcome> {
    let contest = lab.threads()?;
    let members = members(lab);
    let processors = contest.processors();
    let points = |way: &str| -> Vec<(f64, f64)> {
        members.iter().filter_map(|&n| Some((n as f64, contest.median(way, n)? / 1e3))).collect()
    };
    let mut table =
        Table::new("barriers", ["barrier", "threads", "us", "more threads than processors"]);
    for way in THREADS {
        for (n, us) in points(way) {
            let crowd = if n as usize > processors { "yes" } else { "no" };
            table.row([way.into(), n.into(), us.into(), crowd.into()]);
        }
    }
    let chart = Chart::new("", Axis::each("threads"), Axis::log("time per barrier, us"))
        .lines(THREADS.map(|way| Line::of(way, points(way))));
    // A law is visible only where each thread has its processor.
    let own = |way: &str| -> Vec<(f64, f64)> {
        points(way).into_iter().filter(|point| point.0 as usize <= processors).collect()
    };
    let seen = |way: &str| {
        let own = own(way);
        if own.len() >= 3 { own } else { points(way) }
    };
    let (counter, tournament) = (seen(COUNTER), seen(TOURNAMENT));
    let crowd = own(COUNTER).len() < 3;
    let why = format!(
        "this machine has {processors} processors: a barrier of more threads measures how they \
         are scheduled, not its algorithm"
    );
    let (a, b) = (exponent(&counter), exponent(&tournament));
    let last = |points: &[(f64, f64)]| points.last().copied().unwrap_or((f64::NAN, f64::NAN));
    let mut growth = Claim::new(
        "the time of the counter linear in the threads, and that of the tournament logarithmic",
        format!(
            "the counter grows with the power {a:.2} of the threads, and the tournament with {b:.2}"
        ),
        !crowd && (0.7..1.4).contains(&a) && b < a - 0.2,
    );
    let mut better = Claim::new(
        "the tournament significantly faster, especially with many threads",
        format!(
            "with {} threads the counter takes {:.2} us and the tournament {:.2} us",
            last(&counter).0,
            last(&counter).1,
            last(&tournament).1
        ),
        last(&tournament).1 < 0.8 * last(&counter).1,
    );
    if crowd {
        growth = growth.because(why.clone());
        better = better.because(why);
    }
    let mut outcome = Outcome::default().claim(growth).claim(better);
    let openmp = points(OPENMP_DEFAULT[0]);
    match openmp.first() {
        Some(&(n, us)) => {
            let ours = contest.median(TOURNAMENT, n as usize).map_or(f64::NAN, |ns| ns / 1e3);
            outcome = outcome.claim(Claim::new(
                "the tournament comparable to OpenMP's own barrier",
                format!("{ours:.2} and {us:.2} us with {n} threads"),
                (0.4..2.5).contains(&(ours / us)),
            ));
        }
        None => outcome = outcome.note("OpenMP's barrier was not measured"),
    }
    for skipped in contest.skipped() {
        outcome = outcome.note(format!("skipped: {skipped}"));
    }
    Ok(outcome.table(table).figure(Figure::charts("Barriers, Fig. 1: threads", 1, vec![chart])))
}

/// The combined barrier of the paper: dissemination of radix 2 between hosts.
const COMBINED: &str = "combined, radix 2";
/// The barriers of hosts.
const HOSTS: [(&str, &str); 4] = [
    ("tournament", "tournament"),
    ("dissemination, radix 2", "dissemination"),
    (COMBINED, "combined"),
    ("combined", "combined, ours (any radix)"),
];

/// Returns the microseconds of a barrier in its best round.
fn us(all: &[Measured], way: &str) -> Option<f64> {
    all.iter().find(|m| m.group == "barrier" && m.way == way).map(|m| m.best_ns / 1e3)
}

/// What all items between hosts have in common.
fn hosts(lab: &Lab) -> String {
    format!(
        "hosts are groups of threads of one process, and a message between them takes {} us: no \
         MPI and no network takes part, so there is no built-in barrier of MPI. Times are those of \
         the best round, as a message takes a fixed time and everything else is the scheduler; \
         tables have the medians, too",
        lab.scale.latency().as_micros()
    )
}

/// Returns the numbers of processes at which a time jumps by at least half of what a round takes.
fn jumps(points: &[(f64, f64)], round: f64) -> Vec<usize> {
    let jump = |pair: &&[(f64, f64)]| pair[1].1 - pair[0].1 >= round / 2.0;
    points.windows(2).filter(jump).map(|pair| pair[1].0 as usize).collect()
}

/// B14: barriers of processes.
pub(super) fn processes(lab: &Lab) -> Result<Outcome> {
    let all = lab.processes()?;
    let points = |way: &str| -> Vec<(f64, f64)> {
        all.iter().filter_map(|(n, m)| Some((*n as f64, us(m, way)?))).collect()
    };
    let (tournament, dissemination) = (points("tournament"), points("dissemination, radix 2"));
    let latency = lab.scale.latency().as_micros() as f64;
    // A process without an opponent waits for none: the tournament of 2^k + 1 is as long as that of
    // 2^k.
    let whole = |n: usize| n.ilog2();
    let up = |n: usize| n.next_power_of_two().ilog2();
    let law = |times: f64, rounds: fn(usize) -> u32| {
        all.keys()
            .map(move |&n| (n as f64, times * f64::from(rounds(n)) * latency))
            .collect::<Vec<_>>()
    };
    let chart = Chart::new("", Axis::each("processes"), Axis::linear("time per barrier, us"))
        .line(Line::of("tournament", tournament.clone()))
        .line(Line::of("dissemination", dissemination.clone()))
        .line(Line::of("the paper: 2 log P messages", law(2.0, whole)).of_paper().plain())
        .line(Line::of("the paper: log P messages", law(1.0, up)).of_paper().plain());
    let mut table = Table::new(
        "barriers",
        ["processes", "barrier", "us, best round", "us, median", "messages of all"],
    );
    for (n, measured) in all {
        for m in measured {
            table.row([
                (*n).into(),
                m.way.as_str().into(),
                (m.best_ns / 1e3).into(),
                (m.ns / 1e3).into(),
                m.messages.into(),
            ]);
        }
    }
    let ratios: Vec<f64> = tournament.iter().zip(&dissemination).map(|(t, d)| t.1 / d.1).collect();
    let ratio = crate::race::median(ratios).unwrap_or(f64::NAN);
    let most = all.keys().last().copied().unwrap_or(0);
    let powers = |add: usize| -> Vec<usize> {
        (1..7).map(|k| (1 << k) + add).filter(|n| (3..=most).contains(n)).collect()
    };
    let (at, after) = (powers(0), powers(1));
    let (jt, jd) = (jumps(&tournament, 2.0 * latency), jumps(&dissemination, latency));
    Ok(Outcome::default()
        .claim(Claim::new(
            format!("steps of the tournament at 2^k processes, {at:?}"),
            format!("steps at {jt:?}"),
            jt == at,
        ))
        .claim(Claim::new(
            format!("steps of the dissemination at 2^k + 1 processes, {after:?}"),
            format!("steps at {jd:?}"),
            jd == after,
        ))
        .claim(Claim::new(
            "the dissemination significantly faster: log P rounds against 2 log P",
            format!("the tournament takes {ratio:.2} times as long, in the median"),
            ratio > 1.3,
        ))
        .note(hosts(lab))
        .table(table)
        .figure(Figure::charts("Barriers, Fig. 2: processes", 1, vec![chart])))
}

fn groups_table(all: &BTreeMap<(usize, usize), Vec<Measured>>) -> Table {
    let mut table = Table::new(
        "barriers",
        ["hosts", "threads per host", "barrier", "us, best round", "us, median", "messages of all"],
    );
    for ((hosts, threads), measured) in all {
        for (way, name) in HOSTS {
            let m = measured.iter().find(|m| m.way == way);
            let messages = m.and_then(|m| m.messages);
            let middle = m.map(|m| m.ns / 1e3);
            table.row([
                Cell::from(*hosts),
                (*threads).into(),
                name.into(),
                us(measured, way).into(),
                middle.into(),
                messages.into(),
            ]);
        }
    }
    table
}

/// B15: combined barriers, by threads and nodes.
pub(super) fn combined(lab: &Lab) -> Result<Outcome> {
    let all = lab.groups()?;
    let most = all.keys().map(|key| key.0).max().unwrap_or(2);
    let line = |hosts: usize| {
        let of = all.iter().filter(move |(key, _)| key.0 == hosts);
        Line::of(
            format!("{hosts} hosts"),
            of.filter_map(|(key, m)| Some((key.1 as f64, us(m, COMBINED)?))),
        )
    };
    let lines: Vec<_> = (2..=most).map(line).collect();
    // The time of a number of hosts: the median over the numbers of threads.
    let middle: Vec<f64> = lines
        .iter()
        .map(|line| {
            crate::race::median(line.points.iter().map(|p| p.1).collect()).unwrap_or(f64::NAN)
        })
        .collect();
    let group = |from: usize, to: usize| -> Vec<f64> {
        (from..=to.min(most)).filter_map(|hosts| middle.get(hosts - 2).copied()).collect()
    };
    let groups = [group(2, 2), group(3, 4), group(5, 8)];
    let bounds = |group: &[f64]| {
        group.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)))
    };
    let [two, four, eight] = groups.map(|group| bounds(&group));
    let apart = two.1 < four.0 && (eight.1 == 0.0 || four.1 < eight.0);
    let told = |(low, high): (f64, f64)| {
        if low <= high { format!("{low:.0} to {high:.0}") } else { "-".to_owned() }
    };
    let chart =
        Chart::new("", Axis::each("threads per host"), Axis::linear("time per barrier, us"))
            .lines(lines);
    Ok(Outcome::default()
        .claim(
            Claim::new(
                "groups of nodes, 2 | 3 and 4 | 5 to 8, by the rounds between them",
                format!("{} us | {} us | {} us", told(two), told(four), told(eight)),
                apart,
            )
            .because(
                "many threads on few processors wait for the scheduler, which blurs the rounds",
            ),
        )
        .note(hosts(lab))
        .table(groups_table(all))
        .figure(Figure::charts("Barriers, Fig. 3: combined barrier", 1, vec![chart])))
}

/// B16: pure dissemination against the combined barrier.
pub(super) fn pure_and_combined(lab: &Lab) -> Result<Outcome> {
    let all = lab.groups()?;
    let mut charts = Vec::new();
    let (mut better, mut cells) = (0, 0);
    let mut shares: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for (letter, hosts) in ["a", "b", "c", "d"].into_iter().zip(lab.scale.pick(
        [2, 3, 2, 3],
        [3, 4, 6, 8],
        [3, 4, 6, 8],
    )) {
        let points = |way: &str| -> Vec<(f64, f64)> {
            let of = all.iter().filter(|(key, _)| key.0 == hosts);
            of.filter_map(|(key, m)| Some((key.1 as f64, us(m, way)?))).collect()
        };
        let (pure, combined) = (points("dissemination, radix 2"), points(COMBINED));
        for (pure, combined) in pure.iter().zip(&combined).filter(|(pure, _)| pure.0 > 1.0) {
            better += usize::from(combined.1 < pure.1);
            cells += 1;
            shares[usize::from(!hosts.is_power_of_two())].push(pure.1 / combined.1);
        }
        charts.push(
            Chart::new(
                format!("Fig. 4{letter}: {hosts} hosts"),
                Axis::each("threads per host"),
                Axis::linear("time per barrier, us"),
            )
            .line(Line::of("dissemination of all", pure))
            .line(Line::of("combined", combined)),
        );
    }
    let [power, other] = shares.map(|shares| crate::race::median(shares).unwrap_or(f64::NAN));
    Ok(Outcome::default()
        .claim(Claim::new(
            "the combined barrier much better in all cases",
            format!("better in {better} of {cells} cases with several threads per host"),
            better == cells,
        ).because("many threads on few processors wait for the scheduler"))
        .claim(Claim::new(
            "the dissemination significantly worse where the number of nodes is no power of two",
            format!("it takes {other:.2} times as long as the combined barrier there, and \
                     {power:.2} times with powers of two"),
            other > 1.1 * power,
        ).because("its messages between hosts overlap here, however many there are: they share \
                   no network card"))
        .note(hosts(lab))
        .table(groups_table(all))
        .figure(Figure::charts("Barriers, Fig. 4: dissemination and combined barrier", 2, charts)))
}

//! The benchmarks of Moreno Maza, Stephenson, Watt and Xie: a farm of Aldor processes (2008).

mod lazy;
mod slides;

pub(super) use self::lazy::lazy_solve;

use self::slides::{FEATURES, INTEGERS, NAMES, TIMES};
use super::lab::{Lab, Solved};
use super::outcome::{Cell, Claim, Outcome, Table};
use crate::error::Result;
use crate::farm::Cost;
use crate::plot::{Axis, Chart, Figure, Line};
use crate::solve::{Farmed, Results, SUBJECTS, median};

/// The codecs: the slides' name, and ours.
const CODECS: [(&str, &str); 2] = [("Kronecker", "kronecker"), ("DMPOLY", "terms")];

/// Returns the number of a system on the slides.
fn number(results: &Results) -> usize {
    SUBJECTS.iter().position(|subject| subject.name == results.name).unwrap_or(0).min(6)
}

fn of<'r>(results: &'r Results, codec: &str) -> Option<&'r Farmed> {
    results.farmed.iter().find(|farmed| farmed.codec == codec)
}

/// Returns a chart with a number for each system: the slides', and ours.
fn chart(
    title: &str,
    axis: &str,
    solved: &[Results],
    series: impl IntoIterator<Item = (String, bool, Box<dyn Fn(&Results) -> f64>)>,
) -> Chart {
    let names = solved.iter().map(|results| NAMES[number(results)]);
    let chart = Chart::new(title, Axis::places("system", names), Axis::log(axis));
    chart.lines(series.into_iter().map(|(name, paper, value)| {
        let points = solved.iter().enumerate().map(|(n, results)| (n as f64, value(results)));
        let line = Line::of(name, points.filter(|point| point.1 > 0.0));
        if paper { line.of_paper() } else { line }
    }))
}

/// What all tables have in common.
fn here(lab: &Lab, (solved, _): &Solved) -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let left = 7 - solved.len();
    let left = if left > 0 {
        format!("; {left} systems are left out at this scale")
    } else {
        String::new()
    };
    format!("{processors} processors and as many workers; scale {}{left}", lab.scale.name())
}

/// F17: the costs of spawning, of tags, and of integers.
pub(super) fn costs(lab: &Lab) -> Result<Outcome> {
    let costs = lab.costs()?;
    let of = |part: &str| costs.iter().find(|cost| cost.part == part);
    let rows = [
        ("a spawn", "us", "spawn", 1e3, 30_000.0),
        ("a tag (half a trip of a message and its answer)", "us", "tag", 1e3, 145.0),
        ("an integer: serialise and write", "ns", "written", 1.0, 9000.0),
        ("an integer: read and unserialise", "ns", "read", 1.0, 130_000.0),
        ("an integer to another process, in all", "ns", "both", 1.0, 139_000.0),
    ];
    let mut table =
        Table::new("costs", ["", "unit", "the paper, 2008", "its protocol, here", "ours, here"]);
    let mut points = [Vec::new(), Vec::new(), Vec::new()];
    for (n, (what, unit, part, by, paper)) in rows.into_iter().enumerate() {
        let Some(Cost { ours, published, .. }) = of(part) else { continue };
        let [ours, published] = [ours, published].map(|ns| ns.map(|ns| ns / by));
        table.row([what.into(), unit.into(), Cell::from(paper), published.into(), ours.into()]);
        let ns = |value: f64| (n as f64, value * by / 1e3);
        points[0].push(ns(paper));
        points[1].extend(published.map(ns));
        points[2].extend(ours.map(ns));
    }
    let [paper, published, ours] = points;
    let chart = Chart::new(
        "",
        Axis::places("", ["spawn", "tag", "integer written", "read", "both"]),
        Axis::log("time, us"),
    )
    .line(Line::of("2008, Kronecker", paper).of_paper())
    .line(Line::of("its protocol on this machine", published).loose())
    .line(Line::of("ours", ours).loose());
    let told = |part: &str, ours: bool| {
        let ns = of(part).and_then(|cost| if ours { cost.ours } else { cost.published });
        match ns {
            Some(ns) if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
            Some(ns) if ns >= 1e3 => format!("{:.1} us", ns / 1e3),
            Some(ns) => format!("{ns:.1} ns"),
            None => "no measurement".to_owned(),
        }
    };
    Ok(Outcome::default()
        .claim(Claim::beside(
            "30 ms for a spawn, 145 us for a tag, and 130 and 9 us for an integer that is read \
             and written",
            format!(
                "{} and {} by our farm, {} and {} by the paper's protocol on this machine, and {} \
                 and {} for an integer",
                told("spawn", true),
                told("tag", true),
                told("spawn", false),
                told("tag", false),
                told("read", true),
                told("written", true)
            ),
        ))
        .note("the paper's numbers contain Aldor's memory management, and a machine of 2008")
        .table(table)
        .figure(Figure::charts("Aldor: costs of the parallel constructs", 1, vec![chart])))
}

/// F18: the features of the systems.
pub(super) fn features(lab: &Lab) -> Result<Outcome> {
    let solved = lab.solved()?;
    let mut table = Table::new(
        "features",
        [
            "system",
            "n",
            "d",
            "p",
            "n here",
            "d here",
            "p here",
            "seconds 2008",
            "seconds here",
            "times faster",
        ],
    );
    let mut same = 0;
    for results in &solved.0 {
        let paper = FEATURES[number(results)];
        let ours = [results.variables as f64, results.degree as f64, results.prime as f64];
        same += usize::from(ours == paper[..3]);
        let seconds = median(&results.sequential);
        table.row([
            NAMES[number(results)].into(),
            paper[0].into(),
            paper[1].into(),
            paper[2].into(),
            ours[0].into(),
            ours[1].into(),
            ours[2].into(),
            paper[3].into(),
            seconds.into(),
            (paper[3] / seconds).into(),
        ]);
    }
    let slides = |results: &Results| FEATURES[number(results)][3];
    let chart = chart(
        "sequential time",
        "time, s",
        &solved.0,
        [
            ("the paper".to_owned(), true, Box::new(slides) as Box<dyn Fn(&Results) -> f64>),
            ("here".to_owned(), false, Box::new(|results: &Results| median(&results.sequential))),
        ],
    );
    let count = solved.0.len();
    Ok(Outcome::default()
        .claim(Claim::new(
            "seven systems with the variables, degrees and primes of its table",
            format!("{same} of {count} systems have the same"),
            same == count,
        ))
        .note(here(lab, solved))
        .table(table)
        .figure(Figure::charts("Aldor: features of the examples", 1, vec![chart])))
}

/// F19: speed-ups with both serialisers.
pub(super) fn speed_ups(lab: &Lab) -> Result<Outcome> {
    let solved = lab.solved()?;
    let head = [
        "system",
        "CPUs 2008",
        "Kronecker 2008",
        "DMPOLY 2008",
        "Kronecker here",
        "DMPOLY here",
        "Kronecker here, workers that wait",
        "replayed on 2",
        "on 5",
        "on 9",
    ];
    let mut table = Table::new("speed-ups", head);
    let mut ratios = Vec::new();
    let (mut replays, mut measured) = (Vec::new(), Vec::new());
    for results in &solved.0 {
        let Some((_, cpus, kronecker, terms)) = SUBJECTS[number(results)].paper else { continue };
        let alone = median(&results.sequential);
        let speed = |codec: &str, waiting: bool| {
            let farmed = of(results, codec)?;
            Some(alone / median(if waiting { &farmed.waiting } else { &farmed.seconds }))
        };
        let [two, five, nine] = results.replayed;
        let (k, t) = (speed("kronecker", false), speed("terms", false));
        let waiting = speed("kronecker", true).zip(speed("terms", true));
        ratios.extend(waiting.map(|(k, t)| k / t));
        measured.extend(k);
        let replay = if cpus == 5 { five } else { nine };
        replays.push((replay, kronecker));
        table.row([
            NAMES[number(results)].into(),
            Cell::from(cpus),
            kronecker.into(),
            terms.into(),
            k.into(),
            t.into(),
            speed("kronecker", true).into(),
            two.into(),
            five.into(),
            nine.into(),
        ]);
    }
    let paper =
        |results: &Results| SUBJECTS[number(results)].paper.map_or(f64::NAN, |paper| paper.2);
    let speed = |codec: &'static str| {
        move |results: &Results| {
            of(results, codec)
                .map_or(f64::NAN, |farmed| median(&results.sequential) / median(&farmed.seconds))
        }
    };
    let chart = chart(
        "",
        "speed-up",
        &solved.0,
        [
            (
                "2008: 5 or 9 CPUs, Kronecker".to_owned(),
                true,
                Box::new(paper) as Box<dyn Fn(&Results) -> f64>,
            ),
            ("here, Kronecker".to_owned(), false, Box::new(speed("kronecker"))),
            ("here, DMPOLY".to_owned(), false, Box::new(speed("terms"))),
            (
                "here, replayed on 9 workers".to_owned(),
                false,
                Box::new(|results: &Results| results.replayed[2]),
            ),
        ],
    );
    let worst = ratios.iter().map(|ratio: &f64| ratio.max(1.0 / ratio)).fold(1.0, f64::max);
    let (low, high) =
        measured.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)));
    let (first, last) =
        replays.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v.0), b.max(v.0)));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Outcome::default()
        .claim(Claim::new(
            "similar running times of both methods",
            format!("they differ by a factor of at most {worst:.2}, on workers that wait"),
            worst < 1.35,
        ))
        .claim(
            Claim::new(
                "speed-ups from 1.8 to 6.2 with 5 or 9 CPUs",
                format!(
                    "{low:.2} to {high:.2} with {processors} processors; replayed on as many \
                     workers as the paper has, {first:.2} to {last:.2}"
                ),
                low >= 1.5,
            )
            .because(format!(
                "this machine has {processors} processors, and systems take \
                 milliseconds here, which the start of a process exceeds"
            )),
        )
        .note(here(lab, solved))
        .table(table)
        .figure(Figure::charts("Aldor: parallel timings and speed-ups", 1, vec![chart])))
}

/// F20: integers that workers read and write.
pub(super) fn overhead(lab: &Lab) -> Result<Outcome> {
    let solved = lab.solved()?;
    let mut outcome = Outcome::default();
    let mut charts = Vec::new();
    for (codec, (name, ours)) in CODECS.into_iter().enumerate() {
        let head = [
            "system",
            "workers 2008",
            "read 2008",
            "written 2008",
            "zeros % 2008",
            "workers",
            "tasks",
            "read",
            "written",
            "zeros %",
        ];
        let mut table = Table::new(format!("integers-{}", name.to_lowercase()), head);
        for results in &solved.0 {
            let (Some(farmed), paper) = (of(results, ours), INTEGERS[codec][number(results)])
            else {
                continue;
            };
            let zeros = 100.0 * farmed.zeros as f64 / (farmed.read + farmed.written).max(1) as f64;
            let here = [farmed.workers, farmed.tasks, farmed.read, farmed.written].map(Cell::from);
            table.row(
                [NAMES[number(results)].into()]
                    .into_iter()
                    .chain(paper.map(Cell::from))
                    .chain(here)
                    .chain([zeros.into()]),
            );
        }
        outcome = outcome.table(table);
        let total = move |results: &Results| {
            INTEGERS[codec][number(results)][1] + INTEGERS[codec][number(results)][2]
        };
        let here = move |results: &Results| {
            of(results, ours).map_or(f64::NAN, |farmed| (farmed.read + farmed.written) as f64)
        };
        charts.push(chart(
            name,
            "integers read and written",
            &solved.0,
            [
                ("the paper".to_owned(), true, Box::new(total) as Box<dyn Fn(&Results) -> f64>),
                ("here".to_owned(), false, Box::new(here)),
            ],
        ));
    }
    let ratio = |results: &Results| {
        let [k, t] = ["kronecker", "terms"]
            .map(|codec| of(results, codec).map_or(f64::NAN, |f| (f.read + f.written) as f64));
        t / k
    };
    let ratios: Vec<f64> = solved.0.iter().map(ratio).filter(|ratio| ratio.is_finite()).collect();
    let (low, high) =
        ratios.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &r| (a.min(r), b.max(r)));
    Ok(outcome
        .claim(Claim::new(
            "1 to 3 times as many integers with DMPOLY as with Kronecker's method (its own \
             tables have less than 1 for two systems)",
            format!("{low:.2} to {high:.2} times as many"),
            low >= 0.9 && high <= 3.3,
        ))
        .note(here(lab, solved))
        .figure(Figure::charts("Aldor: integers that workers read and write", 2, charts)))
}

/// F21: where the time of workers goes.
pub(super) fn time(lab: &Lab) -> Result<Outcome> {
    let solved = lab.solved()?;
    let mut outcome = Outcome::default();
    let mut charts = Vec::new();
    let mut all = Vec::new();
    let mut dearer = (0, 0);
    for (codec, (name, ours)) in CODECS.into_iter().enumerate() {
        let head = [
            "system",
            "spawns ms 2008",
            "tags us 2008",
            "read ms 2008",
            "write ms 2008",
            "work s 2008",
            "overhead % 2008",
            "spawns ms",
            "tags us",
            "read ms",
            "write ms",
            "work s",
            "overhead %",
        ];
        let mut table = Table::new(format!("time-{}", name.to_lowercase()), head);
        for results in &solved.0 {
            let (Some(farmed), paper) = (of(results, ours), TIMES[codec][number(results)]) else {
                continue;
            };
            let here = [
                1e3 * farmed.spawn_seconds,
                1e6 * farmed.message_seconds,
                1e3 * farmed.read_seconds,
                1e3 * farmed.write_seconds,
                farmed.work_seconds,
                farmed.overhead,
            ];
            table.row(
                [NAMES[number(results)].into()]
                    .into_iter()
                    .chain(paper.map(Cell::from))
                    .chain(here.map(Cell::from)),
            );
            all.push(farmed.overhead);
            dearer.0 += usize::from(farmed.read_seconds > farmed.write_seconds);
            dearer.1 += 1;
        }
        outcome = outcome.table(table);
        let paper = move |results: &Results| TIMES[codec][number(results)][5];
        let here =
            move |results: &Results| of(results, ours).map_or(f64::NAN, |farmed| farmed.overhead);
        charts.push(chart(
            name,
            "overhead, % of the net work",
            &solved.0,
            [
                ("the paper".to_owned(), true, Box::new(paper) as Box<dyn Fn(&Results) -> f64>),
                ("here".to_owned(), false, Box::new(here)),
            ],
        ));
    }
    let (low, high) = all.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &r| (a.min(r), b.max(r)));
    let middle = crate::race::median(all).unwrap_or(f64::NAN);
    let work = |results: &Results| {
        let here = of(results, CODECS[0].1).map_or(f64::NAN, |farmed| farmed.work_seconds);
        TIMES[0][number(results)][4] / here
    };
    let shorter = crate::race::median(solved.0.iter().map(work).collect()).unwrap_or(f64::NAN);
    let why = format!(
        "the net work is {shorter:.0} times shorter here, in the median, so that a few spawns \
         weigh \
         more"
    );
    Ok(outcome
        .claim(
            Claim::new(
                "overheads of 0.3 to 36 % of the net work, most of the time negligible",
                format!("{low:.1} to {high:.1} %, {middle:.1} % in the median"),
                middle < 10.0,
            )
            .because(why),
        )
        .claim(Claim::new(
            "unserialising much more expensive than serialising",
            format!("reading takes longer than writing in {} of {} cases", dearer.0, dearer.1),
            dearer.0 * 4 > dearer.1 * 3,
        ))
        .note(here(lab, solved))
        .figure(Figure::charts("Aldor: where the time of workers goes", 2, charts)))
}

/// F22: the costs of one spawn, one tag and one integer.
pub(super) fn analysis(lab: &Lab) -> Result<Outcome> {
    let solved = lab.solved()?;
    let mut outcome = Outcome::default();
    let mut charts = Vec::new();
    let mut spread: f64 = 1.0;
    let mut reads = Vec::new();
    for (codec, (name, ours)) in CODECS.into_iter().enumerate() {
        let head = [
            "system",
            "spawn ms 2008",
            "tag us 2008",
            "read us per int 2008",
            "write us per int 2008",
            "spawn ms",
            "message us",
            "read us per int",
            "write us per int",
        ];
        let mut table = Table::new(format!("analysis-{}", name.to_lowercase()), head);
        let per = |seconds: f64, count: u64| {
            if count == 0 { f64::NAN } else { 1e6 * seconds / count as f64 }
        };
        let mut here = Vec::new();
        for results in &solved.0 {
            let n = number(results);
            let (Some(farmed), integers, times) =
                (of(results, ours), INTEGERS[codec][n], TIMES[codec][n])
            else {
                continue;
            };
            let write = if integers[2] > 0.0 { 1e3 * times[3] / integers[2] } else { f64::NAN };
            let paper = [
                times[0] / integers[0],
                times[1] / integers[0],
                1e3 * times[2] / integers[1],
                write,
            ];
            let read = per(farmed.read_seconds, farmed.read);
            here.push(read);
            let own = [
                1e3 * farmed.spawn_seconds / farmed.workers.max(1) as f64,
                1e6 * farmed.message_seconds / (2 * farmed.tasks).max(1) as f64,
                read,
                per(farmed.write_seconds, farmed.written),
            ];
            table.row(
                [NAMES[n].into()]
                    .into_iter()
                    .chain(paper.map(Cell::from))
                    .chain(own.map(Cell::from)),
            );
        }
        let known: Vec<f64> = here.iter().copied().filter(|us| us.is_finite()).collect();
        let (low, high) =
            known.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &r| (a.min(r), b.max(r)));
        spread = spread.max(high / low);
        reads.extend(crate::race::median(known));
        outcome = outcome.table(table);
        let paper = move |results: &Results| {
            1e3 * TIMES[codec][number(results)][2] / INTEGERS[codec][number(results)][1]
        };
        let read = move |results: &Results| {
            of(results, ours).map_or(f64::NAN, |farmed| per(farmed.read_seconds, farmed.read))
        };
        let written = move |results: &Results| {
            of(results, ours).map_or(f64::NAN, |farmed| per(farmed.write_seconds, farmed.written))
        };
        charts.push(chart(
            name,
            "time per integer, us",
            &solved.0,
            [
                (
                    "the paper: read".to_owned(),
                    true,
                    Box::new(paper) as Box<dyn Fn(&Results) -> f64>,
                ),
                ("here: read".to_owned(), false, Box::new(read)),
                ("here: written".to_owned(), false, Box::new(written)),
            ],
        ));
    }
    let costs = solved.1;
    let (spawn, message) = (1e3 * costs.spawn.as_secs_f64(), 1e6 * costs.message.as_secs_f64());
    let told = reads.iter().map(|us| format!("{us:.4}")).collect::<Vec<_>>().join(" and ");
    Ok(outcome
        .claim(Claim::beside(
            "averages of 30 and 37 ms per spawn, 145 and 153 us per tag, and 130 and 152 us per \
             integer read",
            format!(
                "{spawn:.2} ms per spawn, {message:.1} us per message, and {told} us per \
                 integer read"
            ),
        ))
        .claim(Claim::new(
            "an unserialising time per integer that varies by a factor of 9 to 13, unexplained",
            format!("it varies by a factor of {spread:.1} between systems"),
            spread > 5.0,
        ))
        .note(here(lab, solved))
        .figure(Figure::charts("Aldor: costs of one spawn, tag and integer", 2, charts)))
}

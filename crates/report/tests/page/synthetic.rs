//! Reports of runs that are computed, not measured: the same at each call.

use syncline_report::model::{
    ActivityInfo, Cause, Disk, Farm, Grid, LaneInfo, Messages, OverlayGraph, Report, Series,
    Summary, TimeLine, Wave,
};
use syncline_testkit::Random;

const ROWS: usize = 16;
const COLS: usize = 32;
const ITERATIONS: usize = 20;
const WORKERS: usize = 8;
const HOSTS: usize = 4;

const STEP: u16 = 0;
const AWAIT_TASK: u16 = 3;
const AWAIT_MESSAGE: u16 = 4;

/// Returns the activities of all reports here.
pub(crate) fn activities() -> Vec<ActivityInfo> {
    let named = [
        ("step", "work"),
        ("task of a pool", "work"),
        ("serves requests", "work"),
        ("no ready task", "wait"),
        ("waits for a message", "wait"),
        ("waits for the disk", "wait"),
        ("waits for a task of the pool", "wait"),
        ("between spans", "other"),
    ];
    let info =
        |(name, class): (&str, &str)| ActivityInfo { name: name.into(), class: class.into() };
    named.into_iter().map(info).collect()
}

/// The begins and ends of all steps of a sweep whose wave runs over the matrix of blocks.
struct Sweep {
    /// By block and iteration.
    steps: Vec<Vec<(f64, f64)>>,
    /// Messages as sender, receiver, sent, received.
    arrows: Vec<(u32, u32, f64, f64)>,
    length: f64,
}

fn worker_of(block: usize) -> usize {
    block / COLS * WORKERS / ROWS
}

fn host_of(worker: usize) -> usize {
    worker * HOSTS / WORKERS
}

/// Computes the steps in the order of the wave. Host 2 is slower than the others.
fn sweep_steps(random: &mut Random, slow: f64) -> Sweep {
    let mut steps = vec![Vec::new(); ROWS * COLS];
    let mut free = [0.0_f64; WORKERS];
    let mut arrows = Vec::new();
    for wave in 0..ROWS + COLS + 2 * ITERATIONS {
        for iteration in 0..ITERATIONS {
            let Some(diagonal) = wave.checked_sub(2 * iteration) else { continue };
            for row in 0..ROWS {
                let Some(col) = diagonal.checked_sub(row).filter(|&col| col < COLS) else {
                    continue;
                };
                let block = row * COLS + col;
                let worker = worker_of(block);
                let mut begin = free[worker];
                let mut needs = Vec::new();
                if row > 0 {
                    needs.push((block - COLS, iteration));
                }
                if col > 0 {
                    needs.push((block - 1, iteration));
                }
                if iteration > 0 && row + 1 < ROWS {
                    needs.push((block + COLS, iteration - 1));
                }
                if iteration > 0 && col + 1 < COLS {
                    needs.push((block + 1, iteration - 1));
                }
                for (other, of) in needs {
                    let (_, end): (f64, f64) = steps[other][of];
                    let (from, to) = (host_of(worker_of(other)), host_of(worker));
                    let mut there = end;
                    if from != to {
                        there += 60e-6 + 50e-6 * random.fraction();
                        arrows.push((from as u32, to as u32, end, there));
                    }
                    begin = begin.max(there);
                }
                let factor = if host_of(worker) == 2 { slow } else { 1.0 };
                let end = begin + factor * (1.1e-3 + 0.5e-3 * random.fraction());
                steps[block].push((begin, end));
                free[worker] = end;
            }
        }
    }
    arrows.sort_by(|a, b| a.2.total_cmp(&b.2));
    let length = free.into_iter().fold(0.0, f64::max) + 2e-3;
    Sweep { steps, arrows, length }
}

/// Returns the grid of the sweep's blocks.
fn grid(sweep: &Sweep) -> Grid {
    let blocks = ROWS * COLS;
    let (reached, ended) = (sweep.steps[blocks - 1][0].0, sweep.steps[0][ITERATIONS - 1].1);
    let (loaded, flushes) = (reached.min(ended), reached.max(ended));
    let mut grid = Grid { name: "block".into(), first: 1, stride: 1, ..Grid::default() };
    grid.tasks = (0..blocks).map(|b| format!("block {},{}", b / COLS, b % COLS)).collect();
    let mut sums = [(0.0, 0.0); 3];
    for iteration in 0..ITERATIONS {
        let (mut work, mut wait, mut phase) = (Vec::new(), Vec::new(), Vec::new());
        for steps in &sweep.steps {
            let (begin, end) = steps[iteration];
            let before = iteration.checked_sub(1).map_or(0.0, |before| steps[before].1);
            let of = if begin < loaded { 0 } else { 1 + u8::from(begin > flushes) };
            work.push(end - begin);
            wait.push(if iteration == 0 { begin.min(5e-3) } else { begin - before });
            phase.push(of);
            sums[usize::from(of)].0 += end - begin;
            sums[usize::from(of)].1 += wait[wait.len() - 1];
        }
        grid.work.push(work);
        grid.wait.push(wait);
        grid.phase.push(phase);
    }
    grid.ratios = sums.map(|(work, wait)| if work > 0.0 { wait / work } else { 0.0 });
    let all = sums.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    grid.ratio = all.1 / all.0;
    grid
}

/// Returns the lanes and the spans: the steps, and the waits between them.
fn lanes(sweep: &Sweep) -> (Vec<LaneInfo>, TimeLine) {
    let mut spans = Vec::new();
    let labels = (0..ROWS * COLS).map(|b| format!("block {},{}", b / COLS, b % COLS)).collect();
    let mut lanes = Vec::new();
    for worker in 0..WORKERS {
        let mut own: Vec<(f64, f64, usize)> = Vec::new();
        for (block, steps) in sweep.steps.iter().enumerate() {
            if worker_of(block) == worker {
                own.extend(steps.iter().map(|&(begin, end)| (begin, end, block)));
            }
        }
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut last, mut work, mut waits) = (0.0, 0.0, [0.0; 2]);
        for (i, &(begin, end, block)) in own.iter().enumerate() {
            if begin > last + 2e-6 {
                let kind = usize::from(i % 3 != 0);
                waits[kind] += begin - last;
                let activity = [AWAIT_TASK, AWAIT_MESSAGE][kind];
                spans.push((worker as u32, activity, last, begin - last, block as u32));
            }
            spans.push((worker as u32, STEP, begin, end - begin, block as u32));
            work += end - begin;
            last = end;
        }
        let rest = sweep.length - work - waits[0] - waits[1];
        lanes.push(LaneInfo {
            name: format!("worker {worker}"),
            host: format!("node{}", host_of(worker)),
            pid: 4100 + host_of(worker) as u32,
            from: 0.0,
            to: sweep.length,
            shares: vec![(0, work), (3, waits[0]), (4, waits[1]), (7, rest)],
            processor: Some((work * 0.99, work * 0.01)),
            open: Vec::new(),
        });
    }
    (lanes, TimeLine { spans, labels, ..TimeLine::default() })
}

fn messages(sweep: &Sweep) -> Messages {
    let mut pairs = Vec::new();
    for from in 0..HOSTS as u32 {
        for to in 0..HOSTS as u32 {
            let of = sweep.arrows.iter().filter(|arrow| (arrow.0, arrow.1) == (from, to));
            let mut ways: Vec<f64> = of.map(|arrow| arrow.3 - arrow.2).collect();
            ways.sort_by(f64::total_cmp);
            if let Some(&most) = ways.last() {
                pairs.push((from, to, ways.len() as u64, ways[ways.len() / 2], most));
            }
        }
    }
    let bar = |i: usize, arrow: &(u32, u32, f64, f64)| {
        i.is_multiple_of(5).then_some((arrow.1, AWAIT_MESSAGE, arrow.2 - 0.8e-3, arrow.3))
    };
    let arrows: Vec<_> = sweep.arrows.iter().take(600).copied().collect();
    Messages {
        peers: (0..HOSTS).map(|host| format!("node{host}, process {}", 4100 + host)).collect(),
        bars: arrows.iter().enumerate().filter_map(|(i, arrow)| bar(i, arrow)).collect(),
        arrows,
        all: sweep.arrows.len() as u64,
        pairs,
        clocks: "The clocks of 4 hosts were aligned by 200 exchanges; their error is at most 6 µs."
            .into(),
    }
}

fn disk(random: &mut Random, length: f64) -> Disk {
    let bins = 160;
    let rate = |i: usize, top: f64, random: &mut Random| {
        let ramp = (i as f64 / 12.0).min(1.0) * ((bins - i) as f64 / 20.0).min(1.0);
        top * ramp * (0.72 + 0.25 * random.fraction())
    };
    let file = |i: u32| {
        let bytes = 805_306_368 / u64::from(i + 1);
        (
            format!("data/z{}.bin", ["a", "b", "r", "u", "v", "z"][i as usize]),
            bytes >> 20,
            bytes,
            0.9e-3 + 1e-4 * f64::from(i),
            21e-3,
        )
    };
    Disk {
        bin: length / bins as f64,
        read: (0..bins).map(|i| rate(i, 2.6e9, random)).collect(),
        written: (0..bins).map(|i| rate(i, 0.9e9, random)).collect(),
        peak: (Some(2.9e9), Some(1.4e9)),
        files: (0..6).map(file).collect(),
    }
}

/// Returns an overlay as that of Fig. 1: each task writes its own location, and reads others.
fn overlay(random: &mut Random, length: f64) -> OverlayGraph {
    let tasks = 12_u32;
    let mut requests = Vec::new();
    for task in 0..tasks {
        requests.push((task, task, true));
        for to in [(task + 1) % tasks, (task + tasks - 1) % tasks] {
            requests.push((task, to, false));
        }
    }
    let mut steps = vec![Vec::new(); tasks as usize];
    let step = length / 45.0;
    for round in 0..ITERATIONS {
        for (task, steps) in steps.iter_mut().enumerate() {
            let turn = (2 * round + task % 2) as f64 + 0.8 * random.fraction();
            steps.push((turn * step, (turn + 0.3 + 0.5 * random.fraction()) * step));
        }
    }
    for steps in &mut steps {
        for i in 1..steps.len() {
            let before: (f64, f64) = steps[i - 1];
            let late = (before.1 - steps[i].0).max(0.0);
            steps[i] = (steps[i].0 + late, steps[i].1 + late);
        }
    }
    OverlayGraph {
        tasks: (0..tasks).map(|task| format!("t{task}")).collect(),
        locations: (0..tasks).map(|task| format!("edge {task}")).collect(),
        requests,
        steps,
        all: (512, 512),
    }
}

fn steps_done(sweep: &Sweep) -> Series {
    let mut ends: Vec<f64> = sweep.steps.iter().flatten().map(|step| step.1).collect();
    ends.sort_by(f64::total_cmp);
    let points = ends.iter().enumerate().step_by(32).map(|(i, &end)| (end, (i + 1) as f64));
    Series { name: "steps".into(), unit: "steps".into(), points: points.collect() }
}

/// Returns the report of a sweep of 512 blocks and 20 iterations on four hosts. A greater `slow`
/// makes host 2 slower.
pub(crate) fn sweep(slow: f64) -> Report {
    let mut random = Random::new(7);
    let sweep = sweep_steps(&mut random, slow);
    let (lanes, time_line) = lanes(&sweep);
    let threads = sweep.length * WORKERS as f64;
    let sum = |i: usize| lanes.iter().map(|lane| lane.shares[i].1).sum::<f64>() / threads;
    let (work, tasks, messages_wait) = (sum(0), sum(1), sum(2));
    let causes = vec![
        Cause {
            kind: "straggler".into(),
            what: "Host node2 takes longer for a step than the others.".into(),
            evidence: format!(
                "The median step takes {:.2} ms on node2 and 1.35 ms on the others; 71 % of all \
                 waits for messages end with a message of node2.",
                1.35 * slow
            ),
            advice: "Give node2 fewer blocks, or look for other programs on it.".into(),
            cost: messages_wait,
        },
        Cause {
            kind: "order".into(),
            what: "The wave loads and flushes during a large part of the run.".into(),
            evidence: "With 20 iterations, 46 of 86 waves keep not all workers busy.".into(),
            advice: "Run more iterations at once, or use larger strips.".into(),
            cost: tasks,
        },
    ];
    let shares = format!("{:.0} %", messages_wait * 100.0);
    let disk = disk(&mut random, sweep.length);
    let bytes = disk.read.iter().scan(0.0, |sum, rate| {
        *sum += rate * disk.bin;
        Some(*sum)
    });
    let bytes = bytes.enumerate().map(|(i, sum)| ((i + 1) as f64 * disk.bin, sum)).collect();
    Report {
        title: format!("mpirun -n 4 syncline run lk23 data --iterations 20 --slow {slow}"),
        began: 1_795_000_000.0,
        length: sweep.length,
        summary: Summary {
            headline: format!(
                "Host node2 takes longer for a step than the others: {shares} of the threads' time \
                 is waiting for its messages."
            ),
            causes,
            work,
            queued: 0.0,
            wait: tasks + messages_wait,
            waits: vec![(3, tasks), (4, messages_wait)],
        },
        facts: [
            ("command", "syncline run lk23"),
            ("hosts", "4"),
            ("processor", "AMD EPYC 9R14, 8 of 192 processors"),
            ("memory", "256 MiB for blocks, 15.4 GiB of the machine"),
            ("trace", "4 files, 41 203 events, 1.6 MB"),
            ("slow", &format!("{slow}")),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        missing: vec!["Host node3 lost 12 events: its buffer was full at 31 ms.".into()],
        activities: activities(),
        lanes,
        time_line,
        grids: vec![grid(&sweep), Grid { name: "second kind".into(), ..grid(&sweep) }],
        progress: vec![
            steps_done(&sweep),
            Series { name: "bytes read".into(), unit: "B".into(), points: bytes },
        ],
        wave: Some(Wave {
            rows: ROWS as u32,
            cols: COLS as u32,
            unit: "iteration".into(),
            steps: sweep.steps.clone(),
        }),
        overlay: Some(overlay(&mut random, sweep.length)),
        disk: Some(disk),
        messages: Some(messages(&sweep)),
        farm: None,
    }
}

/// Returns the report of a pool of eight workers that run 300 tasks.
pub(crate) fn farm() -> Report {
    let mut random = Random::new(11);
    let mut free = [0.0_f64; WORKERS];
    let mut busy = [0.0_f64; WORKERS];
    let (mut tasks, mut lengths, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    let mut spans = Vec::new();
    for task in 0..300_u64 {
        let least = (0..WORKERS).min_by(|&a, &b| free[a].total_cmp(&free[b])).unwrap_or(0);
        let begin = free[least] + 0.02 + 0.05 * random.fraction();
        let tail = if task == 290 { 14.0 } else { 1.0 };
        let length = tail * (0.15 + 0.9 * random.fraction() * random.fraction());
        spans.push((least as u32, 6, free[least], begin - free[least], 0));
        spans.push((least as u32, 1, begin, length, 0));
        tasks.push((least as u32, task, begin, begin + length));
        lengths.push(length);
        changes.extend([(begin, 1.0), (begin + length, -1.0)]);
        free[least] = begin + length;
        busy[least] += length;
    }
    let length = free.into_iter().fold(0.0, f64::max) + 0.1;
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let running = changes.iter().scan(0.0, |now, &(time, by)| {
        *now += by;
        Some((time, *now))
    });
    lengths.sort_by(f64::total_cmp);
    let mut ends: Vec<f64> = tasks.iter().map(|task| task.3).collect();
    ends.sort_by(f64::total_cmp);
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let work = busy.iter().sum::<f64>() / (length * WORKERS as f64);
    let lane = |worker: usize| LaneInfo {
        name: format!("worker {worker}"),
        host: "node0".into(),
        pid: 900 + worker as u32,
        from: 0.0,
        to: length,
        shares: vec![(1, busy[worker]), (6, length - busy[worker])],
        processor: None,
        open: if worker == 3 { vec![(6, "pool 1".into(), free[3])] } else { Vec::new() },
    };
    Report {
        title: "syncline farm run -j 8 -- gzip -k {}".into(),
        began: 1_795_000_100.0,
        length,
        summary: Summary {
            headline: "One task at the end takes long: seven of eight workers wait for it.".into(),
            causes: vec![Cause {
                kind: "farm-tail".into(),
                what: "Task 290 ends last.".into(),
                evidence: "It takes 14 times as long as the mean.".into(),
                advice: "Start the longest tasks first.".into(),
                cost: 0.21,
            }],
            work: 0.9 * work,
            queued: 0.1 * work,
            wait: 1.0 - work,
            waits: vec![(6, 1.0 - work)],
        },
        facts: vec![("workers".into(), "8".into()), ("tasks".into(), "300".into())],
        activities: activities(),
        lanes: (0..WORKERS).map(lane).collect(),
        time_line: TimeLine { spans, labels: vec!["pool 1".into()], ..TimeLine::default() },
        progress: vec![Series {
            name: "tasks of the pool".into(),
            unit: "tasks".into(),
            points: ends.iter().enumerate().map(|(i, &end)| (end, (i + 1) as f64)).collect(),
        }],
        farm: Some(Farm {
            workers: (0..WORKERS).map(|worker| format!("worker {worker}")).collect(),
            tasks,
            running: running.collect(),
            lengths: [lengths[0], lengths[150], mean, lengths[299]],
        }),
        ..Report::default()
    }
}

/// Returns a report of many threads whose time line is in bins.
pub(crate) fn bins() -> Report {
    let mut random = Random::new(3);
    let (threads, bins, length) = (120_usize, 400, 93.0);
    let line = |random: &mut Random| -> Vec<(i16, u8)> {
        let bin = |i: usize, random: &mut Random| match random.below(10) {
            0 => (-1, 0),
            1..=2 => (4, random.below(40) as u8),
            _ if i > 380 => (3, 5),
            _ => (0, 60 + random.below(41) as u8),
        };
        (0..bins).map(|i| bin(i, random)).collect()
    };
    let lane = |thread: usize| LaneInfo {
        name: format!("member {thread}"),
        host: format!("node{}", thread / 30),
        pid: 7000 + thread as u32,
        to: length,
        shares: vec![(0, length * 0.7), (3, length * 0.1), (4, length * 0.15)],
        ..LaneInfo::default()
    };
    Report {
        title: "mpirun -n 120 ./program".into(),
        length,
        activities: activities(),
        lanes: (0..threads).map(lane).collect(),
        time_line: TimeLine {
            bin: length / bins as f64,
            bins: (0..threads).map(|_| line(&mut random)).collect(),
            ..TimeLine::default()
        },
        summary: Summary {
            headline: "No cause was found.".into(),
            work: 0.7,
            ..Summary::default()
        },
        ..Report::default()
    }
}

/// Makes all texts of a report hostile: what ends elements, what is long, what is not ASCII.
pub(crate) fn hostile(mut report: Report) -> Report {
    let texts = [
        "</script><script>throw new Error('escaped')</script>",
        "<!-- <script>",
        "{{library}}",
        "\u{202e}right to left\0\u{2028}\u{7}",
        "'\"&amp;<img src=x onerror=\"throw 1\">",
        "{a|rich} $& \\u003c {b}",
        "☃𝔘nicode and a word thatislongerthananyscreenthatislongerthananyscreenthatislongerthananyscreen",
    ];
    let mut at = 0;
    let mut next = |text: &mut String| {
        *text = texts[at % texts.len()].to_owned();
        at += 1;
    };
    next(&mut report.title);
    next(&mut report.summary.headline);
    for cause in &mut report.summary.causes {
        for text in [&mut cause.kind, &mut cause.what, &mut cause.evidence, &mut cause.advice] {
            next(text);
        }
    }
    for (name, value) in &mut report.facts {
        next(name);
        next(value);
    }
    report.missing.iter_mut().for_each(&mut next);
    report.activities.iter_mut().for_each(|activity| next(&mut activity.name));
    for lane in &mut report.lanes {
        next(&mut lane.name);
        next(&mut lane.host);
    }
    report.time_line.labels.iter_mut().for_each(&mut next);
    for grid in &mut report.grids {
        next(&mut grid.name);
        grid.tasks.iter_mut().for_each(&mut next);
    }
    for series in &mut report.progress {
        next(&mut series.name);
        next(&mut series.unit);
    }
    if let Some(overlay) = &mut report.overlay {
        overlay.tasks.iter_mut().for_each(&mut next);
        overlay.locations.iter_mut().for_each(&mut next);
    }
    if let Some(disk) = &mut report.disk {
        disk.files.iter_mut().for_each(|file| next(&mut file.0));
    }
    if let Some(messages) = &mut report.messages {
        messages.peers.iter_mut().for_each(&mut next);
        next(&mut messages.clocks);
    }
    if let Some(farm) = &mut report.farm {
        farm.workers.iter_mut().for_each(&mut next);
    }
    report
}

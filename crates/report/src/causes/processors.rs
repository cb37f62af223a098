//! Threads without a processor, tasks on the wrong members, and pages that come from the disk.

use std::collections::BTreeMap;

use syncline_trace::{Activity, Role};

use super::{Evidence, LEAST, percent};
use crate::load::Usage;
use crate::model::Cause;

/// There are too many threads if this many want a processor for each that there is.
const MANY: f64 = 1.25;
/// Threads use their processors up if they run for this part of the processors' time.
const FULL: f64 = 0.7;

/// What the kernel says of a thread over the run.
struct OnProcessor {
    lane: usize,
    usage: Usage,
    allowed: Vec<u32>,
}

fn threads(evidence: &Evidence<'_>) -> Vec<OnProcessor> {
    let thread = |&lane: &usize| {
        let of = &evidence.trace.lanes[lane];
        Some(OnProcessor { lane, usage: of.usage()?, allowed: numbers(of.allowed()) })
    };
    evidence.workers.iter().filter_map(thread).collect()
}

/// Returns the numbers of ranges such as `0-3,8`.
fn numbers(ranges: &str) -> Vec<u32> {
    let range = |range: &str| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?)
    };
    ranges.split(',').filter_map(range).flatten().take(4096).collect()
}

/// What the processors of the machine did during the run.
#[derive(Default)]
struct Machine {
    /// The part of its time that each processor was idle.
    idle: Vec<f64>,
    /// The busy time of all processors in nanoseconds, and the time that a hypervisor took.
    busy: f64,
    stolen: f64,
}

fn machine(evidence: &Evidence<'_>) -> Option<Machine> {
    let samples = evidence.trace.processes.iter().map(|process| &process.machine);
    let samples = samples.max_by_key(|samples| samples.len())?;
    let ((begin, first), (end, last)) = (samples.first()?, samples.last()?);
    // The samples of a run that has not ended do not reach to its last event.
    let sampled = end.monotonic_ns.saturating_sub(begin.monotonic_ns).max(1);
    let factor = 1e7 * evidence.trace.length as f64 / sampled as f64;
    let mut machine = Machine::default();
    for (from, to) in first.processors.iter().zip(&last.processors) {
        let [busy, idle, waiting, stolen] =
            [0, 1, 2, 3].map(|i| to[i].saturating_sub(from[i]) as f64);
        let all = busy + idle + waiting + stolen;
        machine.idle.push(if all > 0.0 { (idle + waiting) / all } else { 0.0 });
        machine.busy += busy * factor;
        machine.stolen += stolen * factor;
    }
    (machine.busy > 0.0).then_some(machine)
}

/// Threads were ready to run, and had no processor.
pub(super) fn processors(evidence: &Evidence<'_>) -> Option<Cause> {
    // The commands of a farm are other programs, and have no threads here.
    if evidence.collected.farm.slots() > 0 {
        return None;
    }
    let threads = threads(evidence);
    let queued: f64 = threads.iter().map(|thread| thread.usage.queued).sum();
    let ran: f64 = threads.iter().map(|thread| thread.usage.ran).sum();
    let cost = (queued / evidence.total).min(1.0);
    let machine = machine(evidence).unwrap_or_default();
    let mut late: Vec<&OnProcessor> =
        threads.iter().filter(|t| t.usage.queued * 20.0 > t.usage.ran).collect();
    late.sort_by(|a, b| b.usage.queued.total_cmp(&a.usage.queued));
    let lanes: Vec<usize> = late.iter().map(|thread| thread.lane).collect();
    let ready = format!(
        "{}: without a processor for {} of the time in which they could have run",
        evidence.names(&lanes),
        percent(queued / (ran + queued).max(1.0))
    );
    if let Some(cause) = crowded(evidence, &threads, &machine, &ready, cost) {
        return Some(cause);
    }
    let processors = machine.idle.len().max(1);
    let length = evidence.trace.length.max(1) as f64;
    let others = (machine.busy - ran).max(0.0);
    let taken = others.max(machine.stolen);
    let mut allowed: Vec<u32> = threads.iter().flat_map(|thread| thread.allowed.clone()).collect();
    allowed.sort_unstable();
    allowed.dedup();
    let allowed = if allowed.is_empty() { processors } else { allowed.len() };
    // The number of threads that want a processor at a time, for work: threads that read ahead for
    // others, or that take turns by permits, are more than that.
    let worked: f64 = evidence.workers.iter().map(|&lane| evidence.worked(lane)).sum();
    let wanted = (ran + queued).min(worked) / length;
    let full = allowed as f64 * length;
    if wanted > MANY * allowed as f64 && ran > FULL * full && taken < ran && !lanes.is_empty() {
        return Some(Cause {
            kind: "oversubscribed".into(),
            what: format!("Too many threads: {wanted:.0} compute on {allowed} processors."),
            evidence: format!("{ready}."),
            advice: "Use as many threads or processes as there are processors.".into(),
            cost,
        });
    }
    // What others took must explain the lack, as threads of the run also wait for one another; or
    // be a good part of the machine.
    let much = taken > 0.3 * queued || taken > 0.15 * processors as f64 * length;
    // The kernel counts ticks of 10 ms on each processor.
    let sure = taken > 4e7 * processors as f64 && !lanes.is_empty();
    (much && sure).then(|| {
        let by = if machine.stolen > others { "the hypervisor" } else { "other programs" };
        let which = stand_out(evidence, &threads).unwrap_or_else(|| "the threads".into());
        Cause {
            kind: "busy-machine".into(),
            what: format!("The machine is busy: {by} took processors that {which} needed."),
            evidence: format!(
                "{ready}; {by} used {:.1} of {processors} processors.",
                taken / length
            ),
            advice: "Run when the machine is free, or use fewer threads.".into(),
            cost,
        }
    })
}

/// Returns the names of the threads that lack a processor more than others do; of their processes,
/// if several have threads.
fn stand_out(evidence: &Evidence<'_>, threads: &[OnProcessor]) -> Option<String> {
    let unit = |lane: usize| match evidence.has_processes() {
        true => evidence.trace.lanes[lane].process,
        false => lane,
    };
    let mut units: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for thread in threads {
        let unit = units.entry(unit(thread.lane)).or_insert((0.0, thread.lane));
        unit.0 += thread.usage.queued;
    }
    let most = units.values().map(|unit| unit.0).fold(0.0, f64::max);
    let late: Vec<usize> =
        units.values().filter(|unit| unit.0 * 2.0 > most).map(|unit| unit.1).collect();
    (late.len() < units.len()).then(|| evidence.names(&late))
}

/// A process wrote nothing for a while, though it writes ten times a second as long as it runs.
pub(super) fn stopped(evidence: &Evidence<'_>) -> Option<Cause> {
    const LEAST_GAP: i128 = 1_000_000_000;
    let trace = evidence.trace;
    let gap = |process: usize| {
        let clocks = &trace.processes[process].clocks;
        let times = clocks.iter().map(|pair| i128::from(trace.time(process, pair.ticks)));
        // A member that has not ended stands still up to the end of the run. A pool replaces a
        // worker that was killed.
        let is_member = trace
            .lanes
            .iter()
            .any(|lane| lane.process == process && matches!(lane.role, Some(Role::Member(_))));
        let goes_on = is_member && !trace.processes[process].ended;
        let end = goes_on.then_some(i128::from(trace.length));
        let times: Vec<i128> = times.chain(end).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    };
    let processes = evidence.workers.iter().map(|&lane| (lane, trace.lanes[lane].process));
    let (lane, gap) = processes
        .filter(|&(_, process)| !trace.is_idle_worker(process))
        .map(|(lane, process)| (lane, gap(process)))
        .max_by_key(|&(_, gap)| gap)?;
    (gap > LEAST_GAP).then(|| Cause {
        kind: "stopped".into(),
        what: format!(
            "{} stood still for {}.",
            trace.process_name(trace.lanes[lane].process),
            super::time(gap as f64)
        ),
        evidence:
            "Its process wrote no frame of the trace meanwhile: it was stopped or killed, or \
                   had no processor."
                .into(),
        advice: "Look at the process, and at what the system or the batch system did to it.".into(),
        cost: gap as f64 / trace.length.max(1) as f64,
    })
}

/// A limit of processor time, such as that of a container, stopped a process.
pub(super) fn limit(evidence: &Evidence<'_>) -> Option<Cause> {
    let length = evidence.trace.length.max(1) as f64;
    let stopped = |process: usize| {
        let samples = &evidence.trace.processes[process].machine;
        samples.last().map_or(0.0, |(_, last)| last.throttled_ns as f64 / length)
    };
    let mut held: Vec<usize> = evidence
        .workers
        .iter()
        .copied()
        .filter(|&lane| stopped(evidence.trace.lanes[lane].process) >= LEAST)
        .collect();
    let longest = |&lane: &usize| stopped(evidence.trace.lanes[lane].process);
    held.sort_by(|a, b| longest(b).total_cmp(&longest(a)));
    let cost = held.first().map(longest)?.min(1.0);
    let which = match held.len() < evidence.workers.len() {
        true => evidence.names(&held),
        false => "the run".into(),
    };
    Some(Cause {
        kind: "limit".into(),
        what: format!("A limit of processor time holds {which} back."),
        evidence: format!(
            "The system stopped it for {} of the run, as it had used what it may.",
            percent(cost)
        ),
        advice:
            "Look at the quota of the container or of the batch system (cpu.max), or use fewer \
                 threads."
                .into(),
        cost,
    })
}

/// Threads share few processors while others are idle.
fn crowded(
    evidence: &Evidence<'_>,
    threads: &[OnProcessor],
    machine: &Machine,
    ready: &str,
    cost: f64,
) -> Option<Cause> {
    let mut sets: BTreeMap<&[u32], (Vec<usize>, f64)> = BTreeMap::new();
    for thread in threads {
        let set = sets.entry(&thread.allowed).or_default();
        set.0.push(thread.lane);
        set.1 += thread.usage.ran;
    }
    let length = evidence.trace.length as f64;
    // They use their processors up, and would use more.
    let full = |set: &[u32], ran: f64| ran > FULL * set.len() as f64 * length;
    let idle_elsewhere = |set: &[u32]| -> Vec<(u32, f64)> {
        let idle = (0_u32..).zip(machine.idle.iter().copied());
        idle.filter(|&(processor, idle)| idle > 0.3 && !set.contains(&processor)).collect()
    };
    let (set, lanes) = sets
        .iter()
        .find(|(set, (lanes, ran))| {
            lanes.len() > set.len() && full(set, *ran) && !idle_elsewhere(set).is_empty()
        })
        .map(|(set, (lanes, _))| (set, lanes))?;
    let idle = idle_elsewhere(set).into_iter().take(3);
    let idle = idle.map(|(p, idle)| format!("processor {p} was idle for {}", percent(idle)));
    let allowed: Vec<String> = set.iter().map(u32::to_string).collect();
    Some(Cause {
        kind: "placement".into(),
        what: format!(
            "Wrong placement: {} may run on processor {} only, while others are idle.",
            evidence.names(lanes),
            allowed.join(", ")
        ),
        evidence: format!("{ready}; {}.", idle.collect::<Vec<_>>().join(", ")),
        advice: "Let each thread have a processor of its own: look at taskset, at the binding \
                 options of mpirun, and at the cpuset of the container."
            .into(),
        cost,
    })
}

/// The tasks of a team are on few members, or far from the tasks that they exchange data with.
pub(super) fn tasks_of_a_team(evidence: &Evidence<'_>) -> Option<Cause> {
    let process = evidence.trace.processes.iter().max_by_key(|process| process.tasks.len())?;
    let members: Vec<u32> = process.tasks.values().filter_map(|task| task.member).collect();
    const MOST: u32 = 1 << 20;
    let count = members.iter().max()?.saturating_add(1);
    // A damaged trace may hold any numbers.
    if !(2..MOST).contains(&count) || members.len() < process.tasks.len() {
        return None;
    }
    let cost = evidence.part(Activity::AwaitTask) + evidence.part(Activity::AwaitMessage);
    let mut of_member = vec![0_usize; count as usize];
    members.iter().for_each(|&member| of_member[member as usize] += 1);
    let (most, &tasks) = of_member.iter().enumerate().max_by_key(|&(_, tasks)| tasks)?;
    if tasks * count as usize > members.len() * 3 / 2
        && tasks > members.len().div_ceil(count as usize)
    {
        return Some(Cause {
            kind: "placement".into(),
            what: format!(
                "Wrong placement: member {most} runs {tasks} of {} tasks.",
                members.len()
            ),
            evidence: format!(
                "The members run {of_member:?} tasks; they wait for {}.",
                percent(cost)
            ),
            advice: "Place equal parts of the tasks in the members, or leave out Overlay::place."
                .into(),
            cost,
        });
    }
    // The tasks of a sweep are placed by the sweep.
    if evidence.trace.fact("sweep.executor").is_some() {
        return None;
    }
    let (mut now, mut contiguous, mut all) = (0, 0, 0);
    for &(first, tasks) in &process.overlays {
        let ids = || process.tasks.range(first..first.saturating_add(tasks)).map(|(&id, _)| id);
        let length = ids().count().max(1);
        let parts: BTreeMap<u32, u32> =
            ids().enumerate().map(|(i, id)| (id, (i * count as usize / length) as u32)).collect();
        let placed = |id: u32| process.tasks.get(&id).and_then(|task| task.member);
        let own: Vec<_> = process
            .accesses
            .iter()
            .copied()
            .filter(|access| parts.contains_key(&access.0))
            .collect();
        let found = crossings(&own, placed, |id| parts.get(&id).copied());
        (now, contiguous, all) = (now + found.0, contiguous + found.1, all + found.2);
    }
    (now > 2 * contiguous.max(1) && now * 5 > all).then(|| Cause {
        kind: "placement".into(),
        what: format!("Wrong placement: {now} of {all} requests are at locations of other members."),
        evidence: format!(
            "With equal parts of consecutive tasks {contiguous} requests would be; the members wait for {}.",
            percent(cost)
        ),
        advice: "Place tasks that share locations in the same member.".into(),
        cost,
    })
}

/// Returns the requests whose location another member writes, for two placements, and all requests.
fn crossings(
    accesses: &[(u32, u32, bool)],
    placed: impl Fn(u32) -> Option<u32>,
    other: impl Fn(u32) -> Option<u32>,
) -> (usize, usize, usize) {
    let writers: BTreeMap<u32, u32> = accesses
        .iter()
        .filter(|&&(_, _, exclusive)| exclusive)
        .map(|&(task, location, _)| (location, task))
        .collect();
    let reads = || accesses.iter().filter(|access| !access.2);
    let pairs =
        || reads().filter_map(|&(task, location, _)| Some((task, *writers.get(&location)?)));
    let crossing =
        |of: &dyn Fn(u32) -> Option<u32>| pairs().filter(|&(a, b)| of(a) != of(b)).count();
    (crossing(&placed), crossing(&other), pairs().count())
}

/// Pages came from the disk while threads needed them.
pub(super) fn memory(evidence: &Evidence<'_>) -> Option<Cause> {
    let threads = threads(evidence);
    let faults: u64 = threads.iter().map(|thread| thread.usage.major_faults).sum();
    let seconds = evidence.trace.length as f64 / 1e9;
    if (faults as f64) < 20.0 * seconds.max(0.1) {
        return None;
    }
    // A thread that neither ran nor was ready slept: in its work, for pages.
    let slept = |OnProcessor { lane, usage, .. }: &OnProcessor| {
        (evidence.worked(*lane) - usage.ran - usage.queued).max(0.0)
    };
    let slept: f64 = threads.iter().filter(|t| t.usage.major_faults > 0).map(slept).sum();
    Some(Cause {
        kind: "memory".into(),
        what: "Memory: the threads wait for pages that come from the disk.".into(),
        evidence: format!(
            "{faults} page faults waited for the disk, {:.0} in a second; the threads slept for {} \
             of their time inside their work.",
            faults as f64 / seconds.max(1e-9),
            percent(slept / evidence.total)
        ),
        advice:
            "Give the run more memory, or use the streamed executor with --memory below what is \
                 free."
                .into(),
        cost: slept / evidence.total,
    })
}

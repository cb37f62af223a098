//! Waits for the disk, for a lock, for messages and for tasks; runs that are stuck.

use std::collections::HashMap;

use syncline_trace::Activity;

use super::{Evidence, percent, rate, time};
use crate::collect::disk::DiskCollector;
use crate::model::Cause;

/// A disk that works at this part of its measured rate is as fast as can be expected.
const AT_PEAK: f64 = 0.4;
/// Requests of fewer bytes do not reach the measured rate on a disk that is well.
const SMALL: f64 = 65_536.0;

/// The run did not end, and all of its threads wait.
pub(super) fn stuck(evidence: &Evidence<'_>) -> Option<Cause> {
    let trace = evidence.trace;
    if trace.processes.iter().all(|process| process.ended) {
        return None;
    }
    let mut waits = Vec::new();
    for &lane in &evidence.workers {
        let process = trace.lanes[lane].process;
        if trace.processes[process].ended {
            continue;
        }
        let open = trace.lanes[lane].open.last()?;
        let activity = Activity::from_number(open.activity)?;
        let since = trace.time(process, open.since);
        let waited = trace.length.saturating_sub(since);
        if activity.class() != syncline_trace::ActivityClass::Wait || waited < 1_000_000_000 {
            return None;
        }
        let object = trace.object(process, activity, open.subject, open.detail);
        let words = format!("{} {} {object}", evidence.name(lane), activity.name());
        waits.push((waited, words.trim_end().to_owned()));
    }
    let shortest = waits.iter().map(|wait| wait.0).min()?;
    let all: Vec<String> = waits.iter().take(6).map(|(_, words)| words.clone()).collect();
    Some(Cause {
        kind: "stuck".into(),
        what: format!("The run is stuck: all threads wait, since {}.", time(shortest as f64)),
        evidence: format!("{}.", all.join("; ")),
        advice:
            "Look for a member that has left, for a lock that is not released, and for calls in \
                 another order."
                .into(),
        cost: (shortest as f64 / trace.length.max(1) as f64).max(super::LEAST),
    })
}

/// Threads wait while requests to the disk are under way.
pub(super) fn disk(evidence: &Evidence<'_>) -> Option<Cause> {
    let collected = evidence.collected;
    let busy = collected.disk.busy();
    let waits = |activity: Activity| {
        matches!(activity, Activity::AwaitTask | Activity::AwaitDisk | Activity::AwaitPermit)
    };
    let waiting = collected.time_line.part(&evidence.workers, waits);
    // The bins of the two are of different lengths.
    let at = |index: usize| {
        let time = (index as f64 + 0.5) * collected.time_line.bin as f64;
        busy[((time / collected.disk.bin as f64) as usize).min(busy.len() - 1)]
    };
    let waited: f64 = waiting.iter().enumerate().map(|(index, wait)| wait * at(index)).sum();
    let bins = (collected.time_line.bin * evidence.workers.len() as u64) as f64;
    let cost = evidence.cost(waited * bins);
    let mapped = evidence.part(Activity::AwaitDisk);
    if !collected.disk.is_used() && mapped == 0.0 {
        return None;
    }
    let by_pages = mapped > cost || !collected.disk.is_used();
    let cost = cost.max(mapped);
    let delivered = collected.disk.rate_while_busy();
    let (read, write) = DiskCollector::peak(evidence.trace);
    let measured: Vec<String> = [("reading", read), ("writing", write)]
        .iter()
        .filter_map(|&(what, peak)| Some(format!("{what} was measured at {}", rate(peak?))))
        .collect();
    let least = read.into_iter().chain(write).min_by(f64::total_cmp);
    let measured = match measured.is_empty() {
        true => "the disk's own rates were not measured".to_owned(),
        false => measured.join(", "),
    };
    let count = collected.disk.requests();
    let mean = collected.disk.bytes.iter().sum::<u64>() as f64 / count.max(1) as f64;
    let requests = match count {
        0 => String::new(),
        count => format!("{count} requests of {:.0} kB (mean); ", mean / 1e3),
    };
    let figures = format!(
        "Threads wait for {} of the time while the disk works; {requests}{measured}.",
        percent(cost)
    );
    let (what, advice) = match least {
        _ if by_pages => (
            "The disk bounds the run: threads wait for its pages.".into(),
            "More memory, or a disk that is faster, lets the threads wait less.",
        ),
        Some(least) if delivered < AT_PEAK * least && mean >= SMALL => (
            format!(
                "A slow disk: it delivers {}, and {} were measured before.",
                rate(delivered),
                rate(least)
            ),
            "See what else uses the disk, and whether the file system is on the disk that was measured.",
        ),
        Some(_) if mean < SMALL => (
            format!(
                "The disk bounds the run: it delivers {} in requests of {:.0} kB.",
                rate(delivered),
                mean / 1e3
            ),
            "Larger pieces of data at once: fewer members on a host, or higher bands and wider columns.",
        ),
        Some(_) => (
            format!("The disk bounds the run: it delivers {}.", rate(delivered)),
            "More memory, or more iterations, let a pass carry more of them (--memory); a faster disk \
             helps as well.",
        ),
        None => (
            format!("The disk bounds the run: it delivers {}.", rate(delivered)),
            "Measure the disk (syncline probe); more memory lets a pass carry more iterations.",
        ),
    };
    Some(Cause { kind: "disk".into(), what, evidence: figures, advice: advice.into(), cost })
}

/// Threads wait for one lock.
pub(super) fn lock(evidence: &Evidence<'_>) -> Option<Cause> {
    let mut locks: HashMap<String, (u64, Vec<u64>)> = HashMap::new();
    for &lane in &evidence.workers {
        for (&(activity, subject), &waited) in &evidence.collected.shares.lanes[lane].waits {
            if activity == Activity::AwaitLock || activity == Activity::AwaitLocation {
                let process = evidence.trace.lanes[lane].process;
                let name = evidence.trace.object(process, activity, subject, 0);
                let lock = locks.entry(name).or_default();
                lock.0 += waited;
                lock.1.push(waited);
            }
        }
    }
    let (name, (waited, each)) = locks.into_iter().max_by_key(|(_, lock)| lock.0)?;
    let cost = evidence.cost(waited as f64);
    // A thread that hardly ever waits is the one for which the others do.
    let longest = each.iter().max().copied().unwrap_or(0);
    let threads = each.iter().filter(|&&own| own * 20 > longest).count();
    let threads =
        if threads == 1 { "a thread waits".into() } else { format!("{threads} threads wait") };
    Some(Cause {
        kind: "lock".into(),
        what: format!("A lock: {threads} for {name}."),
        evidence: format!("That takes {} of the run's time.", percent(cost)),
        advice:
            "Hold it for less time, divide what it protects, or collect changes and apply many at \
                 once."
                .into(),
        cost,
    })
}

/// All members wait for one another's messages.
pub(super) fn messages(evidence: &Evidence<'_>) -> Option<Cause> {
    const BY_MESSAGES: [Activity; 4] =
        [Activity::AwaitSync, Activity::AwaitFence, Activity::AwaitMessage, Activity::AwaitBarrier];
    let count = evidence.collected.messages.count();
    if count == 0 {
        return None;
    }
    // The member that waits least is late for none of its waits: what it waits, the messages take.
    let waits = |&lane: &usize| {
        let own = &evidence.collected.shares.lanes[lane];
        BY_MESSAGES.iter().map(|&a| evidence.time(lane, a)).sum::<f64>()
            / own.length().max(1) as f64
    };
    let mut cost = evidence.workers.iter().map(waits).fold(f64::MAX, f64::min);
    let under_way = evidence.collected.messages.median() as f64;
    let step =
        evidence.collected.steps.kinds.iter().filter(|kind| kind.steps() > 0).map(|kind| {
            kind.work.iter().map(|work| work.0).sum::<u64>() as f64 / kind.steps() as f64
        });
    // Tasks that wait for values of other members.
    if step.fold(0.0, f64::max) < 5.0 * under_way {
        cost += evidence.part(Activity::AwaitTask);
    }
    let seconds = evidence.trace.length.max(1) as f64 / 1e9;
    Some(Cause {
        kind: "messages".into(),
        what: format!(
            "Messages: the members wait for each other's messages, which are under way for {}.",
            time(under_way)
        ),
        evidence: format!(
            "{count} messages, {:.0} in a second; every member waits for at least {} of its time.",
            count as f64 / seconds,
            percent(cost)
        ),
        advice:
            "Exchange more at once and less often, overlap the exchange with work (split-phase \
                 calls), or look at the network between the hosts."
                .into(),
        cost,
    })
}

/// The order of the tasks leaves threads without work.
pub(super) fn order(evidence: &Evidence<'_>) -> Option<Cause> {
    let cost = evidence.part(Activity::AwaitTask) + evidence.part(Activity::AwaitLocation);
    let collected = evidence.collected;
    let works = |activity: Activity| activity == Activity::Step;
    let working = collected.time_line.part(&evidence.workers, works);
    let threads = evidence.workers.len();
    let length = evidence.trace.length.max(1) as f64;
    let count = evidence.at_once;
    let mean = working.iter().sum::<f64>() / working.len().max(1) as f64 * threads as f64;
    let kind = collected.steps.kinds.iter().max_by_key(|kind| kind.steps())?;
    let (steps, work) = (kind.steps(), kind.work.iter().map(|work| work.0).sum::<u64>());
    let step = work as f64 / steps.max(1) as f64;
    if step < 2_000.0 {
        return Some(Cause {
            kind: "small-tasks".into(),
            what: format!("Small tasks: a step takes {}, hardly more than its order.", time(step)),
            evidence: format!(
                "{steps} steps; the threads are between steps for {}.",
                percent(cost)
            ),
            advice: "Give each task more work: larger blocks.".into(),
            cost,
        });
    }
    let (loaded, flush) = kind.stable();
    let outer = (loaded as f64 + (length - flush as f64).max(0.0)) / length;
    let advice = if outer > 0.5 {
        "Loading and flushing take most of the run: more iterations in one run, or smaller blocks, \
         make them shorter."
    } else {
        "Smaller blocks, or an order in which more tasks are ready at once, let all threads work; or \
         use fewer threads."
    };
    Some(Cause {
        kind: "order".into(),
        what: format!(
            "Order: the order of tasks keeps {mean:.1} of {count} {} at work.",
            if count < threads { "processors" } else { "threads" }
        ),
        evidence: format!(
            "No task is ready for {} of the run's time; loading and flushing take {} of the run.",
            percent(cost),
            percent(outer.min(1.0))
        ),
        advice: advice.into(),
        cost,
    })
}

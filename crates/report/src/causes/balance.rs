//! One thread, or one task, that takes longer than the others.

use std::collections::BTreeMap;

use syncline_trace::{Activity, Role};

use super::processors::processors;
use super::{Evidence, LEAST, median, percent, time};
use crate::collect::Histogram;
use crate::load::Usage;
use crate::model::Cause;

/// A thread is late if it takes this many times as long as the median.
const LATE: f64 = 1.25;

/// Threads of the same kind that wait for one of them. A thread that is late for want of a
/// processor is no cause of its own.
pub(super) fn balance(evidence: &Evidence<'_>) -> Option<Cause> {
    let lacks = processors(evidence).is_some_and(|cause| cause.cost >= LEAST);
    if let Some(late) = late_by_steps(evidence) {
        return (!lacked_processors(evidence, &late.lanes, lacks))
            .then(|| by_steps(evidence, &late));
    }
    by_heavy_task(evidence).or_else(|| by_work(evidence, lacks))
}

/// The part of the time in which the other threads waited for something that a late thread delays.
fn others_wait(evidence: &Evidence<'_>, late: &[usize]) -> f64 {
    const FOR_OTHERS: [Activity; 6] = [
        Activity::AwaitTask,
        Activity::AwaitBarrier,
        Activity::AwaitSync,
        Activity::AwaitMessage,
        Activity::AwaitLocation,
        Activity::AwaitSignal,
    ];
    let others = evidence.workers.iter().filter(|lane| !late.contains(lane));
    let waits = others.map(|&lane| FOR_OTHERS.iter().map(|&a| evidence.time(lane, a)).sum::<f64>());
    evidence.cost(waits.sum())
}

/// Threads whose steps take longer than those of others.
struct Late {
    lanes: Vec<usize>,
    /// The median of their steps in nanoseconds, and that of others.
    own: f64,
    usual: f64,
    /// The nanoseconds that their steps took more than those of others would have.
    lost: f64,
}

/// Finds a thread whose steps take longer than the same kind of steps in other threads; or a
/// process, if several have threads.
fn late_by_steps(evidence: &Evidence<'_>) -> Option<Late> {
    let mut units: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &lane in &evidence.workers {
        let process = evidence.trace.lanes[lane].process;
        let unit = if evidence.has_processes() { process } else { lane };
        units.entry(unit).or_default().push(lane);
    }
    let mut found: Option<Late> = None;
    for kind in &evidence.collected.steps.kinds {
        let times = |lanes: &[usize]| {
            let mut all = <[Histogram; 2]>::default();
            for lane in lanes.iter().filter_map(|lane| kind.lanes.get(lane)) {
                all.iter_mut().zip(lane).for_each(|(all, lane)| all.merge(lane));
            }
            all
        };
        let units: Vec<(&[usize], [Histogram; 2])> = units
            .values()
            .map(|lanes| (&lanes[..], times(lanes)))
            .filter(|(_, steps)| steps[0].count >= 3)
            .collect();
        for (lanes, steps) in &units {
            let others = |of: usize| {
                let others = units.iter().filter(|other| other.0 != *lanes);
                median(others.map(|other| other.1[of].median() as f64).collect())
            };
            // A thread that executes a quarter of its steps as fast as others has heavy tasks; one
            // whose steps are as long as those of others, with the waits for the disk, is not late.
            let is_late = |of: usize| {
                let least = LATE * others(of).max(1.0);
                steps[of].median() as f64 >= least && steps[of].quantile(0.25) as f64 >= least
            };
            if others(0) <= 0.0 || !is_late(0) || !is_late(1) {
                continue;
            }
            let (own, usual) = (steps[0].median() as f64, others(0));
            let lost = steps[0].sum as f64 * (1.0 - usual / own);
            if found.as_ref().is_none_or(|most| lost > most.lost) {
                found = Some(Late { lanes: lanes.to_vec(), own, usual, lost });
            }
        }
    }
    found
}

fn by_steps(evidence: &Evidence<'_>, late: &Late) -> Cause {
    let Late { lanes: late, own, usual, lost } = late;
    let (all, own_count) = (evidence.workers.len() as f64, late.len() as f64);
    let waited = others_wait(evidence, late);
    let cost =
        waited.min(lost * (all - own_count) / own_count / evidence.total) + lost / evidence.total;
    Cause {
        kind: "straggler".into(),
        what: format!(
            "A straggler: {} takes {:.1} times as long for a step as the others.",
            evidence.names(late),
            own / usual
        ),
        evidence: format!(
            "Its steps take {}, those of others {}; the others wait for {} of all time. {}",
            time(*own),
            time(*usual),
            percent(waited),
            why_late(evidence, late)
        ),
        advice:
            "Look at what else runs on its processor or host, and at the clock of its processor; \
                 or give it less work."
                .into(),
        cost,
    }
}

/// Returns the work of late threads, and what the kernel says of it, if it says anything.
fn late_work(evidence: &Evidence<'_>, late: &[usize]) -> (f64, Option<Usage>) {
    let worked = late.iter().map(|&lane| evidence.worked(lane)).sum::<f64>().max(1.0);
    let usage = late.iter().filter_map(|&lane| evidence.trace.lanes[lane].usage());
    let usage = usage.reduce(|a, b| Usage {
        ran: a.ran + b.ran,
        queued: a.queued + b.queued,
        major_faults: a.major_faults + b.major_faults,
    });
    (worked, usage)
}

/// Returns the part of their work for which late threads were ready to run and had no processor.
fn queued(evidence: &Evidence<'_>, late: &[usize]) -> f64 {
    let (worked, usage) = late_work(evidence, late);
    usage.map_or(0.0, |usage| usage.queued / worked)
}

/// Returns whether late threads are late for want of processors: the threads of a short run, or
/// more threads than processors, delay one another though no cause of processors is named.
fn lacked_processors(evidence: &Evidence<'_>, late: &[usize], named: bool) -> bool {
    queued(evidence, late) > if named { 0.2 } else { 0.5 }
}

/// Returns what the kernel says of late threads.
fn why_late(evidence: &Evidence<'_>, late: &[usize]) -> String {
    let (worked, Some(Usage { ran, queued, .. })) = late_work(evidence, late) else {
        return String::new();
    };
    if queued > 0.2 * worked {
        let part = (queued / worked).min(1.0);
        return format!("It had no processor for {} of its work.", percent(part));
    }
    if ran > 0.0 && ran + queued < 0.7 * worked {
        let slept = percent(1.0 - (ran + queued) / worked);
        return format!(
            "It slept for {slept} of its work: it waits for something inside its steps."
        );
    }
    "It ran all the time: its processor is slower, or its data are larger.".into()
}

/// A task that takes so long that all others wait for it.
fn by_heavy_task(evidence: &Evidence<'_>) -> Option<Cause> {
    let kinds = evidence.collected.steps.kinds.iter();
    let heavy = kinds.filter_map(|kind| {
        let mean = |&(work, steps): &(u64, u64)| work as f64 / steps.max(1) as f64;
        let (task, work) =
            kind.work.iter().enumerate().max_by(|a, b| mean(a.1).total_cmp(&mean(b.1)))?;
        let usual = median(kind.work.iter().filter(|work| work.1 > 0).map(mean).collect());
        (kind.tasks.len() > 2 && usual > 0.0)
            .then(|| (kind, task, work.0 as f64, mean(work) / usual))
    });
    let (kind, task, work, times) = heavy.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let length = evidence.trace.length.max(1) as f64;
    let waits = evidence.part(Activity::AwaitTask) + evidence.part(Activity::AwaitLocation);
    (times > 2.0 && work > 0.4 * length).then(|| Cause {
        kind: "imbalance".into(),
        what: format!(
            "Imbalance: task {} takes {times:.1} times as long as the median of its kind.",
            kind.tasks[task]
        ),
        evidence: format!(
            "It works for {} of the run; the threads wait for tasks for {} of their time.",
            percent(work / length),
            percent(waits)
        ),
        advice: "Divide the task, or give it less data.".into(),
        cost: waits,
    })
}

/// A member that works longer than the others between the same barriers, syncs or messages.
fn by_work(evidence: &Evidence<'_>, lacks_processors: bool) -> Option<Cause> {
    let members = evidence.workers.iter().copied().filter(|&lane| {
        matches!(evidence.trace.lanes[lane].role, Some(Role::Member(_))) || !steps(evidence, lane)
    });
    let members: Vec<usize> = members.collect();
    let waits = |lane: usize| {
        [Activity::AwaitBarrier, Activity::AwaitSync, Activity::AwaitMessage, Activity::AwaitTask]
            .iter()
            .map(|&activity| evidence.time(lane, activity))
            .sum::<f64>()
    };
    let &late =
        members.iter().max_by(|&&a, &&b| evidence.worked(a).total_cmp(&evidence.worked(b)))?;
    let others = || members.iter().copied().filter(|&lane| lane != late);
    let (own, usual) =
        (evidence.worked(late), median(others().map(|l| evidence.worked(l)).collect()));
    let waited = evidence.cost(others().map(waits).sum());
    let explained = lacked_processors(evidence, &[late], lacks_processors);
    (own > LATE * usual && waits(late) < own && !explained).then(|| Cause {
        kind: "straggler".into(),
        what: format!("A straggler: the others wait for {}.", evidence.name(late)),
        evidence: format!(
            "It works for {}, the others for {} (median), and they wait for {} of all time. {}",
            time(own),
            time(usual),
            percent(waited),
            why_late(evidence, &[late])
        ),
        advice: "Give it less work, or look at what else runs on its processor or host.".into(),
        cost: waited,
    })
}

fn steps(evidence: &Evidence<'_>, lane: usize) -> bool {
    let count = &evidence.collected.shares.lanes[lane].count;
    count[Activity::Step as usize] + count[Activity::Job as usize] > 0
}

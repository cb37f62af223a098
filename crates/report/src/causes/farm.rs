//! Workers of a pool that wait for tasks.

use syncline_trace::{Activity, Role};

use super::{Evidence, percent, time};
use crate::model::Cause;

/// Workers wait for tasks: at the end, because the manager is late, or because tasks are small.
pub(super) fn farm(evidence: &Evidence<'_>) -> Option<Cause> {
    let farm = &evidence.collected.farm;
    let (longest, lengths) = (farm.longest?, &farm.lengths);
    let length = evidence.trace.length.max(1);
    let cost = farm.idle(length).unwrap_or_else(|| evidence.part(Activity::AwaitJob));
    let waited = format!(
        "{} tasks of {} (median); the workers wait for tasks for {} of their time",
        lengths.count,
        time(lengths.median() as f64),
        percent(cost)
    );
    // A worker that does not know the number of its task records none.
    let name = match longest.detail {
        u64::MAX => "a task".to_owned(),
        number => format!("task {number}"),
    };
    // After the last begin, workers end one after the other.
    let tail = length.saturating_sub(farm.last_begin) as f64 / length as f64;
    if tail > 0.15 && longest.length() as f64 > 2.0 * lengths.median() as f64 {
        return Some(Cause {
            kind: "farm-tail".into(),
            what: format!(
                "The end of the farm: {name} takes {}, and the others end before it.",
                time(longest.length() as f64)
            ),
            evidence: format!("{waited}; the last {} of the run begin no task.", percent(tail)),
            advice: "Submit the longest tasks first, or divide them.".into(),
            cost,
        });
    }
    let long = longest.length() as f64;
    if long > 0.4 * length as f64 && long > 5.0 * lengths.median() as f64 {
        return Some(Cause {
            kind: "imbalance".into(),
            what: format!(
                "Imbalance: {name} of the pool takes {}, and other workers wait meanwhile.",
                time(long)
            ),
            evidence: format!(
                "{waited}; the task takes {} of the run.",
                percent(long / length as f64)
            ),
            advice: "Divide the task, or begin it first.".into(),
            cost,
        });
    }
    if lengths.mean() < 100_000.0 {
        return Some(Cause {
            kind: "small-tasks".into(),
            what: format!("Small tasks: a task of the pool takes {}.", time(lengths.mean())),
            evidence: format!("{waited}; a trip to a worker and back takes some 10 us."),
            advice: "Put several into one task.".into(),
            cost,
        });
    }
    let managers = evidence.trace.lanes.iter().filter(|lane| lane.role == Some(Role::Manager));
    let lacked = managers.filter_map(|lane| lane.usage()).map(|usage| usage.queued).sum::<f64>();
    let lacked = (lacked / length as f64).min(1.0);
    let (ready, advice) = if lacked > 0.2 {
        let ready = format!("; the manager had no processor for {} of the run", percent(lacked));
        (ready, "Leave the manager a processor: use one worker fewer, or larger tasks.")
    } else {
        (String::new(), "Submit tasks earlier, make them larger, or use fewer workers.")
    };
    Some(Cause {
        kind: "farm-manager".into(),
        what: "The farm: the workers wait for the manager.".into(),
        evidence: format!("{waited}{ready}."),
        advice: advice.into(),
        cost,
    })
}

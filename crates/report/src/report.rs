//! From a trace to a report.

use syncline_trace::{Activity, ActivityClass};

use crate::causes::{self, Evidence};
use crate::collect::Collected;
use crate::error::ReportError;
use crate::load::Trace;
use crate::model::{ActivityInfo, LaneInfo, Report, Series};

/// The activities beyond those of the trace: outside of spans.
const OTHER: usize = Activity::ALL.len();

/// Makes the report of a trace.
///
/// # Errors
/// If a file of the trace cannot be read any more.
pub fn report(trace: &Trace) -> Result<Report, ReportError> {
    let collected = Collected::of(trace)?;
    let evidence = Evidence::new(trace, &collected);
    let mut progress = collected.steps.progress();
    let farm = collected.farm.finish(trace);
    if let Some(farm) = &farm {
        let mut ends: Vec<f64> = farm.tasks.iter().map(|task| task.3).collect();
        ends.sort_by(f64::total_cmp);
        let points = ends.iter().enumerate().map(|(done, &end)| (end, (done + 1) as f64));
        let points = std::iter::once((0.0, 0.0)).chain(points).collect();
        progress.push(Series { name: "tasks of the pool".into(), unit: "tasks".into(), points });
    }
    Ok(Report {
        title: title(trace),
        began: trace.began(),
        length: trace.length as f64 / 1e9,
        summary: causes::summary(&evidence),
        facts: facts(trace),
        missing: trace.missing.clone(),
        activities: activities(),
        lanes: lanes(trace, &collected),
        time_line: collected.time_line.finish(),
        grids: collected.steps.grids(),
        progress,
        wave: collected.steps.wave(trace),
        overlay: collected.steps.overlay(trace),
        disk: collected.disk.finish(trace),
        messages: collected.messages.finish(trace),
        farm,
    })
}

/// Returns the command line of the first process.
pub(crate) fn title(trace: &Trace) -> String {
    let longest = trace.processes.iter().max_by_key(|process| {
        // The process that began first is the command; of equals, the one with facts.
        (std::cmp::Reverse(process.info.began.realtime_ns), process.facts.len())
    });
    let Some(process) = longest else { return String::new() };
    let mut words = process.info.command.iter();
    let program = words.next().map(|program| {
        std::path::Path::new(program)
            .file_name()
            .map_or(program.clone(), |name| name.to_string_lossy().into_owned())
    });
    let words: Vec<String> = program.into_iter().chain(words.cloned()).collect();
    words.join(" ")
}

fn facts(trace: &Trace) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut hosts: Vec<&str> =
        trace.processes.iter().map(|process| process.info.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    facts.push(("hosts".to_owned(), hosts.join(", ")));
    facts.push(("processes".to_owned(), trace.processes.len().to_string()));
    facts.push(("threads".to_owned(), trace.lanes.len().to_string()));
    if let Some(process) = trace.processes.first() {
        facts.push(("processors".to_owned(), process.info.processors.to_string()));
        facts.push(("Linux".to_owned(), process.info.kernel.clone()));
    }
    let events: u64 = trace.lanes.iter().map(|lane| lane.spans).sum();
    facts.push(("events".to_owned(), events.to_string()));
    let mut own: Vec<(String, String)> = Vec::new();
    for process in &trace.processes {
        for (key, value) in &process.facts {
            if !own.iter().any(|(known, _)| known == key) {
                own.push((key.clone(), with_unit(key, value)));
            }
        }
    }
    facts.extend(own);
    facts
}

/// Returns the value of a fact with its unit, if it is known to have one.
fn with_unit(key: &str, value: &str) -> String {
    let Ok(number) = value.parse::<f64>() else { return value.to_owned() };
    match key {
        "disk.read_peak" | "disk.write_peak" => causes::rate(number),
        "sweep.memory" | "sweep.memory.allowed" => format!("{:.1} MB", number / 1e6),
        _ => value.to_owned(),
    }
}

fn activities() -> Vec<ActivityInfo> {
    let class = |activity: Activity| match activity.class() {
        ActivityClass::Work => "work",
        ActivityClass::Wait => "wait",
        ActivityClass::Device => "device",
        _ => "mark",
    };
    let of_trace = Activity::ALL.into_iter().map(|activity| ActivityInfo {
        name: activity.name().into(),
        class: class(activity).into(),
    });
    let other = ActivityInfo { name: "outside of spans".into(), class: "other".into() };
    of_trace.chain([other]).collect()
}

fn lanes(trace: &Trace, collected: &Collected) -> Vec<LaneInfo> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let lane = |(index, lane): (usize, &crate::load::Lane)| {
        let share = &collected.shares.lanes[index];
        let process = &trace.processes[lane.process];
        let counts = |activity: &Activity| {
            matches!(activity.class(), ActivityClass::Work | ActivityClass::Wait)
        };
        let mut shares: Vec<(usize, f64)> = Activity::ALL
            .into_iter()
            .filter(counts)
            .map(|activity| (activity as usize, seconds(share.time[activity as usize])))
            .filter(|&(_, time)| time > 0.0)
            .collect();
        let other = share.length().saturating_sub(share.covered);
        if other > 0 && share.length() > 0 {
            shares.push((OTHER, seconds(other)));
        }
        let open = lane.open.iter().filter_map(|open| {
            let activity = Activity::from_number(open.activity)?;
            let object = trace.object(lane.process, activity, open.subject, open.detail);
            Some((activity as usize, object, seconds(trace.time(lane.process, open.since))))
        });
        LaneInfo {
            name: trace.lane_name(index),
            host: process.info.host.clone(),
            pid: process.info.pid,
            from: seconds(if share.from == u64::MAX { 0 } else { share.from }),
            to: seconds(share.to),
            shares,
            processor: lane.usage().map(|usage| (usage.ran / 1e9, usage.queued / 1e9)),
            open: open.collect(),
        }
    };
    trace.lanes.iter().enumerate().map(lane).collect()
}

//! An activity and its object in words.

use syncline_trace::Activity;
use syncline_trace::note::ObjectClass;

use crate::load::Trace;

/// Returns what a thread does, with the name of the object: `waits for lock "table"`.
pub(super) fn words(
    trace: &Trace,
    process: usize,
    activity: Activity,
    subject: u32,
    detail: u64,
) -> String {
    let names = &trace.processes[process].names;
    let named = |class, verb: &str, word: &str| match names.get(&(class, subject)) {
        Some(name) => format!("{verb} {word} \"{name}\""),
        None => format!("{verb} {word} {subject}"),
    };
    let object = || trace.object(process, activity, subject, detail);
    match activity {
        Activity::Job if detail == u64::MAX => activity.name().to_owned(),
        Activity::Step | Activity::Job | Activity::Section => object(),
        Activity::AwaitLocation => named(ObjectClass::Location, "waits for", "location"),
        Activity::AwaitBarrier => named(ObjectClass::Barrier, "waits at", "barrier"),
        Activity::AwaitLock => named(ObjectClass::Lock, "waits for", "lock"),
        Activity::AwaitSync if names.contains_key(&(ObjectClass::Barrier, subject)) => {
            named(ObjectClass::Barrier, "waits in", "sync")
        }
        Activity::AwaitDisk => named(ObjectClass::File, "waits for", "file"),
        Activity::AwaitMessage => format!("waits for a message from {}", object()),
        Activity::AwaitFence => format!("waits in a fence with {}", object()),
        Activity::Serve => format!("serves {}", object()),
        other => other.name().to_owned(),
    }
}

//! The state of a run at a moment, as data for a table.

use syncline_trace::ActivityClass;

/// A run at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The command line.
    pub command: String,
    /// Seconds since the recording began.
    pub elapsed: f64,
    /// Whether the run still runs.
    pub state: State,
    /// The threads, in the order in which they began to record.
    pub lanes: Vec<LaneView>,
    /// Events that were lost, as they came faster than they were written.
    pub lost: u64,
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// No process has recorded anything.
    #[default]
    Empty,
    /// At least one process runs.
    Runs,
    /// All threads wait, and have done so for some time.
    Stuck {
        /// For how long all of them have waited.
        seconds: f64,
        /// The thread that has waited longest, and what it waits for.
        what: String,
    },
    /// Nothing was written for some time, though processes exist: they are stopped, or cannot
    /// write.
    Silent {
        /// For how long.
        seconds: f64,
    },
    /// All processes ended in order.
    Ended,
    /// All processes ended, and this one did not end its recording.
    Killed(u32),
}

impl State {
    /// Whether no process of the run is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, State::Ended | State::Killed(_))
    }
}

/// A thread at a moment. Parts are of the last five seconds, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneView {
    /// Its label.
    pub name: String,
    /// Whether it has ended.
    pub ended: bool,
    /// Whether it ended some time before the last word of its process.
    pub ended_before: bool,
    /// The part that was work.
    pub work: f64,
    /// The part that was waiting. What is left is time outside of spans.
    pub wait: f64,
    /// The part in which it was ready to run and had no processor, where the kernel tells.
    pub queued: Option<f64>,
    /// The part in which it was on a processor, where the kernel tells.
    pub processor: Option<f64>,
    /// Steps and tasks of a pool per second.
    pub steps: f64,
    /// Steps and tasks of a pool since the beginning.
    pub all_steps: u64,
    /// What it does now; `None` outside of spans.
    pub now: Option<Now>,
}

/// What a thread does at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Now {
    /// The activity and its object: `waits for lock "table"`.
    pub words: String,
    /// The class of the activity.
    pub class: ActivityClass,
    /// For how many seconds.
    pub seconds: f64,
}

impl View {
    /// Returns what most threads wait for now, in one sentence; `None` if less than half of them
    /// wait.
    #[must_use]
    pub fn common_wait(&self) -> Option<String> {
        let threads = self.lanes.iter().filter(|lane| !lane.ended);
        let waits: Vec<&str> = threads
            .clone()
            .filter_map(|lane| lane.now.as_ref())
            .filter(|now| now.class == ActivityClass::Wait)
            .map(|now| now.words.as_str())
            .collect();
        let count = |words: &str| waits.iter().filter(|other| **other == words).count();
        let words = *waits.iter().max_by_key(|words| count(words))?;
        let (all, those) = (threads.count(), count(words));
        (2 * waits.len() >= all)
            .then(|| format!("{} of {all} threads wait now, {those} of them: {words}", waits.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(words: &str, class: ActivityClass, ended: bool) -> LaneView {
        let now = Some(Now { words: words.into(), class, seconds: 1.0 });
        LaneView { ended, now, ..LaneView::default() }
    }

    #[test]
    fn the_wait_of_most_threads_is_named() {
        let lock = || lane("waits for lock \"table\"", ActivityClass::Wait, false);
        let works = || lane("block 3", ActivityClass::Work, false);
        let ended = lane("waits for results", ActivityClass::Wait, true);
        let other = lane("no ready task", ActivityClass::Wait, false);
        let view = |lanes| View { lanes, ..View::default() };
        assert_eq!(
            view(vec![lock(), works(), lock(), ended, other]).common_wait().as_deref(),
            Some("3 of 4 threads wait now, 2 of them: waits for lock \"table\"")
        );
        assert_eq!(view(vec![lock(), works(), works()]).common_wait(), None);
        assert_eq!(View::default().common_wait(), None);
    }
}

//! When it is told that no worker says anything.
//!
//! ```text
//!   Unasked ── a task is given ──> Since ── 5 s, and a task waits for its answer ──> told: Over
//!      ^                             │ └─── a worker says anything ────────────────> Over
//!      └──── no task waits ──────────┘
//! ```

use std::time::{Duration, Instant};

/// How long no worker may say anything before that is told.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// Whether any worker has said anything on its standard output yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Silence {
    /// None has, and no task waits for an answer.
    #[default]
    Unasked,
    /// None has since a task was given at this time, by the clock of farms that are not stopped.
    Since(Instant),
    /// A worker has said something, or it was told that none has.
    Over,
}

impl Silence {
    /// A task is given to a worker.
    pub(super) fn asked(&mut self, now: Instant) {
        if *self == Self::Unasked {
            *self = Self::Since(now);
        }
    }

    /// All tasks have ended: the answer to the next one is waited for anew.
    pub(super) fn all_ended(&mut self) {
        if matches!(self, Self::Since(_)) {
            *self = Self::Unasked;
        }
    }

    /// A worker has said something.
    pub(super) const fn broken(&mut self) {
        *self = Self::Over;
    }

    /// The farm was stopped for this long.
    pub(super) fn postpone(&mut self, stopped: Duration) {
        if let Self::Since(since) = self {
            *since += stopped;
        }
    }

    /// When it is told of, if nothing happens before.
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::Since(since) => since.checked_add(SILENCE),
            Self::Unasked | Self::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_runs_while_a_task_waits_and_no_worker_has_spoken() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(silence.due(), None);
        silence.asked(now);
        silence.asked(now + second);
        assert_eq!(silence.due(), Some(now + SILENCE));
        silence.postpone(second);
        assert_eq!(silence.due(), Some(now + SILENCE + second));
        silence.all_ended();
        assert_eq!(silence.due(), None);
        silence.asked(now + 9 * second);
        assert_eq!(silence.due(), Some(now + 9 * second + SILENCE));
        silence.broken();
        silence.all_ended();
        silence.asked(now + 10 * second);
        assert_eq!((silence, silence.due()), (Silence::Over, None));
    }
}

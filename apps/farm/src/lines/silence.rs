//! The notice that no worker completes a line.
//!
//! ```text
//!   Unasked ── a task is given ──> Since ── 5 s, and a task waits for its answer ──> notice: Over
//!      ^                             │ └─── a worker completes a line ─────────────> Over
//!      └──── no task waits ──────────┘
//! ```

use std::time::{Duration, Instant};

use syncline_common::words::plural;

/// The time without a completed line after which the notice is printed.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// Whether any worker has completed a line on its standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Silence {
    /// No line yet, and no task waits for an answer.
    #[default]
    Unasked,
    /// No line since a task was given at this time; time during which the farm was stopped is
    /// excluded.
    Since(Instant),
    /// A worker has completed a line, or the notice was printed.
    Over,
}

impl Silence {
    /// A task was given to a worker.
    pub(super) fn asked(&mut self, now: Instant) {
        if *self == Self::Unasked {
            *self = Self::Since(now);
        }
    }

    /// All tasks have ended; the time starts again with the next task.
    pub(super) fn all_ended(&mut self) {
        if matches!(self, Self::Since(_)) {
            *self = Self::Unasked;
        }
    }

    /// A worker has written this piece. Without a line end, more may wait in a buffer of the
    /// worker.
    pub(super) fn hears(&mut self, piece: &[u8]) {
        if piece.contains(&b'\n') {
            self.told();
        }
    }

    /// No notice is needed any more.
    pub(super) const fn told(&mut self) {
        *self = Self::Over;
    }

    /// Extends the time by the time for which the farm was stopped.
    pub(super) fn postpone(&mut self, stopped: Duration) {
        if let Self::Since(since) = self {
            *since += stopped;
        }
    }

    /// Returns the time of the notice, if no event precedes it.
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::Since(since) => since.checked_add(SILENCE),
            Self::Unasked | Self::Over => None,
        }
    }
}

/// Returns the notice for a command. `unended` is a worker's number and the bytes that it has
/// written without a line end, if there is such a worker.
pub(super) fn notice(command: &str, unended: Option<(usize, usize)>) -> String {
    let unended = unended.map(|(worker, bytes)| {
        format!(
            ": worker {worker} has written {bytes} byte{} and no end of line (a worker has to flush a whole line)",
            plural(bytes as u64)
        )
    });
    format!(
        "no worker has answered yet, {} s after a task was given{}. With --protocol lines, {command} is to read \
         tasks as lines {{\"id\": 7, \"task\": ...}} of its standard input, and to answer each by a line \
         {{\"id\": 7, \"result\": ...}} on its standard output, flushed at once. The farm goes on waiting.",
        SILENCE.as_secs(),
        unended.unwrap_or_default(),
    )
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
        silence.hears(b"{\"id\": 7, ");
        assert_eq!(silence.due(), Some(now + 9 * second + SILENCE));
        silence.hears(b"\"result\": 1}\n");
        silence.all_ended();
        silence.asked(now + 10 * second);
        assert_eq!((silence, silence.due()), (Silence::Over, None));
    }

    #[test]
    fn a_notice_tells_of_bytes_without_an_end_of_line() {
        let silent = notice("x", None);
        assert!(
            silent.starts_with("no worker has answered yet, 5 s after a task was given. With"),
            "{silent}"
        );
        for (bytes, said) in
            [(1, "worker 2 has written 1 byte and"), (14, "worker 2 has written 14 bytes and")]
        {
            let told = notice("x", Some((2, bytes)));
            let part =
                format!("given: {said} no end of line (a worker has to flush a whole line). With");
            assert!(told.contains(&part), "{told}");
        }
    }
}

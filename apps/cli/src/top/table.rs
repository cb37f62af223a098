//! The view as text, and the words that the screen has in common with it.

use std::fmt::Write as _;
use std::time::Duration;

use syncline_common::units::{Rate, Time};
use syncline_report::live::{LaneView, State, View};

/// The narrowest and the widest column of names.
const NAMES: std::ops::RangeInclusive<usize> = 8..=28;

/// Returns the view as a table with two lines above it.
pub(super) fn text(view: &View, cause: Option<&str>) -> String {
    let mut text = format!("{}\n", heading(view));
    if let Some(cause) = cause {
        let _ = writeln!(text, "{cause}");
    }
    let lanes = shown(view);
    let width = name_width(&lanes);
    let _ = writeln!(
        text,
        "{:width$}  {:>5}  {:>5}  {:>5}  {:>9}  now",
        "thread", "work", "wait", "queue", "steps/s"
    );
    for lane in lanes {
        let name = console::pad_str(&lane.name, width, console::Alignment::Left, Some("…"));
        let queued = lane.queued.map_or_else(|| "-".to_owned(), percent);
        let _ = writeln!(
            text,
            "{name}  {:>5}  {:>5}  {queued:>5}  {:>9}  {}",
            percent(lane.work),
            percent(lane.wait),
            steps(lane),
            now(lane)
        );
    }
    if let Some(line) = ended(view) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the elapsed time and the state.
pub(super) fn elapsed(view: &View) -> String {
    let lost = match view.lost {
        0 => String::new(),
        lost => format!(", {lost} events lost"),
    };
    format!("{}  {}{lost}", time(view.elapsed), state(&view.state))
}

/// Returns the elapsed time, the state and the command.
fn heading(view: &View) -> String {
    let mut line = elapsed(view);
    if !view.command.is_empty() {
        let _ = write!(line, "  {}", clean(&view.command));
    }
    line
}

/// Returns the state of a run in words.
fn state(state: &State) -> String {
    match state {
        State::Empty => "nothing recorded yet".to_owned(),
        State::Runs => "runs".to_owned(),
        State::Stuck { seconds, what } => {
            format!("STUCK: all threads wait, for {}; {}", time(*seconds), clean(what))
        }
        State::Silent { seconds } => {
            format!("silent for {}: stopped, or unable to write its trace", time(*seconds))
        }
        State::Ended => "ended".to_owned(),
        State::Killed(process) => format!("process {process} was killed"),
        _ => String::new(),
    }
}

/// Returns the threads that get a line: all that have not ended; if the run is over, those that
/// were there at its end.
pub(super) fn shown(view: &View) -> Vec<&LaneView> {
    let over = view.state.is_over();
    let is_shown = |lane: &&LaneView| if over { !lane.ended_before } else { !lane.ended };
    view.lanes.iter().filter(is_shown).collect()
}

/// Returns the line for the other threads.
pub(super) fn ended(view: &View) -> Option<String> {
    match view.lanes.len() - shown(view).len() {
        0 => None,
        1 => Some("1 thread has ended".to_owned()),
        count => Some(format!("{count} threads have ended")),
    }
}

/// Returns the columns of the longest name, within bounds.
pub(super) fn name_width(lanes: &[&LaneView]) -> usize {
    let longest = lanes.iter().map(|lane| console::measure_text_width(&lane.name)).max();
    longest.unwrap_or(0).clamp(*NAMES.start(), *NAMES.end())
}

/// Returns the steps per second, or nothing for a thread that never executed one.
pub(super) fn steps(lane: &LaneView) -> String {
    match lane.all_steps {
        0 => "-".to_owned(),
        _ => Rate(lane.steps).to_string(),
    }
}

/// Returns what a thread does now, and for how long.
pub(super) fn now(lane: &LaneView) -> String {
    match &lane.now {
        Some(now) => format!("{}, {}", clean(&now.words), time(now.seconds)),
        None if lane.ended => "ended".to_owned(),
        None => "outside of spans".to_owned(),
    }
}

/// Returns a part in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn time(seconds: f64) -> Time {
    Time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Replaces characters that would move the cursor: names are those of the program.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use syncline_report::live::Now;
    use syncline_trace::ActivityClass;

    use super::*;

    /// Three threads: one waits, one works, one has ended.
    pub(in crate::top) fn example() -> View {
        let lane = |name: &str, work, wait, now| LaneView {
            name: name.into(),
            work,
            wait,
            queued: Some(0.01),
            processor: Some(work),
            now,
            ..LaneView::default()
        };
        let now = |words: &str, class, seconds| Some(Now { words: words.into(), class, seconds });
        let lock = now("waits for lock \"table\"", ActivityClass::Wait, 3.21);
        let step = now("block 3, 7, iteration 17", ActivityClass::Work, 0.02);
        View {
            command: "syncline run lk23 data".into(),
            elapsed: 12.34,
            state: State::Runs,
            lanes: vec![
                LaneView { steps: 12_345.6, all_steps: 99, ..lane("worker 0", 0.9, 0.1, step) },
                lane("worker 1", 0.25, 0.75, lock),
                LaneView { ended: true, ..lane("main", 0.0, 0.0, None) },
            ],
            lost: 0,
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_thread() {
        let text = text(&example(), Some("A lock: 1 threads wait for table."));
        let expected = "\
12.3 s  runs  syncline run lk23 data
A lock: 1 threads wait for table.
thread     work   wait  queue    steps/s  now
worker 0   90 %   10 %    1 %     12.3 k  block 3, 7, iteration 17, 20.0 ms
worker 1   25 %   75 %    1 %          -  waits for lock \"table\", 3.21 s
1 thread has ended
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_states_have_words() {
        let stuck = State::Stuck { seconds: 3.2, what: "worker 1 waits for lock \"a\nb\"".into() };
        let view = View { state: stuck, lost: 7, ..example() };
        assert_eq!(
            heading(&view),
            "12.3 s  STUCK: all threads wait, for 3.20 s; worker 1 waits for lock \"a b\", 7 \
             events lost  syncline run lk23 data"
        );
        let view = View { state: State::Killed(7), ..example() };
        let text = text(&view, None);
        assert!(text.starts_with("12.3 s  process 7 was killed  syncline"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("main") && line.ends_with("ended")));
        assert_eq!(heading(&View::default()), "0.0 ms  nothing recorded yet");
    }
}

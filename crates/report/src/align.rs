//! Aligning the clocks of several hosts by the messages between them.
//!
//! # Contract
//! Processes of one boot of a host have their clock in common. For every other host, [`hosts`]
//! finds an offset and a drift such that no message arrives before it was sent; they are in the
//! middle of what the messages allow, and [`Alignment::error`] is half of that range. Without
//! messages in both directions, the wall clocks are used, and [`Alignment::words`] says so.
//!
//! ```text
//!   offset      u u         u: r - s of messages there: the offset is less
//!      │     u      u
//!      │  ───────────────   the line with the greatest distance to both
//!      │     l       l
//!      │  l     l           l: s - r of messages back: the offset is more
//!      └──────────────── time
//! ```
//!
//! # Method
//! A message from the reference host to host `h`, sent at `s` and received at `r` (each by its own
//! clock), gives `offset <= r - s`; a message back gives `offset >= s - r`, where `offset` is what
//! `h`'s clock shows more. A line between the two sets of points is sought, as A. Duda, G. Harrus,
//! Y. Haddad and G. Bernard do ("Estimating global time in distributed systems", ICDCS 1987); here
//! the run is divided into 64 windows, of which the tightest bounds are kept, and the slope is
//! found by a ternary search, as the distance is a concave function of it. Hosts that exchange no
//! messages with the reference host are aligned by way of others.

use std::collections::HashMap;

use syncline_trace::Activity;

use crate::error::ReportError;
use crate::load::{Span, Trace};

/// The offsets of hosts' clocks to that of host 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alignment {
    /// For each host but the first: the line of its offset.
    hosts: Vec<Line>,
    /// The greatest half range, in nanoseconds; `None` if wall clocks were used.
    pub error: Option<u64>,
    /// How the clocks were aligned, in words.
    pub words: String,
}

/// An offset that changes along a line over the time of the host's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    /// A moment near the run, for precision.
    at: i128,
    offset: f64,
    slope: f64,
}

impl Line {
    fn offset(&self, time: i128) -> i128 {
        (self.offset + self.slope * (time - self.at) as f64).round() as i128
    }
}

impl Alignment {
    /// Converts a time of a host's clock to the clock of host 0.
    pub(crate) fn aligned(&self, host: usize, time: i128) -> i128 {
        match host.checked_sub(1).and_then(|host| self.hosts.get(host)) {
            Some(line) => time - line.offset(time),
            None => time,
        }
    }
}

/// The number of windows of a run, of each of which the tightest bounds are kept.
const WINDOWS: usize = 64;
/// The greatest drift that is looked for: clocks of computers differ by less than 100 parts per
/// million.
const STEEPEST: f64 = 500e-6;

/// What messages allow for the offset of one host's clock to another's, by window: the time of the
/// other host's clock, and the bound.
#[derive(Clone, Debug)]
struct Bounds {
    least: [Option<(i128, i128)>; WINDOWS],
    most: [Option<(i128, i128)>; WINDOWS],
}

impl Bounds {
    const OPEN: Bounds = Bounds { least: [None; WINDOWS], most: [None; WINDOWS] };

    /// The offset is at most `bound` at `time`.
    fn at_most(&mut self, window: usize, time: i128, bound: i128) {
        let most = &mut self.most[window.min(WINDOWS - 1)];
        if most.is_none_or(|(_, known)| bound < known) {
            *most = Some((time, bound));
        }
    }

    /// The offset is at least `bound` at `time`.
    fn at_least(&mut self, window: usize, time: i128, bound: i128) {
        let least = &mut self.least[window.min(WINDOWS - 1)];
        if least.is_none_or(|(_, known)| bound > known) {
            *least = Some((time, bound));
        }
    }

    /// The same for the opposite offset.
    fn reversed(&self) -> Bounds {
        let negative = |bound: &Option<(i128, i128)>| bound.map(|(time, bound)| (time, -bound));
        Bounds {
            least: self.most.each_ref().map(negative),
            most: self.least.each_ref().map(negative),
        }
    }

    /// Returns the line with the greatest distance to all bounds, and this distance; `None` without
    /// bounds of both kinds.
    fn line(&self, at: i128) -> Option<(Line, f64)> {
        let points = |bounds: &[Option<(i128, i128)>]| -> Vec<(f64, f64)> {
            bounds
                .iter()
                .flatten()
                .map(|&(time, bound)| ((time - at) as f64, bound as f64))
                .collect()
        };
        let (least, most) = (points(&self.least), points(&self.most));
        if least.is_empty() || most.is_empty() {
            return None;
        }
        // For a slope: the least and the greatest offset.
        let range = |slope: f64| {
            let low =
                least.iter().map(|(time, bound)| bound - slope * time).fold(f64::MIN, f64::max);
            let high =
                most.iter().map(|(time, bound)| bound - slope * time).fold(f64::MAX, f64::min);
            (low, high)
        };
        let width = |slope| range(slope).1 - range(slope).0;
        let (mut from, mut to) = (-STEEPEST, STEEPEST);
        for _ in 0..200 {
            let (a, b) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
            if width(a) < width(b) {
                from = a;
            } else {
                to = b;
            }
        }
        let slope = (from + to) / 2.0;
        let (low, high) = range(slope);
        Some((Line { at, offset: (low + high) / 2.0, slope }, ((high - low) / 2.0).max(0.0)))
    }
}

/// Determines the offsets of the clocks of all hosts of a trace.
pub(crate) fn hosts(trace: &Trace) -> Result<Alignment, ReportError> {
    let count = 1 + trace.processes.iter().map(|process| process.host).max().unwrap_or(0);
    let bounds = bounds(trace)?;
    Ok(offsets(count, &spans(trace, count), &bounds)
        .unwrap_or_else(|| by_wall_clocks(trace, count)))
}

/// Returns the begin and end of each host's part of the trace, by its own clock.
fn spans(trace: &Trace, count: usize) -> Vec<[i128; 2]> {
    let mut spans = vec![[i128::MAX, i128::MIN]; count];
    for process in &trace.processes {
        if let Some([from, to]) = process.clock_range() {
            let [least, most] = &mut spans[process.host];
            (*least, *most) = (from.min(*least), to.max(*most));
        }
    }
    spans
}

/// Collects the bounds of all pairs of hosts `a < b`, for the offset of `b`.
fn bounds(trace: &Trace) -> Result<HashMap<(usize, usize), Bounds>, ReportError> {
    let mut bounds: HashMap<(usize, usize), Bounds> = HashMap::new();
    let ranges = spans(trace, 1 + trace.processes.iter().map(|p| p.host).max().unwrap_or(0));
    let mut matcher = Matcher::default();
    trace.for_each(&mut |span| {
        let Some((sent, received)) = matcher.take(span) else { return };
        let host = |lane: usize| trace.processes[trace.lanes[lane].process].host;
        let (from, to) = (host(sent.lane), host(received.lane));
        if from == to {
            return;
        }
        // The first reading has no offsets yet: times are of the hosts' own clocks.
        let (s, r) = (i128::from(sent.since), i128::from(received.since));
        let pair = bounds.entry((from.min(to), from.max(to))).or_insert(Bounds::OPEN);
        // The bound is of the offset of the host with the greater number, at its time.
        let time = if from < to { r } else { s };
        let [begin, end] = ranges[from.max(to)];
        let window = ((time - begin) * WINDOWS as i128 / (end - begin).max(1)).max(0) as usize;
        if from < to {
            pair.at_most(window, time, r - s);
        } else {
            pair.at_least(window, time, s - r);
        }
    })?;
    Ok(bounds)
}

/// Goes from host 0 along pairs with bounds in both directions. Returns `None` if a host cannot be
/// reached.
fn offsets(
    count: usize,
    spans: &[[i128; 2]],
    bounds: &HashMap<(usize, usize), Bounds>,
) -> Option<Alignment> {
    // A time of another host's clock is near enough to its own for the drift.
    let mut known: Vec<Option<(Line, f64)>> = vec![None; count];
    known[0] = Some((Line::default(), 0.0));
    let mut reached = vec![0];
    while let Some(from) = reached.pop() {
        let (base, error) = known[from]?;
        for to in 0..count {
            let pair = bounds.get(&(from.min(to), from.max(to)));
            let (Some(pair), None) = (pair, known[to]) else { continue };
            let at = spans[to][0];
            let line = if from < to { pair.line(at) } else { pair.reversed().line(at) };
            let Some((line, distance)) = line else { continue };
            // The offset of the base is taken at the base's own time.
            let offset = line.offset + base.offset(at - line.offset as i128) as f64;
            let line = Line { at, offset, slope: line.slope + base.slope };
            known[to] = Some((line, error + distance));
            reached.push(to);
        }
    }
    let known: Option<Vec<_>> = known.into_iter().collect();
    let known = known?;
    let error = known.iter().map(|&(_, error)| error).fold(0.0, f64::max) as u64;
    let hosts = known.iter().skip(1).map(|&(line, _)| line).collect();
    let words = format!(
        "The clocks of {count} hosts were aligned by the messages between them, within {:.0} us.",
        error as f64 / 1000.0
    );
    Some(Alignment { hosts, error: Some(error), words })
}

fn by_wall_clocks(trace: &Trace, count: usize) -> Alignment {
    let offset = |host: usize| {
        let process = trace.processes.iter().find(|process| process.host == host);
        process.map_or(0, |process| process.realtime(0))
    };
    let first = offset(0);
    let line = |host| Line { at: 0, offset: (first - offset(host)) as f64, slope: 0.0 };
    let words = format!(
        "The wall clocks of {count} hosts were used, as there are not enough messages between them: \
         times of different hosts may be off by milliseconds."
    );
    Alignment { hosts: (1..count).map(line).collect(), error: None, words }
}

/// Matches the sending of messages with their arrival: both marks of a message have the same
/// detail.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    /// Sent and not received yet, or received before the sending was read.
    open: HashMap<u64, Span>,
}

impl Matcher {
    /// The most messages that wait for their other end; further ones are left out.
    const MOST: usize = 1 << 20;

    /// Returns the sender's and the receiver's mark, when `span` completes a message.
    pub(crate) fn take(&mut self, span: &Span) -> Option<(Span, Span)> {
        let sends = match span.activity {
            Activity::Sent => true,
            Activity::Received => false,
            _ => return None,
        };
        match self.open.remove(&span.detail) {
            Some(other) if (other.activity == Activity::Sent) != sends => {
                return Some(if sends { (*span, other) } else { (other, *span) });
            }
            // The same message of a later team: its other end was lost.
            _ if self.open.len() < Self::MOST => drop(self.open.insert(span.detail, *span)),
            _ => {}
        }
        None
    }
}

/// Returns the numbers of the sending and the receiving process of a message.
pub(crate) fn ends(detail: u64) -> (u32, u32) {
    ((detail >> 16) as u32 & 0xffff, detail as u32 & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    /// Checks two hosts whose clocks differ by an offset and a drift, in parts per million, and
    /// which exchange messages with these delays, there and back: the offset found is within the
    /// error that is given for it, and no message arrives before it was sent.
    ///
    /// The true line is at least 1000 ns, the least delay, from all bounds. So is the line found
    /// from those that are kept; a bound that is not kept is of the same window, in which a line
    /// rises by less than that.
    fn check(offset: i128, drift: i128, delays: &[(i128, i128)]) -> Result<(), TestCaseError> {
        let clock = |time: i128| time + offset + time * drift / 1_000_000;
        let step = 1_000_000;
        let end = delays.len() as i128 * step;
        let ranges = [[0, end], [clock(0), clock(end)]];
        let mut pair = Bounds::OPEN;
        let mut messages = Vec::new();
        for (number, &(there, back)) in delays.iter().enumerate() {
            let sent = number as i128 * step;
            let far = clock(sent + there);
            let returned = sent + there + back;
            let window = number * WINDOWS / delays.len();
            pair.at_most(window, far, far - sent);
            pair.at_least(window, far, far - returned);
            messages.push((sent, far, returned));
        }
        let found = offsets(2, &ranges, &HashMap::from([((0, 1), pair)])).unwrap();
        // Within a window the drift moves the clock by less than this.
        let slack = drift.abs() * 2 * step / 1_000_000 + 10;
        for &(sent, far, returned) in &messages {
            let aligned = found.aligned(1, far);
            prop_assert!(aligned >= sent - slack, "arrives before it was sent");
            prop_assert!(returned >= aligned - slack, "arrives before it was sent");
        }
        let error = i128::from(found.error.unwrap()) + slack;
        prop_assert!(error <= 100_000 + slack);
        // Both the true line and the one found lie between the bounds of every message.
        for (&(sent, far, _), &(there, back)) in messages.iter().zip(delays) {
            let wrong = (found.aligned(1, far) - sent - there).abs();
            prop_assert!(wrong <= there + back + slack);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn offsets_are_within_their_error(
            offset in -1_000_000_000_i128..1_000_000_000,
            drift in -100_i128..100,
            delays in proptest::collection::vec((1_000_i128..100_000, 1_000_i128..100_000), 40..80),
        ) {
            check(offset, drift, &delays)?;
        }
    }

    /// Host 1 exchanges no messages with host 0: its clock is found by way of host 2, against the
    /// order of their numbers.
    #[test]
    fn a_host_is_reached_by_way_of_one_with_a_higher_number() {
        let (step, delay, clocks) = (1_000_000, 1000, [0_i128, 70_000_000, -30_000_000]);
        let mut bounds = HashMap::new();
        for from in [0, 1] {
            let mut pair = Bounds::OPEN;
            for number in 0..40_i128 {
                let sent = number * step;
                let there = sent + delay + clocks[2];
                let window = number as usize * WINDOWS / 40;
                pair.at_most(window, there, there - (sent + clocks[from]));
                pair.at_least(window, there, there - (sent + 2 * delay + clocks[from]));
            }
            bounds.insert((from, 2), pair);
        }
        let found = offsets(3, &clocks.map(|clock| [clock, clock + 40 * step]), &bounds).unwrap();
        for (host, clock) in clocks.into_iter().enumerate().skip(1) {
            let wrong = (found.aligned(host, 20 * step + clock) - 20 * step).abs();
            assert!(wrong <= i128::from(found.error.unwrap()) + 10, "host {host}: {wrong} ns");
        }
    }

    /// Delays for which an offset was wrong once: many that are equal, and many that rise.
    #[test]
    fn offsets_are_within_their_error_for_delays_in_a_row() {
        let equal = [vec![(4514, 1000)], vec![(1000, 1000); 29]].concat();
        let rising = [
            1000, 1052, 1104, 1156, 1208, 1259, 1311, 1363, 1414, 1466, 1518, 1570, 1622, 1673,
            1725, 1777, 1828, 1880, 1932, 1984, 2035, 2087, 2139, 2191, 2242, 2294, 2346, 2398,
            2449, 2501,
        ];
        let rising = rising.map(|back| (1000, back)).to_vec();
        let rest = [
            [
                (4996, 1023),
                (77729, 14653),
                (77274, 6838),
                (52907, 49953),
                (55732, 18958),
                (53018, 87461),
                (61126, 10981),
                (16094, 12494),
                (12574, 6903),
                (73442, 9445),
            ],
            [
                (1006, 19329),
                (21035, 69083),
                (25579, 64875),
                (4896, 86222),
                (40555, 31095),
                (91804, 17004),
                (22552, 41428),
                (33115, 21886),
                (10114, 62000),
                (7455, 75065),
            ],
        ];
        for (row, rest) in [equal, rising].into_iter().zip(rest) {
            check(0, 0, &[row, rest.to_vec()].concat()).unwrap();
        }
    }
}

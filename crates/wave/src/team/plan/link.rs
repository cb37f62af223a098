//! The time of messages between neighbours.
//!
//! # Contract
//! [`measure`] times messages of two sizes at every cut at the same time, as a pass has them there,
//! and returns a [`Link`] for each cut, the same ones in all members.
//!
//! ```text
//! member m       ask ──┐        ┌─> ask long ──┐              ┌─> end     one round; the western
//!                      │ short  │              │    long      │           member reads the clock
//! member m + 1         └─> answer              └─> answer long            in ask, ask long and end
//! ```
//! A link is half of the shortest round of each size. The messages are grants with data, as those
//! of a pass. Between members of one host all messages are short, and a byte takes no time: the
//! values of a cut are in memory that both members share.
//!
//! # Costs
//! The agreement of one overlay, and a few rounds of four messages, of which two are long between
//! hosts. All cuts are timed at once.
//!
//! # Source
//! This project's.

use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_overlay::run::ReadyOrder;
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};

use crate::Result;
use crate::team::groups::Groups;

/// The rounds that are timed.
const ROUNDS: u64 = 5;
/// The bytes of a short message.
const SHORT: usize = 8;
/// The bytes of a long message: those of the values of a band of usual height at a cut.
const LONG: usize = 128 << 10;

/// The time of messages between two members: `latency + bytes * byte_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// The time of a message of a few bytes.
    pub latency: Duration,
    /// The nanoseconds of each byte more.
    pub byte_ns: f64,
}

impl Link {
    /// Returns the nanoseconds of a message.
    pub(super) fn ns(&self, bytes: usize) -> f64 {
        self.latency.as_nanos() as f64 + bytes as f64 * self.byte_ns
    }
}

/// The clock of a western member.
#[derive(Debug)]
struct Clock {
    last: Instant,
    /// The least time of a round with short messages, and with long ones.
    least: [Duration; 2],
}

impl Clock {
    fn lap(&mut self, size: usize) {
        let now = Instant::now();
        self.least[size] = self.least[size].min(now - self.last);
        self.last = now;
    }
}

/// Measures the links between neighbours; all members call it.
pub(super) fn measure(me: &mut Member, groups: &Groups) -> Result<Vec<Link>> {
    let (own, cuts) = (me.rank(), me.size() - 1);
    let bytes = |cut| if groups.share_host(cut, cut + 1) { SHORT } else { LONG };
    if cuts == 0 {
        return Ok(Vec::new());
    }
    let location = |what: &str, cut: usize, len| -> Location<[u8]> {
        Location::absent(format!("{what} at cut {cut}"), len)
    };
    let clock = |cut| {
        let clock = Clock { last: Instant::now(), least: [Duration::MAX; 2] };
        Location::new(format!("clock at cut {cut}"), clock)
    };
    let mut clocks: Vec<Location<Clock>> = (0..cuts).map(clock).collect();
    let mut overlay = Overlay::new();
    for (cut, clock) in clocks.iter().enumerate() {
        let [ask, answer] = ["question", "answer"].map(|what| location(what, cut, SHORT));
        let [long, back] =
            ["long question", "long answer"].map(|what| location(what, cut, bytes(cut)));
        let (west, east) = (cut, cut + 1);
        let access = (clock.write(), ask.write());
        let task = overlay.task(format!("ask at cut {cut}"), access, |(clock, _), _| {
            clock.last = Instant::now();
        });
        overlay.place(task, west);
        let access = (ask.read(), answer.write());
        let task = overlay.task(format!("answer at cut {cut}"), access, |_, _| ());
        overlay.place(task, east);
        let access = (clock.write(), answer.read(), long.write());
        let task = overlay.task(format!("ask long at cut {cut}"), access, |(clock, ..), _| {
            clock.lap(0);
        });
        overlay.place(task, west);
        let access = (long.read(), back.write());
        let task = overlay.task(format!("answer long at cut {cut}"), access, |_, _| ());
        overlay.place(task, east);
        let access = (clock.write(), back.read());
        let task = overlay.task(format!("end at cut {cut}"), access, |(clock, _), _| clock.lap(1));
        overlay.place(task, west);
    }
    let mut checked = overlay.check(Initial::Program)?;
    let runner = Runner::Pool { workers: 1, order: ReadyOrder::DepthFirst };
    let done = checked.run_on(me, runner, Stop::after(ROUNDS));
    drop(checked);
    done?;
    let least = match clocks.drain(..).nth(own).map(Location::into_inner) {
        Some(Ok(clock)) => clock.least.map(|time| time.as_nanos() as u64 / 2),
        _ => [0; 2],
    };
    let [short, long] = [me.gather(least[0])?, me.gather(least[1])?];
    let link = |cut: usize| Link {
        latency: Duration::from_nanos(short[cut]),
        byte_ns: match bytes(cut) - SHORT {
            0 => 0.0,
            more => long[cut].saturating_sub(short[cut]) as f64 / more as f64,
        },
    };
    Ok((0..cuts).map(link).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_fabric::Team;
    use syncline_fabric::transport::in_memory::Conditions;

    #[test]
    fn all_members_have_the_same_links_and_none_is_faster_than_the_network() {
        let delay = Duration::from_micros(300);
        let conditions = Conditions { latency: delay, ..Conditions::default() };
        let links = Team::hosts(2).threads(2).conditions(conditions).quiet().run(|me| {
            let groups = Groups::of(me);
            measure(me, &groups).unwrap()
        });
        let links: Vec<Vec<Link>> = links.unwrap();
        assert!(links.iter().all(|of_member| *of_member == links[0]), "{links:?}");
        let [first, between, last] = links[0][..] else { panic!("{links:?}") };
        assert!(between.latency >= delay, "{between:?}");
        assert_eq!([first.byte_ns, last.byte_ns], [0.0; 2]);
        assert!(between.ns(LONG) >= between.ns(SHORT));
    }

    #[test]
    fn one_member_has_no_links() {
        let links = Team::threads(1).quiet().run(|me| measure(me, &Groups::of(me)).is_ok());
        assert_eq!(links.unwrap(), [true]);
    }
}

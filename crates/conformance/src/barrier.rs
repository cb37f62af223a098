//! A session of barriers.
//!
//! # A round, number r, of member m
//! ```text
//! if m is r mod members: value[r mod 2] = f(r)
//! count[m] = r
//! linger, arrive, poll, wait: as f(r, m) selects                       the barrier
//! t = now
//! value[r mod 2] is f(r)                  all members see the changes made before
//! every count is r or r + 1               no member skips a round or falls behind
//! every time[.][(r - 1) mod 2] < t        the last time of a round precedes the first of the next
//! time[m][r mod 2] = t
//! ```
//! A slot is overwritten two rounds later, by a member that has passed a barrier after the readers'
//! last access. Rounds are counted across all algorithms of a session, so that the first round of
//! one algorithm is checked against the last of the previous one.

use std::sync::atomic::{AtomicU64, Ordering};

use syncline_fabric::Member;
use syncline_sync::{
    Auto, BarrierMember, SpaceError,
    barrier::{Counter, Dissemination, Tournament},
    board::Flags,
    space::Array,
};

use super::scene::{Say, hash, linger, now};
use super::{Suite, deadline, finding};

type Made = Result<Box<dyn BarrierMember>, SpaceError>;
type Make = fn(&mut Member) -> Made;

/// All barriers, and how the members of a team create them.
pub(super) const ALGORITHMS: [(&str, Make); 11] = [
    ("counter", |me| Ok(Box::new(me.make(Counter::within)?))),
    ("tournament", |me| tournament(me, Flags::Packed)),
    ("tournament, padded", |me| tournament(me, Flags::Padded)),
    ("dissemination", |me| dissemination(me, 2, Flags::Packed)),
    ("dissemination, padded", |me| dissemination(me, 2, Flags::Padded)),
    ("dissemination, radix 3", |me| dissemination(me, 3, Flags::Packed)),
    ("dissemination, radix 4", |me| dissemination(me, 4, Flags::Packed)),
    ("counter in dissemination", |me| {
        let outer =
            |space: &mut _, members| Dissemination::within(space, members, 2, Flags::Packed);
        Ok(Box::new(me.combine(Counter::within, outer)?))
    }),
    ("tournament in dissemination", |me| {
        let inner = |space: &mut _, members| Tournament::within(space, members, Flags::Packed);
        let outer =
            |space: &mut _, members| Dissemination::within(space, members, 2, Flags::Packed);
        Ok(Box::new(me.combine(inner, outer)?))
    }),
    ("auto", |me| Ok(Box::new(me.make(|space, members| Auto::within(space, members, 2))?))),
    ("auto, a core each", |me| {
        Ok(Box::new(me.make(|space, members| Auto::within(space, members, members))?))
    }),
];

fn tournament(me: &mut Member, flags: Flags) -> Made {
    Ok(Box::new(me.make(|space, members| Tournament::within(space, members, flags))?))
}

fn dissemination(me: &mut Member, radix: usize, flags: Flags) -> Made {
    Ok(Box::new(me.make(|space, members| Dissemination::within(space, members, radix, flags))?))
}

/// The state that members compare.
struct Scene {
    values: Array<AtomicU64>,
    counts: Array<AtomicU64>,
    times: Array<AtomicU64>,
}

pub(super) fn session(me: &mut Member, suite: &Suite) -> Result<(), String> {
    let n = me.size();
    let arrays = (|| {
        let space = me.space();
        Ok(Scene { values: space.array(2)?, counts: space.array(n)?, times: space.array(2 * n)? })
    })();
    let scene = arrays.map_err(|error: SpaceError| {
        finding(me, "the session", 0, format_args!("{}", error.say()))
    })?;
    let mut round = 0;
    for (name, make) in ALGORITHMS.iter().filter(|(name, _)| suite.includes(name)) {
        let mut barrier =
            make(me).map_err(|error| finding(me, name, round, format_args!("{}", error.say())))?;
        for _ in 0..suite.rounds {
            round += 1;
            let wrong = |what: std::fmt::Arguments<'_>| finding(me, name, round, what);
            pass(barrier.as_mut(), &scene, round, &wrong)?;
        }
    }
    Ok(())
}

/// Runs one round of one member.
fn pass(
    barrier: &mut dyn BarrierMember,
    scene: &Scene,
    round: u64,
    wrong: &dyn Fn(std::fmt::Arguments<'_>) -> String,
) -> Result<(), String> {
    // All accesses are Relaxed: the barrier must order them.
    let (load, store) = (|word: &AtomicU64| word.load(Ordering::Relaxed), Ordering::Relaxed);
    let (me, members) = (barrier.rank(), barrier.members());
    let at = (round % 2) as usize;
    let value = hash(round, 0);
    if round % members as u64 == me as u64 {
        scene.values[at].store(value, store);
    }
    scene.counts[me].store(round, store);

    let way = hash(round, 1 + me as u64);
    linger(way >> 8);
    let fault = |fault: syncline_sync::Fault| wrong(format_args!("{}", fault.say()));
    let mut through = false;
    if way & 1 == 0 {
        barrier.arrive().map_err(fault)?;
        linger(way >> 16);
        for _ in 0..way >> 1 & 3 {
            through = through || barrier.done().map_err(fault)?;
        }
    }
    if !through {
        barrier.wait_deadline(deadline()).map_err(fault)?;
    }

    let time = now();
    let seen = load(&scene.values[at]);
    if seen != value {
        return Err(wrong(format_args!(
            "reads {seen:#x} where {value:#x} was written before the barrier"
        )));
    }
    for other in 0..members {
        let count = load(&scene.counts[other]);
        if count != round && count != round + 1 {
            return Err(wrong(format_args!(
                "has passed the barrier, and member {other} is in round {count}"
            )));
        }
        let before = load(&scene.times[2 * other + (1 - at)]);
        // The clock may not have moved on between two rounds.
        if before > time {
            let ahead = before - time;
            return Err(wrong(format_args!(
                "is {ahead} ns earlier than member {other} was in the round before"
            )));
        }
    }
    scene.times[2 * me + at].store(time, store);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use syncline_fabric::Team;
    use syncline_sync::Fault;

    use super::*;

    /// A barrier that lets every member through at once.
    struct Open {
        rank: usize,
        episodes: u64,
    }

    impl BarrierMember for Open {
        fn rank(&self) -> usize {
            self.rank
        }

        fn members(&self) -> usize {
            2
        }

        fn episodes(&self) -> u64 {
            self.episodes
        }

        fn arrive(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        fn done(&mut self) -> Result<bool, Fault> {
            self.episodes += 1;
            Ok(true)
        }

        fn wait_untraced(&mut self, _: Option<Instant>) -> Result<(), Fault> {
            self.done().map(|_| ())
        }

        fn set_policy(&mut self, _: &syncline_signal::Policy<'_>) {}
    }

    /// The second member does not begin before the first has ended, as this barrier allows: the
    /// first one finds in its first round that the other has not come to it.
    #[test]
    fn a_barrier_that_holds_nobody_back_is_found_out() {
        let found = Team::threads(2).quiet().run(|me| {
            let space = me.space();
            let (values, counts) = (space.array(2).unwrap(), space.array(2).unwrap());
            let scene = Scene { values, counts, times: space.array(4).unwrap() };
            let mut open = Open { rank: me.rank(), episodes: 0 };
            let mut rounds = || {
                (1..1000)
                    .try_for_each(|round| pass(&mut open, &scene, round, &|what| what.to_string()))
            };
            let first = if me.rank() == 0 { rounds() } else { Ok(()) };
            me.wait().unwrap();
            if me.rank() == 1 { rounds() } else { first }
        });
        let found: Vec<_> = found.unwrap().into_iter().filter_map(Result::err).collect();
        assert!(!found.is_empty());
        assert!(found[0].contains("member") || found[0].contains("written before"), "{found:?}");
    }
}

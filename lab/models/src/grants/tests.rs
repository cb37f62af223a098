//! Checks that the protocol is correct, and which property each planted bug breaks.

use Access::{Read, Write};
use syncline_testkit::{Random, cases, seed};

use super::*;
use crate::explore::{breaks, holds, safe};

const STALE: &str = "an access finds the version that one queue gives";
const TORN_SLOT: &str = "no slot changes while it is used";
const CROWDED: &str = "at most two receptions are unread";
const ENDS: &str = "every run ends";
const LATE: &str = "no message follows a notice of a failure";
const PASSES: &str = "no task passes the last round";
const NAMED: &str = "all hosts name the same failed task";

/// A writer on host 0, a reader before it on host 1 and one behind it on host 2, which writes the
/// second location for the first two.
fn star() -> Overlay {
    Overlay::new(3, &[0, 1, 2]).data(&[Read(1), Write(0), Read(2)]).data(&[
        Read(1),
        Read(0),
        Write(2),
    ])
}

/// From host 0 to host 1 to host 2: no data flows back.
fn pipeline() -> Overlay {
    Overlay::new(3, &[0, 1, 2]).data(&[Write(0), Read(1)]).data(&[Write(1), Read(2)])
}

/// One location with writers on hosts 0 and 2; host 1 reads the versions of both, so that it has
/// two receptions in a round.
fn moving() -> Overlay {
    Overlay::new(3, &[0, 1, 2, 1]).data(&[Write(0), Read(1), Write(2), Read(3)])
}

/// One location with writers on all hosts, and a reader between two of them; a second location
/// leads from host 1 to host 0.
fn moving_on_all() -> Overlay {
    Overlay::new(3, &[0, 1, 2, 1])
        .data(&[Write(0), Read(1), Write(2), Write(3)])
        .data(&[Read(0), Write(1)])
}

/// Two writers on host 0, with a remote reader between them.
fn in_place() -> Overlay {
    Overlay::new(3, &[0, 1, 0, 2]).data(&[Write(0), Read(1), Write(2), Read(3)])
}

/// A control location that all hosts use, and data from host 1 to host 2.
fn control() -> Overlay {
    Overlay::new(3, &[0, 1, 2, 2]).control(&[Write(0), Read(1), Read(2)]).data(&[Write(1), Read(3)])
}

/// Task 0 writes both locations, task 1 reads both, task 2 one of them.
fn joint() -> Overlay {
    Overlay::new(3, &[0, 1, 2]).data(&[Write(0), Read(1)]).data(&[Write(0), Read(1), Read(2)])
}

/// Data flows both ways between hosts 0 and 1, for tasks that no location connects.
fn crossing() -> Overlay {
    Overlay::new(2, &[0, 0, 1, 1]).data(&[Write(1), Read(2)]).data(&[Write(3), Read(0)])
}

fn all() -> [(&'static str, Overlay); 8] {
    [
        ("star", star()),
        ("pipeline", pipeline()),
        ("moving", moving()),
        ("moving on all", moving_on_all()),
        ("in place", in_place()),
        ("control", control()),
        ("joint", joint()),
        ("crossing", crossing()),
    ]
}

fn run(overlay: Overlay, rounds: u8) -> Grants {
    let tasks = overlay.homes.len();
    Grants::new(overlay, Rules::new(tasks, rounds))
}

fn with(grants: &Grants, change: impl Fn(&mut Rules)) -> Grants {
    let mut rules = grants.rules.clone();
    change(&mut rules);
    Grants::new(grants.overlay.clone(), rules)
}

/// Explores a correct run with all orders of the steps of a release and of a reception.
fn holds_in_all_orders(name: &str, grants: &Grants) {
    for release in [Release::OneStep, Release::RaiseFirst, Release::SendFirst] {
        for two_steps in [false, true] {
            for flush in [Flush::Any, Flush::Idle] {
                let grants = with(grants, |rules| {
                    (rules.release, rules.two_steps, rules.flush) = (release, two_steps, flush);
                });
                let steps = if two_steps { 2 } else { 1 };
                let name = format!("{name}, {release:?}, received in {steps}, room {flush:?}");
                holds(&name, grants);
            }
        }
    }
}

#[test]
fn it_is_right() {
    for (name, overlay) in all() {
        holds_in_all_orders(&format!("{name}, 3 rounds"), &run(overlay, 3));
    }
}

#[test]
fn it_is_right_for_four_rounds() {
    for (name, overlay) in all() {
        let grants = run(overlay, 4);
        holds(&format!("{name}, 4 rounds"), grants.clone());
        let grants = with(&grants, |rules| {
            (rules.release, rules.two_steps) = (Release::SendFirst, true);
        });
        holds(&format!("{name}, 4 rounds, SendFirst, received in 2"), grants);
    }
}

/// Tasks leave after different numbers of rounds, and their turns are passed on; the run has three
/// rounds, or is over when all have left.
#[test]
fn leaving_is_right() {
    for (name, overlay) in all() {
        let tasks = overlay.homes.len();
        for first in 0..tasks {
            for rounds in [Some(3), None] {
                let grants = with(&run(overlay.clone(), 3), |rules| {
                    rules.rounds = rounds;
                    rules.bodies = (0..tasks).map(|task| 1 + ((task + first) % 3) as u8).collect();
                });
                let name = format!("{name}, {:?} bodies, rounds: {rounds:?}", grants.rules.bodies);
                holds(&name, grants);
            }
        }
    }
}

/// All tasks stop after the same round, however late the verdict is.
#[test]
fn converging_is_right() {
    for (name, overlay) in all() {
        for delay in 1..=3 {
            let test = Test { converges: 1, delay };
            let grants = with(&run(overlay.clone(), 6), |rules| rules.test = Some(test));
            // Not `holds`: with a delay of 1, rounds are barriers, and no second slot is used.
            let outcome = safe(grants).unwrap_or_else(|error| panic!("{name}: {error}"));
            println!("{name}, converges in round 1, verdict after {delay}: {outcome} states");
        }
    }
}

#[test]
fn failing_is_right() {
    for (name, overlay) in all() {
        for task in 0..overlay.homes.len() {
            for failure in [Failure::Broadcast, Failure::Agreed] {
                let grants = with(&run(overlay.clone(), 3), |rules| {
                    rules.failure = failure;
                    rules.fails[task] = Some(1);
                });
                holds(&format!("{name}, task {task} fails, {failure:?}"), grants);
            }
        }
        for release in [Release::OneStep, Release::RaiseFirst, Release::SendFirst] {
            let both = with(&run(overlay.clone(), 3), |rules| {
                (rules.failure, rules.release) = (Failure::Agreed, release);
                (rules.fails[0], rules.fails[1]) = (Some(1), Some(1));
            });
            holds(&format!("{name}, two tasks fail, {release:?}"), both);
        }
    }
}

/// Random overlays of three hosts, up to four tasks and three locations, all states of each.
#[test]
fn any_small_overlay_is_right() {
    let (first, count) = (seed(0), u64::from(cases(150)));
    let mut states = 0;
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let overlay = random::overlay(&mut random, 3, 4, 3);
        let grants = random::grants(&mut random, overlay, 2);
        let outcome = safe(grants.clone());
        states += outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}: {grants:?}"));
    }
    println!("{count} random overlays: {states} states");
}

fn planted(overlay: Overlay, bug: Bug) -> Grants {
    with(&run(overlay, 4), |rules| rules.bug = bug)
}

#[test]
fn no_wait_for_room() {
    for overlay in [star(), pipeline(), joint()] {
        breaks("no room", planted(overlay.clone(), Bug::NoRoom), CROWDED);
        breaks("no room", planted(overlay, Bug::NoRoom), STALE);
    }
    breaks("no room", planted(pipeline(), Bug::NoRoom), TORN_SLOT);
    for bug in [Bug::RoomLoose, Bug::RoomEarly] {
        for (name, overlay) in [("pipeline", pipeline()), ("moving", moving())] {
            breaks(&format!("{bug:?}, {name}"), planted(overlay.clone(), bug), CROWDED);
            breaks(&format!("{bug:?}, {name}"), planted(overlay, bug), TORN_SLOT);
        }
    }
    breaks("loose room", planted(pipeline(), Bug::RoomLoose), STALE);
}

/// Room of `n - 1` is correct: it gives what one queue gives, without slack.
#[test]
fn room_that_is_too_strict_costs_the_slack() {
    for (name, overlay) in all() {
        let strict = planted(overlay, Bug::RoomStrict);
        holds(&format!("strict room, {name}"), strict);
    }
    let apart = |bug| planted(pipeline(), bug).plan().apart(0, 1);
    assert_eq!((apart(Bug::RoomStrict), apart(Bug::None)), (Some(1), Some(2)));
}

#[test]
fn slots_that_do_not_follow_the_receptions() {
    for bug in [Bug::SlotByArrival, Bug::SlotByRound] {
        breaks(&format!("{bug:?}"), planted(moving(), bug), STALE);
        // With one reception in a round, the three rules are the same.
        holds(&format!("{bug:?}, one reception in a round"), planted(star(), bug));
    }
}

#[test]
fn a_mirror_that_is_raised_before_the_data() {
    for overlay in [pipeline(), joint()] {
        breaks("mirror raised early", planted(overlay, Bug::RaisedEarly), STALE);
    }
}

#[test]
fn a_writer_that_skips_readers() {
    breaks("readers skipped", planted(moving(), Bug::SkipsReaders), STALE);
    breaks("readers skipped", planted(in_place(), Bug::SkipsReaders), TORN_SLOT);
}

#[test]
fn a_copy_that_is_taken_late() {
    let late = with(&planted(in_place(), Bug::CopiedLate), |rules| {
        rules.release = Release::RaiseFirst;
    });
    breaks("copied late", late, STALE);
}

#[test]
fn room_that_does_not_travel_alone() {
    breaks("room not alone", planted(pipeline(), Bug::RoomNotAlone), ENDS);
    holds("room not alone, both ways", planted(crossing(), Bug::RoomNotAlone));
    breaks("room rides, both ways", planted(crossing(), Bug::RoomRides), ENDS);
    breaks("room rides, star", planted(star(), Bug::RoomRides), ENDS);
    // Each task sends data to the other one, so all room rides.
    let mutual = Overlay::new(2, &[0, 1]).data(&[Write(0), Read(1)]).data(&[Read(0), Write(1)]);
    holds("room rides, two tasks", planted(mutual, Bug::RoomRides));
}

#[test]
fn a_control_location_with_slack() {
    breaks("control with slack", planted(control(), Bug::ControlSlack), STALE);
    breaks("control with slack", planted(control(), Bug::ControlSlack), TORN_SLOT);
}

#[test]
fn leavers_whose_turns_are_lost() {
    let leaves =
        |overlay, bug, task: usize| with(&planted(overlay, bug), |rules| rules.bodies[task] = 1);
    breaks("leaver ignored", leaves(moving(), Bug::LeaverIgnored, 2), STALE);
    breaks("leaver ignored", leaves(pipeline(), Bug::LeaverIgnored, 1), ENDS);
    for task in 0..3 {
        breaks("leaver stops", leaves(star(), Bug::LeaverStops, task), ENDS);
    }
}

#[test]
fn failures_that_not_all_are_told() {
    let fails = |overlay, task: usize, bug| {
        with(&planted(overlay, bug), |rules| rules.fails[task] = Some(1))
    };
    breaks("followers told", fails(pipeline(), 1, Bug::FailureToFollowers), ENDS);
    let both = with(&run(pipeline(), 3), |rules| {
        (rules.fails[0], rules.fails[2]) = (Some(1), Some(0));
    });
    breaks("two failures, a broadcast for each", both.clone(), NAMED);
    let late = with(&both, |rules| {
        (rules.failure, rules.release) = (Failure::Agreed, Release::RaiseFirst);
        rules.bug = Bug::SentAfterNotice;
    });
    breaks("a release completed after the notice", late, LATE);
}

/// The delay exceeds all distances of tasks, as on one host; but the last reporter releases before
/// the verdict arrives.
#[test]
fn a_stop_without_verdicts() {
    let grants = with(&run(pipeline(), 9), |rules| {
        rules.test = Some(Test { converges: 0, delay: 5 });
        rules.bug = Bug::NoVerdict;
    });
    assert!(grants.plan().apart(0, 2).is_some_and(|apart| apart < 5));
    breaks("no verdict", grants, PASSES);
}

#[test]
fn initial_values() {
    breaks("no initial value", planted(star(), Bug::NoInitial), STALE);
    // No reader stands before the first writer.
    holds("no initial value, pipeline", planted(pipeline(), Bug::NoInitial));
    breaks("initial value late", planted(pipeline(), Bug::InitialLate), STALE);
}

#[test]
fn messages_that_overtake() {
    breaks("overtaking", planted(pipeline(), Bug::Overtaking), STALE);
}

/// A ring, where data stay in their slots.
fn ring() -> Overlay {
    Overlay::new(3, &[0, 1, 2]).data(&[Write(0), Write(1), Write(2)])
}

/// The second reception of host 0 in a round may come as soon as task 0 has released the round.
fn tight() -> Overlay {
    Overlay::new(3, &[0, 1, 0, 2]).data(&[Write(0), Write(1), Read(2), Write(3)])
}

fn long(grants: &Grants, long: u8) -> Grants {
    with(grants, |rules| rules.long = long)
}

/// Which data stay is decided as in the product's tests.
#[test]
fn long_data_are_right() {
    let staying = |overlay: Overlay| {
        let plan = Plan::new(&overlay, Bug::None);
        let stays = plan.deliveries.iter().map(|all| all.iter().any(|delivery| delivery.stays));
        stays.collect::<Vec<_>>()
    };
    assert_eq!(staying(ring()), [true; 3]);
    assert_eq!(staying(pipeline()), [false; 3]);
    assert_eq!(staying(tight()), [false, true, false, true]);
    for (name, overlay) in all().into_iter().chain([("ring", ring()), ("tight", tight())]) {
        let rounds = match name {
            "star" | "joint" | "crossing" | "moving on all" => 2,
            _ => 3,
        };
        for set in [0b01, 0b11] {
            let grants = long(&run(overlay.clone(), rounds), set);
            let outcome = safe(grants).unwrap_or_else(|error| panic!("{name}: {error}"));
            println!("{name}, long data {set:b}: {outcome} states");
        }
    }
}

#[test]
fn long_data_that_are_not_awaited() {
    let broken = |overlay, bug| long(&planted(overlay, bug), u8::MAX);
    breaks("raised unlanded", broken(pipeline(), Bug::RaisedUnlanded), STALE);
    breaks("raised out of turn", broken(pipeline(), Bug::RaisedOutOfTurn), STALE);
    breaks("slot used", broken(in_place_back(), Bug::StaysUsed), TORN_SLOT);
    breaks("slot filled", broken(tight(), Bug::StaysTight), TORN_SLOT);
    breaks("not sent", broken(ring(), Bug::NotSent), TORN_SLOT);
}

/// Two writers on host 0, with a remote reader between them, and a writer on another host.
fn in_place_back() -> Overlay {
    Overlay::new(2, &[0, 1, 0, 1]).data(&[Write(0), Read(1), Write(2), Write(3)])
}

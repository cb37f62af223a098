//! Members pass barriers until one of them dies.

use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_signal::Policy;
use syncline_sync::{
    Auto, BarrierMember, Fault,
    barrier::{Counter, Dissemination, Tournament},
    board::Flags,
};
use syncline_testkit::Random;

use crate::plan::{HANG, Plan, Stage};

pub(crate) fn play(seed: u64) {
    let plan = Plan::new("barriers", seed);
    plan.run(|me, stage| {
        let mut barrier = barrier(me, stage.plan.kind);
        pass(&mut *barrier, stage);
    });
}

fn barrier(me: &mut Member, kind: u64) -> Box<dyn BarrierMember> {
    let radix = [2, 3, 4, 8][(kind / 64 % 4) as usize];
    let flags = if (kind / 256).is_multiple_of(2) { Flags::Packed } else { Flags::Padded };
    let dissemination =
        |space: &mut _, members| Dissemination::within(space, members, radix, flags);
    let tree = |space: &mut _, members| Tournament::within(space, members, flags);
    match kind % 8 {
        0 => Box::new(me.make(Counter::within).unwrap()),
        1 => Box::new(me.make(tree).unwrap()),
        2 | 3 => Box::new(me.make(dissemination).unwrap()),
        4 => Box::new(me.combine(Counter::within, dissemination).unwrap()),
        5 => Box::new(me.combine(tree, Counter::within).unwrap()),
        6 => Box::new(me.combine(tree, dissemination).unwrap()),
        // As if each member had a core: then the barrier works in rounds.
        _ => Box::new(me.make(|space, members| Auto::within(space, members, 64)).unwrap()),
    }
}

fn pass(barrier: &mut dyn BarrierMember, stage: &Stage<'_>) {
    let mut random = Random::stream(stage.plan.seed, stage.rank as u64);
    if random.one_in(3) {
        barrier.set_policy(&Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None });
    }
    let begun = Instant::now();
    let fault = loop {
        stage.at(0);
        assert!(begun.elapsed() < HANG, "no member dies");
        match once(barrier, &mut random, stage) {
            Ok(()) => (),
            Err(fault) => break fault,
        }
    };
    let Fault::Dead { rank } = fault else { panic!("rank {}: {fault}", stage.rank) };
    stage.told(rank);
    // The dead members may have done their part in this episode and in the next, in which the live
    // members meet.
    let again = (0..3).find_map(|_| barrier.wait_deadline(Some(begun + HANG)).err());
    assert_eq!(again, Some(fault), "rank {}", stage.rank);
}

/// Passes an episode in one of several ways.
fn once(
    barrier: &mut dyn BarrierMember,
    random: &mut Random,
    stage: &Stage<'_>,
) -> Result<(), Fault> {
    let last = Some(Instant::now() + HANG);
    match random.below(6) {
        0 => {
            barrier.arrive()?;
            while !barrier.done()? {
                assert!(Some(Instant::now()) < last, "rank {} polls without end", stage.rank);
            }
        }
        1 => {
            barrier.arrive()?;
            std::thread::sleep(random.microseconds(50));
        }
        2 => loop {
            match barrier.wait_deadline(Some(Instant::now() + random.microseconds(100))) {
                Err(Fault::TimedOut) => {
                    assert!(Some(Instant::now()) < last, "rank {} waits without end", stage.rank);
                    stage.at(1);
                }
                other => return other,
            }
        },
        _ => (),
    }
    barrier.wait_deadline(last)
}

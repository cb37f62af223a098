//! Members take a lock and change two numbers; some members die; the others repair the lock, and
//! continue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_signal::Policy;
use syncline_sync::{
    Lock, LockError, LockGuard, Mcs, Ticket,
    lock::{LockMember, RawLock},
    membership::FaultList,
    space::Array,
};
use syncline_testkit::{Random, cases};

use crate::plan::{HANG, Plan, Stage, late};

/// The most sections of each survivor after all have noticed all deaths. The launcher gives the
/// survivors ten seconds.
const AFTERWARDS: u32 = 200;

pub(crate) fn play(seed: u64) {
    let plan = Plan::new("locks", seed);
    plan.run(|me, stage| match stage.plan.kind % 2 {
        0 => work::<Ticket>(me, stage),
        _ => work::<Mcs>(me, stage),
    });
}

/// Returns the second number for a first one.
fn partner(first: u64) -> u64 {
    first.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

struct Worker<'a, R: RawLock> {
    lock: LockMember<R, [u64; 2]>,
    shared: Shared<'a>,
    random: Random,
}

#[derive(Clone)]
struct Shared<'a> {
    stage: &'a Stage<'a>,
    fault_list: FaultList,
    /// The number of sections that each member has done. Whenever no member is in a section, their
    /// sum is the first number.
    done: Array<AtomicU64>,
}

fn work<R: RawLock>(me: &mut Member, stage: &Stage<'_>) {
    let members = me.size();
    let done = me.space().array(members).unwrap();
    let mut lock = me.make(Lock::<R, [u64; 2]>::within).unwrap();
    let mut random = Random::stream(stage.plan.seed, stage.rank as u64);
    if random.one_in(3) {
        lock.set_policy(&Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None });
    }
    let mut me = Worker {
        lock,
        shared: Shared { stage, fault_list: me.fault_list().clone(), done },
        random,
    };
    // Victims come no further than this loop. A member that has noticed all deaths continues in it,
    // so that the others have to wait, and get the error.
    let survives = stage.plan.survivors().any(|rank| rank == stage.rank);
    let begun = Instant::now();
    while !(survives && stage.knows_all() && stage.all_at(1)) {
        assert!(
            begun.elapsed() < HANG,
            "rank {}: it knows of all deaths: {}",
            stage.rank,
            stage.knows_all()
        );
        me.section(true);
        if stage.knows_all() {
            stage.step(1);
        }
    }
    for _ in 0..cases(AFTERWARDS).min(AFTERWARDS) {
        me.section(true);
    }
    stage.step(2);
    while !stage.all_at(2) {
        assert!(begun.elapsed() < 2 * HANG, "a member does not end");
        std::thread::sleep(Duration::from_micros(200));
    }
    me.section(false);
}

impl<R: RawLock> Worker<'_, R> {
    /// Takes the lock in one of several ways, recovers it after deaths, and changes the numbers or
    /// only checks them.
    fn section(&mut self, change: bool) {
        self.shared.stage.at(0);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < HANG, "rank {} waits without end", self.lock.rank());
            let linger = self.random.one_in(20).then(|| self.random.microseconds(400));
            let shared = self.shared.clone();
            let touch =
                |held: LockGuard<'_, R, _>| shared.touch(held, linger.filter(|_| change), change);
            let short = Instant::now() + self.random.microseconds(150);
            let asked = match self.random.below(4) {
                0 => self.lock.try_lock().map(|held| held.map(touch).is_some()),
                1 => self.lock.lock_deadline(Some(short)).map(touch).map(|()| true),
                _ => self.lock.lock_deadline(Some(begun + HANG)).map(touch).map(|()| true),
            };
            let done = match asked {
                Ok(done) => done,
                Err(LockError::TimedOut) => false,
                Err(LockError::Dead { rank } | LockError::Poisoned { rank }) => {
                    self.shared.stage.told(rank);
                    self.recover(change)
                }
                Err(error) => panic!("{error}"),
            };
            if done {
                break;
            }
        }
        if self.random.one_in(30) {
            std::thread::sleep(self.random.microseconds(300));
        }
    }

    /// Repairs the lock, and the numbers if necessary. Returns whether it got the lock.
    fn recover(&mut self, change: bool) -> bool {
        let hasty = self.random.one_in(3);
        let until =
            if hasty { Some(Instant::now() + self.random.microseconds(800)) } else { late() };
        let shared = self.shared.clone();
        let recovered = self.lock.recover(until);
        // After a recovery, in time or not, the member may continue in spite of all these deaths
        // without another error for them.
        shared.stage.knows(|rank| shared.fault_list.includes(rank));
        match recovered {
            Ok(mut held) => {
                if let Some(rank) = held.poisoned_by() {
                    shared.stage.victim(rank);
                    // As if that section had not begun: a section counts at its end.
                    let sum = shared.sum();
                    *held = [sum, partner(sum)];
                }
                shared.touch(held, None, change);
                true
            }
            Err(LockError::TimedOut) if hasty => false,
            Err(LockError::Dead { rank }) => {
                shared.stage.told(rank);
                false
            }
            Err(error) => panic!("rank {}: {error}", shared.stage.rank),
        }
    }
}

impl Shared<'_> {
    fn sum(&self) -> u64 {
        // Relaxed, here and below: under the lock.
        self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum()
    }

    /// Does a section: checks that the numbers are consistent, and so that no other member is in
    /// one.
    fn touch<R: RawLock>(
        &self,
        mut held: LockGuard<'_, R, [u64; 2]>,
        linger: Option<Duration>,
        change: bool,
    ) {
        let sum = self.sum();
        assert_eq!(*held, [sum, partner(sum)], "rank {}", self.stage.rank);
        self.stage.at(1);
        if change {
            held[0] += 1;
            self.stage.at(2);
            if let Some(time) = linger {
                std::thread::sleep(time);
            }
            held[1] = partner(held[0]);
            self.stage.at(3);
            self.done[self.stage.rank].fetch_add(1, Ordering::Relaxed);
        }
        drop(held);
        self.stage.at(4);
    }
}

//! A session of locks.
//!
//! # One at a time
//! Every member requests the lock a number of times, in one of four ways: it blocks, blocks for a
//! moment, times out at once but keeps its place, or takes the lock only if it is free. In the
//! critical section it finds no other member, writes its rank, changes two numbers that belong
//! together, lingers, and finds its rank still there. At the end the numbers count all sections.
//!
//! # In order
//! ```text
//! director (each in turn)     holds the lock; for all others, in random order:
//!                               tells the next to request ──> member: announces it; requests
//!                               waits until that member sleeps (as the system reports): queued
//!                             releases the lock
//! others                      acquire the lock one after the other; each records its rank
//! all                         compare: the ranks are in the director's order
//! ```
//! In this part members sleep as soon as they wait, and do nothing but request the lock between the
//! announcement and the sleep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_signal::{Policy, Signal, poll_schedule::PollSchedule};
use syncline_sync::{
    Lock, LockError, Mcs, SpaceError, Ticket,
    lock::{LockMember, RawLock},
    space::Array,
};

use super::scene::{Say, give_way, hash, linger, sleeps, thread};
use super::{PATIENCE, Suite, deadline, finding};

/// Verifies one lock.
type Part = fn(&mut Member, &Suite) -> Result<(), String>;

/// All locks.
pub(super) const ALGORITHMS: [(&str, Part); 2] = [("ticket", lock::<Ticket>), ("mcs", lock::<Mcs>)];

/// The maximum number of rounds that check the order; each member directs at most one of them.
const ORDERED: u64 = 8;

/// The state that members compare.
struct Scene {
    /// 1 + the rank of the member in the section.
    inside: Array<AtomicU64>,
    /// The number of times that each member has had the lock.
    taken: Array<AtomicU64>,
    /// The thread of each member, as [`thread`] encodes it.
    threads: Array<AtomicU64>,
    /// The last round in which each member may request the lock, and in which it is about to.
    go: Array<Signal>,
    asking: Array<Signal>,
    /// The order of requests and that of acquisitions, from index 1; `got[0]` is the next free
    /// index.
    asked: Array<AtomicU64>,
    got: Array<AtomicU64>,
}

pub(super) fn session(me: &mut Member, suite: &Suite) -> Result<(), String> {
    ALGORITHMS
        .iter()
        .filter(|(name, _)| suite.includes(name))
        .try_for_each(|(_, lock)| lock(me, suite))
}

fn lock<R: RawLock>(me: &mut Member, suite: &Suite) -> Result<(), String> {
    let name = std::any::type_name::<R>().rsplit("::").next().unwrap_or_default().to_lowercase();
    let n = me.size();
    let made = (|| {
        let lock = me.make(Lock::<R, [u64; 2]>::within)?;
        let space = me.space();
        let [inside, taken, threads] = [space.array(1)?, space.array(n)?, space.array(n)?];
        let [go, asking] = [space.array(n)?, space.array(n)?];
        let [asked, got] = [space.array(n + 1)?, space.array(n + 1)?];
        Ok((lock, Scene { inside, taken, threads, go, asking, asked, got }))
    })();
    let (mut lock, scene) =
        made.map_err(|error: SpaceError| finding(me, &name, 0, format_args!("{}", error.say())))?;
    scene.threads[me.rank()].store(thread(), Ordering::Relaxed);
    one_at_a_time(me, &name, &mut lock, &scene, suite.rounds)?;
    all_together(me, &name, suite.rounds)?;
    let total: u64 = scene.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum();
    let numbers = lock.lock_deadline(deadline()).map(|held| *held);
    let numbers =
        numbers.map_err(|error| finding(me, &name, 0, format_args!("{}", error.say())))?;
    if numbers != [total, total.wrapping_mul(total + 1) / 2] {
        return Err(finding(
            me,
            &name,
            suite.rounds,
            format_args!("{total} sections have left {numbers:?}"),
        ));
    }
    lock.set_policy(&Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None });
    all_together(me, &name, suite.rounds)?;
    (1..=ORDERED.min(n as u64)).try_for_each(|round| in_order(me, &name, &mut lock, &scene, round))
}

fn all_together(me: &mut Member, name: &str, round: u64) -> Result<(), String> {
    me.wait().map_err(|fault| finding(me, name, round, format_args!("{}", fault.say())))
}

fn one_at_a_time<R: RawLock>(
    me: &Member,
    name: &str,
    lock: &mut LockMember<R, [u64; 2]>,
    scene: &Scene,
    rounds: u64,
) -> Result<(), String> {
    let (mine, inside) = (me.rank() as u64 + 1, &scene.inside[0]);
    for round in 1..=rounds {
        let way = hash(round, mine);
        linger(way >> 8);
        let asked = match way % 4 {
            0 => lock.try_lock().transpose().unwrap_or(Err(LockError::TimedOut)),
            1 => lock.lock_deadline(Some(Instant::now())),
            2 => lock.lock_deadline(Some(Instant::now() + Duration::from_micros(way >> 2 & 127))),
            _ => lock.lock_deadline(deadline()),
        };
        let mut held = match asked {
            Ok(held) => held,
            Err(LockError::TimedOut) if way % 4 < 3 => continue,
            Err(error) => return Err(finding(me, name, round, format_args!("{}", error.say()))),
        };
        let other = inside.swap(mine, Ordering::Relaxed);
        let [count, sum] = *held;
        *held = [count + 1, sum.wrapping_add(count + 1)];
        linger(way >> 24);
        let still = inside.swap(0, Ordering::Relaxed);
        drop(held);
        if other != 0 || still != mine {
            let who = if other != 0 { other } else { still };
            return Err(finding(
                me,
                name,
                round,
                format_args!("is in the section, and so is member {}", who.wrapping_sub(1)),
            ));
        }
        scene.taken[me.rank()].fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn in_order<R: RawLock>(
    me: &mut Member,
    name: &str,
    lock: &mut LockMember<R, [u64; 2]>,
    scene: &Scene,
    round: u64,
) -> Result<(), String> {
    let (n, rank) = (me.size(), me.rank());
    let director = round as usize % n;
    if rank == director {
        direct(me, name, lock, scene, round)?;
    } else {
        let wrong = |what: &str| finding(me, name, round, format_args!("{what}"));
        let told = scene.go[rank].wait_until(round, &Policy::default(), deadline());
        told.map_err(|_| wrong("the director does not let it request the lock"))?;
        scene.asking[rank].raise_to(round);
        let held = lock.lock_deadline(deadline()).map_err(|error| wrong(&error.say()))?;
        let at = scene.got[0].load(Ordering::Relaxed) as usize;
        scene.got[at].store(rank as u64, Ordering::Relaxed);
        scene.got[0].store(at as u64 + 1, Ordering::Relaxed);
        drop(held);
    }
    all_together(me, name, round)?;
    let names = |list: &Array<AtomicU64>| -> Vec<u64> {
        list[1..n].iter().map(|name| name.load(Ordering::Relaxed)).collect()
    };
    let (asked, got) = (names(&scene.asked), names(&scene.got));
    if asked != got {
        return Err(finding(
            me,
            name,
            round,
            format_args!(
                "the members requested the lock in the order {asked:?}, and acquired it in {got:?}"
            ),
        ));
    }
    // The lists are overwritten only after all members have compared them.
    all_together(me, name, round)
}

/// The director's part: it holds the lock while the others queue up, one after the other.
fn direct<R: RawLock>(
    me: &Member,
    name: &str,
    lock: &mut LockMember<R, [u64; 2]>,
    scene: &Scene,
    round: u64,
) -> Result<(), String> {
    let wrong = |what: &str| finding(me, name, round, format_args!("{what}"));
    let held = lock.lock_deadline(deadline()).map_err(|error| wrong(&error.say()))?;
    scene.got[0].store(1, Ordering::Relaxed);
    let mut others: Vec<_> = (0..me.size()).filter(|&rank| rank != me.rank()).collect();
    others.sort_by_key(|&rank| hash(round, rank as u64));
    for (at, &rank) in others.iter().enumerate() {
        scene.asked[at + 1].store(rank as u64, Ordering::Relaxed);
        scene.go[rank].raise_to(round);
        let waiting = scene.asking[rank].wait_until(round, &Policy::default(), deadline());
        waiting.map_err(|_| wrong("a member does not request the lock"))?;
        let thread = scene.threads[rank].load(Ordering::Relaxed);
        let (until, mut poll) = (Instant::now() + PATIENCE, PollSchedule::new());
        // Checked twice: the thread may have slept for a moment on its way, for example for memory.
        while !(sleeps(thread) && {
            give_way();
            sleeps(thread)
        }) {
            if Instant::now() > until {
                return Err(wrong("a member that requested the lock does not sleep"));
            }
            poll.pause();
        }
    }
    drop(held);
    Ok(())
}

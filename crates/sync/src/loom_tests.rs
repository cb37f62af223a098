//! Loom models. Run with `make loom`.
//!
//! Each member stores a number of its own before each episode and loads those of the others after
//! it, all Relaxed: a barrier that releases a member too early, or does not publish, shows an old
//! number. The holder of a lock increments a counter, also Relaxed. Loom reports a lost wake-up as
//! a deadlock.

mod calls;

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use syncline_signal::{Policy, plant};

use crate::{
    Barrier, BarrierMember, Lock, LockError, Mcs, Space, Ticket,
    barrier::{Combined, Counter, Dissemination, RawCounter, Tournament},
    board::Flags,
    lock::RawLock,
    membership::FaultList,
};

/// Explores all interleavings with at most `preemptions` preemptions. Two are known to show nearly
/// every bug (Musuvathi and Qadeer 2007).
fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound =
        model.preemption_bound.map(|bound| bound.min(preemptions)).or(Some(preemptions));
    model.check(f);
}

const EPISODES: u64 = 2;

/// Takes one member through all episodes, first by `arrive` and `wait`, then by `wait` alone.
fn pass<M: BarrierMember>(mut member: M, cells: &[AtomicU64]) -> M {
    for episode in 1..=EPISODES {
        cells[member.rank()].store(episode, Ordering::Relaxed);
        if episode == 1 {
            member.arrive().unwrap();
        }
        member.wait().unwrap();
        for cell in cells {
            assert!(
                cell.load(Ordering::Relaxed) >= episode,
                "a member went on before all had arrived"
            );
        }
    }
    member
}

fn barrier<B, M>(
    members: usize,
    make: impl Fn() -> B + Send + Sync + 'static,
    member: fn(&B, usize) -> M,
) where
    B: Send + Sync + 'static,
    M: BarrierMember + 'static,
{
    // Every raise and every poll of a flag is a step: three members have too many for a higher
    // bound.
    let preemptions = if members == 2 { 3 } else { 1 };
    model(preemptions, move || {
        let barrier = make();
        let cells: Arc<Vec<AtomicU64>> =
            Arc::new((0..members).map(|_| AtomicU64::new(0)).collect());
        let others: Vec<_> = (1..members)
            .map(|rank| {
                let (member, cells) = (member(&barrier, rank), Arc::clone(&cells));
                thread::spawn(move || pass(member, &cells))
            })
            .collect();
        let mine = pass(member(&barrier, 0), &cells);
        // No member leaves before all have completed the last episode.
        let others: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
        drop((mine, others));
    });
}

fn seat<B: Barrier>(barrier: &B, rank: usize) -> B::Member {
    barrier.member(rank).unwrap()
}

fn counter(members: usize) {
    barrier(members, move || Counter::new(members).unwrap(), seat);
}

fn tournament(members: usize) {
    barrier(members, move || Tournament::new(members).unwrap(), seat);
}

fn dissemination(members: usize, radix: usize) {
    let make =
        move || Dissemination::within(&mut Space::heap(), members, radix, Flags::Packed).unwrap();
    barrier(members, make, seat);
}

/// Two groups: one of all members but the last, and one of the last member.
fn combined(members: usize) {
    type Two = [Combined<Counter, Counter>; 2];
    let make = move || {
        let outer = Counter::new(2).unwrap();
        [0, 1].map(|group| {
            let size = if group == 0 { members - 1 } else { 1 };
            Combined::new(group, Counter::new(size).unwrap(), outer.clone())
        })
    };
    let member = |two: &Two, rank: usize| {
        let first = two[0].member(rank);
        // Rank 0 of the second group is the last member; the model identifies it by its position.
        Ranked { rank, member: first.or_else(|_| two[1].member(0)).unwrap() }
    };
    barrier(members, make, member);
}

/// A member with the rank that the model gave it: groups of different sizes have no common ranks.
struct Ranked<M> {
    rank: usize,
    member: M,
}

impl<M: BarrierMember> BarrierMember for Ranked<M> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn members(&self) -> usize {
        self.member.members()
    }

    fn episodes(&self) -> u64 {
        self.member.episodes()
    }

    fn arrive(&mut self) -> Result<(), crate::Fault> {
        self.member.arrive()
    }

    fn done(&mut self) -> Result<bool, crate::Fault> {
        self.member.done()
    }

    fn wait_untraced(&mut self, deadline: Option<std::time::Instant>) -> Result<(), crate::Fault> {
        self.member.wait_untraced(deadline)
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        self.member.set_policy(policy);
    }
}

#[test]
fn counters_hold_two() {
    counter(2);
}

#[test]
fn counters_hold_three() {
    counter(3);
}

#[test]
fn tournaments_hold_two() {
    tournament(2);
}

#[test]
fn tournaments_hold_three() {
    tournament(3);
}

#[test]
fn disseminations_hold_two() {
    dissemination(2, 2);
}

#[test]
fn disseminations_hold_three() {
    dissemination(3, 2);
}

#[test]
fn disseminations_of_radix_three_hold_three() {
    dissemination(3, 3);
}

#[test]
fn combinations_hold_two() {
    combined(2);
}

#[test]
fn combinations_hold_three() {
    combined(3);
}

#[test]
#[should_panic(expected = "a member went on before all had arrived")]
fn a_counter_that_is_one_short_is_noticed() {
    plant::with("counter: one short", || counter(2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_counter_that_wakes_too_early_is_noticed() {
    plant::with("counter: wakes too early", || counter(3));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_tournament_that_forgets_a_loser_is_noticed() {
    plant::with("tournament: forgets the first round on the way down", || tournament(2));
}

#[test]
#[should_panic(expected = "a member went on before all had arrived")]
fn a_tournament_that_takes_old_flags_is_noticed() {
    plant::with("board: waits for the epoch before", || tournament(2));
}

#[test]
#[should_panic(expected = "a member went on before all had arrived")]
fn a_dissemination_that_takes_old_flags_is_noticed() {
    plant::with("board: waits for the epoch before", || dissemination(3, 2));
}

#[test]
#[should_panic(expected = "a member went on before all had arrived")]
fn a_combination_without_its_outer_barrier_is_noticed() {
    plant::with("combined: no outer barrier", || combined(2));
}

/// Memory that holds a barrier until it is destroyed.
struct Memory(std::cell::UnsafeCell<RawCounter>);

// SAFETY: the barrier is `Sync`. The thread that destroyed the barrier calls `reuse`, when no other
// thread accesses it any more: the model checks this by means of the words themselves.
unsafe impl Sync for Memory {}
// SAFETY: as for `Sync`.
unsafe impl Send for Memory {}

/// All threads pass two episodes; the first to return destroys the barrier and reuses its memory.
fn destroyed_at_once(members: usize) {
    let preemptions = if members == 2 { 3 } else { 2 };
    model(preemptions, move || {
        let memory = Memory(std::cell::UnsafeCell::new(RawCounter::new(members as u32)));
        let cells = (0..members).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let shared = Arc::new((memory, cells, AtomicU64::new(0)));
        let run = |shared: &(Memory, Vec<AtomicU64>, AtomicU64), rank: usize| {
            let (memory, cells, back) = shared;
            let mut last = 0;
            for episode in 1..=EPISODES {
                cells[rank].store(episode, Ordering::Relaxed);
                // SAFETY: a shared reference for the length of the call, made before any thread has
                // returned from the last episode.
                last += u64::from(unsafe { &*memory.0.get() }.wait());
                let all = cells.iter().all(|cell| cell.load(Ordering::Relaxed) >= episode);
                assert!(all, "a member went on before all had arrived");
            }
            // Relaxed: only determines which thread is first.
            if back.fetch_add(1, Ordering::Relaxed) == 0 {
                // SAFETY: a shared reference, as above; only one thread destroys the barrier.
                assert!(unsafe { &*memory.0.get() }.destroy());
                // SAFETY: the barrier is destroyed; see `Memory`.
                unsafe { &mut *memory.0.get() }.reuse();
            }
            last
        };
        let others: Vec<_> = (1..members)
            .map(|rank| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || run(&shared, rank))
            })
            .collect();
        let mine = run(&shared, 0);
        let last = others.into_iter().fold(mine, |sum, other| sum + other.join().unwrap());
        assert_eq!(last, EPISODES, "one is the last in each episode");
    });
}

#[test]
fn barriers_are_destroyed_while_one_leaves() {
    destroyed_at_once(2);
}

#[test]
fn barriers_are_destroyed_while_two_leave() {
    destroyed_at_once(3);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_destroyer_that_does_not_wait_is_noticed() {
    plant::with("raw counter: destroys while others leave", || destroyed_at_once(2));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_leaver_that_is_counted_too_early_is_noticed() {
    plant::with("raw counter: counts a leaver before its last look", || destroyed_at_once(2));
}

/// Each member increments a counter in `each` sections.
fn sections<R: RawLock>(members: usize, each: u64) {
    let preemptions = if members == 2 { 3 } else { 2 };
    model(preemptions, move || {
        let shared = Arc::new((Lock::<R, ()>::new(members, ()).unwrap(), AtomicU64::new(0)));
        let run = move |shared: &(Lock<R, ()>, AtomicU64), rank| {
            let mut mine = shared.0.member(rank).unwrap();
            for _ in 0..each {
                let held = mine.lock().unwrap();
                let n = shared.1.load(Ordering::Relaxed);
                shared.1.store(n + 1, Ordering::Relaxed);
                drop(held);
            }
        };
        let others: Vec<_> = (1..members)
            .map(|rank| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || run(&shared, rank))
            })
            .collect();
        run(&shared, 0);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(
            shared.1.load(Ordering::Relaxed),
            members as u64 * each,
            "two sections overlapped"
        );
    });
}

/// One member holds the lock; another gives up at once, resumes, and gets it. A third may
/// interfere.
fn giving_up<R: RawLock>(third: bool) {
    model(if third { 2 } else { 3 }, move || {
        let members = 2 + usize::from(third);
        let shared = Arc::new((Lock::<R, ()>::new(members, ()).unwrap(), AtomicU64::new(0)));
        let count = |shared: &(Lock<R, ()>, AtomicU64)| {
            let n = shared.1.load(Ordering::Relaxed);
            shared.1.store(n + 1, Ordering::Relaxed);
        };
        let others: Vec<_> = (1..members)
            .map(|rank| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut mine = shared.0.member(rank).unwrap();
                    let held = mine.lock().unwrap();
                    count(&shared);
                    drop(held);
                })
            })
            .collect();
        let mut mine = shared.0.member(0).unwrap();
        // A deadline in the past: if the lock is not free, the member gives up before it sleeps.
        let over = Some(std::time::Instant::now());
        let mut times = 0;
        while times < 2 {
            match if times == 0 { mine.lock_deadline(over) } else { mine.lock() } {
                Ok(held) => {
                    count(&shared);
                    drop(held);
                    break;
                }
                Err(error) => assert_eq!(error, LockError::TimedOut),
            }
            times += 1;
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(shared.1.load(Ordering::Relaxed), members as u64, "two sections overlapped");
        let mut last = shared.0.member(1).unwrap();
        assert!(last.try_lock().unwrap().is_some(), "a place that was given up stays in the way");
    });
}

/// A member has died as the holder. Another repairs the lock while a third asks for it, and either
/// gets an error or the lock.
fn repairing<R: RawLock>() {
    model(2, || {
        let fault_list = FaultList::within(&mut Space::heap(), 3).unwrap();
        let lock = Lock::<R, ()>::new(3, ()).unwrap().watching(&fault_list);
        let counted = Arc::new(AtomicU64::new(0));
        let count = |counted: &AtomicU64| {
            let n = counted.load(Ordering::Relaxed);
            counted.store(n + 1, Ordering::Relaxed);
        };
        // Rank 2 waits for nothing, so it is equivalent to a member that died inside a section.
        let mut dead = lock.member(2).unwrap();
        std::mem::forget(dead.lock().unwrap());
        // SAFETY: the handle is not accessed before the model ends.
        unsafe { fault_list.declare_dead(2, std::process::id()) };
        let other = {
            let (lock, counted) = (lock.clone(), Arc::clone(&counted));
            thread::spawn(move || {
                let mut mine = lock.member(1).unwrap();
                match mine.lock() {
                    Ok(held) => {
                        count(&counted);
                        drop(held);
                        1
                    }
                    Err(LockError::Dead { rank: 2 } | LockError::Poisoned { rank: 2 }) => 0,
                    Err(error) => panic!("{error}"),
                }
            })
        };
        let mut mine = lock.member(0).unwrap();
        let held = mine.recover(None).unwrap();
        assert_eq!(held.poisoned_by(), Some(2));
        count(&counted);
        drop(held);
        let more = other.join().unwrap();
        assert_eq!(counted.load(Ordering::Relaxed), 1 + more, "two sections overlapped");
        let mut last = lock.member(1).unwrap();
        assert!(last.try_lock().unwrap().is_some(), "a repaired lock is not free");
        drop(dead);
    });
}

#[test]
fn tickets_exclude_two() {
    sections::<Ticket>(2, 2);
}

#[test]
fn tickets_exclude_three() {
    sections::<Ticket>(3, 1);
}

#[test]
fn queues_exclude_two() {
    sections::<Mcs>(2, 2);
}

#[test]
fn queues_exclude_three() {
    sections::<Mcs>(3, 1);
}

#[test]
fn who_gives_up_a_ticket_comes_back() {
    giving_up::<Ticket>(false);
    giving_up::<Ticket>(true);
}

#[test]
fn who_gives_up_a_node_comes_back() {
    giving_up::<Mcs>(false);
    giving_up::<Mcs>(true);
}

#[test]
fn tickets_are_repaired() {
    repairing::<Ticket>();
}

#[test]
fn queues_are_repaired() {
    repairing::<Mcs>();
}

#[test]
#[should_panic(expected = "two sections overlapped")]
fn a_ticket_that_is_published_too_weakly_is_noticed() {
    plant::with("signal: relaxed publish", || sections::<Ticket>(2, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeper_without_a_fence_is_noticed() {
    plant::with("asymmetric: no heavy fence", || sections::<Ticket>(2, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_release_without_a_fence_is_noticed() {
    plant::with("asymmetric: no light fence", || sections::<Ticket>(2, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_ticket_that_is_granted_to_nobody_is_noticed() {
    plant::with("ticket: grants a place that was given up", || giving_up::<Ticket>(false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_node_that_is_granted_to_nobody_is_noticed() {
    plant::with("mcs: grants a place that was given up", || giving_up::<Mcs>(false));
}

#[test]
#[should_panic(expected = "two sections overlapped")]
fn a_queue_that_is_released_too_weakly_is_noticed() {
    plant::with("mcs: relaxed release", || sections::<Mcs>(2, 1));
}

#[test]
#[should_panic]
fn a_repair_without_a_fence_is_noticed() {
    plant::with("lock: repairs without a fence", repairing::<Ticket>);
}

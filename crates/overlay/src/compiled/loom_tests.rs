//! Models of the compiled forms: tasks claimed, tasks partitioned, workers that sleep. Run with
//! `make loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicBool, AtomicU64, fence};

use crate::compiled::Program;
use crate::compiled::claimed::{CLAIMED, Claimed};
use crate::compiled::partitioned::Partitioned;
use crate::parked::ParkedWorkers;
use crate::raw::AccessMode::{Exclusive, Inclusive};

/// All interleavings with at most two preemptions (see Musuvathi and Qadeer 2007).
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(f);
}

/// Task 0 writes a datum in two steps, task 1 reads it; both go round `rounds` times.
struct Run {
    program: Program,
    states: Box<[AtomicU64]>,
    home: Box<[u32]>,
    parked: ParkedWorkers,
    halt: AtomicBool,
    left: AtomicU32,
    rounds: u64,
    halves: (AtomicU64, AtomicU64),
    /// Whose body runs, as bits.
    inside: AtomicU32,
}

impl Run {
    fn new(rounds: u64) -> Arc<Self> {
        Arc::new(Run {
            program: Program::new(&vec![vec![(0, Exclusive), (1, Inclusive)]], 2, |_| true),
            states: (0..2).map(|_| AtomicU64::new(0)).collect(),
            home: Box::new([0, 1]),
            parked: ParkedWorkers::new(2),
            halt: AtomicBool::new(false),
            left: AtomicU32::new(2),
            rounds,
            halves: (AtomicU64::new(0), AtomicU64::new(0)),
            inside: AtomicU32::new(0),
        })
    }

    fn step(&self, task: u32, round: u64) -> Option<u64> {
        // Relaxed: only what the protocol orders is ordered.
        let inside = self.inside.fetch_or(1 << task, Ordering::Relaxed);
        assert_eq!(inside & 1 << task, 0, "a task runs twice at once");
        let (a, b) = (self.halves.0.load(Ordering::Relaxed), self.halves.1.load(Ordering::Relaxed));
        if task == 0 {
            assert_eq!((a, b), (round, round), "the writer's turn came too early, or twice");
            self.halves.0.store(round + 1, Ordering::Relaxed);
            self.halves.1.store(round + 1, Ordering::Relaxed);
        } else {
            assert_eq!((a, b), (round + 1, round + 1), "the reader's turn came too early, or half");
        }
        self.inside.fetch_and(!(1 << task), Ordering::Relaxed);
        let next = (round + 1) << 1;
        if round + 1 < self.rounds {
            return Some(next);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.halt.store(true, Ordering::Release);
            self.parked.unpark_all();
        }
        Some(next | CLAIMED)
    }

    fn claimed(&self) -> Claimed<'_> {
        Claimed::new(&self.program, &self.states, &self.home, 2, false, &self.parked)
    }

    fn claim(&self, me: usize) {
        self.claimed().work(me, &self.halt, |task, round| self.step(task, round));
    }

    fn stay(&self, me: usize) {
        let tasks = Partitioned::new(&self.program, &self.states, &self.home, 2, &self.parked);
        tasks.work(me, &self.halt, |task, round| self.step(task, round));
    }
}

fn two_workers(rounds: u64, work: fn(&Run, usize)) {
    model(move || {
        let run = Run::new(rounds);
        let other = {
            let run = Arc::clone(&run);
            thread::spawn(move || work(&run, 1))
        };
        work(&run, 0);
        other.join().unwrap();
        let all = run.states.iter().all(|s| s.load(Ordering::Relaxed) == run.rounds << 1 | CLAIMED);
        assert!(all, "a round was run twice, or not at all");
    });
}

#[test]
fn claimed_tasks_take_turns() {
    two_workers(2, Run::claim);
}

#[test]
#[should_panic(expected = "too early")]
fn a_lost_lag_is_noticed() {
    plant::with("claimed: no lag", || two_workers(1, Run::claim));
}

#[test]
#[should_panic(expected = "too early")]
fn a_release_that_publishes_nothing_is_noticed() {
    plant::with("claimed: relaxed release", || two_workers(1, Run::claim));
}

#[test]
#[should_panic(expected = "twice")]
fn a_claim_without_exchange_is_noticed() {
    plant::with("claimed: not claimed", || two_workers(2, Run::claim));
}

/// The writer's worker does one step and is gone; the reader's must notice it, awake or not. (In a
/// planted model its first thread gets stuck, as loom cannot unwind the others.) The writer's state
/// is `claimed` at the start.
fn one_step_each(claimed: u64, writer: fn(&Run), reader: fn(&Run)) {
    model(move || {
        let run = Run::new(2);
        run.states[0].store(claimed, Ordering::Relaxed);
        let other = {
            let run = Arc::clone(&run);
            thread::spawn(move || writer(&run))
        };
        reader(&run);
        other.join().unwrap();
        assert_eq!(run.states[1].load(Ordering::Relaxed), 2);
    });
}

fn claimer_goes(run: &Run) {
    let tasks = run.claimed();
    tasks.release(0, run.step(0, 0).unwrap());
    tasks.tell(0);
}

fn claimer_waits(run: &Run) {
    let halt = AtomicBool::new(false);
    run.claimed().work(1, &halt, |task, round| {
        halt.store(true, Ordering::Relaxed);
        assert_eq!(task, 1);
        run.step(task, round)
    });
}

fn stay_once(run: &Run, me: usize) {
    let halt = AtomicBool::new(false);
    let tasks = Partitioned::new(&run.program, &run.states, &run.home, 2, &run.parked);
    tasks.work(me, &halt, |task, round| {
        halt.store(true, Ordering::Relaxed);
        run.step(task, round)
    });
}

#[test]
fn no_release_is_missed_by_a_worker_that_parks() {
    one_step_each(CLAIMED, claimer_goes, claimer_waits);
    one_step_each(0, |run| stay_once(run, 0), |run| stay_once(run, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_release_missed_by_a_claimer_that_parks_is_noticed() {
    plant::with("claimed: no fence", || one_step_each(CLAIMED, claimer_goes, claimer_waits));
}

#[test]
fn partitioned_tasks_take_turns() {
    two_workers(3, Run::stay);
}

#[test]
#[should_panic(expected = "too early")]
fn a_release_that_publishes_nothing_to_other_homes_is_noticed() {
    plant::with("partitioned: relaxed release", || two_workers(1, Run::stay));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_release_missed_by_a_home_that_parks_is_noticed() {
    let missed = || one_step_each(0, |run| stay_once(run, 0), |run| stay_once(run, 1));
    plant::with("partitioned: no fence", missed);
}

/// Two workers park, each for a thing of its own, and a thread makes the two things one after the
/// other. A worker that is unparked while it still parks must not hide the one that sleeps.
fn two_park() {
    // Not loom's, as the first thread may be the one that gets stuck in a planted model.
    use std::sync::Arc;
    model(|| {
        let run =
            Arc::new((ParkedWorkers::new(2), [AtomicBool::new(false), AtomicBool::new(false)]));
        let park = |run: Arc<(ParkedWorkers, [AtomicBool; 2])>, me: usize| {
            while !run.1[me].load(Ordering::Acquire) {
                run.0.park(me, || !run.1[me].load(Ordering::Acquire));
            }
        };
        let maker = {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                for i in 0..2 {
                    run.1[i].store(true, Ordering::Release);
                    // SeqCst: pairs with the fence in `EventCount::announce`.
                    fence(Ordering::SeqCst);
                    if run.0.any() {
                        run.0.unpark(i as u32);
                    }
                }
            })
        };
        let other = {
            let run = Arc::clone(&run);
            thread::spawn(move || park(run, 0))
        };
        park(Arc::clone(&run), 1);
        maker.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_worker_that_parks_hides_no_other_that_sleeps() {
    two_park();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_worker_that_is_counted_after_its_mark_is_noticed() {
    plant::with("parked: counted after its mark", two_park);
}

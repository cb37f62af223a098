//! Steady state allocates nothing. A counting allocator is read by a task early and late in a run.
//! It counts the threads that run tasks, from their first body on; the threads of the test harness
//! are free to allocate.

#[path = "overlay/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use common::{Plan, within};
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop, run::ReadyOrder};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count() {
    if COUNTED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator fulfils the contract, and each call is passed on unchanged.
// Counting does not allocate, since the thread-local flag needs neither initialisation nor a
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees the conditions of `alloc`, which are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees the conditions of `alloc_zeroed`, which are those of
        // `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees the conditions of `realloc`: `at` comes from `System`, as
        // every block here.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees the conditions of `dealloc`: `at` comes from `System`, as
        // every block here.
        unsafe { System.dealloc(at, layout) }
    }
}

const SIDE: usize = 16;
/// Two tasks of one colour, in the first and the last partition.
const ENDS: [usize; 2] = [0, SIDE * SIDE - 1];

/// Returns the number of allocations between the 40th and the 500th iteration of the task in the
/// middle. By its 40th iteration every other task has begun, as none is more than 16 steps away.
fn between(runner: Runner, workers: usize, stop: Stop) -> u64 {
    let plan = Plan::grid(SIDE, SIDE);
    let cells = plan.cells(|_| 0_u64);
    let seen: [AtomicU64; 2] = Default::default();
    // Both workers of a pool take part from the start: the tasks at the ends of the grid wait for
    // each other.
    let both = Barrier::new(2);
    let mut overlay = Overlay::new();
    for t in 0..plan.tasks.len() {
        let (seen, both) = (&seen, &both);
        overlay.task(format!("t{t}"), plan.access(t, &cells), move |(mut written, read), step| {
            COUNTED.set(true);
            for cell in written.iter_mut().flatten() {
                **cell += read.iter().sum::<u64>() & 1;
            }
            if workers == 2 && step.iteration() == 0 && ENDS.contains(&t) {
                both.wait();
            }
            if t == SIDE * SIDE / 2 + SIDE / 2 {
                match step.iteration() {
                    40 => seen[0].store(ALLOCATIONS.load(Ordering::Relaxed), Ordering::Relaxed),
                    500 => seen[1].store(ALLOCATIONS.load(Ordering::Relaxed), Ordering::Relaxed),
                    _ => {}
                }
            }
            step.report(1.0);
        });
    }
    let report = overlay.check(Initial::MaxParallel).unwrap().run(runner, stop).unwrap();
    COUNTED.set(false);
    assert_eq!(report.steps, 510 * (SIDE * SIDE) as u64);
    seen[1].load(Ordering::Relaxed) - seen[0].load(Ordering::Relaxed)
}

/// Returns the number of allocations between the 10th and the 500th turn of two awaited requests.
fn between_turns_of_futures() -> u64 {
    let x = Location::new("x", 0);
    let (mut now, mut then) = (x.writer(), x.writer());
    let mut context = Context::from_waker(Waker::noop());
    now.post();
    then.post();
    let mut before = 0;
    for turn in 0..500 {
        if turn == 10 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        let Poll::Ready(Ok(guard)) = pin!(now.granted()).poll(&mut context) else {
            panic!("its turn")
        };
        let mut behind = pin!(then.granted());
        assert!(behind.as_mut().poll(&mut context).is_pending());
        guard.next();
        let Poll::Ready(Ok(guard)) = behind.poll(&mut context) else { panic!("its turn") };
        guard.next();
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// A single test, so that no other test allocates meanwhile.
#[test]
fn nothing_is_allocated_in_steady_state() {
    within(|| {
        COUNTED.set(true);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        drop(std::hint::black_box(Box::new(7)));
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before + 1, "the counter counts");
        assert_eq!(between_turns_of_futures(), 0, "futures");
        COUNTED.set(false);
        let depth_first = Runner::Pool { workers: 2, order: ReadyOrder::DepthFirst };
        let runners =
            [(Runner::pool(1), 1), (Runner::pool(2), 2), (depth_first, 2), (Runner::Threads, 256)];
        for (runner, workers) in runners {
            for stop in [Stop::after(510), Stop::converged(0.0, 510)] {
                assert_eq!(between(runner, workers, stop), 0, "{runner:?}, {stop:?}");
            }
        }
    });
}

//! A pass without locks: the plain reference for its order, and the competitor in a measurement.
//!
//! # Contract
//! [`pass`] does what [`Pass::run`](super::Pass::run) does with one engine and data in memory: the
//! same pieces of the same bands. But all ordering is in one counter of finished pieces per band,
//! as a hand-written implementation of this one pipeline would have it:
//!
//! ```text
//! band p, piece c, waits for       counter[p - 1] >= c + 1 + ahead (or all pieces)
//! band p, before its first piece   counter[p - flight] = all pieces
//! ```
//! A thread claims the next unclaimed band and processes it from left to right; it spins, then
//! yields.
//!
//! # Costs
//! Per piece: a store, and a load of the neighbour's counter, which transfers a cache line when
//! both bands are in flight.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Instant;

use syncline_kernel::point::Typed;
use syncline_store::{ElementType, Shape};

use super::{Pass, Sink, Source};
use crate::engine::{Crossing, Engine, Job, Slabs};
use crate::engines::strips::ByStrips;
use crate::lanes::Lanes;
use crate::pass::buffers::Buffers;
use crate::pass::spent::Spent;
use crate::pass::sums::PassSums;
use crate::run::scheme::{Extent, Scheme};
use crate::strip::plan::{Question, StreamPlan};
use crate::strip::tests::numbers;
use crate::{Stencil, kernels::Lk23, monitor::Monitor};

/// Runs all pieces of an engine.
fn pass(
    (engine, piece): (&dyn Engine, usize),
    (slabs_in, slabs_out): (&[Slabs], &[Slabs]),
    threads: usize,
    monitor: &Monitor,
) {
    let (bands, flight) = (engine.bands().count(), engine.bands().flight);
    let pieces = engine.pieces(0, piece);
    let done: Vec<_> = (0..bands).map(|_| AtomicUsize::new(0)).collect();
    // Acquire: pairs with the Release below, and makes the values of those pieces visible.
    let wait = |band: usize, pieces: usize| {
        let mut spins = 0;
        while done[band].load(Acquire) < pieces {
            spins += 1;
            if spins < 100 { std::hint::spin_loop() } else { thread::yield_now() }
        }
    };
    // Relaxed: which thread claims a band does not matter.
    let next = AtomicUsize::new(0);
    let work = || {
        let mut worker = engine.worker().expect("memory for a thread");
        while let Some(band) = Some(next.fetch_add(1, Relaxed)).filter(|&band| band < bands) {
            if band >= flight {
                wait(band - flight, pieces.len());
            }
            for (c, &range) in pieces.iter().enumerate() {
                if band > 0 {
                    wait(band - 1, (c + 1 + engine.ahead()).min(pieces.len()));
                }
                let job = Job { band, range, slabs_in, slabs_out, monitor };
                // SAFETY: the counters keep the order of pieces and bands that the engine needs;
                // the slabs are whole arrays, of which only the result is written.
                unsafe { worker.piece(&job, &mut Crossing::default(), None) };
                // Release: pairs with the Acquire of `wait`.
                done[band].store(c + 1, Release);
            }
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
}

/// A sweep of one pass in memory.
struct Case {
    shape: Shape,
    plan: StreamPlan,
    levels: u64,
    threads: usize,
    arrays: Vec<Vec<f64>>,
}

impl Case {
    fn new(shape: Shape, levels: u64, threads: usize) -> Self {
        let question = Question {
            shape,
            value: 8,
            arrays: 6,
            on_file: 0,
            result_on_file: false,
            lanes: Lanes::best(),
            stencil: Stencil::FIVE_POINT,
            iterations: levels,
            converges: false,
            depth: Some(levels),
            threads,
            memory: u64::MAX,
            cache: 1 << 20,
            disk: None,
        };
        let plan = question.answer().expect("enough memory");
        let scale = |n: u64| if n == 0 { 1.0 } else { 0.25 };
        let arrays = (0..6).map(|n| numbers(n, shape.elements(), scale(n))).collect();
        Case { shape, plan, levels, threads, arrays }
    }

    /// Writes the final field to `result`; returns the seconds of the pass.
    fn run(&self, by_counters: bool, result: &mut [f64]) -> f64 {
        let Shape { rows, cols } = self.shape;
        let slabs = |start: *const f64| Slabs {
            start: start.cast_mut().cast(),
            first: 0,
            pitch: cols * size_of::<f64>(),
            around: None,
        };
        let slabs_in: Vec<_> = self.arrays.iter().map(|array| slabs(array.as_ptr())).collect();
        let out = slabs(result.as_mut_ptr());
        let scheme = ByStrips::<f64>::new(Arc::new(Typed(&Lk23)), self.plan, self.shape, None);
        let (levels, dims) = (self.levels as usize, [rows, 1, cols]);
        let extent = Extent { dims, wanted: 0..rows, levels, before: 0 };
        let elements = [ElementType::Float64; 6];
        let engines = scheme.engines(&extent, &elements, &[None; 5]).expect("memory");
        let monitor = Monitor::default();
        let begin = Instant::now();
        if by_counters {
            let engine = (&*engines[0].0, engines[0].1);
            pass(engine, (&slabs_in, &[out]), self.threads, &monitor);
        } else {
            let sources: Vec<_> = slabs_in.iter().map(|slabs| Source::Memory(*slabs)).collect();
            let (sinks, mut sums) = (vec![Sink::Memory(out)], PassSums::default());
            let pass = Pass {
                sources: &sources,
                elements: &elements,
                fields: 1,
                dims,
                first: 0,
                own: 0..rows,
                slabs: self.shape.rows,
                up: false,
                threads: self.threads,
                norm: false,
                monitor: &monitor,
                around: None,
                spent: &Spent::default(),
                buffers: &Buffers::default(),
                expected: None,
                before: 0,
                team: None,
                damaged: None,
                to_all: false,
            };
            pass.run(&engines, sinks, &mut sums, None).expect("a pass in memory");
        }
        begin.elapsed().as_secs_f64()
    }
}

#[test]
fn locks_and_counters_give_the_same_bits() {
    let sides = if cfg!(miri) { 3..8 } else { 3..40 };
    for (case, side) in sides.enumerate() {
        let shape = Shape::new(side * (1 + case % 7), side * (1 + case % 11));
        let (levels, threads) = (1 + case as u64 % 13, 1 + case % 4);
        let case = Case::new(shape, levels, threads);
        let mut results = [vec![0.0; shape.elements()], vec![0.0; shape.elements()]];
        let [locks, counters] = &mut results;
        case.run(false, locks);
        case.run(true, counters);
        let same = locks.iter().zip(counters).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{shape}, {levels} levels, {threads} threads");
    }
}

/// `cargo test --release -p syncline-wave --lib -- --ignored --nocapture soak_locks`
#[test]
#[ignore = "a measurement: it takes three minutes and 800 MiB"]
fn soak_locks_against_counters() {
    const ROUNDS: usize = 80;
    let (shape, levels) = (Shape::new(4096, 4096), 20);
    let mut result = vec![0.0; shape.elements()];
    for threads in [1, 2] {
        let case = Case::new(shape, levels, threads);
        let mut times = [Vec::new(), Vec::new()];
        // The first round is not measured: it touches the memory.
        for round in 0..=ROUNDS {
            for way in [round % 2, 1 - round % 2] {
                let seconds = case.run(way == 1, &mut result);
                if round > 0 {
                    times[way].push(seconds * 1e9 / (shape.elements() as u64 * levels) as f64);
                }
            }
        }
        let mut ratios: Vec<f64> =
            times[0].iter().zip(&times[1]).map(|(locks, counters)| locks / counters).collect();
        let quarters = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            [0, 1, 2, 3].map(|q| values[q * values.len() / 4])
        };
        // With 95 % confidence, the median is at most this number of ranks from the middle of the
        // sample (sign test).
        let off = (ROUNDS as f64).sqrt() as usize;
        let [_, lower, middle, upper] = quarters(&mut ratios);
        let bounds = (ratios[ROUNDS / 2 - off], ratios[ROUNDS / 2 + off]);
        let [[least, _, locks, _], [fewest, _, counters, _]] = times.each_mut().map(quarters);
        println!(
            "{threads} threads: locks {locks:.3} ns per element (least {least:.3}), counters {counters:.3} ({fewest:.3}); \
             round by round {middle:.3} ({:.3} to {:.3} with 95 % confidence; half of them {lower:.3} to {upper:.3})",
            bounds.0, bounds.1
        );
    }
}

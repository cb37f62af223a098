//! A pass without locks: the plain reference for its order, and the competitor in a measurement.
//!
//! # Contract
//! [`pass`] does what [`Stream::pass`] does with data in memory: the same pieces of the same bands.
//! But all ordering is in one counter of finished pieces per band, as a hand-written implementation
//! of this one pipeline would have it:
//!
//! ```text
//! band p, piece c, waits for      counter[p - 1] >= c + 2 (or all pieces)
//! band p, before its first piece  counter[p - slots] = all pieces
//! ```
//! A thread claims the next unclaimed band and processes it from left to right; it spins, then
//! yields.
//!
//! # Costs
//! Per piece: a store, and a load of the neighbour's counter, which transfers a cache line when
//! both bands are in flight.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use syncline_store::Shape;

use super::super::data::{Outgoing, Sink, Source, all_rows};
use super::super::plan::{Question, StreamPlan};
use super::{Run, Stream, Waves};
use crate::kernel::Typed;
use crate::lanes::{Lanes, Real};
use crate::strip::pack::Rows;
use crate::strip::tests::numbers;
use crate::{Stencil, kernels::Lk23, monitor::Monitor};

/// Updates the field `levels` times on the way from the first source to `rows`.
fn pass<E: Real>(
    stream: &mut Stream<'_, E>,
    levels: u64,
    sources: &[Source<'_, E>],
    rows: Rows<E>,
) {
    let panels = std::mem::take(&mut stream.panels);
    let outgoing = || {
        Outgoing::new(&Sink::Memory(rows), stream.ghosts, 0, rows.right)
            .expect("no buffer to allocate")
    };
    let outs: Vec<_> = panels.iter().map(|_| Mutex::new(outgoing())).collect();
    let (chain, mut norms) = (stream.chain(levels), Vec::new());
    let run = Run {
        stream,
        sources,
        expected: None,
        pieces: stream.pieces(&chain),
        slots: panels.len(),
        waves: Waves::new(stream.kernel, &stream.plan, usize::MAX, &stream.spent),
        norms: Mutex::new(&mut norms),
        chain,
    };
    let (bands, pieces, slots) = (run.chain.bands(), run.pieces, run.slots);
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
        while let Some(band) = Some(next.fetch_add(1, Relaxed)).filter(|&band| band < bands) {
            if band >= slots {
                wait(band - slots, pieces);
            }
            let mut out = outs[band % slots].lock().unwrap_or_else(PoisonError::into_inner);
            for piece in 0..pieces {
                if band > 0 {
                    wait(band - 1, (piece + 2).min(pieces));
                }
                run.wave(&mut out, &panels[band % slots], band, piece).expect("a piece in memory");
                // Release: pairs with the Acquire of `wait`.
                done[band].store(piece + 1, Release);
            }
        }
    };
    thread::scope(|scope| {
        (0..stream.threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    drop(run);
    stream.panels = panels;
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
        let all = |values: &[f64]| all_rows(values.as_ptr().cast_mut(), rows, cols);
        let sources: Vec<_> = self.arrays.iter().map(|a| Source::Memory(all(a))).collect();
        let place = all_rows(result.as_mut_ptr(), rows, cols);
        let (monitor, how) = (Monitor::default(), (self.threads, false));
        let mut stream = Stream::new(&Typed(&Lk23), self.plan, self.shape, how, &monitor, &sources)
            .expect("memory for the ring");
        let begin = Instant::now();
        if by_counters {
            pass(&mut stream, self.levels, &sources, place);
        } else {
            stream
                .pass(self.levels, &sources, Sink::Memory(place), None, &[])
                .expect("a pass in memory");
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

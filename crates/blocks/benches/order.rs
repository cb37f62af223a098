//! The cost of ordering on real work: Livermore kernel 23 on 4096 x 4096 in memory, 20 iterations,
//! streamed and in blocks of 512, compared to the plain double loop.
//!
//! Measured is the wall time per element and iteration, including the conversion from row-major and
//! back, with alternating variants, as the median and the least; and, by the sweep's own clocks,
//! the time that the threads spent on packing and on the updates alone. A virtual machine may give
//! free memory back to its host, and wait for it when a sweep needs it again: the warm variants are
//! those that run immediately after an identical run, which is not timed.
//!
//! `cargo bench -p syncline-blocks --bench order [-- ROUNDS]`

use std::sync::Arc;
use std::time::Instant;

use syncline_blocks::{BlockedSweep, plan::Order};
use syncline_overlay::run::ReadyOrder;
use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_wave::{
    Runner, Sweep, kernels::Lk23, lanes::Lanes, monitor::Times, reference::plain_sweep,
};

const SIDE: usize = 4096;
const ITERATIONS: u64 = 20;
/// The end of the name of a variant that has just been run.
const WARM: &str = ", warm";

/// Returns pseudo-random numbers between 0 and `scale`.
fn numbers(seed: u64, scale: f64) -> Vec<f64> {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 * scale / (1_u64 << 53) as f64
    };
    std::iter::repeat_with(next).take(SIDE * SIDE).collect()
}

/// A variant of the sweep.
#[derive(Clone)]
enum Way {
    Streamed(Sweep<Lk23>),
    Blocked(BlockedSweep<Lk23>),
}

impl Way {
    /// Runs the sweep; returns the result and, if it is streamed, the times of its threads.
    fn run(
        &self,
        field: &Arc<Matrix>,
        coefficients: &[Arc<Matrix>; 5],
        result: Matrix,
    ) -> (Matrix, Option<Times>) {
        match self {
            Way::Streamed(sweep) => {
                let done = sweep.run(field, coefficients, result).expect("a sweep in memory");
                (done.0, done.1.times)
            }
            Way::Blocked(sweep) => {
                let done = sweep.run(field, coefficients, result).expect("a sweep in memory");
                (done.0, None)
            }
        }
    }
}

/// Returns the variants of the sweep.
fn ways() -> Vec<(String, Way)> {
    let sweep = || Sweep::new(Lk23).iterations(ITERATIONS);
    let pool = |workers| Runner::Pool { workers, order: ReadyOrder::Fifo };
    let deep = Runner::Pool { workers: 2, order: ReadyOrder::DepthFirst };
    let streamed = |workers| sweep().runner(pool(workers));
    let in_blocks = |sweep| BlockedSweep::of(sweep).block(Block::new(512, 512));
    let blocked = |runner| in_blocks(sweep().runner(runner));
    let mut ways =
        [("1 thread", 1, ""), ("1 thread", 1, WARM), ("2 threads", 2, ""), ("2 threads", 2, WARM)]
            .map(|(threads, n, warm)| {
                (format!("streamed, {threads}{warm}"), Way::Streamed(streamed(n)))
            })
            .to_vec();
    let others = Lanes::available().filter(|&lanes| lanes != Lanes::best());
    ways.extend(others.map(|lanes| {
        (format!("streamed, 1 thread, {lanes}"), Way::Streamed(streamed(1).lanes(lanes)))
    }));
    let in_blocks = [
        ("blocks, 1 worker", blocked(pool(1))),
        ("blocks, 2 workers", blocked(pool(2))),
        ("blocks, 2 workers, scalar", in_blocks(sweep().runner(pool(2)).lanes(Lanes::Scalar))),
        ("blocks, 2 workers, depth first", blocked(deep)),
        ("blocks, 2 workers, max-parallel", blocked(pool(2)).order(Order::MaxParallel)),
        ("blocks, 2 workers, barrier", blocked(pool(2)).order(Order::Barrier)),
        ("blocks, 64 threads", blocked(Runner::Threads)),
    ];
    ways.extend(in_blocks.map(|(name, sweep)| (name.to_owned(), Way::Blocked(sweep))));
    ways
}

fn main() {
    // Cargo passes options of its own ("--bench").
    let rounds = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(5);
    let shape = Shape::new(SIDE, SIDE);
    let matrix = |values| Arc::new(Matrix::from_vec(shape, values).expect("memory for a matrix"));
    let start = numbers(1, 1.0);
    let values: Vec<Vec<f64>> = (2..7).map(|seed| numbers(seed, 0.25)).collect();
    let field = matrix(start.clone());
    let coefficients: [_; 5] = std::array::from_fn(|n| matrix(values[n].clone()));

    let elements = ((SIDE - 2) * (SIDE - 2)) as f64 * ITERATIONS as f64;
    let ways = ways();
    let mut plain = Vec::new();
    let mut times = vec![Vec::new(); ways.len()];
    let mut parts = vec![(Vec::new(), Vec::new()); ways.len()];
    let mut result = Matrix::zeros(shape, Layout::RowMajor).expect("memory for a matrix");
    // The memory of the plain loop is allocated in the same way as that of the matrices, so that it
    // is of the same kind.
    let mut work = start.clone();
    for round in 0..rounds {
        work.copy_from_slice(&start);
        let begin = Instant::now();
        for _ in 0..ITERATIONS {
            plain_sweep(&Lk23, &mut work, std::array::from_fn(|n| &values[n][..]), SIDE, SIDE);
        }
        plain.push(begin.elapsed().as_nanos() as f64 / elements);
        for ((times, parts), (name, sweep)) in times.iter_mut().zip(&mut parts).zip(&ways) {
            if name.ends_with(WARM) {
                result = sweep.run(&field, &coefficients, result).0;
            }
            let begin = Instant::now();
            let (done, spent) = sweep.run(&field, &coefficients, result);
            times.push(begin.elapsed().as_nanos() as f64 / elements);
            if let Some(spent) = spent {
                parts.0.push(spent.pack.as_nanos() as f64 / elements);
                parts.1.push(spent.update.as_nanos() as f64 / elements);
            }
            if round == 0 && !name.ends_with("max-parallel") {
                let found = done.as_slice().expect("a matrix in memory");
                let same = found.iter().zip(&work).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name}: the result differs from the plain loop's");
            }
            result = done;
        }
    }
    let summary = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[0])
    };
    let (base, least) = summary(&mut plain);
    println!(
        "LK23 {SIDE} x {SIDE}, {ITERATIONS} iterations, {rounds} alternating runs: ns per element"
    );
    println!("{:34} median {base:6.3}  least {least:6.3}", "plain loop");
    for ((times, (pack, update)), (name, _)) in times.iter_mut().zip(&mut parts).zip(&ways) {
        let (time, least) = summary(times);
        print!("{name:34} median {time:6.3}  least {least:6.3}  {:5.2} times faster", base / time);
        if !pack.is_empty() {
            let ((pack, _), (update, least)) = (summary(pack), summary(update));
            print!("  pack {pack:5.3}, update {update:5.3} (least {least:5.3})");
        }
        println!();
    }
}

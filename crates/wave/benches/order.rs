//! The cost of order on real work: Livermore kernel 23 on 4096 x 4096 in memory, blocks of 512, against
//! the plain double loop. Wall time per element and iteration, alternating, medians.
//!
//! `cargo bench -p syncline-wave --bench order [-- ROUNDS]`

use std::sync::Arc;
use std::time::Instant;

use syncline_overlay::ReadyOrder;
use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_wave::{Lk23, Order, Runner, Sweep, plain_sweep};

const SIDE: usize = 4096;
const ITERATIONS: u64 = 10;

/// Numbers between 0 and `scale` that look random.
fn numbers(seed: u64, scale: f64) -> Vec<f64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 * scale / (1_u64 << 53) as f64
    };
    std::iter::repeat_with(next).take(SIDE * SIDE).collect()
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

    let pool = |workers| Runner::Pool { workers, order: ReadyOrder::Fifo };
    let deep = |workers| Runner::Pool { workers, order: ReadyOrder::DepthFirst };
    let ways = [
        ("wave, 1 worker", pool(1), Order::Wave),
        ("wave, 2 workers", pool(2), Order::Wave),
        ("wave, 2 workers, depth first", deep(2), Order::Wave),
        ("max-parallel, 2 workers", pool(2), Order::MaxParallel),
        ("barrier, 2 workers", pool(2), Order::Barrier),
        ("wave, 64 threads", Runner::Threads, Order::Wave),
    ];
    let elements = ((SIDE - 2) * (SIDE - 2)) as f64 * ITERATIONS as f64;
    let mut plain = Vec::new();
    let mut times = vec![Vec::new(); ways.len()];
    let mut result = Matrix::zeros(shape, Layout::RowMajor).expect("memory for a matrix");
    // The plain loop gets memory of the same kind as the matrices: its arrays come from the same place.
    let mut work = start.clone();
    for round in 0..rounds {
        work.copy_from_slice(&start);
        let begin = Instant::now();
        for _ in 0..ITERATIONS {
            plain_sweep(&Lk23, &mut work, std::array::from_fn(|n| &values[n][..]), SIDE, SIDE);
        }
        plain.push(begin.elapsed().as_nanos() as f64 / elements);
        for (times, (name, runner, order)) in times.iter_mut().zip(&ways) {
            let sweep = Sweep::new(Lk23)
                .iterations(ITERATIONS)
                .block(Block::new(512, 512))
                .runner(*runner)
                .order(*order);
            let begin = Instant::now();
            let (done, _) = sweep.run(&field, &coefficients, result).expect("a sweep in memory");
            times.push(begin.elapsed().as_nanos() as f64 / elements);
            if round == 0 && *order != Order::MaxParallel {
                let mut row = vec![0.0; SIDE];
                for j in 0..SIDE {
                    done.read_row(j, &mut row).expect("a row");
                    let same = row.iter().zip(&work[j * SIDE..]).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{name}: row {j} differs from the plain loop's");
                }
            }
            result = done;
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let base = median(&mut plain);
    println!("LK23 {SIDE} x {SIDE}, {ITERATIONS} iterations, {rounds} alternating runs: ns per element");
    println!("{:32} median {base:6.3}", "plain loop");
    for (times, (name, ..)) in times.iter_mut().zip(&ways) {
        let time = median(times);
        println!(
            "{name:32} median {time:6.3}   {:5.2} x plain   {:4.2} times faster",
            time / base,
            base / time
        );
    }
}

//! The cost of order: empty tasks on a 32 x 32 grid, each with one exclusive request for its own cell
//! and four inclusive ones for its neighbours'. Wall time per step, alternating, medians.
//!
//! `cargo bench -p syncline-overlay --bench steps [-- ROUNDS]`

use std::time::Instant;

use syncline_overlay::{Checked, Initial, Location, Overlay, ReadyOrder, Runner, Stop};

const SIDE: usize = 32;
const ITERATIONS: u64 = 2000;

fn grid() -> Checked<'static> {
    let cells: Vec<_> = (0..SIDE * SIDE).map(|t| Location::new(format!("cell {t}"), ())).collect();
    let mut overlay = Overlay::new();
    for t in 0..SIDE * SIDE {
        let (i, j) = (t / SIDE, t % SIDE);
        let read = |there: bool, u: usize| there.then(|| cells[u].read());
        let around = [
            read(i > 0, t.wrapping_sub(SIDE)),
            read(j > 0, t.wrapping_sub(1)),
            read(j + 1 < SIDE, t + 1),
            read(i + 1 < SIDE, t + SIDE),
        ];
        overlay.task(format!("task {t}"), (cells[t].write(), around), |_, _| ());
    }
    overlay.check(Initial::Wave).expect("a wave is live")
}

fn main() {
    // Cargo passes options of its own ("--bench").
    let rounds = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(9);
    let pool = |workers, order| Runner::Pool { workers, order };
    let runners = [
        ("1 worker, fifo", pool(1, ReadyOrder::Fifo)),
        ("1 worker, depth first", pool(1, ReadyOrder::DepthFirst)),
        ("2 workers, fifo", pool(2, ReadyOrder::Fifo)),
        ("2 workers, depth first", pool(2, ReadyOrder::DepthFirst)),
    ];
    let mut overlay = grid();
    let mut times = vec![Vec::new(); runners.len()];
    for _ in 0..rounds {
        for (times, (_, runner)) in times.iter_mut().zip(&runners) {
            let start = Instant::now();
            let report = overlay.run(*runner, Stop::after(ITERATIONS)).expect("empty tasks do not fail");
            times.push(start.elapsed().as_nanos() as f64 / report.steps as f64);
        }
    }
    println!("{SIDE} x {SIDE} tasks, {ITERATIONS} iterations, {rounds} alternating runs: ns per step");
    for (mut times, (name, _)) in times.into_iter().zip(runners) {
        times.sort_by(f64::total_cmp);
        println!("{name:24} median {:6.1}   best {:6.1}", times[times.len() / 2], times[0]);
    }
}

//! The cost of order: empty tasks on a 32 x 32 grid, each with one exclusive request for its own
//! cell and four inclusive ones for its neighbours' cells. Prints the wall time per step, as
//! medians of alternating runs.
//!
//! `cargo bench -p syncline-overlay --bench steps [-- ROUNDS]`

use std::time::Instant;

use syncline_overlay::{Checked, Initial, Location, Overlay, Runner, Stop, run::ReadyOrder};

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
    // Cargo passes options such as `--bench`.
    let rounds = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(9);
    let pool = |workers, order| Runner::Pool { workers, order };
    let queues = |workers| Runner::Queues { workers, order: ReadyOrder::Fifo };
    let runners = [
        ("claimed, 1 worker", pool(1, ReadyOrder::Fifo)),
        ("claimed, 1, depth first", pool(1, ReadyOrder::DepthFirst)),
        ("claimed, 2 workers", pool(2, ReadyOrder::Fifo)),
        ("claimed, 2, depth first", pool(2, ReadyOrder::DepthFirst)),
        ("static, 1 worker", Runner::Static { workers: 1 }),
        ("static, 2 workers", Runner::Static { workers: 2 }),
        ("queues, 1 worker", queues(1)),
        ("queues, 2 workers", queues(2)),
    ];
    let mut overlay = grid();
    let mut times = vec![Vec::new(); runners.len()];
    for _ in 0..rounds {
        for (times, (_, runner)) in times.iter_mut().zip(&runners) {
            let start = Instant::now();
            let report =
                overlay.run(*runner, Stop::after(ITERATIONS)).expect("empty tasks do not fail");
            times.push(start.elapsed().as_nanos() as f64 / report.steps as f64);
        }
    }
    println!(
        "{SIDE} x {SIDE} tasks, {ITERATIONS} iterations, {rounds} alternating runs: ns per step"
    );
    for (mut times, (name, _)) in times.into_iter().zip(runners) {
        times.sort_by(f64::total_cmp);
        println!("{name:24} median {:6.1}   best {:6.1}", times[times.len() / 2], times[0]);
    }
}

//! The loop that takes a given time.
//!
//! It is a chain of dependent multiplications, so that its time is its number of iterations;
//! neither threads of one core nor compilers make it faster. `lab/peers/peer.h` has the same in
//! C: change both.

use std::hint::black_box;
use std::time::Instant;

/// Odd, and of no pattern.
pub(crate) const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number of iterations.
#[inline]
pub(crate) fn kernel(mut x: u64, iterations: u64) -> u64 {
    for _ in 0..iterations {
        x = (x ^ (x >> 29)).wrapping_mul(MULTIPLIER);
    }
    x
}

/// Iterations that are timed, to know the time of one well.
pub(crate) const CALIBRATION: u64 = 1 << 20;

/// Nanoseconds of an iteration: the least of some runs.
pub(crate) fn calibrate(iterations: u64) -> f64 {
    let run = |_| {
        let start = Instant::now();
        black_box(kernel(black_box(1), black_box(iterations)));
        start.elapsed().as_nanos() as f64 / iterations as f64
    };
    (0..5).map(run).fold(f64::INFINITY, f64::min)
}

//! A loop of a given duration.
//!
//! The loop is a chain of dependent multiplications, so its time is proportional to its number of
//! iterations: neither a second thread on the core nor a compiler makes it faster.
//! `lab/peers/peer.h` has the same loop in C: change both.

use std::hint::black_box;
use std::time::Instant;

/// Odd, and without a pattern.
pub(crate) const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Runs `iterations` iterations.
#[inline]
pub(crate) fn kernel(mut x: u64, iterations: u64) -> u64 {
    for _ in 0..iterations {
        x = (x ^ (x >> 29)).wrapping_mul(MULTIPLIER);
    }
    x
}

/// The number of iterations that calibrate the time of one.
pub(crate) const CALIBRATION: u64 = 1 << 20;

/// Returns the nanoseconds of an iteration: the minimum of several runs.
pub(crate) fn calibrate(iterations: u64) -> f64 {
    let run = |_| {
        let start = Instant::now();
        black_box(kernel(black_box(1), black_box(iterations)));
        start.elapsed().as_nanos() as f64 / iterations as f64
    };
    (0..5).map(run).fold(f64::INFINITY, f64::min)
}

//! Data for the kernels over arrays in `examples/`.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use syncline_store::Result as StoreResult;
use syncline_store::array::{Array, Number};

use crate::args::{Dtype, Problem};

/// The time at points that no wave has reached yet.
const LATER: f64 = 1e9;
/// The costs of a gap, as in `examples/affine.toml`.
const OPEN: i32 = 10;
const EXTEND: i32 = 1;
/// Far below every score, and far from an overflow.
const NEVER: i32 = -1_000_000_000;

/// Generates the arrays of a problem, each with its name; `None` for a problem of matrices.
pub(super) fn arrays(
    problem: Problem,
    dims: [usize; 2],
    dtype: Dtype,
    seed: u64,
) -> Option<StoreResult<Vec<(&'static str, Array)>>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |bound: f64| (random.next_u64() >> 11) as f64 * f64::powi(2.0, -53) * bound;
    let [rows, cols] = dims;
    let points = rows.checked_mul(cols)?;
    let real = |values: Vec<f64>| match dtype {
        Dtype::Float64 => Array::from_vec(&dims, values),
        Dtype::Float32 => Array::from_vec(&dims, values.into_iter().map(|v| v as f32).collect()),
    };
    let all = |value: f64| vec![value; points];
    Some(match problem {
        Problem::Lk23 | Problem::Poisson => return None,
        Problem::Heat => real((0..points).map(|_| below(1.0)).collect()).map(|t| vec![("t", t)]),
        Problem::Wave => (|| {
            // A drop in the middle, at rest.
            let (middle, width) = ((rows as f64 / 2.0, cols as f64 / 2.0), cols as f64 / 20.0);
            let drop: Vec<f64> = (0..points)
                .map(|i| {
                    let (y, x) = ((i / cols) as f64 - middle.0, (i % cols) as f64 - middle.1);
                    (-(x * x + y * y) / (width * width)).exp()
                })
                .collect();
            let speed = (0..points).map(|_| 0.25 + below(0.1)).collect();
            Ok(vec![("u", real(drop.clone())?), ("before", real(drop)?), ("speed", real(speed)?)])
        })(),
        Problem::Life => {
            let cells: Vec<u8> = (0..points).map(|_| u8::from(below(1.0) < 0.3)).collect();
            Array::from_vec(&dims, cells).map(|cells| vec![("cell", cells)])
        }
        Problem::Eikonal => (|| {
            let mut times = all(LATER);
            for _ in 0..3 {
                let place = below(points as f64) as usize;
                times[place.min(points.saturating_sub(1))] = 0.0;
            }
            let slowness = (0..points).map(|_| 1.0 + below(1.0)).collect();
            Ok(vec![("t", real(times)?), ("slowness", real(slowness)?)])
        })(),
        Problem::Affine => (|| {
            let letters: Vec<u8> = (0..rows + cols).map(|_| below(4.0) as u8).collect();
            let (left, above) = letters.split_at(rows);
            let score = |i: usize| if left[i / cols] == above[i % cols] { 5 } else { -4 };
            let gap = |length: usize| match length {
                0 => 0,
                length => -OPEN - EXTEND * length as i32,
            };
            // Row 0 and column 0 are alignments with nothing.
            let edge = |i: usize| match (i / cols, i % cols) {
                (0, col) => gap(col),
                (row, 0) => gap(row),
                _ => NEVER,
            };
            let whole = |value: &dyn Fn(usize) -> i32| of(&dims, (0..points).map(value).collect());
            let best = whole(&edge)?;
            let down = whole(&|i| if i % cols == 0 && i > 0 { gap(i / cols) } else { NEVER })?;
            let right = whole(&|i| if i / cols == 0 && i > 0 { gap(i) } else { NEVER })?;
            Ok(vec![("best", best), ("down", down), ("right", right), ("match", whole(&score)?)])
        })(),
    })
}

fn of<T: Number>(dims: &[usize], values: Vec<T>) -> StoreResult<Array> {
    Array::from_vec(dims, values)
}

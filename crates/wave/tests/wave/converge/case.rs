//! Sweeps that may converge, and what the plain loop makes of them. The tests of `syncline-blocks`
//! include this file: `Way` is another there.

use proptest::prelude::*;
use syncline_store::{Layout, Shape};
use syncline_wave::{
    Described, PointKernel, Runner, Sweep, SweepReport, kernels::Sor, lanes::Lanes,
};

use crate::Real;
use crate::common::{Data, Place, bits, blank, lanes, same};
use crate::way::Way;

/// What any executor needs to know of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) shape: Shape,
    pub(super) most: u64,
    /// The tolerance: the residual of this iteration, or a number.
    tolerance: Result<usize, f64>,
    pub(super) input: Place,
    threads: usize,
    lanes: Lanes,
    odd_values: bool,
    seed: u64,
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let side = || prop_oneof![1..70_usize, 60..70_usize];
    let tolerance = prop_oneof![
        4 => (0..30_usize).prop_map(Ok),
        1 => prop::sample::select(vec![0.0, 1e-3, 0.125, f64::INFINITY]).prop_map(Err)
    ];
    let numbers = (side(), side(), 0..30_u64, 1..5_usize);
    let rest = (lanes(), Place::any(), prop::bool::weighted(0.2), any::<u64>());
    (numbers, tolerance, rest).prop_map(|(numbers, tolerance, rest)| {
        let (rows, cols, most, threads) = numbers;
        let (lanes, input, odd_values, seed) = rest;
        let shape = Shape::new(rows, cols);
        Case { shape, most, tolerance, input, threads, lanes, odd_values, seed }
    })
}

/// The results of the plain loop.
pub(super) struct Plain<T, const N: usize> {
    pub(super) data: Data<T, N>,
    residuals: Vec<f64>,
    pub(super) tolerance: f64,
    /// The first iteration that reaches the tolerance.
    pub(super) first: Option<u64>,
}

impl Case {
    pub(super) fn plain<T: Real, K: PointKernel<N>, const N: usize>(
        &self,
        kernel: &K,
    ) -> Plain<T, N> {
        let mut data = Data::<T, N>::new(self.seed, self.shape);
        if self.odd_values {
            data = data.with_odd_values(self.seed);
        }
        let residuals = data.residuals(kernel, self.most);
        let nth =
            |n: usize| residuals.get(n % residuals.len().max(1)).copied().filter(|r| !r.is_nan());
        let tolerance = self.tolerance.map_or_else(|own| own, |n| nth(n).unwrap_or(0.0));
        let first = residuals.iter().position(|&r| r <= tolerance).map(|at| at as u64);
        Plain { data, residuals, tolerance, first }
    }

    pub(super) fn sweep<K>(&self, kernel: K, tolerance: f64) -> Sweep<K> {
        let sweep = Sweep::new(kernel).iterations(self.most).until(tolerance);
        sweep.runner(Runner::pool(self.threads)).lanes(self.lanes)
    }
}

pub(super) fn check_report<P, T: Real, K: PointKernel<N>, const N: usize>(
    report: &SweepReport<P>,
    found: &[T],
    kernel: &K,
    plain: &Plain<T, N>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(report.converged, plain.first);
    let known = report.residuals.len();
    prop_assert_eq!(bits(&report.residuals), bits(&plain.residuals[..known]));
    same(found, &plain.data.plain(kernel, report.iterations), plain.data.shape.cols)
}

/// Walls and what lies behind them stay infinite, and NaN stays NaN: the sweep converges.
#[test]
fn what_stays_infinite_or_nan_has_not_changed() {
    let shape = Shape::new(20, 30);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut data = Data::<f32, 0>::new(1, shape);
        data.field.fill(value);
        let least = "name = 'least'\nfield = 'u'\nupdate = 'u = min(n, s)'";
        let (field, []) = data.matrices(None, Layout::RowMajor);
        let result = blank(None, shape, Layout::RowMajor);
        let sweep = Sweep::new(Described::parse(least).unwrap()).iterations(9).until(0.0);
        let (_, report) = Way::default().run_dynamic(sweep, &field, &[], result).unwrap();
        assert_eq!(report.converged, Some(0), "{value}: {report:?}");
    }
}

/// A value that becomes NaN changes by more than any tolerance.
#[test]
fn what_becomes_nan_has_not_converged() {
    let shape = Shape::new(20, 30);
    let mut data = Data::<f32, 0>::new(1, shape);
    // It spreads by one row and one column in an iteration.
    data.field[18 * 30 + 28] = f32::NAN;
    let (field, []) = data.matrices(None, Layout::RowMajor);
    let result = blank(None, shape, Layout::RowMajor);
    let sweep = Sweep::new(Sor::gauss_seidel()).iterations(9).depth(2).until(f64::INFINITY);
    let (_, report) = Way::default().run(sweep, &field, &[], result).unwrap();
    assert_eq!((report.converged, report.iterations), (None, 9));
    assert!(report.residuals.iter().all(|r| r.is_nan()), "{report:?}");
}

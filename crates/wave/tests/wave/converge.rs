//! The convergence test: the residual of every iteration is that of the plain loop, and the sweep
//! ends where it must.

use crate::common::{Data, Place, bits, blank, corners, lanes, same, values};
use crate::kernels::{Check, KERNELS, with_kernel};
use proptest::prelude::*;
use syncline_store::{Block, Layout, Shape};
use syncline_testkit::property;
use syncline_wave::{
    Described, Error, Executor, Order, PointKernel, Runner, Sweep, SweepReport,
    kernels::Sor,
    lanes::{Lanes, Real},
    target::Target,
};

/// The destination of a streamed sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Into {
    Matrix(Place),
    Target,
}

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    most: u64,
    depth: u64,
    /// The tolerance: the residual of this iteration, or a number.
    tolerance: Result<usize, f64>,
    exact: bool,
    input: Place,
    into: Into,
    threads: usize,
    lanes: Lanes,
    block: Block,
    barrier: bool,
    odd_values: bool,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let side = || prop_oneof![1..70_usize, 60..70_usize];
    let tolerance = prop_oneof![
        4 => (0..30_usize).prop_map(Ok),
        1 => prop::sample::select(vec![0.0, 1e-3, 0.125, f64::INFINITY]).prop_map(Err)
    ];
    let into = prop_oneof![3 => Place::any().prop_map(Into::Matrix), 1 => Just(Into::Target)];
    let numbers = (side(), side(), 0..30_u64, 1..12_u64, 1..5_usize, (3..40_usize, 3..40_usize));
    let rest = (
        lanes(),
        Place::any(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.2),
        any::<u64>(),
    );
    (numbers, tolerance, into, rest).prop_map(|(numbers, tolerance, into, rest)| {
        let (rows, cols, most, depth, threads, (high, wide)) = numbers;
        let (lanes, input, exact, barrier, odd_values, seed) = rest;
        let shape = Shape::new(rows, cols);
        let block = Block::new(high, wide).clipped(shape);
        let (exact, barrier) = (exact, barrier);
        Case {
            shape,
            most,
            depth,
            tolerance,
            exact,
            input,
            into,
            threads,
            lanes,
            block,
            barrier,
            odd_values,
            seed,
        }
    })
}

/// The results of the plain loop.
struct Plain<T, const N: usize> {
    data: Data<T, N>,
    residuals: Vec<f64>,
    tolerance: f64,
    /// The first iteration that reaches the tolerance.
    first: Option<u64>,
    /// Whether any point is updated.
    updates: bool,
}

impl Case {
    fn plain<T: Real, K: PointKernel<N>, const N: usize>(&self, kernel: &K) -> Plain<T, N> {
        let mut data = Data::<T, N>::new(self.seed, self.shape);
        if self.odd_values {
            data = data.with_odd_values(self.seed);
        }
        let residuals = data.residuals(kernel, self.most);
        let nth =
            |n: usize| residuals.get(n % residuals.len().max(1)).copied().filter(|r| !r.is_nan());
        let tolerance = self.tolerance.map_or_else(|own| own, |n| nth(n).unwrap_or(0.0));
        let first = residuals.iter().position(|&r| r <= tolerance).map(|at| at as u64);
        let updates = K::STENCIL.updated(self.shape).elements() > 0;
        Plain { data, residuals, tolerance, first, updates }
    }

    fn sweep<K>(&self, kernel: K, tolerance: f64) -> Sweep<K> {
        let sweep = Sweep::new(kernel).iterations(self.most).until(tolerance);
        sweep.runner(Runner::pool(self.threads)).lanes(self.lanes)
    }

    /// Returns the number of iterations after which a streamed sweep ends.
    fn end<T, const N: usize>(&self, plain: &Plain<T, N>) -> u64 {
        match plain.first {
            None => self.most,
            Some(first) if self.exact || !plain.updates => first + 1,
            Some(first) => ((first / self.depth + 1) * self.depth).min(self.most),
        }
    }
}

fn check_report<T: Real, K: PointKernel<N>, const N: usize>(
    report: &SweepReport,
    found: &[T],
    kernel: &K,
    plain: &Plain<T, N>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(report.converged, plain.first);
    let known = report.residuals.len();
    prop_assert_eq!(bits(&report.residuals), bits(&plain.residuals[..known]));
    same(found, &plain.data.plain(kernel, report.iterations), plain.data.shape.cols)
}

struct Streamed(Case);

impl Check for Streamed {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let case = &self.0;
        let plain = case.plain::<T, K, N>(&kernel);
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = plain.data.at(&[case.input], folder.path());
        let sweep =
            case.sweep(kernel.clone(), plain.tolerance).depth(case.depth).exact_stop(case.exact);
        let sweep = sweep.executor(Executor::Streamed);
        let (result, report) = match case.into {
            Into::Target => {
                let target = Target::npy(folder.path().join("out"));
                let (pending, report) = sweep.run_to(&field, &coefficients, &target).unwrap();
                (values(&pending.matrix().unwrap()), report)
            }
            Into::Matrix(place) => {
                let result = place.result(folder.path(), case.shape);
                let several = case.depth < case.most && plain.updates;
                let outcome = sweep.run(&field, &coefficients, result);
                if case.exact && several && place != Place::Memory {
                    prop_assert!(matches!(outcome, Err(Error::ExactStop)), "{outcome:?}");
                    return Ok(());
                }
                let (result, report) = outcome.unwrap();
                (values(&result), report)
            }
        };
        prop_assert_eq!(report.iterations, case.end(&plain));
        prop_assert_eq!(report.residuals.len() as u64, report.iterations);
        prop_assert!(plain.first.is_none_or(|first| report.iterations <= first + case.depth));
        check_report(&report, &result, &kernel, &plain)
    }
}

struct Blocked(Case);

impl Check for Blocked {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let case = &self.0;
        let plain = case.plain::<T, K, N>(&kernel);
        let block = if corners(K::STENCIL) {
            Block::new(case.block.rows, case.shape.cols)
        } else {
            case.block
        };
        let folder = tempfile::tempdir().unwrap();
        let folder = (case.input != Place::Memory).then(|| folder.path());
        let (field, coefficients) = plain.data.matrices(folder, Layout::RowMajor);
        let order = if case.barrier { Order::Barrier } else { Order::Wave };
        let sweep = case.sweep(kernel.clone(), plain.tolerance).block(block).order(order);
        let result = blank(folder, case.shape, Layout::RowMajor);
        let (result, report) = sweep.run(&field, &coefficients, result).unwrap();
        // The number of steps from corner to corner of the blocks.
        let steps = (case.shape.rows.div_ceil(case.block.rows)
            + case.shape.cols.div_ceil(case.block.cols)) as u64;
        let late = if case.barrier { 0 } else { steps };
        let least = plain.first.map_or(case.most, |first| first + 1);
        prop_assert!(
            (least..=(least + late).min(case.most)).contains(&report.iterations),
            "{report:?}"
        );
        prop_assert!(report.residuals.len() as u64 >= least);
        check_report(&report, &values(&result), &kernel, &plain)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(300) })]

    #[test]
    fn streamed(case in case(), kernel in 0..KERNELS, float32: bool) {
        with_kernel(&Streamed(case), kernel, float32)?;
    }

    #[test]
    fn blocked(case in case(), kernel in 0..KERNELS, float32: bool) {
        with_kernel(&Blocked(case), kernel, float32)?;
    }
}

/// Walls and what lies behind them stay infinite, and NaN stays NaN: the sweep converges.
#[test]
fn what_stays_infinite_or_nan_has_not_changed() {
    let shape = Shape::new(20, 30);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut data = Data::<f32, 0>::new(1, shape);
        data.field.fill(value);
        let least = "name = 'least'\nfield = 'u'\nupdate = 'u = min(n, s)'";
        for executor in [Executor::Streamed, Executor::Blocked] {
            let (field, []) = data.matrices(None, Layout::RowMajor);
            let result = blank(None, shape, Layout::RowMajor);
            let sweep = Sweep::new(Described::parse(least).unwrap()).iterations(9).until(0.0);
            let sweep = sweep.executor(executor);
            let (_, report) = sweep.run_dynamic(&field, &[], result).unwrap();
            assert_eq!(report.converged, Some(0), "{executor:?} {value}: {report:?}");
        }
    }
}

/// A value that becomes NaN changes by more than any tolerance.
#[test]
fn what_becomes_nan_has_not_converged() {
    let shape = Shape::new(20, 30);
    let mut data = Data::<f32, 0>::new(1, shape);
    // It spreads by one row and one column in an iteration.
    data.field[18 * 30 + 28] = f32::NAN;
    for executor in [Executor::Streamed, Executor::Blocked] {
        let (field, []) = data.matrices(None, Layout::RowMajor);
        let result = blank(None, shape, Layout::RowMajor);
        let sweep = Sweep::new(Sor::gauss_seidel())
            .iterations(9)
            .depth(2)
            .until(f64::INFINITY)
            .executor(executor);
        let (_, report) = sweep.run(&field, &[], result).unwrap();
        assert_eq!((report.converged, report.iterations), (None, 9), "{executor:?}");
        assert!(report.residuals.iter().all(|r| r.is_nan()), "{report:?}");
    }
}

//! Streamed sweeps are bit-identical to the plain double loop: any shape, kernel, type, depth,
//! number of threads, lanes and memory, in memory and on file, into a matrix and into a target.

use std::sync::Arc;

use crate::common::{Data, Place, lanes, same, side, values};
use crate::kernels::{Check, KERNELS, with_kernel};
use proptest::prelude::*;
use syncline_store::{Layout, Matrix, Shape};
use syncline_testkit::property;
use syncline_wave::{
    Error, PointKernel, Runner, Sweep,
    lanes::{Lanes, Real},
    monitor::Monitor,
    target::Target,
};

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    iterations: u64,
    depth: Option<u64>,
    threads: usize,
    lanes: Lanes,
    /// Whether the sweep runs with the least memory possible.
    least: bool,
    /// The places of the inputs, used in turn.
    inputs: Vec<Place>,
    result: Place,
    odd_values: bool,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let numbers = (side(), side(), 0..41_u64, prop::option::of(1..41_u64), 1..9_usize);
    let places = (prop::collection::vec(Place::any(), 1..4), Place::any());
    let rest = (lanes(), any::<bool>(), prop::bool::weighted(0.3), any::<u64>());
    (numbers, places, rest).prop_map(
        |(numbers, (inputs, result), (lanes, least, odd_values, seed))| {
            let (rows, cols, iterations, depth, threads) = numbers;
            let shape = Shape::new(rows, cols);
            Case {
                shape,
                iterations,
                depth,
                threads,
                lanes,
                least,
                inputs,
                result,
                odd_values,
                seed,
            }
        },
    )
}

impl Case {
    fn data<T: Real, const N: usize>(&self) -> Data<T, N> {
        let data = Data::new(self.seed, self.shape);
        if self.odd_values { data.with_odd_values(self.seed) } else { data }
    }

    fn sweep<K>(&self, kernel: K) -> Sweep<K> {
        let sweep = Sweep::new(kernel)
            .iterations(self.iterations)
            .runner(Runner::pool(self.threads))
            .lanes(self.lanes);
        match self.depth {
            Some(depth) => sweep.depth(depth),
            None => sweep,
        }
    }
}

/// Returns the smallest memory limit with which the sweep runs.
fn least_memory<T: Real, K: Clone + PointKernel<N>, const N: usize>(
    sweep: &Sweep<K>,
    field: &Arc<Matrix<T>>,
    c: &[Arc<Matrix<T>>; N],
    result: &Matrix<T>,
) -> u64 {
    match sweep.clone().memory(1).plan(field, c, result) {
        Err(Error::StreamMemory { needed, .. }) => needed,
        Ok(_) => 1,
        Err(other) => panic!("{other}"),
    }
}

/// Runs a case into a matrix.
struct IntoMatrix(Case);

impl Check for IntoMatrix {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let case = &self.0;
        let data = case.data::<T, N>();
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = data.at(&case.inputs, folder.path());
        let result = case.result.result(folder.path(), case.shape);
        let monitor = Arc::new(Monitor::new());
        let mut sweep = case.sweep(kernel.clone()).monitor(Arc::clone(&monitor));
        if case.least {
            let memory = least_memory(&sweep, &field, &coefficients, &result);
            sweep = sweep.memory(memory);
        }
        let planned = sweep.plan(&field, &coefficients, &result).unwrap();
        let planned = planned.streamed().unwrap();
        let (result, report) = sweep.run(&field, &coefficients, result).unwrap();
        prop_assert_eq!(report.iterations, case.iterations);
        prop_assert_eq!(monitor.done(), monitor.total());
        prop_assert!(case.depth.is_none_or(|depth| planned.depth <= depth));
        prop_assert!(
            !case.least || planned.memory <= least_memory(&sweep, &field, &coefficients, &result)
        );
        same(&values(&result), &data.plain(&kernel, case.iterations), case.shape.cols)?;
        for (c, expected) in coefficients.iter().zip(&data.coefficients) {
            same(&values(c), expected, case.shape.cols)?;
        }
        same(&values(&field), &data.field, case.shape.cols)
    }
}

/// Runs a case into a target, which gets its name by the commit and leaves no other file.
struct IntoTarget(Case);

impl Check for IntoTarget {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let case = &self.0;
        let (data, cols) = (case.data::<T, N>(), case.shape.cols);
        let (inputs, outputs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (field, coefficients) = data.at(&case.inputs, inputs.path());
        let path = outputs.path().join("out");
        let npy = case.result != Place::Raw;
        let target = if npy { Target::npy(&path) } else { Target::raw(&path) };
        let monitor = Arc::new(Monitor::new());
        let sweep = case.sweep(kernel.clone()).monitor(Arc::clone(&monitor));
        let (pending, report) = sweep.run_to(&field, &coefficients, &target).unwrap();
        prop_assert_eq!(report.iterations, case.iterations);
        prop_assert_eq!(monitor.done(), monitor.total());
        let expected = data.plain(&kernel, case.iterations);
        same(&values(&pending.matrix::<T>().unwrap()), &expected, cols)?;
        prop_assert!(!path.exists());
        pending.commit().unwrap();
        let result = match npy {
            true => Matrix::<T>::open(&path).unwrap(),
            false => Matrix::open_raw(&path, case.shape, Layout::RowMajor).unwrap(),
        };
        same(&values(&result), &expected, cols)?;
        let names = std::fs::read_dir(outputs.path()).unwrap().map(|e| e.unwrap().file_name());
        prop_assert_eq!(names.collect::<Vec<_>>(), ["out"]);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(200) })]

    #[test]
    fn streamed_is_the_plain_loop(case in case(), kernel in 0..KERNELS, float32: bool) {
        with_kernel(&IntoMatrix(case), kernel, float32)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(100) })]

    #[test]
    fn into_a_target(case in case(), depth in 1..20_u64, kernel in 0..KERNELS, float32: bool) {
        with_kernel(&IntoTarget(Case { depth: Some(depth), ..case }), kernel, float32)?;
    }
}

/// Shapes at which off-by-one errors occur, with every vector type.
#[test]
#[ignore = "full: 1000 sweeps"]
fn odd_shapes() {
    for lanes in Lanes::available() {
        for float32 in [false, true] {
            let width = lanes.width(if float32 { 4 } else { 8 });
            for rows in [1, 2, 3, width + 1, width + 2, width + 3, 4 * width + 2, 4 * width + 3] {
                for cols in [1, 2, 3, width, width + 1, 32, 33, 66] {
                    let case = Case {
                        shape: Shape::new(rows, cols),
                        iterations: 6,
                        depth: Some(5),
                        threads: 2,
                        lanes,
                        least: true,
                        inputs: vec![Place::Memory],
                        result: Place::Memory,
                        odd_values: false,
                        seed: 1,
                    };
                    for kernel in [0, 1] {
                        let done = with_kernel(&IntoMatrix(case.clone()), kernel, float32);
                        done.unwrap_or_else(|e| {
                            panic!("{lanes}, {rows} x {cols}, kernel {kernel}: {e}")
                        });
                    }
                }
            }
        }
    }
}

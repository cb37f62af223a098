//! Every run that preserves program order is bit-identical to the plain double loop, on any shape,
//! in any layout, in memory, on file and with the smallest window; red-black by blocks is
//! bit-identical to a plain loop of that order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Data, bits, blank, lanes, same, side, values};
use crate::kernels::{Check, KERNELS, with_kernel};
use crate::way::{corners, layouts};
use proptest::prelude::*;
use syncline_blocks::{
    BlockedSweep, Error,
    plan::{Order, RedBlack},
};
use syncline_overlay::run::ReadyOrder;
use syncline_store::{Block, Grid, Layout, Matrix, Shape, placement::Rect};
use syncline_testkit::property;
use syncline_wave::{
    Lane, Neighbours, PointKernel, Runner, Stencil, Sweep,
    kernels::{Lk23, Sor},
    lanes::Lanes,
    reference::first_difference,
};

use crate::Real;

fn around<T: Copy>(field: &[T], i: usize, cols: usize) -> Neighbours<T> {
    Neighbours {
        centre: field[i],
        north: field[i - cols],
        west: field[i - 1],
        east: field[i + 1],
        south: field[i + cols],
        north_west: field[i - cols - 1],
        north_east: field[i - cols + 1],
        south_west: field[i + cols - 1],
        south_east: field[i + cols + 1],
    }
}

/// A second implementation of the block red-black loop, on plain vectors.
pub(crate) fn red_black<T: Real, K: PointKernel<N>, const N: usize>(
    kernel: &K,
    data: &Data<T, N>,
    block: Block,
    iterations: u64,
) -> Vec<T> {
    let Shape { rows, cols } = data.shape;
    let grid = Grid::new(data.shape, block);
    let mut field = data.field.clone();
    for _ in 0..iterations {
        for colour in 0..2 {
            for b in (0..grid.len()).filter(|&b| (grid.at(b).0 + grid.at(b).1) % 2 == colour) {
                let Rect { row, col, rows: high, cols: wide } = grid.rect(b);
                for j in row.max(1)..(row + high).min(rows - 1) {
                    for k in col.max(1)..(col + wide).min(cols - 1) {
                        let i = j * cols + k;
                        let at = around(&field, i, cols);
                        field[i] =
                            kernel.update(at, std::array::from_fn(|n| data.coefficients[n][i]));
                    }
                }
            }
        }
    }
    field
}

pub(crate) fn runner(kind: usize) -> Runner {
    match kind {
        0 => Runner::pool(1),
        1 => Runner::pool(2),
        2 => Runner::Pool { workers: 3, order: ReadyOrder::DepthFirst },
        _ => Runner::Threads,
    }
}

/// A random run in blocks.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    block: Block,
    pub(crate) iterations: u64,
    /// The layouts of the field and of the result, of four.
    pub(crate) layouts: (usize, usize),
    pub(crate) on_file: bool,
    /// Whether the sweep runs with the smallest window.
    pub(crate) least: bool,
    barrier: bool,
    runner: usize,
    lanes: Lanes,
    odd_values: bool,
    seed: u64,
}

pub(crate) fn case(
    side: impl Strategy<Value = usize> + Clone,
    block: impl Strategy<Value = usize> + Clone,
) -> impl Strategy<Value = Case> {
    let numbers = (side.clone(), side, block.clone(), block, 0..6_u64);
    let kinds = (0..4_usize, 0..4_usize, 0..4_usize, lanes());
    let yes_or_no = (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.3));
    (numbers, kinds, yes_or_no, any::<u64>()).prop_map(|(numbers, kinds, yes_or_no, seed)| {
        let (rows, cols, high, wide, iterations) = numbers;
        let (layout, result_layout, runner, lanes) = kinds;
        let (on_file, least, barrier, odd_values) = yes_or_no;
        let shape = Shape::new(rows, cols);
        let (block, layouts) = (Block::new(high, wide).clipped(shape), (layout, result_layout));
        Case {
            shape,
            block,
            iterations,
            layouts,
            on_file,
            least,
            barrier,
            runner,
            lanes,
            odd_values,
            seed,
        }
    })
}

impl Case {
    /// Returns the blocks; if the kernel uses all corners, blocks that it supports.
    pub(crate) fn block(&self, corners: bool) -> Block {
        match self.block.rows {
            _ if !corners => self.block,
            even if even % 2 == 0 => Block::new(1, self.block.cols),
            odd => Block::new(odd, self.shape.cols),
        }
    }

    pub(crate) fn data<T: Real, const N: usize>(&self) -> Data<T, N> {
        let data = Data::new(self.seed, self.shape);
        if self.odd_values { data.with_odd_values(self.seed) } else { data }
    }

    pub(crate) fn sweep<K>(&self, kernel: K, block: Block) -> BlockedSweep<K> {
        let order = if self.barrier { Order::Barrier } else { Order::Wave };
        let sweep = Sweep::new(kernel).iterations(self.iterations);
        let sweep = sweep.runner(runner(self.runner)).lanes(self.lanes);
        BlockedSweep::of(sweep).block(block).order(order)
    }
}

/// Returns the smallest memory limit with which the sweep runs.
fn least_memory<T: Real, K: Clone + PointKernel<N>, const N: usize>(
    sweep: &BlockedSweep<K>,
    field: &Arc<Matrix<T>>,
    c: &[Arc<Matrix<T>>; N],
    result: &Matrix<T>,
) -> u64 {
    match sweep.clone().memory(1).plan(field, c, result) {
        Err(Error::Memory { window, .. }) => window,
        Ok(_) => 1,
        Err(other) => panic!("{other}"),
    }
}

impl Check for Case {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let mut block = self.block;
        if corners(K::STENCIL) && block.rows > 1 && block.cols < self.shape.cols {
            let empty = || Matrix::<T>::zeros(self.shape, Layout::RowMajor).unwrap();
            let outcome = BlockedSweep::of(Sweep::new(kernel.clone())).block(block).run(
                &Arc::new(empty()),
                &std::array::from_fn(|_| Arc::new(empty())),
                empty(),
            );
            prop_assert!(matches!(outcome, Err(Error::CornerBlocks { .. })), "{:?}", outcome);
            block = self.block(true);
        }
        let data = self.data::<T, N>();
        let folder = tempfile::tempdir().unwrap();
        let folder = self.on_file.then(|| folder.path());
        let (field, coefficients) = data.matrices(folder, layouts(block)[self.layouts.0]);
        let result = blank(folder, self.shape, layouts(block)[self.layouts.1]);
        let mut sweep = self.sweep(kernel.clone(), block);
        if self.least {
            let memory = least_memory(&sweep, &field, &coefficients, &result);
            sweep = sweep.memory(memory);
        }
        let (result, report) = sweep.run(&field, &coefficients, result).unwrap();
        prop_assert_eq!(report.iterations, self.iterations);
        same(&values(&result), &data.plain(&kernel, self.iterations), self.shape.cols)?;
        same(&values(&field), &data.field, self.shape.cols)
    }
}

proptest! {
    #![proptest_config(property(160))]

    #[test]
    fn wave_and_barrier_are_the_plain_loop(
        case in case(1..40_usize, 1..20_usize),
        kernel in 0..KERNELS,
        float32: bool,
    ) {
        with_kernel(&case, kernel, float32)?;
    }

    #[test]
    fn large_blocks_are_the_plain_loop(
        case in case(side().boxed(), 8..150_usize),
        kernel in 0..KERNELS,
        float32: bool,
    ) {
        with_kernel(&case, kernel, float32)?;
    }

    #[test]
    fn max_parallel_is_the_block_red_black_loop(
        (rows, cols) in (1..40_usize, 1..40_usize),
        (high, wide) in (1..20_usize, 1..20_usize),
        iterations in 0..6_u64,
        layout in 0..4_usize,
        on_file: bool,
        kind in 0..4_usize,
        seed: u64,
    ) {
        let shape = Shape::new(rows, cols);
        let block = Block::new(high, wide).clipped(shape);
        let data = Data::<f64, 1>::new(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let folder = on_file.then(|| folder.path());
        let (field, coefficients) = data.matrices(folder, layouts(block)[layout]);
        let result = blank(folder, shape, layouts(block)[layout]);
        let kernel = Sor::new(1.25).unwrap();
        let sweep = Sweep::new(kernel).iterations(iterations).runner(runner(kind));
        let sweep = BlockedSweep::of(sweep).block(block).order(Order::MaxParallel);
        let memory = least_memory(&sweep, &field, &coefficients, &result);
        let (result, _) = sweep.memory(memory).run(&field, &coefficients, result).unwrap();
        prop_assert_eq!(bits(&values(&result)), bits(&red_black(&kernel, &data, block, iterations)));
    }

    #[test]
    fn the_red_black_loop_of_any_size_is_the_loop_over_vectors(
        (rows, cols) in (1..30_usize, 1..30_usize),
        (high, wide) in (1..12_usize, 1..12_usize),
        iterations in 0..4_u64,
        memory in 1000..20_000_u64,
        seed: u64,
    ) {
        let shape = Shape::new(rows, cols);
        let block = Block::new(high, wide).clipped(shape);
        let data = Data::<f64, 5>::new(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = data.matrices(Some(folder.path()), Layout::Blocked(block));
        let work = blank(Some(folder.path()), shape, Layout::RowMajor);
        let grid = Grid::new(shape, block);
        let loops = RedBlack { kernel: &Lk23, field: &field, coefficients: &coefficients, iterations, grid };
        let done = loops.run(work, memory).unwrap();
        prop_assert_eq!(bits(&values(&done)), bits(&red_black(&Lk23, &data, block, iterations)));
    }
}

/// Shapes at which off-by-one errors occur.
#[test]
fn odd_shapes() {
    let shapes = [(3, 3), (1, 1), (1, 17), (17, 1), (2, 9), (3, 31), (31, 3), (13, 29), (37, 41)];
    let blocks = [(1, 1), (1, 100), (100, 1), (2, 3), (7, 5), (100, 100)];
    for (rows, cols) in shapes {
        let shape = Shape::new(rows, cols);
        let data = Data::<f64, 5>::new(7, shape);
        let expected = bits(&data.plain(&Lk23, 3));
        for (high, wide) in blocks {
            let block = Block::new(high, wide);
            for layout in layouts(block.clipped(shape)) {
                let (field, coefficients) = data.matrices(None, layout);
                let sweep = Sweep::new(Lk23).iterations(3).runner(Runner::pool(2));
                let sweep = BlockedSweep::of(sweep).block(block);
                let (result, _) =
                    sweep.run(&field, &coefficients, blank(None, shape, layout)).unwrap();
                assert_eq!(bits(&values(&result)), expected, "{shape} in {layout:?}");
            }
        }
    }
}

/// A kernel that is slow now and then, and sometimes yields.
#[derive(Clone)]
struct Delayed(Lk23, Arc<AtomicU64>);

impl PointKernel<5> for Delayed {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    fn update<L: Lane>(&self, at: Neighbours<L>, coefficients: [L; 5]) -> L {
        let count =
            self.1.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        match count % 97 {
            0 => std::thread::yield_now(),
            1 => (0..count % 4096).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
        self.0.update(at, coefficients)
    }
}

#[test]
fn no_schedule_changes_a_bit() {
    let shape = Shape::new(61, 67);
    let data = Data::<f64, 5>::new(3, shape);
    let block = Block::new(8, 9);
    let expected = bits(&data.plain(&Lk23, 8));
    let black = bits(&red_black(&Lk23, &data, block, 8));
    for repeat in 0..12 {
        let (field, coefficients) = data.matrices(None, Layout::RowMajor);
        let order = [Order::Wave, Order::Barrier, Order::MaxParallel][repeat % 3];
        let sweep =
            Sweep::new(Delayed(Lk23, Arc::default())).iterations(8).runner(runner(repeat / 3));
        let sweep = BlockedSweep::of(sweep).block(block).order(order);
        let result = Matrix::zeros(shape, Layout::RowMajor).unwrap();
        let (result, _) = sweep.run(&field, &coefficients, result).unwrap();
        let expected = if order == Order::MaxParallel { &black } else { &expected };
        assert_eq!(&bits(&values(&result)), expected);
    }
}

/// NaNs spread, and any two of them count as equal.
#[test]
fn not_a_number_is_a_value() {
    let shape = Shape::new(20, 20);
    let mut data = Data::<f64, 5>::new(5, shape);
    data.field[45] = f64::NAN;
    data.field[250] = f64::INFINITY;
    data.coefficients[2][333] = f64::NAN;
    let (field, coefficients) = data.matrices(None, Layout::RowMajor);
    let result = Matrix::zeros(shape, Layout::RowMajor).unwrap();
    let sweep = BlockedSweep::of(Sweep::new(Lk23).iterations(3)).block(Block::new(6, 6));
    let (result, _) = sweep.run(&field, &coefficients, result).unwrap();
    let expected = data.plain(&Lk23, 3);
    assert!(expected.iter().any(|v| v.is_nan()));
    let mut other_nan = expected.clone();
    other_nan.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = -f64::NAN);
    let expected = Matrix::from_vec(shape, expected).unwrap();
    assert_eq!(first_difference(&result, &expected).unwrap(), None);
    let other_nan = Matrix::from_vec(shape, other_nan).unwrap();
    assert_eq!(first_difference(&result, &other_nan).unwrap(), None);
}

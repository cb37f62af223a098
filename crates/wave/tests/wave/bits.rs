//! Every run that keeps the order equals the plain double loop bit for bit, on any shape, in any layout,
//! in memory, on file and through the smallest window; and red-black by blocks equals its own plain loop.

use std::sync::Arc;

use crate::common::{Data, bits, blank, layouts, values};
use proptest::prelude::*;
use syncline_overlay::ReadyOrder;
use syncline_store::{Block, Grid, Layout, Matrix, Rect, Shape};
use syncline_wave::{Lk23, Neighbours, Order, PointKernel, Reference, Runner, Sor, Sweep, first_difference};

/// The block red-black loop, written once more, on plain vectors.
fn red_black<K: PointKernel<N>, const N: usize>(
    kernel: &K,
    data: &Data<N>,
    block: Block,
    iterations: u64,
) -> Vec<f64> {
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
                        let at = Neighbours {
                            centre: field[i],
                            north: field[i - cols],
                            west: field[i - 1],
                            east: field[i + 1],
                            south: field[i + cols],
                        };
                        field[i] = kernel.update(at, std::array::from_fn(|n| data.coefficients[n][i]));
                    }
                }
            }
        }
    }
    field
}

fn runner(kind: usize) -> Runner {
    match kind {
        0 => Runner::pool(1),
        1 => Runner::pool(2),
        2 => Runner::Pool { workers: 3, order: ReadyOrder::DepthFirst },
        _ => Runner::Threads,
    }
}

/// The smallest memory bound with which the sweep runs.
fn least_memory<K, const N: usize>(
    sweep: &Sweep<K>,
    field: &Matrix,
    c: &[Arc<Matrix>; N],
    result: &Matrix,
) -> u64
where
    K: Clone,
{
    match sweep.clone().memory(1).plan(field, c, result) {
        Err(syncline_wave::Error::Memory { window, .. }) => window,
        Ok(_) => 1,
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn wave_and_barrier_are_the_plain_loop(
        (rows, cols) in (1..40_usize, 1..40_usize),
        (high, wide) in (1..20_usize, 1..20_usize),
        iterations in 0..6_u64,
        layout in 0..4_usize,
        result_layout in 0..4_usize,
        on_file: bool,
        barrier: bool,
        kind in 0..4_usize,
        seed: u64,
    ) {
        let shape = Shape::new(rows, cols);
        let block = Block::new(high, wide).clipped(shape);
        let data = Data::<5>::new(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let folder = on_file.then(|| folder.path());
        let (field, coefficients) = data.matrices(folder, layouts(block)[layout]);
        let result = blank(folder, shape, layouts(block)[result_layout]);
        let order = if barrier { Order::Barrier } else { Order::Wave };
        let sweep = Sweep::new(Lk23).iterations(iterations).block(block).order(order).runner(runner(kind));
        let memory = least_memory(&sweep, &field, &coefficients, &result);
        let (result, report) = sweep.memory(memory).run(&field, &coefficients, result).unwrap();
        prop_assert_eq!(report.iterations, iterations);
        prop_assert_eq!(bits(&values(&result)), bits(&data.plain(&Lk23, iterations)));
        prop_assert_eq!(bits(&values(&field)), bits(&data.field), "the input was changed");
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
        let data = Data::<1>::new(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let folder = on_file.then(|| folder.path());
        let (field, coefficients) = data.matrices(folder, layouts(block)[layout]);
        let result = blank(folder, shape, layouts(block)[layout]);
        let kernel = Sor::new(1.25).unwrap();
        let sweep = Sweep::new(kernel).iterations(iterations).block(block).order(Order::MaxParallel).runner(runner(kind));
        let memory = least_memory(&sweep, &field, &coefficients, &result);
        let (result, _) = sweep.memory(memory).run(&field, &coefficients, result).unwrap();
        prop_assert_eq!(bits(&values(&result)), bits(&red_black(&kernel, &data, block, iterations)));
    }

    #[test]
    fn the_reference_of_any_size_is_the_plain_loop(
        (rows, cols) in (1..30_usize, 1..30_usize),
        (high, wide) in (1..12_usize, 1..12_usize),
        iterations in 0..4_u64,
        max_parallel: bool,
        memory in 1000..20_000_u64,
        seed: u64,
    ) {
        let shape = Shape::new(rows, cols);
        let block = Block::new(high, wide).clipped(shape);
        let data = Data::<5>::new(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = data.matrices(Some(folder.path()), Layout::Blocked(block));
        let work = blank(Some(folder.path()), shape, Layout::RowMajor);
        let (order, expected) = match max_parallel {
            true => (Order::MaxParallel, red_black(&Lk23, &data, block, iterations)),
            false => (Order::Wave, data.plain(&Lk23, iterations)),
        };
        let c = std::array::from_fn(|n| &*coefficients[n]);
        let grid = Grid::new(shape, block);
        let loops = Reference { kernel: &Lk23, field: &field, coefficients: c, iterations, order, grid };
        let done = loops.run(work, memory).unwrap();
        prop_assert_eq!(bits(&values(&done)), bits(&expected));
    }
}

/// The shapes at which off-by-one errors live.
#[test]
fn odd_shapes() {
    let shapes = [(3, 3), (1, 1), (1, 17), (17, 1), (2, 9), (3, 31), (31, 3), (13, 29), (37, 41)];
    let blocks = [(1, 1), (1, 100), (100, 1), (2, 3), (7, 5), (100, 100)];
    for (rows, cols) in shapes {
        let shape = Shape::new(rows, cols);
        let data = Data::<5>::new(7, shape);
        let expected = bits(&data.plain(&Lk23, 3));
        for (high, wide) in blocks {
            let block = Block::new(high, wide);
            for layout in layouts(block.clipped(shape)) {
                let (field, coefficients) = data.matrices(None, layout);
                let sweep = Sweep::new(Lk23).iterations(3).block(block).runner(Runner::pool(2));
                let (result, _) = sweep.run(&field, &coefficients, blank(None, shape, layout)).unwrap();
                assert_eq!(bits(&values(&result)), expected, "{shape} in {layout:?}");
            }
        }
    }
}

/// A kernel that takes its time, differently at every point, and sometimes gives way.
#[derive(Clone)]
struct Delayed(Lk23);

impl PointKernel<5> for Delayed {
    fn update(&self, at: Neighbours, coefficients: [f64; 5]) -> f64 {
        let new = self.0.update(at, coefficients);
        match new.to_bits() % 97 {
            0 => std::thread::yield_now(),
            1 => (0..new.to_bits() % 4096).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
        new
    }
}

#[test]
fn no_schedule_changes_a_bit() {
    let shape = Shape::new(61, 67);
    let data = Data::<5>::new(3, shape);
    let block = Block::new(8, 9);
    let expected = bits(&data.plain(&Lk23, 8));
    let black = bits(&red_black(&Lk23, &data, block, 8));
    for repeat in 0..12 {
        let (field, coefficients) = data.matrices(None, Layout::RowMajor);
        let order = [Order::Wave, Order::Barrier, Order::MaxParallel][repeat % 3];
        let sweep =
            Sweep::new(Delayed(Lk23)).iterations(8).block(block).order(order).runner(runner(repeat / 3));
        let result = Matrix::zeros(shape, Layout::RowMajor).unwrap();
        let (result, _) = sweep.run(&field, &coefficients, result).unwrap();
        let expected = if order == Order::MaxParallel { &black } else { &expected };
        assert_eq!(&bits(&values(&result)), expected);
    }
}

/// Values that are not numbers spread, and any two of them are equal.
#[test]
fn not_a_number_is_a_value() {
    let shape = Shape::new(20, 20);
    let mut data = Data::<5>::new(5, shape);
    data.field[45] = f64::NAN;
    data.field[250] = f64::INFINITY;
    data.coefficients[2][333] = f64::NAN;
    let (field, coefficients) = data.matrices(None, Layout::RowMajor);
    let result = Matrix::zeros(shape, Layout::RowMajor).unwrap();
    let sweep = Sweep::new(Lk23).iterations(3).block(Block::new(6, 6));
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

#[test]
fn a_difference_is_found_where_it_is() {
    let shape = Shape::new(700, 600);
    let left = Matrix::zeros(shape, Layout::RowMajor).unwrap();
    let mut right = Matrix::zeros(shape, Layout::RowMajor).unwrap();
    let mut row = vec![0.0; 600];
    row[123] = -0.0;
    right.write_row(650, &row).unwrap();
    let found = first_difference(&left, &right).unwrap().unwrap();
    assert_eq!((found.row, found.col), (650, 123));
    assert!(found.right.is_sign_negative(), "{found}");
}

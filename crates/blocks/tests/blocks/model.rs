//! The reads, writes and memory of a sweep: the papers' model, the memory limit, convergence, and
//! what is refused.

use std::sync::Arc;

use crate::common::{Data, bits, blank, numbers, values};
use crate::way::layouts;
use syncline_blocks::{
    BlockedSweep, Error,
    plan::{Order, io_model},
};
use syncline_store::{Block, ElementType, Layout, Matrix, Shape};
use syncline_wave::{
    Error as WaveError, Runner, Sweep,
    kernels::{Lk23, Sor},
    reference::plain_sweep,
};

/// Counted reads and writes are exactly those of the papers' model, on a divisible shape and on one
/// that is not.
#[test]
fn reads_and_writes_are_those_of_the_model() {
    for shape in [Shape::new(256, 256), Shape::new(211, 307)] {
        let block = Block::new(64, 64);
        let data = Data::<f64, 5>::new(1, shape);
        for layout in layouts(block) {
            let folder = tempfile::tempdir().unwrap();
            let (field, coefficients) = data.matrices(Some(folder.path()), layout);
            let result = blank(Some(folder.path()), shape, layout);
            let sweep = Sweep::new(Lk23).iterations(3).runner(Runner::pool(2));
            let sweep = BlockedSweep::of(sweep).block(block);
            assert!(sweep.plan(&field, &coefficients, &result).unwrap().held);
            let Err(Error::Memory { window, .. }) =
                sweep.clone().memory(1).plan(&field, &coefficients, &result)
            else {
                panic!("one byte was enough");
            };
            let (result, report) =
                sweep.memory(2 * window).run(&field, &coefficients, result).unwrap();
            let plan = report.plan;
            assert!(!plan.held);
            let model = io_model(layout, plan.grid, 5, ElementType::Float64).unwrap();
            assert_eq!(report.bytes_read, 3 * model.read, "{layout:?}");
            assert_eq!(report.bytes_written, 3 * model.written, "{layout:?}");
            assert_eq!(bits(&values(&result)), bits(&data.plain(&Lk23, 3)));
        }
    }
}

#[test]
fn what_is_held_is_read_once() {
    let shape = Shape::new(100, 100);
    let data = Data::<f64, 5>::new(1, shape);
    let folder = tempfile::tempdir().unwrap();
    let (field, coefficients) = data.matrices(Some(folder.path()), Layout::RowMajor);
    let result = blank(Some(folder.path()), shape, Layout::RowMajor);
    let sweep = BlockedSweep::of(Sweep::new(Lk23).iterations(9));
    let (_, report) = sweep.run(&field, &coefficients, result).unwrap();
    assert!(report.plan.held);
    assert_eq!(report.bytes_read, 6 * 80_000);
    assert_eq!(report.bytes_written, 80_000);
}

/// Memory for less than one window is refused, with the numbers.
#[test]
fn too_little_memory_is_refused() {
    let shape = Shape::new(200, 200);
    let data = Data::<f64, 5>::new(1, shape);
    let folder = tempfile::tempdir().unwrap();
    let (field, coefficients) = data.matrices(Some(folder.path()), Layout::RowMajor);
    let sweep =
        |memory| BlockedSweep::of(Sweep::new(Lk23).memory(memory)).block(Block::new(100, 100));
    let result = || blank(Some(folder.path()), shape, Layout::RowMajor);
    let Err(Error::Memory { window, block, .. }) = sweep(1000).run(&field, &coefficients, result())
    else {
        panic!("a thousand bytes were enough");
    };
    assert_eq!(block, Block::new(100, 100));
    let error = sweep(window - 1).run(&field, &coefficients, result()).unwrap_err();
    assert!(error.to_string().contains(&window.to_string()), "{error}");
    let (_, report) = sweep(window).run(&field, &coefficients, result()).unwrap();
    assert_eq!((report.plan.windows, report.workers), (1, 1));
}

/// The default block leaves room for every worker.
#[test]
#[ignore = "full: 5 s of computing"]
fn a_block_is_chosen_for_the_memory() {
    let shape = Shape::new(1000, 1000);
    let data = Data::<f64, 0>::new(1, shape);
    let folder = tempfile::tempdir().unwrap();
    let (field, []) = data.matrices(Some(folder.path()), Layout::RowMajor);
    for memory in [1 << 19, 1 << 20, 1 << 22] {
        let result = blank(Some(folder.path()), shape, Layout::RowMajor);
        let sweep =
            Sweep::new(Sor::gauss_seidel()).memory(memory).runner(Runner::pool(2)).iterations(2);
        let sweep = BlockedSweep::of(sweep);
        let (result, report) = sweep.run(&field, &[], result).unwrap();
        let plan = report.plan;
        assert!(!plan.held && plan.windows >= 2, "{plan:?}");
        assert_eq!(bits(&values(&result)), bits(&data.plain(&Sor::gauss_seidel(), 2)));
    }
}

#[test]
fn matrices_that_do_not_fit_together_are_refused() {
    let field = Arc::new(Matrix::<f64>::zeros(Shape::new(4, 4), Layout::RowMajor).unwrap());
    let other = Arc::new(Matrix::zeros(Shape::new(4, 5), Layout::RowMajor).unwrap());
    let result = || Matrix::zeros(Shape::new(4, 4), Layout::RowMajor).unwrap();
    let sweep = BlockedSweep::of(Sweep::new(Sor::gauss_seidel()));
    let outcome = sweep.run(&field, &[other], result());
    assert!(matches!(outcome, Err(Error::Sweep(WaveError::Shape { .. }))));
    let framed = Layout::Framed { block: Block::new(2, 2), thickness: 1 };
    let framed = Arc::new(Matrix::zeros(Shape::new(4, 4), framed).unwrap());
    assert!(matches!(sweep.run(&field, &[framed], result()), Err(Error::FramedCoefficient { .. })));
    let blocked = Layout::Blocked(Block::new(2, 2));
    let blocked = Arc::new(Matrix::zeros(Shape::new(4, 4), blocked).unwrap());
    let wrong = sweep.block(Block::new(3, 3)).run(&field, &[blocked], result());
    assert!(matches!(wrong, Err(Error::Sweep(WaveError::Store(_)))));
}

/// The residuals are those of the plain loop, and the run stops where it must.
#[test]
fn convergence() {
    let shape = Shape::new(30, 30);
    let kernel = Sor::new(1.5).unwrap();
    let data = Data::<f64, 0> { shape, field: numbers(1, 900, 1.0), coefficients: [] };
    let mut plain = data.field.clone();
    let mut residuals = Vec::new();
    for _ in 0..200 {
        let before = plain.clone();
        plain_sweep(&kernel, &mut plain, [], 30, 30);
        residuals.push(before.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max));
    }
    let tolerance = 1e-6;
    let first = residuals.iter().position(|&r| r <= tolerance).unwrap() as u64;
    for order in [Order::Wave, Order::Barrier] {
        let (field, []) = data.matrices(None, Layout::RowMajor);
        let result = Matrix::zeros(shape, Layout::RowMajor).unwrap();
        let sweep = BlockedSweep::of(Sweep::new(kernel).iterations(200).until(tolerance));
        let sweep = sweep.block(Block::new(10, 10)).order(order);
        let (result, report) = sweep.run(&field, &[], result).unwrap();
        assert_eq!(report.converged, Some(first), "{order:?}");
        assert_eq!(report.residuals[..], residuals[..report.residuals.len()]);
        // Three blocks in each direction: four steps from corner to corner.
        let late = if order == Order::Barrier { 0 } else { 4 };
        assert_eq!(report.iterations, first + 1 + late);
        assert_eq!(bits(&values(&result)), bits(&data.plain(&kernel, report.iterations)));
    }
}

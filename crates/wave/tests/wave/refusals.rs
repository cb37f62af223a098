//! Arguments and settings that are refused, and the end of a sweep from outside.

use std::sync::Arc;

use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_wave::{
    Error, Runner, Sweep,
    kernels::{KernelError, Sor},
    monitor::Monitor,
    target::Target,
};

#[test]
fn matrices_that_do_not_fit_together_are_refused() {
    let field = Arc::new(Matrix::<f64>::zeros(Shape::new(4, 4), Layout::RowMajor).unwrap());
    let other = Arc::new(Matrix::zeros(Shape::new(4, 5), Layout::RowMajor).unwrap());
    let result = || Matrix::zeros(Shape::new(4, 4), Layout::RowMajor).unwrap();
    let sweep = Sweep::new(Sor::gauss_seidel());
    assert!(matches!(sweep.run(&field, &[other], result()), Err(Error::Shape { .. })));
    let error = sweep
        .run(&field, &[], Matrix::zeros(Shape::new(4, 5), Layout::RowMajor).unwrap())
        .unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("the result ") && error.contains(", but the field "), "{error}");
    assert!(matches!(Sor::new(2.0), Err(KernelError::Omega { .. })));
    assert!(matches!(Sor::new(f64::NAN), Err(KernelError::Omega { .. })));
    assert!(matches!(
        sweep.until(f64::NAN).run(&field, &[], result()),
        Err(Error::Tolerance { .. })
    ));
}

/// The error names the crate whose sweeps take these data, or such a runner.
#[test]
fn what_only_blocks_take_is_refused() {
    let shape = Shape::new(4, 4);
    let zeros = |layout| Matrix::<f64>::zeros(shape, layout).unwrap();
    let block = Block::new(2, 2);
    let framed = Layout::Framed { block, thickness: 1 };
    let sweep = Sweep::new(Sor::gauss_seidel());
    let folder = tempfile::tempdir().unwrap();
    let target = Target::npy(folder.path().join("out.npy"));
    let refused = |error: Error| {
        assert!(matches!(error, Error::NotStreamed { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.ends_with("run the sweep in blocks (crate syncline_blocks)"), "{text}");
    };
    let (rows, by_threads) =
        (Arc::new(zeros(Layout::RowMajor)), sweep.clone().runner(Runner::Threads));
    for layout in [Layout::Blocked(block), framed] {
        let (field, result) = (Arc::new(zeros(layout)), || zeros(Layout::RowMajor));
        refused(sweep.run(&field, &[], result()).unwrap_err());
        refused(sweep.plan(&field, &[], &result()).unwrap_err());
        refused(sweep.run(&rows, &[], zeros(layout)).unwrap_err());
        refused(sweep.run_to(&field, &[], &target).map(drop).unwrap_err());
    }
    refused(by_threads.run(&rows, &[], zeros(Layout::RowMajor)).unwrap_err());
    refused(by_threads.run_to(&rows, &[], &target).map(drop).unwrap_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_sweep_can_be_cancelled() {
    let shape = Shape::new(64, 64);
    let field = Arc::new(Matrix::<f64>::zeros(shape, Layout::RowMajor).unwrap());
    let monitor = Arc::new(Monitor::new());
    let sweep = Sweep::new(Sor::gauss_seidel()).iterations(u64::MAX).monitor(Arc::clone(&monitor));
    let outcome = std::thread::scope(|s| {
        let run =
            s.spawn(|| sweep.run(&field, &[], Matrix::zeros(shape, Layout::RowMajor).unwrap()));
        while monitor.done() < 100 {
            std::thread::yield_now();
        }
        monitor.cancel();
        run.join().unwrap()
    });
    assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
}

//! Sweeps in blocks that continue from a result.

#[path = "../../../wave/tests/wave/target/work.rs"]
#[allow(dead_code, reason = "some methods are for sweeps by passes")]
mod work;

use std::sync::Arc;

use syncline_blocks::{
    BlockedSweep, Error,
    plan::{BlockPlan, Order},
};
use syncline_store::{Layout, Matrix, Shape, generation::Existing};
use syncline_wave::{Error as WaveError, SweepReport, target::Leftovers};

use self::work::{How, KERNEL, THREE, Work};
use crate::common::{bits, same, values};

/// Continues in blocks from the result that has the name, and gives the name to the new result.
fn in_blocks(work: &Work, iterations: u64) -> Result<SweepReport<BlockPlan>, Error> {
    let sweep = |iterations| THREE.sweep(KERNEL).iterations(iterations).until(0.0);
    let sweep = |iterations| BlockedSweep::of(sweep(iterations)).order(Order::Barrier);
    let target = work.target(Leftovers::Resume);
    let begun = sweep(iterations).resumption(&work.field, &work.coefficients, &target)?;
    let field = match begun.made {
        None => work.field.clone(),
        Some(_) => Arc::new(Matrix::open(&work.path)?),
    };
    let left = iterations - begun.done();
    if begun.is_complete {
        assert_eq!(left, 0);
    }
    let result = Matrix::zeros(work.data.shape, Layout::RowMajor)?;
    let (result, report) = sweep(left).run(&field, &work.coefficients, result)?;
    let report = begun.add(report);
    let expected = work.data.plain(&KERNEL, report.iterations);
    same(&values(&result), &expected, work.data.shape.cols).unwrap();
    Ok(report)
}

/// A sweep in blocks continues from a result as a streamed sweep does, but not from an interrupted
/// streamed run.
#[test]
fn a_sweep_in_blocks_goes_on_from_a_result() {
    let work = Work::new(1, Shape::new(40, 30));
    let report = in_blocks(&work, 4).unwrap();
    assert_eq!((report.iterations, report.resumed), (4, 0));
    let target = work.target(Leftovers::Resume);
    let sweep = How { iterations: 6, ..THREE }.sweep(KERNEL).until(0.0);
    sweep.run_to(&work.field, &work.coefficients, &target).unwrap().0.commit().unwrap();
    if !matches!(Existing::at(&work.path), Ok(Existing::Result(_))) {
        println!("skipped: {} has no extended attributes", work.folder.path().display());
        return;
    }
    for (iterations, resumed) in [(6, 6), (9, 6)] {
        let report = in_blocks(&work, iterations).unwrap();
        assert_eq!(
            (report.iterations, report.resumed, report.converged),
            (iterations, resumed, None)
        );
        assert_eq!(bits(&report.residuals), bits(&work.data.residuals(&KERNEL, iterations)));
    }
    assert!(matches!(in_blocks(&work, 5), Err(Error::Sweep(WaveError::Taken { .. }))));
    let work = Work::interrupted(Shape::new(70, 60));
    let error = in_blocks(&work, 9).unwrap_err();
    assert!(matches!(&error, Error::Sweep(WaveError::Leftovers { .. })), "{error}");
    assert!(error.to_string().contains("a streamed run that ended after 4 iterations"), "{error}");
}

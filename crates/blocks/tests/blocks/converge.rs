//! The convergence test: the residual of every iteration is that of the plain loop, and the sweep
//! ends where it must.

#[path = "../../../wave/tests/wave/converge/case.rs"]
mod case;

use proptest::prelude::*;
use syncline_blocks::{BlockedSweep, plan::Order};
use syncline_store::{Block, Layout};
use syncline_testkit::property;
use syncline_wave::PointKernel;

use self::case::{Case, case, check_report};
use crate::Real;
use crate::common::{Place, blank, values};
use crate::kernels::{Check, KERNELS, with_kernel};
use crate::way::corners;

/// A sweep with blocks of some rows and columns, with a barrier after each iteration or without.
struct Blocked(Case, (usize, usize), bool);

impl Check for Blocked {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let &Self(ref case, (high, wide), barrier) = self;
        let plain = case.plain::<T, K, N>(&kernel);
        let clipped = Block::new(high, wide).clipped(case.shape);
        let wide = if corners(K::STENCIL) { case.shape.cols } else { clipped.cols };
        let block = Block::new(clipped.rows, wide);
        let folder = tempfile::tempdir().unwrap();
        let folder = (case.input != Place::Memory).then(|| folder.path());
        let (field, coefficients) = plain.data.matrices(folder, Layout::RowMajor);
        let order = if barrier { Order::Barrier } else { Order::Wave };
        let sweep = BlockedSweep::of(case.sweep(kernel.clone(), plain.tolerance));
        let sweep = sweep.block(block).order(order);
        let result = blank(folder, case.shape, Layout::RowMajor);
        let (result, report) = sweep.run(&field, &coefficients, result).unwrap();
        // The number of steps from corner to corner of the blocks.
        let steps = (case.shape.rows.div_ceil(clipped.rows)
            + case.shape.cols.div_ceil(clipped.cols)) as u64;
        let late = if barrier { 0 } else { steps };
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
    fn blocked(
        case in case(),
        block in (3..40_usize, 3..40_usize),
        barrier: bool,
        kernel in 0..KERNELS,
        float32: bool,
    ) {
        with_kernel(&Blocked(case, block, barrier), kernel, float32)?;
    }
}

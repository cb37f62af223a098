//! The way in which tests that both executors share run a sweep: here, by passes.

use std::sync::Arc;

use proptest::prelude::*;
use syncline_store::{Layout, Matrix, Shape};
use syncline_wave::{
    Described, Error, PointKernel, Result, Stencil, Sweep, SweepReport, plan::SweepPlan,
};

use crate::Real;

/// The settings that only passes have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// The depth of a pass; without it, the sweep chooses one.
    depth: Option<u64>,
}

/// Generates the settings.
pub(crate) fn way() -> impl Strategy<Value = Way> {
    (1..5_u64).prop_map(|depth| Way { depth: Some(depth) })
}

/// Returns the error that any executor has.
pub(crate) fn common(error: Error) -> Error {
    error
}

impl Way {
    /// Returns a layout in which this way takes matrices.
    pub(crate) fn layout(self, _: Shape, _: Stencil) -> Layout {
        Layout::RowMajor
    }

    fn of<K>(self, sweep: Sweep<K>) -> Sweep<K> {
        self.depth.into_iter().fold(sweep, Sweep::depth)
    }

    pub(crate) fn plan<T: Real, K: PointKernel<N>, const N: usize>(
        self,
        sweep: Sweep<K>,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: &Matrix<T>,
    ) -> Result<SweepPlan> {
        self.of(sweep).plan(field, coefficients, result)
    }

    pub(crate) fn run<T: Real, K: PointKernel<N>, const N: usize>(
        self,
        sweep: Sweep<K>,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)> {
        self.of(sweep).run(field, coefficients, result)
    }

    pub(crate) fn run_dynamic<T: Real>(
        self,
        sweep: Sweep<Described>,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)> {
        self.of(sweep).run_dynamic(field, coefficients, result)
    }
}

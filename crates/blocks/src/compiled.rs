//! What this crate compiles itself, once for each element type.
//!
//! # Contract
//! As in `syncline_wave`: the functions of [`Executors`] are not generic in the kernel, and are
//! compiled here with all generic code that they call. [`Real`] implies [`Compiled`], so the public
//! methods reach the executor through it. Only a routine for whole blocks of another crate is
//! compiled there.
//!
//! # Costs
//! One virtual call for each run.

use syncline_kernel::dynamic::Kernel;
use syncline_store::Matrix;
use syncline_wave::executor::Arrays;
use syncline_wave::{SweepReport, lanes};

use crate::error::Result;
use crate::kernel::Whole;
use crate::plan::BlockPlan;
use crate::sweep::Settings;

/// The result of a sweep, and its report.
pub(crate) type Swept<E> = (Matrix<E>, SweepReport<BlockPlan>);

/// The executor of sweeps in blocks over matrices of `E`. The methods of
/// [`BlockedSweep`](crate::BlockedSweep) call it.
pub(crate) trait Executors<E: Real> {
    /// See [`BlockedSweep::plan`](crate::BlockedSweep::plan).
    fn plan(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan>;

    /// See [`BlockedSweep::run`](crate::BlockedSweep::run).
    fn run(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<Swept<E>>;

    /// See [`BlockedSweep::plan_blocks`](crate::BlockedSweep::plan_blocks).
    fn plan_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan>;

    /// See [`BlockedSweep::run_blocks`](crate::BlockedSweep::run_blocks).
    fn run_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<Swept<E>>;
}

/// Element types for which this crate compiles the executor.
#[allow(private_interfaces)]
pub trait Compiled: Sized {
    /// Returns the executor with these settings.
    fn in_blocks(settings: &Settings) -> &dyn Executors<Self>
    where
        Self: Real;
}

macro_rules! compiled {
    ($($element:ty),*) => {$(
        #[allow(private_interfaces)]
        impl Compiled for $element {
            #[inline(never)]
            fn in_blocks(settings: &Settings) -> &dyn Executors<Self> {
                settings
            }
        }
    )*};
}

compiled!(f32, f64);

/// An element type in which sweeps in blocks compute: `f64` or `f32`.
pub trait Real: lanes::Real + Compiled {}

impl Real for f32 {}
impl Real for f64 {}

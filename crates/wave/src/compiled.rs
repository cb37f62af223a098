//! What this crate compiles itself, once for each element type.
//!
//! # Contract
//! Rust compiles generic code where it is called with a type: each crate that runs a sweep would
//! compile the executors and the plain loop again. The functions of [`Compiled`] are not generic.
//! They are compiled here, with all generic code that they call. [`Real`] implies [`Compiled`], so
//! the public methods reach the executors through it. The loops of the kernels are compiled in
//! `syncline_kernel`, in the same way. Only the loops of a kernel of another crate are compiled
//! there.
//!
//! # Costs
//! One virtual call for each run.

use syncline_fabric::Member;
use syncline_kernel::dynamic::Kernel;
use syncline_kernel::lanes;
use syncline_store::{Matrix, generation::Identity};

use crate::Result;
use crate::reference::{Part, Reference};
use crate::run::start::Taken;
use crate::run::target::{Pending, Target};
use crate::sweep::matrices::Arrays;
use crate::sweep::{Settings, SweepPlan, SweepReport};

/// The executors of sweeps over matrices of `E`. The methods of [`Sweep`](crate::Sweep) call them.
pub(crate) trait Executors<E: Real> {
    /// See [`Sweep::plan`](crate::Sweep::plan).
    fn plan(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<SweepPlan>;

    /// See [`Sweep::run`](crate::Sweep::run).
    fn run(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<(Matrix<E>, SweepReport)>;

    /// See [`Sweep::run_to`](crate::Sweep::run_to).
    fn run_to(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        target: &Target,
    ) -> Result<(Pending, SweepReport)>;

    /// See [`Sweep::run_on`](crate::Sweep::run_on).
    fn run_on(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        target: &Target,
        me: &mut Member,
    ) -> Result<SweepReport>;

    /// See [`Sweep::gather_on`](crate::Sweep::gather_on).
    fn gather_on(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
        me: &mut Member,
    ) -> Result<(Matrix<E>, SweepReport)>;

    /// See [`Sweep::identity`](crate::Sweep::identity).
    fn identity(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Identity>;

    /// See [`Sweep::taken`](crate::Sweep::taken).
    fn taken(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Option<Taken>>;
}

/// Element types for which this crate compiles the executors.
#[allow(private_interfaces)]
pub trait Compiled: Sized {
    /// Returns the executors with these settings.
    fn executors(settings: &Settings) -> &dyn Executors<Self>
    where
        Self: Real;

    /// Runs the plain loop over a part of the points.
    fn plain(
        loops: &Reference<'_, Self, &dyn Kernel<Self>>,
        work: Matrix<Self>,
        part: Part<'_>,
        memory: u64,
    ) -> Result<Matrix<Self>>
    where
        Self: Real;
}

macro_rules! compiled {
    ($($element:ty),*) => {$(
        #[allow(private_interfaces)]
        impl Compiled for $element {
            #[inline(never)]
            fn executors(settings: &Settings) -> &dyn Executors<Self> {
                settings
            }

            #[inline(never)]
            fn plain(
                loops: &Reference<'_, Self, &dyn Kernel<Self>>,
                work: Matrix<Self>,
                part: Part<'_>,
                memory: u64,
            ) -> Result<Matrix<Self>> {
                match part {
                    Part::All => loops.update(work, None, memory),
                    Part::Rects(rects) => loops.update(work, Some(rects), memory),
                    Part::Top(rows) => loops.update_top(work, rows, memory),
                }
            }
        }
    )*};
}

compiled!(f32, f64);

/// An element type in which sweeps compute: `f64` or `f32`.
pub trait Real: lanes::Real + Compiled {}

impl Real for f32 {}
impl Real for f64 {}

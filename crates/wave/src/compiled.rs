//! What this crate compiles itself, once for each element type.
//!
//! # Contract
//! Rust compiles generic code where it is called with a type: each crate that runs a sweep would
//! compile the executors, the plain loop and the loops of the built-in kernels again, in half a
//! minute. The functions of [`Compiled`] are not generic. They are compiled here, with all generic
//! code that they call. [`Real`] implies [`Compiled`], so the public methods reach the executors
//! through it. Only the loops of a kernel of another crate, or its routine for whole blocks, are
//! compiled there.
//!
//! # Costs
//! One virtual call for each run.

use syncline_fabric::Member;
use syncline_store::{Matrix, generation::Identity};

use crate::Result;
use crate::block_kernel::Whole;
use crate::c_kernel::{CKernel, Call};
use crate::described::{Code, Program};
use crate::dynamic::Kernel;
use crate::kernel::Typed;
use crate::kernels::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor};
use crate::lanes::Real;
use crate::plan::BlockPlan;
use crate::reference::Reference;
use crate::rule::Rule;
use crate::rule::native::{Strips, Vectors};
use crate::streamed::{Arrays, Pending, Resumption, Taken, Target};
use crate::strip::TOGETHER;
use crate::sweep::{Settings, SweepPlan, SweepReport};

/// A kernel of this crate.
#[cfg_attr(test, expect(dead_code, reason = "unit tests compile their kernels themselves"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum BuiltIn<'k> {
    Lk23(&'k Lk23),
    GaussSeidelVariable(&'k GaussSeidelVariable),
    Alignment(&'k Alignment),
    Sor(&'k Sor),
    SorWithF(&'k Sor),
    NinePoint(&'k NinePoint),
    NinePointWithF(&'k NinePoint),
}

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

    /// See [`Sweep::plan_blocks`](crate::Sweep::plan_blocks).
    fn plan_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan>;

    /// See [`Sweep::run_blocks`](crate::Sweep::run_blocks).
    fn run_blocks(
        &self,
        kernel: &Whole<'_, E>,
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
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        target: &Target,
        me: &mut Member,
    ) -> Result<SweepReport>;

    /// See [`Sweep::gather_on`](crate::Sweep::gather_on).
    fn gather_on(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
        me: &mut Member,
    ) -> Result<(Matrix<E>, SweepReport)>;

    /// See [`Sweep::identity`](crate::Sweep::identity).
    fn identity(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Identity>;

    /// See [`Sweep::taken`](crate::Sweep::taken).
    fn taken(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Option<Taken>>;

    /// See [`Sweep::resumption`](crate::Sweep::resumption).
    fn resumption(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Resumption>;
}

/// Element types for which this crate compiles the executors and its own kernels.
#[allow(private_interfaces)]
pub trait Compiled: Sized {
    /// Returns the executors with these settings.
    fn executors(settings: &Settings) -> &dyn Executors<Self>
    where
        Self: Real;

    /// Runs the plain loop, on all rows or on those that the first `rows` depend on.
    fn plain(
        loops: &Reference<'_, Self, &dyn Kernel<Self>>,
        work: Matrix<Self>,
        rows: Option<usize>,
        memory: u64,
    ) -> Result<Matrix<Self>>
    where
        Self: Real;

    /// Returns the kernel that runs the loops of a built-in kernel.
    fn built_in(kernel: BuiltIn<'_>) -> Box<dyn Kernel<Self> + '_>
    where
        Self: Real;

    /// Returns the kernel that runs the code of a described update.
    fn described<'c>(code: &'c Code, rule: &Rule) -> Box<dyn Kernel<Self> + 'c>
    where
        Self: Real;

    /// Returns the kernel that calls a C function.
    fn called(kernel: &CKernel) -> Box<dyn Kernel<Self> + '_>
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
                rows: Option<usize>,
                memory: u64,
            ) -> Result<Matrix<Self>> {
                match rows {
                    None => loops.update(work, memory),
                    Some(rows) => loops.update_top(work, rows, memory),
                }
            }

            #[inline(never)]
            fn built_in(kernel: BuiltIn<'_>) -> Box<dyn Kernel<Self> + '_> {
                match kernel {
                    BuiltIn::Lk23(kernel) => Box::new(Typed::<_, 5>(kernel)),
                    BuiltIn::GaussSeidelVariable(kernel) => Box::new(Typed::<_, 6>(kernel)),
                    BuiltIn::Alignment(kernel) => Box::new(Typed::<_, 1>(kernel)),
                    BuiltIn::Sor(kernel) => Box::new(Typed::<_, 0>(kernel)),
                    BuiltIn::SorWithF(kernel) => Box::new(Typed::<_, 1>(kernel)),
                    BuiltIn::NinePoint(kernel) => Box::new(Typed::<_, 0>(kernel)),
                    BuiltIn::NinePointWithF(kernel) => Box::new(Typed::<_, 1>(kernel)),
                }
            }

            #[inline(never)]
            fn described<'c>(code: &'c Code, rule: &Rule) -> Box<dyn Kernel<Self> + 'c> {
                let element = <$element as syncline_store::Element>::TYPE;
                let native = [32, 64].map(|bytes| Vectors::new(rule, element, bytes, TOGETHER));
                // Rows are skewed by two if the update reads corners.
                let skew = if matches!(code.neighbours(), 5 | 7) { 1 } else { 2 };
                let strips = [32, 64].map(|bytes| Strips::new(rule, element, bytes, skew));
                match code.neighbours() {
                    5 => Box::new(Program::<5>::new(code, native, strips)),
                    7 => Box::new(Program::<7>::new(code, native, strips)),
                    _ => Box::new(Program::<9>::new(code, native, strips)),
                }
            }

            #[inline(never)]
            fn called(kernel: &CKernel) -> Box<dyn Kernel<Self> + '_> {
                if kernel.stencil().corners() {
                    Box::new(Call::<true>(kernel))
                } else {
                    Box::new(Call::<false>(kernel))
                }
            }
        }
    )*};
}

compiled!(f32, f64);

//! What this crate compiles itself, once for each element type.
//!
//! # Contract
//! Rust compiles generic code where it is called with a type: each crate that runs a kernel of this
//! crate would compile its loops again, in half a minute. The functions of [`Compiled`] are not
//! generic. They are compiled here, with all loops that they call. [`Real`] implies [`Compiled`],
//! so generic code reaches the loops through it. Only the loops of a kernel of another crate are
//! compiled there.
//!
//! # Costs
//! One virtual call for each run.

use crate::c_kernel::{CKernel, Call};
use crate::dynamic::Kernel;
use crate::kernels::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor};
use crate::lanes::Real;
use crate::point::Typed;
use crate::rule::Rule;
use crate::rule::update::RuleUpdate;

/// A kernel of this crate.
#[derive(Clone, Copy, Debug)]
pub enum BuiltIn<'k> {
    Lk23(&'k Lk23),
    GaussSeidelVariable(&'k GaussSeidelVariable),
    Alignment(&'k Alignment),
    Sor(&'k Sor),
    SorWithF(&'k Sor),
    NinePoint(&'k NinePoint),
    NinePointWithF(&'k NinePoint),
}

/// Element types for which this crate compiles the loops of its own kernels.
#[allow(private_interfaces)]
pub trait Compiled: Sized {
    /// Returns the kernel that runs the loops of a built-in kernel.
    fn built_in(kernel: BuiltIn<'_>) -> Box<dyn Kernel<Self> + '_>
    where
        Self: Real;

    /// Returns the kernel that runs the program of a rule for matrices.
    fn described(rule: &Rule) -> Box<dyn Kernel<Self>>
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
            fn described(rule: &Rule) -> Box<dyn Kernel<Self>> {
                let stencil = rule.touching();
                match (stencil.corners(), stencil.diagonal()) {
                    (true, _) => Box::new(RuleUpdate::<9>::new::<Self>(rule)),
                    (false, true) => Box::new(RuleUpdate::<7>::new::<Self>(rule)),
                    (false, false) => Box::new(RuleUpdate::<5>::new::<Self>(rule)),
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

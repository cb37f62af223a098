//! Kernels for tests, and a function that runs a test with each of them in both element types. The
//! tests of `syncline-blocks` include this file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use syncline_wave::{
    Lane, Neighbour, Neighbours, PointKernel, Stencil,
    kernels::{Lk23, Sor},
};

use crate::Real;

/// A sum of all eight neighbours, each with a different weight and coefficient, so that confusing
/// any two of them changes the result.
#[derive(Clone, Debug)]
pub(crate) struct Weighted;

impl PointKernel<8> for Weighted {
    const STENCIL: Stencil = Stencil::NINE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [n, w, e, s, nw, ne, sw, se]: [L; 8]) -> L {
        let weighted =
            |value: L, coefficient: L, weight: f64| value * (coefficient + L::splat(weight));
        weighted(at.north, n, 0.17) - weighted(at.west, w, 0.11)
            + weighted(at.east, e, 0.07)
            + weighted(at.south, s, 0.19)
            - weighted(at.north_west, nw, 0.03)
            + weighted(at.north_east, ne, 0.13)
            - weighted(at.south_west, sw, 0.05)
            + weighted(at.south_east, se, 0.15)
            - at.centre * L::splat(0.09)
    }
}

/// Dynamic programming: the best of three paths to a point.
#[derive(Clone, Debug)]
pub(crate) struct BestWay;

impl PointKernel<1> for BestWay {
    const STENCIL: Stencil =
        Stencil::of(&[Neighbour::North, Neighbour::West, Neighbour::NorthWest]);

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [gain]: [L; 1]) -> L {
        let gap = L::splat(0.0625);
        (at.north - gap).max(at.west - gap).max(at.north_west + (gain - L::splat(0.125)))
    }
}

/// The counterpart of [`BestWay`]: only the old diagonal neighbour, and a bound.
#[derive(Clone, Debug)]
pub(crate) struct Shift;

impl PointKernel<0> for Shift {
    const STENCIL: Stencil = Stencil::of(&[Neighbour::SouthEast]);

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        at.south_east.min(at.centre.abs().sqrt())
    }
}

/// The seam of least energy to the top: the last row is updated, the first and last column stay.
#[derive(Clone, Debug)]
pub(crate) struct Seam;

impl PointKernel<1> for Seam {
    const STENCIL: Stencil =
        Stencil::of(&[Neighbour::North, Neighbour::NorthWest, Neighbour::NorthEast]);

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [energy]: [L; 1]) -> L {
        energy + at.north_west.min(at.north.min(at.north_east))
    }
}

/// A recurrence along each row: all edges but the first column are updated.
#[derive(Clone, Debug)]
pub(crate) struct Decay;

impl PointKernel<1> for Decay {
    const STENCIL: Stencil = Stencil::of(&[Neighbour::West]);

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [rate]: [L; 1]) -> L {
        at.centre + rate * (at.west - at.centre)
    }
}

/// Relaxation where the coefficient allows it; other points stay.
#[derive(Clone, Debug)]
pub(crate) struct Masked;

impl PointKernel<1> for Masked {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [open]: [L; 1]) -> L {
        let around = (at.north + at.west + at.east + at.south) * L::splat(0.25);
        L::choose(L::splat(0.125).less(open), around, at.centre)
    }
}

/// A test that runs with any kernel and element type.
pub(crate) trait Check {
    type Outcome;
    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome;
}

/// The number of kernels of [`with_kernel`]; `SINGLE` is the number of those that also run in
/// single precision.
pub(crate) const KERNELS: usize = 9;
const SINGLE: usize = 5;

/// Runs the check with one of the kernels. Not every kernel is instantiated in both types, as that
/// takes long to compile.
pub(crate) fn with_kernel<C: Check>(check: &C, kernel: usize, float32: bool) -> C::Outcome {
    match (kernel % if float32 { SINGLE } else { KERNELS }, float32) {
        (0, false) => check.run::<f64, _, 5>(Lk23),
        (0, true) => check.run::<f32, _, 5>(Lk23),
        (1, false) => check.run::<f64, _, 8>(Weighted),
        (1, true) => check.run::<f32, _, 8>(Weighted),
        (2, false) => check.run::<f64, _, 1>(BestWay),
        (2, true) => check.run::<f32, _, 1>(BestWay),
        (3, false) => check.run::<f64, _, 0>(Sor::new(1.25).unwrap()),
        (3, true) => check.run::<f32, _, 0>(Sor::new(1.25).unwrap()),
        (4, false) => check.run::<f64, _, 1>(Masked),
        (4, true) => check.run::<f32, _, 1>(Masked),
        (5, _) => check.run::<f64, _, 1>(Sor::new(0.75).unwrap()),
        (6, _) => check.run::<f64, _, 0>(Shift),
        (7, _) => check.run::<f64, _, 1>(Seam),
        _ => check.run::<f64, _, 1>(Decay),
    }
}

/// Gauss-Seidel, with or without a right-hand side, that calls a hook before one of its updates.
/// The call with which each sweep begins, to check the stencil, does not count. Not inlined: these
/// tests do not measure time, and the loops around it are then quick to compile.
#[derive(Clone)]
pub(crate) struct Hooked {
    /// The number of calls from now; 1 is the next call.
    pub(crate) at: Arc<AtomicU64>,
    hook: Arc<dyn Fn() + Send + Sync>,
}

impl Hooked {
    pub(crate) fn new(at: u64, hook: impl Fn() + Send + Sync + 'static) -> Self {
        Hooked { at: Arc::new(AtomicU64::new(at.saturating_add(1))), hook: Arc::new(hook) }
    }

    fn count(&self) {
        if self.at.fetch_sub(1, Relaxed) == 1 {
            (self.hook)();
        }
    }
}

impl PointKernel<0> for Hooked {
    const STENCIL: Stencil = Stencil::FIVE_POINT;
    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        self.count();
        PointKernel::<0>::update(&Sor::gauss_seidel(), at, [])
    }
}

impl PointKernel<1> for Hooked {
    const STENCIL: Stencil = Stencil::FIVE_POINT;
    fn update<L: Lane>(&self, at: Neighbours<L>, f: [L; 1]) -> L {
        self.count();
        PointKernel::<1>::update(&Sor::gauss_seidel(), at, f)
    }
}

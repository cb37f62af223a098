//! Adapts a compiled update to the engine.

use std::mem::MaybeUninit;

use crate::kernel::{Neighbours, Update};
use crate::lanes::Vector;
use crate::{Result, Stencil};

use super::steps::{Code, SLOTS};

/// The code of an update that uses the first `N` slots: 5, 7, or 9 with all corners. The engine
/// does not load the other neighbours.
#[derive(Debug)]
pub(crate) struct Program<'c, const N: usize>(pub(crate) &'c Code);

impl<const N: usize> Update for Program<'_, N> {
    const DIAGONAL: bool = N > 5;
    const CORNERS: bool = N == 9;

    #[inline(always)]
    fn stencil(&self) -> Stencil {
        self.0.stencil()
    }

    /// Always succeeds: the stencil is derived from the steps.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn coefficients(&self) -> usize {
        self.0.coefficients()
    }

    #[inline(always)]
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
    ) -> [L; R] {
        let mut slots = MaybeUninit::<[[L; R]; SLOTS]>::uninit();
        let slots = slots.as_mut_ptr().cast::<[L; R]>();
        debug_assert!(self.0.neighbours() <= N);
        for (r, at) in at.iter().enumerate() {
            let Neighbours { centre, north, west, east, south, .. } = *at;
            let Neighbours { north_west, south_east, north_east, south_west, .. } = *at;
            let values =
                [centre, north, west, east, south, north_west, south_east, north_east, south_west];
            for (n, value) in values.iter().take(N).enumerate() {
                // SAFETY: vector `r` of slot `n` lies in the array, as `n` is less than `SLOTS` and
                // `r` less than `R`.
                unsafe { slots.add(n).cast::<L>().add(r).write(*value) };
            }
        }
        // SAFETY: the array has `SLOTS` slots, and those of the neighbours have been stored to; the
        // caller guarantees the coefficients and the instructions.
        unsafe { self.0.run(slots, &coefficients) }
    }
}

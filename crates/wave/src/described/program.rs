//! A compiled update as the engine has it.

use std::mem::MaybeUninit;

use crate::kernel::{Neighbours, Update};
use crate::lanes::Vector;
use crate::{Result, Stencil};

use super::steps::{Code, SLOTS};

/// The code of an update that uses the first `N` slots: 5, 7, or 9 with all corners. What is not
/// used is not loaded by the engine.
#[derive(Debug)]
pub(crate) struct Program<'c, const N: usize>(pub(crate) &'c Code);

impl<const N: usize> Update for Program<'_, N> {
    const DIAGONAL: bool = N > 5;
    const CORNERS: bool = N == 9;

    #[inline(always)]
    fn stencil(&self) -> Stencil {
        self.0.stencil()
    }

    /// The stencil is what the steps read.
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
                // SAFETY: vector `r` of slot `n`, which is less than `SLOTS`.
                unsafe { slots.add(n).cast::<L>().add(r).write(*value) };
            }
        }
        // SAFETY: as many slots as there are, those of the neighbours stored; the rest the caller
        // warrants.
        unsafe { self.0.run(slots, &coefficients) }
    }
}

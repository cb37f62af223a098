//! Adapts a compiled update to the engine.

use std::mem::MaybeUninit;

use crate::lanes::Vector;
use crate::point::{Neighbours, Update};
use crate::rule::native::{Strips, Vectors};
use crate::strip::TOGETHER;
use crate::strip::fused::STRIPS;
use crate::{Result, Stencil};

use super::steps::{Code, SLOTS};

/// The code of an update that uses the first `N` slots: 5, 7, or 9 with all corners. The engine
/// does not load the other neighbours.
#[derive(Debug)]
pub(crate) struct Program<'c, const N: usize> {
    code: &'c Code,
    /// Machine code for vectors of 32 and of 64 bytes, for the engine's number of them.
    native: [Option<Vectors>; 2],
    /// The same for the loop over strips.
    strips: [Option<Strips>; 2],
}

impl<'c, const N: usize> Program<'c, N> {
    /// Adapts steps; `native` and `strips` are the machine code for the same update, where there is
    /// any.
    pub(crate) fn new(
        code: &'c Code,
        native: [Option<Vectors>; 2],
        strips: [Option<Strips>; 2],
    ) -> Self {
        Program { code, native, strips }
    }
}

impl<const N: usize> Update for Program<'_, N> {
    const DIAGONAL: bool = N > 5;
    const CORNERS: bool = N == 9;

    #[inline(always)]
    fn stencil(&self) -> Stencil {
        self.code.stencil()
    }

    /// Always succeeds: the stencil is derived from the steps.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn coefficients(&self) -> usize {
        self.code.coefficients()
    }

    #[inline(always)]
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
    ) -> [L; R] {
        let mut slots = MaybeUninit::<[[L; R]; SLOTS]>::uninit();
        let slots = slots.as_mut_ptr().cast::<[L; R]>();
        debug_assert!(self.code.neighbours() <= N);
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
        let native = match (R, size_of::<L>()) {
            (TOGETHER, 32) => self.native[0].as_ref(),
            (TOGETHER, 64) => self.native[1].as_ref(),
            _ => None,
        };
        if let Some(native) = native {
            // SAFETY: the slots of the neighbours have been stored to; the caller guarantees the
            // coefficients and the instructions.
            return unsafe {
                native.run(slots.cast(), coefficients.as_ptr().cast());
                slots.read()
            };
        }
        // SAFETY: the array has `SLOTS` slots, and those of the neighbours have been stored to; the
        // caller guarantees the coefficients and the instructions.
        unsafe { self.code.run(slots, &coefficients) }
    }

    #[inline(always)]
    unsafe fn run_strips<L: Vector>(
        &self,
        strips: [*mut L::Element; STRIPS],
        values: usize,
    ) -> bool {
        let native = match size_of::<L>() {
            32 => &self.strips[0],
            64 => &self.strips[1],
            _ => return false,
        };
        let Some(native) = native else { return false };
        // SAFETY: the conditions are those of this function.
        unsafe {
            native.run(strips.map(<*mut L::Element>::cast), values * size_of::<L::Element>())
        };
        true
    }
}

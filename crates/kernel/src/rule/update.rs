//! Adapts a rule to the loops over strips.

use super::blocks::{Blocks, Place, SPARE};
use super::native::{Strips, Vectors};
use super::program::{Buffer, Operations};
use super::{Read, Rule};
use crate::lanes::{Engine, Real, Vector};
use crate::point::{Neighbours, Slots, Update};
use crate::strip::TOGETHER;
use crate::strip::fused::STRIPS;
use crate::{Neighbour, Result, Stencil};

/// The number of kinds of lanes of a processor, at most.
const KINDS: usize = if cfg!(target_arch = "x86_64") {
    3
} else if cfg!(target_arch = "aarch64") {
    2
} else {
    1
};

/// The update of a rule for matrices, whose first `N` slots are the point and its neighbours: 5, 7,
/// or 9 with all corners. The engine does not load the other neighbours.
#[derive(Debug)]
pub(crate) struct RuleUpdate<const N: usize> {
    stencil: Stencil,
    coefficients: usize,
    /// The numbers in the slots after the neighbours.
    numbers: Vec<f64>,
    /// The number of all slots.
    slots: usize,
    /// The steps for one value.
    plain: Blocks,
    /// The steps for the engine's number of single values and of vectors, from the narrowest on.
    together: [Blocks; KINDS],
    /// Machine code for vectors of 32 and of 64 bytes, for the engine's number of them.
    native: [Option<Vectors>; 2],
    /// The same for the loop over strips.
    strips: [Option<Strips>; 2],
}

impl<const N: usize> RuleUpdate<N> {
    /// Compiles a rule that [`fits`](Rule::fits_strips) for elements of the type.
    pub(crate) fn new<E: Real>(rule: &Rule) -> Self {
        let element = E::TYPE;
        let operations = Operations::new(rule, element);
        let numbers: Vec<f64> = operations.numbers().collect();
        let spare = N + numbers.len() + operations.temporaries();
        let place = |buffer| match buffer {
            Buffer::Read(Read { array: 0, offset, .. }) => Place::Slot(slot_of(offset)),
            Buffer::Read(Read { array, .. }) => Place::Coefficient(array as usize - 1),
            Buffer::Number(number) => Place::Slot(N + number),
            Buffer::Temporary(value) => Place::Slot(N + numbers.len() + value),
            Buffer::Output => Place::Slot(0),
        };
        let all: Vec<_> = operations
            .all()
            .map(|(op, to, from)| (op, place(to), from.into_iter().map(place).collect()))
            .collect();
        let blocks = || all.iter().cloned();
        RuleUpdate {
            stencil: rule.touching(),
            coefficients: rule.arrays.len() - rule.fields,
            slots: spare + SPARE,
            plain: Blocks::new::<E, 1>(blocks(), spare),
            together: [
                Blocks::new::<E, TOGETHER>(blocks(), spare),
                #[cfg(target_arch = "x86_64")]
                Blocks::new::<E::Avx2<Engine>, TOGETHER>(blocks(), spare),
                #[cfg(target_arch = "x86_64")]
                Blocks::new::<E::Avx512<Engine>, TOGETHER>(blocks(), spare),
                #[cfg(target_arch = "aarch64")]
                Blocks::new::<E::Neon<Engine>, TOGETHER>(blocks(), spare),
            ],
            native: [32, 64].map(|bytes| Vectors::new(rule, element, bytes, TOGETHER)),
            // Rows are skewed by two if the update reads corners.
            strips: [32, 64]
                .map(|bytes| Strips::new(rule, element, bytes, 1 + usize::from(N == 9))),
            numbers,
        }
    }

    /// Returns the steps for `R` vectors.
    #[inline(always)]
    fn blocks<L: Vector, const R: usize>(&self) -> &Blocks {
        match (R, const { size_of::<L>() }) {
            (1, _) => &self.plain,
            (_, 16 | 32) => &self.together[1.min(KINDS - 1)],
            (_, 64) => &self.together[2.min(KINDS - 1)],
            _ => &self.together[0],
        }
    }

    /// Returns the same update without machine code.
    #[cfg(test)]
    pub(crate) fn interpreted(self) -> Self {
        RuleUpdate { native: [None, None], strips: [None, None], ..self }
    }

    /// Returns the number of steps.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> usize {
        self.plain.len()
    }
}

/// Returns the slot of a neighbour that touches the point, or of the point itself.
fn slot_of([down, _, right]: [i8; 3]) -> usize {
    let offset = (isize::from(down), isize::from(right));
    let found = Neighbour::ALL.iter().position(|neighbour| neighbour.offset() == offset);
    found.map_or(0, |at| at + 1)
}

impl<const N: usize> Update for RuleUpdate<N> {
    const DIAGONAL: bool = N > 5;
    const CORNERS: bool = N == 9;

    #[inline(always)]
    fn stencil(&self) -> Stencil {
        self.stencil
    }

    /// Always succeeds: the stencil is derived from the rule.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn coefficients(&self) -> usize {
        self.coefficients
    }

    #[inline(always)]
    fn prepare<L: Vector, const R: usize>(&self, slots: &mut Slots) -> *mut u8 {
        let slots = slots.of(self.slots * R * size_of::<L>());
        let mut at = slots.cast::<[L; R]>().wrapping_add(N);
        for number in &self.numbers {
            // SAFETY: there are slots for the neighbours, and then for the numbers.
            unsafe { at.write([L::splat(*number); R]) };
            at = at.wrapping_add(1);
        }
        slots
    }

    #[inline(always)]
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
        memory: *mut u8,
    ) -> [L; R] {
        let slots = memory.cast::<[L; R]>();
        for (r, at) in at.iter().enumerate() {
            let Neighbours { centre, north, west, east, south, .. } = *at;
            let Neighbours { north_west, south_east, north_east, south_west, .. } = *at;
            let values =
                [centre, north, west, east, south, north_west, south_east, north_east, south_west];
            for (n, value) in values.iter().take(N).enumerate() {
                // SAFETY: vector `r` of slot `n` is one of the slots that `prepare` has made.
                unsafe { slots.add(n).cast::<L>().add(r).write(*value) };
            }
        }
        let native = match (R, size_of::<L>()) {
            (TOGETHER, 32) => self.native[0].as_ref(),
            (TOGETHER, 64) => self.native[1].as_ref(),
            _ => None,
        };
        // SAFETY: the slots of the neighbours and of the numbers have been stored to; the caller
        // guarantees the coefficients and the instructions.
        unsafe {
            match native {
                Some(native) => native.run(memory, coefficients.as_ptr().cast()),
                None => self.blocks::<L, R>().run(memory, coefficients),
            }
            slots.read()
        }
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

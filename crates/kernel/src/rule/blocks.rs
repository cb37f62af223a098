//! The steps of a block: a program on some vectors of points, whose values are in slots.
//!
//! # Contract
//! A [`Blocks`] computes the new values of one field at `R` vectors of points. The caller stores
//! the values of the neighbours to the first slots and the numbers of the program to the next ones;
//! the steps leave the result in the first slot. A slot holds `R` vectors. Coefficients are read
//! where the strips have them.
//!
//! ```text
//! slots    0 centre  1 north  2 west  3 east  4 south   5 0.175   6, 7 temporary
//!
//! qa = s*zr + n*zb + e*zu + w*zv + zz          6 = s * zr + n * zb        Products
//! za = za + relax * (qa - za)                  7 = e * zu + 6             Pair(Mul, Add)
//!                                              6 = w * zv + 7             Pair(Mul, Add)
//!                                              7 = 6 + zz - za            Pair(Add, Less)
//!                                              0 = relax * 7 + za         Pair(Mul, Add)
//! ```
//!
//! # Costs
//! A step jumps to the next one: an optimising compiler makes a jump of a call at the end of a
//! function, which costs two instructions. Without optimisation it is a call, so steps are in
//! chains of limited length, and the stack holds one frame for each step of a chain. An operand
//! costs the load of its offset, and a load for each vector.
//!
//! # Source
//! Threaded code: J. Bell, CACM 1973. Steps that combine several operations: A. Ertl and D. Gregg,
//! "The structure and performance of efficient interpreters", JILP 5 (2003).

use std::marker::PhantomData;

use super::operations::{Computed, Form, Op, real};
use crate::lanes::Vector;

/// The greatest number of operands of a step.
const OPERANDS: usize = 5;

/// The greatest number of steps of a chain.
const CHAIN: usize = 48;

/// The number of slots that [`Blocks::new`] needs for itself.
pub(super) const SPARE: usize = 4;

/// A step, and the offsets of its result and its operands in bytes: from the first slot, or, of a
/// coefficient, from the coefficients of the vector.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Step {
    run: Run,
    to: u32,
    from: [u32; OPERANDS],
}

/// Computes the result of a step, and runs the next one.
///
/// # Safety
/// * The steps from `step` on must be those of a [`Blocks`] up to the end of a chain.
/// * `slots` must be valid for reads and writes of all slots, and those that the steps read must
///   have been stored to.
/// * Each `c` must be aligned to the vectors and valid for reads of all coefficients of a vector.
/// * The processor must have the instructions of the vectors.
type Run = unsafe fn(
    step: *const Step,
    slots: *mut u8,
    c0: *const u8,
    c1: *const u8,
    c2: *const u8,
    c3: *const u8,
);

/// A value that a step takes or makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Slot(usize),
    Coefficient(usize),
}

/// The steps for `R` vectors.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Chains of steps, each with a step at its end that runs no other.
    steps: Box<[Step]>,
    /// The first step of each chain.
    chains: Box<[u32]>,
}

impl Blocks {
    /// Makes the steps for `R` vectors of operations on places. The [`SPARE`] slots from `spare` on
    /// are for copies of coefficients.
    pub(super) fn new<L: Vector, const R: usize>(
        operations: impl Iterator<Item = (Op, Place, Vec<Place>)>,
        spare: usize,
    ) -> Self {
        let offset = |place: Place| match place {
            Place::Slot(slot) => (slot * R * size_of::<L>()) as u32,
            Place::Coefficient(n) => (n * size_of::<L>()) as u32,
        };
        let mut all = Vec::new();
        let mut push = |op: Op, to: Place, from: &[Place]| -> Option<()> {
            let bit = |(k, place): (usize, &Place)| {
                u32::from(matches!(place, Place::Coefficient(_))) << k
            };
            let coefficients = from.iter().enumerate().map(bit).sum();
            let form = Vectors::<L, R> { coefficients, lanes: PhantomData };
            let run = real(op, &form).flatten()?;
            let from = std::array::from_fn(|k| from.get(k).map_or(0, |place| offset(*place)));
            all.push(Step { run, to: offset(to), from });
            Some(())
        };
        for (op, to, mut from) in operations {
            if push(op, to, &from).is_none() {
                // There is no such step on coefficients: they are copied to slots first.
                for (k, place) in from.iter_mut().enumerate() {
                    if matches!(place, Place::Coefficient(_)) {
                        let slot = Place::Slot(spare + k);
                        push(Op::Copy, slot, &[*place]);
                        *place = slot;
                    }
                }
                push(op, to, &from);
            }
        }
        let (mut steps, mut chains) = (Vec::new(), Vec::new());
        for chain in all.chunks(CHAIN) {
            chains.push(steps.len() as u32);
            steps.extend_from_slice(chain);
            steps.push(Step { run: end, to: 0, from: [0; OPERANDS] });
        }
        Blocks { steps: steps.into(), chains: chains.into() }
    }

    /// Returns the number of steps.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.steps.len() - self.chains.len()
    }

    /// Runs the steps.
    ///
    /// # Safety
    /// * The steps must be those for `L` and `R`.
    /// * The conditions of [`Run`] must hold for the slots and the coefficients.
    #[inline(always)]
    pub(crate) unsafe fn run<E, const R: usize>(
        &self,
        slots: *mut u8,
        coefficients: [*const E; R],
    ) {
        let c = |r: usize| coefficients[r.min(R - 1)].cast::<u8>();
        let (first, mut chain) = (self.steps.as_ptr(), 0);
        while chain < self.chains.len() {
            // SAFETY: a chain begins at this step; the other conditions are those of this function.
            unsafe {
                let step = first.add(self.chains[chain] as usize);
                ((*step).run)(step, slots, c(0), c(1), c(2), c(3));
            }
            chain += 1;
        }
    }
}

/// Steps on `R` vectors, some of whose operands are coefficients: a bit for each.
struct Vectors<L, const R: usize> {
    coefficients: u32,
    lanes: PhantomData<L>,
}

impl<L: Vector, const R: usize> Form for Vectors<L, R> {
    type Code = Option<Run>;

    fn of<O: Computed<N>, const N: usize>(&self) -> Option<Run> {
        Some(match (N, self.coefficients) {
            (_, 0) => step::<L, R, O, N, 0>(),
            (_, 1) => step::<L, R, O, N, 1>(),
            (2.., 2) => step::<L, R, O, N, 2>(),
            (2.., 3) => step::<L, R, O, N, 3>(),
            (3.., 4) => step::<L, R, O, N, 4>(),
            (3.., 5) => step::<L, R, O, N, 5>(),
            (3.., 6) => step::<L, R, O, N, 6>(),
            (4.., 8) => step::<L, R, O, N, 8>(),
            (4.., 10) => step::<L, R, O, N, 10>(),
            _ => return None,
        })
    }
}

/// Returns the function of a step.
fn step<L: Vector, const R: usize, O: Computed<N>, const N: usize, const C: u32>() -> Run {
    // As the size is a constant expression, only the branch that is taken is compiled.
    match const { size_of::<L>() } {
        #[cfg(target_arch = "x86_64")]
        64 => avx512::<L, R, O, N, C>,
        #[cfg(target_arch = "x86_64")]
        32 => avx2::<L, R, O, N, C>,
        _ => every::<L, R, O, N, C>,
    }
}

/// Ends a chain.
///
/// # Safety
/// None.
unsafe fn end(_: *const Step, _: *mut u8, _: *const u8, _: *const u8, _: *const u8, _: *const u8) {}

/// # Safety
/// The conditions of [`Run`] must hold.
#[inline(always)]
unsafe fn every<L: Vector, const R: usize, O: Computed<N>, const N: usize, const C: u32>(
    step: *const Step,
    slots: *mut u8,
    c0: *const u8,
    c1: *const u8,
    c2: *const u8,
    c3: *const u8,
) {
    let c = [c0, c1, c2, c3];
    // SAFETY: the caller guarantees the places of the operands and of the result, the next step
    // and the instructions.
    unsafe {
        let Step { to, from, .. } = &*step;
        // All operands are loaded before the result is stored, whose slot may be theirs.
        let mut values = [[L::splat(0.0); N]; R];
        let mut k = 0;
        while k < N {
            let at = from[k] as usize;
            let slot = slots.add(at).cast::<L>();
            let mut r = 0;
            while r < R {
                values[r][k] =
                    if C >> k & 1 == 1 { L::load(c[r].add(at).cast()) } else { slot.add(r).read() };
                r += 1;
            }
            k += 1;
        }
        let mut results = [L::splat(0.0); R];
        let mut r = 0;
        while r < R {
            results[r] = O::of(values[r]);
            r += 1;
        }
        slots.add(*to as usize).cast::<[L; R]>().write(results);
        let next = step.add(1);
        ((*next).run)(next, slots, c0, c1, c2, c3);
    }
}

/// # Safety
/// The conditions of [`Run`] must hold.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<L: Vector, const R: usize, O: Computed<N>, const N: usize, const C: u32>(
    step: *const Step,
    slots: *mut u8,
    c0: *const u8,
    c1: *const u8,
    c2: *const u8,
    c3: *const u8,
) {
    // SAFETY: the conditions are those of this function.
    unsafe { every::<L, R, O, N, C>(step, slots, c0, c1, c2, c3) }
}

/// # Safety
/// The conditions of [`Run`] must hold.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<L: Vector, const R: usize, O: Computed<N>, const N: usize, const C: u32>(
    step: *const Step,
    slots: *mut u8,
    c0: *const u8,
    c1: *const u8,
    c2: *const u8,
    c3: *const u8,
) {
    // SAFETY: the conditions are those of this function.
    unsafe { every::<L, R, O, N, C>(step, slots, c0, c1, c2, c3) }
}

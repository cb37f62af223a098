//! The innermost loop: some strips and some iterations in lock-step.
//!
//! # Contract
//! [`fused`] updates the strips `top - t .. top - t + TOGETHER` in the iterations `t` of `0..T`
//! (counted from the first), for `g` from `from - lag * t` to `to - lag * t`. All updates that
//! these depend on must have been done.
//!
//! ```text
//!                 g ->           TOGETHER = 4 strips and T = 4 iterations advance by one position
//! top - 3    3                   at a time: 16 vectors that do not depend on one another, which
//! top - 2    2  3                hides the latency of each. A record is loaded from L2 once for
//! top - 1    1  2  3             all of them: the iterations pass through the same records within
//! top        0  1  2  3          3 * lag positions.
//! top + 1    0  1  2
//! top + 2    0  1
//! top + 3    0
//! ```
//!
//! # Costs
//! Per vector and iteration: the arithmetic of the kernel, one load per coefficient, and about
//! three loads, two shuffles and one store of the field.
//!
//! # Unrolling
//! All loops over strips and iterations must be unrolled, because the arrays are kept in registers
//! only then. The iterations are therefore written out with const generics; the loops over strips
//! are short enough for the compiler to unroll. The conditions on `T` are constants in `const`
//! blocks, so that the compiler does not compile the branches that are never taken.
//! In the profile of the tests each step of a loop over a range is a call, so most loops here are
//! `while` loops. The loop that loads the neighbours is over ranges: with `while`, scalar lanes
//! take 1.3 to 2.7 times as long.

use crate::lanes::Vector;
use crate::point::{Neighbours, Update};

use super::{FUSED, Ring, TOGETHER};

/// The number of strips that one call reads, at most.
pub const STRIPS: usize = TOGETHER + FUSED + 1;

/// The strips, iterations and positions of one call.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The first strip in the first iteration.
    pub top: isize,
    /// The first `g` in the first iteration.
    pub from: isize,
    /// The `g` after the last one in the first iteration.
    pub to: isize,
}

/// Updates all values of the extent. If `NORM`, raises `norm` to the greatest change.
///
/// # Safety
/// * The width of the ring must be that of `L`, its skew that of `U`, and its number of arrays one
///   more than the coefficients of `U`.
/// * No other thread may access the records that are updated, nor write the records around them
///   (one strip and `lag` positions on each side).
/// * `slots` must be those of [`Update::update`].
/// * All strips must be in the ring, and all rows and columns that are updated must be interior.
/// * The processor must have the instructions of `L`.
#[inline(always)]
pub unsafe fn fused<L: Vector, U: Update, const T: usize, const NORM: bool>(
    kernel: &U,
    ring: &Ring<L::Element>,
    extent: Extent,
    slots: *mut u8,
    norm: &mut L,
) {
    let g = &ring.geometry;
    let record = (1 + kernel.coefficients()) * L::WIDTH;
    let mut strips = [std::ptr::null_mut(); STRIPS];
    let mut i = 0;
    while i < TOGETHER + T + 1 {
        let strip = extent.top - T as isize + i as isize;
        strips[i] =
            ring.strip(strip).wrapping_offset((extent.from - strip * g.step()) * record as isize);
        i += 1;
    }
    let end = (extent.to - extent.from) * record as isize;
    // SAFETY: the conditions are those of this function.
    if T == FUSED && !NORM && end > 0 && unsafe { kernel.run_strips::<L>(strips, end as usize) } {
        return;
    }
    let west = [[L::splat(0.0); TOGETHER]; FUSED];
    let mut state = State { strips, offset: 0, record, norm: *norm, west, slots };
    // SAFETY: the conditions of `enter` and `step` are those of this function.
    unsafe {
        state.enter::<U, T, 0>();
        if const { T > 1 } {
            state.enter::<U, T, 1>();
        }
        if const { T > 2 } {
            state.enter::<U, T, 2>();
        }
        if const { T > 3 } {
            state.enter::<U, T, 3>();
        }
        while state.offset < end {
            state.step::<U, T, 0, NORM>(kernel);
            if const { T > 1 } {
                state.step::<U, T, 1, NORM>(kernel);
            }
            if const { T > 2 } {
                state.step::<U, T, 2, NORM>(kernel);
            }
            if const { T > 3 } {
                state.step::<U, T, 3, NORM>(kernel);
            }
            state.offset += record as isize;
        }
    }
    *norm = state.norm;
}

/// The state that the loop keeps in registers.
struct State<L: Vector> {
    /// The addresses of the strips from `top - T` on, at the first `g`.
    strips: [*mut L::Element; STRIPS],
    /// The number of values from there to the current `g`. It is the same for all strips, so that
    /// the addresses stay in registers.
    offset: isize,
    record: usize,
    /// The vectors that each iteration computed last in each strip.
    west: [[L; TOGETHER]; FUSED],
    norm: L,
    /// The memory of the updates.
    slots: *mut u8,
}

const fn skew<U: Update>() -> isize {
    if U::CORNERS { 2 } else { 1 }
}

impl<L: Vector> State<L> {
    /// Returns the address of the field at `ahead` positions from the current one of iteration `I`.
    /// `r` counts the strips from the one above, which is 0; the one below is `TOGETHER + 1`.
    #[inline(always)]
    fn place<U: Update, const T: usize, const I: usize>(
        &self,
        r: usize,
        ahead: isize,
    ) -> *mut L::Element {
        let lag = skew::<U>() + 1;
        let away = (ahead - lag * I as isize) * self.record as isize;
        self.strips[T - I - 1 + r].wrapping_offset(self.offset).wrapping_offset(away)
    }

    /// Loads the vectors west of the first position.
    ///
    /// # Safety
    /// The conditions of [`fused`] must hold.
    #[inline(always)]
    unsafe fn enter<U: Update, const T: usize, const I: usize>(&mut self) {
        let mut r = 0;
        while r < TOGETHER {
            // SAFETY: the record before the first that is updated, which the caller guarantees to
            // be readable.
            self.west[I][r] = unsafe { L::load(self.place::<U, T, I>(r + 1, -1)) };
            r += 1;
        }
    }

    /// Updates one position of iteration `I`.
    ///
    /// # Safety
    /// The conditions of [`fused`] must hold.
    #[inline(always)]
    unsafe fn step<U: Update, const T: usize, const I: usize, const NORM: bool>(
        &mut self,
        kernel: &U,
    ) {
        let skew = skew::<U>();
        let zero = L::splat(0.0);
        // SAFETY: every access is to a record that is updated or to one within a strip and `lag`
        // positions of it, and the records of the ring are aligned; the caller guarantees the
        // coefficients and the instructions.
        unsafe {
            // Strips -1 .. TOGETHER - 1 behind and 0 .. TOGETHER ahead, at 1 to `lag` positions.
            // Records farther away must not be read: other threads may write them.
            let (mut behind, mut ahead) = ([[zero; TOGETHER + 1]; 3], [[zero; TOGETHER + 1]; 3]);
            for k in 0..=skew {
                for r in 0..=TOGETHER {
                    // The vector just computed is still in a register.
                    behind[k as usize][r] = match (k, r) {
                        (0, 1..) => self.west[I][r - 1],
                        _ => L::load(self.place::<U, T, I>(r, -1 - k)),
                    };
                    ahead[k as usize][r] = L::load(self.place::<U, T, I>(r + 1, 1 + k));
                }
            }
            let mut at = [Neighbours::all(zero); TOGETHER];
            let mut coefficients = [std::ptr::null(); TOGETHER];
            let (s, mut r) = (skew as usize, 0);
            while r < TOGETHER {
                let centre = self.place::<U, T, I>(r + 1, 0);
                let none = L::splat(f64::NAN);
                at[r] = Neighbours {
                    centre: L::load(centre),
                    north: behind[s - 1][r + 1].from_above(behind[s - 1][r]),
                    west: self.west[I][r],
                    east: ahead[0][r],
                    south: ahead[s - 1][r].from_below(ahead[s - 1][r + 1]),
                    north_west: if U::DIAGONAL {
                        behind[s][r + 1].from_above(behind[s][r])
                    } else {
                        none
                    },
                    south_east: if U::DIAGONAL {
                        ahead[s][r].from_below(ahead[s][r + 1])
                    } else {
                        none
                    },
                    north_east: if U::CORNERS {
                        behind[0][r + 1].from_above(behind[0][r])
                    } else {
                        none
                    },
                    south_west: if U::CORNERS {
                        ahead[0][r].from_below(ahead[0][r + 1])
                    } else {
                        none
                    },
                };
                coefficients[r] = centre.wrapping_add(L::WIDTH).cast_const();
                r += 1;
            }
            let new = kernel.update::<L, TOGETHER>(at, coefficients, self.slots);
            // Of this position alone, so that those of several are computed at once.
            let mut norm = zero;
            r = 0;
            while r < TOGETHER {
                new[r].store(self.place::<U, T, I>(r + 1, 0));
                self.west[I][r] = new[r];
                if NORM {
                    norm = norm.raised(at[r].centre, new[r]);
                }
                r += 1;
            }
            if NORM {
                self.norm = self.norm.greater(norm);
            }
        }
    }
}

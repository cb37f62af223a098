//! The loop at the edges of the matrix: one iteration, with values excluded by a mask.
//!
//! # Contract
//! Like [`fused`](super::fused) for one iteration, except that strips may be missing, and that rows
//! and columns may lie on the edge or outside of the matrix: values that are not interior stay. It
//! is called for the few positions at both ends of a strip, and for the first and last strips.
//! Its loops are written like those of [`fused`](super::fused).

use crate::lanes::Vector;
use crate::point::{Neighbours, Slots, Update};

use super::fused::Extent;
use super::{Geometry, Ring, TOGETHER};

/// A substitute for a strip that is not in the ring. Its values are zeros, and only zeros are
/// written to it. With it goes the memory in which updates keep values.
#[derive(Debug)]
pub struct Dummy<E> {
    values: Vec<E>,
    positions: usize,
    /// The memory of the updates.
    pub(super) slots: Slots,
}

impl<E: syncline_store::Element> Dummy<E> {
    /// Creates a dummy that is large enough for calls of `positions` positions.
    pub fn new(geometry: &Geometry, positions: usize) -> Self {
        let values = vec![E::default(); Self::values(geometry, positions)];
        Dummy { values, positions, slots: Slots::default() }
    }

    /// Returns whether the dummy is large enough for calls of `positions` positions.
    pub fn is_enough(&self, geometry: &Geometry, positions: usize) -> bool {
        positions <= self.positions && Self::values(geometry, positions) <= self.values.len()
    }

    fn values(geometry: &Geometry, positions: usize) -> usize {
        (positions + 2 * (geometry.lag() + 1)) * geometry.record() + 64 / E::BYTES
    }
}

/// Updates the interior values of the extent. Raises `norm` to the greatest change.
///
/// # Safety
/// The conditions of [`fused`](super::fused::fused) must hold, except that only the strips from -1
/// to the last must be in the ring, and that the extent may reach beyond the interior. `dummy` must
/// be large enough.
#[inline(always)]
pub unsafe fn masked<L: Vector, U: Update>(
    kernel: &U,
    ring: &Ring<L::Element>,
    dummy: &mut Dummy<L::Element>,
    extent: Extent,
    norm: &mut L,
) {
    let g = &ring.geometry;
    let record = (1 + kernel.coefficients()) * L::WIDTH;
    let skew = if U::CORNERS { 2 } else { 1 };
    let (zero, none) = (L::splat(0.0), L::splat(f64::NAN));
    // Positions at which none of the strips has an interior value are skipped.
    let rows: [u32; TOGETHER] = std::array::from_fn(|r| g.interior(extent.top + r as isize));
    let first = (0..TOGETHER).find(|&r| rows[r] != 0);
    let last = (0..TOGETHER).rfind(|&r| rows[r] != 0);
    let (Some(first), Some(last)) = (first, last) else {
        return;
    };
    let strip = |r: usize| extent.top + r as isize;
    let from = extent.from.max(strip(first) * g.step() + 1);
    let to = extent.to.min(strip(last) * g.step() + g.positions() as isize);
    if from >= to {
        return;
    }
    debug_assert!(to - from <= dummy.positions as isize);
    let slots = kernel.prepare::<L, TOGETHER>(&mut dummy.slots);
    let nothing = dummy.values.as_mut_ptr();
    let nothing =
        nothing.wrapping_add(nothing.align_offset(64)).wrapping_add((g.lag() + 1) * record);
    let mut places = [nothing; TOGETHER + 2];
    let mut i = 0;
    while i < TOGETHER + 2 {
        let strip = extent.top - 1 + i as isize;
        if -1 <= strip && strip <= g.last_strip() {
            places[i] =
                ring.strip(strip).wrapping_offset((from - strip * g.step()) * record as isize);
        }
        i += 1;
    }
    let mut at_g = from;
    while at_g < to {
        let place = |i: usize, ahead: isize| places[i].wrapping_offset(ahead * record as isize);
        // SAFETY: strips from -1 to the last are in the ring, as the caller guarantees, and all
        // others are replaced by the dummy, which is large enough. The other conditions are those
        // of this function.
        unsafe {
            let mut at = [Neighbours::all(zero); TOGETHER];
            let mut coefficients = [std::ptr::null(); TOGETHER];
            let mut r = 0;
            while r < TOGETHER {
                let i = r + 1;
                at[r] = Neighbours {
                    centre: L::load(place(i, 0)),
                    north: L::load(place(i, -skew)).from_above(L::load(place(i - 1, -skew))),
                    west: L::load(place(i, -1)),
                    east: L::load(place(i, 1)),
                    south: L::load(place(i, skew)).from_below(L::load(place(i + 1, skew))),
                    north_west: none,
                    south_east: none,
                    north_east: none,
                    south_west: none,
                };
                if U::DIAGONAL {
                    let (far, near) =
                        (L::load(place(i - 1, -skew - 1)), L::load(place(i, -skew - 1)));
                    at[r].north_west = near.from_above(far);
                    let (far, near) =
                        (L::load(place(i + 1, skew + 1)), L::load(place(i, skew + 1)));
                    at[r].south_east = near.from_below(far);
                }
                if U::CORNERS {
                    let (far, near) =
                        (L::load(place(i - 1, 1 - skew)), L::load(place(i, 1 - skew)));
                    at[r].north_east = near.from_above(far);
                    let (far, near) =
                        (L::load(place(i + 1, skew - 1)), L::load(place(i, skew - 1)));
                    at[r].south_west = near.from_below(far);
                }
                coefficients[r] = place(i, 0).wrapping_add(L::WIDTH).cast_const();
                r += 1;
            }
            let new = kernel.update::<L, TOGETHER>(at, coefficients, slots);
            r = 0;
            while r < TOGETHER {
                let bits = rows[r]
                    & columns(at_g - strip(r) * g.step(), skew, L::WIDTH, g.shape.cols as isize);
                let value = L::choose_bits(bits, new[r], at[r].centre);
                value.store(place(r + 1, 0));
                *norm = L::choose_bits(bits, norm.raised(at[r].centre, new[r]), *norm);
                r += 1;
            }
        }
        i = 0;
        while i < TOGETHER + 2 {
            places[i] = places[i].wrapping_add(record);
            i += 1;
        }
        at_g += 1;
    }
}

/// Returns a bit mask of the values at a position whose columns are interior.
#[inline(always)]
fn columns(position: isize, skew: isize, width: usize, cols: isize) -> u32 {
    // Value `i` is in column `position - skew * i`, which must be from 1 to `cols - 2`.
    let upper = (position - 1).div_euclid(skew);
    let lower = -(cols - 2 - position).div_euclid(skew);
    let below = |n: isize| if n <= 0 { 0 } else { u32::MAX >> (32 - n.min(32)) };
    below((upper + 1).min(width as isize)) & !below(lower)
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn columns_are_interior() {
        for (skew, width) in [(1, 1), (1, 4), (2, 8), (1, 16), (2, 16)] {
            for cols in 1..40 {
                for position in -50..100 {
                    let bits = columns(position, skew, width, cols);
                    for i in 0..32 {
                        let column = position - skew * i;
                        let expected = i < width as isize && (1..=cols - 2).contains(&column);
                        assert_eq!(
                            bits >> i & 1 == 1,
                            expected,
                            "{skew} {width} {cols} {position} {i}"
                        );
                    }
                }
            }
        }
    }
}

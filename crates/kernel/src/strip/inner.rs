//! The choice of an innermost loop, and of the vectors with which it runs.
//!
//! # Contract
//! [`strips`] runs one of the loops [`fused`] and [`masked`] over four strips. It is the only place
//! that calls them, so that each is compiled once for a kernel, a type and a kind of lanes.

use crate::lanes::dispatch::{Work, dispatch};
use crate::lanes::{Lanes, Real, Vector};
use crate::point::Update;

use super::fused::{Extent, fused};
use super::masked::{Dummy, masked};
use super::{FUSED, Ring, TOGETHER};

/// An innermost loop. Each is compiled for each kernel and each kind of lanes. To limit the size of
/// that code, [`fused`] exists only with four iterations or with changes.
#[derive(Clone, Copy, Debug)]
pub enum Inner {
    /// [`fused`], of [`FUSED`] iterations, without changes.
    Fused,
    /// [`fused`], of one iteration, with changes.
    Single,
    /// [`masked`], of one iteration, with changes.
    Masked,
}

/// Runs a loop over four strips, compiled for this kernel and for each kind of lanes. Returns the
/// greatest change, or 0 if the loop does not compute it.
///
/// # Safety
/// * The conditions of [`fused`] or [`masked`], as [`Inner`] says, must hold for the vectors of the
///   lanes, which the machine must have.
/// * For [`Inner::Masked`], the dummy must be large enough for the positions of the extent.
pub unsafe fn strips<E: Real, U: Update>(
    lanes: Lanes,
    inner: Inner,
    kernel: &U,
    ring: &Ring<E>,
    dummy: &mut Dummy<E>,
    extent: Extent,
) -> f64 {
    let mut change = 0.0;
    let work = Strips { inner, kernel, ring, dummy, extent, change: &mut change };
    // SAFETY: the conditions are those of this function, which the caller guarantees.
    unsafe { dispatch(lanes, work) };
    change
}

struct Strips<'w, E, U> {
    inner: Inner,
    kernel: &'w U,
    ring: &'w Ring<E>,
    dummy: &'w mut Dummy<E>,
    extent: Extent,
    change: &'w mut f64,
}

impl<E: Real, U: Update> Work<E> for Strips<'_, E, U> {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        let Strips { inner, kernel, ring, dummy, extent, .. } = self;
        let mut change = L::splat(0.0);
        // SAFETY: the conditions are those of `Work::with`.
        unsafe {
            match inner {
                Inner::Fused => {
                    let slots = kernel.prepare::<L, TOGETHER>(&mut dummy.slots);
                    fused::<L, U, FUSED, false>(kernel, ring, extent, slots, &mut change);
                    return;
                }
                Inner::Single => {
                    let slots = kernel.prepare::<L, TOGETHER>(&mut dummy.slots);
                    fused::<L, U, 1, true>(kernel, ring, extent, slots, &mut change);
                }
                Inner::Masked => masked::<L, U>(kernel, ring, dummy, extent, &mut change),
            }
        }
        *self.change = change.greatest();
    }
}

//! Loops that are compiled for each kind of lanes, and the choice among them at run time.

use super::{Engine, Lanes, Real, Vector};

/// Work that is compiled for each kind of lanes.
pub trait Work<E: Real> {
    /// Does the work. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// The conditions of the work must hold for these lanes, and the processor must have their
    /// instructions.
    unsafe fn with<L: Vector<Element = E>>(self);
}

/// Does the work with these lanes.
///
/// # Safety
/// The conditions of the work must hold for these lanes, and the machine must have them.
pub unsafe fn dispatch<E: Real, W: Work<E>>(lanes: Lanes, work: W) {
    // SAFETY: the conditions are those of this function; the machine has the lanes, so the
    // processor has their instructions.
    unsafe {
        match lanes {
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => avx2(work),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => avx512(work),
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => work.with::<E::Neon<Engine>>(),
            _ => work.with::<E>(),
        }
    }
}

/// # Safety
/// The conditions of the work must hold, and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<E: Real, W: Work<E>>(work: W) {
    // SAFETY: the conditions are those of this function; the processor has AVX2.
    unsafe { work.with::<E::Avx2<Engine>>() }
}

/// # Safety
/// The conditions of the work must hold, and the processor must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<E: Real, W: Work<E>>(work: W) {
    // SAFETY: the conditions are those of this function; the processor has AVX-512F.
    unsafe { work.with::<E::Avx512<Engine>>() }
}

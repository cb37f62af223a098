//! Vectors of 128 bits: two doubles or four floats. Every aarch64 processor has the instructions.

use core::arch::aarch64::*;

use super::Vector;

// The instructions for min and max treat NaN differently from what `Lane` requires.
lanes! {
    /// A vector of two doubles.
    F64x2(float64x2_t): 2 of f64, masks uint64x2_t;
    add vaddq_f64; sub vsubq_f64; mul vmulq_f64; div vdivq_f64;
    splat |value| vdupq_n_f64(value);
    neg |a| vnegq_f64(a);
    abs |a| vabsq_f64(a);
    sqrt |a| vsqrtq_f64(a);
    less |a, b| vcltq_f64(a, b);
    equal |a, b| vceqq_f64(a, b);
    choose |mask, yes, no| vbslq_f64(mask, yes, no);
    min |a, b| vbslq_f64(vcltq_f64(a, b), a, b);
    max |a, b| vbslq_f64(vcltq_f64(b, a), a, b);
}

lanes! {
    /// A vector of four floats.
    F32x4(float32x4_t): 4 of f32, masks uint32x4_t;
    add vaddq_f32; sub vsubq_f32; mul vmulq_f32; div vdivq_f32;
    splat |value| vdupq_n_f32(value);
    neg |a| vnegq_f32(a);
    abs |a| vabsq_f32(a);
    sqrt |a| vsqrtq_f32(a);
    less |a, b| vcltq_f32(a, b);
    equal |a, b| vceqq_f32(a, b);
    choose |mask, yes, no| vbslq_f32(mask, yes, no);
    min |a, b| vbslq_f32(vcltq_f32(a, b), a, b);
    max |a, b| vbslq_f32(vcltq_f32(b, a), a, b);
}

impl Vector for F64x2 {
    type Element = f64;
    const WIDTH: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller guarantees that `from` is valid for reads of one vector.
        F64x2(unsafe { vld1q_f64(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller guarantees that `to` is valid for writes of one vector.
        unsafe { vst1q_f64(to, self.0) }
    }

    #[inline(always)]
    fn from_above(self, above: Self) -> Self {
        // SAFETY: every aarch64 processor has the instructions.
        F64x2(unsafe { vextq_f64::<1>(above.0, self.0) })
    }

    #[inline(always)]
    fn from_below(self, below: Self) -> Self {
        // SAFETY: every aarch64 processor has the instructions.
        F64x2(unsafe { vextq_f64::<1>(self.0, below.0) })
    }

    #[inline(always)]
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
        let places = [1_u64, 2];
        // SAFETY: every aarch64 processor has the instructions; the array holds two values.
        F64x2(unsafe {
            let mask = vtstq_u64(vdupq_n_u64(u64::from(bits)), vld1q_u64(places.as_ptr()));
            vbslq_f64(mask, yes.0, no.0)
        })
    }

    #[inline(always)]
    fn greatest(self) -> f64 {
        self.values().into_iter().reduce(Vector::greater).unwrap_or(0.0)
    }

    #[inline(always)]
    unsafe fn transpose_in(from: *const f64, pitch: isize, to: *mut f64, stride: usize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible.
        unsafe {
            let (a, b) = (vld1q_f64(from), vld1q_f64(from.offset(pitch)));
            vst1q_f64(to, vzip1q_f64(a, b));
            vst1q_f64(to.add(stride), vzip2q_f64(a, b));
        }
    }

    #[inline(always)]
    unsafe fn transpose_out(from: *const f64, stride: usize, to: *mut f64, pitch: isize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible.
        unsafe {
            let (a, b) = (vld1q_f64(from), vld1q_f64(from.add(stride)));
            vst1q_f64(to, vzip1q_f64(a, b));
            vst1q_f64(to.offset(pitch), vzip2q_f64(a, b));
        }
    }
}

impl Vector for F32x4 {
    type Element = f32;
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees that `from` is valid for reads of one vector.
        F32x4(unsafe { vld1q_f32(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees that `to` is valid for writes of one vector.
        unsafe { vst1q_f32(to, self.0) }
    }

    #[inline(always)]
    fn from_above(self, above: Self) -> Self {
        // SAFETY: every aarch64 processor has the instructions.
        F32x4(unsafe { vextq_f32::<3>(above.0, self.0) })
    }

    #[inline(always)]
    fn from_below(self, below: Self) -> Self {
        // SAFETY: every aarch64 processor has the instructions.
        F32x4(unsafe { vextq_f32::<1>(self.0, below.0) })
    }

    #[inline(always)]
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
        let places = [1_u32, 2, 4, 8];
        // SAFETY: every aarch64 processor has the instructions; the array holds four values.
        F32x4(unsafe {
            let mask = vtstq_u32(vdupq_n_u32(bits), vld1q_u32(places.as_ptr()));
            vbslq_f32(mask, yes.0, no.0)
        })
    }

    #[inline(always)]
    fn greatest(self) -> f64 {
        self.values().into_iter().reduce(Vector::greater).map_or(0.0, f64::from)
    }

    #[inline(always)]
    unsafe fn transpose_in(from: *const f32, pitch: isize, to: *mut f32, stride: usize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible.
        unsafe {
            let mut rows = [vdupq_n_f32(0.0); 4];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = vld1q_f32(from.offset(i as isize * pitch));
            }
            for (j, column) in transpose4(rows).into_iter().enumerate() {
                vst1q_f32(to.add(j * stride), column);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose_out(from: *const f32, stride: usize, to: *mut f32, pitch: isize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible.
        unsafe {
            let mut columns = [vdupq_n_f32(0.0); 4];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = vld1q_f32(from.add(j * stride));
            }
            for (i, row) in transpose4(columns).into_iter().enumerate() {
                vst1q_f32(to.offset(i as isize * pitch), row);
            }
        }
    }
}

/// Transposes a matrix of four by four.
#[inline(always)]
fn transpose4([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
    // SAFETY: every aarch64 processor has the instructions.
    unsafe {
        // [a0 c0 a1 c1], [b0 d0 b1 d1]: zipped again, they are columns.
        let (ac_l, ac_h) = (vzip1q_f32(a, c), vzip2q_f32(a, c));
        let (bd_l, bd_h) = (vzip1q_f32(b, d), vzip2q_f32(b, d));
        [
            vzip1q_f32(ac_l, bd_l),
            vzip2q_f32(ac_l, bd_l),
            vzip1q_f32(ac_h, bd_h),
            vzip2q_f32(ac_h, bd_h),
        ]
    }
}

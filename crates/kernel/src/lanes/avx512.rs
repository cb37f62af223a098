//! Vectors of 512 bits: eight doubles or sixteen floats.
//!
//! This code may run only if the processor has AVX-512F; the functions that dispatch to it check
//! that.

use core::arch::x86_64::*;

use super::Vector;

/// Changes the signs. AVX-512F has no exclusive or of doubles.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
unsafe fn neg_pd(a: __m512d) -> __m512d {
    // SAFETY: the caller guarantees that the processor has AVX-512F.
    unsafe {
        let sign = _mm512_set1_epi64(i64::MIN);
        _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(a), sign))
    }
}

/// Changes the signs. AVX-512F has no exclusive or of floats.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
unsafe fn neg_ps(a: __m512) -> __m512 {
    // SAFETY: the caller guarantees that the processor has AVX-512F.
    unsafe {
        let sign = _mm512_set1_epi32(i32::MIN);
        _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), sign))
    }
}

// The instructions for min and max return the second operand if either is NaN, as `Lane` requires.
lanes! {
    /// A vector of eight doubles.
    F64x8(__m512d): 8 of f64, masks __mmask8;
    add _mm512_add_pd; sub _mm512_sub_pd; mul _mm512_mul_pd; div _mm512_div_pd;
    splat |value| _mm512_set1_pd(value);
    neg |a| neg_pd(a);
    abs |a| _mm512_abs_pd(a);
    sqrt |a| _mm512_sqrt_pd(a);
    less |a, b| _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b);
    equal |a, b| _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(a, b);
    choose |mask, yes, no| _mm512_mask_blend_pd(mask, no, yes);
    min |a, b| _mm512_min_pd(a, b);
    max |a, b| _mm512_max_pd(a, b);
}

lanes! {
    /// A vector of sixteen floats.
    F32x16(__m512): 16 of f32, masks __mmask16;
    add _mm512_add_ps; sub _mm512_sub_ps; mul _mm512_mul_ps; div _mm512_div_ps;
    splat |value| _mm512_set1_ps(value);
    neg |a| neg_ps(a);
    abs |a| _mm512_abs_ps(a);
    sqrt |a| _mm512_sqrt_ps(a);
    less |a, b| _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
    equal |a, b| _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
    choose |mask, yes, no| _mm512_mask_blend_ps(mask, no, yes);
    min |a, b| _mm512_min_ps(a, b);
    max |a, b| _mm512_max_ps(a, b);
}

impl Vector for F64x8 {
    type Element = f64;
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX-512F, see the top of the file.
        F64x8(unsafe { _mm512_load_pd(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX-512F, see the top of the file.
        unsafe { _mm512_store_pd(to, self.0) }
    }

    #[inline(always)]
    fn from_above(self, above: Self) -> Self {
        // SAFETY: the processor has AVX-512F, see the top of the file. `alignr` shifts the pair
        // (first, second) right by this number of values.
        F64x8(unsafe {
            let pair =
                _mm512_alignr_epi64::<7>(_mm512_castpd_si512(self.0), _mm512_castpd_si512(above.0));
            _mm512_castsi512_pd(pair)
        })
    }

    #[inline(always)]
    fn from_below(self, below: Self) -> Self {
        // SAFETY: the processor has AVX-512F, see the top of the file.
        F64x8(unsafe {
            let pair =
                _mm512_alignr_epi64::<1>(_mm512_castpd_si512(below.0), _mm512_castpd_si512(self.0));
            _mm512_castsi512_pd(pair)
        })
    }

    #[inline(always)]
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
        // SAFETY: the processor has AVX-512F, see the top of the file.
        F64x8(unsafe { _mm512_mask_blend_pd(bits as __mmask8, no.0, yes.0) })
    }

    #[inline(always)]
    fn greatest(self) -> f64 {
        self.values().into_iter().reduce(Vector::greater).unwrap_or(0.0)
    }

    #[inline(always)]
    unsafe fn transpose_in(from: *const f64, pitch: isize, to: *mut f64, stride: usize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX-512F, see the top of the file.
        unsafe {
            let mut rows = [_mm512_setzero_pd(); 8];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_pd(from.offset(i as isize * pitch));
            }
            for (j, column) in transpose8(rows).into_iter().enumerate() {
                _mm512_storeu_pd(to.add(j * stride), column);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose_out(from: *const f64, stride: usize, to: *mut f64, pitch: isize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX-512F, see the top of the file.
        unsafe {
            let mut columns = [_mm512_setzero_pd(); 8];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = _mm512_loadu_pd(from.add(j * stride));
            }
            for (i, row) in transpose8(columns).into_iter().enumerate() {
                _mm512_storeu_pd(to.offset(i as isize * pitch), row);
            }
        }
    }
}

/// Transposes a matrix of eight by eight: pairs, then quarters of the vectors, twice.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
unsafe fn transpose8(r: [__m512d; 8]) -> [__m512d; 8] {
    // SAFETY: the caller guarantees that the processor has AVX-512F.
    unsafe {
        let zero = _mm512_setzero_pd();
        let (mut even, mut odd) = ([zero; 4], [zero; 4]);
        for p in 0..4 {
            // Quarter q holds column 2q (or 2q + 1) of the rows 2p and 2p + 1.
            even[p] = _mm512_unpacklo_pd(r[2 * p], r[2 * p + 1]);
            odd[p] = _mm512_unpackhi_pd(r[2 * p], r[2 * p + 1]);
        }
        let mut out = [zero; 8];
        for (pairs, first) in [(even, 0), (odd, 1)] {
            // Quarters 0 and 2 of two pairs of rows, then quarters 1 and 3.
            let a = _mm512_shuffle_f64x2::<0x88>(pairs[0], pairs[1]);
            let b = _mm512_shuffle_f64x2::<0x88>(pairs[2], pairs[3]);
            let c = _mm512_shuffle_f64x2::<0xDD>(pairs[0], pairs[1]);
            let d = _mm512_shuffle_f64x2::<0xDD>(pairs[2], pairs[3]);
            out[first] = _mm512_shuffle_f64x2::<0x88>(a, b);
            out[first + 4] = _mm512_shuffle_f64x2::<0xDD>(a, b);
            out[first + 2] = _mm512_shuffle_f64x2::<0x88>(c, d);
            out[first + 6] = _mm512_shuffle_f64x2::<0xDD>(c, d);
        }
        out
    }
}

impl Vector for F32x16 {
    type Element = f32;
    const WIDTH: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX-512F, see the top of the file.
        F32x16(unsafe { _mm512_load_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX-512F, see the top of the file.
        unsafe { _mm512_store_ps(to, self.0) }
    }

    #[inline(always)]
    fn from_above(self, above: Self) -> Self {
        // SAFETY: the processor has AVX-512F, see the top of the file.
        F32x16(unsafe {
            let pair = _mm512_alignr_epi32::<15>(
                _mm512_castps_si512(self.0),
                _mm512_castps_si512(above.0),
            );
            _mm512_castsi512_ps(pair)
        })
    }

    #[inline(always)]
    fn from_below(self, below: Self) -> Self {
        // SAFETY: the processor has AVX-512F, see the top of the file.
        F32x16(unsafe {
            let pair =
                _mm512_alignr_epi32::<1>(_mm512_castps_si512(below.0), _mm512_castps_si512(self.0));
            _mm512_castsi512_ps(pair)
        })
    }

    #[inline(always)]
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
        // SAFETY: the processor has AVX-512F, see the top of the file.
        F32x16(unsafe { _mm512_mask_blend_ps(bits as __mmask16, no.0, yes.0) })
    }

    #[inline(always)]
    fn greatest(self) -> f64 {
        self.values().into_iter().reduce(Vector::greater).map_or(0.0, f64::from)
    }

    #[inline(always)]
    unsafe fn transpose_in(from: *const f32, pitch: isize, to: *mut f32, stride: usize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX-512F, see the top of the file.
        unsafe {
            let mut rows = [_mm512_setzero_ps(); 16];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_ps(from.offset(i as isize * pitch));
            }
            for (j, column) in transpose16(rows).into_iter().enumerate() {
                _mm512_storeu_ps(to.add(j * stride), column);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose_out(from: *const f32, stride: usize, to: *mut f32, pitch: isize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX-512F, see the top of the file.
        unsafe {
            let mut columns = [_mm512_setzero_ps(); 16];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = _mm512_loadu_ps(from.add(j * stride));
            }
            for (i, row) in transpose16(columns).into_iter().enumerate() {
                _mm512_storeu_ps(to.offset(i as isize * pitch), row);
            }
        }
    }
}

/// Transposes a matrix of sixteen by sixteen: in groups of four rows within each quarter of the
/// vectors, then the quarters.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
unsafe fn transpose16(r: [__m512; 16]) -> [__m512; 16] {
    // SAFETY: the caller guarantees that the processor has AVX-512F.
    unsafe {
        let zero = _mm512_setzero_ps();
        // fours[j][p]: quarter q holds column 4q + j of the rows 4p to 4p + 3.
        let mut fours = [[zero; 4]; 4];
        for p in 0..4 {
            let ab_l = _mm512_unpacklo_ps(r[4 * p], r[4 * p + 1]);
            let ab_h = _mm512_unpackhi_ps(r[4 * p], r[4 * p + 1]);
            let cd_l = _mm512_unpacklo_ps(r[4 * p + 2], r[4 * p + 3]);
            let cd_h = _mm512_unpackhi_ps(r[4 * p + 2], r[4 * p + 3]);
            fours[0][p] = _mm512_shuffle_ps::<0x44>(ab_l, cd_l);
            fours[1][p] = _mm512_shuffle_ps::<0xEE>(ab_l, cd_l);
            fours[2][p] = _mm512_shuffle_ps::<0x44>(ab_h, cd_h);
            fours[3][p] = _mm512_shuffle_ps::<0xEE>(ab_h, cd_h);
        }
        let mut out = [zero; 16];
        for j in 0..4 {
            let four = fours[j];
            // Quarters 0 and 2 of two groups of four rows, then quarters 1 and 3.
            let a = _mm512_shuffle_f32x4::<0x88>(four[0], four[1]);
            let b = _mm512_shuffle_f32x4::<0x88>(four[2], four[3]);
            let c = _mm512_shuffle_f32x4::<0xDD>(four[0], four[1]);
            let d = _mm512_shuffle_f32x4::<0xDD>(four[2], four[3]);
            out[j] = _mm512_shuffle_f32x4::<0x88>(a, b);
            out[j + 8] = _mm512_shuffle_f32x4::<0xDD>(a, b);
            out[j + 4] = _mm512_shuffle_f32x4::<0x88>(c, d);
            out[j + 12] = _mm512_shuffle_f32x4::<0xDD>(c, d);
        }
        out
    }
}

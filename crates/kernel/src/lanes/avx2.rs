//! Vectors of 256 bits: four doubles or eight floats.
//!
//! This code may run only if the processor has AVX2; the functions that dispatch to it check that.

use core::arch::x86_64::*;

use super::Vector;

// The instructions for min and max return the second operand if either is NaN, as `Lane` requires.
lanes! {
    /// A vector of four doubles.
    F64x4(__m256d): 4 of f64, masks __m256d;
    add _mm256_add_pd; sub _mm256_sub_pd; mul _mm256_mul_pd; div _mm256_div_pd;
    splat |value| _mm256_set1_pd(value);
    neg |a| _mm256_xor_pd(a, _mm256_set1_pd(-0.0));
    abs |a| _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
    sqrt |a| _mm256_sqrt_pd(a);
    less |a, b| _mm256_cmp_pd::<_CMP_LT_OQ>(a, b);
    equal |a, b| _mm256_cmp_pd::<_CMP_EQ_OQ>(a, b);
    choose |mask, yes, no| _mm256_blendv_pd(no, yes, mask);
    min |a, b| _mm256_min_pd(a, b);
    max |a, b| _mm256_max_pd(a, b);
}

lanes! {
    /// A vector of eight floats.
    F32x8(__m256): 8 of f32, masks __m256;
    add _mm256_add_ps; sub _mm256_sub_ps; mul _mm256_mul_ps; div _mm256_div_ps;
    splat |value| _mm256_set1_ps(value);
    neg |a| _mm256_xor_ps(a, _mm256_set1_ps(-0.0));
    abs |a| _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
    sqrt |a| _mm256_sqrt_ps(a);
    less |a, b| _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
    equal |a, b| _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
    choose |mask, yes, no| _mm256_blendv_ps(no, yes, mask);
    min |a, b| _mm256_min_ps(a, b);
    max |a, b| _mm256_max_ps(a, b);
}

impl Vector for F64x4 {
    type Element = f64;
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX2, see the top of the file.
        F64x4(unsafe { _mm256_load_pd(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX2, see the top of the file.
        unsafe { _mm256_store_pd(to, self.0) }
    }

    #[inline(always)]
    fn from_above(self, above: Self) -> Self {
        // SAFETY: the processor has AVX2, see the top of the file.
        F64x4(unsafe {
            // [above 2 3, self 0 1]; then the upper value of each half of it beside the lower one
            // of `self`.
            let middle = _mm256_permute2f128_pd::<0x21>(above.0, self.0);
            _mm256_shuffle_pd::<0b0101>(middle, self.0)
        })
    }

    #[inline(always)]
    fn from_below(self, below: Self) -> Self {
        // SAFETY: the processor has AVX2, see the top of the file.
        F64x4(unsafe {
            // [self 2 3, below 0 1].
            let middle = _mm256_permute2f128_pd::<0x21>(self.0, below.0);
            _mm256_shuffle_pd::<0b0101>(self.0, middle)
        })
    }

    #[inline(always)]
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
        // SAFETY: the processor has AVX2, see the top of the file.
        F64x4(unsafe {
            let place = _mm256_setr_epi64x(1, 2, 4, 8);
            let set = _mm256_and_si256(_mm256_set1_epi64x(i64::from(bits)), place);
            let mask = _mm256_cmpeq_epi64(set, place);
            _mm256_blendv_pd(no.0, yes.0, _mm256_castsi256_pd(mask))
        })
    }

    #[inline(always)]
    fn greatest(self) -> f64 {
        let [a, b, c, d] = self.values();
        a.greater(b).greater(c).greater(d)
    }

    #[inline(always)]
    unsafe fn transpose_in(from: *const f64, pitch: isize, to: *mut f64, stride: usize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX2, see the top of the file.
        unsafe {
            let columns = transpose(
                _mm256_loadu_pd(from),
                _mm256_loadu_pd(from.offset(pitch)),
                _mm256_loadu_pd(from.offset(2 * pitch)),
                _mm256_loadu_pd(from.offset(3 * pitch)),
            );
            _mm256_storeu_pd(to, columns[0]);
            _mm256_storeu_pd(to.add(stride), columns[1]);
            _mm256_storeu_pd(to.add(2 * stride), columns[2]);
            _mm256_storeu_pd(to.add(3 * stride), columns[3]);
        }
    }

    #[inline(always)]
    unsafe fn transpose_out(from: *const f64, stride: usize, to: *mut f64, pitch: isize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX2, see the top of the file.
        unsafe {
            let rows = transpose(
                _mm256_loadu_pd(from),
                _mm256_loadu_pd(from.add(stride)),
                _mm256_loadu_pd(from.add(2 * stride)),
                _mm256_loadu_pd(from.add(3 * stride)),
            );
            _mm256_storeu_pd(to, rows[0]);
            _mm256_storeu_pd(to.offset(pitch), rows[1]);
            _mm256_storeu_pd(to.offset(2 * pitch), rows[2]);
            _mm256_storeu_pd(to.offset(3 * pitch), rows[3]);
        }
    }
}

/// Transposes a matrix of four by four.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn transpose(a: __m256d, b: __m256d, c: __m256d, d: __m256d) -> [__m256d; 4] {
    // SAFETY: the caller guarantees that the processor has AVX2.
    unsafe {
        let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
        [
            _mm256_permute2f128_pd::<0x20>(ab_even, cd_even),
            _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd),
            _mm256_permute2f128_pd::<0x31>(ab_even, cd_even),
            _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
        ]
    }
}

impl Vector for F32x8 {
    type Element = f32;
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX2, see the top of the file.
        F32x8(unsafe { _mm256_load_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees the alignment and the values; the processor has
        // AVX2, see the top of the file.
        unsafe { _mm256_store_ps(to, self.0) }
    }

    #[inline(always)]
    fn from_above(self, above: Self) -> Self {
        // SAFETY: the processor has AVX2, see the top of the file.
        F32x8(unsafe {
            let (own, above) = (_mm256_castps_si256(self.0), _mm256_castps_si256(above.0));
            // [above 4..8, self 0..4]; then, in each half, the last value of it before the first
            // three of `own`.
            let middle = _mm256_permute2x128_si256::<0x21>(above, own);
            _mm256_castsi256_ps(_mm256_alignr_epi8::<12>(own, middle))
        })
    }

    #[inline(always)]
    fn from_below(self, below: Self) -> Self {
        // SAFETY: the processor has AVX2, see the top of the file.
        F32x8(unsafe {
            let (own, below) = (_mm256_castps_si256(self.0), _mm256_castps_si256(below.0));
            // [self 4..8, below 0..4].
            let middle = _mm256_permute2x128_si256::<0x21>(own, below);
            _mm256_castsi256_ps(_mm256_alignr_epi8::<4>(middle, own))
        })
    }

    #[inline(always)]
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
        // SAFETY: the processor has AVX2, see the top of the file.
        F32x8(unsafe {
            let place = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(bits.cast_signed()), place);
            let mask = _mm256_cmpeq_epi32(set, place);
            _mm256_blendv_ps(no.0, yes.0, _mm256_castsi256_ps(mask))
        })
    }

    #[inline(always)]
    fn greatest(self) -> f64 {
        self.values().into_iter().reduce(Vector::greater).map_or(0.0, f64::from)
    }

    #[inline(always)]
    unsafe fn transpose_in(from: *const f32, pitch: isize, to: *mut f32, stride: usize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX2, see the top of the file.
        unsafe {
            let mut rows = [_mm256_setzero_ps(); 8];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm256_loadu_ps(from.offset(i as isize * pitch));
            }
            for (j, column) in transpose8(rows).into_iter().enumerate() {
                _mm256_storeu_ps(to.add(j * stride), column);
            }
        }
    }

    #[inline(always)]
    unsafe fn transpose_out(from: *const f32, stride: usize, to: *mut f32, pitch: isize) {
        // SAFETY: the caller guarantees that the rows and the vectors are accessible; the
        // processor has AVX2, see the top of the file.
        unsafe {
            let mut columns = [_mm256_setzero_ps(); 8];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = _mm256_loadu_ps(from.add(j * stride));
            }
            for (i, row) in transpose8(columns).into_iter().enumerate() {
                _mm256_storeu_ps(to.offset(i as isize * pitch), row);
            }
        }
    }
}

/// Transposes a matrix of eight by eight: pairs, then groups of four, then halves.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn transpose8([a, b, c, d, e, f, g, h]: [__m256; 8]) -> [__m256; 8] {
    // SAFETY: the caller guarantees that the processor has AVX2.
    unsafe {
        let (ab_l, ab_h) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd_l, cd_h) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let (ef_l, ef_h) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
        let (gh_l, gh_h) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
        // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four rows each.
        let abcd = [
            _mm256_shuffle_ps::<0x44>(ab_l, cd_l),
            _mm256_shuffle_ps::<0xEE>(ab_l, cd_l),
            _mm256_shuffle_ps::<0x44>(ab_h, cd_h),
            _mm256_shuffle_ps::<0xEE>(ab_h, cd_h),
        ];
        let efgh = [
            _mm256_shuffle_ps::<0x44>(ef_l, gh_l),
            _mm256_shuffle_ps::<0xEE>(ef_l, gh_l),
            _mm256_shuffle_ps::<0x44>(ef_h, gh_h),
            _mm256_shuffle_ps::<0xEE>(ef_h, gh_h),
        ];
        [
            _mm256_permute2f128_ps::<0x20>(abcd[0], efgh[0]),
            _mm256_permute2f128_ps::<0x20>(abcd[1], efgh[1]),
            _mm256_permute2f128_ps::<0x20>(abcd[2], efgh[2]),
            _mm256_permute2f128_ps::<0x20>(abcd[3], efgh[3]),
            _mm256_permute2f128_ps::<0x31>(abcd[0], efgh[0]),
            _mm256_permute2f128_ps::<0x31>(abcd[1], efgh[1]),
            _mm256_permute2f128_ps::<0x31>(abcd[2], efgh[2]),
            _mm256_permute2f128_ps::<0x31>(abcd[3], efgh[3]),
        ]
    }
}

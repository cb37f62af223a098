//! Lanes: one value or several side by side, with which kernels compute.
//!
//! ```text
//! [`Lane`]    arithmetic per value: the operations of a kernel, with the same meaning at any width
//! Vector      loads, stores, shifts, transposes: the additional operations of the engine
//!
//!             values of f64   of f32      chosen at run time on
//! scalar            1            1        every machine
//! avx2              4            8        x86-64 with AVX2
//! avx512            8           16        x86-64 with AVX-512F
//! neon              2            4        aarch64
//! ```
//!
//! Every operation rounds each value as the scalar operation does, so the results have the same
//! bits at all widths. NaNs are the exception: only the fact that a value is NaN is the same.
//! Which of two NaNs a sum returns depends on the order of its operands, which the compiler may
//! exchange.
//!
//! # How a kernel gets the instructions
//! A function compiled for AVX-512 is marked `#[target_feature]`. The engine has one such function
//! per instruction set, in `lanes/dispatch.rs`. The loops and the steps of rules have their own.
//! All functions that these call are `#[inline(always)]` and become part of them.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

use syncline_store::Element;

use crate::compiled::Compiled;

/// Defines a vector type from a table of its operations on this processor.
///
/// `SAFETY` of every operation: values of the type exist only in code that was compiled for the
/// instruction set and that is dispatched to only on a processor with these instructions; see the
/// top of the module.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! lanes {
    (
        $(#[$doc:meta])*
        $type:ident($raw:ty): $width:literal of $element:ty, masks $mask:ty;
        add $add:ident; sub $sub:ident; mul $mul:ident; div $div:ident;
        splat |$value:ident| $splat:expr;
        neg |$n:ident| $neg:expr;
        abs |$a:ident| $abs:expr;
        sqrt |$s:ident| $sqrt:expr;
        less |$l1:ident, $l2:ident| $less:expr;
        equal |$e1:ident, $e2:ident| $equal:expr;
        choose |$mask_of:ident, $yes:ident, $no:ident| $choose:expr;
        min |$m1:ident, $m2:ident| $min:expr;
        max |$x1:ident, $x2:ident| $max:expr;
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[repr(transparent)]
        pub struct $type($raw);

        lanes!(@operator $type: Add add $add);
        lanes!(@operator $type: Sub sub $sub);
        lanes!(@operator $type: Mul mul $mul);
        lanes!(@operator $type: Div div $div);

        impl std::ops::Neg for $type {
            type Output = $type;
            #[inline(always)]
            fn neg(self) -> $type {
                let $n = self.0;
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $neg })
            }
        }

        impl $crate::lanes::Lane for $type {
            type Mask = $mask;

            #[inline(always)]
            fn splat(value: f64) -> Self {
                let $value = value as $element;
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $splat })
            }

            #[inline(always)]
            fn less(self, other: Self) -> $mask {
                let ($l1, $l2) = (self.0, other.0);
                // SAFETY: the processor has the instructions, see the macro.
                unsafe { $less }
            }

            #[inline(always)]
            fn equal(self, other: Self) -> $mask {
                let ($e1, $e2) = (self.0, other.0);
                // SAFETY: the processor has the instructions, see the macro.
                unsafe { $equal }
            }

            #[inline(always)]
            fn choose(mask: $mask, yes: Self, no: Self) -> Self {
                let ($mask_of, $yes, $no) = (mask, yes.0, no.0);
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $choose })
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let ($m1, $m2) = (self.0, other.0);
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $min })
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let ($x1, $x2) = (self.0, other.0);
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $max })
            }

            #[inline(always)]
            fn abs(self) -> Self {
                let $a = self.0;
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $abs })
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                let $s = self.0;
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $sqrt })
            }
        }

        impl $type {
            #[inline(always)]
            fn values(self) -> [$element; $width] {
                let mut values = [0.0; $width];
                // SAFETY: the array has the size of the vector, and the store is unaligned.
                unsafe { std::ptr::from_mut(&mut values).cast::<Self>().write_unaligned(self) };
                values
            }
        }
    };
    (@operator $type:ident: $trait:ident $method:ident $instruction:ident) => {
        impl std::ops::$trait for $type {
            type Output = $type;
            #[inline(always)]
            fn $method(self, other: $type) -> $type {
                // SAFETY: the processor has the instructions, see the macro.
                $type(unsafe { $instruction(self.0, other.0) })
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[doc(hidden)]
pub mod dispatch;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;

/// One value, or several at once, of one type, with arithmetic per value.
///
/// ```
/// # extern crate syncline_kernel as syncline_wave;
/// use syncline_wave::Lane;
///
/// fn clamped<L: Lane>(x: L) -> L {
///     x.min(L::splat(1.0)).max(L::splat(-1.0))
/// }
/// // A plain number is a lane of one value.
/// assert_eq!(clamped(3.0_f64), 1.0);
/// ```
pub trait Lane:
    Copy
    + Debug
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The result of a comparison, per value.
    type Mask: Copy + Debug;

    /// Returns a lane with this number in every value, rounded to the type.
    fn splat(value: f64) -> Self;

    /// Returns `self < other` per value; false if either is NaN.
    fn less(self, other: Self) -> Self::Mask;

    /// Returns `self == other` per value; false if either is NaN.
    fn equal(self, other: Self) -> Self::Mask;

    /// Returns, per value, `yes` where the mask is set and `no` elsewhere.
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Returns the lesser: per value `if self < other { self } else { other }`, so `other` if
    /// either is NaN.
    fn min(self, other: Self) -> Self;

    /// Returns the greater: per value `if self > other { self } else { other }`, so `other` if
    /// either is NaN.
    fn max(self, other: Self) -> Self;

    /// Returns the absolute value.
    fn abs(self) -> Self;

    /// Returns the square root, correctly rounded.
    fn sqrt(self) -> Self;
}

/// Lanes that the engine can load, store and move: [`WIDTH`](Self::WIDTH) values, aligned to their
/// total size.
///
/// Each method compiles to one or a few instructions when it is inlined into a function with the
/// `#[target_feature]` of the vector, which is the only place where it may be used.
#[expect(
    clippy::wrong_self_convention,
    reason = "values come in from above or below, not the vector"
)]
pub trait Vector: Lane {
    /// The type of a value.
    type Element: Element;
    /// The number of values.
    const WIDTH: usize;

    /// Loads a vector from `from`.
    ///
    /// # Safety
    /// `from` must be aligned to the size of the vector and valid for reads of `WIDTH` values.
    unsafe fn load(from: *const Self::Element) -> Self;

    /// Stores the vector to `to`.
    ///
    /// # Safety
    /// `to` must be aligned to the size of the vector and valid for writes of `WIDTH` values.
    unsafe fn store(self, to: *mut Self::Element);

    /// Shifts the values up by one position; the last value of `above` comes in first:
    /// `[above[W-1], self[0..W-1]]`.
    fn from_above(self, above: Self) -> Self;

    /// Shifts the values down by one position; the first value of `below` comes in last:
    /// `[self[1..W], below[0]]`.
    fn from_below(self, below: Self) -> Self;

    /// Returns, per value, `yes` where the bit is set (bit 0 for the first value) and `no`
    /// elsewhere.
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self;

    /// Returns, per value, `yes` where `self <= other` and `no` elsewhere; `no` if either is NaN.
    #[inline(always)]
    fn choose_at_most(self, other: Self, yes: Self, no: Self) -> Self {
        Self::choose(self.less(other), yes, Self::choose(self.equal(other), yes, no))
    }

    /// Returns a norm raised to the change of values from `old` to `new`, per value: 0 if they are
    /// equal or both NaN; NaN, which is greater than any number, if one of them is.
    #[inline(always)]
    fn raised(self, old: Self, new: Self) -> Self {
        // The maximum is the norm where the difference is NaN: of two NaNs, of two infinities of
        // one sign, and of a NaN and a number, which alone makes `one` NaN.
        let grown = (new - old).abs().max(self);
        let of_nan = Self::choose(new.equal(new), old, Self::splat(0.0));
        let one = Self::choose(old.equal(old), new, of_nan);
        Self::choose(one.equal(one), grown, one)
    }

    /// Returns the greater of a norm and a change, per value; NaN is greater than any number.
    #[inline(always)]
    fn greater(self, change: Self) -> Self {
        // A NaN `change` is not equal to itself, so it is chosen; a NaN norm is not less than any
        // change, so it stays.
        let grown = Self::choose(self.less(change), change, self);
        Self::choose(change.equal(change), grown, change)
    }

    /// Returns the greatest of the values; NaN is greater than any number.
    fn greatest(self) -> f64;

    /// Transposes a square: value `j` of row `i`, at `from + i * pitch + j`, becomes value `i` of
    /// the vector at `to + j * stride`.
    ///
    /// # Safety
    /// * Each row must be valid for reads of `WIDTH` values.
    /// * Each vector must be valid for writes. All need be aligned only as values.
    unsafe fn transpose_in(
        from: *const Self::Element,
        pitch: isize,
        to: *mut Self::Element,
        stride: usize,
    );

    /// Reverses [`transpose_in`](Self::transpose_in): value `i` of the vector at `from + j *
    /// stride` becomes value `j` of row `i`, at `to + i * pitch`.
    ///
    /// # Safety
    /// * Each vector must be valid for reads. All need be aligned only as values.
    /// * Each row must be valid for writes of `WIDTH` values.
    unsafe fn transpose_out(
        from: *const Self::Element,
        stride: usize,
        to: *mut Self::Element,
        pitch: isize,
    );
}

/// Prefetches the cache line of an address, which need not be valid: into the first-level cache,
/// or, if `LATER`, into the second-level cache.
#[inline(always)]
#[doc(hidden)]
pub fn prefetch<const LATER: bool, E>(at: *const E) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and the instruction accepts any address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if LATER {
            _mm_prefetch::<_MM_HINT_T1>(at.cast())
        } else {
            _mm_prefetch::<_MM_HINT_T0>(at.cast())
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Marks the crate that may name the vectors of a type, which is this one. Another crate could use
/// the vectors, in safe code, on a machine that does not have their instructions.
pub trait Insider {}

/// The implementer that the engine uses.
#[derive(Debug)]
pub(crate) enum Engine {}

/// A second implementer: if there were only one, the compiler would infer it.
#[derive(Debug)]
#[expect(dead_code, reason = "it only prevents the inference of `Engine`")]
pub(crate) enum Nobody {}

impl Insider for Engine {}
impl Insider for Nobody {}

/// An element type in which sweeps compute: `f64` or `f32`.
///
/// Its vectors cannot be named outside of the engine:
/// ```compile_fail,E0283
/// # extern crate syncline_kernel as syncline_wave;
/// use syncline_wave::{Lane, lanes::Real};
/// fn anywhere<T: Real>() -> f64 {
///     <<T as Real>::Avx512<_> as Lane>::splat(1.0);
///     1.0
/// }
/// ```
pub trait Real: Vector<Element = Self> + Element + Compiled + bytemuck::Pod {
    /// The vector of 256 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx2<I: Insider>: Vector<Element = Self>;
    /// The vector of 512 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx512<I: Insider>: Vector<Element = Self>;
    /// The vector of 128 bits.
    #[cfg(target_arch = "aarch64")]
    type Neon<I: Insider>: Vector<Element = Self>;
}

impl Real for f64 {
    #[cfg(target_arch = "x86_64")]
    type Avx2<I: Insider> = avx2::F64x4;
    #[cfg(target_arch = "x86_64")]
    type Avx512<I: Insider> = avx512::F64x8;
    #[cfg(target_arch = "aarch64")]
    type Neon<I: Insider> = neon::F64x2;
}

impl Real for f32 {
    #[cfg(target_arch = "x86_64")]
    type Avx2<I: Insider> = avx2::F32x8;
    #[cfg(target_arch = "x86_64")]
    type Avx512<I: Insider> = avx512::F32x16;
    #[cfg(target_arch = "aarch64")]
    type Neon<I: Insider> = neon::F32x4;
}

/// The vectors with which a sweep computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lanes {
    /// One value at a time.
    Scalar,
    /// 256 bits: x86-64 with AVX2.
    Avx2,
    /// 512 bits: x86-64 with AVX-512F.
    Avx512,
    /// 128 bits: aarch64.
    Neon,
}

impl Lanes {
    /// All kinds, from the narrowest to the widest.
    const ALL: [Lanes; 4] = [Lanes::Scalar, Lanes::Neon, Lanes::Avx2, Lanes::Avx512];

    /// Returns the kinds that this machine has, from the narrowest to the widest. The first is
    /// always [`Scalar`](Lanes::Scalar).
    pub fn available() -> impl Iterator<Item = Lanes> {
        Lanes::ALL.into_iter().filter(|lanes| lanes.is_available())
    }

    /// Returns the fastest kind on this machine: the widest one that its arithmetic units compute
    /// at once.
    ///
    /// A processor that has AVX-512 but computes its vectors in two halves (AMD's Zen 4) gets AVX2:
    /// it updates the same number of points per second, in strips of half as many rows, which take
    /// less memory and less cache.
    #[must_use]
    pub fn best() -> Lanes {
        let whole = |lanes: &Lanes| *lanes != Lanes::Avx512 || !halves_512();
        Lanes::available().filter(whole).last().unwrap_or(Lanes::Scalar)
    }

    /// Returns whether this machine has this kind.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Lanes::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Returns the number of values of `bytes` bytes each that it computes at once.
    #[must_use]
    #[inline]
    pub const fn width(self, bytes: usize) -> usize {
        match self {
            Lanes::Scalar => 1,
            Lanes::Neon => 16 / bytes,
            Lanes::Avx2 => 32 / bytes,
            Lanes::Avx512 => 64 / bytes,
        }
    }
}

/// Returns whether the processor computes vectors of 512 bits, if it has any, in two halves.
fn halves_512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;

        /// The CPUID leaf that describes the width of the arithmetic units. Only AMD processors
        /// have it.
        const WIDTHS: u32 = 0x8000_001a;
        // SAFETY: every x86-64 processor has the CPUID instruction.
        #[allow(unused_unsafe, reason = "safe in newer versions of the standard library")]
        let (last, widths) = unsafe { (__cpuid(0x8000_0000).eax, __cpuid(WIDTHS).eax) };
        last >= WIDTHS && are_256(widths)
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns whether `widths` has the bit for 256 bits (FP256, bit 2) but not for 512 bits (FP512,
/// bit 3).
#[cfg(target_arch = "x86_64")]
const fn are_256(widths: u32) -> bool {
    widths & 0b1100 == 0b0100
}

impl std::fmt::Display for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Lanes::Scalar => "scalar",
            Lanes::Avx2 => "avx2",
            Lanes::Avx512 => "avx512",
            Lanes::Neon => "neon",
        })
    }
}

#[cfg(test)]
mod tests;

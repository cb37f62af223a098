//! One value or several side by side: what kernels compute with.
//!
//! ```text
//! [`Lane`]    arithmetic per value: what a kernel may use          one trait, the same meaning at any width
//! Vector      loads, stores, shifts, transposes: what the engine needs beside it
//!
//!             values of f64   of f32      chosen at run time by
//! scalar            1            1        (always there)
//! avx2              4            8        x86-64 with AVX2
//! avx512            8           16        x86-64 with AVX-512F
//! neon              2            4        aarch64
//! ```
//!
//! Every operation rounds each value as the scalar one does. That is what makes all widths equal
//! bit for bit; NaNs are the exception, of which only that they are NaNs is the same.
//!
//! # How a kernel gets the instructions
//! A function compiled for AVX-512 is marked `#[target_feature]`; there is one such per set of
//! instructions, at the bottom of the engine's files. All that it calls is `#[inline(always)]` and
//! so becomes part of it.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

use syncline_store::Element;

use crate::dynamic::Compiled;

/// A vector of several values, from a table of what its operations are on this processor.
///
/// `SAFETY` of all that it makes: only code that was compiled for a processor with the
/// instructions, and is dispatched to on such a one, has values of the type; see the top of the
/// module.
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
                // SAFETY: see the macro.
                $type(unsafe { $neg })
            }
        }

        impl $crate::lanes::Lane for $type {
            type Mask = $mask;

            #[inline(always)]
            fn splat(value: f64) -> Self {
                let $value = value as $element;
                // SAFETY: see the macro.
                $type(unsafe { $splat })
            }

            #[inline(always)]
            fn less(self, other: Self) -> $mask {
                let ($l1, $l2) = (self.0, other.0);
                // SAFETY: see the macro.
                unsafe { $less }
            }

            #[inline(always)]
            fn equal(self, other: Self) -> $mask {
                let ($e1, $e2) = (self.0, other.0);
                // SAFETY: see the macro.
                unsafe { $equal }
            }

            #[inline(always)]
            fn choose(mask: $mask, yes: Self, no: Self) -> Self {
                let ($mask_of, $yes, $no) = (mask, yes.0, no.0);
                // SAFETY: see the macro.
                $type(unsafe { $choose })
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let ($m1, $m2) = (self.0, other.0);
                // SAFETY: see the macro.
                $type(unsafe { $min })
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let ($x1, $x2) = (self.0, other.0);
                // SAFETY: see the macro.
                $type(unsafe { $max })
            }

            #[inline(always)]
            fn abs(self) -> Self {
                let $a = self.0;
                // SAFETY: see the macro.
                $type(unsafe { $abs })
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                let $s = self.0;
                // SAFETY: see the macro.
                $type(unsafe { $sqrt })
            }
        }

        impl $type {
            #[inline(always)]
            fn values(self) -> [$element; $width] {
                let mut values = [0.0; $width];
                // SAFETY: the array holds one vector.
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
                // SAFETY: see the macro.
                $type(unsafe { $instruction(self.0, other.0) })
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;

/// One value, or several at once, of one type: arithmetic per value.
///
/// ```
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
    /// The answer of a comparison, per value.
    type Mask: Copy + Debug;

    /// This number in every value, rounded to the type.
    fn splat(value: f64) -> Self;

    /// Per value `self < other`; false if either is not a number.
    fn less(self, other: Self) -> Self::Mask;

    /// Per value `self == other`; false if either is not a number.
    fn equal(self, other: Self) -> Self::Mask;

    /// Per value `yes` where the mask is set, or else `no`.
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// The lesser: per value `if self < other { self } else { other }`, so `other` if either is not
    /// a number.
    fn min(self, other: Self) -> Self;

    /// The greater: per value `if self > other { self } else { other }`, so `other` if either is
    /// not a number.
    fn max(self, other: Self) -> Self;

    /// The absolute value.
    fn abs(self) -> Self;

    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
}

/// Lanes that the engine can move: [`WIDTH`](Self::WIDTH) values, aligned to their size.
///
/// All methods compile to one or a few instructions when inlined into a function with the
/// instructions' features, which is the only place where they may be used.
#[expect(
    clippy::wrong_self_convention,
    reason = "values come in from above or below, not the vector"
)]
pub trait Vector: Lane {
    /// The type of a value.
    type Element: Element;
    /// How many values.
    const WIDTH: usize;

    /// Loads from `from`.
    ///
    /// # Safety
    /// `from` is aligned to the vector's size and valid for reading `WIDTH` values.
    unsafe fn load(from: *const Self::Element) -> Self;

    /// Stores to `to`.
    ///
    /// # Safety
    /// `to` is aligned to the vector's size and valid for writing `WIDTH` values.
    unsafe fn store(self, to: *mut Self::Element);

    /// The values moved one place up, the last of `above` coming in first: `[above[W-1],
    /// self[0..W-1]]`.
    fn from_above(self, above: Self) -> Self;

    /// The values moved one place down, the first of `below` coming in last: `[self[1..W],
    /// below[0]]`.
    fn from_below(self, below: Self) -> Self;

    /// Per value `yes` where the bit is set (bit 0 for the first), or else `no`.
    fn choose_bits(bits: u32, yes: Self, no: Self) -> Self;

    /// The greater of a norm and a change; what is not a number is greater than all.
    #[inline(always)]
    fn greater(self, change: Self) -> Self {
        // A change that is no number is not equal to itself, and a norm that is none stays.
        let grown = Self::choose(self.less(change), change, self);
        Self::choose(change.equal(change), grown, change)
    }

    /// The greatest of the values, by the same rule.
    fn greatest(self) -> f64;

    /// Transposes a square: value `j` of row `i`, at `from + i * pitch + j`, becomes value `i` of
    /// the vector at `to + j * stride`.
    ///
    /// # Safety
    /// The rows are valid for reading `WIDTH` values each, the vectors for writing, aligned to
    /// their size.
    unsafe fn transpose_in(
        from: *const Self::Element,
        pitch: isize,
        to: *mut Self::Element,
        stride: usize,
    );

    /// The way back: value `i` of the vector at `from + j * stride` becomes value `j` of row `i`.
    ///
    /// # Safety
    /// The vectors are valid for reading, aligned to their size, and the rows for writing.
    unsafe fn transpose_out(
        from: *const Self::Element,
        stride: usize,
        to: *mut Self::Element,
        pitch: isize,
    );
}

/// Asks for the cache line of an address, which need not be valid: for soon, or for later into the
/// second cache.
#[inline(always)]
pub(crate) fn prefetch<const LATER: bool, E>(at: *const E) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it accepts any address.
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

/// The crate that may name the vectors of a type: this one. With another's they could be used, in
/// safe code, on a machine that has not their instructions.
pub trait Insider {}

/// The implementer in this crate.
#[derive(Debug)]
pub(crate) enum Engine {}

/// A second implementer: with one alone the compiler would infer it.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be another")]
pub(crate) enum Nobody {}

impl Insider for Engine {}
impl Insider for Nobody {}

/// A type of values that sweeps compute in: `f64` or `f32`.
///
/// Its vectors cannot be had outside of the engine:
/// ```compile_fail,E0283
/// use syncline_wave::{Lane, lanes::Real};
/// fn anywhere<T: Real>() -> f64 {
///     <<T as Real>::Avx512<_> as Lane>::splat(1.0);
///     1.0
/// }
/// ```
pub trait Real: Vector<Element = Self> + Element + Compiled {
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx2<I: Insider>: Vector<Element = Self>;
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx512<I: Insider>: Vector<Element = Self>;
    /// 128 bits.
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

/// Which vectors a sweep computes with.
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
    /// All kinds, the narrowest first.
    const ALL: [Lanes; 4] = [Lanes::Scalar, Lanes::Neon, Lanes::Avx2, Lanes::Avx512];

    /// The kinds that this machine has, the narrowest first; the first is always
    /// [`Scalar`](Lanes::Scalar).
    pub fn available() -> impl Iterator<Item = Lanes> {
        Lanes::ALL.into_iter().filter(|lanes| lanes.is_available())
    }

    /// The kind that is the fastest on this machine: the widest that its arithmetic has.
    ///
    /// A processor that has AVX-512 and computes its vectors in two halves (AMD's Zen 4) gets AVX2:
    /// it updates as many points per second, in strips of half as many rows, which take less memory
    /// and less cache.
    #[must_use]
    pub fn best() -> Lanes {
        let whole = |lanes: &Lanes| *lanes != Lanes::Avx512 || !halves_512();
        Lanes::available().filter(whole).last().unwrap_or(Lanes::Scalar)
    }

    /// Whether this machine has it.
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

    /// How many values of `bytes` bytes each it computes at once.
    #[must_use]
    pub const fn width(self, bytes: usize) -> usize {
        match self {
            Lanes::Scalar => 1,
            Lanes::Neon => 16 / bytes,
            Lanes::Avx2 => 32 / bytes,
            Lanes::Avx512 => 64 / bytes,
        }
    }
}

/// Whether vectors of 512 bits, if there are any, are computed in two halves.
fn halves_512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;

        /// The leaf that tells the width of the arithmetic. Only AMD's processors have it.
        const WIDTHS: u32 = 0x8000_001a;
        // SAFETY: all processors of 64 bits have the instruction.
        #[allow(unused_unsafe, reason = "safe in newer versions of the standard library")]
        let (last, widths) = unsafe { (__cpuid(0x8000_0000).eax, __cpuid(WIDTHS).eax) };
        last >= WIDTHS && are_256(widths)
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether the widths say 256 bits (FP256, bit 2) and no more (FP512, bit 3).
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

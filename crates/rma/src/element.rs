//! What global memory is made of.

pub use num_complex::Complex;

use bytemuck::Pod;

use crate::copy::Whole;

/// A plain value: any bytes are one, and it has no padding.
pub trait Element: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Element for T {}

/// A number that can be added to another in place: `i32`, `i64`, `f32`, `f64`, and complex numbers of the last two.
///
/// Integers wrap around. Sums of floating-point numbers depend on the order, which is not determined.
pub trait Number: Element + std::ops::Mul<Output = Self> + sealed::Sealed {
    /// Which one: what is sent between hosts.
    #[doc(hidden)]
    const KIND: ElementKind;

    /// 1.
    #[doc(hidden)]
    const ONE: Self;

    /// The product; of integers, what of it has room.
    #[doc(hidden)]
    #[must_use]
    fn times(self, factor: Self) -> Self {
        self * factor
    }

    /// Adds to a number that others may change at the same time.
    ///
    /// # Safety
    /// `at` points to an aligned number in memory that all access as `copy` does.
    #[doc(hidden)]
    unsafe fn add_to(self, at: *mut Self);
}

/// The types of numbers, as they are sent.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ElementKind {
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `Complex<f32>`.
    C32,
    /// `Complex<f64>`.
    C64,
}

impl ElementKind {
    pub(crate) const ALL: [ElementKind; 6] = [
        ElementKind::I32,
        ElementKind::I64,
        ElementKind::F32,
        ElementKind::F64,
        ElementKind::C32,
        ElementKind::C64,
    ];

    /// Adds the numbers of `bytes` to those from `at` on.
    ///
    /// # Safety
    /// From `at` on there are as many bytes of shared memory, and `at` is aligned for the type.
    pub(crate) unsafe fn add(self, at: *mut u8, bytes: &[u8]) {
        // SAFETY: handed on.
        unsafe {
            match self {
                ElementKind::I32 => add_all::<i32>(at, bytes),
                ElementKind::I64 => add_all::<i64>(at, bytes),
                ElementKind::F32 | ElementKind::C32 => add_all::<f32>(at, bytes),
                ElementKind::F64 | ElementKind::C64 => add_all::<f64>(at, bytes),
            }
        }
    }

    /// Bytes of one, and what its address must be a multiple of.
    pub(crate) fn size(self) -> usize {
        match self {
            ElementKind::I32 | ElementKind::F32 => 4,
            ElementKind::I64 | ElementKind::F64 | ElementKind::C32 => 8,
            ElementKind::C64 => 16,
        }
    }
}

/// # Safety
/// As [`ElementKind::add`].
unsafe fn add_all<T: Number>(at: *mut u8, bytes: &[u8]) {
    for (index, value) in bytes.chunks_exact(size_of::<T>()).enumerate() {
        let value: T = bytemuck::pod_read_unaligned(value);
        // SAFETY: inside the bytes that the caller vouches for, and aligned as the first one is.
        unsafe { value.add_to(at.cast::<T>().add(index)) };
    }
}

macro_rules! number {
    ($($number:ty, $kind:ident, $word:ty);*) => {$(
        impl sealed::Sealed for $number {}

        impl Number for $number {
            const KIND: ElementKind = ElementKind::$kind;
            const ONE: Self = 1 as $number;

            #[inline]
            unsafe fn add_to(self, at: *mut Self) {
                let sum = |word| (<$number>::from_bits(word) + self).to_bits();
                // SAFETY: the caller guarantees an aligned number, which is a word.
                unsafe { <$word>::update(at.cast(), sum) }
            }
        }
    )*};
}

number!(f64, F64, u64; f32, F32, u32);

impl sealed::Sealed for i64 {}

impl Number for i64 {
    const KIND: ElementKind = ElementKind::I64;
    const ONE: Self = 1;

    #[inline]
    fn times(self, factor: Self) -> Self {
        self.wrapping_mul(factor)
    }

    #[inline]
    unsafe fn add_to(self, at: *mut Self) {
        // SAFETY: the caller guarantees an aligned number, which is a word.
        unsafe { (self as u64).fetch_add(at.cast()) };
    }
}

impl sealed::Sealed for i32 {}

impl Number for i32 {
    const KIND: ElementKind = ElementKind::I32;
    const ONE: Self = 1;

    #[inline]
    fn times(self, factor: Self) -> Self {
        self.wrapping_mul(factor)
    }

    #[inline]
    unsafe fn add_to(self, at: *mut Self) {
        // SAFETY: the caller guarantees an aligned number, which is a word.
        unsafe { (self as u32).fetch_add(at.cast()) };
    }
}

macro_rules! complex {
    ($($part:ty, $kind:ident);*) => {$(
        impl sealed::Sealed for Complex<$part> {}

        impl Number for Complex<$part> {
            const KIND: ElementKind = ElementKind::$kind;
            const ONE: Self = Complex { re: 1.0, im: 0.0 };

            #[inline]
            unsafe fn add_to(self, at: *mut Self) {
                let parts = at.cast::<$part>();
                // SAFETY: the caller guarantees an aligned number, which is its two parts; each is added by itself.
                unsafe {
                    self.re.add_to(parts);
                    self.im.add_to(parts.add(1));
                }
            }
        }
    )*};
}

complex!(f32, C32; f64, C64);

mod sealed {
    /// No other type is a number: both ends of a message must know them.
    pub trait Sealed {}
}

//! The element types of global memory.

pub use num_complex::Complex;

use bytemuck::Pod;

use crate::copy::Whole;

/// A plain value that threads may share: every bit pattern is valid, and the type has no padding.
pub trait Element: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Element for T {}

/// A type that `accumulate` can add: `i32`, `i64`, `f32`, `f64`, and complex numbers of the last
/// two.
///
/// Integers wrap around. The two parts of a complex number are added one after the other, so a
/// concurrent reader may see one of them new and the other old. Sums of floating-point numbers
/// depend on the order of the additions, which is unspecified.
pub trait Number: Element + std::ops::Mul<Output = Self> + sealed::Sealed {
    /// The tag of the type in messages.
    #[doc(hidden)]
    const KIND: ElementKind;

    /// The number 1.
    #[doc(hidden)]
    const ONE: Self;

    /// Returns the product; of integers, the wrapped product.
    #[doc(hidden)]
    #[must_use]
    fn times(self, factor: Self) -> Self {
        self * factor
    }

    /// Adds to a number that other members may change at the same time.
    ///
    /// # Safety
    /// `at` must be aligned, and valid for reads and writes of a number, in memory that all threads
    /// access only by the operations of the modules `copy` and `rmw`.
    #[doc(hidden)]
    unsafe fn add_to(self, at: *mut Self);
}

/// The types of numbers, as they appear in messages.
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

    /// Adds the numbers in `bytes` to those from `at` on.
    ///
    /// # Safety
    /// `at` must point to at least `bytes.len()` bytes of shared memory, and must be aligned for
    /// the type.
    pub(crate) unsafe fn add(self, at: *mut u8, bytes: &[u8]) {
        // SAFETY: the conditions are the same: the caller guarantees them (see `# Safety`). A part
        // of a complex number has no greater alignment than the number.
        unsafe {
            match self {
                ElementKind::I32 => add_all::<i32>(at, bytes),
                ElementKind::I64 => add_all::<i64>(at, bytes),
                ElementKind::F32 | ElementKind::C32 => add_all::<f32>(at, bytes),
                ElementKind::F64 | ElementKind::C64 => add_all::<f64>(at, bytes),
            }
        }
    }

    /// Returns the number of bytes of a number, of which its offset must be a multiple.
    pub(crate) fn size(self) -> usize {
        match self {
            ElementKind::I32 | ElementKind::F32 => 4,
            ElementKind::I64 | ElementKind::F64 | ElementKind::C32 => 8,
            ElementKind::C64 => 16,
        }
    }
}

/// Adds the numbers in `bytes`, as numbers of one type, to those from `at` on.
///
/// # Safety
/// As [`ElementKind::add`].
unsafe fn add_all<T: Number>(at: *mut u8, bytes: &[u8]) {
    for (index, value) in bytes.chunks_exact(size_of::<T>()).enumerate() {
        let value: T = bytemuck::pod_read_unaligned(value);
        // SAFETY: the number is inside the `bytes.len()` bytes at `at`, which are valid for reads
        // and writes, and which all threads access only by `copy` and `rmw`: the caller guarantees
        // it (see `# Safety`). It is aligned, as `at` is.
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
                // SAFETY: `at` is aligned and valid for reads and writes of a word of this size,
                // which all threads access only by `copy` and `rmw`: the caller guarantees it (see
                // `# Safety`).
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
        // SAFETY: `at` is aligned and valid for reads and writes of a word of this size, which all
        // threads access only by `copy` and `rmw`: the caller guarantees it (see `# Safety`).
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
        // SAFETY: `at` is aligned and valid for reads and writes of a word of this size, which all
        // threads access only by `copy` and `rmw`: the caller guarantees it (see `# Safety`).
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
                // SAFETY: `at` is aligned and valid for reads and writes of a number, which
                // consists of two aligned parts, in memory that all threads access only by `copy`
                // and `rmw`: the caller guarantees it (see `# Safety`).
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
    /// The trait is sealed: both ends of a message must know each type of number.
    pub trait Sealed {}
}

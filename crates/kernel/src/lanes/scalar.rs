//! Plain numbers as lanes of one value.

use super::{Lane, Vector};

macro_rules! scalar {
    ($type:ty) => {
        impl Lane for $type {
            type Mask = bool;

            #[inline(always)]
            fn splat(value: f64) -> Self {
                value as $type
            }

            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }

            #[inline(always)]
            fn equal(self, other: Self) -> bool {
                self == other
            }

            #[inline(always)]
            fn choose(mask: bool, yes: Self, no: Self) -> Self {
                if mask { yes } else { no }
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self < other { self } else { other }
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other { self } else { other }
            }

            #[inline(always)]
            fn abs(self) -> Self {
                <$type>::abs(self)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                <$type>::sqrt(self)
            }
        }

        impl Vector for $type {
            type Element = $type;
            const WIDTH: usize = 1;

            #[inline(always)]
            unsafe fn load(from: *const $type) -> Self {
                // SAFETY: the caller guarantees that `from` is aligned and valid for reads of one
                // value.
                unsafe { from.read() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $type) {
                // SAFETY: the caller guarantees that `to` is aligned and valid for writes of one
                // value.
                unsafe { to.write(self) }
            }

            #[inline(always)]
            fn from_above(self, above: Self) -> Self {
                above
            }

            #[inline(always)]
            fn from_below(self, below: Self) -> Self {
                below
            }

            #[inline(always)]
            fn choose_bits(bits: u32, yes: Self, no: Self) -> Self {
                if bits & 1 == 1 { yes } else { no }
            }

            #[inline(always)]
            fn choose_at_most(self, other: Self, yes: Self, no: Self) -> Self {
                if self <= other { yes } else { no }
            }

            #[inline(always)]
            fn greatest(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            unsafe fn transpose_in(from: *const $type, _: isize, to: *mut $type, _: usize) {
                // SAFETY: the square has one value; the caller guarantees that `from` is valid for
                // reads and `to` for writes.
                unsafe { to.write(from.read()) }
            }

            #[inline(always)]
            unsafe fn transpose_out(from: *const $type, _: usize, to: *mut $type, _: isize) {
                // SAFETY: the square has one value; the caller guarantees that `from` is valid for
                // reads and `to` for writes.
                unsafe { to.write(from.read()) }
            }
        }
    };
}

scalar!(f32);
scalar!(f64);

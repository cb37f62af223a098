//! Elements of types that Rust lacks: float16, and bytes of bool.
//!
//! # Contract
//! Conversions of float16 are those of IEEE 754: to a wider type exact, from a wider type to the
//! nearest value, of two equally near ones to the even one. What is too large becomes infinity.
//!
//! ```text
//! bit  15    14 .. 10   9 .. 0
//!      sign  exponent   fraction     (1 + fraction / 1024) * 2^(exponent - 15)
//!            0                       fraction / 1024 * 2^-14
//!            31                      infinity, or NaN if the fraction is not 0
//! ```

use std::fmt;

/// A number of float16, by its bits.
///
/// ```
/// use syncline_store::array::Half;
/// assert_eq!(Half::from_f64(0.1).to_f64(), 0.0999755859375);
/// assert_eq!(Half::from_f64(1e6).to_f64(), f64::INFINITY);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Half(pub u16);

impl Half {
    /// Returns the nearest number of float16; ties go to even.
    #[inline]
    #[must_use]
    pub fn from_f64(value: f64) -> Self {
        /// The bits of a fraction that float16 does not have.
        const BEYOND: u32 = 52 - 10;
        const INFINITY: u64 = f64::INFINITY.to_bits();
        /// 65520, from which on numbers are nearer to what would be the next power of two.
        const TOO_LARGE: u64 = 65_520.0_f64.to_bits();
        /// 2^-14, the least number with a full fraction.
        const NORMAL: u64 = 0.000_061_035_156_25_f64.to_bits();
        let bits = value.to_bits();
        let (sign, size) = ((bits >> 48) as u16 & 0x8000, bits & !(1 << 63));
        let magnitude = match size {
            INFINITY.. if size > INFINITY => 0x7e00 | (size >> BEYOND) as u16 & 0x3ff,
            TOO_LARGE.. => 0x7c00,
            NORMAL.. => {
                // Just below a half of the last bit; a half, if the last bit is odd.
                let half = (1 << (BEYOND - 1)) - 1 + (size >> BEYOND & 1);
                // The exponent counts from -15 in place of -1023. A carry raises it.
                (((size + half) >> BEYOND) - ((1023 - 15) << 10)) as u16
            }
            // The sum has no room for the bits below 2^-24, and rounds them.
            _ => {
                let whole = 4_503_599_627_370_496.0; // 2^52
                ((f64::from_bits(size) * 16_777_216.0 + whole).to_bits() & 0x7ff) as u16
            }
        };
        Half(sign | magnitude)
    }

    /// Returns the number as one of float32, which is exact.
    #[inline]
    #[must_use]
    pub fn to_f32(self) -> f32 {
        let (sign, size) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let magnitude = match size {
            // A fraction of 2^-14.
            ..0x400 => (size as f32 / 16_777_216.0).to_bits(),
            0x7c00.. => 0x7f80_0000 | (size & 0x3ff) << 13,
            _ => (size << 13) + ((127 - 15) << 23),
        };
        f32::from_bits(sign | magnitude)
    }

    /// Returns the number as one of float64, which is exact.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.to_f32().into()
    }

    /// Returns whether this is not a number.
    #[must_use]
    pub const fn is_nan(self) -> bool {
        self.0 & 0x7fff > 0x7c00
    }
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

/// A byte of bool: false if it is 0, and true otherwise. numpy writes 0 and 1 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Bool(value.into())
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.0 != 0
    }
}

impl fmt::Display for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("False"),
            1 => f.write_str("True"),
            other => write!(f, "True (the byte {other})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of the bits, by the definition.
    fn defined(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff) / 1024.0);
        let size = match exponent {
            0 => fraction * 2_f64.powi(-14),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction) * 2_f64.powi(exponent - 15),
        };
        if bits >> 15 == 1 { -size } else { size }
    }

    #[test]
    fn every_pattern_is_exact_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (half, defined) = (Half(bits), defined(bits));
            assert_eq!(half.is_nan(), defined.is_nan(), "{bits:x}");
            if defined.is_nan() {
                assert!(half.to_f32().is_nan() && Half::from_f64(half.to_f64()).is_nan());
                assert_eq!(Half::from_f64(half.to_f64()).0 >> 15, bits >> 15);
            } else {
                assert_eq!(half.to_f64().to_bits(), defined.to_bits(), "{bits:x}");
                assert_eq!(Half::from_f64(defined), half, "{bits:x}");
            }
        }
    }

    #[test]
    fn numbers_between_two_go_to_the_nearest_and_ties_to_the_even_one() {
        // Above the greatest number lies, for rounding, what would be the next one.
        for low in 0..0x7c00_u16 {
            let next = if low == 0x7bff { 65_536.0 } else { defined(low + 1) };
            let middle = (defined(low) + next) / 2.0;
            let even = if low % 2 == 0 { low } else { low + 1 };
            for (number, expected) in [
                (middle, even),
                (middle.next_down(), low),
                (middle.next_up(), low + 1),
                (defined(low).next_up(), low),
                (next.next_down(), low + 1),
            ] {
                assert_eq!(Half::from_f64(number).0, expected, "{number}");
                assert_eq!(Half::from_f64(-number).0, 0x8000 | expected, "-{number}");
            }
            // From float32 a number goes through float64, which is exact.
            assert_eq!(Half::from_f64(f64::from(middle as f32)).0, even, "{middle}");
        }
        for tiny in [1e-320, f64::MIN_POSITIVE, 2_f64.powi(-25)] {
            assert_eq!((Half::from_f64(tiny).0, Half::from_f64(-tiny).0), (0, 0x8000));
        }
        for large in [65_520.0, 1e300, f64::INFINITY] {
            assert_eq!((Half::from_f64(large).0, Half::from_f64(-large).0), (0x7c00, 0xfc00));
        }
        assert_eq!(Half::from_f64(65_519.999).0, 0x7bff);
    }
}

//! Functions of one value, by which executors compute where there is no instruction for vectors.
//!
//! # Contract
//! `exp`, `log`, `sin` and `cos` are those of the platform's mathematical library for the type of
//! the value, as Rust and C call them. Their last bits depend on the library. `floor` and the
//! remainder are exact, and the same everywhere.

use syncline_store::{Element, ElementType};

use super::graph::Unary;

/// Real numbers with the functions of descriptions.
pub(crate) trait Real: Copy {
    fn floored(self) -> Self;
    fn function(self, op: Unary) -> Self;
    /// Returns the remainder, which has the sign of the divisor: that of Python and numpy.
    fn remainder(self, by: Self) -> Self;
}

macro_rules! reals {
    ($($real:ty),*) => {$(
        impl Real for $real {
            #[inline(always)]
            fn floored(self) -> Self { self.floor() }
            #[inline(always)]
            fn function(self, op: Unary) -> Self {
                match op {
                    Unary::Neg => -self,
                    Unary::Abs => self.abs(),
                    Unary::Sqrt => self.sqrt(),
                    Unary::Floor => self.floor(),
                    Unary::Exp => self.exp(),
                    Unary::Log => self.ln(),
                    Unary::Sin => self.sin(),
                    Unary::Cos => self.cos(),
                }
            }
            #[inline(always)]
            fn remainder(self, by: Self) -> Self {
                // The remainder of the quotient that is rounded towards 0, which is exact.
                let rest = self % by;
                if rest == 0.0 {
                    (0.0 as $real).copysign(by)
                } else if (rest < 0.0) != (by < 0.0) {
                    rest + by
                } else {
                    rest
                }
            }
        }
    )*};
}

reals!(f64, f32);

/// Computes with values of an element type, whose conversions to float64 are exact.
macro_rules! by_type {
    ($E:ident, |$($value:ident),*| $result:expr) => {
        match $E::TYPE {
            ElementType::Float32 => {
                $(let $value = $value.to_f64() as f32;)*
                $E::from_f64(f64::from($result))
            }
            _ => {
                $(let $value = $value.to_f64();)*
                $E::from_f64($result)
            }
        }
    };
}

/// Returns the greatest whole number that is at most the value.
#[inline(always)]
pub(crate) fn floor<E: Element>(value: E) -> E {
    by_type!(E, |value| value.floored())
}

/// Returns the result of a function.
#[inline(always)]
pub(crate) fn function<E: Element>(op: Unary, value: E) -> E {
    by_type!(E, |value| value.function(op))
}

/// Returns the remainder.
#[inline(always)]
pub(crate) fn remainder<E: Element>(value: E, by: E) -> E {
    by_type!(E, |value, by| value.remainder(by))
}

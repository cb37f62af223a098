//! Operators on polynomials, and their text.

use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};

use super::Poly;

impl Neg for &Poly {
    type Output = Poly;

    fn neg(self) -> Poly {
        // SAFETY: polynomials of the ring.
        self.new_from(|flint, to, context| unsafe { (flint.neg)(to, self.raw(), context) })
    }
}

macro_rules! operators {
    ($($operator:ident, $method:ident, $function:ident;)*) => {$(
        impl $operator for &Poly {
            type Output = Poly;

            fn $method(self, other: &Poly) -> Poly {
                self.check(other);
                self.new_from(|flint, to, context| {
                    // SAFETY: polynomials of one ring.
                    unsafe { (flint.$function)(to, self.raw(), other.raw(), context) }
                })
            }
        }
    )*};
}

operators! {
    Add, add, add;
    Sub, sub, sub;
    Mul, mul, mul;
}

/// Writes the terms in descending lexicographic order, with coefficients from -p/2 to p/2:
/// `3*x^2*y - y + 1`.
impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let prime = self.ring.prime();
        for (index, (coefficient, exponents)) in self.terms().enumerate() {
            let negative = coefficient > prime / 2;
            f.write_str(match (index, negative) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            let size = if negative { prime - coefficient } else { coefficient };
            let mut separator = "";
            if size != 1 || exponents.iter().all(|&e| e == 0) {
                write!(f, "{size}")?;
                separator = "*";
            }
            for (name, exponent) in self.ring.names().iter().zip(exponents) {
                match exponent {
                    0 => continue,
                    1 => write!(f, "{separator}{name}")?,
                    _ => write!(f, "{separator}{name}^{exponent}")?,
                }
                separator = "*";
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

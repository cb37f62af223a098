//! Rings of polynomials.

use std::ffi::c_ulong;
use std::fmt;
use std::rc::Rc;

use super::{Level, Poly};
use crate::error::SolveError;
use crate::flint::{Const, Flint, Opaque, flint};
use crate::modular;

/// The polynomials over Z/p in some variables, which are ordered.
#[derive(Clone)]
pub struct Ring(pub(super) Rc<RingData>);

pub(super) struct RingData {
    pub(super) flint: &'static Flint,
    /// The context of FLINT, which keeps its place as long as the ring lives.
    context: Box<[u64; 512]>,
    prime: u64,
    /// The names of the variables, greatest first.
    names: Vec<String>,
}

impl RingData {
    pub(super) fn context(&self) -> Const {
        self.context.as_ptr().cast()
    }
}

impl Drop for RingData {
    fn drop(&mut self) {
        // SAFETY: the context was initialised in `Ring::new`, and all polynomials, which hold the
        // ring, are gone.
        unsafe { (self.flint.ctx_clear)(self.context.as_mut_ptr().cast()) }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Z/{}[{}]", self.0.prime, self.0.names.join(", "))
    }
}

impl PartialEq for Ring {
    fn eq(&self, other: &Ring) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
            || (self.0.prime == other.0.prime && self.0.names == other.0.names)
    }
}

impl Eq for Ring {}

/// The largest exponent of a variable.
pub const MAX_EXPONENT: u64 = 1 << 30;

/// FLINT's number for the lexicographic order.
pub(super) const ORD_LEX: i32 = 0;

impl Ring {
    /// Creates the ring of the polynomials over Z/`prime` in the variables `names`, greatest first.
    ///
    /// # Errors
    /// [`SolveError::Flint`] where FLINT is not installed, [`SolveError::NotPrime`] and
    /// [`SolveError::LargePrime`].
    ///
    /// # Panics
    /// Without a variable.
    pub fn new(names: &[String], prime: u64) -> Result<Ring, SolveError> {
        assert!(!names.is_empty(), "a ring has at least one variable");
        let flint = flint()?;
        if !modular::is_prime(prime) {
            return Err(SolveError::NotPrime { modulus: prime.to_string() });
        }
        if prime >> 63 != 0 {
            return Err(SolveError::LargePrime { prime: prime.to_string() });
        }
        let mut context = Box::new([0; 512]);
        // SAFETY: the context has room (see the head of `flint`); the modulus is not zero.
        unsafe {
            (flint.ctx_init)(context.as_mut_ptr().cast(), names.len() as i64, ORD_LEX, prime);
        }
        Ok(Ring(Rc::new(RingData { flint, context, prime, names: names.to_vec() })))
    }

    /// Returns the characteristic.
    #[must_use]
    pub fn prime(&self) -> u64 {
        self.0.prime
    }

    /// Returns the number of variables.
    #[must_use]
    pub fn variables(&self) -> usize {
        self.0.names.len()
    }

    /// Returns the names of the variables, greatest first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Returns the name of the variable of a level.
    #[must_use]
    pub fn name(&self, level: Level) -> &str {
        &self.0.names[self.index(level)]
    }

    /// FLINT's number of a variable: 0 is the greatest.
    pub(super) fn index(&self, level: Level) -> usize {
        assert!((1..=self.variables()).contains(&level), "no variable has the level {level}");
        self.variables() - level
    }

    /// Returns the polynomial 0.
    #[must_use]
    pub fn zero(&self) -> Poly {
        let mut body = [0; 8];
        // SAFETY: the memory has room, and the context is initialised.
        unsafe { (self.0.flint.init)(body.as_mut_ptr().cast(), self.0.context()) };
        Poly { body, ring: self.clone() }
    }

    /// Returns a constant.
    #[must_use]
    pub fn constant(&self, value: u64) -> Poly {
        let mut poly = self.zero();
        // SAFETY: an initialised polynomial of this ring.
        unsafe { (self.0.flint.set_ui)(poly.raw_mut(), value % self.prime(), self.0.context()) };
        poly
    }

    /// Returns the variable of a level.
    #[must_use]
    pub fn variable(&self, level: Level) -> Poly {
        let mut poly = self.zero();
        let index = self.index(level) as i64;
        // SAFETY: an initialised polynomial, and a variable of the ring.
        unsafe { (self.0.flint.generator)(poly.raw_mut(), index, self.0.context()) };
        poly
    }

    /// Returns the sum of terms, each of which is a coefficient and the exponents of the variables,
    /// greatest variable first. Terms may have the same exponents, in any order.
    ///
    /// # Panics
    /// If a term does not have one exponent of at most [`MAX_EXPONENT`] for each variable.
    #[must_use]
    pub fn from_terms<'t>(&self, terms: impl IntoIterator<Item = (u64, &'t [u64])>) -> Poly {
        let mut poly = self.zero();
        let (flint, context) = (self.0.flint, self.0.context());
        let mut last: Option<&[u64]> = None;
        let mut is_canonical = true;
        for (coefficient, exponents) in terms {
            assert!(exponents.iter().all(|&e| e <= MAX_EXPONENT), "an exponent is too large");
            assert_eq!(exponents.len(), self.variables(), "one exponent for each variable");
            let coefficient = coefficient % self.prime();
            is_canonical &= coefficient != 0 && last.is_none_or(|last| last > exponents);
            last = Some(exponents);
            // SAFETY: there are as many exponents as variables.
            unsafe {
                (flint.push_term_ui_ui)(poly.raw_mut(), coefficient, exponents.as_ptr(), context);
            }
        }
        if !is_canonical {
            // SAFETY: terms in any order become a polynomial in canonical form by these two calls.
            unsafe {
                (flint.sort_terms)(poly.raw_mut(), context);
                (flint.combine_like_terms)(poly.raw_mut(), context);
            }
        }
        poly
    }

    /// Returns the polynomial in the variable of `level` with these coefficients, which do not
    /// contain it, the constant one first.
    ///
    /// # Panics
    /// If a coefficient is of another ring.
    #[must_use]
    pub fn from_coefficients(&self, level: Level, coefficients: &[Poly]) -> Poly {
        assert!(coefficients.iter().all(|c| c.ring == *self), "coefficients of another ring");
        assert!(coefficients.len() as u64 <= MAX_EXPONENT, "an exponent is too large");
        let mut univar = [0_u64; 8];
        let univar: Opaque = univar.as_mut_ptr().cast();
        let mut poly = self.zero();
        let (flint, context) = (self.0.flint, self.0.context());
        // SAFETY: the memory has room; all coefficients are polynomials of this ring; the structure
        // is cleared after its last use.
        unsafe {
            (flint.univar_init)(univar, context);
            for (exponent, coefficient) in coefficients.iter().enumerate().rev() {
                if !coefficient.is_zero() {
                    (flint.univar_set_coeff_ui)(
                        univar,
                        exponent as c_ulong,
                        coefficient.raw(),
                        context,
                    );
                }
            }
            (flint.from_univar)(poly.raw_mut(), univar, self.index(level) as i64, context);
            (flint.univar_clear)(univar, context);
        }
        poly
    }
}

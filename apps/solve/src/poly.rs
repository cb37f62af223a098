//! Polynomials over Z/p in many variables: a safe form of FLINT's `nmod_mpoly`.
//!
//! # Levels
//! The variables of a [`Ring`] are ordered. The level of a variable is its position in that order,
//! from 1 for the smallest to n for the greatest; level 0 stands for the constants. The main
//! variable of a polynomial is the greatest variable that occurs in it.
//!
//! A polynomial is seen in two ways: as distributed terms ([`Poly::terms`]), which is how FLINT
//! stores it, in lexicographic order; and recursively, as a polynomial in one variable with
//! polynomials as coefficients ([`Poly::coefficients`]).

mod extension;
mod operators;
mod ring;

use crate::flint::{Const, Flint, Opaque};
pub(crate) use extension::Extension;
pub use ring::{MAX_EXPONENT, Ring};

/// The position of a variable in the order of its ring, from 1; 0 for constants.
pub type Level = usize;

/// A polynomial: see [`Ring`].
pub struct Poly {
    /// The structure of FLINT, which may be moved in memory.
    body: [u64; 8],
    ring: Ring,
}

impl Drop for Poly {
    fn drop(&mut self) {
        // SAFETY: initialised when the polynomial was created, and cleared once.
        unsafe { (self.ring.0.flint.clear)(self.body.as_mut_ptr().cast(), self.ring.0.context()) }
    }
}

impl Clone for Poly {
    fn clone(&self) -> Poly {
        let mut copy = self.ring.zero();
        // SAFETY: both are polynomials of the ring.
        unsafe { (self.flint().set)(copy.raw_mut(), self.raw(), self.context()) };
        copy
    }
}

impl PartialEq for Poly {
    fn eq(&self, other: &Poly) -> bool {
        self.check(other);
        // SAFETY: both are polynomials of the ring.
        unsafe { (self.flint().equal)(self.raw(), other.raw(), self.context()) != 0 }
    }
}

impl Eq for Poly {}

/// One factor of a polynomial and its multiplicity.
pub type Factor = (Poly, u32);

impl Poly {
    fn raw(&self) -> Const {
        self.body.as_ptr().cast()
    }

    fn raw_mut(&mut self) -> Opaque {
        self.body.as_mut_ptr().cast()
    }

    /// FLINT would read beyond the terms of a polynomial of another ring.
    fn check(&self, other: &Poly) {
        assert_eq!(self.ring, other.ring, "polynomials of different rings");
    }

    fn flint(&self) -> &'static Flint {
        self.ring.0.flint
    }

    fn context(&self) -> Const {
        self.ring.0.context()
    }

    /// Returns the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the number of terms.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "`is_zero` is its name")]
    pub fn len(&self) -> usize {
        // SAFETY: a polynomial of the ring.
        unsafe { (self.flint().length)(self.raw(), self.context()) as usize }
    }

    /// Returns whether it is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether it contains no variable.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.main_level() == 0
    }

    /// Returns its value if it is a constant.
    #[must_use]
    pub fn constant_value(&self) -> Option<u64> {
        if self.is_zero() {
            return Some(0);
        }
        self.is_constant().then(|| self.term(0).0)
    }

    /// Returns the level of its main variable; 0 for a constant.
    #[must_use]
    pub fn main_level(&self) -> Level {
        if self.is_zero() {
            return 0;
        }
        // In lexicographic order, the main variable is the first one in the leading term.
        let exponents = self.term(0).1;
        exponents.iter().position(|&e| e > 0).map_or(0, |index| self.ring.variables() - index)
    }

    /// Returns the coefficient and the exponents of a term, greatest variable first.
    fn term(&self, index: usize) -> (u64, Vec<u64>) {
        let mut exponents = vec![0; self.ring.variables()];
        (self.copy_term(index, &mut exponents), exponents)
    }

    /// Copies the exponents of a term, greatest variable first, and returns its coefficient.
    ///
    /// # Panics
    /// If there is no such term, or not one exponent for each variable.
    pub(crate) fn copy_term(&self, index: usize, exponents: &mut [u64]) -> u64 {
        assert!(index < self.len(), "a polynomial of {} terms has no term {index}", self.len());
        assert_eq!(exponents.len(), self.ring.variables(), "one exponent for each variable");
        // SAFETY: the polynomial has that term, and there is room for the exponents. They are those
        // of polynomials in memory, so they fit.
        unsafe {
            let (flint, context) = (self.flint(), self.context());
            (flint.get_term_exp_ui)(exponents.as_mut_ptr(), self.raw(), index as i64, context);
            (flint.get_term_coeff_ui)(self.raw(), index as i64, context)
        }
    }

    /// Returns the terms in descending lexicographic order: each has a coefficient and the
    /// exponents of the variables, greatest variable first.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = (u64, Vec<u64>)> + '_ {
        (0..self.len()).map(|index| self.term(index))
    }

    /// Returns the degree in a variable; 0 for the polynomial 0.
    #[must_use]
    pub fn degree(&self, level: Level) -> usize {
        let index = self.ring.index(level) as i64;
        // SAFETY: a polynomial of the ring, and one of its variables.
        let degree = unsafe { (self.flint().degree_si)(self.raw(), index, self.context()) };
        degree.max(0) as usize
    }

    /// Returns the total degree; 0 for the polynomial 0.
    #[must_use]
    pub fn total_degree(&self) -> usize {
        // SAFETY: a polynomial of the ring.
        unsafe { (self.flint().total_degree_si)(self.raw(), self.context()).max(0) as usize }
    }

    /// Returns the degree in the main variable.
    #[must_use]
    pub fn main_degree(&self) -> usize {
        match self.main_level() {
            0 => 0,
            level => self.degree(level),
        }
    }

    /// Returns the coefficients as a polynomial in the variable of `level`, the constant one first,
    /// zeros included. The polynomial 0 has none.
    #[must_use]
    pub fn coefficients(&self, level: Level) -> Vec<Poly> {
        if self.is_zero() {
            return Vec::new();
        }
        let mut univar = [0_u64; 8];
        let univar: Opaque = univar.as_mut_ptr().cast();
        let (flint, context) = (self.flint(), self.context());
        let mut coefficients =
            (0..=self.degree(level)).map(|_| self.ring.zero()).collect::<Vec<_>>();
        // SAFETY: the memory has room; the indices are those of existing terms; the structure is
        // cleared after its last use.
        unsafe {
            (flint.univar_init)(univar, context);
            (flint.to_univar)(univar, self.raw(), self.ring.index(level) as i64, context);
            for term in 0..(flint.univar_length)(univar, context) {
                let exponent = (flint.univar_exponent)(univar, term, context) as usize;
                (flint.univar_coefficient)(coefficients[exponent].raw_mut(), univar, term, context);
            }
            (flint.univar_clear)(univar, context);
        }
        coefficients
    }

    /// Returns the leading coefficient in the main variable; the polynomial itself if it is a
    /// constant.
    #[must_use]
    pub fn initial(&self) -> Poly {
        match self.main_level() {
            0 => self.clone(),
            level => self.leading_coefficient(level),
        }
    }

    /// Returns the leading coefficient in the variable of `level`, which may not occur; 0 for 0.
    #[must_use]
    pub fn leading_coefficient(&self, level: Level) -> Poly {
        let (index, degree) = (self.ring.index(level) as i64, self.degree(level) as u64);
        self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, and one of its variables with its exponent.
            unsafe { (flint.get_coeff_vars_ui)(to, self.raw(), &index, &degree, 1, context) }
        })
    }

    /// Returns whether the leading coefficient in the main variable is a constant. This takes no
    /// more than a look at two terms.
    #[must_use]
    pub fn has_constant_initial(&self) -> bool {
        let level = self.main_level();
        if level == 0 {
            return true;
        }
        // In lexicographic order, the terms of the initial come first.
        let index = self.ring.index(level);
        let lead = self.term(0).1;
        let is_power = lead.iter().enumerate().all(|(at, &e)| at == index || e == 0);
        is_power && (self.len() == 1 || self.term(1).1[index] < lead[index])
    }

    /// Returns the polynomial without its leading term in the variable of `level`.
    #[must_use]
    pub fn tail(&self, level: Level) -> Poly {
        let mut coefficients = self.coefficients(level);
        coefficients.pop();
        self.ring.from_coefficients(level, &coefficients)
    }

    /// Returns the product with a number.
    #[must_use]
    pub fn scale(&self, by: u64) -> Poly {
        self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, and a number below the prime.
            unsafe { (flint.scalar_mul_ui)(to, self.raw(), by % self.ring.prime(), context) }
        })
    }

    /// Returns a power.
    ///
    /// # Panics
    /// If its degree is greater than [`MAX_EXPONENT`].
    #[must_use]
    pub fn power(&self, exponent: u64) -> Poly {
        let degree = (self.total_degree() as u64).checked_mul(exponent);
        assert!(degree.is_some_and(|degree| degree <= MAX_EXPONENT), "a degree is too large");
        self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring.
            unsafe { (flint.pow_ui)(to, self.raw(), exponent, context) };
        })
    }

    /// Returns the quotient if `divisor` divides it.
    ///
    /// # Panics
    /// If the divisor is 0.
    #[must_use]
    pub fn divide_exactly(&self, divisor: &Poly) -> Option<Poly> {
        self.check(divisor);
        assert!(!divisor.is_zero(), "division by zero");
        let mut divides = 0;
        let quotient = self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, and the divisor is not zero.
            divides = unsafe { (flint.divides)(to, self.raw(), divisor.raw(), context) };
        });
        (divides != 0).then_some(quotient)
    }

    /// Returns the remainder after division by polynomials, in their order: no term of it is
    /// divisible by the leading term of one of them.
    ///
    /// # Panics
    /// If a divisor is 0.
    #[must_use]
    pub fn remainder(&self, divisors: &[&Poly]) -> Poly {
        divisors.iter().for_each(|divisor| self.check(divisor));
        assert!(divisors.iter().all(|divisor| !divisor.is_zero()), "division by zero");
        if divisors.is_empty() {
            return self.clone();
        }
        self.divided(divisors).1
    }

    /// Returns the quotient and the remainder after division by a polynomial: no term of the
    /// remainder is divisible by the leading term of the divisor.
    ///
    /// # Panics
    /// If the divisor is 0.
    #[must_use]
    pub fn divide(&self, divisor: &Poly) -> (Poly, Poly) {
        self.check(divisor);
        assert!(!divisor.is_zero(), "division by zero");
        let (mut quotients, remainder) = self.divided(&[divisor]);
        (quotients.remove(0), remainder)
    }

    fn divided(&self, divisors: &[&Poly]) -> (Vec<Poly>, Poly) {
        let mut quotients = divisors.iter().map(|_| self.ring.zero()).collect::<Vec<_>>();
        let to = quotients.iter_mut().map(Poly::raw_mut).collect::<Vec<_>>();
        let by = divisors.iter().map(|divisor| divisor.raw().cast_mut()).collect::<Vec<_>>();
        let remainder = self.new_from(|flint, remainder, context| {
            // SAFETY: as many quotients as divisors, all of them polynomials of the ring; the
            // divisors, which are not zero, are only read.
            unsafe {
                (flint.divrem_ideal)(
                    to.as_ptr(),
                    remainder,
                    self.raw(),
                    by.as_ptr(),
                    by.len() as i64,
                    context,
                );
            }
        });
        (quotients, remainder)
    }

    /// Returns the monic greatest common divisor; 0 if both are 0.
    ///
    /// # Panics
    /// If FLINT finds none, which is a fault.
    #[must_use]
    pub fn gcd(&self, other: &Poly) -> Poly {
        self.check(other);
        let mut found = 0;
        let gcd = self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring.
            found = unsafe { (flint.gcd)(to, self.raw(), other.raw(), context) };
        });
        assert!(found != 0, "FLINT finds no greatest common divisor");
        gcd
    }

    /// Returns the monic greatest common divisor of the coefficients of the polynomial in the
    /// variables of some levels; 0 for the polynomial 0.
    ///
    /// # Panics
    /// If FLINT finds none, which is a fault.
    #[must_use]
    pub fn content(&self, levels: &[Level]) -> Poly {
        let mut found = 0;
        let mut indices =
            levels.iter().map(|&level| self.ring.index(level) as i64).collect::<Vec<_>>();
        indices.sort_unstable();
        indices.dedup();
        let content = self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, and distinct variables of it.
            found = unsafe {
                let (at, len) = (indices.as_mut_ptr(), indices.len() as i64);
                (flint.content_vars)(to, self.raw(), at, len, context)
            };
        });
        assert!(found != 0, "FLINT finds no content");
        content.monic()
    }

    /// Returns the derivative by the variable of `level`.
    #[must_use]
    pub fn derivative(&self, level: Level) -> Poly {
        self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, and one of its variables.
            unsafe {
                (flint.derivative)(to, self.raw(), self.ring.index(level) as i64, context);
            }
        })
    }

    /// Returns the polynomial divided by its leading coefficient; 0 for 0.
    #[must_use]
    pub fn monic(&self) -> Poly {
        if self.is_zero() {
            return self.clone();
        }
        self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, and not zero.
            unsafe { (flint.make_monic)(to, self.raw(), context) }
        })
    }

    /// Returns the polynomial with a value for one variable.
    #[must_use]
    pub fn evaluate(&self, level: Level, value: u64) -> Poly {
        self.new_from(|flint, to, context| {
            // SAFETY: polynomials of the ring, one of its variables, a number below the prime.
            unsafe {
                let (index, value) = (self.ring.index(level) as i64, value % self.ring.prime());
                (flint.evaluate_one_ui)(to, self.raw(), index, value, context);
            }
        })
    }

    /// Returns the value at a point, greatest variable first.
    ///
    /// # Panics
    /// If the point does not have one value below the prime for each variable.
    #[must_use]
    pub fn value(&self, point: &[u64]) -> u64 {
        assert_eq!(point.len(), self.ring.variables(), "one value for each variable");
        assert!(point.iter().all(|&value| value < self.ring.prime()), "values below the prime");
        // SAFETY: there is a value for each variable.
        unsafe { (self.flint().evaluate_all_ui)(self.raw(), point.as_ptr(), self.context()) }
    }

    /// Returns the polynomial in another ring of the same prime: `levels[l]` is the new level of
    /// the variable of level `l`; `levels[0]` is unused.
    ///
    /// # Panics
    /// If there is no level for a variable that occurs.
    #[must_use]
    pub fn mapped(&self, ring: &Ring, levels: &[Level]) -> Poly {
        assert_eq!(self.ring.prime(), ring.prime(), "rings of different primes");
        let (here, there) = (self.ring.variables(), ring.variables());
        let terms = self
            .terms()
            .map(|(coefficient, exponents)| {
                let mut mapped = vec![0; there];
                for (index, &exponent) in exponents.iter().enumerate() {
                    if exponent > 0 {
                        mapped[there - levels[here - index]] += exponent;
                    }
                }
                (coefficient, mapped)
            })
            .collect::<Vec<_>>();
        ring.from_terms(terms.iter().map(|(coefficient, exponents)| (*coefficient, &exponents[..])))
    }

    /// Returns the irreducible factors, monic, with their multiplicities. Constants have none.
    ///
    /// # Panics
    /// If FLINT finds none, which is a fault.
    #[must_use]
    pub fn factor(&self) -> Vec<Factor> {
        if self.is_constant() {
            return Vec::new();
        }
        let mut structure = [0_u64; 8];
        let factors: Opaque = structure.as_mut_ptr().cast();
        let (flint, context) = (self.flint(), self.context());
        let mut found = Vec::new();
        // SAFETY: the memory has room; the indices are those of existing factors; the structure is
        // cleared after its last use.
        unsafe {
            (flint.factor_init)(factors, context);
            let done = (flint.factor)(factors, self.raw(), context);
            for index in 0..(flint.factor_length)(factors, context) {
                let exponent = (flint.factor_exponent)(factors, index, context);
                let base = self.new_from(|flint, to, context| {
                    (flint.factor_base)(to, factors, index, context)
                });
                found.push((base.monic(), exponent as u32));
            }
            (flint.factor_clear)(factors, context);
            assert!(done != 0, "FLINT cannot factor a polynomial of {} terms", self.len());
        }
        found
    }

    /// Returns what a function of FLINT has written into a new polynomial.
    fn new_from(&self, write: impl FnOnce(&Flint, Opaque, Const)) -> Poly {
        let mut poly = self.ring.zero();
        write(self.flint(), poly.raw_mut(), self.context());
        poly
    }
}

//! Polynomials over a field of q = p^m elements: a safe form of FLINT's `fq_nmod_mpoly`.

use std::fmt;

use super::ring::ORD_LEX;
use super::{Factor, Level, Poly, Ring};
use crate::flint::{Const, Flint, Opaque};

/// The polynomials of a ring whose least variable is a generator of a finite field. The other
/// variables are those of polynomials over that field.
pub(crate) struct Extension {
    ring: Ring,
    /// The irreducible polynomial of the generator.
    modulus: Poly,
    degree: usize,
    /// The context of the field, which keeps its place.
    field: Box<[u64; 64]>,
    /// The context of the polynomials, which keeps its place.
    context: Box<[u64; 512]>,
}

impl Drop for Extension {
    fn drop(&mut self) {
        // SAFETY: initialised in `Extension::new`; no polynomial outlives the function that made
        // it.
        unsafe {
            (self.flint().fq_ctx_clear)(self.context.as_mut_ptr().cast());
            (self.flint().field_clear)(self.field.as_mut_ptr().cast());
        }
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension({})", self.modulus)
    }
}

/// A number of a field: a polynomial in one variable over Z/p.
struct Number {
    body: [u64; 8],
    flint: &'static Flint,
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: initialised in `Number::new`, and cleared once.
        unsafe { (self.flint.number_clear)(self.raw()) }
    }
}

impl Number {
    fn new(ring: &Ring) -> Number {
        let mut number = Number { body: [0; 8], flint: ring.0.flint };
        // SAFETY: the memory has room, and the modulus is not zero.
        unsafe { (number.flint.number_init)(number.raw(), ring.prime()) };
        number
    }

    fn raw(&mut self) -> Opaque {
        self.body.as_mut_ptr().cast()
    }

    fn set(&mut self, exponent: usize, value: u64) {
        // SAFETY: an initialised number; the value is less than the prime.
        unsafe { (self.flint.number_set)(self.raw(), exponent as i64, value) }
    }

    fn get(&mut self, exponent: usize) -> u64 {
        // SAFETY: an initialised number; other coefficients than those that it has are 0.
        unsafe { (self.flint.number_get)(self.raw(), exponent as i64) }
    }
}

/// A polynomial over the field.
struct FieldPoly<'e> {
    body: [u64; 8],
    over: &'e Extension,
}

impl Drop for FieldPoly<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised in `FieldPoly::new`, and cleared once.
        unsafe { (self.over.flint().fq_clear)(self.raw_mut(), self.over.context()) }
    }
}

impl<'e> FieldPoly<'e> {
    fn new(over: &'e Extension) -> FieldPoly<'e> {
        let mut poly = FieldPoly { body: [0; 8], over };
        // SAFETY: the memory has room, and the context is initialised.
        unsafe { (over.flint().fq_init)(poly.raw_mut(), over.context()) };
        poly
    }

    fn raw(&self) -> Const {
        self.body.as_ptr().cast()
    }

    fn raw_mut(&mut self) -> Opaque {
        self.body.as_mut_ptr().cast()
    }
}

impl Extension {
    /// Creates the polynomials over the field of an irreducible polynomial in the least variable of
    /// its ring.
    ///
    /// # Panics
    /// If the ring has no other variable, or the polynomial is not one in the least variable alone.
    pub(crate) fn new(modulus: &Poly) -> Extension {
        let ring = modulus.ring().clone();
        assert!(ring.variables() > 1 && modulus.main_level() == 1, "a polynomial of a generator");
        let degree = modulus.degree(1);
        let mut number = Number::new(&ring);
        for (coefficient, exponents) in modulus.terms() {
            number.set(exponents[ring.variables() - 1] as usize, coefficient);
        }
        let (mut field, mut context) = (Box::new([0_u64; 64]), Box::new([0_u64; 512]));
        let (flint, variables) = (ring.0.flint, ring.variables() as i64 - 1);
        // SAFETY: both contexts have room (see the head of `flint`); FLINT copies the modulus, the
        // name and the field.
        unsafe {
            (flint.field_init)(field.as_mut_ptr().cast(), number.raw(), c"t".as_ptr());
            let of = field.as_ptr().cast();
            (flint.fq_ctx_init)(context.as_mut_ptr().cast(), variables, ORD_LEX, of);
        }
        Extension { ring, modulus: modulus.clone(), degree, field, context }
    }

    fn flint(&self) -> &'static Flint {
        self.ring.0.flint
    }

    fn context(&self) -> Const {
        self.context.as_ptr().cast()
    }

    /// Returns the degree of the field over Z/p.
    pub(crate) fn degree(&self) -> usize {
        self.degree
    }

    /// Returns the polynomial with numbers that are reduced by the polynomial of the generator.
    pub(crate) fn reduce(&self, p: &Poly) -> Poly {
        p.remainder(&[&self.modulus])
    }

    fn read(&self, p: &Poly) -> FieldPoly<'_> {
        let p = self.reduce(p);
        let n = self.ring.variables();
        let mut found = FieldPoly::new(self);
        let mut terms = p.terms().peekable();
        while let Some((coefficient, mut exponents)) = terms.next() {
            // In lexicographic order, the terms of a number follow one another.
            let mut number = Number::new(&self.ring);
            number.set(exponents.pop().expect("a generator") as usize, coefficient);
            while let Some((coefficient, next)) =
                terms.next_if(|(_, next)| next[..n - 1] == exponents)
            {
                number.set(next[n - 1] as usize, coefficient);
            }
            // SAFETY: polynomials and numbers of one field; as many exponents as variables. The
            // order of the terms is that of FLINT, and no number is zero.
            unsafe {
                let (to, context) = (found.raw_mut(), self.context());
                (self.flint().fq_push_term)(to, number.raw(), exponents.as_ptr(), context);
            }
        }
        found
    }

    fn write(&self, p: &FieldPoly<'_>) -> Poly {
        let n = self.ring.variables();
        // SAFETY: a polynomial of this context.
        let length = unsafe { (self.flint().fq_length)(p.raw(), self.context()) };
        let mut number = Number::new(&self.ring);
        let mut terms = Vec::new();
        for index in 0..length {
            let mut exponents = vec![0; n];
            // SAFETY: the polynomial has that term, and there is room for the exponents.
            unsafe {
                let (from, context) = (p.raw(), self.context());
                (self.flint().fq_get_term_coeff)(number.raw(), from, index, context);
                (self.flint().fq_get_term_exp_ui)(exponents.as_mut_ptr(), from, index, context);
            }
            for exponent in (0..self.degree).rev() {
                exponents[n - 1] = exponent as u64;
                match number.get(exponent) {
                    0 => (),
                    coefficient => terms.push((coefficient, exponents.clone())),
                }
            }
        }
        self.ring.from_terms(terms.iter().map(|(coefficient, e)| (*coefficient, e.as_slice())))
    }

    /// Returns the irreducible factors over the field, with leading coefficient 1, and their
    /// multiplicities. Constants have none.
    ///
    /// # Panics
    /// If FLINT finds none, which is a fault.
    pub(crate) fn factor(&self, p: &Poly) -> Vec<Factor> {
        let p = self.read(p);
        let mut structure = [0_u64; 16];
        let factors: Opaque = structure.as_mut_ptr().cast();
        let (flint, context) = (self.flint(), self.context());
        let mut found = Vec::new();
        // SAFETY: the memory has room; the indices are those of existing factors; the structure is
        // cleared after its last use.
        unsafe {
            (flint.fq_factor_init)(factors, context);
            let done = (flint.fq_factor)(factors, p.raw(), context);
            for index in 0..(flint.fq_factor_length)(factors, context) {
                let exponent = (flint.fq_factor_exponent)(factors, index, context);
                let mut base = FieldPoly::new(self);
                (flint.fq_factor_base)(base.raw_mut(), factors, index, context);
                let mut monic = FieldPoly::new(self);
                (flint.fq_make_monic)(monic.raw_mut(), base.raw(), context);
                found.push((self.write(&monic), exponent as u32));
            }
            (flint.fq_factor_clear)(factors, context);
            assert!(done != 0, "FLINT cannot factor a polynomial over {self:?}");
        }
        // In FLINT's random order otherwise.
        found.sort_by_cached_key(|(factor, _)| factor.to_string());
        found
    }

    /// Returns the resultant in the variable of `level`.
    ///
    /// # Panics
    /// If FLINT finds none, which is a fault.
    pub(crate) fn resultant(&self, a: &Poly, b: &Poly, level: Level) -> Poly {
        let (a, b) = (self.read(a), self.read(b));
        let mut found = FieldPoly::new(self);
        // SAFETY: polynomials of this context, and one of its variables.
        let done = unsafe {
            let (to, context) = (found.raw_mut(), self.context());
            let index = self.ring.index(level) as i64;
            (self.flint().fq_resultant)(to, a.raw(), b.raw(), index, context)
        };
        assert!(done != 0, "FLINT finds no resultant over {self:?}");
        self.write(&found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::polynomial;

    #[test]
    fn factors_over_a_field_are_those_of_its_polynomials() {
        let names = ["y", "x", "t"].map(str::to_owned);
        let Ok(ring) = Ring::new(&names, 7) else { return };
        let read = |text| polynomial(&ring, text).unwrap();
        let over = Extension::new(&read("t^2 - 3"));
        assert_eq!(over.degree(), 2);
        let factors = over.factor(&read("(y^2 - 3*x^2)^2*(y^2 - x)"));
        let mut told = factors.iter().map(|(p, e)| (p.to_string(), *e)).collect::<Vec<_>>();
        told.sort();
        let told = told.iter().map(|(p, e)| (p.as_str(), *e)).collect::<Vec<_>>();
        assert_eq!(told, [("y + x*t", 2), ("y - x*t", 2), ("y^2 - x", 1)]);
        assert!(over.factor(&read("t + 2")).is_empty());
        // The resultant of y - x t and y² - x is its value at y = x t.
        let resultant = over.resultant(&read("y - x*t"), &read("y^2 - x"), 3);
        assert_eq!(resultant, read("3*x^2 - x"));
    }
}

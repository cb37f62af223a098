//! Finite fields in which some variables have values.
//!
//! A [`Field`] is F_q = Z/p\[t\]/(m), with the least variable of a ring as t, and a number for each
//! variable of the ring that is known. A variable becomes known as a zero of an irreducible
//! polynomial over the field, which the field is extended by. The field is then a simple extension
//! of Z/p again, by a primitive element, so FLINT factors over it.
//!
//! # Primitive elements
//! Of Z/p\[t, v\]/(m, g), of dimension n over Z/p, a random element e is primitive if 1, e, ...,
//! e^(n-1) are linearly independent. Their coordinates, inverted, are those of t, v and e^n as
//! polynomials in e.
//!
//! # Costs
//! O(n³) operations for an extension to a field of p^n elements.

use std::rc::Rc;

use crate::chain::Chain;
use crate::modular;
use crate::poly::{Extension, Factor, Level, Poly, Ring};
use crate::random::Random;

/// The level of the generator.
pub(super) const GENERATOR: Level = 1;

/// A finite field, with values for some variables: see the head of the module.
#[derive(Clone, Debug)]
pub(super) struct Field {
    ring: Ring,
    /// The field over Z/p; `None` for Z/p itself.
    extension: Option<Rc<Extension>>,
    /// The polynomial of the generator.
    modulus: Option<Poly>,
    /// The generator as a polynomial in the variables that have values.
    generator: Poly,
    /// The value of each level, a polynomial in the generator; index 0 is unused. The value of the
    /// generator is that of the generator of a subfield: see [`Field::subfield`].
    values: Vec<Option<Poly>>,
}

impl Field {
    /// The field Z/p in which no variable has a value, for a ring with a generator below all
    /// variables.
    pub(super) fn new(ring: &Ring) -> Field {
        Field {
            ring: ring.clone(),
            extension: None,
            modulus: None,
            generator: ring.zero(),
            values: vec![None; ring.variables() + 1],
        }
    }

    /// The degree over Z/p.
    pub(super) fn degree(&self) -> usize {
        self.extension.as_ref().map_or(1, |extension| extension.degree())
    }

    /// The polynomial of the generator, unless the field is Z/p.
    pub(super) fn modulus(&self) -> Option<&Poly> {
        self.modulus.as_ref()
    }

    fn reduce(&self, p: &Poly) -> Poly {
        match &self.extension {
            Some(extension) if p.degree(GENERATOR) >= extension.degree() => extension.reduce(p),
            _ => p.clone(),
        }
    }

    /// A random number of the field.
    pub(super) fn number(&self, random: &mut Random) -> Poly {
        let prime = self.ring.prime();
        let t = self.ring.variable(GENERATOR);
        (0..self.degree()).fold(self.ring.zero(), |number, _| {
            &(&number * &t) + &self.ring.constant(random.below(prime))
        })
    }

    /// The field, of whose extensions it is a subfield: they take polynomials over it.
    pub(super) fn subfield(&self) -> Field {
        match self.extension {
            Some(_) => self.clone().with_value(GENERATOR, self.ring.variable(GENERATOR)),
            None => self.clone(),
        }
    }

    /// The polynomial with the values of all variables that have one.
    pub(super) fn image(&self, p: &Poly) -> Poly {
        // The generator first, as values contain another one.
        let mut image = p.clone();
        for (level, value) in self.values.iter().enumerate() {
            if let Some(value) = value
                && image.degree(level) > 0
            {
                image = self.composed(&image, level, value);
            }
        }
        self.reduce(&image)
    }

    /// The polynomial with a number in the place of the variable of `level`.
    fn composed(&self, p: &Poly, level: Level, number: &Poly) -> Poly {
        p.coefficients(level)
            .iter()
            .rev()
            .fold(self.ring.zero(), |sum, coefficient| &self.reduce(&(&sum * number)) + coefficient)
    }

    /// The polynomial with the generator as a polynomial in variables.
    pub(super) fn preimage(&self, p: &Poly) -> Poly {
        let coefficients = p.coefficients(GENERATOR);
        coefficients
            .iter()
            .rev()
            .fold(self.ring.zero(), |sum, coefficient| &(&sum * &self.generator) + coefficient)
    }

    /// The irreducible factors over the field; of polynomials with a factor that only multiplies by
    /// numbers, one. Constants have none.
    pub(super) fn factor(&self, p: &Poly) -> Vec<Factor> {
        match &self.extension {
            Some(extension) => extension.factor(p),
            None => p.factor(),
        }
    }

    /// The field's polynomials, unless it is Z/p.
    pub(super) fn extension(&self) -> Option<&Extension> {
        self.extension.as_deref()
    }

    /// The field with a value for the variable of `level`.
    pub(super) fn with_value(mut self, level: Level, value: Poly) -> Field {
        self.values[level] = Some(value);
        self
    }

    /// The field without a value for the variable of `level`.
    pub(super) fn without_value(mut self, level: Level) -> Field {
        self.values[level] = None;
        self
    }

    /// The field with a zero of an irreducible polynomial in the variable of `level` as its value.
    /// The members of `tower` are the polynomials of the variables that have values; without it,
    /// the generator is not known in these variables.
    pub(super) fn with_zero(&self, g: &Poly, level: Level, tower: Option<&Chain>) -> Field {
        let degree = g.degree(level);
        if degree == 1 {
            let constant = &g.coefficients(level)[0];
            return self.clone().with_value(level, -constant);
        }
        let Some(modulus) = &self.modulus else {
            let mut levels = vec![0; self.ring.variables() + 1];
            levels[level] = GENERATOR;
            let values = self.values.clone();
            let field = self.over(g.mapped(&self.ring, &levels), values);
            let field = field.with_value(level, self.ring.variable(GENERATOR));
            return Field { generator: self.ring.variable(level), ..field };
        };
        let size = self.degree() * degree;
        let mut random = Random::new(size as u64);
        let reduce = |p: &Poly| p.remainder(&[g, modulus]);
        let (t, variable) = (self.ring.variable(GENERATOR), self.ring.variable(level));
        loop {
            // Monomials as (exponent of t) + (degree of the field) * (exponent of the variable).
            let element = (0..degree).fold(self.ring.zero(), |element, _| {
                &(&element * &variable) + &self.number(&mut random)
            });
            let position = |exponents: &[u64]| {
                let n = self.ring.variables();
                exponents[n - GENERATOR] as usize + self.degree() * exponents[n - level] as usize
            };
            let row = |p: &Poly| {
                let mut row = vec![0; size];
                for (coefficient, exponents) in p.terms() {
                    row[position(&exponents)] = coefficient;
                }
                row
            };
            let mut power = self.ring.constant(1);
            let mut powers = Vec::with_capacity(size);
            for _ in 0..size {
                powers.push(row(&power));
                power = reduce(&(&power * &element));
            }
            let targets = [row(&power), row(&t), row(&reduce(&variable))];
            let Some(solved) = combinations(&powers, &targets, self.ring.prime()) else {
                continue;
            };
            let poly = |numbers: &Vec<u64>| {
                numbers.iter().rev().fold(self.ring.zero(), |sum, &number| {
                    &(&sum * &t) + &self.ring.constant(number)
                })
            };
            let modulus = &t.power(size as u64) - &poly(&solved[0]);
            let (old, value) = (poly(&solved[1]), poly(&solved[2]));
            let field = self.over(modulus, vec![None; self.values.len()]);
            let moved = |value: &Option<Poly>| {
                value.as_ref().map(|value| field.composed(value, GENERATOR, &old))
            };
            let values = self.values.iter().map(moved).collect();
            let generator = match tower {
                Some(tower) => tower.remainder(&self.preimage(&element), self.ring.variables()),
                None => self.ring.zero(),
            };
            return Field { generator, values, ..field }.with_value(level, value);
        }
    }

    fn over(&self, modulus: Poly, values: Vec<Option<Poly>>) -> Field {
        let extension = Some(Rc::new(Extension::new(&modulus)));
        let (ring, generator) = (self.ring.clone(), self.ring.zero());
        Field { ring, extension, modulus: Some(modulus), generator, values }
    }
}

/// The coordinates of `targets` in a basis of row vectors; `None` if `rows` are no basis.
fn combinations(rows: &[Vec<u64>], targets: &[Vec<u64>], prime: u64) -> Option<Vec<Vec<u64>>> {
    let size = rows.len();
    // The transposed system: a column for each vector of the basis, and one for each target.
    let mut matrix = (0..size)
        .map(|at| rows.iter().chain(targets).map(|row| row[at]).collect::<Vec<_>>())
        .collect::<Vec<_>>();
    for column in 0..size {
        let pivot = (column..size).find(|&row| matrix[row][column] != 0)?;
        matrix.swap(column, pivot);
        let inverse = modular::inverse(matrix[column][column], prime);
        for value in &mut matrix[column][column..] {
            *value = modular::multiply(*value, inverse, prime);
        }
        let pivot = matrix[column].clone();
        for (at, row) in matrix.iter_mut().enumerate() {
            if at == column || row[column] == 0 {
                continue;
            }
            let factor = prime - row[column];
            for (to, &from) in row.iter_mut().zip(&pivot).skip(column) {
                if from != 0 {
                    *to = (*to + modular::multiply(factor, from, prime)) % prime;
                }
            }
        }
    }
    let solution = |target: usize| matrix.iter().map(|row| row[size + target]).collect();
    Some((0..targets.len()).map(solution).collect())
}

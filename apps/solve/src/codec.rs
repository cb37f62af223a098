//! Polynomials, chains and tasks as sequences of integers, to be sent between processes.
//!
//! # Formats
//! Coefficients are signed, from -p/2 to p/2. For g = 5 x² y³ - 8 x² - 7 y² + 4 with x > y:
//!
//! | codec                | header             | body                                         |
//! |----------------------|--------------------|----------------------------------------------|
//! | [`Codec::Kronecker`] | degrees: 2 3       | 5 0 0 0 0 -7 0 0 0 -8 0 4                    |
//! | [`Codec::Terms`]     | number of terms: 4 | 5 2 3, -8 2 0, -7 0 2, 4 0 0                 |
//! | [`Codec::Flat`]      | terms, bits: 4 2   | 5 -8 -7 4, and the exponents in packed words |
//!
//! Kronecker's substitution replaces y by x³, the power above the degree of g in x, and so on,
//! which gives a polynomial in one variable; its coefficients are sent, the leading one first,
//! zeros included. A polynomial whose coefficients would be more than [`MOST_ZEROS`] times the
//! integers of the format by terms is sent by terms, after a header of -1.
//!
//! # Bounds
//! Integers may be invalid, if a process is faulty. Decoding checks every length against what is
//! left, and returns an error that gives the reason.
//!
//! # Source
//! Moreno Maza, Stephenson, Watt and Xie, "Multiprocessed parallelism support in Aldor on SMPs and
//! multicores" (2008). Changed: the headers, without which a body cannot be decoded; the signs; and
//! all zeros, of which one is missing there.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chain::Chain;
use crate::poly::{MAX_EXPONENT, Poly, Ring};
use crate::task::{Equation, Task};

/// How polynomials are written as integers: see the head of the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// Dense coefficients after Kronecker's substitution.
    Kronecker,
    /// The coefficient and the exponents of each term.
    Terms,
    /// All coefficients, then all exponents in packed words.
    #[default]
    Flat,
}

/// Kronecker's substitution is used up to this many integers for each of the format by terms.
pub const MOST_ZEROS: usize = 64;

/// The reason why integers are not what was to be decoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("not a valid message of a solver: {0}")]
pub struct CodecError(&'static str);

/// Writes values as integers.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    codec: Codec,
    integers: Vec<i64>,
}

impl Writer {
    /// Creates a writer.
    #[must_use]
    pub fn new(codec: Codec) -> Writer {
        Writer { codec, integers: Vec::new() }
    }

    /// Returns the integers.
    #[must_use]
    pub fn finish(self) -> Vec<i64> {
        self.integers
    }

    fn push(&mut self, value: usize) {
        self.integers.push(value as i64);
    }

    /// Writes a polynomial.
    pub fn poly(&mut self, poly: &Poly) {
        match self.codec {
            Codec::Kronecker => self.kronecker(poly),
            Codec::Terms => self.terms(poly),
            Codec::Flat => self.flat(poly),
        }
    }

    fn kronecker(&mut self, poly: &Poly) {
        let n = poly.ring().variables();
        let degrees = (1..=n).rev().map(|level| poly.degree(level)).collect::<Vec<_>>();
        let size = degrees.iter().try_fold(1_usize, |size, degree| size.checked_mul(degree + 1));
        let Some(size) = size.filter(|size| *size <= MOST_ZEROS * (n + 1) * (poly.len() + 1))
        else {
            self.integers.push(-1);
            return self.terms(poly);
        };
        self.integers.extend(degrees.iter().map(|&degree| degree as i64));
        let begin = self.integers.len();
        self.integers.resize(begin + size, 0);
        let mut exponents = vec![0; n];
        for term in 0..poly.len() {
            let coefficient = poly.copy_term(term, &mut exponents);
            let (mut at, mut weight) = (0, 1);
            for (exponent, degree) in exponents.iter().zip(&degrees) {
                at += *exponent as usize * weight;
                weight *= degree + 1;
            }
            self.integers[begin + size - 1 - at] = signed(coefficient, poly.ring().prime());
        }
    }

    fn terms(&mut self, poly: &Poly) {
        self.push(poly.len());
        let mut exponents = vec![0; poly.ring().variables()];
        self.integers.reserve(poly.len() * (exponents.len() + 1));
        for term in 0..poly.len() {
            let coefficient = poly.copy_term(term, &mut exponents);
            self.integers.push(signed(coefficient, poly.ring().prime()));
            self.integers.extend(exponents.iter().map(|&exponent| exponent as i64));
        }
    }

    fn flat(&mut self, poly: &Poly) {
        let n = poly.ring().variables();
        let highest = (1..=n).map(|level| poly.degree(level)).max().unwrap_or(0);
        let bits = (u64::BITS - (highest as u64).leading_zeros()).max(1).next_power_of_two();
        self.push(poly.len());
        self.push(bits as usize);
        let prime = poly.ring().prime();
        let begin = self.integers.len();
        self.integers.resize(begin + poly.len() + packed(poly.len(), n, bits), 0);
        let (coefficients, words) = self.integers[begin..].split_at_mut(poly.len());
        let mut at = 0;
        let mut exponents = vec![0; n];
        for (term, to) in coefficients.iter_mut().enumerate() {
            *to = signed(poly.copy_term(term, &mut exponents), prime);
            for &exponent in &exponents {
                words[at / 64] |= (exponent << (at % 64)) as i64;
                at += bits as usize;
            }
        }
    }

    /// Writes polynomials and their number.
    pub fn polys<'p>(&mut self, polys: impl ExactSizeIterator<Item = &'p Poly>) {
        self.push(polys.len());
        for poly in polys {
            self.poly(poly);
        }
    }

    /// Writes a chain.
    pub fn chain(&mut self, chain: &Chain) {
        let members = chain.members().map(|(_, member)| member.as_ref()).collect::<Vec<_>>();
        self.polys(members.into_iter());
    }

    /// Writes chains and their number.
    pub fn chains(&mut self, chains: &[Chain]) {
        self.push(chains.len());
        for chain in chains {
            self.chain(chain);
        }
    }

    /// Writes a task.
    pub fn task(&mut self, task: &Task) {
        self.push(task.checked);
        self.chain(&task.chain);
        self.polys(task.nonzero.iter().map(Rc::as_ref));
        self.push(task.equations.len());
        for equation in &task.equations {
            self.poly(&equation.origin);
            let same = equation.origin == equation.reduced;
            self.push(usize::from(same));
            if !same {
                self.poly(&equation.reduced);
            }
        }
    }
}

/// The number of words of the packed exponents of some terms.
fn packed(terms: usize, variables: usize, bits: u32) -> usize {
    (terms * variables * bits as usize).div_ceil(64)
}

fn signed(coefficient: u64, prime: u64) -> i64 {
    match coefficient > prime / 2 {
        true => -((prime - coefficient) as i64),
        false => coefficient as i64,
    }
}

/// Reads values from integers.
#[derive(Debug)]
pub struct Reader<'i> {
    codec: Codec,
    ring: Ring,
    integers: &'i [i64],
}

type Decoded<T> = Result<T, CodecError>;

impl<'i> Reader<'i> {
    /// Creates a reader of polynomials of a ring.
    #[must_use]
    pub fn new(codec: Codec, ring: &Ring, integers: &'i [i64]) -> Reader<'i> {
        Reader { codec, ring: ring.clone(), integers }
    }

    /// Returns the ring of the polynomials.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// If something is left.
    pub fn finish(self) -> Decoded<()> {
        self.integers.is_empty().then_some(()).ok_or(CodecError("there are more integers"))
    }

    fn take(&mut self, count: usize) -> Decoded<&'i [i64]> {
        let (taken, rest) =
            self.integers.split_at_checked(count).ok_or(CodecError("integers are missing"))?;
        self.integers = rest;
        Ok(taken)
    }

    /// A number of at most `most`.
    fn number(&mut self, most: usize) -> Decoded<usize> {
        let number = self.take(1)?[0];
        usize::try_from(number)
            .ok()
            .filter(|&number| number <= most)
            .ok_or(CodecError("a number is out of range"))
    }

    /// Reads a polynomial.
    ///
    /// # Errors
    /// If the integers are not valid.
    pub fn poly(&mut self) -> Decoded<Poly> {
        match self.codec {
            Codec::Kronecker => self.kronecker(),
            Codec::Terms => self.terms(),
            Codec::Flat => self.flat(),
        }
    }

    fn kronecker(&mut self) -> Decoded<Poly> {
        if self.integers.first() == Some(&-1) {
            self.integers = &self.integers[1..];
            return self.terms();
        }
        let n = self.ring.variables();
        let mut degrees = Vec::with_capacity(n);
        let mut size = 1_usize;
        for _ in 0..n {
            degrees.push(self.number(MOST_EXPONENT)?);
            size = size
                .checked_mul(degrees[degrees.len() - 1] + 1)
                .ok_or(CodecError("the degrees are too large"))?;
        }
        let body = self.take(size)?;
        let (mut coefficients, mut exponents) = (Vec::new(), Vec::new());
        let mut next = vec![0; n];
        for &coefficient in body.iter().rev() {
            if coefficient != 0 {
                coefficients.push(coefficient);
                exponents.extend_from_slice(&next);
            }
            for (exponent, &degree) in next.iter_mut().zip(&degrees) {
                *exponent += 1;
                if *exponent <= degree as u64 {
                    break;
                }
                *exponent = 0;
            }
        }
        self.poly_from(&coefficients, &exponents)
    }

    fn terms(&mut self) -> Decoded<Poly> {
        let n = self.ring.variables();
        let count = self.number(self.integers.len())?;
        let body = self.take(count.checked_mul(n + 1).ok_or(CodecError("too many terms"))?)?;
        let mut coefficients = Vec::with_capacity(count);
        let mut exponents = Vec::with_capacity(count * n);
        for term in body.chunks(n + 1) {
            coefficients.push(term[0]);
            // A negative exponent becomes one that is too large.
            exponents.extend(term[1..].iter().map(|&exponent| exponent as u64));
        }
        self.poly_from(&coefficients, &exponents)
    }

    fn flat(&mut self) -> Decoded<Poly> {
        let n = self.ring.variables();
        let count = self.number(self.integers.len())?;
        let bits = self.number(32)? as u32;
        if !bits.is_power_of_two() {
            return Err(CodecError("the number of bits is no power of two"));
        }
        let coefficients = self.take(count)?;
        let words = self.take(packed(count, n, bits))?;
        let mask = (1_u64 << bits) - 1;
        let exponents = (0..count * n).map(|index| {
            let at = index * bits as usize;
            words[at / 64] as u64 >> (at % 64) & mask
        });
        self.poly_from(coefficients, &exponents.collect::<Vec<_>>())
    }

    /// The polynomial with these coefficients, and the exponents of all terms.
    fn poly_from(&self, coefficients: &[i64], exponents: &[u64]) -> Decoded<Poly> {
        let prime = self.ring.prime() as i64;
        if coefficients.iter().any(|c| c.unsigned_abs() > prime as u64 / 2) {
            return Err(CodecError("a coefficient is out of range"));
        }
        if exponents.iter().any(|&exponent| exponent > MOST_EXPONENT as u64) {
            return Err(CodecError("an exponent is out of range"));
        }
        let unsigned = |&c: &i64| if c < 0 { (c + prime) as u64 } else { c as u64 };
        let exponents = exponents.chunks(self.ring.variables());
        Ok(self.ring.from_terms(coefficients.iter().map(unsigned).zip(exponents)))
    }

    /// Reads polynomials.
    ///
    /// # Errors
    /// If the integers are not valid.
    pub fn polys(&mut self) -> Decoded<Vec<Poly>> {
        let count = self.number(self.integers.len())?;
        (0..count).map(|_| self.poly()).collect()
    }

    /// Reads a chain.
    ///
    /// # Errors
    /// If the integers are not valid.
    pub fn chain(&mut self) -> Decoded<Chain> {
        let mut chain = Chain::empty(self.ring.variables());
        let mut below = 0;
        for member in self.polys()? {
            let level = member.main_level();
            if level <= below {
                return Err(CodecError("the members of a chain are not in order"));
            }
            below = level;
            chain = chain.with(member);
        }
        Ok(chain)
    }

    /// Reads all chains of a message.
    ///
    /// # Errors
    /// If the integers are not valid, or there are more.
    pub fn chains(mut self) -> Decoded<Vec<Chain>> {
        let count = self.number(self.integers.len())?;
        let chains = (0..count).map(|_| self.chain()).collect::<Decoded<_>>()?;
        self.finish()?;
        Ok(chains)
    }

    /// Reads a task of which the message consists.
    ///
    /// # Errors
    /// If the integers are not valid, or there are more.
    pub fn whole_task(mut self) -> Decoded<Task> {
        let task = self.task()?;
        self.finish()?;
        Ok(task)
    }

    /// Reads a task.
    ///
    /// # Errors
    /// If the integers are not valid.
    pub fn task(&mut self) -> Decoded<Task> {
        let checked = self.number(self.ring.variables())?;
        let chain = self.chain()?;
        let nonzero = self.polys()?.into_iter().map(Rc::new).collect();
        let count = self.number(self.integers.len())?;
        let mut equations = Vec::new();
        for _ in 0..count {
            let origin = Rc::new(self.poly()?);
            let reduced = match self.number(1)? {
                1 => origin.clone(),
                _ => Rc::new(self.poly()?),
            };
            equations.push(Equation { origin, reduced });
        }
        Ok(Task { equations, nonzero, chain, checked })
    }
}

/// The largest exponent that is decoded.
const MOST_EXPONENT: usize = MAX_EXPONENT as usize;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    fn ring() -> Option<Ring> {
        let names = ["x", "y"].map(str::to_owned);
        Ring::new(&names, 105_761).map_err(|why| println!("skipped: {why}")).ok()
    }

    #[test]
    fn the_example_of_the_paper() {
        let Some(ring) = ring() else { return };
        let g = crate::polynomial(&ring, "5*x^2*y^3 - 8*x^2 - 7*y^2 + 4").unwrap();
        let expected: [(Codec, &[i64]); 3] = [
            (Codec::Kronecker, &[2, 3, 5, 0, 0, 0, 0, -7, 0, 0, 0, -8, 0, 4]),
            (Codec::Terms, &[4, 5, 2, 3, -8, 2, 0, -7, 0, 2, 4, 0, 0]),
            (Codec::Flat, &[4, 2, 5, -8, -7, 4, 0b0000_1000_0010_1110]),
        ];
        for (codec, integers) in expected {
            let mut writer = Writer::new(codec);
            writer.poly(&g);
            assert_eq!(writer.finish(), integers, "{codec:?}");
            let mut reader = Reader::new(codec, &ring, integers);
            assert_eq!(reader.poly().unwrap(), g);
            reader.finish().unwrap();
        }
    }

    const CODECS: [Codec; 3] = [Codec::Kronecker, Codec::Terms, Codec::Flat];

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn polynomials_come_back(
            terms in prop::collection::vec((any::<u64>(), 0_u64..90, 0_u64..90), 0..20),
        ) {
            if let Some(ring) = ring() {
                let terms = terms.into_iter().map(|(c, x, y)| (c, [x, y])).collect::<Vec<_>>();
                let poly = ring.from_terms(terms.iter().map(|(c, e)| (*c, &e[..])));
                for codec in CODECS {
                    let mut writer = Writer::new(codec);
                    writer.polys([&poly, &poly].into_iter());
                    let integers = writer.finish();
                    let mut reader = Reader::new(codec, &ring, &integers);
                    prop_assert_eq!(reader.polys().unwrap(), vec![poly.clone(), poly.clone()]);
                    prop_assert!(reader.finish().is_ok());
                    // Every message that was cut off is refused.
                    for end in 0..integers.len() {
                        prop_assert!(Reader::new(codec, &ring, &integers[..end]).polys().is_err());
                    }
                }
            }
        }

        #[test]
        fn arbitrary_integers_are_refused_or_decoded(
            integers in prop::collection::vec(
                prop_oneof![-3_i64..6, any::<i64>(), Just(1 << 30)], 0..40),
        ) {
            if let Some(ring) = ring() {
                for codec in CODECS {
                    let mut reader = Reader::new(codec, &ring, &integers);
                    let _ = reader.task();
                }
            }
        }
    }
}

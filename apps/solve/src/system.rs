//! Systems of polynomials, and the text in which they are written.
//!
//! # Formats
//! ```text
//! # a comment                          x, y
//! vars x y                             7
//! prime 7                              x^2 - y,
//! (x + y)^2 - 1                        y^2 - 3*x
//! x*y - 3
//! ```
//! On the left is the format of this crate: the variables, greatest first, the prime, and one
//! polynomial in each line. On the right is that of msolve: the variables, the characteristic, and
//! polynomials between commas. A file is of the first kind if its first word is `vars` or `prime`.
//!
//! A polynomial consists of integers of any size, variables, `+`, `-`, `*`, `/`, `^` or `**` with
//! an exponent, and parentheses. What divides is a number that is no multiple of the prime: `x/2`
//! is the product of x and the inverse of 2. As `*`, `/` binds less than `^`, and is read from left
//! to right: `1/2*x` is `x/2`, and `1/2^2` is a quarter.

use crate::error::SolveError;
use crate::modular;
use crate::poly::{Poly, Ring};

/// The largest degree in a text.
const MAX_DEGREE: u64 = 1_000_000;
/// The largest number of terms of a power or product in a text.
const MAX_TERMS: f64 = 1e7;
/// The deepest nesting of parentheses.
const MAX_DEPTH: usize = 500;

/// A system of polynomials.
#[derive(Clone, Debug)]
pub struct System {
    /// The ring of the polynomials.
    pub ring: Ring,
    /// The polynomials, whose common zeros are wanted.
    pub equations: Vec<Poly>,
}

/// The text of a system, of which the variables and the prime are known.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    text: &'t str,
    names: Vec<String>,
    prime: u64,
    /// Begin and end of each polynomial in the text.
    polynomials: Vec<(usize, usize)>,
}

impl<'t> Source<'t> {
    /// Reads the variables and the prime, and finds the polynomials.
    ///
    /// # Errors
    /// [`SolveError::Syntax`] with line and column, [`SolveError::NotPrime`],
    /// [`SolveError::LargePrime`].
    pub fn read(text: &'t str) -> Result<Source<'t>, SolveError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = lines(text).filter(|(_, line)| !line.is_empty());
        let first = lines.clone().next();
        let ours = first
            .is_some_and(|(_, line)| keyword(line, "vars").or(keyword(line, "prime")).is_some());
        let mut source = Source { text, names: Vec::new(), prime: 0, polynomials: Vec::new() };
        let mut prime = None;
        if ours {
            for (at, line) in lines {
                if let Some(names) = keyword(line, "vars") {
                    if !source.names.is_empty() {
                        return Err(syntax(text, at, "a second line `vars`".to_owned()));
                    }
                    source.names = variables(text, at + line.len() - names.len(), names)?;
                    if source.names.is_empty() {
                        return Err(syntax(text, at, "`vars` without a variable".to_owned()));
                    }
                } else if let Some(number) = keyword(line, "prime") {
                    if prime.is_some() {
                        return Err(syntax(text, at, "a second line `prime`".to_owned()));
                    }
                    prime = Some((at + line.len() - number.len(), number));
                } else {
                    source.polynomials.push((at, at + line.len()));
                }
            }
        } else {
            let Some((at, line)) = lines.next() else {
                return Err(syntax(text, 0, "the text has no variables".to_owned()));
            };
            source.names = variables(text, at, line)?;
            prime = lines.next();
            if let Some((at, _)) = lines.next() {
                source.polynomials = pieces(text, at);
            }
        }
        if source.names.is_empty() {
            return Err(syntax(text, text.len(), "the text has no line `vars`".to_owned()));
        }
        let Some((at, number)) = prime else {
            return Err(syntax(text, text.len(), "the text has no line `prime`".to_owned()));
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(syntax(text, at, format!("`{number}` is not a prime")));
        }
        if number.bytes().all(|byte| byte == b'0') {
            let why = "the characteristic is 0; systems are solved modulo a prime";
            return Err(syntax(text, at, why.to_owned()));
        }
        source.prime = number
            .parse()
            .ok()
            .filter(|prime: &u64| prime >> 63 == 0)
            .ok_or_else(|| SolveError::LargePrime { prime: number.to_owned() })?;
        if !modular::is_prime(source.prime) {
            return Err(SolveError::NotPrime { modulus: number.to_owned() });
        }
        Ok(source)
    }

    /// Returns the names of the variables, in the order of the text.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the prime.
    #[must_use]
    pub fn prime(&self) -> u64 {
        self.prime
    }

    /// Returns the system, with its variables in the order `names`, greatest first.
    ///
    /// # Errors
    /// [`SolveError::Syntax`] with line and column; [`SolveError::Order`] if `names` is no
    /// permutation of the variables; [`SolveError::Flint`].
    pub fn system(&self, names: &[String]) -> Result<System, SolveError> {
        let (mut said, mut known) = (names.to_vec(), self.names.clone());
        said.sort();
        known.sort();
        if said != known {
            return Err(SolveError::Order { said: names.join(","), known: self.names.join(",") });
        }
        let ring = Ring::new(names, self.prime)?;
        let parse = |&(begin, end): &(usize, usize)| {
            Parser { ring: &ring, text: self.text, at: begin, end, depth: 0 }.whole()
        };
        let equations = self.polynomials.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(System { ring, equations })
    }
}

/// Reads one polynomial.
///
/// # Errors
/// [`SolveError::Syntax`] with line and column.
///
/// # Examples
/// ```
/// use syncline_solve::{Ring, SolveError, polynomial};
///
/// # fn main() -> Result<(), SolveError> {
/// let ring = match Ring::new(&["x".to_owned(), "y".to_owned()], 101) {
///     Err(SolveError::Flint { .. }) => return Ok(()), // FLINT is not installed
///     ring => ring?,
/// };
/// assert_eq!(polynomial(&ring, "(x - y)*(x + y)")?.to_string(), "x^2 - y^2");
/// # Ok(())
/// # }
/// ```
pub fn polynomial(ring: &Ring, text: &str) -> Result<Poly, SolveError> {
    Parser { ring, text, at: 0, end: text.len(), depth: 0 }.whole()
}

/// The rest of a line that begins with a word.
fn keyword<'l>(line: &'l str, word: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(word)?;
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then(|| rest.trim())
}

/// The lines without comments and white space around, with their positions.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> + Clone {
    let base = text.as_ptr() as usize;
    text.lines().map(move |line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        (line.as_ptr() as usize - base, line)
    })
}

/// Begin and end of the parts between commas from `at` on. Nothing need follow the last comma.
fn pieces(text: &str, at: usize) -> Vec<(usize, usize)> {
    let mut found = vec![(at, text.len())];
    let mut in_comment = false;
    for (index, byte) in text.bytes().enumerate().skip(at) {
        in_comment = byte != b'\n' && (in_comment || byte == b'#');
        if byte == b',' && !in_comment {
            found.last_mut().expect("not empty").1 = index;
            found.push((index + 1, text.len()));
        }
    }
    found.pop_if(|(begin, _)| lines(&text[*begin..]).all(|(_, line)| line.is_empty()));
    found
}

fn variables(text: &str, at: usize, names: &str) -> Result<Vec<String>, SolveError> {
    let mut found: Vec<String> = Vec::new();
    for name in names.split([' ', '\t', ',']).filter(|name| !name.is_empty()) {
        let mut bytes = name.bytes();
        if !bytes.next().is_some_and(begins_name) || !bytes.all(continues_name) {
            return Err(syntax(text, at, format!("`{name}` is no name of a variable")));
        }
        if found.iter().any(|other| other == name) {
            return Err(syntax(text, at, format!("the variable {name} occurs twice")));
        }
        found.push(name.to_owned());
    }
    Ok(found)
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'\''
}

fn syntax(text: &str, at: usize, why: String) -> SolveError {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    SolveError::Syntax { line, column, why }
}

/// A recursive descent over one polynomial.
struct Parser<'a> {
    ring: &'a Ring,
    text: &'a str,
    at: usize,
    end: usize,
    depth: usize,
}

impl Parser<'_> {
    /// The next byte that is not white space or in a comment.
    fn peek(&mut self) -> Option<u8> {
        let bytes = &self.text.as_bytes()[..self.end];
        loop {
            match bytes.get(self.at)? {
                b'#' => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The next bytes as long as they are of a kind.
    fn take_while(&mut self, of_kind: impl Fn(u8) -> bool) -> &str {
        let begin = self.at;
        let rest = &self.text.as_bytes()[begin..self.end];
        self.at += rest.iter().position(|&byte| !of_kind(byte)).unwrap_or(rest.len());
        &self.text[begin..self.at]
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T, SolveError> {
        Err(syntax(self.text, self.at, why.into()))
    }

    fn unexpected<T>(&mut self, expected: &str) -> Result<T, SolveError> {
        match self.peek() {
            None => self.fail(format!("{expected} is missing")),
            Some(_) => {
                let found = self.text[self.at..self.end].chars().next().unwrap_or(' ');
                self.fail(format!("{expected} was expected before `{found}`"))
            }
        }
    }

    fn whole(&mut self) -> Result<Poly, SolveError> {
        let poly = self.sum()?;
        match self.peek() {
            None => Ok(poly),
            Some(_) => self.unexpected("an operator"),
        }
    }

    fn sum(&mut self) -> Result<Poly, SolveError> {
        // Sums of 1, 2, 4, ... summands, as the digits of a counter: each term is added to few
        // others, also in a sum of a hundred thousand.
        let mut sums: Vec<Poly> = Vec::new();
        let mut count = 0_usize;
        let mut minus = false;
        loop {
            while let Some(sign @ (b'+' | b'-')) = self.peek() {
                minus ^= sign == b'-';
                self.at += 1;
            }
            let product = self.product()?;
            let mut sum = if minus { -&product } else { product };
            minus = false;
            for _ in 0..count.trailing_ones() {
                sum = &sums.pop().expect("a sum for each digit") + &sum;
            }
            sums.push(sum);
            count += 1;
            if !matches!(self.peek(), Some(b'+' | b'-')) {
                let zero = self.ring.zero();
                return Ok(sums.iter().rev().fold(zero, |all, sum| &all + sum));
            }
        }
    }

    fn product(&mut self) -> Result<Poly, SolveError> {
        let mut product = self.power()?;
        while let Some(operator @ (b'*' | b'/')) = self.peek() {
            self.at += 1;
            if operator == b'/' {
                product = product.scale(self.inverse()?);
                continue;
            }
            let factor = self.power()?;
            if (product.total_degree() + factor.total_degree()) as u64 > MAX_DEGREE {
                return self.fail(format!("the degree is greater than {MAX_DEGREE}"));
            }
            if product.len() as f64 * factor.len() as f64 > MAX_TERMS {
                return self.fail("the product has too many terms");
            }
            product = &product * &factor;
        }
        Ok(product)
    }

    /// The inverse of the number that comes next.
    fn inverse(&mut self) -> Result<u64, SolveError> {
        self.peek();
        let begin = self.at;
        let divisor = self.power()?;
        let said = self.text[begin..self.at].trim_end().to_owned();
        let prime = self.ring.prime();
        let why = match divisor.constant_value() {
            Some(0) => format!("division by {said}: the denominator is 0 modulo {prime}"),
            Some(number) => return Ok(modular::inverse(number, prime)),
            None => format!(
                "division by {said}: only a number that is no multiple of {prime} can divide"
            ),
        };
        self.at = begin;
        self.fail(why)
    }

    fn power(&mut self) -> Result<Poly, SolveError> {
        let base = self.atom()?;
        let begin = self.at;
        let stars = self.peek() == Some(b'*') && self.text[self.at..self.end].starts_with("**");
        if stars {
            self.at += 2;
        } else if !self.take(b'^') {
            self.at = begin;
            return Ok(base);
        }
        self.peek();
        let digits = self.take_while(|byte| byte.is_ascii_digit()).to_owned();
        if digits.is_empty() {
            return self.unexpected("an exponent");
        }
        let exponent = digits.parse().unwrap_or(u64::MAX);
        let degree = (base.total_degree().max(1) as u64).checked_mul(exponent);
        if degree.is_none_or(|degree| degree > MAX_DEGREE) {
            return self.fail(format!("the degree is greater than {MAX_DEGREE}"));
        }
        // The number of monomials of that degree in as many variables as there are terms.
        let terms = (1..base.len())
            .map(|index| (exponent as f64 + index as f64) / index as f64)
            .fold(1.0, |product, factor| (product * factor).min(f64::MAX));
        if terms > MAX_TERMS {
            return self.fail("the power has too many terms");
        }
        Ok(base.power(exponent))
    }

    fn atom(&mut self) -> Result<Poly, SolveError> {
        match self.peek() {
            Some(b'(') => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return self.fail(format!("more than {MAX_DEPTH} parentheses are nested"));
                }
                self.at += 1;
                let inner = self.sum()?;
                if !self.take(b')') {
                    return self.unexpected("`)`");
                }
                self.depth -= 1;
                Ok(inner)
            }
            Some(byte) if byte.is_ascii_digit() => {
                let value = self.integer();
                Ok(self.ring.constant(value))
            }
            Some(byte) if begins_name(byte) => {
                let begin = self.at;
                let name = self.take_while(continues_name).to_owned();
                match self.ring.names().iter().position(|known| *known == name) {
                    Some(index) => Ok(self.ring.variable(self.ring.variables() - index)),
                    None => {
                        self.at = begin;
                        let known = self.ring.names().join(", ");
                        self.fail(format!("{name} is no variable; the variables are {known}"))
                    }
                }
            }
            _ => self.unexpected("a number, a variable or `(`"),
        }
    }

    /// An integer of any size modulo the prime.
    fn integer(&mut self) -> u64 {
        let prime = u128::from(self.ring.prime());
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        digits.bytes().fold(0, |value, digit| {
            ((u128::from(value) * 10 + u128::from(digit - b'0')) % prime) as u64
        })
    }
}

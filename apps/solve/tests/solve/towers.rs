//! Towers of extensions, beside a surface or over functions: their components against those that
//! Singular finds, in two orders of the variables.

use std::time::{Duration, Instant};

use syncline_solve::{Method, Poly, Ring, Source};
use syncline_testkit::{Random, cases, seed};

use crate::has_flint;
use crate::singular::{Answer, own_degrees, singular_degrees};

const PRIMES: [u64; 9] = [7, 11, 31, 101, 7841, 32003, 1_000_003, 536_870_909, 2_147_483_647];
/// Singular factors over larger primes, too, but seldom ends.
const SINGULAR_PRIMES: u64 = 1 << 29;
/// The largest degree of a tower over functions; over numbers it is twice that.
const MAX_DEGREE: usize = 12;

/// A monomial of at most a degree.
fn monomial(names: &[&str], degree: usize, random: &mut Random) -> String {
    let mut text = "1".to_owned();
    let mut left = degree;
    for _ in names {
        let exponent = random.below(left + 1);
        left -= exponent;
        text += &format!("*{}^{exponent}", names[random.below(names.len())]);
    }
    text
}

fn poly(names: &[&str], terms: usize, degree: usize, random: &mut Random) -> String {
    let mut term = || format!("{}*{}", 1 + random.below(6), monomial(names, degree, random));
    (0..terms).map(|_| term()).collect::<Vec<_>>().join(" + ")
}

/// The text of a system: two or three extensions of numbers or functions, one above the other; if
/// all are of numbers, also a surface or curve in the free variables.
fn tower(seed: u64) -> String {
    let mut random = Random::new(seed);
    let prime = PRIMES[random.below(PRIMES.len())];
    let extensions = &["a", "b", "c"][..2 + random.below(2)];
    let free = &["x", "y", "z"][..1 + random.below(3)];
    // Towers of numbers, of functions, or of both.
    let kind = random.below(3);
    let limit = if kind == 0 { 2 * MAX_DEGREE } else { MAX_DEGREE };
    let mut numbers: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    let mut degree = 1;
    for (index, name) in extensions.iter().enumerate() {
        let own = 2 + random.below(3);
        let own = if degree * own > limit { 2 } else { own };
        degree *= own;
        let is_number = kind == 0 || (kind == 2 && random.below(2) == 0);
        let below = if is_number { numbers.clone() } else { [&extensions[..index], free].concat() };
        let right = match random.below(3) {
            0 if is_number => (2 + random.below(4)).to_string(),
            _ if below.is_empty() => (2 + random.below(4)).to_string(),
            1 => monomial(&below, 2, &mut random),
            _ => poly(&below, 1 + random.below(2), 2, &mut random),
        };
        lines.push(format!("{name}^{own} - ({right})"));
        if is_number {
            numbers.push(name);
        }
    }
    if free.len() > 1 && numbers.len() == extensions.len() {
        let terms = 2 + random.below(2);
        lines.push(poly(free, terms, 3, &mut random));
    }
    let mut names = [extensions, free].concat();
    for index in (1..names.len()).rev() {
        names.swap(index, random.below(index + 1));
    }
    format!("vars {}\nprime {prime}\n{}", names.join(" "), lines.join("\n"))
}

fn system(text: &str, reversed: bool) -> (Ring, Vec<Poly>) {
    let source = Source::read(text).unwrap();
    let mut names = source.names().to_vec();
    if reversed {
        names.reverse();
    }
    let system = source.system(&names).unwrap();
    (system.ring, system.equations)
}

#[test]
fn towers_have_the_components_that_singular_finds() {
    if !has_flint() {
        return;
    }
    let first = seed(0);
    println!("seeds from {first} on");
    for seed in first..first + u64::from(cases(32)) {
        let text = tower(seed);
        println!("seed {seed}: {}", text.replace('\n', "; "));
        let began = Instant::now();
        let [own, reversed] = [false, true].map(|reversed| {
            let (ring, equations) = system(&text, reversed);
            own_degrees(&ring, &equations, Method::Chains)
        });
        assert_eq!(own, reversed, "seed {seed}: orders differ: {text}");
        let took = began.elapsed().as_secs_f64();
        let (ring, equations) = system(&text, false);
        let prime = ring.prime();
        if prime > SINGULAR_PRIMES {
            println!("seed {seed}: {took:.2} s, prime {prime}: too large for Singular");
            continue;
        }
        let began = Instant::now();
        let theirs = match singular_degrees(&[(ring, equations)], Duration::from_secs(60)) {
            Answer::Missing => return,
            Answer::Late => {
                println!("seed {seed}: {took:.2} s, prime {prime}: Singular does not end: {text}");
                continue;
            }
            Answer::Degrees(theirs) => theirs,
        };
        assert_eq!(own, theirs[0], "seed {seed}: {text}");
        let theirs = began.elapsed().as_secs_f64();
        println!("seed {seed}: {took:.2} s, prime {prime}: Singular agrees, in {theirs:.2} s");
    }
}

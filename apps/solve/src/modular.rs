//! Arithmetic with numbers modulo a prime.

/// Returns `a * b` modulo `m`.
pub(crate) fn multiply(a: u64, b: u64, m: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(m)) as u64
}

/// Returns `base ^ exponent` modulo `m`.
pub(crate) fn power(base: u64, mut exponent: u64, m: u64) -> u64 {
    let (mut square, mut product) = (base % m, 1 % m);
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = multiply(product, square, m);
        }
        square = multiply(square, square, m);
        exponent >>= 1;
    }
    product
}

/// Returns the inverse of `a`, which is not 0, modulo the prime `p`.
pub(crate) fn inverse(a: u64, p: u64) -> u64 {
    power(a, p - 2, p)
}

/// Returns whether `n` is a prime, by the test of Miller and Rabin. For 64 bits, the first twelve
/// primes as bases decide (Sorenson and Webster, "Strong pseudoprimes to twelve prime bases",
/// 2017).
pub(crate) fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    if let Some(&divisor) = BASES.iter().find(|&&base| n.is_multiple_of(base)) {
        return n == divisor;
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut power = power(base, odd, n);
        power == 1
            || (0..twos).any(|_| {
                let found = power == n - 1;
                power = multiply(power, power, n);
                found
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_the_sieve() {
        let mut composite = vec![false; 20_000];
        for n in 2..composite.len() {
            assert_eq!(is_prime(n as u64), !composite[n], "{n}");
            for multiple in (n * n..composite.len()).step_by(n) {
                composite[multiple] = true;
            }
        }
        assert!(is_prime((1 << 61) - 1) && is_prime(u64::MAX - 58));
        assert!(!is_prime(3_215_031_751) && !is_prime(u64::MAX));
    }

    #[test]
    fn inverses_are_inverse() {
        for p in [2, 3, 7841, 513_899, (1 << 61) - 1] {
            for a in [1, 2, 5, p - 1].into_iter().filter(|a| a % p != 0) {
                assert_eq!(multiply(a % p, inverse(a, p), p), 1);
            }
        }
    }
}

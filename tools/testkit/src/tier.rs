//! How much the tests of a run try.
//!
//! | tier    | set by           | tests                            | random cases     | seeds  |
//! |---------|------------------|----------------------------------|------------------|--------|
//! | `quick` | nothing          | all but those marked `#[ignore]` | 1/8, at least 2  | fixed  |
//! | `full`  | `make test-full` | all                              | as written       | fixed  |
//! | `soak`  | `make soak`      | all, and those of soak alone     | 20 times         | random |
//!
//! `make test` runs the quick tier of the products alone: those of `crates`, `apps` and `bindings`.
//!
//! The variable `SYNCLINE_TESTS` names the tier. A test asks for its number of cases
//! ([`cases`], [`property`]) and for its seed ([`seed`]). [`is_quick`] is for what finds MPIs and
//! browsers; tests do not ask for it. A test that only the full tier runs is marked
//! `#[ignore = "full: why"]`. A test whose property holds mostly, not always, belongs to soak. So
//! does a test of minutes. The name of such a test begins with `soak_`, its first line is
//! [`is_soak`], and it is marked as well.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::test_runner::{Config, RngSeed};

/// How much the tests of this run try, from the least to the most.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Tier {
    Quick,
    Full,
    Soak,
}

/// The variable that names the tier.
const TIER: &str = "SYNCLINE_TESTS";
/// The variable that replaces the seed of a test.
const SEED: &str = "SYNCLINE_SEED";

impl Tier {
    fn of_this_run() -> Self {
        match env::var(TIER).as_deref() {
            Err(_) | Ok("" | "quick") => Tier::Quick,
            Ok("full") => Tier::Full,
            Ok("soak") => Tier::Soak,
            Ok(other) => panic!("{TIER}={other}: the tiers are quick, full and soak"),
        }
    }

    /// Returns the number of cases of a test that has `full` in the full tier.
    fn cases(self, full: u32) -> u32 {
        match self {
            // Miri takes seconds for what takes microseconds elsewhere.
            _ if cfg!(miri) => full.min(4),
            Tier::Quick => full.div_ceil(8).max(2).min(full),
            Tier::Full => full,
            Tier::Soak => full.saturating_mul(20),
        }
    }
}

/// Returns the number of random cases, kills or rounds of a test, whose number in the full tier is
/// `full`.
#[must_use]
pub fn cases(full: u32) -> u32 {
    Tier::of_this_run().cases(full)
}

/// Returns the configuration of a property test that tries `full` random cases in the full tier.
#[must_use]
pub fn property(full: u32) -> Config {
    let is_random = Tier::of_this_run() == Tier::Soak && env::var(SEED).is_err();
    Config {
        cases: cases(full),
        rng_seed: if is_random { RngSeed::Random } else { RngSeed::Fixed(seed(1)) },
        // A seed that is fixed finds the same case again; a failure of soak prints its case.
        failure_persistence: None,
        ..Config::default()
    }
}

/// Returns the seed of a test: `fixed`, but a new one in soak. `SYNCLINE_SEED` replaces both. A
/// test that fails must print its seed.
#[must_use]
pub fn seed(fixed: u64) -> u64 {
    match env::var(SEED) {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{SEED}={seed}: not a number")),
        Err(_) if Tier::of_this_run() == Tier::Soak => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            now.as_millis() as u64 % 1_000_000_000
        }
        Err(_) => fixed,
    }
}

/// Returns whether this run is the quick one, which uses one MPI and no browser.
#[must_use]
pub fn is_quick() -> bool {
    Tier::of_this_run() == Tier::Quick
}

/// Returns whether this run is one of soak. Otherwise prints that the test is skipped, and why.
#[must_use]
pub fn is_soak(why: &str) -> bool {
    let is_soak = Tier::of_this_run() == Tier::Soak;
    if !is_soak {
        println!("skipped: only `make soak` runs this test: {why}");
    }
    is_soak
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_tier_tries_no_less() {
        for full in [0, 1, 2, 3, 16, 17, 256, u32::MAX] {
            let [quick, all, soak] = [Tier::Quick, Tier::Full, Tier::Soak].map(|t| t.cases(full));
            assert!(quick <= all && all <= soak, "{full}: {quick}, {all}, {soak}");
            assert!(quick >= full.min(2) && all == full, "{full}: {quick}, {all}");
        }
    }
}

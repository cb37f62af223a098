//! How much the tests of a run try.
//!
//! | tier    | set by           | tests                            | random cases     | seeds  |
//! |---------|------------------|----------------------------------|------------------|--------|
//! | `quick` | nothing          | all but those marked `#[ignore]` | an eighth        | fixed  |
//! | `full`  | `make test-full` | all                              | half             | fixed  |
//! | `soak`  | `make soak`      | all, and those of soak alone     | 20 times         | random |
//!
//! `make test` runs the quick tier of the products alone: those of `crates`, `apps` and `bindings`.
//!
//! Of two random cases or more, each tier tries at least two.
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

    /// Returns the number of cases of a test for which `written` are written.
    fn cases(self, written: u32) -> u32 {
        let share = |n| written.div_ceil(n).max(2).min(written);
        match self {
            // Miri takes seconds for what takes microseconds elsewhere.
            _ if cfg!(miri) => written.min(4),
            Tier::Quick => share(8),
            Tier::Full => share(2),
            Tier::Soak => written.saturating_mul(20),
        }
    }
}

/// Returns the number of random cases, kills or rounds of a test for which `written` are written.
/// The tier says how many of them are tried.
#[must_use]
pub fn cases(written: u32) -> u32 {
    Tier::of_this_run().cases(written)
}

/// Returns the configuration of a property test for which `written` random cases are written.
#[must_use]
pub fn property(written: u32) -> Config {
    let is_random = Tier::of_this_run() == Tier::Soak && env::var(SEED).is_err();
    Config {
        cases: cases(written),
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
        for written in [0, 1, 2, 3, 16, 17, 256, u32::MAX] {
            let [quick, full, soak] =
                [Tier::Quick, Tier::Full, Tier::Soak].map(|tier| tier.cases(written));
            assert!(quick <= full && full <= soak, "{written}: {quick}, {full}, {soak}");
            assert!(quick >= written.min(2) && soak >= written, "{written}: {quick}, {soak}");
        }
    }
}

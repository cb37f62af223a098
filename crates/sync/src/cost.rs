//! What an episode of each barrier costs, in transfers of cache lines between cores.
//!
//! Formulas, not measurements: advice for machines of other sizes than the one at hand. A transfer is one line going
//! from one core to another, the unit that `syncline-lab bench barrier` calls H.
//!
//! | barrier              | all                          | one after the other                     |
//! |----------------------|------------------------------|-----------------------------------------|
//! | counter              | P + (P - 1)                  | P + 1: the line visits every core       |
//! | tournament           | 2 (P - 1) raises             | 2 ceil(log2 P) raises                   |
//! | dissemination, r     | P (r - 1) a round, at most   | (r - 1) + 1 a round: raises overlap with their answers |
//!
//! A raise of a flag that somebody polls is two transfers: the line comes to the raiser, and goes back. In a round of
//! dissemination a member's r - 1 raises leave one after the other, and what the others raise arrives meanwhile; so a
//! round takes the time of r - 1 raises' first halves, and one second half.

use crate::barrier::dissemination_rounds;

/// An algorithm, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// [`Counter`](crate::barrier::Counter).
    Counter,
    /// [`Tournament`](crate::barrier::Tournament).
    Tournament,
    /// [`Dissemination`](crate::barrier::Dissemination) of a radix.
    Dissemination {
        /// The radix, at least 2.
        radix: usize,
    },
}

/// Line transfers per episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// In all.
    pub all: usize,
    /// On the longest chain of those that wait for one another.
    pub chain: usize,
}

/// The line transfers of an episode with `members`, each on a core of its own.
///
/// ```
/// use syncline_sync::cost::{Algorithm, transfers};
///
/// assert_eq!(transfers(Algorithm::Counter, 2).chain, 3);
/// assert!(transfers(Algorithm::Counter, 64).chain > transfers(Algorithm::Dissemination { radix: 4 }, 64).chain);
/// ```
#[must_use]
pub fn transfers(algorithm: Algorithm, members: usize) -> Transfers {
    if members < 2 {
        return Transfers { all: 0, chain: 0 };
    }
    match algorithm {
        Algorithm::Counter => Transfers { all: 2 * members - 1, chain: members + 1 },
        Algorithm::Tournament => {
            let rounds = dissemination_rounds(members, 2);
            Transfers { all: 4 * (members - 1), chain: 4 * rounds }
        }
        Algorithm::Dissemination { radix } => {
            let distances = std::iter::successors(Some(1_usize), |d| d.checked_mul(radix));
            let partners =
                distances.take_while(|&d| d < members).map(|d| (radix - 1).min((members - 1) / d));
            let (raises, chain) =
                partners.fold((0, 0), |(raises, chain), n| (raises + n, chain + n + 1));
            Transfers { all: 2 * members * raises, chain }
        }
    }
}

/// The radix from 2 to 8 with the shortest chain for `members`.
#[must_use]
pub fn best_radix(members: usize) -> usize {
    let chain = |&radix: &usize| transfers(Algorithm::Dissemination { radix }, members).chain;
    (2..=8).min_by_key(chain).unwrap_or(2)
}

/// The algorithm with the shortest chain for `members` that run on `cores`: when they outnumber these, the one that
/// needs each of them least often.
#[must_use]
pub fn best(members: usize, cores: usize) -> Algorithm {
    let spread = Algorithm::Dissemination { radix: best_radix(members) };
    let shorter = transfers(spread, members).chain < transfers(Algorithm::Counter, members).chain;
    if members <= cores && members > 2 && shorter { spread } else { Algorithm::Counter }
}

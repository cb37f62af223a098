//! The cost of an episode of each barrier, in transfers of cache lines between cores.
//!
//! These are formulas, not measurements: guidance for machines of other sizes than the one at hand.
//! A transfer is one line going from one core to another, the unit that `syncline-lab bench
//! barrier` calls H.
//!
//! | barrier          | in all                     | in sequence                                 |
//! |------------------|----------------------------|---------------------------------------------|
//! | counter          | P + (P - 1)                | P + 1: the line visits every core           |
//! | tournament       | 2 (P - 1) raises           | 2 ceil(log2 P) raises                       |
//! | dissemination, r | P (r - 1) a round, at most | (r - 1) + 1 a round: raises overlap answers |
//!
//! A raise of a flag that another member polls is two transfers: the line comes to the raiser, and
//! goes back. In a round of dissemination, a member's r - 1 raises leave in sequence, and the
//! raises of others arrive meanwhile. A round therefore takes the first halves of r - 1 raises and
//! one second half.

use crate::barrier::dissemination_rounds;

/// An algorithm and the parameters on which its cost depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// [`Counter`](crate::barrier::Counter).
    Counter,
    /// [`Tournament`](crate::barrier::Tournament).
    Tournament,
    /// [`Dissemination`](crate::barrier::Dissemination) with a radix.
    Dissemination {
        /// The radix, at least 2.
        radix: usize,
    },
}

/// The number of line transfers in an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// In total.
    pub all: usize,
    /// On the longest chain of transfers that wait for one another.
    pub chain: usize,
}

/// Returns the line transfers of an episode with `members`, each on its own core.
///
/// ```
/// use syncline_sync::cost::{Algorithm, transfers};
///
/// assert_eq!(transfers(Algorithm::Counter, 2).chain, 3);
/// let dissemination = Algorithm::Dissemination { radix: 4 };
/// assert!(transfers(Algorithm::Counter, 64).chain > transfers(dissemination, 64).chain);
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

/// Returns the radix from 2 to 8 with the shortest chain for `members`.
#[must_use]
pub fn best_radix(members: usize) -> usize {
    let chain = |&radix: &usize| transfers(Algorithm::Dissemination { radix }, members).chain;
    (2..=8).min_by_key(chain).unwrap_or(2)
}

/// Returns the algorithm with the shortest chain for `members` that run on `cores`. If members
/// outnumber cores, returns the algorithm that needs each member least often.
#[must_use]
pub fn best(members: usize, cores: usize) -> Algorithm {
    let dissemination = Algorithm::Dissemination { radix: best_radix(members) };
    let shorter =
        transfers(dissemination, members).chain < transfers(Algorithm::Counter, members).chain;
    if members <= cores && members > 2 && shorter { dissemination } else { Algorithm::Counter }
}

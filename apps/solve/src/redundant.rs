//! The removal of what is contained in other components.
//!
//! # Contract
//! [`disjoint`] returns closed chains with the same points, each of them once. [`irredundant`]
//! returns chains whose closures have the same union, and none of whose irreducible components is
//! contained in another one's.
//!
//! # Method
//! A chain T is divided by each other chain K of at least its dimension, in the order of the
//! dimension. The closure of K is the product of those of its blocks, so T is divided by one block
//! after the other; what is in one of them is divided by the next.
//!
//! | part of T on which                       | is                                               |
//! |------------------------------------------|--------------------------------------------------|
//! | a member of the block does not vanish    | not in the closure of K: kept                    |
//! | all members vanish, no initial does      | in that of the block                             |
//! | the only member vanishes                 | in it                                            |
//! | all members vanish, and an initial       | divided into primes; for each a [`Cone`] decides |
//!
//! # Source
//! Moreno Maza and Xie, "Component-level parallelization of triangular decompositions", PASCO 2007,
//! for the test by members and initials. Changed: cones where they do not decide.

use crate::chain::Chain;
use crate::partition::partition;
use crate::primes::{Component, primes};
use crate::regularize::Regularizer;
use crate::section::Cone;
use crate::solve::Runner;

/// Returns closed chains with the same points, each of them once.
#[must_use]
pub fn disjoint(regularizer: &Regularizer, chains: Vec<Chain>) -> Vec<Chain> {
    let mut kept: Vec<Chain> = Vec::new();
    for chain in chains {
        let mut parts = vec![chain];
        for other in &kept {
            parts =
                parts.iter().flat_map(|part| divided(regularizer, part, other).outside).collect();
        }
        kept.extend(parts);
    }
    kept
}

/// Returns chains whose closures have the same union, without components in other ones.
#[must_use]
pub fn irredundant(
    regularizer: &Regularizer,
    mut chains: Vec<Chain>,
    runner: &mut Runner<'_>,
) -> Vec<Chain> {
    chains.sort_by_key(|chain| std::cmp::Reverse(chain.dimension()));
    let mut kept: Vec<(Chain, Blocks)> = Vec::new();
    for chain in chains {
        let mut parts = vec![chain];
        for (_, blocks) in &mut kept {
            let mut outside = Vec::new();
            for (block, cone) in blocks {
                let mut inside = Vec::new();
                for part in &parts {
                    let divided = divided(regularizer, part, block);
                    outside.extend(divided.outside);
                    inside.extend(divided.inside);
                    // One member without content generates the ideal of its closure (Gauss).
                    if block.members().count() == 1 {
                        inside.extend(divided.boundary);
                        continue;
                    }
                    for boundary in &divided.boundary {
                        let cone = cone
                            .get_or_insert_with(|| Cone::new(block, regularizer.seed(), runner));
                        for Component { chain, .. } in primes(boundary) {
                            let within = cone.contains(&chain);
                            if within { &mut inside } else { &mut outside }.push(chain);
                        }
                    }
                }
                parts = inside;
            }
            parts = outside;
        }
        let with_blocks = |part: Chain| {
            let blocks = part.blocks().into_iter().map(|block| (block, None)).collect();
            (part, blocks)
        };
        kept.extend(parts.into_iter().map(with_blocks));
    }
    kept.into_iter().map(|(chain, _)| chain).collect()
}

/// The blocks of a chain, and the cones over their closures where they were needed.
type Blocks = Vec<(Chain, Option<Cone>)>;

/// The parts of a chain in relation to another one.
pub(crate) struct Divided {
    /// All members vanish, and no initial does.
    pub(crate) inside: Vec<Chain>,
    /// Members of the other chain do not vanish there.
    pub(crate) outside: Vec<Chain>,
    /// All members vanish, and so does an initial.
    pub(crate) boundary: Vec<Chain>,
}

/// Divides a chain by another one: see the head of the module.
#[must_use]
pub(crate) fn divided(regularizer: &Regularizer, chain: &Chain, other: &Chain) -> Divided {
    let mut divided = Divided { inside: Vec::new(), outside: Vec::new(), boundary: Vec::new() };
    let mut common = vec![chain.clone()];
    for (_, member) in other.members() {
        let mut next = Vec::new();
        for part in common {
            let (zero, regular) = partition(regularizer, member, &part);
            next.extend(zero);
            divided.outside.extend(regular);
        }
        common = next;
    }
    for (_, member) in other.members() {
        let mut next = Vec::new();
        for part in common {
            let (zero, regular) = partition(regularizer, &member.initial(), &part);
            next.extend(regular);
            divided.boundary.extend(zero);
        }
        common = next;
    }
    divided.inside = common;
    divided
}

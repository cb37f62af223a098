//! The parts of a chain on which polynomials vanish, as closures.
//!
//! The functions here see a chain T as the variety V(sat T), the closure of its points. A split of
//! T is then a union of two varieties, and the points at which the factorisation fails, which are
//! of smaller dimension, do not count.

use crate::chain::{Chain, Split};
use crate::poly::Poly;
use crate::regularize::{Kind, Regularizer};

/// Returns the chains of the components on which `p` vanishes, and of those on which it does not.
#[must_use]
pub(crate) fn partition(
    regularizer: &Regularizer,
    p: &Poly,
    chain: &Chain,
) -> (Vec<Chain>, Vec<Chain>) {
    let (mut zero, mut regular) = (Vec::new(), Vec::new());
    let mut open = vec![chain.clone()];
    while let Some(chain) = open.pop() {
        match regularizer.classify(p, &chain) {
            Kind::Zero => zero.push(chain),
            Kind::Regular => regular.push(chain),
            Kind::Splits(split) => open.extend(parts(&chain, split)),
        }
    }
    (zero, regular)
}

/// Returns the two chains of a split.
#[must_use]
pub(crate) fn parts(chain: &Chain, split: Split) -> [Chain; 2] {
    [split.cofactor, split.factor].map(|member| {
        let mut part = chain.with(member);
        // Members above are residues again.
        let above = part.members().map(|(at, _)| at).filter(|&at| at > split.level);
        for at in above.collect::<Vec<_>>() {
            let member = part.get(at).expect("a level with a member");
            let member = part.remainder(member, at - 1);
            part = part.with(member);
        }
        part
    })
}

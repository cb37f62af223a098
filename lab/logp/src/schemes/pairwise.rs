//! Two pairwise exchanges: of all counts, and of the news that everything is done.
//!
//! In round `k` a member exchanges its whole array of counts with the one whose rank differs in bit `k`, and both add. Then
//! it waits for its own memory, and the same again without counts.
//!
//! Where the members are no power of two, those beyond the last one fold: they tell theirs to a partner among the others
//! first, and are told the result.
//!
//! # Source
//! Chapter 4 of Saify's thesis (2002), for powers of two: 2 log2 N messages. Changed: the fold, which is usual for
//! allreduce; the second exchange is without an array, as nobody needs it.

use crate::scheme::{Driven, Load, Scheme, Step};

/// See the [schemes](crate::schemes).
#[derive(Clone, Copy, Debug)]
pub struct Pairwise;

/// The greatest power of two that is not more, its logarithm, and how many are left.
fn parts(members: usize) -> (usize, usize, usize) {
    let rounds = members.max(1).ilog2() as usize;
    (1 << rounds, rounds, members.max(1) - (1 << rounds))
}

impl Scheme for Pairwise {
    fn name(&self) -> String {
        "the thesis".to_owned()
    }

    fn rounds(&self, load: &Load) -> usize {
        let (power, rounds, left) = parts(load.members);
        // A fold ahead of an exchange delays those only whose opposite, all bits turned round, has waited for it; so the way
        // in and the way back count twice only where opposites both have somebody beyond.
        let fold = match left {
            0 => 0,
            _ if 2 * left <= power => 2,
            _ => 4,
        };
        2 * rounds + fold
    }

    fn messages(&self, load: &Load) -> usize {
        let (power, rounds, left) = parts(load.members);
        2 * (power * rounds + 2 * left)
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        let (power, rounds, left) = parts(load.members);
        let mut steps = Vec::new();
        for words in [load.members, 0] {
            let tell = |to: usize, hear| Step::Tell { to: vec![(to, words)], hear };
            let listen = |hear| Step::Tell { to: Vec::new(), hear };
            // Everybody has the same steps, in some of which there is nothing to do: they are known by their numbers.
            steps.push(match member {
                _ if member >= power => tell(member - power, 0),
                _ => listen(usize::from(member < left)),
            });
            for round in 0..rounds {
                steps.push(if member < power { tell(member ^ (1 << round), 1) } else { listen(0) });
            }
            steps.push(match member {
                _ if member >= power => listen(1),
                _ if member < left => tell(member + power, 0),
                _ => listen(0),
            });
            if words > 0 {
                steps.push(Step::Done);
            }
        }
        steps
    }

    fn driven(&self) -> Driven {
        Driven::Apart
    }

    fn alike(&self, load: &Load) -> bool {
        load.members.is_power_of_two()
    }
}

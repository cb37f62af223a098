//! Two pairwise exchanges: of all counts, and of the news that all puts are done.
//!
//! In round `k` a member exchanges its whole array of counts with the member whose rank differs in
//! bit `k`, and both add. It then waits for its own memory, and exchanges again, without counts.
//!
//! If the number of members is not a power of two, those beyond the largest power of two fold: each
//! sends its counts to a partner among the others first, and receives the result from it.
//!
//! # Source
//! Chapter 4 of Saify's thesis (2002), for powers of two: 2 log2 N messages. Differences: the fold,
//! which is usual for allreduce; the second exchange carries no array, because no member needs it.

use crate::scheme::{Driven, Load, Scheme, Step};

/// The scheme of the [module table](crate::schemes): the thesis.
#[derive(Clone, Copy, Debug)]
pub struct Pairwise;

/// Returns the greatest power of two that is at most `members`, its logarithm, and the remainder.
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
        // A fold before an exchange delays only those members whose opposite (all bits inverted)
        // waits for it. So the fold's way in and way back both count only where two opposites each
        // have a partner beyond the power.
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
            // All members have the same number of steps, some of which are empty: messages match by
            // step number.
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

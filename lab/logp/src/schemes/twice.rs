//! Two exchanges by the product's schedule: counts, and the news that everything is done.
//!
//! # Source
//! Saify's thesis (2002), with what `syncline_rma::unstable::sync_exchange` changes but for the last: each member gets only the sum for
//! itself, in any number of members, with any radix; still twice.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::{cost, exchanged};

/// See the [schemes](crate::schemes).
#[derive(Clone, Copy, Debug)]
pub struct Twice {
    /// Of both exchanges.
    pub radix: usize,
}

impl Scheme for Twice {
    fn name(&self) -> String {
        "two exchanges".to_owned()
    }

    fn rounds(&self, load: &Load) -> usize {
        2 * cost(load.members, self.radix).0
    }

    fn messages(&self, load: &Load) -> usize {
        2 * load.members * cost(load.members, self.radix).1
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        let exchange = |counts| exchanged(load.members, self.radix, member, counts);
        exchange(true).chain([Step::Done]).chain(exchange(false)).collect()
    }

    fn driven(&self) -> Driven {
        Driven::Apart
    }
}

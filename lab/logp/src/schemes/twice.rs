//! Two exchanges by the product's schedule: of counts, and of the news that all puts are done.
//!
//! # Source
//! Saify's thesis (2002), with the changes of `syncline_rma::unstable::sync_exchange` except the
//! last: each member obtains only its own sum, for any number of members and any radix; but in two
//! exchanges.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::{cost, exchanged};

/// The scheme of the [module table](crate::schemes): two exchanges.
#[derive(Clone, Copy, Debug)]
pub struct Twice {
    /// The radix of both exchanges.
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

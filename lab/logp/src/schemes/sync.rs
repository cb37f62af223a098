//! The product's sync: one exchange, and the wait for the puts into the member's own memory.
//!
//! No member waits for puts into others: the gate holds back a request that would read too early,
//! and costs no message. One processor drives everything. Acknowledgements travel with the next
//! exchange. In the product puts travel with this exchange; here they are messages.
//!
//! # Source
//! `syncline_rma::Rma::sync`, and the schedule in `syncline_rma::unstable::sync_exchange`.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::{cost, exchanged};

/// The scheme of the [module table](crate::schemes): `sync`.
#[derive(Clone, Copy, Debug)]
pub struct Sync {
    /// The radix of the exchange.
    pub radix: usize,
}

impl Scheme for Sync {
    fn name(&self) -> String {
        "`sync`".to_owned()
    }

    fn rounds(&self, load: &Load) -> usize {
        cost(load.members, self.radix).0
    }

    fn messages(&self, load: &Load) -> usize {
        load.members * cost(load.members, self.radix).1
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        exchanged(load.members, self.radix, member, true).chain([Step::Done]).collect()
    }

    fn driven(&self) -> Driven {
        Driven::Together
    }
}

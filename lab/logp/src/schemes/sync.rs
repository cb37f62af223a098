//! The product's sync: one exchange, and the wait for what is for oneself.
//!
//! Nobody waits for what is for others: the gate holds back whoever would look too early, and costs no message. Everything
//! is driven by one processor. Acknowledgements go with the next exchange. In the product so do puts with this one, which are
//! messages here.
//!
//! # Source
//! `syncline_rma::Rma::sync`, and the schedule in `syncline_rma::unstable::sync_exchange`.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::{cost, exchanged};

/// See the [schemes](crate::schemes).
#[derive(Clone, Copy, Debug)]
pub struct Sync {
    /// Of the exchange.
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

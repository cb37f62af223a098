//! A fence of all hosts that asks all at once, and a barrier after it, on one processor.
//!
//! After recent puts the fence takes a latency there and one back. Earlier puts are acknowledged
//! and cost nothing: only the barrier remains. The barrier has no counts, only heads. In the
//! product the questions travel with the last puts; here they are messages.
//!
//! # Source
//! `syncline_rma::Rma::fence_all`, and dissemination by the schedule of
//! `syncline_rma::unstable::sync_exchange`.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::{cost, exchanged};

/// The scheme of the [module table](crate::schemes): `fence_all`, then a barrier.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    /// The radix of the barrier.
    pub radix: usize,
}

/// Returns the number of hosts that each member asks.
fn asked(load: &Load) -> usize {
    if load.quiet { 0 } else { load.targets }
}

impl Scheme for Fence {
    fn name(&self) -> String {
        "`fence_all` + barrier".to_owned()
    }

    fn rounds(&self, load: &Load) -> usize {
        cost(load.members, self.radix).0 + if asked(load) > 0 { 2 } else { 0 }
    }

    fn messages(&self, load: &Load) -> usize {
        load.members * (cost(load.members, self.radix).1 + 2 * asked(load))
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        let hosts = (1..=asked(load)).map(|ahead| (member + ahead) % load.members).collect();
        [Step::Ask(hosts)]
            .into_iter()
            .chain(exchanged(load.members, self.radix, member, false))
            .collect()
    }

    fn driven(&self) -> Driven {
        Driven::Together
    }
}

//! Acknowledgements that nobody has to ask for, and a barrier after them.
//!
//! What has just been put takes a way there and a way back; what was put earlier costs nothing, and it is the barrier alone.
//! That has no counts: heads only.
//!
//! # Source
//! `syncline_rma::Rma::fence_all`, and dissemination by the schedule of `syncline_rma::exchange`.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::{cost, exchanged};

/// See the [schemes](crate::schemes).
#[derive(Clone, Copy, Debug)]
pub struct Eager {
    /// Of the barrier.
    pub radix: usize,
}

impl Scheme for Eager {
    fn name(&self) -> String {
        "acknowledged + barrier".to_owned()
    }

    fn rounds(&self, load: &Load) -> usize {
        let under_way = !load.quiet && load.targets > 0;
        cost(load.members, self.radix).0 + if under_way { 2 } else { 0 }
    }

    fn messages(&self, load: &Load) -> usize {
        load.members * cost(load.members, self.radix).1
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        [Step::Acked].into_iter().chain(exchanged(load.members, self.radix, member, false)).collect()
    }

    fn driven(&self) -> Driven {
        Driven::Together
    }

    fn acknowledges(&self) -> bool {
        true
    }
}

//! The product's sync for readers that bypass the gate: it has a second exchange, unless all puts
//! were acknowledged when all members began.
//!
//! # Source
//! `syncline_rma::Rma::sync_global`.

use crate::scheme::{Driven, Load, Scheme, Step};
use crate::schemes::Sync;

/// The scheme of the [module table](crate::schemes): `sync_global`.
#[derive(Clone, Copy, Debug)]
pub struct Global {
    /// The radix of both exchanges.
    pub radix: usize,
}

impl Global {
    fn syncs(load: &Load) -> usize {
        if load.quiet || load.targets == 0 { 1 } else { 2 }
    }
}

impl Scheme for Global {
    fn name(&self) -> String {
        "`sync_global`".to_owned()
    }

    fn rounds(&self, load: &Load) -> usize {
        Global::syncs(load) * Sync { radix: self.radix }.rounds(load)
    }

    fn messages(&self, load: &Load) -> usize {
        Global::syncs(load) * Sync { radix: self.radix }.messages(load)
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        let sync = Sync { radix: self.radix };
        (0..Global::syncs(load)).flat_map(|_| sync.steps(load, member)).collect()
    }

    fn driven(&self) -> Driven {
        Driven::Together
    }
}

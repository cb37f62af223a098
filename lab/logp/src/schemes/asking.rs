//! A fence of all hosts that asks them, and a barrier.
//!
//! A member asks `window` of the hosts into which it has put something, waits for their answers,
//! and asks the next ones. A dissemination barrier of radix 2 follows.
//!
//! # Source
//! ARMCI_AllFence and MPI_Barrier. ARMCI used a window of 1; larger windows are from chapter 3 of
//! Saify's thesis (2002), which counts 2 (N - 1) + log2 N messages when each member has put
//! something into all others. The thesis asks in random order; this scheme uses a rotation, so that
//! no host is asked by two members at once.

use crate::scheme::{Driven, Load, Scheme, Step, log2};
use crate::schemes::exchanged;

/// The scheme of the [module table](crate::schemes): fences, then a barrier.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The number of hosts that are asked before the first has to answer.
    pub window: usize,
}

impl Scheme for Asking {
    fn name(&self) -> String {
        match self.window {
            1 => "fences one by one + barrier".to_owned(),
            usize::MAX => "fences at once + barrier".to_owned(),
            window => format!("fences, K = {window}, + barrier"),
        }
    }

    fn rounds(&self, load: &Load) -> usize {
        2 * load.targets.div_ceil(self.window) + log2(load.members)
    }

    fn messages(&self, load: &Load) -> usize {
        load.members * (2 * load.targets + log2(load.members))
    }

    fn steps(&self, load: &Load, member: usize) -> Vec<Step> {
        let targets =
            (1..=load.targets).map(|ahead| (member + ahead) % load.members).collect::<Vec<_>>();
        let asked = targets.chunks(self.window).map(|group| Step::Ask(group.to_vec()));
        asked.chain(exchanged(load.members, 2, member, false)).collect()
    }

    fn driven(&self) -> Driven {
        Driven::Apart
    }
}

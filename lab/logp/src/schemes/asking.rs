//! A fence of all that asks, and a barrier.
//!
//! Of the hosts into which a member has put something, `window` are asked, and when they have answered, the next. Then
//! dissemination, radix 2.
//!
//! # Source
//! ARMCI_AllFence and MPI_Barrier. A window of 1 is how ARMCI did it; of more, chapter 3 of Saify's thesis (2002), which
//! counts 2 (N - 1) + log2 N messages where everybody has put something into all. Its random order of asking is here a
//! rotation: nobody is asked by two at once.

use crate::scheme::{Driven, Load, Scheme, Step, log2};
use crate::schemes::exchanged;

/// See the [schemes](crate::schemes).
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// How many are asked before the first has to answer.
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

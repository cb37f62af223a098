//! The schemes, one file each.
//!
//! | scheme | rounds | messages of a member | source |
//! |---|---|---|---|
//! | [`Asking`], K = 1 | 2 T + ceil(log2 N) | 2 T + ceil(log2 N) | ARMCI before the thesis |
//! | [`Asking`], K = T | 2 + ceil(log2 N) | 2 T + ceil(log2 N) | the thesis, chapter 3 |
//! | [`Pairwise`] | 2 log2 N, or up to 4 more | 2 log2 N | the thesis, chapter 4 |
//! | [`Twice`] | 2 ceil(log_r N) | at most 2 (r - 1) ceil(log_r N) | the thesis with the schedule of `exchange` |
//! | [`Sync`] | ceil(log_r N) | at most (r - 1) ceil(log_r N) | `Rma::sync` |
//! | [`Global`] | 2 ceil(log_r N) | at most 2 (r - 1) ceil(log_r N) | `Rma::sync_global` |
//! | [`Fence`] | 2 + ceil(log_r N) | 2 T + at most (r - 1) ceil(log_r N) | `Rma::fence_all` and a barrier |
//!
//! N members, T of whom each has put something into.

mod asking;
mod fence;
mod global;
mod pairwise;
mod sync;
mod twice;

pub use asking::Asking;
pub use fence::Fence;
pub use global::Global;
pub use pairwise::Pairwise;
pub use sync::Sync;
pub use twice::Twice;

use syncline_rma::unstable::sync_exchange;

use crate::scheme::Step;

/// The product's exchange, seen from a member: one step for each of its rounds. `counts`: the words are sent, not only the
/// heads.
fn exchanged(
    members: usize,
    radix: usize,
    member: usize,
    counts: bool,
) -> impl Iterator<Item = Step> {
    sync_exchange::strides(members, radix).map(move |stride| {
        let to = sync_exchange::steps(members, radix, stride)
            .map(|step| {
                let words = if counts {
                    sync_exchange::entries(members, radix, stride, step).count()
                } else {
                    0
                };
                ((member + step) % members, words)
            })
            .collect::<Vec<_>>();
        let hear = to.len();
        Step::Tell { to, hear }
    })
}

/// Rounds and messages of a member in an exchange.
fn cost(members: usize, radix: usize) -> (usize, usize) {
    let (rounds, messages, _) = sync_exchange::cost(members, radix);
    (rounds, messages)
}

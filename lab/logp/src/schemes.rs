//! The schemes, one file each.
//!
//! | scheme            | rounds              | messages each | source                             |
//! |-------------------|---------------------|---------------|------------------------------------|
//! | [`Asking`], K = 1 | 2 T + log N         | 2 T + log N   | ARMCI before the thesis            |
//! | [`Asking`], K = T | 2 + log N           | 2 T + log N   | the thesis, chapter 3              |
//! | [`Pairwise`]      | 2 log N (+ up to 4) | 2 log N       | the thesis, chapter 4              |
//! | [`Twice`]         | 2 R                 | 2 M           | the thesis, schedule of `exchange` |
//! | [`Sync`]          | R                   | M             | `Rma::sync`                        |
//! | [`Global`]        | 2 R                 | 2 M           | `Rma::sync_global`                 |
//! | [`Fence`]         | 2 + R               | 2 T + M       | `Rma::fence_all` and a barrier     |
//!
//! N is the number of members; each member has put something into T others. R = ceil(log_r N), M is
//! at most (r - 1) R, and log N = ceil(log2 N), except for [`Pairwise`]: there it is floor(log2 N).

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

/// Returns a member's steps in the product's exchange, one for each of its rounds. With `counts`,
/// the messages carry their words; without, only their heads.
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

/// Returns the number of rounds, and of messages of a member, in an exchange.
fn cost(members: usize, radix: usize) -> (usize, usize) {
    let (rounds, messages, _) = sync_exchange::cost(members, radix);
    (rounds, messages)
}

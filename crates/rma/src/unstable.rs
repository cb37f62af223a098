//! Variants for benchmarks and conformance tests to compare the product with. No stability is
//! promised.

use syncline_fabric::Member;

pub use crate::lock::LockKind;
pub use crate::rma::Window;
use crate::{Mutexes, Rma, RmaError};

/// The message schedule of a sync between hosts.
pub mod sync_exchange {
    pub use crate::sync_exchange::*;
}

/// Like [`Rma::new`], with syncs between hosts in rounds of the given radix, at least 2.
///
/// # Collective
/// As [`Rma::new`]; all members give the same radix.
///
/// # Errors
/// As [`Rma::new`].
pub fn with_radix(me: &mut Member, radix: usize) -> Result<Rma, RmaError> {
    Rma::with_radix(me, radix)
}

/// Like [`Rma::mutexes`], for any kind of mutex.
///
/// # Collective
/// As [`Rma::mutexes`]; all members give the same kind.
///
/// # Errors
/// As [`Rma::mutexes`].
pub fn mutexes(
    rma: &mut Rma,
    me: &mut Member,
    kind: LockKind,
    count: usize,
) -> Result<Mutexes, RmaError> {
    rma.mutexes_of(me, kind, count)
}

/// Like [`Rma::fence_all`], with the schedule of ARMCI: asks `window` of the hosts that were
/// written to, waits for their answers, then asks the next ones.
///
/// A window of 1 asks one host after the other; a window greater than the number of hosts asks all
/// of them at once.
///
/// # Errors
/// As [`Rma::fence`].
pub fn fence_all_asking(rma: &mut Rma, window: Window) -> Result<(), RmaError> {
    rma.fence_all_asking(window)
}

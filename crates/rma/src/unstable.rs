//! What benchmarks and conformance tests compare the product with. No promise holds for any of it.

use syncline_fabric::Member;

pub use crate::lock::LockKind;
pub use crate::rma::Window;
use crate::{Mutexes, Rma, RmaError};

/// The schedule of a sync between hosts.
pub mod sync_exchange {
    pub use crate::sync_exchange::*;
}

/// As [`Rma::new`]; syncs between hosts go in rounds of that radix, at least 2.
///
/// # Collective
/// As [`Rma::new`]; all members name the same radix.
///
/// # Errors
/// As [`Rma::new`].
pub fn with_radix(me: &mut Member, radix: usize) -> Result<Rma, RmaError> {
    Rma::with_radix(me, radix)
}

/// As [`Rma::mutexes`], of any kind.
///
/// # Collective
/// As [`Rma::mutexes`]; all members name the same kind.
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

/// As [`Rma::fence_all`], as ARMCI does it: asks `window` of the hosts that were written to, waits
/// for their answers, asks the next.
///
/// A window of 1 is one host after the other; more than there are is all at once.
///
/// # Errors
/// As [`Rma::fence`].
pub fn fence_all_asking(rma: &mut Rma, window: Window) -> Result<(), RmaError> {
    rma.fence_all_asking(window)
}

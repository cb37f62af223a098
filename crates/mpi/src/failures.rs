//! Failures of processes, for MPIs that have calls for them (ULFM): Open MPI 5 under `mpirun
//! --with-ft ulfm`, MPICH in part.
//!
//! A call that involves a dead process fails with
//! [`ErrorClass::ProcessFailed`](crate::error::ErrorClass). A process whose call fails so revokes
//! the communicator, so that the calls of all others fail as well; then the survivors shrink it and
//! continue.

use std::ffi::c_int;

use crate::communicator::Communicator;
use crate::error::Result;

impl Communicator {
    /// Revokes the communicator: from then on, all calls of all its processes fail, except
    /// [`shrink`](Self::shrink) and [`agree`](Self::agree).
    ///
    /// # Errors
    /// [`ErrorClass::NotSupported`](crate::error::ErrorClass::NotSupported) if the MPI lacks the
    /// call, and the errors of any call.
    pub fn revoke(&self) -> Result<()> {
        // SAFETY: the call takes no memory.
        self.inner
            .call("revoke a communicator", |calls| unsafe { (calls.comm_revoke)(self.handle) })
    }

    /// Returns a communicator of the surviving processes. Collective over them.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub fn shrink(&self) -> Result<Communicator> {
        Communicator::make(&self.inner, "shrink a communicator", |calls, handle| {
            // SAFETY: `handle` is valid for a write until the call returns.
            unsafe { (calls.comm_shrink)(self.handle, handle) }
        })
    }

    /// Returns the bitwise and of the bits that the surviving processes pass. Collective over them.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke);
    /// [`ErrorClass::ProcessFailed`](crate::error::ErrorClass::ProcessFailed) if a process has
    /// failed whose failure was not [acknowledged](Self::failures) by all.
    pub fn agree(&self, bits: u32) -> Result<u32> {
        let mut flags = bits as c_int;
        self.inner.call("agree", |calls| {
            // SAFETY: `flags` is valid for reads and writes until the call returns.
            unsafe { (calls.comm_agree)(self.handle, &raw mut flags) }
        })?;
        Ok(flags as u32)
    }

    /// Returns the ranks of the processes whose failure MPI has detected here, and acknowledges
    /// these failures.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub fn failures(&self) -> Result<Vec<usize>> {
        let mut ranks: Vec<c_int> = vec![0; self.size()];
        let mut count = 0;
        let (room, into) = (ranks.len() as c_int, ranks.as_mut_ptr());
        // SAFETY: `into` is valid for writes of `room` ranks, and `count` for a write, until the
        // call returns.
        self.inner.call("ask which processes have failed", |calls| unsafe {
            (calls.comm_failures)(self.handle, into, room, &raw mut count)
        })?;
        Ok(ranks.into_iter().take(count.max(0) as usize).map(|rank| rank as usize).collect())
    }
}

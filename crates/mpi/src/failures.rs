//! Failures of processes, where the MPI has calls for them (ULFM): Open MPI 5 under `mpirun --with-ft ulfm`, MPICH in part.
//!
//! A call that meets a dead process fails with [`ErrorClass::ProcessFailed`](crate::error::ErrorClass); whoever learns of it revokes the
//! communicator, so that all do; then those that are left shrink it and go on.

use std::ffi::c_int;

use crate::communicator::Communicator;
use crate::error::Result;

impl Communicator {
    /// Makes all calls of all its processes fail from here on, but [`shrink`](Self::shrink) and [`agree`](Self::agree).
    ///
    /// # Errors
    /// [`ErrorClass::NotSupported`](crate::error::ErrorClass::NotSupported) where the MPI has no such call; those of any call.
    pub fn revoke(&self) -> Result<()> {
        // SAFETY: takes no memory.
        self.inner
            .call("revoke a communicator", |calls| unsafe { (calls.comm_revoke)(self.handle) })
    }

    /// Those that live, in a communicator of their own. Collective over them.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub fn shrink(&self) -> Result<Communicator> {
        Communicator::make(&self.inner, "shrink a communicator", |calls, handle| {
            // SAFETY: the handle has room.
            unsafe { (calls.comm_shrink)(self.handle, handle) }
        })
    }

    /// The bits that all who live have given. Collective over them.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke); with [`ErrorClass::ProcessFailed`](crate::error::ErrorClass::ProcessFailed) if somebody has failed whose
    /// failure was not [known](Self::failures) to all.
    pub fn agree(&self, bits: u32) -> Result<u32> {
        let mut flags = bits as c_int;
        self.inner.call("agree", |calls| {
            // SAFETY: `flags` is a local that outlives the call.
            unsafe { (calls.comm_agree)(self.handle, &raw mut flags) }
        })?;
        Ok(flags as u32)
    }

    /// The ranks of those whose failure this process knows of, and has acknowledged hereby.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub fn failures(&self) -> Result<Vec<usize>> {
        let mut ranks: Vec<c_int> = vec![0; self.size()];
        let mut count = 0;
        let (room, into) = (ranks.len() as c_int, ranks.as_mut_ptr());
        // SAFETY: there is room for as many ranks as it is told, and for their number.
        self.inner.call("ask who has failed", |calls| unsafe {
            (calls.comm_failures)(self.handle, into, room, &raw mut count)
        })?;
        Ok(ranks.into_iter().take(count.max(0) as usize).map(|rank| rank as usize).collect())
    }
}

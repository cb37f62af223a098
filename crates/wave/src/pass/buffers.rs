//! The buffers that the passes of a run use one after the other.
//!
//! # Contract
//! Memory is taken when it is first touched, a page at a time, which takes a tenth of the time that
//! a disk needs to fill it. So a pass gives its buffers back, and the next one takes those that are
//! long enough. What does not fit the next pass is freed before that gets new memory, so a run
//! never has more than its plan says.

use std::sync::{Mutex, PoisonError};

use syncline_store::direct_io::IoBuffer;

use crate::Result;

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<IoBuffer>>);

impl Buffers {
    /// Returns a buffer of `len` bytes or a few more, of unspecified contents.
    pub(super) fn take(&self, len: usize) -> Result<IoBuffer> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &IoBuffer| (len..=len + len / 8).contains(&buffer.len());
        let fitting = (0..free.len()).filter(|&at| fits(&free[at]));
        if let Some(at) = fitting.min_by_key(|&at| free[at].len()) {
            return Ok(free.swap_remove(at));
        }
        free.clear();
        Ok(IoBuffer::new(len)?)
    }

    /// Gives buffers back.
    pub(super) fn give(&self, buffers: impl Iterator<Item = IoBuffer>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(buffers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_if_it_fits() {
        let buffers = Buffers::default();
        let (a, b) = (buffers.take(100).unwrap(), buffers.take(1000).unwrap());
        let address = b.as_ptr();
        buffers.give([a, b].into_iter());
        assert_eq!(buffers.take(990).unwrap().as_ptr(), address);
        // Nothing else is kept beside new memory.
        assert_eq!(buffers.take(500).unwrap().len(), 500);
        assert!(buffers.0.lock().unwrap().is_empty());
    }
}

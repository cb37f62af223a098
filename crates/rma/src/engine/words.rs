//! The words of one-sided memory that the members and servers of a host share.

use syncline_signal::PaddedSignal;
use syncline_signal::primitive::AtomicU64 as SharedU64;
use syncline_sync::{Space, SpaceError, space::Array};

/// The counters that the members of a host share.
#[derive(Clone, Debug)]
pub(crate) struct HostWords {
    /// See [`arrived`](Self::arrived), [`completed`](Self::completed), [`known`](Self::known) and
    /// [`heard`](Self::heard).
    signals: Array<PaddedSignal>,
    /// By parity: the number of requests that were done on this host.
    pub(super) done: Array<SharedU64>,
    /// By parity and host: the number of requests that were sent to that host. The last word: the
    /// number of requests in flight.
    sent: Array<SharedU64>,
    hosts: usize,
}

impl HostWords {
    pub(crate) fn within(space: &mut Space, hosts: usize) -> Result<HostWords, SpaceError> {
        Ok(HostWords {
            signals: space.array(4)?,
            done: space.array(2)?,
            sent: space.array(2 * hosts + 1)?,
            hosts,
        })
    }

    pub(crate) fn arrived(&self) -> &PaddedSignal {
        &self.signals[0]
    }

    pub(crate) fn completed(&self) -> &PaddedSignal {
        &self.signals[1]
    }

    /// The last sync that all hosts began with all of their requests acknowledged.
    pub(crate) fn known(&self) -> &PaddedSignal {
        &self.signals[2]
    }

    /// The last sync that some host is known to have completed.
    pub(crate) fn heard(&self) -> &PaddedSignal {
        &self.signals[3]
    }

    pub(super) fn sent(&self, parity: u8, host: usize) -> &SharedU64 {
        &self.sent[usize::from(parity) * self.hosts + host]
    }

    pub(super) fn under_way(&self) -> &SharedU64 {
        &self.sent[2 * self.hosts]
    }
}

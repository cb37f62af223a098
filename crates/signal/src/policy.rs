//! How to wait.

use std::time::Duration;

use crate::Liveness;

/// How a wait passes the time: pauses, then yields, then sleep.
///
/// The default was measured as the best both with cores to spare and with four members to a core:
/// 16 pauses, then yields of the processor for up to 50 microseconds, then a futex. Fewer yields
/// make short waits bistable; a long spin before the sleep costs 40 times as much when members
/// outnumber cores. [`SpinWait`](crate::spin_wait::SpinWait) is what comes before the futex.
///
/// Where a yield lasts half a millisecond or longer, as computing threads keep the processors busy,
/// the thread does not yield for 64 times as long (at most a second), whatever `yield_for` is.
///
/// ```
/// use syncline_signal::Policy;
///
/// let patient = Policy::default();
/// let sleepy = Policy { pauses: 0, yield_for: std::time::Duration::ZERO, ..Policy::default() };
/// assert!(sleepy.yield_for < patient.yield_for);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The number of looks with only a pause in between.
    pub pauses: u32,
    /// The time for which looks go on with a yield of the processor in between.
    pub yield_for: Duration,
    /// Asked again and again: the wait ends when it names a member that is gone.
    pub liveness: Option<&'a dyn Liveness>,
}

impl<'a> Policy<'a> {
    /// The longest sleep between two questions to [`liveness`](Self::liveness).
    pub(crate) const DEATH_CHECK: Duration = Duration::from_millis(100);

    /// Returns the same policy, whose waits end with [`WaitError::Dead`](crate::WaitError::Dead)
    /// when `liveness` names a member.
    #[must_use]
    pub fn watching(self, liveness: &'a dyn Liveness) -> Self {
        Policy { liveness: Some(liveness), ..self }
    }
}

impl Default for Policy<'_> {
    fn default() -> Self {
        Policy { pauses: 16, yield_for: Duration::from_micros(50), liveness: None }
    }
}

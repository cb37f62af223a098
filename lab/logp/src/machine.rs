//! The costs of messages: the LogP model, with a gap for each word.
//!
//! ```text
//!  sender's processor  | o |
//!  its host's wire         | words x G |
//!  in flight                           |      L = 1      |
//!  receiver's processor                                  | o |
//! ```
//! A processor handles one message at a time, in order of arrival; so does the wire by which a host
//! sends. Nothing else takes time: the model has no work between messages, no loss, and no
//! contention in the network.
//!
//! # Source
//! Culler et al., LogP (1993); the gap for each byte is from Alexandrov et al., LogGP (1995).
//! Differences: the gap applies on the sending side only, and there is no gap between messages
//! other than the overhead.

/// A time in the simulation. Times are integers, so that simultaneous events compare equal.
pub type Time = u64;

/// The latency: the time that a message is in flight.
pub const L: Time = 1_000_000_000;

/// Returns a time as a multiple of [`L`].
#[must_use]
pub fn in_latencies(time: Time) -> f64 {
    time as f64 / L as f64
}

/// The costs of a message, besides its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The time that a processor spends on a message, at each end.
    pub overhead: Time,
    /// The time that the wire spends on each 8 bytes of a message.
    pub gap: Time,
}

impl Machine {
    /// Creates a machine; `overhead` and `gap` are in units of [`L`].
    #[must_use]
    pub fn new(overhead: f64, gap: f64) -> Machine {
        let time = |latencies: f64| (latencies * L as f64).round() as Time;
        Machine { overhead: time(overhead), gap: time(gap) }
    }
}

//! What messages cost: the model LogP, with a gap for each word.
//!
//! ```text
//!  sender's processor  | o |
//!  its host's wire         | words x G |
//!  under way                           |      L = 1      |
//!  receiver's processor                                  | o |
//! ```
//! A processor does one message at a time, in the order in which they come; so does the wire by which a host sends. Nothing
//! else takes time: no work between messages, no lost ones, no contention in the network.
//!
//! # Source
//! Culler et al., LogP (1993); the gap for each byte is of Alexandrov et al., LogGP (1995). Changed: the gap is taken on the
//! way out only, and between messages there is none but the overhead.

/// Time in the simulation: whole numbers, so that what happens at once happens at once.
pub type Time = u64;

/// The time that a message is under way.
pub const L: Time = 1_000_000_000;

/// A time as a multiple of [`L`].
#[must_use]
pub fn in_latencies(time: Time) -> f64 {
    time as f64 / L as f64
}

/// What a message costs beside its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The time that a message takes a processor, at each end.
    pub overhead: Time,
    /// The time that each 8 bytes of it take the wire.
    pub gap: Time,
}

impl Machine {
    /// A machine with these, in units of the time that a message is under way.
    #[must_use]
    pub fn new(overhead: f64, gap: f64) -> Machine {
        let time = |latencies: f64| (latencies * L as f64).round() as Time;
        Machine { overhead: time(overhead), gap: time(gap) }
    }
}

//! The growth of the time of a fence and a barrier with the number of hosts: by formula, and
//! simulated.
//!
//! * [`Machine`]: the costs of messages.
//! * [`Load`]: the members, and the puts in flight when they begin.
//! * [`Scheme`]: the messages that each member sends and awaits, as a list of [`Step`]s; all
//!   schemes are in [`schemes`].
//! * [`simulate`]: runs a scheme on a machine, message by message.
//! * [`growth`]: the tables and curves of `docs/growth.md`.
//!
//! ```
//! use syncline_logp::schemes::{Asking, Sync};
//! use syncline_logp::{Load, Machine, simulate};
//!
//! let (machine, load) = (Machine::new(0.01, 0.0), Load::puts(64));
//! let one_by_one = simulate(&Asking { window: 1 }, machine, &load).time;
//! let sync = simulate(&Sync { radix: 64 }, machine, &load).time;
//! assert!(one_by_one > 12.0 * sync);
//! ```
//!
//! The schedule of the product's schemes is the product's code:
//! [`syncline_rma::unstable::sync_exchange`].

pub mod growth;
mod machine;
mod scheme;
pub mod schemes;
mod simulation;

pub use machine::{L, Machine, Time, in_latencies};
pub use scheme::{Driven, Load, Scheme, Step};
pub use simulation::{Outcome, simulate, simulate_all};

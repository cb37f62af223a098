//! The protocols of one-sided memory, checked under every interleaving of messages and steps.
//!
//! | module       | is                                                                                        |
//! |--------------|-------------------------------------------------------------------------------------------|
//! | [`sync`]     | fence and barrier in one exchange, with the gate; and the papers' form with two exchanges |
//! | [`schedule`] | who sends which counts to whom in an exchange of any radix, over any number of hosts      |
//! | [`mcs`]      | the software queue lock over messages, with what its holders write elsewhere              |
//! | [`credits`]  | the window of requests under way, and acknowledgements in batches                         |
//! | [`explore`]  | runs a model to its end: a right one has no counterexample, a planted bug must have one   |
//! | [`fifo`]     | a short queue in place, for channels inside states                                        |
//!
//! # Contract
//! A model is the protocol as its product has it, with a few hosts and a short program each. Its states are explored
//! all, so what is said of it holds for every order of deliveries and steps, in that setting. Each model has planted
//! bugs, as values of its configuration; a test says which property each of them must break. All actions are progress
//! (whoever waits has no action), so graphs of states have no circles, and a run that cannot go on has either ended or
//! hangs.
//!
//! Nothing is left out that could be seen. Answers reach who waits for them at once: one that is slow is a member that
//! is slow. What a server does after an event it does with it, as nobody else looks at what it has not looked at yet.
//!
//! # Figure: what is ordered
//! ```text
//!            requests (put, get, swap ...)      one queue for each pair of hosts, first in first out
//!   host a ════════════════════════════════> host b
//!   host a ────────────────────────────────> host b
//!            control (counts, acknowledgements) another, first in first out; between the two, and between pairs, no order
//! ```
//! That is less order than MPI gives. A request that is received and not applied is the same as one under way, except
//! where buffers are counted ([`credits`]); so the queue of a pair stands for both.
//!
//! # Example
//! ```
//! use syncline_models::explore;
//! use syncline_models::sync::{Config, Op, Sync};
//!
//! use Op::{Finish, Get, Put, Start};
//! let programs = [vec![Put(1), Start, Finish], vec![Start, Finish], vec![Start, Finish, Get(1)]];
//! let right = Sync::new(Config::new(3, 3), &programs);
//! explore::holds("a put, a sync, a get by a third", right.clone());
//! let no_gate = Sync::new(Config { gate: syncline_models::sync::Gate::None, ..Config::new(3, 3) }, &programs);
//! explore::breaks("no gate", no_gate, "gets are never stale");
//! ```

pub mod absent;
pub mod credits;
pub mod explore;
pub mod fifo;
pub mod mcs;
pub mod schedule;
pub mod sync;

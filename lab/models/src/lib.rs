//! Models of the protocols of one-sided memory, and of overlays over hosts, checked under every
//! interleaving of messages and steps.
//!
//! | module       | models                                                                      |
//! |--------------|-----------------------------------------------------------------------------|
//! | [`sync`]     | fence and barrier in one exchange, with the gate; the papers' two exchanges |
//! | [`schedule`] | the message schedule of an exchange of counts, of any radix, over `n` hosts |
//! | [`mcs`]      | the software queue lock over messages, with remote writes while held        |
//! | [`absent`]   | the queue lock whose waits have deadlines                                   |
//! | [`credits`]  | the window of requests in flight, and acknowledgements in batches           |
//! | [`grants`]   | overlays whose tasks run on several hosts: grants carry the data            |
//! | [`explore`]  | the runner: a correct model has no counterexample, a planted bug has one    |
//! | [`fifo`]     | a short in-place queue, for channels inside states                          |
//!
//! # Contract
//! Each model states the protocol as the product implements it, with a few hosts and a short
//! program for each member. The explorer visits every reachable state, so each property holds, in
//! that setting, for every order of deliveries and steps. Each model has planted bugs, which are
//! values of its configuration; a test says which property each bug must break. Every action makes
//! progress (a waiting member has no action), so state graphs are acyclic, and a run that cannot
//! continue has either ended or hangs.
//!
//! A model omits only what no member can observe. An answer reaches the member that waits for it at
//! once: a slow answer is equivalent to a slow member. The steps that a server takes after an event
//! are part of that event's action, because no other process observes the state in between.
//!
//! # Figure: the order of messages
//! ```text
//!            requests (put, get, swap ...)        one FIFO queue for each pair of hosts
//!   host a ════════════════════════════════> host b
//!   host a ────────────────────────────────> host b
//!            control (counts, acknowledgements)   another FIFO queue for each pair
//!
//!   No order holds between the two queues of a pair, nor between pairs.
//! ```
//! MPI guarantees more order than that. A request that is received and not yet applied is
//! equivalent to one in flight, except where buffers are counted ([`credits`]); so one queue for
//! each pair stands for both.
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
//! let config = Config { gate: syncline_models::sync::Gate::None, ..Config::new(3, 3) };
//! let no_gate = Sync::new(config, &programs);
//! explore::breaks("no gate", no_gate, "gets are never stale");
//! ```

pub mod absent;
pub mod credits;
pub mod explore;
pub mod fifo;
pub mod grants;
pub mod mcs;
pub mod schedule;
pub mod sync;

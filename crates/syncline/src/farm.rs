//! Processes as tasks: pools of workers, and processes that exchange typed messages.
//!
//! A [`Pool`] hands tasks to worker processes. A task ends exactly once: with its result, or with
//! an error that says how its worker ended. A worker that crashes takes only its own task with it.
//! A
//! [`Farm`] is the layer below: processes that are started at any time, with channels between them.
//!
//! The program is the manager of the pool. The pool starts the same program again as its workers,
//! which never return from [`serve`].
//!
//! ```no_run
//! use syncline::farm::{PoolBuilder, Task, serve};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     serve(|n: u64| (1..=n).filter(|d| n % d == 0).sum::<u64>())?;
//!     let mut pool = PoolBuilder::new(4).retries(1).start::<u64, u64>()?;
//!     for done in pool.map((1..1000).map(|n| Task::new(n).cost(n as f64))) {
//!         println!("{}: {}", done.id.number() + 1, done.result?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Processes run on one machine. A pool of the members of a team
//! ([`PoolBuilder::on`]) spans the hosts of the team.

pub use syncline_farm::*;

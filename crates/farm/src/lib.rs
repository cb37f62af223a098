//! Processes as tasks: for irregular computations whose libraries are not thread-safe, or may
//! crash.
//!
//! * [`PoolBuilder`], [`Pool`]: tasks in, results out: workers that stay, or a process for each task;
//!   priorities, costs, retries, time limits; tasks that fork others. What becomes of a worker is
//!   the error of its task.
//! * [`Farm`], what pools are made of: `spawn` starts a process at any time, from any process;
//!   `send` and `recv` pass typed messages between any two.
//! * [`Wire`](wire::Wire): what can be sent: whatever serde can, and [`Numbers`](wire::Numbers), slices that are read where
//!   they were written.
//! * [`Program`]: what to start; [`Bounds`](bounds::Bounds): what a farm may take.
//!
//! ```no_run
//! use syncline_farm::{Farm, Program, Vpid};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     if let Some(mut farm) = Farm::join()? {
//!         let (from, to): (u64, u64) = farm.recv(Vpid::MANAGER)?; // a worker
//!         farm.send(Vpid::MANAGER, &(from..to).sum::<u64>())?;
//!         return Ok(());
//!     }
//!     let mut farm = Farm::new()?; // the manager
//!     for part in 0..4_u64 {
//!         let worker = farm.reserve()?;
//!         farm.send(worker, &(part * 1000, (part + 1) * 1000))?;
//!         farm.start(worker, &Program::this()?)?;
//!     }
//!     let mut sum = 0;
//!     for _ in 0..4 {
//!         sum += farm.recv_any::<u64>()?.1;
//!     }
//!     assert_eq!(sum, (0..4000).sum());
//!     Ok(())
//! }
//! ```
//!
//! # Which process watches which
//! ```text
//!     manager (0) ── pidfd ──> every process: its end is told to all, and ends their waits
//!        │ └────── lifeline ─> every process: the kernel kills it and its group when the manager is gone
//!        ▼
//!     memory without a name, inherited: which processes live, channels, messages
//! ```
//!
//! No process waits for the dead: [`FarmError::Gone`] says which it was and how it ended. Nothing
//! is left behind: the memory has no name, and no process outlives the manager, nor does what
//! processes have started by themselves, unless it leaves its process group: see [`Farm`]. So do
//! processes that take no part (they never call [`Farm::join`]), unless the manager is killed in
//! the few microseconds in which it starts one.

mod arena;
mod bell;
mod blocks;
#[doc(hidden)]
pub mod bounds;
mod channel;
mod environment;
mod error;
mod farm;
mod mail;
pub mod message;
pub mod pool;
mod pool_transport;
mod program;
mod record;
#[doc(hidden)]
pub mod retries;
mod supervisor;
#[doc(hidden)]
pub mod vpid;
pub mod wire;

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use error::FarmError;
pub use farm::Farm;
pub use pool::{Pool, PoolBuilder, Task, TaskError, serve};
pub use program::Program;
pub use record::ExitCause;
pub use vpid::Vpid;

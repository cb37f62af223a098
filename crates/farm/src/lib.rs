//! Processes as tasks: for irregular computations whose libraries are not thread-safe, or may
//! crash.
//!
//! * [`PoolBuilder`], [`Pool`]: run tasks on long-lived workers, or in a process for each task,
//!   with priorities, costs, retries and time limits. Tasks can fork others. The failure of a
//!   worker is the error of its task.
//! * [`Farm`], on which pools are built: `spawn` starts a process at any time, from any process;
//!   `send` and `recv` pass typed messages between any two processes.
//! * [`Wire`](wire::Wire): the types that can be sent: those that serde supports, and
//!   [`Numbers`](wire::Numbers), slices that are read in place.
//! * [`Program`]: the program to start; [`Bounds`](bounds::Bounds): the resource limits of a farm.
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
//! # Supervision
//! ```text
//!     manager (0) ── pidfd ──> every process: its end is published, and ends waits for it
//!        │ └────── lifeline ─> every process: the kernel kills it and its group when the
//!        │                     manager is gone
//!        ▼
//!     memory without a name, inherited: live processes, channels, messages
//! ```
//!
//! No process waits indefinitely for a dead one: [`FarmError::Gone`] names the process and its exit
//! cause. Nothing is left behind: the memory has no name, and no process outlives the manager.
//! Neither do the processes that a process of the farm has started by other means, unless they
//! leave its process group: see [`Farm`]. The same holds for processes that never call
//! [`Farm::join`], unless the manager is killed in the few microseconds in which it starts one.

mod arena;
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

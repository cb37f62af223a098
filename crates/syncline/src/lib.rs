#![doc = include_str!("../README.md")]
//!
//! # The crate
//! The names that most programs need are here. The rest has one page for each job, with an example:
//!
//! | module      | job                                                                         |
//! |-------------|-----------------------------------------------------------------------------|
//! | [`wave`]    | sweeps over matrices larger than memory                                     |
//! | [`overlay`] | ordered read-write locks, and tasks that declare what they read and write   |
//! | [`sync`]    | barriers, queue locks, and a word that threads wait for                     |
//! | [`team`]    | one function run by threads, by processes, or by ranks of MPI               |
//! | [`rma`]     | one-sided memory: put, get, accumulate, fence, sync, mutexes                |
//! | [`farm`]    | processes as tasks: pools of workers, typed channels                        |
//! | [`store`]   | matrices in memory and on disk: layouts, `.npy`, direct I/O                 |

pub mod farm;
pub mod overlay;
pub mod rma;
pub mod store;
pub mod sync;
pub mod team;
pub mod trace;
pub mod wave;

pub use syncline_fabric::Team;
pub use syncline_farm::{Farm, PoolBuilder};
pub use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
pub use syncline_rma::Rma;
pub use syncline_sync::{Auto, BarrierMember, Lock, Mcs};
pub use syncline_wave::{Lane, Neighbours, PointKernel, Stencil, Sweep};

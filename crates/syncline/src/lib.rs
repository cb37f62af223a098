#![doc = include_str!("../README.md")]
//!
//! # The crate
//! The names that most programs need stand here; all others are in the modules, one per room of the
//! house:
//!
//! | module      | holds                                                                |
//! |-------------|----------------------------------------------------------------------|
//! | [`wave`]    | sweeps over matrices larger than memory                              |
//! | [`overlay`] | ordered read-write locks: locations, handles, tasks, runners         |
//! | [`fabric`]  | teams: one function on threads, or on processes that share memory    |
//! | [`sync`]    | barriers, queue locks                                                |
//! | [`rma`]     | one-sided memory: put, get, accumulate, fence and sync                |
//! | [`farm`]    | processes as tasks: pools, spawn, typed channels                     |
//! | [`store`]   | matrices on disk and in memory: layouts, `.npy`, direct I/O          |
//! | [`memory`]  | segments of memory; who is alive                                     |
//! | [`signal`]  | the monotone word that everything waits on                           |
//! | [`trace`]   | events in per-thread rings                                           |

pub use syncline_fabric as fabric;
pub use syncline_farm as farm;
pub use syncline_memory as memory;
pub use syncline_overlay as overlay;
pub use syncline_rma as rma;
pub use syncline_signal as signal;
pub use syncline_store as store;
pub use syncline_sync as sync;
pub use syncline_trace as trace;
pub use syncline_wave as wave;

pub use syncline_fabric::Team;
pub use syncline_farm::{Farm, PoolBuilder};
pub use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
pub use syncline_rma::Rma;
pub use syncline_signal::Signal;
pub use syncline_store::{Block, Layout, Matrix, Shape};
pub use syncline_wave::{Lane, Lk23, Neighbour, Neighbours, PointKernel, Stencil, Sweep, Target};

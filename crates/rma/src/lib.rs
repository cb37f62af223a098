//! One-sided memory on a team: any member reads, writes and adds to memory of any other, which does nothing for it.
//!
//! * [`Rma::new`], [`Rma::allocate`]: memory of which every member has a part, with all others.
//! * `put`, `get`, `accumulate`, `fetch_add`, `swap`, `compare_swap`: operations on one member's part ([`ops`]).
//! * [`Rma::put_from`], [`Rma::get_into`], ...: the same with addresses, for bindings to other languages.
//! * [`Rma::fence`], [`Rma::fence_all`]: what this member has written is there.
//! * [`Rma::sync`]: what all have written is there, and all are here: in one exchange between hosts.
//! * [`Rma::group`]: the same for some of the members.
//! * [`Rma::mutexes`]: sets of mutexes ([`lock`]).
//!
//! ```
//! use syncline_fabric::Team;
//! use syncline_rma::{Rma, RmaError};
//!
//! // A histogram whose bins are spread over the members.
//! Team::threads(2).run(|me| {
//!     let mut rma = Rma::new(me)?;
//!     let bins = rma.allocate::<i64>(me, 50)?;
//!     for n in 0..1000_usize {
//!         let bin = (n * n + me.rank()) % 100;
//!         rma.accumulate(&bins, bin / 50, bin % 50, 1, &[1])?;
//!     }
//!     rma.sync()?;
//!     let mut all = [0; 100];
//!     for rank in 0..2 {
//!         rma.get(&bins, rank, 0, &mut all[50 * rank..][..50])?;
//!     }
//!     assert_eq!(all.iter().sum::<i64>(), 2000);
//!     rma.sync()
//! })?.into_iter().collect::<Result<(), _>>()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is done when
//! | after                        | who sees what this member has put                                            |
//! |------------------------------|------------------------------------------------------------------------------|
//! | `put`                        | nobody need; its buffer is free                                              |
//! | `put`, `fence(rank)`         | everybody who looks there                                                    |
//! | `put`, `fence_all()`         | everybody, wherever it was put                                               |
//! | `put`, `sync()`              | everybody who has come out of that sync, too                                 |
//! | `put`, unlock of a mutex     | whoever locks it next                                                        |
//!
//! # Source
//! ARMCI (Nieplocha and Carpenter 1999) and Saify's thesis on its collective operations (2002), with which each file
//! compares itself.

mod allocate;
mod copy;
pub mod element;
mod engine;
mod error;
mod far;
mod group;
pub mod handle;
#[doc(hidden)]
pub mod lock;
mod memory;
mod message;
#[doc(hidden)]
pub mod ops;
pub mod raw;
mod rma;
mod rmw;
mod runs;
mod shape;
mod sync_exchange;
#[doc(hidden)]
pub mod unstable;
pub mod word;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use element::Element;
pub use error::RmaError;
pub use group::Group;
pub use lock::Mutexes;
pub use memory::Global;
pub use rma::Rma;
pub use shape::Strided;
pub use word::Pair;

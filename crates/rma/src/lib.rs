//! One-sided memory on a team: any member reads, writes and adds to the memory of any other member,
//! which takes no part in the operation.
//!
//! * [`Rma::new`], [`Rma::allocate`]: global memory, of which every member owns a part
//!   (collective).
//! * `put`, `get`, `accumulate`, `fetch_add`, `swap`, `compare_swap`: operations on one member's
//!   part ([`ops`]).
//! * [`Rma::put_from`], [`Rma::get_into`], ...: the same operations with addresses, for bindings to
//!   other languages.
//! * [`Rma::fence`], [`Rma::fence_all`]: wait until the writes of this member are complete.
//! * [`Rma::sync`]: waits until the writes of all members are complete and all members have
//!   arrived, with one exchange of messages between hosts.
//! * [`Rma::group`]: the same for a subset of the members.
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
//! # Completion
//! | after                    | the data that this member has put are visible to             |
//! |--------------------------|--------------------------------------------------------------|
//! | `put`                    | no other member necessarily; the source buffer may be reused |
//! | `put`, `fence(rank)`     | every member that reads the part of `rank`                   |
//! | `put`, `fence_all()`     | every member, in all parts                                   |
//! | `put`, `sync()`          | every member that has returned from that sync, in all parts  |
//! | `put`, unlock of a mutex | the next holder of the mutex                                 |
//!
//! # Source
//! ARMCI (Nieplocha and Carpenter 1999) and Saify's thesis on its collective operations (2002). The
//! head of each file compares its design with them.

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

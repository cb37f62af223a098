//! One-sided memory: every member of a team has a part that any other member reads, writes and
//! adds to.
//!
//! Within a host an operation is a few loads and stores. Between hosts it is a message to the
//! thread that serves the owner's host. [`Rma::sync`] is a fence and a barrier in one exchange.
//!
//! ```
//! use syncline::Team;
//! use syncline::rma::{Rma, RmaError};
//!
//! Team::threads(3).run(|me| {
//!     let mut rma = Rma::new(me)?;
//!     let numbers = rma.allocate::<u64>(me, 1)?;
//!     rma.put(&numbers, (me.rank() + 1) % 3, 0, &[me.rank() as u64])?;
//!     rma.sync()?; // every put is complete, and every member is here
//!     let mut mine = [0];
//!     rma.get(&numbers, me.rank(), 0, &mut mine)?;
//!     assert_eq!(mine[0] as usize, (me.rank() + 2) % 3);
//!     rma.sync()
//! })?.into_iter().collect::<Result<(), RmaError>>()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use syncline_rma::*;

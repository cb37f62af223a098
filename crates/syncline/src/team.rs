//! Teams: one function, run by threads, by processes that share memory, or by ranks of MPI.
//!
//! The program does not say which. [`Team::run`] takes the members from the environment: threads
//! when the program is started by itself, processes under `syncline launch`, ranks under `mpirun`.
//! A member that dies or leaves early ends the waits of all others with an error that names it.
//!
//! ```
//! use syncline::Team;
//! use syncline::sync::{Lock, Mcs};
//!
//! type Any = Box<dyn std::error::Error + Send + Sync>;
//!
//! let results = Team::threads(3).run(|me| {
//!     let mut sum = me.make(Lock::<Mcs, u64>::within)?; // all members make the same things
//!     *sum.lock()? += me.rank() as u64;
//!     me.wait()?; // the barrier of the team
//!     assert_eq!(*sum.lock()?, 3);
//!     Ok::<_, Any>(())
//! })?;
//! results.into_iter().collect::<Result<(), Any>>().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use syncline_fabric::team::*;
pub use syncline_fabric::*;

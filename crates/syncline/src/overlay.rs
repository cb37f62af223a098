//! Ordered read-write locks, and tasks that declare what they read and write.
//!
//! Each piece of data is a [`Location`] with a strict queue of read and write requests. An
//! [`Overlay`] is a set of tasks with their locations. Its check proves once that the tasks cannot
//! deadlock, or names the cycle of tasks that would wait for one another. The results do not
//! depend on the schedule or on the number of workers.
//!
//! ```
//! use syncline::overlay::{Initial, Location, Overlay, Runner, Stop};
//!
//! let (a, b) = (Location::new("a", 0.0), Location::new("b", 8.0));
//! let mut overlay = Overlay::new();
//! overlay.task("left", (a.write(), b.read()), |(a, b), _| *a = (*a + *b) / 2.0);
//! overlay.task("right", (b.write(), a.read()), |(b, a), _| *b = (*a + *b) / 2.0);
//! overlay.check(Initial::Wave)?.run(Runner::pool(2), Stop::after(100))?;
//! assert_eq!(*a.reader().acquire()?, *b.reader().acquire()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Threads and futures outside of an overlay use the same queues by [`handle`]s:
//!
//! ```
//! use syncline::Location;
//!
//! let account = Location::new("account", 10);
//! let mut writer = account.writer();
//! let mut reader = account.reader();
//! writer.post(); // takes the next place in the queue; does not block
//! reader.post(); // the place behind it
//! *writer.acquire()? += 5; // released at the end of the statement
//! assert_eq!(*reader.acquire()?, 15);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use syncline_overlay::*;

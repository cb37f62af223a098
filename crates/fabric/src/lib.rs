//! Teams: the members of a parallel program, threads or processes, and who watches whom.
//!
//! * [`Team::run`]: one function, run by every member. Who they are comes from the environment: the processes that
//!   `syncline launch -n 4 --threads 2 -- PROGRAM` started, or else the threads of this process.
//! * [`Team::threads`], [`Team::processes`]: the same, said in the program.
//! * [`Member`]: a member's rank, the memory that all share, a barrier of all, and a way to make more.
//! * [`Launcher`]: starts the processes of a team and watches them.
//!
//! ```
//! use syncline_fabric::Team;
//!
//! let sums = Team::threads(3).run(|me| {
//!     let sum: usize = (0..10).filter(|n| n % me.size() == me.rank()).sum();
//!     me.wait()?; // all have theirs
//!     Ok::<_, syncline_sync::Fault>(sum)
//! })?;
//! assert_eq!(sums.into_iter().sum::<Result<usize, _>>()?, 45);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who watches whom
//! ```text
//!                launcher ── declares dead ──> ┌ segment (a memfd, no name) ─────────────┐
//!   SIGINT,   ┌────┴────┐                      │ how far each process is, who is dead,   │
//!   SIGTERM   │ pidfds  │ lifeline             │ the team's barrier, what members make   │
//!   forwarded ▼         ▼ (a pipe)             └──▲────────────────▲─────────────────────┘
//!         process 0   process 1 ...               │ every wait looks at the dead,
//!         threads     threads ────────────────────┘ ten times a second
//! ```
//!
//! * A process that is killed, or exits before its members have ended: the launcher sees it by its pidfd, declares its
//!   ranks dead, and says so on standard error. Waits of the others end with `Fault::Dead` within a second; what they
//!   do then is up to them. After ten seconds those that are left get SIGTERM, after five more SIGKILL.
//! * A member that panics: its thread gives it up, which ends the waits for it as a death does. `run`
//!   reports it when the others of its process have ended.
//! * The launcher dies, however: the lifeline is cut. Waits end with `Fault::Dead`, whose rank is
//!   [`LAUNCHER`](syncline_sync::membership::LAUNCHER). Each process that has called `run` exits a second later, and is killed
//!   another second later if its exit hangs. (One that has not called it goes on.)
//! * SIGINT and SIGTERM to the launcher go to all processes; five seconds later those that are left get SIGKILL. From a
//!   terminal, Ctrl-C reaches them twice: the terminal sends it to all by itself.
//!
//! A process that ends when its part was done is missed only where it has left a seat of a barrier or a lock behind.
//!
//! Locks are taken from the dead only, and dead is a process after its exit. A member that has panicked or ended too early
//! lets go of its locks as its guards are dropped; a handle that it has passed on to a thread or a static goes on to count
//! while the process lives. A program that is started by a script of its own is watched as far as that script lives, and
//! should be `exec`ed by it. A launched program that is put into a namespace of process numbers of its own cannot be known.
//!
//! The memory has no name, so nothing is ever left of it. There is one kind of hang that nothing here can see: members
//! that wait for one that lives and does something else.
//!
//! # Environment
//! | variable             | says                                                                                    |
//! |----------------------|-----------------------------------------------------------------------------------------|
//! | `SYNCLINE_THREADS`   | the threads of a team that nobody launched; under MPI, the members of each process (1)    |
//! | `SYNCLINE_QUIET`     | `1`: no warning when members outnumber cores                                             |
//! | `SYNCLINE_MEMORY`    | how many bytes the members of a host share at most: `4G` (as many as there could be)      |
//! | `SYNCLINE_PER_HOST`  | under MPI, how many processes of a host share memory; others exchange messages (all)     |
//! | `SYNCLINE_SERVERS`   | under MPI, how many processes of a host serve others (1)                                  |
//! | `SYNCLINE_TIMEOUT`   | after how many milliseconds of silence a host is dead (10 000)                            |
//! | `SYNCLINE_MPI`       | the shim by which MPI is called, if not the one that is found                             |
//!
//! `SYNCLINE_TEAM` is the launcher's word to its processes. `run` takes it out of the environment if the process
//! has no other thread then (otherwise somebody might be reading it), and closes the team's descriptors on exec in any
//! case. A program that starts others, which call `run` as well, from several threads removes it from them by
//! `Command::env_remove`.

mod barrier;
#[doc(hidden)]
pub mod board;
mod coalesce;
#[doc(hidden)]
pub mod ending;
#[doc(hidden)]
pub mod endpoint;
mod environment;
pub mod error;
mod failure_detector;
mod gather;
mod hosts;
mod launcher;
#[doc(hidden)]
pub mod member;
mod mpi;
mod node;
mod orphan;
mod signals;
pub mod team;
mod team_state;
#[doc(hidden)]
pub mod transport;
mod wait_reports;

use std::io::Write as _;

pub use barrier::TeamBarrier;
pub use error::TeamError;
#[doc(hidden)]
pub use error::{Advised, MORE_MEMORY};
pub use hosts::Hosts;
pub use launcher::Launcher;
pub use member::Member;
pub use team::Team;

/// A line on standard error, in one piece, as many processes may write there. If nobody reads, that is all right.
fn say(what: std::fmt::Arguments<'_>) {
    let line = format!("syncline: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

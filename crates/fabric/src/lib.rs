//! Teams: the members of a parallel program, threads or processes, and the supervision of their
//! processes.
//!
//! * [`Team::run`]: one function, run by every member. The environment determines the members: the
//!   processes that `syncline launch -n 4 --threads 2 -- PROGRAM` started, or else the threads of
//!   this process.
//! * [`Team::threads`], [`Team::processes`]: the same, with the members set in the program.
//! * [`Member`]: a member's rank, the memory that all members share, a barrier of all members, and
//!   a way to make further barriers and locks.
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
//! # Failure detection
//! ```text
//!                launcher ── declares dead ──> ┌ segment (a memfd, no name) ─────────────┐
//!   SIGINT,   ┌────┴────┐                      │ phase of each process, list of the dead,│
//!   SIGTERM   │ pidfds  │ lifeline             │ the team's barrier, what members make   │
//!   forwarded ▼         ▼ (a pipe)             └──▲────────────────▲─────────────────────┘
//!         process 0   process 1 ...               │ every wait reads the list of the dead
//!         threads     threads ────────────────────┘ ten times a second
//! ```
//!
//! * A process is killed, or exits before its members have ended: the launcher sees this by the
//!   pidfd, declares the ranks of the process dead, and reports it on standard error. Waits of the
//!   other members end within a second, with `Fault::Dead`, or with `Fault::Left` if the process
//!   exited with 0; the program decides how they continue. Processes that are still alive after ten
//!   seconds get SIGTERM, and SIGKILL after five more.
//! * A member panics: its thread gives the member up, which ends the waits for it as a death does.
//!   `run` returns the panic when the other members of its process have ended.
//! * The launcher dies, in whatever way: the lifeline is cut. Waits end with `Fault::Dead`, whose
//!   rank is [`LAUNCHER`](syncline_sync::membership::LAUNCHER). Each process that has called `run`
//!   exits a second later, and is killed another second later if its exit hangs. A process that has
//!   not called `run` continues.
//! * The launcher forwards SIGINT and SIGTERM to all processes; processes that are still alive five
//!   seconds later get SIGKILL. From a terminal, Ctrl-C reaches the processes twice: the terminal
//!   itself sends it to all of them.
//!
//! A process that ends after its part was done is missed only where it has left a seat of a barrier
//! or a lock behind.
//!
//! Locks are taken from dead members only, and a process is dead only after its exit. A member that
//! has panicked or ended too early releases its locks as its guards are dropped; a handle that it
//! has moved to another thread or into a static remains valid while the process lives. If a script
//! starts the program, the launcher watches the script's process, so the script should `exec` the
//! program. A launched program must not be put into a PID namespace of its own: the launcher could
//! not identify it.
//!
//! The memory has no name, so it never outlives the team. One kind of hang cannot be detected:
//! members that wait for a member that is alive and does something else.
//!
//! # Environment
//! | variable            | meaning (default)                                                      |
//! |---------------------|------------------------------------------------------------------------|
//! | `SYNCLINE_THREADS`  | the threads of a team without a launcher (the cores)                   |
//! |                     | under MPI: the members of each process (1)                             |
//! | `SYNCLINE_QUIET`    | `1`: no warning when members outnumber cores                           |
//! | `SYNCLINE_MEMORY`   | the most bytes that the members of a host share: `4G` (as many as fit) |
//! | `SYNCLINE_PER_HOST` | under MPI: the processes of a host that share memory (all);            |
//! |                     | further processes exchange messages with them                          |
//! | `SYNCLINE_SERVERS`  | under MPI: the processes of a host that serve other hosts (1)          |
//! | `SYNCLINE_TIMEOUT`  | the milliseconds of silence after which a host is dead (10 000)        |
//! | `SYNCLINE_MPI`      | the shim through which MPI is called (the one that is found)           |
//!
//! The launcher sets `SYNCLINE_TEAM` for its processes. `run` removes it from the environment if
//! the process has no other thread at that time (another thread could be reading the environment),
//! and always marks the team's descriptors close-on-exec. A program that spawns, from several
//! threads, other programs that also call `run` removes the variable from them with
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
mod long;
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
#[doc(hidden)]
pub use environment::leave_team;
pub use error::TeamError;
#[doc(hidden)]
pub use error::{Advised, MORE_MEMORY};
pub use hosts::Hosts;
pub use launcher::Launcher;
pub use member::Member;
pub use team::Team;

/// Writes a line to standard error in one piece, as many processes may write there. A closed
/// standard error is not an error.
fn say(what: std::fmt::Arguments<'_>) {
    let line = format!("syncline: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

//! `syncline farm`: many tasks on a few processes, of which none is left behind.
//!
//! | module     | holds                                                                     |
//! |------------|---------------------------------------------------------------------------|
//! | `tasks`    | the input, read as it is asked for                                        |
//! | `template` | a command with holes                                                      |
//! | `each`     | a process for each task                                                   |
//! | `lines`    | workers that stay, and read and write JSON                                |
//! | `hub`      | what both share: the poll, the way to the end                             |
//! | `group`    | a process group: started, signalled, collected                            |
//! | `guard`    | the process that kills what is left when this one is killed               |
//! | `streams`  | pipes from tasks                                                          |
//! | `output`   | what tasks wrote, in order, on its way out                                |
//! | `report`   | failures, the summary, the table                                          |
//!
//! Memory is bounded: by `output` for what has ended, by a MiB for each task that runs, and by a
//! piece of the input.

mod each;
mod group;
mod guard;
mod hub;
mod lines;
mod output;
mod report;
mod streams;
mod tasks;
mod template;

use std::thread;
use std::time::Duration;

pub(crate) use group::bound;
pub(crate) use guard::guard;

use crate::args::{FarmRunArgs, Protocol};
use crate::error::Result;
use crate::watch::Signals;

/// How long a process may take to end when it has taken too long for what it does.
const GRACE: Duration = Duration::from_secs(1);

/// `syncline farm run`.
pub(crate) fn run(args: &FarmRunArgs, signals: &Signals) -> Result<()> {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let hub = hub::Hub::new(args, jobs, signals)?;
    match args.protocol {
        Protocol::Each => each::Each::new(hub, args, jobs).run(),
        Protocol::Lines => lines::Lines::new(hub, args, jobs).run(),
    }
}

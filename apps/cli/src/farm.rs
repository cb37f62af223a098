//! `syncline farm`: many tasks on a few processes, of which none is left behind.
//!
//! | module     | holds                                                                     |
//! |------------|---------------------------------------------------------------------------|
//! | `tasks`    | lines of a file or a pipe, read as they are asked for                     |
//! | `input`    | input sources: combinations, columns, how many there are                  |
//! | `template` | a command with replacement strings                                        |
//! | `ledger`   | which task is next, and what becomes of those that have ended             |
//! | `joblog`   | the log of jobs, and how an earlier run is gone on with                   |
//! | `halt`     | when a farm ends before its tasks do                                      |
//! | `each`     | a process for each task, on this machine                                  |
//! | `team`     | the same over all members of a team, on whatever hosts                    |
//! | `dry`      | commands that are only printed                                            |
//! | `running`  | a task that runs: its process group, its pipes, its time                  |
//! | `lines`    | workers that stay, and read and write JSON                                |
//! | `hub`      | what all share: the poll, the way to the end                              |
//! | `group`    | a process group: started, signalled, collected                            |
//! | `guard`    | the process that kills what is left when this one is killed               |
//! | `streams`  | pipes from tasks                                                          |
//! | `output`   | what tasks wrote, in order, on its way out                                |
//! | `report`   | failures, the summary, the table                                          |
//!
//! Memory is bounded: by `output` for what has ended, by a MiB for each task that runs, and by a
//! piece of the input; of several input sources, all values are kept.

mod dry;
mod each;
mod group;
mod guard;
pub(crate) mod halt;
mod hub;
pub(crate) mod input;
pub(crate) mod joblog;
mod ledger;
mod lines;
mod output;
mod report;
mod running;
mod streams;
mod tasks;
mod team;
mod template;

use std::thread;
use std::time::Duration;

pub(crate) use group::bound;
pub(crate) use guard::guard;
use halt::Limit;
use ledger::Ledger;

use crate::args::{FarmRunArgs, Protocol};
use crate::error::{Error, Result};
use crate::watch::Signals;

/// How long a process may take to end when it has taken too long for what it does.
const GRACE: Duration = Duration::from_secs(1);

/// `syncline farm run`.
pub(crate) fn run(args: &FarmRunArgs, signals: &Signals) -> Result<()> {
    let is_in_team = team::is_in_one();
    if args.protocol == Protocol::Lines {
        let of_all = args.halt.is_some_and(|halt| matches!(halt.at, Limit::Percent(_)));
        if let Some(option) = args.only_each().or(of_all.then_some("--halt with a percentage")) {
            return Err(Error::Usage(format!("{option} is not for --protocol lines")));
        }
        if is_in_team {
            return Err(Error::Usage(
                "--protocol lines is not for several processes of a launcher".to_owned(),
            ));
        }
    }
    if is_in_team { team::run(args, signals) } else { here(args, signals) }
}

/// The farm of this process alone.
fn here(args: &FarmRunArgs, signals: &Signals) -> Result<()> {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let hub = hub::Hub::new(args, jobs, signals)?;
    match args.protocol {
        Protocol::Each if args.dry_run => Ledger::new(hub, args, jobs)?.run(dry::Dry),
        Protocol::Each => Ledger::new(hub, args, jobs)?.run(each::Each::new(jobs)),
        Protocol::Lines => lines::Lines::new(hub, args, jobs).run(),
    }
}

//! `syncline farm`: many tasks on a few processes, none of which is left behind.
//!
//! | module     | contents                                                                  |
//! |------------|---------------------------------------------------------------------------|
//! | `tasks`    | lines of a file or a pipe, read as they are needed                        |
//! | `input`    | input sources: combinations, columns, the number of tasks                 |
//! | `template` | a command with replacement strings                                        |
//! | `ledger`   | the choice of the next task, and the results of ended tasks               |
//! | `joblog`   | the job log, and the continuation of an earlier run                       |
//! | `halt`     | the condition that ends a farm before its tasks do                        |
//! | `each`     | one process per task, on this machine                                     |
//! | `team`     | the same over all members of a team, on any hosts                         |
//! | `dry`      | commands that are only printed                                            |
//! | `running`  | a running task: its process group, its pipes, its time limit              |
//! | `lines`    | long-running workers that exchange JSON with the farm                     |
//! | `hub`      | the parts that all kinds share: the poll, the ending                      |
//! | `group`    | a process group: started, signalled, reaped                               |
//! | `guard`    | the process that kills the remaining groups when this one is killed       |
//! | `streams`  | pipes from tasks                                                          |
//! | `output`   | the output of tasks, ordered and printed                                  |
//! | `report`   | failures, the summary, the table                                          |
//!
//! Memory is bounded: `output` bounds that of ended tasks, each running task holds at most a MiB,
//! and a piece of the input is held. Of several input sources, all values are kept.

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
use syncline_common::signals::Signals;
use syncline_fabric::Team;
pub(crate) use template::quoted;

use crate::args::{FarmRunArgs, Protocol};
use crate::error::{Error, Result};

/// The time that a process may take to end after it has exceeded its time limit.
const GRACE: Duration = Duration::from_secs(1);

/// `syncline farm run`.
pub(crate) fn run(args: &FarmRunArgs, signals: &Signals) -> Result<()> {
    signals.catch_hang_up()?;
    let is_in_team = Team::is_launched();
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

/// Runs the farm of this process alone.
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

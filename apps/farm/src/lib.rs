//! `syncline farm run`: many tasks on a few processes, none of which is left behind.
//!
//! # Contract
//! [`run`] runs a command once for each task, or feeds tasks to long-running workers. It prints
//! their output, failures and summary itself, and returns when no process of a task is left. A farm
//! that has told how it ended returns [`Error::Told`] with the exit code.
//!
//! The program that calls [`run`] is started again by the farm, as `syncline farm guard` and
//! `syncline farm bound`. So its command line has these commands, which are [`guard()`] and
//! [`bound`]. It catches signals by [`Signals`], but not before [`bound`]. It has
//! [`look`](syncline_process::streams::look) called before `main`, as a farm refuses to lose what
//! its tasks print. In a team ([`Team`]) each process calls [`run`] with the same arguments.
//!
//! | module     | contents                                                                  |
//! |------------|---------------------------------------------------------------------------|
//! | `args`     | the command line                                                          |
//! | `error`    | error messages of one line each                                           |
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

mod args;
mod dry;
mod each;
mod error;
mod group;
mod guard;
mod halt;
mod hub;
mod input;
mod joblog;
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

use syncline_common::signals::Signals;
use syncline_fabric::Team;

use self::args::Protocol;
pub use self::args::{FarmBoundArgs, FarmGuardArgs, FarmRunArgs};
pub use self::error::{Error, Result};
pub use self::group::bound;
pub use self::guard::guard;
use self::halt::Limit;
use self::ledger::Ledger;
pub use self::template::quoted;

/// `syncline farm run`.
///
/// # Errors
/// [`Error::Usage`] for arguments that no farm can have, [`Error::Told`] for a farm that has told
/// how it ended, and whatever keeps the farm from going on.
pub fn run(args: &FarmRunArgs, signals: &Signals) -> Result<()> {
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

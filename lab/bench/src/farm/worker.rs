//! The other side of our entries: this command again, as a subcommand that the help does not list.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::baselines::futex_ping_pong;
use crate::baselines::sysv::{Between, Channel};
use clap::ValueEnum;
use syncline_farm::{Farm, Program, Vpid, pool::serve_forks, serve, wire::Numbers};
use syncline_signal::Policy;

use super::{cold, span};
use crate::error::{Result, Usage, failed};
use crate::places::Places;

/// Works for `bench farm`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FarmWorkerArgs {
    /// Role of the worker
    #[arg(value_enum)]
    role: Role,
    /// Processor to run on
    #[arg(long, value_name = "N")]
    processor: Option<usize>,
    /// Number of checks before it yields
    #[arg(long, value_name = "N")]
    pauses: Option<u32>,
    /// Time before it sleeps
    #[arg(long, value_name = "US")]
    yields: Option<u64>,
    /// Folder of the files of a published farm
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Sleep between two checks of a tag
    #[arg(long, value_name = "US")]
    sleep: Option<u64>,
    /// Memory that it holds
    #[arg(long, value_name = "MIB")]
    held: Option<usize>,
}

/// The role of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Receives a number, and sends its successor.
    #[default]
    Hello,
    /// Sends back each message.
    Echo,
    /// Receives numbers, reads them, and sends their sum.
    Sum,
    /// Receives a list, and sends its length.
    Values,
    /// Receives a message, reads its first byte, and sends that.
    Look,
    /// Adds 1, task by task.
    Serve,
    /// Sleeps, task by task.
    Rest,
    /// Is the other side of a futex.
    Answer,
    /// Is a published farm's worker that sends one message.
    PaperHello,
    /// Is a published farm's worker that sends back the length of each message.
    PaperEcho,
    /// Is a manager that holds memory, and starts workers on request.
    Manager,
}

/// The name of the subcommand.
const NAME: &str = "farm-worker";

/// Returns the arguments of this command in a role.
pub(super) fn arguments(role: Role) -> [String; 2] {
    let role = role.to_possible_value().map(|value| value.get_name().to_owned());
    [NAME.to_owned(), role.unwrap_or_default()]
}

/// Returns this command in a role, as a worker of ours.
pub(super) fn program(role: Role) -> Result<Program> {
    Ok(Program::this()?.args(arguments(role)))
}

/// Returns the wait policy for the options.
pub(super) fn policy(pauses: Option<u32>, yields: Option<u64>) -> Policy<'static> {
    let usual = Policy::default();
    let yield_for = yields.map_or(usual.yield_for, Duration::from_micros);
    Policy { pauses: pauses.unwrap_or(usual.pauses), yield_for, ..usual }
}

/// Returns how a published farm's processes wait, for the options.
pub(super) fn between(sleep: Option<u64>) -> Between {
    sleep.map_or(Between::Yield, |time| Between::Sleep(Duration::from_micros(time)))
}

/// `syncline-lab farm-worker`.
pub(crate) fn farm_worker(args: &FarmWorkerArgs) -> Result<()> {
    if let Some(processor) = args.processor {
        Places(vec![processor]).pin(0);
    }
    let done = match args.role {
        Role::Serve => {
            serve(|x: u64| x.wrapping_add(1)).map_err(Into::into).and(Err(NOBODY.into()))
        }
        Role::Rest => serve_forks(span::rest).map_err(Into::into).and(Err(NOBODY.into())),
        Role::Answer => futex_ping_pong::answer().map_err(Into::into),
        Role::PaperHello | Role::PaperEcho => match &args.folder {
            Some(folder) => paper(args, folder),
            None => return Err(Usage("--folder is missing".to_owned()).into()),
        },
        Role::Manager => manage(args.held.unwrap_or(0)),
        role => join(args, role),
    };
    done.map_err(|why| failed("work for a farm", why))
}

/// The error of a process that no farm has started.
const NOBODY: &str = "this process was not started by one";

/// Runs a worker of ours.
fn join(args: &FarmWorkerArgs, role: Role) -> Result<()> {
    let mut farm = Farm::join()?.ok_or(NOBODY)?;
    farm.set_policy(policy(args.pauses, args.yields));
    // A signal ends the worker when the manager ends.
    while attend(&mut farm, role)? {}
    Ok(())
}

/// Handles the next message; returns whether there may be more.
fn attend(farm: &mut Farm, role: Role) -> Result<bool> {
    let manager = Vpid::MANAGER;
    match role {
        Role::Echo => {
            let word: u64 = farm.recv(manager)?;
            farm.send(manager, &word)?;
        }
        Role::Sum => {
            let sum = sum(&farm.recv::<Numbers<u64>>(manager)?);
            farm.send(manager, &sum)?;
        }
        Role::Values => {
            let values: Vec<u64> = farm.recv(manager)?;
            farm.send(manager, &(values.len() as u64))?;
        }
        Role::Look => {
            let first = farm.recv_message(manager)?.first().copied().unwrap_or(0);
            farm.send(manager, &u64::from(first))?;
        }
        _ => {
            let word: u64 = farm.recv(manager)?;
            farm.send(manager, &(word + 1))?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sums all numbers.
pub(super) fn sum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, number| sum.wrapping_add(*number))
}

/// The deadline of a published farm's waits.
pub(super) const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
/// The process numbers of a published farm.
pub(super) const MANAGER: u8 = 0;
pub(super) const WORKER: u8 = 1;

/// Runs a published farm's worker. A single 0 ends it.
fn paper(args: &FarmWorkerArgs, folder: &Path) -> Result<()> {
    let wait = between(args.sleep);
    let mut from = Channel::join(folder, MANAGER, WORKER).waiting(wait, PATIENCE);
    let mut to = Channel::join(folder, WORKER, MANAGER).waiting(wait, PATIENCE);
    if args.role == Role::PaperHello {
        return Ok(to.send(&[1])?);
    }
    loop {
        let data = from.receive()?;
        if data == [0] {
            return Ok(());
        }
        to.send(&[i32::try_from(data.len())?])?;
    }
}

/// Starts the number of workers that each line of its input gives.
fn manage(held: usize) -> Result<()> {
    // Not zero, so that every page is touched.
    let held = vec![1_u8; held << 20];
    let mut start = cold::starts(program(Role::Hello)?)?;
    for line in io::stdin().lock().lines() {
        let count = line?.trim().parse()?;
        let seconds = start(count)?;
        println!("{{\"seconds\": {seconds:?}}}");
        io::stdout().flush()?;
    }
    drop(std::hint::black_box(held));
    Ok(())
}

/// Returns the seconds of a call.
pub(super) fn timed(once: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    once()?;
    Ok(start.elapsed().as_secs_f64())
}

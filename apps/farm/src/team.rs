//! One farm over all members of a team: under mpirun, Slurm or `syncline launch`.
//!
//! ```text
//!   rank 0: input ──> ledger ──> pool ── job ──> rank 1: a process of the command ─┐
//!             ^                    ^  ── job ──> rank 2 ...                        │
//!             └── output, job log ─┴────────── its end, its standard output ───────┘
//! ```
//!
//! A member runs one command at a time, in its own guarded process group. Its standard error goes
//! to that of the member, and from there to the launcher. When the farm is to end at once, the pool
//! is cancelled, and members end their running commands.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use syncline_common::signals::Signals;
use syncline_fabric::{Member, Team};
use syncline_farm::{
    Pool, PoolBuilder, TaskError,
    pool::{Forks, Outcome},
};

use super::dry::Dry;
use super::guard::{Guard, Unstarted};
use super::hub::{Hub, PATIENCE, Why};
use super::input::Arguments;
use super::ledger::{Attempt, Ledger, Runners, Task};
use super::output::{Spool, write_all};
use super::report::Failure;
use super::running::{Left, Over, Part, Running};
use super::template::Template;
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};

/// The interval at which signals and input are checked while members run jobs.
const TICK: Duration = Duration::from_millis(1);
/// The interval at which a member checks whether its job was cancelled.
const LOOK: Duration = Duration::from_millis(20);
/// The time for which the loss of a member does not count as a failure of its job. Longer than a
/// process of a team survives its launcher.
const HOLD: Duration = Duration::from_secs(3);
/// The interval at which rank 0 checks, while no jobs run, whether members have died.
const IDLE: Duration = Duration::from_millis(100);
/// The place where the jobs of rank 0 run, for messages.
const OTHERS: &str = "the other members of the team";
/// The maximum output of a job that is sent to rank 0, in bytes.
const LONGEST: usize = 4 << 20;

/// A job for a member.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    number: u64,
    args: Arguments,
}

/// The result of a job.
#[derive(Debug, Serialize, Deserialize)]
struct Done {
    host: String,
    rank: usize,
    /// The start, as the time since 1970.
    began: Duration,
    took: Duration,
    ended: Ended,
    output: Vec<u8>,
    wrote: u64,
    /// The signal that asked the member to end during the job.
    signal: Option<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Ended {
    Run(Result<(), Failure>),
    /// The member ended it, because the farm ends. With whether its output is too long to be sent.
    Cut(bool),
    /// The process could not be started: the error number of the system, and the reason in words.
    Unstarted(Option<i32>, String),
    /// The member cannot go on.
    Broken(String),
}

/// Runs `syncline farm run` in a member of a team.
pub(super) fn run(args: &FarmRunArgs, signals: &Signals) -> Result<()> {
    let member = |me: &mut Member| {
        signals.as_member(|| match me.size() {
            1 => super::here(args, signals),
            _ => in_member(me, args, signals),
        })
    };
    let ended = signals.while_joining(|| Team::run(member).map_err(Error::from))?;
    ended.into_iter().collect()
}

fn in_member(me: &mut Member, args: &FarmRunArgs, signals: &Signals) -> Result<()> {
    let (rank, members) = (me.rank(), me.size());
    let broken = |source| Error::Io { what: "run a farm in this team".to_owned(), source };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Rank 0 starts no commands.
    let guard = if rank > 0 { Some(RefCell::new(Guard::start()?)) } else { None };
    let template = Template::new(args.program());
    let work = |job: Job, forks: &mut Forks<'_, Job, Done>| {
        let mut done = Done {
            host: host.clone(),
            rank,
            began: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
            took: Duration::ZERO,
            ended: Ended::Broken("rank 0 runs nothing".to_owned()),
            output: Vec::new(),
            wrote: 0,
            signal: None,
        };
        if let Some(guard) = &guard {
            attend(&job, &template, args, &mut guard.borrow_mut(), signals, forks, &mut done);
        }
        done
    };
    let manage = |pool: &mut Pool<Job, Done>| {
        let jobs = args.jobs.map_or(members - 1, |jobs| usize::from(jobs).min(members - 1));
        let ledger = Ledger::new(Hub::new(args, jobs, signals)?, args, jobs)?;
        if args.dry_run {
            ledger.run(Dry)
        } else {
            ledger.run(Remote {
                pool,
                away: HashMap::new(),
                workers: members - 1,
                lost: Vec::new(),
            })
        }
    };
    // One job per message, so that every job in flight has begun when a farm ends.
    let managed = PoolBuilder::new(members - 1).batch(1).on(me, work, manage);
    managed.map_err(|error| broken(io::Error::other(error)))?.unwrap_or(Ok(()))
}

/// Runs a job in a member.
fn attend(
    job: &Job,
    template: &Template,
    args: &FarmRunArgs,
    guard: &mut Guard,
    signals: &Signals,
    forks: &mut Forks<'_, Job, Done>,
    done: &mut Done,
) {
    let command = template.fill(&job.args, job.number, done.rank);
    let mut running = match Running::start(job.number, &command, args, guard) {
        Ok(running) => running,
        Err(Unstarted::Process(error)) => {
            done.ended = Ended::Unstarted(error.raw_os_error(), error.to_string());
            return;
        }
        Err(Unstarted::Farm(error)) => {
            done.ended = Ended::Broken(error.to_string());
            return;
        }
    };
    let mut kill = None;
    while !look(&mut running) {
        let now = Instant::now();
        done.signal = done.signal.or_else(|| signals.take());
        if kill.is_none()
            && (done.signal.is_some() || running.unkept().is_some() || forks.is_cancelled())
        {
            running.group.signal(Signal::TERM);
            kill = now.checked_add(PATIENCE);
        }
        if kill.is_some_and(|kill| kill <= now) {
            running.group.signal(Signal::KILL);
        }
        running.escalate(now);
    }
    // The signal may have reached the job as well, and ended it.
    done.signal = done.signal.or_else(|| signals.take());
    let is_cut = kill.is_some() || done.signal.is_some();
    done.took = running.since.elapsed();
    running.trace(done.rank);
    match running.finish(args, guard) {
        Ok(Over { ended, left: Left { output, wrote, rest: [out, err], unkept } }) => {
            say(io::stdout().as_fd(), &out);
            say(io::stderr().as_fd(), &err);
            done.wrote = wrote;
            done.ended = match (unkept, output.into_bytes(LONGEST)) {
                (Some(error), _) => Ended::Broken(error.to_string()),
                (None, output) if is_cut && ended.is_err() => {
                    let is_too_long = output.is_none();
                    done.output = output.unwrap_or_default();
                    Ended::Cut(is_too_long)
                }
                (None, Some(output)) => {
                    done.output = output;
                    Ended::Run(ended)
                }
                (None, None) => Ended::Run(Err(Failure::Member(too_long()))),
            };
        }
        Err(error) => done.ended = Ended::Broken(error.to_string()),
    }
}

/// Returns why the output of a job is not printed.
fn too_long() -> String {
    format!(
        "it wrote more than {} MiB, which is not sent between members: --ungroup, --line-buffer",
        LONGEST >> 20
    )
}

/// Waits for a moment and handles the output of a job; returns whether it has exited.
fn look(running: &mut Running) -> bool {
    let (parts, mut fds): (Vec<_>, Vec<_>) = running
        .fds(true, true)
        .map(|(part, fd)| (part, PollFd::from_borrowed_fd(fd, PollFlags::IN)))
        .unzip();
    let left = running.deadline().map(|at| at.saturating_duration_since(Instant::now()));
    let timeout = Timespec::try_from(left.unwrap_or(LOOK).min(LOOK)).ok();
    if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
        return false;
    }
    let ready = parts
        .into_iter()
        .zip(fds.iter().map(|fd| !fd.revents().is_empty()))
        .filter(|(_, ready)| *ready);
    let mut exited = false;
    for part in ready.map(|(part, _)| part).collect::<Vec<_>>() {
        match part {
            Part::Exit => exited = true,
            Part::Out => say(io::stdout().as_fd(), &running.read_out().unwrap_or_default()),
            Part::Err => say(io::stderr().as_fd(), &running.read_err().unwrap_or_default()),
        }
    }
    exited
}

/// Writes lines; ignores errors, as the launcher decides whether there is a reader.
fn say(to: BorrowedFd<'_>, lines: &[u8]) {
    let _ = write_all(to, lines);
}

/// Returns the error of a farm whose members cannot go on.
fn broken(on: &str, why: &str) -> Error {
    Error::Io { what: format!("run jobs on {on}"), source: io::Error::other(why.to_owned()) }
}

/// The jobs that other members run.
struct Remote<'p> {
    pool: &'p mut Pool<Job, Done>,
    /// The tasks in flight, by their numbers in the pool.
    away: HashMap<u64, (Task, Instant)>,
    /// The initial number of members that run jobs.
    workers: usize,
    /// The attempts of lost members, each with the time until which it is not a failure: the team
    /// may end.
    lost: Vec<(Instant, Attempt)>,
}

impl Remote<'_> {
    fn ended(&mut self, ledger: &mut Ledger<'_>, outcome: Outcome<Done>) {
        let Some((task, since)) = self.away.remove(&outcome.id.number()) else { return };
        let mut attempt = Attempt {
            task,
            host: String::new(),
            slot: 0,
            began: SystemTime::now(),
            took: since.elapsed(),
            ended: Ok(()),
            output: Spool::default(),
            wrote: 0,
        };
        match outcome.result {
            Ok(done) => {
                attempt.began = SystemTime::UNIX_EPOCH + done.began;
                (attempt.host, attempt.slot, attempt.took) = (done.host, done.rank, done.took);
                (attempt.output, attempt.wrote) = (done.output.into(), done.wrote);
                if let Some(signal) = done.signal.filter(|_| !ledger.hub.is_killing()) {
                    ledger.hub.stop(Why::Signal(signal));
                }
                match done.ended {
                    Ended::Run(ended) => attempt.ended = ended,
                    Ended::Cut(is_too_long) => {
                        if is_too_long {
                            let number = attempt.task.number;
                            ledger.hub.say(&format!("task {number} was ended: {}", too_long()));
                        }
                        ledger.hub.fails(broken(&attempt.host, "the team ends"));
                        return ledger.cut(&attempt.task, attempt.took, attempt.output);
                    }
                    Ended::Unstarted(number, why) => {
                        let error = number
                            .map_or_else(|| io::Error::other(why), io::Error::from_raw_os_error);
                        let command = ledger.template.fill(
                            &attempt.task.args,
                            attempt.task.number,
                            attempt.slot,
                        );
                        if ledger.is_for_all(&error, &command[0]) {
                            return;
                        }
                        attempt.ended = Err(Failure::Unstarted(error.to_string()));
                    }
                    Ended::Broken(why) => {
                        ledger.hub.fails(broken(&attempt.host, &why));
                        return ledger.cut(&attempt.task, attempt.took, Spool::default());
                    }
                }
            }
            Err(error @ TaskError::NoWorker { .. }) => {
                ledger.hub.fails(broken(OTHERS, &error.to_string()));
                return ledger.cut(&attempt.task, attempt.took, Spool::default());
            }
            Err(error @ TaskError::Worker { .. }) => {
                let why = format!("{error}; what the task wrote is lost with it");
                attempt.ended = Err(Failure::Member(why));
                return self.lost.push((Instant::now() + HOLD, attempt));
            }
            Err(error) => attempt.ended = Err(Failure::Member(error.to_string())),
        }
        ledger.over(attempt);
    }
}

impl Runners for Remote<'_> {
    fn start(&mut self, _: &mut Ledger<'_>, task: Task) {
        let job = Job { number: task.number, args: task.args.clone() };
        self.away.insert(self.pool.submit(job).number(), (task, Instant::now()));
    }

    fn running(&self) -> usize {
        self.away.len() + self.lost.len()
    }

    fn poll(&mut self, ledger: &mut Ledger<'_>) {
        let (input, delayed) =
            (ledger.wants_input(self.running()), ledger.deadline(self.running()));
        // While members run jobs, the wait is for their results.
        let held = self.lost.iter().map(|(until, _)| *until).chain(delayed).min();
        let now = Instant::now();
        let until = match self.away.is_empty() {
            true => held.into_iter().chain(now.checked_add(IDLE)).min(),
            false => Some(now),
        };
        ledger.hub.poll::<()>(input, std::iter::empty(), until);
        let mut until = Instant::now() + TICK;
        while !self.away.is_empty()
            && let Ok(Some(outcome)) = self.pool.next_deadline(Some(until))
        {
            self.ended(ledger, outcome);
            until = Instant::now();
        }
        if self.away.is_empty() {
            self.pool.look();
        }
        let lost = self.pool.progress().lost as usize;
        if lost >= self.workers && !ledger.is_over(self.running()) {
            let why = "the processes of all members that run jobs have died";
            ledger.hub.fails(broken(OTHERS, why));
        }
        let (now, ends) = (Instant::now(), ledger.hub.is_killing());
        let over: Vec<_> = self.lost.extract_if(.., |(until, _)| ends || *until <= now).collect();
        // A job more than there are members would begin when another ends, even after a signal.
        let lost = lost.saturating_sub(self.lost.len());
        ledger.limit_jobs(self.workers.saturating_sub(lost));
        over.into_iter().for_each(|(_, attempt)| ledger.over(attempt));
    }

    fn stop(&mut self, hub: &mut Hub) {
        hub.stop_with(std::iter::empty());
    }

    fn signal(&mut self, _: Signal) {
        self.pool.cancel();
    }

    fn abandon(self, ledger: &mut Ledger<'_>) {
        for (task, since) in self.away.into_values() {
            ledger
                .hub
                .say(&format!("what task {} wrote is lost: {OTHERS} do not answer", task.number));
            ledger.cut(&task, since.elapsed(), Spool::default());
        }
        for (_, attempt) in self.lost {
            ledger.cut(&attempt.task, attempt.took, Spool::default());
        }
    }
}

//! A process for each task.
//!
//! ```text
//!              ┌──── again, at most --retries times ────┐
//!   input ──> start ──> running: its pipes are read ──> exited ──> its group killed, the rest of its pipes read
//!                          │ --timeout                             done or failed: output printed
//!                          └──> SIGTERM ── 1 s ──> SIGKILL
//! ```

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::Signal;

use super::GRACE;
use super::group::{self, Group, Unstarted};
use super::hub::{Hub, Why};
use super::output::Spool;
use super::report::{Exit, Failure, Of};
use super::streams::{Pipe, Prefixed};
use super::template::Template;
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};

/// A task, and how often it was tried.
#[derive(Debug)]
struct Task {
    number: u64,
    text: Vec<u8>,
    attempts: u32,
}

impl Task {
    fn told(&self, took: Duration) -> Of<'_> {
        Of { number: self.number, text: &self.text, attempts: self.attempts, took }
    }
}

/// A task that runs.
#[derive(Debug)]
struct Running {
    task: Task,
    group: Group,
    since: Instant,
    out: Pipe,
    spool: Spool,
    /// Why what it wrote could not be kept.
    unkept: Option<io::Error>,
    /// The file with its output, if that is where it writes.
    log: Option<File>,
    err: Pipe,
    lines: Prefixed,
    /// What it gets next, and when, if it takes too long.
    next: Option<(Instant, Signal)>,
    late: bool,
}

/// What is polled of a running task.
#[derive(Clone, Copy, Debug)]
enum Part {
    Exit,
    Out,
    Err,
}

/// A farm with a process for each task.
#[derive(Debug)]
pub(super) struct Each<'a> {
    hub: Hub,
    args: &'a FarmRunArgs,
    template: Template,
    jobs: usize,
    running: Vec<Running>,
    /// What failed and is to be tried again.
    again: VecDeque<Task>,
    numbers: u64,
}

impl<'a> Each<'a> {
    pub(super) fn new(hub: Hub, args: &'a FarmRunArgs, jobs: usize) -> Self {
        let template = Template::new(&args.command);
        Self { hub, args, template, jobs, running: Vec::new(), again: VecDeque::new(), numbers: 0 }
    }

    /// Runs all tasks.
    pub(super) fn run(mut self) -> Result<()> {
        loop {
            self.start();
            if self.is_over() {
                break;
            }
            self.poll();
            if self.hub.is_to_stop() {
                let stopped = self.hub.stop_with(self.running.iter().map(|running| &running.group));
                for running in &mut self.running {
                    running.next =
                        running.next.and_then(|(at, signal)| Some((at.checked_add(stopped)?, signal)));
                }
            }
            if let Some(signal) = self.hub.due() {
                self.running.iter().for_each(|running| running.group.signal(signal));
            }
            self.escalate();
            self.hub.show(self.running.len());
        }
        for task in std::mem::take(&mut self.again) {
            let told = self.hub.report.ended(task.told(Duration::ZERO));
            self.hub.attempt(told);
        }
        for running in std::mem::take(&mut self.running) {
            let told = self.hub.report.ended(running.task.told(running.since.elapsed()));
            self.hub.attempt(told);
        }
        self.hub.conclude(0)
    }

    fn is_over(&self) -> bool {
        if self.hub.is_ending() {
            return self.running.is_empty() || self.hub.gives_up();
        }
        self.running.is_empty() && self.again.is_empty() && self.hub.source.is_over()
    }

    /// Whether a new task would be started.
    fn has_room(&self) -> bool {
        !self.hub.is_ending() && self.running.len() < self.jobs && self.hub.output.has_room()
    }

    /// Starts what may be started.
    fn start(&mut self) {
        while !self.hub.is_ending() && self.running.len() < self.jobs {
            let task = match self.again.pop_front() {
                Some(task) => task,
                None if self.has_room() => match self.hub.source.next() {
                    Some(text) => {
                        self.numbers += 1;
                        self.hub.report.begins();
                        Task { number: self.numbers, text, attempts: 0 }
                    }
                    None => return,
                },
                None => return,
            };
            self.launch(task);
        }
    }

    fn launch(&mut self, mut task: Task) {
        task.attempts += 1;
        let since = Instant::now();
        let parts = self.template.fill(&task.text, task.number);
        let Some((program, rest)) = parts.split_first() else { return };
        let logs = self.args.logs.as_deref().map(|logs| logs_of(logs, task.number)).transpose();
        let Some(logs) = self.hub.attempt(logs) else { return };
        let mut command = match group::command(program, rest, self.args.memory) {
            Ok(command) => command,
            Err(error) => return self.unstarted(task, program, &error),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut log = None;
        if let Some((out, err)) = logs {
            match out.try_clone() {
                Ok(copy) => command.stdout(copy).stderr(err),
                Err(error) => return self.unstarted(task, program, &error),
            };
            log = Some(out);
        }
        let mut group = match Group::start(&mut command, &mut self.hub.guard) {
            Ok(group) => group,
            Err(Unstarted::Process(error)) => return self.unstarted(task, program, &error),
            Err(Unstarted::Guard(error)) => return self.hub.stop(Why::Error(error)),
        };
        let (_, out, err) = group.pipes();
        let lines = Prefixed::new(format!("[{}] ", task.number));
        self.running.push(Running {
            task,
            group,
            since,
            out: Pipe::new(out),
            spool: Spool::default(),
            unkept: None,
            log,
            err: Pipe::new(err),
            lines,
            next: self.args.timeout.and_then(|time| Some((since.checked_add(time)?, Signal::TERM))),
            late: false,
        });
    }

    /// There is no process for a task. A program that is not there for one is there for none, if
    /// all have the same.
    fn unstarted(&mut self, task: Task, program: &OsString, error: &io::Error) {
        let gone = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind());
        if gone && self.template.one_program() {
            let what = format!("start {}", program.display());
            let source = io::Error::new(error.kind(), error.to_string());
            return self.hub.stop(Why::Error(Error::Io { what, source }));
        }
        self.over(task, Duration::ZERO, Err(Failure::Unstarted(error.to_string())), Spool::default());
    }

    /// Sleeps until something has happened, and reads what is there.
    fn poll(&mut self) {
        let input = self.has_room() && self.again.is_empty() && !self.hub.source.is_over();
        // What has no reader is left where it is.
        let heard = self.hub.errors.has_room();
        let deadline = self.running.iter().filter_map(|running| Some(running.next?.0)).min();
        let fds = self.running.iter().enumerate().flat_map(|(at, running)| {
            let err = running.err.fd().filter(|_| heard);
            let parts =
                [(Part::Exit, Some(running.group.as_fd())), (Part::Out, running.out.fd()), (Part::Err, err)];
            parts.into_iter().filter_map(move |(part, fd)| Some(((at, part), fd?, PollFlags::IN)))
        });
        let mut exited = Vec::new();
        for ((at, part), _) in self.hub.poll(input, fds, deadline) {
            let running = &mut self.running[at];
            match part {
                Part::Exit => exited.push(at),
                Part::Out => running.read(),
                Part::Err => {
                    if let Some(lines) = running.err.read(|piece| running.lines.take(piece)) {
                        self.hub.errors.print(lines.into());
                    }
                }
            }
        }
        // From behind, as those behind take the places of those that are taken out.
        exited.sort_unstable();
        for at in exited.into_iter().rev() {
            let running = self.running.swap_remove(at);
            self.exited(running);
        }
    }

    /// Ends those that have taken too long.
    fn escalate(&mut self) {
        let now = Instant::now();
        for running in &mut self.running {
            if let Some((_, signal)) = running.next.filter(|(at, _)| *at <= now) {
                running.late = true;
                running.group.signal(signal);
                running.next = (signal == Signal::TERM).then_some((now + GRACE, Signal::KILL));
            }
        }
    }

    fn exited(&mut self, mut running: Running) {
        let took = running.since.elapsed();
        let finished = running.group.finish(&mut self.hub.guard);
        let Some(status) = self.hub.attempt(finished) else { return };
        let (mut spool, mut unkept) = (running.spool, running.unkept);
        running.out.rest(|piece| keep(&mut spool, piece, &mut unkept));
        if let Some(log) = running.log {
            match Spool::of(log) {
                Ok(read) => spool = read,
                Err(error) => unkept = Some(error),
            }
        }
        let (lines, errors) = (&mut running.lines, &self.hub.errors);
        running.err.rest(|piece| errors.print(lines.take(piece).into()));
        errors.print(lines.end().into());
        if let Some(source) = unkept {
            let what = format!("keep what task {} wrote", running.task.number);
            self.hub.stop(Why::Error(Error::Io { what, source }));
        }
        let ended = match running.late {
            true => Err(Failure::Late(self.args.timeout.unwrap_or_default())),
            false if status.success() => Ok(()),
            false => Err(Failure::Exit(Exit::of(status, self.args.memory))),
        };
        self.over(running.task, took, ended, spool);
    }

    /// An attempt at a task is over.
    fn over(&mut self, task: Task, took: Duration, ended: Result<(), Failure>, output: Spool) {
        let told = task.told(took);
        let done = match ended {
            Ok(()) => self.hub.report.done(told),
            // Whether it would have failed without us is not known.
            Err(_) if self.hub.is_ending() => return drop(self.hub.report.ended(told)),
            Err(_) if task.attempts <= self.args.retries => {
                self.hub.report.again(task.attempts);
                return self.again.push_back(task);
            }
            Err(failure) => self.hub.report.failed(told, &failure).map(|line| {
                self.hub.say(&line);
                if self.args.halt {
                    self.hub.stop(Why::Halt);
                }
            }),
        };
        self.hub.attempt(done);
        self.hub.output.print(task.number, output);
    }
}

impl Running {
    fn read(&mut self) {
        let (spool, unkept) = (&mut self.spool, &mut self.unkept);
        self.out.read(|piece| keep(spool, piece, unkept));
    }
}

/// Adds to what a task wrote. After an error no more, so that what is there has no hole.
fn keep(spool: &mut Spool, piece: &[u8], unkept: &mut Option<io::Error>) {
    if unkept.is_none() {
        *unkept = spool.write(piece).err();
    }
}

/// The files to which a task writes, empty.
fn logs_of(logs: &Path, number: u64) -> Result<(File, File)> {
    let open = |ending: &str| {
        let path: PathBuf = logs.join(format!("{number}.{ending}"));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        file.map_err(|source| Error::Io { what: format!("write {}", path.display()), source })
    };
    Ok((open("out")?, open("err")?))
}

//! The choice of the next task, and the results of ended tasks, wherever they run.
//!
//! ```text
//!              ┌──── again, at most --retries times ────┐
//!   input ──> next ──> Runners::start ──> ended ────────┤
//!     │ --resume: skipped                               └──> done or failed: printed, then logged
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use syncline_farm::retries::Retries;

use super::hub::{Hub, Why};
use super::input::Arguments;
use super::joblog::{Ended, JobLog, Past};
use super::output::Spool;
use super::report::{Failure, Of};
use super::template::{Template, quoted};
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};

/// A task, with the number of its attempts.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) number: u64,
    pub(super) args: Arguments,
    pub(super) attempts: u32,
    /// The output of its last attempt, while it waits for the next one.
    wrote: Spool,
}

impl Task {
    fn new(number: u64, args: Arguments) -> Self {
        Self { number, args, attempts: 0, wrote: Spool::default() }
    }

    /// Returns the text that identifies the task in a failure message.
    fn text(&self) -> Vec<u8> {
        self.args.join(&b' ')
    }
}

/// A finished attempt at a task.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) task: Task,
    pub(super) host: String,
    pub(super) slot: usize,
    pub(super) began: SystemTime,
    pub(super) took: Duration,
    pub(super) ended: Result<(), Failure>,
    pub(super) output: Spool,
    /// The number of bytes that it wrote to standard output.
    pub(super) wrote: u64,
}

/// The place where tasks run.
pub(super) trait Runners {
    /// Starts a task.
    fn start(&mut self, ledger: &mut Ledger<'_>, task: Task);
    /// Returns the number of running tasks.
    fn running(&self) -> usize;
    /// Sleeps until an event, and reports ended tasks to the ledger.
    fn poll(&mut self, ledger: &mut Ledger<'_>);
    /// Stops with the farm, and continues with it.
    fn stop(&mut self, hub: &mut Hub);
    /// Sends a signal to all running tasks.
    fn signal(&mut self, signal: Signal);
    /// Hands the tasks that still run, and all that they have written so far, to
    /// [`Ledger::cut`].
    fn abandon(self, ledger: &mut Ledger<'_>);
}

/// The state of all tasks.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    pub(super) hub: Hub,
    pub(super) args: &'a FarmRunArgs,
    pub(super) template: Template,
    jobs: usize,
    retries: Retries,
    log: Option<Arc<JobLog>>,
    past: Past,
    /// Tasks that were read while the log of an earlier run was compared, and are not in it.
    read: VecDeque<Task>,
    /// Failed tasks that are to be tried again.
    again: VecDeque<Task>,
    numbers: u64,
    /// The earliest time of the next start, from --delay.
    not_before: Option<Instant>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(hub: Hub, args: &'a FarmRunArgs, jobs: usize) -> Result<Self> {
        let template = Template::new(args.program());
        if let Some(most) = hub.source.most_arguments()
            && let Some(missing) = template.missing(most)
        {
            return Err(Error::Usage(format!(
                "there is no argument for {missing}: a task has at most {most} (each input source is one argument, \
                 --colsep splits lines into several, -n takes several lines; \\{missing} is the text {missing})"
            )));
        }
        let (log, past) = match args.joblog.as_deref() {
            // A dry run only reads the log.
            Some(path) if args.dry_run => (None, Past::read(path, args.resumes())?),
            Some(path) => {
                JobLog::open(path, args.resumes()).map(|(log, past)| (Some(Arc::new(log)), past))?
            }
            None => (None, Past::default()),
        };
        Ok(Self {
            hub,
            args,
            template,
            jobs,
            retries: Retries::new(args.retries),
            log,
            past,
            read: VecDeque::new(),
            again: VecDeque::new(),
            numbers: 0,
            not_before: None,
        })
    }

    /// Runs all tasks.
    pub(super) fn run(mut self, mut runners: impl Runners) -> Result<()> {
        loop {
            while let Some(task) = self.next(runners.running()) {
                match self.template.missing(task.args.len()) {
                    None => runners.start(&mut self, task),
                    Some(missing) => self.lacks(task, &missing.to_string()),
                }
            }
            if self.is_over(runners.running()) {
                break;
            }
            runners.poll(&mut self);
            if self.hub.is_to_stop() {
                runners.stop(&mut self.hub);
            }
            if let Some(signal) = self.hub.due() {
                runners.signal(signal);
            }
            self.hub.show(runners.running());
        }
        for mut task in std::mem::take(&mut self.again) {
            let wrote = std::mem::take(&mut task.wrote);
            self.cut(&task, Duration::ZERO, wrote);
        }
        runners.abandon(&mut self);
        // Counts tasks that were read and not begun; others are still in the input.
        let unbegun = self.read.len();
        self.hub.conclude(unbegun)
    }

    /// From now on, at most this number of tasks run at a time, if fewer than before, but one may.
    pub(super) fn limit_jobs(&mut self, most: usize) {
        self.jobs = self.jobs.min(most.max(1));
    }

    /// Returns whether nothing is left to do, with this number of running tasks.
    pub(super) fn is_over(&self, running: usize) -> bool {
        if self.hub.is_ending() {
            return running == 0 || self.hub.gives_up();
        }
        running == 0 && self.again.is_empty() && self.read.is_empty() && self.hub.source.is_over()
    }

    /// Returns whether another task may start.
    fn may_start(&self, running: usize) -> bool {
        let is_late = || self.not_before.is_none_or(|at| at <= Instant::now());
        !self.hub.is_ending() && running < self.jobs && is_late()
    }

    /// Returns the next task to start, if one may start.
    fn next(&mut self, running: usize) -> Option<Task> {
        if !self.may_start(running) {
            return None;
        }
        let task = match self.again.pop_front() {
            Some(task) => task,
            None if self.hub.output.has_room() => {
                let task = self.unread()?;
                self.hub.report.begins();
                task
            }
            None => return None,
        };
        self.not_before = self.args.delay.and_then(|delay| Instant::now().checked_add(delay));
        Some(Task { attempts: task.attempts + 1, wrote: Spool::default(), ..task })
    }

    /// Returns the next task of the input. No task starts before the log of an earlier run has been
    /// compared with the input.
    fn unread(&mut self) -> Option<Task> {
        while self.numbers < self.past.last() {
            let Some(args) = self.hub.source.next() else {
                if self.hub.source.is_over() {
                    let ended = self.past.ends(self.numbers);
                    self.hub.attempt(ended);
                }
                return None;
            };
            self.numbers += 1;
            let had = self.past.has(&self.template, &args, self.numbers);
            if self.hub.attempt(had)? {
                self.hub.report.skips();
                self.hub.output.print(self.numbers, Spool::default());
            } else {
                self.read.push_back(Task::new(self.numbers, args));
            }
        }
        self.read.pop_front().or_else(|| {
            let args = self.hub.source.next()?;
            self.numbers += 1;
            Some(Task::new(self.numbers, args))
        })
    }

    /// Returns whether input is needed.
    pub(super) fn wants_input(&self, running: usize) -> bool {
        let has_some =
            !self.again.is_empty() || !self.read.is_empty() && self.numbers >= self.past.last();
        !has_some
            && self.may_start(running)
            && self.hub.output.has_room()
            && !self.hub.source.is_over()
    }

    /// Returns the time at which a delayed task may start.
    pub(super) fn deadline(&self, running: usize) -> Option<Instant> {
        self.not_before
            .filter(|_| !self.hub.is_ending() && running < self.jobs && !self.is_over(running))
            .filter(|at| *at > Instant::now())
    }

    /// Records a task that was ended with the farm, and prints what it has written so far. Whether
    /// it would have failed otherwise is unknown, so it is not logged.
    pub(super) fn cut(&mut self, task: &Task, took: Duration, output: Spool) {
        let (number, text, attempts) = (task.number, task.text(), task.attempts);
        let told = self.hub.report.ended(Of { number, text: &text, attempts, took });
        self.hub.attempt(told);
        self.hub.output.print(number, output);
    }

    /// Records a task that is not run, as it lacks an argument that this string of the command
    /// names.
    fn lacks(&mut self, task: Task, string: &str) {
        let args = task.args.len();
        self.over(Attempt {
            task,
            host: ":".to_owned(),
            slot: 0,
            began: SystemTime::now(),
            took: Duration::ZERO,
            ended: Err(Failure::Column(string.to_owned(), args)),
            output: Spool::default(),
            wrote: 0,
        });
    }

    /// Records a finished attempt.
    pub(super) fn over(&mut self, attempt: Attempt) {
        let Attempt { mut task, host, slot, began, took, ended, mut output, wrote } = attempt;
        let text = task.text();
        let told = Of { number: task.number, text: &text, attempts: task.attempts, took };
        let done = match &ended {
            Ok(()) => self.hub.report.done(told),
            Err(failure) if self.hub.is_killing() => {
                if let Failure::Member(why) = failure {
                    self.hub.say(&format!("task {} was ended: {why}", task.number));
                }
                return self.cut(&task, took, output);
            }
            Err(failure)
                if self.retries.allow(task.attempts)
                    && !matches!(failure, Failure::Column(..))
                    && !self.hub.is_ending() =>
            {
                self.hub.report.again(task.attempts);
                task.wrote = output;
                return self.again.push_back(task);
            }
            Err(failure) => self.hub.report.failed(told, failure).map(|line| self.hub.say(&line)),
        };
        self.hub.attempt(done);
        if let Some(log) = &self.log {
            let command = quoted(&self.template.fill(&task.args, task.number, slot));
            let (number, host, failure) = (task.number, host.as_str(), ended.as_ref().err());
            output.log(log.row(&Ended {
                number,
                host,
                began,
                took,
                wrote,
                failure,
                command: &command,
            }));
        }
        self.hub.output.print(task.number, output);
        self.hub.settled();
    }

    /// Handles a task whose process could not be started. If all tasks have the same program and it
    /// does not exist, no task can start, so the farm ends with that error.
    pub(super) fn is_for_all(&mut self, error: &std::io::Error, program: &std::ffi::OsStr) -> bool {
        use std::io::{Error as IoError, ErrorKind};
        let gone = [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&error.kind());
        let is_for_all = gone && self.template.one_program();
        if is_for_all {
            let what = format!("start {}", program.display());
            let source = IoError::new(error.kind(), error.to_string());
            self.hub.stop(Why::Error(Error::Io { what, source }));
        }
        is_for_all
    }
}

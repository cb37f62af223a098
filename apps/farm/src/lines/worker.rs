//! A long-running worker: a process, its pipes, and its task.
//!
//! ```text
//!   free ── give ──> has a task ── its answer ──> free ── no more tasks: close ──> ends by itself
//!                       │ --timeout                  ──> SIGTERM ── 1 s ──> SIGKILL
//!                       │ an invalid line or action  ──> SIGKILL
//!                       │ a closed pipe              ── 1 s for its exit ──> SIGKILL
//!   closed ── 5 s ──> SIGTERM ── 1 s ──> SIGKILL
//! ```

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::value::RawValue;

use super::protocol;
use super::queue::Task;
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};
use crate::group::{Group, Stream};
use crate::guard::{Guard, Unstarted};
use crate::report::Failure;
use crate::running::GRACE;
use crate::streams::{LastWords, Pipe, Prefixed, Splitter};

/// The time that a worker may take to end after the last task.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of answered tasks that are remembered per worker.
const REMEMBERED: usize = 1024;

/// The current task of a worker.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) since: Instant,
    /// New tasks, which join the queue when the task is done.
    pub(super) new: Vec<(Box<RawValue>, i64)>,
    /// Whether new tasks of it have already joined the queue.
    pub(super) joined: bool,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker {
    /// Counted from 1; a successor gets the same number.
    pub(super) number: usize,
    pub(super) group: Group,
    /// `None` when it is closed.
    input: Option<OwnedFd>,
    /// Bytes that the worker has not read yet.
    unwritten: Vec<u8>,
    pub(super) out: Pipe,
    pub(super) said: Splitter,
    pub(super) err: Pipe,
    pub(super) lines: Prefixed,
    pub(super) words: LastWords,
    /// The start of its own output in the file that it shares with its predecessors.
    log_from: u64,
    /// The last tasks that it has answered.
    answered: VecDeque<u64>,
    pub(super) job: Option<Job>,
    /// Its fault, for which it was killed or asked to end.
    pub(super) failure: Option<Failure>,
    /// The next action, if no event precedes it.
    pub(super) next: Option<(Instant, Next)>,
}

/// The action after the time of a worker is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Its task takes too long.
    Late,
    /// It has closed a pipe, and does not end.
    Closed(&'static str),
    /// It does not end although there are no more tasks.
    Stays,
    /// It was asked to end, and is killed.
    Kill,
}

/// The descriptors of a worker that are polled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Exit,
    In,
    Out,
    Err,
}

impl Worker {
    /// Starts a worker.
    pub(super) fn start(number: usize, args: &FarmRunArgs, guard: &mut Guard) -> Result<Self> {
        // The command line requires at least one word.
        let program =
            args.program().first().ok_or(Error::Usage("no command is given".to_owned()))?;
        let failed = |source| Error::Io { what: format!("start {}", program.display()), source };
        let mut log_from = 0;
        let errors = match &args.logs {
            None => Stream::Pipe,
            Some(logs) => {
                let log = log_of(logs, number)?;
                log_from = log.metadata().map_or(0, |log| log.len());
                Stream::File(log)
            }
        };
        let streams = [Stream::Pipe, Stream::Pipe, errors];
        let mut group =
            Group::start(args.program(), args.memory, streams, guard).map_err(|why| match why {
                Unstarted::Process(source) => failed(source),
                Unstarted::Farm(error) => error,
            })?;
        let [input, out, err] = group.pipes();
        // A pipe that could block a write is not used.
        let input = input.filter(|fd| rustix::io::ioctl_fionbio(fd, true).is_ok());
        Ok(Self {
            number,
            group,
            input,
            unwritten: Vec::new(),
            out: Pipe::new(out),
            said: Splitter::new(b'\n'),
            err: Pipe::new(err),
            lines: Prefixed::new(format!("[worker {number}] ")),
            words: LastWords::default(),
            log_from,
            answered: VecDeque::new(),
            job: None,
            failure: None,
            next: None,
        })
    }

    /// Returns whether the worker can take a task.
    pub(super) fn is_free(&self) -> bool {
        self.job.is_none() && self.failure.is_none() && self.next.is_none() && self.input.is_some()
    }

    /// Gives the worker a task.
    pub(super) fn give(&mut self, task: Task, timeout: Option<Duration>) {
        let since = Instant::now();
        self.unwritten.append(&mut protocol::give(task.id, &task.task));
        self.job = Some(Job { task, since, new: Vec::new(), joined: false });
        self.next = timeout.and_then(|time| Some((since.checked_add(time)?, Next::Late)));
        self.write();
    }

    /// Records that the worker has answered a task.
    pub(super) fn answers(&mut self, id: u64) {
        self.answered.truncate(REMEMBERED - 1);
        self.answered.push_front(id);
    }

    /// Returns whether the worker has answered this task, and it is not its current one.
    pub(super) fn has_answered(&self, id: u64) -> bool {
        self.job.as_ref().is_none_or(|job| job.task.id != id) && self.answered.contains(&id)
    }

    pub(super) fn has_answered_any(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Returns the last lines that the worker wrote to standard error, to be appended to how it
    /// ended; empty if there are none.
    pub(super) fn last_words(&self, args: &FarmRunArgs) -> String {
        let words = match &args.logs {
            Some(logs) => {
                let log = fs::read(log_path(logs, self.number)).unwrap_or_default();
                let from = usize::try_from(self.log_from).unwrap_or(usize::MAX).min(log.len());
                LastWords::of(&log[from..]).told()
            }
            None => self.words.told(),
        };
        words
            .map(|words| format!("; its last words on standard error: {words:?}"))
            .unwrap_or_default()
    }

    /// Extends the deadline by the time for which the worker was stopped.
    pub(super) fn postpone(&mut self, stopped: Duration) {
        self.next = self.next.and_then(|(at, next)| Some((at.checked_add(stopped)?, next)));
    }

    /// Writes the bytes that the worker accepts now.
    pub(super) fn write(&mut self) {
        while let Some(input) = self.input.as_ref().filter(|_| !self.unwritten.is_empty()) {
            match rustix::io::write(input, &self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.input = None;
                    self.closed("closed its standard input");
                }
            }
        }
    }

    /// Handles a closed pipe, probably because the worker ends.
    pub(super) fn closed(&mut self, what: &'static str) {
        if self.failure.is_none() {
            self.next = Some((Instant::now() + GRACE, Next::Closed(what)));
        }
    }

    /// Closes the input, as there are no more tasks.
    pub(super) fn close(&mut self) {
        self.input = None;
        self.next = Some((Instant::now() + PATIENCE, Next::Stays));
    }

    /// Kills the worker for a fault.
    pub(super) fn condemn(&mut self, what: String) {
        self.failure = Some(Failure::Astray(what));
        self.next = None;
        self.group.signal(Signal::KILL);
    }

    /// Does what is due; returns a line to print, if there is one.
    pub(super) fn escalate(&mut self, timeout: Duration) -> Option<String> {
        let now = Instant::now();
        let (_, next) = self.next.filter(|(at, _)| *at <= now)?;
        self.next = Some((now + GRACE, Next::Kill));
        match next {
            Next::Late => {
                self.failure = Some(Failure::Late(timeout));
                self.group.signal(Signal::TERM);
            }
            Next::Stays => {
                self.failure = Some(Failure::Late(PATIENCE));
                self.group.signal(Signal::TERM);
                return Some(format!(
                    "worker {} did not end when there were no more tasks",
                    self.number
                ));
            }
            Next::Closed(what) => self.condemn(what.to_owned()),
            Next::Kill => {
                self.next = None;
                self.group.signal(Signal::KILL);
            }
        }
        None
    }

    /// Returns the descriptors to poll; standard error only if `heard` is set.
    pub(super) fn fds(
        &self,
        heard: bool,
    ) -> impl Iterator<Item = (Part, BorrowedFd<'_>, PollFlags)> {
        let input = self.input.as_ref().filter(|_| !self.unwritten.is_empty()).map(OwnedFd::as_fd);
        // Output after a failure is ignored.
        let out = self.out.fd().filter(|_| self.failure.is_none());
        let parts = [
            (Part::Exit, self.group.fd(), PollFlags::IN),
            (Part::In, input, PollFlags::OUT),
            (Part::Out, out, PollFlags::IN),
            (Part::Err, self.err.fd().filter(|_| heard), PollFlags::IN),
        ];
        parts.into_iter().filter_map(|(part, fd, flags)| Some((part, fd?, flags)))
    }
}

/// Opens the file of standard error of a worker and its successors.
fn log_of(logs: &Path, number: usize) -> Result<File> {
    let path = log_path(logs, number);
    let file = File::options().append(true).create(true).open(&path);
    file.map_err(|source| Error::Io { what: format!("write {}", path.display()), source })
}

fn log_path(logs: &Path, number: usize) -> PathBuf {
    logs.join(format!("worker-{number}.err"))
}

//! A worker that stays: a process, its pipes, and the task that it has.
//!
//! ```text
//!   free ── give ──> has a task ── its answer ──> free ── no more tasks: close ──> ends by itself ─ 5 s ─> SIGTERM
//!                       │ --timeout           ──> SIGTERM ── 1 s ──> SIGKILL                        ─ 1 s ─> SIGKILL
//!                       │ anything it should not do ──> SIGKILL
//!                       │ a closed pipe       ── 1 s for its end to be seen ──> SIGKILL
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
use crate::farm::GRACE;
use crate::farm::group::{Group, Stream, Unstarted};
use crate::farm::guard::Guard;
use crate::farm::report::Failure;
use crate::farm::streams::{LastWords, Pipe, Prefixed, Splitter};

/// How long a worker may take to end when there are no more tasks.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many of the tasks that it has answered a worker is known to have answered.
const REMEMBERED: usize = 1024;

/// A task that a worker has.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) since: Instant,
    /// New tasks, which are to join when it is done.
    pub(super) new: Vec<(Box<RawValue>, i64)>,
    /// Whether new tasks of it have joined the others already.
    pub(super) joined: bool,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker {
    /// From 1; its successor has the same.
    pub(super) number: usize,
    pub(super) group: Group,
    /// `None` when it is closed.
    input: Option<OwnedFd>,
    /// What it has not taken yet.
    unwritten: Vec<u8>,
    pub(super) out: Pipe,
    pub(super) said: Splitter,
    pub(super) err: Pipe,
    pub(super) lines: Prefixed,
    pub(super) words: LastWords,
    /// Where its own words begin in the file that its predecessors had, too.
    log_from: u64,
    /// The last tasks that it has answered.
    answered: VecDeque<u64>,
    pub(super) job: Option<Job>,
    /// What it did that it should not; it has been killed for it, or asked to end.
    pub(super) failure: Option<Failure>,
    /// What is done next, if nothing happens before.
    pub(super) next: Option<(Instant, Next)>,
}

/// What is done with a worker when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Its task takes too long.
    Late,
    /// It has closed a pipe, and does not end.
    Closed(&'static str),
    /// It does not end though there are no more tasks.
    Stays,
    /// It was asked to end.
    Kill,
}

/// What is polled of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Exit,
    In,
    Out,
    Err,
}

impl Worker {
    /// Starts one.
    pub(super) fn start(number: usize, args: &FarmRunArgs, guard: &mut Guard) -> Result<Self> {
        // The command line has at least one.
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
        // A write that may wait is none.
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

    /// Whether it can have a task.
    pub(super) fn is_free(&self) -> bool {
        self.job.is_none() && self.failure.is_none() && self.next.is_none() && self.input.is_some()
    }

    /// Gives it a task.
    pub(super) fn give(&mut self, task: Task, timeout: Option<Duration>) {
        let since = Instant::now();
        self.unwritten.append(&mut protocol::give(task.id, &task.task));
        self.job = Some(Job { task, since, new: Vec::new(), joined: false });
        self.next = timeout.and_then(|time| Some((since.checked_add(time)?, Next::Late)));
        self.write();
    }

    /// It has answered a task.
    pub(super) fn answers(&mut self, id: u64) {
        self.answered.truncate(REMEMBERED - 1);
        self.answered.push_front(id);
    }

    /// Whether it has answered a task which is not the one that it has.
    pub(super) fn has_answered(&self, id: u64) -> bool {
        self.job.as_ref().is_none_or(|job| job.task.id != id) && self.answered.contains(&id)
    }

    pub(super) fn has_answered_any(&self) -> bool {
        !self.answered.is_empty()
    }

    /// What it has written to standard error last, to be told behind how it ended; nothing, if that
    /// was nothing.
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

    /// It was stopped for so long, which is no fault of it.
    pub(super) fn postpone(&mut self, stopped: Duration) {
        self.next = self.next.and_then(|(at, next)| Some((at.checked_add(stopped)?, next)));
    }

    /// Writes what it takes now.
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

    /// It has closed a pipe, probably as it ends.
    pub(super) fn closed(&mut self, what: &'static str) {
        if self.failure.is_none() {
            self.next = Some((Instant::now() + GRACE, Next::Closed(what)));
        }
    }

    /// There are no more tasks.
    pub(super) fn close(&mut self) {
        self.input = None;
        self.next = Some((Instant::now() + PATIENCE, Next::Stays));
    }

    /// It did something that it should not.
    pub(super) fn condemn(&mut self, what: String) {
        self.failure = Some(Failure::Astray(what));
        self.next = None;
        self.group.signal(Signal::KILL);
    }

    /// Does what is due; a line to be told, if there is one.
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

    /// What is polled of it; its standard error only if it would be heard.
    pub(super) fn fds(
        &self,
        heard: bool,
    ) -> impl Iterator<Item = (Part, BorrowedFd<'_>, PollFlags)> {
        let input = self.input.as_ref().filter(|_| !self.unwritten.is_empty()).map(OwnedFd::as_fd);
        // What it says after a failure is of no interest.
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

/// The file for what a worker, and then its successors, write to standard error.
fn log_of(logs: &Path, number: usize) -> Result<File> {
    let path = log_path(logs, number);
    let file = File::options().append(true).create(true).open(&path);
    file.map_err(|source| Error::Io { what: format!("write {}", path.display()), source })
}

fn log_path(logs: &Path, number: usize) -> PathBuf {
    logs.join(format!("worker-{number}.err"))
}

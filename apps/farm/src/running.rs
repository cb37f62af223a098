//! A running task: its process group, its pipes, its time limit.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use syncline_trace::Activity;

use super::group::{Group, Stream};
use super::guard::{Guard, Unstarted};
use super::output::Spool;
use super::report::{Exit, Failure};
use super::streams::{Pipe, Prefixed};
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};

/// The time that a process may take to end after it has exceeded its time limit.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// A running task.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) group: Group,
    pub(super) began: SystemTime,
    pub(super) since: Instant,
    number: u64,
    /// When it began, for the trace.
    traced: u64,
    out: Pipe,
    spool: Spool,
    wrote: u64,
    /// The error that kept its output from being stored.
    unkept: Option<io::Error>,
    /// The splitter of its standard output, with --line-buffer.
    out_lines: Option<Prefixed>,
    /// The file of its output, with --logs.
    log: Option<File>,
    err: Pipe,
    err_lines: Prefixed,
    /// The signal that it gets next, and when.
    next: Option<(Instant, Signal)>,
    late: bool,
}

/// The descriptors of a running task that are polled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Exit,
    Out,
    Err,
}

/// The result of a task that has ended.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) ended: Result<(), Failure>,
    pub(super) left: Left,
}

/// The output of a task that has not been printed.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) output: Spool,
    pub(super) wrote: u64,
    /// The rest of its output to print: standard output, then standard error.
    pub(super) rest: [Vec<u8>; 2],
    /// The error because of which output is missing; then nothing of it is printed or logged.
    pub(super) unkept: Option<Error>,
}

impl Running {
    /// Starts a task: a command with its arguments, with the options of the farm.
    pub(super) fn start(
        number: u64,
        command: &[OsString],
        args: &FarmRunArgs,
        guard: &mut Guard,
    ) -> Result<Self, Unstarted> {
        let (began, since, traced) = (SystemTime::now(), Instant::now(), syncline_trace::since());
        let logs = args.logs.as_deref().map(|logs| logs_of(logs, number));
        let logs = logs.transpose().map_err(Unstarted::Farm)?;
        let mut log = None;
        let [output, errors] = match logs {
            Some((out, err)) => {
                log = Some(out.try_clone().map_err(Unstarted::Process)?);
                [out, err].map(Stream::File)
            }
            None if args.ungroup => [Stream::Ours, Stream::Ours],
            None => [Stream::Pipe, Stream::Pipe],
        };
        let mut group =
            Group::start(command, args.memory, [Stream::Nothing, output, errors], guard)?;
        let [_, out, err] = group.pipes();
        Ok(Self {
            group,
            began,
            since,
            number,
            traced,
            out: Pipe::new(out),
            spool: Spool::default(),
            wrote: 0,
            unkept: None,
            out_lines: args.line_buffer.then(|| Prefixed::new(String::new())),
            log,
            err: Pipe::new(err),
            err_lines: Prefixed::new(format!("[{number}] ")),
            next: args.timeout.and_then(|time| Some((since.checked_add(time)?, Signal::TERM))),
            late: false,
        })
    }

    /// Records the task, which has ended, as one of a slot.
    pub(super) fn trace(&self, slot: usize) {
        syncline_trace::span_since(Activity::Command, slot as u32, self.number, self.traced);
    }

    /// Returns the descriptors to poll; pipes only if there is room for their output.
    pub(super) fn fds(&self, out: bool, err: bool) -> impl Iterator<Item = (Part, BorrowedFd<'_>)> {
        let out = self.out.fd().filter(|_| out || self.out_lines.is_none());
        let err = self.err.fd().filter(|_| err);
        let parts = [(Part::Exit, self.group.fd()), (Part::Out, out), (Part::Err, err)];
        parts.into_iter().filter_map(|(part, fd)| Some((part, fd?)))
    }

    /// Reads a piece of standard output; returns the bytes to print now.
    pub(super) fn read_out(&mut self) -> Option<Vec<u8>> {
        let (spool, unkept, wrote, lines) =
            (&mut self.spool, &mut self.unkept, &mut self.wrote, &mut self.out_lines);
        self.out.read(|piece| keep(piece, spool, unkept, wrote, lines))
    }

    /// Reads a piece of standard error; returns the bytes to print now.
    pub(super) fn read_err(&mut self) -> Option<Vec<u8>> {
        self.err.read(|piece| self.err_lines.take(piece))
    }

    /// Returns the error that kept the output from being stored, if there is one.
    pub(super) fn unkept(&self) -> Option<Error> {
        let source = self.unkept.as_ref()?;
        Some(unkept(self.number, io::Error::new(source.kind(), source.to_string())))
    }

    /// Returns the time of the next signal.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.next?.0)
    }

    /// Sends the next signal, if it is due.
    pub(super) fn escalate(&mut self, now: Instant) {
        if let Some((_, signal)) = self.next.filter(|(at, _)| *at <= now) {
            self.late = true;
            self.group.signal(signal);
            self.next = (signal == Signal::TERM).then_some((now + GRACE, Signal::KILL));
        }
    }

    /// Extends the time limit by the time for which the task was stopped.
    pub(super) fn postpone(&mut self, stopped: Duration) {
        self.next = self.next.and_then(|(at, signal)| Some((at.checked_add(stopped)?, signal)));
    }

    /// Kills the rest of the group after its first process has exited, and returns the result.
    pub(super) fn finish(mut self, args: &FarmRunArgs, guard: &mut Guard) -> Result<Over> {
        let exit = Exit::of(self.group.finish(guard)?, args.memory);
        let ended = match self.late {
            true => Err(Failure::Late(args.timeout.unwrap_or_default())),
            false if exit.is_success() => Ok(()),
            false => Err(Failure::Exit(exit)),
        };
        Ok(Over { ended, left: self.leave() })
    }

    /// Returns what the task has written and was not printed yet. The task need not have ended.
    pub(super) fn leave(mut self) -> Left {
        let (mut spool, mut unkept, mut rest) = (self.spool, self.unkept, [Vec::new(), Vec::new()]);
        let (wrote, lines) = (&mut self.wrote, &mut self.out_lines);
        self.out
            .rest(|piece| rest[0].append(&mut keep(piece, &mut spool, &mut unkept, wrote, lines)));
        rest[0].append(&mut lines.as_mut().map(Prefixed::end_as_it_is).unwrap_or_default());
        if let Some(log) = self.log {
            match Spool::of(log) {
                Ok((read, length)) => (spool, self.wrote) = (read, length),
                Err(error) => unkept = Some(error),
            }
        }
        self.err.rest(|piece| rest[1].append(&mut self.err_lines.take(piece)));
        rest[1].append(&mut self.err_lines.end());
        let unkept = unkept.map(|source| self::unkept(self.number, source));
        Left { output: spool, wrote: self.wrote, rest, unkept }
    }
}

/// Returns the error of a task whose output cannot be stored.
fn unkept(number: u64, source: io::Error) -> Error {
    Error::Io {
        what: format!("keep what task {number} wrote in {}", env::temp_dir().display()),
        source,
    }
}

/// Stores a piece of output, or returns the bytes to print. After an error nothing more is stored,
/// so that the stored part has no gap.
fn keep(
    piece: &[u8],
    spool: &mut Spool,
    unkept: &mut Option<io::Error>,
    wrote: &mut u64,
    lines: &mut Option<Prefixed>,
) -> Vec<u8> {
    *wrote += piece.len() as u64;
    if let Some(lines) = lines {
        return lines.take(piece);
    }
    if unkept.is_none() {
        *unkept = spool.write(piece).err();
    }
    Vec::new()
}

/// Creates the empty log files of a task.
fn logs_of(logs: &Path, number: u64) -> Result<(File, File)> {
    let open = |ending: &str| {
        let path: PathBuf = logs.join(format!("{number}.{ending}"));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        file.map_err(|source| Error::Io { what: format!("write {}", path.display()), source })
    };
    Ok((open("out")?, open("err")?))
}

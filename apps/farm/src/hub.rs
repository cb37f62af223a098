//! The parts that both kinds of farm share: the poll, the ending, and the summary.
//!
//! ```text
//!   running ── a signal, --halt now, standard output closed, an error ──> ending: no more starts
//!      │         SIGTERM to all ── 5 s, or another signal ──> SIGKILL ── 5 s ──> left to the guard
//!      │ no more tasks                                              │ all have ended
//!      └──────────────────────> outputs are printed <───────────────┘   (5 s, when ending)
//!                                       │
//!                                    summary
//! ```
//!
//! One thread polls everything: signals, the input, printers, and the pipes and pidfds of tasks.
//! Blocking writes happen in the printers' threads, so signals are always handled.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Resource, Signal, getrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGTSTP};
use syncline_common::signals::{Signals, Uncaught, signal_name};
use syncline_common::terminal;
use syncline_process::streams::{self, Stream};
use syncline_process::{disposition::Disposition, jobs::stop_as_by_default};

use super::group::Group;
use super::guard::Guard;
use super::halt::{Cause, Halt, Limit};
use super::input::Input;
use super::joblog::Resume;
use super::output::{Broken, FILES, Ordered, Printer};
use super::report::Report;
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};

/// The time that tasks may take to end after SIGTERM, and readers to take the remaining output.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The time that readers may take after a second signal. A second signal that arrives sooner does
/// not count, as some senders signal a process and then its group.
const HASTE: Duration = Duration::from_millis(100);
/// The interval at which the bar is updated.
const TICK: Duration = Duration::from_millis(100);
/// The descriptors of each worker: two or three pipes, a pidfd, and a file of output.
const OF_WORKER: u64 = 5;
/// The descriptors besides those.
const OTHERS: u64 = 32;

/// The parts that both kinds of farm share.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) source: Input,
    pub(super) output: Ordered,
    pub(super) errors: Printer,
    pub(super) guard: Guard,
    pub(super) report: Report,
    halt: Option<Halt>,
    signals: Vec<(u8, UnixStream)>,
    bar: ProgressBar,
    ending: Option<Ending>,
    /// Whether Ctrl-Z was typed.
    to_stop: bool,
    /// Whether no summary is printed at the end.
    silent: bool,
}

/// The reason why a farm ends before its tasks do.
#[derive(Debug)]
pub(super) enum Why {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal(u8),
    /// The condition of --halt is met.
    Halt(Halt),
    /// Standard output has no reader any more.
    Closed,
    /// An error that ends the farm.
    Error(Error),
}

#[derive(Debug)]
struct Ending {
    why: Why,
    since: Instant,
    next: Step,
    /// Whether the user has sent a second signal.
    hastened: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Running tasks are left to complete.
    Await,
    Term,
    Kill(Instant),
    GiveUp(Instant),
}

/// The sources of events of a poll.
enum Ready<T> {
    Signal,
    Source,
    Output,
    Errors,
    Stdout,
    Theirs(T),
}

impl Hub {
    pub(super) fn new(args: &FarmRunArgs, jobs: usize, signals: &Signals) -> Result<Self> {
        enough_descriptors(jobs)?;
        // Before anything runs, as the output of all tasks would be lost.
        if streams::was_closed(Stream::Output) {
            let closed = "standard output is closed: the output of the tasks has no place (> /dev/null discards it)";
            return Err(Error::Usage(closed.to_owned()));
        }
        let of_all = args.halt.is_some_and(|halt| matches!(halt.at, Limit::Percent(_)));
        let source = Input::open(args, of_all)?;
        let report = Report::new(args.logs.as_deref(), args.resumes() != Resume::No)?;
        let caught = catch()?;
        // The output of ungrouped tasks would be mixed with the bar.
        let bar = match args.ungroup {
            true => ProgressBar::hidden(),
            false => terminal::bar("{spinner} {msg}  {elapsed}"),
        };
        let output = Printer::start(io::stdout().as_fd(), &bar)?;
        let mut hub = Self {
            source,
            output: Ordered::new(output, args.keep_order),
            errors: Printer::start(io::stderr().as_fd(), &bar)?,
            guard: Guard::start()?,
            report,
            halt: args.halt,
            signals: caught,
            bar,
            ending: None,
            to_stop: false,
            silent: args.dry_run,
        };
        // A signal that arrived before the first poll.
        if let Some(signal) = signals.take() {
            hub.stop(Why::Signal(signal));
        }
        Ok(hub)
    }

    /// Prints a line on standard error.
    pub(super) fn say(&self, what: &str) {
        // A line break must not split a line into two.
        self.errors.print(format!("syncline: {}\n", what.replace('\n', "\\n")).into_bytes().into());
    }

    /// Begins to end the farm, or hastens an ending that has begun.
    pub(super) fn stop(&mut self, why: Why) {
        match (&mut self.ending, why) {
            (None, why) => {
                let next = if matches!(why, Why::Halt(Halt { now: false, .. })) {
                    Step::Await
                } else {
                    Step::Term
                };
                self.ending = Some(Ending { why, since: Instant::now(), next, hastened: false });
            }
            // Another reason may arrive while running tasks complete.
            (Some(ending), why) if matches!(ending.next, Step::Await) => {
                if !matches!(why, Why::Halt(_)) {
                    (ending.why, ending.since, ending.next) = (why, Instant::now(), Step::Term);
                }
            }
            (Some(ending), Why::Signal(_)) if matches!(ending.why, Why::Signal(_)) => {
                if ending.since.elapsed() < HASTE {
                    return;
                }
                ending.hastened = true;
                if let Step::Kill(at) = &mut ending.next {
                    *at = Instant::now();
                }
            }
            (Some(ending), why @ Why::Signal(_)) => {
                (ending.why, ending.since) = (why, Instant::now())
            }
            (Some(_), Why::Error(error)) => self.say(&error.to_string()),
            (Some(_), Why::Halt(_) | Why::Closed) => (),
        }
    }

    /// Ends the farm with this error, if it is not ending already.
    pub(super) fn fails(&mut self, error: Error) {
        if !self.is_killing() {
            self.stop(Why::Error(error));
        }
    }

    /// Unwraps a result; an error ends the farm.
    pub(super) fn attempt<T>(&mut self, done: Result<T>) -> Option<T> {
        done.map_err(|error| self.stop(Why::Error(error))).ok()
    }

    /// Returns whether no more tasks are started.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns whether running tasks are being ended as well.
    pub(super) fn is_killing(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| !matches!(ending.next, Step::Await))
    }

    /// Checks --halt after a task has succeeded or failed, and ends the farm if its condition is
    /// met.
    pub(super) fn settled(&mut self) {
        let Some(halt) = self.halt else { return };
        let (done, failed) = (self.report.done_so_far(), self.report.failed_so_far());
        if halt.is_met(done, failed, self.source.total()) {
            self.stop(Why::Halt(halt));
        }
    }

    /// Returns the signal that is due to all running tasks; each signal once.
    pub(super) fn due(&mut self) -> Option<Signal> {
        let (ending, now) = (self.ending.as_mut()?, Instant::now());
        match ending.next {
            Step::Term => {
                ending.next = Step::Kill(now + PATIENCE);
                Some(Signal::TERM)
            }
            Step::Kill(at) if at <= now => {
                ending.next = Step::GiveUp(now + PATIENCE);
                Some(Signal::KILL)
            }
            Step::Await | Step::Kill(_) | Step::GiveUp(_) => None,
        }
    }

    /// Returns whether this process is to stop with all its groups (SIGTSTP).
    pub(super) fn is_to_stop(&self) -> bool {
        self.to_stop
    }

    /// Stops with all groups, and continues them afterwards; returns the time stopped.
    pub(super) fn stop_with<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a Group> + Clone,
    ) -> Duration {
        let since = Instant::now();
        self.to_stop = false;
        groups.clone().for_each(Group::pause);
        // A process that cannot stop goes on.
        let _ = stop_as_by_default();
        groups.for_each(Group::resume);
        let stopped = since.elapsed();
        if let Some(Ending { next: Step::Kill(at) | Step::GiveUp(at), .. }) = &mut self.ending {
            *at = at.checked_add(stopped).unwrap_or(*at);
        }
        stopped
    }

    /// Returns whether running tasks are left to the guard because SIGKILL has not ended them.
    pub(super) fn gives_up(&self) -> bool {
        self.ending
            .as_ref()
            .is_some_and(|ending| matches!(ending.next, Step::GiveUp(at) if at <= Instant::now()))
    }

    /// Sleeps until an event or the deadline; returns which of `theirs` are ready, and for what.
    ///
    /// All other events have been handled on return: signals, printers, and, if `input` is set, the
    /// input.
    pub(super) fn poll<'a, T: Copy>(
        &'a mut self,
        input: bool,
        theirs: impl Iterator<Item = (T, BorrowedFd<'a>, PollFlags)>,
        deadline: Option<Instant>,
    ) -> Vec<(T, PollFlags)> {
        let polled = self.wait(input, theirs, deadline);
        let mut ready = Vec::new();
        for (what, flags) in self.attempt(polled).unwrap_or_default() {
            match what {
                Ready::Signal => self.hear_signals(),
                Ready::Source => {
                    let read = self.source.read();
                    self.attempt(read);
                }
                Ready::Output => self.output.printer().hear(),
                Ready::Errors => self.errors.hear(),
                Ready::Stdout => self.stop(Why::Closed),
                Ready::Theirs(theirs) => ready.push((theirs, flags)),
            }
        }
        self.hear_broken();
        ready
    }

    /// Ends the farm if the output of tasks can no longer be printed or logged.
    fn hear_broken(&mut self) {
        match self.output.printer().broken() {
            Some(Broken::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.stop(Why::Closed);
            }
            Some(Broken::Output(source)) => {
                self.stop(Why::Error(Error::Io {
                    what: "write to standard output".to_owned(),
                    source,
                }));
            }
            Some(Broken::Log(error)) => self.stop(Why::Error(error)),
            None => (),
        }
    }

    fn wait<'a, T: Copy>(
        &self,
        input: bool,
        theirs: impl Iterator<Item = (T, BorrowedFd<'a>, PollFlags)>,
        deadline: Option<Instant>,
    ) -> Result<Vec<(Ready<T>, PollFlags)>> {
        let stdout = io::stdout();
        let (mut whats, mut fds) = (Vec::new(), Vec::new());
        let mut add = |what, fd, flags| {
            whats.push(what);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        for (_, pipe) in &self.signals {
            add(Ready::Signal, pipe.as_fd(), PollFlags::IN);
        }
        add(Ready::Output, self.output.printer().as_fd(), PollFlags::IN);
        add(Ready::Errors, self.errors.as_fd(), PollFlags::IN);
        if !self.is_killing() {
            // A poll reports a lost reader without being asked for it.
            add(Ready::Stdout, stdout.as_fd(), PollFlags::empty());
            if let Some(fd) = self.source.fd().filter(|_| input) {
                add(Ready::Source, fd, PollFlags::IN);
            }
        }
        for (what, fd, flags) in theirs {
            add(Ready::Theirs(what), fd, flags);
        }
        let step = self.ending.as_ref().and_then(|ending| match ending.next {
            Step::Await => None,
            Step::Term => Some(Instant::now()),
            Step::Kill(at) | Step::GiveUp(at) => Some(at),
        });
        let tick = (!self.bar.is_hidden()).then(|| Instant::now() + TICK);
        let until = [deadline, step, tick].into_iter().flatten().min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(errno) => {
                return Err(Error::Io {
                    what: "wait for the tasks".to_owned(),
                    source: errno.into(),
                });
            }
        }
        let ready = whats.into_iter().zip(fds.iter().map(PollFd::revents));
        Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    fn hear_signals(&mut self) {
        let mut heard = Vec::new();
        for (signal, pipe) in &mut self.signals {
            let mut bytes = [0; 64];
            while io::Read::read(pipe, &mut bytes).is_ok_and(|read| read > 0) {
                heard.push(*signal);
            }
        }
        for signal in heard {
            match i32::from(signal) {
                SIGTSTP => self.to_stop = true,
                _ => self.stop(Why::Signal(signal)),
            }
        }
    }

    /// Updates the bar.
    pub(super) fn show(&mut self, running: usize) {
        if !self.bar.is_hidden() {
            let total = self.source.total();
            self.report.show(&self.bar, running, total, self.is_ending());
        }
    }

    /// Prints the remaining output and the summary; `unbegun` is the number of tasks read but not
    /// begun.
    pub(super) fn conclude(mut self, unbegun: usize) -> Result<()> {
        self.output.flush();
        self.drain(|hub| hub.output.printer().is_idle() && hub.errors.is_idle());
        self.bar.finish_and_clear();
        let unread = (!self.source.is_over()).then_some("the input was not read to its end");
        let unbegun = (unbegun > 0).then(|| format!("{unbegun} not begun"));
        let unprinted = match self.output.printer().unprinted() {
            0 => None,
            1 => Some("1 output not printed".to_owned()),
            many => Some(format!("{many} outputs not printed")),
        };
        let rest = [unprinted.as_deref(), unbegun.as_deref(), unread];
        let rest = rest.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let rest = Some(rest).filter(|rest| !rest.is_empty() && self.is_ending());
        let summary = self.report.summary(rest.as_deref());
        let summary = match self.ending.as_ref().map(|ending| &ending.why) {
            _ if self.silent => None,
            None | Some(Why::Halt(_)) => Some(summary),
            Some(Why::Closed) => Some(format!("standard output has no reader any more; {summary}")),
            Some(Why::Signal(signal)) => {
                Some(format!("interrupted by {}; {summary}", signal_name(*signal)))
            }
            Some(Why::Error(_)) => self.report.any_over().then_some(summary),
        };
        if let Some(summary) = summary {
            self.say(&summary);
            self.drain(|hub| hub.errors.is_idle());
        }
        match self.ending.take().map(|ending| ending.why) {
            Some(Why::Error(error)) => Err(error),
            Some(Why::Signal(signal)) => Err(Error::Told { code: 128 + signal }),
            // As of a program that SIGPIPE has ended.
            Some(Why::Closed) => Err(Error::Told { code: 128 + SIGPIPE as u8 }),
            // The condition that the farm waited for is met.
            Some(Why::Halt(Halt { why: Cause::Success, .. })) => Ok(()),
            None | Some(Why::Halt(_)) if self.report.failed_so_far() > 0 => {
                Err(Error::Told { code: 1 })
            }
            None | Some(Why::Halt(_)) => Ok(()),
        }
    }

    /// Waits until everything is printed; the wait is limited while the farm is ending.
    fn drain(&mut self, is_done: impl Fn(&Self) -> bool) {
        let (mut until, mut hastened) = (None, false);
        while !is_done(self) {
            let killing = self.ending.as_mut().filter(|ending| !matches!(ending.next, Step::Await));
            if let Some(ending) = killing {
                let now = Instant::now();
                if ending.hastened && !hastened {
                    (until, hastened) = (Some(now + HASTE), true);
                }
                let until = *until.get_or_insert(now + PATIENCE);
                if until <= now {
                    return;
                }
                // All running tasks have ended.
                ending.next = Step::GiveUp(until);
            }
            self.poll::<()>(false, std::iter::empty(), None);
            if self.to_stop {
                self.stop_with(std::iter::empty());
            }
        }
        // The last write may have failed.
        self.hear_broken();
    }
}

/// Returns pipes that report SIGINT, SIGTERM, SIGHUP and SIGTSTP.
fn catch() -> Result<Vec<(u8, UnixStream)>> {
    let one = |signal: i32| {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal, sender)?;
        Ok((signal as u8, pipe))
    };
    // A shell without job control may have set SIGINT and SIGTSTP to be ignored, and nohup SIGHUP.
    // SIGINT and SIGTERM of this process may be caught already.
    let heeded = [SIGINT, SIGTERM, SIGHUP, SIGTSTP].into_iter();
    let heeded = heeded.filter(|&signal| Disposition::of(signal) != Disposition::Ignored);
    Ok(heeded.map(one).collect::<io::Result<_>>().map_err(Uncaught)?)
}

/// Checks before the first task is read that the descriptors suffice for this number of workers.
fn enough_descriptors(jobs: usize) -> Result<()> {
    let needed = jobs as u64 * OF_WORKER + FILES as u64 + OTHERS;
    match getrlimit(Resource::Nofile).current {
        Some(most) if most < needed => Err(Error::Usage(format!(
            "{jobs} workers need {needed} open files, and the limit is {most} (ulimit -n)"
        ))),
        _ => Ok(()),
    }
}

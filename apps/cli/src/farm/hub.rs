//! What both kinds of farm share: the one poll, the way to the end, and the last words.
//!
//! ```text
//!   running ── a signal, --halt now, standard output closed, an error ──> ending: nothing more is started
//!      │                     SIGTERM to all at once ── 5 s, or another signal ──> SIGKILL ── 5 s ──> left to the guard
//!      │ no more tasks                                                │ all have ended
//!      └──────────────────────> outputs are printed <─────────────────┘   (5 s, when ending)
//!                                       │
//!                                    summary
//! ```
//!
//! One thread polls all there is: signals, the input, printers, and pipes and pidfds of tasks. What
//! blocks is in the printers' threads, so a signal is always heard.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Resource, Signal, getrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGTSTP};
use syncline_process::{disposition::Disposition, jobs::stop_as_by_default};

use super::group::Group;
use super::guard::Guard;
use super::halt::{Cause, Halt, Limit};
use super::input::Input;
use super::joblog::Resume;
use super::output::{Broken, FILES, Ordered, Printer};
use super::report::Report;
use crate::args::FarmRunArgs;
use crate::error::{Error, Result, signal_name};
use crate::watch::{self, Signals};

/// How long tasks may take to end when they were asked to, and readers to take what is left.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long readers may take if there was a second signal; one that comes sooner is none, as some
/// send each to a process and once more to its group.
const HASTE: Duration = Duration::from_millis(100);
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);
/// Descriptors of each worker: two or three pipes, a pidfd, and a file of output.
const OF_WORKER: u64 = 5;
/// Descriptors beside those.
const OTHERS: u64 = 32;

/// What both kinds of farm share.
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
    /// Ctrl-Z was typed.
    to_stop: bool,
    /// Nothing is told of all at the end.
    silent: bool,
}

/// Why a farm ends before its tasks do.
#[derive(Debug)]
pub(super) enum Why {
    /// SIGINT, SIGTERM.
    Signal(u8),
    /// What --halt waits for has come.
    Halt(Halt),
    /// What tasks write has no reader.
    Closed,
    /// It cannot go on.
    Error(Error),
}

#[derive(Debug)]
struct Ending {
    why: Why,
    since: Instant,
    next: Step,
    /// The user has lost patience.
    hastened: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// What runs is let run to its end.
    Await,
    Term,
    Kill(Instant),
    GiveUp(Instant),
}

/// What a poll may tell of.
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
        let of_all = args.halt.is_some_and(|halt| matches!(halt.at, Limit::Percent(_)));
        let source = Input::open(args, of_all)?;
        let report = Report::new(args.logs.as_deref(), args.resumes() != Resume::No)?;
        let caught = catch()?;
        // What tasks write as they like would be mixed with it.
        let bar = match args.ungroup {
            true => ProgressBar::hidden(),
            false => watch::bar("{spinner} {msg}  {elapsed}"),
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
        // One that came before the first poll.
        if let Some(signal) = signals.take() {
            hub.stop(Why::Signal(signal));
        }
        Ok(hub)
    }

    /// A line on standard error.
    pub(super) fn say(&self, what: &str) {
        // A line break must not make two lines of one.
        self.errors.print(format!("syncline: {}\n", what.replace('\n', "\\n")).into_bytes().into());
    }

    /// Begins to end, or hastens it, if that is what has begun already.
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
            // What it waits for may come at last.
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

    /// Does what may fail, which ends the farm.
    pub(super) fn attempt<T>(&mut self, done: Result<T>) -> Option<T> {
        done.map_err(|error| self.stop(Why::Error(error))).ok()
    }

    /// Whether nothing more is to be started.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether what runs is to end as well.
    pub(super) fn is_killing(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| !matches!(ending.next, Step::Await))
    }

    /// A task is done or has failed: ends the farm, if that is what --halt waits for.
    pub(super) fn settled(&mut self) {
        let Some(halt) = self.halt else { return };
        let (done, failed) = (self.report.done_so_far(), self.report.failed_so_far());
        if halt.is_met(done, failed, self.source.total()) {
            self.stop(Why::Halt(halt));
        }
    }

    /// What all that runs is to get now; each signal once.
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

    /// Whether this process is to stop, with all its groups, until it is continued: SIGTSTP.
    pub(super) fn is_to_stop(&self) -> bool {
        self.to_stop
    }

    /// Stops with all groups, and continues with them; for how long it was.
    pub(super) fn stop_with<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a Group> + Clone,
    ) -> Duration {
        let since = Instant::now();
        self.to_stop = false;
        groups.clone().for_each(Group::pause);
        // One that cannot stop goes on.
        let _ = stop_as_by_default();
        groups.for_each(Group::resume);
        let stopped = since.elapsed();
        if let Some(Ending { next: Step::Kill(at) | Step::GiveUp(at), .. }) = &mut self.ending {
            *at = at.checked_add(stopped).unwrap_or(*at);
        }
        stopped
    }

    /// Whether what still runs is left to the guard: SIGKILL has not ended it.
    pub(super) fn gives_up(&self) -> bool {
        self.ending
            .as_ref()
            .is_some_and(|ending| matches!(ending.next, Step::GiveUp(at) if at <= Instant::now()))
    }

    /// Sleeps until something has happened, or the time has come: which of `theirs` are ready, and
    /// for what.
    ///
    /// What is not theirs has been attended to: signals, printers, and, if it is wanted, the input.
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

    /// Ends the farm if what tasks write cannot be printed or logged any more.
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
            // That there is no reader any more is told without being asked for.
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

    /// Moves the bar.
    pub(super) fn show(&mut self, running: usize) {
        if !self.bar.is_hidden() {
            let total = self.source.total();
            self.report.show(&self.bar, running, total, self.is_ending());
        }
    }

    /// Prints what is to be printed and told; `unbegun` is how many tasks were read and not begun.
    pub(super) fn conclude(mut self, unbegun: usize) -> Result<()> {
        self.output.flush();
        self.drain(|hub| hub.output.printer().is_idle() && hub.errors.is_idle());
        self.bar.finish_and_clear();
        let unread = (!self.source.is_over()).then_some("the input was not read to its end");
        let unbegun = (unbegun > 0).then(|| format!("{unbegun} not begun"));
        let rest: Vec<_> = unbegun.as_deref().into_iter().chain(unread).collect();
        let rest = Some(rest.join(", ")).filter(|rest| !rest.is_empty() && self.is_ending());
        let summary = self.report.summary(rest.as_deref());
        let summary = match self.ending.as_ref().map(|ending| &ending.why) {
            _ if self.silent => None,
            None | Some(Why::Halt(_)) => Some(summary),
            Some(Why::Closed) => None,
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
            // What it was for has come.
            Some(Why::Halt(Halt { why: Cause::Success, .. })) => Ok(()),
            None | Some(Why::Halt(_) | Why::Closed) if self.report.failed_so_far() > 0 => {
                Err(Error::Told { code: 1 })
            }
            None | Some(Why::Halt(_) | Why::Closed) => Ok(()),
        }
    }

    /// Waits until all is printed; if the farm is to end, or when it is, not for ever.
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
                // All that ran has ended.
                ending.next = Step::GiveUp(until);
            }
            self.poll::<()>(false, std::iter::empty(), None);
            if self.to_stop {
                self.stop_with(std::iter::empty());
            }
        }
        // It may be the last that failed.
        self.hear_broken();
    }
}

/// Pipes of SIGINT, SIGTERM and SIGTSTP.
fn catch() -> Result<Vec<(u8, UnixStream)>> {
    let one = |signal: i32| {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal, sender)?;
        Ok((signal as u8, pipe))
    };
    let failed = |source| Error::Io { what: "catch signals".to_owned(), source };
    // A shell without job control has it ignored, perhaps.
    let stop = Some(SIGTSTP).filter(|&signal| Disposition::of(signal) == Disposition::Default);
    [SIGINT, SIGTERM].into_iter().chain(stop).map(one).collect::<io::Result<_>>().map_err(failed)
}

/// Whether this many workers can be watched. Asked before the first task is read.
fn enough_descriptors(jobs: usize) -> Result<()> {
    let needed = jobs as u64 * OF_WORKER + FILES as u64 + OTHERS;
    match getrlimit(Resource::Nofile).current {
        Some(most) if most < needed => Err(Error::Usage(format!(
            "{jobs} workers need {needed} open files, and the limit is {most} (ulimit -n)"
        ))),
        _ => Ok(()),
    }
}

//! The launcher: starts the processes of a team, and watches them until all have ended.
//!
//! ```text
//! poll: a pidfd of each process, a pipe for SIGINT, one for SIGTERM, a deadline
//!
//!   a process ends, its part done, with 0      recorded: only what it has left behind is missed
//!   ... killed, or before its part was done    its ranks are declared dead
//!   ... either, or not with 0: it has failed   10 s, then SIGTERM to the rest ── 5 s ──> SIGKILL
//!   SIGINT, SIGTERM                            forwarded to all               ── 5 s ──> SIGKILL
//!   all have ended                             SIGKILL to leftovers in the launcher's group
//! ```

mod children;
mod leftovers;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use syncline_memory::Segment;
use syncline_process::{disposition::children_can_be_watched, lifeline::Lifeline, watch::Ending};

use crate::environment::Shape;
use crate::error::{Alike, Failure, ProcessPhase, TeamError};
use crate::signals::Signals;
use crate::team::{said, shared};
use crate::team_state::TeamState;
use children::{Children, ToInherit};
use leftovers::Leftovers;

/// How long the other processes may take to end by themselves when a process has failed.
const GRACE: Duration = Duration::from_secs(10);
/// How long processes may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval of checks whether any process takes part in a team from which a process has exited
/// without taking part.
const TICK: Duration = Duration::from_millis(200);

/// Starts the processes of a team, and watches them until all have ended: the engine of `syncline
/// launch`.
///
/// ```
/// use syncline_fabric::Launcher;
///
/// Launcher::new("true").processes(3).run()?;
/// let error = Launcher::new("false").run().unwrap_err();
/// assert!(error.to_string().ends_with("exited with 1 before it took part"));
/// # Ok::<(), syncline_fabric::TeamError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launcher {
    program: OsString,
    args: Vec<OsString>,
    processes: usize,
    threads: usize,
    memory: Option<usize>,
    quiet: bool,
}

impl Launcher {
    /// Creates a launcher of one process of a program, which is looked up as a shell would.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Launcher {
        let program = program.as_ref().to_owned();
        Launcher { program, args: Vec::new(), processes: 1, threads: 1, memory: None, quiet: false }
    }

    /// Sets the arguments that each process gets.
    #[must_use]
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        Launcher { args: args.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the number of processes.
    #[must_use]
    pub fn processes(self, processes: usize) -> Self {
        Launcher { processes, ..self }
    }

    /// Sets how many members each process has, as threads.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Launcher { threads, ..self }
    }

    /// Sets the most bytes that the members share: see
    /// [`ThreadTeam::memory`](crate::team::ThreadTeam::memory).
    #[must_use]
    pub fn memory(self, memory: usize) -> Self {
        Launcher { memory: Some(memory), ..self }
    }

    /// Suppresses the warning when members outnumber cores.
    #[must_use]
    pub fn quiet(self) -> Self {
        Launcher { quiet: true, ..self }
    }

    /// Starts the processes, and returns when all have ended.
    ///
    /// Processes that they have started and left behind are then killed, unless they have left the
    /// process group of this process (`setsid`, `setpgid`), which the team's processes are in as
    /// well. If this process is killed, the team's processes end by themselves, and the processes
    /// that they have started remain.
    ///
    /// The first process that fails, and the consequences, are reported on standard error when it
    /// happens. Those that fail after it, often because of it, follow in one line when all have
    /// ended.
    ///
    /// # Errors
    /// [`TeamError::Start`] if the program cannot be started; then none of its processes remains.
    /// [`TeamError::Failed`] with the first process that failed, when all have ended.
    /// [`TeamError::System`] and the like for other errors of the system.
    pub fn run(&self) -> Result<(), TeamError> {
        let shape = Shape::here(self.processes, self.threads)?;
        let failed = |what| move |source| TeamError::System { what, source };
        children_can_be_watched().map_err(failed("watch the processes of the team"))?;
        let segment = Segment::reserve_shared(said(self.memory)?)?;
        let memory = segment.fd().map(|fd| fd.try_clone_to_owned());
        let (_, control) = shared(segment, shape)?;
        let (_keeper, end) = Lifeline::pair()?;
        let signals = Signals::catch().map_err(failed("catch signals"))?;
        let memory = memory.unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()));
        let memory = memory.map_err(failed("hand down the team's memory"))?;
        // Dropped last, when all processes have been collected.
        let leftovers = Leftovers::new();
        let inherited = ToInherit {
            mark: &leftovers.mark,
            shape,
            segment: memory.as_fd(),
            lifeline: end.as_fd(),
        };
        let children = Children::start(&self.program, &self.args, &inherited)?;
        if !self.quiet {
            shape.warn();
        }
        let mut watch = Watch {
            shape,
            control: &control,
            children,
            signals,
            next: None,
            asked: false,
            absent: Vec::new(),
            first: FirstFailure::default(),
            others: Vec::new(),
        };
        watch.attend().map_err(failed("wait for the processes of the team"))?;
        watch.first.failure.map_or(Ok(()), |(_, failure)| Err(TeamError::Failed(failure)))
    }
}

/// The state of the launcher while processes run.
struct Watch<'a> {
    shape: Shape,
    control: &'a TeamState,
    children: Children,
    signals: Signals,
    /// The next signal to the remaining processes, and its time.
    next: Option<(Instant, Signal)>,
    /// Whether a signal to end was sent.
    asked: bool,
    /// The processes that have exited with 0 without taking part: failures only if any process
    /// takes part.
    absent: Vec<Failure>,
    first: FirstFailure,
    /// The processes that have failed after the first, and are not reported yet.
    others: Vec<Failure>,
}

/// The choice of the process whose exit code is that of the team: the first that failed by itself.
#[derive(Debug, Default)]
struct FirstFailure {
    /// The signals that the launcher has sent to the processes.
    sent: Vec<Signal>,
    /// Whether the launcher has sent a signal because processes did not end in time. Processes that
    /// end later are not the first, whatever they exit with.
    settled: bool,
    /// The first process so far, and the position of its first member's end in the order of all
    /// ends.
    failure: Option<(u64, Failure)>,
}

impl FirstFailure {
    /// Returns whether a process ended by a signal of the launcher, or caught it and exited with
    /// the code that a shell returns for it.
    fn is_by_signal(&self, ending: Ending) -> bool {
        self.sent.iter().any(|signal| {
            let signal = signal.as_raw();
            match ending {
                Ending::Killed(by) => by == signal,
                Ending::Exited(code) => i32::from(code) == 128 + signal,
            }
        })
    }

    /// Returns the position of a process among those that were collected together: first those that
    /// ended by themselves, each by the end of its first member, since others may have failed
    /// because of it.
    fn order(&self, ending: Ending, end: u64) -> (bool, u64) {
        (self.is_by_signal(ending), end)
    }

    /// Takes a failure if it is the first, or was before the present one, and returns whether it
    /// did. The process that fails first may be collected after those that fail because of it.
    ///
    /// The end of a member alone does not decide: the members of a process may have returned before
    /// another process fails, and the launcher's signal may end that process much later.
    fn consider(&mut self, end: u64, failure: Failure) -> bool {
        let precedes = match &self.failure {
            None => true,
            Some((before, _)) => {
                end < *before && !self.settled && !self.is_by_signal(failure.ending)
            }
        };
        if precedes {
            self.failure = Some((end, failure));
        }
        precedes
    }
}

impl Watch<'_> {
    fn attend(&mut self) -> io::Result<()> {
        while self.children.living() > 0 {
            self.poll()?;
            for signal in self.signals.take() {
                self.send(signal);
                let kill = Instant::now() + PATIENCE;
                self.next = match self.next {
                    Some((at, Signal::KILL)) => Some((at.min(kill), Signal::KILL)),
                    _ => Some((kill, Signal::KILL)),
                };
            }
            let mut ended = self.children.reap()?;
            ended.sort_by_key(|&(process, _, status)| {
                let end = self.control.first_end(self.shape.ranks(process));
                self.first.order(Ending::from(status), end)
            });
            for (process, pid, status) in ended {
                self.ended(process, pid, status);
            }
            self.blame_absent();
            self.escalate();
        }
        self.report_others();
        Ok(())
    }

    /// Sleeps until an event occurs or the next deadline passes.
    fn poll(&self) -> io::Result<()> {
        let tick = (!self.absent.is_empty()).then_some(TICK);
        let due = self.next.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let timeout =
            tick.into_iter().chain(due).min().and_then(|left| Timespec::try_from(left).ok());
        let pipes = self.signals.pipes();
        let mut fds: Vec<_> = self
            .children
            .pidfds()
            .chain(pipes)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let _waits = syncline_trace::span(syncline_trace::Activity::AwaitProcess, 0, 0);
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn ended(&mut self, process: usize, pid: u32, status: ExitStatus) {
        let ending = Ending::from(status);
        let (part, ranks) = (self.control.part(process), self.shape.ranks(process));
        if part != ProcessPhase::Done {
            for rank in ranks.clone() {
                self.control.note_end(rank);
            }
        }
        let end = self.control.first_end(ranks.clone());
        self.control.process_ended(process, pid, ranks.clone(), ending == Ending::Exited(0));
        let failure = Failure { process, pid, ranks, ending, part };
        match (ending, part) {
            (Ending::Exited(0), ProcessPhase::Done) => (),
            (Ending::Exited(0), ProcessPhase::NotBegun) => self.absent.push(failure),
            _ => self.failed(failure, end),
        }
    }

    /// Reports processes that took no part as failed, if any process has begun.
    fn blame_absent(&mut self) {
        if !self.absent.is_empty() && self.control.any_begun() {
            for failure in std::mem::take(&mut self.absent) {
                let end = self.control.first_end(failure.ranks.clone());
                self.failed(failure, end);
            }
        }
    }

    fn failed(&mut self, failure: Failure, end: u64) {
        let any = self.first.failure.is_some();
        let precedes = self.first.consider(end, failure.clone());
        // A process that was asked to end is not reported.
        if !self.asked {
            let grace = GRACE.as_secs();
            match (any, precedes, self.next, self.children.living()) {
                (true, false, ..) => self.others.push(failure),
                (true, ..) => crate::say(format_args!("{failure}, and was the first to fail")),
                (false, _, None, 1..) => {
                    crate::say(format_args!("{failure}; the others have {grace} s to end"));
                }
                _ => crate::say(format_args!("{failure}")),
            }
        }
        if self.next.is_none() && !self.asked {
            self.next = Some((Instant::now() + GRACE, Signal::TERM));
        }
    }

    /// Reports the processes that have failed after the first, in one line.
    fn report_others(&mut self) {
        let others = std::mem::take(&mut self.others);
        if !others.is_empty() {
            crate::say(format_args!("after that, {}", Alike(&others)));
        }
    }

    /// Sends a signal to end to all processes.
    fn send(&mut self, signal: Signal) {
        self.children.send(signal);
        self.first.sent.push(signal);
        self.asked = true;
    }

    /// Sends the next signal when its time has come.
    fn escalate(&mut self) {
        let Some((_, signal)) = self.next.filter(|(at, _)| *at <= Instant::now()) else { return };
        let living = self.children.living();
        if living == 0 {
            return;
        }
        self.report_others();
        let (processes, have) =
            if living == 1 { ("process", "has") } else { ("processes", "have") };
        let name = if signal == Signal::KILL { "SIGKILL" } else { "SIGTERM" };
        crate::say(format_args!("{living} {processes} {have} not ended in time: {name}"));
        self.send(signal);
        self.first.settled = true;
        self.next = (signal != Signal::KILL).then(|| (Instant::now() + PATIENCE, Signal::KILL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(process: usize, ending: Ending) -> Failure {
        let ranks = process..process + 1;
        Failure { process, pid: 1, ranks, ending, part: ProcessPhase::Begun }
    }

    /// Returns the exit code after failures that are collected one after the other, each with the
    /// position of its end.
    fn code(first: &mut FirstFailure, failures: &[(u64, Ending)]) -> u8 {
        for (process, &(end, ending)) in failures.iter().enumerate() {
            first.consider(end, failure(process, ending));
        }
        first.failure.as_ref().map_or(0, |(_, failure)| failure.exit_code())
    }

    #[test]
    fn the_first_end_gives_the_code_whichever_process_is_collected_first() {
        let (one, two) = ((1, Ending::Exited(1)), (2, Ending::Killed(11)));
        assert_eq!(code(&mut FirstFailure::default(), &[one, two]), 1);
        assert_eq!(code(&mut FirstFailure::default(), &[two, one]), 1);
    }

    /// The members of a process return, a member of another process fails, and the launcher then
    /// ends the first process, which has not exited.
    #[test]
    fn a_process_that_the_launcher_ends_does_not_give_the_code() {
        let caught =
            [Ending::Killed(15), Ending::Killed(9), Ending::Exited(143), Ending::Exited(7)];
        for late in caught {
            let mut first = FirstFailure::default();
            assert_eq!(code(&mut first, &[(2, Ending::Exited(1))]), 1);
            first.sent.extend([Signal::TERM, Signal::KILL]);
            first.settled = true;
            assert_eq!(code(&mut first, &[(1, late)]), 1, "{late}");
        }
    }

    /// A signal that the launcher forwards, at the time at which a process fails.
    #[test]
    fn of_processes_collected_together_those_that_failed_by_themselves_are_first() {
        let mut first = FirstFailure { sent: vec![Signal::TERM], ..FirstFailure::default() };
        let mut ended = [
            (u64::MAX, Ending::Killed(15)),
            (1, Ending::Exited(143)),
            (u64::MAX, Ending::Exited(1)),
        ];
        ended.sort_by_key(|&(end, ending)| first.order(ending, end));
        assert_eq!(ended.map(|(end, _)| end), [u64::MAX, 1, u64::MAX]);
        assert_eq!(code(&mut first, &ended), 1);
        let mut alone = FirstFailure { sent: vec![Signal::TERM], ..FirstFailure::default() };
        assert_eq!(code(&mut alone, &ended[1..]), 143);
        let without = FirstFailure::default();
        ended.sort_by_key(|&(end, ending)| without.order(ending, end));
        assert_eq!(ended[0].0, 1);
    }
}

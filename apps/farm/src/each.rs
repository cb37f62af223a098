//! One process per task, on this machine.
//!
//! ```text
//!   start ──> running: pipes are read ──> exited ──> group killed, rest of the pipes read
//!                │ --timeout
//!                └──> SIGTERM ── 1 s ──> SIGKILL
//! ```

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::PollFlags;
use rustix::process::Signal;

use super::guard::Unstarted;
use super::hub::{Hub, Why};
use super::ledger::{Attempt, Ledger, Runners, Task};
use super::output::Spool;
use super::report::Failure;
use super::running::{Left, Part, Running};

/// GNU parallel's name for the machine that it runs on.
const HERE: &str = ":";

/// The tasks that run on this machine.
#[derive(Debug)]
pub(super) struct Each {
    running: Vec<(Task, usize, Running)>,
    /// The slots that no task uses.
    free: BTreeSet<usize>,
}

impl Each {
    pub(super) fn new(jobs: usize) -> Self {
        Self { running: Vec::new(), free: (1..=jobs).collect() }
    }

    fn exited(&mut self, ledger: &mut Ledger<'_>, at: usize) {
        let (task, slot, running) = self.running.swap_remove(at);
        self.free.insert(slot);
        running.trace(slot);
        let (began, took) = (running.began, running.since.elapsed());
        let finished = running.finish(ledger.args, &mut ledger.hub.guard);
        let Some(over) = ledger.hub.attempt(finished) else { return };
        let (ended, Left { output, wrote, rest: [out, err], unkept }) = (over.ended, over.left);
        ledger.hub.output.printer().print(out.into());
        ledger.hub.errors.print(err.into());
        if let Some(error) = unkept {
            ledger.hub.fails(error);
            // An output with a gap is not printed; the error tells that.
            return ledger.cut(&task, took, Spool::default());
        }
        let host = HERE.to_owned();
        ledger.over(Attempt { task, host, slot, began, took, ended, output, wrote });
    }
}

/// Returns the attempt of a task whose program could not be started.
fn unstarted(task: Task, slot: usize, program: &OsStr, error: &io::Error) -> Attempt {
    let mut why = format!("{error}: {}", program.display());
    // A whole command line in one argument, as a shell would take it.
    if error.kind() == io::ErrorKind::NotFound && program.as_encoded_bytes().contains(&b' ') {
        why.push_str("; it is one word, as no shell is involved: use sh -c 'COMMAND'");
    }
    Attempt {
        task,
        host: HERE.to_owned(),
        slot,
        began: SystemTime::now(),
        took: Duration::ZERO,
        ended: Err(Failure::Unstarted(why)),
        output: Spool::default(),
        wrote: 0,
    }
}

impl Runners for Each {
    fn start(&mut self, ledger: &mut Ledger<'_>, task: Task) {
        // There is a slot for every concurrent task.
        let slot = self.free.pop_first().unwrap_or(0);
        let command = ledger.template.fill(&task.args, task.number, slot);
        match Running::start(task.number, &command, ledger.args, &mut ledger.hub.guard) {
            Ok(running) => return self.running.push((task, slot, running)),
            Err(Unstarted::Process(error)) if ledger.is_for_all(&error, &command[0]) => (),
            Err(Unstarted::Process(error)) => {
                ledger.over(unstarted(task, slot, &command[0], &error));
            }
            Err(Unstarted::Farm(error)) => ledger.hub.stop(Why::Error(error)),
        }
        self.free.insert(slot);
    }

    fn running(&self) -> usize {
        self.running.len()
    }

    fn poll(&mut self, ledger: &mut Ledger<'_>) {
        let input = ledger.wants_input(self.running.len());
        let delayed = ledger.deadline(self.running.len());
        let hub = &mut ledger.hub;
        // While the printer has no room, the output stays in the pipe.
        let (out, err) = (hub.output.printer().has_room(), hub.errors.has_room());
        let deadlines = self.running.iter().filter_map(|(.., running)| running.deadline());
        let deadline = deadlines.chain(delayed).min();
        let fds = self.running.iter().enumerate().flat_map(|(at, (.., running))| {
            running.fds(out, err).map(move |(part, fd)| ((at, part), fd, PollFlags::IN))
        });
        let mut exited = Vec::new();
        for ((at, part), _) in hub.poll(input, fds, deadline) {
            let (.., running) = &mut self.running[at];
            match part {
                Part::Exit => exited.push(at),
                Part::Out => {
                    hub.output.printer().print(running.read_out().unwrap_or_default().into())
                }
                Part::Err => hub.errors.print(running.read_err().unwrap_or_default().into()),
            }
        }
        if let Some(error) = self.running.iter().find_map(|(.., running)| running.unkept()) {
            hub.fails(error);
        }
        // From the highest index down, as `swap_remove` moves the last element into the gap.
        exited.sort_unstable();
        for at in exited.into_iter().rev() {
            self.exited(ledger, at);
        }
        let now = Instant::now();
        self.running.iter_mut().for_each(|(.., running)| running.escalate(now));
    }

    fn stop(&mut self, hub: &mut Hub) {
        let stopped = hub.stop_with(self.running.iter().map(|(.., running)| &running.group));
        self.running.iter_mut().for_each(|(.., running)| running.postpone(stopped));
    }

    fn signal(&mut self, signal: Signal) {
        self.running.iter().for_each(|(.., running)| running.group.signal(signal));
    }

    fn abandon(self, ledger: &mut Ledger<'_>) {
        for (task, _, running) in self.running {
            let took = running.since.elapsed();
            let Left { output, rest: [out, err], unkept, .. } = running.leave();
            ledger.hub.output.printer().print(out.into());
            ledger.hub.errors.print(err.into());
            let output = match unkept {
                None => output,
                Some(error) => {
                    ledger.hub.stop(Why::Error(error));
                    Spool::default()
                }
            };
            ledger.cut(&task, took, output);
        }
    }
}

//! Long-running workers that exchange lines of JSON with the farm.
//!
//! ```text
//!   input ──> queue ──> a free worker ── result ──> a line of output, ordered if requested
//!               ^          │   │ └─ error, death, timeout, bad line: again, up to --retries times
//!               └─ new tasks   └─ dead: replaced by another worker
//! ```
//!
//! | module     | contents                                    |
//! |------------|---------------------------------------------|
//! | `protocol` | the lines, parsed and written               |
//! | `queue`    | the waiting tasks                           |
//! | `silence`  | the notice that no worker answers           |
//! | `worker`   | a process, its pipes, and its task          |
//!
//! The input is read when a worker is free and no task of priority 0 or more waits. The queue
//! itself is not bounded: it holds the tasks that workers have added. Every loop ends:
//!
//! * The attempts at a task are bounded.
//! * [`IDLE_DEATHS`] workers that end in a row without a task and have never answered, with no
//!   answer of another worker in between, end the farm.
//! * Before any worker has answered, the end of as many workers as there are jobs, and at least
//!   [`MISTYPED`], ends the farm: the command probably does not implement this protocol. Workers
//!   whose task exceeded its time limit do not count.
//! * A worker that answers a task twice is replaced. The task that it was given since is started
//!   again, which does not count as an attempt; each such worker has ended at least one task.

mod protocol;
mod queue;
mod silence;
mod worker;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde_json::value::{RawValue, to_raw_value};
use syncline_farm::retries::Retries;

use self::protocol::Said;
use self::queue::{Queue, Task};
use self::silence::Silence;
use self::worker::{Job, Part, Worker};
use super::hub::{Hub, Why};
use super::report::{Exit, Failure, Of, Unended, shown};
use crate::args::FarmRunArgs;
use crate::error::{Error, Result};

/// The number of workers without a task that may die in a row.
const IDLE_DEATHS: usize = 3;
/// The minimum number of workers that end the farm by ending before any has answered.
const MISTYPED: usize = 3;
/// The maximum length of a worker's line.
const LONGEST: usize = 64 << 20;
/// The maximum number of reads of the input before a task of negative priority is taken.
const READS: usize = 16;

/// A farm of long-running workers.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    hub: Hub,
    args: &'a FarmRunArgs,
    retries: Retries,
    workers: Vec<Worker>,
    /// The numbers of workers that are to be started.
    missing: Vec<usize>,
    queue: Queue,
    numbers: u64,
    /// The intended number of workers.
    jobs: usize,
    /// The number of workers that died in a row without a task and had never answered.
    idle_deaths: usize,
    /// The number of workers that ended before any had answered; `None` after the first answer.
    mistyped: Option<usize>,
    /// Whether any worker has completed a line.
    silence: Silence,
    /// Whether there are no more tasks.
    closing: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(hub: Hub, args: &'a FarmRunArgs, jobs: usize) -> Self {
        Self {
            hub,
            args,
            retries: Retries::new(args.retries),
            workers: Vec::new(),
            missing: (1..=jobs).rev().collect(),
            jobs,
            queue: Queue::default(),
            numbers: 0,
            idle_deaths: 0,
            mistyped: Some(0),
            silence: Silence::default(),
            closing: false,
        }
    }

    /// Runs all tasks.
    pub(super) fn run(mut self) -> Result<()> {
        loop {
            // First, so that no worker is started without need; a second `close` follows, as the
            // end of the input may have been found in between.
            if !self.missing.is_empty() && self.queue.len() == 0 && self.hub.output.has_room() {
                self.read();
            }
            self.close();
            self.start();
            self.assign();
            if !self.has_job() && self.queue.len() == 0 {
                self.silence.all_ended();
            }
            self.close();
            if self.is_over() {
                break;
            }
            self.poll();
            if self.hub.is_to_stop() {
                let stopped = self.hub.stop_with(self.workers.iter().map(|worker| &worker.group));
                self.workers.iter_mut().for_each(|worker| worker.postpone(stopped));
                self.silence.postpone(stopped);
            }
            if let Some(signal) = self.hub.due() {
                self.workers.iter().for_each(|worker| worker.group.signal(signal));
            }
            for worker in &mut self.workers {
                if let Some(line) = worker.escalate(self.args.timeout.unwrap_or_default()) {
                    self.hub.say(&line);
                }
            }
            self.tell_of_silence();
            self.hub.show(self.workers.iter().filter(|worker| worker.job.is_some()).count());
        }
        let (mut unbegun, mut ended) = (0, Vec::new());
        for task in std::iter::from_fn(|| self.queue.take()) {
            if task.begun { ended.push((task, Duration::ZERO)) } else { unbegun += 1 }
        }
        let jobs = self.workers.iter_mut().filter_map(|worker| worker.job.take());
        ended.extend(jobs.map(|job| (job.task, job.since.elapsed())));
        for (task, took) in ended {
            let told = self.hub.report.ended(told(&task, &text_of(&task), took));
            self.hub.attempt(told);
        }
        self.hub.conclude(unbegun)
    }

    /// Returns whether a worker has a task.
    fn has_job(&self) -> bool {
        self.workers.iter().any(|worker| worker.job.is_some())
    }

    /// Returns the time of the notice that no worker has completed a line; `None` while no task
    /// waits for its answer.
    fn silence_due(&self) -> Option<Instant> {
        self.silence.due().filter(|_| self.has_job())
    }

    /// Prints once what workers have to do, if none has completed a line for [`silence::SILENCE`]
    /// although a task waits for an answer.
    fn tell_of_silence(&mut self) {
        if self.hub.is_ending() || self.silence_due().is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.silence.told();
        let command: Vec<_> =
            self.args.program().iter().map(|part| part.to_string_lossy()).collect();
        let unended = self.workers.iter().map(|worker| (worker.number, worker.said.len()));
        let unended = unended.filter(|(_, bytes)| *bytes > 0).min();
        self.hub.say(&silence::notice(&shown(command.join(" ").as_bytes()), unended));
    }

    fn is_over(&self) -> bool {
        match self.closing || self.hub.is_ending() {
            true => self.workers.is_empty() || self.hub.gives_up(),
            false => false,
        }
    }

    /// Starts the missing workers.
    fn start(&mut self) {
        while !self.hub.is_ending() && !self.closing {
            let Some(number) = self.missing.pop() else { return };
            let started = Worker::start(number, self.args, &mut self.hub.guard);
            self.workers.extend(self.hub.attempt(started));
        }
    }

    /// Gives tasks to free workers.
    fn assign(&mut self) {
        while let Some(at) = self.workers.iter().position(Worker::is_free) {
            let Some(mut task) = self.next_task() else { return };
            if !std::mem::replace(&mut task.begun, true) {
                self.hub.report.begins();
            }
            task.attempts += 1;
            self.workers[at].give(task, self.args.timeout);
            self.silence.asked(Instant::now());
        }
    }

    fn next_task(&mut self) -> Option<Task> {
        if self.hub.is_ending() || self.closing {
            return None;
        }
        if !self.hub.output.has_room() {
            // Only the task that other outputs wait for makes room.
            return self.queue.take_this(self.hub.output.waits_for()?);
        }
        self.read();
        self.queue.take()
    }

    /// Reads the available input, if its tasks would be next.
    fn read(&mut self) {
        let mut reads = 0;
        while self.wants_input() && !self.hub.is_ending() {
            match self.hub.source.next() {
                Some(arguments) => arguments.iter().for_each(|text| self.arrives(text)),
                None if reads < READS && self.hub.source.is_ready() => {
                    reads += 1;
                    let read = self.hub.source.read();
                    self.hub.attempt(read);
                }
                None => break,
            }
        }
    }

    /// Returns whether a task of the input would be next.
    fn wants_input(&self) -> bool {
        self.queue.highest().is_none_or(|priority| priority < 0)
    }

    /// Queues a task of the input.
    fn arrives(&mut self, text: &[u8]) {
        match protocol::task(text) {
            Ok(task) => self.add(task, 0),
            Err(why) => {
                self.hub.report.begins();
                let text = String::from_utf8_lossy(text);
                let task = to_raw_value(&text).unwrap_or_else(|_| RawValue::NULL.to_owned());
                self.numbers += 1;
                let task = Task { id: self.numbers, task, priority: 0, attempts: 0, begun: true };
                self.failed(&task, Duration::ZERO, &Failure::Unstarted(format!("it {why}")));
            }
        }
    }

    fn add(&mut self, task: Box<RawValue>, priority: i64) {
        self.numbers += 1;
        self.queue.add(Task { id: self.numbers, task, priority, attempts: 0, begun: false });
    }

    /// Tells the workers when there are no more tasks.
    fn close(&mut self) {
        // Workers may complete their tasks although no more are begun.
        let waits = !self.hub.is_ending() && (self.queue.len() > 0 || !self.hub.source.is_over());
        if !waits && !self.has_job() && !self.closing && !self.hub.is_killing() {
            self.closing = true;
            self.workers
                .iter_mut()
                .filter(|worker| worker.failure.is_none())
                .for_each(Worker::close);
        }
    }

    /// Sleeps until an event, and reads the available data.
    fn poll(&mut self) {
        let free = self.workers.iter().any(Worker::is_free);
        let input =
            free && self.wants_input() && self.hub.output.has_room() && !self.hub.source.is_over();
        // While the printer has no room, standard error stays in the pipe.
        let heard = self.hub.errors.has_room();
        let silence = self.silence_due();
        let deadline =
            self.workers.iter().filter_map(|worker| Some(worker.next?.0)).chain(silence).min();
        let fds = self.workers.iter().enumerate().flat_map(|(at, worker)| {
            worker.fds(heard).map(move |(part, fd, flags)| ((at, part), fd, flags))
        });
        let mut exited = Vec::new();
        for ((at, part), _) in self.hub.poll(input, fds, deadline) {
            let worker = &mut self.workers[at];
            match part {
                Part::Exit => exited.push(at),
                Part::In => worker.write(),
                Part::Out => {
                    let (said, silence) = (&mut worker.said, &mut self.silence);
                    worker.out.read(|piece| {
                        // Lines that break the protocol are reported separately.
                        silence.hears(piece);
                        said.push(piece);
                    });
                    if worker.out.fd().is_none() {
                        worker.closed("closed its standard output");
                    }
                    self.listen(at);
                }
                Part::Err => {
                    let (words, lines) = (&mut worker.words, &mut worker.lines);
                    if let Some(lines) = worker.err.read(|piece| lines.take(words.hear(piece))) {
                        self.hub.errors.print(lines.into());
                    }
                }
            }
        }
        // From the highest index down, as `swap_remove` moves the last element into the gap.
        exited.sort_unstable();
        for at in exited.into_iter().rev() {
            self.exited(at);
        }
    }

    /// Handles the lines of a worker.
    fn listen(&mut self, at: usize) {
        loop {
            let worker = &mut self.workers[at];
            // Nothing is accepted from a worker that has failed, or after the last task.
            if worker.failure.is_some() || self.closing {
                return;
            }
            let Some(line) = worker.said.next() else {
                if worker.said.len() > LONGEST {
                    worker.condemn(format!("said a line longer than {} MiB", LONGEST >> 20));
                    // The notice of silence would repeat this failure.
                    self.silence.told();
                }
                return;
            };
            let said = protocol::parse(&line);
            if let Ok(Said::Answer { id, .. }) = said
                && worker.has_answered(id)
            {
                return self.answered_twice(at, id);
            }
            let Some(job) = &mut worker.job else {
                return worker.condemn(format!("said {} while it had no task", shown(&line)));
            };
            match said {
                Ok(Said::New { task, priority }) if self.retries.allow(1) => {
                    job.new.push((task, priority))
                }
                Ok(Said::New { task, priority }) => {
                    job.joined = true;
                    self.add(task, priority);
                }
                Ok(Said::Answer { id, answer }) if id == job.task.id => self.answered(at, answer),
                Ok(Said::Answer { id, .. }) => {
                    worker.condemn(format!("answered task {id} instead"))
                }
                Err(why) => worker.condemn(format!("said {}: {why}", shown(&line))),
            }
        }
    }

    fn answered(&mut self, at: usize, answer: Result<Box<RawValue>, String>) {
        let worker = &mut self.workers[at];
        let Some(mut job) = worker.job.take() else { return };
        // The deadline of a closed pipe stays.
        if worker.next.is_some_and(|(_, next)| next == worker::Next::Late) {
            worker.next = None;
        }
        worker.answers(job.task.id);
        (self.idle_deaths, self.mistyped) = (0, None);
        if answer.is_ok() {
            for (task, priority) in job.new.drain(..) {
                self.add(task, priority);
            }
        }
        self.over(job, answer.map_err(Failure::Answer));
    }

    /// Handles a second answer to the same task.
    fn answered_twice(&mut self, at: usize, id: u64) {
        let worker = &mut self.workers[at];
        worker.condemn(format!("answered task {id} twice"));
        // The current task is not at fault and is started again, unless new tasks of it have
        // already joined the queue: those would exist twice.
        if let Some(Job { mut task, .. }) = worker.job.take_if(|job| !job.joined) {
            task.attempts -= 1;
            self.queue.add(task);
        }
    }

    /// Handles the exit of a worker.
    fn exited(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        let said = &mut worker.said;
        worker.out.rest(|piece| {
            self.silence.hears(piece);
            said.push(piece);
        });
        // Its last output may be an answer.
        self.listen(at);
        let mut worker = self.workers.swap_remove(at);
        self.missing.push(worker.number);
        let finished = worker.group.finish(&mut self.hub.guard);
        let (words, lines, errors) = (&mut worker.words, &mut worker.lines, &self.hub.errors);
        worker.err.rest(|piece| errors.print(lines.take(words.hear(piece)).into()));
        errors.print(lines.end().into());
        let Some(exit) =
            self.hub.attempt(finished).map(|status| Exit::of(status, self.args.memory))
        else {
            return;
        };
        let unended = Unended(worker.said.len());
        let late = matches!(worker.failure, Some(Failure::Late(_)));
        // Otherwise the failure of its task tells.
        if unended.0 > 0 && worker.job.is_some() && (late || self.hub.is_killing()) {
            self.hub.say(&format!("worker {} was ended{unended}", worker.number));
        }
        match worker.job.take() {
            Some(job) => {
                let failure = worker.failure.clone();
                self.over(job, Err(failure.unwrap_or(Failure::Worker(exit, unended))));
            }
            None if self.hub.is_killing() => (),
            None => self.died_idle(&worker, exit),
        }
        if let Some(mistyped) = self.mistyped.as_mut().filter(|_| !late && !self.closing) {
            *mistyped += 1;
            let mistyped = *mistyped;
            if mistyped >= self.jobs.max(MISTYPED) && !self.hub.is_ending() {
                let how = match &worker.failure {
                    Some(Failure::Astray(what)) => what.clone(),
                    _ => format!("{exit}{unended}"),
                };
                let words = worker.last_words(self.args);
                let why = format!(
                    "{mistyped} workers have ended before any had answered a task: is the command right? The last \
                     {how}{words}"
                );
                self.hub.stop(Why::Error(Error::Workers(why)));
            }
        }
    }

    fn died_idle(&mut self, worker: &Worker, exit: Exit) {
        let number = worker.number;
        let (how, when) = match &worker.failure {
            Some(Failure::Astray(what)) => (what.clone(), ""),
            // It was reported when it was asked to end.
            Some(_) => return,
            None if self.closing => (exit.to_string(), " when there were no more tasks"),
            None => (exit.to_string(), " while it had no task"),
        };
        if self.closing {
            if !exit.is_success() {
                self.hub.say(&format!("worker {number} {how}{when}"));
            }
            return;
        }
        // A worker that has answered has made progress.
        self.idle_deaths += usize::from(!worker.has_answered_any());
        if self.idle_deaths >= IDLE_DEATHS {
            let why = format!(
                "{IDLE_DEATHS} workers in a row have ended while they had no task; the last {how}"
            ) + &worker.last_words(self.args);
            self.hub.stop(Why::Error(Error::Workers(why)));
        } else if !exit.is_success() {
            self.hub.say(&format!("worker {number} {how}{when}"));
        }
    }

    /// Records a finished attempt.
    fn over(&mut self, job: Job, answer: Result<Box<RawValue>, Failure>) {
        let Job { task, since, .. } = job;
        let took = since.elapsed();
        match answer {
            Ok(result) => {
                let done = self.hub.report.done(told(&task, &text_of(&task), took));
                self.hub.attempt(done);
                self.hub
                    .output
                    .print(task.id, protocol::tell(task.id, &task.task, Ok(&result)).into());
                self.hub.settled();
            }
            // Whether it would have failed otherwise is unknown.
            Err(_) if self.hub.is_killing() => {
                let done = self.hub.report.ended(told(&task, &text_of(&task), took));
                self.hub.attempt(done);
            }
            Err(_) if self.retries.allow(task.attempts) && !self.hub.is_ending() => {
                self.hub.report.again(task.attempts);
                self.queue.add(task);
            }
            Err(failure) => self.failed(&task, took, &failure),
        }
    }

    /// Records a task that has finally failed.
    fn failed(&mut self, task: &Task, took: Duration, failure: &Failure) {
        let line = self.hub.report.failed(told(task, &text_of(task), took), failure);
        if let Some(line) = self.hub.attempt(line) {
            self.hub.say(&line);
        }
        self.hub
            .output
            .print(task.id, protocol::tell(task.id, &task.task, Err(&failure.text())).into());
        self.hub.settled();
    }
}

fn told<'a>(task: &Task, text: &'a str, took: Duration) -> Of<'a> {
    Of { number: task.id, text: text.as_bytes(), attempts: task.attempts, took }
}

/// Returns a task for messages: the contents of a string, or any other value as JSON.
fn text_of(task: &Task) -> Cow<'_, str> {
    let text = task.task.get();
    serde_json::from_str::<String>(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

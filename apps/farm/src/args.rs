//! The command lines of a farm, of its guard, and of a task whose memory is bounded.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use syncline_common::trace::TraceOption;
use syncline_common::units::{parse_size, parse_time};

use crate::halt::{Halt, parse as parse_halt};
use crate::joblog::Resume;

/// Runs a command once for each task, several at a time, or feeds tasks to long-running workers.
///
/// A task is a line of standard input, a line of a file (-a), or a combination of the arguments
/// after ::: behind the command. Options and replacement strings are those of GNU parallel. If the
/// command contains no {}, the task is appended as its last argument. No shell is involved, and the
/// standard input of the command is empty. Empty lines are skipped. Lines are read as they are
/// needed, so the input may be endless.
///
/// The standard output of a task is printed as a whole when the task has ended. Its standard error
/// is printed line by line, prefixed with the number of the task. Each failed task is reported in
/// one line, and a summary is printed at the end.
///
/// Each task is a process group. When its first process has exited, the rest of the group is
/// killed. When this command ends, even by SIGKILL, its tasks are killed too. Only processes that
/// leave their group (setsid) survive.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    override_usage = "syncline farm run [OPTIONS] -- <COMMAND> [ARGS {}]... [::: ARGUMENTS]...",
    after_long_help = "\
Examples:
  syncline farm run -j 4 -- gzip -k {} < files.txt
  find . -name '*.flac' -print0 | syncline farm run -0 --retries 2 -- ./encode {} out/{#}.mp3
  syncline farm run --joblog log --resume -- ./fit {1} {2/.} ::: 1 2 3 :::: models.txt
  syncline farm run --timeout 5m --logs logs -- ./simulate --case {} < cases.txt
  seq 1000 | syncline farm run -k -- sh -c 'echo \"$1 squared is $(($1 * $1))\"' _
  syncline farm run --protocol lines -j 4 -- python3 worker.py < tasks.jsonl > results.jsonl

Input sources, behind the command:
  ::: ARGUMENTS      these arguments; several sources are combined, the last changes fastest
  :::: FILES         as -a: the lines of each file, or of standard input (-)
  :::+ and ::::+     linked to the source before; the shorter one determines the length

Replacement strings: {} input, {.} without extension, {/} basename, {//} dirname, {/.} basename without extension, {#} \
sequence number, {%} job slot; {2} {2.} {2/} {2//} {2/.} for the second argument, {-1} for the last. If a task has several \
arguments, {} alone becomes one argument for each. A string that names an argument which is not there is an error of \
the task, or of the command line if no task can have it. \\{2} is the text {2}, and \\\\{2} a backslash before the second argument.

Under mpirun or Slurm's srun, or in the processes of `syncline launch`, all processes form one farm: rank 0 reads the \
input and prints, the others run the commands, one at a time each. A command is no rank of that job: it may call MPI_Init, \
or run mpirun itself. The book (docs/book/src/farm-run.md) compares all this with GNU parallel.

Long-running workers (--protocol lines): the command is started once per worker, and each process reads and \
writes lines of JSON:
  to the worker     {\"id\": 7, \"task\": ...}        a task; end of file: no more tasks
  from the worker   {\"id\": 7, \"result\": ...}      its result
                    {\"id\": 7, \"error\": \"text\"}    or the reason why it failed
                    {\"task\": ..., \"priority\": 2}   before that, any number of new tasks
A worker exits at end of file. New tasks are given to free workers.

A line of input that is valid JSON is that value; any other line is a string. Tasks of higher priority go first (those \
of the input have 0), then in order of arrival. Each task gives one line of output: {\"id\": 7, \"task\": ..., \"result\": ...}, \
or \"error\". A worker that ends, takes too long or writes anything else while it has a task fails that task, and is \
replaced. With --retries, the new tasks of a task are queued when it has a result, so that a failed attempt leaves none. A \
second answer to a task is refused and the worker replaced; its current task goes to another worker. If as many workers as \
-j asks for, and at least 3, end before any has answered a task, the farm ends with an error that quotes the last lines of \
standard error of the last one. The book (docs/book/src/farm-lines.md) has examples.

Signals: after SIGINT, SIGTERM or SIGHUP no more tasks start; running tasks get SIGTERM, and SIGKILL 5 s later or at a \
second signal. What they have written so far is printed. Ctrl-Z stops this command and its running tasks, and fg continues them; time limits are suspended meanwhile. A \
task that reads from the terminal is stopped by the system, as its group is in the background. The environment variable \
SYNCLINE_FARM_RUN marks the tasks of this command.

Exit codes: 0 if all tasks succeeded, or if --halt ended the farm on success; 1 if a task failed, or for an error; \
2 wrong command line, or standard output is closed; 130, 143 or 129 interrupted; 141 if standard output has no reader any more."
)]
pub struct FarmRunArgs {
    /// The number of workers that run at once, at most 4096 [default: the number of cores; under a
    /// launcher: the number of processes that run commands]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) jobs: Option<u16>,
    /// An input source, like :::: behind the command: a file whose lines are arguments, or - for
    /// standard input. May be given several times; all combinations are made [default: standard
    /// input]
    #[arg(short = 'a', long, visible_alias = "arg-file", value_name = "FILE")]
    pub(crate) tasks: Vec<PathBuf>,
    /// Tasks end with a NUL byte instead of a line break
    #[arg(short = '0', long)]
    pub(crate) null: bool,
    /// Split each line into several arguments, {1} {2} ..., at matches of this regular expression
    #[arg(short = 'C', long, value_name = "REGEXP")]
    pub(crate) colsep: Option<String>,
    /// Use at most N arguments (lines, or combinations of sources) per command line
    #[arg(short = 'n', visible_short_alias = 'N', long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_args: Option<u32>,
    /// Print outputs in the order of the tasks, not in the order in which they end
    #[arg(short, long)]
    pub(crate) keep_order: bool,
    /// The number of times that a failed task is run again; only the output of its last attempt is
    /// printed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) retries: u32,
    /// The time limit of a task: 90 (seconds), 1.5s, 5m, 2h. A task that exceeds it gets SIGTERM,
    /// SIGKILL one second later, and has failed
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
    /// End the farm early: never, or now|soon,fail|success|done=N or =N% [default: never; --halt
    /// without a value: now,fail=1]
    ///
    /// The condition holds when N jobs, or N percent of all jobs, have failed (fail), succeeded
    /// (success) or ended either way (done). Then now kills the running jobs; soon lets them
    /// complete and starts no new ones. A percentage requires that the whole input is read first.
    /// If success ends the farm, the exit code is 0.
    #[arg(long, value_name = "WHEN,WHY=N", num_args = 0..=1, default_missing_value = "now,fail=1",
          allow_negative_numbers = true, value_parser = parse_halt)]
    pub(crate) halt: Option<Halt>,
    /// The minimum time between the starts of two jobs: 90 (seconds), 1.5s, 200ms, 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) delay: Option<Duration>,
    /// Print the commands on standard output, quoted for a shell, and run none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not group output: tasks write directly to standard output and standard error
    #[arg(short, long, conflicts_with_all = ["keep_order", "logs", "line_buffer"])]
    pub(crate) ungroup: bool,
    /// Print standard output line by line, as standard error is, mixed with the lines of other
    /// tasks
    #[arg(long, visible_alias = "lb", conflicts_with_all = ["keep_order", "logs"])]
    pub(crate) line_buffer: bool,
    /// Log each job that has ended to FILE, in GNU parallel's columns: Seq, Host, Starttime,
    /// JobRuntime, Send, Receive, Exitval, Signal, Command
    ///
    /// The line is written when the job has ended. A job that ends because this command ends has no
    /// line. A file that already contains jobs is continued by --resume or --resume-failed, and
    /// refused otherwise.
    #[arg(long, visible_alias = "jl", value_name = "FILE")]
    pub(crate) joblog: Option<PathBuf>,
    /// Skip the jobs that are in the job log; command and input must be the same as before
    #[arg(long, requires = "joblog")]
    pub(crate) resume: bool,
    /// Like --resume, but run the jobs that have failed again
    #[arg(long, requires = "joblog")]
    pub(crate) resume_failed: bool,
    /// The maximum data memory of each process of a task (RLIMIT_DATA), for example 512M or 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// Write NUMBER.out and NUMBER.err (in place of standard error) of each task, and summary.tsv,
    /// to DIR
    ///
    /// The directory is created if it does not exist. A directory that already contains a
    /// summary.tsv is refused, unless --resume continues it. With --protocol lines it holds
    /// worker-NUMBER.err of each worker.
    #[arg(long, value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,
    /// How workers receive their tasks
    #[arg(long, value_enum, default_value_t = Protocol::Each)]
    pub(crate) protocol: Protocol,
    #[command(flatten)]
    pub(crate) trace: TraceOption,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl FarmRunArgs {
    /// Returns whether and where the caller is to record a trace.
    #[must_use]
    pub fn trace(&self) -> &TraceOption {
        &self.trace
    }

    /// Returns the command without the input sources behind it.
    pub(crate) fn program(&self) -> &[OsString] {
        split(&self.command).0
    }

    /// Returns which jobs of an earlier run are skipped.
    pub(crate) fn resumes(&self) -> Resume {
        match (self.resume_failed, self.resume) {
            (true, _) => Resume::Succeeded,
            (false, true) => Resume::Ended,
            (false, false) => Resume::No,
        }
    }

    /// Returns the first given option that requires one process per task.
    pub(crate) fn only_each(&self) -> Option<&'static str> {
        let given = [
            (self.colsep.is_some(), "--colsep"),
            (self.max_args.is_some(), "-n"),
            (self.delay.is_some(), "--delay"),
            (self.dry_run, "--dry-run"),
            (self.ungroup, "--ungroup"),
            (self.line_buffer, "--line-buffer"),
            (self.joblog.is_some(), "--joblog"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
}

/// How workers receive their tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// One process per task
    Each,
    /// Long-running workers that exchange lines of JSON with the farm
    Lines,
}

/// Kills the process groups of a farm when the farm itself has ended.
#[derive(Debug, clap::Args)]
pub struct FarmGuardArgs {
    /// The value of SYNCLINE_FARM_RUN in the environment of the tasks
    pub(crate) mark: String,
}

/// Limits its own data memory, then executes a program.
#[derive(Debug, clap::Args)]
pub struct FarmBoundArgs {
    /// The limit in bytes
    pub(crate) memory: u64,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Splits the words at the first separator of sources into the command and the sources.
pub(crate) fn split(command: &[OsString]) -> (&[OsString], &[OsString]) {
    let at = command.iter().position(|word| separator(word).is_some()).unwrap_or(command.len());
    command.split_at(at)
}

/// Returns whether a word begins a source: (of files, linked).
pub(crate) fn separator(word: &OsStr) -> Option<(bool, bool)> {
    match word.as_bytes() {
        b":::" => Some((false, false)),
        b":::+" => Some((false, true)),
        b"::::" => Some((true, false)),
        b"::::+" => Some((true, true)),
        _ => None,
    }
}

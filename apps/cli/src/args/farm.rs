//! The command line of `syncline farm`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use crate::farm::halt::{Halt, parse as parse_halt};
use crate::farm::input::split;
use crate::farm::joblog::Resume;
use crate::units::{parse_size, parse_time};

/// What is done with a farm.
#[derive(Debug, Subcommand)]
pub(crate) enum FarmCommand {
    Run(FarmRunArgs),
    #[command(hide = true)]
    Guard(FarmGuardArgs),
    #[command(hide = true)]
    Bound(FarmBoundArgs),
}

/// Runs a command once for each task, several at once; or gives the tasks to workers that stay.
///
/// A task is a line of standard input, or of a file (-a), or made of the arguments behind ::: after
/// the command. Options and replacement strings are those of GNU parallel; without any {} the task
/// is appended as last argument. No shell is involved, and what the command reads is empty. Empty
/// lines are no tasks. Lines are read as they are needed, so the input may be endless.
///
/// The standard output of a task comes out whole when the task has ended, its standard error line
/// by line, with the task's number in front. A task that fails is told in one line, and so is what
/// came of all at the end.
///
/// A task is a process group. When its first process has exited, what is left of the group is
/// killed; and when this command ends, however it is killed itself, its tasks do. Only what leaves
/// its group (setsid) is let go.
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
  ::: ARGUMENTS      these; with several sources all combinations, the last changes fastest
  :::: FILES         as -a: the lines of each file, or of standard input (-)
  :::+ and ::::+     linked with the source before, as many as the shorter has

Replacement strings: {} input, {.} without extension, {/} basename, {//} dirname, {/.} basename without extension, {#} \
sequence number, {%} job slot; {2} {2.} {2/} {2//} {2/.} of the second argument, {-1} of the last. Of several arguments, {} \
alone becomes an argument for each.

Under mpirun or Slurm's srun, or in the processes of `syncline launch`, all processes are one farm: rank 0 reads the input \
and prints, the others run the commands, one at a time each. docs/farm-run.md says more, to those who know GNU parallel.

Workers that stay (--protocol lines): the command is started as often as there are workers, and each process reads and \
writes JSON, a line each:
  to the worker     {\"id\": 7, \"task\": ...}        a task; at end of file there are no more
  from the worker   {\"id\": 7, \"result\": ...}      what came of it
                    {\"id\": 7, \"error\": \"text\"}    or why nothing did
                    {\"task\": ..., \"priority\": 2}   meanwhile, any number of new tasks
A worker ends at the end of file. New tasks go to workers that are free.

A line of input that is JSON is that value, any other a string. Tasks of higher priority go first (those of the input \
have 0), then in order of arrival. A line for each task comes out: {\"id\": 7, \"task\": ..., \"result\": ...}, or \"error\". \
A worker that ends, takes too long or writes anything else while it has a task fails that task, and is replaced. With \
--retries, the new tasks of a task join when it has a result, so that an attempt that failed leaves none. A second answer to a \
task is refused, and the worker replaced; the task that it has meanwhile goes to another. If as many workers as there are to \
be, and 3 at least, end before any has answered a task, the farm ends with the last words of the last.
docs/farm-lines.md has examples.

Signals: SIGINT and SIGTERM start no more tasks and end those that run by SIGTERM, 5 s later or at a second signal by \
SIGKILL. Ctrl-Z stops this command and the tasks that run, and fg continues them; time limits do not run meanwhile. A task \
that reads from the terminal is stopped by the system, as its group is in the background. The environment variable SYNCLINE_FARM_RUN of tasks marks them as \
those of this command.

Exit codes: 0 if all went well, when --halt has waited for success, and when the reader of standard output has closed it \
before a task failed; 1 if a task failed, or for an error; 2 wrong command line; 130 or 143 interrupted."
)]
pub(crate) struct FarmRunArgs {
    /// How many workers there are at once [default: the number of cores; under a launcher: of
    /// processes that run commands]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) jobs: Option<u16>,
    /// An input source, as :::: behind the command: a file whose lines are arguments, or - for
    /// standard input. Several are combined [default: standard input]
    #[arg(short = 'a', long, visible_alias = "arg-file", value_name = "FILE")]
    pub(crate) tasks: Vec<PathBuf>,
    /// A NUL ends a task, not a line break
    #[arg(short = '0', long)]
    pub(crate) null: bool,
    /// Each line is several arguments, with this regular expression between them: {1} {2}
    #[arg(short = 'C', long, value_name = "REGEXP")]
    pub(crate) colsep: Option<String>,
    /// Use at most N arguments per command line, that is lines, or combinations of sources
    #[arg(short = 'n', visible_short_alias = 'N', long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_args: Option<u32>,
    /// Outputs come in the order of the tasks, not of their ends
    #[arg(short, long)]
    pub(crate) keep_order: bool,
    /// How often a task that failed is run again; what is printed is of its last attempt
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) retries: u32,
    /// How long a task may take: 90, 1.5s, 5m, 2h. Then it gets SIGTERM, a second later SIGKILL,
    /// and has failed
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
    /// When the farm ends before its tasks do: never, or now|soon,fail|success|done=N or =N%
    /// [default: never; of --halt alone: now,fail=1]
    ///
    /// now kills running jobs, soon waits for them to complete but starts no new ones; then N jobs,
    /// or N percent of all, have failed, succeeded, or ended either way. A percentage has the whole
    /// input read first. When success ends it, the exit code is 0.
    #[arg(long, value_name = "WHEN,WHY=N", num_args = 0..=1, default_missing_value = "now,fail=1",
          allow_negative_numbers = true, value_parser = parse_halt)]
    pub(crate) halt: Option<Halt>,
    /// Starts no job for this time after one was started: 90, 1.5s, 200ms, 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) delay: Option<Duration>,
    /// Prints the jobs on standard output, as lines for a shell, and does not run them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Output is not grouped: tasks write to standard output and standard error themselves, as they
    /// like
    #[arg(short, long, conflicts_with_all = ["keep_order", "logs", "line_buffer"])]
    pub(crate) ungroup: bool,
    /// Standard output comes line by line, as standard error does, and mixed with that of others
    #[arg(long, visible_alias = "lb", conflicts_with_all = ["keep_order", "logs"])]
    pub(crate) line_buffer: bool,
    /// A log of the jobs that have ended, in GNU parallel's columns: Seq, Host, Starttime,
    /// JobRuntime, Send, Receive, Exitval, Signal, Command
    ///
    /// A line is written when a job has ended; one that ends with this command has none. A file
    /// with jobs in it is gone on with by --resume or --resume-failed, and otherwise refused.
    #[arg(long, visible_alias = "jl", value_name = "FILE")]
    pub(crate) joblog: Option<PathBuf>,
    /// Jobs that the job log has are not run again; command and input must be the same
    #[arg(long, requires = "joblog")]
    pub(crate) resume: bool,
    /// As --resume, but jobs that have failed are run again
    #[arg(long, requires = "joblog")]
    pub(crate) resume_failed: bool,
    /// The most data memory that each process of a task may have (RLIMIT_DATA)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// A directory for NUMBER.out and NUMBER.err of each task (in place of standard error), and
    /// summary.tsv
    ///
    /// It is made if it is not there. One that has a summary.tsv already is refused, or gone on with
    /// by --resume. With --protocol lines there is worker-NUMBER.err of each worker.
    #[arg(long, value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,
    /// How a worker is given its tasks
    #[arg(long, value_enum, default_value_t = Protocol::Each)]
    pub(crate) protocol: Protocol,
    /// The command, and what it gets
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl FarmRunArgs {
    /// The command, without the input sources behind it.
    pub(crate) fn program(&self) -> &[OsString] {
        split(&self.command).0
    }

    /// What of an earlier run is not run again.
    pub(crate) fn resumes(&self) -> Resume {
        match (self.resume_failed, self.resume) {
            (true, _) => Resume::Succeeded,
            (false, true) => Resume::Ended,
            (false, false) => Resume::No,
        }
    }

    /// The first option that only a process for each task can have, if it is given.
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

/// How a worker is given its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Each task is a process
    Each,
    /// Workers stay, and read and write lines of JSON
    Lines,
}

/// Kills the groups that it was told of when there is nobody any more who tells.
#[derive(Debug, clap::Args)]
pub(crate) struct FarmGuardArgs {
    /// What the environment of the tasks has as SYNCLINE_FARM_RUN
    pub(crate) mark: String,
}

/// Becomes a program that may have so much data memory.
#[derive(Debug, clap::Args)]
pub(crate) struct FarmBoundArgs {
    /// In bytes
    pub(crate) memory: u64,
    /// The program, and what it gets
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

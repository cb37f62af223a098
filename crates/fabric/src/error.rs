//! Errors of a team.

pub use syncline_process::watch::Ending;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use syncline_sync::{SpaceError, membership::MAX_MEMBERS};

/// The reason why a team could not be run, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// An environment variable has an invalid value.
    #[error("the environment variable {variable} is {value:?}: {why}")]
    Variable {
        /// The name of the variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The reason why it is invalid.
        why: String,
    },
    /// A descriptor that `SYNCLINE_TEAM` names is not the expected one.
    #[error(
        "{} names descriptor {descriptor} as the team's {what}, but {why}; a program that a member starts is not in \
         the team, and must not be given the variable",
        crate::environment::TEAM
    )]
    Descriptor {
        /// The descriptor in this process.
        descriptor: i32,
        /// The role that it should have.
        what: &'static str,
        /// The reason why it does not fit.
        why: String,
    },
    /// The number of members is 0 or too large.
    #[error("a team has 1 to {MAX_MEMBERS} members, not {processes} processes x {threads} threads")]
    Members {
        /// The number of processes requested.
        processes: usize,
        /// The number of threads requested in each.
        threads: usize,
    },
    /// The memory that the members share could not be created or attached.
    #[error(transparent)]
    Memory(#[from] syncline_memory::Error),
    /// A process cannot be watched, or a lifeline could not be created.
    #[error(transparent)]
    Process(#[from] syncline_process::Error),
    /// The members' objects do not fit into the memory, or differ from those that the launcher
    /// made.
    #[error("the team's shared memory: {}", Advised(.0))]
    Space(#[from] SpaceError),
    /// A member asked for a team from the environment while it is already a member of one.
    #[error("rank {rank} is in a team already: inside it, only a team of threads can be made")]
    Nested {
        /// The rank of the member.
        rank: usize,
    },
    /// A launched process that has taken part already.
    #[error(
        "process {process} of the team has taken part already: a launched process runs its team once"
    )]
    Taken {
        /// The number of the process.
        process: usize,
    },
    /// The system could not start a thread for a member.
    #[error("cannot start a thread for rank {rank}: {source}")]
    Thread {
        /// The rank of the member.
        rank: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// A member panicked. The waits of the other members of this process ended with an error, and
    /// all its members have ended.
    #[error("rank {rank} panicked: {message}")]
    Panicked {
        /// The rank of the member, the first of this process that panicked.
        rank: usize,
        /// The message of the panic.
        message: String,
    },
    /// The program of a team could not be started.
    #[error("cannot start {} as process {process} of the team: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The number of the process.
        process: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// A system call of the launcher or of a member failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// An error of MPI, or of the shim through which it is called.
    #[error(transparent)]
    Mpi(#[from] syncline_mpi::MpiError),
    /// The processes of an MPI team do not agree on a setting.
    #[error(
        "process {process} and process 0 of the team do not agree on {what}: {theirs} and {ours}"
    )]
    Disagree {
        /// The number of a process.
        process: usize,
        /// The setting.
        what: &'static str,
        /// The value of that process.
        theirs: u64,
        /// The value of process 0.
        ours: u64,
    },
    /// The memory of another process of this host could not be opened.
    #[error(
        "cannot share memory with process {process} on this host, {path}: {why}; where processes of a host must not see one \
         another, SYNCLINE_PER_HOST=1 makes them exchange messages"
    )]
    Sharing {
        /// The process that created the memory.
        process: usize,
        /// The path under which it was opened.
        path: String,
        /// The error of the system.
        why: String,
    },
    /// MPI did not return the surviving processes in time: it waits for a process that is dead to
    /// this library, but not to MPI.
    #[error(
        "MPI did not make a smaller team within {seconds} seconds: processes of the team are dead, but MPI has not noticed it, \
         as when a host is cut off"
    )]
    Unshrunk {
        /// The time that MPI was given, in seconds.
        seconds: u64,
    },
    /// Another process could not take part, and reports the reason itself.
    #[error("another process of the team could not take part; its own message gives the reason")]
    Others,
    /// The MPI library does not permit calls from several threads.
    #[error("MPI provides only {granted}, so a process has one member, not {threads}")]
    Threads {
        /// The thread support that MPI provides.
        granted: String,
        /// The number of members requested.
        threads: usize,
    },
    /// This process is a child that `fork` has made of a member's process, and has returned from
    /// the member's function. Nothing of the team was touched.
    #[error("this process is a child made by fork() of rank {rank}'s process: it is no member")]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
    /// A launched process failed: the first that did. All processes have ended.
    #[error("{0}")]
    Failed(Failure),
}

impl TeamError {
    /// Returns the exit code for a program that ends because of this error: that of the process
    /// that failed, and 1 for all other errors.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            TeamError::Failed(failure) => failure.exit_code(),
            _ => 1,
        }
    }
}

/// Advice for the end of a message: how to give a team more memory.
#[doc(hidden)]
pub const MORE_MEMORY: &str = "if `memory`, `syncline launch --memory` or SYNCLINE_MEMORY sets the size of the team's memory, raise it there";

/// An error of a space, with advice if the space has no room.
#[doc(hidden)]
#[derive(Debug)]
pub struct Advised<'a>(pub &'a SpaceError);

impl fmt::Display for Advised<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SpaceError::Full { .. } | SpaceError::Memory { .. } => {
                write!(f, "{} ({MORE_MEMORY})", self.0)
            }
            error => error.fmt(f),
        }
    }
}

/// A launched process that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number in the team.
    pub process: usize,
    /// Its PID, while it lived.
    pub pid: u32,
    /// The ranks of its members.
    pub ranks: Range<usize>,
    /// How it ended.
    pub ending: Ending,
    /// The phase that it had reached.
    pub part: ProcessPhase,
}

/// The phases of a process in its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessPhase {
    /// It has not called `run`.
    NotBegun,
    /// Its members run.
    Begun,
    /// Its members have ended.
    Done,
}

impl Failure {
    /// Returns the exit code of the process; 128 plus the signal if a signal killed it; 1 if it
    /// exited with 0 before its part was done.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            Ending::Exited(0) => 1,
            Ending::Exited(code) => code,
            Ending::Killed(signal) => 128_u8.wrapping_add(signal as u8),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { process, pid, ranks, ending, part } = self;
        write!(f, "process {process} (pid {pid}, {}) {ending}{}", Ranks(ranks), part.when("it"))
    }
}

impl ProcessPhase {
    /// Returns the last words of a sentence about a process, or several, that ended in this phase.
    fn when(self, subject: &str) -> String {
        match self {
            ProcessPhase::NotBegun => format!(" before {subject} took part"),
            ProcessPhase::Begun => " in the middle of the run".to_owned(),
            ProcessPhase::Done => String::new(),
        }
    }
}

/// Failures of several processes, formatted as one line: those that ended alike are named together.
pub(crate) struct Alike<'a>(pub(crate) &'a [Failure]);

impl fmt::Display for Alike<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<(&Failure, Vec<usize>)> = Vec::new();
        for failure in self.0 {
            let is_alike = |(of, _): &&mut (&Failure, Vec<usize>)| {
                (of.ending, of.part) == (failure.ending, failure.part)
            };
            match kinds.iter_mut().find(is_alike) {
                Some((_, processes)) => processes.push(failure.process),
                None => kinds.push((failure, vec![failure.process])),
            }
        }
        for (i, (failure, mut processes)) in kinds.into_iter().enumerate() {
            processes.sort_unstable();
            let (separator, ending) = (if i == 0 { "" } else { "; " }, failure.ending);
            match processes[..] {
                [process] => {
                    let when = failure.part.when("it");
                    write!(f, "{separator}process {process} {ending}{when}")?;
                }
                _ => {
                    let ended = match ending {
                        Ending::Exited(code) => format!("exited with {code}"),
                        Ending::Killed(signal) => format!("were killed by signal {signal}"),
                    };
                    let when = failure.part.when("they");
                    write!(f, "{separator}processes {} {ended}{when}", list(&processes))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns ascending numbers as a text, with ranges of three or more: `0, 2 to 5 and 7`.
fn list(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[usize]| match run {
        [first, _, .., last] => vec![format!("{first} to {last}")],
        few => few.iter().map(ToString::to_string).collect(),
    };
    let mut parts: Vec<String> = runs.flat_map(text).collect();
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) }
}

/// Ranks, formatted for messages.
pub(crate) struct Ranks<'a>(pub(crate) &'a Range<usize>);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "rank {}", self.0.start),
            _ => write!(f, "ranks {} to {}", self.0.start, self.0.end - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_all_that_one_looks_for() {
        let failure = Failure {
            process: 2,
            pid: 77,
            ranks: 4..6,
            ending: Ending::Killed(9),
            part: ProcessPhase::Begun,
        };
        let text =
            "process 2 (pid 77, ranks 4 to 5) was killed by signal 9 in the middle of the run";
        assert_eq!((failure.to_string().as_str(), failure.exit_code()), (text, 137));
        let early = Failure {
            ranks: 2..3,
            ending: Ending::Exited(0),
            part: ProcessPhase::NotBegun,
            ..failure
        };
        let text = "process 2 (pid 77, rank 2) exited with 0 before it took part";
        assert_eq!((early.to_string().as_str(), TeamError::Failed(early).exit_code()), (text, 1));
    }

    #[test]
    fn processes_that_end_alike_are_named_together() {
        let failure = |process, ending, part| {
            let ranks = process..process + 1;
            Failure { process, pid: 7, ranks, ending, part }
        };
        let exited = |process| failure(process, Ending::Exited(1), ProcessPhase::Done);
        let killed = |process| failure(process, Ending::Killed(9), ProcessPhase::Begun);
        let early = |process| failure(process, Ending::Exited(0), ProcessPhase::NotBegun);
        let cases = [
            (vec![exited(3)], "process 3 exited with 1"),
            (vec![exited(3), exited(2)], "processes 2 and 3 exited with 1"),
            (
                vec![exited(7), exited(2), killed(9), exited(3), exited(0), exited(4)],
                "processes 0, 2 to 4 and 7 exited with 1; process 9 was killed by signal 9 in the middle of the run",
            ),
            (
                vec![killed(1), killed(0), early(2), early(4)],
                "processes 0 and 1 were killed by signal 9 in the middle of the run; processes 2 and 4 exited with 0 \
                 before they took part",
            ),
        ];
        for (failures, text) in cases {
            assert_eq!(Alike(&failures).to_string(), text);
        }
    }
}

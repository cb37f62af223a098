//! What can go wrong with a team.

pub use syncline_process::watch::Ending;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use syncline_sync::{SpaceError, membership::MAX_MEMBERS};

/// Why a team could not be run, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// An environment variable says something that makes no sense.
    #[error("the environment variable {variable} is {value:?}: {why}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// A descriptor that `SYNCLINE_TEAM` names is not what it should be.
    #[error(
        "{} names descriptor {descriptor} as the team's {what}, but {why}; a program that a member starts is not in \
         the team, and must not be given the variable",
        crate::environment::TEAM
    )]
    Descriptor {
        /// Its number in this process.
        descriptor: i32,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// So many members, or none.
    #[error("a team has 1 to {MAX_MEMBERS} members, not {processes} processes x {threads} threads")]
    Members {
        /// Processes asked for.
        processes: usize,
        /// Threads asked for in each.
        threads: usize,
    },
    /// The memory that the members share could not be made or attached to.
    #[error(transparent)]
    Memory(#[from] syncline_memory::Error),
    /// A process cannot be watched, or a lifeline not be made.
    #[error(transparent)]
    Process(#[from] syncline_process::Error),
    /// The members' words have no room in that memory, or are not those that the launcher made.
    #[error("the team's shared memory: {}", Advised(.0))]
    Space(#[from] SpaceError),
    /// A member asked for a team from the environment, whose member it is already.
    #[error("rank {rank} is in a team already: inside it, only a team of threads can be made")]
    Nested {
        /// The member.
        rank: usize,
    },
    /// A launched process takes part once.
    #[error(
        "process {process} of the team has taken part already: a launched process runs its team once"
    )]
    Taken {
        /// The process.
        process: usize,
    },
    /// The system gave no thread for a member.
    #[error("cannot start a thread for rank {rank}: {source}")]
    Thread {
        /// The member.
        rank: usize,
        /// What the system answered.
        source: io::Error,
    },
    /// A member panicked. The others were told, and have ended.
    #[error("rank {rank} panicked: {message}")]
    Panicked {
        /// The member, the first of this process.
        rank: usize,
        /// What it said.
        message: String,
    },
    /// The program of a team could not be started.
    #[error("cannot start {} as process {process} of the team: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The number of the process.
        process: usize,
        /// What the system answered.
        source: io::Error,
    },
    /// The launcher or a member could not do what it has to.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// MPI, or the shim by which it is called.
    #[error(transparent)]
    Mpi(#[from] syncline_mpi::MpiError),
    /// The processes of an MPI team do not agree.
    #[error(
        "process {process} and process 0 of the team do not agree on {what}: {theirs} and {ours}"
    )]
    Disagree {
        /// A process.
        process: usize,
        /// On what.
        what: &'static str,
        /// What it says.
        theirs: u64,
        /// What process 0 says.
        ours: u64,
    },
    /// The memory of another process of this host could not be reached.
    #[error(
        "cannot share memory with process {process} on this host, {path}: {why}; where processes of a host must not see one \
         another, SYNCLINE_PER_HOST=1 makes them exchange messages"
    )]
    Sharing {
        /// Whose memory.
        process: usize,
        /// As what it was opened.
        path: String,
        /// What the system answered.
        why: String,
    },
    /// MPI did not say in time who is left: it waits for a process that is dead to us, but not to it.
    #[error(
        "processes of the team are dead, but MPI does not know it, as of a host that was cut off, and did not make a smaller \
         team within {seconds} seconds"
    )]
    Unshrunk {
        /// How long it was given.
        seconds: u64,
    },
    /// Another process could not take part, and says why itself.
    #[error("another process of the team could not take part, and says why itself")]
    Others,
    /// The MPI does not let several threads call it.
    #[error("MPI grants {granted} only, so a process has one member, not {threads}")]
    Threads {
        /// What it grants.
        granted: String,
        /// Members asked for.
        threads: usize,
    },
    /// This process is a copy that `fork` has made of a member's, and has come back from the
    /// member's function. Nothing of the team was touched.
    #[error("this process is a child made by fork() of rank {rank}'s process: it is no member")]
    Forked {
        /// The rank of the member.
        rank: usize,
    },
    /// A launched process did not end well: the first that did not. All have ended.
    #[error("{0}")]
    Failed(Failure),
}

impl TeamError {
    /// The exit code for a program that ends because of this: that of the process which failed, and 1 for all else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            TeamError::Failed(failure) => failure.exit_code(),
            _ => 1,
        }
    }
}

/// How a team gets more memory, for the end of a message.
#[doc(hidden)]
pub const MORE_MEMORY: &str = "a team is given more by `memory`, `syncline launch --memory`, or SYNCLINE_MEMORY, if it was given a size";

/// An error of a space, and what to do if it has no room.
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

/// A launched process that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number in the team.
    pub process: usize,
    /// Its number in the system, while it lived.
    pub pid: u32,
    /// Its members.
    pub ranks: Range<usize>,
    /// How it ended.
    pub ending: Ending,
    /// How far its part in the team had come.
    pub part: ProcessPhase,
}

/// How far the part of a process in its team has come.
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
    /// The exit code of the process; 128 and the signal; 1 if it exited with 0 before its part was done.
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
        let Failure { process, pid, ranks, ending, .. } = self;
        write!(f, "process {process} (pid {pid}, {}) {ending}", Ranks(ranks))?;
        f.write_str(match self.part {
            ProcessPhase::NotBegun => " before it took part",
            ProcessPhase::Begun => " in the middle of the run",
            ProcessPhase::Done => "",
        })
    }
}

/// Some ranks, in words.
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
}

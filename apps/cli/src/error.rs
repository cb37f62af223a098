//! What can go wrong with a command, in one line each.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use syncline_fabric::TeamError;
use syncline_overlay::error::{CheckError, Wait};
use syncline_store::ElementType;
use syncline_wave::described::DescribedError;

use crate::executor;
use crate::units::{AtLeast, Bytes};

/// The result of everything in this command.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A matrix or file, as the store has it.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
    /// A sweep.
    #[error(transparent)]
    Wave(#[from] syncline_wave::Error),
    /// A team of processes.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The system does not give a team as much memory as was asked for.
    #[error(
        "the system does not reserve {size} of memory for the team: {source}; give a smaller {asked}"
    )]
    TeamMemory {
        /// The option or the variable that says how much.
        asked: &'static str,
        /// How much.
        size: Bytes,
        /// What the system says.
        source: std::io::Error,
    },
    /// An MPI, as its shim has it.
    #[error(transparent)]
    Shim(#[from] syncline_mpi::MpiError),
    /// Why there are no shims.
    #[error("{why}")]
    Mpi {
        /// What is wrong.
        why: String,
    },
    /// A description of a kernel that makes no sense.
    #[error("{}, {}", path.display(), in_one_line(why))]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        why: DescribedError,
    },
    /// An overlay that deadlocks.
    #[error("{what}: {}{drawn}", shortened(why))]
    Overlay {
        /// Its file.
        what: String,
        /// Its circle.
        why: CheckError,
        /// Where it was drawn.
        drawn: Drawn,
    },
    /// Why an overlay could not be checked or drawn, which is not to be taken for a deadlock.
    #[error(transparent)]
    Unchecked(Box<Error>),
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Usage(String),
    /// A barrier or lock that does not do what it promises.
    #[error("{0}")]
    Refuted(String),
    /// A file that is there already and is not to be replaced.
    #[error("{} exists already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// A file that cannot be the output.
    #[error("the output {} {why}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// An array that two directories have.
    #[error("the matrix {name} is there twice: {} and {}", one.display(), other.display())]
    Twice {
        /// Its name.
        name: String,
        /// A file of it.
        one: PathBuf,
        /// Another.
        other: PathBuf,
    },
    /// An array that none of several directories has.
    #[error("there is no matrix {name} in {}; they have {}", list(dirs), names.join(", "))]
    Nowhere {
        /// Its name.
        name: String,
        /// The directories.
        dirs: Vec<PathBuf>,
        /// What is in them.
        names: Vec<String>,
    },
    /// Raw data of an unknown kind.
    #[error(
        "{} is no .npy file, and no layout.json tells of what shape and type it is: {why} (cp -a keeps the mark of a \
         result), and no layout.json beside it has an entry of its name, or one of its field {field} with its length",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Why no mark tells it.
        why: &'static str,
        /// The matrix that it would be a result of, by its name.
        field: String,
    },
    /// Arrays of two types.
    #[error("the arrays of a run must have one type of elements, but {}", types(.0))]
    Types(Vec<(ElementType, Vec<PathBuf>)>),
    /// The room on disk does not suffice for the matrix to compare with.
    #[error("--verify needs room beside the output: {0}")]
    VerifyRoom(syncline_store::Error),
    /// The memory bound does not hold the program and the least piece of work.
    #[error(
        "a memory bound of {bound} ({} bytes) is too small: the program's own data take {own}{hint}, and {piece} {needed}; \
         allow at least {}", bound.0, own.and(*needed)
    )]
    Memory {
        /// The bound.
        bound: Bytes,
        /// What the program takes without data.
        own: AtLeast,
        /// How that could be less, if it could.
        hint: &'static str,
        /// The least piece of work.
        piece: String,
        /// What that takes.
        needed: AtLeast,
    },
    /// Something is left of an earlier run, and nothing was said about it.
    #[error("{} is left of {what}: give {resume}--force to discard it", folder(output))]
    LeftOver {
        /// The output.
        output: PathBuf,
        /// What was found.
        what: String,
        /// What --resume would do, if it would do anything.
        resume: &'static str,
    },
    /// A streamed run was interrupted, and this one cannot go on from there, as it was told to.
    #[error(
        "{} is left of {what}, and --resume cannot go on from there: {why}; give --force in place of --resume to \
         discard it, or go on with that run by its own command with --resume",
        folder(output)
    )]
    LeftOverOther {
        /// The output.
        output: PathBuf,
        /// What was found.
        what: String,
        /// Why this run cannot go on from there.
        why: String,
    },
    /// A streamed run was interrupted, and this one is in blocks.
    #[error(
        "{} is left of {what}, and {names} {} for sweeps in blocks, which cannot go on from there: {} {names}, or \
         give --force {}to discard it",
        folder(output),
        executor::are(options),
        if *resume { "leave out" } else { "give --resume in place of" },
        if *resume { "in place of --resume " } else { "" },
        names = executor::list(options),
    )]
    LeftOverInBlocks {
        /// The output.
        output: PathBuf,
        /// What was found.
        what: String,
        /// The options that ask for blocks.
        options: Vec<&'static str>,
        /// Whether --resume is given.
        resume: bool,
    },
    /// The output's name is taken.
    #[error("the output {} is {by}; {ways}", output.display())]
    Taken {
        /// The output.
        output: PathBuf,
        /// What has the name.
        by: String,
        /// What can be done.
        ways: String,
    },
    /// An interrupted run has done more than is asked for.
    #[error(
        "{} has {done} iterations behind it, more than the {asked} {why}; --force discards it and begins anew",
        folder(output)
    )]
    Fewer {
        /// The output.
        output: PathBuf,
        /// The iterations that were done.
        done: u64,
        /// Those asked for.
        asked: u64,
        /// What asks for them.
        why: &'static str,
    },
    /// A failure in a later pass.
    #[error("{why}; {left}")]
    Kept {
        /// What failed.
        why: Box<syncline_store::Error>,
        /// What is left of the work.
        left: String,
    },
    /// A complete output that is not that of the plain loop.
    #[error(
        "the output {} (left), complete already, differs from {with} (right) at {at}; it was left as it is, \
         with --force in place of --resume it is computed again",
        output.display()
    )]
    CompleteDiffers {
        /// The output.
        output: PathBuf,
        /// What it was compared with.
        with: &'static str,
        /// Where, and the two values.
        at: String,
    },
    /// What is left of an earlier run cannot be used.
    #[error("{why}; --force discards {} and begins anew", folder(output))]
    Useless {
        /// The output.
        output: PathBuf,
        /// What is wrong with it.
        why: Box<syncline_store::Error>,
    },
    /// The result is not that of the plain loop.
    #[error("the result (left) differs from {with} (right) at {at}; no output was written")]
    Differs {
        /// What it was compared with.
        with: &'static str,
        /// Where, and the two values.
        at: String,
    },
    /// The work panicked; the message was printed when it did.
    #[error("the command failed by a fault of its own (a panic)")]
    Panic,
    /// SIGINT, SIGTERM.
    #[error("interrupted by {}; {left}", signal_name(*signal))]
    Interrupted {
        /// The signal's number.
        signal: u8,
        /// What is left of the work.
        left: String,
    },
    /// Tasks that failed, or were ended by a signal: in lines of their own already.
    #[error("told already")]
    Told {
        /// The exit code.
        code: u8,
    },
}

/// Where an overlay that deadlocks was drawn, beside standard output.
#[derive(Debug)]
pub(crate) enum Drawn {
    /// In no file.
    Nowhere,
    /// In this one.
    In(PathBuf),
    /// Not where it was to be.
    Not(Box<Error>),
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => Ok(()),
            Self::In(file) => write!(f, "; drawn in {}", file.display()),
            Self::Not(why) => write!(f, "; not drawn: {why}"),
        }
    }
}

impl From<syncline_conformance::Error> for Error {
    fn from(error: syncline_conformance::Error) -> Error {
        match error {
            syncline_conformance::Error::Team(error) => Error::Team(error),
            other => Error::Refuted(other.to_string()),
        }
    }
}

impl Error {
    /// Interrupted, with nothing left of the work.
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self::Interrupted { signal, left: "nothing was written".to_owned() }
    }

    /// With a reason before the piece of work that does not fit the memory.
    pub(crate) fn with_piece_after(self, reason: &str) -> Self {
        match self {
            Self::Memory { bound, own, hint, piece, needed } => {
                Self::Memory { bound, own, hint, piece: format!("{reason}{piece}"), needed }
            }
            other => other,
        }
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unchecked(_) => 2,
            Self::Interrupted { signal, .. } => 128 + signal,
            Self::Told { code } => *code,
            Self::Team(TeamError::Members { .. }) => 2,
            Self::Team(error) => error.exit_code(),
            _ => 1,
        }
    }
}

/// Where a run of several passes keeps what it goes on from.
fn folder(output: &Path) -> String {
    format!("{}.syncline", output.display())
}

/// A circle with its first and last waits, if it is long.
fn shortened(why: &CheckError) -> String {
    const ENDS: usize = 4;
    match why {
        CheckError::Cycle { cycle } if cycle.len() > 2 * ENDS + 1 => {
            let join =
                |waits: &[Wait]| waits.iter().map(Wait::to_string).collect::<Vec<_>>().join(", ");
            let (first, last) = (&cycle[..ENDS], &cycle[cycle.len() - ENDS..]);
            let between = cycle.len() - 2 * ENDS;
            format!(
                "the overlay deadlocks: {}, ... {between} more ..., {}",
                join(first),
                join(last)
            )
        }
        other => other.to_string(),
    }
}

/// What is wrong, and the line in which it is.
fn in_one_line(why: &DescribedError) -> String {
    match why {
        DescribedError::Text { place, message, .. } => {
            let nearby = place.nearby();
            match nearby.text.trim() {
                "" => format!("{place}: {message}"),
                line => format!("{place}: {message}, in: {line}"),
            }
        }
        other => other.to_string(),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn types(all: &[(ElementType, Vec<PathBuf>)]) -> String {
    let one = |(element, files): &(ElementType, Vec<PathBuf>)| {
        let verb = if files.len() == 1 { "is" } else { "are" };
        format!("{} {verb} {element} ({})", list(files), element.descr())
    };
    all.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// The name of a signal.
pub(crate) fn signal_name(signal: u8) -> &'static str {
    signal_hook::low_level::signal_name(signal.into()).unwrap_or("a signal")
}

//! The errors of the command, each printed as one line.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use syncline_common::signals::{Interrupted, Uncaught, signal_name};
use syncline_common::units::{AtLeast, Bytes};
use syncline_common::{terminal, words};
use syncline_fabric::TeamError;
use syncline_mpi::{MpiError, host_lines::say_once};
use syncline_overlay::error::{CheckError, Wait};
use syncline_store::ElementType;
use syncline_wave::described::DescribedError;

/// The result type of this command.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An error of a matrix or file.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
    /// An error of a sweep.
    #[error(transparent)]
    Wave(#[from] syncline_wave::Error),
    /// An error that only a sweep in blocks has.
    #[error(transparent)]
    Blocks(syncline_blocks::Error),
    /// An error of the array in a file.
    #[error("{}: {why}", path.display())]
    OfFile {
        /// The file.
        path: PathBuf,
        /// The error.
        why: Box<syncline_wave::Error>,
    },
    /// An error of a team of processes.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// An error of a trace that is to be written.
    #[error(transparent)]
    Trace(#[from] syncline_trace::TraceError),
    /// An error of a report.
    #[error(transparent)]
    Report(#[from] syncline_report::ReportError),
    /// The system does not reserve the memory that was requested for a team.
    #[error(
        "the system does not reserve {size} of memory for the team: {source}; give a smaller {asked}"
    )]
    TeamMemory {
        /// The option or environment variable that requests it.
        asked: &'static str,
        /// The requested size.
        size: Bytes,
        /// The error of the system.
        source: std::io::Error,
    },
    /// An error that only some members of a team have.
    #[error("{member}: {why}")]
    OfMember {
        /// The rank and the host of the first of them.
        member: String,
        /// Its error.
        why: Box<Error>,
    },
    /// An error of an MPI, as its shim reports it.
    #[error(transparent)]
    Shim(#[from] syncline_mpi::MpiError),
    /// No shim could be built.
    #[error("{why}")]
    Mpi {
        /// The reason.
        why: String,
    },
    /// An invalid description of a kernel.
    #[error("{}, {}", path.display(), in_one_line(why))]
    Description {
        /// The file of the description.
        path: PathBuf,
        /// The fault and its place.
        why: DescribedError,
    },
    /// An overlay that deadlocks.
    #[error("{what}: {}{drawn}", shortened(why))]
    Overlay {
        /// The file of the overlay.
        what: String,
        /// The cycle of waits.
        why: CheckError,
        /// Whether and where the overlay was drawn.
        drawn: Drawn,
    },
    /// An overlay that could not be checked or drawn; distinct from a deadlock.
    #[error(transparent)]
    Unchecked(Box<Error>),
    /// An operation that the operating system refused.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system does not let this process catch signals.
    #[error(transparent)]
    Uncaught(#[from] Uncaught),
    /// An error of a farm. Those that other commands have as well are the command's own.
    #[error(transparent)]
    Farm(syncline_farm_run::Error),
    /// Options that contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A barrier, lock, memory or pool that breaks its contract.
    #[error("{0}")]
    Refuted(String),
    /// An existing file that is not to be replaced.
    #[error("{} exists already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// A file that cannot be the output.
    #[error("the output {} {why}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// An array that two directories contain.
    #[error("the matrix {name} is there twice: {} and {}", one.display(), other.display())]
    Twice {
        /// The name of the array.
        name: String,
        /// One of its files.
        one: PathBuf,
        /// Another of its files.
        other: PathBuf,
    },
    /// An array that none of several directories contains.
    #[error("there is no matrix {name} in {}; they have {}", list(dirs), names.join(", "))]
    Nowhere {
        /// The name of the array.
        name: String,
        /// The directories.
        dirs: Vec<PathBuf>,
        /// The arrays that they contain.
        names: Vec<String>,
    },
    /// Raw data of unknown shape and type.
    #[error(
        "{} is no .npy file, and no layout.json tells of what shape and type it is: {why} (cp -a keeps the mark of a \
         result), and no layout.json beside it has an entry of its name, or one of its field {field} with its length",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Why no mark describes it.
        why: &'static str,
        /// The name of the matrix of which it would be a result.
        field: String,
    },
    /// A matrix of whole numbers.
    #[error("matrices are of float64 or float32; {0} is for kernels that give it in [types]")]
    Whole(ElementType),
    /// Arrays of different element types.
    #[error("the arrays of a run must have one type of elements, but {}", types(.0))]
    Types(Vec<(ElementType, Vec<PathBuf>)>),
    /// Too little disk space for the matrix to compare with.
    #[error("--verify needs room beside the output: {0}")]
    VerifyRoom(syncline_store::Error),
    /// The memory bound is too small for the program and the smallest piece of work.
    #[error(
        "a memory bound ({option}) of {bound} ({} bytes) is too small: the program's own data take {own}{hint}, and {piece} {needed}; \
         allow at least {}", bound.0, own.and(*needed)
    )]
    Memory {
        /// The option that sets the bound, and what it bounds where that is not the whole run.
        option: &'static str,
        /// The bound.
        bound: Bytes,
        /// The memory of the program without data.
        own: AtLeast,
        /// How to reduce it, if that is possible.
        hint: &'static str,
        /// The smallest piece of work.
        piece: String,
        /// The memory of that piece.
        needed: AtLeast,
    },
    /// The state of an earlier run exists, and no option decides about it.
    #[error("{} is left of {what}: give {resume}--force to discard it", folder(output))]
    LeftOver {
        /// The output.
        output: PathBuf,
        /// The state that was found.
        what: String,
        /// The effect of --resume, if it would have any.
        resume: &'static str,
    },
    /// --resume cannot continue the interrupted streamed run whose state was found.
    #[error(
        "{} is left of {what}, and --resume cannot go on from there: {why}; give --force in place of --resume to \
         discard it, or go on with that run by its own command with --resume",
        folder(output)
    )]
    LeftOverOther {
        /// The output.
        output: PathBuf,
        /// The state that was found.
        what: String,
        /// The reason.
        why: String,
    },
    /// The state of an interrupted streamed run was found, and this run is in blocks.
    #[error(
        "{} is left of {what}, and {names} {} for sweeps in blocks, which cannot go on from there: {} {names}, or \
         give --force {}to discard it",
        folder(output),
        words::are(options),
        if *resume { "leave out" } else { "give --resume in place of" },
        if *resume { "in place of --resume " } else { "" },
        names = words::list(options),
    )]
    LeftOverInBlocks {
        /// The output.
        output: PathBuf,
        /// The state that was found.
        what: String,
        /// The options that require blocks.
        options: Vec<&'static str>,
        /// Whether --resume is given.
        resume: bool,
    },
    /// The name of the output is taken.
    #[error("the output {} is {by}; {ways}", output.display())]
    Taken {
        /// The output.
        output: PathBuf,
        /// What has the name.
        by: String,
        /// What the user can do.
        ways: String,
    },
    /// An interrupted run has done more iterations than requested.
    #[error(
        "{} has {done} iterations behind it, more than the {asked} {why}; --force discards it and begins anew",
        folder(output)
    )]
    Fewer {
        /// The output.
        output: PathBuf,
        /// The number of iterations done.
        done: u64,
        /// The requested number of iterations.
        asked: u64,
        /// The option that requests it.
        why: &'static str,
    },
    /// A failure in a later pass.
    #[error("{why}; {left}")]
    Kept {
        /// The failure.
        why: Box<syncline_store::Error>,
        /// The state that is kept.
        left: String,
    },
    /// An output that was complete before differs from that of the plain loop.
    #[error(
        "the output {} (left), complete already, differs from {with} (right) at {at}; it was left as it is, \
         with --force in place of --resume it is computed again",
        output.display()
    )]
    CompleteDiffers {
        /// The output.
        output: PathBuf,
        /// The computation that it was compared with.
        with: &'static str,
        /// The position, and the two values.
        at: String,
    },
    /// The state of an earlier run cannot be used.
    #[error("{why}; --force discards {} and begins anew", folder(output))]
    Useless {
        /// The output.
        output: PathBuf,
        /// The fault of the state.
        why: Box<syncline_store::Error>,
    },
    /// The result differs from that of the plain loop.
    #[error("the result (left) differs from {with} (right) at {at}; no output was written")]
    Differs {
        /// The computation that it was compared with.
        with: &'static str,
        /// The position, and the two values.
        at: String,
    },
    /// The work panicked; the panic message was printed then.
    #[error("the command failed by a fault of its own (a panic)")]
    Panic,
    /// The command was interrupted by SIGINT or SIGTERM.
    #[error("interrupted by {}; {left}", signal_name(*signal))]
    Interrupted {
        /// The number of the signal.
        signal: u8,
        /// The state that is kept.
        left: String,
    },
    /// An error that was already reported in lines of its own.
    #[error("told already")]
    Told {
        /// The exit code.
        code: u8,
    },
}

/// Whether a deadlocking overlay was drawn into a file, besides standard output.
#[derive(Debug)]
pub(crate) enum Drawn {
    /// No file was requested.
    Nowhere,
    /// The file that holds the drawing.
    In(PathBuf),
    /// The drawing failed.
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

impl From<syncline_farm_run::Error> for Error {
    fn from(error: syncline_farm_run::Error) -> Error {
        match error {
            syncline_farm_run::Error::Team(error) => Error::Team(error),
            syncline_farm_run::Error::Usage(text) => Error::Usage(text),
            syncline_farm_run::Error::Interrupted(signal) => signal.into(),
            syncline_farm_run::Error::Told { code } => Error::Told { code },
            other => Error::Farm(other),
        }
    }
}

impl From<syncline_blocks::Error> for Error {
    fn from(error: syncline_blocks::Error) -> Error {
        match error {
            syncline_blocks::Error::Sweep(error) => Error::Wave(error),
            other => Error::Blocks(other),
        }
    }
}

impl From<syncline_wave::kernels::KernelError> for Error {
    fn from(error: syncline_wave::kernels::KernelError) -> Error {
        Error::Wave(error.into())
    }
}

impl From<Interrupted> for Error {
    fn from(Interrupted { signal }: Interrupted) -> Error {
        Error::interrupted(signal)
    }
}

impl Error {
    /// Returns the error of an interrupted command that leaves nothing behind.
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self::Interrupted { signal, left: "nothing was written".to_owned() }
    }

    /// Puts `reason` before the piece of work that does not fit the memory.
    pub(crate) fn with_piece_after(self, reason: &str) -> Self {
        match self {
            Self::Memory { option, bound, own, hint, piece, needed } => {
                let piece = format!("{reason}{piece}");
                Self::Memory { option, bound, own, hint, piece, needed }
            }
            other => other,
        }
    }

    /// Says that a memory bound is that of one member of a team, and not of the memory that members
    /// share, which `--memory` of `syncline launch` sets.
    pub(crate) fn for_each_member(self) -> Self {
        match self {
            Self::Memory { bound, own, hint, piece, needed, .. } => {
                let option = "--memory of `syncline run`, for each member";
                Self::Memory { option, bound, own, hint, piece, needed }
            }
            other => other,
        }
    }

    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unchecked(_) => 2,
            Self::Interrupted { signal, .. } => 128 + signal,
            Self::Told { code } => *code,
            Self::OfMember { why, .. } => why.exit_code(),
            Self::Team(TeamError::Members { .. }) => 2,
            Self::Team(error) => error.exit_code(),
            _ => 1,
        }
    }
}

impl Error {
    /// Prints the error, unless that was done when it happened; returns the exit code.
    pub(crate) fn tell(&self) -> u8 {
        if !matches!(self, Error::Team(TeamError::Failed(_)) | Error::Told { .. }) {
            // A line break in the name of a file must not split an error into two lines.
            let line = self.to_string().replace('\n', "\\n");
            // If the write fails, the exit code still reports the error.
            let say = || terminal::say(format_args!("error: {line}"));
            // All ranks of a host lack the same shim.
            if matches!(self, Error::Team(TeamError::Mpi(MpiError::Unbuilt { .. }))) {
                say_once(say);
            } else {
                say();
            }
        }
        self.exit_code()
    }
}

/// Returns the folder in which a run of several passes keeps its state.
fn folder(output: &Path) -> String {
    format!("{}.syncline", output.display())
}

/// Prints a cycle; of a long one only the first and last waits.
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

/// Prints the fault of a description and the line that contains it.
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

pub(crate) fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn types(all: &[(ElementType, Vec<PathBuf>)]) -> String {
    let one = |(element, files): &(ElementType, Vec<PathBuf>)| {
        let verb = if files.len() == 1 { "is" } else { "are" };
        format!("{} {verb} {element} ({})", list(files), element.descr())
    };
    all.iter().map(one).collect::<Vec<_>>().join(", and ")
}

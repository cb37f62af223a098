//! The command line.

mod block;
mod documents;
mod farm;
mod kernel;
mod launch;
mod mpi;
mod overlay;
mod probe;
mod report;
mod run;
mod top;
mod verify;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use syncline_common::units::parse_size;

pub(crate) use block::BlockSize;
use block::parse_block_size;
pub(crate) use documents::{CompletionsArgs, ManArgs};
pub(crate) use farm::FarmCommand;
pub(crate) use kernel::{KernelName, Known};
pub(crate) use launch::LaunchArgs;
pub(crate) use mpi::{DoctorArgs, MpiBuildArgs, MpiCommand, MpiListArgs};
pub(crate) use overlay::{CheckArgs, Draw, GridArgs, Init, OverlayCommand};
pub(crate) use probe::ProbeDiskArgs;
use probe::TABLE;
pub(crate) use report::ReportArgs;
pub(crate) use run::{BlockOrder, ExecutorKind, Extent, RunArgs, RunnerKind};
pub(crate) use top::TopArgs;
pub(crate) use verify::{Places, Verify, VerifyArgs};

/// Runs wavefront sweeps over matrices larger than memory, on all cores, with exact results.
#[derive(Debug, Parser)]
#[command(name = "syncline", version, max_term_width = 100, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  Six matrices of 8 MiB each, 20 iterations of Livermore kernel 23 in 24 MiB of memory, checked:
    syncline gen lk23 data --rows 1024 --cols 1024
    syncline run lk23 data --iterations 20 --memory 24M --verify

  The same block by block, as Clauss, Gustedt and Suter do it (PDP 2008, HAL inria-00176084), on a
  field in framed blocks (each side of a block is one piece of the file):
    syncline convert data framed --layout framed --block 128
    syncline run lk23 framed --iterations 20 --memory 24M --output result.npy

Exit codes: 0 success, 1 error (one line on standard error; launch adds its own), 2 wrong command line, 3 a run that has \
done its iterations without reaching its --until (its result is written), 130 or 143 interrupted \
(SIGINT, SIGTERM). The help of launch, farm and overlay check lists further codes.

Outputs appear whole or not at all, and inputs are never modified. SIGUSR1 makes a run print its \
progress, its speed, its memory, and what it waits for.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Gen(GenArgs),
    Run(RunArgs),
    Report(ReportArgs),
    Convert(ConvertArgs),
    Top(TopArgs),
    Launch(LaunchArgs),
    /// Runs many tasks on a few workers, and leaves no process behind
    #[command(subcommand)]
    Farm(FarmCommand),
    /// Checks and draws overlays: tasks that share locations, and whether their waits can deadlock
    #[command(subcommand)]
    Overlay(OverlayCommand),
    /// Verifies barriers, locks, one-sided memory and pools of tasks on this machine
    #[command(subcommand)]
    Verify(Verify),
    /// Measures the disk requests that sweeps wait for
    #[command(subcommand, after_long_help = TABLE)]
    Probe(Probe),
    /// Prepares this machine's MPIs for programs of Syncline
    #[command(subcommand)]
    Mpi(MpiCommand),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

/// The subcommands of `syncline probe`.
#[derive(Debug, Subcommand)]
pub(crate) enum Probe {
    Disk(ProbeDiskArgs),
}

/// Writes matrices to try things with, as .npy files.
///
/// `lk23` writes za (the field), zr, zb, zu, zv and zz: za is uniform in [0, 1), the others in [0,
/// 0.25). `poisson` writes u (zero inside, uniform in [0, 1) at the edge) and f, a right-hand side
/// whose solution has size 1 for every shape.
///
/// The contents of a file depend only on the seed, the shape, its name and the type of its
/// elements. float32 gives the numbers of float64 rounded towards zero, so they stay below the same
/// bounds. Existing files are never overwritten.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline gen <PROBLEM> <DIR> --rows <R> --cols <C> [OPTIONS]",
    after_long_help = "\
Example:
  syncline gen lk23 data --rows 16384 --cols 16384     (six matrices, 12 GiB)"
)]
pub(crate) struct GenArgs {
    /// The problem that the matrices are for
    #[arg(value_enum)]
    pub(crate) problem: Problem,
    /// The directory to write to; created if it does not exist
    pub(crate) dir: PathBuf,
    /// The number of rows of every matrix
    #[arg(long, value_name = "R")]
    pub(crate) rows: usize,
    /// The number of columns of every matrix
    #[arg(long, value_name = "C")]
    pub(crate) cols: usize,
    /// The seed; another seed gives other numbers
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The type of the elements, where they are real numbers
    #[arg(long, value_enum, default_value_t = Dtype::Float64)]
    pub(crate) dtype: Dtype,
    /// Report no progress: no bar, and without a terminal no line every ten seconds
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The type of the elements of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dtype {
    /// 8 bytes each
    Float64,
    /// 4 bytes each
    Float32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Problem {
    /// Livermore kernel 23: za zr zb zu zv zz
    Lk23,
    /// The Poisson equation, also for ssor.toml: u f
    Poisson,
    /// explicit-heat.toml of the examples: t
    Heat,
    /// wave.toml: u before speed
    Wave,
    /// life.toml: cell, uint8
    Life,
    /// eikonal.toml: t slowness
    Eikonal,
    /// affine.toml: best down right match, int32
    Affine,
}

/// Copies the matrices of a directory into another layout.
///
/// Results of runs are skipped, unless --only names them: files with the mark of a result, with a
/// name that a run gives, or with the same bytes as a result in the same directory. Files that
/// cannot be converted are skipped as well: a .npy file that is not a matrix, or whose shape
/// differs from that of most. Skipped files are named on standard error, converted ones on standard
/// output. A file that --only names must be valid. A raw result, which layout.json does not list,
/// is recognised by its mark, or by the entry of its field.
///
/// Every matrix keeps the type of its elements, float64 or float32.
///
/// row-major writes .npy files. blocked and framed write raw files and a layout.json that describes
/// them; `syncline run` reads either. In a blocked file every block is contiguous. In a framed file
/// every edge of a block is contiguous too, so that neighbours read a thin line instead of a block
/// (Clauss, Gustedt and Suter, PDP 2008, HAL inria-00176084). Only the fields are framed (za, u,
/// score, and results of them); coefficients become blocked.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline convert <DIR> <OUTDIR> --layout <LAYOUT> [OPTIONS]",
    after_long_help = "\
Examples:
  syncline convert data framed --layout framed --block 2048
  syncline convert data framed --layout framed --block auto --memory 2G
  syncline convert framed back --layout row-major
  syncline convert framed back --layout row-major --only za.lk23.out"
)]
pub(crate) struct ConvertArgs {
    /// The directory to read
    pub(crate) dir: PathBuf,
    /// The directory to write to; created if it does not exist. Existing files are never
    /// overwritten
    pub(crate) outdir: PathBuf,
    /// The new layout
    #[arg(long, value_enum)]
    pub(crate) layout: LayoutKind,
    /// The size of a block, as 512, as 256x1024 (rows x columns), or auto [default: an eighth of
    /// the longer side, from 64 to 2048 and no larger than the matrix]
    ///
    /// auto measures the disk of OUTDIR briefly, with a scratch file of 64 MiB, and takes the size
    /// that is expected to be fastest for a run of 20 iterations over all matrices here, with the
    /// same memory.
    #[arg(long, value_name = "B", value_parser = parse_block_size)]
    pub(crate) block: Option<BlockSize>,
    /// The number of lines of a frame [default: 1]
    #[arg(long, value_name = "T")]
    pub(crate) thickness: Option<usize>,
    /// The maximum memory of the program, without its executable, as 512M or 2G [default: 80 % of
    /// the available memory]
    ///
    /// More than a row of blocks, or than 512M, makes nothing faster and is not used.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// Convert only these matrices, named without .npy [default: all that are not results of runs]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Report no progress: no bar, and without a terminal no line every ten seconds
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// Row by row, as .npy files
    RowMajor,
    /// Block by block
    Blocked,
    /// Block by block, each with its edges first and last
    Framed,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// The width in columns of the widest help.
    const WIDEST: usize = 100;

    /// Calls `with` for a command and all its subcommands, with their full names.
    fn all(
        command: &mut clap::Command,
        name: &str,
        with: &mut impl FnMut(&mut clap::Command, &str),
    ) {
        with(command, name);
        for sub in command.get_subcommands_mut() {
            let name = format!("{name} {}", sub.get_name());
            all(sub, &name, with);
        }
    }

    /// Whether a line is wrapped text: not a row of a table, an example or a drawing.
    fn is_prose(line: &str) -> bool {
        let text = line.trim_start();
        !text.is_empty()
            && line.len() - text.len() <= 4
            && !text.contains("  ")
            && !text.contains(" = ")
    }

    #[test]
    fn no_line_of_help_is_too_long_for_its_width() {
        for width in [WIDEST, 80] {
            let mut command = Args::command().term_width(width);
            command.build();
            all(&mut command, "syncline", &mut |command, name| {
                for text in [command.render_long_help(), command.render_help()] {
                    for line in text.to_string().lines() {
                        assert!(line.chars().count() <= width, "{name} at {width}: {line:?}");
                    }
                }
            });
        }
    }

    /// A paragraph is one line of the source text, as it is wrapped when it is printed. Rows of
    /// tables fit [`WIDEST`].
    #[test]
    fn no_line_of_help_is_wrapped_twice() {
        all(&mut Args::command(), "syncline", &mut |command, name| {
            let Some(text) = command.get_after_long_help().map(ToString::to_string) else { return };
            let (mut before, mut is_example) = ("", false);
            for line in text.lines() {
                // The text indented below the heading, possibly several paragraphs.
                is_example = line.starts_with("Example")
                    || is_example && !line.starts_with(|c: char| c != ' ');
                let indent = |line: &str| line.len() - line.trim_start().len();
                if is_example || !is_prose(line) {
                    assert!(line.chars().count() <= WIDEST, "{name}: {line:?}");
                } else if is_prose(before) && indent(before) == indent(line) {
                    assert!(
                        before.ends_with(['.', ':', ';']),
                        "{name}: {before:?} goes on with {line:?}"
                    );
                }
                before = if is_example { "" } else { line };
            }
        });
    }
}

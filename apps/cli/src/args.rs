//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;
use syncline_store::Block;
use syncline_wave::Order;

use crate::units::{parse_block, parse_size};

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

  The same with the field framed, which reads less from disk:
    syncline convert data framed --layout framed --block 128
    syncline run lk23 framed --iterations 20 --memory 24M --output result.npy

Exit codes: 0 success, 1 error (one line on standard error), 2 wrong command line,
130 or 143 interrupted (SIGINT, SIGTERM). Outputs appear whole or not at all, and inputs are only read.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Gen(GenArgs),
    Run(RunArgs),
    Convert(ConvertArgs),
}

/// Writes matrices to try things with, as .npy files.
///
/// `lk23` makes za (the field), zr, zb, zu, zv and zz: za uniform in [0, 1), the others in [0, 0.25).
/// `poisson` makes u (zero inside, uniform in [0, 1) at the edge) and f, a right-hand side of which
/// the solution is of size 1 whatever the shape.
///
/// What is in a file depends on nothing but the seed, the shape, its name and the type of its elements:
/// float32 gives the numbers of float64 rounded towards zero, which stay below the same bounds. Files that
/// are there already are never overwritten.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline gen <PROBLEM> <DIR> --rows <R> --cols <C> [OPTIONS]",
    after_long_help = "\
Example:
  syncline gen lk23 data --rows 16384 --cols 16384     (six matrices, 12 GiB)"
)]
pub(crate) struct GenArgs {
    /// What the data are for
    #[arg(value_enum)]
    pub(crate) problem: Problem,
    /// The directory to write to; made if it is not there
    pub(crate) dir: PathBuf,
    /// Rows of every matrix
    #[arg(long, value_name = "R")]
    pub(crate) rows: usize,
    /// Columns of every matrix
    #[arg(long, value_name = "C")]
    pub(crate) cols: usize,
    /// Other seeds give other numbers
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The type of the elements
    #[arg(long, value_enum, default_value_t = Dtype::Float64)]
    pub(crate) dtype: Dtype,
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
    /// The Poisson equation: u f
    Poisson,
}

/// Runs an iterative sweep over the matrices of a directory.
///
/// Every interior point is updated from its four neighbours, row by row: those above and to the left
/// are new already, those below and to the right still old. The work is cut into blocks that follow
/// one another along the diagonals, on all cores; the result has the bits of the plain double loop.
///
/// DIR holds .npy files (float64, C order, two dimensions), or raw files with a layout.json as
/// `syncline convert` writes them. lk23 uses za and zr, zb, zu, zv, zz; gauss-seidel and sor use u
/// and, if it is there, the right-hand side f. They are only read.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline run <KERNEL> <DIR> --iterations <K> [OPTIONS]",
    after_long_help = "\
Kernels, associated exactly as written:
  lk23          qa = (((south*zr + north*zb) + east*zu) + west*zv) + zz;  za += 0.175 * (qa - za)
  gauss-seidel  u += (((((north + south) + east) + west) + f) / 4 - u)
  sor           u += omega * (((((north + south) + east) + west) + f) / 4 - u)

Members of the --json object:
  kernel, order, runner, layout, rows, cols, iterations
  block, blocks           rows and columns of a block; how many blocks there are
  seconds                 the sweep, without verification
  sync_seconds            bringing the output to disk
  ns_per_element          wall time of the sweep per interior point and iteration, or null
  bytes_read, _written    bytes of files mapped by the sweep; the page cache may have had them
  disk_read, disk_written bytes moved by the disk during the sweep, or null
  peak_rss, memory        the most bytes resident up to the end of the sweep; the bound
  held, window, windows   whether all files stayed mapped; bytes of a block under way, how many at once
  threads                 threads that computed
  residual, converged_at  with --until: last greatest change; iterations until it was small enough
  verified                true with --verify, or null
  output                  the file

Examples:
  syncline run lk23 data --iterations 20 --memory 2G
  syncline run sor data --omega 1.9 --iterations 10000 --until 1e-9 --output u.npy --json"
)]
pub(crate) struct RunArgs {
    /// What to compute
    #[arg(value_enum)]
    pub(crate) kernel: Kernel,
    /// The directory of the matrices
    pub(crate) dir: PathBuf,
    /// How many iterations; with --until, at most. 0 copies the input
    #[arg(long, short = 'k', value_name = "K")]
    pub(crate) iterations: u64,
    /// Over-relaxation of sor, strictly between 0 and 2 [default: 1.5]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub(crate) omega: Option<f64>,
    /// Stop when no point changes by more than TOL in an iteration
    ///
    /// With the orders wave and max-parallel the first blocks are ahead when that becomes known. All
    /// blocks then stop at one common iteration, at most as many later as there are diagonals of
    /// blocks (twice as many with more than 1024 blocks). With the order barrier the stop is exact.
    #[arg(long, value_name = "TOL", allow_negative_numbers = true)]
    pub(crate) until: Option<f64>,
    /// The most memory that the program holds resident, as 512M or 2G [default: 80 % of what is available]
    ///
    /// Matrices that fit stay in memory. Of others only the blocks under way do; if not even one does,
    /// that is an error. K, M, G and T are powers of 1024.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// How many threads compute [default: one per core]
    ///
    /// Out of core, as many again wait for the disk, if the memory allows. With the runner `threads` there is one per block, whatever is given here.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// The size of a block: 512, or 256x1024 for rows x columns [default: one that suits the memory]
    ///
    /// Blocked and framed data have blocks already: leave it out, or give the same.
    #[arg(long, value_name = "B", value_parser = parse_block)]
    pub(crate) block: Option<Block>,
    /// The order in which blocks are updated
    #[arg(long, value_enum, default_value_t = BlockOrder::Wave)]
    pub(crate) order: BlockOrder,
    /// Who updates the blocks
    #[arg(long, value_enum, default_value_t = RunnerKind::Pool)]
    pub(crate) runner: RunnerKind,
    /// The result's file; NAME.npy is always a row-major .npy [default: za.out.npy, or za.out if DIR is raw]
    ///
    /// Without the option it goes into DIR. A name that does not end in .npy is for raw directories:
    /// then the result is raw data in the layout of za or u. A file of that name is replaced when the
    /// result is complete, and not before.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Compare the result with the plain double loop, bit for bit, before it is written
    ///
    /// The loop runs after the sweep, on one core, and needs disk space for one more matrix. Any NaN
    /// equals any NaN. With the order max-parallel it is the block red-black loop.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Print one JSON object, on one line, instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kernel {
    /// Livermore kernel 23, on za
    Lk23,
    /// The Gauss-Seidel method for the Poisson equation, on u
    GaussSeidel,
    /// Successive over-relaxation: Gauss-Seidel with --omega
    Sor,
}

/// The order in which blocks are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BlockOrder {
    /// Diagonal by diagonal, the next iteration following closely: the bits of the plain double loop
    Wave,
    /// Red-black by blocks, like a chessboard: more blocks at once, but OTHER NUMBERS than the plain loop's
    MaxParallel,
    /// As wave, but with a barrier after each iteration: the same bits, slower
    Barrier,
}

impl From<BlockOrder> for Order {
    fn from(order: BlockOrder) -> Self {
        match order {
            BlockOrder::Wave => Self::Wave,
            BlockOrder::MaxParallel => Self::MaxParallel,
            BlockOrder::Barrier => Self::Barrier,
        }
    }
}

/// Who updates the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunnerKind {
    /// As many threads as --threads says
    Pool,
    /// One thread per block, as in the papers; for some hundred blocks at most
    Threads,
}

/// Copies all matrices of a directory into another layout.
///
/// Every matrix keeps the type of its elements, float64 or float32.
///
/// row-major gives .npy files. blocked and framed give raw files and a layout.json that says what is
/// in them; `syncline run` reads either. In a blocked file every block is one piece; in a framed one
/// every side of a block is one piece too, so that neighbours read a thin line instead of a block.
/// Only the fields are framed (za, u, and results of them); coefficients become blocked.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline convert <DIR> <OUTDIR> --layout <LAYOUT> [OPTIONS]",
    after_long_help = "\
Examples:
  syncline convert data framed --layout framed --block 2048
  syncline convert framed back --layout row-major"
)]
pub(crate) struct ConvertArgs {
    /// The directory to read
    pub(crate) dir: PathBuf,
    /// The directory to write to; made if it is not there. Files in it are never overwritten
    pub(crate) outdir: PathBuf,
    /// The new layout
    #[arg(long, value_enum)]
    pub(crate) layout: LayoutKind,
    /// The size of a block: 512, or 256x1024 for rows x columns [default: an eighth of the longer side]
    #[arg(long, value_name = "B", value_parser = parse_block)]
    pub(crate) block: Option<Block>,
    /// Lines of a frame [default: 1]
    #[arg(long, value_name = "T")]
    pub(crate) thickness: Option<usize>,
    /// The most memory that the program holds resident [default: 80 % of what is available]
    ///
    /// More than a row of blocks, or than 512M, makes nothing faster and is not used.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// Row after row, as .npy files
    RowMajor,
    /// Block after block
    Blocked,
    /// Block after block, each with its sides first and last
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
}

//! The options of `syncline run`.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;
use syncline_common::trace::TraceOption;
use syncline_common::units::parse_size;
use syncline_wave::{Order, lanes::Lanes};

use super::block::{BlockSize, parse_block_size};
use super::kernel::{KernelName, KernelParser};

/// Runs an iterative sweep over the matrices of a directory.
///
/// Each point is updated from its neighbours, row by row: the neighbours above and to the left are
/// already new, those below and to the right still old. A point at the edge keeps its value if a
/// neighbour that the kernel uses does not exist. The result has the same bits as the plain double
/// loop.
///
/// Row-major data are streamed: one pass over the rows does many iterations, with a window of rows
/// in memory. Data in blocks, and orders other than wave, are swept block by block, one iteration
/// at a time.
///
/// DIR holds .npy files (float64 or float32, C order, two dimensions), or raw files with a
/// layout.json as `syncline convert` writes them. All arrays of a run have the same type. The
/// inputs are never modified.
///
/// A description may have several fields, other types, edges, directions, old values or three
/// dimensions: see the examples and the tutorial. Its arrays are .npy files of any order. The
/// results of several fields are FIELD.npy in the folder --output, which must exist; without it
/// FIELD.KERNEL.out.npy beside the first field.
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline run <KERNEL> <DIR> --iterations <K> [OPTIONS]", after_long_help = AFTER)]
pub(crate) struct RunArgs {
    /// The kernel: a built-in one (--help lists them), or a FILE.toml that describes one
    #[arg(value_parser = KernelParser, hide_possible_values = true)]
    pub(crate) kernel: KernelName,
    /// The directory of the matrices
    pub(crate) dir: PathBuf,
    /// A further directory, for example on another disk; may be given several times
    ///
    /// Each array is taken from the directory that contains it. An array that two directories
    /// contain is an error.
    #[arg(long, value_name = "DIR")]
    pub(crate) also: Vec<PathBuf>,
    /// Start from this field instead of the one in DIR: any result, or any array of that shape and
    /// type
    ///
    /// FILE is a .npy file or a raw file. A raw file must be listed in the layout.json beside it,
    /// be a result (described by its mark, or by the name of the field beside it), or have the
    /// layout of the field in DIR. The sweep is a new one: a kernel with several directions begins
    /// with the first of them, where --resume goes on with the next.
    #[arg(long, value_name = "FILE")]
    pub(crate) field: Option<PathBuf>,
    /// The number of iterations; with --until, the maximum. 0 copies the input
    #[arg(long, short = 'k', value_name = "K")]
    pub(crate) iterations: u64,
    /// The relaxation factor of sor and nine-point, strictly between 0 and 2 [default: 1.5]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub(crate) omega: Option<f64>,
    /// The cost of a gap in an alignment [default: 1]
    #[arg(long, value_name = "G", allow_negative_numbers = true)]
    pub(crate) gap: Option<f64>,
    /// Compute a local alignment: no score is below 0
    #[arg(long)]
    pub(crate) local: bool,
    /// Stop when no point changes by more than TOL in an iteration
    ///
    /// A point that is infinite, or NaN, before and after has not changed. One that becomes NaN, or
    /// ceases to be NaN, has changed by more than any TOL.
    ///
    /// Streamed: the change is known at the end of a pass, and the sweep runs to that end; see
    /// --exact-stop. In blocks, with the orders wave and max-parallel, the first blocks are ahead
    /// when the change becomes known. All blocks then stop at one common iteration, which is later
    /// by at most the number of diagonals of blocks (twice that with more than 1024 blocks). With
    /// the order barrier the stop is exact.
    ///
    /// A run that has done its iterations without reaching TOL reports so and exits with code 3;
    /// its result is written nevertheless. --resume continues from a result whatever its tolerance
    /// was.
    #[arg(long, value_name = "TOL", allow_negative_numbers = true)]
    pub(crate) until: Option<f64>,
    /// With --until: stop at exactly the first iteration that reaches TOL
    ///
    /// Streamed: the last pass is run again for that. In blocks: the order is barrier instead of
    /// wave, with the same bits. The order max-parallel has no exact stop.
    #[arg(long)]
    pub(crate) exact_stop: bool,
    /// The maximum memory of the program, as 512M or 2G [default: 80 % of the available memory]
    ///
    /// On a team: of each member, by default an equal part for the members of a host.
    ///
    /// The bound covers the program's own memory and the data files that it maps. It does not cover
    /// the executable and its libraries: the kernel decides how much of those is resident, and the
    /// summary reports it separately. Nor does it cover the page cache and the kernel's own memory
    /// for a process: 1/512 of what is mapped, 16K per thread, and about 1M. A control group whose
    /// limit includes all of these holds the run. Available memory is that of the machine, or of
    /// the control group if that is less.
    ///
    /// Streamed: more memory allows more iterations per pass, so less is read. In blocks: matrices
    /// that fit stay in memory; of larger ones only the blocks in progress do. If not even the
    /// smallest piece of work fits, the run is refused, and the error names the memory that
    /// suffices. K, M, G and T are powers of 1024.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// The number of threads that compute, at most 1024 [default: one per core]
    ///
    /// Out of core, additional threads wait for the disk. The runner `threads` has one thread per
    /// block, regardless of this option.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// How to traverse the data
    #[arg(long, value_enum, default_value_t = ExecutorKind::Auto)]
    pub(crate) executor: ExecutorKind,
    /// Streamed: iterations per pass; the last pass may have fewer [default: chosen for memory,
    /// cache and disk]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) depth: Option<u64>,
    /// The vector instructions to compute with [default: the fastest of this machine]
    ///
    /// The result is the same with all of them.
    #[arg(long, value_enum)]
    pub(crate) lanes: Option<LanesKind>,
    /// In blocks: the size of a block, as 512, as 256x1024 (rows x columns), or auto [default:
    /// chosen for the memory]
    ///
    /// auto reads a little of the field to measure its disk, and takes the size that is expected to
    /// be fastest. Blocked and framed data already have a block size: omit this option, or give
    /// auto or that size.
    #[arg(long, value_name = "B", value_parser = parse_block_size)]
    pub(crate) block: Option<BlockSize>,
    /// The order in which points are updated; every order but wave implies blocks
    #[arg(long, value_enum, default_value_t = BlockOrder::Wave)]
    pub(crate) order: BlockOrder,
    /// In blocks: the threads that update them [default: pool]
    #[arg(long, value_enum)]
    pub(crate) runner: Option<RunnerKind>,
    /// The file of the result; NAME.npy is always a row-major .npy file [default:
    /// FIELD.KERNEL.out.npy in DIR, as za.lk23.out.npy, or FIELD.KERNEL.out if DIR is raw]
    ///
    /// A name that does not end in .npy is for raw directories: the result is then raw data in the
    /// layout of the field. An existing file of that name is an error, unless --resume or --force
    /// is given. It is replaced only when the result is complete. It keeps its permissions, but its
    /// owner may write it from then on.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Continue an interrupted run of several passes, or a result of fewer iterations
    ///
    /// The run continues after the last complete pass in OUTPUT.syncline, or from the output itself
    /// if that is the same computation with fewer iterations: after 40, `--iterations 100 --resume`
    /// does 60 more, with the bits of one run of 100. If the output already has that number of
    /// iterations, nothing is done. If there is nothing to continue from, the run starts from the
    /// beginning. Any other file or folder under the output's name (of another kernel, of other
    /// parameters or inputs, of more iterations, or not recognised as a result) is an error and
    /// stays unchanged; --field starts from any result.
    ///
    /// --until decides where a run ends, not what it computes, so it may differ from before or be
    /// omitted. If a known change is small enough for it, nothing is done; otherwise the run
    /// continues. The changes of iterations that ran without --until are unknown and count as not
    /// small enough. With --exact-stop, a result that has gone past the exact iteration counts as a
    /// result of more iterations.
    ///
    /// In blocks, a run continues from a result as well, but not after the last pass of an
    /// interrupted streamed run. The numbers of the order max-parallel depend on the blocks:
    /// without --block, the block size of the result is used.
    ///
    /// Inputs are the same if their files have the same paths, lengths and times, or else the same
    /// checksums: files that were moved or touched are read once for that. Memory, threads and
    /// depth may differ from before.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Replace an existing file of the output's name; discard the state of an interrupted run in
    /// OUTPUT.syncline
    #[arg(long)]
    pub(crate) force: bool,
    /// Compare the result bit for bit with the plain double loop before it gets its name [default
    /// without a value: full]
    ///
    /// The loop runs after the sweep, on one core, and needs disk space for one more matrix. Any
    /// NaN equals any NaN. With the order max-parallel the comparison is with the block red-black
    /// loop.
    ///
    /// `full` compares every value, which takes many times as long as the sweep. `sample` compares
    /// the first rows: as many as the loop computes in about the time of the sweep, or in a second.
    /// After K iterations a row depends on all rows above it and on K rows below, so no other part
    /// of the result can be computed by itself. An error of the kernel, of the vector code, of the
    /// chaining of iterations, or of the files of the first rows shows there; an error that is only
    /// further down does not. The summary names the rows that were compared, and does not call the
    /// result verified. `sample` is refused where the smallest sample would take a quarter of the
    /// whole loop, that is, with more iterations than half of the rows. With --until, where the
    /// number of iterations is not known before, nothing is compared in that case, and the summary
    /// says so.
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "full")]
    pub(crate) verify: Option<Extent>,
    /// Print one JSON object, on one line, instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Report no progress: no bar, and without a terminal no line every ten seconds
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) trace: TraceOption,
}

const AFTER: &str = "\
Kernels, with the arrays that they use; operations are associated exactly as written:
  lk23          za; zr zb zu zv zz
                qa = (((south*zr + north*zb) + east*zu) + west*zv) + zz;  za += 0.175 * (qa - za)
  gauss-seidel  u; f if it exists
                u += (((((north + south) + east) + west) + f) / 4 - u)
  sor           u; f if it exists
                u += omega * (((((north + south) + east) + west) + f) / 4 - u)
  nine-point    u; f if it exists
                u += omega * (((4 * (((north + south) + east) + west)
                     + (((north-east + north-west) + south-east) + south-west)) + f) / 20 - u)
  gauss-seidel-variable
                u; an aw ae as f mask
                u = (((an*north + aw*west) + ae*east) + as*south) + f where mask is 0;
                elsewhere u is unchanged
  alignment     score; match, each with one row and column more than the sequence lengths
                score = max(north-west + match, max(north, west) - gap), and no less than 0
                with --local

A description is a TOML file; all operations are done as written, in the type of the matrices:
  name = \"heat\"
  field = \"t\"
  coefficients = [\"source\", \"given\"]
  update = \"t = if(given == 0, t + omega*((n + s + e + w + source) / 4 - t), t)\"
  [constants]
  omega = 1.8
Neighbours are n, w, nw, ne (already new) and e, s, se, sw (still old), or those of a table:
  [neighbours]
  up = [-1, 0]
A point is updated if all neighbours that the update uses exist, and is unchanged otherwise.
Besides + - * / there are % (the remainder, with the sign of the divisor), powers such as x ** 3, \
min and max (of two or more), abs, sqrt, floor, exp, log, sin, cos, and if(c, a, b), whose condition c \
is made of comparisons and isnan(a), joined by and, or, not. min and max give their second \
argument if either is not a number. Intermediate steps are separate lines, between three quotes, with \
the line of the field last.

Interrupted runs:
  A run of several passes keeps its last complete pass in the folder OUTPUT.syncline until the \
  output has its name, so it needs disk space for two outputs. After Ctrl-C, kill -9 or a \
  power failure, the same command with --resume continues from there (also with other --iterations, \
  if they are not fewer than those already done); with --force it starts from the beginning. Every \
  pass verifies the data of the pass before by checksums, and that the inputs were not modified \
  meanwhile. The files there are written in place, so a copy of the folder must not share them (hard links).
  Of several fields, the folder beside the first one keeps all. They get their names together: if that \
  is interrupted, some may be missing, old ones included, until --resume is given. A run over arrays that \
  fit the memory with two copies of the fields is done there, unless it resumes, and keeps no passes.

Results:
  A result is recognised by a mark, an extended attribute of its file (user.syncline) that identifies \
  its computation: the kernel, its parameters, checksums of the inputs, the iterations. The mark is \
  valid while the file keeps its length and time. A copy has it if the program that copies preserves \
  extended attributes and times (cp -a, rsync -aX). If the file system has no extended attributes, \
  the summary says so, and --resume cannot continue from the result. A result in blocks is marked \
  too, but without checksums of its inputs: these must keep their paths and stay unmodified.

Members of the --json object; null where it does not apply:
  kernel, dtype, order, executor, layout (of the result), rows, cols, iterations, output
  complete_already        with --resume: the output was already complete, nothing was done,
                          and most members are null
  resumed                 with --resume: iterations that the earlier run had done
  passes, depth           streamed: passes of this run (in blocks, iterations); iterations of a
                          pass, at most
  lanes                   vectors computed with
  members, threads        of the team, 1 without a team; threads of all that computed
  runner, block, blocks   in blocks: rows and columns of a block; how many blocks there are
  chosen                  with --block auto: why this block size was chosen
  instead                 why the sweep is in blocks, if the memory is too small to stream it
  seconds                 the sweep, without verification
  sync_seconds            the time to write the output to disk
  ns_per_element          wall time of the sweep per updated point and iteration
  bytes_read, _written    streamed: of files; in blocks: of mapped files, possibly from the page
                          cache
  disk_read, disk_written bytes moved by the disk during the sweep
  times                   streamed: seconds of all threads together. update, pack, wait: of the
                          computing threads; read, write, checksums: of the others
  peak, memory            the peak of the memory that the bound governs, up to the end of the
                          sweep; the bound. On a team: the peak of the host with the most, where
                          memory that processes share counts once; the bound of all its members
  program, peak_rss       resident bytes of the executable and its libraries, which the bound
                          does not cover; the peak of all resident memory
  window, windows         streamed: bytes planned for all buffers (of each member of a team), and
                          1; in blocks: bytes of one block in progress, and their maximum number
  panels, panel_rows      streamed: panels of rows in the window
  read_twice              with a periodic first axis: the rows (planes) at each end that a pass
                          reads twice
  held                    in blocks: whether all files stayed mapped
  residual, converged_at  with --until: the greatest change of the last iteration, null if it
                          is not finite or not known; the iterations until it reached TOL
  residuals               with --until: the greatest change of each iteration, with earlier
                          runs; null if some are not known, as a mark holds only few
  verified                true with --verify, or if a sample was all rows
  sampled_rows            with --verify=sample: the number of first rows that were compared
                          and are right
  marked                  whether the output has the mark that --resume needs

Examples:
  syncline run lk23 data --iterations 20 --memory 2G
  syncline run heat.toml plate --iterations 500 --verify
  syncline run heat.toml plate --iterations 50 --verify=sample
  syncline run lk23 data --also /mnt/b/data --iterations 20 --output /mnt/c/za.npy

  On 2 processes, and on the ranks of MPI, which share the columns of one input and one output:
    syncline launch -n 2 -- syncline run lk23 data --iterations 20
    mpirun -n 8 syncline run lk23 data --iterations 20

  The Poisson equation, until no point changes by more than 1e-6; then, from that result, 1e-9:
    syncline gen poisson plane --rows 200 --cols 200
    syncline run sor plane --omega 1.9 --iterations 10000 --until 1e-6
    syncline run sor plane --omega 1.9 --iterations 10000 --until 1e-9 --resume --json";

/// How much of a result is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extent {
    /// Every value
    Full,
    /// The first rows, in about the time of the sweep
    Sample,
}

/// How to traverse the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExecutorKind {
    /// Streamed where order, layout and memory allow it, unless an option that requires blocks is
    /// given
    Auto,
    /// Many iterations in one pass over the rows; requires row-major data and the order wave
    Streamed,
    /// Block by block; any layout and order
    Blocked,
}

/// The vector instructions to compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanesKind {
    /// One value at a time
    Scalar,
    /// 256 bits, x86-64
    Avx2,
    /// 512 bits, x86-64
    Avx512,
    /// 128 bits, aarch64
    Neon,
}

impl From<LanesKind> for Lanes {
    fn from(lanes: LanesKind) -> Self {
        match lanes {
            LanesKind::Scalar => Self::Scalar,
            LanesKind::Avx2 => Self::Avx2,
            LanesKind::Avx512 => Self::Avx512,
            LanesKind::Neon => Self::Neon,
        }
    }
}

/// The order in which blocks are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BlockOrder {
    /// A wave: diagonal by diagonal, the next iteration close behind; the bits of the plain double
    /// loop
    Wave,
    /// Red-black by blocks, like a chessboard: more blocks at once, but OTHER NUMBERS than the
    /// plain loop's
    MaxParallel,
    /// Like wave, but with a barrier after each iteration; the same bits, slower
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

/// The threads that update the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunnerKind {
    /// The number of threads that --threads gives
    Pool,
    /// One thread per block (Clauss, Gustedt and Suter, PDP 2008); meant for some hundred blocks,
    /// at most 4096
    Threads,
}

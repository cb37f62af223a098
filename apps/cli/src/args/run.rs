//! The options of `syncline run`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Serialize;
use syncline_wave::{Order, lanes::Lanes};

use crate::kernels::Known;
use crate::units::{BlockSize, parse_block_size, parse_size};

/// Runs an iterative sweep over the matrices of a directory.
///
/// Points are updated from their neighbours, row by row: those above and to the left are new
/// already, those below and to the right still old. A point at the edge stays if a neighbour that
/// the kernel uses does not exist there. The result has the bits of the plain double loop.
///
/// Row-major data are streamed: many iterations are done in one pass over the rows, with a window
/// of rows in memory. Data in blocks, and other orders, are swept block by block, one iteration at
/// a time.
///
/// DIR holds .npy files (float64 or float32, C order, two dimensions), or raw files with a
/// layout.json as `syncline convert` writes them. All arrays of a run have one type. They are only
/// read.
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline run <KERNEL> <DIR> --iterations <K> [OPTIONS]", after_long_help = AFTER)]
pub(crate) struct RunArgs {
    /// What to compute: a kernel of those below, or a FILE.toml that describes one
    pub(crate) kernel: KernelName,
    /// The directory of the matrices
    pub(crate) dir: PathBuf,
    /// A further directory, on another disk for example; may be given several times
    ///
    /// Each array is taken from the directory that has it. One that two directories have is an
    /// error.
    #[arg(long, value_name = "DIR")]
    pub(crate) also: Vec<PathBuf>,
    /// The field to start from, in place of the one in DIR: any result, or any array of that shape
    /// and type
    ///
    /// A .npy file, or a raw file: one that the layout.json beside it tells of, a result (its mark
    /// says what it is, or its name the field beside it that it is like), or one like the field in
    /// DIR.
    #[arg(long, value_name = "FILE")]
    pub(crate) field: Option<PathBuf>,
    /// How many iterations; with --until, at most. 0 copies the input
    #[arg(long, short = 'k', value_name = "K")]
    pub(crate) iterations: u64,
    /// Over-relaxation of sor and nine-point, strictly between 0 and 2 [default: 1.5]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub(crate) omega: Option<f64>,
    /// What a gap costs in an alignment [default: 1]
    #[arg(long, value_name = "G", allow_negative_numbers = true)]
    pub(crate) gap: Option<f64>,
    /// The alignment is local: no score is below 0
    #[arg(long)]
    pub(crate) local: bool,
    /// Stop when no point changes by more than TOL in an iteration
    ///
    /// Streamed, that is known at the end of a pass, and the sweep goes on to there; see
    /// --exact-stop. In blocks, with the orders wave and max-parallel, the first blocks are ahead
    /// when it becomes known. All blocks then stop at one common iteration, at most as many later
    /// as there are diagonals of blocks (twice as many with more than 1024 blocks). With the order
    /// barrier the stop is exact.
    ///
    /// A run that has done its iterations and not come to that says so, and ends with the exit code
    /// 3; its result is written all the same. With --resume, a result is gone on from whatever the
    /// tolerance was: see there.
    #[arg(long, value_name = "TOL", allow_negative_numbers = true)]
    pub(crate) until: Option<f64>,
    /// With --until: stop at the very iteration
    ///
    /// Streamed, the last pass is run again for that. In blocks, the order is barrier in place of
    /// wave, with the same bits. The order max-parallel has no exact stop.
    #[arg(long)]
    pub(crate) exact_stop: bool,
    /// The most memory that the program holds, as 512M or 2G [default: 80 % of what is available]
    ///
    /// That is memory of its own and files of data that it has mapped. Its own file and libraries
    /// are not in it: how much of those is resident depends on the kernel, which drops them as it
    /// likes; the summary tells it by itself. Nor are the page cache, and what the kernel needs for
    /// a process: a 512th of what is mapped, 16K a thread, some 1M besides. A control group with a
    /// limit of all these holds the run. What is available is what the machine has left, or the
    /// control group, if that is less.
    ///
    /// Streamed, more memory means more iterations per pass, and so less to read. In blocks,
    /// matrices that fit stay in memory; of others only the blocks under way do. If not even the
    /// least piece of work fits, that is an error, which tells what would. K, M, G and T are powers
    /// of 1024.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// How many threads compute [default: one per core]
    ///
    /// Out of core, further ones wait for the disk. With the runner `threads` there is one per
    /// block, whatever is given here.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// How to go over the data
    #[arg(long, value_enum, default_value_t = ExecutorKind::Auto)]
    pub(crate) executor: ExecutorKind,
    /// Streamed: iterations per pass, fewer in the last [default: what suits memory, cache and
    /// disk]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) depth: Option<u64>,
    /// The vectors to compute with [default: the fastest of this machine]
    ///
    /// The result is the same with all.
    #[arg(long, value_enum)]
    pub(crate) lanes: Option<LanesKind>,
    /// In blocks: the size of a block, 512, or 256x1024 for rows x columns, or auto [default: one
    /// that suits the memory]
    ///
    /// auto reads a little of the field to see what its disk does, and takes what is then expected
    /// to be fastest. Blocked and framed data have blocks already: leave it out, or give auto or
    /// the same.
    #[arg(long, value_name = "B", value_parser = parse_block_size)]
    pub(crate) block: Option<BlockSize>,
    /// The order in which points are updated; all but wave imply blocks
    #[arg(long, value_enum, default_value_t = BlockOrder::Wave)]
    pub(crate) order: BlockOrder,
    /// In blocks: who updates them [default: pool]
    #[arg(long, value_enum)]
    pub(crate) runner: Option<RunnerKind>,
    /// The result's file; NAME.npy is always a row-major .npy [default: FIELD.KERNEL.out.npy in
    /// DIR, as za.lk23.out.npy, or FIELD.KERNEL.out if DIR is raw]
    ///
    /// A name that does not end in .npy is for raw directories: then the result is raw data in the
    /// layout of the field. A file that has the name already is an error, but with --resume and
    /// --force. It is replaced when the result is complete, and not before; its permissions stay,
    /// but its owner may write it from then on.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Go on with an interrupted run of several passes, or from a result of fewer iterations
    ///
    /// It goes on after the last pass that is complete in OUTPUT.syncline, or from the output
    /// itself, if that is of the same computation with fewer iterations: after 40, `--iterations
    /// 100 --resume` does 60 more, with the bits of one run of 100. Of as many iterations nothing
    /// is left to do. It begins if there is nothing to go on from. All else under the output's name
    /// (of another kernel, of other parameters or inputs, of more iterations, or not known as a
    /// result) is an error, and stays as it is; --field starts from any result.
    ///
    /// --until says where to end, not what is computed, so it may be another one than before, or
    /// none. If a change that is known is small enough for it, nothing is left to do. Else the run
    /// goes on. Iterations that ran without --until have changes that are not known, and count as
    /// not small enough. With --exact-stop a result that has gone past the iteration is one of more
    /// iterations.
    ///
    /// In blocks a run goes on from a result, too; not after the last pass of a streamed one that
    /// was interrupted. The numbers of the order max-parallel depend on the blocks: without
    /// --block, those of the result are taken.
    ///
    /// Inputs are the same if their files are of the same places, lengths and times, or else of the
    /// same checksums: those that were moved or touched are read once for that. Memory, threads and
    /// depth may be others than before.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Replace a file that has the output's name; discard what an interrupted run has left in
    /// OUTPUT.syncline
    #[arg(long)]
    pub(crate) force: bool,
    /// Compare the result with the plain double loop, bit for bit, before it gets its name [default
    /// if given: full]
    ///
    /// The loop runs after the sweep, on one core, and needs disk space for one more matrix. Any
    /// NaN equals any NaN. With the order max-parallel it is the block red-black loop.
    ///
    /// `full` compares every value, which takes many times as long as the sweep. `sample` compares
    /// the first rows, as many as the loop computes in about the time of the sweep, or a second:
    /// after K iterations a row depends on all above it and on K rows below, so no other part of
    /// the result can be computed by itself. A fault of the kernel, of vectors, of how iterations
    /// are chained or of the first rows' files shows there; one that is only further down does not.
    /// The summary says which rows were compared, and calls nothing verified. It is refused where
    /// the least sample would take a quarter of the whole loop: with more iterations than half of
    /// the rows. With --until, which may need as many, nothing is compared then, and the summary
    /// says so.
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "full")]
    pub(crate) verify: Option<Extent>,
    /// Print one JSON object, on one line, instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing of how far it is: no bar, and where there is no terminal no line every ten
    /// seconds
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

const AFTER: &str = "\
Kernels, associated exactly as written, with the arrays that they take:
  lk23          za; zr zb zu zv zz
                qa = (((south*zr + north*zb) + east*zu) + west*zv) + zz;  za += 0.175 * (qa - za)
  gauss-seidel  u; f if it is there
                u += (((((north + south) + east) + west) + f) / 4 - u)
  sor           u; f if it is there
                u += omega * (((((north + south) + east) + west) + f) / 4 - u)
  nine-point    u; f if it is there
                u += omega * (((4 * (((north + south) + east) + west)
                     + (((north-east + north-west) + south-east) + south-west)) + f) / 20 - u)
  gauss-seidel-variable
                u; an aw ae as f mask
                u = (((an*north + aw*west) + ae*east) + as*south) + f where mask is 0;
                elsewhere u stays
  alignment     score; match, each with one row and column more than the sequences have letters
                score = max(north-west + match, max(north, west) - gap), and no less than 0
                with --local

A description is a TOML text; all operations are done as written, in the type of the matrices:
  name = \"heat\"
  field = \"t\"
  coefficients = [\"source\", \"given\"]
  update = \"t = if(given == 0, t + omega*((n + s + e + w + source) / 4 - t), t)\"
  [constants]
  omega = 1.8
Neighbours are n, w, nw, ne (new already) and e, s, se, sw (still old), or those of a table:
  [neighbours]
  up = [-1, 0]
A point is updated if all neighbours that the update uses exist, and stays otherwise.
Beside + - * / there are min and max (of two or more), abs, sqrt and if. min and max give their second \
argument if either is not a number. Steps on the way are lines of their own, between three quotes, \
the field's last.

Interrupted runs:
  A run of several passes keeps its last complete pass in the folder OUTPUT.syncline until the \
  output has its name; so it takes the room of two outputs on the disk. After Ctrl-C, kill -9 or a \
  power failure, the same command with --resume goes on from there (also with other --iterations, if \
  they are not fewer than are done already); with --force it begins anew. Every pass checks what it \
  reads of the one before against checksums, and that the inputs were not \
  written to meanwhile. The files there are written in place: a copy of the folder must be a real one.

Results:
  A result is known by a mark, an extended attribute of its file (user.syncline), which says of what \
  computation it is: the kernel, its parameters, checksums of the inputs, the iterations. It counts as \
  long as the file has its length and time. A copy keeps it if the program that copies keeps extended \
  attributes and times (cp -a, rsync -aX). Where a file system has none, the summary says so; then \
  --resume cannot go on from the result. A result in blocks is marked, too, but the checksums of its \
  inputs are not known: they must be where they were, and untouched.

Members of the --json object; null where it does not apply:
  kernel, dtype, order, executor, layout (of the result), rows, cols, iterations, output
  complete_already        with --resume: the output of this run was there, nothing was done, and
                          most members are null
  resumed                 with --resume: iterations that the earlier run had done
  passes, depth           streamed: passes of this run (in blocks, iterations); iterations of a
                          pass, at most
  lanes, threads          vectors computed with; threads that computed
  runner, block, blocks   in blocks: rows and columns of a block; how many blocks there are
  chosen                  with --block auto: why it is this block
  instead                 why it is swept in blocks, if it was to be streamed and the memory is too
                          small for that
  seconds                 the sweep, without verification
  sync_seconds            bringing the output to disk
  ns_per_element          wall time of the sweep per updated point and iteration
  bytes_read, _written    streamed: of files; in blocks: of files mapped, which the page cache may
                          have had
  disk_read, disk_written bytes moved by the disk during the sweep
  times                   streamed: seconds of all threads together. update, pack, wait: of those
                          that compute; read, write, checksums: beside them
  peak, memory            the most bytes that the bound governs, up to the end of the sweep; the
                          bound
  program, peak_rss       bytes of the program's own file and libraries, resident then, which the
                          bound leaves out; the most bytes resident, both together
  window, windows         streamed: bytes of all buffers, 1; in blocks: bytes of one under way, how
                          many at once
  panels, panel_rows      streamed: panels of rows in the window
  held                    in blocks: whether all files stayed mapped
  residual, converged_at  with --until: last greatest change, null if it is not finite or not
                          known; iterations until it was small enough
  residuals               with --until: the greatest change of each iteration, earlier runs too;
                          null if only those of some are known, as the mark of a result has no room
                          for many
  verified                true with --verify, or if a sample was all rows
  sampled_rows            with --verify=sample: how many rows, from the first, were compared and are
                          right
  marked                  whether the output carries the mark by which --resume knows it

Examples:
  syncline run lk23 data --iterations 20 --memory 2G
  syncline run heat.toml plate --iterations 500 --verify
  syncline run heat.toml plate --iterations 50 --verify=sample
  syncline run lk23 data --also /mnt/b/data --iterations 20 --output /mnt/c/za.npy

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

/// What to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelName {
    /// One that is built in.
    Known(Known),
    /// One that a file describes.
    Described(PathBuf),
}

impl FromStr for KernelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || {
            let names: Vec<_> = Known::value_variants().iter().map(Known::name).collect();
            format!("the kernels are {}, and descriptions FILE.toml", names.join(", "))
        };
        if text.ends_with(".toml") {
            return Ok(Self::Described(text.into()));
        }
        Known::from_str(text, false).map(Self::Known).map_err(|_| names())
    }
}

/// How to go over the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExecutorKind {
    /// Streamed where order, layout and memory allow it, and nothing was asked for that only blocks
    /// have
    Auto,
    /// Many iterations in one pass over the rows; row-major data, order wave
    Streamed,
    /// Block by block, any layout and order
    Blocked,
}

/// The vectors to compute with.
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
    /// As a wave: diagonal by diagonal, the next iteration following closely: the bits of the plain
    /// double loop
    Wave,
    /// Red-black by blocks, like a chessboard: more blocks at once, but OTHER NUMBERS than the
    /// plain loop's
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

/// The threads that update the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunnerKind {
    /// As many threads as --threads says
    Pool,
    /// One thread per block (Clauss, Gustedt and Suter, PDP 2008); for some hundred blocks, and at
    /// most 4096
    Threads,
}

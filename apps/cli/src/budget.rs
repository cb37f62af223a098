//! The share of the memory bound that the sweep gets.
//!
//! # What the bound governs
//!
//! | memory                                    | counts | limited by                    |
//! |-------------------------------------------|--------|-------------------------------|
//! | anonymous (1)                             | yes    | this division                 |
//! | mapped data files (blocks; shared memory) | yes    | this division                 |
//! | the executable and its libraries          | no     | the kernel; reported apart (2) |
//! | the page cache beside the program         | no     | the kernel                    |
//! | kernel memory for the process (3)         | no     | the kernel                    |
//!
//! 1. Heap, stacks, buffers, and written pages of libraries.
//! 2. The summary reports it as `program`. The kernel drops and rereads these pages at will.
//! 3. Page tables and the kernel stacks of its threads: 1/512 of what is mapped, 16 KiB per thread,
//!    and about 1 MiB besides.
//!
//! The resident part of the executable depends on the machine: on the contents of the page cache,
//! on the number of pages that the kernel maps at a fault, and on the file system. A bound that
//! holds everywhere can therefore not include it. All governed memory is made resident by the
//! process itself. Mapped data count although the kernel could drop them, as in the papers: a sweep
//! that depends on dropping them reads its data again and again.
//!
//! The tests run the command in a control group whose limit is the bound plus the exceptions named
//! above, without swap.
//!
//! # How it is divided
//! ```text
//! bound = governed memory in use + a reserve + tasks of the blocks + the sweep's window(s)
//!         \_ measured: smaps __/   measured    per block or thread    the remainder
//! ```
//!
//! Smaller blocks need smaller windows, but more tasks. A streamed sweep has one window and few
//! tasks.

use std::iter::successors;

use syncline_blocks::kernel::Real;
use syncline_blocks::{Error as BlocksError, plan::BlockPlan};
use syncline_common::units::{AtLeast, Bytes};
use syncline_memory::room;
use syncline_store::{Block, Grid, Layout, Matrix};
use syncline_wave::{Error as WaveError, Runner, kernels::AnyKernel};

use crate::error::{Error, Result};
use crate::sweeps::{Arrays, BlockOptions, SweepOptions};
use crate::system;

/// Memory that the program has not touched yet when the bound is divided: data of the libraries,
/// stacks, and memory that the allocator keeps. Measured: half a MiB.
const RESERVE: u64 = 3 << 19;

/// The memory of a block's task, location, requests and tiles. Measured: 2.3 KiB.
const PER_BLOCK: u64 = 2560;

/// The memory that a thread touches of its stack and its allocator arena. Measured: 11 KiB.
const PER_THREAD: u64 = 24 << 10;

/// The maximum memory of the program, as the head of this file defines it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    bytes: u64,
}

impl Bound {
    /// Returns the requested bound, or 80 % of the available memory.
    pub(crate) fn new(asked: Option<u64>) -> Self {
        let available = || room::left_unswapped().map_or(u64::MAX, |bytes| bytes / 5 * 4);
        Self { bytes: asked.unwrap_or_else(available) }
    }

    /// Returns the bound of one of the members of a host: the requested one, or an equal part of
    /// 80 % of the available memory.
    pub(crate) fn of_member(asked: Option<u64>, members: usize) -> Self {
        let bytes = Self::new(asked).bytes;
        Self { bytes: if asked.is_some() { bytes } else { bytes / members.max(1) as u64 } }
    }

    /// Returns the bound of this number of bytes.
    pub(crate) const fn of(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Returns the bound in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns a smaller bound, which leaves room for memory that the program may take later.
    pub(crate) fn with_a_little_less(self) -> Self {
        Self { bytes: self.bytes.saturating_sub(AtLeast::A_LITTLE_MORE) }
    }

    /// Returns the memory that remains for buffers; at least `least` bytes are needed.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn for_buffers(self, what: &str, least: u64) -> Result<u64> {
        let own = own();
        match self.bytes.checked_sub(own) {
            Some(left) if left >= least => Ok(left),
            _ => Err(self.too_small(own, "", format!("{what} takes"), least)),
        }
    }

    /// Plans a sweep in blocks with the memory that remains for it.
    ///
    /// The sweep chooses the block size for the memory that the tasks of such blocks leave. If not
    /// even one block fits, it chooses for twice that memory, and so on, since larger blocks have
    /// fewer tasks. What it chooses depends on the disk, so bands of rows are tried last.
    ///
    /// # Errors
    /// [`Error::Memory`], and errors of the matrices.
    pub(crate) fn for_blocks<T: Real>(
        self,
        kernel: &AnyKernel,
        how: &SweepOptions,
        threads: bool,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> Result<(SweepOptions, BlockPlan)> {
        let own = own() + rings(how);
        let left = self.bytes.saturating_sub(own);
        let per_block = if threads { PER_BLOCK + PER_THREAD + recorded(how) } else { PER_BLOCK };
        let tasks = |grid: &Grid| grid.len() as u64 * per_block;
        let plan = |how: &SweepOptions| -> Result<BlockPlan> {
            Ok(how.plan_in_blocks(kernel, arrays, result)?)
        };
        let choice = |memory| match plan(&SweepOptions { memory, ..how.clone() }) {
            Ok(plan) => Ok((plan.grid, plan.expected)),
            Err(Error::Blocks(BlocksError::Memory { block, .. })) => {
                Ok((Grid::new(arrays.field.shape(), block), None))
            }
            Err(other) => Err(other),
        };
        let first = left.saturating_sub(tasks(&choice(left)?.0)).max(1);
        let more = successors(Some(first), |memory| memory.checked_mul(2)).chain([u64::MAX]);
        let mut least: Option<(u64, Grid)> = None;
        let mut fits = |grid: Grid, expected| -> Result<Option<(SweepOptions, BlockPlan)>> {
            let blocks = BlockOptions { size: Some(grid.block_size()), ..how.blocks };
            let memory = left.saturating_sub(tasks(&grid));
            let how = SweepOptions { blocks, memory, ..how.clone() };
            let needed = match plan(&how) {
                Ok(mut plan) => {
                    plan.expected = expected;
                    return Ok(Some((how, plan)));
                }
                Err(Error::Blocks(BlocksError::Memory { window, .. })) => tasks(&grid) + window,
                Err(other) => return Err(other),
            };
            least = least.filter(|(bytes, _)| *bytes <= needed).or(Some((needed, grid)));
            Ok(None)
        };
        for memory in more {
            let (grid, expected) = choice(memory)?;
            if let Some(found) = fits(grid, expected)? {
                return Ok(found);
            }
        }
        let all = || arrays.all().map(|matrix| matrix.layout()).chain([result.layout()]);
        if how.blocks.size.is_none() && all().all(|layout| layout == Layout::RowMajor) {
            let shape = arrays.field.shape();
            for rows in successors(Some(shape.rows), |rows| Some(rows / 2)).take_while(|n| *n > 0) {
                let grid = Grid::new(shape, Block::new(rows, shape.cols));
                if let Some(found) = fits(grid, None)? {
                    return Ok(found);
                }
            }
        }
        let (needed, grid) = least.ok_or(Error::Panic)?;
        Err(self.sweep_too_small(own, arrays.all().count(), needed, &grid))
    }

    /// Plans a streamed sweep with the memory that remains for it.
    ///
    /// # Errors
    /// [`Error::Memory`], and errors of the matrices.
    pub(crate) fn for_streamed<T: Real>(
        self,
        kernel: &AnyKernel,
        how: &SweepOptions,
        arrays: &Arrays<T>,
    ) -> Result<SweepOptions> {
        let threads = match how.runner {
            Runner::Pool { workers, .. } => workers as u64,
            _ => 1,
        };
        let own = self.streaming(threads);
        let how = SweepOptions { memory: self.bytes.saturating_sub(own).max(1), ..how.clone() };
        // The field stands for the result, which is also a row-major file.
        match how.plan(kernel, arrays, &arrays.field) {
            Ok(_) => Ok(how),
            Err(error) => Err(self.of_streamed(error, threads, arrays)),
        }
    }

    /// Returns the memory that remains for a streamed sweep of which this process is a member.
    pub(crate) fn for_member(self, threads: u64) -> u64 {
        self.bytes.saturating_sub(self.streaming(threads)).max(1)
    }

    /// Returns the memory of the program, with the threads of a streamed sweep.
    fn streaming(self, threads: u64) -> u64 {
        // The computing threads, and two for each panel, which wait for the disk. The writer of a
        // trace copies one ring at a time.
        let all = threads + 2 * (threads + 2);
        own() + all * PER_THREAD + (all + 1) * syncline_trace::memory_per_thread()
    }

    /// Returns the error of a streamed sweep, with all memory that it needs if it has too little.
    pub(crate) fn of_streamed<T: Real>(
        self,
        error: WaveError,
        threads: u64,
        arrays: &Arrays<T>,
    ) -> Error {
        let WaveError::StreamMemory { depth, needed, .. } = error else { return error.into() };
        let program = self.streaming(threads);
        let of_threads = program.saturating_sub(own());
        let hint = match (of_threads > program / 4, syncline_trace::memory_per_thread()) {
            (true, 0) => " (fewer --threads take less)",
            (true, _) => " (fewer --threads take less, and so does a run without a trace)",
            _ => "",
        };
        let iterations = if depth == 1 { "iteration" } else { "iterations" };
        let (matrices, cols) = (arrays.all().count(), arrays.field.shape().cols);
        // One iteration is the minimum; the options asked for more.
        let less = if depth > 1 { " (a smaller --depth takes less)" } else { "" };
        let piece = format!(
            "the window of a pass of {depth} {iterations}{less}, with rows of {cols} from {matrices} \
             matrices, takes"
        );
        self.too_small(program, hint, piece, needed)
    }

    /// Returns the error of a sweep over arrays that has too little memory.
    pub(crate) fn too_small_for_arrays(self, threads: u64, piece: String, needed: u64) -> Error {
        self.too_small(self.streaming(threads), "", piece, needed)
    }

    fn sweep_too_small(self, own: u64, matrices: usize, needed: u64, grid: &Grid) -> Error {
        let (count, size) = (grid.len(), grid.block_size());
        let piece = match count {
            1 => format!("the one block of {size} of {matrices} matrices takes"),
            _ => format!(
                "one block of {size} of {matrices} matrices, with the tasks of all {count}, takes"
            ),
        };
        self.too_small(own, "", piece, needed)
    }

    fn too_small(self, own: u64, hint: &'static str, piece: String, needed: u64) -> Error {
        let (own, needed) = (AtLeast::with_a_little_more(own), AtLeast::new(needed));
        Error::Memory { option: "--memory", bound: Bytes(self.bytes), own, hint, piece, needed }
    }
}

/// Returns the memory in which the threads of a pool, and the two beside them, record what they do.
fn rings(how: &SweepOptions) -> u64 {
    match how.runner {
        Runner::Pool { workers, .. } => {
            (workers as u64).saturating_add(2).saturating_mul(syncline_trace::memory_per_thread())
        }
        _ => 0,
    }
}

/// Returns the memory of the ring in which the thread of a block records what it does.
fn recorded(how: &SweepOptions) -> u64 {
    // A step, and its waits for permits, locations, and the disk: eight at most of 32 bytes each.
    let events = how.iterations.saturating_mul(8 * 32).saturating_add(4 << 10);
    events.min(syncline_trace::memory_per_thread())
}

/// Returns the memory of the program without data and without its executable.
fn own() -> u64 {
    system::resident().unwrap_or_default().governed + RESERVE
}

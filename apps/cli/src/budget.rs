//! What of the memory bound the sweep may have.
//!
//! # What the bound governs
//!
//! | memory                                                    | counts | what holds it down                       |
//! |-----------------------------------------------------------|--------|------------------------------------------|
//! | anonymous: heap, stacks, buffers, written pages of libraries | yes | this division                            |
//! | files of data that are mapped (blocks; shared memory too)  | yes   | this division                            |
//! | the program's own file and its libraries                   | no    | reported by itself, as `program`; the kernel drops and reads it again as it likes |
//! | the page cache beside the program                          | no    | the kernel                               |
//! | the kernel's own for the process: page tables, stacks of its threads | no | a 512th of what is mapped, 16 KiB a thread, some 1 MiB besides |
//!
//! How much of its own file a program has resident depends on the machine: on what the page cache
//! has of it, on how many pages the kernel maps at a fault, on the file system. So it cannot be in
//! a bound that holds anywhere. All that is governed, the process itself makes resident. Mapped
//! data count, though the kernel could drop them, as in the papers: a sweep that lives of dropping
//! them reads its data again and again.
//!
//! The tests put the command into a control group, whose limit is the bound, what is named above,
//! and no swap.
//!
//! # How it is divided
//! ```text
//! bound = what the program holds already + a reserve + tasks of the blocks + the sweep's window(s)
//!         \__ measured: smaps __________/   measured    per block or thread    what is left
//! ```
//!
//! Smaller blocks need smaller windows, but more tasks. A streamed sweep has one window; its tasks
//! are few.

use syncline_store::{Grid, Matrix};
use syncline_wave::{Error as WaveError, Runner, lanes::Real, plan::BlockPlan};

use crate::error::{Error, Result};
use crate::kernels::{AnySweep, Arrays, SweepOptions};
use crate::system;
use crate::units::{AtLeast, Bytes};

/// Data that the program has not touched yet when the bound is divided, the libraries' too, stacks,
/// and what the allocator keeps: measured as half a MiB.
const RESERVE: u64 = 3 << 19;

/// A block's task, location, requests and tiles: measured as 2.3 KiB.
const PER_BLOCK: u64 = 2560;

/// What a thread touches of its stack and of the allocator's: measured as 11 KiB.
const PER_THREAD: u64 = 24 << 10;

/// The most memory that the program may hold, as the head of this file defines it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    bytes: u64,
}

impl Bound {
    /// The bound asked for, or 80 % of what is available.
    pub(crate) fn new(asked: Option<u64>) -> Self {
        let available = || system::available().map_or(u64::MAX, |bytes| bytes / 5 * 4);
        Self { bytes: asked.unwrap_or_else(available) }
    }

    /// Its bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.bytes
    }

    /// A bound that leaves room for what the program may take beyond what it takes now.
    pub(crate) fn with_a_little_less(self) -> Self {
        Self { bytes: self.bytes.saturating_sub(AtLeast::A_LITTLE_MORE) }
    }

    /// What is left for buffers, of which at least `least` bytes are needed.
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

    /// A sweep in blocks with the memory that is left for it, and its plan.
    ///
    /// Blocks are as the sweep chooses them for the memory that the tasks of such blocks leave; if
    /// not even one fits, as for twice that, and so on, since larger blocks have fewer tasks.
    ///
    /// # Errors
    /// [`Error::Memory`], and what is wrong with the matrices.
    pub(crate) fn for_blocks<T: Real>(
        self,
        runs: &dyn AnySweep<T>,
        how: &SweepOptions,
        threads: bool,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> Result<(SweepOptions, BlockPlan)> {
        let own = own();
        let left = self.bytes.saturating_sub(own);
        let per_block = if threads { PER_BLOCK + PER_THREAD } else { PER_BLOCK };
        let tasks = |grid: &Grid| grid.len() as u64 * per_block;
        let plan = |how: &SweepOptions| -> Result<BlockPlan> {
            runs.plan(how, arrays, result)?.blocked().copied().ok_or(Error::Panic)
        };
        let choice = |memory| match plan(&SweepOptions { memory, ..how.clone() }) {
            Ok(plan) => Ok((plan.grid, plan.expected)),
            Err(Error::Wave(WaveError::Memory { block, .. })) => {
                Ok((Grid::new(arrays.field.shape(), block), None))
            }
            Err(other) => Err(other),
        };
        let mut memory = left.saturating_sub(tasks(&choice(left)?.0)).max(1);
        let mut least: Option<(u64, Grid)> = None;
        loop {
            let (grid, expected) = choice(memory)?;
            let (block, memory_left) = (Some(grid.block_size()), left.saturating_sub(tasks(&grid)));
            let how = SweepOptions { block, memory: memory_left, ..how.clone() };
            let needed = match plan(&how) {
                Ok(mut plan) => {
                    plan.expected = expected;
                    return Ok((how, plan));
                }
                Err(Error::Wave(WaveError::Memory { window, .. })) => tasks(&grid) + window,
                Err(other) => return Err(other),
            };
            least = least.filter(|(bytes, _)| *bytes <= needed).or(Some((needed, grid)));
            memory = match (memory.checked_mul(2), least) {
                (Some(twice), _) => twice,
                (None, Some((needed, grid))) => {
                    return Err(self.sweep_too_small(own, arrays.all().count(), needed, &grid));
                }
                (None, None) => u64::MAX,
            };
        }
    }

    /// A streamed sweep with the memory that is left for it.
    ///
    /// # Errors
    /// [`Error::Memory`], and what is wrong with the matrices.
    pub(crate) fn for_streamed<T: Real>(
        self,
        runs: &dyn AnySweep<T>,
        how: &SweepOptions,
        arrays: &Arrays<T>,
    ) -> Result<SweepOptions> {
        let threads = match how.runner {
            Runner::Pool { workers, .. } => workers as u64,
            _ => 1,
        };
        // Those that compute, and two for each panel, which wait for the disk.
        let of_threads = (threads + 2 * (threads + 2)) * PER_THREAD;
        let own = own() + of_threads;
        let hint = if of_threads > own / 4 { " (fewer --threads take less)" } else { "" };
        let how = SweepOptions { memory: self.bytes.saturating_sub(own).max(1), ..how.clone() };
        // The field stands for the result, which is row-major and on file as well.
        match runs.plan(&how, arrays, &arrays.field) {
            Ok(_) => Ok(how),
            Err(WaveError::StreamMemory { depth, needed, .. }) => {
                let iterations = if depth == 1 { "iteration" } else { "iterations" };
                let (matrices, cols) = (arrays.all().count(), arrays.field.shape().cols);
                // One iteration is the least; more were asked for.
                let less = if depth > 1 { " (a smaller --depth takes less)" } else { "" };
                let piece = format!(
                    "the window of a pass of {depth} {iterations}{less}, with rows of {cols} from {matrices} \
                     matrices, takes"
                );
                Err(self.too_small(own, hint, piece, needed))
            }
            Err(other) => Err(other.into()),
        }
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
        Error::Memory { bound: Bytes(self.bytes), own, hint, piece, needed }
    }
}

/// What the program takes without data, its own file not counted.
fn own() -> u64 {
    system::resident().unwrap_or_default().governed + RESERVE
}

//! Kernels of whole blocks: an unmodified routine that sweeps a matrix in memory.
//!
//! # Contract
//! A block, with one line of neighbours on each side on which the stencil of the routine reaches
//! beyond it, is a small matrix. The routine receives it like any other matrix: contiguous, row by
//! row, with an edge (on those sides) that it must not update. The values on the edge are the ones
//! that the double loop over the whole matrix would find there; values that the routine writes to
//! the edge are discarded.
//!
//! ```text
//!  on disk: rows, blocks           in memory, the field             in memory, each coefficient
//!  or frames
//!   ┌──┬────────┐                  nw n  n  n  n  ne                NaN . . . . NaN
//!   │  │ row    │    reorder       w  #  #  #  #  e                  .  #  #  #  # .
//!   │co├────────┤ ──────────────>  w  #  #  #  #  e   the routine    .  #  #  #  # .
//!   │l │ ...    │                  w  #  #  #  #  e  ────────────>   .  #  #  #  # .
//!   └──┴────────┘ <──────────────  sw s  s  s  s  se                NaN . . . . NaN
//!                  reorder, # only
//!
//!  n, w, nw, ne: of this iteration     e, s, sw, se: of the previous one     unused corners: NaN
//! ```
//!
//! Coefficients have the shape of the field, so that one index (and one leading dimension) is right
//! for all arrays. The edges of coefficients have no meaning.
//!
//! Edge lines that are also the edge of the whole matrix come from the block itself, so blocks at
//! the border are not a special case; they are only smaller. With a stencil of north, west and
//! north-west there are no lines below and to the right: the routine updates the last row and
//! column of the matrix that it receives, as it does in the whole matrix.
//!
//! # Bits
//! The routine chooses the order of the updates in a block. A routine that goes row by row gives
//! the bits of the double loop with the same expression; so does every order in which each point
//! finds the neighbours that it uses in the same state as in that loop.
//!
//! # Costs
//! Per value: one copy of each coefficient, two of the field, and one more each way if a layout
//! does not store rows in one piece; and the time of the routine. Per block: one virtual call.
//! Memory: all arrays of a block in plain form, for each block in flight.
//!
//! # Source
//! Clauss and Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks", PDP
//! 2010, section 3.2: blocks are read in the optimised (framed) layout, reordered, and passed to
//! the original code. Changed here: the lines of the neighbours come with the block, and
//! coefficients have the shape of the block with its lines.

mod c;

use std::slice;

use syncline_kernel::stencil::{Margin, Stencil};
use syncline_store::{Shape, placement::Rect};
use syncline_wave::Result;
use syncline_wave::executor::Rows;

use crate::block::{Block, Blockwise, Small, parts};

pub use crate::compiled::Real;
pub use c::{CBlockFunction, CBlockKernel};

/// A routine that sweeps a whole matrix in memory, to be run on one block after another.
///
/// The matrix that it receives is a block with a halo: with a [`Stencil`] of five points, its first
/// and last row and column hold neighbours (or the edge of the whole matrix) and must not be
/// updated. So existing code with plain double loops runs unmodified, at any size, in any layout
/// and on all cores. [`BlockedSweep::run_blocks`](crate::BlockedSweep::run_blocks) runs such a
/// routine; [`CBlockKernel`] is one in C or Fortran.
///
/// ```
/// use std::sync::Arc;
/// use syncline_blocks::{BlockedSweep, kernel::BlockKernel};
/// use syncline_store::{Block, Layout, Matrix, Shape};
/// use syncline_wave::{Stencil, Sweep, kernels::Lk23, reference::plain_sweep};
///
/// /// Livermore kernel 23 as an existing routine.
/// struct Old;
///
/// impl BlockKernel<f64> for Old {
///     fn coefficients(&self) -> usize {
///         5
///     }
///     fn stencil(&self) -> Stencil {
///         Stencil::FIVE_POINT
///     }
///     fn sweep(&self, Shape { rows, cols }: Shape, za: &mut [f64], coefficients: &[&[f64]]) {
///         let &[zr, zb, zu, zv, zz] = coefficients else { return };
///         for j in 1..rows - 1 {
///             for k in 1..cols - 1 {
///                 let i = j * cols + k;
///                 let qa = za[i + cols] * zr[i] + za[i - cols] * zb[i]
///                     + za[i + 1] * zu[i] + za[i - 1] * zv[i] + zz[i];
///                 za[i] += 0.175 * (qa - za[i]);
///             }
///         }
///     }
/// }
///
/// let shape = Shape::new(50, 70);
/// let mut numbers: Vec<f64> = (0..3500).map(f64::from).collect();
/// let field = Arc::new(Matrix::from_vec(shape, numbers.clone())?);
/// let fifth = Arc::new(Matrix::from_vec(shape, vec![0.2; 3500])?);
/// let coefficients = std::array::from_fn::<_, 5, _>(|_| Arc::clone(&fifth));
/// let framed = Matrix::zeros(shape, Layout::Framed { block: Block::new(16, 16), thickness: 1 })?;
/// let sweep = BlockedSweep::of(Sweep::new(Old));
/// let (result, _) = sweep.run_blocks(&field, &coefficients, framed)?;
///
/// plain_sweep(&Lk23, &mut numbers, [&[0.2; 3500]; 5], 50, 70);
/// let mut row = [0.0; 70];
/// result.read_row(33, &mut row)?;
/// assert_eq!(row, numbers[33 * 70..34 * 70]);
/// # Ok::<(), syncline_blocks::Error>(())
/// ```
pub trait BlockKernel<T: Real>: Send + Sync {
    /// Returns the number of coefficients that it takes: the same at every call.
    fn coefficients(&self) -> usize;

    /// Returns the neighbours that it reads: the same set at every call.
    ///
    /// They determine which edges of the matrix stay, and on which sides a block has a halo: those
    /// on which the stencil has a neighbour, see [`Stencil`]. Unlike a
    /// [`PointKernel`](syncline_wave::PointKernel), a routine is not checked: a routine that reads
    /// other neighbours finds NaN at a corner of the halo and, in the order max-parallel, values of
    /// another iteration at its sides.
    fn stencil(&self) -> Stencil;

    /// Runs one iteration over a matrix of `shape`: updates the points of `field` whose neighbours
    /// in the stencil all exist, see [`Stencil::updated`]. With five or nine points these are all
    /// points except the first and last row and column.
    ///
    /// There is at least one such point, and `shape` is at most two larger than a block in each
    /// direction. All arrays are stored row by row, without gaps: element (`j`, `k`) has the index
    /// `j * shape.cols + k`. In the halo of `field`, north, west, north-west and north-east are
    /// updated already, and the others are not (in the order max-parallel, either all of them are
    /// updated or none). A coefficient has its values where there is a point to update; on its edge
    /// the values are arbitrary. Values written to the edge of `field` are discarded.
    ///
    /// It is called from several threads at the same time, for different blocks. A panic ends the
    /// sweep with an error.
    fn sweep(&self, shape: Shape, field: &mut [T], coefficients: &[&[T]]);
}

/// Adapts a kernel of whole blocks to the blocked executor, which is compiled once for all of them.
pub(crate) struct Whole<'k, T: Real> {
    kernel: &'k dyn BlockKernel<T>,
    name: &'static str,
}

impl<'k, T: Real> Whole<'k, T> {
    pub(crate) fn new<K: BlockKernel<T>>(kernel: &'k K) -> Self {
        Whole { kernel, name: std::any::type_name::<K>() }
    }
}

impl<T: Real> Blockwise<T> for Whole<'_, T> {
    /// The field and its coefficients in plain form, one after another.
    type Workspace = Vec<T>;

    fn coefficients(&self) -> usize {
        self.kernel.coefficients()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn stencil(&self) -> Stencil {
        self.kernel.stencil()
    }

    /// Always succeeds: a routine cannot be called for a test, as existing code may keep state that
    /// its first call has set up.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn workspace_bytes(&self, rows: usize, cols: usize) -> u64 {
        let Margin { north, south, west, east } = self.kernel.stencil().margin();
        let plain = Shape::new(rows + north + south, cols + west + east).elements() * T::BYTES;
        (1 + self.kernel.coefficients() as u64) * plain as u64
    }

    unsafe fn update(
        &self,
        block: &Block<'_, T>,
        shape: Shape,
        workspace: &mut Vec<T>,
        norm: bool,
    ) -> Result<f64> {
        let stencil = self.kernel.stencil();
        let Some(small) = block.small(shape, stencil, stencil.margin()) else {
            return Ok(0.0);
        };
        let size = small.shape.elements();
        let all = (1 + block.coefficients.len()) * size;
        if workspace.len() < all {
            // `reserve_exact` keeps the workspace within the size that the memory bound accounts
            // for.
            workspace.reserve_exact(all - workspace.len());
            workspace.resize(all, T::default());
        }
        let arrays = &mut workspace[..all];
        arrays.chunks_exact_mut(size).for_each(|array| clear_edge(array, small.shape));
        let parts = parts(block, &small);
        for (array, part) in &parts {
            // SAFETY: `part` lies in the block, its coefficients or the copied lines around it; the
            // caller guarantees that they are valid for reads and that no other thread writes them.
            unsafe { copy_in(part, &mut arrays[array * size..][..size], small.shape) };
        }
        let (field, coefficients) = arrays.split_at_mut(size);
        let coefficients: Vec<&[T]> = coefficients.chunks_exact(size).collect();
        self.kernel.sweep(small.shape, field, &coefficients);
        // SAFETY: the first part is the block itself and has all points to update; the caller
        // guarantees that it is valid for reads and writes and that no other thread accesses it.
        Ok(unsafe { copy_out(field, &small, &parts[0].1, norm) })
    }
}

/// Fills the outermost lines of an array with NaN, for positions that no part covers.
fn clear_edge<T: Real>(array: &mut [T], Shape { rows, cols }: Shape) {
    let none = T::splat(f64::NAN);
    array[..cols].fill(none);
    array[(rows - 1) * cols..].fill(none);
    for row in array.chunks_exact_mut(cols) {
        row[0] = none;
        row[cols - 1] = none;
    }
}

/// Copies a part to its position in an array.
///
/// # Safety
/// The values of the part must be valid for reads, and no other thread may write them meanwhile.
unsafe fn copy_in<T: Real>(part: &Rows<T>, array: &mut [T], small: Shape) {
    for row in part.first..part.end {
        let first = part.row(row as isize).wrapping_add(part.left);
        // SAFETY: the values from `left` to `right` of a row of the part; the caller guarantees
        // that they are valid for reads.
        let values = unsafe { slice::from_raw_parts(first, part.right - part.left) };
        array[row * small.cols + part.left..][..values.len()].copy_from_slice(values);
    }
}

/// Copies the points to update from the field back to the block. Returns the greatest change if
/// `norm`, or 0 otherwise.
///
/// # Safety
/// `block` must have all points to update, and they must be valid for reads and writes by this
/// thread alone.
unsafe fn copy_out<T: Real>(field: &[T], small: &Small, block: &Rows<T>, norm: bool) -> f64 {
    let mut greatest = T::splat(0.0);
    let Rect { row: first, col, rows, cols } = small.updated();
    for row in first..first + rows {
        let new = &field[row * small.shape.cols + col..][..cols];
        let first = block.row(row as isize).wrapping_add(col);
        // SAFETY: the points to update of one row of the block; the caller guarantees that they are
        // valid for reads and writes by this thread alone.
        let old = unsafe { slice::from_raw_parts_mut(first, new.len()) };
        if norm {
            greatest =
                new.iter().zip(&*old).fold(greatest, |norm, (new, old)| norm.raised(*old, *new));
        }
        old.copy_from_slice(new);
    }
    greatest.greatest()
}

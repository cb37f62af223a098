//! Old code on whole blocks: a routine that sweeps a matrix in memory, as it is.
//!
//! # Contract
//! A block with one line of neighbours on each side that the routine's stencil reaches beyond is a
//! small matrix. The routine gets it as it would get any matrix: row by row in one piece, its edge
//! (on those sides) not to be updated. What it sees on the edge is what the double loop over the
//! whole matrix would see; what it writes there is lost.
//!
//! ```text
//!  on disk: rows, blocks           in memory, the field             in memory, each coefficient
//!  or frames
//!   ┌──┬────────┐                  nw n  n  n  n  ne                NaN . . . . NaN     The same form, so that one
//!   │  │ row    │    reorder       w  #  #  #  #  e                  .  #  #  #  # .     index (and one leading
//!   │co├────────┤ ──────────────>  w  #  #  #  #  e   the routine    .  #  #  #  # .     dimension) is right for
//!   │l │ ...    │                  w  #  #  #  #  e  ────────────>   .  #  #  #  # .     all arrays. Edges of
//!   └──┴────────┘ <──────────────  sw s  s  s  s  se                NaN . . . . NaN     coefficients mean nothing.
//!                  reorder, # only
//!
//!  n, w, nw, ne: of this iteration          e, s, sw, se: of the one before         corners not used: NaN
//! ```
//!
//! Lines of the edge that are the edge of the whole matrix come from the block itself, so there are
//! no special cases for blocks at the border; those are only smaller. With a stencil of north, west
//! and north-west there are no lines below and to the right: the routine updates the last row and
//! column of what it gets, as it does in the whole matrix.
//!
//! # Bits
//! The order of the updates in a block is the routine's. One that goes row by row gives the bits of
//! the double loop with the same expression; so does every order in which each point finds the
//! neighbours that it uses in that state.
//!
//! # Costs
//! Per value of each array a copy, of the field two, one more each way if a layout does not keep
//! rows in one piece; and what the routine takes. Memory: all arrays of a block in plain form, per
//! block under way.
//!
//! # Source
//! Clauss and Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks", PDP
//! 2010, section 3.2: blocks are read in the optimised (framed) layout, reordered, and passed to
//! the original code. Changed: neighbours' lines come with the block, and coefficients have its
//! form.

use std::slice;

use syncline_store::{Shape, placement::Rect};

use crate::Result;
use crate::block::{Block, Blockwise, Small, parts};
use crate::lanes::Real;
use crate::stencil::{Margin, Stencil};
use crate::strip::pack::Rows;

/// A routine that sweeps a whole matrix in memory, to be run on one block after the other.
///
/// The matrix it gets is a block with a halo: with a [`Stencil`] of five points, its first and last
/// row and column are neighbours (or the edge of the whole matrix), and not to be updated. So old
/// code with plain double loops runs as it is, at any size, in any layout and on all cores.
/// [`Sweep::run_blocks`](crate::Sweep::run_blocks) runs it; [`CBlockKernel`](crate::c_block::CBlockKernel)
/// is one in C or Fortran.
///
/// ```
/// use std::sync::Arc;
/// use syncline_store::{Block, Layout, Matrix, Shape};
/// use syncline_wave::{BlockKernel, Stencil, Sweep, kernels::Lk23, reference::plain_sweep};
///
/// /// Livermore kernel 23 as it has always been.
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
/// let (result, _) = Sweep::new(Old).run_blocks(&field, &coefficients, framed)?;
///
/// plain_sweep(&Lk23, &mut numbers, [&[0.2; 3500]; 5], 50, 70);
/// let mut row = [0.0; 70];
/// result.read_row(33, &mut row)?;
/// assert_eq!(row, numbers[33 * 70..34 * 70]);
/// # Ok::<(), syncline_wave::Error>(())
/// ```
pub trait BlockKernel<T: Real>: Send + Sync {
    /// How many coefficients it takes. The same at every call.
    fn coefficients(&self) -> usize;

    /// Which neighbours it reads. The same at every call.
    ///
    /// They say which edges it leaves as they are, and on which sides of a block there is a halo:
    /// those where a point of the stencil may lie, see [`Stencil`]. Unlike a
    /// [`PointKernel`](crate::PointKernel), a routine is not checked: one that reads other
    /// neighbours finds what is no number (NaN) at a corner of the halo, and in the order
    /// max-parallel values of another iteration beside it.
    fn stencil(&self) -> Stencil;

    /// One iteration over a matrix of `shape`: updates the points of `field` of which all
    /// neighbours of the stencil exist, [`Stencil::updated`]. With five or nine points these are
    /// all but the first and last row and column.
    ///
    /// There is at least one such point, and `shape` is at most two larger than a block each way.
    /// All arrays are row by row, without gaps: element (`j`, `k`) stands at `j * shape.cols + k`.
    /// In the halo of `field`, north, west, north-west and north-east are updated already, the
    /// others are not (in the order max-parallel: all of them are, or none). A coefficient has its
    /// values where there is a point to update; on its edge may be anything. What is written to the
    /// edge of `field` is lost.
    ///
    /// It is called from several threads at the same time, for different blocks. A panic ends the
    /// sweep with an error.
    fn sweep(&self, shape: Shape, field: &mut [T], coefficients: &[&[T]]);
}

/// A kernel of whole blocks as the blocked executor has it.
#[derive(Debug)]
pub(crate) struct Whole<'k, K>(pub(crate) &'k K);

impl<T: Real, K: BlockKernel<T>> Blockwise<T> for Whole<'_, K> {
    /// The field and its coefficients in plain form, one after the other.
    type Workspace = Vec<T>;

    fn coefficients(&self) -> usize {
        self.0.coefficients()
    }

    fn stencil(&self) -> Stencil {
        self.0.stencil()
    }

    /// A routine cannot be tried: old code may keep what its first call has set up.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn workspace_bytes(&self, rows: usize, cols: usize) -> u64 {
        let Margin { north, south, west, east } = self.0.stencil().margin();
        let plain = Shape::new(rows + north + south, cols + west + east).elements() * T::BYTES;
        (1 + self.0.coefficients() as u64) * plain as u64
    }

    unsafe fn update(
        &self,
        block: &Block<'_, T>,
        shape: Shape,
        workspace: &mut Vec<T>,
        norm: bool,
    ) -> Result<f64> {
        let stencil = self.0.stencil();
        let Some(small) = block.small(shape, stencil, stencil.margin()) else {
            return Ok(0.0);
        };
        let size = small.shape.elements();
        let all = (1 + block.coefficients.len()) * size;
        if workspace.len() < all {
            // Not more than the memory bound was reckoned with.
            workspace.reserve_exact(all - workspace.len());
            workspace.resize(all, T::default());
        }
        let arrays = &mut workspace[..all];
        arrays.chunks_exact_mut(size).for_each(|array| clear_edge(array, small.shape));
        let parts = parts(block, &small);
        for (array, part) in &parts {
            // SAFETY: a part of the block, its coefficients or the lines around, which the caller
            // lends.
            unsafe { copy_in(part, &mut arrays[array * size..][..size], small.shape) };
        }
        let (field, coefficients) = arrays.split_at_mut(size);
        let coefficients: Vec<&[T]> = coefficients.chunks_exact(size).collect();
        self.0.sweep(small.shape, field, &coefficients);
        // SAFETY: the first part is the block itself, with all points to update; it is the caller's
        // alone.
        Ok(unsafe { copy_out(field, &small, &parts[0].1, norm) })
    }
}

/// Makes the outermost lines of an array no number, for what no part brings.
fn clear_edge<T: Real>(array: &mut [T], Shape { rows, cols }: Shape) {
    let none = T::splat(f64::NAN);
    array[..cols].fill(none);
    array[(rows - 1) * cols..].fill(none);
    for row in array.chunks_exact_mut(cols) {
        row[0] = none;
        row[cols - 1] = none;
    }
}

/// Copies a part to its place in an array.
///
/// # Safety
/// The part's values may be read.
unsafe fn copy_in<T: Real>(part: &Rows<T>, array: &mut [T], small: Shape) {
    for row in part.first..part.end {
        let first = part.row(row as isize).wrapping_add(part.left);
        // SAFETY: a row of the part.
        let values = unsafe { slice::from_raw_parts(first, part.right - part.left) };
        array[row * small.cols + part.left..][..values.len()].copy_from_slice(values);
    }
}

/// Copies all but the edge of the field back to the block. Returns the greatest change if `norm`,
/// or else 0.
///
/// # Safety
/// The block has all points to update, and may be written.
unsafe fn copy_out<T: Real>(field: &[T], small: &Small, block: &Rows<T>, norm: bool) -> f64 {
    let mut greatest = T::splat(0.0);
    let Rect { row: first, col, rows, cols } = small.updated();
    for row in first..first + rows {
        let new = &field[row * small.shape.cols + col..][..cols];
        let first = block.row(row as isize).wrapping_add(col);
        // SAFETY: the points to update of a row of the block.
        let old = unsafe { slice::from_raw_parts_mut(first, new.len()) };
        if norm {
            greatest =
                new.iter().zip(&*old).fold(greatest, |norm, (n, o)| norm.greater((*n - *o).abs()));
        }
        old.copy_from_slice(new);
    }
    greatest.greatest()
}

//! Blocks of a matrix for writing: each region is the only access to its elements.
//!
//! Two regions of a row-major matrix share pages and cache lines but never an element. The
//! references given out are slices of one row of one region, so threads can write neighbouring
//! regions concurrently. The head of [`tile`](crate::tile) says why regions are in this crate.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use crate::chunk::{Mapped, Touch};
use crate::placement::Copies;
use crate::tile::MatrixBlock;
use crate::{Element, Matrix, Result, layout::Rect, placement::StridedRun};

/// The treatment of the old values of a region that is viewed for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The old values are read: the view counts as read and written.
    Keep,
    /// All values will be overwritten: the view counts as written only. Until overwritten, the
    /// values are the old ones.
    Discard,
}

/// A block of a matrix for reading and writing; only one exists for each block.
///
/// [`Matrix::into_regions`] consumes a matrix and makes its regions; [`Matrix::from_regions`]
/// returns the matrix. All methods of [`MatrixBlock`] read the region through `&self`; writing
/// takes `&mut self`. A lock in a layer above lends regions to threads.
///
/// ```
/// use syncline_store::{Block, Layout, Matrix, Shape, blocks::Contents};
/// let matrix = Matrix::<f64>::zeros(Shape::new(2, 4), Layout::RowMajor)?;
/// let grid = matrix.grid(Block::new(2, 2))?;
/// let mut regions = matrix.into_regions(grid)?;
/// regions[1].view_mut(Contents::Keep)?.row_mut(0).fill(1.0);
/// let matrix = Matrix::from_regions(regions)?;
/// let mut row = [0.0; 4];
/// matrix.read_row(0, &mut row)?;
/// assert_eq!(row, [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), syncline_store::Error>(())
/// ```
///
/// A region cannot be cloned, and neither can the [`MatrixBlock`] that it reads through:
/// ```compile_fail,E0599
/// # fn test(region: syncline_store::blocks::Region) {
/// let second = region.clone();
/// # }
/// ```
/// It cannot be viewed twice for writing, nor read while it is written:
/// ```compile_fail,E0499
/// # use syncline_store::{Result, blocks::{Contents, Region}};
/// # fn test(mut region: Region) -> Result<()> {
/// let mut first = region.view_mut(Contents::Keep)?;
/// let mut second = region.view_mut(Contents::Keep)?;
/// first.row_mut(0)[0] = second.row_mut(0)[0];
/// # Ok(())
/// # }
/// ```
/// ```compile_fail,E0502
/// # use syncline_store::{Result, blocks::{Contents, Region}};
/// # fn test(mut region: Region) -> Result<()> {
/// let mut view = region.view_mut(Contents::Keep)?;
/// let other = region.view()?;
/// view.row_mut(0)[0] = other.row(0)[0];
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region<T: Element = f64>(MatrixBlock<T>);

impl<T: Element> Region<T> {
    pub(crate) const fn new(part: MatrixBlock<T>) -> Self {
        Self(part)
    }

    pub(crate) const fn matrix(&self) -> &Arc<Matrix<T>> {
        self.0.matrix()
    }

    /// Views the block in place, for writing.
    ///
    /// # Errors
    /// [`Error::NotInPlace`](crate::Error::NotInPlace) if the layout is framed,
    /// [`Error::Part`](crate::Error::Part) if the file cannot be mapped or read, or has no room on
    /// disk.
    pub fn view_mut(&mut self, contents: Contents) -> Result<ViewMut<'_, T>> {
        let touch = match contents {
            Contents::Keep => Touch::Update,
            Contents::Discard => Touch::Write,
        };
        let (mapped, rows) = self.0.map_in_place(touch)?;
        Ok(ViewMut { mapped, rows, values: PhantomData })
    }

    /// Overwrites the block with `values`, row-major, whatever the layout; in a framed layout all
    /// copies are written.
    ///
    /// # Errors
    /// [`Error::Buffer`](crate::Error::Buffer) if the number of `values` is not `rows * cols`;
    /// [`Error::Part`](crate::Error::Part) if the file cannot be mapped or has no room on disk.
    pub fn store(&mut self, values: &[T]) -> Result<()> {
        let place = self.0.placement()?;
        let Rect { rows, cols, .. } = self.rect();
        self.matrix().check_buffer(rows * cols, values.len())?;
        let start = place.block(self.index()).start;
        let (mapped, _) = self.0.map_block(Touch::Write)?;
        for section in place.sections(self.index(), Copies::All) {
            let first = section.rect.row * cols + section.rect.col;
            for (row, run) in section.rows().runs().enumerate() {
                let from = &values[first + row * cols..][..run.len()];
                // SAFETY: the run belongs to this block, so it is within its mapping and populated;
                // the region is the only access to it and is borrowed exclusively, so no other code
                // reads or writes it and `values` does not overlap it; the data are aligned in
                // every mapping.
                unsafe {
                    let to = mapped.as_ptr().cast::<T>().add(run.start - start);
                    to.copy_from_nonoverlapping(from.as_ptr(), from.len());
                }
            }
        }
        Ok(())
    }
}

impl<T: Element> Deref for Region<T> {
    type Target = MatrixBlock<T>;

    fn deref(&self) -> &MatrixBlock<T> {
        &self.0
    }
}

/// A view of a block in place, readable and writable row by row.
#[derive(Debug)]
pub struct ViewMut<'a, T: Element = f64> {
    mapped: Mapped<'a>,
    /// The rows of the block, in values from the start of the mapping.
    rows: StridedRun,
    values: PhantomData<&'a mut [T]>,
}

impl<T: Element> ViewMut<'_, T> {
    /// Returns the number of rows.
    pub const fn rows(&self) -> usize {
        self.rows.count
    }

    /// Returns the number of columns.
    pub const fn cols(&self) -> usize {
        self.rows.len
    }

    /// Returns the distance from the start of a row to the start of the next, in values.
    pub const fn pitch(&self) -> usize {
        self.rows.pitch
    }

    /// Returns a pointer to the first value. The values of row `i` are the `cols` values from `i *
    /// pitch` on. Those between the rows belong to other regions, which other threads may be
    /// writing: not even a reference to them may be made.
    pub const fn as_mut_ptr(&mut self) -> *mut T {
        self.mapped.as_ptr().cast()
    }

    /// Returns row `i`.
    ///
    /// # Panics
    /// If `i` is not less than [`rows`](Self::rows).
    pub fn row(&self, i: usize) -> &[T] {
        let (pointer, len) = self.place(i);
        // SAFETY: the row is within the mapping and populated, and the data are aligned in every
        // mapping; the region, the only access to the row, is borrowed by this view, which is
        // borrowed shared for the lifetime of the slice.
        unsafe { std::slice::from_raw_parts(pointer, len) }
    }

    /// Returns row `i` for writing.
    ///
    /// # Panics
    /// If `i` is not less than [`rows`](Self::rows).
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        let (pointer, len) = self.place(i);
        // SAFETY: as in `row`; this view has exclusive access to the region and is borrowed
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(pointer, len) }
    }

    /// Returns row `i` for writing, between the rows above and below it where the block has them.
    ///
    /// # Panics
    /// If `i` is not less than [`rows`](Self::rows).
    pub fn rows_around(&mut self, i: usize) -> (Option<&[T]>, &mut [T], Option<&[T]>) {
        let above = i.checked_sub(1).map(|i| self.place(i));
        let below = (i + 1 < self.rows.count).then(|| self.place(i + 1));
        let (row, len) = self.place(i);
        // SAFETY: as in `row` and `row_mut`; the three rows of one block have no element in common.
        unsafe {
            (
                above.map(|(p, len)| std::slice::from_raw_parts(p, len)),
                std::slice::from_raw_parts_mut(row, len),
                below.map(|(p, len)| std::slice::from_raw_parts(p, len)),
            )
        }
    }

    fn place(&self, i: usize) -> (*mut T, usize) {
        assert!(i < self.rows.count, "row {i} of a view of {}", self.rows.count);
        let offset = i * self.rows.pitch * T::BYTES;
        // SAFETY: the row belongs to the block, all of whose rows are within the mapping.
        let pointer = unsafe { self.mapped.as_ptr().add(offset) };
        (pointer.cast(), self.rows.len)
    }
}

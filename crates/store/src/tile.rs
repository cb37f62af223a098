//! Blocks of a matrix for reading: tiles, their views and their frontiers.
//!
//! | layout    | view                      | load       | frontier counts | frontier touches      |
//! |-----------|---------------------------|------------|-----------------|-----------------------|
//! | row-major | one mapping, rows read in | row by row | the whole block | the pages of the line |
//! | blocked   | one mapping, read in      | row by row | the whole block | the pages of the line |
//! | framed    | none: rows are not slices | by section | the frontier    | one contiguous piece  |
//!
//! A view of a row-major block extends from its first to its last element. Between its rows lie
//! elements of other blocks: no page of these is read on purpose, and no reference to them is made.
//! References are slices of one row of one block.
//!
//! Sweeps in blocks (`syncline_blocks`) work on tiles and regions. Both are in this crate because
//! [`probe`](crate::probe) measures disks by them, and because they read the parts of a [`Matrix`]
//! that no other crate reaches.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use syncline_memory::Advice;

use crate::chunk::{Mapped, Touch};
use crate::placement::Copies;
use crate::{
    Element, Error, Grid, Layout, Matrix, Result,
    layout::{Rect, Side},
    placement::{Placement, StridedRun},
};

/// A block of a matrix: the read access that [`Tile`] and [`Region`](crate::region::Region) have in
/// common.
///
/// A part cannot be cloned: a tile can, but a region must remain unique.
pub struct MatrixBlock<T: Element = f64> {
    matrix: Arc<Matrix<T>>,
    grid: Grid,
    index: usize,
}

/// The size in bytes from which on pieces are read in huge pages, if the kernel supports it. This
/// takes a tenth of the time, because one page is found, charged and freed instead of 512.
const LONG: usize = 1 << 20;

impl<T: Element> fmt::Debug for MatrixBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("matrix", &self.matrix.name())
            .field("index", &self.index)
            .field("rect", &self.rect())
            .finish()
    }
}

impl<T: Element> MatrixBlock<T> {
    pub(crate) const fn new(matrix: Arc<Matrix<T>>, grid: Grid, index: usize) -> Self {
        Self { matrix, grid, index }
    }

    pub(crate) const fn matrix(&self) -> &Arc<Matrix<T>> {
        &self.matrix
    }

    /// Returns the position of the block in the matrix.
    pub fn rect(&self) -> Rect {
        self.grid.rect(self.index)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rect().rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.rect().cols
    }

    /// Returns the number of the block in the grid.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Returns the grid that the block belongs to.
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the name of the matrix, for messages.
    pub fn name(&self) -> &str {
        self.matrix.name()
    }

    /// Returns whether a row of the block is stored as one slice: true for row-major and blocked,
    /// false for framed, whose blocks are loaded and stored instead of viewed.
    pub fn in_place(&self) -> bool {
        self.matrix.layout().in_place()
    }

    /// Returns the placement of the block, after the checks that [`Matrix::tile`] defers.
    pub(crate) fn placement(&self) -> Result<Placement> {
        let place = self.matrix.placement(&self.grid)?;
        if self.index >= self.grid.len() {
            return Err(Error::Range {
                name: self.name().to_owned(),
                what: "blocks",
                count: self.grid.len() as u64,
                asked: self.index as u64 + 1,
            });
        }
        Ok(place)
    }

    /// Maps the stored `values`, of which `count` belong to the block.
    fn map(&self, values: Range<usize>, count: usize, touch: Touch) -> Result<Mapped<'_>> {
        let bytes = self.matrix.bytes_of(values);
        self.matrix.chunk().map_counting(bytes, touch, (count * T::BYTES) as u64)
    }

    /// Maps the block in place and reads its rows in.
    pub(crate) fn map_in_place(&self, touch: Touch) -> Result<(Mapped<'_>, StridedRun)> {
        if !self.in_place() {
            return Err(Error::NotInPlace {
                name: self.name().to_owned(),
                layout: self.matrix.layout(),
            });
        }
        self.map_block(touch)
    }

    /// Maps the block and reads it in; also returns its rows (if framed: the whole block) in values
    /// from the start of the mapping.
    pub(crate) fn map_block(&self, touch: Touch) -> Result<(Mapped<'_>, StridedRun)> {
        let place = self.placement()?;
        let range = place.block(self.index);
        let rows = match place.sections(self.index, Copies::One).next() {
            Some(section) if self.in_place() => section.rows(),
            _ => StridedRun { start: range.start, len: range.len(), pitch: range.len(), count: 1 },
        };
        let rows = StridedRun { start: 0, ..rows };
        let mapped = self.map(range, place.values(self.index), touch)?;
        self.populate(&mapped, rows, touch)?;
        Ok((mapped, rows))
    }

    /// Faults in the pages of `values` of a fresh mapping.
    fn populate(&self, mapped: &Mapped<'_>, values: StridedRun, touch: Touch) -> Result<()> {
        if !mapped.is_fresh() {
            return Ok(());
        }
        let address = mapped.as_ptr().addr();
        let bytes = in_bytes(values, T::BYTES);
        let (read, write) = (touch != Touch::Write, touch != Touch::Read);
        let piece = if bytes.is_contiguous() { bytes.span().len() } else { bytes.len };
        // By default the kernel reads megabytes around each fault. They would be wasted: the next
        // block in the file is not the next block to be processed.
        if read && piece >= LONG && mapped.read_huge_pages() {
            mapped.advise(0..mapped.len(), Advice::Random);
        } else if read {
            // Request all pieces first, so that the disk can order the requests; then wait for each
            // piece.
            whole_pages(bytes, address, |piece| {
                mapped.read_ahead(piece);
                Ok(())
            })?;
            if piece < LONG {
                mapped.advise(0..mapped.len(), Advice::Random);
            }
        }
        if bytes.is_contiguous() {
            return mapped.populate(bytes.span(), write);
        }
        // Around each touched page Linux maps other pages in the page cache: 64 KiB, and whole
        // folios of up to 2 MiB. Unmapping them at once prevents the blocks between the rows from
        // accumulating.
        let others_between = self.matrix.layout() == Layout::RowMajor;
        if others_between {
            mapped.small_pages();
        }
        let mut last = 0;
        whole_pages(bytes, address, |piece| {
            mapped.populate(piece.clone(), write)?;
            if others_between {
                mapped.advise(last..piece.start, Advice::DontNeed);
            }
            last = piece.end;
            Ok(())
        })
    }

    /// Views the block in place, read in.
    ///
    /// # Errors
    /// [`Error::NotInPlace`] if framed, [`Error::Part`] if the file cannot be mapped or read.
    pub fn view(&self) -> Result<View<'_, T>> {
        let (mapped, rows) = self.map_in_place(Touch::Read)?;
        Ok(View { mapped, rows, values: PhantomData })
    }

    /// Copies the block into `values`, row-major, whatever the layout.
    ///
    /// # Errors
    /// [`Error::Buffer`] if the number of `values` is not `rows * cols`, [`Error::Part`] if the
    /// file cannot be mapped or read.
    pub fn load(&self, values: &mut [T]) -> Result<()> {
        let place = self.placement()?;
        let Rect { rows, cols, .. } = self.rect();
        self.matrix.check_buffer(rows * cols, values.len())?;
        let start = place.block(self.index).start;
        let (mapped, _) = self.map_block(Touch::Read)?;
        for section in place.sections(self.index, Copies::One) {
            let first = section.rect.row * cols + section.rect.col;
            for (row, run) in section.rows().runs().enumerate() {
                let to = first + row * cols;
                // SAFETY: the run belongs to this block, so it is within the mapping and populated;
                // no code writes the block while `self` is borrowed.
                unsafe { copy_out(&mapped, run.start - start, &mut values[to..to + run.len()]) };
            }
        }
        Ok(())
    }

    /// Copies the outermost row (north, south) or column (west, east) of the block.
    ///
    /// If framed, only that frontier is mapped. Otherwise the whole block is mapped, and counted,
    /// but only the pages that contain the line are read.
    ///
    /// # Errors
    /// [`Error::Buffer`] if the number of `values` is not `cols` (north, south) or `rows` (west,
    /// east), [`Error::Part`] if the file cannot be mapped or read.
    pub fn frontier(&self, side: Side, values: &mut [T]) -> Result<()> {
        let place = self.placement()?;
        self.matrix.check_buffer(self.rect().line(side), values.len())?;
        let (range, count) = match self.in_place() {
            true => (place.block(self.index), place.values(self.index)),
            false => {
                let frontier = place.frontier(self.index, side);
                (frontier.span(), frontier.len)
            }
        };
        let line = place.line(self.index, side);
        let line = StridedRun { start: line.start - range.start, ..line };
        let mapped = self.map(range, count, Touch::Read)?;
        self.populate(&mapped, line, Touch::Read)?;
        for (run, values) in line.runs().zip(values.chunks_exact_mut(line.len)) {
            // SAFETY: the run belongs to this block, so it is within the mapping and populated; no
            // code writes the block while `self` is borrowed.
            unsafe { copy_out(&mapped, run.start, values) };
        }
        Ok(())
    }

    /// Requests that the block be read into the page cache in the background. Never fails.
    pub fn prefetch(&self) {
        if let (Ok(place), false) = (self.placement(), self.matrix.chunk().is_resident()) {
            self.pieces(place, |bytes| self.matrix.chunk().prefetch(bytes));
        }
    }

    /// Requests that the pages that [`frontier`](Self::frontier) touches be read in the background.
    /// Never fails.
    pub fn prefetch_frontier(&self, side: Side) {
        if let (Ok(place), false) = (self.placement(), self.matrix.chunk().is_resident()) {
            let line = match self.in_place() {
                true => place.line(self.index, side),
                false => place.frontier(self.index, side),
            };
            self.pages(line, |bytes| self.matrix.chunk().prefetch(bytes));
        }
    }

    /// Calls `visit` with the pieces of the file that hold the block.
    pub(crate) fn pieces(&self, place: Placement, visit: impl FnMut(Range<u64>)) {
        let range = place.block(self.index);
        let rows = match place.sections(self.index, Copies::One).next() {
            Some(section) if self.in_place() => section.rows(),
            _ => StridedRun { start: range.start, len: range.len(), pitch: range.len(), count: 1 },
        };
        self.pages(rows, visit);
    }

    fn pages(&self, values: StridedRun, mut visit: impl FnMut(Range<u64>)) {
        if !self.matrix.chunk().is_file() {
            return;
        }
        let start = self.matrix.bytes_of(values.start..values.start).start;
        let runs = in_bytes(StridedRun { start: 0, ..values }, T::BYTES);
        // In a mapping of the whole file the start would have the same offset within its page.
        let _ = whole_pages(runs, start as usize, |bytes| {
            visit(start + bytes.start as u64..start + bytes.end as u64);
            Ok(())
        });
    }

    /// Returns the maximal number of bytes of its file that a [`view`](Self::view) or
    /// [`load`](Self::load) keeps resident while it lasts; 0 for memory and for held files.
    ///
    /// A contiguous block keeps its pages. A row-major block keeps the pages of each row, and up to
    /// 4 MiB while they are read in, because Linux maps whole folios of the page cache around a
    /// touched page; but never more than the pages from its first to its last element.
    pub fn resident_bytes(&self) -> u64 {
        self.matrix.resident_of(&self.grid, self.index)
    }
}

/// A block of a matrix for reading. Clones refer to the same block.
///
/// Tiles are made by [`Matrix::tile`]. While tiles exist, the matrix cannot be written.
#[derive(Debug)]
pub struct Tile<T: Element = f64>(MatrixBlock<T>);

impl<T: Element> Tile<T> {
    pub(crate) const fn new(part: MatrixBlock<T>) -> Self {
        Self(part)
    }
}

impl<T: Element> Clone for Tile<T> {
    fn clone(&self) -> Self {
        Self(MatrixBlock::new(Arc::clone(&self.0.matrix), self.0.grid, self.0.index))
    }
}

impl<T: Element> Deref for Tile<T> {
    type Target = MatrixBlock<T>;

    fn deref(&self) -> &MatrixBlock<T> {
        &self.0
    }
}

/// A view of a block in place, readable row by row.
#[derive(Debug)]
pub struct View<'a, T: Element = f64> {
    mapped: Mapped<'a>,
    /// The rows of the block, in values from the start of the mapping.
    rows: StridedRun,
    values: PhantomData<&'a [T]>,
}

impl<T: Element> View<'_, T> {
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

    /// Returns a pointer to the first value. The values of row `i` are the `cols` values from
    /// `i * pitch` on; those between the rows belong to other blocks.
    pub const fn as_ptr(&self) -> *const T {
        self.mapped.as_ptr().cast()
    }

    /// Returns row `i`.
    ///
    /// # Panics
    /// If `i` is not less than [`rows`](Self::rows).
    pub fn row(&self, i: usize) -> &[T] {
        assert!(i < self.rows.count, "row {i} of a view of {}", self.rows.count);
        // SAFETY: the row is within the mapping and populated; no code writes the block while this
        // view borrows it; the data start at a multiple of the element size in a mapping, so the
        // values are aligned.
        unsafe { std::slice::from_raw_parts(self.as_ptr().add(i * self.rows.pitch), self.rows.len) }
    }
}

/// Copies stored values, the first of them `from` values into the mapping.
///
/// # Safety
/// The values must be within the mapping and populated, and no code may write them during the call.
unsafe fn copy_out<T: Element>(mapped: &Mapped<'_>, from: usize, values: &mut [T]) {
    // SAFETY: the source is valid and not written: the caller guarantees it (see `# Safety`);
    // `values` is borrowed exclusively, so the two do not overlap; the data are aligned in every
    // mapping.
    unsafe {
        let from = mapped.as_ptr().cast::<T>().add(from);
        from.copy_to_nonoverlapping(values.as_mut_ptr(), values.len());
    }
}

/// Returns the same runs in bytes.
pub(crate) const fn in_bytes(values: StridedRun, element: usize) -> StridedRun {
    StridedRun {
        start: values.start * element,
        len: values.len * element,
        pitch: values.pitch * element,
        count: values.count,
    }
}

/// Calls `visit` with ranges of bytes that lie in the same pages as the runs, joining runs whose
/// pages are adjacent or equal; `address` is the address of byte 0.
fn whole_pages(
    runs: StridedRun,
    address: usize,
    mut visit: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let page = rustix::param::page_size();
    let mut pending: Option<Range<usize>> = None;
    for run in runs.runs().filter(|run| !run.is_empty()) {
        match &mut pending {
            Some(last) if (address + run.start) / page <= (address + last.end - 1) / page + 1 => {
                last.end = run.end;
            }
            _ => {
                if let Some(bytes) = pending.replace(run) {
                    visit(bytes)?;
                }
            }
        }
    }
    pending.map_or(Ok(()), visit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(runs: StridedRun, address: usize) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        let visited = whole_pages(runs, address, |bytes| {
            all.push(bytes);
            Ok(())
        });
        assert!(visited.is_ok());
        all
    }

    #[test]
    fn runs_in_touching_pages_are_joined() {
        let page = rustix::param::page_size();
        let runs = |len, pitch| StridedRun { start: 0, len, pitch, count: 3 };
        assert_eq!(joined(runs(8, page), 0), std::slice::from_ref(&(0..2 * page + 8)));
        assert_eq!(
            joined(runs(8, 2 * page), 0),
            [0..8, 2 * page..2 * page + 8, 4 * page..4 * page + 8]
        );
        // The first run extends into a second page.
        assert_eq!(joined(runs(8, 2 * page), page - 4).len(), 1);
        assert_eq!(joined(runs(0, page), 0), []);
    }
}

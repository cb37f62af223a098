//! Matrices of float64 or float32, on file or in memory, in any layout.
//!
//! The following rules exclude data races. A matrix is written through `&mut Matrix`, or through
//! the disjoint [`Region`]s that it was cut into. [`Tile`]s share it behind an [`Arc`], which never
//! gives out `&mut Matrix`. A region never gives out `&Matrix`, so the owner of a `&Matrix` can
//! lend the elements as a slice. No two matrices share a chunk, and the safe functions of a chunk
//! access none of its bytes. As with every mapped file, other processes must not change a file
//! meanwhile; the same holds for memory that forked processes share.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use syncline_memory::{Access, Pages, Segment};

use crate::region::Region;
use crate::rows::{self, STAGE};
use crate::tile::{MatrixBlock, Tile};
use crate::{
    Block, Element, Error, Grid, Layout, NewFile, Result, Shape, bytes, chunk,
    chunk::{Chunk, Touch},
    layout::Rect,
    npy,
    placement::Placement,
};

/// The bytes that Linux may map around a touched page: folios of the page cache, of up to a huge
/// page, below and above it.
const AROUND: u64 = 2 * (2 << 20);

/// A matrix of `f64` or of `f32`.
///
/// ```
/// use std::sync::Arc;
/// use syncline_store::{Block, Matrix, Shape, placement::Side};
/// let matrix = Matrix::from_vec(Shape::new(4, 4), (0..16).map(f64::from).collect())?;
/// let grid = matrix.grid(Block::new(2, 2))?;
/// let matrix = Arc::new(matrix);
/// let mut east = [0.0; 2];
/// matrix.tile(&grid, 2).frontier(Side::East, &mut east)?;
/// assert_eq!(east, [9.0, 13.0]);
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Matrix<T: Element = f64> {
    chunk: Arc<Chunk>,
    /// The offset of the first data byte in the chunk, a multiple of `T::BYTES`.
    start: u64,
    /// The layout with its own grid: one block if row-major.
    place: Placement,
    name: String,
    /// The path of the file that the matrix was opened from.
    opened: Option<PathBuf>,
    values: PhantomData<T>,
}

impl<T: Element> Matrix<T> {
    pub(crate) fn new(chunk: Chunk, start: u64, shape: Shape, layout: Layout) -> Result<Self> {
        let place = Placement::unchecked(layout, layout.grid(shape)?);
        let name = chunk.name().to_owned();
        Ok(Self { chunk: Arc::new(chunk), start, place, name, opened: None, values: PhantomData })
    }

    /// Creates a row-major matrix on the heap from its values, row by row.
    ///
    /// # Errors
    /// [`Error::Buffer`] if the number of values is not the number of elements of the shape,
    /// [`Error::Memory`], and those of [`Layout::stored`].
    pub fn from_vec(shape: Shape, values: Vec<T>) -> Result<Self> {
        let mut matrix = Self::zeros(shape, Layout::RowMajor)?;
        matrix.write_rows(0..shape.rows, &values)?;
        Ok(matrix)
    }

    /// Makes a row-major matrix of elements in memory that another owner keeps, for reading.
    ///
    /// # Errors
    /// Those of [`Layout::stored`].
    ///
    /// # Safety
    /// As long as the matrix exists, the elements of the shape must be readable at `first`, which
    /// is aligned to them, from any thread, and no code may write them.
    ///
    /// ```
    /// use syncline_store::{Matrix, Shape};
    /// let numbers = [1.0, 2.0, 3.0, 4.0];
    /// // SAFETY: the array of four numbers outlives the matrix, and no code writes it.
    /// let matrix = unsafe { Matrix::borrowed(Shape::new(2, 2), numbers.as_ptr())? };
    /// assert_eq!(matrix.as_slice(), Some(&numbers[..]));
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub unsafe fn borrowed(shape: Shape, first: *const T) -> Result<Self> {
        let bytes = Layout::RowMajor.stored(shape)? * T::BYTES;
        // SAFETY: the caller guarantees that the elements are readable and not written.
        let chunk = unsafe { Chunk::borrowed(first.cast(), bytes) };
        Self::new(chunk, 0, shape, Layout::RowMajor)
    }

    /// Creates a matrix of zeros on the heap, in huge pages if the system has them.
    ///
    /// # Errors
    /// [`Error::Memory`], and those of [`Layout::stored`].
    pub fn zeros(shape: Shape, layout: Layout) -> Result<Self> {
        let chunk = Chunk::heap(layout.stored(shape)? * T::BYTES, Pages::Huge)?;
        Self::new(chunk, 0, shape, layout)
    }

    /// Creates a matrix of zeros in memory that is shared with processes forked later.
    ///
    /// # Errors
    /// The same as those of [`zeros`](Self::zeros).
    pub fn shared(shape: Shape, layout: Layout) -> Result<Self> {
        let chunk = Chunk::shared(layout.stored(shape)? * T::BYTES)?;
        Self::new(chunk, 0, shape, layout)
    }

    /// Opens the matrix in a `.npy` file for reading.
    ///
    /// # Errors
    /// An error if the file cannot be opened; is not a `.npy` file; does not hold little-endian
    /// elements of this type ([`Error::Dtype`]) in C order with two dimensions, neither of them
    /// zero; has a length that does not match; or was written such that its data do not start at a
    /// multiple of an element's bytes.
    pub fn open(path: &Path) -> Result<Self> {
        let file = chunk::open(path)?;
        let (shape, start) = npy::open::<T>(&file, path)?;
        let chunk = Chunk::from_file(file, path, Access::Read)?;
        Ok(Self {
            opened: Some(path.to_owned()),
            ..Self::new(chunk, start, shape, Layout::RowMajor)?
        })
    }

    /// Opens the matrix in a file that consists of little-endian elements only, for reading.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Length`] if the length of the file does not match the shape and
    /// layout, and those of [`Layout::stored`].
    pub fn open_raw(path: &Path, shape: Shape, layout: Layout) -> Result<Self> {
        let chunk = Chunk::open(path)?;
        let expected = Self::file_bytes(false, shape, layout)?;
        check_length::<T>(path, &chunk, expected, shape, layout)?;
        Ok(Self { opened: Some(path.to_owned()), ..Self::new(chunk, 0, shape, layout)? })
    }

    /// Creates a matrix over a new file, for reading and writing; the elements are zero at first.
    /// The caller commits the file when the matrix is complete.
    ///
    /// # Errors
    /// [`Error::Length`] if the file was not created with [`file_bytes`](Self::file_bytes),
    /// [`Error::File`].
    ///
    /// ```
    /// use syncline_store::{Layout, Matrix, NewFile, Shape};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("za.npy");
    /// let shape = Shape::new(2, 2);
    /// let new =
    ///     NewFile::create(&path, Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor)?)?;
    /// let mut matrix = Matrix::create(&new, true, shape, Layout::RowMajor)?;
    /// matrix.write_row(1, &[3.0, 4.0])?;
    /// new.commit()?;
    /// let mut row = [0.0; 2];
    /// Matrix::open(&path)?.read_row(1, &mut row)?;
    /// assert_eq!(row, [3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(new: &NewFile, npy: bool, shape: Shape, layout: Layout) -> Result<Self> {
        use std::os::unix::fs::FileExt;
        let failed =
            |source| Error::File { action: "write", path: new.target().to_owned(), source };
        let expected = Self::file_bytes(npy, shape, layout)?;
        let file = new.file().try_clone().map_err(failed)?;
        let chunk = Chunk::from_file(file, new.target(), Access::ReadWrite)?;
        check_length::<T>(new.target(), &chunk, expected, shape, layout)?;
        let header = Self::header(npy, shape);
        new.file().write_all_at(&header, 0).map_err(failed)?;
        Self::new(chunk, header.len() as u64, shape, layout)
    }

    /// Returns the bytes before the data in the file that [`create`](Self::create) fills: none
    /// unless the file is a `.npy` file.
    pub fn header(npy: bool, shape: Shape) -> Vec<u8> {
        if npy { npy::header(T::TYPE, &[shape.rows, shape.cols]) } else { Vec::new() }
    }

    /// Returns the number of bytes of the file that [`create`](Self::create) fills.
    ///
    /// # Errors
    /// Those of [`Layout::stored`]; [`Error::NotRowMajor`] if a `.npy` file is requested for a
    /// blocked or framed layout.
    pub fn file_bytes(npy: bool, shape: Shape, layout: Layout) -> Result<u64> {
        let data = (layout.stored(shape)? * T::BYTES) as u64;
        match npy {
            false => Ok(data),
            true if layout == Layout::RowMajor => {
                Ok(npy::header(T::TYPE, &[shape.rows, shape.cols]).len() as u64 + data)
            }
            true => Err(Error::NotRowMajor { layout }),
        }
    }

    /// Returns the numbers of rows and columns.
    pub const fn shape(&self) -> Shape {
        self.place.grid().shape()
    }

    /// Returns the order of the elements.
    pub const fn layout(&self) -> Layout {
        self.place.layout()
    }

    /// Returns the name for messages: the [assigned name](Self::named), or else the file or the
    /// kind of memory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the matrix with another name in messages, to distinguish matrices in memory. Errors
    /// about bytes of a file still name the file.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the path that the matrix was opened by, if any.
    pub(crate) fn opened(&self) -> Option<&Path> {
        self.opened.as_deref()
    }

    /// Returns the chunk that holds the bytes; its [`traffic`](Chunk::traffic) is that of this
    /// matrix.
    pub const fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// Maps the whole file and keeps the mapping, see [`Chunk::hold`].
    ///
    /// # Errors
    /// The same as those of [`Chunk::hold`].
    pub fn hold(&self, touch: Touch) -> Result<()> {
        self.chunk.hold(touch)
    }

    /// Returns the grid that cuts the matrix into blocks; unless the matrix is row-major, `block`
    /// must be the layout's own.
    ///
    /// # Errors
    /// [`Error::Grid`] if the layout has blocks of another size, [`Error::BadBlock`] if a block
    /// side is zero.
    pub fn grid(&self, block: Block) -> Result<Grid> {
        let grid = Layout::Blocked(block).grid(self.shape())?;
        self.placement(&grid)?;
        Ok(grid)
    }

    /// Returns the placement of the blocks of `grid` in this matrix.
    pub(crate) fn placement(&self, grid: &Grid) -> Result<Placement> {
        let own = self.place.grid();
        if grid.shape() != own.shape() || (self.layout() != Layout::RowMajor && grid != own) {
            return Err(Error::Grid {
                name: self.name.clone(),
                shape: self.shape(),
                layout: self.layout(),
                asked_shape: grid.shape(),
                asked: grid.block_size(),
            });
        }
        Ok(Placement::unchecked(self.layout(), *grid))
    }

    /// Returns the range of bytes in the chunk that holds a range of stored values.
    pub(crate) const fn bytes_of(&self, values: Range<usize>) -> Range<u64> {
        let start = self.start + (values.start * T::BYTES) as u64;
        let end = self.start + (values.end * T::BYTES) as u64;
        start..end
    }

    /// Returns the memory of the elements, if they begin with it and no other owner has it; gives
    /// other matrices back.
    pub(crate) fn into_memory(self) -> std::result::Result<Segment, Box<Self>> {
        let Self { chunk, start, place, name, opened, values } = self;
        let unique = match start {
            0 => Arc::try_unwrap(chunk),
            _ => Err(chunk),
        };
        let taken = unique.and_then(|chunk| chunk.into_memory().map_err(|chunk| Arc::new(*chunk)));
        taken.map_err(|chunk| Box::new(Self { chunk, start, place, name, opened, values }))
    }

    /// Returns the file of the matrix, if it has one.
    #[doc(hidden)]
    pub fn file(&self) -> Option<&File> {
        self.chunk.file()
    }

    /// Reads one row of `cols` values.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Buffer`], and [`Error::Part`] if the file cannot be read.
    pub fn read_row(&self, row: usize, values: &mut [T]) -> Result<()> {
        self.read_rows(row..row.saturating_add(1), values)
    }

    /// Writes one row of `cols` values.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], and those of [`read_row`](Self::read_row).
    pub fn write_row(&mut self, row: usize, values: &[T]) -> Result<()> {
        self.write_rows(row..row.saturating_add(1), values)
    }

    /// Reads whole rows, row-major, whatever the layout; takes up to 8 MiB in addition to the
    /// buffer.
    ///
    /// # Errors
    /// The same as those of [`read_row`](Self::read_row).
    pub fn read_rows(&self, range: Range<usize>, values: &mut [T]) -> Result<()> {
        self.read_rect(self.band(&range), values)
    }

    /// Writes whole rows, row-major, whatever the layout; takes up to 8 MiB in addition to the
    /// buffer.
    ///
    /// # Errors
    /// The same as those of [`write_row`](Self::write_row).
    pub fn write_rows(&mut self, range: Range<usize>, values: &[T]) -> Result<()> {
        self.write_rect(self.band(&range), values)
    }

    fn band(&self, range: &Range<usize>) -> Rect {
        Rect { row: range.start, col: 0, rows: range.len(), cols: self.shape().cols }
    }

    pub(crate) fn check_buffer(&self, expected: usize, actual: usize) -> Result<()> {
        match expected == actual {
            true => Ok(()),
            false => Err(Error::Buffer { name: self.name.clone(), expected, actual }),
        }
    }

    /// Reads a rectangle, row-major, whatever the layout; takes up to 8 MiB in addition to the
    /// buffer.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::Buffer`], and [`Error::Part`] if the file cannot be read.
    pub fn read_rect(&self, rect: Rect, values: &mut [T]) -> Result<()> {
        self.check_rect(rect, values.len())?;
        self.read_staged(rect, values, STAGE)
    }

    /// Writes a rectangle, row-major, whatever the layout; takes up to 8 MiB in addition to the
    /// buffer.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], and those of [`read_rect`](Self::read_rect).
    pub fn write_rect(&mut self, rect: Rect, values: &[T]) -> Result<()> {
        self.check_rect(rect, values.len())?;
        self.write_staged(rect, values, STAGE)
    }

    fn check_rect(&self, rect: Rect, len: usize) -> Result<()> {
        let Shape { rows, cols } = self.shape();
        let range = |what, count: usize, from: usize, n: usize| {
            let (count, asked) = (count as u64, from.saturating_add(n) as u64);
            let within = asked <= count;
            if within {
                Ok(())
            } else {
                Err(Error::Range { name: self.name.clone(), what, count, asked })
            }
        };
        range("rows", rows, rect.row, rect.rows)?;
        range("columns", cols, rect.col, rect.cols)?;
        self.check_buffer(rect.elements(), len)
    }

    /// Reads a rectangle within the matrix, with a stage of `stage` values for pieces that are
    /// adjacent in the file.
    pub(crate) fn read_staged(&self, rect: Rect, values: &mut [T], stage: usize) -> Result<()> {
        rows::read(&self.place, rect, values, stage, |at, values| {
            // SAFETY: no code writes the bytes during the call: writing a matrix takes
            // `&mut Matrix`, and `self` is borrowed shared.
            unsafe { self.chunk.copy_out(self.bytes_of(at..at).start, bytes::of_mut(values)) }
        })
    }

    /// Writes a rectangle within the matrix, including all copies of each element.
    pub(crate) fn write_staged(&mut self, rect: Rect, values: &[T], stage: usize) -> Result<()> {
        rows::write(&self.place, rect, values, stage, |at, values| {
            // SAFETY: no other code accesses the bytes during the call: the matrix is borrowed
            // exclusively, and no other matrix shares its chunk.
            unsafe { self.chunk.copy_in(self.bytes_of(at..at).start, bytes::of(values)) }
        })
    }

    /// Returns the maximal number of bytes that a view of any one block of `grid` keeps resident,
    /// see [`MatrixBlock::resident_bytes`].
    pub fn resident_bytes(&self, grid: &Grid) -> u64 {
        // No block is larger than the first, but another block may start at another offset in a
        // page.
        match self.resident_of(grid, 0) {
            0 => 0,
            first => first + rustix::param::page_size() as u64,
        }
    }

    pub(crate) fn resident_of(&self, grid: &Grid, index: usize) -> u64 {
        let (Ok(place), false) = (self.placement(grid), self.chunk.is_resident()) else {
            return 0;
        };
        let page = rustix::param::page_size() as u64;
        let range = place.block(index);
        let bytes = self.bytes_of(range.clone());
        let span = bytes.end.next_multiple_of(page) - bytes.start / page * page;
        if place.values(index) == range.len() {
            return span;
        }
        let Rect { rows, cols, .. } = grid.rect(index);
        let row = ((cols * T::BYTES) as u64).next_multiple_of(page) + page;
        span.min(rows as u64 * row + AROUND)
    }

    /// Returns the block numbered `index` of `grid`, for reading.
    ///
    /// If `grid` does not belong to this matrix ([`grid`](Self::grid)) or `index` is beyond its
    /// end, every use of the tile is an error.
    pub fn tile(self: &Arc<Self>, grid: &Grid, index: usize) -> Tile<T> {
        Tile::new(MatrixBlock::new(Arc::clone(self), *grid, index))
    }

    /// Cuts the matrix into the blocks of `grid`, each of which can be written independently.
    ///
    /// # Errors
    /// [`Error::Grid`] if the grid does not belong to this matrix, [`Error::ReadOnly`] if the
    /// matrix was opened for reading.
    pub fn into_regions(self, grid: Grid) -> Result<Vec<Region<T>>> {
        self.placement(&grid)?;
        if !self.chunk.is_writable() {
            return Err(Error::ReadOnly { name: self.name });
        }
        let matrix = Arc::new(self);
        let part = |index| Region::new(MatrixBlock::new(Arc::clone(&matrix), grid, index));
        Ok((0..grid.len()).map(part).collect())
    }

    /// Returns the matrix, given all of its regions in any order.
    ///
    /// # Errors
    /// [`Error::Regions`] if regions are missing, or some belong to another matrix.
    pub fn from_regions(regions: Vec<Region<T>>) -> Result<Self> {
        let given = regions.len();
        let incomplete = |name, expected| Error::Regions { name, given, expected };
        let Some(first) = regions.first() else {
            return Err(incomplete("no matrix".to_owned(), 0));
        };
        let expected = first.grid().len();
        let matrix = Arc::clone(first.matrix());
        let same = regions.iter().all(|region| Arc::ptr_eq(region.matrix(), &matrix));
        drop(regions);
        // Each region of a matrix is a different block, so the number of regions shows that they
        // are complete.
        if !same || given != expected {
            return Err(incomplete(matrix.name.clone(), expected));
        }
        Arc::try_unwrap(matrix).map_err(|matrix| incomplete(matrix.name.clone(), expected))
    }
}

fn check_length<T: Element>(
    path: &Path,
    chunk: &Chunk,
    expected: u64,
    shape: Shape,
    layout: Layout,
) -> Result<()> {
    if chunk.len() == expected {
        return Ok(());
    }
    Err(Error::Length {
        path: path.to_owned(),
        what: format!("a {layout} matrix of {shape} {}", T::NAME),
        expected,
        actual: chunk.len(),
    })
}

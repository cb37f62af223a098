//! Conversion between any two layouts in bounded memory.
//!
//! ```text
//! read a band of whole rows  ->  buffer, row-major  ->  write it
//! ```
//!
//! Whole rows are contiguous in a row-major file, and so are whole rows of blocks in the other
//! layouts: with memory for one row of blocks both files are read and written sequentially. With
//! less memory the band has fewer rows, and the blocked file is accessed in pieces of that number
//! of rows of a block; with memory for less than a row, parts of one row are converted.
//!
//! Costs: each byte is read once and written once, plus the second copies of corners; a few
//! accesses per band, see `rows.rs`. Values are copied as bits, so every NaN is preserved.

use crate::rows::{STAGE, bytes_per_staged};
use crate::{Element, Error, Matrix, Result, Shape, layout::Rect};

/// The minimum of memory in bytes: a stage of one value and a buffer of eight, for doubles.
const LEAST: u64 = 128;

/// Copies `src` into `dst`, whatever their layouts, with buffers of at most `memory` bytes.
///
/// # Errors
/// [`Error::Shapes`] if the matrices differ in shape, [`Error::MemoryBound`] if `memory` is less
/// than 128 bytes, [`Error::ReadOnly`] if `dst` is read-only, and [`Error::Part`] if a file cannot
/// be read or written.
///
/// ```
/// use syncline_store::{Block, Layout, Matrix, Shape, convert};
/// let shape = Shape::new(4, 4);
/// let src = Matrix::from_vec(shape, (0..16).map(f64::from).collect())?;
/// let mut dst = Matrix::zeros(shape, Layout::Framed { block: Block::new(2, 2), thickness: 1 })?;
/// convert(&src, &mut dst, 1 << 20)?;
/// let mut row = [0.0; 4];
/// dst.read_row(2, &mut row)?;
/// assert_eq!(row, [8.0, 9.0, 10.0, 11.0]);
/// # Ok::<(), syncline_store::Error>(())
/// ```
pub fn convert<T: Element>(src: &Matrix<T>, dst: &mut Matrix<T>, memory: u64) -> Result<()> {
    let shape = src.shape();
    if shape != dst.shape() {
        return Err(Error::Shapes {
            src: src.name().to_owned(),
            src_shape: shape,
            dst: dst.name().to_owned(),
            dst_shape: dst.shape(),
        });
    }
    if memory < LEAST {
        return Err(Error::MemoryBound { needed: LEAST, given: memory });
    }
    let bytes = usize::try_from(memory).unwrap_or(usize::MAX);
    let stage = (bytes / (2 * bytes_per_staged::<T>())).min(STAGE);
    let buffer = (bytes - stage * bytes_per_staged::<T>()) / T::BYTES;
    let (rows, cols) = band(shape, block_rows(src, dst), buffer);
    let mut values = vec![T::default(); rows * cols];
    for row in (0..shape.rows).step_by(rows) {
        for col in (0..shape.cols).step_by(cols) {
            let rect = Rect {
                row,
                col,
                rows: rows.min(shape.rows - row),
                cols: cols.min(shape.cols - col),
            };
            let values = &mut values[..rect.elements()];
            src.read_staged(rect, values, stage)?;
            dst.write_staged(rect, values, stage)?;
        }
    }
    Ok(())
}

/// Returns the rows of a block of the matrix that has blocks; of `dst` if both have.
fn block_rows<T: Element>(src: &Matrix<T>, dst: &Matrix<T>) -> usize {
    let block = dst.layout().block().or(src.layout().block());
    block.map_or(1, |block| block.clipped(src.shape()).rows)
}

/// Returns the rows and columns that are moved at once with a buffer of `buffer` values: whole rows
/// of blocks, else whole rows, else a part of a row.
fn band(shape: Shape, block_rows: usize, buffer: usize) -> (usize, usize) {
    match (buffer / shape.cols).min(shape.rows) {
        0 => (1, buffer.max(1)),
        rows if rows < block_rows || rows == shape.rows => (rows, shape.cols),
        rows => (rows - rows % block_rows, shape.cols),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_fit_the_buffer() {
        let shape = Shape::new(100, 10);
        assert_eq!(band(shape, 8, 3), (1, 3));
        assert_eq!(band(shape, 8, 10), (1, 10));
        assert_eq!(band(shape, 8, 79), (7, 10));
        assert_eq!(band(shape, 8, 259), (24, 10));
        assert_eq!(band(shape, 8, 1_000), (100, 10));
        assert_eq!(band(shape, 8, usize::MAX), (100, 10));
    }
}

//! Random shapes, layouts and matrices in every backing.

use std::path::Path;

use proptest::prelude::*;
use syncline_store::{Block, Element, Layout, Matrix, NewFile, Result, Shape, chunk::Touch};

/// Shapes with thin, prime and ordinary sides.
pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let side = || prop_oneof![Just(1_usize), Just(2), Just(3), Just(7), Just(13), 1_usize..40];
    (side(), side()).prop_map(|(rows, cols)| Shape::new(rows, cols))
}

/// Blocks, some larger than any of the shapes.
pub(crate) fn blocks() -> impl Strategy<Value = Block> {
    let side = || prop_oneof![1_usize..12, Just(100_usize)];
    (side(), side()).prop_map(|(rows, cols)| Block::new(rows, cols))
}

/// Layouts whose blocks are `block`.
pub(crate) fn layouts(block: Block) -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::RowMajor),
        Just(Layout::Blocked(block)),
        (1_usize..5).prop_map(move |thickness| Layout::Framed { block, thickness }),
    ]
}

/// Elements for tests.
pub(crate) trait Sample: Element {
    /// Returns a value that identifies its position; all values are different NaNs, so that only
    /// copies of bits preserve them.
    fn value(row: usize, col: usize) -> Self;
}

impl Sample for f64 {
    fn value(row: usize, col: usize) -> Self {
        Self::from_bits(0x7ff8_0000_0000_0001 + ((row as u64) << 20 | (col as u64) << 1))
    }
}

/// For up to 1024 rows and 2048 columns.
impl Sample for f32 {
    fn value(row: usize, col: usize) -> Self {
        assert!(row < 1 << 10 && col < 1 << 11);
        Self::from_bits(0x7fc0_0001 + ((row as u32) << 12 | (col as u32) << 1))
    }
}

/// Returns all values of a shape, row by row.
pub(crate) fn values<T: Sample>(shape: Shape) -> Vec<T> {
    let rows = (0..shape.rows).flat_map(|row| (0..shape.cols).map(move |col| (row, col)));
    rows.map(|(row, col)| T::value(row, col)).collect()
}

/// Returns the bits of values, to compare values that may be NaN.
pub(crate) fn bits<T: Element>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.bits()).collect()
}

/// Returns the bytes of a value in a file.
pub(crate) fn file_bytes<T: Element>(value: T) -> Vec<u8> {
    value.bits().to_le_bytes()[..T::BYTES].to_vec()
}

/// Writes a file of the matrix with `values`.
pub(crate) fn write<T: Element>(
    path: &Path,
    npy: bool,
    shape: Shape,
    layout: Layout,
    values: &[T],
) -> Result<()> {
    let new = NewFile::create(path, Matrix::<T>::file_bytes(npy, shape, layout)?)?;
    Matrix::create(&new, npy, shape, layout)?.write_rows(0..shape.rows, values)?;
    new.commit()
}

/// Returns the matrix with `values` on the heap, in shared memory, on file and on a held file.
pub(crate) fn everywhere<T: Element>(
    folder: &Path,
    shape: Shape,
    layout: Layout,
    values: &[T],
) -> Result<Vec<Matrix<T>>> {
    let path = folder.join("matrix");
    write(&path, false, shape, layout, values)?;
    let held = Matrix::open_raw(&path, shape, layout)?;
    held.hold(Touch::Read)?;
    let mut all = vec![Matrix::zeros(shape, layout)?, Matrix::shared(shape, layout)?];
    for matrix in &mut all {
        matrix.write_rows(0..shape.rows, values)?;
    }
    all.extend([Matrix::open_raw(&path, shape, layout)?, held]);
    if layout == Layout::RowMajor {
        let path = folder.join("matrix.npy");
        write(&path, true, shape, layout, values)?;
        all.push(Matrix::open(&path)?);
    }
    Ok(all)
}

/// Returns all values of a matrix.
pub(crate) fn read<T: Element>(matrix: &Matrix<T>) -> Result<Vec<T>> {
    let mut values = vec![T::default(); matrix.shape().elements()];
    matrix.read_rows(0..matrix.shape().rows, &mut values)?;
    Ok(values)
}

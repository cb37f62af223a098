//! Conversion to another layout and back preserves every bit, also in little memory.

use std::sync::Arc;

use proptest::prelude::*;
use syncline_store::{Block, Error, Layout, Matrix, NewFile, Shape, convert, placement::Side};
use syncline_testkit::property;

use crate::common::{Sample, bits, blocks, layouts, read, shapes, values, write};

/// Converts from one layout to another and back to row-major, in `memory` bytes.
fn there_and_back<T: Sample>(
    shape: Shape,
    from: Layout,
    to: Layout,
    memory: u64,
) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir()?;
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let values: Vec<T> = values(shape);
    write(&first, false, shape, from, &values)?;
    let src = Matrix::<T>::open_raw(&first, shape, from)?;
    let new = NewFile::create(&second, Matrix::<T>::file_bytes(false, shape, to)?)?;
    let mut dst = Matrix::create(&new, false, shape, to)?;
    convert(&src, &mut dst, memory)?;
    prop_assert_eq!(bits(&read(&dst)?), bits(&values));
    new.commit()?;
    // The converted file equals one that is written directly, including all copies.
    let third = folder.path().join("third");
    write(&third, false, shape, to, &values)?;
    prop_assert!(std::fs::read(&second)? == std::fs::read(&third)?);
    let mut back = Matrix::zeros(shape, Layout::RowMajor)?;
    convert(&Matrix::<T>::open_raw(&second, shape, to)?, &mut back, memory)?;
    prop_assert_eq!(bits(back.as_slice().unwrap_or_default()), bits(&values));
    Ok(())
}

proptest! {
    #![proptest_config(property(96))]

    #[test]
    fn every_layout_becomes_every_other(
        shape in shapes(),
        (from, to) in (blocks(), blocks()).prop_flat_map(|(a, b)| (layouts(a), layouts(b))),
        memory in prop_oneof![Just(128_u64), 128_u64..4000, Just(1_u64 << 20), Just(u64::MAX)],
    ) {
        there_and_back::<f64>(shape, from, to, memory)?;
        there_and_back::<f32>(shape, from, to, memory)?;
    }
}

#[test]
fn a_framed_file_made_by_conversion_has_its_frontiers() -> Result<(), Error> {
    let (shape, block) = (Shape::new(50, 70), Block::new(16, 16));
    let src = Matrix::from_vec(shape, values::<f64>(shape))?;
    let mut framed = Matrix::zeros(shape, Layout::Framed { block, thickness: 3 })?;
    convert(&src, &mut framed, 1000)?;
    let grid = framed.grid(block)?;
    let framed = Arc::new(framed);
    let mut west = [0.0; 16];
    framed.tile(&grid, 6).frontier(Side::West, &mut west)?;
    let wanted: Vec<f64> = (0..16).map(|row| Sample::value(16 + row, 16)).collect();
    assert_eq!(bits(&west), bits(&wanted));
    Ok(())
}

#[test]
fn what_cannot_be_converted_is_an_error() -> Result<(), Error> {
    let src = Matrix::<f64>::zeros(Shape::new(3, 4), Layout::RowMajor)?;
    let mut other = Matrix::zeros(Shape::new(4, 3), Layout::RowMajor)?;
    assert!(matches!(convert(&src, &mut other, 1 << 20), Err(Error::Shapes { .. })));
    let mut same = Matrix::zeros(Shape::new(3, 4), Layout::RowMajor)?;
    let error = convert(&src, &mut same, 127);
    assert!(matches!(error, Err(Error::MemoryBound { needed: 128, given: 127 })));
    Ok(())
}

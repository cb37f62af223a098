//! The plain loop over matrices of any size, and the comparison of matrices.

use proptest::prelude::*;
use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_testkit::property;
use syncline_wave::{
    kernels::Lk23,
    reference::{Reference, first_difference},
};

use crate::common::{Data, bits, blank, values};

proptest! {
    #![proptest_config(property(160))]

    #[test]
    fn the_reference_of_any_size_is_the_plain_loop(
        (rows, cols) in (1..30_usize, 1..30_usize),
        (high, wide) in (1..12_usize, 1..12_usize),
        iterations in 0..4_u64,
        memory in 1000..20_000_u64,
        seed: u64,
    ) {
        let shape = Shape::new(rows, cols);
        let layout = Layout::Blocked(Block::new(high, wide).clipped(shape));
        let data = Data::<f64, 5>::new(seed, shape);
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = data.matrices(Some(folder.path()), layout);
        let work = blank(Some(folder.path()), shape, Layout::RowMajor);
        let loops = Reference { kernel: &Lk23, field: &field, coefficients: &coefficients, iterations };
        let done = loops.run(work, memory).unwrap();
        prop_assert_eq!(bits(&values(&done)), bits(&data.plain(&Lk23, iterations)));
    }
}

#[test]
fn a_difference_is_found_where_it_is() {
    let shape = Shape::new(700, 600);
    let left = Matrix::<f64>::zeros(shape, Layout::RowMajor).unwrap();
    let mut right = Matrix::zeros(shape, Layout::RowMajor).unwrap();
    let mut row = vec![0.0; 600];
    row[123] = -0.0;
    right.write_row(650, &row).unwrap();
    let found = first_difference(&left, &right).unwrap().unwrap();
    assert_eq!((found.row, found.col), (650, 123));
    assert!(found.right.is_sign_negative(), "{found}");
}

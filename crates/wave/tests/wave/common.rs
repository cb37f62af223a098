//! Matrices of every kind for the tests of the executor.

use std::path::Path;
use std::sync::Arc;

use syncline_store::{Block, Layout, Matrix, NewFile, Shape, convert};
use syncline_wave::{PointKernel, plain_sweep};

/// Numbers between 0 and `scale` that look random.
pub(crate) fn numbers(seed: u64, count: usize, scale: f64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 * scale / (1_u64 << 53) as f64
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The three layouts with blocks of this size.
pub(crate) fn layouts(block: Block) -> [Layout; 4] {
    let framed = |thickness| Layout::Framed { block, thickness };
    [Layout::RowMajor, Layout::Blocked(block), framed(1), framed(2)]
}

/// A matrix of zeros in memory, or on a file in `folder` that goes with it.
pub(crate) fn blank(folder: Option<&Path>, shape: Shape, layout: Layout) -> Matrix {
    match folder {
        None => Matrix::zeros(shape, layout).unwrap(),
        Some(folder) => {
            let bytes = Matrix::<f64>::file_bytes(false, shape, layout).unwrap();
            let file = NewFile::create(&folder.join("matrix"), bytes).unwrap();
            Matrix::create(&file, false, shape, layout).unwrap()
        }
    }
}

/// A matrix with these values, in memory or on file.
pub(crate) fn filled(folder: Option<&Path>, shape: Shape, layout: Layout, values: &[f64]) -> Matrix {
    let plain = Matrix::from_vec(shape, values.to_vec()).unwrap();
    let mut matrix = blank(folder, shape, layout);
    convert(&plain, &mut matrix, 1 << 20).unwrap();
    matrix
}

/// All values, row by row.
pub(crate) fn values(matrix: &Matrix) -> Vec<f64> {
    let mut values = vec![0.0; matrix.shape().elements()];
    matrix.read_rows(0..matrix.shape().rows, &mut values).unwrap();
    values
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() }).collect()
}

/// A field and its coefficients.
pub(crate) struct Data<const N: usize> {
    pub(crate) shape: Shape,
    pub(crate) field: Vec<f64>,
    pub(crate) coefficients: [Vec<f64>; N],
}

impl<const N: usize> Data<N> {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        let n = shape.elements();
        Data {
            shape,
            field: numbers(seed, n, 1.0),
            coefficients: std::array::from_fn(|c| numbers(seed + 1 + c as u64, n, 0.25)),
        }
    }

    /// What the plain double loop makes of it.
    pub(crate) fn plain<K: PointKernel<N>>(&self, kernel: &K, iterations: u64) -> Vec<f64> {
        let mut field = self.field.clone();
        for _ in 0..iterations {
            let c = std::array::from_fn(|n| &self.coefficients[n][..]);
            plain_sweep(kernel, &mut field, c, self.shape.rows, self.shape.cols);
        }
        field
    }

    /// As matrices; coefficients are never framed.
    pub(crate) fn matrices(&self, folder: Option<&Path>, layout: Layout) -> (Arc<Matrix>, [Arc<Matrix>; N]) {
        let field = filled(folder, self.shape, layout, &self.field);
        let coefficient = |n: usize| {
            let values: &[f64] = &self.coefficients[n];
            Arc::new(filled(folder, self.shape, layout.without_frame(), values))
        };
        (Arc::new(field), std::array::from_fn(coefficient))
    }
}

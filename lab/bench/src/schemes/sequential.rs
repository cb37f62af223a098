//! The plain double loop over mapped row-major files, on one thread: the line that parallel schemes
//! must beat.
//!
//! ```text
//! band of rows   page in ─> (first iteration: copy the field) ─> update all rows but the last
//! next band                 page in ─> ...                    ─> update that row; all but the last
//! ```
//!
//! Files are mapped whole with sequential advice, so that the system reads ahead and drops pages
//! behind. Each band is paged in before it is accessed: a truncated file is then an error instead
//! of a SIGBUS.
//!
//! # Source
//! Clauss, Gustedt, Suter, PDP 2008, section 6: the horizontal line of Fig. 7(a).

use std::slice;

use syncline_store::{
    Layout, Matrix, Shape,
    chunk::{Advice, Mapped, Touch},
};
use syncline_wave::{Neighbours, PointKernel, kernels::Lk23};

use super::{Arrays, Result};

/// The size of a band of one matrix, in bytes.
const BAND: usize = 1 << 20;

const VALUE: usize = size_of::<f64>();

/// The rows of a matrix in the address space.
struct Rows<'m> {
    mapped: Mapped<'m>,
    cols: usize,
}

impl<'m> Rows<'m> {
    fn new(matrix: &'m Matrix, touch: Touch) -> Result<Self> {
        if matrix.layout() != Layout::RowMajor {
            return Err(syncline_store::Error::NotRowMajor { layout: matrix.layout() }.into());
        }
        let Shape { rows, cols } = matrix.shape();
        // A row-major file ends with its data.
        let end = matrix.chunk().len();
        let mapped = matrix.chunk().map(end - (rows * cols * VALUE) as u64..end, touch)?;
        mapped.advise(0..mapped.len(), Advice::Sequential);
        Ok(Rows { mapped, cols })
    }

    fn bring_in(&self, rows: std::ops::Range<usize>, write: bool) -> Result<()> {
        let row = self.cols * VALUE;
        Ok(self.mapped.populate(rows.start * row..rows.end * row, write)?)
    }

    /// Returns the address of the first value of a row, which must be a row of the matrix.
    fn start(&self, row: usize) -> *mut f64 {
        self.mapped.as_ptr().cast::<f64>().wrapping_add(row * self.cols)
    }
}

/// Runs [`Scheme::Sequential`](super::Scheme::Sequential).
pub(crate) fn run(arrays: &Arrays<'_>, iterations: u64, mut result: Matrix) -> Result<Matrix> {
    for iteration in 0..iterations {
        sweep(arrays, iteration == 0, &mut result)?;
    }
    Ok(result)
}

fn sweep(arrays: &Arrays<'_>, first: bool, result: &mut Matrix) -> Result<()> {
    let Shape { rows, cols } = result.shape();
    let old = if first { Some(Rows::new(arrays.field, Touch::Read)?) } else { None };
    let coefficients = arrays
        .coefficients
        .iter()
        .map(|m| Rows::new(m, Touch::Read))
        .collect::<Result<Vec<_>>>()?;
    let new = Rows::new(result, if first { Touch::Write } else { Touch::Update })?;
    let band = (BAND / (cols * VALUE)).max(1);
    let mut next = 1;
    for row in (0..rows).step_by(band) {
        let here = row..rows.min(row + band);
        coefficients.iter().try_for_each(|c| c.bring_in(here.clone(), false))?;
        new.bring_in(here.clone(), true)?;
        if let Some(old) = &old {
            old.bring_in(here.clone(), false)?;
            let count = here.len() * cols;
            // SAFETY: the rows are within both mappings, which belong to different matrices; the
            // result is borrowed exclusively, and no thread writes the field while it is shared.
            unsafe { new.start(row).copy_from_nonoverlapping(old.start(row), count) };
        }
        while next + 1 < here.end {
            // SAFETY: rows `next - 1` to `next + 1` are within the mapping, aligned and
            // initialised. The result is borrowed exclusively, and this is the only reference to
            // its values.
            let field = unsafe { slice::from_raw_parts_mut(new.start(next - 1), 3 * cols) };
            let each = coefficients.iter();
            // SAFETY: the row is within the mapping, and no thread writes a coefficient while it is
            // shared.
            let here: Vec<&[f64]> = each
                .map(|c| unsafe { slice::from_raw_parts(c.start(next).cast_const(), cols) })
                .collect();
            update(field, std::array::from_fn(|n| here[n]), cols);
            next += 1;
        }
    }
    Ok(())
}

/// Updates the second of three rows.
fn update(field: &mut [f64], coefficients: [&[f64]; 5], cols: usize) {
    for k in 1..cols.saturating_sub(1) {
        let i = cols + k;
        let at = Neighbours {
            centre: field[i],
            north: field[i - cols],
            west: field[i - 1],
            east: field[i + 1],
            south: field[i + cols],
            north_west: f64::NAN,
            south_east: f64::NAN,
            north_east: f64::NAN,
            south_west: f64::NAN,
        };
        field[i] = Lk23.update(at, coefficients.map(|row| row[k]));
    }
}

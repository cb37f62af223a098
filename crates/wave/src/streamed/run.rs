//! The matrices of a sweep, and what decides the plan of a team.

use std::sync::Arc;

use syncline_kernel::dynamic::Kernel;
use syncline_store::{Layout, Matrix, direct_io::DirectFile, placement::StridedRun};

use super::data::{Held, Source};
use super::plan::{Question, cache_bytes};
use crate::lanes::Real;
use crate::sweep::Settings;
use crate::{Error, Result};

/// The number of bytes that are read to measure the rate of the disk.
const PROBE: u64 = 16 << 20;

/// The arrays of a sweep.
#[derive(Debug)]
pub struct Arrays<'a, E: Real> {
    /// The matrix that is updated.
    pub field: &'a Arc<Matrix<E>>,
    /// The coefficients, in the order of the kernel.
    pub coefficients: &'a [Arc<Matrix<E>>],
}

impl<E: Real> Arrays<'_, E> {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Matrix<E>>> {
        std::iter::once(self.field).chain(self.coefficients)
    }

    /// Returns the arrays that were opened by a path, each with its index among all.
    pub(crate) fn on_file(&self) -> impl Iterator<Item = (usize, &Arc<Matrix<E>>)> {
        self.all().enumerate().filter(|(_, matrix)| matrix.path().is_some())
    }

    /// Checks that all arrays have the shape of the field.
    ///
    /// # Errors
    /// [`Error::Shape`].
    pub fn check_shapes(&self, result: Option<&Matrix<E>>) -> Result<()> {
        let expected = self.field.shape();
        let coefficients = self.coefficients.iter().map(|m| ("the coefficient", &**m));
        // Matrices in memory all have the same name, so the message names the role as well.
        let mut all = coefficients.chain(result.map(|m| ("the result", m)));
        match all.find(|(_, m)| m.shape() != expected) {
            None => Ok(()),
            Some((role, matrix)) => Err(Error::Shape {
                name: format!("{role} {}", matrix.name()),
                actual: matrix.shape(),
                field: format!("the field {}", self.field.name()),
                expected,
            }),
        }
    }

    /// Returns the versions of the files; they are the same later if no file was written to.
    ///
    /// # Errors
    /// [`Error::Store`] if a file cannot be examined.
    pub fn versions(&self) -> Result<Vec<Option<(u64, i128)>>> {
        Ok(self
            .all()
            .map(|matrix| matrix.chunk().version())
            .collect::<syncline_store::Result<_>>()?)
    }

    /// Checks that the files have not changed since the versions were taken.
    ///
    /// # Errors
    /// [`Error::Store`] if a file has changed, or cannot be examined.
    pub fn check_versions(&self, then: &[Option<(u64, i128)>]) -> Result<()> {
        let now = self.versions()?;
        match self.all().zip(then.iter().zip(&now)).find(|(_, (then, now))| then != now) {
            None => Ok(()),
            Some((matrix, _)) => {
                Err(syncline_store::Error::InputChanged { path: matrix.name().into() }.into())
            }
        }
    }

    pub(crate) fn hold(&self) -> Result<Vec<Held>> {
        self.all().map(|matrix| Held::of(matrix)).collect()
    }

    pub(crate) fn sources<'h>(&self, held: &'h [Held]) -> Vec<Source<'h, E>> {
        self.all().zip(held).map(|(matrix, held)| held.source(matrix)).collect()
    }

    /// Returns whether the kernel has a point to update.
    pub(crate) fn has_points(&self, kernel: &dyn Kernel<E>) -> bool {
        kernel.stencil().updated(self.field.shape()).elements() > 0
    }
}

/// Returns whether all matrices of a sweep are row-major.
pub(crate) fn are_row_major<E: Real>(arrays: &Arrays<'_, E>, result: Option<&Matrix<E>>) -> bool {
    arrays.all().map(|m| &**m).chain(result).all(|m| m.layout() == Layout::RowMajor)
}

/// Returns what decides the plan of a streamed sweep.
pub(crate) fn question_for<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    held: &[Held],
    result_on_file: bool,
    iterations: u64,
) -> Result<Question> {
    let file = held.iter().find_map(|h| match h {
        Held::File(file, start) => Some((file, *start)),
        Held::Memory => None,
    });
    // From the second pass on, the field is read from the result.
    let field = matches!(held.first(), Some(Held::File(..))) || (result_on_file && iterations > 1);
    let others = held.iter().skip(1).filter(|h| matches!(h, Held::File(..)));
    let on_file = usize::from(field) + others.count();
    Ok(Question {
        shape: arrays.field.shape(),
        value: E::BYTES,
        arrays: 1 + kernel.coefficients(),
        on_file,
        result_on_file,
        lanes: settings.lanes,
        stencil: kernel.stencil(),
        iterations,
        converges: settings.tolerance.is_some(),
        depth: settings.depth,
        threads: settings.processors() as usize,
        memory: settings.memory,
        cache: cache_bytes(),
        disk: file.and_then(|(file, start)| rate_of(file, start, settings.memory).ok()),
    })
}

/// Returns the bytes per second of the disk, measured by a short read, in at most half of the
/// memory.
pub(crate) fn rate_of(file: &DirectFile, start: u64, memory: u64) -> Result<f64> {
    let len = file.len()?.saturating_sub(start).min(memory / 2).min(PROBE) as usize;
    let range = StridedRun { start: start as usize, len, pitch: len, count: 1 };
    Ok(syncline_store::probe::read(file, range)?.rate())
}

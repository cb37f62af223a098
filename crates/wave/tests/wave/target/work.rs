//! A sweep on files, with several passes. The tests of `syncline-blocks` include this file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use syncline_store::{
    Layout, Matrix, Shape,
    generation::{Generations, Leftover},
};
use syncline_wave::{
    Error, Runner, Sweep, SweepReport,
    kernels::Sor,
    lanes::Lanes,
    monitor::Monitor,
    target::{Leftovers, Pending, Target},
};

use crate::common::{Data, Place, same, values};
use crate::kernels::Hooked;

pub(crate) const KERNEL: Sor = Sor::gauss_seidel();

type Outcome = Result<(Pending, SweepReport), Error>;

/// The settings of a sweep; the result does not depend on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) iterations: u64,
    pub(crate) depth: u64,
    pub(crate) threads: usize,
    pub(crate) lanes: Lanes,
}

/// Three passes.
pub(crate) const THREE: How = How { iterations: 6, depth: 2, threads: 2, lanes: Lanes::Scalar };

impl How {
    pub(crate) fn sweep<K>(self, kernel: K) -> Sweep<K> {
        let sweep = Sweep::new(kernel).iterations(self.iterations).depth(self.depth);
        sweep.runner(Runner::pool(self.threads)).lanes(self.lanes)
    }
}

/// An input on file, and a place for the result.
pub(crate) struct Work {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) data: Data<f64, 1>,
    pub(crate) field: Arc<Matrix>,
    pub(crate) coefficients: [Arc<Matrix>; 1],
    pub(crate) path: PathBuf,
}

impl Work {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = Data::new(seed, shape);
        let (field, coefficients) = data.at(&[Place::Npy(8), Place::Raw], folder.path());
        let path = folder.path().join("out.npy");
        Work { data, field, coefficients, path, folder }
    }

    /// Creates the files of a run of three passes that was interrupted in the last.
    pub(crate) fn interrupted(shape: Shape) -> Self {
        let work = Self::new(1, shape);
        let at = work.calls(THREE) * 5 / 6;
        let outcome = work.interrupt(THREE, at);
        assert!(matches!(outcome, Err(Error::Cancelled { iteration: 4 })), "{outcome:?}");
        work
    }

    pub(crate) fn target(&self, leftovers: Leftovers) -> Target {
        Target::npy(&self.path).leftovers(leftovers).describe("kernel", "gauss-seidel")
    }

    pub(crate) fn run(&self, how: How, leftovers: Leftovers) -> Outcome {
        how.sweep(KERNEL).run_to(&self.field, &self.coefficients, &self.target(leftovers))
    }

    /// Tries to resume, and returns the message of the refusal.
    pub(crate) fn refusal(&self, how: How, target: &Target) -> String {
        let (leftover, result) = (self.leftover(), std::fs::read(&self.path).ok());
        let outcome = how.sweep(KERNEL).run_to(&self.field, &self.coefficients, target);
        assert_eq!(format!("{leftover:?}"), format!("{:?}", self.leftover()), "it was changed");
        assert!(result == std::fs::read(&self.path).ok(), "the result was changed");
        outcome.unwrap_err().to_string()
    }

    /// Cancels the sweep in its `at`th update, counted from 1.
    pub(crate) fn interrupt(&self, how: How, at: u64) -> Outcome {
        let monitor = Arc::new(Monitor::new());
        let cancel = Arc::clone(&monitor);
        let kernel = Hooked::new(at, move || cancel.cancel());
        let sweep = how.sweep(kernel).monitor(monitor);
        sweep.run_to(&self.field, &self.coefficients, &self.target(Leftovers::Refuse))
    }

    /// Returns the number of updates of the whole sweep; some are of points at the edge.
    pub(crate) fn calls(&self, how: How) -> u64 {
        let kernel = Hooked::new(0, || ());
        let at = Arc::clone(&kernel.at);
        let sweep = how.sweep(kernel);
        let result = Matrix::zeros(self.data.shape, Layout::RowMajor).unwrap();
        sweep.run(&self.field, &self.coefficients, result).unwrap();
        at.load(Relaxed).wrapping_neg()
    }

    pub(crate) fn beside(&self) -> PathBuf {
        self.folder.path().join("out.npy.syncline")
    }

    pub(crate) fn leftover(&self) -> Leftover {
        Generations::leftover(&self.path).unwrap()
    }

    /// Checks that the committed result is that of the plain loop, and that no other file is left.
    pub(crate) fn finish(&self, pending: Pending, iterations: u64) -> Result<(), TestCaseError> {
        pending.commit().unwrap();
        let expected = self.data.plain(&KERNEL, iterations);
        same(&values(&Matrix::open(&self.path).unwrap()), &expected, self.data.shape.cols)?;
        prop_assert!(!self.beside().exists());
        Ok(())
    }
}

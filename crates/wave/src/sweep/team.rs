//! Sweeps on a team.

use std::sync::Arc;

use syncline_fabric::Member;
use syncline_store::Matrix;

use super::{Settings, Sweep, SweepReport};
use crate::dynamic::Kernel;
use crate::kernel::Typed;
use crate::lanes::Real;
use crate::streamed::{self, Arrays, Target};
use crate::{Error, PointKernel, Result};

impl Settings {
    pub(crate) fn run_on<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        target: &Target,
        me: &mut Member,
    ) -> Result<SweepReport> {
        let checked = self.check_for_team(kernel, arrays, None);
        streamed::on_team(self, kernel, arrays, target, checked, me)
    }

    pub(crate) fn gather_on<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
        me: &mut Member,
    ) -> Result<(Matrix<E>, SweepReport)> {
        let checked = self.check_for_team(kernel, arrays, Some(&result));
        streamed::gather_on_team(self, kernel, arrays, result, checked, me)
    }

    fn check_for_team<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Option<&Matrix<E>>,
    ) -> Result<()> {
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(result)?;
        if streamed::streamable(self, arrays, result) {
            return Ok(());
        }
        let (what, instead) = ("a sweep in blocks", "run it in one process, or streamed");
        Err(Error::NotOnTeam { what, instead })
    }
}

impl<K> Sweep<K> {
    /// Runs the sweep on a team, from `field` into a file that is either complete or absent: the
    /// members share the columns of the matrix. The result has the bits of [`run`](Sweep::run).
    ///
    /// Inputs on file and the target are files that all members can open; they may be on several
    /// hosts. Inputs in memory are whole matrices with the same values in every member. Each member
    /// computes with the threads of its runner, and holds its [`memory`](Sweep::memory) at most.
    ///
    /// A hidden file beside the target holds the result until all members have written their part.
    /// Of several passes, each checks the values that it reads of the file of the pass before. A
    /// run that fails leaves nothing; the next run for the same target removes the hidden file of
    /// one that was killed.
    ///
    /// # Collective
    /// All members call it, with the same sweep, inputs and target.
    ///
    /// # Errors
    /// As [`run_to`](Sweep::run_to). All members return an error if one does: of a failure at
    /// another member [`Error::Elsewhere`]. [`Error::Fault`] if a member is dead or has left,
    /// [`Error::Members`] if the columns are too few, [`Error::NotOnTeam`] for a tolerance, and if
    /// the target says [`Leftovers::Resume`](crate::streamed::Leftovers) and there is something to
    /// resume.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use syncline_fabric::Team;
    /// use syncline_store::{Matrix, Shape};
    /// use syncline_wave::{Error, Sweep, kernels::Sor, target::Target};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("u.npy");
    /// // Two hosts, as far as the members can tell.
    /// let reports = Team::hosts(2).quiet().run(|me| {
    ///     let field = Arc::new(Matrix::from_vec(Shape::new(99, 400), vec![1.0; 39_600])?);
    ///     let sweep = Sweep::new(Sor::gauss_seidel()).iterations(6).depth(2);
    ///     sweep.run_on(me, &field, &[], &Target::npy(&path))
    /// })?;
    /// assert!(reports.into_iter().all(|report| report.unwrap().iterations == 6));
    /// assert_eq!(Matrix::<f64>::open(&path)?.shape(), Shape::new(99, 400));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_on<T: Real, const N: usize>(
        &self,
        me: &mut Member,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        target: &Target,
    ) -> Result<SweepReport>
    where
        K: PointKernel<N>,
    {
        self.settings.run_on(&Typed(&self.kernel), &Arrays { field, coefficients }, target, me)
    }

    /// Runs the sweep on a team, from `field` into the matrix in memory of each member, which is
    /// given back: every member has the whole result. It has the bits of [`run`](Sweep::run).
    ///
    /// The inputs are those of [`run_on`](Sweep::run_on). Final rows travel while the sweep runs,
    /// in one message for each band, member or group of members, and other host. Matrices in memory
    /// do not count as [`memory`](Sweep::memory); a sweep of several passes takes another matrix.
    /// The contents of the results are unspecified after an error.
    ///
    /// # Collective
    /// All members call it, with the same sweep and inputs.
    ///
    /// # Errors
    /// As [`run_on`](Sweep::run_on), without those of files; [`Error::NotOnTeam`] if the result of
    /// a member is not row-major in memory.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use syncline_fabric::Team;
    /// use syncline_store::{Matrix, Shape};
    /// use syncline_wave::{Error, Sweep, kernels::Sor};
    ///
    /// let shape = Shape::new(99, 400);
    /// // Two hosts, as far as the members can tell.
    /// let results = Team::hosts(2).quiet().run(|me| {
    ///     let field = Arc::new(Matrix::from_vec(shape, vec![1.0; 39_600])?);
    ///     let result = Matrix::from_vec(shape, vec![0.0; 39_600])?;
    ///     let sweep = Sweep::new(Sor::gauss_seidel()).iterations(6);
    ///     let (result, _) = sweep.gather_on(me, &field, &[], result)?;
    ///     Ok::<_, Error>(result.as_slice().map(<[f64]>::to_vec))
    /// })?;
    /// let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    /// assert_eq!(results[0], results[1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gather_on<T: Real, const N: usize>(
        &self,
        me: &mut Member,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)>
    where
        K: PointKernel<N>,
    {
        self.settings.gather_on(&Typed(&self.kernel), &Arrays { field, coefficients }, result, me)
    }
}

//! Sweeps on a team.

use std::sync::Arc;

use syncline_fabric::Member;
use syncline_kernel::dynamic::Kernel;
use syncline_store::Matrix;
use syncline_store::array::{Array, ArraySource};

use super::arrays::{check, input};
use super::matrices::{Arrays, are_row_major, row_major};
use super::{Settings, Sweep, SweepReport};
use crate::lanes::Real;
use crate::run::fields::Input;
use crate::run::target::Target;
use crate::team::OnTeam;
use crate::team::kernel::{Computes, StripKernel};
use crate::{Described, Error, PointKernel, Result};

impl Settings {
    /// Checks that a sweep can run on a team.
    pub(super) fn check_for_team<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Option<&Matrix<E>>,
    ) -> Result<()> {
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(result)?;
        if are_row_major(arrays, result) && self.check_streamed().is_ok() {
            return Ok(());
        }
        let (what, instead) = ("a sweep in blocks", "run it in one process, or streamed");
        Err(Error::NotOnTeam { what, instead })
    }
}

/// Runs a sweep into a file, on a team; all members call it. `checked` is what a member has found
/// wrong with its arguments.
pub(super) fn run<E: Real>(
    settings: &Settings,
    kernel: &Arc<dyn Kernel<E> + '_>,
    arrays: &Arrays<'_, E>,
    target: &Target,
    checked: Result<()>,
    me: &mut Member,
) -> Result<SweepReport> {
    let (sources, checked) = sources(arrays, checked);
    let inputs: Vec<_> = sources.iter().map(input).collect();
    let kernel = Computes::Strips(kernel);
    OnTeam { kernel, inputs: &inputs, settings }.run(target, checked, me)
}

/// Runs a sweep into a matrix in the memory of each member, on a team; all members call it, with
/// what a member has found wrong with its arguments.
pub(super) fn gather<E: Real>(
    settings: &Settings,
    kernel: &Arc<dyn Kernel<E> + '_>,
    arrays: &Arrays<'_, E>,
    result: Matrix<E>,
    checked: Result<()>,
    me: &mut Member,
) -> Result<(Matrix<E>, SweepReport)> {
    let (sources, checked) = sources(arrays, checked);
    let inputs: Vec<_> = sources.iter().map(input).collect();
    let name = result.name().to_owned();
    let (given, in_memory) = match result.into_array() {
        Ok(array) => (vec![array], Ok(())),
        Err(_) => {
            let what = "a result that is not row-major in memory";
            let instead = "give a target for a file, or a matrix in memory";
            (Vec::new(), Err(Error::NotOnTeam { what, instead }))
        }
    };
    let kernel = Computes::Strips(kernel);
    let checked = checked.and(in_memory);
    let on_team = OnTeam { kernel, inputs: &inputs, settings };
    let (mut fields, report) = on_team.gather(given, checked, me)?;
    let field = fields.pop().unwrap_or_else(|| unreachable!("a run has its fields"));
    Ok((Matrix::of_array(field)?.named(name), report))
}

/// Returns the elements of all matrices as arrays, and what is wrong with the arguments. A member
/// with wrong arguments takes part until all know of them.
fn sources<E: Real>(arrays: &Arrays<'_, E>, checked: Result<()>) -> (Vec<ArraySource>, Result<()>) {
    let sources = checked.and_then(|()| row_major(arrays, None));
    match sources {
        Ok(sources) => (sources, Ok(())),
        Err(error) => {
            let empty = Array::zeros(E::TYPE, &[1, 1]).map(ArraySource::Memory);
            (empty.into_iter().collect(), Err(error))
        }
    }
}

impl<K> Sweep<K> {
    /// Runs the sweep on a team, from `field` into a file that is either complete or absent: the
    /// members share the columns of the matrix. The result has the bits of [`run`](Sweep::run). A
    /// tolerance ends the sweep as in one process.
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
    /// # Errors As [`run_to`](Sweep::run_to). All members return an error if one does: of a failure
    /// at another member [`Error::Elsewhere`]. [`Error::Fault`] if a member is dead or has left,
    /// [`Error::Members`] if the columns are too few, [`Error::NotOnTeam`] if no point is updated,
    /// and if the target says [`Leftovers::Resume`](crate::target::Leftovers) and there is
    /// something to resume.
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
        T::executors(&self.settings).run_on(
            self.kernel.erased(),
            &Arrays { field, coefficients },
            target,
            me,
        )
    }

    /// Runs the sweep on a team, from `field` into the matrix in memory of each member, which is
    /// given back: every member has the whole result. It has the bits of [`run`](Sweep::run).
    ///
    /// The inputs are those of [`run_on`](Sweep::run_on). Between passes neighbours send the values
    /// at the cuts. Final values travel to all others while the last pass runs, or after it if
    /// there is a tolerance. Matrices in memory do not count as [`memory`](Sweep::memory); a sweep
    /// of several passes takes another matrix. The contents of the results are unspecified after an
    /// error.
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
        T::executors(&self.settings).gather_on(
            self.kernel.erased(),
            &Arrays { field, coefficients },
            result,
            me,
        )
    }
}

/// Sweeps over arrays on a team. Of kernels that read old values only, the members share the first
/// axis: rows in two dimensions, planes in three. Of all others they share the columns.
impl Sweep<Described> {
    /// Runs the sweep on a team, from arrays in memory or on file into new `.npy` files, one for
    /// each field. The result has the bits of [`run_arrays`](Sweep::run_arrays).
    ///
    /// Inputs on file and the target are files that all members can open; they may be on several
    /// hosts. Inputs in memory are whole arrays with the same values in every member. Each member
    /// computes with the threads of its runner, and holds its [`memory`](Sweep::memory) at most. A
    /// tolerance ends the sweep as in one process.
    ///
    /// Of kernels that read old values only, no values travel within a pass: at the cuts between
    /// members some updates are made twice. If no depth is given, they are at most an eighth. Of
    /// others the values at the cuts travel, band by band; where the columns of a member are
    /// narrow, passes have fewer iterations than [`depth`](Sweep::depth) says. In three dimensions
    /// their cuts lean, and each member reads whole planes. Of several passes, each checks the
    /// values that it reads of the files of the pass before.
    ///
    /// If the target says [`in_memory`](Target::in_memory) in all members, each reads its part of
    /// the arrays into memory first, and writes the result at the end. That memory does not count
    /// as [`memory`](Sweep::memory).
    ///
    /// Hidden files beside the target hold the result until all members have written their part. A
    /// run that fails leaves nothing; the next run for the same target removes the hidden files of
    /// one that was killed. Of several fields the files get their names together, as by
    /// [`Target::and`].
    ///
    /// # Collective
    /// All members call it, with the same sweep, inputs and target.
    ///
    /// # Errors
    /// As [`run_arrays_to`](Sweep::run_arrays_to). All members return an error if one does: of a
    /// failure at another member [`Error::Elsewhere`]. [`Error::Fault`] if a member is dead or has
    /// left, [`Error::Members`] if there are too few rows, planes or columns for the members,
    /// [`Error::NotOnTeam`] if the target says [`Leftovers::Resume`](crate::target::Leftovers) and
    /// there is something to resume.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_store::array::{Array, ArraySource};
    /// use syncline_wave::{Described, Sweep, target::Target};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("heat.npy");
    /// let heat = Described::parse(r#"
    ///     name = "heat"
    ///     field = "u"
    ///     update = "u = u + 0.2 * (old.n + old.s + old.e + old.w - 4 * u)"
    /// "#)?;
    /// let reports = Team::hosts(2).quiet().run(|me| {
    ///     let u = Array::from_vec(&[100, 60], vec![1.0; 6000])?;
    ///     let sweep = Sweep::new(heat.clone()).iterations(20).depth(5);
    ///     sweep.run_arrays_on(me, &[ArraySource::Memory(u)], &[], &Target::npy(&path))
    /// })?;
    /// assert!(reports.into_iter().all(|report| report.unwrap().passes == 4));
    /// assert_eq!(Array::open(&path)?.values(), Some(&[1.0; 6000][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_arrays_on(
        &self,
        me: &mut Member,
        fields: &[ArraySource],
        coefficients: &[ArraySource],
        target: &Target,
    ) -> Result<SweepReport> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(input).collect();
        let given = (fields.len(), coefficients.len());
        let checked = self.check_arrays(given, &inputs).and_then(|()| target.has(fields.len()));
        let strips = self.strips_for(&inputs, &checked);
        let kernel = self.computes(strips.as_deref());
        OnTeam { kernel, inputs: &inputs, settings: &self.settings }.run(target, checked, me)
    }

    /// Runs the sweep on a team, over arrays in the memory of each member: every member gets all
    /// fields. The result has the bits of [`run_arrays`](Sweep::run_arrays).
    ///
    /// The arrays are whole, with the same values in every member. Between passes neighbours send
    /// the values at the cuts, and at the end each member sends its part to all others: while the
    /// last pass runs, if there is no tolerance and the kernel is ordered.
    ///
    /// # Collective
    /// All members call it, with the same sweep and arrays.
    ///
    /// # Errors
    /// As [`run_arrays_on`](Self::run_arrays_on), without those of files.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_store::array::Array;
    /// use syncline_wave::{Described, Sweep};
    ///
    /// let life = Described::parse(r#"
    ///     name = "life"
    ///     field = "cell"
    ///     types = { cell = "uint8" }
    ///     overflow = "wrapping"
    ///     edges = 0
    ///     update = """
    ///     alive = old.nw + old.n + old.ne + old.w + old.e + old.sw + old.s + old.se
    ///     cell = if(alive == 3, 1, if(alive == 2, cell, 0))
    ///     """
    /// "#)?;
    /// let results = Team::threads(3).quiet().run(|me| {
    ///     let blinker = vec![0, 0, 0, 1, 1, 1, 0, 0, 0_u8];
    ///     let cells = Array::from_vec(&[3, 3], blinker)?;
    ///     let sweep = Sweep::new(life.clone()).iterations(3);
    ///     let (fields, _) = sweep.gather_arrays_on(me, &[cells], &[])?;
    ///     Ok::<_, syncline_wave::Error>(fields[0].values().map(<[u8]>::to_vec))
    /// })?;
    /// for cells in results {
    ///     assert_eq!(cells?, Some(vec![0, 1, 0, 0, 1, 0, 0, 1, 0]));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gather_arrays_on(
        &self,
        me: &mut Member,
        fields: &[Array],
        coefficients: &[Array],
    ) -> Result<(Vec<Array>, SweepReport)> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(Input::Memory).collect();
        let checked = self.check_arrays((fields.len(), coefficients.len()), &inputs);
        let strips = self.strips_for(&inputs, &checked);
        let kernel = self.computes(strips.as_deref());
        let on_team = OnTeam { kernel, inputs: &inputs, settings: &self.settings };
        on_team.gather(Vec::new(), checked, me)
    }

    /// Returns the kernel for strips over inputs that have been checked, if it needs no more.
    fn strips_for(
        &self,
        inputs: &[Input<'_>],
        checked: &Result<()>,
    ) -> Option<Box<dyn StripKernel + '_>> {
        if checked.is_err() || self.kernel.needs_arrays() {
            return None;
        }
        self.strips(inputs[0].element()).ok()
    }

    fn computes<'k>(&'k self, strips: Option<&'k (dyn StripKernel + 'k)>) -> Computes<'k> {
        strips.map_or(Computes::Rule(&self.kernel), Computes::Strips)
    }

    fn check_arrays(&self, given: (usize, usize), inputs: &[Input<'_>]) -> Result<()> {
        check(&self.kernel, given, inputs)?;
        self.settings.check(0, 0)
    }
}

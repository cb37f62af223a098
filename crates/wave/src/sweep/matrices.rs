//! Sweeps over matrices, streamed: runs over the same elements as arrays.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;

use syncline_kernel::dynamic::Kernel;
use syncline_store::array::ArraySource;
use syncline_store::generation::Identity;
use syncline_store::{Layout, Matrix};

use super::arrays::input;
use super::{IN_BLOCKS, Settings, SweepPlan, SweepReport};
use crate::engines::strips::ByStrips;
use crate::facts::{self, Data};
use crate::lanes::Real;
use crate::pass::buffers::Buffers;
use crate::run::computation::Computation;
use crate::run::fields::{Input, Output, failed};
use crate::run::keep::Keep;
use crate::run::machine::{cache_bytes, rate_of};
use crate::run::start::Start;
use crate::run::start::{Resumption, Taken};
use crate::run::target::{Pending, Target};
use crate::run::{Done, Run};
use crate::strip::plan::{Question, StreamPlan};
use crate::team::share::Share;
use crate::{Error, Result, Stencil};

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
}

/// Returns whether all matrices of a sweep are row-major.
pub(super) fn are_row_major<E: Real>(arrays: &Arrays<'_, E>, result: Option<&Matrix<E>>) -> bool {
    arrays.all().map(|m| &**m).chain(result).all(|m| m.layout() == Layout::RowMajor)
}

impl Settings {
    /// Returns the plan of strips over inputs, and the rate of the disk.
    pub(super) fn plan_strips(
        &self,
        stencil: Stencil,
        inputs: &[Input<'_>],
        (iterations, to_files): (u64, bool),
        disk: Option<f64>,
    ) -> Result<StreamPlan> {
        let is_file = |input: &Input<'_>| matches!(input, Input::File(_));
        // From the second pass on, the field is read from the result.
        let field = is_file(&inputs[0]) || to_files && iterations > 1;
        let others = inputs.iter().skip(1).filter(|input| is_file(input)).count();
        Question {
            shape: inputs[0].shape(),
            value: inputs[0].element().bytes(),
            arrays: inputs.len(),
            on_file: usize::from(field) + others,
            result_on_file: to_files,
            lanes: self.lanes,
            stencil,
            iterations,
            converges: self.tolerance.is_some(),
            depth: self.depth,
            threads: self.processors() as usize,
            memory: self.memory,
            cache: cache_bytes(),
            disk,
        }
        .narrowed()
        .answer()
    }

    /// Returns the rate of the disk that has the first input on file.
    pub(super) fn disk_of(&self, inputs: &[Input<'_>]) -> Option<f64> {
        let file = inputs.iter().find_map(|input| match input {
            Input::File(file) => Some(file.direct()),
            Input::Memory(_) => None,
        });
        file.and_then(|(file, start)| rate_of(file, start, self.memory).ok())
    }

    /// Returns the plan of a streamed sweep.
    fn plan_streamed<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        inputs: &[Input<'_>],
        what: (u64, bool),
        disk: Option<f64>,
    ) -> Result<StreamPlan> {
        let plan = self.plan_strips(kernel.stencil(), inputs, what, disk)?;
        let (dims, coefficients) = (inputs[0].dims(), inputs.len() - 1);
        let data = Data { dims, element: E::TYPE, coefficients, layout: Layout::RowMajor };
        facts::streamed(self, kernel.name(), &data, &SweepPlan::Streamed(plan), disk);
        Ok(plan)
    }
}

/// Returns the elements of all matrices as arrays.
fn sources<E: Real>(arrays: &Arrays<'_, E>) -> Result<Vec<ArraySource>> {
    let all = arrays.all().map(ArraySource::of_matrix);
    Ok(all.collect::<syncline_store::Result<_>>()?)
}

/// Like [`sources`], for a streamed sweep, which takes row-major matrices only.
pub(super) fn row_major<E: Real>(
    arrays: &Arrays<'_, E>,
    result: Option<&Matrix<E>>,
) -> Result<Vec<ArraySource>> {
    let mut all = arrays.all().map(|matrix| &**matrix).chain(result);
    match all.find(|matrix| matrix.layout() != Layout::RowMajor) {
        None => sources(arrays),
        Some(matrix) => Err(Error::NotStreamed {
            name: matrix.name().to_owned(),
            why: format!("it is not row-major; {IN_BLOCKS}"),
        }),
    }
}

/// Returns the plan of a streamed sweep into a matrix.
pub(super) fn plan<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    result: &Matrix<E>,
) -> Result<StreamPlan> {
    let sources = row_major(arrays, Some(result))?;
    let inputs: Vec<_> = sources.iter().map(input).collect();
    let what = (settings.iterations, result.file().is_some());
    settings.plan_streamed(kernel, &inputs, what, settings.disk_of(&inputs))
}

/// Runs a streamed sweep into a matrix.
pub(super) fn into_matrix<E: Real>(
    settings: &Settings,
    kernel: Arc<dyn Kernel<E> + '_>,
    arrays: &Arrays<'_, E>,
    result: Matrix<E>,
) -> Result<(Matrix<E>, SweepReport)> {
    let sources = row_major(arrays, Some(&result))?;
    let inputs: Vec<_> = sources.iter().map(input).collect();
    let (on_file, shape) = (result.file().is_some(), result.shape());
    let disk = settings.disk_of(&inputs);
    let plan = settings.plan_streamed(&*kernel, &inputs, (settings.iterations, on_file), disk)?;
    if settings.exact_stop && settings.tolerance.is_some() && on_file && plan.passes > 1 {
        return Err(Error::ExactStop);
    }
    let name = result.name().to_owned();
    let start = result.direct()?.map_or(0, |(_, start)| start);
    // A result in memory is given to the run, which writes to it.
    let (mut output, kept) = match result.into_array() {
        Ok(array) => (Output::Memory(vec![array]), None),
        Err(matrix) => match matrix.file() {
            None => (Output::Memory(Vec::new()), Some(matrix)),
            Some(file) => {
                let path = PathBuf::from(matrix.name());
                let file = file.try_clone().map_err(|source| failed("open", &path, source))?;
                (Output::InPlace(vec![(file, path)]), Some(matrix))
            }
        },
    };
    let scheme = Box::new(ByStrips::new(kernel, plan, shape, None));
    let share = Share::whole(shape.rows);
    let run = Run {
        scheme,
        inputs: &inputs,
        settings,
        npy: start > 0,
        share,
        team: None,
        gathers: false,
        buffers: Buffers::default(),
    };
    let report = run.run(&mut output, Done::default(), &[], &mut |_, _, _| Ok(()))?;
    let result = match (output, kept) {
        (Output::Memory(mut fields), None) => {
            let field = fields.pop().unwrap_or_else(|| unreachable!("a run has its fields"));
            Matrix::of_array(field)?.named(name)
        }
        (Output::Memory(fields), Some(mut matrix)) => {
            if let (Some(to), Some(field)) = (matrix.as_mut_slice(), fields.first()) {
                bytemuck::cast_slice_mut(to).copy_from_slice(field.bytes());
            }
            *matrix
        }
        (_, Some(matrix)) => *matrix,
        (_, None) => unreachable!("a run does not change the kind of its output"),
    };
    Ok((result, report))
}

/// Returns the computation of a sweep.
fn computation<'c>(
    settings: &'c Settings,
    inputs: &'c [Input<'c>],
    target: &'c Target,
) -> Computation<'c> {
    Computation { fields: 1, directions: 1, inputs, settings, target }
}

/// Runs a streamed sweep into a file that is either complete or absent, and that can resume after a
/// crash.
pub(super) fn into_target<E: Real>(
    settings: &Settings,
    kernel: &Arc<dyn Kernel<E> + '_>,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<(Pending, SweepReport)> {
    let (sources, disk) = (row_major(arrays, None)?, OnceCell::new());
    let inputs: Vec<_> = sources.iter().map(input).collect();
    let what = computation(settings, &inputs, target);
    let scheme = &|inputs: &[Input<'_>], iterations, to_files| {
        let disk = *disk.get_or_init(|| settings.disk_of(inputs));
        let plan = settings.plan_streamed(&**kernel, inputs, (iterations, to_files), disk)?;
        Ok(Box::new(ByStrips::new(Arc::clone(kernel), plan, inputs[0].shape(), None)) as Box<_>)
    };
    Keep { what, scheme }.run()
}

/// Returns the identity of the computation of a sweep into a target.
pub(crate) fn identity<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<Identity> {
    let sources = sources(arrays)?;
    let inputs: Vec<_> = sources.iter().map(input).collect();
    Ok(computation(settings, &inputs, target).identity())
}

/// Returns a description of the file that has the name of the target, if there is one.
pub(crate) fn taken<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<Option<Taken>> {
    let sources = sources(arrays)?;
    let inputs: Vec<_> = sources.iter().map(input).collect();
    computation(settings, &inputs, target).taken()
}

/// Returns the point where a sweep begins that has no passes, as one in blocks: at the first
/// iteration, after the result that has the name of `target`, or not at all.
///
/// # Errors
/// As [`Sweep::run_to`](crate::Sweep::run_to) about existing files; [`Error::Leftovers`] also if a
/// run by passes was interrupted.
pub fn resumption<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<Resumption> {
    let sources = sources(arrays)?;
    let inputs: Vec<_> = sources.iter().map(input).collect();
    let what = computation(settings, &inputs, target);
    let mut identity = what.identity();
    let (start, standing) = what.begin(&mut identity)?;
    let (made, is_complete) = match start {
        Start::Anew => (None, false),
        Start::After(made) => (Some(made), false),
        Start::Complete(made) => (Some(made), true),
        Start::From(generations) => {
            let done = generations.progress().map_or(0, |progress| progress.iterations);
            let found = format!("a streamed run that ended after {done} iterations");
            return Err(Error::Leftovers { path: target.path.clone(), found });
        }
    };
    Ok(Resumption { identity, made, is_complete, standing: standing.of_output(0).clone() })
}

//! Sweeps over arrays: of descriptions of any kind.

use std::sync::Arc;

use syncline_kernel::dynamic::{Dynamic, Kernel};
use syncline_kernel::rule::Type;
use syncline_kernel::rule::three;
use syncline_store::array::{Array, ArraySource};
use syncline_store::{ElementType, Layout};

use super::{Sweep, SweepPlan, SweepReport};
use crate::engines::strips::ByStrips;
use crate::facts::{self, Data};
use crate::pass::buffers::Buffers;
use crate::run::computation::Computation;
use crate::run::fields::{Input, Output};
use crate::run::keep::Keep;
use crate::run::machine::cache_bytes;
use crate::run::plan::{Question, around, deepest};
use crate::run::scheme::{BySlabs, Scheme};
use crate::run::target::{Pending, Target};
use crate::run::{Done, Run};
use crate::team::kernel::StripKernel;
use crate::team::share::Share;
use crate::{Described, Error, Result};

/// Returns the plan for inputs, a number of iterations, and a result in files or not.
type Planner<'p> = dyn Fn(&[Input<'_>], u64, bool) -> Result<SweepPlan> + 'p;

/// An array that a sweep reads: an [`Array`], or an [`ArraySource`], which may be a file.
pub trait AsInput {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn input(&self) -> Input<'_>;
}

impl AsInput for Array {
    #[allow(private_interfaces)]
    fn input(&self) -> Input<'_> {
        Input::Memory(self)
    }
}

impl AsInput for ArraySource {
    #[allow(private_interfaces)]
    fn input(&self) -> Input<'_> {
        input(self)
    }
}

/// Sweeps over arrays: several fields, any types, two or three dimensions, any edges and
/// directions.
///
/// The fields come in the order of [`Described::fields`], and the coefficients in that of
/// [`Described::coefficients`]. All arrays have the same dimensions, and the types that the
/// description gives; without types, all are float64 or all are float32. The result has the bits of
/// the plain loop, [`plain_arrays`](crate::reference::plain_arrays).
impl Sweep<Described> {
    /// Runs the sweep over arrays, each an [`Array`] in memory or an [`ArraySource`], which may be
    /// a file; returns the fields after all iterations, in memory. Arrays on file may be larger
    /// than memory, but for the fields.
    ///
    /// # Errors
    /// [`Error::Fields`], [`Error::Coefficients`], [`Error::ArrayType`], [`Error::Dimensions`] and
    /// [`Error::ArrayShape`] if the arrays are not those of the kernel; [`Error::StreamMemory`] if
    /// the memory is not enough for the buffers; [`Error::Cancelled`].
    ///
    /// ```
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
    /// let blinker = vec![0, 0, 0, 1, 1, 1, 0, 0, 0_u8];
    /// let cells = Array::from_vec(&[3, 3], blinker)?;
    /// let (fields, _) = Sweep::new(life).iterations(3).run_arrays(&[cells], &[])?;
    /// assert_eq!(fields[0].values(), Some(&[0, 1, 0, 0, 1, 0, 0, 1, 0_u8][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_arrays<A: AsInput>(
        &self,
        fields: &[A],
        coefficients: &[A],
    ) -> Result<(Vec<Array>, SweepReport)> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(AsInput::input).collect();
        let given = (fields.len(), coefficients.len());
        let plan = self.plan_of(given, &inputs, self.settings.iterations, false)?;
        self.run_inputs(&inputs, plan)
    }

    /// Runs the sweep from arrays in memory or on file into new `.npy` files, one for each field.
    /// Arrays on file may be larger than memory.
    ///
    /// The target has a file for each field ([`Target::and`]). If the sweep takes several passes
    /// from files to files, each is committed: a sweep that is interrupted continues after the last
    /// of them with [`Leftovers::Resume`](crate::target::Leftovers::Resume), and a complete result
    /// can be continued with more iterations.
    ///
    /// # Errors
    /// As for [`run_arrays`](Self::run_arrays); [`Error::Fields`] also if the target has another
    /// number of files; [`Error::Leftovers`], [`Error::Taken`] and [`Error::Fewer`], depending on
    /// what earlier runs have left and the target's policy;
    /// [`InputChanged`](syncline_store::Error::InputChanged) if an array's file was written to
    /// while the sweep ran; errors of the files.
    ///
    /// ```
    /// use syncline_store::array::{Array, ArraySource};
    /// use syncline_wave::target::{Leftovers, Target};
    /// use syncline_wave::{Described, Sweep};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let (up, down) = (folder.path().join("up.npy"), folder.path().join("down.npy"));
    /// let both = Described::parse(r#"
    ///     name = "both"
    ///     fields = ["up", "down"]
    ///     update = """
    ///     up = up + 1
    ///     down = down - 1
    ///     """
    /// "#)?;
    /// let zeros = Array::from_vec(&[2, 2], vec![0.0; 4])?;
    /// let fields = [ArraySource::Memory(zeros.clone()), ArraySource::Memory(zeros)];
    /// let target = Target::npy(&up).and(&down).leftovers(Leftovers::Resume);
    /// let sweep = Sweep::new(both).iterations(5).depth(2);
    /// let (result, _) = sweep.run_arrays_to(&fields, &[], &target)?;
    /// result.commit()?;
    /// assert_eq!(Array::open(&down)?.values(), Some(&[-5.0; 4][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_arrays_to(
        &self,
        fields: &[ArraySource],
        coefficients: &[ArraySource],
        target: &Target,
    ) -> Result<(Pending, SweepReport)> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(input).collect();
        let given = (fields.len(), coefficients.len());
        check(&self.kernel, given, &inputs)?;
        target.has(fields.len())?;
        let plan = |inputs: &[Input<'_>], iterations, to_files| {
            self.plan_of(given, inputs, iterations, to_files)
        };
        self.run_to_files(&inputs, target, &plan)
    }

    /// Returns the plan of [`run_arrays_to`](Self::run_arrays_to), or, if `to_files` is false, of a
    /// run into memory.
    ///
    /// # Errors
    /// As for [`run_arrays`](Self::run_arrays).
    pub fn plan_arrays(
        &self,
        fields: &[ArraySource],
        coefficients: &[ArraySource],
        to_files: bool,
    ) -> Result<SweepPlan> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(input).collect();
        let given = (fields.len(), coefficients.len());
        let plan = self.plan_of(given, &inputs, self.settings.iterations, to_files)?;
        Ok(plan)
    }

    pub(crate) fn run_inputs(
        &self,
        inputs: &[Input<'_>],
        plan: SweepPlan,
    ) -> Result<(Vec<Array>, SweepReport)> {
        let (scheme, settings) = (self.scheme(inputs, plan)?, &self.settings);
        let share = Share::whole(inputs[0].dims()[0]);
        let mut output = Output::Memory(Vec::new());
        let report = Run {
            scheme,
            inputs,
            settings,
            npy: true,
            share,
            team: None,
            gathers: false,
            buffers: Buffers::default(),
        }
        .run(&mut output, Done::default(), &[], &mut |_, _, _| Ok(()))?;
        match output {
            Output::Memory(fields) => Ok((fields, report)),
            _ => unreachable!("a run does not change the kind of its output"),
        }
    }

    pub(crate) fn run_to_files(
        &self,
        inputs: &[Input<'_>],
        target: &Target,
        plan: &Planner<'_>,
    ) -> Result<(Pending, SweepReport)> {
        let (rule, settings) = (self.kernel.rule(), &self.settings);
        let (fields, directions) = (rule.fields, rule.directions.len());
        let what = Computation { fields, directions, inputs, settings, target };
        let scheme = &|inputs: &[Input<'_>], iterations, to_files| {
            self.scheme(inputs, plan(inputs, iterations, to_files)?)
        };
        Keep { what, scheme }.run()
    }

    /// Returns what runs the plan.
    fn scheme(&self, inputs: &[Input<'_>], plan: SweepPlan) -> Result<Box<dyn Scheme + '_>> {
        let plan = match plan {
            SweepPlan::Streamed(plan) => plan,
            SweepPlan::Arrays(plan) => {
                let (rule, lanes) = (self.kernel.rule(), self.settings.lanes);
                return Ok(Box::new(BySlabs { rule, plan, lanes, team: None }));
            }
        };
        let shape = inputs[0].shape();
        Ok(match inputs[0].element() {
            ElementType::Float32 => {
                Box::new(ByStrips::<f32>::new(self.kernel.kernel()?.into(), plan, shape, None))
            }
            _ => Box::new(ByStrips::<f64>::new(self.kernel.kernel()?.into(), plan, shape, None)),
        })
    }

    /// Returns the kernel over strips of elements of this type.
    pub(super) fn strips(&self, element: ElementType) -> Result<Box<dyn StripKernel + '_>> {
        Ok(match element {
            ElementType::Float32 => Box::new(Arc::<dyn Kernel<f32>>::from(self.kernel.kernel()?)),
            _ => Box::new(Arc::<dyn Kernel<f64>>::from(self.kernel.kernel()?)),
        })
    }

    /// Checks the arrays and the settings, and returns the plan.
    fn plan_of(
        &self,
        given: (usize, usize),
        inputs: &[Input<'_>],
        iterations: u64,
        to_files: bool,
    ) -> Result<SweepPlan> {
        let (rule, settings) = (self.kernel.rule(), &self.settings);
        check(&self.kernel, given, inputs)?;
        settings.check(0, 0)?;
        let elements: Vec<_> = inputs.iter().map(Input::element).collect();
        let on_file: Vec<bool> =
            inputs.iter().map(|input| matches!(input, Input::File(_))).collect();
        let disk = settings.disk_of(inputs);
        if !self.kernel.needs_arrays() {
            let what = (iterations, to_files);
            let plan = settings.plan_strips(rule.touching(), inputs, what, disk)?;
            return Ok(self.noted(inputs, SweepPlan::Streamed(plan), disk));
        }
        let dims = three(inputs[0].dims());
        let plan = Question {
            rule,
            members: 1,
            together: 1,
            dims,
            elements: &elements,
            on_file: &on_file,
            result_on_file: to_files,
            copied: false,
            iterations,
            converges: settings.tolerance.is_some(),
            depth: settings.depth,
            deepest: deepest(rule, dims[0]),
            threads: settings.processors() as usize,
            flight: None,
            around: around(rule),
            memory: settings.memory,
            cache: cache_bytes(),
            disk,
        };
        Ok(self.noted(inputs, SweepPlan::Arrays(plan.answer()?), disk))
    }

    /// Notes a plan in traces.
    fn noted(&self, inputs: &[Input<'_>], plan: SweepPlan, disk: Option<f64>) -> SweepPlan {
        let (dims, element) = (inputs[0].dims(), inputs[0].element());
        let coefficients = inputs.len() - self.kernel.rule().fields;
        let data = Data { dims, element, coefficients, layout: Layout::RowMajor };
        facts::streamed(&self.settings, self.kernel.name(), &data, &plan, disk);
        plan
    }
}

pub(super) fn input(source: &ArraySource) -> Input<'_> {
    match source {
        ArraySource::Memory(array) => Input::Memory(array),
        ArraySource::File(file) => Input::File(file),
    }
}

/// Checks that the arrays are those of the kernel, and that its functions have code.
pub(crate) fn check(
    kernel: &Described,
    (fields, coefficients): (usize, usize),
    inputs: &[Input<'_>],
) -> Result<()> {
    kernel.has_functions()?;
    let rule = kernel.rule();
    if fields != rule.fields {
        return Err(Error::Fields { expected: rule.fields, given: fields });
    }
    let expected = rule.arrays.len() - rule.fields;
    if coefficients != expected {
        return Err(Error::Coefficients { expected, given: coefficients });
    }
    let real = rule.real_of(inputs.iter().map(Input::element));
    for ((name, value), input) in rule.arrays.iter().zip(inputs) {
        let (dims, first, actual) = (input.dims(), inputs[0].dims(), input.element());
        let wrong = match value {
            Type::Of(element) => (actual != *element).then(|| element.name().to_owned()),
            _ if !ElementType::REAL.contains(&real) => {
                Some("float64 or float32, as the description has no [types]".to_owned())
            }
            _ => (actual != real).then(|| real.name().to_owned()),
        };
        if let Some(expected) = wrong {
            return Err(Error::ArrayType { name: name.clone(), actual, expected });
        }
        if dims.len() != rule.dimensions {
            let (actual, expected) = (dims.len(), rule.dimensions);
            return Err(Error::Dimensions { name: name.clone(), actual, expected });
        }
        if dims != first {
            let (actual, expected) = (dims.to_vec(), first.to_vec());
            return Err(Error::ArrayShape { name: name.clone(), actual, expected });
        }
    }
    match kernel.functions().next() {
        Some((function, _)) if real != ElementType::Float64 => Err(Error::Function {
            kernel: kernel.name().to_owned(),
            function: function.to_owned(),
            why: format!("it takes float64, but the arrays are {real}"),
        }),
        _ => Ok(()),
    }
}

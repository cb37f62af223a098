//! Sweeps over arrays: of descriptions of any kind.

use std::path::PathBuf;

use syncline_store::array::{Array, ArraySource};
use syncline_store::{ElementType, NewFile};

use super::{Settings, Sweep, SweepPlan, SweepReport};
use crate::described::graph::Type;
use crate::plan::ArrayPlan;
use crate::rule::plan::Question;
use crate::rule::run::{Fields, Input, Run, three};
use crate::streamed::{cache_bytes, rate_of};
use crate::{Described, Error, Result};

/// Sweeps over arrays: several fields, any types, two or three dimensions, any edges and
/// directions.
///
/// The fields come in the order of [`Described::fields`], and the coefficients in that of
/// [`Described::coefficients`]. All arrays have the same dimensions, and the types that the
/// description gives; without types, all are float64 or all are float32. The result has the bits of
/// the plain loop, [`plain_arrays`](crate::reference::plain_arrays).
impl Sweep<Described> {
    /// Runs the sweep over arrays in memory; returns the fields after all iterations.
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
    pub fn run_arrays(
        &self,
        fields: &[Array],
        coefficients: &[Array],
    ) -> Result<(Vec<Array>, SweepReport)> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(Input::Memory).collect();
        let plan = self.plan_of((fields.len(), coefficients.len()), &inputs, false)?;
        match self.run_inputs(&inputs, plan, None)? {
            (Fields::Memory(fields), report) => Ok((fields, report)),
            (Fields::Files(_), _) => unreachable!("a run without targets is one in memory"),
        }
    }

    /// Runs the sweep from arrays in memory or on file into new `.npy` files, one for each field.
    /// Arrays on file may be larger than memory. The files are returned without their names, which
    /// they get by [`NewFile::commit`].
    ///
    /// # Errors
    /// As for [`run_arrays`](Self::run_arrays); errors of the files.
    pub fn run_arrays_to(
        &self,
        fields: &[ArraySource],
        coefficients: &[ArraySource],
        targets: &[PathBuf],
    ) -> Result<(Vec<NewFile>, SweepReport)> {
        let inputs: Vec<_> = fields.iter().chain(coefficients).map(input).collect();
        if targets.len() != fields.len() {
            return Err(Error::Fields { expected: fields.len(), given: targets.len() });
        }
        let plan = self.plan_of((fields.len(), coefficients.len()), &inputs, true)?;
        match self.run_inputs(&inputs, plan, Some(targets))? {
            (Fields::Files(files), report) => Ok((files, report)),
            (Fields::Memory(_), _) => unreachable!("a run with targets is one into files"),
        }
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
        let plan = self.plan_of((fields.len(), coefficients.len()), &inputs, to_files)?;
        Ok(SweepPlan::Arrays(plan))
    }

    pub(crate) fn run_inputs(
        &self,
        inputs: &[Input<'_>],
        plan: ArrayPlan,
        targets: Option<&[PathBuf]>,
    ) -> Result<(Fields, SweepReport)> {
        let (rule, settings) = (self.kernel.rule(), &self.settings);
        Run { rule, inputs, settings, plan, targets }.run()
    }

    /// Checks the arrays and the settings, and returns the plan.
    fn plan_of(
        &self,
        given: (usize, usize),
        inputs: &[Input<'_>],
        to_files: bool,
    ) -> Result<ArrayPlan> {
        let (rule, settings) = (self.kernel.rule(), &self.settings);
        check(&self.kernel, given, inputs)?;
        settings.check(0, 0)?;
        let elements: Vec<_> = inputs.iter().map(Input::element).collect();
        let on_file: Vec<bool> =
            inputs.iter().map(|input| matches!(input, Input::File(_))).collect();
        let file = inputs.iter().find_map(|input| match input {
            Input::File(file) => Some(file.direct()),
            Input::Memory(_) => None,
        });
        let Settings { iterations, depth, memory, .. } = *settings;
        Question {
            rule,
            dims: three(inputs[0].dims()),
            elements: &elements,
            on_file: &on_file,
            result_on_file: to_files,
            iterations,
            converges: settings.tolerance.is_some(),
            depth,
            threads: settings.processors() as usize,
            memory,
            cache: cache_bytes(),
            disk: file.and_then(|(file, start)| rate_of(file, start, memory).ok()),
        }
        .answer()
    }
}

fn input(source: &ArraySource) -> Input<'_> {
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
            _ if !real.is_real() => {
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
    match rule.functions.first() {
        Some(function) if real != ElementType::Float64 => Err(Error::Function {
            kernel: kernel.name().to_owned(),
            function: function.name.clone(),
            why: format!("it takes float64, but the arrays are {real}"),
        }),
        _ => Ok(()),
    }
}

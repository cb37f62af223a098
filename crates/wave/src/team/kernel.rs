//! What the members of a team have to know of a kernel, whatever computes it.
//!
//! # Contract
//! Two kernels are the same if they compute the same: each member updates the points of small
//! arrays of fixed values, and describes the kernel by a checksum of the result. So kernels of all
//! kinds, and their parameters, are compared. A kernel whose result depends on anything but its
//! operands is not found out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use syncline_kernel::dynamic::{Kernel, PlainPoints};
use syncline_kernel::rule::plain::plain;
use syncline_store::array::{Array, Half};
use syncline_store::checksum::Checksum;
use syncline_store::{ElementType, Shape};

use crate::engines::strips::ByStrips;
use crate::lanes::Real;
use crate::run::fields::Input;
use crate::run::scheme::Scheme;
use crate::strip::plan::StreamPlan;
use crate::{Described, Stencil};

/// The length of the small arrays, along each axis.
const SIDE: usize = 8;

/// What computes on a team.
#[derive(Clone, Copy)]
pub(crate) enum Computes<'k> {
    /// A description, over slabs or columns of arrays.
    Rule(&'k Described),
    /// A kernel over strips.
    Strips(&'k dyn StripKernel),
}

/// A kernel over strips, whose type is that of its arrays.
pub(crate) trait StripKernel {
    fn name(&self) -> &str;

    fn stencil(&self) -> Stencil;

    /// Returns a checksum of what the kernel computes from fixed values.
    fn probe(&self) -> u64;

    /// Returns what computes by a plan, as this one of the members of a team.
    fn scheme(
        &self,
        plan: StreamPlan,
        shape: Shape,
        team: Option<(usize, usize)>,
    ) -> Box<dyn Scheme + '_>;
}

impl<E: Real> StripKernel for Arc<dyn Kernel<E> + '_> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn stencil(&self) -> Stencil {
        (**self).stencil()
    }

    fn probe(&self) -> u64 {
        let value = |n: usize| E::from_f64(number(n + 1));
        let mut field: Vec<E> = (0..SIDE * SIDE).map(value).collect();
        let inner = SIDE - 2;
        let coefficient =
            |c: usize| (0..inner * inner).map(|n| value(1000 * (c + 1) + n)).collect();
        let coefficients: Vec<Vec<E>> = (0..self.coefficients()).map(coefficient).collect();
        let points = PlainPoints { first: SIDE + 1, pitch: SIDE, rows: inner, cols: inner };
        let update = AssertUnwindSafe(|| self.plain(&mut field, &coefficients, points));
        if catch_unwind(update).is_err() {
            // It panics in the sweep as well, which reports the panic.
            return 0;
        }
        let mut sum = Checksum::new();
        for value in field {
            sum.update(&value.to_f64().to_bits().to_le_bytes());
        }
        sum.value()
    }

    fn scheme(
        &self,
        plan: StreamPlan,
        shape: Shape,
        team: Option<(usize, usize)>,
    ) -> Box<dyn Scheme + '_> {
        Box::new(ByStrips::new(Arc::clone(self), plan, shape, team))
    }
}

impl Computes<'_> {
    /// Returns the number of fields, which are the first of the arrays.
    pub(super) fn fields(&self) -> usize {
        match self {
            Computes::Rule(described) => described.rule().fields,
            Computes::Strips(_) => 1,
        }
    }

    /// Returns the number of iterations after which their directions repeat.
    pub(super) fn directions(&self) -> usize {
        match self {
            Computes::Rule(described) => described.rule().directions.len(),
            Computes::Strips(_) => 1,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Computes::Rule(described) => described.name(),
            Computes::Strips(kernel) => kernel.name(),
        }
    }

    /// Returns a checksum of what the kernel computes from fixed values.
    pub(super) fn probe(&self, inputs: &[Input<'_>]) -> u64 {
        match self {
            Computes::Rule(described) => probe(described, inputs),
            Computes::Strips(kernel) => kernel.probe(),
        }
    }
}

/// Returns one of the fractional parts of the multiples of the golden ratio, of which no two are
/// equal.
fn number(n: usize) -> f64 {
    (0.618_033_988_749_895 * n as f64).fract()
}

/// Returns a checksum of what a description computes from fixed values, over arrays like these.
fn probe(described: &Described, inputs: &[Input<'_>]) -> u64 {
    let rule = described.rule();
    let arrays = inputs.iter().enumerate().map(|(n, input)| {
        let element = input.element();
        let mut array = Array::zeros(element, &vec![SIDE; input.dims().len()]).ok()?;
        let numbers = (1000 * n + 1..).map(number);
        let places = array.bytes_mut().chunks_exact_mut(element.bytes());
        for (place, number) in places.zip(numbers) {
            match element {
                ElementType::Float64 => place.copy_from_slice(&number.to_le_bytes()),
                ElementType::Float32 => place.copy_from_slice(&(number as f32).to_le_bytes()),
                ElementType::Float16 => {
                    place.copy_from_slice(&Half::from_f64(number).0.to_le_bytes());
                }
                ElementType::Bool => place.copy_from_slice(&[u8::from(number < 0.5)]),
                _ => {
                    let whole = ((100.0 * number) as i64).to_le_bytes();
                    place.copy_from_slice(&whole[..place.len()]);
                }
            }
        }
        Some(array)
    });
    let Some(mut fields) = arrays.collect::<Option<Vec<Array>>>() else { return 0 };
    let coefficients = fields.split_off(rule.fields);
    let coefficients: Vec<&Array> = coefficients.iter().collect();
    // Each direction once.
    let iterations = 0..rule.directions.len() as u64;
    let update = AssertUnwindSafe(|| plain(rule, &mut fields, &coefficients, iterations));
    if catch_unwind(update).is_err() {
        // It panics in the sweep as well, which reports the panic.
        return 0;
    }
    let mut sum = Checksum::new();
    fields.iter().for_each(|field| sum.update(field.bytes()));
    sum.value()
}

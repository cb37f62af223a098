//! Whether all members were given the same sweep.
//!
//! # Contract
//! Each member describes its arguments by names and values, and compares them with those of the
//! first member. Members may differ in what does not change the result: threads, memory, vectors.
//!
//! Two kernels are the same if they compute the same: each member updates a few points of a small
//! field of fixed values, and describes the kernel by a checksum of the result. So kernels of all
//! kinds, and their parameters, are compared. A kernel whose result depends on anything but its
//! operands is not found out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use syncline_fabric::Member;
use syncline_kernel::dynamic::{Kernel, PlainPoints};
use syncline_store::checksum::Checksum;

use crate::Result;
use crate::error::Error;
use crate::lanes::Real;
use crate::run::target::Target;
use crate::streamed::run::Arrays;
use crate::sweep::Settings;

/// The value of an argument that a member was not given.
const NOT_GIVEN: &str = "not given";
/// The side of the small field.
const SIDE: usize = 8;

/// Returns the arguments of a sweep, as pairs of a name and a value.
pub(super) fn arguments<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    target: Option<&Target>,
) -> Vec<(String, String)> {
    let shape = arrays.field.shape();
    let mut all = of_settings(settings, target);
    let result = format!("checksum {:016x}", probe(kernel));
    all.extend(
        [
            ("the type", E::NAME.to_owned()),
            ("the shape", format!("{} x {}", shape.rows, shape.cols)),
            ("the number of coefficients", kernel.coefficients().to_string()),
            ("the result of the kernel", result),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    all
}

/// Returns those arguments that all sweeps have.
pub(crate) fn of_settings(settings: &Settings, target: Option<&Target>) -> Vec<(String, String)> {
    let depth = settings.depth.map_or_else(|| NOT_GIVEN.to_owned(), |depth| depth.to_string());
    let tolerance = settings.tolerance.map_or_else(|| NOT_GIVEN.to_owned(), |t| t.to_string());
    let in_memory = || ("in memory".to_owned(), "in memory");
    let (names, format) = target.map_or_else(in_memory, |target| {
        let paths = target.paths();
        let names = paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
        (names.collect::<Vec<_>>().join(", "), if target.npy { "npy" } else { "raw" })
    });
    let fixed = [
        ("the number of iterations", settings.iterations.to_string()),
        ("the depth", depth),
        ("the tolerance", tolerance),
        ("the name of the output", names),
        ("the format of the output", format.to_owned()),
    ];
    let mut all: Vec<_> = fixed.map(|(name, value)| (name.to_owned(), value)).into();
    let what = target.into_iter().flat_map(|target| &target.what);
    all.extend(what.map(|(name, value)| (format!("the {name}"), value.clone())));
    all
}

/// Returns a checksum of what a kernel computes from fixed values.
fn probe<E: Real>(kernel: &dyn Kernel<E>) -> u64 {
    // The fractional parts of the multiples of the golden ratio: no two are equal.
    let value = |n: usize| E::from_f64((0.618_033_988_749_895 * (n + 1) as f64).fract());
    let mut field: Vec<E> = (0..SIDE * SIDE).map(value).collect();
    let inner = SIDE - 2;
    let coefficient = |c: usize| (0..inner * inner).map(|n| value(1000 * (c + 1) + n)).collect();
    let coefficients: Vec<Vec<E>> = (0..kernel.coefficients()).map(coefficient).collect();
    let points = PlainPoints { first: SIDE + 1, pitch: SIDE, rows: inner, cols: inner };
    let update = AssertUnwindSafe(|| kernel.plain(&mut field, &coefficients, points));
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

/// Compares the arguments of this member with those of the first one; all members call it.
///
/// The inner result is [`Error::Differs`], with the first difference.
pub(crate) fn same(me: &mut Member, own: &[(String, String)]) -> Result<Result<()>> {
    let lines = |pairs: &[(String, String)]| {
        let lines = pairs.iter().map(|(name, value)| format!("{name}\0{value}\n"));
        lines.collect::<String>()
    };
    let first = me.exchange(lines(own).as_bytes())?.swap_remove(0);
    let first = String::from_utf8_lossy(&first).into_owned();
    let first: Vec<_> = first.lines().filter_map(|line| line.split_once('\0')).collect();
    let value = |name: &str| first.iter().find(|other| other.0 == name).map(|other| other.1);
    let rank = me.rank();
    let differs = |what: &str, own: &str, first: &str| {
        let [what, own, first] = [what, own, first].map(str::to_owned);
        Err(Error::Differs { rank, what, own, first })
    };
    for (name, own) in own {
        match value(name) {
            Some(first) if first == own.as_str() => {}
            first => return Ok(differs(name, own, first.unwrap_or(NOT_GIVEN))),
        }
    }
    let given = |name: &str| own.iter().any(|own| own.0 == name);
    Ok(match first.iter().find(|first| !given(first.0)) {
        Some((name, first)) => differs(name, NOT_GIVEN, first),
        None => Ok(()),
    })
}

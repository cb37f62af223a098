//! The convergence test: the residual of every iteration is that of the plain loop, and the sweep
//! ends where it must.

mod case;

use proptest::prelude::*;
use syncline_testkit::property;
use syncline_wave::{Error, PointKernel, target::Target};

use self::case::{Case, Plain, case, check_report};
use crate::Real;
use crate::common::{Place, values};
use crate::kernels::{Check, KERNELS, with_kernel};

/// The destination of a streamed sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Into {
    Matrix(Place),
    Target,
}

/// The settings that only passes have.
#[derive(Clone, Copy, Debug)]
struct Passes {
    depth: u64,
    exact: bool,
    into: Into,
}

fn passes() -> impl Strategy<Value = Passes> {
    let into = prop_oneof![3 => Place::any().prop_map(Into::Matrix), 1 => Just(Into::Target)];
    (1..12_u64, any::<bool>(), into).prop_map(|(depth, exact, into)| Passes { depth, exact, into })
}

/// Returns the number of iterations after which a streamed sweep ends; `updates` says whether any
/// point is updated.
fn end<T, const N: usize>(case: &Case, passes: Passes, plain: &Plain<T, N>, updates: bool) -> u64 {
    match plain.first {
        None => case.most,
        Some(first) if passes.exact || !updates => first + 1,
        Some(first) => ((first / passes.depth + 1) * passes.depth).min(case.most),
    }
}

struct Streamed(Case, Passes);

impl Check for Streamed {
    type Outcome = Result<(), TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let Self(case, passes) = self;
        let Passes { depth, exact, into } = *passes;
        let plain = case.plain::<T, K, N>(&kernel);
        let updates = K::STENCIL.updated(case.shape).elements() > 0;
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = plain.data.at(&[case.input], folder.path());
        let sweep = case.sweep(kernel.clone(), plain.tolerance).depth(depth).exact_stop(exact);
        let (result, report) = match into {
            Into::Target => {
                let target = Target::npy(folder.path().join("out"));
                let (pending, report) = sweep.run_to(&field, &coefficients, &target).unwrap();
                (values(&pending.matrix().unwrap()), report)
            }
            Into::Matrix(place) => {
                let result = place.result(folder.path(), case.shape);
                let several = depth < case.most && updates;
                let outcome = sweep.run(&field, &coefficients, result);
                if exact && several && place != Place::Memory {
                    prop_assert!(matches!(outcome, Err(Error::ExactStop)), "{outcome:?}");
                    return Ok(());
                }
                let (result, report) = outcome.unwrap();
                (values(&result), report)
            }
        };
        prop_assert_eq!(report.iterations, end(case, *passes, &plain, updates));
        prop_assert_eq!(report.residuals.len() as u64, report.iterations);
        prop_assert!(plain.first.is_none_or(|first| report.iterations <= first + depth));
        check_report(&report, &result, &kernel, &plain)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(300) })]

    #[test]
    fn streamed(case in case(), passes in passes(), kernel in 0..KERNELS, float32: bool) {
        with_kernel(&Streamed(case, passes), kernel, float32)?;
    }
}

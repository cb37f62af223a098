//! Planted faults are found: messages that lack a record, and exports and imports at a wrong time.

use syncline_kernel::point::Typed;
use syncline_store::Shape;
use syncline_testkit::Random;

use super::super::super::tests::Eight;
use super::hosts::{Fault, Found, cuts};
use super::sizes::exchanges;
use super::{Case, Prefer};
use crate::PointKernel;
use crate::lanes::{Lanes, Real};

/// Runs a case with a kernel of all neighbours; returns whether it equals the plain loop.
fn same<T: Real>(case: &Case) -> (bool, Found) {
    case.run::<T, _, 1>(&Eight, &Typed::<_, 1>(&Eight))
}

fn each_case(mut check: impl FnMut(Case)) {
    for lanes in Lanes::available() {
        for (levels, prefer) in [(1, Prefer::Any), (2, Prefer::West), (7, Prefer::East)] {
            check(Case { lanes, levels, prefer, ..Case::default() });
        }
    }
}

#[test]
fn without_faults_there_is_none() {
    each_case(|case| {
        assert!(same::<f64>(&case).0, "{case:?}");
        assert!(same::<f32>(&case).0, "{case:?}");
    });
}

#[test]
fn messages_that_lack_records() {
    each_case(|case| {
        for east in [true, false] {
            let mut faults = vec![Fault::Silent { east }];
            faults.extend([true, false].map(|last| Fault::Shorter { east, last }));
            for fault in faults {
                let case = Case { fault, ..case.clone() };
                assert!(!same::<f64>(&case).0, "{case:?}");
            }
        }
    });
}

/// Every value that an update reads must be in a message, and no other value matters.
#[test]
#[ignore = "full: 7 s of computing"]
fn single_values() {
    each_case(|case| {
        // One generator for each case: the choices do not depend on the lanes of the machine.
        let mut random = Random::new(3);
        let case = Case { shape: Shape::new(70, 240), ..case };
        let chain = case.chain::<f64>(&Typed::<_, 1>(&Eight), 1);
        for (cut, exchange) in
            exchanges(&cuts(&case, &chain), &chain, Eight::STENCIL).iter().enumerate()
        {
            for (way, bands) in exchange.read.iter().enumerate() {
                let all: Vec<_> = bands
                    .iter()
                    .enumerate()
                    .flat_map(|(band, read)| {
                        read.iter().enumerate().map(move |(v, &r)| (band, v, r))
                    })
                    .collect();
                for read in [true, false] {
                    let some: Vec<_> = all.iter().filter(|value| value.2 == read).collect();
                    for _ in 0..6.min(some.len()) {
                        let &(band, value, _) = random.one_of(&some);
                        let fault = Fault::Lost { east: way == 0, cut, band, value };
                        let case = Case { fault, ..case.clone() };
                        assert_eq!(same::<f64>(&case).0, !read, "{case:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn exports_that_come_too_early() {
    each_case(|case| {
        for east in [true, false] {
            let case = Case { fault: Fault::Early { east }, ..case.clone() };
            assert!(!same::<f64>(&case).0, "{case:?}");
        }
    });
}

/// An export cannot come too late without a deadlock, as the receiver waits for it. Values that are
/// exported after the piece that follows the answer differ from those of the message, unless there
/// is no further iteration that overwrites them.
#[test]
fn exports_that_come_too_late() {
    each_case(|case| {
        let found = same::<f64>(&case).1;
        let late = found.late.map(|late| late > 0);
        assert_eq!(late, [case.levels > 1; 2], "{found:?} {case:?}");
    });
}

#[test]
fn strips_packed_after_the_import() {
    each_case(|case| {
        let case = Case { fault: Fault::PackedLate, ..case };
        assert!(!same::<f64>(&case).0, "{case:?}");
    });
}

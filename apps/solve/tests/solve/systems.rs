//! The seven systems of the paper, in two orders of the variables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use syncline_solve::decompose::Decomposer;
use syncline_solve::section::degree;
use syncline_solve::solve::{Mode, components, run, run_jobs};
use syncline_solve::system::Source;

use crate::has_flint;

/// For each dimension, the greatest first, the degrees of the irreducible components.
type Invariants = Vec<(usize, Vec<usize>)>;

fn invariants(text: &str, reversed: bool) -> Invariants {
    let source = Source::read(text).unwrap();
    let mut names = source.names().to_vec();
    if reversed {
        names.reverse();
    }
    let system = source.system(&names).unwrap();
    let decomposer = Decomposer::new(&system.ring, &system.equations, &[]);
    let solved = run(&decomposer, decomposer.first(), &mut |_| ());
    let mut degrees = BTreeMap::<_, Vec<_>>::new();
    for component in
        components(decomposer.regularizer(), solved, Mode::Kalkbrener, true, &mut run_jobs)
    {
        assert!(component.is_prime);
        let chain = component.chain;
        degrees.entry(Reverse(chain.dimension())).or_default().push(degree(
            &chain,
            0,
            &mut run_jobs,
        ));
    }
    degrees
        .into_iter()
        .map(|(Reverse(dimension), mut degrees)| {
            degrees.sort();
            (dimension, degrees)
        })
        .collect()
}

macro_rules! systems {
    ($($(#[$attribute:meta])* $name:ident: $expected:expr;)*) => {$(
        #[test]
        $(#[$attribute])*
        fn $name() {
            if has_flint() {
                let text = include_str!(concat!("../systems/", stringify!($name), ".txt"));
                for reversed in [false, true] {
                    assert_eq!(invariants(text, reversed), $expected, "reversed: {reversed}");
                }
            }
        }
    )*};
}

systems! {
    eco6: [(0, vec![1, 1, 2, 4, 4, 4])];
    eco7: [(0, vec![1, 1, 1, 1, 2, 2, 4, 4, 4, 4, 4, 4])];
    cnogues: [(0, vec![2, 2, 2, 2, 4, 4])];
    cnogues2: [(0, vec![8])];
    nooburg4: [(0, [vec![1; 7], vec![2; 7], vec![4; 4], vec![6; 6]].concat())];
    ubikker: [(0, vec![1, 1, 1, 1, 2, 30])];
    #[ignore = "full: 7 s of computing"]
    cohn2: [(2, vec![8]), (1, vec![1, 1]), (0, vec![1, 1, 2, 6, 8])];
}

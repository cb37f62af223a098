//! Sweeps in traces in memory: the facts.

use std::sync::Arc;

use syncline_blocks::BlockedSweep;
use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_trace::enable;
use syncline_trace::note::{Note, notes};
use syncline_wave::{Runner, Sweep, kernels::Lk23};

const SHAPE: Shape = Shape::new(400, 500);

fn fact(key: &str) -> Option<String> {
    notes().into_iter().rev().find_map(|note| match note {
        Note::Fact { key: of, value } if of == key => Some(value),
        _ => None,
    })
}

fn check(expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(fact(key).as_deref(), Some(*value), "{key}");
    }
}

#[test]
fn a_sweep_tells_how_it_is_planned() {
    enable(1 << 14);
    let array = || Arc::new(Matrix::from_vec(SHAPE, vec![0.25; SHAPE.elements()]).unwrap());
    let (field, coefficients) = (array(), [(); 5].map(|()| array()));
    let result = Matrix::zeros(SHAPE, Layout::RowMajor).unwrap();
    let sweep = Sweep::new(Lk23).iterations(2).runner(Runner::pool(2));
    let sweep = BlockedSweep::of(sweep).block(Block::new(100, 250));
    sweep.run(&field, &coefficients, result).unwrap();
    check(&[
        ("sweep.kernel", "Lk23"),
        ("sweep.executor", "blocked"),
        ("sweep.blocks", "4 x 2"),
        ("sweep.block", "100 x 250"),
        ("sweep.iterations", "2"),
    ]);
}

//! Old code on a framed matrix: the unchanged C routine of `lk23.c`, on all cores.
//!
//! `cargo run --example legacy` compiles the two C files with `cc` (or `$CC`), loads them, sweeps,
//! and compares the result with the plain double loop. An ordinary program would link the old code
//! instead, and declare `lk23_block` in an `unsafe extern "C"` block.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use syncline::Sweep;
use syncline::store::convert;
use syncline::store::{Block, Layout, Matrix, Shape};
use syncline::wave::kernels::Lk23;
use syncline::wave::{
    Stencil,
    blocks::{
        BlockedSweep,
        kernel::{CBlockFunction, CBlockKernel},
    },
    reference::plain_sweep,
};

const SHAPE: Shape = Shape::new(1000, 1500);
const ITERATIONS: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/legacy"));
    let folder = tempfile::tempdir()?;
    let library = folder.path().join("old.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    // Without contraction, the result equals that of the plain loop in Rust bit for bit.
    let status = Command::new(&compiler)
        .args(["-O2", "-ffp-contract=off", "-fPIC", "-shared", "-o"])
        .args([library.as_path(), &here.join("lk23.c"), &here.join("block.c")])
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => {
            return Err(format!("{compiler:?} does not compile the old code: {other:?}").into());
        }
    }
    // SAFETY: the library has no initialisers.
    let library = unsafe { libloading::Library::new(&library) }?;
    // SAFETY: the function has this type, see block.c.
    let function = *unsafe { library.get::<CBlockFunction<f64>>("lk23_block") }?;
    // SAFETY: the routine has no state, writes interior points only, and reads the four neighbours
    // and five coefficients of each. The library stays loaded until the end of `main`.
    let old = unsafe { CBlockKernel::new(function, std::ptr::null_mut(), 5, Stencil::FIVE_POINT) };

    let frames = Layout::Framed { block: Block::new(128, 128), thickness: 1 };
    let numbers = |seed: u64| -> Vec<f64> {
        (0..SHAPE.elements() as u64)
            .map(|i| (i * (2 * seed + 7919) % 1009) as f64 / 5045.0)
            .collect()
    };
    let mut field = Matrix::zeros(SHAPE, frames)?;
    convert(&Matrix::from_vec(SHAPE, numbers(0))?, &mut field, 1 << 20)?;
    let mut coefficients = Vec::new();
    for n in 1..=5 {
        coefficients.push(Arc::new(Matrix::from_vec(SHAPE, numbers(n))?));
    }
    let sweep = BlockedSweep::of(Sweep::new(old).iterations(ITERATIONS));
    let (result, report) =
        sweep.run_blocks(&Arc::new(field), &coefficients, Matrix::zeros(SHAPE, frames)?)?;

    let mut plain = numbers(0);
    let arrays: [Vec<f64>; 5] = std::array::from_fn(|n| numbers(n as u64 + 1));
    for _ in 0..ITERATIONS {
        plain_sweep(&Lk23, &mut plain, arrays.each_ref().map(|a| &a[..]), SHAPE.rows, SHAPE.cols);
    }
    let mut found = vec![0.0; SHAPE.elements()];
    result.read_rows(0..SHAPE.rows, &mut found)?;
    let wrong = found.iter().zip(&plain).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    println!(
        "{} iterations over {SHAPE} in {} blocks on {} threads: {wrong} values differ from the plain double loop",
        report.iterations,
        report.plan.grid.len(),
        report.workers,
    );
    if wrong == 0 { Ok(()) } else { Err("wrong values".into()) }
}

//! Sweeps of described kernels in memory, by calls of Rust: what `python_sweeps.py` compares with.
//!
//! `memory_sweep SIZE ITERATIONS` reads lines from standard input. For each it runs the sweep that
//! the line names, one of `gauss-seidel`, `heat` and `sor` (the built-in kernel), and prints the
//! seconds that it took, and the sum of the result.

use std::io::BufRead as _;
use std::sync::Arc;
use std::time::Instant;

use syncline_store::array::Array;
use syncline_store::{Layout, Matrix, Shape};
use syncline_wave::kernels::Sor;
use syncline_wave::{Described, Runner, Sweep};

const GAUSS_SEIDEL: &str = r#"
name = "gauss-seidel"
field = "u"
update = "u = u + 1 * ((n + s + e + w) / 4 - u)"
"#;

const HEAT: &str = r#"
name = "heat"
field = "u"
update = "u = u + 0.1 * (old.n + old.s + old.e + old.w - 4 * u)"
"#;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let numbers = std::env::args().skip(1).map(|text| text.parse());
    let [size, iterations] = numbers.collect::<Result<Vec<usize>, _>>()?[..] else {
        return Err("memory_sweep SIZE ITERATIONS".into());
    };
    let iterations = iterations as u64;
    // Any values: the time does not depend on them.
    let values = (0..size * size).map(|at| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11);
    let values: Vec<f64> = values.map(|bits| bits as f64 / (1_u64 << 53) as f64).collect();
    let shape = Shape::new(size, size);
    let matrix = Arc::new(Matrix::from_vec(shape, values.clone())?);
    let array = Array::from_vec(&[size, size], values)?;
    let threads = std::thread::available_parallelism()?;
    for line in std::io::stdin().lock().lines() {
        let begin = Instant::now();
        let sum: f64 = match line?.as_str() {
            "gauss-seidel" => {
                let sweep = Sweep::new(Described::parse(GAUSS_SEIDEL)?).iterations(iterations);
                let result = Matrix::zeros(shape, Layout::RowMajor)?;
                let sweep = sweep.runner(Runner::pool(threads.get()));
                sum(&sweep.run_dynamic(&matrix, &[], result)?.0, begin)
            }
            "sor" => {
                let sweep = Sweep::new(Sor::new(1.0)?).iterations(iterations);
                let result = Matrix::zeros(shape, Layout::RowMajor)?;
                let sweep = sweep.runner(Runner::pool(threads.get()));
                sum(&sweep.run(&matrix, &[], result)?.0, begin)
            }
            "heat" => {
                let sweep = Sweep::new(Described::parse(HEAT)?).iterations(iterations);
                let sweep = sweep.runner(Runner::pool(threads.get()));
                let (fields, _) = sweep.run_arrays(std::slice::from_ref(&array), &[])?;
                print!("{} ", begin.elapsed().as_secs_f64());
                fields[0].values::<f64>().unwrap_or_default().iter().sum()
            }
            other => return Err(format!("there is no sweep {other}").into()),
        };
        println!("{sum}");
    }
    Ok(())
}

fn sum(result: &Matrix<f64>, begin: Instant) -> f64 {
    print!("{} ", begin.elapsed().as_secs_f64());
    result.as_slice().unwrap_or_default().iter().sum()
}

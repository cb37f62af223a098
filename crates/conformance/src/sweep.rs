//! A session of sweeps on a team, kernel by kernel.
//!
//! Each round is a sweep of a random matrix, of float64 or float32, in memory or on file, with a
//! random depth, into a file and into the memory of every member. The results must have the bits of
//! the plain double loop. Where there are several members, values must have crossed the cuts
//! between them, and no file may be left.
//!
//! The files are in a folder in the current one, which all members must see.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_fabric::Member;
use syncline_store::{Layout, Matrix, NewFile, Shape, convert};
use syncline_wave::kernels::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor};
use syncline_wave::lanes::Real;
use syncline_wave::reference::{Reference, first_difference};
use syncline_wave::target::Target;
use syncline_wave::{Described, PointKernel, Runner, Sweep, SweepReport};

use super::scene::hash;
use super::{Suite, finding};

/// The kernels: with five and nine neighbours, with updated edges, and one that a text describes.
pub(super) const KERNELS: [&str; 6] =
    ["lk23", "nine-point", "sor", "variable", "alignment", "described"];

/// A kernel that a text describes.
const DESCRIBED: &str = r#"
    name = "waves"
    field = "u"
    coefficients = ["a"]
    update = "u = max(0.25 * (n + e + s + w) - 0.1 * a * u, nw - se)"
"#;

/// The number of folders that this process has created.
static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// The result of one member, or what is wrong.
type Run = Result<SweepReport, String>;

/// A random sweep.
struct Case {
    seed: u64,
    shape: Shape,
    iterations: u64,
    depth: u64,
    threads: usize,
    on_file: bool,
}

impl Case {
    /// Returns the case of a seed, with enough columns for the members.
    fn new(seed: u64, members: usize) -> Case {
        let below = |what: u64, most: u64| hash(seed, what) % most;
        Case {
            seed,
            shape: Shape::new(
                40 + below(1, 260) as usize,
                16 + 64 * members + below(2, 700) as usize,
            ),
            iterations: 1 + below(3, 12),
            depth: 1 + below(4, 8),
            threads: 1 + below(5, 2) as usize,
            on_file: below(6, 2) == 0,
        }
    }

    /// Returns the values of an array.
    fn values<T: Real>(&self, array: u64) -> Vec<T> {
        let value = |i: usize| {
            let bits = hash(self.seed ^ array << 40, i as u64) >> 11;
            T::from_f64(bits as f64 / (1_u64 << 53) as f64 * if array == 0 { 1.0 } else { 0.25 })
        };
        (0..self.shape.elements()).map(value).collect()
    }

    /// Returns an array, in memory or on a file that the first member has written.
    fn array<T: Real>(&self, array: u64, folder: &Path) -> Result<Arc<Matrix<T>>, String> {
        let told = |error: syncline_store::Error| error.to_string();
        let path = folder.join(format!("{array}.npy"));
        let matrix = if self.on_file && path.exists() {
            Matrix::open(&path)
        } else {
            Matrix::from_vec(self.shape, self.values(array))
        };
        matrix.map(Arc::new).map_err(told)
    }

    /// Writes the inputs, if they are on file.
    fn write<T: Real>(&self, arrays: u64, folder: &Path) -> Result<(), String> {
        for array in (0..arrays).filter(|_| self.on_file) {
            let write = || {
                let from = Matrix::<T>::from_vec(self.shape, self.values(array))?;
                let layout = Layout::RowMajor;
                let bytes = Matrix::<T>::file_bytes(true, self.shape, layout)?;
                let new = NewFile::create(&folder.join(format!("{array}.npy")), bytes)?;
                let mut to = Matrix::create(&new, true, self.shape, layout)?;
                convert(&from, &mut to, 1 << 20)?;
                new.commit()
            };
            write().map_err(|error: syncline_store::Error| error.to_string())?;
        }
        Ok(())
    }
}

pub(super) fn session(me: &mut Member, suite: &Suite) -> Result<(), String> {
    for name in KERNELS.into_iter().filter(|name| suite.includes(name)) {
        for round in 0..suite.rounds {
            let hosts = me.hosts().count();
            verify(me, name, round)
                .map_err(|what| finding(me, name, round, format_args!("hosts: {hosts}: {what}")))?;
        }
    }
    Ok(())
}

/// Runs one round in a folder of its own.
fn verify(me: &mut Member, name: &str, round: u64) -> Result<(), String> {
    let folder = if me.rank() == 0 {
        // Teams of several threads may verify in one process.
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!(".syncline-verify-{}-{number}", std::process::id());
        let folder = std::env::current_dir().map(|here| here.join(name));
        let made = folder.and_then(|folder| std::fs::create_dir(&folder).map(|()| folder));
        made.map(|folder| folder.into_os_string().into_encoded_bytes()).unwrap_or_default()
    } else {
        Vec::new()
    };
    let folder = me.exchange(&folder).map_err(|fault| fault.to_string())?.swap_remove(0);
    let folder = String::from_utf8(folder).map_err(|error| error.to_string())?;
    if folder.is_empty() {
        return Err("no folder can be created in the current one".to_owned());
    }
    let folder = Path::new(&folder);
    let case = Case::new(hash(round, name.len() as u64), me.size());
    let outcome = match round % 2 {
        0 => kernel::<f64>(me, name, &case, folder),
        _ => kernel::<f32>(me, name, &case, folder),
    };
    // All members have finished with the files.
    let met = me.wait().map_err(|fault| fault.to_string());
    if me.rank() == 0 {
        let _ = std::fs::remove_dir_all(folder);
    }
    outcome.and(met)
}

fn kernel<T: Real>(me: &mut Member, name: &str, case: &Case, folder: &Path) -> Result<(), String> {
    let omega = |error: syncline_wave::kernels::KernelError| error.to_string();
    match name {
        "lk23" => point::<T, _, 5>(me, Lk23, case, folder),
        "nine-point" => point::<T, _, 1>(me, NinePoint::new(1.2).map_err(omega)?, case, folder),
        "sor" => point::<T, _, 0>(me, Sor::new(1.7).map_err(omega)?, case, folder),
        "variable" => point::<T, _, 6>(me, GaussSeidelVariable, case, folder),
        "alignment" => point::<T, _, 1>(me, Alignment::global(0.1).map_err(omega)?, case, folder),
        _ => described::<T>(me, case, folder),
    }
}

fn point<T: Real, K: PointKernel<N> + Copy, const N: usize>(
    me: &mut Member,
    kernel: K,
    case: &Case,
    folder: &Path,
) -> Result<(), String> {
    let chosen = |coefficients: &[Arc<Matrix<T>>]| {
        std::array::from_fn::<_, N, _>(|n| Arc::clone(&coefficients[n]))
    };
    let sweep = settings(case, kernel);
    check::<T>(
        me,
        (case, folder),
        N as u64,
        |me, field, coefficients, target| {
            sweep.run_on(me, field, &chosen(coefficients), target).map_err(told)
        },
        |me, field, coefficients, result| {
            let done = sweep.gather_on(me, field, &chosen(coefficients), result);
            done.map(|(result, _)| result).map_err(told)
        },
        |field, coefficients, work| {
            let iterations = case.iterations;
            let reference = Reference { kernel: &kernel, field, coefficients, iterations };
            reference.run::<N>(work, 1 << 22).map_err(told)
        },
    )
}

fn described<T: Real>(me: &mut Member, case: &Case, folder: &Path) -> Result<(), String> {
    let kernel = Described::parse(DESCRIBED).map_err(told)?;
    let sweep = settings(case, kernel.clone());
    check::<T>(
        me,
        (case, folder),
        1,
        |me, field, coefficients, target| {
            sweep.run_dynamic_on(me, field, coefficients, target).map_err(told)
        },
        |me, field, coefficients, result| {
            let done = sweep.gather_dynamic_on(me, field, coefficients, result);
            done.map(|(result, _)| result).map_err(told)
        },
        |field, coefficients, work| {
            let iterations = case.iterations;
            let reference = Reference { kernel: &kernel, field, coefficients, iterations };
            reference.run_dynamic(work, 1 << 22).map_err(told)
        },
    )
}

fn settings<K>(case: &Case, kernel: K) -> Sweep<K> {
    let runner = Runner::pool(case.threads);
    Sweep::new(kernel).iterations(case.iterations).depth(case.depth).runner(runner)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs the sweep on the team, into a file and into memory. Each member compares its two results;
/// the first one compares the file with the result of the plain loop.
fn check<T: Real>(
    me: &mut Member,
    (case, folder): (&Case, &Path),
    coefficients: u64,
    run: impl Fn(&mut Member, &Arc<Matrix<T>>, &[Arc<Matrix<T>>], &Target) -> Run,
    gather: impl Fn(
        &mut Member,
        &Arc<Matrix<T>>,
        &[Arc<Matrix<T>>],
        Matrix<T>,
    ) -> Result<Matrix<T>, String>,
    plain: impl Fn(&Matrix<T>, &[Arc<Matrix<T>>], Matrix<T>) -> Result<Matrix<T>, String>,
) -> Result<(), String> {
    let written = if me.rank() == 0 { case.write::<T>(1 + coefficients, folder) } else { Ok(()) };
    let failed = me.first_error(written.as_ref().err().map(|error| error as _));
    if let Some((rank, error)) = failed.map_err(|fault| fault.to_string())? {
        return Err(format!("rank {rank}: {error}"));
    }
    let arrays = (0..=coefficients).map(|array| case.array::<T>(array, folder));
    let arrays = arrays.collect::<Result<Vec<_>, String>>()?;
    let (field, coefficients) = (&arrays[0], &arrays[1..]);
    let path = folder.join("result.npy");
    let report = run(me, field, coefficients, &Target::npy(&path))?;
    let crossed = me.gather(report.bytes_exchanged).map_err(|fault| fault.to_string())?;
    if me.size() > 1 && crossed.iter().all(|&bytes| bytes == 0) {
        return Err("no value has crossed a cut".to_owned());
    }
    // The first member removes the file after all have opened it, as they gather afterwards.
    let found = Matrix::<T>::open(&path).map_err(told)?;
    let zeros = || Matrix::zeros(case.shape, Layout::RowMajor).map_err(told);
    let gathered = gather(me, field, coefficients, zeros()?)?;
    let same = |a: &Matrix<T>, b: &Matrix<T>, what: &str| match first_difference(a, b) {
        Ok(None) => Ok(()),
        Ok(Some(at)) => Err(format!("{} x {}{what}: {at}", case.shape.rows, case.shape.cols)),
        Err(error) => Err(told(error)),
    };
    same(&gathered, &found, ", in memory")?;
    if me.rank() > 0 {
        return Ok(());
    }
    same(&found, &plain(field, coefficients, zeros()?)?, "")
}

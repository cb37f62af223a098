//! The kernels that the command knows, and what it asks of them.
//!
//! To add one: a name in [`Known`], a line in [`Kernel::choose`], and a line in the help (`args/run.rs`). Others
//! are described in a file, and need none of this.
//!
//! The rest of the command knows neither a kernel's type nor how many coefficients it takes: it holds a
//! [`Runs`], whose few methods are called once per run each.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use syncline_store::probe::Disk;
use syncline_store::{Block, Grid, Matrix, checksum, read_text};
use syncline_wave::{
    Alignment, Described, Error as WaveError, Executor, GaussSeidel, Lanes, Lk23, Monitor, NinePoint, Order,
    Pending, Plan, PointKernel, Real, Reference, Report, Result as WaveResult, Runner, Sor, Sweep, Target,
};

use crate::args::{KernelName, RunArgs};
use crate::error::{Error, Result};

/// The over-relaxation when none is given.
const OMEGA: f64 = 1.5;

/// The cost of a gap when none is given.
const GAP: f64 = 1.0;

/// The kernels that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Known {
    /// Livermore kernel 23, on za
    Lk23,
    /// The Gauss-Seidel method for the Poisson equation, on u
    GaussSeidel,
    /// Successive over-relaxation: Gauss-Seidel with --omega
    Sor,
    /// Over-relaxation of the Poisson equation on nine points, on u
    NinePoint,
    /// The Gauss-Seidel method for any five-point system, on u
    GaussSeidelVariable,
    /// The best alignment of two sequences, on score
    Alignment,
}

impl Known {
    pub(crate) fn name(&self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Refuses parameters of other kernels.
fn check_parameters(kernel: Option<Known>, args: &RunArgs) -> Result<()> {
    let given: [(bool, &str, &[Known]); 3] = [
        (args.omega.is_some(), "--omega", &[Known::Sor, Known::NinePoint]),
        (args.gap.is_some(), "--gap", &[Known::Alignment]),
        (args.local, "--local", &[Known::Alignment]),
    ];
    match given.into_iter().find(|(given, _, of)| *given && !of.iter().any(|own| Some(*own) == kernel)) {
        None => Ok(()),
        Some((_, option, of)) => {
            let names: Vec<_> = of.iter().map(Known::name).collect();
            let plural = if of.len() == 1 { "" } else { "s" };
            Err(Error::Usage(format!("{option} is for the kernel{plural} {} only", names.join(" and "))))
        }
    }
}

/// A kernel with the names of its arrays.
pub(crate) struct Kernel {
    /// As the command line has it.
    pub(crate) name: String,
    /// The array that is updated.
    pub(crate) field: String,
    /// The others, in the kernel's order.
    pub(crate) coefficients: Vec<String>,
    /// What beside the name makes the computation another.
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// The kernel itself.
    pub(crate) runs: Arc<dyn RunsAll>,
}

impl Kernel {
    /// The kernel of that name, for arrays of which `has` tells whether they are there.
    ///
    /// # Errors
    /// [`Error::Usage`] for parameters that the kernel has not, and what is wrong with their values.
    pub(crate) fn choose(args: &RunArgs, has: impl Fn(&str) -> bool) -> Result<Self> {
        let known = match &args.kernel {
            KernelName::Known(known) => *known,
            KernelName::Described(path) => {
                check_parameters(None, args)?;
                return Self::described(path);
            }
        };
        check_parameters(Some(known), args)?;
        let (omega, gap) = (args.omega.unwrap_or(OMEGA), args.gap.unwrap_or(GAP));
        let score = if args.local { Alignment::local } else { Alignment::global };
        Ok(match known {
            Known::Lk23 => Self::new(known, "za", Lk23::COEFFICIENTS, Point(Lk23)),
            Known::GaussSeidel => Self::poisson(known, has("f"), Sor::gauss_seidel()),
            Known::Sor => Self::poisson(known, has("f"), Sor::new(omega)?).with("omega", omega),
            Known::NinePoint => Self::poisson(known, has("f"), NinePoint::new(omega)?).with("omega", omega),
            Known::GaussSeidelVariable => {
                Self::new(known, "u", GaussSeidel::COEFFICIENTS, Point(GaussSeidel))
            }
            Known::Alignment => Self::new(known, "score", ["match"], Point(score(gap)?))
                .with("gap", gap)
                .with("local", args.local),
        })
    }

    /// The kernel that a text describes.
    fn described(path: &Path) -> Result<Self> {
        let text = read_text(path, Described::LONGEST)?;
        let described =
            Described::parse(&text).map_err(|why| Error::Description { path: path.to_owned(), why })?;
        Ok(Self {
            name: described.name().to_owned(),
            field: described.field().to_owned(),
            coefficients: described.coefficients().to_vec(),
            // All of the text: who changes it has another kernel.
            parameters: vec![("description", format!("{:016x}", checksum(text.as_bytes())))],
            runs: Arc::new(Text(described)),
        })
    }

    /// On u, with the right-hand side f or without.
    fn poisson<K>(known: Known, with_f: bool, kernel: K) -> Self
    where
        K: PointKernel<0> + PointKernel<1> + Copy + 'static,
    {
        match with_f {
            true => Self::new(known, "u", ["f"], Point::<_, 1>(kernel)),
            false => Self::new(known, "u", [], Point::<_, 0>(kernel)),
        }
    }

    fn new<const N: usize>(
        known: Known,
        field: &str,
        coefficients: [&str; N],
        runs: impl RunsAll + 'static,
    ) -> Self {
        Self {
            name: known.name(),
            field: field.to_owned(),
            coefficients: coefficients.map(str::to_owned).to_vec(),
            parameters: Vec::new(),
            runs: Arc::new(runs),
        }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    /// The names of all arrays, the field's first.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.field).chain(&self.coefficients).map(String::as_str)
    }
}

/// The matrices of a sweep.
#[derive(Clone)]
pub(crate) struct Arrays<T: Real> {
    /// The one that is updated.
    pub(crate) field: Arc<Matrix<T>>,
    /// The others, in the kernel's order.
    pub(crate) coefficients: Vec<Arc<Matrix<T>>>,
}

impl<T: Real> Arrays<T> {
    /// All of them, the field first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Matrix<T>>> {
        std::iter::once(&self.field).chain(&self.coefficients)
    }
}

/// All of a sweep but its kernel and arrays.
#[derive(Clone)]
pub(crate) struct How {
    pub(crate) iterations: u64,
    pub(crate) until: Option<f64>,
    pub(crate) exact_stop: bool,
    pub(crate) order: Order,
    pub(crate) runner: Runner,
    pub(crate) executor: Executor,
    pub(crate) depth: Option<u64>,
    pub(crate) lanes: Lanes,
    pub(crate) block: Option<Block>,
    pub(crate) disk: Option<Disk>,
    pub(crate) memory: u64,
    pub(crate) monitor: Arc<Monitor>,
}

impl How {
    fn sweep<K>(&self, kernel: K) -> Sweep<K> {
        let mut sweep = Sweep::new(kernel)
            .iterations(self.iterations)
            .exact_stop(self.exact_stop)
            .order(self.order)
            .runner(self.runner)
            .executor(self.executor)
            .lanes(self.lanes)
            .memory(self.memory)
            .monitor(Arc::clone(&self.monitor));
        if let Some(tolerance) = self.until {
            sweep = sweep.until(tolerance);
        }
        if let Some(depth) = self.depth {
            sweep = sweep.depth(depth);
        }
        if let Some(disk) = self.disk {
            sweep = sweep.disk(disk);
        }
        match self.block {
            Some(block) => sweep.block(block),
            None => sweep,
        }
    }
}

/// What the plain loop is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops {
    pub(crate) iterations: u64,
    pub(crate) order: Order,
    pub(crate) grid: Grid,
    /// Bytes of its buffers, about.
    pub(crate) memory: u64,
}

/// A kernel, ready to run over matrices of `T`.
///
/// The errors are those of the sweep's methods of the same names.
pub(crate) trait Runs<T: Real>: Send + Sync {
    fn plan(&self, how: &How, arrays: &Arrays<T>, result: &Matrix<T>) -> WaveResult<Plan>;

    fn run(&self, how: &How, arrays: &Arrays<T>, result: Matrix<T>) -> WaveResult<(Matrix<T>, Report)>;

    fn run_to(&self, how: &How, arrays: &Arrays<T>, target: &Target) -> WaveResult<(Pending, Report)>;

    /// The plain loop, whose result is `work`.
    fn reference(&self, loops: Loops, arrays: &Arrays<T>, work: Matrix<T>) -> WaveResult<Matrix<T>>;
}

/// A kernel for every type of elements.
pub(crate) trait RunsAll: Runs<f64> + Runs<f32> {}

impl<R: Runs<f64> + Runs<f32>> RunsAll for R {}

/// A kernel of so many coefficients.
struct Point<K, const N: usize>(K);

/// As many matrices as the kernel takes.
fn counted<T: Real, const N: usize>(arrays: &Arrays<T>) -> WaveResult<[Arc<Matrix<T>>; N]> {
    let all = arrays.coefficients.clone();
    all.try_into().map_err(|all: Vec<_>| WaveError::Coefficients { expected: N, given: all.len() })
}

impl<T: Real, K: PointKernel<N> + Copy, const N: usize> Runs<T> for Point<K, N> {
    fn plan(&self, how: &How, arrays: &Arrays<T>, result: &Matrix<T>) -> WaveResult<Plan> {
        how.sweep(self.0).plan(&arrays.field, &counted(arrays)?, result)
    }

    fn run(&self, how: &How, arrays: &Arrays<T>, result: Matrix<T>) -> WaveResult<(Matrix<T>, Report)> {
        how.sweep(self.0).run(&arrays.field, &counted(arrays)?, result)
    }

    fn run_to(&self, how: &How, arrays: &Arrays<T>, target: &Target) -> WaveResult<(Pending, Report)> {
        how.sweep(self.0).run_to(&arrays.field, &counted(arrays)?, target)
    }

    fn reference(&self, loops: Loops, arrays: &Arrays<T>, work: Matrix<T>) -> WaveResult<Matrix<T>> {
        let Loops { iterations, order, grid, memory } = loops;
        let (kernel, field, coefficients) = (&self.0, &*arrays.field, &arrays.coefficients[..]);
        Reference { kernel, field, coefficients, iterations, order, grid }.run::<N>(work, memory)
    }
}

/// A kernel that a text describes.
struct Text(Described);

impl<T: Real> Runs<T> for Text {
    fn plan(&self, how: &How, arrays: &Arrays<T>, result: &Matrix<T>) -> WaveResult<Plan> {
        how.sweep(self.0.clone()).plan_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    fn run(&self, how: &How, arrays: &Arrays<T>, result: Matrix<T>) -> WaveResult<(Matrix<T>, Report)> {
        how.sweep(self.0.clone()).run_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    fn run_to(&self, how: &How, arrays: &Arrays<T>, target: &Target) -> WaveResult<(Pending, Report)> {
        how.sweep(self.0.clone()).run_dynamic_to(&arrays.field, &arrays.coefficients, target)
    }

    fn reference(&self, loops: Loops, arrays: &Arrays<T>, work: Matrix<T>) -> WaveResult<Matrix<T>> {
        let Loops { iterations, order, grid, memory } = loops;
        let (kernel, field, coefficients) = (&self.0, &*arrays.field, &arrays.coefficients[..]);
        Reference { kernel, field, coefficients, iterations, order, grid }.run_dynamic(work, memory)
    }
}

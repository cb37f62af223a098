//! The built-in kernels and their parameters.
//!
//! To add a kernel, add a name in [`Known`], a line in [`Kernel::choose`], and a line in the help
//! (`args/run.rs`). Kernels described in a file need none of this.
//!

use std::path::{Path, PathBuf};

use syncline_store::{Shape, checksum::checksum, chunk::read_text};
use syncline_wave::{
    Described,
    kernels::{Alignment, AnyKernel, GaussSeidelVariable, Lk23, NinePoint, Sor},
};

use crate::args::{KernelName, Known, RunArgs};
use crate::error::{Error, Result};

/// The default relaxation factor.
const OMEGA: f64 = 1.5;

/// The default cost of a gap.
const GAP: f64 = 1.0;

/// The parameter of a result that holds the checksum of the description of its kernel.
const DESCRIPTION: &str = "description";

/// Refuses parameters of other kernels.
fn check_parameters(kernel: Option<Known>, args: &RunArgs) -> Result<()> {
    let given: [(bool, &str, &[Known]); 3] = [
        (args.omega.is_some(), "--omega", &[Known::Sor, Known::NinePoint]),
        (args.gap.is_some(), "--gap", &[Known::Alignment]),
        (args.local, "--local", &[Known::Alignment]),
    ];
    match given
        .into_iter()
        .find(|(given, _, of)| *given && !of.iter().any(|own| Some(*own) == kernel))
    {
        None => Ok(()),
        Some((_, option, of)) => {
            let names: Vec<_> = of.iter().map(Known::name).collect();
            let plural = if of.len() == 1 { "" } else { "s" };
            let hint = match kernel {
                Some(_) => "",
                None => "; a description has its parameters in [constants]",
            };
            Err(Error::Usage(format!(
                "{option} is for the kernel{plural} {} only{hint}",
                names.join(" and ")
            )))
        }
    }
}

/// A kernel with the names of its arrays.
pub(crate) struct Kernel {
    /// The name on the command line, or in the description.
    pub(crate) name: String,
    /// The array that is updated.
    pub(crate) field: String,
    /// The other arrays, in the kernel's order.
    pub(crate) coefficients: Vec<String>,
    /// The parameters that identify the computation together with the name.
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// The file that describes it, if it is not built in.
    pub(crate) description: Option<PathBuf>,
    /// What sweeps run.
    pub(crate) runs: AnyKernel,
    /// The description, if only a sweep over arrays can run it.
    pub(crate) over_arrays: Option<Described>,
}

impl Kernel {
    /// Returns the kernel of the options; `has` returns whether an array exists.
    ///
    /// # Errors
    /// [`Error::Usage`] for parameters that the kernel does not have, and errors of their values.
    pub(crate) fn choose(args: &RunArgs, has: impl Fn(&str) -> bool) -> Result<Self> {
        let known = match &args.kernel {
            KernelName::Known(known) => *known,
            KernelName::Described(path) => {
                check_parameters(None, args)?;
                return Self::described(path);
            }
        };
        check_parameters(Some(known), args)?;
        let with_f = has("f");
        let (omega, gap) = (args.omega.unwrap_or(OMEGA), args.gap.unwrap_or(GAP));
        let score = if args.local { Alignment::local } else { Alignment::global };
        Ok(match known {
            Known::Lk23 => Self::new(known, "za", Lk23::COEFFICIENTS, AnyKernel::Lk23),
            Known::GaussSeidel => {
                Self::poisson(known, AnyKernel::Sor(Sor::gauss_seidel(), with_f), with_f)
            }
            Known::Sor => Self::poisson(known, AnyKernel::Sor(Sor::new(omega)?, with_f), with_f)
                .with("omega", omega),
            Known::NinePoint => {
                let runs = AnyKernel::NinePoint(NinePoint::new(omega)?, with_f);
                Self::poisson(known, runs, with_f).with("omega", omega)
            }
            Known::GaussSeidelVariable => Self::new(
                known,
                "u",
                GaussSeidelVariable::COEFFICIENTS,
                AnyKernel::GaussSeidelVariable,
            ),
            Known::Alignment => {
                Self::new(known, "score", ["match"], AnyKernel::Alignment(score(gap)?))
                    .with("gap", gap)
                    .with("local", args.local)
            }
        })
    }

    /// Returns the kernel that a file describes.
    fn described(path: &Path) -> Result<Self> {
        let text = read_text(path, Described::LONGEST)?;
        let described = Described::parse(&text)
            .map_err(|why| Error::Description { path: path.to_owned(), why })?;
        Ok(Self {
            name: described.name().to_owned(),
            field: described.field().to_owned(),
            coefficients: described.coefficients().to_vec(),
            // The checksum covers the whole text: another text is another kernel.
            parameters: vec![(DESCRIPTION, format!("{:016x}", checksum(text.as_bytes())))],
            description: Some(path.to_owned()),
            over_arrays: described.needs_arrays().then(|| described.clone()),
            runs: AnyKernel::Described(Box::new(described)),
        })
    }

    /// Returns a kernel on u, with the right-hand side f if there is one.
    fn poisson(known: Known, runs: AnyKernel, with_f: bool) -> Self {
        if with_f { Self::new(known, "u", ["f"], runs) } else { Self::new(known, "u", [], runs) }
    }

    fn new<const N: usize>(
        known: Known,
        field: &str,
        coefficients: [&str; N],
        runs: AnyKernel,
    ) -> Self {
        Self {
            name: known.name(),
            field: field.to_owned(),
            coefficients: coefficients.map(str::to_owned).to_vec(),
            parameters: Vec::new(),
            description: None,
            runs,
            over_arrays: None,
        }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    /// Words the differences to another run: names and files of kernels replace checksums of
    /// descriptions.
    pub(crate) fn in_words(&self, differences: Vec<String>) -> Vec<String> {
        let of_kernels = |text: &String| text.starts_with("kernel was ");
        let other_name = differences.iter().any(of_kernels);
        let (was, built_in) =
            (format!("{DESCRIPTION} was "), format!("{DESCRIPTION} was not given"));
        let words = |text: String| match text.strip_prefix(&was) {
            None => Some(text),
            // The names already differ, so the description adds nothing.
            Some(_) if other_name => None,
            Some(_) => {
                let name = &self.name;
                let then = match text.starts_with(&built_in) {
                    true => format!("the built-in kernel {name}"),
                    false => format!("a description of a kernel {name}"),
                };
                Some(match &self.description {
                    Some(path) if text.starts_with(&built_in) => {
                        format!(
                            "it was computed by {then}, this run uses the description {}",
                            path.display()
                        )
                    }
                    Some(path) => {
                        format!(
                            "it was computed by {then} with another text than {} has",
                            path.display()
                        )
                    }
                    None => format!(
                        "it was computed by {then}, this run uses the built-in kernel {name}"
                    ),
                })
            }
        };
        differences.into_iter().filter_map(words).collect()
    }

    /// Returns the number of points of a matrix of this shape that each iteration updates.
    pub(crate) fn points(&self, shape: Shape) -> usize {
        self.runs.stencil().updated(shape).elements()
    }
}

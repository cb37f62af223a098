//! The kernel on the command line: a name, or the file of a description.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, TypedValueParser};

/// The built-in kernels.
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

/// The kernel to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelName {
    /// A built-in kernel.
    Known(Known),
    /// A kernel that a file describes.
    Described(PathBuf),
}

impl FromStr for KernelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || {
            let names: Vec<_> = Known::value_variants().iter().map(Known::name).collect();
            format!("the kernels are {}, and descriptions FILE.toml", names.join(", "))
        };
        if text.ends_with(".toml") {
            return Ok(Self::Described(text.into()));
        }
        Known::from_str(text, false).map(Self::Known).map_err(|_| names())
    }
}

/// Parses the name of a kernel, and tells the shells the names of the built-in ones.
#[derive(Clone, Debug)]
pub(super) struct KernelParser;

impl TypedValueParser for KernelParser {
    type Value = KernelName;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<KernelName, clap::Error> {
        (|text: &str| text.parse::<KernelName>()).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Known::value_variants().iter().filter_map(|known| known.to_possible_value())))
    }
}

//! Errors as the exceptions of the package, which `python/syncline/_errors.py` defines.

use std::any::Any;
use std::fmt::Display;

use pyo3::prelude::*;
use syncline_memory::room::Size;
use syncline_store::Error as StoreError;
use syncline_wave::Error as WaveError;
use syncline_wave::described::DescribedError;

/// Returns the exception of this class of the package.
pub(crate) fn exception(py: Python<'_>, class: &str, message: impl Display) -> PyErr {
    let class = py.import("syncline._errors").and_then(|errors| errors.getattr(class));
    match class.and_then(|class| class.call1((message.to_string(),))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Returns the exception for a panic, which is a defect of this library.
pub(crate) fn of_panic(py: Python<'_>, panic: Option<&(dyn Any + Send)>) -> PyErr {
    let text = panic.and_then(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied())
    });
    exception(py, "Error", format!("a defect of syncline: {}", text.unwrap_or("it panicked")))
}

/// Returns the exception for an error of a sweep.
pub(crate) fn of_sweep(py: Python<'_>, error: &WaveError) -> PyErr {
    let class = match error {
        WaveError::Store(error) => class_of(error),
        WaveError::Shape { .. }
        | WaveError::Fields { .. }
        | WaveError::ArrayType { .. }
        | WaveError::Dimensions { .. }
        | WaveError::ArrayShape { .. }
        | WaveError::Coefficients { .. } => "ArrayError",
        WaveError::OfArrays { .. } | WaveError::Function { .. } | WaveError::Undeclared { .. } => {
            "KernelError"
        }
        WaveError::StreamMemory { allowed, depth, needed, instead, .. } => {
            let lacking = Size(needed.saturating_sub(*allowed));
            let turn = instead.filter(|instead| instead.starts_with("turn"));
            let less = turn.map_or_else(String::new, |turn| format!("; to need less, {turn}"));
            let message = format!(
                "{depth} iteration(s) in one pass need buffers of {}, for which the memory allowed \
                 lacks {lacking} at least{less}",
                Size(*needed)
            );
            return exception(py, "MemoryBoundError", message);
        }
        WaveError::Leftovers { path, found } => {
            let message = format!(
                "beside {} is {found}: resume=True goes on from there, overwrite=True begins again",
                path.display()
            );
            return exception(py, "OutputError", message);
        }
        WaveError::Taken { path, by } => {
            let resume = if by.is_the_same() { ", resume=True goes on from it" } else { "" };
            let message = format!("{} is {by}: overwrite=True replaces it{resume}", path.display());
            return exception(py, "OutputError", message);
        }
        WaveError::Fewer { .. } => "OutputError",
        _ => "Error",
    };
    exception(py, class, error)
}

/// Returns the exception for an error of files.
pub(crate) fn of_store(py: Python<'_>, error: &StoreError) -> PyErr {
    exception(py, class_of(error), error)
}

fn class_of(error: &StoreError) -> &'static str {
    match error {
        StoreError::Memory { .. } => "MemoryBoundError",
        StoreError::Dimensions { .. } | StoreError::Empty { .. } | StoreError::TooLarge { .. } => {
            "ArrayError"
        }
        StoreError::Busy { .. }
        | StoreError::OtherRun { .. }
        | StoreError::Output { .. }
        | StoreError::Appeared { .. } => "OutputError",
        StoreError::Kept { source, .. } => class_of(source),
        _ => "FileError",
    }
}

/// Returns the exception for an error of a description.
pub(crate) fn of_text(py: Python<'_>, error: &DescribedError) -> PyErr {
    let class = match error {
        DescribedError::Read(_) => "FileError",
        _ => "KernelError",
    };
    exception(py, class, error)
}

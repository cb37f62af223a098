//! Traces of this process and of its workers, and reports of them.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use syncline_report::export::Format;
use syncline_report::model::Report;
use syncline_report::{ReportError, Trace, page, report};
use syncline_trace::TraceError;

use crate::attend::abandon;
use crate::error;

/// Begins to record to a file.
///
/// # Errors
/// `Error` if this process records already, `FileError` if the file cannot be used.
#[pyfunction]
pub(crate) fn start_trace(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| syncline_trace::start(&path)).map_err(|why| of_trace(py, &why))
}

/// Ends the recording; returns the file, the events in it, and those that were lost; `None` if this
/// process does not record.
///
/// # Errors
/// `FileError` if the file could not be written to its end.
#[pyfunction]
pub(crate) fn finish_trace(py: Python<'_>) -> PyResult<Option<(PathBuf, u64, u64)>> {
    let finished = py.detach(syncline_trace::finish).map_err(|why| of_trace(py, &why))?;
    Ok(finished.map(|done| (done.path, done.events, done.lost)))
}

/// The report of a trace, or of two that are compared.
#[pyclass(frozen, module = "syncline._syncline")]
pub(crate) struct Reported {
    runs: Vec<(Trace, Report)>,
}

#[pymethods]
impl Reported {
    /// Reads one trace or two.
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Self> {
        let read = move || {
            let each = paths.iter().map(|path| {
                let trace = Trace::open(&[path])?;
                let report = report(&trace)?;
                Ok((trace, report))
            });
            each.collect::<Result<_, ReportError>>()
        };
        let runs = abandon(py, read)?.map_err(|why| of_report(py, &why))?;
        Ok(Reported { runs })
    }

    /// What bounds each run, as text.
    fn text(&self) -> Vec<String> {
        self.runs.iter().map(|(_, report)| report.to_string()).collect()
    }

    /// The lengths of the runs, in seconds.
    fn lengths(&self) -> Vec<f64> {
        self.runs.iter().map(|(_, report)| report.length).collect()
    }

    /// The page for a browser.
    fn page(&self, py: Python<'_>) -> String {
        py.detach(|| self.rendered())
    }

    /// Writes a file, of the format that its name says.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let format = Format::of(&path).map_err(|why| of_report(py, &why))?;
        let saved = match (format, &*self.runs) {
            (Format::Page, _) => py.detach(|| page::save(&path, &self.rendered())),
            (_, [(trace, report)]) => py.detach(|| format.save(&path, trace, report)),
            _ => {
                let why = "two traces are compared on a page: name it .html";
                return Err(error::exception(py, "OutputError", why));
            }
        };
        saved.map_err(|why| of_report(py, &why))
    }
}

impl Reported {
    fn rendered(&self) -> String {
        match &*self.runs {
            [] => String::new(),
            [(_, report)] => page::render(report),
            [(_, first), (_, second), ..] => page::compare(first, second),
        }
    }
}

/// Returns whether a file is a page of an earlier report.
#[pyfunction]
pub(crate) fn is_report_page(path: PathBuf) -> bool {
    page::is_page(Path::new(&path))
}

fn of_trace(py: Python<'_>, why: &TraceError) -> PyErr {
    let class = if matches!(why, TraceError::Recording { .. }) { "Error" } else { "FileError" };
    error::exception(py, class, why)
}

fn of_report(py: Python<'_>, why: &ReportError) -> PyErr {
    let class = if matches!(why, ReportError::Format { .. }) { "OutputError" } else { "FileError" };
    error::exception(py, class, why)
}

//! Reports as files, and exports of all spans of a trace for other programs.
//!
//! Both exports read the trace once, span by span, in memory that does not depend on its length.

mod csv;
mod nest;
mod perfetto;

use std::fs::File;
use std::io;
use std::path::Path;

pub use csv::csv;
pub use perfetto::perfetto;
use syncline_trace::{ActivityClass, Role};

use crate::error::ReportError;
use crate::load::Trace;
use crate::model::Report;
use crate::page;

/// The formats of files, which the ends of their names say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `.html`: a page for the browser.
    Page,
    /// `.json`: the report's data.
    Json,
    /// `.csv`: the spans.
    Csv,
    /// `.pftrace`: a trace for Perfetto.
    Perfetto,
}

impl Format {
    /// Returns the format that the name of a file says.
    ///
    /// # Errors
    /// If the name has none of these ends.
    pub fn of(path: &Path) -> Result<Format, ReportError> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("html" | "htm") => Ok(Format::Page),
            Some("json") => Ok(Format::Json),
            Some("csv") => Ok(Format::Csv),
            Some("pftrace" | "perfetto-trace") => Ok(Format::Perfetto),
            _ => Err(ReportError::Format { path: path.to_owned() }),
        }
    }

    /// Writes a report, or the spans of its trace, to a file, which is replaced.
    ///
    /// # Errors
    /// If the file cannot be written, or the trace not be read any more.
    pub fn save(self, path: &Path, trace: &Trace, report: &Report) -> Result<(), ReportError> {
        let failed = |error: io::Error| cannot_write(&path.display().to_string(), error);
        match self {
            Format::Page => page::save(path, &page::render(report)),
            Format::Json => {
                let text =
                    serde_json::to_string_pretty(report).map_err(|why| failed(why.into()))?;
                std::fs::write(path, text).map_err(failed)
            }
            Format::Csv => csv(trace, &mut File::create(path).map_err(failed)?),
            Format::Perfetto => perfetto(trace, &mut File::create(path).map_err(failed)?),
        }
    }
}

/// Returns the word for a class.
fn class_name(class: ActivityClass) -> &'static str {
    match class {
        ActivityClass::Work => "work",
        ActivityClass::Wait => "wait",
        ActivityClass::Device => "device",
        ActivityClass::Mark => "mark",
    }
}

/// Returns the words for a role, or nothing for a thread without one.
fn role_name(role: Option<Role>) -> String {
    match role {
        Some(Role::Worker(number)) => format!("worker {number}"),
        Some(Role::Manager) => "manager".into(),
        Some(Role::Server(host)) => format!("server {host}"),
        Some(Role::Member(rank)) => format!("member {rank}"),
        _ => String::new(),
    }
}

/// Returns the error of an export that cannot be written.
fn cannot_write(what: &str, source: io::Error) -> ReportError {
    ReportError::Write { what: what.into(), source }
}

//! `syncline report`, and the recording of commands with `--trace`.

use std::path::Path;

use syncline_common::terminal;
use syncline_common::trace::TraceOption;
use syncline_report::export::Format;
use syncline_report::{Trace, page, report};

use crate::args::ReportArgs;
use crate::error::{Error, Result};

/// Starts to record, if the option is given. The result of the command goes to another file.
pub(crate) fn start(option: &TraceOption, output: Option<&Path>) -> Result<()> {
    let Some(path) = &option.trace else { return Ok(()) };
    if output.is_some_and(|output| is_same(path, output)) {
        let path = path.display();
        return Err(Error::Usage(format!("{path} cannot be both the trace and the output")));
    }
    Ok(syncline_trace::start(path)?)
}

/// Whether two names are of the same file, which need not exist.
fn is_same(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        path.canonicalize().ok().or_else(|| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
            Some(folder.join(path.file_name()?))
        })
    };
    place(a).is_some_and(|a| place(b) == Some(a))
}

/// Ends the recording, and says where it is, or why it is incomplete.
pub(crate) fn finish(option: &TraceOption, quiet: bool) {
    if option.trace.is_none() {
        return;
    }
    match syncline_trace::finish() {
        Ok(Some(done)) if !quiet => {
            let path = done.path.display();
            terminal::say(format_args!("trace: {path}; syncline report {path}"));
        }
        Ok(_) => {}
        Err(error) => terminal::say(format_args!("warning: {error}; it ends there")),
    }
}

/// Prints what bounds a run, and writes the report.
pub(crate) fn make(args: &ReportArgs) -> Result<String> {
    let output = match &args.output {
        Some(path) => Some((path.as_path(), format(path)?)),
        None => None,
    };
    if let Some((path, _)) = output {
        let mut traces = std::iter::once(&args.trace).chain(&args.other);
        if traces.any(|trace| is_same(path, trace)) {
            let path = path.display();
            return Err(Error::Usage(format!("{path} is a trace: the report needs another name")));
        }
        may_replace(path, args.force)?;
    }
    let trace = Trace::open(&[&args.trace])?;
    let first = report(&trace)?;
    let Some(other) = &args.other else {
        if let Some((path, format)) = output {
            format.save(path, &trace, &first)?;
        }
        return Ok(first.to_string());
    };
    let second = report(&Trace::open(&[other])?)?;
    match output {
        Some((path, Format::Page)) => page::save(path, &page::compare(&first, &second))?,
        Some(_) => {
            let why = "two traces are compared on a page: give --output FILE.html";
            return Err(Error::Usage(why.to_owned()));
        }
        None => {}
    }
    let ratio = second.length / first.length.max(1e-9);
    Ok(format!(
        "{}\n\n{}\n\nThe second run took {ratio:.2} times as long as the first.",
        first, second
    ))
}

fn format(path: &Path) -> Result<Format> {
    Format::of(path).map_err(|why| Error::Usage(why.to_string()))
}

/// Refuses to replace a file that is not a page of an earlier report.
fn may_replace(path: &Path, force: bool) -> Result<()> {
    if force || !path.exists() || page::is_page(path) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} exists already, and is not a page of an earlier report; --force replaces it",
        path.display()
    )))
}

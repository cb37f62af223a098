//! `syncline report`, and the recording of commands with `--trace`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use syncline_report::model::{Report, Summary};
use syncline_report::{ReportError, Trace, export, page, report};

use crate::args::{ReportArgs, TraceOption};
use crate::error::{Error, Result};
use crate::terminal;

/// The formats of outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Page,
    Json,
    Csv,
    Perfetto,
}

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
            write(path, format, &trace, &first)?;
        }
        return Ok(text(&first));
    };
    let second = report(&Trace::open(&[other])?)?;
    match output {
        Some((path, Format::Page)) => save(path, page::compare(&first, &second).as_bytes())?,
        Some(_) => {
            let why = "two traces are compared on a page: give --output FILE.html";
            return Err(Error::Usage(why.to_owned()));
        }
        None => {}
    }
    let ratio = second.length / first.length.max(1e-9);
    Ok(format!(
        "{}\n\n{}\n\nThe second run took {ratio:.2} times as long as the first.",
        text(&first),
        text(&second)
    ))
}

fn format(path: &Path) -> Result<Format> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("html" | "htm") => Ok(Format::Page),
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some("pftrace" | "perfetto-trace") => Ok(Format::Perfetto),
        _ => Err(Error::Usage(format!(
            "the name of {} does not say what to write: .html, .json, .csv or .pftrace",
            path.display()
        ))),
    }
}

/// Refuses to replace a file that is not a page of an earlier report.
fn may_replace(path: &Path, force: bool) -> Result<()> {
    let is_page = || {
        let mut head = vec![0; page::HEAD.len()];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
        read.is_ok() && head == page::HEAD.as_bytes()
    };
    if force || !path.exists() || is_page() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} exists already, and is not a page of an earlier report; --force replaces it",
        path.display()
    )))
}

fn write(path: &Path, format: Format, trace: &Trace, report: &Report) -> Result<()> {
    match format {
        Format::Page => save(path, page::render(report).as_bytes()),
        Format::Json => {
            let text =
                serde_json::to_string_pretty(report).map_err(|error| failed(path, error.into()))?;
            save(path, text.as_bytes())
        }
        Format::Csv => export::csv(trace, &mut create(path)?).map_err(Error::Report),
        Format::Perfetto => export::perfetto(trace, &mut create(path)?).map_err(Error::Report),
    }
}

fn create(path: &Path) -> Result<io::BufWriter<File>> {
    Ok(io::BufWriter::new(File::create(path).map_err(|error| failed(path, error))?))
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|error| failed(path, error))
}

fn failed(path: &Path, source: io::Error) -> Error {
    ReportError::Write { what: PathBuf::from(path).display().to_string(), source }.into()
}

/// Returns the summary of a report.
fn text(report: &Report) -> String {
    let Summary { headline, causes, work, queued, wait, waits } = &report.summary;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{headline}");
    for (index, cause) in causes.iter().enumerate() {
        if index > 0 {
            let _ = writeln!(text, "{}", cause.what);
        }
        let _ = writeln!(text, "  {}", cause.evidence);
        let _ = writeln!(text, "  {}", cause.advice);
    }
    // Not -0.0 %, which sums of rounded parts may be.
    let percent = |part: f64| format!("{:.1} %", (100.0 * part).max(0.0) + 0.0);
    let threads = report.lanes.len();
    let _ = writeln!(
        text,
        "\n{}: {:.3} s, {threads} thread{}: {} work, {} waiting",
        report.title,
        report.length,
        if threads == 1 { "" } else { "s" },
        percent(*work),
        percent(*wait)
    );
    if *queued >= 0.001 {
        let _ = writeln!(text, "  {:>7}  ready, without a processor", percent(*queued));
    }
    for &(activity, part) in waits.iter().filter(|wait| wait.1 >= 0.001) {
        let name = report.activities.get(activity).map_or("", |activity| activity.name.as_str());
        let _ = writeln!(text, "  {:>7}  {name}", percent(part));
    }
    for missing in &report.missing {
        let _ = writeln!(text, "note: {missing}");
    }
    text.trim_end().to_owned()
}

//! Spans as comma-separated values: a line for each span, with names instead of numbers.
//!
//! Fields with commas, quotes or line ends are quoted as RFC 4180 says; lines end with a line feed.
//! Lines are in the order of the ends of spans, process by process in turn.

use std::io::{self, Write};

use crate::error::ReportError;
use crate::load::{Span, Trace};

use super::{cannot_write, class_name, role_name};

/// The columns.
const HEAD: &str = "host,pid,thread,role,activity,class,object,subject,detail,since_s,until_s\n";

/// Writes all spans and marks of a trace as comma-separated values.
///
/// The columns are: host, process number, label of the thread, role, activity, its class, name of
/// the object, subject and detail as the trace has them, begin and end in seconds since the first
/// event. A mark is a line whose begin is its end.
///
/// # Errors
/// If a file of the trace cannot be read any more, or the output cannot be written.
///
/// # Examples
/// ```no_run
/// use std::path::Path;
/// use syncline_report::{Trace, export};
///
/// let trace = Trace::open(&[Path::new("run.trace")])?;
/// export::csv(&trace, &mut std::io::stdout().lock())?;
/// # Ok::<(), syncline_report::ReportError>(())
/// ```
pub fn csv(trace: &Trace, output: &mut dyn Write) -> Result<(), ReportError> {
    let mut output = io::BufWriter::with_capacity(1 << 16, output);
    // The fields of a thread, which all of its lines begin with.
    let threads: Vec<String> = trace
        .lanes
        .iter()
        .enumerate()
        .map(|(index, lane)| {
            let info = &trace.processes[lane.process].info;
            let (name, role) = (trace.lane_name(index), role_name(lane.role));
            [quoted(&info.host), info.pid.to_string(), quoted(&name), quoted(&role)].join(",")
        })
        .collect();
    let mut written = output.write_all(HEAD.as_bytes());
    trace.for_each(&mut |span| {
        if written.is_ok() {
            written = line(trace, &threads, span, &mut output);
        }
    })?;
    written.and_then(|()| output.flush()).map_err(|source| cannot_write("the spans", source))
}

fn line(trace: &Trace, threads: &[String], span: &Span, output: &mut dyn Write) -> io::Result<()> {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    writeln!(
        output,
        "{},{},{},{},{},{},{},{}",
        threads[span.lane],
        span.activity.name(),
        class_name(span.activity.class()),
        quoted(&trace.label(span)),
        span.subject,
        span.detail,
        seconds(span.since),
        seconds(span.until)
    )
}

/// Returns a field, in quotes where it needs them.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_fields_are_quoted() {
        assert_eq!(quoted("wave 3"), "wave 3");
        assert_eq!(quoted("wave 3, 7"), "\"wave 3, 7\"");
        assert_eq!(quoted("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}

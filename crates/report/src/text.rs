//! The summary of a report, as text for a terminal.

use std::fmt::{self, Write as _};

use crate::model::{Report, Summary};

/// What bounds the run and what its threads waited for, as lines of text.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self))
    }
}

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

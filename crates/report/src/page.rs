//! The report as one HTML file that needs no network.
//!
//! The report is embedded as JSON, and scripts of the page draw it. The sources of the page are the
//! files of `page/`; the plotting library is `page/vendor/`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::ReportError;
use crate::model::Report;

const TEMPLATE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const LIBRARY: &str = include_str!("../page/vendor/echarts.min.js");

/// The scripts of the page in the order in which they run, in one scope.
const SCRIPTS: [&str; 17] = [
    include_str!("../page/base.js"),
    include_str!("../page/units.js"),
    include_str!("../page/paint.js"),
    include_str!("../page/charts.js"),
    include_str!("../page/lanes.js"),
    include_str!("../page/slider.js"),
    include_str!("../page/summary.js"),
    include_str!("../page/timeline.js"),
    include_str!("../page/grids.js"),
    include_str!("../page/progress.js"),
    include_str!("../page/wave.js"),
    include_str!("../page/overlay.js"),
    include_str!("../page/disk.js"),
    include_str!("../page/messages.js"),
    include_str!("../page/farm.js"),
    include_str!("../page/compare.js"),
    include_str!("../page/main.js"),
];

/// The beginning of every page, by which a page of an earlier report is recognised.
pub const HEAD: &str = "<!doctype html>\n<!-- a report of Syncline -->\n";

/// Returns the page of a report.
///
/// Numbers that are not finite become `null` in the embedded JSON; the page shows a dash for them.
#[must_use]
pub fn render(report: &Report) -> String {
    let title = named(&report.title);
    fill(&title, &report.summary.headline, &data("report", report))
}

/// Returns the page that compares two reports.
#[must_use]
pub fn compare(a: &Report, b: &Report) -> String {
    let title = format!("{} compared with {}", named(&a.title), named(&b.title));
    let headline = format!("{} {}", a.summary.headline, b.summary.headline);
    fill(&title, &headline, &format!("{}\n{}", data("report", a), data("other", b)))
}

/// Writes a page to a file, which is replaced.
///
/// # Errors
/// If the file cannot be written.
pub fn save(path: &Path, page: &str) -> Result<(), ReportError> {
    std::fs::write(path, page).map_err(|source| {
        let what = path.display().to_string();
        ReportError::Write { what, source }
    })
}

/// Returns whether a file is a page of an earlier report.
#[must_use]
pub fn is_page(path: &Path) -> bool {
    let mut head = vec![0; HEAD.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == HEAD.as_bytes()
}

/// Returns the title of a run, or words for a run without one.
fn named(title: &str) -> String {
    if title.trim().is_empty() { "A run without a name".to_owned() } else { title.to_owned() }
}

/// Replaces the names between double braces in the template. What is inserted is not searched, so
/// that a title may contain any text.
fn fill(title: &str, headline: &str, data: &str) -> String {
    let scripts = SCRIPTS.concat();
    let mut page = String::with_capacity(LIBRARY.len() + scripts.len() + data.len() + (64 << 10));
    let mut rest = TEMPLATE;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        page.push_str(before);
        match name {
            "title" => escape(title, &mut page),
            "headline" => escape(headline, &mut page),
            "style" => page.push_str(STYLE),
            "data" => page.push_str(data),
            "library" => page.push_str(LIBRARY),
            "script" => page.push_str(&scripts),
            _ => {}
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Appends text for an element of HTML.
fn escape(text: &str, page: &mut String) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\0' => page.push('\u{fffd}'),
            c => page.push(c),
        }
    }
}

/// Returns the element with the JSON of a report.
///
/// A `<` occurs in JSON only inside of strings, where `\u003c` means the same. So the text contains
/// no `</script>` and no `<!--`, which end the element or change how its end is found.
fn data(id: &str, report: &Report) -> String {
    // No map of the model has keys that JSON cannot express, so the fallback is not reached.
    let json = serde_json::to_string(report).unwrap_or_else(|_| "null".to_owned());
    let json = json.replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_ends_the_element_that_contains_it() {
        let sources = SCRIPTS.concat() + LIBRARY;
        let sources = sources.to_ascii_lowercase();
        assert!(!sources.contains("</script") && !sources.contains("<!--"));
        assert!(!STYLE.to_ascii_lowercase().contains("</style"));
    }

    #[test]
    fn every_name_of_the_template_is_filled() {
        let page = render(&Report::default());
        let own = page.replace(LIBRARY, "").replace(&SCRIPTS.concat(), "");
        assert!(!own.contains("{{"), "a name of the template is unknown");
        for part in [STYLE, LIBRARY, "A run without a name"] {
            assert!(page.contains(part));
        }
    }

    #[test]
    fn a_title_is_text_and_not_a_part_of_the_template() {
        let title = "{{library}}<b onclick='x'>\"&\0".to_owned();
        let page = render(&Report { title, ..Report::default() });
        assert_eq!(page.matches(LIBRARY).count(), 1);
        assert!(
            page.contains("<title>{{library}}&lt;b onclick='x'&gt;&quot;&amp;\u{fffd}</title>")
        );
    }
}

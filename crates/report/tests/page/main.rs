//! The pages of reports: their data, and what a browser makes of them.

mod any;
mod synthetic;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use syncline_browser::Browser;
use syncline_report::model::Report;
use syncline_report::page;
use syncline_testkit::{cases, property};

/// Returns the text of the element of JSON with this name.
fn embedded<'p>(page: &'p str, id: &str) -> &'p str {
    let begin = format!("<script type=\"application/json\" id=\"{id}\">");
    let (_, after) = page.split_once(&begin).expect("an element with JSON");
    // A browser ends the element here as well: no `<` occurs before.
    after.split_once('<').expect("an end").0
}

fn parsed(page: &str, id: &str) -> Report {
    serde_json::from_str(embedded(page, id)).expect("a report")
}

proptest! {
    #![proptest_config(property(256))]

    #[test]
    fn the_page_contains_the_report(report in any::report(any::finite())) {
        let page = page::render(&report);
        prop_assert_eq!(parsed(&page, "report"), report.clone());
        let page = page::compare(&report, &Report::default());
        prop_assert_eq!(parsed(&page, "report"), report);
        prop_assert_eq!(parsed(&page, "other"), Report::default());
    }

    #[test]
    fn numbers_that_are_not_finite_give_a_page(report in any::report(any::number())) {
        let page = page::render(&report);
        let json: serde_json::Value = serde_json::from_str(embedded(&page, "report")).unwrap();
        prop_assert!(json.is_object());
    }
}

#[test]
fn hostile_names_stay_inside_of_their_element() {
    let report = synthetic::hostile(synthetic::sweep(1.0));
    let page = page::render(&report);
    assert_eq!(parsed(&page, "report"), report);
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(!page.strip_prefix(page::HEAD).unwrap().contains("<!--"));
}

/// Writes a page below the target folder.
fn written(name: &str, page: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.html"));
    fs::write(&path, page).unwrap();
    path
}

/// The panels of a report in their order.
const PANELS: [&str; 9] =
    ["summary", "timeline", "grids", "progress", "wave", "overlay", "disk", "messages", "farm"];

#[test]
#[ignore = "full: a browser"]
fn a_browser_shows_every_panel() {
    let Some(browser) = Browser::find() else { return };
    let all = |name: &str, report: &Report, empty: &[&str]| {
        let seen = browser.check_page(&written(name, &page::render(report)));
        assert_eq!(seen.panels, PANELS, "{name}");
        assert_eq!(seen.empty, empty, "{name}");
        seen
    };
    let sweep = all("sweep", &synthetic::sweep(1.6), &["farm"]);
    assert!(sweep.headline.contains("node2"), "{}", sweep.headline);
    assert!(sweep.text.contains("MB") && !sweep.text.contains("NaN"), "{}", sweep.text);
    assert!(sweep.charts >= 8, "{}", sweep.charts);
    let without = ["grids", "wave", "overlay", "disk", "messages"];
    all("farm", &synthetic::farm(), &without);
    all(
        "bins",
        &synthetic::bins(),
        &["grids", "progress", "wave", "overlay", "disk", "messages", "farm"],
    );
    all("empty", &Report::default(), &PANELS);
    let everything = Report { farm: synthetic::farm().farm, ..synthetic::sweep(1.0) };
    let hostile = all("hostile", &synthetic::hostile(everything), &[]);
    assert!(hostile.text.contains("</script>"), "{}", hostile.headline);
}

#[test]
#[ignore = "full: a browser"]
fn a_browser_shows_two_runs_side_by_side() {
    let Some(browser) = Browser::find() else { return };
    let (slow, fast) = (synthetic::sweep(1.6), synthetic::sweep(1.0));
    let seen = browser.check_page(&written("compare", &page::compare(&slow, &fast)));
    assert_eq!(seen.panels, ["summary", "shares", "progress", "grids"]);
    assert!(
        seen.headline.starts_with("B is 1.") && seen.headline.contains("waits"),
        "{}",
        seen.headline
    );
    let empty = Report::default();
    let seen = browser.check_page(&written("compare-empty", &page::compare(&empty, &fast)));
    assert_eq!(seen.empty, Vec::<String>::new());
    let seen = browser.check_page(&written("compare-nothing", &page::compare(&empty, &empty)));
    assert_eq!(seen.empty, ["shares", "progress", "grids"]);
}

/// The check finds what is planted into a page.
#[test]
#[ignore = "full: a browser"]
fn the_check_of_a_page_finds_faults() {
    let Some(browser) = Browser::find() else { return };
    let planted = [
        ("console.warn('a warning')", "console.warn: a warning"),
        ("setTimeout(() => { throw new Error('a late error'); })", "a late error"),
        ("new Image().src = 'http://127.0.0.1:9/picture.png'", "127.0.0.1:9"),
        ("setTimeout(() => charts[0].chart.clear(), 50)", "timeline: Time line of 8 threads"),
        ("panels[3].section.style.width = '2000px'", "the page is"),
        ("panels[5].section.replaceChildren()", "overlay shows nothing"),
    ];
    let page = page::render(&synthetic::farm());
    let (before, after) = page.rsplit_once("\nstart();\n").expect("the start of the page");
    let scripts = planted.map(|(script, _)| script).join(";\n");
    let page = written("planted", &format!("{before}\nstart();\n{scripts};\n{after}"));
    let (_, faults) = browser.faults(&page);
    for (script, fault) in planted {
        assert!(faults.iter().any(|found| found.contains(fault)), "{script}: {faults:#?}");
    }
}

/// Reports without sense: indexes out of range, numbers that are not finite, lists of different
/// lengths. The page shows what it can.
#[test]
#[ignore = "full: a browser"]
fn a_browser_survives_reports_without_sense() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let Some(browser) = Browser::find() else { return };
    let mut runner = TestRunner::new(property(4));
    for case in 0..cases(4) {
        let mut new = || any::report(any::number()).new_tree(&mut runner).unwrap().current();
        let (a, b) = (new(), new());
        let _ = browser.check_page(&written("senseless", &page::render(&a)));
        if case < 2 {
            let _ = browser.check_page(&written("senseless-compare", &page::compare(&a, &b)));
        }
    }
}

/// With `SYNCLINE_PICTURES=folder`, writes pictures of the pages there, to be looked at.
#[test]
fn pictures() {
    let Some(folder) = env::var_os("SYNCLINE_PICTURES").map(PathBuf::from) else { return };
    let Some(browser) = Browser::find() else { return };
    let everything = Report { farm: synthetic::farm().farm, ..synthetic::sweep(1.6) };
    let compared = page::compare(&synthetic::sweep(1.6), &synthetic::sweep(1.0));
    for (name, page) in [
        ("sweep", page::render(&everything)),
        ("farm", page::render(&synthetic::farm())),
        ("bins", page::render(&synthetic::bins())),
        ("hostile", page::render(&synthetic::hostile(everything))),
        ("compare", compared),
    ] {
        browser.pictures(&written(&format!("picture-{name}"), &page), &folder.join(name));
    }
}

//! Checks the output of `syncline-lab bench rma`. Times are not checked.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::common::{of, ok, records, refused};

/// Returns the output; standard error must be empty.
fn rma(line: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let (printed, said) = ok(folder.path(), &format!("bench rma --json --rounds 1 {line}"), None);
    assert_eq!(said, "", "{line}");
    records(&printed)
}

fn ways<'a>(cells: &[&'a Value], group: &str) -> BTreeSet<&'a str> {
    let of_it = cells.iter().filter(|cell| cell["group"] == group);
    of_it.map(|cell| cell["way"].as_str().unwrap()).collect()
}

#[test]
fn on_one_host_every_operation_has_a_time() {
    let records = rma("--quick");
    let (team, cells) = (of(&records, "team"), of(&records, "cell"));
    assert_eq!((&team[0]["hosts"], &team[0]["processes"]), (&1.into(), &2.into()));
    let operations = ways(&cells, "operations");
    for way in [
        "put",
        "get",
        "put; fence",
        "fence_all",
        "fetch_add",
        "lock; unlock: mcs",
        "lock; unlock: hybrid",
    ] {
        assert!(operations.contains(way), "{operations:?}");
    }
    assert_eq!(ways(&cells, "with 1000 allocations more").len(), 4);
    for cell in &cells {
        let [best, median, p90] =
            ["best", "median", "p90"].map(|name| cell["spread"][name].as_f64().unwrap());
        assert!(0.0 <= best && best <= median && median <= p90, "{cell}");
    }
    assert!(of(&records, "target").iter().all(|target| target["met"].is_boolean()));
}

#[test]
fn between_hosts_ways_are_compared_and_messages_counted() {
    let records = rma("--hosts 3 --delay-us 10 --only sync");
    let cells = of(&records, "cell");
    assert_eq!(ways(&cells, "sync").len(), 6);
    assert!(ways(&cells, "lock").is_empty());
    let sync = cells.iter().find(|cell| cell["way"] == "sync").unwrap();
    // Three members send two messages each if puts travel with counts; otherwise two more, and two
    // acknowledgements if there is enough time.
    let messages = sync["messages"].as_f64().unwrap();
    assert!((6.0..=18.5).contains(&messages), "{sync}");
    let locks = rma("--hosts 2 --delay-us 10 --only lock");
    assert_eq!(ways(&of(&locks, "cell"), "lock").len(), 12);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for option in ["--rounds 0", "--hosts 1"] {
        refused(Path::new("."), &format!("bench rma {option}"), option);
    }
    // It is the delay between hosts, and without --hosts there are none.
    refused(Path::new("."), "bench rma --delay-us 5", "--hosts");
}

#[test]
fn bands_of_every_height_are_run_and_one_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench bands --hosts 3 --delay-us 10 --rows 100 --cols 400 --depth 3 --rounds 2";
    let line = format!("{line} --heights 16,32 --update-ns 1");
    let (printed, _) = ok(folder.path(), &format!("{line} --json"), None);
    let records = records(&printed);
    let (team, cells) = (of(&records, "team"), of(&records, "cell"));
    assert_eq!((&team[0]["hosts"], &team[0]["width"]), (&3.into(), &4.into()));
    let heights: Vec<_> = cells.iter().map(|cell| cell["rows"].as_u64().unwrap()).collect();
    assert_eq!(heights, [16, 32]);
    for cell in cells {
        let [work, ms] = [&cell["work_ms"], &cell["ms"]["best"]].map(|ms| ms.as_f64().unwrap());
        assert!(0.0 < work && work <= ms, "{cell}");
        // Two messages for each of two cuts and each band.
        assert!(cell["messages"].as_u64() >= cell["bands"].as_u64().map(|n| 4 * n - 4), "{cell}");
    }
    let (table, _) = ok(folder.path(), &line, None);
    assert!(table.contains("which a run would choose"), "{table}");
    assert!(ok(folder.path(), "bench bands --help", None).0.contains("--update-ns"));
    refused(folder.path(), "bench bands --heights 0", "--heights");
}

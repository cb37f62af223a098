//! Tests of `syncline verify`.

use std::path::Path;

use crate::common::{fails_with, ok};

/// Returns the output of `syncline verify`.
fn verify(line: &str) -> String {
    ok(Path::new("."), &format!("verify {line}"))
}

#[test]
#[ignore = "full: 11 s: all barriers in all places"]
fn barriers_hold_everywhere() {
    let text = verify("barrier --quick");
    assert!(text.starts_with("barrier "), "{text}");
    for name in [
        "counter",
        "tournament, padded",
        "dissemination, radix 4",
        "counter in dissemination",
        "auto",
    ] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert_eq!(line.matches(" 4400 ok").count(), 3, "{text}");
    }
}

#[test]
#[ignore = "full: members that outnumber the processors spin for 4 s"]
fn locks_hold_everywhere() {
    let text = verify("lock --quick");
    for name in ["ticket", "mcs"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert_eq!(line.matches(" 4400 ok").count(), 3, "{text}");
    }
}

#[test]
fn some_algorithms_in_some_places() {
    let text = verify("barrier --members 2,3 --rounds 10 --only tournament --in threads");
    let lines = text.lines().filter(|line| line.contains(" 20 ok")).count();
    assert_eq!((lines, text.lines().next().unwrap().contains("processes")), (3, false), "{text}");
}

#[test]
fn what_cannot_be_verified_is_told() {
    let here = Path::new(".");
    let error = fails_with(2, here, "verify lock --only tickets");
    assert_eq!(error, "no lock has such a name; there are: ticket, mcs");
    for members in ["0", "5000", "3-2", "x"] {
        let line = format!("verify lock --members {members}");
        let told = crate::common::command(here, &line).output().unwrap();
        assert_eq!(told.status.code(), Some(2), "{told:?}");
        assert!(String::from_utf8_lossy(&told.stderr).contains("member"), "{told:?}");
    }
}

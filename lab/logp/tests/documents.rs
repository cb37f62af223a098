//! Checks that the tables and the picture in `docs/` are those of the simulation.

use std::path::Path;
use std::process::Command;

use syncline_logp::growth::{curves, lost, tables};
use syncline_logp::{Load, Machine};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_tables_are_those_of_the_simulation() {
    let document = std::fs::read_to_string(root().join("docs/growth.md")).unwrap();
    let start = document.find("## o = ").expect("the document has tables");
    for (line, (found, expected)) in document[start..].lines().zip(tables().lines()).enumerate() {
        assert_eq!(
            found, expected,
            "line {line} of the tables in docs/growth.md: see its head for how they are made"
        );
    }
    assert_eq!(document[start..].lines().count(), tables().lines().count());
}

#[test]
fn the_picture_is_that_of_the_simulation() {
    let folder = std::env::temp_dir().join(format!("syncline-growth-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (records, drawn) = (folder.join("curves.jsonl"), folder.join("growth.svg"));
    std::fs::write(&records, curves()).unwrap();
    let mut draw = Command::new("python3");
    let done = draw.arg(root().join("lab/scripts/curves.py")).arg(&records).arg(&drawn).output();
    match done {
        Err(error) => println!("skipped: no python3 here ({error})"),
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let svg = |path: &Path| std::fs::read_to_string(path).unwrap();
            assert!(
                svg(&drawn) == svg(&root().join("docs/growth.svg")),
                "docs/growth.svg differs from the simulation"
            );
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn choices_lose_what_their_documents_say() {
    for members in [2, 3, 5, 8, 12, 16, 25, 27, 32, 64, 100, 122, 256, 326, 1000, 4096] {
        for (overhead, gap) in [(0.01, 0.0), (0.03, 0.0), (0.1, 0.0), (0.01, 0.004), (0.1, 0.004)] {
            let machine = Machine::new(overhead, gap);
            let name = format!("{members} members, {machine:?}");
            let (unknown, known) = lost(machine, &Load::quiet(members));
            assert!(known <= 1.003 && unknown < 5.0 / 3.0, "{name}: {unknown}, {known}");
            let (unknown, known) = lost(machine, &Load::puts(members));
            assert!(known <= 1.25 && unknown < 1.84, "{name}: {unknown}, {known}");
            assert!((16..100).contains(&members) || unknown <= 1.36, "{name}: {unknown}");
            assert!(members > 12 || unknown < 1.08, "{name}: {unknown}");
        }
    }
}

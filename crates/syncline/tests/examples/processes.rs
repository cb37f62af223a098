//! The examples of farms: programs that start themselves again.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of an example, if cargo has built it: a run of all tests of the package does, a
/// run of a single test does not.
fn example(name: &str) -> Option<PathBuf> {
    let this = std::env::current_exe().unwrap();
    let built = this.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    if !built.exists() {
        println!("skipped: {} is not built (cargo build -p syncline --examples)", built.display());
    }
    built.exists().then_some(built)
}

#[test]
fn lazy_solve() {
    let Some(program) = example("lazy_solve") else { return };
    let ended = Command::new(program).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "[71, 839, 1471, 6857]\n");
}

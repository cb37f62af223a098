//! Programs that do not use Syncline, with and without `LD_PRELOAD`.

use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_testkit::{Tool, cases, libraries, output};

/// The directory of the package.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The output of the example, which is the same in every run.
fn said(episodes: u32) -> String {
    let each = format!("one serial thread in each of {episodes} episodes, none too early");
    let threads = [1, 2, 4, 8].map(|n| format!("{n} threads: {each}\n")).concat();
    let destroyed = [2, 5].map(|n| {
        format!("{n} threads: 300 barriers destroyed by the serial thread, their memory reused\n")
    });
    format!("{threads}{}2 processes: {each}\n", destroyed.concat())
}

fn build(compiler: &'static str, source: &str, dir: &Path) -> Option<PathBuf> {
    let tool = Tool::find(compiler)?;
    let (source, executable) = (root().join(source), dir.join("program"));
    let warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-std=c11", "-O1", "-g"];
    let arguments = warnings.map(AsRef::as_ref).into_iter();
    tool.run(arguments.chain([
        source.as_os_str(),
        "-pthread".as_ref(),
        "-ldl".as_ref(),
        "-o".as_ref(),
        executable.as_os_str(),
    ]));
    Some(executable)
}

/// Runs a program with the library preloaded, and returns its stdout and stderr.
fn preloaded(command: &mut Command) -> (String, String) {
    let library = libraries().join("libsyncline_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    // The variable is a list, which a space divides: the path of this checkout may have one.
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("preload.so");
    std::os::unix::fs::symlink(library, &link).unwrap();
    run(command.env("LD_PRELOAD", link))
}

fn run(command: &mut Command) -> (String, String) {
    let out = output(command);
    let (stdout, stderr) =
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert!(out.status.success(), "{command:?}: {}\n{stdout}{stderr}", out.status);
    (stdout, stderr)
}

#[test]
fn a_program_does_the_same_with_and_without_it() {
    let dir = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang"] {
        let Some(program) = build(compiler, "../c/examples/pthread_barrier.c", dir.path()) else {
            continue;
        };
        let (few, many) = (cases(2000), cases(20_000));
        let without = run(Command::new(&program).arg(few.to_string()));
        assert_eq!(without.0, said(few));
        assert!(!without.1.contains("syncline"), "{}", without.1);

        let verbose = ("SYNCLINE_PRELOAD_VERBOSE", "1");
        let with =
            preloaded(Command::new(&program).arg(many.to_string()).env(verbose.0, verbose.1));
        assert_eq!(with.0, said(many));
        // Four teams of threads, one team of processes, and 600 barriers that are destroyed at
        // once.
        assert!(with.1.ends_with("syncline: took over 605 barriers of pthread\n"), "{}", with.1);

        let quiet = preloaded(Command::new(&program).arg("100"));
        assert!(quiet.0 == said(100) && !quiet.1.contains("syncline"), "{quiet:?}");
    }
}

#[test]
fn a_program_without_barriers_says_so() {
    let (stdout, stderr) = preloaded(Command::new("true").env("SYNCLINE_PRELOAD_VERBOSE", "1"));
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("", "syncline: took over 0 barriers of pthread\n")
    );
}

#[test]
fn barriers_that_others_have_made_are_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = build("gcc", "tests/foreign.c", dir.path()) else { return };
    let (stdout, stderr) = preloaded(Command::new(&program).env("SYNCLINE_PRELOAD_VERBOSE", "1"));
    assert_eq!(stdout, "each has its own\n");
    assert_eq!(stderr, "syncline: took over 2 barriers of pthread\n");
}

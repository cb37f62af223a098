//! The options of GNU parallel: sources, replacement strings, conditions to halt, modes of output.

use std::fs;
use std::io::{Read as _, Write as _};

use super::*;
use crate::common::fails;

/// Returns the output of a farm of one slot that reads no input.
fn printed(options: &str, program: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let came = run(farm(folder.path(), &format!("-j 1 {options}"), program), "");
    assert_eq!(came.code, Some(0), "{came:?}");
    came.out
}

#[test]
fn sources_are_combined_and_linked() {
    let program = ["echo", "{1}-{2}", ":::", "a", "b", ":::"];
    assert_eq!(printed("", &[&program[..], &["1", "2"]].concat()), "a-1\na-2\nb-1\nb-2\n");
    assert_eq!(
        printed("", &["echo", "{1}-{2}", ":::", "a", "b", "c", ":::+", "1", "2"]),
        "a-1\nb-2\n"
    );
    assert_eq!(printed("", &["echo", ":::", "a", "", "b"]), "a\n\nb\n");
    assert_eq!(printed("", &["echo", ":::"]), "");
}

#[test]
fn sources_are_files_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("one", "a\nb\n"), ("two", "1\n2\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (options, program) in [
        ("-a one -a two", &["echo"][..]),
        ("-a one", &["echo", "::::", "two"]),
        ("", &["echo", "::::", "one", "two"]),
        ("-a -", &["echo", "::::", "two"]),
        ("", &["echo", ":::", "a", "b", "::::", "two"]),
    ] {
        let came = run(farm(folder.path(), &format!("-j 1 {options}"), program), "a\nb\n");
        assert_eq!(
            (came.code, came.out.as_str()),
            (Some(0), "a 1\na 2\nb 1\nb 2\n"),
            "{options} {program:?}"
        );
    }
    let came = run(farm(folder.path(), "-j 1", &["echo", "::::", "one", "::::+", "two"]), "");
    assert_eq!(came.out, "a 1\nb 2\n");
}

#[test]
fn replacement_strings_are_those_of_gnu_parallel() {
    let args = ["<{}>", "{.}", "{/}", "{//}", "{/.}", "{#}", "{%}", "{{}"];
    assert_eq!(
        printed("", &[&["echo"][..], &args, &[":::", "d/e.f"]].concat()),
        "<d/e.f> d/e e.f d e 1 1 {d/e.f\n"
    );
    let program = ["echo", "{2/.} {1} {-1.} \\{3} \\\\{1}!", ":::", "a", ":::", "d/e.f"];
    assert_eq!(printed("", &program), "e a d/e {3} \\a!\n");
    assert_eq!(
        printed("-n 2", &["printf", "%s;", "{}", "<{}>", ":::", "a b", "c", "d"]),
        "a b;c;<a b c>;d;<d>;"
    );
    assert_eq!(printed("--colsep ,", &["echo", "{2} {1}", ":::", "a,b", "c,"]), "b a\n c\n");
    let came = run(
        farm(Path::new("."), "-j 1 -C [[:space:]]+ -n 2", &["echo", "{1}{2}{3}{4}"]),
        "a  b\nc\td\n",
    );
    assert_eq!(came.out, "abcd\n");
}

/// An argument that no task can have is an error before anything runs; one that a task lacks fails
/// that task alone, once. Both name the string, and how to write its text.
#[test]
fn arguments_that_are_not_there_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for (options, string, most, sources) in [
        ("", "{2}", 1, &[":::", "a"][..]),
        ("-k --dry-run", "{-2/.}", 1, &[":::", "a"]),
        ("--joblog log", "{3//}", 2, &[":::", "a", ":::+", "b"]),
        ("-n 2", "{3}", 2, &[":::", "a", "b"]),
        ("-n 2 -a -", "{5}", 4, &["::::", "/dev/null"]),
    ] {
        let program = [&["touch", "ran", "{1}", string], sources].concat();
        let came = run(farm(folder.path(), options, &program), "x\n");
        let error = format!("error: there is no argument for {string}: a task has at most {most} ");
        assert_eq!((came.code, came.errors.len()), (Some(2), 1), "{came:?}");
        assert!(came.errors[0].starts_with(&error), "{came:?}");
        assert!(came.errors[0].contains(&format!("\\{string} is the text {string}")), "{came:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    for (options, input, task) in [
        ("-C , --retries 3", "a,b\nc\nd,e\n", "task 2 (\"c\")"),
        ("-n 2", "a\nb\nc\n", "task 2 (\"c\")"),
        ("-C , --dry-run", "c\na,b\n", "task 1 (\"c\")"),
    ] {
        let came =
            run(farm(folder.path(), &format!("-k {options}"), &["echo", "{1}", "{-2}"]), input);
        assert_eq!(came.code, Some(1), "{came:?}");
        let line = format!(
            "syncline: {task} has no argument for {{-2}}: it has 1 (\\{{-2}} is the text {{-2}})"
        );
        assert!(came.errors.contains(&line), "{came:?}");
        assert!(came.out.contains("a a\n") && !came.out.contains("c\n"), "{came:?}");
    }
    // The log has the task, and --resume-failed tries it again.
    let options = "-k -C , --joblog log --resume-failed";
    for _ in 0..2 {
        let came = run(farm(folder.path(), options, &["echo", "{2}"]), "a,b\nc\n");
        assert!(
            came.errors.iter().any(|line| line.contains("task 2 (\"c\") has no argument")),
            "{came:?}"
        );
    }
    assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap().lines().count(), 4);
}

/// Concurrent jobs have different slots.
#[test]
fn slots_are_those_of_jobs_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir \"slot$1\" && rmdir \"slot$1\" && echo $1";
    let came =
        run(farm(folder.path(), "-j 3", &["sh", "-c", script, "_", "{%}", "{}"]), &numbers(60));
    assert_eq!(came.code, Some(0), "{came:?}");
    assert!(came.out.lines().all(|slot| ["1", "2", "3"].contains(&slot)), "{came:?}");
}

#[test]
fn a_dry_run_prints_commands_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let program = ["touch", "{}", "it's {#}", ":::", "a b", "c"];
    let came = run(farm(folder.path(), "-j 2 -k --dry-run --joblog log", &program), "");
    assert_eq!((came.code, came.errors.len()), (Some(0), 0), "{came:?}");
    assert_eq!(came.out, "touch 'a b' 'it'\"'\"'s 1'\ntouch c 'it'\"'\"'s 2'\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // With an endless input, as it is read.
    let mut child = farm(folder.path(), "--dry-run", &["x"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "1").unwrap();
    assert_eq!(line(&mut child), "x 1");
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// The starts, each at least a delay after the previous one, take the sum of the delays.
#[test]
fn starts_are_delayed() {
    let folder = tempfile::tempdir().unwrap();
    let since = std::time::Instant::now();
    let came =
        run(farm(folder.path(), "-j 4 --delay 100ms", &["true", ":::", "1", "2", "3", "4"]), "");
    assert_eq!(came.code, Some(0), "{came:?}");
    assert!(since.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_farm_halts_as_it_is_told() {
    // Jobs succeed and fail alternately, one after the other.
    let script = "echo $1; exit $(($1 % 2))";
    for (halt, code, out) in [
        ("never", 1, 6),
        ("soon,fail=2", 1, 3),
        ("now,fail=50%", 1, 5),
        ("soon,success=1", 0, 2),
        ("now,success=34%", 0, 6),
        ("now,success=33%", 0, 4),
        ("soon,done=3", 1, 3),
        ("now,done=100%", 1, 6),
        ("2", 1, 1),
        ("30%", 1, 3),
        ("-1", 0, 2),
    ] {
        let came = run(shell(Path::new("."), &format!("-j 1 --halt {halt}"), script), &numbers(6));
        assert_eq!((came.code, came.out), (Some(code), numbers(out)), "{halt}");
    }
}

/// With `soon`, running jobs complete, and a failed job is not retried.
#[test]
fn soon_waits_for_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    // The first job ends when the second has been reaped, until when its process id exists.
    let script = "if [ $1 = 2 ]; then while [ ! -e begun ]; do sleep 0.01; done; echo $$ > new; mv new pid; exit 1; fi; \
                  touch begun; while [ ! -e pid ]; do sleep 0.01; done; \
                  while kill -0 $(cat pid); do sleep 0.01; done 2> errors; echo $1";
    let came = run(shell(folder.path(), "-j 2 --halt soon,fail=1", script), &numbers(9));
    assert_eq!((came.code, came.out.as_str()), (Some(1), "1\n"), "{came:?}");
    let last = came.errors.last().unwrap();
    assert!(
        last.starts_with("syncline: 2 tasks: 1 done, 1 failed (first: task 2 exited with 1), "),
        "{came:?}"
    );
}

#[test]
fn workers_that_stay_halt_as_well() {
    let script = r#"while read -r line; do id=${line#*:}; id=${id%%,*}; echo "{\"id\": $id, \"result\": 1}"; done"#;
    for (halt, lines) in [("soon,success=2", 2), ("now,done=3", 3)] {
        let options = format!("--protocol lines -j 1 --halt {halt}");
        let came = run(farm(Path::new("."), &options, &["sh", "-c", script]), &numbers(50));
        assert_eq!((came.code, came.out.lines().count()), (Some(0), lines), "{came:?}");
    }
}

#[test]
fn output_may_come_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    // The job waits until its output has been seen; none of it is held back.
    let script = "printf 'out %s\n' $1; while [ ! -e seen ]; do sleep 0.01; done; printf 'no end'";
    for options in ["--ungroup", "-u", "--line-buffer"] {
        let mut child = shell(folder.path(), &format!("-j 1 {options}"), script).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"7\n").unwrap();
        assert_eq!(line(&mut child), "out 7");
        fs::write(folder.path().join("seen"), "").unwrap();
        let mut rest = String::new();
        child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        assert!(rest == "no end" && child.wait().unwrap().success(), "{options}: {rest:?}");
        fs::remove_file(folder.path().join("seen")).unwrap();
    }
    // Raw standard error has no number before it, and no added line end.
    let came = run(shell(folder.path(), "-j 1 -u", "printf 'half '>&2"), "1\n");
    assert!(came.errors[0].starts_with("half syncline: 1 task: 1 done"), "{came:?}");
    let script = "i=0; while [ $i -lt 50 ]; do printf '%s ' $1; echo $i; i=$((i + 1)); done";
    let came = run(shell(folder.path(), "-j 4 --line-buffer", script), &numbers(8));
    let mut lines: Vec<_> = came.out.lines().map(String::from).collect();
    let mut expected: Vec<_> =
        (1..=8).flat_map(|job| (0..50).map(move |line| format!("{job} {line}"))).collect();
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn misuse_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (options, program, why) in [
        (
            "",
            &["echo", ":::+", "a"][..],
            "a source that is linked (:::+, ::::+) needs another before it",
        ),
        ("", &[":::", "a"], "no command stands before the input sources"),
        ("", &["echo", "::::"], "no file behind ::::"),
        ("-a -", &["echo", "::::", "-"], "standard input can be one source only"),
        ("--colsep (", &["echo"], "--colsep \"(\" is no regular expression: "),
        ("--protocol lines -n 2", &["cat"], "-n is not for --protocol lines"),
        ("--protocol lines --joblog x", &["cat"], "--joblog is not for --protocol lines"),
        (
            "--protocol lines --halt now,fail=1%",
            &["cat"],
            "--halt with a percentage is not for --protocol lines",
        ),
        ("--protocol lines -a x", &["cat", ":::", "a"], "--protocol lines has one input source"),
    ] {
        let error = fails(2, farm(folder.path(), options, program), options);
        assert!(error.starts_with(why), "{options} {program:?}: {error}");
    }
    for options in [
        "--halt now",
        "--halt now,fail",
        "--halt now,fail=0",
        "--halt later,fail=1",
        "--halt now,fail=101%",
        "--halt fail=1",
        "-n 0",
        "--delay x",
        "--resume",
        "--resume-failed",
        "-u -k",
        "-u --logs x",
        "--line-buffer -k",
        "-u --line-buffer",
    ] {
        let output = farm(folder.path(), options, &["true"]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{options}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

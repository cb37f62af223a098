//! A process for each task: its input, its output, and its failures.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::*;
use crate::common::fails;

fn here() -> &'static Path {
    Path::new(".")
}

#[test]
fn holes_are_filled_and_a_command_without_any_gets_the_task_last() {
    let came = run(farm(here(), "-k", &["echo", "{#}:", "<{}>", "{}{}"]), "a  b\n\n$HOME\n{#}");
    assert_eq!(came.out, "1: <a  b> a  ba  b\n2: <$HOME> $HOME$HOME\n3: <{#}> {#}{#}\n");
    assert_eq!((came.code, came.summary()), (Some(0), (&[][..], "syncline: 3 tasks: 3 done")));
    let came = run(farm(here(), "-k", &["echo", "{#}"]), "x\ny\n");
    assert_eq!(came.out, "1 x\n2 y\n");
    let came = run(farm(here(), "", &["echo"]), "");
    assert_eq!((came.code, came.summary().1), (Some(0), "syncline: 0 tasks: 0 done"));
}

#[test]
fn a_nul_may_end_a_task() {
    let came = run(farm(here(), "-0 -k", &["printf", "<%s>"]), "a\nb\0\0c");
    assert_eq!(came.out, "<a\nb><c>");
}

#[test]
fn tasks_come_from_a_file_and_workers_read_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("list"), "a\nb").unwrap();
    let came = run(shell(folder.path(), "-k -a list", "cat; echo \"$1\""), "not\nread\n");
    assert_eq!((came.code, came.out.as_str()), (Some(0), "a\nb\n"));
    let error = fails(1, farm(folder.path(), "-a nowhere", &["true"]), "-a nowhere");
    assert!(error.starts_with("cannot read nowhere: No such file"), "{error}");
    let error = fails(1, farm(folder.path(), "-a .", &["true"]), "-a .");
    assert!(error.starts_with("cannot read .: Is a directory"), "{error}");
}

/// Output comes line by line, so that a farm that does not separate outputs would mix them.
#[test]
fn outputs_are_whole() {
    let script = "i=0; while [ $i -lt 30 ]; do echo \"$1 $i\"; i=$((i + 1)); done";
    let whole =
        |number: usize| (0..30).map(move |line| format!("{number} {line}")).collect::<Vec<_>>();
    let came = run(shell(here(), "-j 4", script), &numbers(40));
    let lines: Vec<_> = came.out.lines().map(String::from).collect();
    let mut outputs: Vec<_> = lines.chunks(30).map(<[String]>::to_vec).collect();
    outputs.sort_by_key(|output| output[0].split(' ').next().unwrap().parse::<usize>().unwrap());
    assert_eq!(outputs, (1..=40).map(whole).collect::<Vec<_>>());
    let came = run(shell(here(), "-j 4 -k", script), &numbers(40));
    assert_eq!(came.out, (1..=40).flat_map(whole).map(|line| line + "\n").collect::<String>());
}

/// The first task waits for a file that the last one creates, and its output still comes first.
#[test]
fn order_is_kept_though_the_first_ends_last() {
    let folder = tempfile::tempdir().unwrap();
    let script = "if [ $1 = 1 ]; then while [ ! -e last ]; do sleep 0.01; done; fi; \
                  if [ $1 = 30 ]; then touch last; fi; echo $1";
    let came = run(shell(folder.path(), "-j 2 -k", script), &numbers(30));
    assert_eq!(came.out, numbers(30));
}

#[test]
fn huge_outputs_are_whole() {
    // 3 MB each, in lines that name their task.
    let script = "yes \"line of task $1\" | head -c 3000000";
    for options in ["-j 2 -k", "-j 3 -k --logs logs"] {
        let folder = tempfile::tempdir().unwrap();
        let came = run(shell(folder.path(), options, script), &numbers(5));
        let expected: String = (1..=5)
            .map(|number| {
                format!("line of task {number}\n").repeat(3_000_000 / 15)[..3_000_000].to_owned()
            })
            .collect();
        assert!(came.out == expected, "{options}: {} bytes", came.out.len());
    }
}

/// The test closes the input only after it has seen the first output.
#[test]
fn the_input_is_read_as_it_comes() {
    let mut child = farm(here(), "-j 2", &["echo"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for task in ["first", "second", "third"] {
        writeln!(input, "{task}").unwrap();
        assert_eq!(line(&mut child), task);
    }
    drop(input);
    let came = Came::of(child.wait_with_output().unwrap());
    assert_eq!((came.code, came.summary().1), (Some(0), "syncline: 3 tasks: 3 done"));
}

#[test]
fn standard_error_comes_in_whole_lines_that_say_whose_they_are() {
    let script = "i=0; while [ $i -lt 50 ]; do printf '%s' \"$1 \" >&2; echo $i >&2; i=$((i + 1)); done; printf x >&2";
    let came = run(shell(here(), "-j 4", script), &numbers(8));
    let (lines, summary) = came.summary();
    assert_eq!(summary, "syncline: 8 tasks: 8 done");
    for number in 1..=8 {
        let prefix = format!("[{number}] ");
        let own: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let expected: Vec<_> =
            (0..50).map(|i| format!("{number} {i}")).chain(["x".to_owned()]).collect();
        assert_eq!(own, expected);
    }
    assert_eq!(lines.len(), 8 * 51);
}

#[test]
fn failures_are_told_and_the_rest_is_done() {
    let script = "echo $1; if [ $1 = 2 ]; then exit 3; fi; if [ $1 = 4 ]; then kill -9 $$; fi";
    let came = run(shell(here(), "-k -j 1", script), &numbers(5));
    assert_eq!((came.code, came.out.as_str()), (Some(1), "1\n2\n3\n4\n5\n"));
    let (lines, summary) = came.summary();
    assert_eq!(
        lines,
        [
            "syncline: task 2 (\"2\") exited with 3",
            "syncline: task 4 (\"4\") was killed by SIGKILL"
        ]
    );
    assert_eq!(summary, "syncline: 5 tasks: 3 done, 2 failed (first: task 2 exited with 3)");
}

#[test]
fn what_failed_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    // Task 1 fails once, task 2 always, task 3 never; only the last attempt's output counts.
    let script = "echo x >> tries.$1; n=$(wc -l < tries.$1); echo $1 at $n; \
                  case $1 in 1) [ $n -ge 2 ];; 2) exit 7;; esac";
    let came = run(shell(folder.path(), "-k -j 2 --retries 2", script), &numbers(3));
    assert_eq!((came.code, came.out.as_str()), (Some(1), "1 at 2\n2 at 3\n3 at 1\n"));
    let (lines, summary) = came.summary();
    assert_eq!(lines, ["syncline: task 2 (\"2\") exited with 7 (3 attempts)"]);
    assert_eq!(
        summary,
        "syncline: 3 tasks: 2 done, 1 failed (first: task 2 exited with 7), 2 retried"
    );
}

#[test]
fn a_task_that_takes_too_long_fails() {
    let nap = nap(1);
    // The second task ignores SIGTERM, and so does its child.
    let script = "if [ $1 = 1 ]; then sleep \"$0\"; elif [ $1 = 2 ]; then trap '' TERM; sleep \"$0\"; fi; echo $1";
    // On a machine too busy to do the third task in time, the test repeats with a longer timeout.
    for seconds in ["2.5", "20", "60"] {
        let options = format!("-k -j 3 --timeout {seconds}");
        let came = run(farm(here(), &options, &["sh", "-c", script, &nap]), &numbers(3));
        assert_eq!(came.code, Some(1));
        let (mut lines, summary) = (came.summary().0.to_vec(), came.summary().1);
        lines.sort();
        let expected = [1, 2].map(|number| {
            format!("syncline: task {number} (\"{number}\") took longer than {seconds} s")
        });
        assert!(lines.starts_with(&expected), "{lines:?}");
        gone(&nap);
        if came.out == "3\n" {
            assert_eq!(lines, expected);
            let failed = "syncline: 3 tasks: 1 done, 2 failed (first: task 1 took";
            assert!(summary.starts_with(failed), "{summary}");
            return;
        }
    }
    panic!("the third task is not done, with any timeout");
}

#[test]
fn the_first_failure_may_end_all() {
    let nap = nap(2);
    let folder = tempfile::tempdir().unwrap();
    let script = "if [ $1 = 2 ]; then while [ ! -e 1 ]; do sleep 0.01; done; exit 4; fi; touch $1; sleep \"$0\"";
    let came = run(farm(folder.path(), "-j 2 --halt", &["sh", "-c", script, &nap]), &numbers(100));
    assert_eq!(came.code, Some(1));
    let (lines, summary) = came.summary();
    assert_eq!(lines, ["syncline: task 2 (\"2\") exited with 4"]);
    assert!(
        summary.starts_with(
            "syncline: 2 tasks: 0 done, 1 failed (first: task 2 exited with 4), 1 ended before they were done"
        ),
        "{summary}"
    );
    assert!(!folder.path().join("3").exists());
    gone(&nap);
}

#[test]
fn a_program_that_is_not_there_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plain"), "no program").unwrap();
    for program in ["no-such-program-anywhere", "./plain", "./no-such-program"] {
        let came = run(farm(folder.path(), "-j 4 --retries 3", &[program, "{}"]), &numbers(100));
        assert_eq!((came.code, came.out.as_str(), came.errors.len()), (Some(1), "", 1), "{came:?}");
        assert!(
            came.errors[0].starts_with(&format!("error: cannot start {program}: ")),
            "{came:?}"
        );
    }
    // A missing program that the task names is a failure of that task.
    let came = run(farm(folder.path(), "-k", &["{}"]), "no-such-program-anywhere\ntrue\n");
    assert_eq!(came.code, Some(1));
    let (lines, summary) = came.summary();
    assert!(lines[0].contains("could not be started: No such file"), "{lines:?}");
    assert!(lines[0].ends_with(": no-such-program-anywhere"), "{lines:?}");
    // A command line in one argument is no program: the shell is named that would take it.
    let came = run(farm(folder.path(), "", &["echo hi {}"]), "a\n");
    let (words, _) = came.summary();
    assert!(words[0].contains(": echo hi a; it is one word,"), "{words:?}");
    assert!(words[0].ends_with("use sh -c 'COMMAND'"), "{words:?}");
    assert!(summary.starts_with("syncline: 2 tasks: 1 done, 1 failed"), "{summary}");
    // So is a task that cannot be an argument.
    let came = run(farm(folder.path(), "", &["echo"]), "a\0b\nc\n");
    assert_eq!((came.code, came.out.as_str()), (Some(1), "c\n"));
}

#[test]
fn memory_is_bounded_for_a_task_and_its_children() {
    // A shell that doubles a text until an allocation fails.
    let script =
        "sh -c 't=xxxxxxxx; n=0; while [ $n -lt 26 ]; do t=$t$t; n=$((n + 1)); done; echo all'";
    let came = run(shell(here(), "--memory 32M", script), "1\n");
    assert_eq!((came.code, came.out.as_str()), (Some(1), ""), "{came:?}");
    let came = run(shell(here(), "--memory 32M -k", "ulimit -d; sh -c 'ulimit -d'"), &numbers(20));
    assert_eq!((came.code, came.out), (Some(0), "32768\n".repeat(40)));
    let came = run(farm(here(), "--memory 32M", &["no-such-program-anywhere"]), "1\n2\n");
    let error =
        "error: cannot start no-such-program-anywhere: No such file or directory (os error 2)";
    assert_eq!((came.code, came.errors), (Some(1), vec![error.to_owned()]));
}

#[test]
fn logs_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo out \"$1\"; echo err $1 >&2; [ \"$1\" != 2 ]";
    let came = run(shell(folder.path(), "-k --logs a/logs --retries 1", script), "1\n2\na\tb\n");
    assert_eq!((came.code, came.out.as_str()), (Some(1), "out 1\nout 2\nout a\tb\n"));
    assert_eq!(came.summary().0, ["syncline: task 2 (\"2\") exited with 1 (2 attempts)"]);
    let logs = folder.path().join("a/logs");
    let read = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
    assert_eq!((read("1.out"), read("1.err")), ("out 1\n".to_owned(), "err 1\n".to_owned()));
    assert_eq!((read("2.out"), read("2.err")), ("out 2\n".to_owned(), "err 2\n".to_owned()));
    let table = read("summary.tsv");
    let mut rows: Vec<Vec<_>> = table.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.remove(0), ["number", "exit", "seconds", "attempts", "task"]);
    rows.iter_mut().for_each(|row| assert!(row.remove(2).parse::<f64>().unwrap() >= 0.0));
    rows.sort();
    assert_eq!(rows, [["1", "0", "1", "1"], ["2", "1", "2", "2"], ["3", "0", "1", "a\\tb"]]);
    let error = fails(1, shell(folder.path(), "--logs a/logs", "true"), "--logs");
    assert_eq!(error, "a/logs/summary.tsv exists already, and is not overwritten");
}

#[test]
fn a_wrong_command_line_is_refused() {
    for line in [
        "farm",
        "farm run",
        "farm run true",
        "farm run -j 0 -- true",
        "farm run -j 4097 -- true",
        "farm run --timeout 0 -- true",
        "farm run --timeout 3d -- true",
        "farm run --retries -1 -- true",
        "farm run --protocol words -- true",
        "farm run --",
    ] {
        let refused = command(here(), line).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{line}");
        let error = String::from_utf8(refused.stderr).unwrap();
        let hint = "write `--` before the program: syncline farm run -- true";
        assert_eq!(error.contains(hint), line == "farm run true", "{error}");
    }
    let mut limited = Command::new("sh");
    let script = "ulimit -n 256; exec \"$0\" farm run -j 200 -- true";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_syncline")]).stdin(Stdio::null());
    let error = fails(2, limited, script);
    assert!(
        error.starts_with("200 workers need ") && error.ends_with("the limit is 256 (ulimit -n)"),
        "{error}"
    );
}

#[test]
fn the_guard_and_its_options_are_hidden() {
    let help = crate::common::ok(here(), "farm --help");
    assert!(help.contains("run ") && !help.contains("guard"), "{help}");
    let help = crate::common::ok(here(), "farm run --help");
    assert!(
        help.contains("--keep-order") && help.contains("{\"id\": 7, \"result\": ...}"),
        "{help}"
    );
}

/// Under a bound too small for the program to start, the kernel kills it without a reason.
#[test]
fn a_bound_in_which_nothing_starts_is_named_where_a_task_is_killed() {
    for protocol in ["each", "lines"] {
        let options = format!("--memory 1 --protocol {protocol}");
        let came = run(farm(here(), &options, &["sleep", "0"]), "1\n");
        assert_eq!(came.code, Some(1), "{came:?}");
        let first = &came.errors[0];
        assert!(
            first.contains(" was killed by SIG") && first.contains("; its memory bound is 1 byte"),
            "{came:?}"
        );
    }
    let came = run(shell(here(), "--memory 32M", "kill -KILL $$"), "1\n");
    assert!(
        came.errors[0].ends_with(" was killed by SIGKILL; its memory bound is 32.0 MiB"),
        "{came:?}"
    );
    let came = run(shell(here(), "--memory 32M", "kill -TERM $$"), "1\n");
    assert!(came.errors[0].ends_with(" was killed by SIGTERM"), "{came:?}");
}

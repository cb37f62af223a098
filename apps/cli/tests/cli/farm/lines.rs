//! Persistent workers: their input, their valid answers, and the handling of invalid ones.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// Returns a shell worker that knows the id and the task, if the task is a number or a word, and
/// then runs `script`.
fn worker(script: &str) -> String {
    format!(
        "while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; task=${{line#*\\\"task\\\":}}; task=${{task%\\}}}}; \
         {script}; done"
    )
}

/// Returns a farm of such workers.
fn workers(folder: &Path, options: &str, script: &str) -> Command {
    farm(folder, &format!("--protocol lines {options}"), &["sh", "-c", &worker(script)])
}

/// Returns a farm of workers in Python, with a function `answer(id, value)` and one
/// `new(value, priority)`; `None`, after a line with the reason, if there is no Python.
fn python(options: &str, script: &str) -> Option<Command> {
    const HEAD: &str = r#"
import json, os, sys
def say(what): print(json.dumps(what), flush=True)
def new(task, priority=0): say({"task": task, "priority": priority})
def answer(id, result): say({"id": id, "result": result})
for line in sys.stdin:
    given = json.loads(line)
    id, task = given["id"], given["task"]
"#;
    if let Err(error) = Command::new("python3").arg("--version").output() {
        println!("skipped: python3 cannot be started: {error}");
        return None;
    }
    let body: String = script.trim().lines().map(|line| format!("    {line}\n")).collect();
    let program = format!("{HEAD}{body}");
    Some(farm(Path::new("."), &format!("--protocol lines {options}"), &["python3", "-c", &program]))
}

fn values(came: &Came) -> Vec<Value> {
    came.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const SQUARE: &str = "echo \"{\\\"id\\\":$id,\\\"result\\\":$((task * task))}\"";

#[test]
fn a_shell_is_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let came = run(workers(folder.path(), "-j 3 -k", SQUARE), &numbers(200));
    let expected: String =
        (1..=200).map(|n| format!("{{\"id\":{n},\"task\":{n},\"result\":{}}}\n", n * n)).collect();
    assert_eq!((came.code, came.out.as_str()), (Some(0), expected.as_str()));
    assert_eq!(came.summary(), (&[][..], "syncline: 200 tasks: 200 done"));
    let came = run(workers(folder.path(), "-j 3", SQUARE), &numbers(50));
    let mut ids: Vec<_> = values(&came).iter().map(|value| value["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=50).collect::<Vec<_>>());
}

#[test]
fn values_go_through_as_they_are() {
    let Some(command) = python("-j 1 -k", "answer(id, task)") else { return };
    let input =
        "{\"b\": [1, null, \"\u{e4}\"], \"a\": 2.5}\nplain \"words\"\n\"a string\"\n7\nnull\n[1\n";
    let came = run(command, input);
    let tasks = [
        json!({"b": [1, null, "\u{e4}"], "a": 2.5}),
        json!("plain \"words\""),
        json!("a string"),
        json!(7),
        json!(null),
        json!("[1"),
    ];
    let expected: Vec<_> = (1..)
        .zip(tasks)
        .map(|(id, task)| {
            let result = task.clone();
            json!({"id": id, "task": task, "result": result})
        })
        .collect();
    assert_eq!((came.code, values(&came)), (Some(0), expected));
    // Exact to the last digit, which a double is not.
    let came = run(
        workers(Path::new("."), "-j 1", "echo \"{\\\"id\\\":$id,\\\"result\\\":$task}\""),
        "123456789012345678901234567890\n0.10\n",
    );
    assert!(
        came.out.contains("\"result\":123456789012345678901234567890}")
            && came.out.contains(":0.10}"),
        "{came:?}"
    );
}

/// The workers are the same from the first to the last task, and their number is the requested one.
#[test]
fn workers_stay() {
    let script = "echo \"{\\\"id\\\":$id,\\\"result\\\":$$}\"; sleep 0.01";
    let came = run(workers(Path::new("."), "-j 3", script), &numbers(60));
    let mut pids: Vec<_> =
        values(&came).iter().map(|value| value["result"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    pids.dedup();
    assert!((1..=3).contains(&pids.len()), "{pids:?}");
}

#[test]
fn the_input_is_read_as_it_comes() {
    let mut child = workers(Path::new("."), "-j 2", SQUARE).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for task in 1..5 {
        writeln!(input, "{task}").unwrap();
        assert_eq!(
            line(&mut child),
            format!("{{\"id\":{task},\"task\":{task},\"result\":{}}}", task * task)
        );
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Each task of depth d has three children of depth d - 1.
#[test]
fn a_tree_of_tasks_is_walked() {
    let script = "
for _ in range(3 if task > 0 else 0): new(task - 1)
answer(id, task)
";
    for options in ["-j 2", "-j 3 --retries 1", "-j 2 -k"] {
        let Some(command) = python(options, script) else { return };
        let came = run(command, "5\n");
        let expected = (3_usize.pow(6) - 1) / 2;
        assert_eq!((came.code, came.out.lines().count()), (Some(0), expected), "{options}");
        let mut ids: Vec<_> =
            values(&came).iter().map(|value| value["id"].as_u64().unwrap()).collect();
        if !options.contains("-k") {
            ids.sort_unstable();
        }
        assert!(ids.into_iter().eq(1..=expected as u64), "{options}");
    }
}

#[test]
fn tasks_of_higher_priority_go_first() {
    let script = "
if task == 'first':
    for (name, priority) in [('a', 1), ('b', -1), ('c', 9), ('d', 1), ('e', 0)]: new(name, priority)
answer(id, None)
";
    let Some(command) = python("-j 1", script) else { return };
    let came = run(command, "first\nsecond\n");
    let order: Vec<_> =
        values(&came).iter().map(|value| value["task"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["first", "c", "a", "d", "e", "second", "b"]);
}

/// With --retries, a failed attempt adds no tasks, so that no task is added twice.
#[test]
fn new_tasks_of_an_attempt_that_failed_are_none() {
    let script = "
if task == 'root':
    new('child')
    if not os.path.exists(os.environ['TRIED']):
        open(os.environ['TRIED'], 'w').close()
        os._exit(3)
answer(id, None)
";
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = python("-j 1 --retries 1", script) else { return };
    command.env("TRIED", folder.path().join("tried"));
    let came = run(command, "root\n");
    let expected = [
        json!({"id": 1, "task": "root", "result": null}),
        json!({"id": 2, "task": "child", "result": null}),
    ];
    assert_eq!((came.code, values(&came)), (Some(0), expected.to_vec()));
    assert_eq!(came.summary().1, "syncline: 2 tasks: 2 done, 1 retried");
}

#[test]
fn a_worker_may_say_that_a_task_failed() {
    let script = "[ $task = 2 ] && echo \"{\\\"id\\\":$id,\\\"error\\\":\\\"no \\\\\\\"way\\\\\\\"\\\"}\" || echo \"{\\\"id\\\":$id,\\\"result\\\":$$}\"";
    let came = run(workers(Path::new("."), "-j 1", script), &numbers(3));
    let all = values(&came);
    assert_eq!(
        (came.code, &all[1]),
        (Some(1), &json!({"id": 2, "task": 2, "error": "no \"way\""}))
    );
    // The worker stays.
    assert_eq!(all[0]["result"], all[2]["result"]);
    assert_eq!(came.summary().0, ["syncline: task 2 (\"2\") failed: \"no \\\"way\\\"\""]);
}

#[test]
fn nonsense_fails_its_task_and_ends_its_worker() {
    let answer = "echo \"{\\\"id\\\":$id,\\\"result\\\":1}\"";
    for (bad, told) in [
        ("echo hello", "its worker said \"hello\": not JSON"),
        ("echo \"{\\\"id\\\":9,\\\"result\\\":1}\"", "its worker answered task 9 instead"),
        ("echo \"{\\\"id\\\":$id,\\\"results\\\":1}\"", "unknown field `results`"),
        ("echo", "its worker said \"\": not JSON"),
        ("exit 7", "its worker exited with 7"),
        (
            "printf hello; exit 0",
            "its worker exited with 0; its last 5 bytes have no line end, and are no answer",
        ),
        ("kill -9 $$", "its worker was killed by SIGKILL"),
        ("exec >&-; sleep 100", "its worker closed its standard output"),
        ("head -c 70000000 /dev/zero | tr '\\0' x", "its worker said a line longer than 64 MiB"),
    ] {
        let script = format!("if [ $task = 2 ]; then {bad}; else {answer}; fi");
        let came = run(workers(Path::new("."), "-j 1 -k", &script), &numbers(3));
        let all = values(&came);
        assert_eq!((came.code, all.len()), (Some(1), 3), "{bad}: {came:?}");
        assert!(all[1]["error"].as_str().unwrap().contains(told), "{bad}: {came:?}");
        assert_eq!((&all[0]["result"], &all[2]["result"]), (&json!(1), &json!(1)), "{bad}");
        let (lines, summary) = came.summary();
        assert!(
            lines[0].starts_with("syncline: task 2 (\"2\") failed: its worker "),
            "{bad}: {lines:?}"
        );
        assert!(
            summary.starts_with("syncline: 3 tasks: 2 done, 1 failed (first: task 2 failed: "),
            "{summary}"
        );
    }
}

#[test]
fn a_task_that_takes_too_long_ends_its_worker() {
    let nap = nap(30);
    let script = format!("if [ $task = 2 ]; then sleep {nap}; fi; {SQUARE}");
    // On a machine too busy to do the others in time, the test repeats with a longer timeout.
    for seconds in [2, 15, 60] {
        let options = format!("-j 1 -k --timeout {seconds} --retries 1");
        let came = run(workers(Path::new("."), &options, &script), &numbers(3));
        assert_eq!((came.code, came.out.lines().count()), (Some(1), 3));
        gone(&nap);
        let answers = values(&came);
        assert_eq!(answers[1]["error"], format!("took longer than {seconds} s"));
        if answers[0]["result"] == 1 && answers[2]["result"] == 9 {
            let expected =
                format!("syncline: task 2 (\"2\") took longer than {seconds} s (2 attempts)");
            assert_eq!(came.summary().0, [expected]);
            return;
        }
    }
    panic!("the other tasks are not done, with any timeout");
}

/// Each attempt kills a worker, and a task has three attempts. One task is answered first, so the
/// command is recognised as a worker.
#[test]
fn workers_that_always_die_come_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("if [ $task = 1 ]; then {SQUARE}; else echo x >> tries; exit 5; fi");
    let mut child = workers(folder.path(), "-j 2 --retries 2", &script).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "1").unwrap();
    assert_eq!(line(&mut child), "{\"id\":1,\"task\":1,\"result\":1}");
    input.write_all(b"2\n3\n4\n5\n").unwrap();
    drop(input);
    let came = Came::of(child.wait_with_output().unwrap());
    assert_eq!((came.code, came.out.lines().count()), (Some(1), 4));
    assert_eq!(fs::read_to_string(folder.path().join("tries")).unwrap().lines().count(), 12);
    let (lines, summary) = came.summary();
    let told =
        lines.iter().filter(|line| line.ends_with("failed: its worker exited with 5 (3 attempts)"));
    assert_eq!(told.count(), 4, "{lines:?}");
    assert!(summary.starts_with("syncline: 5 tasks: 1 done, 4 failed"), "{summary}");
}

/// Returns how often workers were started; each adds a line to a file.
fn starts(folder: &Path) -> usize {
    fs::read_to_string(folder.join("starts")).unwrap().lines().count()
}

#[test]
fn a_mistyped_command_ends_the_farm_early_with_its_last_words() {
    let words = "; its last words on standard error: \"line 2 | No module named 'sums'\"";
    for (options, script, most, how) in [
        (
            "-j 2",
            "echo x >> starts; printf 'line 1\n\nline 2\n' >&2; echo \"No module named 'sums'\" >&2; exit 7",
            3,
            "exited with 7; its last words on standard error: \"line 1 | line 2 | No module named 'sums'\""
                .to_owned(),
        ),
        // This worker reads its task first.
        (
            "-j 2 --retries 9",
            "echo x >> starts; read -r line; echo 'line 2' >&2; echo \"No module named 'sums'\" >&2; exit 7",
            3,
            format!("exited with 7{words}"),
        ),
        (
            "-j 6 --logs logs",
            "echo x >> starts; echo \"No module named 'sums'\" >&2; kill -9 $$",
            6,
            "was killed by SIGKILL; its last words on standard error: \"No module named 'sums'\"".to_owned(),
        ),
        ("-j 1", "echo x >> starts; echo ready; exec cat", 3, "said \"ready\": not JSON".to_owned()),
        ("-j 1", "echo x >> starts; exit 0", 3, "exited with 0".to_owned()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let came = run(
            farm(folder.path(), &format!("--protocol lines {options}"), &["sh", "-c", script]),
            &numbers(300),
        );
        assert_eq!(came.code, Some(1), "{script}: {came:?}");
        let expected = format!(
            "error: {most} workers have ended before any had answered a task: is the command right? The last {how}"
        );
        let idle = format!("error: 3 workers in a row have ended while they had no task; the last {how}");
        let last = came.errors.last().map(String::as_str).unwrap_or_default();
        // A worker may have written its line before it got a task.
        let last = last.replace(" while it had no task", ": not JSON");
        assert!(last == expected || last == idle, "{script}: {came:?}");
        // Plus those that had been started beside the last one.
        assert!(starts(folder.path()) <= most + 6, "{script}: {came:?}");
    }
}

#[test]
fn flaky_workers_do_not_end_a_farm_in_which_one_has_answered() {
    let script = format!("if [ $task = 1 ]; then {SQUARE}; else exit 9; fi");
    let came = run(workers(Path::new("."), "-j 1 -k", &script), &numbers(20));
    assert_eq!((came.code, came.out.lines().count()), (Some(1), 20), "{came:?}");
    assert!(came.summary().1.starts_with("syncline: 20 tasks: 1 done, 19 failed"), "{came:?}");
    // Tasks that time out are no sign of a wrong command.
    let came = run(workers(Path::new("."), "-j 4 --timeout 0.2", "exec sleep 3000"), &numbers(6));
    assert_eq!((came.code, came.out.lines().count()), (Some(1), 6), "{came:?}");
    assert!(came.summary().1.starts_with("syncline: 6 tasks: 0 done, 6 failed"), "{came:?}");
}

#[test]
fn a_program_that_is_not_there_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "no program\n").unwrap();
    for memory in ["", "--memory 1GiB"] {
        for protocol in ["", "--protocol lines"] {
            for (program, why) in
                [("./nowhere", "No such file or directory"), ("./text", "Permission denied")]
            {
                let came = run(
                    farm(folder.path(), &format!("{protocol} {memory}"), &[program]),
                    &numbers(300),
                );
                assert_eq!((came.code, came.out.as_str()), (Some(1), ""), "{came:?}");
                let expected = format!("error: cannot start {program}: {why}");
                assert!(
                    came.errors.last().unwrap().starts_with(&expected),
                    "{memory} {protocol}: {came:?}"
                );
                assert_eq!(came.errors.len(), 1, "{memory} {protocol}: {came:?}");
            }
        }
    }
}

/// An answer that comes twice is reported, and the worker replaced; the task that it had got since
/// still has its result.
#[test]
fn a_second_answer_is_refused_and_harms_no_task() {
    let answer = |id: &str| format!("echo \"{{\\\"id\\\":{id},\\\"result\\\":$task}}\"");
    let answer_own = answer("$id");
    // At once; when the next task has come; and an old answer in the middle of another task.
    let at_once = format!("{answer_own}; {answer_own}");
    let later = format!("[ -z \"$last\" ] || {}; {answer_own}; last=$id", answer("$last"));
    let of_old = format!(
        "first=${{first:-$id}}; [ $((task % 5)) != 0 ] || {}; {answer_own}",
        answer("$first")
    );
    for (script, jobs, retries) in
        [(&at_once, 1, 0), (&at_once, 4, 0), (&later, 1, 0), (&later, 4, 2), (&of_old, 3, 0)]
    {
        let came = run(
            workers(Path::new("."), &format!("-j {jobs} -k --retries {retries}"), script),
            &numbers(40),
        );
        let expected: String =
            (1..=40).map(|n| format!("{{\"id\":{n},\"task\":{n},\"result\":{n}}}\n")).collect();
        assert_eq!(
            (came.code, came.out.as_str()),
            (Some(0), expected.as_str()),
            "{script}: {came:?}"
        );
        let (lines, summary) = came.summary();
        assert_eq!(summary, "syncline: 40 tasks: 40 done", "{script}: {came:?}");
        let told = |line: &String| {
            let rest = line
                .strip_prefix("syncline: worker ")
                .and_then(|rest| rest.split_once(" answered task "));
            rest.is_some_and(|(_, rest)| rest.ends_with(" twice"))
        };
        assert!(!lines.is_empty() && lines.iter().all(told), "{script}: {came:?}");
    }
}

/// A worker that always answers the same number would never answer its own task if the farm merely
/// skipped such lines.
#[test]
fn a_worker_that_never_answers_its_own_task_is_no_endless_wait() {
    let script = "echo '{\"id\":1,\"result\":0}'";
    let came = run(workers(Path::new("."), "-j 1 -k", script), &numbers(3));
    let all = values(&came);
    assert_eq!((came.code, &all[0]["result"]), (Some(1), &json!(0)), "{came:?}");
    for value in &all[1..] {
        assert_eq!(value["error"], "its worker answered task 1 instead", "{came:?}");
    }
}

/// A command that does not know the protocol waits without end: the farm reports this once, and
/// says what the command must do.
#[test]
fn workers_that_say_nothing_are_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let script = format!("until test -e told; do sleep 0.01; done; {}", worker(SQUARE));
    let mut child = farm(path, "--protocol lines -j 2", &["sh", "-c", &script]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(numbers(20).as_bytes()).unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    fs::write(path.join("told"), "").unwrap();
    assert!(first.starts_with(SILENCE), "{first}");
    for part in
        ["\"sh -c until test -e told", r#"{"id": 7, "task": ...}"#, r#"{"id": 7, "result": ...}"#]
    {
        assert!(first.contains(part), "{first}");
    }
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(
        rest.starts_with("syncline: 20 tasks: 20 done, ") && rest.lines().count() == 1,
        "{rest}"
    );
    assert!(child.wait().unwrap().success());
}

/// Returns the farm's standard error up to a line that contains `part`; then, after `meanwhile`,
/// the rest. A notice of silence before that line is correct on a slow machine.
fn after(child: &mut Child, part: &str, meanwhile: impl FnOnce()) -> Vec<String> {
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains(part)), "{part}");
    meanwhile();
    said.collect()
}

/// When all tasks have ended, the farm waits for no worker, and reports no silence.
#[test]
fn workers_without_a_task_are_not_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let mut child =
        farm(folder.path(), "--protocol lines -j 1", &["sh", "-c", "read line && exit 3; exit 0"])
            .spawn()
            .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"1\n").unwrap();
    let rest = after(&mut child, "exited with 3", || {
        // Longer than the time of silence, in which no notice may come.
        thread::sleep(Duration::from_secs(6));
        drop(input);
    });
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(rest.len() == 1 && rest[0].starts_with("syncline: 1 task: "), "{rest:?}");
}

/// A worker that has written anything is not silent.
#[test]
fn workers_that_have_spoken_are_not_told_of() {
    let folder = tempfile::tempdir().unwrap();
    // The first worker writes too much; the second takes longer than the time of silence.
    let script = "read line; if mkdir first; then head -c 70000000 /dev/zero | tr '\\0' x; else sleep 6; \
                  echo '{\"id\":2,\"result\":4}'; cat; fi 2>/dev/null";
    let mut child =
        farm(folder.path(), "--protocol lines -j 1", &["sh", "-c", script]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"1\n").unwrap();
    let rest = after(&mut child, "said a line longer than 64 MiB", || {
        input.write_all(b"2\n").unwrap();
        drop(input);
    });
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(rest.len() == 1 && rest[0].starts_with("syncline: 2 tasks: 1 done, "), "{rest:?}");
}

#[test]
fn workers_that_die_before_they_have_a_task_end_the_farm() {
    let folder = tempfile::tempdir().unwrap();
    let mut child =
        farm(folder.path(), "--protocol lines -j 2", &["sh", "-c", "echo x >> starts; exit 6"])
            .spawn()
            .unwrap();
    // A task arrives at some time.
    let input = child.stdin.take();
    let came = Came::of(child.wait_with_output().unwrap());
    drop(input);
    assert_eq!(came.code, Some(1));
    let expected =
        "error: 3 workers in a row have ended while they had no task; the last exited with 6";
    assert_eq!(came.errors.last().map(String::as_str), Some(expected), "{came:?}");
    assert!(fs::read_to_string(folder.path().join("starts")).unwrap().lines().count() < 10);
    // A worker that writes without a task.
    let mut child =
        farm(folder.path(), "--protocol lines -j 1", &["sh", "-c", "echo hello; exec cat"])
            .spawn()
            .unwrap();
    let input = child.stdin.take();
    let came = Came::of(child.wait_with_output().unwrap());
    drop(input);
    assert_eq!(came.errors.len(), 3, "{came:?}");
    assert_eq!(came.errors[0], "syncline: worker 1 said \"hello\" while it had no task");
    // A worker that does not exist.
    let came = run(farm(folder.path(), "--protocol lines", &["./no-such-program"]), "1\n");
    assert_eq!((came.code, came.errors.len()), (Some(1), 1));
    assert!(
        came.errors[0].starts_with("error: cannot start ./no-such-program: No such file"),
        "{came:?}"
    );
}

#[test]
fn a_worker_may_end_when_it_has_answered() {
    let script = format!("{SQUARE}; exit 0");
    // Only one task at a time exists, so that none is given to a worker that is about to end.
    let mut child = workers(Path::new("."), "-j 1 --retries 5", &script).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for task in 1..8 {
        writeln!(input, "{task}").unwrap();
        assert!(line(&mut child).ends_with(&format!("\"result\":{}}}", task * task)));
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// More than fits in a pipe, in both directions, to workers that read nothing before they have
/// written.
#[test]
fn long_lines_do_not_block() {
    let long = "x".repeat(1_000_000);
    let Some(command) = python("-j 2 -k", "answer(id, task + task)") else { return };
    let input = format!("{long}\n").repeat(6);
    let came = run(command, &input);
    assert_eq!((came.code, came.out.lines().count()), (Some(0), 6));
    assert!(values(&came).iter().all(|value| value["result"].as_str().unwrap().len() == 2_000_000));
    // A worker that does not read at all times out.
    let came = run(
        farm(Path::new("."), "--protocol lines -j 1 --timeout 1", &["sleep", "100"]),
        &format!("{long}\n"),
    );
    assert_eq!(came.code, Some(1));
    assert!(came.summary().0[0].ends_with("xxx\"...) took longer than 1 s"), "{:?}", came.errors);
}

#[test]
fn the_first_failure_may_end_all() {
    let nap = nap(31);
    let script = format!("if [ $task = 2 ]; then echo no; else sleep {nap}; fi");
    let came = run(workers(Path::new("."), "-j 2 --halt", &script), &numbers(9));
    assert_eq!((came.code, came.out.lines().count()), (Some(1), 1));
    assert!(
        came.summary().1.starts_with(
            "syncline: 2 tasks: 0 done, 1 failed (first: task 2 failed: its worker said"
        ),
        "{came:?}"
    );
    gone(&nap);
}

#[test]
fn what_workers_say_on_standard_error_comes_through_or_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo \"task $task\" >&2; {SQUARE}");
    let came = run(workers(folder.path(), "-j 1", &script), &numbers(2));
    assert_eq!(came.summary().0, ["[worker 1] task 1", "[worker 1] task 2"]);
    let came = run(workers(folder.path(), "-j 1 --logs logs", &script), &numbers(2));
    assert!(came.summary().0.is_empty());
    let logs = folder.path().join("logs");
    assert_eq!(fs::read_to_string(logs.join("worker-1.err")).unwrap(), "task 1\ntask 2\n");
    let table = fs::read_to_string(logs.join("summary.tsv")).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn what_is_no_text_is_told() {
    let mut child = workers(Path::new("."), "-j 1 -k", SQUARE).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"2\n\xff\n3\n").unwrap();
    let came = Came::of(child.wait_with_output().unwrap());
    assert_eq!((came.code, came.out.lines().count()), (Some(1), 3));
    assert_eq!(values(&came)[1]["error"], "could not be started: it is not UTF-8");
}

#[test]
fn nothing_is_left_of_workers() {
    let nap = nap(32);
    // A background child that outlives its worker; and a worker that does not end at the end of its
    // input.
    let script = format!("sleep {nap} >/dev/null 2>&1 & {SQUARE}");
    let came = run(workers(Path::new("."), "-j 2", &script), &numbers(4));
    assert_eq!(came.code, Some(0));
    gone(&nap);
    let script = format!("{}; exec sleep {nap}", worker(SQUARE));
    let came = run(farm(Path::new("."), "--protocol lines -j 1", &["sh", "-c", &script]), "1\n");
    assert_eq!(came.code, Some(0));
    assert_eq!(came.summary().0, ["syncline: worker 1 did not end when there were no more tasks"]);
    gone(&nap);
}

/// A worker that has ended at the last task is not replaced, because its successor would get no
/// task.
#[test]
fn no_worker_is_started_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The end of a file is known at once; that of a pipe may come after the end of the worker.
    let tasks = folder.path().join("tasks");
    fs::write(&tasks, "1\n").unwrap();
    let script = "read -r line; echo $$ >> starts; kill -9 $$";
    let mut command = farm(folder.path(), "--protocol lines -j 1", &["sh", "-c", script]);
    let came = Came::of(command.stdin(fs::File::open(&tasks).unwrap()).output().unwrap());
    assert_eq!(came.code, Some(1));
    assert!(came.out.contains("killed by SIGKILL"), "{}", came.out);
    let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1, "{starts}\n{:?}", came.errors);
}

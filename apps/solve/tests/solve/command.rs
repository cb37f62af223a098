//! The command: its output, its errors, and its workers.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use syncline_testkit::{Random, cases, seed};

use crate::has_flint;

const SYSTEMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systems/");

fn command(system: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_syncline-solve"));
    command.arg(format!("{SYSTEMS}{system}")).args(args);
    command
}

/// Runs the command on a text.
pub(crate) fn on_text(text: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("system");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_syncline-solve"));
    command.arg(&file).args(args).output().unwrap()
}

fn error_of(output: &Output) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn json_of(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {error}", output.status);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn the_answer_is_the_same_for_all_workers_and_codecs() {
    if !has_flint() {
        return;
    }
    for system in ["eco6.txt", "nooburg4.txt", "ubikker.txt"] {
        let alone = json_of(&command(system, &["--factor", "--json"]).output().unwrap());
        assert_eq!(alone["dimension"], 0);
        for (workers, wire, tasks) in [
            ("2", "kronecker", "stolen"),
            ("4", "terms", "forked"),
            ("3", "flat", "farmed"),
            ("8", "flat", "stolen"),
        ] {
            let args =
                ["--factor", "--json", "--workers", workers, "--wire", wire, "--tasks", tasks];
            let farmed = json_of(&command(system, &args).output().unwrap());
            for key in ["dimension", "points", "degrees", "irreducible", "chains"] {
                assert_eq!(alone[key], farmed[key], "{system} {args:?}");
            }
            assert!(farmed["farm"]["steps"].as_u64().unwrap() > 0);
        }
    }
}

#[test]
fn options_change_what_is_told() {
    if !has_flint() {
        return;
    }
    let text = "x, y\n11\n(x^2 - 4)*(y - 3),\n(y - 3)*(x - y)";
    let told = json_of(&on_text(text, &["--json", "--factor", "--check"]));
    assert_eq!(told["dimension"], 1);
    assert_eq!(told["points"], Value::Null);
    assert_eq!(told["degrees"].as_array().unwrap().len(), 3);
    assert_eq!(told["checked"], true);
    let told = json_of(&on_text(text, &["--json", "--nonzero", "y - 3", "--points"]));
    assert_eq!(told["points"], 2);
    assert_eq!(told["rational_points"], serde_json::json!([[2, 2], [9, 9]]));
    let told = json_of(&on_text(text, &["--json", "--order", "y,x"]));
    assert_eq!(told["order"], serde_json::json!(["y", "x"]));
    let told = json_of(&on_text(text, &["--json", "--mode", "lazard", "--order", "auto"]));
    assert_eq!(told["dimension"], 1);
    let auto = ["--json", "--method", "auto", "--nonzero", "-y+3"];
    let output = on_text(text, &auto);
    assert_eq!(
        (&json_of(&output)["method"], &json_of(&output)["points"]),
        (&"basis".into(), &2.into())
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "method: a Groebner basis\n");
    let output = on_text(text, &auto[..3]);
    assert_eq!(json_of(&output)["method"], "chains");
    assert!(String::from_utf8_lossy(&output.stderr).contains("infinitely many zeros"));
}

#[test]
fn systems_without_zeros_or_equations_are_solved() {
    if !has_flint() {
        return;
    }
    let told = json_of(&on_text("vars x y\nprime 7\nx - 1\nx - 2", &["--json", "--check"]));
    assert_eq!((&told["dimension"], &told["points"]), (&Value::Null, &0.into()));
    let told = json_of(&on_text("vars x y\nprime 7\n5", &["--json", "--workers", "2"]));
    assert_eq!((&told["dimension"], &told["points"]), (&Value::Null, &0.into()));
    for text in ["vars x y\nprime 7", "vars x y\nprime 7\n0\n7*x"] {
        let told = json_of(&on_text(text, &["--json", "--factor", "--check"]));
        assert_eq!((&told["dimension"], &told["degrees"]), (&2.into(), &serde_json::json!([1])));
    }
    let text = String::from_utf8(on_text("vars x\nprime 7\n1", &[]).stdout).unwrap();
    assert!(text.starts_with("The system has no zeros."), "{text}");
}

#[test]
fn bad_input_is_named() {
    if !has_flint() {
        return;
    }
    let cases = [
        ("", "no variables"),
        ("vars x\nx - 1", "no line `prime`"),
        ("prime 7\nx - 1", "no line `vars`"),
        ("vars\nprime 7\n1", "line 1, column 1: `vars` without a variable"),
        ("vars x\nprime 7\nprime 11\nx", "a second line `prime`"),
        ("vars x\nprime 15\nx", "15 is not a prime"),
        ("vars x\nprime 0\nx", "characteristic is 0"),
        ("vars x\nprime 170141183460469231731687303715884105727\nx", "too large"),
        ("vars x\nprime 9223372036854775837\nx", "too large"),
        ("vars x x\nprime 7\nx", "x occurs twice"),
        ("vars x 2y\nprime 7\nx", "`2y` is no name"),
        ("vars x y\nprime 7\nx + 3*z", "line 3, column 7: z is no variable"),
        ("vars x y\nprime 7\nx +\ny", "line 3, column 4: a number, a variable or `(` is missing"),
        ("vars x y\nprime 7\n\n(x + y", "line 4, column 7: `)` is missing"),
        ("vars x y\nprime 7\nx y", "line 3, column 3: an operator was expected before `y`"),
        ("vars x y\nprime 7\nx^-1", "an exponent was expected before `-`"),
        ("vars x y\nprime 7\nx^99999999999999999999", "the degree is greater than 1000000"),
        ("vars x y\nprime 7\n(x + y + 1)^100000", "too many terms"),
        ("vars x y\nprime 7\n1/7*x", "line 3, column 3: division by 7: the denominator is 0"),
        ("vars x y\nprime 7\nx/0", "the denominator is 0 modulo 7"),
        ("vars x y\nprime 7\nx/(3 + 4)", "column 3: division by (3 + 4): the denominator"),
        ("vars x y\nprime 7\nx - x/y^2*2", "column 7: division by y^2: only a number that is"),
        ("vars x y\nprime 7\n2/(x - y)", "division by (x - y): only a number"),
        ("vars x y\nprime 7\nx/", "a number, a variable or `(` is missing"),
        ("x, y\n7\nx - 1,,y", "is missing"),
    ];
    for (text, expected) in cases {
        let error = error_of(&on_text(text, &[]));
        assert!(error.starts_with("error: ") && error.contains(expected), "{text:?}: {error}");
    }
    let good = "vars x y\nprime 7\nx - y";
    let error = error_of(&on_text(good, &["--order", "x"]));
    assert!(error.contains("the order x does not have each of the variables x,y once"), "{error}");
    let error = error_of(&on_text(good, &["--nonzero", "x +"]));
    assert!(error.contains("--nonzero x +: line 1, column 4"), "{error}");
    let mut deep = "vars x\nprime 7\n".to_owned();
    deep.extend(["("; 100_000]);
    assert!(error_of(&on_text(&deep, &[])).contains("parentheses are nested"));
    let missing = command("no-such-file", &[]).output().unwrap();
    assert!(error_of(&missing).contains("no-such-file: No such file"));
}

#[test]
fn numbers_divide() {
    if !has_flint() {
        return;
    }
    // Each is compared with a text without division, modulo 101.
    let cases = [
        ("x/2", "51*x"),
        ("(x + 1)/2 - y", "51*x + 51 - y"),
        ("2*x/3/4*y - 1", "17*x*y - 1"),
        ("1/2^2 - x", "76 - x"),
        ("x^2/2^2*y", "76*x^2*y"),
        ("x/(1 - 3) + y", "50*x + y"),
        ("x / 1010000000000000000000000000001", "x"),
    ];
    for (text, plain) in cases {
        let chains = |text| {
            let told = on_text(&format!("vars x y\nprime 101\n{text}"), &["--json"]);
            json_of(&told)["chains"].clone()
        };
        assert_eq!(chains(text), chains(plain), "{text}");
    }
}

#[test]
fn a_missing_flint_is_named() {
    let output =
        command("eco6.txt", &[]).env("SYNCLINE_FLINT", "/no/such/libflint.so").output().unwrap();
    let error = error_of(&output);
    assert!(error.contains("FLINT") && error.contains("apt install libflint-dev"), "{error}");
    assert!(error.contains("SYNCLINE_FLINT=/no/such/libflint.so"), "{error}");
}

#[test]
fn a_time_limit_ends_a_solution() {
    if !has_flint() {
        return;
    }
    let output = command("classics/eco9.txt", &["--timeout", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let hint = "perhaps --method auto or another --order is faster";
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error, format!("error: not solved within 0 s; {hint}\n"));
    let output =
        command("classics/cyclic6.txt", &["--timeout", "0", "--method", "auto"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
}

/// With bounds, workers find the second solution as well; it is the same.
#[test]
fn a_check_is_within_the_bounds() {
    if !has_flint() {
        return;
    }
    let text = "vars a b x y\nprime 101\na^2 - 2\nb^2 - 2\nx*y^2 - a*x - 1";
    let bounded = ["--factor", "--check", "--json", "--timeout", "60", "--memory", "400"];
    let told = json_of(&on_text(text, &bounded));
    assert_eq!((&told["checked"], &told["degrees"]), (&true.into(), &serde_json::json!([6, 6])));
}

#[test]
fn a_memory_limit_is_an_error() {
    if !has_flint() {
        return;
    }
    let output = command("classics/eco9.txt", &["--memory", "10"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let last = error.lines().last().unwrap();
    assert!(last.starts_with("error: a task cannot be done: "), "{error}");
    assert!(last.ends_with("; perhaps it needs more than --memory 10"), "{error}");
    // What FLINT prints is no part of the answer.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

/// The processes whose parent is `pid`, in order. Not every kernel has lists of children.
fn children(pid: u32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |child: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let mut children = pids.filter(|child| parent(child) == Some(pid)).collect::<Vec<_>>();
    children.sort_unstable();
    children
}

/// A worker is killed at a random moment of its time in an undisturbed run, counted from its start.
/// A kill that comes too late does not count.
#[test]
fn a_killed_worker_does_not_change_the_answer() {
    if !has_flint() {
        return;
    }
    let (kills, seed) = (cases(5), seed(26));
    println!("SYNCLINE_SEED={seed}");
    let system = "classics/eco8.txt";
    let alone = json_of(&command(system, &["--factor", "--json"]).output().unwrap());
    let mut random = Random::new(seed);
    let (mut killed, mut late) = (0, 0);
    let mut whole = Duration::ZERO;
    // The first run is not disturbed.
    let mut disturbs = false;
    while killed < kills {
        let args = ["--factor", "--json", "--workers", "2"];
        let mut command = command(system, &args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let pid = child.id();
        // Earlier and earlier, if kills come too late.
        let after = whole.mul_f64(random.fraction() / f64::from(1 + late));
        let choice = random.below(1 << 20);
        let ended = AtomicBool::new(false);
        let (output, took, kill) = thread::scope(|scope| {
            let killer = scope.spawn(|| {
                while disturbs && children(pid).is_empty() && !ended.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                thread::sleep(after);
                let there = disturbs && !ended.load(Ordering::Relaxed);
                let workers = if there { children(pid) } else { Vec::new() };
                let worker = workers.get(choice % workers.len().max(1));
                // SAFETY: a signal to a child of the command; the worst that it can do is to end
                // it.
                worker.is_some_and(|&worker| unsafe { libc::kill(worker, libc::SIGKILL) } == 0)
            });
            let begun = Instant::now();
            let output = child.wait_with_output().unwrap();
            let took = begun.elapsed();
            ended.store(true, Ordering::Relaxed);
            (output, took, killer.join().unwrap())
        });
        assert_eq!(json_of(&output)["chains"], alone["chains"]);
        if !disturbs {
            (whole, disturbs) = (took, true);
        } else if kill {
            killed += 1;
        } else {
            late += 1;
        }
    }
}

/// Two options for `make install` write the manual page and completions.
#[test]
fn the_command_documents_itself() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_syncline-solve"));
        command.args(args).current_dir(folder.path()).output().unwrap()
    };
    assert!(ask(&["--man", "."]).status.success());
    let page = std::fs::read_to_string(folder.path().join("syncline-solve.1")).unwrap();
    assert!(page.contains(".SH OPTIONS") && page.contains("\\-\\-factor"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(ask(&["--completions", shell]).stdout).unwrap();
        assert!(script.contains("factor"), "{shell}: {script}");
    }
    let error = error_of(&ask(&["--man", "./no/such/folder"]));
    assert!(error.starts_with("error: cannot write the manual page: "), "{error}");
    let error = error_of(&ask(&["--completions", "command.com"]));
    assert!(error.contains("command.com"), "{error}");
    assert!(!ask(&["--help"]).stdout.windows(5).any(|word| word == b"--man"));
}

/// The workers' spans are in the trace that the manager begins.
#[test]
fn a_solution_is_recorded() {
    if !has_flint() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("solve.trace");
    let trace = file.to_str().unwrap();
    json_of(
        &command("eco6.txt", &["--workers", "2", "--json", "--trace", trace]).output().unwrap(),
    );
    let mut reader = syncline_trace::Reader::open(&file).unwrap();
    let (mut tasks, mut streams) = (0, std::collections::BTreeSet::new());
    while let Some(frame) = reader.next_frame().unwrap() {
        streams.insert(frame.stream);
        let spans = frame.lanes.iter().flat_map(|lane| lane.spans());
        tasks += spans.filter(|span| span.activity == syncline_trace::Activity::Job).count();
    }
    assert!(tasks > 0);
    assert_eq!(streams.len(), 3, "the manager and two workers");
    let report = syncline_report::report(&syncline_report::Trace::open(&[&file]).unwrap()).unwrap();
    assert_eq!(report.farm.as_ref().map(|farm| farm.tasks.len()), Some(tasks));
    let page = folder.path().join("solve.html");
    std::fs::write(&page, syncline_report::page::render(&report)).unwrap();
    if let Some(seen) = syncline_browser::check_page(&page) {
        assert!(!seen.empty.iter().any(|panel| panel == "farm"), "{seen:?}");
    }
    std::fs::write(&file, "my thesis").unwrap();
    let output = command("eco6.txt", &["--trace", trace]).output().unwrap();
    assert!(error_of(&output).contains("solve.trace is not a trace of Syncline"));
}

/// Runs the command by a shell, as `$SOLVE`.
fn by_shell(line: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("SOLVE", env!("CARGO_BIN_EXE_syncline-solve"));
    shell.output().unwrap()
}

#[test]
fn closed_streams_are_errors() {
    let system = format!("{SYSTEMS}eco6.txt");
    let output = by_shell(&format!("$SOLVE {system} >&-"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with("error: standard output is closed: "), "{error}");
    let error = error_of(&by_shell("$SOLVE - <&-"));
    assert!(error.starts_with("error: standard input: Bad file descriptor"), "{error}");
    if has_flint() {
        assert!(by_shell(&format!("$SOLVE {system} > /dev/null < /dev/null")).status.success());
        assert!(error_of(&by_shell("$SOLVE - < /dev/null")).contains("no variables"));
    }
}

#[test]
fn input_without_end_is_an_error() {
    let error = error_of(&by_shell("$SOLVE /dev/zero"));
    assert_eq!(error, "error: /dev/zero: a system has at most 256 MiB of text\n");
    let error = error_of(&by_shell("printf 'vars x\\377' | $SOLVE -"));
    assert_eq!(error, "error: standard input: byte 7 is not part of a text in UTF-8\n");
}

#[test]
fn a_time_limit_ends_reading() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_syncline-solve"));
    command.args(["-", "--timeout", "1.5"]).stdin(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let writer = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: not read within 1.5 s\n");
    drop(writer);
}

/// The memory that the workers share is a file without a name.
#[test]
fn a_limit_on_file_sizes_is_an_error() {
    if !has_flint() {
        return;
    }
    let line = format!("ulimit -f 2000; $SOLVE {SYSTEMS}eco6.txt --workers 2");
    let error = error_of(&by_shell(&line));
    assert!(error.contains("File too large"), "{error}");
}

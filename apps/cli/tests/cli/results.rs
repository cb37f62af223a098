//! The later use of a result: continued, with another tolerance, in blocks; used as a start;
//! converted.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{
    command, contents, fails_with, has_marks, json, lk23, matrix, names, npy, ok, refused, said,
    unconverged, until,
};

/// Returns a folder with the Poisson equation in `p`, if results are marked there.
fn poisson() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "gen poisson p --rows 30 --cols 30");
    has_marks(folder.path()).then_some(folder)
}

/// Returns the JSON object of a run, whether it has reached its `--until` or not.
fn report(path: &Path, line: &str) -> (Option<i32>, Value) {
    let output = command(path, &format!("{line} --json")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {error}"));
    (output.status.code(), report)
}

/// A tolerance sets where a run ends: with another one, or none, it continues, or nothing is left
/// to do.
#[test]
fn a_result_is_gone_on_from_with_another_tolerance() {
    let Some(folder) = poisson() else { return };
    let path = folder.path();
    let line = |until: &str| format!("run gauss-seidel p --iterations 5000 {until} --output o.npy");
    for executor in ["--depth 4", "--executor blocked --order barrier"] {
        let whole = json(path, &format!("{} --force {executor}", line("--until 1e-5")));
        let expected = npy(&path.join("o.npy"));
        let first = json(path, &format!("{} --force {executor}", line("--until 1e-3")));
        let at = first["iterations"].as_u64().unwrap();
        assert!(at < whole["iterations"].as_u64().unwrap() && at > 5);
        // A looser tolerance: the change is small enough already.
        let before = contents(path);
        let loose = json(path, &format!("{} --resume {executor}", line("--until 1e-2")));
        assert_eq!((&loose["complete_already"], &loose["iterations"]), (&true.into(), &at.into()));
        assert!(loose["converged_at"].as_u64().unwrap() < at, "{loose}");
        let text = ok(path, &format!("{} --resume {executor}", line("--until 1e-2")));
        assert!(text.contains("no point changed by more than 1e-2 in iteration "), "{text}");
        assert!(text.contains("complete already: nothing was done"), "{text}");
        assert!(contents(path) == before);
        // A tighter tolerance: the run continues, and ends where a single run does.
        let tight = json(path, &format!("{} --resume --verify {executor}", line("--until 1e-5")));
        assert_eq!(
            (&tight["resumed"], &tight["converged_at"]),
            (&at.into(), &whole["converged_at"])
        );
        assert_eq!(
            tight["residuals"].as_array().map(Vec::len),
            tight["iterations"].as_u64().map(|n| n as usize)
        );
        if executor.contains("barrier") {
            assert!(npy(&path.join("o.npy")) == expected);
        }
    }
    // Without a tolerance, the number of iterations is the requested one, after a result that had
    // reached its own tolerance.
    let at =
        json(path, &format!("{} --force", line("--until 1e-3")))["iterations"].as_u64().unwrap();
    let all = |k: u64| format!("run gauss-seidel p --iterations {k} --output o.npy --resume");
    assert_eq!(json(path, &all(at))["complete_already"], true);
    let more = json(path, &format!("{} --verify", all(at + 7)));
    assert_eq!((&more["resumed"], &more["iterations"]), (&at.into(), &(at + 7).into()));
    assert_eq!((&more["residual"], &more["residuals"]), (&Value::Null, &Value::Null));
    // The change in the last iteration is then unknown, and a tolerance takes at least one more.
    let same = format!("{} --until 1e-3", all(at + 7));
    let text = unconverged(path, &same);
    assert!(
        text.contains("NOT KNOWN to have come to --until 1e-3") && text.contains("one more"),
        "{text}"
    );
    let (code, report) = report(path, &format!("{} --until 1e-3", all(at + 50)));
    assert_eq!((code, &report["converged_at"]), (Some(0), &(at + 8).into()), "{report}");
}

/// A result cannot be continued to an exact stop before its last iteration; a later exact stop is
/// the same iteration as that of a single run.
#[test]
fn an_exact_stop_goes_on_from_a_result() {
    let Some(folder) = poisson() else { return };
    let path = folder.path();
    let line = |until: &str, output: &str| {
        format!(
            "run gauss-seidel p --iterations 5000 --exact-stop --until {until} --output {output}"
        )
    };
    let whole = json(path, &line("1e-5", "whole.npy"));
    let loose = json(path, &line("1e-3", "o.npy"));
    let at = loose["iterations"].as_u64().unwrap();
    assert_eq!(
        json(path, &format!("{} --resume", line("1e-3", "o.npy")))["complete_already"],
        true
    );
    let tight = json(path, &format!("{} --resume", line("1e-5", "o.npy")));
    for name in ["iterations", "converged_at", "residual"] {
        assert_eq!(tight[name], whole[name], "{name}");
    }
    assert!(fs::read(path.join("o.npy")).unwrap() == fs::read(path.join("whole.npy")).unwrap());
    // The changes of all iterations are known only if the mark has room for them.
    let n = whole["iterations"].as_u64().unwrap();
    let told = match whole["iterations"].as_u64() {
        Some(..200) => format!("iterations were {n}, are {at}, where an exact stop ends"),
        _ => format!("iterations were {n}, "),
    };
    refused(
        path,
        &format!("{} --resume", line("1e-3", "o.npy")),
        &[&told, "--force replaces it", "--field o.npy"],
    );
}

/// A run in blocks also continues from a result, with the bits of a single run: framed data, too
/// little memory for a streamed pass, and an order with other numbers.
#[test]
fn a_run_in_blocks_goes_on_from_a_result() {
    let folder = lk23(60, 50);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    ok(path, "convert data framed --layout framed --block 16");
    let cases = [
        ("framed", "o", ""),
        ("framed", "o.npy", ""),
        ("data", "o.npy", "--executor blocked"),
        ("data", "o.npy", "--block 7x9 --order barrier"),
        ("data", "o.npy", "--order max-parallel"),
        ("data", "o.npy", "--order max-parallel --block auto"),
        ("framed", "o", "--order max-parallel --runner threads"),
    ];
    for (dir, output, options) in cases {
        let run = |k: u64, more: &str| {
            format!("run lk23 {dir} --iterations {k} --output {output} {options} {more}")
        };
        ok(path, &run(9, "--force"));
        let whole = fs::read(path.join(output)).unwrap();
        ok(path, &run(4, "--force"));
        let (complete, resumed) = (Value::Bool(true), Value::from(4));
        let before = contents(path);
        let same = json(path, &run(4, "--resume --verify"));
        assert_eq!(
            (&same["complete_already"], &same["verified"]),
            (&complete, &complete),
            "{options}"
        );
        assert!(contents(path) == before, "{options}: files changed");
        let more = json(path, &run(9, "--resume --verify"));
        assert_eq!((&more["resumed"], &more["iterations"]), (&resumed, &9.into()), "{options}");
        assert!(fs::read(path.join(output)).unwrap() == whole, "{dir}, {options}");
        assert_eq!(json(path, &run(9, "--resume"))["complete_already"], complete, "{options}");
        refused(
            path,
            &run(8, "--resume"),
            &["iterations were 9, are 8", "--force", &format!("--field {output}")],
        );
        fs::remove_file(path.join(output)).unwrap();
    }
    // Blocks of another size give other numbers in the order max-parallel.
    let run = |k: u64, more: &str| {
        format!("run lk23 data --iterations {k} --order max-parallel --output m.npy {more}")
    };
    ok(path, &run(4, "--block 7"));
    refused(path, &run(9, "--block 8 --resume"), &["block was 7 x 7, is 8 x 8", "--field m.npy"]);
    assert_eq!(json(path, &run(9, "--resume --verify"))["block"], serde_json::json!([7, 7]));
}

/// An action that a message suggests works, with any executor.
#[test]
fn what_a_refusal_names_can_be_done() {
    let folder = lk23(40, 2000);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    ok(path, "convert data framed --layout framed --block 16");
    ok(path, "run lk23 data --iterations 1 --output small.npy");
    let error = fails_with(
        1,
        path,
        "run lk23 data --iterations 3 --output new.npy --executor streamed --memory 1M",
    );
    let little = error.rsplit_once("allow at least ").unwrap().1.replace(' ', "");
    let small = (1..64).rev().map(|n| format!("--memory {}K", 256 * n)).find(|small| {
        let probe =
            format!("run lk23 data --iterations 1 --depth 1 --output probe.npy --force {small}");
        !command(path, &probe).output().unwrap().status.success()
    });
    let small =
        small.unwrap_or_else(|| panic!("a streamed pass fits any memory; at least {little}"));
    let bases = [
        "data --executor blocked".to_owned(),
        "data --order max-parallel".to_owned(),
        "data --order barrier".to_owned(),
        "framed".to_owned(),
        format!("data {small}"),
        "data".to_owned(),
        "data --until 1e-9".to_owned(),
    ];
    for base in bases {
        let output = if base == "framed" { "o" } else { "o.npy" };
        let run = |k: u64, more: &str| {
            format!("run lk23 {base} --iterations {k} --output {output} {more}")
        };
        let done = |line: &str| {
            let ended = command(path, line).output().unwrap();
            let error = String::from_utf8_lossy(&ended.stderr);
            // A run with --until may end before it has converged.
            assert!(matches!(ended.status.code(), Some(0 | 3)), "{line}: {error}");
        };
        done(&run(4, "--force"));
        for (k, ways) in [(4, "--resume leaves it as it is"), (6, "--resume goes on from it")] {
            refused(path, &run(k, ""), &[ways]);
            done(&run(k, "--resume"));
        }
        for resume in ["", "--resume"] {
            let error = fails_with(1, path, &run(3, resume));
            assert!(error.contains("iterations were 6, are 3; --force replaces it"), "{error}");
            let (_, field) = error.split_once("--field ").unwrap();
            let field = field.split(' ').next().unwrap();
            assert!(error.contains(&format!(
                "--output OTHER{}",
                if base == "framed" { "" } else { ".npy" }
            )));
            done(
                &run(3, &format!("--field {field}"))
                    .replace(&format!("--output {output}"), &format!("--output n{output}")),
            );
            fs::remove_file(path.join(format!("n{output}"))).unwrap();
        }
        done(&run(3, "--force"));
        fs::remove_file(path.join(output)).unwrap();
    }
}

/// A raw result is recognised by its mark, or by the entry of its field, as a field and for
/// conversion.
#[test]
fn a_raw_result_is_known_without_an_entry() {
    let folder = lk23(40, 34);
    let path = folder.path();
    ok(path, "convert data framed --layout framed --block 16 --thickness 2");
    ok(path, "run lk23 data --iterations 4 --output plain.npy");
    ok(path, "run lk23 data --iterations 7 --output more.npy");
    let (plain, more) = (npy(&path.join("plain.npy")), npy(&path.join("more.npy")));
    ok(path, "run lk23 framed --iterations 4");
    // A copy without a mark is recognised by its name, and a copy with a mark by any name.
    let result = fs::read(path.join("framed/za.lk23.out")).unwrap();
    fs::write(path.join("framed/za.copied.out"), &result).unwrap();
    fs::rename(path.join("framed/za.lk23.out"), path.join("moved")).unwrap();
    let marked = has_marks(path);
    if !marked {
        fs::copy(path.join("moved"), path.join("framed/za.moved.out")).unwrap();
    }
    let known = if marked { "moved" } else { "framed/za.moved.out" };
    for field in [known, "framed/za.copied.out"] {
        for dir in ["data", "framed"] {
            let line = format!(
                "run lk23 {dir} --iterations 3 --field {field} --output n.npy --force --verify"
            );
            ok(path, &line);
            assert!(npy(&path.join("n.npy")) == more, "{dir}, {field}");
        }
    }
    fs::rename(path.join("moved"), path.join("framed/za.lk23.out")).unwrap();
    for name in ["za.lk23.out", "za.copied.out"] {
        let text = ok(path, &format!("convert framed back --layout row-major --only {name}"));
        assert!(text.ends_with(&format!("\ntaken: {name}\n")), "{text}");
        assert!(matrix(&path.join("back"), name) == plain);
        ok(
            path,
            &format!("run lk23 data --iterations 3 --field back/{name}.npy --output n.npy --force"),
        );
        assert!(npy(&path.join("n.npy")) == more);
        ok(path, &format!("convert framed again --layout framed --block 9 --only za,{name}"));
        fs::remove_dir_all(path.join("back")).unwrap();
        fs::remove_dir_all(path.join("again")).unwrap();
    }
    // A `.npy` file in the directory is accepted, too, by either name.
    ok(path, "run lk23 framed --iterations 4 --output framed/r.npy");
    let told = command(path, "convert framed left --layout row-major").output().unwrap();
    let told = said(told.stderr);
    assert_eq!(told.contains("left: framed/r.npy is a result; --only takes it"), marked, "{told}");
    for name in ["r", "r.npy"] {
        let text = ok(path, &format!("convert framed back --layout row-major --only {name}"));
        assert!(text.ends_with("\ntaken: r\n"), "{text}");
        assert!(matrix(&path.join("back"), "r") == plain);
        fs::remove_dir_all(path.join("back")).unwrap();
    }
    // Otherwise the error says what is missing: for a field that does not exist, or has another
    // length.
    fs::write(path.join("lost.out"), &result).unwrap();
    fs::write(path.join("framed/za.short.out"), &result[8..]).unwrap();
    let missing = ["is no .npy file", "it has no mark", "an entry of its name", "its field za"];
    refused(
        path,
        "run lk23 data --iterations 1 --field lost.out --output x.npy",
        &["lost.out", "it has no mark", "lost"],
    );
    refused(
        path,
        "run lk23 data --iterations 1 --field framed/za.short.out --output x.npy",
        &missing,
    );
    refused(path, "convert framed back --layout row-major --only za.short.out", &missing);
    refused(path, "convert framed back --layout row-major --only none", &["has no matrix none"]);
    let line = "run lk23 data --iterations 1 --field framed/none --output x.npy";
    refused(path, line, &["cannot open framed/none: "]);
    // Without a request, they are left, and named.
    let output = command(path, "convert framed back --layout row-major").output().unwrap();
    let stderr = said(output.stderr);
    for name in ["za.lk23.out", "za.copied.out", "za.short.out"] {
        assert!(
            stderr.contains(&format!("left: framed/{name} is a result; --only takes it\n")),
            "{stderr}"
        );
    }
    assert_eq!(names(&path.join("back")).len(), 6);
}

/// Two kernels of one name have one default output: the error says which kernel the result is from.
#[test]
fn a_built_in_kernel_and_a_description_of_its_name_are_told_apart() {
    let folder = lk23(20, 20);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    let text = "name = 'lk23'\nfield = 'za'\nupdate = 'za = (n + s + e + w) / 4'\n";
    fs::write(path.join("own.toml"), text).unwrap();
    fs::write(path.join("other.toml"), text.replace('4', "5")).unwrap();
    let (built_in, own) = ("the built-in kernel lk23", "a description of a kernel lk23");
    let cases = [
        (
            "lk23",
            "own.toml",
            format!("it was computed by {built_in}, this run uses the description own.toml"),
        ),
        ("own.toml", "lk23", format!("it was computed by {own}, this run uses {built_in}")),
        (
            "own.toml",
            "other.toml",
            format!("it was computed by {own} with another text than other.toml has"),
        ),
    ];
    for (first, second, told) in cases {
        ok(path, &format!("run {first} data --iterations 2 --force"));
        for options in ["--iterations 2", "--iterations 3", "--iterations 3 --resume"] {
            let line = format!("run {second} data {options}");
            let ways = ["--force replaces it", "another --output leaves it"];
            refused(path, &line, &["data/za.lk23.out.npy is", &told, ways[0], ways[1]]);
            let error = fails_with(1, path, &line);
            assert!(!error.contains("description was"), "{error}");
        }
    }
}

/// A plain copy of a result has no mark: `convert` skips it where the result is beside it, and
/// names what it converts.
#[test]
fn convert_leaves_copies_of_results_and_names_what_it_takes() {
    let folder = lk23(20, 300);
    let path = folder.path();
    ok(path, "run lk23 data --iterations 3");
    // After no iterations a result has the bytes of the field, which is converted nevertheless.
    ok(path, "run lk23 data --iterations 0 --output data/za.none.out.npy");
    let copy = |from: &str, to: &str| {
        fs::write(path.join(to), fs::read(path.join(from)).unwrap()).unwrap();
    };
    copy("data/za.lk23.out.npy", "data/backup.npy");
    let convert = |dir: &str, more: &str| {
        let line = format!("convert {dir} {dir}.raw --layout blocked --block 8 {more}");
        let output = command(path, &line).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (String::from_utf8(output.stdout).unwrap(), said(output.stderr))
    };
    let (text, left) = convert("data", "");
    let told =
        "left: data/backup.npy is a copy of the result data/za.lk23.out.npy; --only takes it\n";
    assert!(left.contains(told), "{left}");
    assert!(text.ends_with("\ntaken: za zb zr zu zv zz\n"), "{text}");
    // Without a file to compare it with, it is a matrix like any other, and is named.
    fs::create_dir(path.join("some")).unwrap();
    for name in ["za", "zr", "backup"] {
        copy(&format!("data/{name}.npy"), &format!("some/{name}.npy"));
    }
    let (text, left) = convert("some", "");
    assert!(text.ends_with("\ntaken: backup za zr\n") && left.is_empty(), "{text} {left}");
    fs::remove_dir_all(path.join("data.raw")).unwrap();
    let (text, _) = convert("data", "--only backup");
    assert!(text.ends_with("\ntaken: backup\n"), "{text}");
}

/// The examples of the help that create their own data run as they are written.
#[test]
fn the_examples_of_the_help_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    let help = String::from_utf8(command(path, "run --help").output().unwrap().stdout).unwrap();
    let (_, examples) = help.split_once("The Poisson equation, until").unwrap();
    let lines: Vec<_> =
        examples.lines().filter_map(|line| line.trim().strip_prefix("syncline ")).collect();
    assert!(lines.len() == 3 && lines[0].starts_with("gen poisson "), "{examples}");
    let said: Vec<_> = lines.iter().map(|line| ok(path, line)).collect();
    assert!(said[1].contains("no point changed by more than 1e-6"), "{said:?}");
    let last: Value = serde_json::from_str(&said[2]).unwrap();
    assert!(last["resumed"].as_u64() > Some(0) && last["converged_at"].is_number(), "{last}");
}

/// The residuals of all iterations are kept after a continuation, too, and so is the iteration in
/// which they became small enough.
#[test]
fn a_result_keeps_its_residuals() {
    let Some(folder) = poisson() else { return };
    let path = folder.path();
    let run = |options: &str| {
        report(path, &format!("run gauss-seidel p --until 1e-2 --exact-stop {options}")).1
    };
    let whole = run("--iterations 400 --output whole.npy");
    let at = whole["converged_at"].as_u64().unwrap();
    assert!(at > 12, "{whole}");
    let first = run("--iterations 10 --output o.npy");
    assert_eq!((&first["converged_at"], &first["iterations"]), (&Value::Null, &10.into()));
    let second = run("--iterations 400 --output o.npy --resume");
    for name in ["iterations", "residual", "converged_at"] {
        assert_eq!(second[name], whole[name], "{name}");
    }
    // There is room for some hundreds of them.
    if at < 200 {
        assert_eq!(second["residuals"], whole["residuals"]);
    }
    assert_eq!(fs::read(path.join("o.npy")).unwrap(), fs::read(path.join("whole.npy")).unwrap());
    // The run has converged: more iterations have nothing to do.
    assert_eq!(run("--iterations 500 --output o.npy --resume")["complete_already"], true);
}

/// A command that fills a folder while another command fills it waits for that command, but can be
/// interrupted: a signal ends it, and it leaves nothing.
#[test]
fn a_folder_that_another_command_fills_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen lk23 data --rows 20 --cols 20");
    fs::create_dir(path.join("out")).unwrap();
    let other = fs::File::open(path.join("out")).unwrap();
    other.lock().unwrap();
    let mut waits = command(path, "convert data out --layout blocked --block 5").spawn().unwrap();
    let (out, descriptors) =
        (fs::canonicalize(path.join("out")).unwrap(), format!("/proc/{}/fd", waits.id()));
    until("the folder is to be locked", || {
        let open = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        open.filter_map(|open| fs::read_link(open.path()).ok()).any(|file| file == out)
    });
    // Not SIGINT: a suite may be started with SIGINT ignored.
    kill_process(Pid::from_child(&waits), Signal::TERM).unwrap();
    let mut ended = None;
    until("the command ends", || {
        ended = waits.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(143));
    assert!(names(&path.join("out")).is_empty());
    drop(other);
    ok(path, "convert data out --layout blocked --block 5");
}

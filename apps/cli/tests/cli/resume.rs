//! The leftovers of an interrupted run: reported, continued from, or discarded.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{
    HANG, command, contents, fails_with, has_marks, json, lk23, names, ok, refused, said, until,
};

/// Long enough that it does not end during a test.
const LINE: &str = "run lk23 data --iterations 100000000 --depth 2 --output o.npy";

/// Starts a run of many passes and kills it when it has committed some, but has not ended. There is
/// no output before.
fn killed(path: &Path, line: &str) {
    let late = Instant::now() + HANG;
    loop {
        if let Some(mut child) = started_or_ended(path, line) {
            child.kill().unwrap();
            child.wait().unwrap();
            let manifest = path.join("o.npy.syncline/manifest");
            if manifest.exists() && !path.join("o.npy").exists() {
                return;
            }
        }
        // The run was too fast for this busy machine.
        assert!(Instant::now() < late, "{line} was not caught between its passes");
        let _ = fs::remove_file(path.join("o.npy"));
        let _ = fs::remove_dir_all(path.join("o.npy.syncline"));
    }
}

/// Starts a run of endless passes, and waits until it has committed at least one.
fn started(path: &Path, line: &str) -> Child {
    started_or_ended(path, line).unwrap_or_else(|| panic!("{line} ended"))
}

/// Starts a run of many passes, and waits until it has committed at least one; returns nothing if
/// it has ended by then, which must be with success.
fn started_or_ended(path: &Path, line: &str) -> Option<Child> {
    let mut child =
        command(path, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ended = false;
    until("a pass", || {
        ended = child.try_wait().unwrap().is_some();
        ended || path.join("o.npy.syncline/manifest").exists()
    });
    if !ended {
        return Some(child);
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    None
}

/// Returns the number of iterations that are kept, from the error that reports it.
fn kept(path: &Path, line: &str) -> u64 {
    let error = fails_with(1, path, line);
    let rest =
        error.split_once("a streamed run that ended after ").unwrap_or_else(|| panic!("{error}")).1;
    rest.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn leftovers_stop_a_run_that_says_nothing_about_them() {
    let folder = lk23(40, 40);
    let path = folder.path();
    killed(path, LINE);
    let both =
        ["o.npy.syncline is left of a streamed run that ended after ", "--resume", "--force"];
    refused(path, LINE, &both);
    refused(path, &format!("{LINE} --verify --json"), &both);
    // In blocks, and in one pass, too: the other run may still be wanted.
    let others = [
        "--iterations 2 --executor blocked",
        "--iterations 2 --order max-parallel",
        "--iterations 2",
    ];
    for other in others {
        let line = format!("run lk23 data {other} --output o.npy");
        refused(
            path,
            &line,
            &["o.npy.syncline is left of a streamed run that ended", "--force to discard it"],
        );
        // `--resume` is named only where it helps: fewer iterations cannot be made from more.
        let told = fails_with(1, path, &line);
        assert_eq!(
            told.contains("--resume"),
            !other.contains("max") && kept(path, LINE) <= 2,
            "{told}"
        );
        let report = json(path, &format!("{line} --force --verify"));
        assert_eq!((&report["verified"], &report["resumed"]), (&Value::Bool(true), &Value::Null));
        assert!(!path.join("o.npy.syncline").exists(), "{other}");
        fs::remove_file(path.join("o.npy")).unwrap();
        killed(path, LINE);
    }
    // A bound that is too small is reported before anything is discarded.
    refused(path, &format!("{LINE} --force --memory 1M"), &["allow at least"]);
    refused(
        path,
        "run lk23 data --iterations 2 --output o.npy --block 4 --force --memory 1M",
        &["allow at least"],
    );
    // Another output is not affected.
    ok(path, "run lk23 data --iterations 2 --output p.npy");
}

#[test]
fn a_resumed_run_says_from_where_and_has_the_same_bits() {
    let folder = lk23(40, 40);
    let path = folder.path();
    let iterations = 1000;
    let line = format!("run lk23 data --iterations {iterations} --output o.npy");
    ok(path, &format!("{line} --executor blocked"));
    let expected = fs::read(path.join("o.npy")).unwrap();
    // With other depths, threads and memory than before.
    for options in ["--depth 2", "--depth 7 --threads 1", "--memory 20M --verify"] {
        fs::remove_file(path.join("o.npy")).unwrap();
        killed(path, &format!("{line} --depth 1"));
        let before = kept(path, &line);
        assert!((1..iterations).contains(&before));
        let report = json(path, &format!("{line} --resume {options}"));
        assert_eq!(
            (&report["resumed"], &report["iterations"]),
            (&before.into(), &iterations.into()),
            "{report}"
        );
        assert!(fs::read(path.join("o.npy")).unwrap() == expected, "{options}");
        assert_eq!(names(path), ["data", "o.npy"]);
    }
    fs::remove_file(path.join("o.npy")).unwrap();
    killed(path, &format!("{line} --depth 1"));
    let before = kept(path, &line);
    let text = ok(path, &format!("{line} --resume"));
    assert!(
        text.contains(&format!("iterations   {iterations}, resumed after {before}\n")),
        "{text}"
    );
}

#[test]
fn a_result_that_cannot_get_its_name_is_kept() {
    let folder = lk23(40, 40);
    let path = folder.path();
    // The last number is so large that no machine is too busy to make the folder in time.
    let caught = [1000, 10_000, 100_000].into_iter().find_map(|iterations| {
        let line = format!("run lk23 data --iterations {iterations} --depth 1 --output o.npy");
        let child = started_or_ended(path, &line);
        let made = child.is_some() && fs::create_dir(path.join("o.npy")).is_ok();
        let output = child.map(|child| child.wait_with_output().unwrap());
        if !made {
            fs::remove_file(path.join("o.npy")).unwrap();
        }
        output.filter(|_| made).map(|output| (line, iterations, output))
    });
    let (line, iterations, output) = caught.expect("a run that has not ended yet");
    let error = said(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let kept = format!("{iterations} of {iterations} iterations are kept");
    assert!(error.contains("o.npy") && error.contains(&kept), "{error}");
    fs::remove_dir(path.join("o.npy")).unwrap();
    let text = ok(path, &format!("{line} --resume"));
    assert!(text.contains("no pass, there was nothing to compute"), "{text}");
    let result = fs::read(path.join("o.npy")).unwrap();
    ok(path, &format!("{line} --executor blocked --force").replace("--depth 1 ", ""));
    assert!(fs::read(path.join("o.npy")).unwrap() == result);
    assert_eq!(names(path), ["data", "o.npy"]);
}

#[test]
fn nothing_to_resume_is_begun_and_what_is_complete_stays() {
    let folder = lk23(30, 30);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    let line = "run lk23 data --iterations 6 --depth 2 --output o.npy --resume";
    let text = ok(path, line);
    assert!(
        text.contains("iterations   6; there was nothing to resume, so begun afresh"),
        "{text}"
    );
    let before = contents(path);
    let text = ok(path, line);
    assert!(text.contains("o.npy, complete already: nothing was done"), "{text}");
    let report = json(path, &format!("{line} --verify"));
    let expected = [
        ("complete_already", Value::Bool(true)),
        ("iterations", Value::from(6)),
        ("verified", Value::Bool(true)),
        ("seconds", Value::Null),
    ];
    for (name, value) in expected {
        assert_eq!(report[name], value, "{name}");
    }
    assert!(contents(path) == before, "files changed");
    // The empty folder of a run that was killed at its very beginning or end is removed by any run.
    for options in
        ["--resume", "--resume --depth 2", "--depth 6", "--executor blocked", "--force", ""]
    {
        fs::create_dir(path.join("o.npy.syncline")).unwrap();
        if options.ends_with('2') {
            fs::write(path.join("o.npy.syncline/lock"), b"").unwrap();
        }
        let line = format!("run lk23 data --iterations 6 --output o.npy {options}");
        if options.contains("--resume") || options == "--force" {
            ok(path, &line);
        } else {
            let error = fails_with(1, path, &line);
            assert!(error.contains("o.npy is the result of 6 iterations of lk23; "), "{error}");
            assert!(error.contains("--resume leaves it as it is"), "{error}");
        }
        assert!(contents(path) == before, "{options}: files changed");
    }
    // The slots of a run that committed nothing.
    fs::remove_file(path.join("o.npy")).unwrap();
    fs::create_dir(path.join("o.npy.syncline")).unwrap();
    fs::write(path.join("o.npy.syncline/generation.1"), b"half").unwrap();
    refused(
        path,
        line.trim_end_matches(" --resume"),
        &["a run that ended in its first pass", "--resume", "--force"],
    );
    assert_eq!(json(path, line)["resumed"], 0);
    assert!(contents(path) == before, "files changed");
}

#[test]
#[ignore = "full: 16 s: many runs"]
fn a_resumed_run_knows_when_it_converged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson data --rows 30 --cols 30");
    // Gauss-Seidel is slow enough to be killed before it converges.
    let line = "run gauss-seidel data --iterations 5000 --until 1e-12 --depth 1 --output o.npy";
    let told = |report: &Value| {
        ["iterations", "residual", "converged_at"].map(|name| {
            assert!(report[name].is_number(), "{report}");
            report[name].clone()
        })
    };
    let whole = json(path, line);
    if has_marks(path) {
        let again = json(path, &format!("{line} --resume"));
        assert_eq!((told(&again), &again["complete_already"]), (told(&whole), &Value::Bool(true)));
        let text = ok(path, &format!("{line} --resume"));
        let at = &whole["converged_at"];
        assert!(
            text.contains(&format!("no point changed by more than 1e-12 in iteration {at}\n")),
            "{text}"
        );
    }
    fs::remove_file(path.join("o.npy")).unwrap();
    killed(path, line);
    let resumed = json(path, &format!("{line} --resume"));
    assert!(resumed["resumed"].as_u64() > Some(0), "{resumed}");
    assert_eq!((told(&resumed), &resumed["residuals"]), (told(&whole), &whole["residuals"]));
}

#[test]
fn another_computation_is_not_gone_on_with() {
    let folder = lk23(40, 40);
    let path = folder.path();
    ok(path, "gen poisson data --rows 40 --cols 40");
    killed(path, "run sor data --omega 1.25 --iterations 12000 --depth 2 --output o.npy");
    let cases = [
        ("run sor data --omega 1.5 --iterations 12000", "omega was 1.25, is 1.5"),
        ("run gauss-seidel data --iterations 12000", "kernel was sor, is gauss-seidel"),
        ("run lk23 data --iterations 12000", "kernel was sor, is lk23"),
    ];
    for (line, difference) in cases {
        let parts = [
            "o.npy.syncline is of another computation",
            difference,
            "--force discards o.npy.syncline",
        ];
        refused(path, &format!("{line} --output o.npy --resume"), &parts);
    }
    // An input with other values.
    let f = path.join("data/f.npy");
    let values = fs::read(&f).unwrap();
    let mut others = values.clone();
    *others.last_mut().unwrap() ^= 1;
    fs::write(&f, others).unwrap();
    let line = "run sor data --omega 1.25 --iterations 12001 --output o.npy --resume";
    refused(path, line, &["f.npy", "has other values", "--force"]);
    // A touched input is the same; and a larger number of iterations is the same run.
    fs::write(&f, values).unwrap();
    let report = json(path, &format!("{line} --verify"));
    assert_eq!((&report["iterations"], &report["verified"]), (&12001.into(), &true.into()));
    assert!(report["resumed"].as_u64() > Some(0), "{report}");
}

/// An interrupted streamed run cannot be continued in blocks: the message says which option to
/// omit, and the run then continues; nor with too little memory: the message names the least
/// memory.
#[test]
fn an_interrupted_run_is_gone_on_with_streamed_only() {
    let folder = lk23(40, 2000);
    let path = folder.path();
    killed(path, LINE);
    let more = kept(path, LINE) + 3;
    let line =
        |options: &str| format!("run lk23 data --iterations {more} --output o.npy {options}");
    let cases = [
        ("--executor blocked", "--executor blocked"),
        ("--order barrier", "--order barrier"),
        ("--block 8", "--block"),
        ("--block 8 --runner pool --order barrier", "--block, --runner and --order barrier"),
    ];
    for (option, name) in cases {
        let told = format!("give --resume in place of {name}, or give --force");
        refused(path, &line(option), &[&told]);
        let told = format!("leave out {name}, or give --force in place of --resume to discard it");
        refused(path, &line(&format!("{option} --resume")), &[&told]);
    }
    let least = |error: &str| {
        let (_, least) = error.rsplit_once("allow at least ").unwrap_or_else(|| panic!("{error}"));
        least.replace(' ', "")
    };
    let error = fails_with(1, path, &line("--memory 1M --resume"));
    let streamed = "as the run left in o.npy.syncline goes on streamed only, the window of a pass";
    assert!(error.contains(streamed) && !error.contains("blocks"), "{error}");
    let (of_a_pass, least_of) = (least(&error), least);
    // Where blocks fit, a run in blocks may start from the beginning; the bound is between the
    // needs of the two.
    let of_blocks = fails_with(
        1,
        path,
        "run lk23 data --iterations 3 --memory 1M --executor blocked --output p.npy",
    );
    let tenths =
        |size: &str| size.strip_suffix("MiB").unwrap().replace('.', "").parse::<u64>().unwrap();
    let between = (tenths(&of_a_pass) + tenths(&least_of(&of_blocks))) / 2;
    let little = format!("--memory {}.{}M", between / 10, between % 10);
    for (options, anew, then) in [
        ("", "(--force in place of --resume begins anew in blocks)", ""),
        ("--depth 1", "(--force in place of --resume, without --depth, begins anew in blocks)", ""),
        ("--depth 1", "--force in place of --resume, without --depth,", "--threads 1"),
    ] {
        refused(
            path,
            &line(&format!("{little} {options} {then} --resume")),
            &[anew, "allow at least"],
        );
    }
    let least = of_a_pass;
    let report = json(path, &line(&format!("--memory {least} --resume --verify")));
    assert_eq!((&report["executor"], &report["verified"]), (&"streamed".into(), &true.into()));
    assert_eq!(report["resumed"], more - 3);
    fs::remove_file(path.join("o.npy")).unwrap();
    killed(path, LINE);
    let anew = command(path, &line(&format!("{little} --force --json"))).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&anew.stdout).unwrap();
    assert_eq!((&report["executor"], anew.status.code()), (&"blocked".into(), Some(0)));
    // For another computation, or more iterations, --resume is not named, because it would do
    // nothing.
    fs::remove_file(path.join("o.npy")).unwrap();
    killed(path, LINE);
    ok(path, "gen poisson data --rows 40 --cols 2000");
    let other = "run gauss-seidel data --iterations 100000000 --output o.npy";
    for line in ["run lk23 data --iterations 0 --output o.npy", other] {
        let error = fails_with(1, path, line);
        assert!(error.ends_with(": give --force to discard it"), "{error}");
    }
    // Where it is given, the error says why it would do nothing.
    let blocks = "run lk23 data --iterations 100000000 --order max-parallel --output o.npy";
    for (line, why) in [
        (blocks, "--resume cannot go on from there: it is of another computation: "),
        (
            &*blocks.replace("100000000", "0"),
            "--resume cannot go on from there: its iterations are more than the 0 asked for; ",
        ),
    ] {
        let line = format!("{line} --resume");
        refused(
            path,
            &line,
            &[why, "; give --force in place of --resume to discard it, or go on with"],
        );
    }
}

/// An interrupted run cannot be continued to fewer iterations than are done; it can be continued to
/// more.
#[test]
fn an_interrupted_run_may_be_given_more_iterations() {
    let folder = lk23(40, 40);
    let path = folder.path();
    killed(path, LINE);
    let done = kept(path, LINE);
    let line =
        |iterations| format!("run lk23 data --iterations {iterations} --output o.npy --resume");
    if done > 1 {
        let told = format!("has {done} iterations behind it, more than the {} asked for", done - 1);
        refused(path, &line(done - 1), &["o.npy.syncline", &told, "--force discards it"]);
    }
    let report = json(path, &format!("{} --verify", line(done + 3)));
    assert_eq!((&report["resumed"], &report["iterations"]), (&done.into(), &(done + 3).into()));
}

#[test]
fn another_description_is_another_computation() {
    let folder = lk23(40, 40);
    let path = folder.path();
    let text = "name = 'mean'\nfield = 'za'\nupdate = 'za = (n + s + e + w) / 4'\n";
    fs::write(path.join("mean.toml"), text).unwrap();
    let line = "run mean.toml data --iterations 2000 --depth 2 --output o.npy";
    killed(path, line);
    fs::write(path.join("mean.toml"), text.replace('4', "5")).unwrap();
    refused(
        path,
        &format!("{line} --resume"),
        &[
            "it was computed by a description of a kernel mean with another text than mean.toml has",
            "--force discards o.npy.syncline",
        ],
    );
    fs::write(path.join("mean.toml"), text).unwrap();
    assert_eq!(json(path, &format!("{line} --resume --verify"))["verified"], true);
}

#[test]
fn two_runs_into_one_output_do_not_meet() {
    let folder = lk23(40, 40);
    let path = folder.path();
    let mut child = started(path, LINE);
    for options in ["", "--resume", "--force", "--executor blocked --force"] {
        let options = format!("run lk23 data --iterations 8 --output o.npy {options}");
        let error = fails_with(1, path, &options);
        assert!(error.contains("another run works on this output"), "{options}: {error}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_no_run_has_made_is_never_removed() {
    let folder = lk23(20, 20);
    let path = folder.path();
    fs::create_dir(path.join("o.npy.syncline")).unwrap();
    fs::write(path.join("o.npy.syncline/diary"), b"dear me").unwrap();
    for options in ["", "--resume", "--force", "--executor blocked --force"] {
        let line = format!("run lk23 data --iterations 8 --output o.npy {options}");
        refused(path, &line, &["o.npy.syncline/diary", "was not made by a run"]);
    }
}

/// A coefficient changes while the plain loop reads it: the sweep's result then differs from the
/// loop's.
#[test]
#[ignore = "full: 8 s of computing"]
fn a_result_that_differs_gets_no_name_and_is_discarded() {
    let folder = lk23(300, 300);
    let path = folder.path();
    let [zz, zr] =
        ["zz", "zr"].map(|name| fs::read(path.join(format!("data/{name}.npy"))).unwrap());
    // In place: the truncation of a mapped file would end the run by a signal.
    let write = |bytes| {
        let file = fs::File::options().write(true).open(path.join("data/zz.npy")).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    };
    let line = "run lk23 data --iterations 900 --depth 300 --output o.npy --verify --force";
    let complete = || {
        let manifest = fs::read_to_string(path.join("o.npy.syncline/manifest")).unwrap_or_default();
        manifest.contains("\"iterations\":900,\"panel_rows\"")
    };
    for _ in 0..20 {
        fs::write(path.join("o.npy"), b"an older result").unwrap();
        let Some(mut child) = started_or_ended(path, line) else { continue };
        while !complete() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        write(&zr);
        let output = child.wait_with_output().unwrap();
        write(&zz);
        assert!(!path.join("o.npy.syncline").exists());
        if output.status.success() {
            // The loop had ended before.
            continue;
        }
        let error = said(output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains("differs from the plain double loop") && error.contains("no output"),
            "{error}"
        );
        assert_eq!(fs::read(path.join("o.npy")).unwrap(), b"an older result");
        return;
    }
    panic!("no run was caught during its verification");
}

/// A file under the output's name is replaced only on request, and the error says what it is.
#[test]
fn a_result_is_not_replaced_unasked() {
    let folder = lk23(20, 30);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    ok(path, "gen poisson data --rows 20 --cols 30");
    let line = |options: &str| format!("run lk23 data --output o.npy {options}");
    ok(path, &line("--iterations 40"));
    let result = "o.npy is the result of 40 iterations of lk23";
    let other = format!("{result}, not what is asked for: ");
    let cases = [
        ("lk23", "--iterations 3", "iterations were 40, are 3; --force replaces it"),
        ("gauss-seidel", "--iterations 40", "kernel was lk23, is gauss-seidel; za.npy was "),
        ("gauss-seidel", "--iterations 90", "zr.npy was "),
    ];
    for (kernel, options, difference) in cases {
        for resume in ["", "--resume"] {
            let line = format!("run {kernel} data --output o.npy {options} {resume}");
            refused(path, &line, &[&other, difference, "--force replaces it"]);
        }
    }
    // The effect of --resume is described where it has one.
    refused(
        path,
        &line("--iterations 40"),
        &[result, "; --resume leaves it as it is, --force computes it again"],
    );
    refused(
        path,
        &line("--iterations 41"),
        &[result, "; --resume goes on from it, --force replaces it"],
    );
    let in_blocks = line("--iterations 41 --executor blocked");
    refused(path, &in_blocks, &[result, "; --resume goes on from it, --force replaces it"]);
    // A file that is no result, and one that was a result before it was written to.
    let mut file = fs::OpenOptions::new().append(true).open(path.join("o.npy")).unwrap();
    std::io::Write::write_all(&mut file, b"x").unwrap();
    fs::write(path.join("p.npy"), "a file of the user's own").unwrap();
    for (output, why) in
        [("o.npy", "it was written to after it was marked"), ("p.npy", "it has no mark")]
    {
        for options in ["", "--resume", "--executor blocked", "--depth 1", "--depth 1 --resume"] {
            let line = format!("run lk23 data --iterations 50 --output {output} {options}");
            let parts = [
                &format!("the output {output} is not known as a result ({why}"),
                "--force replaces it",
            ];
            refused(path, &line, &parts);
        }
    }
    for options in ["--iterations 3", "--iterations 3 --executor blocked"] {
        assert_eq!(json(path, &line(&format!("{options} --force --verify")))["verified"], true);
    }
}

/// After 40 iterations, the 60 that are missing to 100, with the bits of 100 in one run; the first
/// 40 in blocks or streamed.
#[test]
fn a_result_is_gone_on_from() {
    let folder = lk23(60, 50);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    ok(path, "run lk23 data --iterations 100 --output whole.npy --executor blocked");
    let whole = fs::read(path.join("whole.npy")).unwrap();
    for (n, first) in ["--depth 7", "", "--executor blocked", "--executor blocked --order barrier"]
        .iter()
        .enumerate()
    {
        for second in ["", "--depth 11", "--verify"] {
            let run = format!("run lk23 data --output o{n}.npy");
            ok(path, &format!("{run} --iterations 40 {first} --force"));
            let text = ok(path, &format!("{run} --iterations 100 --resume {second}"));
            assert!(text.contains("iterations   100, resumed after 40\n"), "{text}");
            assert!(
                fs::read(path.join(format!("o{n}.npy"))).unwrap() == whole,
                "{first}, {second}"
            );
            assert!(
                ok(path, &format!("{run} --iterations 100 --resume")).contains("complete already")
            );
        }
    }
    // Another order is another computation.
    ok(path, "run lk23 data --output r.npy --iterations 40 --order max-parallel");
    refused(
        path,
        "run lk23 data --output r.npy --iterations 100 --resume",
        &["order was max-parallel, is not given"],
    );
}

/// Inputs that were copied or touched are recognised by their checksums; a run in blocks has no
/// checksums.
#[test]
fn inputs_that_were_moved_or_touched_are_the_same() {
    let folder = lk23(30, 30);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    for options in ["", "--depth 5", "--executor blocked"] {
        let run = |dir: &str, more: &str| format!("run lk23 {dir} --output o.npy {more}");
        ok(path, &run("data", &format!("--iterations 20 {options}")));
        // Copied, and therefore with other times, too.
        fs::create_dir(path.join("copy")).unwrap();
        for name in names(&path.join("data")) {
            fs::write(
                path.join("copy").join(&name),
                fs::read(path.join("data").join(&name)).unwrap(),
            )
            .unwrap();
        }
        if options.contains("blocked") {
            refused(
                path,
                &run("copy", "--iterations 30 --resume"),
                &["za.npy was ", "--force replaces it"],
            );
        } else {
            assert_eq!(
                json(path, &run("copy", "--iterations 20 --resume"))["complete_already"],
                true
            );
            assert_eq!(
                json(path, &run("copy", "--iterations 30 --resume --verify"))["resumed"],
                20
            );
            // A copy with other values is not.
            let zz = fs::read(path.join("copy/zr.npy")).unwrap();
            fs::write(path.join("copy/zz.npy"), zz).unwrap();
            refused(path, &run("copy", "--iterations 40 --resume"), &["zz.npy", "other values"]);
        }
        fs::remove_dir_all(path.join("copy")).unwrap();
        fs::remove_file(path.join("o.npy")).unwrap();
    }
}

/// Where no mark can be set, a message says so, and a result there is treated like any other file.
#[test]
fn without_extended_attributes_a_result_is_a_file_like_any_other() {
    let folder = lk23(20, 20);
    let path = folder.path();
    let mounted = Ramfs::mount(&path.join("ram"));
    let Some(_mounted) = mounted else {
        println!("skipped: only root may mount a file system without extended attributes");
        return;
    };
    for options in ["", "--depth 2", "--executor blocked"] {
        let line = format!("run lk23 data --iterations 4 --output ram/o.npy {options}");
        let text = ok(path, &line);
        assert!(
            text.contains("\nnot marked   its file system has no extended attributes"),
            "{text}"
        );
        assert_eq!(json(path, &format!("{line} --force"))["marked"], false);
        let parts = [
            "ram/o.npy is not known as a result (its file system has no extended attributes",
            "--force",
        ];
        refused(path, &line, &parts);
        if !options.contains("blocked") {
            refused(path, &format!("{line} --resume"), &parts);
        }
        fs::remove_file(path.join("ram/o.npy")).unwrap();
    }
}

/// A file system without extended attributes.
struct Ramfs(std::path::PathBuf);

impl Ramfs {
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "ramfs", "ramfs"]).arg(folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder.to_owned()))
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn nothing_is_called_kept_when_an_input_is_gone() {
    let folder = lk23(40, 40);
    let path = folder.path();
    let child = started(path, LINE);
    fs::remove_file(path.join("data/zr.npy")).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = said(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("zr.npy") && !error.contains("kept"), "{error}");
}

//! Checks that the advice of a refused command can be followed literally, and that the command then
//! runs.

use std::fs;
use std::path::Path;

use crate::common::{command, fails_with, json, lk23, ok};

/// Splits a line at the blanks between its options: each with its value.
fn options(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match all.last_mut() {
            Some(option) if !word.starts_with("--") => *option = format!("{option} {word}"),
            _ => all.push(word.to_owned()),
        }
    }
    all
}

/// Returns the advice in the last part of an error: the alternatives, any of which must work.
fn ways(error: &str) -> Vec<String> {
    let (_, advice) = error.rsplit_once(": ").unwrap_or_else(|| panic!("no advice: {error}"));
    advice.split(", or ").map(str::to_owned).collect()
}

/// A `run` over the matrices of a folder.
#[derive(Clone, Debug)]
struct Run {
    kernel: &'static str,
    dir: String,
    options: Vec<String>,
}

impl Run {
    fn line(&self) -> String {
        format!("run {} {} --iterations 4 {} --json", self.kernel, self.dir, self.options.join(" "))
    }

    /// Returns the run changed as an error advises.
    fn following(&self, path: &Path, way: &str) -> Self {
        let mut then = self.clone();
        if let Some(names) = way.strip_prefix("leave out ") {
            for name in names.split([',', ' ']).filter(|word| word.starts_with("--")) {
                let before = then.options.len();
                then.options.retain(|option| option.split(' ').next() != Some(name));
                assert_eq!(then.options.len() + 1, before, "{self:?}: {way} names {name}");
            }
        } else if way == "give --until" {
            then.options.push("--until 1e-3".to_owned());
        } else if way.starts_with("sweep row-major data, which `syncline convert ") {
            let convert =
                way.split('`').nth(1).and_then(|line| line.strip_prefix("syncline ")).unwrap();
            assert!(convert.contains(&format!(" {} ", self.dir)), "{self:?}: {convert}");
            then.dir = "new".to_owned();
            if !path.join("new").exists() {
                ok(path, &convert.replace(" NEW ", " new "));
            }
            if way.ends_with("makes (and give --output a name that ends in .npy)") {
                let output =
                    then.options.iter_mut().find(|option| option.starts_with("--output")).unwrap();
                output.push_str(".npy");
            } else {
                assert!(way.ends_with(" makes"), "{way}");
            }
        } else {
            panic!("{self:?}: nothing knows how to follow {way:?}");
        }
        then
    }
}

/// Checks every data layout with every choice of executor, order, depth, tolerance, and option of
/// blocks.
#[test]
#[ignore = "full: 9 s: 400 runs"]
fn what_the_refusal_of_an_executor_advises_runs() {
    let folder = lk23(24, 20);
    let path = folder.path();
    ok(path, "convert data framed --layout framed --block 8");
    ok(path, "convert data blocked --layout blocked --block 8");
    let (mut refused, mut ran) = (0, 0);
    for dir in ["data", "framed", "blocked"] {
        for executor in ["", "--executor streamed", "--executor blocked"] {
            for order in ["", "--order barrier", "--order max-parallel"] {
                for until in ["", "--until 1e-3", "--until 1e-3 --exact-stop", "--exact-stop"] {
                    for more in ["", "--depth 2", "--block 8", "--depth 2 --block 8 --runner pool"]
                    {
                        let _ = fs::remove_dir_all(path.join("new"));
                        let output = if dir == "data" { "--output o.npy" } else { "--output o" };
                        let given = format!("{executor} {order} {until} {more} --force {output}");
                        let run =
                            Run { kernel: "lk23", dir: dir.to_owned(), options: options(&given) };
                        let mut faults = if until == "--exact-stop" { 2 } else { 1 };
                        match follow(path, &run, &mut faults) {
                            true => refused += 1,
                            false => ran += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 200 && ran > 100, "{refused} refused, {ran} ran");
}

/// Follows the advice of a refusal, if the run is refused: each alternative must make the run
/// succeed, with an exact stop where it still requires one. Independent faults are reported one at
/// a time.
fn follow(path: &Path, run: &Run, faults: &mut u32) -> bool {
    let outcome = |run: &Run| {
        let ended = command(path, &run.line()).output().unwrap();
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        // A run with --until may end before it has converged.
        (matches!(ended.status.code(), Some(0 | 3)), error, ended.stdout)
    };
    let (runs, error, _) = outcome(run);
    if runs {
        return false;
    }
    for way in ways(error.trim_end()) {
        let then = run.following(path, &way);
        let (runs, again, stdout) = outcome(&then);
        // An exact stop without --until is a fault of its own, whatever else conflicts.
        if !runs && *faults > 1 {
            *faults -= 1;
            assert!(follow(path, &then, faults));
            *faults += 1;
            continue;
        }
        assert!(runs, "{run:?}: {error}then {then:?}: {again}");
        let report: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        if then.options.iter().any(|option| option == "--exact-stop") {
            let exact = report["executor"] == "streamed" || report["order"] == "barrier";
            assert!(exact, "{then:?}: {report}");
        }
    }
    true
}

/// Blocks that cannot keep the order of a kernel are not advised.
#[test]
fn blocks_that_a_kernel_cannot_have_are_not_advised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson data --rows 20 --cols 20");
    ok(path, "convert data framed --layout framed --block 8");
    let line = "run nine-point framed --iterations 4 --output o --depth 2";
    let error = fails_with(1, path, line);
    assert!(error.contains("blocks of one row, or as wide as the matrix"), "{error}");
    ok(path, "convert data wide --layout framed --block 4x20");
    let error = fails_with(1, path, &line.replace("framed", "wide"));
    assert!(error.contains("leave out --depth, or sweep row-major"), "{error}");
    ok(path, "run nine-point wide --iterations 4 --output o");
}

/// An exact stop in blocks requires the barrier order: for data in blocks, where blocks are
/// requested, and where the memory is too small for a streamed pass.
#[test]
fn an_exact_stop_holds_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson data --rows 30 --cols 30");
    ok(path, "convert data framed --layout framed --block 8");
    let line = |dir: &str| {
        format!("run gauss-seidel {dir} --iterations 5000 --until 1e-3 --output o.npy --force")
    };
    let barrier = json(path, &format!("{} --order barrier", line("data")));
    let expected = fs::read(path.join("o.npy")).unwrap();
    let cases = [
        ("framed", "", "barrier"),
        ("framed", "--order barrier", "barrier"),
        ("framed", "--executor blocked", "barrier"),
        ("data", "", "wave"),
        ("data", "--executor streamed --depth 7", "wave"),
        ("data", "--executor blocked", "barrier"),
        ("data", "--block 7", "barrier"),
        ("data", "--order barrier --runner threads", "barrier"),
    ];
    for (dir, options, order) in cases {
        let exact = json(path, &format!("{} --exact-stop --verify {options}", line(dir)));
        assert_eq!(exact["order"], order, "{dir} {options}");
        for name in ["iterations", "converged_at", "residuals"] {
            assert_eq!(exact[name], barrier[name], "{dir} {options}: {name}");
        }
        assert!(fs::read(path.join("o.npy")).unwrap() == expected, "{dir} {options}");
    }
}

//! `run`: the right numbers, in the right files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use syncline_store::{DataDir, ElementType, Matrix, Shape, array::Array};
use syncline_wave::{
    kernels::{Lk23, Sor},
    reference::plain_sweep,
};

use crate::common::{
    as_ordinary_user, bits, contents, fails_with, has_marks, json, lk23, matrix, names, npy, ok,
    refused, succeeds, unconverged, write_npy,
};

/// Returns the result of the plain double loop over a directory.
fn plain_lk23(dir: &Path, iterations: u64) -> Vec<f64> {
    let shape = DataDir::open(dir).unwrap().matrix::<f64>("za").unwrap().shape();
    let mut za = matrix(dir, "za");
    let c = Lk23::COEFFICIENTS.map(|name| matrix(dir, name));
    for _ in 0..iterations {
        plain_sweep(&Lk23, &mut za, c.each_ref().map(|c| &c[..]), shape.rows, shape.cols);
    }
    za
}

#[test]
fn layouts_orders_and_runners_give_the_same_bits() {
    let shapes = [
        (3, 3, "2"),
        (1, 11, "1x4"),
        (11, 1, "4x1"),
        (29, 31, "7x10"),
        (17, 13, "1x5"),
        (24, 24, "8"),
    ];
    for (rows, cols, block) in shapes {
        all_give_the_same_bits(rows, cols, block);
    }
}

fn all_give_the_same_bits(rows: usize, cols: usize, block: &str) {
    let folder = lk23(rows, cols);
    let path = folder.path();
    let expected = bits(&plain_lk23(&path.join("data"), 4));
    ok(path, &format!("convert data blocked --layout blocked --block {block}"));
    ok(path, &format!("convert data framed --layout framed --block {block}"));
    let mut red_black = Vec::new();
    for dir in ["data", "blocked", "framed"] {
        for order in ["wave", "barrier", "max-parallel"] {
            for runner in ["pool", "threads"] {
                let line = format!(
                    "run lk23 {dir} --iterations 4 --block {block} --order {order} --runner {runner} --threads 3 \
                     --output result.npy --verify --force"
                );
                assert_eq!(json(path, &line)["verified"], true, "{rows} x {cols}: {line}");
                let result = bits(&npy(&path.join("result.npy")));
                match order {
                    "max-parallel" => red_black.push(result),
                    _ => assert!(result == expected, "{rows} x {cols}: {line}"),
                }
            }
        }
    }
    red_black.dedup();
    assert_eq!(red_black.len(), 1, "{rows} x {cols}");
}

#[test]
fn the_result_goes_beside_the_input_in_its_layout() {
    let folder = lk23(21, 18);
    let path = folder.path();
    let expected = bits(&plain_lk23(&path.join("data"), 3));
    ok(path, "convert data framed --layout framed --block 8x5");
    let before = contents(path);
    for (dir, file) in [("data", "za.lk23.out.npy"), ("framed", "za.lk23.out")] {
        let text = ok(path, &format!("run lk23 {dir} --iterations 3 --verify"));
        assert!(text.contains("verified     bit for bit against the plain double loop"), "{text}");
        assert!(text.contains(file) && text.contains("iterations   3\n"), "{text}");
    }
    assert_eq!(bits(&npy(&path.join("data/za.lk23.out.npy"))), expected);
    let layout = DataDir::open(&path.join("framed")).unwrap().matrix::<f64>("za").unwrap().layout();
    let result =
        Matrix::open_raw(&path.join("framed/za.lk23.out"), Shape::new(21, 18), layout).unwrap();
    assert_eq!(bits(&crate::common::values(&result)), expected);
    let after = contents(path);
    assert!(before.iter().all(|(file, bytes)| &after[file] == bytes), "an input was changed");
    assert_eq!(after.len(), before.len() + 2);
    // Raw under another name, and a link: the file that the link names is replaced.
    ok(path, "run lk23 framed --iterations 3 --output other");
    assert_eq!(
        fs::read(path.join("other")).unwrap(),
        fs::read(path.join("framed/za.lk23.out")).unwrap()
    );
    std::os::unix::fs::symlink("other.npy", path.join("link.npy")).unwrap();
    fs::write(path.join("other.npy"), b"old").unwrap();
    ok(path, "run lk23 framed --iterations 3 --output link.npy --force");
    assert!(fs::symlink_metadata(path.join("link.npy")).unwrap().is_symlink());
    assert_eq!(bits(&npy(&path.join("other.npy"))), expected);
}

#[test]
fn red_black_is_other_numbers() {
    let folder = lk23(40, 40);
    let path = folder.path();
    let text = ok(path, "run lk23 data --iterations 3 --block 10 --order max-parallel --verify");
    assert!(text.contains("the block red-black loop"), "{text}");
    assert_ne!(npy(&path.join("data/za.lk23.out.npy")), plain_lk23(&path.join("data"), 3));
}

#[test]
fn no_iterations_copy_the_input() {
    let folder = lk23(15, 16);
    let path = folder.path();
    ok(path, "convert data framed --layout framed --block 4");
    for (dir, order) in [("data", "wave"), ("framed", "barrier"), ("data", "max-parallel")] {
        let report = json(
            path,
            &format!(
                "run lk23 {dir} --iterations 0 --order {order} --output o.npy --verify --force"
            ),
        );
        assert_eq!(report["iterations"], 0);
        assert_eq!(report["ns_per_element"], Value::Null);
        assert_eq!(
            fs::read(path.join("o.npy")).unwrap(),
            fs::read(path.join("data/za.npy")).unwrap()
        );
    }
    ok(path, "run lk23 framed --iterations 0");
    assert_eq!(
        fs::read(path.join("framed/za.lk23.out")).unwrap(),
        fs::read(path.join("framed/za")).unwrap()
    );
}

#[test]
fn what_is_not_a_number_is_data_too() {
    let folder = lk23(12, 12);
    let path = folder.path().join("data/za.npy");
    let mut za = npy(&path);
    (za[40], za[77], za[100]) = (f64::NAN, f64::INFINITY, f64::from_bits(0xfff8_0000_0000_1234));
    write_npy(&path, Shape::new(12, 12), &za);
    for order in ["wave", "max-parallel"] {
        let line = format!(
            "run lk23 data --iterations 3 --block 5 --order {order} --until 1e-3 --verify --force"
        );
        let text = unconverged(folder.path(), &format!("{line} --json"));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&report["verified"], &report["converged_at"]),
            (&Value::Bool(true), &Value::Null)
        );
    }
}

#[test]
fn a_block_may_be_larger_than_the_matrix() {
    let folder = lk23(9, 14);
    let report = json(folder.path(), "run lk23 data --iterations 5 --block 4096 --verify");
    assert_eq!(
        (&report["block"], &report["blocks"]),
        (&serde_json::json!([9, 14]), &Value::from(1))
    );
}

#[test]
fn gauss_seidel_and_sor_use_the_right_hand_side_if_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson p --rows 20 --cols 30");
    let (u, f) = (matrix(&path.join("p"), "u"), matrix(&path.join("p"), "f"));
    let plain = |sor: Sor, with_f: bool| {
        let mut u = u.clone();
        for _ in 0..6 {
            match with_f {
                true => plain_sweep::<f64, _, 1>(&sor, &mut u, [&f], 20, 30),
                false => plain_sweep::<f64, _, 0>(&sor, &mut u, [], 20, 30),
            }
        }
        bits(&u)
    };
    for with_f in [true, false] {
        if !with_f {
            fs::remove_file(path.join("p/f.npy")).unwrap();
        }
        for (kernel, sor) in [
            ("gauss-seidel", Sor::gauss_seidel()),
            ("sor", Sor::new(1.5).unwrap()),
            ("sor --omega 1.9", Sor::new(1.9).unwrap()),
        ] {
            let (name, options) = kernel.split_once(' ').unwrap_or((kernel, ""));
            ok(path, &format!("run {name} p {options} --iterations 6 --block 7 --verify --force"));
            assert_eq!(
                bits(&npy(&path.join(format!("p/u.{name}.out.npy")))),
                plain(sor, with_f),
                "{kernel} {with_f}"
            );
        }
    }
}

/// Two kernels on one field have two results; a field may come from any of them.
#[test]
fn a_run_starts_from_any_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson p --rows 20 --cols 30");
    let f = matrix(&path.join("p"), "f");
    let mut u = matrix(&path.join("p"), "u");
    ok(path, "run gauss-seidel p --iterations 5");
    ok(path, "run sor p --iterations 4 --field p/u.gauss-seidel.out.npy --verify");
    for (sor, iterations) in [(Sor::gauss_seidel(), 5), (Sor::new(1.5).unwrap(), 4)] {
        (0..iterations).for_each(|_| plain_sweep::<f64, _, 1>(&sor, &mut u, [&f], 20, 30));
    }
    assert_eq!(bits(&npy(&path.join("p/u.sor.out.npy"))), bits(&u));
    // The field of the directory need not exist; and another field is another computation.
    fs::rename(path.join("p/u.npy"), path.join("elsewhere.npy")).unwrap();
    ok(path, "run gauss-seidel p --iterations 5 --field elsewhere.npy --output o.npy");
    assert!(
        fs::read(path.join("o.npy")).unwrap()
            == fs::read(path.join("p/u.gauss-seidel.out.npy")).unwrap()
    );
    if has_marks(path) {
        let line =
            "run gauss-seidel p --iterations 9 --field p/u.sor.out.npy --output o.npy --resume";
        refused(path, line, &["elsewhere.npy was ", "u.sor.out.npy", "--force"]);
        let line =
            "run gauss-seidel p --iterations 9 --field elsewhere.npy --output o.npy --resume";
        assert_eq!(json(path, line)["resumed"], 5);
    }
    let line =
        |field: &str| format!("run gauss-seidel p --iterations 1 --field {field} --output n.npy");
    refused(path, &line("none.npy"), &["none.npy"]);
    refused(path, &line("p"), &["p is no .npy file, and no layout.json tells of what shape"]);
    write_npy(&path.join("s.npy"), Shape::new(20, 31), &[0.0; 620]);
    refused(path, &line("s.npy"), &["p/f.npy is 20 x 30", "s.npy is 20 x 31"]);
    write_npy(&path.join("t.npy"), Shape::new(20, 30), &[0.0_f32; 600]);
    refused(path, &line("t.npy"), &["one type of elements", "t.npy is float32"]);
    let line = "run gauss-seidel p --iterations 1 --field o.npy --output o.npy --force";
    refused(path, line, &["is the input o.npy, which is never overwritten"]);
    // Raw files, too: one that a layout.json describes, and a result beside it.
    fs::rename(path.join("elsewhere.npy"), path.join("p/u.npy")).unwrap();
    // The field of the directory is not replaced either, if another field is used in its place.
    let line = "run gauss-seidel p --iterations 1 --field o.npy --output p/u.npy --force";
    refused(path, line, &["p/u.npy", "is the input", "never overwritten"]);
    ok(path, "convert p raw --layout framed --block 6 --only u,f");
    ok(path, "run sor raw --iterations 5 --verify");
    for field in ["raw/u", "raw/u.sor.out"] {
        ok(
            path,
            &format!(
                "run gauss-seidel raw --iterations 3 --field {field} --output x --verify --force"
            ),
        );
    }
    ok(
        path,
        "run gauss-seidel p --iterations 3 --field raw/u --output y.npy --executor blocked --verify",
    );
}

#[test]
fn convergence_ends_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson p --rows 30 --cols 30");
    let line = "run sor p --omega 1.8 --iterations 5000 --until 1e-6 --block 10 --verify --force";
    let exact = json(path, &format!("{line} --order barrier"));
    let at = exact["converged_at"].as_u64().unwrap();
    assert!(at > 5 && exact["iterations"] == at, "{exact}");
    assert!(exact["residual"].as_f64().unwrap() <= 1e-6);
    for order in ["wave", "max-parallel"] {
        let report = json(path, &format!("{line} --order {order}"));
        let (at, iterations) =
            (&report["converged_at"].as_u64().unwrap(), report["iterations"].as_u64().unwrap());
        assert!((*at..=at + 5).contains(&iterations), "{report}");
    }
    assert_eq!(json(path, line)["converged_at"], at);
    let text = ok(path, line);
    assert!(text.contains(&format!("in iteration {at}")), "{text}");
}

/// What stays infinite or NaN has not changed; if a change is not finite, the points are named.
#[test]
fn changes_that_are_not_finite_name_points() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let write = |value: f64| {
        let mut array = Array::zeros(ElementType::Float64, &[6, 5]).unwrap();
        array.values_mut().unwrap()[..5].fill(value);
        std::fs::remove_file(path.join("u.npy")).ok();
        array.create(&path.join("u.npy")).unwrap().commit().unwrap();
    };
    let text = "name = 'down'\nfield = 'u'\nupdate = 'u = old.n'".replace('\'', "\"");
    std::fs::write(path.join("down.toml"), text).unwrap();
    let line = "run down.toml . --until 0 --output o.npy --force --iterations";
    for (value, kind) in [(f64::INFINITY, "infinite"), (f64::NAN, "NaN")] {
        write(value);
        let text = unconverged(path, &format!("{line} 2"));
        let told = format!("; 15 points of o.npy are {kind}, the first at [0, 0]\n");
        assert!(text.contains(&format!("NOT CONVERGED: in the last a point became {kind}, or ")));
        assert!(text.contains(&told), "{text}");
        let text = ok(path, &format!("{line} 9"));
        assert!(text.contains("no point changed by more than 0e0 in iteration 6\n"), "{text}");
    }
}

/// A run that has not converged to its `--until` says so and ends with a separate exit code; its
/// result exists.
#[test]
fn what_has_not_converged_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson p --rows 30 --cols 30");
    for options in ["", "--executor blocked", "--depth 2", "--depth 2 --exact-stop"] {
        let line = format!(
            "run sor p --iterations 3 --until 1e-6 --output o.npy --force --verify {options}"
        );
        let text = unconverged(path, &line);
        assert!(text.contains("; NOT CONVERGED: in the last a point changed by "), "{text}");
        assert!(text.contains(", more than --until 1e-6\n") && text.contains("o.npy"), "{text}");
        assert_eq!(npy(&path.join("o.npy")).len(), 900);
        let report: Value =
            serde_json::from_str(&unconverged(path, &format!("{line} --json"))).unwrap();
        assert_eq!((&report["converged_at"], &report["iterations"]), (&Value::Null, &3.into()));
    }
    if has_marks(path) {
        let line = "run sor p --iterations 3 --until 1e-6 --output o.npy --resume --exact-stop";
        let text = unconverged(path, line);
        assert!(text.contains("NOT CONVERGED") && text.contains("complete already"), "{text}");
    }
    let text = unconverged(path, "run sor p --iterations 0 --until 1e-6 --output o.npy --force");
    assert!(text.contains("NOT CONVERGED: there was no iteration"), "{text}");
    ok(path, "run sor p --iterations 3 --until 1e6 --output o.npy --force");
}

#[test]
fn the_json_object_is_the_last_line_and_complete() {
    let folder = lk23(33, 35);
    let line = "run lk23 data --iterations 4 --block 16 --threads 2 --memory 1G --json";
    let stdout = ok(folder.path(), line);
    let report: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let numbers = [
        "seconds",
        "sync_seconds",
        "ns_per_element",
        "bytes_read",
        "bytes_written",
        "peak",
        "program",
        "peak_rss",
        "window",
        "windows",
    ];
    for name in numbers {
        assert!(report[name].as_f64().is_some_and(|number| number >= 0.0), "{name}: {report}");
    }
    for name in ["residual", "converged_at", "verified", "disk_read", "disk_written"] {
        assert!(report.as_object().unwrap().contains_key(name), "{name}: {report}");
    }
    let expected = serde_json::json!({
        "kernel": "lk23", "dtype": "float64", "order": "wave", "executor": "blocked", "runner": "pool",
        "layout": "row-major", "passes": 4, "depth": null, "resumed": null, "complete_already": false,
        "times": null,
        "rows": 33, "cols": 35, "iterations": 4, "block": [16, 16], "blocks": 9,
        "members": 1, "threads": 2, "memory": 1 << 30, "held": true, "verified": null, "output": "data/za.lk23.out.npy",
    });
    for (name, value) in expected.as_object().unwrap() {
        let output =
            name == "output" && report[name].as_str().unwrap().ends_with("data/za.lk23.out.npy");
        assert!(output || &report[name] == value, "{name}: {report}");
    }
}

#[test]
fn an_earlier_result_is_replaced_when_that_is_said() {
    let folder = lk23(10, 10);
    let path = folder.path();
    for iterations in [1, 2] {
        let report = json(path, &format!("run lk23 data --iterations {iterations} --force"));
        assert_eq!(report["output"], "data/za.lk23.out.npy");
        assert_eq!(
            npy(&path.join("data/za.lk23.out.npy")),
            plain_lk23(&path.join("data"), iterations)
        );
    }
    assert_eq!(names(&path.join("data")).len(), 7);
}

#[test]
fn what_its_owner_may_not_write_is_replaced_too() {
    let folder = lk23(40, 10);
    let path = folder.path();
    let output = path.join("data/za.lk23.out.npy");
    ok(path, "run lk23 data --iterations 1");
    for options in ["--executor blocked", "--executor streamed", "--executor streamed --depth 1"] {
        fs::set_permissions(&output, fs::Permissions::from_mode(0o444)).unwrap();
        let line = format!("run lk23 data --iterations 3 --force {options}");
        let Some(command) = as_ordinary_user(path, &line) else {
            return;
        };
        succeeds(command, &line);
        assert_eq!(npy(&output), plain_lk23(&path.join("data"), 3), "{options}");
        assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o644, "{options}");
    }
}

#[test]
fn the_help_tells_the_truth_about_orders() {
    let folder = tempfile::tempdir().unwrap();
    let help = ok(folder.path(), "run --help");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Red-black by blocks",
        "OTHER NUMBERS",
        "diagonals of blocks",
        "the stop is exact",
        "Examples:",
        "--resume",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for command in ["", "gen ", "convert "] {
        assert!(ok(folder.path(), &format!("{command}--help")).contains("Example"));
    }
}

/// A sampled comparison says what was compared, and claims no more.
#[test]
fn a_sample_of_the_result_is_compared() {
    let folder = lk23(3000, 12);
    let path = folder.path();
    for options in ["", "--executor blocked"] {
        let line = format!(
            "run lk23 data --iterations 2 --verify=sample --output o.npy --force {options}"
        );
        let report = json(path, &line);
        let rows = report["sampled_rows"].as_u64().unwrap();
        assert!((4..=1024).contains(&rows), "{report}");
        assert_eq!(report["verified"], Value::Null);
        let text = ok(path, &line);
        assert!(
            text.contains(" of 36000 values, the first ") && text.contains("not the others"),
            "{text}"
        );
        assert!(text.contains("\nsampled ") && !text.contains("verified"), "{text}");
    }
    // The default is a full comparison.
    for verify in ["--verify", "--verify=full"] {
        let report =
            json(path, &format!("run lk23 data --iterations 2 --output o.npy --force {verify}"));
        assert_eq!((&report["verified"], &report["sampled_rows"]), (&true.into(), &Value::Null));
    }
    let error = fails_with(
        2,
        path,
        "run lk23 data --iterations 1600 --output o.npy --force --verify=sample",
    );
    assert!(error.contains("1600 more, of 3000 in all") && error.contains("--verify"), "{error}");
    let error =
        fails_with(2, path, "run lk23 data --iterations 1 --order max-parallel --verify=sample");
    assert!(error.contains("max-parallel"), "{error}");
    assert_eq!(names(path), ["data", "o.npy"]);
    // With a tolerance, the cost of a sample is known only at the end.
    ok(path, "gen lk23 small --rows 20 --cols 20");
    let line = "run lk23 small --iterations 50 --depth 50 --until 1e300 --output s.npy --force --verify=sample";
    let report = json(path, line);
    assert_eq!(
        (&report["sampled_rows"], &report["verified"]),
        (&0.into(), &Value::Null),
        "{report}"
    );
    assert!(ok(path, line).contains("\nsampled      nothing: "));
}

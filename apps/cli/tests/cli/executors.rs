//! Checks that streamed and in blocks, for either type of elements, and with arrays in several
//! directories, the bits are the same.

use std::fs;
use std::path::Path;

use serde_json::Value;
use syncline_store::{DataDir, Matrix, Shape};
use syncline_wave::{
    kernels::Lk23,
    lanes::{Lanes, Real},
    reference::plain_sweep,
};

use crate::common::{
    command, contents, fails_with, json, lk23, names, npy_of, ok, refused, said, values,
};

/// Returns the bits of the plain double loop over a directory.
fn plain<T: Real>(dir: &Path, iterations: u64) -> Vec<u64> {
    let dir = DataDir::open(dir).unwrap();
    let matrix = |name| dir.matrix::<T>(name).unwrap();
    let Shape { rows, cols } = matrix("za").shape();
    let (mut za, c) = (values(&matrix("za")), Lk23::COEFFICIENTS.map(|name| values(&matrix(name))));
    for _ in 0..iterations {
        plain_sweep(&Lk23, &mut za, c.each_ref().map(|c| &c[..]), rows, cols);
    }
    za.into_iter().map(T::bits).collect()
}

fn bits<T: Real>(path: &Path) -> Vec<u64> {
    npy_of::<T>(path).into_iter().map(T::bits).collect()
}

fn both_executors<T: Real>(path: &Path, dir: &str) {
    let iterations = 7;
    let expected = plain::<T>(&path.join(dir), iterations);
    let shape = DataDir::open(&path.join(dir)).unwrap().matrix::<T>("za").unwrap().shape();
    let inside = shape.rows > 2 && shape.cols > 2;
    let run = |options: &str, executor: &str| {
        let line = format!(
            "run lk23 {dir} --iterations {iterations} --output o.npy --verify --force {options}"
        );
        let report = json(path, &line);
        assert_eq!(report["executor"], executor, "{line}");
        assert_eq!(
            (&report["verified"], &report["dtype"]),
            (&Value::Bool(true), &Value::from(T::NAME))
        );
        assert!(bits::<T>(&path.join("o.npy")) == expected, "{line}");
        report
    };
    for lanes in Lanes::available() {
        for depth in [1, 3, 7, 100] {
            let report = run(&format!("--lanes {lanes} --depth {depth} --threads 3"), "streamed");
            assert_eq!(report["lanes"], lanes.to_string());
            assert_eq!(report["depth"], depth.min(7));
            // Without interior points a sweep only copies.
            assert_eq!(report["passes"], if inside { 7_u64.div_ceil(depth) } else { 0 });
        }
        run(&format!("--lanes {lanes} --block 10"), "blocked");
    }
    run("", "streamed");
    run("--order wave --executor streamed", "streamed");
    for options in ["--executor blocked", "--block 8x16", "--runner pool", "--order barrier"] {
        let report = run(options, "blocked");
        assert_eq!((&report["passes"], &report["times"]), (&Value::from(7), &Value::Null));
    }
}

#[test]
fn either_executor_and_either_type_give_the_plain_bits() {
    for (rows, cols) in [(61, 45), (3, 3), (1, 20), (20, 2)] {
        let folder = lk23(rows, cols);
        let path = folder.path();
        ok(path, &format!("gen lk23 single --rows {rows} --cols {cols} --dtype float32 --seed 3"));
        both_executors::<f64>(path, "data");
        both_executors::<f32>(path, "single");
    }
}

#[test]
fn the_layout_decides_too() {
    let folder = lk23(30, 34);
    let path = folder.path();
    let expected = plain::<f64>(&path.join("data"), 4);
    ok(path, "convert data framed --layout framed --block 8");
    ok(path, "convert data blocked --layout blocked --block 8");
    fs::create_dir(path.join("raw")).unwrap();
    for name in ["za", "zr", "zb", "zu", "zv", "zz"] {
        let bytes = fs::read(path.join(format!("data/{name}.npy"))).unwrap();
        fs::write(path.join("raw").join(name), &bytes[128..]).unwrap();
    }
    let arrays = ["za", "zr", "zb", "zu", "zv", "zz"]
        .map(|name| format!("\"{name}\": {{\"layout\": \"row-major\"}}"));
    let layout = format!(
        "{{\"version\": 1, \"rows\": 30, \"cols\": 34, \"arrays\": {{{}}}}}",
        arrays.join(", ")
    );
    fs::write(path.join("raw/layout.json"), layout).unwrap();
    for (dir, executor) in [("framed", "blocked"), ("blocked", "blocked"), ("raw", "streamed")] {
        let line = format!("run lk23 {dir} --iterations 4 --verify --force");
        assert_eq!(json(path, &line)["executor"], executor, "{dir}");
        assert_eq!(json(path, &format!("{line} --output o.npy"))["executor"], executor, "{dir}");
        assert!(bits::<f64>(&path.join("o.npy")) == expected);
    }
    let raw = Matrix::<f64>::open_raw(
        &path.join("raw/za.lk23.out"),
        Shape::new(30, 34),
        syncline_store::Layout::RowMajor,
    );
    let raw: Vec<_> = values(&raw.unwrap()).into_iter().map(f64::to_bits).collect();
    assert!(raw == expected);
    for (option, name) in [("--executor streamed", "--executor streamed"), ("--depth 2", "--depth")]
    {
        let parts =
            ["framed/za cannot be streamed", "not row-major", &format!("leave out {name}, or ")];
        refused(path, &format!("run lk23 framed --iterations 4 {option}"), &parts);
    }
}

#[test]
fn options_that_contradict() {
    let folder = lk23(9, 9);
    let path = folder.path();
    let before = contents(path);
    let cases = [
        ("--executor streamed --block 3", "--executor streamed", "--block"),
        ("--executor blocked --depth 2", "--depth", "--executor blocked"),
        ("--depth 2 --runner threads", "--depth", "--runner"),
        ("--until 1 --exact-stop --order max-parallel", "--exact-stop", "--order max-parallel"),
        (
            "--depth 2 --executor streamed --order barrier",
            "--executor streamed and --depth are",
            "--order barrier is",
        ),
        ("--exact-stop", "--exact-stop", "--until"),
        ("--resume --force", "--resume", "--force"),
    ];
    for (options, one, other) in cases {
        let error = fails_with(2, path, &format!("run lk23 data --iterations 1 {options}"));
        assert!(error.contains(one) && error.contains(other), "{options}: {error}");
    }
    let output = command(path, "run jacobi data --iterations 1").output().unwrap();
    let error = said(output.stderr);
    assert!(
        error.contains("lk23, gauss-seidel, sor, nine-point, gauss-seidel-variable, alignment, and descriptions FILE.toml"),
        "{error}"
    );
    assert!(contents(path) == before);
}

#[test]
fn lanes_that_the_machine_has_not() {
    let folder = lk23(9, 9);
    let kinds = [
        ("scalar", Lanes::Scalar),
        ("avx2", Lanes::Avx2),
        ("avx512", Lanes::Avx512),
        ("neon", Lanes::Neon),
    ];
    for (name, lanes) in kinds {
        let line = format!("run lk23 data --iterations 1 --force --lanes {name}");
        match lanes.is_available() {
            true => drop(ok(folder.path(), &line)),
            false => {
                folder
                    .path()
                    .join("data/za.lk23.out.npy")
                    .exists()
                    .then(|| fs::remove_file(folder.path().join("data/za.lk23.out.npy")));
                refused(folder.path(), &line, &[&format!("no {name} instructions")]);
                refused(
                    folder.path(),
                    &format!("{line} --block 3"),
                    &[&format!("no {name} instructions")],
                );
            }
        }
    }
}

#[test]
fn an_exact_stop_is_that_of_the_barrier() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for dtype in ["float64", "float32"] {
        ok(path, &format!("gen poisson {dtype} --rows 30 --cols 30 --dtype {dtype}"));
        let line = format!(
            "run sor {dtype} --omega 1.8 --iterations 5000 --until 1e-4 --output o.npy --verify --force"
        );
        let barrier = json(path, &format!("{line} --order barrier"));
        let at = barrier["converged_at"].as_u64().unwrap();
        assert_eq!(barrier["iterations"], at);
        let residuals = |report: &Value| report["residuals"].as_array().unwrap().clone();
        assert_eq!(residuals(&barrier).last(), Some(&barrier["residual"]));
        let expected = fs::read(path.join("o.npy")).unwrap();
        for depth in [1, 7, 16, 1000] {
            let line = format!("{line} --depth {depth}");
            let exact = json(path, &format!("{line} --exact-stop"));
            assert_eq!(
                (&exact["iterations"], &exact["converged_at"]),
                (&at.into(), &at.into()),
                "{exact}"
            );
            assert_eq!(residuals(&exact), residuals(&barrier), "{dtype}, depth {depth}");
            assert!(fs::read(path.join("o.npy")).unwrap() == expected, "{dtype}, depth {depth}");
            let report = json(path, &line);
            assert_eq!(report["converged_at"], at);
            let iterations = at.next_multiple_of(depth).min(5000);
            assert_eq!(report["iterations"], iterations, "{report}");
            let all = residuals(&report);
            assert_eq!((all.len() as u64, all.last()), (iterations, Some(&report["residual"])));
            assert!(all.starts_with(&residuals(&barrier)), "{dtype}, depth {depth}");
        }
        assert_eq!(names(path).iter().filter(|name| name.contains("syncline")).count(), 0);
    }
}

#[test]
fn arrays_may_be_in_several_directories() {
    let folder = lk23(25, 20);
    let path = folder.path();
    let expected = plain::<f64>(&path.join("data"), 3);
    for (dir, name) in [("b", "zr"), ("b", "zz"), ("c", "zu")] {
        fs::create_dir_all(path.join(dir)).unwrap();
        fs::rename(path.join(format!("data/{name}.npy")), path.join(format!("{dir}/{name}.npy")))
            .unwrap();
    }
    refused(path, "run lk23 data --iterations 3", &["data has no matrix zr; it has za, zb, zv"]);
    refused(
        path,
        "run lk23 data --also b --iterations 3",
        &["no matrix zu in data, b; they have za, zb, zv, zr, zz"],
    );
    refused(path, "run lk23 data --also b --also none --iterations 3", &["none"]);
    for options in ["", "--executor blocked"] {
        let line =
            format!("run lk23 data --also b --also c --iterations 3 --verify --force {options}");
        json(path, &line);
        assert!(bits::<f64>(&path.join("data/za.lk23.out.npy")) == expected, "{options}");
        // The field's directory need not be the first.
        json(
            path,
            &format!(
                "run lk23 c --also b --also data --iterations 3 {options} --output c/o.npy --force"
            ),
        );
        assert!(bits::<f64>(&path.join("c/o.npy")) == expected, "{options}");
    }
    let line = "run lk23 data --also b --also c --iterations 3 --output";
    refused(path, &format!("{line} b/zz.npy"), &["b/zz.npy", "never overwritten"]);
    fs::copy(path.join("data/zb.npy"), path.join("c/zb.npy")).unwrap();
    refused(path, &format!("{line} o.npy"), &["zb is there twice: data/zb.npy and c/zb.npy"]);
    refused(path, "run lk23 data --also data --iterations 1", &["za is there twice"]);
    // The right-hand side may be elsewhere as well.
    ok(path, "gen poisson p --rows 12 --cols 12");
    ok(path, "run sor p --iterations 9 --output with.npy");
    fs::create_dir(path.join("q")).unwrap();
    fs::rename(path.join("p/f.npy"), path.join("q/f.npy")).unwrap();
    ok(path, "run sor p --also q --iterations 9 --output again.npy");
    ok(path, "run sor p --iterations 9 --output without.npy");
    let read = |name: &str| fs::read(path.join(name)).unwrap();
    assert!(read("with.npy") == read("again.npy") && read("with.npy") != read("without.npy"));
}

#[test]
fn the_summary_tells_where_the_time_went() {
    let folder = lk23(60, 60);
    let path = folder.path();
    let text =
        ok(path, "run lk23 data --iterations 6 --depth 2 --threads 2 --lanes scalar --memory 1G");
    for part in [
        "lk23         60 x 60 float64, streamed: 3 passes of up to 2 iterations, scalar",
        "iterations   6\n",
        "on 2 threads, ",
        "threads      update ",
        "files        read 506.2 KiB (",
        ", written 84.4 KiB (",
        " at the peak, of 1.0 GiB allowed; ",
        " planned for the window, ",
        "output       data/za.lk23.out.npy, row-major",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = json(path, "run lk23 data --iterations 6 --depth 2 --threads 2 --force");
    for name in ["update", "pack", "wait", "read", "write", "checksums"] {
        assert!(
            report["times"][name].as_f64().is_some_and(|seconds| seconds >= 0.0),
            "{name}: {report}"
        );
    }
    assert!(report["window"].as_u64().unwrap() > 0 && report["panels"].as_u64().unwrap() >= 2);
    for name in ["block", "blocks", "runner", "held"] {
        assert_eq!(report[name], Value::Null, "{name}");
    }
}

/// Wide rows: a streamed window of a few rows takes more memory than blocks do.
#[test]
#[ignore = "full: 9 s of computing"]
fn auto_takes_blocks_where_a_streamed_pass_does_not_fit() {
    let folder = lk23(40, 20_000);
    let path = folder.path();
    let line = "run lk23 data --iterations 2 --output o.npy --force";
    assert_eq!(json(path, &format!("{line} --memory 1G"))["executor"], "streamed");
    let expected = bits::<f64>(&path.join("o.npy"));
    let told = command(path, &format!("{line} --memory 12M --verify --json")).output().unwrap();
    let stderr = said(told.stderr);
    assert!(told.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&report["executor"], &report["verified"]), (&"blocked".into(), &true.into()));
    let instead = report["instead"].as_str().unwrap();
    assert!(
        instead.starts_with("in blocks: a streamed pass takes ") && instead.contains("12.0 MiB"),
        "{instead}"
    );
    assert_eq!(stderr, format!("note: {instead}\n"));
    assert!(bits::<f64>(&path.join("o.npy")) == expected);
    let told = command(path, &format!("{line} --memory 12M")).output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    // The program's own memory, which is measured, is a part of the figure.
    assert!(text.contains("\nexecutor     in blocks: a streamed pass takes "), "{text}");
    // An exact stop works in blocks, too.
    let exact = command(path, &format!("{line} --memory 12M --until 1e-9 --exact-stop --json"))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&exact.stdout).unwrap();
    assert_eq!(
        (&report["executor"], &report["order"]),
        (&"blocked".into(), &"barrier".into()),
        "{report}"
    );
    // An option of streamed sweeps excludes the fallback to blocks; without it blocks fit.
    for option in ["--executor streamed", "--depth 1", "--executor streamed --depth 1"] {
        let line = |option: &str| {
            format!("run lk23 data --iterations 2 --output new.npy {option} --memory 12M")
        };
        let without = match option.split_once(" --") {
            Some(_) => "(without --executor streamed and --depth)",
            None if option.contains("depth") => "(without --depth)",
            None => "(without --executor streamed)",
        };
        let parts =
            ["unless it goes in blocks", without, "a pass of 1 iteration", "allow at least"];
        refused(path, &line(option), &parts);
        // Where blocks do not fit either, the error does not mention them.
        let error = fails_with(1, path, &line(option).replace("12M", "1M"));
        assert!(!error.contains("in blocks"), "{error}");
        let done = command(path, &line("--force")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        fs::remove_file(path.join("new.npy")).unwrap();
    }
    // Where neither fits, the error names the least memory, which is sufficient.
    let error = fails_with(1, path, &format!("{line} --memory 1M"));
    let least = error.rsplit_once("allow at least ").unwrap().1.replace(' ', "");
    let told = command(path, &format!("{line} --memory {least} --json")).output().unwrap();
    assert!(told.status.success(), "{least}: {told:?}");
}

#[test]
fn a_thread_for_each_of_too_many_blocks_is_refused() {
    let folder = lk23(300, 300);
    let line = "run lk23 data --iterations 2 --runner threads --block 4 --output o.npy";
    let before = contents(folder.path());
    let error = fails_with(2, folder.path(), line);
    assert!(
        error.contains("5625 blocks")
            && error.contains("at most ")
            && error.contains("--runner pool"),
        "{error}"
    );
    assert!(contents(folder.path()) == before);
}

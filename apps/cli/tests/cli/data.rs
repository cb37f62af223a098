//! Tests of `gen` and `convert`.

use std::fs;
use std::path::Path;

use crate::common::{
    command, contents, fails_with, has_marks, lk23, matrix, names, npy, npy_of, ok, refused, said,
    write_npy,
};
use syncline_store::{DataDir, ElementType, Shape};

#[test]
fn data_depend_on_nothing_but_seed_shape_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (dir, seed) in [("a", 5), ("b", 5), ("c", 6)] {
        let text = ok(path, &format!("gen lk23 {dir} --rows 30 --cols 70 --seed {seed}"));
        assert!(text.starts_with("wrote 6 matrices of 30 x 70"), "{text}");
    }
    assert_eq!(
        names(&path.join("a")),
        ["za.npy", "zb.npy", "zr.npy", "zu.npy", "zv.npy", "zz.npy"]
    );
    for name in names(&path.join("a")) {
        let [a, b, c] = ["a", "b", "c"].map(|dir| fs::read(path.join(dir).join(&name)).unwrap());
        assert!(a == b && a != c, "{name}");
        let values = npy(&path.join("a").join(&name));
        let bound = if name == "za.npy" { 1.0 } else { 0.25 };
        assert!(values.iter().all(|value| (0.0..bound).contains(value)), "{name}");
        assert!(values.iter().any(|&value| value > 0.9 * bound), "{name}");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean / bound - 0.5).abs() < 0.05, "{name}: {mean}");
    }
    assert_ne!(npy(&path.join("a/zr.npy")), npy(&path.join("a/zb.npy")));
}

#[test]
fn singles_are_the_doubles_rounded_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for problem in ["lk23", "poisson"] {
        for dtype in ["float64", "float32"] {
            ok(
                path,
                &format!("gen {problem} {dtype} --rows 37 --cols 53 --seed 3 --dtype {dtype}"),
            );
        }
    }
    let all = names(&path.join("float32"));
    assert_eq!(all.len(), 8);
    for name in all {
        let double = npy(&path.join("float64").join(&name));
        let single: Vec<f32> = npy_of(&path.join("float32").join(&name));
        for (&double, &single) in double.iter().zip(&single) {
            assert!((0.0..1.0).contains(&single), "{name}: {single:e}");
            assert!(
                f64::from(single) <= double && double < f64::from(single.next_up()),
                "{name}: {double:e}"
            );
        }
    }
    let error = fails_with_usage(path, "gen lk23 data --rows 3 --cols 3 --dtype int32");
    assert!(error.contains("float64, float32"), "{error}");
}

/// Returns the error of a command line that is wrong by itself.
fn fails_with_usage(folder: &Path, line: &str) -> String {
    let output = command(folder, line).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}");
    said(output.stderr)
}

#[test]
fn rows_longer_than_a_buffer_are_filled_to_the_end() {
    let folder = lk23(3, 150_001);
    let mut values = npy(&folder.path().join("data/za.npy"));
    assert!(values.iter().all(|&value| value != 0.0));
    values.sort_by(f64::total_cmp);
    values.dedup();
    assert_eq!(values.len(), 3 * 150_001);
}

#[test]
fn poisson_has_an_edge_and_a_load() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "gen poisson p --rows 9 --cols 12");
    let (u, f) = (matrix(&folder.path().join("p"), "u"), matrix(&folder.path().join("p"), "f"));
    for (i, &value) in u.iter().enumerate() {
        let (row, col) = (i / 12, i % 12);
        let edge = row % 8 == 0 || col % 11 == 0;
        assert!(
            if edge { value > 0.0 && value < 1.0 } else { value == 0.0 },
            "{row}, {col}: {value}"
        );
    }
    assert!(f.iter().all(|&value| value > 0.0 && value < 8.0 / 121.0));
}

#[test]
fn gen_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/zv.npy"), b"mine").unwrap();
    refused(folder.path(), "gen lk23 data --rows 4 --cols 4", &["data/zv.npy", "exists"]);
    // Files of other names do not matter.
    ok(folder.path(), "gen poisson data --rows 4 --cols 4");
    fs::write(folder.path().join("layout.json"), b"{}").unwrap();
    refused(folder.path(), "gen poisson . --rows 4 --cols 4", &["layout.json"]);
}

#[test]
fn gen_checks_all_room_first_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let line = "gen lk23 deep/data --rows 4000000 --cols 4000000";
    refused(
        folder.path(),
        &line.replace("deep/", ""),
        &["data/za.npy", "128000000000128 bytes", "are free"],
    );
    let error = fails_with(1, folder.path(), line);
    assert!(error.contains("bytes") && !folder.path().join("deep/data").exists(), "{error}");
    refused(folder.path(), "gen poisson p --rows 0 --cols 5", &["0 x 5"]);
    refused(
        folder.path(),
        "gen lk23 p --rows 9999999999 --cols 9999999999",
        &["9999999999", "too large"],
    );
    fs::write(folder.path().join("file"), b"").unwrap();
    refused(folder.path(), "gen lk23 file/data --rows 3 --cols 3", &["file/data"]);
}

#[test]
fn there_and_back_gives_the_same_bytes() {
    let shapes = [(37, 53, "10x7"), (3, 3, "2"), (1, 19, "4"), (19, 1, "4"), (8, 8, "99")];
    for (rows, cols, block) in shapes {
        comes_back(rows, cols, block);
    }
}

fn comes_back(rows: usize, cols: usize, block: &str) {
    let folder = lk23(rows, cols);
    let path = folder.path();
    let data = contents(&path.join("data"));
    for (layout, more) in [("blocked", ""), ("framed", "--thickness 3 --memory 16M")] {
        let text = ok(path, &format!("convert data raw --layout {layout} --block {block} {more}"));
        assert!(text.contains(layout), "{text}");
        assert_eq!(names(&path.join("raw")), ["layout.json", "za", "zb", "zr", "zu", "zv", "zz"]);
        // From one directory layout to another, too.
        ok(path, "convert raw blocks --layout blocked --block 5");
        ok(path, "convert blocks back --layout row-major");
        for (file, bytes) in &data {
            let back = path.join("back").join(file.file_name().unwrap());
            assert!(
                &fs::read(back).unwrap() == bytes,
                "{rows} x {cols}, {layout}, {}",
                file.display()
            );
        }
        for dir in ["raw", "blocks", "back"] {
            fs::remove_dir_all(path.join(dir)).unwrap();
        }
    }
}

/// A directory of both types keeps them through every layout, and a sweep accepts only one of them.
#[test]
fn every_matrix_keeps_its_type() {
    let folder = lk23(37, 53);
    let path = folder.path();
    ok(path, "gen lk23 single --rows 37 --cols 53 --dtype float32");
    for name in ["za", "zv"] {
        fs::copy(path.join(format!("single/{name}.npy")), path.join(format!("data/{name}.npy")))
            .unwrap();
    }
    let data = contents(&path.join("data"));
    ok(path, "convert data framed --layout framed --block 10x7 --thickness 2");
    ok(path, "convert framed blocked --layout blocked --block 8");
    ok(path, "convert blocked back --layout row-major");
    for dir in ["data", "framed", "blocked", "back"] {
        let dir = DataDir::open(&path.join(dir)).unwrap();
        for name in ["za", "zr", "zb", "zu", "zv", "zz"] {
            let single = name == "za" || name == "zv";
            let wanted = if single { ElementType::Float32 } else { ElementType::Float64 };
            assert_eq!(dir.element(name).unwrap(), wanted, "{name}");
        }
    }
    for (file, bytes) in &data {
        let back = path.join("back").join(file.file_name().unwrap());
        assert!(&fs::read(back).unwrap() == bytes, "{}", file.display());
    }
    let mixed = "must have one type of elements, but";
    let both = |dir: &str, end: &str| {
        let files = |names: &[&str]| {
            let files: Vec<_> = names.iter().map(|name| format!("{dir}/{name}{end}")).collect();
            files.join(", ")
        };
        let double = format!("{mixed} {} are float64 (<f8)", files(&["zr", "zb", "zu", "zz"]));
        [double, format!("and {} are float32 (<f4)", files(&["za", "zv"]))]
    };
    let [double, single] = both("data", ".npy");
    refused(path, "run lk23 data --iterations 1", &[&double, &single]);
    let [double, single] = both("framed", "");
    refused(path, "run lk23 framed --iterations 1", &[&double, &single]);
    // Only the type of a coefficient.
    fs::write(path.join("data/za.npy"), fs::read(path.join("data/zr.npy")).unwrap()).unwrap();
    refused(path, "run lk23 data --iterations 1", &[mixed, "data/zv.npy is float32 (<f4)"]);
}

#[test]
fn only_fields_are_framed() {
    let folder = lk23(20, 20);
    ok(folder.path(), "run lk23 data --iterations 1");
    ok(
        folder.path(),
        "convert data raw --layout framed --block 8 --thickness 2 --only za,za.lk23.out,zr,zz",
    );
    assert_eq!(names(&folder.path().join("raw")), ["layout.json", "za", "za.lk23.out", "zr", "zz"]);
    let text = fs::read_to_string(folder.path().join("raw/layout.json")).unwrap();
    let layout: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (name, framed) in [("za", true), ("za.lk23.out", true), ("zr", false), ("zz", false)] {
        let array = &layout["arrays"][name];
        assert_eq!(array["layout"], if framed { "framed" } else { "blocked" }, "{name}");
        assert_eq!(array["block"], serde_json::json!([8, 8]));
    }
    assert_eq!(layout["arrays"]["za"]["thickness"], 2);
}

/// One stray file does not prevent the conversion of the others, and results are copied only on
/// request; the output names each of them.
#[test]
fn what_convert_does_not_take_is_named_and_left() {
    let folder = lk23(12, 9);
    let path = folder.path();
    let before = contents(&path.join("data"));
    ok(path, "run lk23 data --iterations 1");
    ok(path, "run lk23 data --iterations 2 --output data/other.npy");
    fs::write(path.join("data/notes.npy"), "no numbers at all").unwrap();
    fs::create_dir(path.join("data/folder.npy")).unwrap();
    write_npy(&path.join("data/mask.npy"), Shape::new(100, 100), &[0.0; 10_000]);
    let mut expected = vec![
        ("data/za.lk23.out.npy", "is a result; --only takes it"),
        ("data/notes.npy", "cannot be taken: "),
        ("data/folder.npy", "cannot be taken: "),
        ("data/mask.npy", "is 100 x 100, not 12 x 9 as the others"),
    ];
    if has_marks(&path.join("data")) {
        expected.push(("data/other.npy", "is a result; --only takes it"));
    } else {
        fs::remove_file(path.join("data/other.npy")).unwrap();
    }
    let output = command(path, "convert data raw --layout blocked --block 4").output().unwrap();
    let stderr = said(output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr.lines().count(), expected.len(), "{stderr}");
    for (file, why) in &expected {
        assert!(stderr.contains(&format!("left: {file} {why}")), "{file}: {stderr}");
    }
    assert_eq!(names(&path.join("raw")), ["layout.json", "za", "zb", "zr", "zu", "zv", "zz"]);
    ok(path, "convert raw back --layout row-major");
    for (file, bytes) in &before {
        assert!(&fs::read(path.join("back").join(file.file_name().unwrap())).unwrap() == bytes);
    }
    // Named matrices must be valid, and of one shape; a result may be named.
    refused(
        path,
        "convert data out --layout blocked --only za,notes",
        &["notes.npy", "not a .npy file"],
    );
    refused(
        path,
        "convert data out --layout blocked --only za,mask",
        &["12 x 9", "mask.npy", "100 x 100"],
    );
    refused(path, "convert data out --layout blocked --only za,none", &["data has no matrix none"]);
    ok(path, "convert data out --layout blocked --only mask");
    ok(path, "convert data some --layout blocked --only za,za.lk23.out,za");
    assert_eq!(names(&path.join("some")), ["layout.json", "za", "za.lk23.out"]);
    // No matrix is left to convert.
    fs::create_dir(path.join("only")).unwrap();
    fs::copy(path.join("data/za.lk23.out.npy"), path.join("only/za.lk23.out.npy")).unwrap();
    let error = fails_with(2, path, "convert only nothing --layout blocked");
    assert!(error.contains("only results of runs"), "{error}");
    fs::write(path.join("only/x.npy"), "no numbers").unwrap();
    refused(path, "convert only nothing --layout blocked", &["only/x.npy", "not a .npy file"]);
}

#[test]
fn convert_refuses_what_it_cannot_do() {
    let folder = lk23(6, 6);
    let path = folder.path();
    refused(path, "convert data data/../data --layout blocked", &["data/../data", "is also read"]);
    refused(path, "convert nowhere out --layout blocked", &["nowhere"]);
    refused(
        path,
        "convert data out --layout blocked --memory 1M",
        &["1.0 MiB", "1048576", "allow at least"],
    );
    ok(path, "convert data out --layout blocked --block 3");
    refused(path, "convert data out --layout framed", &["out/za", "exists"]);
    refused(path, "convert data out --layout row-major", &["out/layout.json", "exists"]);
    // A matrix is raw or a `.npy` file: if both exist and differ, none is silently chosen.
    fs::create_dir(path.join("both")).unwrap();
    write_npy(&path.join("both/za.npy"), Shape::new(6, 6), &[7.0; 36]);
    let line = "convert data both --layout blocked --block 3";
    refused(path, line, &["the output both has za.npy", "another za: take another directory"]);
    fs::rename(path.join("both/za.npy"), path.join("out/za.npy")).unwrap();
    for line in
        ["run lk23 out --iterations 1 --output o.npy", "convert out back --layout row-major"]
    {
        refused(path, line, &["out: the matrix za is there twice", "layout.json", "za.npy"]);
    }
    fs::remove_file(path.join("out/za.npy")).unwrap();
    write_npy(&path.join("data/x.npy"), Shape::new(2, 3), &[0.0; 6]);
    refused(path, "convert data other --layout blocked --only za,x", &["6 x 6", "x.npy", "2 x 3"]);
    for (line, part) in [
        ("--layout row-major --block 3", "--block"),
        ("--layout blocked --thickness 1", "--thickness"),
        ("--layout framed --thickness 0", "--thickness"),
    ] {
        let error = fails_with(2, path, &format!("convert data other {line}"));
        assert!(error.contains(part), "{error}");
    }
}

//! Kernels over arrays: the examples, in memory and from files to files, and what is refused.

use std::fs;
use std::path::Path;

use syncline_store::array::Array;

use crate::common::{fails_with, json, ok, refused};

/// The examples, with the problems of their data and their fields.
const EXAMPLES: [(&str, &str, &[&str]); 6] = [
    ("explicit-heat", "heat", &["t"]),
    ("wave", "wave", &["u", "before"]),
    ("life", "life", &["cell"]),
    ("eikonal", "eikonal", &["t"]),
    ("affine", "affine", &["best", "down", "right"]),
    ("ssor", "poisson", &["u"]),
];

fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn the_examples_have_the_bits_of_the_plain_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (example, problem, fields) in EXAMPLES {
        let kernel = examples().join(format!("{example}.toml"));
        let kernel = kernel.display();
        ok(path, &format!("gen {problem} {example} --rows 70 --cols 83"));
        let mut results = Vec::new();
        for how in ["", "--depth 2 --threads 3", "--memory 40M --depth 3", "--lanes scalar"] {
            let line = format!("run {kernel} {example} --iterations 7 --verify --force {how}");
            let report = json(path, &line);
            assert_eq!(report["verified"], true, "{line}");
            assert_eq!((&report["rows"], &report["cols"]), (&70.into(), &83.into()));
            let read = |field: &&str| {
                fs::read(path.join(format!("{example}/{field}.{example}.out.npy"))).unwrap()
            };
            results.push(fields.iter().map(read).collect::<Vec<_>>());
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{example}");
        let changed = Array::open(&path.join(format!("{example}/{}.npy", fields[0]))).unwrap();
        let result = path.join(format!("{example}/{}.{example}.out.npy", fields[0]));
        assert!(changed != Array::open(&result).unwrap(), "{example}");
    }
}

#[test]
fn three_dimensions_and_foreign_orders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let seven = "name = 'seven'\nfield = 'u'\ndimensions = 3\n\
                 update = 'u = (up + down + n + s + e + w) / 6'\n";
    fs::write(path.join("seven.toml"), seven).unwrap();
    fs::create_dir(path.join("data")).unwrap();
    let values: Vec<f32> = (0..5 * 7 * 9).map(|i| (i * i % 31) as f32).collect();
    let array = Array::from_vec(&[5, 7, 9], values).unwrap();
    array.create(&path.join("data/u.npy")).unwrap().commit().unwrap();
    let report = json(path, "run seven.toml data --iterations 3 --verify");
    assert_eq!((&report["planes"], &report["dtype"]), (&5.into(), &"float32".into()));
    // The same values in the other order and byte order.
    let mut bytes = fs::read(path.join("data/u.npy")).unwrap();
    let text = String::from_utf8_lossy(&bytes[..128]).replace("False", "True ").replace('<', ">");
    let header: Vec<u8> =
        bytes[..8].iter().copied().chain(text.bytes().skip(text.len() - 120)).collect();
    let given = array.values::<f32>().unwrap();
    let swapped = (0..9).flat_map(|k| {
        (0..7).flat_map(move |j| (0..5).flat_map(move |i| given[(i * 7 + j) * 9 + k].to_be_bytes()))
    });
    bytes = header.into_iter().chain(swapped).collect();
    fs::create_dir(path.join("foreign")).unwrap();
    fs::write(path.join("foreign/u.npy"), bytes).unwrap();
    ok(path, "run seven.toml foreign --iterations 3 --verify --output o.npy");
    let result = |file: &str| Array::open(&path.join(file)).unwrap();
    assert!(result("o.npy") == result("data/u.seven.out.npy"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let copy = |example: &str| {
        let name = format!("{example}.toml");
        fs::copy(examples().join(&name), path.join(&name)).unwrap();
    };
    ["life", "wave", "explicit-heat"].into_iter().for_each(copy);
    ok(path, "gen life cells --rows 9 --cols 9");
    ok(path, "gen wave waves --rows 9 --cols 9");
    fs::create_dir(path.join("odd")).unwrap();
    let odd = Array::from_vec(&[9, 9], vec![0_i16; 81]).unwrap();
    odd.create(&path.join("odd/cell.npy")).unwrap().commit().unwrap();
    odd.create(&path.join("odd/t.npy")).unwrap().commit().unwrap();
    let solid = Array::from_vec(&[3, 3, 9], vec![0_u8; 81]).unwrap();
    fs::create_dir(path.join("solid")).unwrap();
    solid.create(&path.join("solid/cell.npy")).unwrap().commit().unwrap();
    for (line, parts) in [
        ("run life.toml odd -k 1", &["the array cell is int16, but the kernel needs uint8"][..]),
        (
            "run life.toml solid -k 1",
            &["cell has 3 dimensions, but the kernel has 2", "dimensions = 3"],
        ),
        ("run explicit-heat.toml odd -k 1", &["t is int16", "float64 or float32", "no [types]"]),
        ("run life.toml waves -k 1", &["no matrix cell"]),
        ("run wave.toml waves -k 1 --output none", &["none is no folder"]),
        ("run life.toml cells -k 1 --memory 1M", &["--memory"]),
        ("run life.toml cells -k 1 --until nan", &["tolerance"]),
        ("run life.toml cells -k 1 --output cells/cell.npy", &["is the input"]),
    ] {
        refused(path, line, parts);
    }
    for (line, part) in [
        ("run life.toml cells -k 1 --resume", "--resume cannot be given"),
        ("run life.toml cells -k 1 --block 8", "--block cannot be given"),
        ("run life.toml cells -k 1 --verify=sample", "--verify=sample cannot be given"),
        ("run wave.toml waves -k 1 --field waves/u.npy", "--field cannot be given"),
    ] {
        let error = fails_with(2, path, line);
        assert!(error.contains(part), "{line}: {error}");
    }
    ok(path, "run life.toml cells -k 1");
    refused(path, "run life.toml cells -k 2", &["exists: --force replaces it"]);
    ok(path, "run life.toml cells -k 2 --force");
    ok(path, "run life.toml cells -k 0 --output same.npy");
    assert!(
        Array::open(&path.join("same.npy")).unwrap()
            == Array::open(&path.join("cells/cell.npy")).unwrap()
    );
}

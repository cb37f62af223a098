//! Checks that every named kernel, with both executors and on either type, gives the bits of the
//! plain loop.

use std::fs;
use std::path::Path;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use syncline_store::{Element, Shape};

use crate::common::{fails_with, json, npy, ok, refused, write_npy};

/// Writes the matrices of all kernels, with values from -1 to 1, and a mask of zeros and ones.
fn fill<T: Element>(dir: &Path, shape: Shape) {
    fs::create_dir(dir).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(shape.rows as u64);
    for name in [
        "za", "zr", "zb", "zu", "zv", "zz", "u", "f", "an", "aw", "ae", "as", "mask", "score",
        "match",
    ] {
        let mut value = || {
            let bits = random.next_u64() >> 11;
            match name {
                "mask" => T::from_f64((bits % 3 / 2) as f64),
                _ => T::from_f64(bits as f64 * f64::powi(2.0, -52) - 1.0),
            }
        };
        let values: Vec<T> = (0..shape.elements()).map(|_| value()).collect();
        write_npy(&dir.join(format!("{name}.npy")), shape, &values);
    }
}

const KERNELS: [&str; 8] = [
    "lk23",
    "gauss-seidel",
    "sor --omega 1.9",
    "nine-point",
    "nine-point --omega 0.8",
    "gauss-seidel-variable",
    "alignment --gap 0.25",
    "alignment --local",
];

fn all_kernels(path: &Path) {
    for kernel in KERNELS {
        let (name, options) = kernel.split_once(' ').unwrap_or((kernel, ""));
        let mut results = Vec::new();
        for how in
            ["--depth 3", "--memory 1G", "--executor blocked", "--block 16x90", "--order barrier"]
        {
            let line = format!(
                "run {name} data {options} {how} --iterations 5 --threads 3 --output o.npy --verify --force"
            );
            let report = json(path, &line);
            assert_eq!(
                (&report["verified"], &report["kernel"]),
                (&true.into(), &name.into()),
                "{line}"
            );
            results.push(fs::read(path.join("o.npy")).unwrap());
        }
        results.dedup();
        assert_eq!(results.len(), 1, "{kernel}");
        assert!(
            results[0] != fs::read(path.join("data/u.npy")).unwrap(),
            "{kernel} changed nothing"
        );
    }
    // The kernels without the right-hand side.
    fs::remove_file(path.join("data/f.npy")).unwrap();
    for kernel in ["gauss-seidel", "sor", "nine-point"] {
        let report = json(
            path,
            &format!("run {kernel} data --iterations 5 --output o.npy --verify --force"),
        );
        assert_eq!(report["verified"], true, "{kernel}");
    }
    refused(path, "run gauss-seidel-variable data --iterations 1", &["data has no matrix f"]);
    refused(path, "run alignment data --iterations 1 --gap nan", &["gap"]);
}

#[test]
fn every_kernel_has_the_bits_of_the_plain_loop() {
    for shape in [Shape::new(40, 33), Shape::new(7, 90)] {
        let folder = tempfile::tempdir().unwrap();
        fill::<f64>(&folder.path().join("data"), shape);
        all_kernels(folder.path());
        fs::remove_dir_all(folder.path().join("data")).unwrap();
        fill::<f32>(&folder.path().join("data"), shape);
        all_kernels(folder.path());
    }
}

/// A standard example: GCATGCG and GATTACA score 0, with 1 for a match, -1 for a mismatch and a gap
/// penalty of 1.
#[test]
fn an_alignment_scores_as_in_the_literature() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("data")).unwrap();
    let (a, b) = (b"GCATGCG", b"GATTACA");
    let (shape, cols) = (Shape::new(8, 8), 8);
    let (mut score, mut pairs) = (vec![0.0_f64; 64], vec![0.0; 64]);
    for j in 0..8 {
        (score[j], score[j * cols]) = (-(j as f64), -(j as f64));
    }
    for (j, x) in a.iter().enumerate() {
        for (k, y) in b.iter().enumerate() {
            pairs[(j + 1) * cols + k + 1] = if x == y { 1.0 } else { -1.0 };
        }
    }
    write_npy(&path.join("data/score.npy"), shape, &score);
    write_npy(&path.join("data/match.npy"), shape, &pairs);
    ok(path, "run alignment data --iterations 1 --gap 1 --verify");
    assert_eq!(npy(&path.join("data/score.alignment.out.npy"))[7 * cols + 7], 0.0);
}

/// AAA and AAA score 6 with 2 for each pair, in the last point, with the built-in kernel and with
/// the example.
#[test]
fn the_last_point_of_an_alignment_is_its_score() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("data")).unwrap();
    let shape = Shape::new(4, 4);
    write_npy(&path.join("data/score.npy"), shape, &[0.0_f64; 16]);
    write_npy(&path.join("data/match.npy"), shape, &[2.0_f64; 16]);
    fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/alignment.toml"),
        path.join("alignment.toml"),
    )
    .unwrap();
    for kernel in ["alignment data --local --gap 2", "alignment.toml data"] {
        for how in ["", "--executor blocked", "--block 2x3"] {
            let report = json(
                path,
                &format!("run {kernel} {how} --iterations 1 --output o.npy --force --verify"),
            );
            assert_eq!(report["verified"], true, "{kernel} {how}");
            let found = npy(&path.join("o.npy"));
            assert_eq!(found[15], 6.0, "{kernel} {how}: {found:?}");
        }
    }
}

#[test]
fn corners_have_no_red_black_order() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "gen poisson data --rows 9 --cols 9");
    refused(
        folder.path(),
        "run nine-point data --iterations 1 --order max-parallel",
        &["max-parallel", "four nearest neighbours"],
    );
}

const HEAT: &str = r#"
name = "heat"
field = "u"
coefficients = ["f", "mask"]
update = """
balance = (n + s + e + w + f) / 4
u = if(mask == 0, u + omega*(balance - u), u)
"""
[constants]
omega = 1.5
"#;

const LK23: &str = r#"
name = "my own"
field = "za"
coefficients = ["zr", "zb", "zu", "zv", "zz"]
update = """
qa = s*zr + n*zb + e*zu + w*zv + zz
za = za + 0.175*(qa - za)
"""
"#;

fn described<T: Element>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fill::<T>(&path.join("data"), Shape::new(40, 37));
    fs::write(path.join("heat.toml"), HEAT).unwrap();
    fs::write(path.join("own.toml"), LK23).unwrap();
    for (kernel, name) in [("heat", "heat"), ("own", "my own")] {
        let mut results = Vec::new();
        for how in ["", "--depth 2", "--executor blocked", "--lanes scalar"] {
            let line = format!(
                "run {kernel}.toml data {how} --iterations 5 --output o.npy --verify --force"
            );
            let report = json(path, &line);
            assert_eq!(
                (&report["verified"], &report["kernel"]),
                (&true.into(), &name.into()),
                "{line}"
            );
            results.push(fs::read(path.join("o.npy")).unwrap());
        }
        results.dedup();
        assert_eq!(results.len(), 1, "{kernel}");
    }
    // The sweep does not wait for neighbours that the kernel does not use: the order can be
    // red-black.
    let report = json(
        path,
        "run heat.toml data --iterations 5 --block 8 --order max-parallel --output r.npy --verify",
    );
    assert_eq!(report["verified"], true);
    // The same expression as the built-in kernel gives the same bits.
    ok(path, "run lk23 data --iterations 5 --output known.npy");
    assert!(fs::read(path.join("known.npy")).unwrap() == fs::read(path.join("o.npy")).unwrap());
}

#[test]
fn described_kernels_need_no_compiler() {
    described::<f64>();
    described::<f32>();
}

#[test]
fn a_description_that_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fill::<f64>(&path.join("data"), Shape::new(9, 9));
    refused(path, "run none.toml data --iterations 1", &["cannot open none.toml"]);
    fs::write(path.join("k.toml"), HEAT.replace("+ e + w", "+ ee + w")).unwrap();
    let line = "balance = (n + s + ee + w + f) / 4";
    refused(path, "run k.toml data --iterations 1", &["k.toml, line 6, column", "no `ee`", line]);
    fs::write(path.join("k.toml"), "name = ").unwrap();
    refused(path, "run k.toml data --iterations 1", &["k.toml, line 1, column"]);
    fs::write(path.join("k.toml"), HEAT.replace("\"f\"", "\"q\"").replace("+ f", "+ q")).unwrap();
    refused(path, "run k.toml data --iterations 1", &["data has no matrix q"]);
    fs::write(path.join("k.toml"), HEAT).unwrap();
    let error = fails_with(2, path, "run k.toml data --iterations 1 --omega 1.2");
    let only = "--omega is for the kernels sor and nine-point only";
    assert_eq!(error, format!("{only}; a description has its parameters in [constants]"));
}

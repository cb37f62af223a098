//! Checks that every wrong input is reported in one line, and changes nothing.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_store::Shape;

use crate::common::{
    as_ordinary_user, command, contents, fails, fails_with, lk23, names, ok, refused, said,
    write_npy,
};

const RUN: &str = "run lk23 data --iterations 1";

/// Writes a `.npy` file with any header.
fn odd_npy(path: &Path, descr: &str, fortran: bool, shape: &str, data: usize) {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((len as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = len - 1).bytes());
    bytes.resize(bytes.len() + data, 0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn files_that_are_missing_or_of_another_kind() {
    let folder = lk23(6, 6);
    let path = folder.path();
    refused(path, "run lk23 nowhere --iterations 1", &["nowhere"]);
    refused(path, "run gauss-seidel data --iterations 1", &["data has no matrix u; it has za, zb"]);
    fs::create_dir(path.join("empty")).unwrap();
    refused(path, "run lk23 empty --iterations 1", &["empty", "no .npy file and no layout.json"]);
    refused(path, "run lk23 data/za.npy --iterations 1", &["data/za.npy"]);
    fs::rename(path.join("data/zu.npy"), path.join("zu.npy")).unwrap();
    refused(path, RUN, &["data has no matrix zu"]);
    fs::create_dir(path.join("data/zu.npy")).unwrap();
    refused(path, RUN, &["data/zu.npy", "not a regular file"]);
    fs::remove_dir(path.join("data/zu.npy")).unwrap();
    let fifo = Command::new("mkfifo").arg(path.join("data/zu.npy")).status().unwrap();
    assert!(fifo.success());
    refused(path, RUN, &["data/zu.npy", "not a regular file"]);
    fs::remove_file(path.join("data/zu.npy")).unwrap();
    symlink("../zu.npy", path.join("data/zu.npy")).unwrap();
    ok(path, RUN);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = lk23(6, 6);
    let zr = folder.path().join("data/zr.npy");
    fs::set_permissions(&zr, fs::Permissions::from_mode(0o000)).unwrap();
    if let Some(command) = as_ordinary_user(folder.path(), RUN) {
        let error = fails(1, command, RUN);
        assert!(error.contains("zr.npy") && error.contains("Permission denied"), "{error}");
    }
}

#[test]
fn npy_files_of_other_types_orders_and_shapes() {
    let folder = lk23(6, 6);
    let path = folder.path();
    let zb = path.join("data/zb.npy");
    type Case = (&'static str, bool, &'static str, usize, &'static [&'static str]);
    let cases: [Case; 9] = [
        ("<f4", false, "(6, 6)", 144, &["zb.npy", "<f4", "<f8"]),
        ("<i8", false, "(6, 6)", 288, &["zb.npy", "<i8"]),
        (">f8", false, "(6, 6)", 288, &["zb.npy", ">f8"]),
        ("<f8", true, "(6, 6)", 288, &["zb.npy", "Fortran"]),
        ("<f8", false, "(36,)", 288, &["zb.npy", "[36]"]),
        ("<f8", false, "(6, 3, 2)", 288, &["zb.npy", "[6, 3, 2]"]),
        ("<f8", false, "(4, 9)", 288, &["zb.npy", "4 x 9", "6 x 6"]),
        ("<f8", false, "(6, 6)", 280, &["zb.npy", "280", "288"]),
        ("<f8", false, "(0, 6)", 0, &["0 x 6"]),
    ];
    for (descr, fortran, shape, data, parts) in cases {
        odd_npy(&zb, descr, fortran, shape, data);
        let parts: Vec<&str> =
            parts.iter().copied().filter(|part| !["280", "288"].contains(part)).collect();
        refused(path, RUN, &parts);
    }
    // 128 bytes of header: the error gives the actual and the expected size.
    odd_npy(&zb, "<f8", false, "(6, 6)", 280);
    let len = fs::metadata(&zb).unwrap().len();
    refused(path, RUN, &[&format!("{len} bytes"), &format!("{}", len + 8)]);
    fs::write(&zb, b"no numbers at all").unwrap();
    refused(path, RUN, &["zb.npy", "not a .npy file"]);
    fs::write(&zb, b"").unwrap();
    refused(path, RUN, &["zb.npy"]);
}

#[test]
fn raw_directories_that_are_damaged() {
    let folder = lk23(8, 8);
    let path = folder.path();
    ok(path, "convert data raw --layout framed --block 4");
    let run = "run lk23 raw --iterations 1";
    refused(path, &format!("{run} --block 3"), &["raw/za", "8 x 8", "4 x 4", "blocks of 3 x 3"]);
    File::options().write(true).open(path.join("raw/zv")).unwrap().set_len(500).unwrap();
    refused(path, run, &["raw/zv", "500 bytes", "512"]);
    fs::remove_file(path.join("raw/zv")).unwrap();
    refused(path, run, &["raw/zv"]);
    fs::write(path.join("raw/layout.json"), b"{").unwrap();
    refused(path, run, &["raw/layout.json"]);
}

#[test]
fn options_without_sense() {
    let folder = lk23(6, 6);
    let path = folder.path();
    ok(path, "gen poisson data --rows 6 --cols 6");
    for omega in ["0", "2", "-1", "nan", "inf"] {
        refused(
            path,
            &format!("run sor data --iterations 1 --omega {omega}"),
            &["omega", "between 0 and 2"],
        );
    }
    for tolerance in ["nan", "-1"] {
        refused(path, &format!("{RUN} --until {tolerance}"), &["tolerance", "at least 0"]);
    }
    let error = fails_with(2, path, &format!("{RUN} --omega 1.2"));
    assert_eq!(error, "--omega is for the kernels sor and nine-point only");
    for option in ["--gap 2", "--local"] {
        let error = fails_with(2, path, &format!("{RUN} {option}"));
        assert!(error.ends_with("is for the kernel alignment only"), "{error}");
    }
    let before = contents(path);
    let usage = [
        "run jacobi data --iterations 1",
        "run lk23 data",
        "run lk23 --iterations 1",
        "run lk23 data --iterations -1",
        "run lk23 data --iterations 1.5",
        "run lk23 data --iterations 1 --memory lots",
        "run lk23 data --iterations 1 --block 0",
        "run lk23 data --iterations 1 --threads 0",
        "run lk23 data --iterations 1 --order random",
        "run lk23 data --iterations 1 --executor slow",
        "run lk23 data --iterations 1 --depth 0",
        "run lk23 data --iterations 1 --lanes many",
        "convert data out",
        "gen lk23 data",
        "unknown",
        "",
    ];
    for line in usage {
        let output = command(path, line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{line}");
    }
    assert!(contents(path) == before);
}

#[test]
fn outputs_that_are_refused() {
    let folder = lk23(6, 6);
    let path = folder.path();
    symlink("data/zz.npy", path.join("link.npy")).unwrap();
    fs::hard_link(path.join("data/za.npy"), path.join("hard.npy")).unwrap();
    symlink("nothing.npy", path.join("dangling.npy")).unwrap();
    fs::create_dir(path.join("folder.npy")).unwrap();
    let absolute = path.join("data/zr.npy").display().to_string();
    let cases: [(&str, &[&str]); 10] = [
        ("data/za.npy", &["data/za.npy", "never overwritten"]),
        ("./data/../data/zb.npy", &["data/zb.npy", "never overwritten"]),
        (&absolute, &["zr.npy", "never overwritten"]),
        ("link.npy", &["link.npy", "data/zz.npy", "never overwritten"]),
        ("hard.npy", &["hard.npy", "data/za.npy", "never overwritten"]),
        ("dangling.npy", &["dangling.npy", "link to nothing"]),
        ("folder.npy", &["folder.npy", "is a directory"]),
        ("none/result.npy", &["none/result.npy", "no folder none"]),
        ("result", &["result", "must end in .npy"]),
        ("data/za.npy/x.npy", &["data/za.npy/x.npy"]),
    ];
    for (output, parts) in cases {
        refused(path, &format!("{RUN} --output {output}"), parts);
    }
    ok(path, "convert data raw --layout blocked --block 3");
    ok(path, "convert data other --layout blocked --block 2");
    std::fs::remove_file(path.join("link.npy")).unwrap();
    std::os::unix::fs::symlink(path.join("other/layout.json"), path.join("link.npy")).unwrap();
    for (output, parts) in [
        ("raw/za", ["raw/za", "never overwritten"]),
        ("raw/layout.json", ["raw/layout.json", "never overwritten"]),
        ("data/layout.json", ["data/layout.json", "the name of the description of raw matrices"]),
        ("other/layout.json --force", ["other/layout.json", "the name of the description"]),
        ("link.npy --force", ["link.npy", "the name of the description"]),
        ("raw/za.npy", ["raw/za.npy", "would be another za: the layout.json in raw lists one"]),
        ("./raw/../raw/zb.npy", ["zb.npy", "would be another zb"]),
        ("/dev/null", ["/dev/null", "no regular file"]),
    ] {
        refused(path, &format!("run lk23 raw --iterations 1 --output {output}"), &parts);
    }
    let text = "name = 'x'\nfield = 'za'\nupdate = 'za = n'";
    fs::write(path.join("k.toml"), text).unwrap();
    refused(
        path,
        "run k.toml raw --iterations 1 --output k.toml",
        &["k.toml", "never overwritten"],
    );
}

#[test]
fn shapes_that_differ() {
    let folder = lk23(6, 6);
    write_npy(&folder.path().join("data/zz.npy"), Shape::new(6, 7), &[0.0; 42]);
    refused(folder.path(), RUN, &["data/zz.npy is 6 x 7", "data/za.npy is 6 x 6"]);
}

/// A file system in memory, of a given size in bytes.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(folder: &Path, bytes: u64) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn full_disks() {
    let folder = lk23(200, 200);
    let path = folder.path();
    let Some(small) = Tmpfs::mount(&path.join("small"), 256 << 10) else {
        println!("skipped: only root may mount a small file system");
        return;
    };
    let result = "320128 bytes";
    refused(path, &format!("{RUN} --output small/o.npy"), &["small/o.npy", result, "are free"]);
    refused(path, "gen poisson small/p --rows 200 --cols 200", &["small/p/u.npy", result]);
    refused(path, "convert data small/c --layout blocked", &["small/c/za", "320000 bytes"]);
    let _enough = Tmpfs::mount(&path.join("one"), 512 << 10).unwrap();
    refused(path, &format!("{RUN} --output one/o.npy --verify"), &["--verify", result, "are free"]);
    refused(path, "gen poisson one/p --rows 200 --cols 200", &["one/p/f.npy", result]);
    // Several passes need two generations; the command says so before the first pass.
    let passes = "run lk23 data --iterations 4 --depth 2 --output one/o.npy";
    refused(path, passes, &["one/o.npy.syncline", "640256 bytes", "are free"]);
    assert!(names(&path.join("one")).is_empty());
    ok(path, &format!("{RUN} --output one/o.npy"));
    assert_eq!(names(&path.join("one")), ["o.npy"]);
    drop(small);
}

#[test]
fn benchmarks_are_said_to_be_another_command() {
    let done = command(Path::new("."), "bench overlay --quick").output().unwrap();
    let said = said(done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("cargo run --release -p syncline-lab -- bench"), "{said}");
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for line in ["--help", "farm run --help", "help farm", "--version", "completions bash"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = command(Path::new("."), line).stdout(full).output().unwrap();
        let said = said(done.stderr);
        assert_eq!(done.status.code(), Some(1), "{line}: {said}");
        assert!(said.starts_with("error: cannot write to standard output: "), "{line}: {said}");
    }
}

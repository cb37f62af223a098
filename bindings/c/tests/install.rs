//! `make install` into a temporary folder, and programs that are built with what is there.

mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

use tools::{Tool, libraries, root, succeed};

/// All files below a folder, by their names from there.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(dir).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// What cargo builds, as far as it is at hand: the command and the library to be preloaded are only copied, and anything
/// of their names will do.
fn built(dir: &Path) -> PathBuf {
    let folder = dir.join("built");
    std::fs::create_dir(&folder).unwrap();
    for library in ["libsyncline_c.so", "libsyncline_c.a"] {
        std::os::unix::fs::symlink(libraries().join(library), folder.join(library)).unwrap();
    }
    for other in ["libsyncline_preload.so", "syncline"] {
        std::fs::write(folder.join(other), other).unwrap();
    }
    folder
}

fn make(target: &str, built: &Path, prefix: &Path, destination: &Path) {
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("../..")).arg(target);
    for (name, value) in [("BUILT", built), ("PREFIX", prefix), ("DESTDIR", destination)] {
        make.arg(format!("{name}={}", value.display()));
    }
    // Not those of a `make test` that runs this.
    succeed(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
}

const INSTALLED: [&str; 9] = [
    "bin/syncline",
    "include/syncline.h",
    "lib/libsyncline_c.a",
    "lib/libsyncline_c.so",
    "lib/libsyncline_c.so.0.1",
    "lib/libsyncline_preload.so",
    "lib/pkgconfig/syncline.pc",
    "share/syncline/pmpi.c",
    "share/syncline/syncline.f90",
];

#[test]
fn everything_goes_to_its_place_and_away_again() {
    if Tool::find("make").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (built, package) = (built(dir.path()), dir.path().join("package"));
    make("install-files", &built, Path::new("/opt/syncline"), &package);
    assert_eq!(files(&package.join("opt/syncline")), INSTALLED.map(PathBuf::from));
    let described = std::fs::read_to_string(package.join("opt/syncline/lib/pkgconfig/syncline.pc")).unwrap();
    assert!(described.starts_with("prefix=/opt/syncline\n") && !described.contains('@'), "{described}");
    make("uninstall", &built, Path::new("/opt/syncline"), &package);
    assert_eq!(files(&package), [] as [PathBuf; 0]);
}

#[test]
fn programs_are_built_by_pkg_config() {
    let (Some(_), Some(_)) = (Tool::find("make"), Tool::find("pkg-config")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("prefix");
    make("install-files", &built(dir.path()), &prefix, Path::new(""));

    let ask = |words: &[&str]| {
        let mut ask = Command::new("pkg-config");
        ask.args(words).arg("syncline").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        succeed(&mut ask).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ask(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let module = ask(&["--variable=fortran"]);
    for (compiler, source, flags, first) in [
        (
            "gcc",
            "examples/handles.c",
            ["-pthread", "-g"],
            "location 'batch' was not granted before the deadline",
        ),
        ("gfortran", "examples/relax.f90", ["-fopenmp", "-J"], "the bits of the loop"),
    ] {
        let Some(tool) = Tool::find(compiler) else { continue };
        let executable = dir.path().join("program");
        let mut arguments: Vec<_> = flags.map(str::to_owned).into();
        if compiler == "gfortran" {
            arguments.push(dir.path().display().to_string());
            arguments.extend(module.clone());
        }
        arguments.push(root().join(source).display().to_string());
        arguments.extend(ask(&["--cflags", "--libs"]));
        arguments.extend(["-o".to_owned(), executable.display().to_string()]);
        tool.run(arguments);
        let said = succeed(Command::new(executable).env("LD_LIBRARY_PATH", prefix.join("lib")));
        assert_eq!(said.lines().next(), Some(first));
    }
}

//! `make install` into a temporary folder, and programs that are built with the installed files.

use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_testkit::{Tool, libraries, succeed};

use crate::tools::root;

/// Returns all files below a folder, by their paths relative to it.
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

/// Gathers the artefacts of cargo that exist. The commands and the preload library are only copied,
/// so any other program and library can stand in for them. Manual pages and completions, which the
/// commands write, are left to the tests of the commands.
fn built(dir: &Path) -> PathBuf {
    let folder = dir.join("built");
    std::fs::create_dir(&folder).unwrap();
    for library in ["libsyncline_c.so", "libsyncline_c.a"] {
        std::os::unix::fs::symlink(libraries().join(library), folder.join(library)).unwrap();
    }
    for (other, name) in [
        (libraries().join("libsyncline_c.so"), "libsyncline_preload.so"),
        (std::env::current_exe().unwrap(), "syncline"),
        (std::env::current_exe().unwrap(), "syncline-solve"),
    ] {
        std::os::unix::fs::symlink(other, folder.join(name)).unwrap();
    }
    folder
}

fn make(target: &str, built: &Path, prefix: &Path, destination: &Path) {
    make_with(target, built, prefix, destination, &[]);
}

fn make_with(target: &str, built: &Path, prefix: &Path, destination: &Path, more: &[&str]) {
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("../..")).arg(target).arg("DOCUMENTED=").args(more);
    for (name, value) in [("BUILT", built), ("PREFIX", prefix), ("DESTDIR", destination)] {
        make.arg(format!("{name}={}", value.display()));
    }
    // Not the variables of a `make test` that runs this test.
    succeed(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
}

const INSTALLED: [&str; 12] = [
    "bin/syncline",
    "bin/syncline-solve",
    "include/syncline.h",
    "lib/cmake/Syncline/SynclineConfig.cmake",
    "lib/cmake/Syncline/SynclineConfigVersion.cmake",
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
    let described =
        std::fs::read_to_string(package.join("opt/syncline/lib/pkgconfig/syncline.pc")).unwrap();
    assert!(
        described.starts_with("prefix=/opt/syncline\n") && !described.contains('@'),
        "{described}"
    );
    make("uninstall", &built, Path::new("/opt/syncline"), &package);
    assert_eq!(files(&package), [] as [PathBuf; 0]);
}

/// A project that requires a version of the package and builds an example with each of its targets.
const PROJECT: &str = "cmake_minimum_required(VERSION 3.5)
project(uses LANGUAGES C)
find_package(Syncline ${WANTED} REQUIRED)
foreach(library syncline shared static)
    add_executable(with_${library} ${EXAMPLE})
    target_link_libraries(with_${library} PRIVATE syncline::${library})
endforeach()
find_package(Threads REQUIRED)
foreach(library syncline shared)
    target_link_libraries(with_${library} PRIVATE Threads::Threads)
endforeach()
foreach(file ${Syncline_FORTRAN_MODULE} ${Syncline_PMPI} ${Syncline_PRELOAD})
    if(NOT EXISTS ${file})
        message(FATAL_ERROR \"${file} is missing\")
    endif()
endforeach()
";

#[test]
#[ignore = "full: pkg-config is tried in any case"]
fn programs_are_built_by_cmake() {
    let (Some(_), Some(_), Some(cmake)) =
        (Tool::find("make"), Tool::find("gcc"), Tool::find("cmake"))
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (prefix, moved) = (dir.path().join("prefix"), dir.path().join("moved to another"));
    make("install-files", &built(dir.path()), &prefix, Path::new(""));
    // The package works after its folder was moved. The libraries are links, which stay valid.
    std::fs::rename(&prefix, &moved).unwrap();
    let project = dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("CMakeLists.txt"), PROJECT).unwrap();

    let configure = |folder: &Path, wanted: &str| {
        let mut words = vec!["-S".into(), project.display().to_string()];
        words.extend(["-B".into(), folder.display().to_string(), "-DCMAKE_C_COMPILER=gcc".into()]);
        words.push(format!("-DCMAKE_PREFIX_PATH={}", moved.display()));
        words.push(format!("-DEXAMPLE={}", root().join("examples/handles.c").display()));
        words.push(format!("-DWANTED={wanted}"));
        words
    };
    let version = env!("CARGO_PKG_VERSION");
    let minor = version.rsplit_once('.').unwrap().0;
    for (n, refused) in ["0.2", "1.0", "99"].into_iter().enumerate() {
        let folder = dir.path().join(format!("refused{n}"));
        assert!(!cmake.works(configure(&folder, refused)), "{refused} is not {version}");
    }
    for (n, wanted) in ["", version, minor].into_iter().enumerate() {
        cmake.run(configure(&dir.path().join(format!("found{n}")), wanted));
    }
    let folder = dir.path().join("found0");
    cmake.run(["--build", folder.to_str().unwrap()]);
    for program in ["with_syncline", "with_shared", "with_static"] {
        let said = succeed(&mut Command::new(folder.join(program)));
        assert_eq!(
            said.lines().next(),
            Some("location 'batch' was not granted before the deadline"),
            "{program}"
        );
    }
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

/// Installed files have no debug symbols unless they are requested, and are otherwise unchanged.
#[test]
fn what_is_installed_is_stripped() {
    let (Some(_), Some(_), Some(gcc)) =
        (Tool::find("make"), Tool::find("strip"), Tool::find("gcc"))
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let built = built(dir.path());
    let [stripped, whole] = ["stripped", "whole"].map(|name| dir.path().join(name));
    make("install-files", &built, &stripped, Path::new(""));
    make_with("install-files", &built, &whole, Path::new(""), &["STRIP="]);
    let all = [
        "bin/syncline",
        "bin/syncline-solve",
        "lib/libsyncline_c.so",
        "lib/libsyncline_preload.so",
        "lib/libsyncline_c.a",
    ];
    for name in all {
        let [small, large] =
            [&stripped, &whole].map(|prefix| std::fs::metadata(prefix.join(name)).unwrap().len());
        let before =
            std::fs::metadata(built.join(Path::new(name).file_name().unwrap())).unwrap().len();
        assert_eq!(large, before, "{name}");
        assert!(small < large, "{name}: {small} of {large} bytes");
    }
    // A linker still finds the symbols that it needs.
    let executable = dir.path().join("program");
    let (source, include) = (root().join("examples/handles.c"), root().join("include"));
    let library = stripped.join("lib/libsyncline_c.a");
    let flags = ["-pthread", "-ldl", "-lm", "-o"].map(AsRef::as_ref);
    let arguments = [source.as_os_str(), "-I".as_ref(), include.as_os_str(), library.as_os_str()];
    gcc.run(arguments.into_iter().chain(flags).chain([executable.as_os_str()]));
    assert!(succeed(&mut Command::new(executable)).contains("sum 33984000, expected 33984000"));
}

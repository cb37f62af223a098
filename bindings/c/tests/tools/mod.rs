//! Programs that are compiled from this package's sources.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use syncline_testkit::{Tool, kept, libraries};

pub(crate) mod mpi;

pub(crate) const STATIC: [&str; 1] = ["-l:libsyncline_c.a"];
pub(crate) const SHARED: [&str; 1] = ["-l:libsyncline_c.so"];

/// Returns the folder of the package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a source and links it with the options in `library`: once for all tests, until one of
/// its inputs changes.
pub(crate) fn compiled(tool: Tool, source: &str, flags: &[&str], library: &[&str]) -> PathBuf {
    let folder = libraries();
    let text = |path: &Path| path.display().to_string();
    // The name under which a program looks for the shared library.
    let named = kept("library", [text(&folder)], |into| {
        symlink(folder.join("libsyncline_c.so"), into.join("libsyncline_c.so.0.1")).unwrap();
    });
    let (include, source) = (root().join("include"), root().join(source));
    let of = ["include/syncline.h", "tests/programs/expect.h", "fortran/syncline.f90"];
    let mut key = of.map(|name| fs::read(root().join(name)).unwrap()).to_vec();
    key.extend([
        fs::read(&source).unwrap(),
        text(&named).into_bytes(),
        tool.version().into_bytes(),
    ]);
    if library == STATIC {
        let metadata = fs::metadata(folder.join("libsyncline_c.a")).unwrap();
        key.push(format!("{} {:?}", metadata.len(), metadata.modified().unwrap()).into_bytes());
    }
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let name = [&[stem, tool.name()], flags, library].concat().join(" ");
    let made = kept(&name, key, |into| {
        let mut arguments: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        if source.extension().is_some_and(|extension| extension == "f90") && !library.is_empty() {
            arguments.extend([
                "-J".to_owned(),
                text(into),
                text(&root().join("fortran/syncline.f90")),
            ]);
        }
        arguments.push(text(&source));
        if !library.is_empty() {
            arguments.extend([format!("-I{}", text(&include)), format!("-L{}", text(&folder))]);
            arguments.push(format!("-Wl,-rpath,{}", text(&named)));
            arguments.extend(
                library.iter().chain(&["-pthread", "-ldl", "-lm"]).map(|&word| word.to_owned()),
            );
        }
        arguments.extend(["-o".to_owned(), text(&into.join(stem))]);
        tool.run(arguments);
    });
    made.join(stem)
}

//! Files that are not shims, and shims that do not load: each gives an error that says what to do.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_mpi::{Library, MpiError, build::build};
use tempfile::TempDir;

const MARK: &str = "syncline-mpi-shim abi=ABI family=mpich version=4.0.2 mpi=4.0 ulfm=0 end";

/// Returns a folder from which libraries may be loaded, as perhaps not from that for temporary
/// files.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Compiles a shared library from a few lines of C. Returns `None` if there is no compiler.
fn library(folder: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (file, made) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&made, &file]).args(options);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            println!("skipped: there is no gcc: {error}");
            return None;
        }
    }
    Some(made)
}

fn marked(abi: u32, rest: &str) -> String {
    format!(
        "const char *about(void) {{ return \"{}\"; }}\n{rest}",
        MARK.replace("ABI", &abi.to_string())
    )
}

#[test]
fn a_shim_of_another_version_is_not_loaded() {
    let folder = folder();
    // Loading this library would abort the process.
    let source =
        marked(99, "#include <stdlib.h>\n__attribute__((constructor)) void no(void) { abort(); }");
    let Some(shim) = library(folder.path(), "old", &source, &[]) else { return };
    let error = Library::load(&shim).unwrap_err();
    assert!(matches!(error, MpiError::Abi { found: 99, .. }), "{error}");
    assert!(error.to_string().ends_with("run `syncline mpi build` again"), "{error}");
}

#[test]
fn a_library_that_is_no_shim_is_not_loaded() {
    let folder = folder();
    let source = "#include <stdlib.h>\n__attribute__((constructor)) void no(void) { abort(); }";
    let Some(library) = library(folder.path(), "other", source, &[]) else { return };
    let error = Library::load(&library).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "other.so is not a shim of Syncline: it does not contain the mark of a shim"
        ),
        "{error}"
    );
    let error = Library::load(folder.path()).unwrap_err();
    assert!(matches!(error, MpiError::Io { .. }), "{error}");
}

#[test]
fn a_shim_without_its_functions_is_refused() {
    let folder = folder();
    let Some(shim) = library(folder.path(), "empty", &marked(1, ""), &[]) else { return };
    let error = Library::load(&shim).unwrap_err();
    assert!(matches!(error, MpiError::Load { .. }), "{error}");
    assert!(error.to_string().contains("syncline_mpi_abi"), "{error}");
}

#[test]
fn a_shim_whose_mpi_is_gone_names_what_it_needs() {
    let folder = folder();
    let name = "libsynclinetestmpi";
    let Some(gone) = library(folder.path(), name, "int answer(void) { return 42; }", &[]) else {
        return;
    };
    let at = format!("-L{}", folder.path().display());
    let source = marked(1, "int answer(void);\nint syncline_mpi_abi(void) { return answer(); }");
    let shim = library(folder.path(), "shim", &source, &[&at, "-lsynclinetestmpi"]).unwrap();
    std::fs::remove_file(gone).unwrap();
    let error = Library::load(&shim).unwrap_err();
    assert!(
        matches!(&error, MpiError::NoLibrary { library, .. } if library == "libsynclinetestmpi.so"),
        "{error}"
    );
    assert!(error.to_string().ends_with("add its folder to LD_LIBRARY_PATH"), "{error}");
}

#[test]
fn a_compiler_that_makes_nothing_is_told_of() {
    let folder = folder();
    let error = build(OsStr::new("true"), folder.path()).unwrap_err();
    assert!(matches!(error, MpiError::Compiler { .. }), "{error}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(build(OsStr::new("true"), &file), Err(MpiError::Io { .. })));
}

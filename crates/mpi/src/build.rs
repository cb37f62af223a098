//! Compilation of the shim with a site's `mpicc`.
//!
//! ```text
//!  sources ──> temporary folder ── mpicc -O2 -shared -fPIC ──> FAMILY-VERSION.so ──renamed──> into
//! ```
//!
//! The MPI that the shim was compiled for is read from the file; nothing of the file is loaded.
//! Calls that not every MPI has are left out if the shim does not compile with them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::error::{MpiError, Result};
use crate::shim::Shim;

/// The sources of the shim as pairs of name and text. The first one is the file to compile.
pub const SOURCES: [(&str, &str); 3] = [
    ("shim.c", include_str!("../shim/shim.c")),
    ("window.h", include_str!("../shim/window.h")),
    ("failures.h", include_str!("../shim/failures.h")),
];

/// The compiler flags that leave calls out, from none to all of them.
const WITHOUT: [&[&str]; 3] =
    [&[], &["-DSYNCLINE_NO_ULFM"], &["-DSYNCLINE_NO_ULFM", "-DSYNCLINE_NO_MPROBE"]];
/// The compiler names that are looked up.
const NAMES: [&str; 3] = ["mpicc", "mpicc.openmpi", "mpicc.mpich"];

/// A shim that was built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Built {
    /// The shim and its file.
    pub shim: Shim,
    /// The compiler flags that left calls out; empty if the shim has all calls.
    pub without: Vec<String>,
}

/// Compiles the shim and stores it in a folder, which is created if it is missing. A shim for the
/// same version is replaced.
///
/// # Errors
/// * [`MpiError::NoCompiler`] if `mpicc` does not start.
/// * [`MpiError::Compiler`], with the compiler's output, if it does not compile the shim.
/// * [`MpiError::Io`] if the folder cannot be written.
pub fn build(mpicc: &OsStr, into: &Path) -> Result<Built> {
    let io = |what, path: &Path| {
        let path = path.to_owned();
        move |source| MpiError::Io { what, path, source }
    };
    fs::create_dir_all(into).map_err(io("make the folder", into))?;
    // The work folder is in the same file system, so that the rename publishes the whole shim at
    // once.
    let work = tempfile::Builder::new()
        .prefix(".build-")
        .tempdir_in(into)
        .map_err(io("write to", into))?;
    for (name, text) in SOURCES {
        let path = work.path().join(name);
        fs::write(&path, text).map_err(io("write", &path))?;
    }
    let made = work.path().join("shim.so");
    let mut first = None;
    for without in WITHOUT {
        match compile(mpicc, work.path(), &made, without) {
            Err(error @ MpiError::Compiler { .. }) => {
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
            Ok(()) => {
                let shim = Shim::read(&made)?;
                let path = into.join(shim.file_name());
                fs::rename(&made, &path).map_err(io("write", &path))?;
                let without = without.iter().map(|flag| (*flag).to_owned()).collect();
                return Ok(Built { shim: Shim { path, ..shim }, without });
            }
        }
    }
    // The first error is about what the file itself needs; later attempts only leave calls out.
    Err(first.unwrap_or(MpiError::Compiler { mpicc: name(mpicc), output: String::new() }))
}

fn compile(mpicc: &OsStr, sources: &Path, made: &Path, without: &[&str]) -> Result<()> {
    let output = Command::new(mpicc)
        .args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden"])
        .args(without)
        .arg("-o")
        .args([made, &sources.join(SOURCES[0].0)])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| MpiError::NoCompiler { mpicc: name(mpicc), source })?;
    if output.status.success() && made.exists() {
        return Ok(());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stdout));
    let output =
        if said.trim().is_empty() { output.status.to_string() } else { said.trim_end().to_owned() };
    Err(MpiError::Compiler { mpicc: name(mpicc), output })
}

fn name(mpicc: &OsStr) -> String {
    mpicc.to_string_lossy().into_owned()
}

/// Returns the MPI compilers on the `PATH`: `mpicc`, `mpicc.openmpi` and `mpicc.mpich`, each
/// program once.
#[must_use]
pub fn compilers() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    among(&env::split_paths(&path).collect::<Vec<_>>())
}

fn among(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    for name in NAMES {
        let first = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        let Some((path, real)) =
            first.and_then(|path| Some((path.clone(), path.canonicalize().ok()?)))
        else {
            continue;
        };
        if found.iter().all(|(_, known)| *known != real) {
            found.push((path, real));
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_compiler_is_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        assert!(among(&[one.clone(), two.clone()]).is_empty());
        fs::write(two.join("mpicc.mpich"), "").unwrap();
        fs::write(two.join("mpicc.openmpi"), "").unwrap();
        symlink("mpicc.openmpi", two.join("mpicc")).unwrap();
        assert_eq!(
            among(&[one.clone(), two.clone()]),
            [two.join("mpicc"), two.join("mpicc.mpich")]
        );
        fs::write(one.join("mpicc"), "").unwrap();
        let all = [one.join("mpicc"), two.join("mpicc.openmpi"), two.join("mpicc.mpich")];
        assert_eq!(among(&[one, two]), all);
    }

    #[test]
    fn what_the_compiler_says_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = build(OsStr::new("/no/mpicc"), folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot run /no/mpicc: No such file"), "{error}");
        // This compiler has no MPI.
        match build(OsStr::new("cc"), folder.path()) {
            Err(MpiError::NoCompiler { .. }) => println!("skipped: there is no cc"),
            Err(error) => assert!(error.to_string().contains("mpi.h"), "{error}"),
            Ok(built) => println!("skipped: cc has an mpi.h: {built:?}"),
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}

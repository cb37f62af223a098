//! The shim that is built at its first use.
//!
//! # Contract
//! A process that finds no shim for its MPI, or only one of another version of Syncline, builds one
//! into the user's folder, if a compiler of that MPI is on the path. One process of those that
//! start at the same time builds, and says so in a line on standard error. The others wait for it,
//! at most [`PATIENCE`], and then find the shim. What prevents that is part of the error.
//!
//! ```text
//!  rank 0: no shim ── lock ── looks again: none ── mpicc ── renamed into the folder ── unlock
//!  rank 1: no shim ── lock .............................................. looks again: there it is
//! ```
//! The lock is one on the file `.lock` of the folder. It ends with its process, and holds between
//! hosts that share the folder if their file system has such locks; without them each process
//! builds. A shim appears under its name as a whole, and one that is there and fits is not
//! replaced, as another host may have loaded it.
//!
//! A shim is only built with a compiler of the MPI that is wanted. If the launcher does not name
//! its MPI, there must be one compiler.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::build::{build, compilers};
use crate::error::{MpiError, Result};
use crate::shim::{Shim, VARIABLE, Wanted, folders, home};

/// How long a process waits for another one that builds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at the lock.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the shim that fits, which is built if there is none.
pub(crate) fn find(wanted: &Wanted) -> Result<Shim> {
    let found = wanted.find();
    let is_named = env::var_os(VARIABLE).is_some_and(|path| !path.is_empty());
    match found {
        Err(error @ (MpiError::NoShim { .. } | MpiError::Abi { .. })) if !is_named => {
            let built = built(wanted, home().as_deref(), &compilers(), &folders(), PATIENCE);
            built.map_err(|why| MpiError::Unbuilt { error: Box::new(error), why })
        }
        found => found,
    }
}

/// Builds a shim that fits into `home`, unless there is one in `folders` by then. Returns the
/// reason if that is not possible.
fn built(
    wanted: &Wanted,
    home: Option<&Path>,
    compilers: &[PathBuf],
    folders: &[PathBuf],
    patience: Duration,
) -> Result<Shim, String> {
    let home = home.ok_or("neither XDG_DATA_HOME nor HOME says where it may stand")?;
    let text = |error: MpiError| in_one_line(&error);
    match compilers {
        [] => {
            let names = "mpicc, mpicc.openmpi, mpicc.mpich";
            return Err(format!("no compiler of MPI is on the path ({names})"));
        }
        [_, _, ..] if wanted.family.is_none() => {
            let all: Vec<_> = compilers.iter().map(|mpicc| mpicc.display().to_string()).collect();
            return Err(format!("there are compilers of several MPIs: {}", all.join(", ")));
        }
        _ => (),
    }
    let io = |what: &str, path: &Path, error| format!("cannot {what} {}: {error}", path.display());
    fs::create_dir_all(home).map_err(|error| io("make the folder", home, error))?;
    let _locked = locked(&home.join(".lock"), patience)?;
    // Another process may have built it meanwhile.
    if let Ok(shim) = wanted.choose(folders) {
        return Ok(shim);
    }
    let work = tempfile::Builder::new().prefix(".first-").tempdir_in(home);
    let work = work.map_err(|error| io("write to", home, error))?;
    let mut failed = Vec::new();
    for mpicc in wanted.sorted(compilers) {
        let shim = match build(mpicc.as_os_str(), work.path()) {
            Ok(built) => built.shim,
            Err(error) => {
                failed.push(text(error));
                continue;
            }
        };
        let Shim { family, version, .. } = &shim;
        if !wanted.takes(&shim) {
            failed.push(format!("{} is that of {family} {version}", mpicc.display()));
            continue;
        }
        let path = home.join(shim.file_name());
        let is_there = Shim::read(&path).is_ok_and(|there| wanted.takes(&there));
        if !is_there {
            fs::rename(&shim.path, &path).map_err(|error| io("write", &path, error))?;
        }
        let line = format!(
            "syncline: built the shim for {family} {version} by {}: {}\n",
            mpicc.display(),
            path.display()
        );
        // A closed standard error is not an error.
        let _ = std::io::stderr().write_all(line.as_bytes());
        return Shim::read(&path).map_err(text);
    }
    Err(failed.join("; "))
}

/// Takes the lock on a file, which is made if it is not there. Where there are no locks, no other
/// process is kept out.
fn locked(path: &Path, patience: Duration) -> Result<File, String> {
    let late = Instant::now() + patience;
    let opened = File::options().create(true).append(true).open(path);
    let file = opened.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    loop {
        match file.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() >= late => {
                return Err(format!(
                    "another process has held {} for {} s",
                    path.display(),
                    patience.as_secs()
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
}

/// Returns an error without the many lines of a compiler: the first that names an error.
fn in_one_line(error: &MpiError) -> String {
    let MpiError::Compiler { mpicc, output } = error else { return error.to_string() };
    let named = output.lines().find(|line| line.contains("error"));
    let line = named.or_else(|| output.lines().find(|line| !line.trim().is_empty()));
    format!("{mpicc} cannot compile it: {}", line.unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::family::Family;

    /// Writes a compiler that makes what claims to be a shim, and notes that it ran.
    fn compiler(folder: &Path, name: &str, family: &str, version: &str, abi: u32) -> PathBuf {
        let path = folder.join(name);
        let script = format!(
            "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho {name} >>{}\nsleep 0.02\n\
             printf '\\177ELF\\000syncline-mpi-shim abi={abi} family={family} version={version} \
             mpi=4.0 ulfm=0 end\\000' >\"$2\"\n",
            folder.join("ran").display()
        );
        executable(&path, &script);
        path
    }

    /// Writes a program. Another process writes it: a child that another test starts at the same
    /// time would inherit the open file of this one, and a file that is open cannot be run.
    fn executable(path: &Path, script: &str) {
        let write = ["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""];
        let status = Command::new("sh").args(write).arg(path).arg(script).status().unwrap();
        assert!(status.success());
    }

    fn wanted(family: Option<Family>, major: Option<u32>) -> Wanted {
        Wanted { family, major, cause: "a test needs an MPI".to_owned() }
    }

    fn ran(folder: &Path) -> usize {
        fs::read_to_string(folder.join("ran")).unwrap_or_default().lines().count()
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names.into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn one_of_many_builds_and_all_find_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("data/shims");
        let mpicc = [
            compiler(folder.path(), "mpicc.mpich", "mpich", "4.0.2", crate::shim::ABI),
            compiler(folder.path(), "mpicc.openmpi", "openmpi", "4.1.4", crate::shim::ABI),
        ];
        let folders = [home.clone()];
        let get = |family| {
            let wanted = wanted(Some(family), None);
            built(&wanted, Some(&home), &mpicc, &folders, PATIENCE).unwrap().file_name()
        };
        std::thread::scope(|scope| {
            let families = [Family::OpenMpi, Family::Mpich];
            let threads = (0..8).map(|n| scope.spawn(move || get(families[n % 2])));
            let threads: Vec<_> = threads.collect();
            let found: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            let pair = ["openmpi-4.1.4.so", "mpich-4.0.2.so"];
            assert_eq!(found, [pair, pair, pair, pair].concat());
        });
        // Each MPI's own compiler is tried first.
        assert_eq!(ran(folder.path()), 2);
        assert_eq!(names(&home), [".lock", "mpich-4.0.2.so", "openmpi-4.1.4.so"]);
    }

    #[test]
    fn a_shim_of_another_version_is_replaced_and_one_that_fits_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (home, abi) = (folder.path().join("shims"), crate::shim::ABI);
        let folders = [home.clone()];
        let old = [compiler(folder.path(), "mpicc", "mpich", "4.0.2", abi + 1)];
        let mpich = wanted(Some(Family::Mpich), None);
        let why = built(&mpich, Some(&home), &old, &folders, PATIENCE).unwrap_err();
        assert!(why.contains("another version of Syncline"), "{why}");
        assert_eq!(names(&home), [".lock"]);

        let mark = |abi| {
            format!("syncline-mpi-shim abi={abi} family=mpich version=4.0.2 mpi=4.0 ulfm=0 end")
        };
        fs::write(home.join("mpich-4.0.2.so"), format!("\x7fELF\0{}\0", mark(abi + 1))).unwrap();
        let new = [compiler(folder.path(), "mpicc", "mpich", "4.0.2", abi)];
        built(&mpich, Some(&home), &new, &folders, PATIENCE).unwrap();
        let before = ran(folder.path());
        built(&mpich, Some(&home), &new, &folders, PATIENCE).unwrap();
        assert_eq!(ran(folder.path()), before, "it is there");
    }

    #[test]
    fn what_cannot_be_built_has_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (path, abi) = (folder.path(), crate::shim::ABI);
        let home = path.join("shims");
        let mpich = [compiler(path, "mpicc", "mpich", "4.0.2", abi)];
        let two = [mpich[0].clone(), compiler(path, "mpicc.openmpi", "openmpi", "5.0.1", abi)];
        fs::write(path.join("file"), "").unwrap();
        let (inside, bad) = (path.join("file/shims"), path.join("bad"));
        executable(&bad, "#!/bin/sh\necho x >&2\necho shim.c:3: error: no mpi.h >&2\nexit 1\n");
        let bad = [bad];
        let open = || wanted(Some(Family::OpenMpi), Some(4));
        for (wanted, home, compilers, reason) in [
            (open(), None, &mpich[..], "neither XDG_DATA_HOME nor HOME"),
            (open(), Some(&home), &[], "no compiler of MPI is on the path (mpicc, "),
            (open(), Some(&home), &two, "mpicc is that of MPICH 4.0.2"),
            (open(), Some(&home), &two, "mpicc.openmpi is that of Open MPI 5.0.1"),
            (open(), Some(&home), &bad, "bad cannot compile it: shim.c:3: error: no mpi.h"),
            (open(), Some(&inside), &mpich, "cannot make the folder "),
            (wanted(None, None), Some(&home), &two, "there are compilers of several MPIs: "),
        ] {
            let folders: Vec<_> = home.cloned().into_iter().collect();
            let home = home.map(PathBuf::as_path);
            let why = built(&wanted, home, compilers, &folders, PATIENCE).unwrap_err();
            assert!(why.contains(reason) && !why.contains('\n'), "{why}");
        }
        assert_eq!(names(&home), [".lock"], "nothing is left");
        // One compiler needs no name.
        assert!(built(&wanted(None, None), Some(&home), &mpich, &[], PATIENCE).is_ok());
    }

    #[test]
    fn a_process_that_builds_for_too_long_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(".lock");
        let first = locked(&lock, PATIENCE).unwrap();
        let why = locked(&lock, Duration::from_millis(30)).unwrap_err();
        assert!(why.contains("another process has held ") && why.contains(".lock"), "{why}");
        drop(first);
        locked(&lock, Duration::ZERO).unwrap();
    }
}

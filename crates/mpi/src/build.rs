//! Compilation of the shim with a site's `mpicc`.
//!
//! ```text
//!  sources ──> temporary folder ── mpicc -O2 -shared -fPIC ──> FAMILY-VERSION.so ──renamed──> into
//! ```
//!
//! The MPI that the shim was compiled for is read from the file; nothing of the file is loaded.
//! Calls that not every MPI has are left out if the shim does not compile with them.
//!
//! The compiler leads a process group, which is killed when this process ends, for whatever reason.
//! A build holds a lock on its temporary folder. A later build removes the folders in the same
//! place that no live process has locked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{env, io};

use rustix::fs::{Access, MemfdFlags, access, memfd_create};
use rustix::process::Signal;
use syncline_process::{Spawn, lifeline::Lifeline, spawn::find};
use tempfile::TempDir;

use crate::error::{MpiError, Result};
use crate::outside::leave_rank;
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
/// The beginnings of the names of temporary folders.
const TEMPORARY: [&str; 2] = [BUILDS, FIRST];
const BUILDS: &str = ".build-";
/// The beginning of the name of a temporary folder of a first use.
pub(crate) const FIRST: &str = ".first-";
/// The age below which a folder is kept: its builder may be about to lock it, or lives on another
/// host, where some file systems do not show its lock.
const NEW: Duration = Duration::from_secs(3600);

/// The shell's command that becomes the compiler.
const GATE: &str = "read -r line && exec \"$0\" \"$@\" </dev/null";

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
    build_within(mpicc, into, None)
}

/// As [`build`], but kills a compiler that has not ended after the limit.
///
/// # Errors
/// Those of [`build`], and [`MpiError::SlowCompiler`].
pub(crate) fn build_within(mpicc: &OsStr, into: &Path, limit: Option<Duration>) -> Result<Built> {
    let late = limit.and_then(|limit| Instant::now().checked_add(limit));
    let io = |what, path: &Path| {
        let path = path.to_owned();
        move |source| MpiError::Io { what, path, source }
    };
    fs::create_dir_all(into).map_err(io("make the folder", into))?;
    // The work folder is in the same file system, so that the rename publishes the whole shim at
    // once.
    let work = Work::new(into, BUILDS).map_err(io("write to", into))?;
    for (name, text) in SOURCES {
        let path = work.path().join(name);
        fs::write(&path, text).map_err(io("write", &path))?;
    }
    let made = work.path().join("shim.so");
    let mut first = None;
    for without in WITHOUT {
        let compiled = compile(mpicc, work.path(), &made, without, late);
        let compiled =
            compiled.map_err(|source| MpiError::NoCompiler { mpicc: name(mpicc), source });
        let ended = match (compiled?, limit) {
            (Some(ended), _) => ended,
            (None, limit) => {
                let limit = limit.unwrap_or_default();
                return Err(MpiError::SlowCompiler { mpicc: name(mpicc), limit });
            }
        };
        match ended.map_err(|output| MpiError::Compiler { mpicc: name(mpicc), output }) {
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

/// A temporary folder, which is removed when it is dropped, or by a later build if this process is
/// killed.
pub(crate) struct Work {
    folder: TempDir,
    /// Holds the lock for as long as this process lives. A file system may have no locks.
    _locked: File,
}

impl Work {
    /// Makes a folder within another, and removes those there that were left behind.
    pub(crate) fn new(into: &Path, prefix: &str) -> io::Result<Work> {
        remove_left(into, NEW);
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(into)?;
        let locked = File::open(folder.path())?;
        let _ = locked.try_lock();
        Ok(Work { folder, _locked: locked })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the temporary folders whose builders have died. What cannot be removed stays.
fn remove_left(into: &Path, new: Duration) {
    for entry in fs::read_dir(into).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_temporary =
            name.to_str().is_some_and(|name| TEMPORARY.iter().any(|own| name.starts_with(own)));
        let is_old = |time: SystemTime| time.elapsed().is_ok_and(|age| age >= new);
        let is_old = || entry.metadata().and_then(|data| data.modified()).is_ok_and(is_old);
        if is_temporary
            && is_old()
            && let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Runs the compiler. Returns its output if it does not compile the shim, and `None` if it has not
/// ended when it was `late`.
fn compile(
    mpicc: &OsStr,
    sources: &Path,
    made: &Path,
    without: &[&str],
    late: Option<Instant>,
) -> io::Result<Option<Result<(), String>>> {
    // In memory: the disk may be full.
    let mut output = File::from(memfd_create("syncline-mpicc", MemfdFlags::CLOEXEC)?);
    let (keeper, end) = Lifeline::pair()?;
    // The compiler begins when its group is sure to be killed with this process: a shell waits for
    // a line before it becomes the compiler, and ends without one.
    let mpicc = find(mpicc, env::var_os("PATH"))?;
    access(&mpicc, Access::EXEC_OK)?;
    let (gate, mut opened) = io::pipe()?;
    let mut spawn = Spawn::new("/bin/sh");
    leave_rank(&mut spawn);
    spawn.args([OsStr::new("-c"), OsStr::new(GATE), mpicc.as_os_str()]);
    spawn.args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]).args(without).args(["-o"]);
    spawn.args([made, &sources.join(SOURCES[0].0)]);
    spawn.stream(0, gate.as_fd()).stream(1, output.as_fd()).stream(2, output.as_fd());
    let leader = spawn.start_group()?;
    drop(spawn);
    let bound = end.kill_group_when_cut(leader.id()).and_then(|()| keeper.hold(end));
    let begun = bound.is_ok() && opened.write_all(b"\n").is_ok();
    let in_time = begun && leader.wait_exit(late);
    if !in_time {
        leader.send(Signal::KILL.as_raw());
    }
    let status = leader.collect()?;
    let _keeper = bound?;
    if !in_time {
        return Ok(None);
    }
    if status.success() && made.exists() {
        return Ok(Some(Ok(())));
    }
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    Ok(Some(Err(if said.is_empty() { status.to_string() } else { said })))
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

    /// Writes a compiler that starts a process and waits for it. Both hold the file `held`.
    fn hanging(folder: &Path) -> PathBuf {
        let path = folder.join("hanging");
        let script = "#!/bin/sh\nexec 9>>${0%/*}/held\nflock -s 9\nsleep 4000 &\nwait\n";
        let write = ["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""];
        let status = std::process::Command::new("sh").args(write).arg(&path).arg(script).status();
        assert!(status.unwrap().success());
        path
    }

    #[test]
    fn a_compiler_that_hangs_is_killed_with_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let (mpicc, into) = (hanging(folder.path()), folder.path().join("shims"));
        let limit = Duration::from_millis(500);
        let error = build_within(mpicc.as_os_str(), &into, Some(limit)).unwrap_err();
        assert!(matches!(error, MpiError::SlowCompiler { .. }), "{error}");
        assert_eq!(fs::read_dir(&into).unwrap().count(), 0, "nothing is left");
        // The kernel releases the locks of killed processes a moment after the kill.
        let held = File::create(folder.path().join("held")).unwrap();
        let late = Instant::now() + Duration::from_secs(10);
        while held.try_lock().is_err() {
            assert!(Instant::now() < late, "a process of the compiler lives");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn folders_of_dead_builders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [".first-dead", ".build-dead", ".other"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("shim.c"), "").unwrap();
        }
        let live = Work::new(folder.path(), FIRST).unwrap();
        assert!(path(".first-dead").exists(), "it is new");
        remove_left(folder.path(), Duration::ZERO);
        assert!(!path(".first-dead").exists() && !path(".build-dead").exists());
        assert!(path(".other").exists() && live.path().exists());
    }
}

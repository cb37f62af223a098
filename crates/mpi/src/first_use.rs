//! The shim that is built at its first use.
//!
//! # Contract
//! A process that finds no shim for its MPI, or only one of another version of Syncline, builds one
//! into the user's folder, if a compiler of that MPI is on the path. One process of those that
//! start at the same time builds, and says so in a line on standard error. The others wait for it,
//! at most [`PATIENCE`], and then find the shim. The compiler is killed a little earlier, so that
//! the error of all names it. What prevents a build is part of the error.
//!
//! ```text
//!  rank 0: no shim ── lock ── looks again: none ── mpicc ── renamed into the folder ── unlock
//!  rank 1: no shim ── lock .............................................. looks again: there it is
//! ```
//! The lock is one on the file `.lock` of the folder. If no compiler makes the shim, the builder
//! writes the reason into the file. The processes of the same launcher that have waited for it fail
//! for that reason, and do not compile again. The lock ends with its process, and holds between
//! hosts that share the folder if their file system has such locks; without them each process
//! builds. A shim appears under its name as a whole, and one that is there and fits is not
//! replaced, as another host may have loaded it.
//!
//! A shim is only built with a compiler of the MPI that is wanted. If the launcher does not name
//! its MPI, there must be one compiler.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::build::{FIRST, Work, build_within, compilers};
use crate::error::{MpiError, Result};
use crate::launched::own_launcher;
use crate::shim::{Shim, VARIABLE, Wanted, folders, home};

/// The longest time for which a process waits for a shim that is built.
const PATIENCE: Duration = Duration::from_secs(60);
/// The part of [`PATIENCE`] after which compilers are killed; but they have the rest at least.
const COMPILERS: f64 = 11.0 / 12.0;
/// The time between two looks at the lock.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the shim that fits, which is built if there is none.
pub(crate) fn find(wanted: &Wanted) -> Result<Shim> {
    let found = wanted.find();
    let is_named = env::var_os(VARIABLE).is_some_and(|path| !path.is_empty());
    match found {
        Err(error @ (MpiError::NoShim { .. } | MpiError::Abi { .. })) if !is_named => {
            let built = built(wanted, home().as_deref(), &compilers(), &folders(), PATIENCE);
            built.map_err(|Unbuilt { why, remedy }| MpiError::Unbuilt {
                error: Box::new(error),
                why,
                help: remedy.in_words(wanted, &compilers()),
            })
        }
        found => found,
    }
}

/// The reason why no shim was built.
#[derive(Debug)]
struct Unbuilt {
    why: String,
    remedy: Remedy,
}

impl From<String> for Unbuilt {
    fn from(why: String) -> Unbuilt {
        // The compiler writes into the folder.
        let is_full = ["No space left on device", "Disk quota exceeded"];
        let is_full = is_full.iter().any(|text| why.contains(text));
        Unbuilt { remedy: if is_full { Remedy::Folder } else { Remedy::Compiler }, why }
    }
}

/// What has to be changed for a shim to be built.
#[derive(Clone, Copy, Debug)]
enum Remedy {
    /// The folder.
    Folder,
    /// The compiler.
    Compiler,
}

impl Remedy {
    fn in_words(self, wanted: &Wanted, compilers: &[PathBuf]) -> String {
        let mpicc = wanted.compiler(compilers);
        match self {
            Remedy::Folder => format!(
                "set XDG_DATA_HOME to a folder that can be written, by its full path, or run \
                 `syncline mpi build --mpicc {mpicc} --into DIR` and set {VARIABLE} to the shim in \
                 DIR"
            ),
            Remedy::Compiler => {
                format!("run `syncline mpi build --mpicc {mpicc}` with that MPI's compiler")
            }
        }
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
) -> Result<Shim, Unbuilt> {
    let start = Instant::now();
    let folder = |why: String| Unbuilt { why, remedy: Remedy::Folder };
    let nowhere = "neither XDG_DATA_HOME nor HOME says where it may stand, by a full path";
    let home = home.ok_or_else(|| folder(nowhere.to_owned()))?;
    let text = |error: MpiError| in_one_line(&error);
    match compilers {
        [] => {
            let names = "mpicc, mpicc.openmpi, mpicc.mpich";
            return Err(format!("no compiler of MPI is on the path ({names})").into());
        }
        [_, _, ..] if wanted.family.is_none() => {
            let all: Vec<_> = compilers.iter().map(|mpicc| mpicc.display().to_string()).collect();
            return Err(format!("there are compilers of several MPIs: {}", all.join(", ")).into());
        }
        _ => (),
    }
    let io = |what: &str, path: &Path, error| {
        folder(format!("cannot {what} {}: {error}", path.display()))
    };
    fs::create_dir_all(home).map_err(|error| io("make the folder", home, error))?;
    let path = home.join(".lock");
    let mut lock = locked(&path, patience).map_err(|why| match why {
        Unlocked::Late => {
            let (path, seconds) = (path.display(), patience.as_secs());
            format!("another process has held {path} for {seconds} s").into()
        }
        Unlocked::Io(error) => io("write", &path, error),
    })?;
    // Another process may have built it meanwhile.
    if let Ok(shim) = wanted.choose(folders) {
        return Ok(shim);
    }
    if let Some(why) = lock.failure() {
        return Err(why.into());
    }
    let work = Work::new(home, FIRST).map_err(|error| io("write to", home, error))?;
    let mut failed = Vec::new();
    for mpicc in wanted.sorted(compilers) {
        let left = patience.mul_f64(COMPILERS).saturating_sub(start.elapsed());
        // A process of another launcher may have had the lock for most of the time.
        let left = left.max(patience.mul_f64(1.0 - COMPILERS));
        let shim = match build_within(mpicc.as_os_str(), work.path(), Some(left)) {
            Ok(built) => built.shim,
            Err(MpiError::Io { what, path, source }) => return Err(io(what, &path, source)),
            Err(error) => {
                let is_late = matches!(error, MpiError::SlowCompiler { .. });
                failed.push(text(error));
                if is_late {
                    break;
                }
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
        return Ok(Shim::read(&path).map_err(text)?);
    }
    // A process that the lock does not keep out, on another host, may have built it.
    if let Ok(shim) = wanted.choose(folders) {
        return Ok(shim);
    }
    let why = failed.join("; ");
    lock.note(&why);
    Err(why.into())
}

/// The lock of a folder of shims. It is released when it is dropped.
struct Lock {
    file: File,
    /// Whether another process has held the lock before.
    has_waited: bool,
}

/// The reason why a lock was not taken.
#[derive(Debug)]
enum Unlocked {
    Late,
    Io(std::io::Error),
}

impl Lock {
    /// Returns the reason why the process of the same launcher that this one has waited for built
    /// no shim. Otherwise removes what an earlier process has noted.
    fn failure(&mut self) -> Option<String> {
        let mut noted = String::new();
        if self.has_waited && self.file.rewind().is_ok() {
            // A file that cannot be read has no reason to give.
            let _ = self.file.read_to_string(&mut noted);
        }
        let why = noted.strip_prefix(&Lock::of_this_launcher()).map(str::to_owned);
        if why.is_none() {
            let _ = self.file.set_len(0);
        }
        why
    }

    /// Notes the reason why no shim was built. Without a note the others try again.
    fn note(&mut self, why: &str) {
        let note = format!("{}{why}", Lock::of_this_launcher());
        let _ = self.file.set_len(0).and_then(|()| self.file.write_all(note.as_bytes()));
    }

    fn of_this_launcher() -> String {
        let host = rustix::system::uname();
        format!("launcher {} on {}: ", own_launcher(), host.nodename().to_string_lossy())
    }
}

/// Takes the lock on a file, which is made if it is not there. Where there are no locks, no other
/// process is kept out.
fn locked(path: &Path, patience: Duration) -> Result<Lock, Unlocked> {
    let late = Instant::now() + patience;
    let opened = File::options().create(true).read(true).append(true).open(path);
    let (file, mut has_waited) = (opened.map_err(Unlocked::Io)?, false);
    loop {
        match file.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Lock { file, has_waited }),
            Err(TryLockError::WouldBlock) if Instant::now() >= late => return Err(Unlocked::Late),
            Err(TryLockError::WouldBlock) => {
                has_waited = true;
                std::thread::sleep(LOOK);
            }
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

    /// As the function of this name, with the reason alone.
    fn built(
        wanted: &Wanted,
        home: Option<&Path>,
        compilers: &[PathBuf],
        folders: &[PathBuf],
        patience: Duration,
    ) -> Result<Shim, String> {
        super::built(wanted, home, compilers, folders, patience).map_err(|unbuilt| unbuilt.why)
    }

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
        let wanted = wanted(Some(Family::Mpich), None);
        let compilers = [folder.path().join("none")];
        let limit = Duration::from_millis(30);
        let why = built(&wanted, Some(folder.path()), &compilers, &[], limit).unwrap_err();
        assert!(why.contains("another process has held ") && why.contains(".lock"), "{why}");
        drop(first);
        locked(&lock, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_compiler_that_hangs_ends_all_in_time_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (home, mpicc) = (folder.path().join("shims"), folder.path().join("mpicc"));
        executable(&mpicc, "#!/bin/sh\nsleep 4000 & wait\n");
        let (start, mpich) = (Instant::now(), wanted(Some(Family::Mpich), None));
        let get = || {
            let (mpicc, patience) = ([mpicc.clone()], Duration::from_secs(3));
            built(&mpich, Some(&home), &mpicc, &[], patience).unwrap_err()
        };
        std::thread::scope(|scope| {
            let threads = (0..3).map(|_| scope.spawn(get)).collect::<Vec<_>>();
            for thread in threads {
                let why = thread.join().unwrap();
                assert!(why.contains("mpicc did not end within 3 s and was killed"), "{why}");
            }
        });
        assert!(start.elapsed() < Duration::from_secs(30), "one of them waits for the compiler");
        assert_eq!(names(&home), [".lock"], "nothing is left");
    }

    #[test]
    fn the_remedy_fits_the_reason_and_names_the_compiler() {
        let names = ["mpicc", "mpicc.mpich"].map(PathBuf::from);
        let in_words = |remedy: Remedy, family, names: &[PathBuf]| {
            remedy.in_words(&wanted(family, None), names)
        };
        let folder = in_words(Remedy::Folder, Some(Family::Mpich), &names);
        assert!(folder.starts_with("set XDG_DATA_HOME to a folder"), "{folder}");
        assert!(folder.contains("--mpicc mpicc.mpich --into DIR"), "{folder}");
        for (family, names, name) in [
            (Some(Family::Mpich), &names[..], "mpicc.mpich"),
            (Some(Family::Mpich), &names[..1], "mpicc"),
            (Some(Family::OpenMpi), &names[..], "mpicc"),
            (None, &names[..], "mpicc"),
        ] {
            let words = in_words(Remedy::Compiler, family, names);
            assert!(words.contains(&format!("--mpicc {name}`")), "{words}");
        }
    }
}

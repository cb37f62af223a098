//! Shims: the identification in their files, the folders that hold them, and the choice among them.
//!
//! A shim contains a string that identifies it, which can be read from the file before any of it is
//! loaded: `syncline-mpi-shim abi=1 family=openmpi version=4.1.4 mpi=3.1 ulfm=0 end`.

pub use crate::family::{Family, Version};

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::error::{MpiError, Result};
use crate::family::{identify, in_short};
use crate::launched::Launched;

/// The version of the interface of a shim's functions; the `ABI` of `shim.c`.
pub(crate) const ABI: u32 = 1;
/// The environment variable that names a shim.
pub(crate) const VARIABLE: &str = "SYNCLINE_MPI";
const MARK: &str = "syncline-mpi-shim abi=";

/// The file of a shim and the MPI that it was compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shim {
    /// The file.
    pub path: PathBuf,
    /// The family of the MPI.
    pub family: Family,
    /// The version of the MPI.
    pub version: Version,
    /// The version of the MPI standard.
    pub mpi: String,
    /// Whether the shim has the calls for failures of processes.
    pub ulfm: bool,
}

impl Shim {
    /// Reads the identification of a shim from a file, without loading it.
    ///
    /// # Errors
    /// [`MpiError::NotAShim`], [`MpiError::Abi`], or [`MpiError::Io`] if it cannot be read.
    pub fn read(path: &Path) -> Result<Shim> {
        let io = |source| MpiError::Io { what: "read the shim", path: path.to_owned(), source };
        let not = |why: &str| MpiError::NotAShim { file: path.to_owned(), why: why.to_owned() };
        let bytes = fs::read(path).map_err(io)?;
        if !bytes.starts_with(b"\x7fELF") {
            return Err(not("it is not a shared library"));
        }
        let at = bytes.windows(MARK.len()).position(|window| window == MARK.as_bytes());
        let at = at.ok_or_else(|| not("it does not contain the mark of a shim"))?;
        let text = bytes[at..].split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let field = |name: &str| {
            let start = format!("{name}=");
            text.split_ascii_whitespace().find_map(|word| word.strip_prefix(start.as_str()))
        };
        let found =
            field("abi").and_then(|abi| abi.parse().ok()).ok_or_else(|| not("it is damaged"))?;
        if found != ABI {
            return Err(MpiError::Abi { shim: path.to_owned(), found, expected: ABI });
        }
        let whole = text.ends_with(" end");
        let fields =
            field("family").and_then(Family::named).zip(field("version")).zip(field("mpi"));
        let ((family, version), mpi) =
            fields.filter(|_| whole).ok_or_else(|| not("it is damaged"))?;
        let (version, mpi) = (Version::new(version), mpi.to_owned());
        Ok(Shim { path: path.to_owned(), family, version, mpi, ulfm: field("ulfm") == Some("1") })
    }

    /// Returns the name of the shim's file in a folder of shims.
    #[must_use]
    pub fn file_name(&self) -> String {
        let version: String = self.version.to_string();
        let safe = |c: char| if c.is_ascii_alphanumeric() || ".-+".contains(c) { c } else { '_' };
        format!("{}-{}.so", self.family.name(), version.chars().map(safe).collect::<String>())
    }
}

/// Returns the folder of the user's own shims: `$XDG_DATA_HOME/syncline/mpi`, or
/// `~/.local/share/syncline/mpi`.
#[must_use]
pub fn home() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(data?.join("syncline/mpi"))
}

/// Returns the folders that are searched for shims: the user's own, then `../lib/syncline/mpi`
/// beside the program. The latter is left out if another user could have put a file there, as into
/// `/tmp/lib` for a program in `/tmp/me`.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    let beside = env::current_exe().ok().and_then(|exe| {
        let folder = exe.parent()?.parent()?.join("lib/syncline/mpi");
        let (program, there) = (fs::metadata(exe).ok()?, fs::metadata(&folder).ok()?);
        is_trusted(program.uid(), (there.uid(), there.mode())).then_some(folder)
    });
    home().into_iter().chain(beside).collect()
}

/// Returns whether a folder with this owner and mode holds only files of users whose programs run
/// here: root, this user, and the owner of the program itself.
fn is_trusted(program: u32, (owner, mode): (u32, u32)) -> bool {
    let user = rustix::process::geteuid().as_raw();
    mode & 0o002 == 0 && [0, user, program].contains(&owner)
}

/// Returns each file of the folders that ends with `.so`, with its identification or the reason why
/// it is not a shim of this version.
#[must_use]
pub fn installed() -> Vec<(PathBuf, Result<Shim>)> {
    within(&folders())
}

pub(crate) fn within(folders: &[PathBuf]) -> Vec<(PathBuf, Result<Shim>)> {
    let mut all = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "so"));
        files.sort();
        all.extend(files.into_iter().map(|path| (path.clone(), Shim::read(&path))));
    }
    all
}

/// The MPI for which a shim is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) family: Option<Family>,
    pub(crate) major: Option<u32>,
    /// The reason in words: "this process was started by ..."
    pub(crate) cause: String,
}

impl Wanted {
    /// Returns the MPI that the launcher of this process needs.
    pub(crate) fn of(launched: &Launched) -> Wanted {
        Wanted {
            family: launched.family,
            major: launched.major,
            cause: format!("this process was started by {launched}"),
        }
    }

    /// Returns the MPI that this program has loaded, from the text with which it describes itself.
    pub(crate) fn by_program(text: &str) -> Wanted {
        let (family, version) = identify(text);
        let family = Some(family).filter(|family| *family != Family::Other);
        let cause = format!("this program has loaded {}", in_short(text));
        Wanted { family, major: version.and_then(|version| version.major()), cause }
    }

    /// Whether a shim fits. Major versions matter for Open MPI, whose launcher and library must
    /// match; all versions up to 4 match one another.
    pub(crate) fn takes(&self, shim: &Shim) -> bool {
        let Some(family) = self.family else { return true };
        let both = self.major.zip(shim.version.major());
        let same = both.is_none_or(|(wanted, there)| wanted == there || wanted.max(there) <= 4);
        shim.family.fits(family) && (same || family != Family::OpenMpi || shim.family != family)
    }

    /// Returns the best shim in the folders: the exact family is better than a compatible one, a
    /// newer version better than an older one.
    pub(crate) fn choose(&self, folders: &[PathBuf]) -> Result<Shim> {
        let (mut good, mut bad) = (Vec::new(), None);
        for (_, read) in within(folders) {
            match read {
                Ok(shim) => good.push(shim),
                Err(error @ MpiError::Abi { .. }) => bad = bad.or(Some(error)),
                Err(_) => (),
            }
        }
        let found = good.iter().map(|shim| format!("{} {}", shim.family, shim.version)).collect();
        good.retain(|shim| self.takes(shim));
        let first = good.first().map(|shim| shim.family);
        if self.family.is_none() && good.iter().any(|shim| Some(shim.family) != first) {
            let found = good.into_iter().map(|shim| shim.path).collect();
            return Err(MpiError::Several { cause: self.cause.clone(), found });
        }
        let rank = |shim: &Shim| {
            (Some(shim.family) == self.family, shim.family != Family::Other, shim.version.numbers())
        };
        // Among equals the first wins: the user's own.
        good.into_iter()
            .reduce(|best, next| if rank(&next) > rank(&best) { next } else { best })
            .ok_or_else(|| {
                let looked = folders.to_vec();
                bad.unwrap_or(MpiError::NoShim { cause: self.cause.clone(), looked, found })
            })
    }

    /// Returns compilers, those first whose names are that of the MPI.
    pub(crate) fn sorted<'c>(&self, compilers: &'c [PathBuf]) -> Vec<&'c PathBuf> {
        let name = self.compiler_name().map(OsStr::new);
        let mut sorted: Vec<_> = compilers.iter().collect();
        sorted.sort_by_key(|path| path.file_name() != name);
        sorted
    }

    /// Returns the name of the MPI's compiler among these, or the usual one if none has that name.
    pub(crate) fn compiler(&self, compilers: &[PathBuf]) -> &'static str {
        let is_there =
            |name: &&str| compilers.iter().any(|path| path.file_name() == Some(OsStr::new(*name)));
        self.compiler_name().filter(is_there).unwrap_or("mpicc")
    }

    /// Returns the name by which distributions install the MPI's compiler beside others.
    fn compiler_name(&self) -> Option<&'static str> {
        match self.family {
            Some(Family::OpenMpi) => Some("mpicc.openmpi"),
            Some(Family::Mpich | Family::IntelMpi) => Some("mpicc.mpich"),
            _ => None,
        }
    }

    /// As [`Wanted::choose`], but a shim that the environment names has precedence and must fit.
    pub(crate) fn find(&self) -> Result<Shim> {
        let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
            return self.choose(&folders());
        };
        let shim = Shim::read(Path::new(&path))?;
        if self.takes(&shim) {
            return Ok(shim);
        }
        let Shim { path, family, version, .. } = shim;
        Err(MpiError::OtherMpi { shim: path, family, version, cause: self.cause.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_to_which_others_may_write_holds_no_shims() {
        let user = rustix::process::geteuid().as_raw();
        let (other, program) = (user + 1, user + 2);
        for (owner, mode, is_trusted) in [
            (user, 0o755, true),
            (0, 0o755, true),
            (program, 0o775, true),
            (other, 0o755, false),
            (user, 0o777, false),
            (0, 0o1777, false),
        ] {
            assert_eq!(super::is_trusted(program, (owner, mode)), is_trusted, "{owner} {mode:o}");
        }
    }

    fn write(folder: &Path, name: &str, mark: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, format!("\x7fELF...\0{mark}\0...")).unwrap();
        path
    }

    fn mark(abi: u32, family: &str, version: &str) -> String {
        format!("syncline-mpi-shim abi={abi} family={family} version={version} mpi=3.1 ulfm=1 end")
    }

    fn wanted(family: Option<Family>, major: Option<u32>) -> Wanted {
        Wanted { family, major, cause: "a test needs an MPI".to_owned() }
    }

    #[test]
    fn a_file_tells_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name, text: &str| Shim::read(&write(folder.path(), name, text));
        let shim = read("a.so", &mark(ABI, "openmpi", "4.1.4")).unwrap();
        assert_eq!(
            (shim.family, shim.version.major(), shim.mpi.as_str(), shim.ulfm),
            (Family::OpenMpi, Some(4), "3.1", true)
        );
        assert_eq!(shim.file_name(), "openmpi-4.1.4.so");
        assert_eq!(
            Shim { version: Version::new("5/../x"), ..shim }.file_name(),
            "openmpi-5_.._x.so"
        );
        for (text, why) in [
            ("nothing", "does not contain the mark"),
            ("syncline-mpi-shim abi=x end", "damaged"),
            ("syncline-mpi-shim abi=1 family=openmpi version=4 mpi=3", "damaged"),
            ("syncline-mpi-shim abi=1 family=lam version=4 mpi=3 end", "damaged"),
            (&mark(ABI + 1, "openmpi", "5"), "another version of Syncline (interface 2, not 1)"),
        ] {
            let error = read("b.so", text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("b.so"), "{error}");
        }
        fs::write(folder.path().join("c.so"), "text").unwrap();
        let error = Shim::read(&folder.path().join("c.so")).unwrap_err().to_string();
        assert!(
            error.ends_with("c.so is not a shim of Syncline: it is not a shared library"),
            "{error}"
        );
        let error = Shim::read(&folder.path().join("none.so")).unwrap_err().to_string();
        assert!(error.contains("none.so: No such file"), "{error}");
    }

    #[test]
    fn the_one_that_fits_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("absent"), folder.path().to_owned()];
        let choose =
            |family, major| wanted(family, major).choose(&folders).map(|shim| shim.file_name());
        assert!(matches!(choose(None, None), Err(MpiError::NoShim { .. })));
        write(folder.path(), "1.so", &mark(ABI, "mpich", "4.0.2"));
        write(folder.path(), "README", "");
        write(folder.path(), "0.so", "no shim");
        assert_eq!(choose(None, None).unwrap(), "mpich-4.0.2.so");
        assert_eq!(choose(Some(Family::IntelMpi), None).unwrap(), "mpich-4.0.2.so");
        let error = choose(Some(Family::OpenMpi), Some(5)).unwrap_err().to_string();
        let start = "a test needs an MPI, but there is no shim for it (only for MPICH 4.0.2): run \
                     `syncline mpi build --mpicc mpicc`";
        assert!(error.starts_with(start), "{error}");

        write(folder.path(), "2.so", &mark(ABI, "openmpi", "4.1.4"));
        assert!(matches!(choose(Some(Family::OpenMpi), Some(5)), Err(MpiError::NoShim { .. })));
        assert!(matches!(choose(None, None), Err(MpiError::Several { .. })));
        write(folder.path(), "3.so", &mark(ABI, "openmpi", "5.0.11"));
        write(folder.path(), "4.so", &mark(ABI, "openmpi", "5.0.2"));
        write(folder.path(), "5.so", &mark(ABI, "abi", "1.0"));
        assert_eq!(choose(Some(Family::OpenMpi), Some(5)).unwrap(), "openmpi-5.0.11.so");
        assert_eq!(choose(Some(Family::OpenMpi), Some(4)).unwrap(), "openmpi-4.1.4.so");
        assert_eq!(choose(Some(Family::OpenMpi), None).unwrap(), "openmpi-5.0.11.so");
        assert_eq!(choose(Some(Family::Mpich), None).unwrap(), "mpich-4.0.2.so");
    }

    #[test]
    fn an_old_shim_is_told_of_if_no_other_is_there() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "1.so", &mark(ABI + 6, "mpich", "4.0.2"));
        let error =
            wanted(Some(Family::Mpich), None).choose(&[folder.path().to_owned()]).unwrap_err();
        assert!(matches!(error, MpiError::Abi { found, .. } if found == ABI + 6));
    }
}

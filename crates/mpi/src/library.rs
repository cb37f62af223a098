//! A shim that is loaded, and with it the site's MPI.
//!
//! ```text
//!  the file says: ours? for which MPI?  ──>  has this process an MPI already? the same?  ──>  dlopen  ──>  its functions
//! ```
//!
//! Nothing is ever unloaded: MPIs leave threads and handlers behind.

use std::error::Error as _;
use std::ffi::{c_char, c_int};
use std::path::Path;

use libloading::os::unix::{Library as System, RTLD_GLOBAL, RTLD_NOW};

use crate::error::{MpiError, Result};
use crate::family::{Family, Version, identify, in_short};
use crate::ffi::{self, Calls};
use crate::launched::Launched;
use crate::shim::{Shim, Wanted};

/// A shim that is loaded.
#[derive(Clone, Debug)]
pub struct Library {
    pub(crate) calls: &'static Calls,
    shim: Shim,
    text: String,
}

impl Library {
    /// Loads the shim that fits the launcher of this process, or the MPI that the program has loaded itself.
    ///
    /// What `SYNCLINE_MPI` names comes first; then the user's folder, then that beside the program ([`folders`](crate::shim::folders)).
    ///
    /// # Errors
    /// [`MpiError::NoShim`], [`MpiError::Several`], [`MpiError::OtherMpi`], and those of [`Library::load`].
    pub fn find(launched: &Launched) -> Result<Library> {
        if let Some(library) = Library::of_this_program()? {
            return Ok(library);
        }
        Library::load(&Wanted::of(launched).find()?.path)
    }

    /// Loads the shim for the MPI that this program has loaded itself; `None` if it has none.
    ///
    /// # Errors
    /// As [`Library::find`].
    pub fn of_this_program() -> Result<Option<Library>> {
        let Some(text) = process_version() else { return Ok(None) };
        Library::load(&Wanted::by_program(&text).find()?.path).map(Some)
    }

    /// Loads a shim.
    ///
    /// # Errors
    /// [`MpiError::NotAShim`] and [`MpiError::Abi`] for a file that is not ours, [`MpiError::Process`] if this program
    /// uses another MPI, [`MpiError::NoLibrary`] and [`MpiError::Load`] if the system's loader refuses it.
    pub fn load(path: &Path) -> Result<Library> {
        let shim = Shim::read(path)?;
        if let Some(process) = process_version()
            && !Wanted::by_program(&process).takes(&shim)
        {
            let Shim { path, family, version, .. } = shim;
            return Err(MpiError::Process {
                shim: path,
                family,
                version,
                process: in_short(&process),
            });
        }
        // Without a slash, the loader would search its own folders.
        let full = path.canonicalize();
        let full = full.map_err(|source| MpiError::Io {
            what: "find the shim",
            path: path.to_owned(),
            source,
        })?;
        // SAFETY: the file says that it is a shim; loading it runs the initialisers of the site's MPI, as starting any
        // MPI program does. Global, because components that some MPIs load later look for the MPI's symbols.
        let system = unsafe { System::open(Some(&full), RTLD_NOW | RTLD_GLOBAL) };
        let refused = |error: libloading::Error| {
            // What the loader says is the source; the error itself names the call only.
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            refusal(path, &why)
        };
        let system = system.map_err(refused)?;
        // SAFETY: it says that it has our interface, and is never unloaded: see below.
        let calls = unsafe { Calls::of(&system) };
        std::mem::forget(system);
        let calls: &'static Calls = Box::leak(Box::new(calls.map_err(refused)?));
        // SAFETY: takes nothing, and may be called at any time.
        let abi = unsafe { (calls.abi)() };
        if abi != crate::shim::ABI as c_int {
            let (shim, found) = (path.to_owned(), abi as u32);
            return Err(MpiError::Abi { shim, found, expected: crate::shim::ABI });
        }
        // SAFETY: the room is as long as the function is told; MPI answers this before it is initialised.
        let text = ffi::text(|into, room| unsafe { (calls.library_version)(into, room) });
        Ok(Library { calls, shim, text: text.unwrap_or_default() })
    }

    /// The shim.
    #[must_use]
    pub fn shim(&self) -> &Shim {
        &self.shim
    }

    /// Whose MPI it is, as the library itself says.
    #[must_use]
    pub fn family(&self) -> Family {
        identify(&self.text).0
    }

    /// Of which version, if the library says so.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        identify(&self.text).1
    }

    /// All that the library says of itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first line of that.
    #[must_use]
    pub fn name(&self) -> String {
        in_short(&self.text)
    }

    /// Whether there are calls for failures of processes. That they are there does not mean that a job
    /// [survives](Self::survives) one: MPICH 4.0 aborts in them, unless all of it is on one host.
    #[must_use]
    pub fn has_ulfm(&self) -> bool {
        self.shim.ulfm
    }

    /// Whether a job goes on when a process has died: that of Open MPI 5, under `mpirun --with-ft ulfm`.
    #[must_use]
    pub fn survives(&self) -> bool {
        let told = std::env::var("OMPI_MCA_mpi_ft_enable");
        let told = told
            .is_ok_and(|told| ["1", "true", "yes", "on"].contains(&told.to_lowercase().as_str()));
        let major = self.version().and_then(|version| version.major());
        told && self.has_ulfm() && self.family() == Family::OpenMpi && major >= Some(5)
    }
}

impl Library {
    /// Whether it is the MPI that the launcher is of; some abort the process when it is not.
    pub(crate) fn check_launcher(&self, launched: &Launched) -> Result<()> {
        let mut shim = self.shim.clone();
        if let (Family::StandardAbi, (family, Some(version))) = (shim.family, identify(&self.text))
        {
            (shim.family, shim.version) = (family, version);
        }
        let wanted = Wanted::of(launched);
        if wanted.takes(&shim) {
            return Ok(());
        }
        let Shim { path, family, version, .. } = shim;
        Err(MpiError::OtherMpi { shim: path, family, version, who: wanted.who })
    }
}

/// What the MPI that this process has loaded, whoever did, says of itself.
fn process_version() -> Option<String> {
    let process = System::this();
    type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: whatever has this name in a process is MPI's function, which has this type in all of them.
    let version = unsafe { process.get::<GetLibraryVersion>(b"MPI_Get_library_version") }.ok()?;
    let mut length: c_int = 0;
    // SAFETY: the room is as long as MPI_MAX_LIBRARY_VERSION_STRING is in any MPI, which may be called before it is
    // initialised.
    ffi::text(|into, _| unsafe { version(into, &raw mut length) }).ok()
}

/// What the loader says, with the cause that is met most told apart.
fn refusal(shim: &Path, why: &str) -> MpiError {
    let missing = why.split_once(": cannot open shared object file").map(|(before, _)| before);
    let library = missing.and_then(|before| before.rsplit([' ', ':']).next());
    match library {
        Some(library) if !library.is_empty() && !library.contains('/') => {
            MpiError::NoLibrary { shim: shim.to_owned(), library: library.to_owned() }
        }
        _ => MpiError::Load { shim: shim.to_owned(), why: why.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named() {
        let why = "libmpi.so.40: cannot open shared object file: No such file or directory";
        let error = refusal(Path::new("/x/openmpi.so"), why).to_string();
        assert!(
            error.starts_with("the shim /x/openmpi.so needs libmpi.so.40, which is not found"),
            "{error}"
        );
        let error = refusal(Path::new("/x/openmpi.so"), "undefined symbol: MPI_Init").to_string();
        assert_eq!(error, "cannot load the shim /x/openmpi.so: undefined symbol: MPI_Init");
    }
}

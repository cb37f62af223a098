//! A loaded shim, and with it the site's MPI.
//!
//! ```text
//!  the file: our ABI? which MPI?  ──>  does this process have an MPI? the same?  ──>  dlopen  ──>
//! symbols
//! ```
//!
//! No library is ever unloaded: MPIs leave threads and handlers behind.

use std::error::Error as _;
use std::ffi::{c_char, c_int};
use std::path::Path;

use libloading::os::unix::{Library as System, RTLD_GLOBAL, RTLD_NOW};

use crate::error::{MpiError, Result};
use crate::family::{Family, Version, identify, in_short};
use crate::ffi::{self, Calls};
use crate::first_use;
use crate::launched::Launched;
use crate::shim::{Shim, Wanted};

/// A loaded shim.
#[derive(Clone, Debug)]
pub struct Library {
    pub(crate) calls: &'static Calls,
    shim: Shim,
    text: String,
}

impl Library {
    /// Loads the shim that fits the MPI that the program has loaded itself, or else the launcher of
    /// this process.
    ///
    /// The shim that `SYNCLINE_MPI` names has precedence; then the user's folder is searched, then
    /// the one beside the program ([`folders`](crate::shim::folders)). If there is none, one of the
    /// processes that call this at the same time builds it into the user's folder, and says so on
    /// standard error.
    ///
    /// # Errors
    /// [`MpiError::Unbuilt`], [`MpiError::Several`], [`MpiError::OtherMpi`], and those of
    /// [`Library::load`].
    pub fn find(launched: &Launched) -> Result<Library> {
        if let Some(library) = Library::of_this_program()? {
            return Ok(library);
        }
        Library::load(&first_use::find(&Wanted::of(launched))?.path)
    }

    /// Loads the shim for the MPI that this program has loaded itself. Returns `None` if the
    /// program has none.
    ///
    /// # Errors
    /// As [`Library::find`].
    pub fn of_this_program() -> Result<Option<Library>> {
        let Some(text) = process_version() else { return Ok(None) };
        Library::load(&first_use::find(&Wanted::by_program(&text))?.path).map(Some)
    }

    /// Loads the shim at `path`.
    ///
    /// # Errors
    /// * [`MpiError::NotAShim`] or [`MpiError::Abi`] if the file is not a shim of this version.
    /// * [`MpiError::Process`] if this program uses another MPI.
    /// * [`MpiError::NoLibrary`] or [`MpiError::Load`] if the system's loader refuses the file.
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
        // A path without a slash would make the loader search its own folders.
        let full = path.canonicalize();
        let full = full.map_err(|source| MpiError::Io {
            what: "find the shim",
            path: path.to_owned(),
            source,
        })?;
        // SAFETY: the file declares itself a shim; loading it runs the initialisers of the site's
        // MPI, as the start of any MPI program does. RTLD_GLOBAL, because components that some MPIs
        // load later look for the MPI's symbols.
        let system = unsafe { System::open(Some(&full), RTLD_NOW | RTLD_GLOBAL) };
        let refused = |error: libloading::Error| {
            // The source holds the loader's message; the error itself names the call only.
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            refusal(path, &why)
        };
        let system = system.map_err(refused)?;
        // SAFETY: the file declares our ABI, and `forget` below keeps the library loaded.
        let calls = unsafe { Calls::of(&system) };
        std::mem::forget(system);
        let calls: &'static Calls = Box::leak(Box::new(calls.map_err(refused)?));
        // SAFETY: the function takes no arguments and may be called at any time.
        let abi = unsafe { (calls.abi)() };
        if abi != crate::shim::ABI as c_int {
            let (shim, found) = (path.to_owned(), abi as u32);
            return Err(MpiError::Abi { shim, found, expected: crate::shim::ABI });
        }
        // SAFETY: `into` is valid for writes of `room` bytes; MPI answers this before it is
        // initialised.
        let text = ffi::text(|into, room| unsafe { (calls.library_version)(into, room) });
        Ok(Library { calls, shim, text: text.unwrap_or_default() })
    }

    /// Returns the shim.
    #[must_use]
    pub fn shim(&self) -> &Shim {
        &self.shim
    }

    /// Returns the family of the MPI, as the library itself reports it.
    #[must_use]
    pub fn family(&self) -> Family {
        identify(&self.text).0
    }

    /// Returns the version of the MPI, if the library reports it.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        identify(&self.text).1
    }

    /// Returns the whole text with which the library describes itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first line of that text.
    #[must_use]
    pub fn name(&self) -> String {
        in_short(&self.text)
    }

    /// Whether the shim has the calls for failures of processes. They do not imply that a job
    /// [survives](Self::survives) one: MPICH 4.0 aborts in them unless the whole job is on one
    /// host.
    #[must_use]
    pub fn has_ulfm(&self) -> bool {
        self.shim.ulfm
    }

    /// Whether a job continues when a process has died: only that of Open MPI 5, under `mpirun
    /// --with-ft ulfm`.
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
    /// Checks that this is the MPI that the launcher expects. Some MPIs abort the process if it is
    /// not.
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
        Err(MpiError::OtherMpi { shim: path, family, version, cause: wanted.cause })
    }
}

/// Returns the description of the MPI that this process has loaded by any means.
fn process_version() -> Option<String> {
    let process = System::this();
    type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: a function of this name in a process is MPI's, which has this type in every MPI.
    let version = unsafe { process.get::<GetLibraryVersion>(b"MPI_Get_library_version") }.ok()?;
    let mut length: c_int = 0;
    // SAFETY: the buffer of `ffi::text` has 8192 bytes, which is MPI_MAX_LIBRARY_VERSION_STRING or
    // more in every MPI; `length` is valid for a write; MPI answers this before it is initialised.
    ffi::text(|into, _| unsafe { version(into, &raw mut length) }).ok()
}

/// Turns the loader's message into an error. The most frequent cause, a missing library, has its
/// own.
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

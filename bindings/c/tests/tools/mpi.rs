//! The MPIs of this machine, and programs that are compiled with them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::tools::{Tool, libraries, root};

/// An MPI: its compilers, its launcher, what that is told first, and how it is told to set a
/// variable.
pub(crate) struct Mpi {
    c: &'static str,
    #[allow(dead_code, reason = "not all tests are in Fortran")]
    pub(crate) fortran: &'static str,
    pub(crate) launcher: &'static str,
    options: &'static [&'static str],
    set: fn(&str, &str) -> Vec<String>,
}

pub(crate) static MPIS: [Mpi; 2] = [
    Mpi {
        c: "mpicc.openmpi",
        fortran: "mpifort.openmpi",
        launcher: "mpirun.openmpi",
        options: &["--oversubscribe"],
        set: |name, value| vec!["-x".to_owned(), format!("{name}={value}")],
    },
    Mpi {
        c: "mpicc.mpich",
        fortran: "mpifort.mpich",
        launcher: "mpiexec.mpich",
        options: &[],
        set: |name, value| vec!["-genv".to_owned(), name.to_owned(), value.to_owned()],
    },
];

/// One whose jobs outlive a process: what `make mpi-wheels` installs.
#[allow(dead_code, reason = "not all tests survive")]
pub(crate) static SURVIVOR: Mpi = Mpi {
    c: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpicc"),
    fortran: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpifort"),
    launcher: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpirun"),
    options: &["--oversubscribe", "--with-ft", "ulfm"],
    set: |name, value| vec!["-x".to_owned(), format!("{name}={value}")],
};

/// An MPI that is here, with its shim, and a folder for what is compiled.
pub(crate) struct Site {
    pub(crate) mpi: &'static Mpi,
    pub(crate) dir: TempDir,
    shim: PathBuf,
}

#[allow(dead_code, reason = "not all tests go through all")]
pub(crate) fn sites() -> impl Iterator<Item = Site> {
    MPIS.iter().filter_map(Site::find)
}

impl Site {
    pub(crate) fn find(mpi: &'static Mpi) -> Option<Site> {
        Tool::find(mpi.c)?;
        Tool::find(mpi.launcher)?;
        let dir = tempfile::tempdir().unwrap();
        let built = syncline_mpi::build(OsStr::new(mpi.c), dir.path()).unwrap();
        let named = dir.path().join("libsyncline_c.so.0.1");
        std::os::unix::fs::symlink(libraries().join("libsyncline_c.so"), named).unwrap();
        Some(Site { mpi, dir, shim: built.shim.path })
    }

    /// Compiles something, with our library or without.
    pub(crate) fn compile(
        &self,
        tool: Tool,
        source: &str,
        to: &str,
        ours: bool,
        options: &[&str],
    ) -> PathBuf {
        let made = self.dir.path().join(to);
        let mut arguments = options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>();
        arguments.extend([
            root().join(source).display().to_string(),
            "-o".into(),
            made.display().to_string(),
        ]);
        if ours {
            arguments.extend([
                format!("-I{}", root().join("include").display()),
                format!("-L{}", libraries().display()),
                format!("-Wl,-rpath,{}", self.dir.path().display()),
                "-l:libsyncline_c.so".to_owned(),
            ]);
        }
        tool.run(arguments);
        made
    }

    pub(crate) fn c(&self) -> Tool {
        Tool::find(self.mpi.c).expect("it was found before")
    }

    /// A program in `processes` processes, `per_host` of them on each host.
    pub(crate) fn run(
        &self,
        program: &Path,
        processes: &str,
        per_host: &str,
        preload: Option<&Path>,
    ) -> Command {
        let mut command = Command::new(self.mpi.launcher);
        command.args(self.mpi.options).args(["-n", processes]);
        if let Some(library) = preload {
            command.args((self.mpi.set)("LD_PRELOAD", &library.display().to_string()));
        }
        command.arg(program);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("SYNCLINE_MPI", &self.shim).env("SYNCLINE_PER_HOST", per_host);
        command.env("SYNCLINE_QUIET", "1").env("SYNCLINE_PMPI_VERBOSE", "1");
        // A loaded machine may keep a process from a processor for long. Those that die here are
        // reported by MPI. A test of silence says its own.
        command.env("SYNCLINE_TIMEOUT", "300000");
        command
    }
}

pub(crate) const STRICT: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

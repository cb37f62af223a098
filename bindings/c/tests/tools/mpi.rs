//! The MPIs of this machine, and programs that are compiled with them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use syncline_testkit::Tool;
use syncline_testkit::mpi::{MPIS, Mpi};

use super::{SHARED, compiled};

/// An MPI of the machine, with its shim and a folder for compiled programs.
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
        if !mpi.is_here() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let shim =
            mpi.shim(|compiler, into| drop(syncline_mpi::build::build(compiler, into).unwrap()));
        Some(Site { mpi, dir, shim })
    }

    /// Compiles a program in C, with the Syncline library or without.
    pub(crate) fn compile(&self, source: &str, ours: bool, options: &[&str]) -> PathBuf {
        compiled(self.c(), source, options, if ours { &SHARED } else { &[] })
    }

    fn c(&self) -> Tool {
        Tool::find(self.mpi.c).expect("it was found before")
    }

    /// Returns a command for a program in `processes` processes, `per_host` of them on each host.
    pub(crate) fn run(
        &self,
        program: &Path,
        processes: &str,
        per_host: &str,
        preload: Option<&Path>,
    ) -> Command {
        let preload = preload.map(|library| library.display().to_string());
        let variables = preload.as_deref().map(|library| ("LD_PRELOAD", library));
        let mut command = self.mpi.run(program, processes, variables.as_slice());
        command.env("SYNCLINE_MPI", &self.shim).env("SYNCLINE_PER_HOST", per_host);
        command.env("SYNCLINE_QUIET", "1").env("SYNCLINE_PMPI_VERBOSE", "1");
        // On a loaded machine a process may wait long for a core. MPI reports processes that die
        // here. A test of silence sets its own limit.
        command.env("SYNCLINE_TIMEOUT", "300000");
        command
    }
}

pub(crate) const STRICT: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

//! The MPIs of this machine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Tool, kept};

/// An MPI: its compilers, its launcher, and how that is told things.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    /// What it is called.
    pub name: &'static str,
    /// Its compiler of C.
    pub c: &'static str,
    /// Its compiler of Fortran.
    pub fortran: &'static str,
    /// What starts programs.
    pub launcher: &'static str,
    options: &'static [&'static str],
    /// What tells the launcher to set a variable: the option, and what stands between name and value.
    set: (&'static str, Option<char>),
}

/// Those of Debian.
pub static MPIS: [Mpi; 2] = [
    Mpi {
        name: "Open MPI",
        c: "mpicc.openmpi",
        fortran: "mpifort.openmpi",
        launcher: "mpirun.openmpi",
        options: &["--oversubscribe"],
        set: ("-x", Some('=')),
    },
    Mpi {
        name: "MPICH",
        c: "mpicc.mpich",
        fortran: "mpifort.mpich",
        launcher: "mpiexec.mpich",
        options: &[],
        set: ("-genv", None),
    },
];

/// One whose jobs go on when a process dies: what `make mpi-wheels` installs.
pub static SURVIVOR: Mpi = Mpi {
    name: "Open MPI 5",
    c: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpicc"),
    fortran: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpifort"),
    launcher: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpirun"),
    options: &["--oversubscribe", "--with-ft", "ulfm"],
    set: ("-x", Some('=')),
};

impl Mpi {
    /// Whether compiler and launcher are here; else says that something is skipped.
    #[must_use]
    pub fn is_here(&self) -> bool {
        Tool::find(self.c).is_some() && Tool::find(self.launcher).is_some()
    }

    /// The shim for it, which `build` makes for a compiler in a folder: once for all tests, until its
    /// sources or the compiler change.
    ///
    /// # Panics
    /// If no file is made.
    pub fn shim(&self, build: impl FnOnce(&OsStr, &Path)) -> PathBuf {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/mpi");
        let sources = ["shim/shim.c", "shim/window.h", "shim/failures.h", "src/build.rs"];
        let sources =
            sources.map(|name| fs::read(package.join(name)).expect("a source of the shim"));
        let key = sources.into_iter().chain([Tool(self.c).version().into_bytes()]);
        let folder =
            kept(&format!("shim for {}", self.name), key, |into| build(self.c.as_ref(), into));
        let mut made = fs::read_dir(folder).expect("a folder that is there");
        made.next().expect("a shim").expect("a name").path()
    }

    /// `program` in `processes` processes, started by the launcher, with variables that it sets for them
    /// only. Arguments of the program may follow.
    pub fn run(
        &self,
        program: impl AsRef<OsStr>,
        processes: &str,
        variables: &[(&str, &str)],
    ) -> Command {
        let mut command = Command::new(self.launcher);
        command.args(self.options).args(["-n", processes]);
        for (name, value) in variables {
            match self.set {
                (option, Some(equals)) => command.args([option, &format!("{name}{equals}{value}")]),
                (option, None) => command.args([option, name, value]),
            };
        }
        command.arg(program);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }
}

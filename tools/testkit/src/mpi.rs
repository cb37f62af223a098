//! The MPI installations of this machine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Tool, kept};

/// An MPI installation: its compilers, its launcher, and the launcher's options.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    /// The name of the implementation.
    pub name: &'static str,
    /// The C compiler.
    pub c: &'static str,
    /// The Fortran compiler.
    pub fortran: &'static str,
    /// The program that starts MPI jobs.
    pub launcher: &'static str,
    options: &'static [&'static str],
    /// The launcher's syntax to set a variable: the option, and the separator between name and
    /// value.
    set: (&'static str, Option<char>),
}

/// The MPI implementations that Debian packages.
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

/// An MPI whose jobs continue when a process dies, installed by `make mpi-wheels`.
pub static SURVIVOR: Mpi = Mpi {
    name: "Open MPI 5",
    c: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpicc"),
    fortran: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpifort"),
    launcher: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpirun"),
    options: &["--oversubscribe", "--with-ft", "ulfm"],
    set: ("-x", Some('=')),
};

/// Returns the number of MPIs that this run tries: one in the quick tier.
#[must_use]
pub fn most() -> usize {
    if crate::tier::is_quick() { 1 } else { usize::MAX }
}

impl Mpi {
    /// Returns whether this run tries the MPI: compiler and launcher are installed, and it is among
    /// the first [`most`] that are. Otherwise prints that tests are skipped.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let is_installed =
            |mpi: &Mpi| Tool::find(mpi.c).is_some() && Tool::find(mpi.launcher).is_some();
        if !is_installed(self) {
            return false;
        }
        let all = MPIS.iter().chain([&SURVIVOR]);
        let before = all.take_while(|mpi| mpi.name != self.name).filter(|mpi| is_installed(mpi));
        let is_tried = before.count() < most();
        if !is_tried {
            println!("skipped: {}: only `make test-full` tries a second MPI", self.name);
        }
        is_tried
    }

    /// Returns the shim for this MPI. `build` gets a compiler and a folder to build it in; it runs
    /// once for all tests, until the sources of the shim or the compiler change.
    ///
    /// # Panics
    /// If the shim is not built.
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

    /// Returns a command that runs `program` in `processes` processes under the launcher, with
    /// variables that the launcher sets in those processes only. Arguments of the program may be
    /// appended.
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

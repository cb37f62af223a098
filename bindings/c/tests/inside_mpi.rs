//! Teams within programs of MPI, in C and Fortran, under every MPI that is here: all processes on one host, and as if on several.

mod tools;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use tools::{Tool, libraries, output, root, succeed};

/// An MPI: its compilers, its launcher, what that is told first, and how it is told to set a variable.
struct Mpi {
    c: &'static str,
    fortran: &'static str,
    launcher: &'static str,
    options: &'static [&'static str],
    set: fn(&str, &str) -> Vec<String>,
}

const MPIS: [Mpi; 2] = [
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
static SURVIVOR: Mpi = Mpi {
    c: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpicc"),
    fortran: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpifort"),
    launcher: concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mpi/openmpi5/bin/mpirun"),
    options: &["--oversubscribe", "--with-ft", "ulfm"],
    set: MPIS[0].set,
};

/// An MPI that is here, with its shim, and a folder for what is compiled.
struct Site {
    mpi: &'static Mpi,
    dir: TempDir,
    shim: PathBuf,
}

fn sites() -> impl Iterator<Item = Site> {
    MPIS.iter().filter_map(Site::find)
}

impl Site {
    fn find(mpi: &'static Mpi) -> Option<Site> {
        Tool::find(mpi.c)?;
        let dir = tempfile::tempdir().unwrap();
        let built = syncline_mpi::build(OsStr::new(mpi.c), dir.path()).unwrap();
        let named = dir.path().join("libsyncline_c.so.0.1");
        std::os::unix::fs::symlink(libraries().join("libsyncline_c.so"), named).unwrap();
        Some(Site { mpi, dir, shim: built.shim.path })
    }

    /// Compiles something, with our library or without.
    fn compile(&self, tool: Tool, source: &str, to: &str, ours: bool, options: &[&str]) -> PathBuf {
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

    fn c(&self) -> Tool {
        Tool::find(self.mpi.c).expect("it was found before")
    }

    /// A program in so many processes, of which so many are on a host.
    fn run(&self, program: &Path, processes: &str, per_host: &str, preload: Option<&Path>) -> Command {
        let mut command = Command::new(self.mpi.launcher);
        command.args(self.mpi.options).args(["-n", processes]);
        if let Some(library) = preload {
            command.args((self.mpi.set)("LD_PRELOAD", &library.display().to_string()));
        }
        command.arg(program);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("SYNCLINE_MPI", &self.shim).env("SYNCLINE_PER_HOST", per_host);
        command.env("SYNCLINE_QUIET", "1").env("SYNCLINE_TIMEOUT", "20000").env("SYNCLINE_PMPI_VERBOSE", "1");
        command
    }
}

const STRICT: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

#[test]
fn a_program_of_mpi_has_a_team_within() {
    for site in sites() {
        let program = site.compile(site.c(), "examples/mpi_inside.c", "program", true, &STRICT);
        for (processes, per_host) in [("2", "9"), ("3", "1"), ("4", "2")] {
            let said = succeed(&mut site.run(&program, processes, per_host, None));
            let what = format!("{}, {processes}, {per_host} on a host", site.mpi.launcher);
            assert_eq!(said, "every draw is in a bin\n", "{what}");
        }
    }
}

#[test]
fn what_a_program_does_wrong_has_a_status_of_its_own() {
    // No MPI at all.
    // SAFETY: the function is not called, and nothing is written.
    let status = unsafe {
        syncline_c::teams::syncline_team_run_mpi(0, std::ptr::null(), Some(never), std::ptr::null_mut())
    };
    assert_eq!(status, syncline_c::status::Status::NoMpi);
    for site in sites() {
        let flags = [&STRICT[..], &["-pthread"]].concat();
        let program = site.compile(site.c(), "tests/mpi/refused.c", "refused", true, &flags);
        let what = site.mpi.launcher;
        let said = succeed(site.run(&program, "3", "9", None).arg("with a shim"));
        assert_eq!(said, "refused, each by its name\n", "{what}");
        let nowhere = site.dir.path().join("nowhere");
        let mut command = site.run(&program, "2", "9", None);
        let said = succeed(command.env_remove("SYNCLINE_MPI").env("XDG_DATA_HOME", nowhere));
        assert_eq!(said, "refused, each by its name\n", "{what}");
    }
}

unsafe extern "C-unwind" fn never(
    _: *mut syncline_c::teams::TeamMember<'_>,
    _: *mut std::ffi::c_void,
) -> std::ffi::c_int {
    1
}

#[test]
fn those_who_are_left_go_on() {
    let Some(site) = Site::find(&SURVIVOR) else { return };
    let program = site.compile(site.c(), "examples/survivors.c", "survivors", true, &STRICT);
    for (processes, per_host, left) in [("3", "9", 2), ("4", "1", 3), ("5", "2", 4), ("2", "1", 1)] {
        let said = succeed(&mut site.run(&program, processes, per_host, None));
        assert_eq!(
            said,
            format!("100 steps done, the last of them by {left}, 1 died\n"),
            "{processes}, {per_host}"
        );
    }
}

#[test]
fn barriers_of_a_program_as_it_is_are_taken_over() {
    // Of MPI's levels, as all MPIs number them: those of threads are 0 to 3.
    for site in sites() {
        let library = [&STRICT[..], &["-O2", "-shared", "-fPIC"]].concat();
        let preload = site.compile(site.c(), "pmpi/pmpi.c", "libsyncline_pmpi.so", true, &library);
        let foreign = site.compile(site.c(), "tests/mpi/foreign.c", "foreign", false, &STRICT);
        for (processes, per_host, level) in [
            ("2", "9", "0"),
            ("4", "9", "0"),
            ("3", "1", "0"),
            ("4", "2", "0"),
            ("4", "2", "3"),
            ("3", "9", "2"),
        ] {
            let mut command = site.run(&foreign, processes, per_host, Some(&preload));
            let Output { status, stdout, stderr } = output(command.arg(level));
            let (said, wrong) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            let what =
                format!("{}, {processes}, {per_host} on a host, level {level}\n{wrong}", site.mpi.launcher);
            assert!(status.success(), "{what}");
            assert_eq!(said, "0 of 200 barriers were left too early\n", "{what}");
            let taken = wrong.contains("200 calls of MPI_Barrier were taken over");
            let left = wrong.contains("MPI_Barrier stays MPI's own");
            assert!(taken != left, "{what}");
            // An MPI may grant more than it was asked for.
            assert!(taken || level == "2", "{what}");
        }
        let Some(compiler) = Tool::find(site.mpi.fortran) else { continue };
        let foreign = site.compile(compiler, "tests/mpi/foreign.f90", "foreign_f", false, &[]);
        let Output { status, stderr, .. } = output(&mut site.run(&foreign, "3", "9", Some(&preload)));
        let wrong = String::from_utf8_lossy(&stderr);
        assert!(
            status.success() && wrong.contains("50 calls of MPI_Barrier"),
            "{}: {wrong}",
            site.mpi.fortran
        );
    }
}

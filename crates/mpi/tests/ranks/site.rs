//! The MPIs of this machine: compilers, launchers, and shims that are built once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use syncline_mpi::{
    build::{build, compilers},
    shim::{Family, Shim},
};
use syncline_testkit::{as_role, mpi::most};

/// The number of seconds after which a run that has not ended is killed.
const DEADLINE: &str = "400";

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shim: Shim,
    pub(crate) mpicc: PathBuf,
    launcher: PathBuf,
}

struct Sites {
    all: Vec<Site>,
    /// The value of `XDG_DATA_HOME` for the ranks.
    data: PathBuf,
}

impl Site {
    /// Whether a job continues when a process has died.
    pub(crate) fn survives(&self) -> bool {
        self.shim.family == Family::OpenMpi
            && self.shim.version.major() >= Some(5)
            && self.shim.ulfm
    }
}

fn known() -> &'static Sites {
    static SITES: OnceLock<Sites> = OnceLock::new();
    SITES.get_or_init(|| {
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ranks");
        // Shims of an earlier run may be for MPIs that were removed.
        let _ = std::fs::remove_dir_all(&data);
        let more = std::env::var_os("SYNCLINE_TEST_MPI").unwrap_or_default();
        let more = std::env::split_paths(&more).filter(|path| path.is_file());
        let mut all: Vec<Site> = Vec::new();
        for mpicc in compilers().into_iter().chain(more).take(most()) {
            let name = mpicc.file_name().unwrap().to_string_lossy().into_owned();
            let launchers = [
                name.replace("mpicc", "mpirun"),
                name.replace("mpicc", "mpiexec"),
                "mpirun".to_owned(),
            ];
            let mut launchers = launchers.iter().map(|launcher| mpicc.with_file_name(launcher));
            let Some(launcher) = launchers.find(|path| path.is_file()) else {
                println!("skipped: there is no launcher beside {}", mpicc.display());
                continue;
            };
            let built = build(mpicc.as_os_str(), &data.join("syncline/mpi")).unwrap();
            println!("{}: {} {}", mpicc.display(), built.shim.family, built.shim.version);
            assert!(built.without.is_empty(), "{built:?}");
            if all.iter().all(|site| site.shim != built.shim) {
                all.push(Site { shim: built.shim, mpicc, launcher });
            }
        }
        Sites { all, data }
    })
}

pub(crate) fn sites() -> &'static [Site] {
    &known().all
}

/// Returns a command by which `starter` runs this program in a role.
fn in_role(starter: &Path, options: &[&str], role: &str, more: &[(&str, &OsStr)]) -> Command {
    // A run that hangs is killed, and the test fails.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", DEADLINE]).arg(starter).args(options);
    command.args(as_role("role_of_a_process")).arg("--test-threads=1");
    command.env("XDG_DATA_HOME", &known().data).env("SYNCLINE_TEST_ROLE", role);
    command.env_remove("SYNCLINE_MPI").envs(more.iter().copied()).stdin(Stdio::null());
    command
}

/// Runs a role under a launcher, and checks that every rank has completed it. Returns what was
/// written to standard error.
pub(crate) fn run(site: &Site, role: &str, ranks: usize, more: &[(&str, &OsStr)]) -> String {
    let exe = std::env::current_exe().unwrap();
    let (ranks_text, exe) = (ranks.to_string(), exe.to_str().unwrap());
    let mut options = Vec::new();
    if site.shim.family == Family::OpenMpi {
        options.push("--oversubscribe");
        if site.survives() && role == "failures" {
            options.extend(["--with-ft", "ulfm"]);
        }
    }
    options.extend(["-n", ranks_text.as_str(), exe]);
    let library =
        if role == "guest" || role == "stranger" { program(site) } else { PathBuf::new() };
    let mut command = in_role(&site.launcher, &options, role, more);
    // The version of a standard-ABI shim does not identify the MPI, so `find` ranks it last.
    if site.shim.family == Family::StandardAbi && more.is_empty() {
        command.env("SYNCLINE_MPI", &site.shim.path);
    }
    command.env("SYNCLINE_TEST_PROGRAM", library);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    let dead = usize::from(role == "failures");
    check(
        &mut command,
        &format!("{role} of {ranks} by {}", site.launcher.display()),
        ranks - dead,
        dead > 0,
    )
}

/// Runs a role without a launcher.
pub(crate) fn run_alone(site: &Site, role: &str) {
    let more = [("SYNCLINE_TEST_SHIM", site.shim.path.as_os_str())];
    let mut command = in_role(&std::env::current_exe().unwrap(), &[], role, &more);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    check(&mut command, &format!("{role} with {}", site.shim.path.display()), 1, false);
}

fn check(command: &mut Command, what: &str, good: usize, may_fail: bool) -> String {
    let output = command.output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let all = format!("{what}: {}\n{said}\n{errors}", output.status);
    assert!(may_fail || output.status.success(), "{all}");
    assert_eq!(said.matches("has played to its end").count(), good, "{all}");
    errors.into_owned()
}

/// Compiles a library that stands for a program's own use of MPI: it initialises MPI and lends half
/// of the world.
fn program(site: &Site) -> PathBuf {
    const SOURCE: &str = "
        #include <mpi.h>
        static MPI_Comm half;
        int begin(void) {
            int granted, rank;
            MPI_Init_thread(0, 0, MPI_THREAD_FUNNELED, &granted);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &half);
        #ifdef MPI_ABI
            return MPI_Comm_toint(half);
        #else
            return (int)MPI_Comm_c2f(half);
        #endif
        }
        int end(void) {
            int ended = 1;
            MPI_Finalized(&ended);
            if (!ended) MPI_Comm_free(&half), MPI_Barrier(MPI_COMM_WORLD), MPI_Finalize();
            return ended;
        }";
    let name = site.shim.file_name();
    let library = known().data.join(format!("program-{name}"));
    let source = library.with_extension("c");
    std::fs::write(&source, SOURCE).unwrap();
    // Compiled under a temporary name first, as other tests may load the final file.
    let made = tempfile::NamedTempFile::new_in(&known().data).unwrap();
    let status = Command::new(&site.mpicc)
        .args(["-shared", "-fPIC", "-o"])
        .args([made.path(), &source])
        .status()
        .unwrap();
    assert!(status.success());
    made.persist(&library).unwrap();
    library
}

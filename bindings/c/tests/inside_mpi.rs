//! Teams within programs of MPI, in C, under every MPI that is here: all processes on one host, and as if on several.

mod tools;

use std::ffi::OsStr;
use std::process::Command;

use tools::{Tool, libraries, root, succeed};

/// Compiler, launcher, and what it is told first.
const MPIS: [(&str, &str, &[&str]); 2] =
    [("mpicc.openmpi", "mpirun.openmpi", &["--oversubscribe"]), ("mpicc.mpich", "mpiexec.mpich", &[])];

#[test]
fn a_program_of_mpi_has_a_team_within() {
    for (compiler, launcher, options) in MPIS {
        let Some(tool) = Tool::find(compiler) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let built = syncline_mpi::build(OsStr::new(compiler), dir.path()).unwrap();
        let (program, folder) = (dir.path().join("program"), libraries());
        let (include, source) = (root().join("include"), root().join("examples/mpi_inside.c"));
        let named = dir.path().join("libsyncline_c.so.0.1");
        std::os::unix::fs::symlink(folder.join("libsyncline_c.so"), named).unwrap();
        let arguments = [
            "-Wall".to_owned(),
            "-Wextra".to_owned(),
            "-Werror".to_owned(),
            format!("-I{}", include.display()),
            source.display().to_string(),
            format!("-L{}", folder.display()),
            format!("-Wl,-rpath,{}", dir.path().display()),
            "-l:libsyncline_c.so".to_owned(),
            "-o".to_owned(),
            program.display().to_string(),
        ];
        tool.run(arguments);
        for (processes, per_host) in [("2", "9"), ("3", "1"), ("4", "2")] {
            let mut command = Command::new(launcher);
            command.args(options).args(["-n", processes]).arg(&program);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.env("SYNCLINE_MPI", &built.shim.path).env("SYNCLINE_PER_HOST", per_host);
            command.env("SYNCLINE_QUIET", "1").env("SYNCLINE_TIMEOUT", "20000");
            let said = succeed(&mut command);
            assert_eq!(said, "every draw is in a bin\n", "{launcher}, {processes}, {per_host} on a host");
        }
    }
}

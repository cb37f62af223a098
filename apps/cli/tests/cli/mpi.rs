//! `syncline mpi` and `syncline doctor`, with fake compilers, so that no MPI is needed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use syncline_testkit::mpi::MPIS;

use crate::common::{command, fails, has_marks, is_ignored, names, said, succeeds, until};
use crate::rma::{ends, under};

/// Writes a compiler that creates a file which claims to be a shim for this version of MPICH.
fn compiler(folder: &Path, name: &str, version: &str) {
    let script = format!(
        "#!/bin/sh\n\
         while [ \"$1\" != -o ]; do shift; done\n\
         printf '\\177ELF\\000syncline-mpi-shim abi=1 family=mpich version={version} mpi=4.0 ulfm=0 end\\000' >\"$2\"\n"
    );
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the command with only the compilers and shims of a folder.
fn alone(folder: &Path, line: &str) -> Command {
    let mut command = command(folder, line);
    command
        .env("PATH", folder.join("bin"))
        .env("XDG_DATA_HOME", folder.join("data"))
        .env_remove("SYNCLINE_MPI");
    command
}

/// Returns the values of a name in the checks of a doctor's report.
fn found<'r>(report: &'r Value, name: &str) -> Vec<&'r Value> {
    report["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name).collect()
}

#[test]
fn shims_are_built_for_all_compilers_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("bin")).unwrap();
    let error = fails(1, alone(path, "mpi build"), "mpi build");
    assert!(error.starts_with("no compiler of MPI is on the path"), "{error}");
    let list = succeeds(alone(path, "mpi list"), "mpi list");
    assert!(
        list.starts_with("no shims in the folder")
            && list.contains("the first program under an MPI, or `syncline mpi build`, makes them"),
        "{list}"
    );

    // A script needs a shell, which is found without the path.
    compiler(&path.join("bin"), "mpicc", "4.0.2");
    compiler(&path.join("bin"), "mpicc.mpich", "4.2.1");
    let built = succeeds(alone(path, "mpi build"), "mpi build");
    assert_eq!(built.lines().count(), 2, "{built}");
    assert!(built.contains("mpicc.mpich: MPICH 4.2.1, MPI 4.0: "), "{built}");
    let shims = path.join("data/syncline/mpi");
    assert_eq!(names(&shims), ["mpich-4.0.2.so", "mpich-4.2.1.so"]);

    fs::write(
        shims.join("old.so"),
        "\x7fELF syncline-mpi-shim abi=77 family=mpich version=4 mpi=4 end\0",
    )
    .unwrap();
    let list = succeeds(alone(path, "mpi list --json"), "mpi list --json");
    let list: Value = serde_json::from_str(&list).unwrap();
    let versions: Vec<_> =
        list["shims"].as_array().unwrap().iter().map(|shim| &shim["version"]).collect();
    assert_eq!(versions, [&Value::from("4.0.2"), &Value::from("4.2.1"), &Value::Null]);
    assert!(list["shims"][2]["error"].as_str().unwrap().contains("another version of Syncline"));
    let text = succeeds(alone(path, "mpi list"), "mpi list");
    assert_eq!(text.lines().count(), 3, "{text}");

    // A named library is listed, whatever it is.
    let mut named = alone(path, "mpi list");
    named.env("SYNCLINE_MPI", "/nowhere.so");
    let text = succeeds(named, "mpi list");
    assert!(text.starts_with("SYNCLINE_MPI: cannot read the shim /nowhere.so"), "{text}");
}

#[test]
fn a_compiler_that_fails_is_told_of_and_the_others_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("bin")).unwrap();
    compiler(&path.join("bin"), "good", "4.0.2");
    let line = "mpi build --mpicc /no/mpicc --into here";
    let error = fails(1, alone(path, line), line);
    assert!(error.starts_with("cannot run /no/mpicc: No such file"), "{error}");

    let output =
        alone(path, "mpi build --mpicc /no/mpicc --mpicc bin/good --into here").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("bin/good: MPICH 4.0.2"));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .starts_with("error: 1 of 2 compilers built no shim")
    );
    assert_eq!(names(&path.join("here")), ["mpich-4.0.2.so"]);

    let bad = path.join("bin/bad");
    fs::write(&bad, "#!/bin/sh\necho it is not my day >&2\nexit 1\n").unwrap();
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).unwrap();
    let output = alone(path, "mpi build --mpicc bin/bad --into here").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected =
        "it is not my day\nerror: bin/bad cannot compile the shim; what it says stands above\n";
    assert_eq!((stderr.as_str(), output.stdout.as_slice()), (expected, &b""[..]));
    assert_eq!(names(&path.join("here")), ["mpich-4.0.2.so"], "nothing is left of it");
}

#[test]
fn the_doctor_looks_at_all_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("bin")).unwrap();
    compiler(&path.join("bin"), "mpicc", "4.0.2");
    let report = || -> Value {
        serde_json::from_str(&succeeds(alone(path, "doctor --json"), "doctor --json")).unwrap()
    };
    let first = report();
    for name in [
        "kernel",
        "cores",
        "memory",
        "memfd",
        "pidfd",
        "membarrier",
        "open files",
        "processes",
        "network",
    ] {
        assert_eq!(found(&first, name).len(), 1, "{name}: {first}");
    }
    let shims = found(&first, "shims")[0];
    assert_eq!(shims["ok"], true);
    let expected = "none; the first program under an MPI builds its own in ";
    assert!(shims["found"].as_str().unwrap().starts_with(expected), "{shims}");
    // Where none can be built, that is a warning.
    for (data, advice) in [
        (None, "as neither XDG_DATA_HOME nor HOME is set"),
        (Some(path.join("bin/mpicc")), "no file can be written"),
    ] {
        let mut doctor = alone(path, "doctor --json");
        doctor.env_remove("HOME").env_remove("XDG_DATA_HOME");
        doctor.envs(data.map(|data| ("XDG_DATA_HOME", data)));
        let report: Value = serde_json::from_str(&succeeds(doctor, "doctor")).unwrap();
        let shims = found(&report, "shims")[0];
        assert_eq!(shims["ok"], false, "{shims}");
        let said = shims["advice"].as_str().unwrap();
        assert!(
            said.contains(advice) && said.contains("`syncline mpi build --into DIR`"),
            "{said}"
        );
    }
    assert!(found(&first, "waits")[0]["found"].as_str().unwrap().starts_with("drive MPI"));
    succeeds(alone(path, "mpi build"), "mpi build");
    let second = report();
    assert!(found(&second, "shims").is_empty());
    assert_eq!(found(&second, "shim").len(), 1);
    // The needs of a sweep come first: the disk of this folder, then memory.
    let order: Vec<_> = first["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(order[..5], ["folder", "speed", "direct I/O", "attributes", "memory"], "{first}");
    assert!(
        found(&first, "folder")[0]["found"]
            .as_str()
            .unwrap()
            .starts_with(path.canonicalize().unwrap().to_str().unwrap())
    );
    assert_eq!(found(&first, "attributes")[0]["ok"], has_marks(path), "{first}");
    assert_eq!(names(path), ["bin", "data"], "nothing is left of it");
    let there = succeeds(alone(path, "doctor bin"), "doctor bin");
    assert!(there.starts_with("disk\n  folder "), "{there}");
    assert!(there.lines().nth(1).unwrap().contains("/bin: "), "{there}");
    fs::write(path.join("bin/file"), "x").unwrap();
    let of_file = succeeds(alone(path, "doctor bin/file"), "doctor bin/file");
    assert!(of_file.lines().nth(1).unwrap().contains("/bin (the folder of file): "), "{of_file}");
    assert!(of_file.contains("attributes"), "{of_file}");
    // Where no file can be created, the report says nothing else about the disk.
    let nothing = succeeds(alone(path, "doctor /proc"), "doctor /proc");
    let disk: Vec<&str> = nothing.lines().take_while(|line| *line != "machine").collect();
    assert!(
        disk.len() == 3
            && disk[1].starts_with("! folder        /proc: proc; no file can be made here: "),
        "{disk:?}"
    );
    assert!(
        disk[2].contains("-> no result can be written here") && !nothing.contains("0 B"),
        "{nothing}"
    );
    let error = fails(1, alone(path, "doctor nowhere"), "doctor nowhere");
    assert!(error.contains("nowhere"), "{error}");
    // Other warnings may change from one moment to the next.
    let bad = |report: &Value| {
        report["checks"].as_array().unwrap().iter().filter(|check| check["ok"] == false).count()
    };
    for report in [&first, &second] {
        assert_eq!(report["warnings"], bad(report));
    }

    let mut launched = alone(path, "doctor");
    launched
        .env("OMPI_COMM_WORLD_SIZE", "4")
        .env("OMPI_COMM_WORLD_RANK", "0")
        .env("OMPI_VERSION", "5.0.1");
    launched.env("SYNCLINE_MPI", "/nowhere.so");
    let text = succeeds(launched, "doctor");
    assert!(text.contains("  started by    Open MPI's mpirun (version 5)"), "{text}");
    assert!(text.contains("! SYNCLINE_MPI  cannot read the shim /nowhere.so"), "{text}");
    assert!(text.contains("-> unset it, or let it name a shim"), "{text}");
}

/// Writes a compiler that starts a process and waits for it. Both hold a lock on the file `held`.
fn hanging(folder: &Path) {
    let held = folder.join("held");
    let script = format!("#!/bin/sh\nexec 9>>{}\nflock -s 9\nsleep 4000 &\nwait\n", held.display());
    for name in ["mpicc", "mpicc.openmpi", "mpicc.mpich"] {
        let path = folder.join(name);
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(held, "").unwrap();
}

/// Nothing looks at signals while a rank waits for a compiler, so they have their default action.
#[test]
fn a_signal_ends_a_process_that_waits_for_a_compiler_and_the_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    hanging(path);
    let held = || fs::File::open(path.join("held")).unwrap().try_lock().is_err();
    for (line, signal) in [
        ("farm run -- echo ::: 1", Signal::TERM),
        ("farm run -- echo ::: 1", Signal::INT),
        ("farm run -- echo ::: 1", Signal::HUP),
        ("run lk23 data --iterations 1", Signal::TERM),
        ("verify rma", Signal::TERM),
        ("mpi build", Signal::TERM),
        ("mpi build", Signal::KILL),
    ] {
        if is_ignored(signal) {
            continue;
        }
        let mut command = alone(path, line);
        command.env("PATH", format!("{}:/usr/bin:/bin", path.display()));
        if !line.starts_with("mpi") {
            command.envs([("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")]);
        }
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("a compiler", held);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{line}: {output:?}");
        until("the end of the compiler", || !held());
    }
}

/// Another program of the job never calls `MPI_Init`, so that the command waits there.
#[test]
fn a_signal_ends_a_rank_that_waits_in_the_initialisation_of_mpi() {
    for mpi in &MPIS {
        for line in ["farm run -- echo ::: 1", "run lk23 nowhere --iterations 1"] {
            let Some(mut command) = under(mpi, 1, line) else { break };
            command.args([":", "-n", "1", "sleep", "4000"]);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let name = env!("CARGO_BIN_EXE_syncline");
            let rank = || {
                descendants(child.id()).into_iter().find(|pid| {
                    fs::read_link(format!("/proc/{pid}/exe"))
                        .is_ok_and(|exe| exe == Path::new(name))
                        && fs::read_to_string(format!("/proc/{pid}/maps"))
                            .is_ok_and(|maps| maps.contains("libmpi"))
                })
            };
            until("a rank with its MPI", || rank().is_some());
            std::thread::sleep(std::time::Duration::from_millis(200));
            let pid = rank().unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
            let is_over = || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            };
            until("the end of the rank", is_over);
            // The launcher ends the other program.
            let mut child = child;
            until("the end of the job", || child.try_wait().unwrap().is_some());
        }
    }
}

/// Returns the processes that a process has started, and those that they have.
fn descendants(of: u32) -> Vec<i32> {
    let mut all = vec![of as i32];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    all.remove(0);
    all
}

#[test]
fn one_rank_of_a_host_says_why_there_is_no_shim() {
    for mpi in &MPIS {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut command) = under(mpi, 4, "farm run -- echo ::: 1") else { continue };
        // No folder can be made within a file.
        fs::write(folder.path().join("file"), "").unwrap();
        command.env_remove("SYNCLINE_MPI").env("XDG_DATA_HOME", folder.path().join("file"));
        let output = ends(command, mpi.name);
        let told = said(output.stderr);
        assert!(!output.status.success(), "{}: {told}", mpi.name);
        assert_eq!(told.matches("there is no shim for it").count(), 1, "{}: {told}", mpi.name);
        let why = told.find("cannot make the folder").unwrap();
        let help = told.find("set XDG_DATA_HOME to a folder that can be written").unwrap();
        assert!(why < help, "{}: {told}", mpi.name);
        assert!(told.contains("`syncline mpi build --mpicc mpicc"), "{}: {told}", mpi.name);
    }
}

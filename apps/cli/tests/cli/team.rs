//! `syncline run` on a team: the same command, by one process, by several, and under MPI.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use syncline_store::array::Array;
use syncline_testkit::mpi::MPIS;

use crate::common::{command, names, ok, succeeds, until};
use crate::rma::{ends, shim, under};

/// Returns `syncline launch` of a run in `folder`.
pub(crate) fn launch(folder: &Path, options: &str, run: &str) -> Command {
    let mut command = command(folder, &format!("launch {options} --"));
    command.arg(env!("CARGO_BIN_EXE_syncline")).args(run.split(' ')).env("SYNCLINE_QUIET", "1");
    command
}

/// Writes inputs, and the result of one process.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "gen lk23 data --rows 300 --cols 700");
    ok(folder.path(), "run lk23 data --iterations 12 --output one.npy");
    folder
}

fn is_the_same(folder: &Path, name: &str) {
    let read = |name| fs::read(folder.join(name)).unwrap();
    assert!(read("one.npy") == read(name), "{name} differs from the result of one process");
}

#[test]
fn processes_have_the_result_of_one() {
    let folder = data();
    let path = folder.path();
    let cases = [("a.npy", "-n 2", 2), ("b.npy", "-n 3", 3), ("c.npy", "-n 2 --threads 2", 4)];
    for (name, options, members) in cases {
        let run = format!("run lk23 data --iterations 12 --depth 5 --quiet --json --output {name}");
        let out = succeeds(launch(path, options, &run), &run);
        let summary: Value = serde_json::from_str(&out).expect("one line, of the first member");
        assert_eq!((&summary["iterations"], &summary["passes"]), (&12.into(), &3.into()));
        assert_eq!(summary["members"], members);
        is_the_same(path, name);
    }
    assert_eq!(names(path), ["a.npy", "b.npy", "c.npy", "data", "one.npy"]);
}

/// A kernel over arrays that reads old values only: from files of several fields, with a tolerance.
#[test]
fn processes_share_the_rows_of_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let heat = "
        name = 'heat'
        fields = ['t', 'peak']
        types = { t = 'float64', peak = 'float32' }
        edges = { rows = 'clamped', columns = 'periodic' }
        update = \"\"\"
        t = t + 0.2 * (old.t.n + old.t.s + old.t.e + old.t.w - 4 * t)
        peak = max(old.peak, float32(old.t.e))
        \"\"\"
    ";
    fs::write(path.join("heat.toml"), heat).unwrap();
    ok(path, "gen heat . --rows 200 --cols 90");
    let of_t = fs::read(path.join("t.npy")).unwrap();
    let values = of_t[128..].chunks(8).map(|t| f64::from_le_bytes(t.try_into().unwrap()));
    let peak: Vec<f32> = values.map(|t| t as f32).collect();
    let peak = Array::from_vec(&[200, 90], peak).unwrap();
    peak.create(&path.join("peak.npy")).unwrap().commit().unwrap();
    fs::create_dir(path.join("one")).unwrap();
    let run = "run heat.toml . --iterations 500 --until 0.05 --json --output";
    let out = ok(path, &format!("{run} one"));
    let one: Value = serde_json::from_str(&out).unwrap();
    for (options, members) in [("-n 2", 2), ("-n 3", 3), ("-n 2 --threads 2", 4)] {
        let name = format!("team-{members}");
        fs::create_dir(path.join(&name)).unwrap();
        let run = format!("{run} {name} --depth 4 --exact-stop --quiet");
        let out = succeeds(launch(path, options, &run), &run);
        let summary: Value = serde_json::from_str(&out).expect("one line, of the first member");
        assert_eq!(summary["members"], members);
        assert_eq!(summary["converged_at"], one["converged_at"]);
        // Where this one ended, the one process may have gone on to the end of its pass.
        let run = format!("run heat.toml . --iterations {} --output", summary["iterations"]);
        fs::create_dir(path.join(format!("{name}-one"))).unwrap();
        ok(path, &format!("{run} {name}-one"));
        for field in ["t.npy", "peak.npy"] {
            let read = |folder: &str| fs::read(path.join(folder).join(field)).unwrap();
            assert!(read(&name) == read(&format!("{name}-one")), "{name}/{field} differs");
        }
        assert_eq!(names(&path.join(&name)), ["peak.npy", "t.npy"]);
    }
    assert!(one["converged_at"].is_u64(), "{one}");
    let short = "run heat.toml . --iterations 3 --until 1e-9 --output short --quiet";
    fs::create_dir(path.join("short")).unwrap();
    let output = launch(path, "-n 2", short).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "the tolerance was not reached: {output:?}");
    assert_eq!(names(&path.join("short")), ["peak.npy", "t.npy"]);
    let output = launch(path, "-n 2", "run heat.toml . --iterations 9 --verify").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--verify is not available on a team"), "{said}");
}

/// Kernels over arrays whose order matters: in four directions, of three fields, of three
/// dimensions; in memory and, with little of it, from file to file.
#[test]
#[ignore = "full: 9 s: many teams"]
fn processes_share_the_columns_of_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let read = |name: &str| fs::read(path.join(name)).unwrap();
    for (name, fields) in [("eikonal", &["t"][..]), ("affine", &["best", "down", "right"])] {
        let text = fs::read(examples.join(format!("{name}.toml"))).unwrap();
        fs::write(path.join(format!("{name}.toml")), text).unwrap();
        ok(path, &format!("gen {name} {name} --rows 800 --cols 700"));
        let run = |of: &str| {
            let to = format!("{name}-{of}");
            fs::create_dir(path.join(&to)).unwrap();
            let to = if fields.len() == 1 { format!("{to}/t.npy") } else { to };
            format!("run {name}.toml {name} --iterations 5 --output {to}")
        };
        ok(path, &run("one"));
        for (nth, options) in ["-n 2", "-n 3", "-n 2 --threads 2"].into_iter().enumerate() {
            for memory in ["8G", "12M"] {
                let of = format!("{nth}-{memory}");
                let run = format!("{} --threads 1 --memory {memory} --quiet", run(&of));
                succeeds(launch(path, options, &run), &run);
                for field in fields {
                    let of = |of: &str| read(&format!("{name}-{of}/{field}.npy"));
                    assert!(of("one") == of(&format!("{nth}-{memory}")), "{run} differs");
                }
            }
        }
    }
    let volume = "
        name = 'volume'
        dimensions = 3
        field = 'u'
        update = 'u = (u[-1, 0, 0] + u[1, 0, 0] + n + s + e + w) / 6'
    ";
    fs::write(path.join("volume.toml"), volume).unwrap();
    fs::create_dir(path.join("cube")).unwrap();
    let values = (0..20 * 30 * 120).map(|n| f64::from(n * 7919 % 1009)).collect();
    let cube = Array::from_vec(&[20, 30, 120], values).unwrap();
    cube.create(&path.join("cube/u.npy")).unwrap().commit().unwrap();
    let run = "run volume.toml cube --iterations 5 --output";
    ok(path, &format!("{run} cube-one.npy"));
    for (nth, options) in ["-n 2", "-n 3"].into_iter().enumerate() {
        let run = format!("{run} cube-{nth}.npy --quiet");
        succeeds(launch(path, options, &run), &run);
        assert!(read("cube-one.npy") == read(&format!("cube-{nth}.npy")), "{options}");
    }
}

/// Kernels of matrices, which run in strips, end where one process does.
#[test]
fn strips_on_a_team_end_at_the_tolerance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson data --rows 120 --cols 150");
    let run = "run sor data --omega 1.9 --iterations 800 --until 1e-3 --exact-stop --json --output";
    let one: Value = serde_json::from_str(&ok(path, &format!("{run} one.npy"))).unwrap();
    assert!(one["converged_at"].is_u64(), "{one}");
    for (options, depth) in [("-n 2", 7), ("-n 3", 100), ("-n 2 --threads 2", 20)] {
        let run = format!("{run} team.npy --force --quiet --depth {depth}");
        let out = succeeds(launch(path, options, &run), &run);
        let summary: Value = serde_json::from_str(&out).expect("one line, of the first member");
        assert_eq!(summary["converged_at"], one["converged_at"]);
        assert_eq!(summary["iterations"], one["iterations"]);
        assert!(
            fs::read(path.join("team.npy")).unwrap() == fs::read(path.join("one.npy")).unwrap()
        );
    }
    let short = "run sor data --iterations 3 --until 1e-9 --output short.npy --quiet";
    let output = launch(path, "-n 2", short).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "the tolerance was not reached: {output:?}");
}

#[test]
fn an_error_is_told_once() {
    let folder = data();
    let path = folder.path();
    let cases = [
        ("run lk23 data --iterations 2 --verify", 2, "--verify is not available on a team"),
        ("run lk23 data --iterations 2 --resume", 2, "--resume is not available on a team"),
        ("run lk23 nowhere --iterations 2", 1, "nowhere"),
        ("run lk23 data --iterations 2 --output one.npy", 1, "--force replaces it"),
        (
            "run lk23 data --iterations 12 --output one.npy",
            1,
            "; --force computes it again, another",
        ),
        (
            "run lk23 data --iterations 14 --output one.npy",
            1,
            "--resume goes on from it in one process",
        ),
        ("run lk23 data --iterations 2 --memory 1M", 1, "the window of a pass of 1 iteration,"),
        (
            "run lk23 data --iterations 2 --memory 1M",
            1,
            "(--memory of `syncline run`, for each member) of 1.0 MiB",
        ),
    ];
    for (run, code, text) in cases {
        let output = launch(path, "-n 3", &format!("{run} --quiet")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!((errors.len(), output.status.code()), (1, Some(code)), "{run}: {said}");
        assert!(errors[0].contains(text), "{run}: {said}");
    }
    assert_eq!(names(path), ["data", "one.npy"]);
    is_the_same(path, "one.npy");
}

/// An error that only some members have names the first of them, and its own memory bound.
#[test]
fn the_member_with_too_little_memory_is_named() {
    let folder = data();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let run = format!(
        "exec {} run lk23 data --iterations 2 --quiet --output a.npy --memory $memory",
        env!("CARGO_BIN_EXE_syncline")
    );
    let script = format!(
        "case $SYNCLINE_TEAM in *' process=1 '*|*' process=2 '*) memory=1M;; *) memory=1G;; esac; {run}"
    );
    for team in ["-n 3", "-n 4"] {
        let output = command(folder.path(), &format!("launch {team} --"))
            .args(["sh", "-c", &script])
            .env("SYNCLINE_QUIET", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!((errors.len(), output.status.code()), (1, Some(1)), "{said}");
        let start = format!(
            "error: rank 1 on {}: a memory bound (--memory of `syncline run`, for each member) of 1.0 MiB",
            host.trim()
        );
        assert!(errors[0].starts_with(&start), "{said}");
    }
    assert_eq!(names(folder.path()), ["data", "one.npy"]);
}

/// A process whose command line is refused tells the others, as some launchers do not end them.
#[test]
fn a_command_line_that_one_member_is_refused_is_an_error_of_all() {
    let folder = data();
    let run = format!(
        "exec {} run lk23 data --iterations 2 --quiet --output a.npy",
        env!("CARGO_BIN_EXE_syncline")
    );
    // Variables of `syncline launch`, Open MPI and MPICH.
    let is_second =
        "case \"$SYNCLINE_TEAM process=$OMPI_COMM_WORLD_RANK$PMI_RANK \" in *' process=1 '*)";
    for (wrong, text) in [
        ("--depht 3", "unexpected argument '--depht' found; tip: "),
        ("--threads 0", "invalid value '0' for '--threads <N>'"),
        ("--verify", "--verify is not available on a team"),
        ("--resume", "--resume is not available on a team"),
    ] {
        let script = format!("{is_second} {run} {wrong};; *) {run};; esac");
        let mut commands = vec![command(folder.path(), "launch -n 3 --")];
        commands.extend(MPIS.iter().filter_map(|mpi| {
            let shim = shim(mpi)?;
            let mut command = mpi.run("sh", "3", &[]);
            command.env("SYNCLINE_MPI", shim).current_dir(folder.path()).stdin(Stdio::null());
            Some(command)
        }));
        for (n, mut command) in commands.into_iter().enumerate() {
            if n == 0 {
                command.arg("sh");
            }
            command.args(["-c", &script]).env("SYNCLINE_QUIET", "1");
            let output = ends(command, &script);
            let said = String::from_utf8(output.stderr).unwrap();
            let errors: Vec<&str> =
                said.lines().filter(|line| line.starts_with("error: ")).collect();
            assert!(!output.status.success() && errors.len() == 1, "{wrong}: {said}");
            assert!(errors[0].starts_with("error: rank 1 on "), "{said}");
            assert!(errors[0].contains(text), "{said}");
        }
    }
    assert_eq!(names(folder.path()), ["data", "one.npy"]);
}

/// What is measured of a process counts once, however many members are in it; and so does what
/// processes share.
#[test]
fn the_summary_tells_the_memory_of_a_host_and_of_its_members() {
    let folder = data();
    let path = folder.path();
    let of = |options: &str, more: &str| {
        let run = format!(
            "run lk23 data --iterations 12 --memory 40M --force --quiet --output a.npy{more}"
        );
        succeeds(launch(path, options, &run), &run)
    };
    let parts = [
        " at the peak of a host, of 120.0 MiB allowed for its 3 members; ",
        " planned for the window of each member, ",
    ];
    for options in ["-n 1 --threads 3", "-n 3"] {
        let text = of(options, "");
        let line = text.lines().find(|line| line.starts_with("memory ")).unwrap();
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        let summary: Value = serde_json::from_str(&of(options, " --json")).unwrap();
        assert_eq!(summary["memory"], 120 << 20);
        // The file system may write a few blocks more.
        let (written, bytes) = (summary["disk_written"].as_u64().unwrap(), 300 * 700 * 8);
        assert!(written < 2 * bytes, "{written}");
    }
    // By default the members of a host divide what one process would take.
    let run = "run lk23 data --iterations 12 --force --quiet --json --output a.npy";
    let summary: Value = serde_json::from_str(&succeeds(launch(path, "-n 3", run), run)).unwrap();
    let total = fs::read_to_string("/proc/meminfo").unwrap();
    let total = total.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    assert!(summary["memory"].as_u64().unwrap() <= total, "{summary}, {total}");
}

#[test]
fn ranks_of_mpi_have_the_result_of_one_process() {
    for mpi in &MPIS {
        let folder = data();
        for (processes, per_host) in [(2, "8"), (2, "1"), (3, "1"), (4, "2")] {
            let name = format!("of-{processes}-{per_host}.npy");
            let what = "run lk23 data --iterations 12 --depth 5 --threads 1 --quiet";
            let run = format!("{what} --output {name}");
            let Some(mut command) = under(mpi, processes, &run) else { break };
            command.current_dir(folder.path()).env("SYNCLINE_PER_HOST", per_host);
            let output = ends(command, &run);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}, {run}: {said}", mpi.name);
            is_the_same(folder.path(), &name);
        }
    }
}

/// The state of an interrupted run of one process.
#[test]
fn force_discards_what_an_interrupted_run_has_kept() {
    let folder = data();
    let path = folder.path();
    let run = "run lk23 data --iterations 100000000000 --depth 2 --output two.npy";
    let mut child = command(path, run).spawn().unwrap();
    until("a pass", || path.join("two.npy.syncline/manifest").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let run = "run lk23 data --iterations 12 --force --quiet --output two.npy";
    succeeds(launch(path, "-n 2", run), run);
    is_the_same(path, "two.npy");
    assert_eq!(names(path), ["data", "one.npy", "two.npy"]);
}

/// A run that is killed at its first member leaves hidden files, which the next run removes.
#[test]
fn what_a_killed_run_has_left_is_removed() {
    let folder = data();
    let path = folder.path();
    let left = path.join(".one.npy.syncline-0123456789abcdef");
    fs::write(&left, "").unwrap();
    let run = "run lk23 data --iterations 1 --force --output one.npy";
    let output = command(path, run).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("note: removed ") && said.contains("a killed run has left"), "{said}");
    assert_eq!(names(path), ["data", "one.npy"]);
}

/// Bytes of the hidden files are changed as long as a run of many passes lasts.
#[test]
fn damage_between_passes_ends_a_run_without_a_result() {
    let folder = data();
    let path = folder.path();
    let hidden = || {
        let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| file.to_string_lossy().contains(".two.npy.syncline-"))
    };
    let damage = |nth: u64| {
        for file in hidden() {
            // The run may end, and remove its files.
            let Ok(file) = fs::File::options().read(true).write(true).open(file) else { continue };
            let (mut byte, offset) = ([0], 128 + nth * 79_193 % (300 * 700 * 8));
            let done = file
                .read_exact_at(&mut byte, offset)
                .and_then(|()| file.write_all_at(&[byte[0] ^ 1], offset))
                .and_then(|()| file.sync_data());
            drop(done);
        }
    };
    let run = "run lk23 data --iterations 2000 --depth 2 --quiet --output two.npy";
    let is_found = || {
        let mut command = launch(path, "-n 2", run);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut nth = 0;
        while child.try_wait().unwrap().is_none() {
            damage(nth);
            nth += 1;
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        if output.status.success() {
            fs::remove_file(path.join("two.npy")).unwrap();
            return false;
        }
        // A direct write of the run to a page that this test has just changed is an error, too.
        let found = said.contains("are damaged: their checksum differs");
        assert!(found || said.contains("Input/output error"), "{said}");
        if found {
            let errors: Vec<&str> = said.lines().filter(|line| line.contains("error: ")).collect();
            let [error] = errors[..] else { panic!("{said}") };
            assert!(error.contains(".two.npy.syncline-") && !error.contains("--force"), "{said}");
            assert_eq!(output.status.code(), Some(1), "{said}");
        }
        found
    };
    until("a run that finds the damage", is_found);
    assert_eq!(names(path), ["data", "one.npy"]);
    is_the_same(path, "one.npy");
}

//! One farm over the members of a team, started by `syncline launch` and by every installed MPI.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use syncline_testkit::mpi::{MPIS, Mpi, SURVIVOR};
use syncline_testkit::{Tool, kept};

use super::*;
use crate::rma::{ends, late, under};

/// Returns the ways to start a farm in a number of processes, with a name for each.
fn starters(processes: usize, options: &str) -> Vec<(String, Command)> {
    let line = format!(
        "launch -n {processes} -- {} farm run {options} --",
        env!("CARGO_BIN_EXE_syncline")
    );
    let mut all = vec![("launch".to_owned(), command(Path::new("."), &line))];
    for mpi in &MPIS {
        for per_host in [9, 1] {
            let Some(mut command) = under(mpi, processes, &format!("farm run {options} --")) else {
                break;
            };
            command.env("SYNCLINE_PER_HOST", per_host.to_string()).env("SYNCLINE_TIMEOUT", late());
            all.push((format!("{}, {per_host} on a host", mpi.name), command));
        }
    }
    for (_, command) in &mut all {
        command.env("SYNCLINE_QUIET", "1").stdin(Stdio::null());
    }
    all
}

/// Returns the rows of a folder's job log: Seq, Host, Exitval, Signal.
fn rows(folder: &Path) -> Vec<[String; 4]> {
    let log = fs::read_to_string(folder.join("log")).unwrap();
    let row = |line: &str| {
        let columns: Vec<_> = line.split('\t').collect();
        [columns[0], columns[1], columns[6], columns[7]].map(String::from)
    };
    let mut rows: Vec<_> = log.lines().skip(1).map(row).collect();
    rows.sort_by_key(|[number, ..]| number.parse::<u64>().unwrap());
    rows
}

#[test]
fn results_job_log_and_exit_code_are_as_on_one_machine() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let script =
        "printf 'out %s\n' $1; echo err $1 >&2; case $1 in 4) exit 3;; 6) kill -9 $$;; esac";
    for (what, mut command) in starters(3, "-k --joblog log") {
        let folder = tempfile::tempdir().unwrap();
        command.current_dir(folder.path()).args(["sh", "-c", script, "_", "{}", ":::"]);
        command.args((1..=9).map(|number| number.to_string()));
        let came = Came::of(ends(command, &what));
        assert_eq!(came.code, Some(1), "{what}: {came:?}");
        let out: String = (1..=9).map(|number| format!("out {number}\n")).collect();
        assert_eq!(came.out, out, "{what}: {came:?}");
        let told = |line: String| came.errors.iter().any(|other| other.contains(&line));
        for number in 1..=9 {
            assert!(told(format!("[{number}] err {number}")), "{what}: {came:?}");
        }
        assert!(told("syncline: task 4 (\"4\") exited with 3".to_owned()), "{what}: {came:?}");
        assert!(
            told("syncline: 9 tasks: 7 done, 2 failed (first: task ".to_owned()),
            "{what}: {came:?}"
        );
        let expected: Vec<_> = (1..=9)
            .map(|number| {
                let (exit, signal) =
                    (if number == 4 { 3 } else { 0 }, if number == 6 { 9 } else { 0 });
                [number.to_string(), host.clone(), exit.to_string(), signal.to_string()]
            })
            .collect();
        assert_eq!(rows(folder.path()), expected, "{what}");
    }
}

#[test]
fn a_farm_that_halts_ends_what_other_members_run() {
    for (which, halt, code) in [(40, "now,success=1", 0), (41, "now,fail=1", 1)] {
        let nap = nap(which);
        for (what, mut command) in starters(3, &format!("--halt {halt}")) {
            let folder = tempfile::tempdir().unwrap();
            // One job sleeps while the other ends the farm.
            let script = format!(
                "if [ $1 = 1 ]; then echo partial; touch begun; exec sleep {nap}; fi; while [ ! -e begun ]; do sleep 0.01; done; exit {code}"
            );
            command
                .current_dir(folder.path())
                .args(["sh", "-c", &script, "_", "{}", ":::", "1", "2", "3", "4"]);
            let came = Came::of(ends(command, &what));
            assert_eq!(came.code, Some(code), "{what}: {came:?}");
            assert!(
                came.errors.iter().any(|line| line.contains("1 ended before")),
                "{what}: {came:?}"
            );
            assert_eq!(came.out, "partial\n", "{what}: {came:?}");
            gone(&nap);
        }
    }
}

#[test]
fn retries_and_limits_hold_for_members() {
    let script = "echo x >> tries.$1; [ $(wc -l < tries.$1) = 2 ] || exit 5; echo $1";
    for (what, mut command) in starters(3, "-k --retries 1") {
        let folder = tempfile::tempdir().unwrap();
        command
            .current_dir(folder.path())
            .args(["sh", "-c", script, "_", "{}", ":::", "1", "2", "3"]);
        let came = Came::of(ends(command, &what));
        assert_eq!((came.code, came.out.as_str()), (Some(0), "1\n2\n3\n"), "{what}: {came:?}");
    }
    let nap = nap(42);
    for (what, mut command) in starters(2, "--timeout 1") {
        command.args(["sleep", "{}", ":::", &nap]);
        let came = Came::of(ends(command, &what));
        assert_eq!(came.code, Some(1), "{what}: {came:?}");
        assert!(
            came.errors.iter().any(|line| line.contains("took longer than 1 s")),
            "{what}: {came:?}"
        );
        gone(&nap);
    }
    for (what, mut command) in starters(2, "") {
        command.args(["no-such-program-anywhere", "{}", ":::", "1", "2"]);
        let came = Came::of(ends(command, &what));
        assert_eq!(came.code, Some(1), "{what}: {came:?}");
        let error = "error: cannot start no-such-program-anywhere: No such file or directory";
        assert_eq!(
            came.errors.iter().filter(|line| line.starts_with(error)).count(),
            1,
            "{what}: {came:?}"
        );
    }
}

/// Returns the processes of a farm's members that a command has started, rank 0 first.
fn members(starter: &Child) -> Vec<Pid> {
    let is_below = |pid: i32| {
        let mut at = pid;
        while at > 1 && at != starter.id() as i32 {
            let stat = fs::read_to_string(format!("/proc/{at}/stat")).unwrap_or_default();
            let parent =
                stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
            at = parent.unwrap_or(0);
        }
        at > 1
    };
    let is_member = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let parts: Vec<_> = line.split(|&byte| byte == 0).collect();
        parts[0].ends_with(b"syncline")
            && parts[1..].starts_with(&[b"farm", b"run"])
            && is_below(*pid)
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut members: Vec<i32> = pids.filter(is_member).collect();
    members.sort_unstable();
    members.into_iter().filter_map(Pid::from_raw).collect()
}

/// Whatever ends a team before its farm is over, the jobs that it interrupts have no line.
#[test]
#[ignore = "full: 10 s of waiting"]
fn what_ends_with_the_team_runs_again() {
    // Signals to a worker, or to the command that starts all.
    let ends = [
        ("the launcher gets SIGINT", Signal::INT, false),
        ("the launcher gets SIGTERM", Signal::TERM, false),
        ("a member gets SIGTERM", Signal::TERM, true),
        ("a member is killed", Signal::KILL, true),
        ("the launcher is killed", Signal::KILL, false),
    ];
    for (which, (how, signal, to_worker)) in (70..).zip(ends) {
        let nap = nap(which);
        for (what, mut command) in starters(3, "--joblog log --resume") {
            let (folder, what) = (tempfile::tempdir().unwrap(), format!("{what}, {how}"));
            let script = format!("touch began.$1; [ $1 = 1 ] || exec sleep {nap}; echo $1");
            command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.args(["sh", "-c", &script, "_", "{}", ":::", "1", "2", "3", "4", "5"]);
            let child = command.spawn().unwrap();
            until("the sleepers", || processes(&nap) == 2);
            until("the line of job 1", || rows(folder.path()).len() == 1);
            let to = if to_worker { members(&child)[1] } else { Pid::from_child(&child) };
            kill_process(to, signal).unwrap();
            let came = child.wait_with_output().unwrap();
            gone(&nap);
            until("the end of the farm", || {
                let log = fs::File::options().write(true).open(folder.path().join("log")).unwrap();
                rustix::fs::fcntl_lock(&log, rustix::fs::FlockOperation::NonBlockingLockExclusive)
                    .is_ok()
            });
            let told = String::from_utf8_lossy(&came.stderr);
            let mut logged = rows(folder.path());
            if how == "a member is killed" {
                // The others continue for a time; then the member's job has failed.
                assert!(
                    logged.extract_if(.., |[_, _, exit, _]| exit == "-1").count() < 2,
                    "{what}: {told}"
                );
                // They handle all events meanwhile, and end on request.
                let is_asked = what.starts_with("launch");
                assert!(!is_asked || told.contains("interrupted by SIGTERM; "), "{what}: {told}");
            }
            // No job begins in place of one that has ended so.
            let begun = (1..=5).filter(|job| folder.path().join(format!("began.{job}")).exists());
            assert_eq!(begun.collect::<Vec<_>>(), [1, 2, 3], "{what}: {told}");
            let numbers: Vec<_> = logged.iter().map(|[number, ..]| number.as_str()).collect();
            assert_eq!(numbers, ["1"], "{what}: {told}");
            // The output of an mpirun that was asked to end is not checked.
            assert!(!what.starts_with("launch") || !came.status.success(), "{what}: {told}");
        }
    }
}

/// Members that die while they have no job count as well: the farm ends when none is left, although
/// its input is open.
#[test]
fn a_farm_ends_when_all_members_have_died_while_they_were_idle() {
    // Without jobs, and with one, which one of the members has.
    for (which, more) in [(80, ""), (81, "3\n")] {
        let (folder, nap) = (tempfile::tempdir().unwrap(), nap(which));
        let (what, mut command) = starters(3, "").swap_remove(0);
        // Each member runs one of the first two jobs.
        let script = format!(
            "[ $1 = 3 ] && exec sleep {nap}; touch ran.$1; until [ -e ran.1 ] && [ -e ran.2 ]; do sleep 0.01; done; \
             echo $1"
        );
        command.current_dir(folder.path()).args(["sh", "-c", &script, "_"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"1\n2\n").unwrap();
        let mut lines = [line(&mut child), line(&mut child)];
        lines.sort_unstable();
        assert_eq!(lines, ["1", "2"], "{what}");
        input.write_all(more.as_bytes()).unwrap();
        until("the job", || processes(&nap) == more.lines().count());
        for member in &members(&child)[1..] {
            kill_process(*member, Signal::KILL).unwrap();
        }
        let came = child.wait_with_output().unwrap();
        drop(input);
        gone(&nap);
        let told = String::from_utf8_lossy(&came.stderr);
        let line = "error: cannot run jobs on the other members of the team: the processes of all members that run jobs have died";
        assert!(told.contains(line) && !told.contains("SIGTERM"), "{what}, {more:?}: {told}");
    }
}

/// Even if the parent process leaves SIGCHLD ignored.
#[test]
fn members_are_told_how_jobs_end_where_sigchld_is_ignored() {
    for (what, starter) in starters(3, "") {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' CHLD; exec \"$@\"", "_"]).arg(starter.get_program());
        command.args(starter.get_args()).args(["sh", "-c", "exit $1", "_", "{}", ":::", "0", "3"]);
        for (name, value) in starter.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.stdin(Stdio::null());
        let came = Came::of(ends(command, &what));
        assert_eq!(came.code, Some(1), "{what}: {came:?}");
        let told = came.errors.iter().any(|line| line.contains("task 2 (\"3\") exited with 3"));
        assert!(told, "{what}: {came:?}");
    }
}

/// Returns the MPIs whose `mpirun` starts a farm here, with a program in each that prints its first
/// argument and its rank.
fn mpis_with_a_program() -> Vec<(&'static Mpi, PathBuf)> {
    let source = "#include <mpi.h>
        #include <stdio.h>
        int main(int c, char **v) {
            int rank, size;
            MPI_Init(&c, &v);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
            MPI_Barrier(MPI_COMM_WORLD);
            printf(\"%s: rank %d of %d\\n\", v[1], rank, size);
            MPI_Finalize();
            return 0;
        }";
    let program = |mpi: &'static Mpi| {
        let key = [source.as_bytes().to_vec(), Tool::find(mpi.c)?.version().into_bytes()];
        let folder = kept(&format!("rank of {}", mpi.name), key, |into| {
            fs::write(into.join("rank.c"), source).unwrap();
            let mut compile = Command::new(mpi.c);
            compile.current_dir(into).args(["-o", "rank", "rank.c"]);
            assert!(compile.status().unwrap().success());
        });
        Some((mpi, folder.join("rank")))
    };
    let mpis = MPIS.iter().chain([&SURVIVOR]);
    mpis.filter(|mpi| under(mpi, 1, "").is_some()).filter_map(program).collect()
}

/// A task is a program of its own: it is not the rank that runs it.
#[test]
fn a_task_that_initialises_mpi_is_a_job_of_one_rank() {
    for (mpi, program) in mpis_with_a_program() {
        let mut command = under(mpi, 3, "farm run -k --timeout 120 --").unwrap();
        command.env("SYNCLINE_QUIET", "1").stdin(Stdio::null());
        command.arg(program).args(["{}", ":::", "a", "b", "c"]);
        let came = Came::of(ends(command, mpi.name));
        let expected = "a: rank 0 of 1\nb: rank 0 of 1\nc: rank 0 of 1\n";
        assert_eq!((came.code, came.out.as_str()), (Some(0), expected), "{}: {came:?}", mpi.name);
    }
}

/// And it may start jobs of MPI, farms over them among those, as a batch job may.
#[test]
#[ignore = "full: several jobs in jobs"]
fn a_task_may_start_jobs_of_mpi() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("list"), "1\n2\n").unwrap();
    for (mpi, program) in mpis_with_a_program() {
        let started = |more: &[&str]| {
            let mut command = under(mpi, 3, "farm run -k --timeout 200 --").unwrap();
            command.env("SYNCLINE_QUIET", "1").stdin(Stdio::null());
            command.env("OMPI_MCA_btl", "self,tcp").current_dir(folder.path());
            let script = "\"$@\" </dev/null";
            let inner = mpi.run(&program, "2", &[]);
            command.args(["sh", "-c", script, "_"]).arg(inner.get_program());
            command.args(inner.get_args().take_while(|arg| *arg != program.as_os_str()));
            command.args(more);
            Came::of(ends(command, mpi.name))
        };
        let program = program.to_str().unwrap();
        let came = started(&[program, "{}", ":::", "a", "b"]);
        assert_eq!(came.code, Some(0), "{}: {came:?}", mpi.name);
        let mut lines: Vec<_> = came.out.lines().collect();
        lines.sort_unstable();
        let expected = ["a: rank 0 of 2", "a: rank 1 of 2", "b: rank 0 of 2", "b: rank 1 of 2"];
        assert_eq!(lines, expected, "{}: {came:?}", mpi.name);
        let syncline = env!("CARGO_BIN_EXE_syncline");
        let farm =
            [syncline, "farm", "run", "-k", "-a", "list", "--", "echo", "\\{}{}", ":::", "a"];
        let came = started(&farm);
        assert_eq!((came.code, came.out.as_str()), (Some(0), "1a\n2a\n"), "{}: {came:?}", mpi.name);
    }
}

/// Whatever starts the processes of a farm, tasks and workers have no variable of a rank, and those
/// of users.
#[test]
fn tasks_and_workers_are_no_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let script = "env | grep -E '^(OMPI|PMI|PMIX|MPI|HYDI|PRTE|SYNCLINE_TEAM)' | sort; \
                  [ -e /proc/self/fd/$1 ] && echo inherited; :";
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let number = socket.as_raw_fd().to_string();
    let of_a_rank = [
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_SIZE", "1"),
        ("OMPI_MCA_ess", "^singleton"),
        ("PMI_FD", &number),
        ("PMI_RANK", "0"),
        ("PMIX_NAMESPACE", "one"),
        ("MPI_LOCALRANKID", "0"),
        ("OMPI_MCA_btl", "self"),
        ("PMIX_MCA_gds", "hash"),
    ];
    let users = "OMPI_MCA_btl=self\nPMIX_MCA_gds=hash\n";
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).unwrap();
    let mut each = shell(folder.path(), "", script);
    each.envs(of_a_rank).args([&number, ":::", "x"]);
    let mut bounded = shell(folder.path(), "--memory 1G", script);
    bounded.envs(of_a_rank).args([&number, ":::", "x"]);
    for command in [each, bounded] {
        let came = run(command, "");
        assert_eq!((came.code, came.out.as_str()), (Some(0), users), "{came:?}");
    }
    let worker =
        format!("read task; {{ {script}; }} >&2; echo '{{\"id\": 1, \"result\": 0}}'; read end");
    let mut lines =
        farm(folder.path(), "--protocol lines -j 1", &["sh", "-c", &worker, "_", &number]);
    lines.envs(of_a_rank);
    let came = run(lines, "x\n");
    let told: Vec<_> =
        came.errors.iter().filter_map(|line| line.strip_prefix("[worker 1] ")).collect();
    assert_eq!((came.code, told), (Some(0), users.lines().collect()), "{came:?}");
    // The processes of `launch` are members of a team, and their tasks are not.
    let syncline = env!("CARGO_BIN_EXE_syncline");
    let mut launch = command(folder.path(), "launch -n 2 --");
    launch.args([syncline, "farm", "run", "--", "sh", "-c", script, "_", &number, ":::", "x"]);
    launch.envs(of_a_rank).env("SYNCLINE_QUIET", "1").stdin(Stdio::null());
    let came = Came::of(ends(launch, "launch"));
    assert_eq!((came.code, came.out.as_str()), (Some(0), users), "{came:?}");
}

/// A farm that a job starts is a farm of its own, in no team.
#[test]
fn a_farm_within_a_job_is_one_by_itself() {
    for (what, mut command) in starters(2, "") {
        let script = "printf '1\n2\n' | \"$1\" farm run -k -- echo";
        command.args(["sh", "-c", script, "_", env!("CARGO_BIN_EXE_syncline"), ":::", "x"]);
        let came = Came::of(ends(command, &what));
        assert_eq!((came.code, came.out.as_str()), (Some(0), "1\n2\n"), "{what}: {came:?}");
    }
}

#[test]
fn workers_that_stay_are_of_one_process() {
    let (what, mut command) = starters(2, "--protocol lines").swap_remove(0);
    command.arg("cat");
    let came = Came::of(ends(command, &what));
    assert_eq!(came.code, Some(2), "{came:?}");
    assert!(
        came.errors[0].contains("--protocol lines is not for several processes of a launcher"),
        "{came:?}"
    );
}

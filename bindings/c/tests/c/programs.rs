//! Programs in C, C++ and Fortran: the examples, and tests of every kind of misuse. They are linked
//! with both libraries, and run plainly, under the sanitizers and under valgrind.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use syncline_fabric::Launcher;
use syncline_farm::{Farm, PoolBuilder, Program as Worker, wire::Numbers};
use syncline_testkit::{Tool, output, succeed};
use syncline_trace::note::{Note, ObjectClass};
use syncline_trace::{Activity, Reader};

use crate::tools::{SHARED, STATIC, compiled};

/// A program and its expected output.
struct Program {
    source: &'static str,
    output: &'static str,
}

const C: [Program; 12] = [
    Program {
        source: "examples/handles.c",
        output: "location 'batch' was not granted before the deadline\nsum 33984000, expected 33984000\n",
    },
    Program {
        source: "examples/heat.c",
        output: "800 steps, 50 iterations: the bits of the loop\n\
                 converged: yes, residuals those of the loop: yes\n",
    },
    Program {
        source: "examples/deadlock.c",
        output: "refused: the overlay deadlocks: 'there' waits at 'y' for 'back', 'back' waits at 'x' for 'there'\n\
                 first of 1: there\nafter 6 swaps: 1 2\n",
    },
    Program {
        source: "examples/stuck.c",
        output: "not running: nothing to see\nat the start 'first' is active, 'second' is not\n\
                 stuck: 'second' waits at 'cell' for 'first'\nthe run ended: its message is the report\n",
    },
    Program { source: "tests/programs/faults.c", output: "all faults were reported\n" },
    Program { source: "tests/programs/barriers.c", output: "no member went on too early\n" },
    Program { source: "tests/programs/locks.c", output: "one at a time\n" },
    Program { source: "tests/programs/teams.c", output: "all members were notified\n" },
    Program { source: "tests/programs/rma.c", output: "all data arrived\n" },
    Program { source: "tests/programs/farms.c", output: "nothing was lost\n" },
    TEAM,
    QUEUE,
];

/// These programs start processes and watch them by pidfd, which valgrind may not support.
const FARMS: [Program; 4] = [
    Program {
        source: "examples/lazy_solve.c",
        output: "11 processes: 1.00000 2.00000 3.00000 4.00000 5.00000\n",
    },
    POOL,
    Program { source: "tests/programs/farm_processes.c", output: "all ends were reported\n" },
    Program { source: "tests/programs/pools.c", output: "every task has ended once\n" },
];

const POOL: Program = Program {
    source: "examples/farm_pool.c",
    output: "task 13 has no result\nthe sum of the others is 2301\n",
};

/// The output does not depend on the members.
const TEAM: Program =
    Program { source: "examples/team.c", output: "3149968500000, expected 3149968500000\n" };

const QUEUE: Program =
    Program { source: "examples/work_queue.c", output: "60 blocks in 7 results: 0 wrong\n" };

const CPP: [Program; 1] =
    [Program { source: "examples/pipeline.cpp", output: "last: 1009, expected 1009\n" }];

const FORTRAN: [Program; 5] = [
    Program {
        source: "tests/programs/overlay.f90",
        output: "200 steps\nthe signal is at its largest number\nthe name of the location is NULL\n",
    },
    Program { source: "tests/programs/rma.f90", output: "rows and sums are right\n" },
    Program {
        source: "examples/relax.f90",
        output: "the bits of the loop\nthere is no rank 7: the members are ranks 0 to 2\nthe deadline passed\n",
    },
    Program {
        source: "examples/team.f90",
        output: "sum: 500500\nsum: 500500\n\
                 a team has 1 to 4096 members, not 1 processes x 5000 threads\n",
    },
    Program {
        source: "examples/farm.f90",
        output: "sum of 3 parts: 499500\nsum of the squares: 91\ntask 7: it is too large\n",
    },
];

/// The variable with the time, in milliseconds, after which a silent host is dead. A host on a busy
/// machine may be silent for long.
const SILENCE: (&str, &str) = ("SYNCLINE_TIMEOUT", "300000");

/// Compiles a program and links it with the library. Returns the path of the executable.
fn build(tool: Tool, flags: &[&str], library: &[&str], program: &Program) -> PathBuf {
    let flags =
        [&["-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-O1", "-ffp-contract=off"], flags]
            .concat();
    compiled(tool, program.source, &flags, library)
}

/// Builds programs and runs each under the command `before`.
fn all(
    compiler: &'static str,
    flags: &[&str],
    library: &[&str],
    programs: &[Program],
    before: &[&str],
) {
    let Some(tool) = Tool::find(compiler) else { return };
    for program in programs {
        let executable = build(tool, flags, library, program);
        let mut command = match before {
            [] => Command::new(&executable),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&executable);
                command
            }
        };
        command.env(SILENCE.0, SILENCE.1);
        assert_eq!(succeed(&mut command), program.output, "{} by {compiler}", program.source);
    }
}

#[test]
#[ignore = "full: the programs of teams are linked with it in any case"]
fn programs_run_with_the_static_library() {
    all("gcc", &["-std=c99"], &STATIC, &C, &[]);
    all("gcc", &["-std=c99"], &STATIC, &FARMS, &[]);
}

#[test]
fn programs_run_with_the_shared_library() {
    all("gcc", &["-std=c11"], &SHARED, &C, &[]);
    all("gcc", &["-std=c11"], &SHARED, &FARMS, &[]);
}

#[test]
#[ignore = "full: a second compiler"]
fn programs_run_when_clang_makes_them() {
    all("clang", &["-std=c11"], &SHARED, &C, &[]);
    all("clang", &["-std=c11"], &SHARED, &FARMS, &[]);
}

#[test]
fn programs_in_cpp_run() {
    all("g++", &["-std=c++11"], &STATIC, &CPP, &[]);
    all("g++", &["-std=c++20"], &SHARED, &CPP, &[]);
    all("clang++", &["-std=c++17"], &SHARED, &CPP, &[]);
}

#[test]
#[ignore = "full: 20 s to compile all programs with them"]
fn the_sanitizers_find_nothing() {
    let sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let Some(gcc) = Tool::find("gcc") else { return };
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let executable = dir.path().join("empty");
    let arguments = [empty.as_os_str(), "-o".as_ref(), executable.as_os_str()];
    if !gcc.works(sanitize.map(AsRef::as_ref).into_iter().chain(arguments)) {
        println!("skipped: gcc has no sanitizers here, so C programs were not run with them");
        return;
    }
    all("gcc", &sanitize, &STATIC, &C, &[]);
    all("gcc", &sanitize, &STATIC, &FARMS, &[]);
}

#[test]
#[ignore = "full: all programs take 50 times as long"]
fn valgrind_finds_nothing() {
    if Tool::find("valgrind").is_some() {
        // Rust keeps a pointer into the middle of its data about the main thread, which valgrind
        // reports as possibly lost.
        let leaks =
            ["--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"];
        let valgrind =
            [&["valgrind", "--quiet", "--error-exitcode=9", "--fair-sched=try"], &leaks[..]]
                .concat();
        // With all their rounds, the programs take two minutes.
        let few = ["-std=c11", "-DEPISODES=20", "-DPUT_ROUNDS=2"];
        all("gcc", &few, &SHARED, &C, &valgrind);
    }
}

/// Whether a compiler supports OpenMP here. Prints a note about the skipped source if not.
fn has_openmp(dir: &Path, tool: Tool, source: &str) -> bool {
    let (empty, executable) = (dir.join(source), dir.join("empty"));
    let there = std::fs::write(
        &empty,
        if source.ends_with(".c") { "int main(void) { return 0; }\n" } else { "end\n" },
    );
    there.unwrap();
    let there =
        tool.works(["-fopenmp".as_ref(), empty.as_os_str(), "-o".as_ref(), executable.as_os_str()]);
    if !there {
        println!("skipped: {tool:?} has no OpenMP here, so nothing was run in a parallel region");
    }
    there
}

#[test]
fn barriers_run_in_a_parallel_region_of_openmp() {
    let program = Program { source: "examples/openmp_barrier.c", output: "went on too early: 0\n" };
    for compiler in ["gcc", "clang"] {
        let dir = tempfile::tempdir().unwrap();
        let Some(tool) =
            Tool::find(compiler).filter(|&tool| has_openmp(dir.path(), tool, "empty.c"))
        else {
            continue;
        };
        let executable = build(tool, &["-std=c11", "-fopenmp"], &SHARED, &program);
        for threads in ["1", "2", "3"] {
            let said = succeed(Command::new(&executable).args([threads, "3", "100"]));
            assert!(said.ends_with(program.output), "{said}");
        }
    }
}

#[test]
fn programs_in_fortran_run() {
    fortran(&SHARED);
}

#[test]
#[ignore = "full: the same programs, linked in another way"]
fn programs_in_fortran_run_with_the_static_library() {
    fortran(&STATIC);
}

fn fortran(library: &[&str]) {
    let Some(tool) = Tool::find("gfortran") else { return };
    let dir = tempfile::tempdir().unwrap();
    if !has_openmp(dir.path(), tool, "empty.f90") {
        return;
    }
    let flags = ["-std=f2008", "-fopenmp"];
    for program in &FORTRAN {
        let executable = build(tool, &flags, library, program);
        let mut command = Command::new(executable);
        assert_eq!(succeed(command.env(SILENCE.0, SILENCE.1)), program.output);
    }
}

/// What a program records is in the file: one that names the file itself, and one that only has it
/// in its environment.
#[test]
fn a_program_is_recorded_by_a_call_or_by_the_environment() {
    let Some(tool) = Tool::find("gcc") else { return };
    let program = Program { source: "tests/programs/traces.c", output: "recorded\n" };
    let executable = build(tool, &["-std=c99"], &SHARED, &program);
    let folder = tempfile::tempdir().unwrap();
    for by_call in [true, false] {
        let file = folder.path().join(format!("{by_call}.trace"));
        let mut command = Command::new(&executable);
        match by_call {
            true => command.env_remove(syncline_trace::VARIABLE).arg(&file),
            false => command.env(syncline_trace::VARIABLE, &file),
        };
        assert_eq!(succeed(&mut command), program.output);
        let mut reader = Reader::open(&file).unwrap();
        let frames: Vec<_> = std::iter::from_fn(|| reader.next_frame().unwrap()).collect();
        assert!(frames.last().unwrap().last);
        let named = |note: &Note| match note {
            Note::Name { class: ObjectClass::Section, id, name } => Some((*id, name.clone())),
            _ => None,
        };
        let names: HashMap<u32, String> =
            frames.iter().flat_map(|frame| &frame.notes).filter_map(named).collect();
        let lanes = frames.iter().flat_map(|frame| &frame.lanes);
        let spans: Vec<_> = lanes.flat_map(|lane| lane.spans()).collect();
        let sections: Vec<_> = spans
            .iter()
            .filter(|span| span.activity == Activity::Section)
            .map(|span| names[&span.subject].as_str())
            .collect();
        assert_eq!(sections, ["inner", "inner", "inner", "outer"]);
        let waits = spans.iter().filter(|span| span.activity == Activity::AwaitBarrier);
        assert_eq!(waits.map(|span| span.detail).collect::<Vec<_>>(), [0, 1, 2]);
    }
}

/// Rust cannot catch a C++ exception: the program terminates with a message, without undefined
/// behaviour.
#[test]
fn an_exception_out_of_a_body_ends_the_program() {
    let Some(tool) = Tool::find("g++") else { return };
    let program = Program { source: "tests/programs/throws.cpp", output: "" };
    let executable = build(tool, &["-std=c++11"], &SHARED, &program);
    let ended = Command::new(executable).output().unwrap();
    assert!(!ended.status.success() && ended.status.code().is_none(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("foreign exception"), "{ended:?}");
}

#[test]
fn a_worker_that_aborts_is_named() {
    team_of_processes(&POOL, &[], "was killed by signal 6\n");
}

/// The program that owns the pool continues.
#[test]
fn an_exception_out_of_a_worker_is_the_error_of_its_task() {
    let throws = Program {
        source: "tests/programs/pool_throws.cpp",
        output: "its worker, process 1, was killed by signal 6\n",
    };
    all("g++", &["-std=c++11"], &SHARED, &[throws], &[]);
}

/// Programs in Rust and in C exchange messages in one format.
#[test]
fn workers_in_c_of_a_manager_in_rust() {
    let Some(tool) = Tool::find("gcc") else { return };
    let late = || Some(Instant::now() + Duration::from_secs(300));
    let echo = Program { source: "tests/programs/farm_processes.c", output: "" };
    let executable = build(tool, &["-std=c11"], &SHARED, &echo);
    let mut farm = Farm::new().unwrap();
    let worker = farm.spawn(&Worker::new(&executable).arg("echo")).unwrap();
    for len in [1, 14, 15, 100_000] {
        let numbers: Vec<f64> = (0..len).map(|n| f64::from(n) / 3.0).collect();
        farm.send_deadline(worker, &Numbers::from(&numbers[..]), late()).unwrap();
        assert_eq!(*farm.recv_deadline::<Numbers<'_, f64>>(worker, late()).unwrap(), numbers);
    }
    let value = (7_u32, "a value of serde is passed on".to_owned());
    farm.send_deadline(worker, &value, late()).unwrap();
    assert_eq!(farm.recv_deadline::<(u32, String)>(worker, late()).unwrap(), value);
    farm.send_deadline(worker, &Numbers::from(&[0_u128; 0][..]), late()).unwrap();
    assert!(farm.recv_deadline::<Numbers<'_, u128>>(worker, late()).unwrap().is_empty());
    assert_eq!(farm.wait(worker, late()).unwrap().to_string(), "exited with 0");

    let works = Program { source: "tests/programs/pools.c", output: "" };
    let executable = build(tool, &["-std=c11"], &STATIC, &works);
    let builder =
        PoolBuilder::new(2).program(Worker::new(executable)).timeout(Duration::from_secs(300));
    let mut pool = builder.start::<Vec<u8>, Result<Vec<u8>, String>>().unwrap();
    assert_eq!(pool.run(b"reverse".to_vec()).unwrap(), Ok(b"esrever".to_vec()));
    assert_eq!(pool.run(b"fail".to_vec()).unwrap(), Err("no such luck".to_owned()));
    let error = pool.run(b"kill".to_vec()).unwrap_err().to_string();
    assert!(error.ends_with("was killed by signal 9"), "{error}");
}

/// Runs a program whose arguments define its members, and checks its stdout and that its stderr
/// contains `said`.
fn team_of_processes(program: &Program, arguments: &[&str], said: &str) {
    let Some(tool) = Tool::find("gcc") else { return };
    for library in [&STATIC, &SHARED] {
        let executable = build(tool, &["-std=c11"], library, program);
        let mut command = Command::new(executable);
        if arguments.iter().any(|argument| argument.ends_with("hosts")) {
            command.env(SILENCE.0, SILENCE.1);
        }
        let out = output(command.args(arguments));
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{}: {text}", out.status);
        assert_eq!(String::from_utf8_lossy(&out.stdout), program.output, "{text}");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_program_starts_the_processes_of_its_team() {
    team_of_processes(&TEAM, &["3"], "3 members in 3 processes\n");
    team_of_processes(&TEAM, &["2", "2"], "4 members in 2 processes\n");
}

#[test]
fn a_forked_child_is_no_member() {
    let program =
        Program { source: "tests/programs/forks.c", output: "the children were no members\n" };
    team_of_processes(&program, &[], "");
    team_of_processes(&program, &["hosts"], "");
    let processes =
        Program { output: "the children were no members\n".repeat(4).leak(), ..program };
    team_of_processes(&processes, &["processes"], "");
}

#[test]
fn a_forked_child_has_no_part_in_a_farm() {
    let output = "the children had no part\n";
    team_of_processes(&Program { source: "tests/programs/farm_forks.c", output }, &[], "");
}

#[test]
#[ignore = "full: it waits for 10 s"]
fn a_process_that_is_stopped_for_seconds_is_waited_for() {
    let output = "the stopped rank was waited for\n".repeat(4).leak();
    team_of_processes(&Program { source: "tests/programs/stopped.c", output }, &["processes"], "");
}

#[test]
fn one_sided_memory_of_processes() {
    let output = "all data arrived, between processes\n";
    team_of_processes(&Program { source: "tests/programs/rma.c", output }, &["processes"], "");
    team_of_processes(&QUEUE, &["--hosts", "3"], "rank 2 of 3: ");
}

#[test]
fn a_process_that_is_killed_is_told_to_the_others() {
    let program =
        Program { source: "tests/programs/teams.c", output: "the killed rank was named\n" };
    team_of_processes(&program, &["killed"], "was killed by signal 9 in the middle of the run");
}

/// Does the work of `syncline launch -n 3`. The processes write to this test's stdout, so each
/// appends its output to a file instead.
#[test]
fn a_launcher_starts_the_processes_of_a_program() {
    let Some(tool) = Tool::find("gcc") else { return };
    let dir = tempfile::tempdir().unwrap();
    let executable = build(tool, &["-std=c11"], &SHARED, &TEAM);
    for (processes, threads, member) in
        [(3, 1, "3 members in 3 processes\n"), (2, 2, "4 members in 2 processes\n")]
    {
        let said = dir.path().join(format!("said{threads}"));
        let script = "exec \"$0\" >>\"$1\" 2>>\"$1\"".as_ref();
        let launcher = Launcher::new("sh").args([
            "-c".as_ref(),
            script,
            executable.as_os_str(),
            said.as_os_str(),
        ]);
        launcher.processes(processes).threads(threads).run().unwrap();
        let said = std::fs::read_to_string(said).unwrap();
        assert_eq!(said, format!("{member}{}", TEAM.output));
    }
    let executable = build(tool, &["-std=c11"], &STATIC, &QUEUE);
    let said = dir.path().join("queue");
    let script = "exec \"$0\" >>\"$1\"".as_ref();
    let arguments = ["-c".as_ref(), script, executable.as_os_str(), said.as_os_str()];
    Launcher::new("sh").args(arguments).processes(3).run().unwrap();
    assert_eq!(std::fs::read_to_string(said).unwrap(), QUEUE.output);
}

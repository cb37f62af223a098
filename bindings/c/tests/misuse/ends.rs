//! How MPI jobs end when members have returned early, got an error about calls that do not match,
//! or have died.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use syncline_testkit::mpi::{MPIS, SURVIVOR};
use syncline_testkit::output;

use crate::tools::mpi::{STRICT, Site};

/// The program that interprets texts, compiled for an MPI.
struct Stage {
    site: Site,
    program: PathBuf,
}

/// Returns a stage for every MPI of the machine.
fn stages() -> impl Iterator<Item = Stage> {
    MPIS.iter().chain([&SURVIVOR]).filter_map(|mpi| {
        let site = Site::find(mpi)?;
        let flags = [&STRICT[..], &["-std=c11", "-pthread"]].concat();
        let program = site.compile("tests/programs/misuse.c", true, &flags);
        Some(Stage { site, program })
    })
}

impl Stage {
    /// Returns the command that runs a text, and the path of its notes.
    fn command(&self, text: &str, processes: usize, per_host: usize) -> (Command, PathBuf) {
        let path = self.site.dir.path().join("text");
        let notes = self.site.dir.path().join("text.notes");
        let _ = fs::remove_file(&notes);
        fs::write(&path, text).unwrap();
        let mut command =
            self.site.run(&self.program, &processes.to_string(), &per_host.to_string(), None);
        command.arg(path);
        (command, notes)
    }

    /// Runs a text. Returns whether its launcher succeeded, and its stderr.
    fn play(&self, text: &str, processes: usize, per_host: usize) -> (bool, String) {
        let Output { status, stderr, .. } = output(&mut self.command(text, processes, per_host).0);
        (status.success(), String::from_utf8_lossy(&stderr).into_owned())
    }
}

/// Member 1 returns at once, and the others wait for it.
const EARLY: &str = "0 rma\n0 mutexes_new 0 1\n0 return 0\n\
                     1 return 0\n\
                     2 rma\n2 mutexes_new 0 1\n2 return 0\n";
/// Member 1 allocates while the others sync.
const MISMATCH: &str = "0 rma\n0 sync\n0 wait\n0 return 0\n\
                        1 rma\n1 allocate 0 8\n1 return 0\n\
                        2 rma\n2 sync\n2 wait\n2 return 0\n";

/// The job's exit code is that of its members, and the launcher reports nothing.
#[test]
#[ignore = "full: many jobs under each MPI"]
fn a_job_whose_processes_all_live_ends_in_order() {
    for stage in stages() {
        for per_host in [9, 2, 1] {
            for (text, fails) in [(EARLY, "[2] mutexes_new:"), (MISMATCH, "[2] sync:")] {
                for code in [0, 3] {
                    let text = text.replace("1 return 0", &format!("1 return {code}"));
                    let (is_well, said) = stage.play(&text, 3, per_host);
                    let what = format!("{}, {per_host} on a host: {said}", stage.site.mpi.launcher);
                    assert_eq!(is_well, code == 0, "{what}");
                    assert!(
                        !said.contains("MPI_Finalize") && !said.contains("exiting improperly"),
                        "{what}"
                    );
                    assert!(said.contains(fails), "{what}");
                }
            }
        }
    }
}

/// This holds even for a process that does not need the others, as `MPI_Finalize` waits for it.
#[test]
#[ignore = "full: many jobs under each MPI"]
fn processes_that_have_left_wait_for_one_that_runs() {
    let text = "0 sleep 300\n0 note 1\n0 return 0\n1 return 0\n2 wait\n2 return 0\nafter note 2\n";
    for stage in stages() {
        for per_host in [9, 1] {
            let (mut command, notes) = stage.command(text, 3, per_host);
            let Output { status, stderr, .. } = output(&mut command);
            let what = format!("{}, {per_host} on a host", stage.site.mpi.launcher);
            assert!(status.success(), "{what}: {}", String::from_utf8_lossy(&stderr));
            let notes = fs::read_to_string(notes).unwrap();
            let mut whats = notes.lines().map(|note| note.rsplit(' ').next().unwrap());
            assert!(whats.next() == Some("1") && whats.eq(["2"; 3]), "{what}: {notes}");
        }
    }
}

/// A process is killed after one of its members has returned early and all others got the error
/// about that. If the launcher lets the others continue, they end without an `MPI_Finalize`, which
/// would wait.
#[test]
#[ignore = "full: many jobs under each MPI"]
fn a_process_that_dies_after_its_member_has_left_is_found() {
    let waits = |rank: usize| format!("{rank} rma\n{rank} mutexes_new 0 1\n");
    let [zero, one, three] = [0, 1, 3].map(waits);
    let text = format!("{zero}0 return 0\n{one}1 return 0\n2 return 0\n{three}3 kill 9\n");
    for stage in stages() {
        let is_survivor = std::ptr::eq(stage.site.mpi, &SURVIVOR);
        for per_host in if is_survivor { &[9, 1][..] } else { &[9] } {
            let (mut command, _) = stage.command(&text, 2, *per_host);
            command.env("SYNCLINE_THREADS", "2");
            // An option of Open MPI 4: the job continues when a process dies.
            command.env("OMPI_MCA_orte_enable_recovery", "1");
            let said = String::from_utf8_lossy(&output(&mut command).stderr).into_owned();
            // MPICH may kill the other process first.
            if stage.site.mpi.launcher != MPIS[1].launcher {
                let told =
                    "process 0 ends without MPI_Finalize: process 1 has died or cannot be reached";
                assert!(said.contains(told), "{}: {said}", stage.site.mpi.launcher);
            }
        }
    }
}

//! `fork` in the body of a task of a run on a team.

use syncline_fabric::{Member, Team};
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
use syncline_testkit::as_role;

use crate::common::in_processes;

const ROLE: &str = "SYNCLINE_TEST_FORK";

#[test]
fn a_child_that_returns_from_a_body_ends_and_changes_nothing() {
    let [out, error] = in_processes("team_fork::role", ROLE);
    assert!(error.contains("a child made by fork() goes on where only its parent may"), "{error}");
    for rank in 0..2 {
        assert!(out.contains(&format!("rank {rank} has 20")), "{out}{error}");
    }
}

/// Not a test: the processes of a team.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let member = |me: &mut Member| {
        let token = Location::plain("token", 0_u64);
        let mut overlay = Overlay::new();
        for rank in 0..2 {
            let task = overlay.task(format!("task {rank}"), token.write(), move |token, step| {
                *token += 1;
                if rank == 1 && step.iteration() == 3 {
                    fork();
                }
            });
            overlay.place(task, rank);
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        overlay.run_on(me, Runner::pool(2), Stop::after(10)).unwrap();
        println!("rank {} has {}", me.rank(), *token.reader().acquire().unwrap());
    };
    Team::processes(2).quiet().args(as_role("team_fork::role")).run(member).unwrap();
}

/// Makes a child, which returns, and waits for its end.
fn fork() {
    // SAFETY: the child takes no lock before the run ends it.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child > 0 {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1, "{status:x}");
    }
}

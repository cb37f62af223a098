//! Programs that other code of the manager's process starts inherit no descriptors of a farm.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use syncline_fabric::Launcher;
use syncline_farm::{Farm, PoolBuilder, Program, serve};
use syncline_testkit::cases;

use crate::{late, program_of};

/// The environment variable that makes the test `rank` a manager.
const RANK: &str = "SYNCLINE_TEST_RANK";

/// Returns the targets of the descriptors that a program started by the standard library has
/// inherited, other than its standard streams and the directory of the list itself.
fn inherited() -> BTreeSet<String> {
    let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let links = lines.lines().filter_map(|line| line.split_once(" -> "));
    let number = |name: &str| name.rsplit(' ').next().and_then(|number| number.parse().ok());
    let beside = links.filter(|(name, to)| {
        number(name).is_some_and(|number: u32| number > 2) && !to.ends_with("/fd")
    });
    beside.map(|(_, to)| to.to_owned()).collect()
}

/// Starts programs by the standard library while `start` is called repeatedly, and returns what
/// they have inherited: nothing, in any schedule. While descriptors were inheritable during a
/// start, one program in a few inherited one.
fn leaked_beside(mut start: impl FnMut()) -> Option<BTreeSet<String>> {
    let before = inherited();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let foreign = scope.spawn(|| {
            let leaks = || inherited().difference(&before).cloned().collect::<BTreeSet<_>>();
            let leaked = (0..cases(200)).map(|_| leaks()).find(|leaks| !leaks.is_empty());
            over.store(true, Ordering::Relaxed);
            leaked
        });
        while !over.load(Ordering::Relaxed) {
            start();
        }
        foreign.join().unwrap()
    })
}

#[test]
fn other_programs_inherit_nothing_of_a_farm() {
    let mut farm = Farm::new().unwrap();
    let leaked = leaked_beside(|| {
        let vpid = farm.reserve_deadline(late()).unwrap();
        farm.start(vpid, &Program::new("true")).unwrap();
    });
    assert_eq!(leaked, None);
}

#[test]
fn other_programs_inherit_nothing_of_a_team() {
    let team = Launcher::new("true").processes(4).quiet();
    assert_eq!(leaked_beside(|| team.run().unwrap()), None);
}

/// Not a test: a worker whose task returns the names of the variables of MPI that it has.
#[test]
fn tells() {
    let of_mpi = |name: &String| {
        ["OMPI_", "PMI", "MPI_", "SYNCLINE_TEAM"].iter().any(|begin| name.starts_with(begin))
    };
    let names = |_: u32| std::env::vars().map(|(name, _)| name).filter(of_mpi).collect::<Vec<_>>();
    serve(names).unwrap();
}

/// Not a test: a manager with the variables of a rank.
#[test]
fn rank() {
    if std::env::var_os(RANK).is_none() {
        return;
    }
    let builder = PoolBuilder::new(1).program(program_of("descriptors::tells"));
    let mut pool = builder.start::<u32, Vec<String>>().unwrap();
    pool.submit(1);
    let outcome = pool.next_deadline(late()).unwrap().unwrap();
    assert_eq!(outcome.result.unwrap(), ["OMPI_MCA_btl"]);
    println!("\nonly the user's");
}

/// A worker is a program of its own: see `syncline_mpi::outside`.
#[test]
fn workers_of_a_rank_are_no_ranks() {
    let mut manager = Command::new(std::env::current_exe().unwrap());
    manager.args(["--exact", "descriptors::rank", "--nocapture"]).env(RANK, "1");
    for (name, value) in [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_MCA_btl", "self"),
        ("PMIX_RANK", "1"),
        ("PMI_RANK", "1"),
        ("MPI_LOCALRANKID", "1"),
        ("SYNCLINE_TEAM", "version=0"),
    ] {
        manager.env(name, value);
    }
    let output = manager.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("only the user's"), "{said} {errors}");
}

//! The tests on teams of processes: a holder that leaves, calls that do not match, and random
//! programs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team};
use syncline_rma::{Rma, RmaError};
use syncline_sync::{BarrierMember as _, Fault, call_matching::Call};
use syncline_testkit::{again, cases, seed};

use crate::programs::{accused, legal};

/// The environment variable of a team of processes: a role, the number of processes, the number of
/// threads of each, and a seed.
const ROLE: &str = "SYNCLINE_TEST_ROLE";

/// The time limit of a role, far longer than any of them takes.
const LIMIT: Duration = Duration::from_secs(120);

fn left(me: &mut Member) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    let mut set = rma.mutexes(me, 1)?;
    if me.rank() == 0 {
        set.lock(&mut rma, 1, 0)?;
    }
    rma.sync()?;
    if me.rank() == 0 {
        return Ok(());
    }
    if me.rank() == 2 {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(set.lock(&mut rma, 1, 0), Err(RmaError::Poisoned { rank: 1, index: 0, by: 0 }));
    Ok(())
}

fn mixed(me: &mut Member) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    rma.sync()?;
    let told = if me.rank() == 2 { rma.allocate::<u64>(me, 1).map(drop) } else { rma.sync() };
    // Either of the two members in the sync may be the first that is known to be blocked.
    let mismatch =
        |rank| Fault::Mismatch { rank, call: Call::Sync, other: 2, other_call: Call::Allocate };
    assert!([0, 1].into_iter().any(|rank| told == Err(mismatch(rank).into())), "{told:?}");
    Ok(())
}

/// A mutex with deadlines, and syncs whose halves are separated by other waits.
fn halves(me: &mut Member) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    let sum = rma.allocate::<u64>(me, 1)?;
    let mut set = rma.mutexes(me, 1)?;
    for round in 0..100_u64 {
        let soon = || Some(Instant::now() + Duration::from_micros(20));
        while set.lock_deadline(&mut rma, 0, 0, soon()).is_err() {
            std::thread::yield_now();
        }
        let mut number = [0];
        rma.get(&sum, 1, 0, &mut number)?;
        rma.put(&sum, 1, 0, &[number[0] + 1])?;
        set.unlock(&mut rma, 0, 0)?;
        if (round as usize + me.rank()).is_multiple_of(3) {
            rma.sync_start()?;
        }
        if round % 50 == me.rank() as u64 {
            std::thread::sleep(Duration::from_millis(350));
        }
        if (round as usize + me.rank()).is_multiple_of(4) {
            me.barrier().arrive()?;
        }
        me.wait()?;
        rma.sync()?;
    }
    let mut number = [0];
    rma.get(&sum, 1, 0, &mut number)?;
    assert_eq!(number, [300]);
    rma.sync()
}

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role_of_a_process() {
    let Ok(text) = std::env::var(ROLE) else { return };
    let mut words = text.split(' ');
    let role = words.next().unwrap();
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (processes, threads, seed) = (number() as usize, number() as usize, number());
    let args =
        ["--exact", "processes::role_of_a_process", "--ignored", "--nocapture", "--test-threads=1"];
    let team = Team::processes(processes).threads(threads).quiet().args(args);
    let results = team.run(|me| {
        let result = match role {
            "left" => left(me),
            "mixed" => mixed(me),
            "halves" => halves(me),
            "legal" => legal(me, seed),
            _ => return accused(me, seed),
        };
        result.map_err(|error| format!("rank {}: {error:?}", me.rank()))
    });
    results
        .unwrap()
        .into_iter()
        .for_each(|result| result.unwrap_or_else(|got| panic!("{text}: {got}")));
}

/// Runs a role on a team of processes. Fails if the role fails or exceeds the limit.
fn play(role: &str, (processes, threads): (usize, usize), seed: u64) {
    let text = format!("{role} {processes} {threads} {seed}");
    let mut command = again("processes::role_of_a_process");
    let mut child = command
        .arg("--test-threads=1")
        .env(ROLE, &text)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let late = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > late {
            // The processes of the team end with their launcher.
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{text} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{text}: {status}");
}

/// The teams: processes, and threads in each.
const TEAMS: [(usize, usize); 4] = [(2, 1), (3, 1), (2, 2), (5, 1)];

#[test]
fn processes_are_told_of_the_same() {
    for role in ["left", "mixed", "halves"] {
        play(role, (3, 1), 0);
    }
}

#[test]
fn legal_programs_of_processes_are_not_accused() {
    let first = seed(0);
    for seed in first..first + u64::from(cases(3)) {
        TEAMS.into_iter().for_each(|shape| play("legal", shape, seed));
    }
}

#[test]
fn illegal_programs_of_processes_end_in_errors_at_every_member() {
    let first = seed(0);
    for seed in first..first + u64::from(cases(10)) {
        TEAMS.into_iter().for_each(|shape| play("illegal", shape, seed));
    }
}

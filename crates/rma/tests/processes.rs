//! Processes of a team: a holder that leaves, and calls that do not match, are named there, too.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team};
use syncline_rma::{LockKind, Rma, RmaError};
use syncline_sync::{Call, Fault};

const ROLE: &str = "SYNCLINE_TEST_ROLE";

fn left(me: &mut Member) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    let mut set = rma.mutexes(me, LockKind::Mcs, 1)?;
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
    // Either of the two that sync may be the first that is known to be blocked.
    let mismatch = |rank| Fault::Mismatch { rank, call: Call::Sync, other: 2, other_call: Call::Allocate };
    assert!([0, 1].into_iter().any(|rank| told == Err(mismatch(rank).into())), "{told:?}");
    Ok(())
}

/// A mutex with deadlines, and halves of syncs across other waits.
fn legal(me: &mut Member) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    let sum = rma.allocate::<u64>(me, 1)?;
    let mut set = rma.mutexes(me, LockKind::Mcs, 1)?;
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

use syncline_sync::BarrierMember as _;

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let args = ["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"];
    let team = Team::processes(3).quiet().args(args);
    let results = team.run(|me| match role.as_str() {
        "left" => left(me),
        "mixed" => mixed(me),
        _ => legal(me),
    });
    results.unwrap().into_iter().for_each(|result| result.unwrap());
}

#[test]
fn processes_are_told_of_the_same() {
    for role in ["left", "mixed", "legal"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"]).env(ROLE, role);
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let late = Instant::now() + Duration::from_secs(120);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > late {
                child.kill().unwrap();
                panic!("{role} hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{role}: {status}");
    }
}

//! The roles of the processes of the tests.

use std::process::exit;
use std::sync::atomic::AtomicU64;

use rustix::process::{Signal, kill_process};
use syncline_fabric::{Member, Team, TeamError};
use syncline_sync::{
    BarrierMember, Fault, Lock, Mcs,
    barrier::{Counter, Dissemination, Tournament},
    board::Flags,
};

use crate::common::{ROLE, TOLD, late, say};

/// Plays the role that the environment names, if it names one.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let three = Team::processes(3);
    match role.as_str() {
        "meet" => end(three.run(meet)),
        "meet, two threads each" => end(three.threads(2).run(meet)),
        "meet, from the environment" => end(Team::run(meet)),
        "other arguments" => {
            let args =
                ["--exact", "role_of_a_process", "--ignored", "--nocapture", "--test-threads=1"];
            end(three.args(args).run(|me| {
                if me.rank() == 0 {
                    say(std::env::args().next_back().unwrap());
                }
            }))
        }
        "another order" => end(Team::processes(2).run(other_order)),
        "one joins after a difference" => {
            let told = std::path::PathBuf::from(std::env::var_os(TOLD).unwrap());
            let last = std::env::var("SYNCLINE_TEAM").is_ok_and(|team| team.contains("process=2 "));
            while last && !told.exists() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            end(three.run(|me| joins_late(me, &told)))
        }
        "killed" => end(three.threads(2).run(|me| {
            me.wait().unwrap();
            if me.rank() == 3 {
                kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
            }
            say(format!("rank {}: {:?}", me.rank(), me.barrier().wait_deadline(late())));
        })),
        "exits" => end(three.run(|me| {
            if me.rank() == 1 {
                exit(0);
            }
            say(format!("rank {}: {:?}", me.rank(), me.barrier().wait_deadline(late())));
        })),
        "panics" => end(Team::processes(2).threads(2).run(|me| {
            assert_ne!(me.rank(), 2, "as it must");
            say(format!("rank {}: {:?}", me.rank(), me.barrier().wait_deadline(late())));
        })),
        "leaves things behind" => end(three.run(leave_behind)),
        "waits for ever" => end(three.run(|me| {
            me.wait().unwrap();
            // Said after the wait: a launcher that is killed during it would end the wait by an
            // error.
            say(format!("pid {}", std::process::id()));
            // Waits for an arrival that never comes; only a death ends the wait.
            if me.rank() > 0 {
                let _ = me.barrier().wait_deadline(late());
            }
            std::thread::sleep(std::time::Duration::from_secs(100));
        })),
        "fails, and the others stay" => end(three.run(|me| {
            me.wait().unwrap();
            if me.rank() == 1 {
                exit(7);
            }
            std::thread::sleep(std::time::Duration::from_secs(100));
        })),
        "some stay away" => {
            if std::env::var("SYNCLINE_TEAM").is_ok_and(|team| team.contains("process=1 ")) {
                exit(0);
            }
            end(three.run(|me| {
                say(format!("rank {}: {:?}", me.rank(), me.barrier().wait_deadline(late())))
            }))
        }
        "stays away" => exit(0),
        "nested" => end(Team::processes(2).run(|me| {
            let inner = Team::threads(2).run(|inner| inner.size());
            let again = Team::run(|_| ()).unwrap_err();
            let more = Team::processes(2).run(|_| ()).unwrap_err();
            say(format!("rank {}: {:?}, {again}, {more}", me.rank(), inner.unwrap()));
        })),
        "twice" => {
            Team::processes(1).run(|_| ()).unwrap();
            end(Team::processes(1).run(|_| ()))
        }
        "many" => {
            end(Team::threads(1 + std::thread::available_parallelism().unwrap().get()).run(meet))
        }
        other => panic!("no role {other:?}"),
    }
}

/// Reports the end of the team, and exits as a program would.
fn end<R>(result: Result<Vec<R>, TeamError>) -> ! {
    let code = result.as_ref().err().map_or(0, TeamError::exit_code);
    if let Err(error) = result {
        say(format!("error: {error}"));
    }
    exit(code.into())
}

/// Runs rounds over barriers of all kinds, and reports the rank.
pub(crate) fn meet(me: &mut Member) {
    let all = |me: &mut Member| -> Result<(), Box<dyn std::error::Error>> {
        let mut counter = me.make(Counter::within)?;
        let mut flags =
            me.make(|space, members| Tournament::within(space, members, Flags::Packed))?;
        let mut levels = me.combine(Counter::within, |space, groups| {
            Dissemination::within(space, groups, 2, Flags::Padded)
        })?;
        let mut sum = me.make(Lock::<Mcs, u64>::within)?;
        let mut last = me.make(Counter::within)?;
        for round in 1..=50 {
            me.wait()?;
            counter.wait()?;
            flags.arrive()?;
            flags.wait()?;
            levels.wait()?;
            *sum.lock()? += 1;
            last.arrive()?;
            last.wait_deadline(late())?;
            assert_eq!((levels.episodes(), me.barrier().episodes()), (round, round));
        }
        assert_eq!(*sum.lock()?, 50 * me.size() as u64);
        assert_eq!((levels.rank(), levels.members()), (me.rank(), me.size()));
        Ok(())
    };
    let ended = all(me);
    let place = (me.process(), me.thread(), me.processes(), me.threads());
    say(format!("rank {} of {}: {place:?} {ended:?}", me.rank(), me.size()));
    ended.unwrap();
}

/// Rank 1 ends well, but never releases some of its parts; the others use the objects after its
/// process has ended.
fn leave_behind(me: &mut Member) {
    let mut barrier = me.make(Counter::within).unwrap();
    let mut held = me.make(Lock::<Mcs, u64>::within).unwrap();
    let mut free = me.make(Lock::<Mcs, u64>::within).unwrap();
    if me.rank() == 1 {
        std::mem::forget(held.lock().unwrap());
        me.wait().unwrap();
        std::mem::forget((barrier, held));
        return;
    }
    me.wait().unwrap();
    let fault = barrier.wait_deadline(late()).unwrap_err();
    // The second to come finds it repaired.
    let locked =
        held.lock_deadline(late()).map_or_else(|error| error.to_string(), |_| "free".to_owned());
    let poisoned_by = held.recover(late()).unwrap().poisoned_by();
    *free.lock_deadline(late()).unwrap() += 1;
    assert_eq!(me.fault_list().after(0), None, "no member was missed");
    say(format!(
        "rank {}: {fault}, {locked}, {}",
        me.rank(),
        poisoned_by.is_none_or(|rank| rank == 1)
    ));
}

/// Ranks 0 and 1 allocate different memory, and wait for rank 2. Rank 2 joins after the difference
/// was found, and allocates as rank 0 does.
fn joins_late(me: &mut Member, told: &std::path::Path) {
    let rank = me.rank();
    let made = me.space().array::<AtomicU64>(if rank == 1 { 200 } else { 100 });
    if rank < 2 && made.is_err() {
        std::fs::write(told, "").unwrap();
    }
    let error = made.map_err(|error| error.to_string());
    if rank == 2 {
        say(format!("rank {rank}: {}", error.unwrap_err()));
        return;
    }
    let fault = me.wait_deadline(late()).unwrap_err().to_string();
    error.map_or_else(|error| assert_eq!(error, fault), drop);
    say(format!("rank {rank}: {fault}"));
}

/// Rank 0 makes one object, then rank 1 a different one.
fn other_order(me: &mut Member) {
    let rank = me.rank();
    if rank == 0 {
        let mut made = me.make(Counter::within).unwrap();
        me.wait().unwrap();
        let fault = made.wait_deadline(late()).unwrap_err();
        assert!(matches!(fault, Fault::Differs(_)), "{fault}");
        say(format!("rank {rank}: {fault}"));
    } else {
        me.wait().unwrap();
        let made =
            me.make(|space, members| Dissemination::within(space, members, 2, Flags::Packed));
        say(format!("rank {rank}: {}", made.unwrap_err()));
    }
}

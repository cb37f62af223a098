//! Teams of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team, TeamError};
use syncline_sync::{BarrierMember, Fault, Lock, LockError, Mcs, barrier::Counter};

use crate::common::{is_warning, late, play, program};
use crate::roles::meet;

#[test]
fn every_rank_is_there_once() {
    let places =
        Team::threads(4).run(|me| (me.rank(), me.size(), me.process(), me.thread())).unwrap();
    assert_eq!(places, [(0, 4, 0, 0), (1, 4, 0, 1), (2, 4, 0, 2), (3, 4, 0, 3)]);
}

#[test]
fn rounds_of_all_barriers() {
    Team::threads(3).run(meet).unwrap();
}

#[test]
fn a_barrier_holds_until_all_have_come() {
    let arrived = AtomicUsize::new(0);
    Team::threads(4)
        .run(|me| {
            for round in 1..=100 {
                // Relaxed: the barrier orders it.
                arrived.fetch_add(1, Ordering::Relaxed);
                me.wait().unwrap();
                assert_eq!(arrived.load(Ordering::Relaxed), 4 * round);
                me.barrier().arrive().unwrap();
                me.wait().unwrap();
            }
        })
        .unwrap();
}

#[test]
fn a_panic_is_told_to_the_others_and_to_the_caller() {
    let faults = std::sync::Mutex::new(Vec::new());
    let error = Team::threads(3)
        .run(|me| {
            assert_ne!(me.rank(), 1, "as it must");
            faults.lock().unwrap().push(me.barrier().wait_deadline(late()));
        })
        .unwrap_err();
    assert_eq!(*faults.lock().unwrap(), [Err(Fault::Dead { rank: 1 }); 2]);
    let TeamError::Panicked { rank: 1, message } = &error else { panic!("{error}") };
    assert!(message.contains("as it must"), "{message}");
}

#[test]
fn a_panic_with_something_that_panics_again_is_told() {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    let error = Team::threads(1).run(|_| std::panic::panic_any(Bomb)).unwrap_err();
    assert_eq!(error.to_string(), "rank 0 panicked: (not a text)");
}

/// A member moves its lock handle to another thread, and panics while that thread holds the lock.
#[test]
fn a_lock_that_a_panicked_member_has_passed_on_stays_held() {
    let (holding, over) = (Barrier::new(2), AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(Some(receiver));
    let error = Team::threads(2)
        .run(|me| {
            let mut lock = me.make(Lock::<Mcs, u64>::within).unwrap();
            if me.rank() == 1 {
                let (receiver, (held, is_held)) =
                    (receiver.lock().unwrap().take().unwrap(), mpsc::channel());
                std::thread::spawn(move || {
                    let mut number = lock.lock().unwrap();
                    held.send(()).unwrap();
                    receiver.recv().unwrap();
                    *number += 1;
                });
                is_held.recv().unwrap();
                holding.wait();
                panic!("as it must");
            }
            holding.wait();
            assert_eq!(lock.lock_deadline(late()).unwrap_err(), LockError::Dead { rank: 1 });
            let soon = Some(Instant::now() + Duration::from_millis(30));
            assert_eq!(lock.recover(soon).unwrap_err(), LockError::TimedOut);
            sender.send(()).unwrap();
            let held = lock.recover(late()).unwrap();
            assert_eq!((held.poisoned_by(), *held), (None, 1));
            over.store(1, Ordering::Relaxed);
        })
        .unwrap_err();
    assert!(matches!(error, TeamError::Panicked { rank: 1, .. }), "{error}");
    assert_eq!(over.into_inner(), 1);
}

#[test]
fn one_that_leaves_early_is_named() {
    let results = Team::threads(2)
        .run(|me| if me.rank() == 0 { me.barrier().wait_deadline(late()) } else { Ok(()) });
    assert_eq!(results.unwrap(), [Err(Fault::Left { rank: 1 }), Ok(())]);
}

/// A member that makes fewer objects than the others is not waited for, whichever member comes
/// first.
#[test]
fn one_that_ends_without_its_part_is_named() {
    for made in 0..10 {
        let results = Team::threads(2).run(|me| {
            for _ in 0..made {
                me.make(Counter::within).unwrap();
            }
            match me.rank() {
                0 => me.make(Counter::within).unwrap().wait_deadline(late()),
                _ => Ok(()),
            }
        });
        assert_eq!(results.unwrap(), [Err(Fault::Left { rank: 1 }), Ok(())]);
    }
}

/// The same for a member that has made the same number of objects, but different ones.
#[test]
fn one_that_ends_without_its_word_is_named() {
    let left = |me: &mut Member| match me.rank() {
        1 => me.board(1).map(|_| Vec::new()).map_err(|_| Fault::TimedOut),
        _ => me.gather_deadline(7, late()),
    };
    let told = Err(Fault::Left { rank: 1 });
    assert_eq!(Team::threads(2).run(left).unwrap(), [told.clone(), Ok(Vec::new())]);
    assert_eq!(Team::hosts(2).run(left).unwrap(), [told, Ok(Vec::new())]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let error = Team::threads(0).run(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "a team has 1 to 4096 members, not 1 processes x 0 threads");
    let error = Team::threads(2).memory(100).run(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("the team's shared memory: no room in the segment"), "{error}");
}

#[test]
fn the_environment_says_how_many() {
    let played = play(program("meet, from the environment").env("SYNCLINE_THREADS", "3"));
    let expected: Vec<_> =
        (0..3).map(|rank| format!("rank {rank} of 3: (0, {rank}, 1, 3) Ok(())")).collect();
    assert_eq!((played.code, &played.said), (Some(0), &expected));
    for wrong in ["0", "many", "4097"] {
        let played = play(program("meet, from the environment").env("SYNCLINE_THREADS", wrong));
        let why = "expected a number of threads from 1 to 4096";
        let expected =
            format!("error: the environment variable SYNCLINE_THREADS is {wrong:?}: {why}");
        assert_eq!((played.code, played.said), (Some(1), vec![expected]));
    }
}

#[test]
fn a_warning_comes_once_when_members_outnumber_cores() {
    let played = play(&mut program("many"));
    assert_eq!(played.told.iter().filter(|line| is_warning(line)).count(), 1, "{played:?}");
    let played = play(program("many").env("SYNCLINE_QUIET", "1"));
    assert_eq!((played.code, played.told), (Some(0), Vec::new()));
}

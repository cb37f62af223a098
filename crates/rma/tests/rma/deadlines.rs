//! Waits with a deadline leave a consistent state, and can be resumed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team};
use syncline_rma::unstable::{LockKind, mutexes};
use syncline_rma::{Rma, RmaError};
use syncline_sync::Fault;
use syncline_testkit::cases;

const TIMED_OUT: RmaError = RmaError::Fault(Fault::TimedOut);

/// Runs `work` on a thread, and fails if it takes too long.
fn ends<T: Send + 'static>(what: String, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Runs `work` on threads, and on hosts of one process, of two processes, and of two threads.
fn everywhere(
    what: &str,
    work: impl Fn(&mut Member) -> Result<(), RmaError> + Send + Sync + Copy + 'static,
) {
    let all =
        |results: Vec<Result<(), RmaError>>| results.into_iter().for_each(|result| result.unwrap());
    for members in [2, 3, 5] {
        ends(format!("{what}, {members} threads"), move || {
            all(Team::threads(members).quiet().run(work).unwrap())
        });
    }
    for (hosts, processes, threads) in [(2, 1, 1), (3, 1, 1), (2, 1, 2), (2, 2, 1)] {
        ends(format!("{what}, {hosts} x {processes} x {threads}"), move || {
            all(Team::hosts(hosts)
                .processes(processes)
                .threads(threads)
                .quiet()
                .run(work)
                .unwrap());
        });
    }
}

fn soon(micros: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_micros(micros))
}

/// Returns the next pseudo-random number.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Members whose waits time out, and that try again for this mutex or another one, still exclude
/// one another, and lose none of their turns.
fn contended(me: &mut Member, kind: LockKind) -> Result<(), RmaError> {
    let mut rma = Rma::new(me)?;
    let numbers = rma.allocate::<u64>(me, 2)?;
    let mut set = mutexes(&mut rma, me, kind, 2)?;
    let (last, mut state) = (me.size() - 1, 1 + me.rank() as u64);
    let mut timed_out = 0;
    let mut taken = [0_u64; 2];
    for _ in 0..120 {
        let index = random(&mut state) as usize % 2;
        let deadline = match random(&mut state) % 4 {
            0 => None,
            1 => Some(Instant::now()),
            _ => soon(random(&mut state) % 60),
        };
        match set.lock_deadline(&mut rma, last, index, deadline) {
            Ok(()) => {
                let mut number = [0];
                rma.get(&numbers, 0, index, &mut number)?;
                if random(&mut state).is_multiple_of(4) {
                    std::thread::sleep(Duration::from_micros(random(&mut state) % 100));
                }
                rma.put(&numbers, 0, index, &[number[0] + 1])?;
                set.unlock(&mut rma, last, index)?;
                taken[index] += 1;
            }
            Err(error) => {
                assert_eq!((error, deadline.is_some()), (TIMED_OUT, true));
                timed_out += 1;
            }
        }
    }
    // All mutexes are free in the end, whatever places were abandoned.
    for index in 0..2 {
        set.lock(&mut rma, last, index)?;
        set.unlock(&mut rma, last, index)?;
    }
    rma.sync()?;
    let all = [0, 1].map(|index| me.gather(taken[index]).unwrap().iter().sum::<u64>());
    let mut found = [0; 2];
    rma.get(&numbers, 0, 0, &mut found)?;
    assert_eq!(found, all, "{timed_out} timed out");
    rma.sync()?;
    set.free(&mut rma, me)
}

#[test]
fn locks_with_deadlines_exclude_one_another() {
    everywhere("Mcs", |me| contended(me, LockKind::Mcs));
    everywhere("Ticket", |me| contended(me, LockKind::Ticket));
    everywhere("Hybrid", |me| contended(me, LockKind::Hybrid));
}

/// The mutex passes over a member that has timed out and does something else. That member can lock
/// it again later.
#[test]
fn nobody_waits_for_a_member_that_has_given_up() {
    // The holder unlocks while another member waits behind the absent one, or before another one
    // asks.
    for waits_behind in [true, false] {
        // Of two processes of a host one is the server: the absent member's process is not.
        for (hosts, processes) in [(0, 1), (3, 1), (2, 2)] {
            ends(format!("{waits_behind}, {hosts} hosts of {processes}"), move || {
                let step = AtomicUsize::new(0);
                let reach = |number: usize| {
                    while step.load(Ordering::Acquire) < number {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                };
                let work = |me: &mut Member| {
                    let mut rma = Rma::new(me)?;
                    let mut set = rma.mutexes(me, 1)?;
                    match me.rank() {
                        0 => {
                            set.lock(&mut rma, 0, 0)?;
                            step.store(1, Ordering::Release);
                            reach(2);
                            if waits_behind {
                                std::thread::sleep(Duration::from_millis(50));
                            }
                            set.unlock(&mut rma, 0, 0)?;
                            step.fetch_max(3, Ordering::AcqRel);
                        }
                        1 => {
                            reach(1);
                            assert_eq!(
                                set.lock_deadline(&mut rma, 0, 0, soon(1000)),
                                Err(TIMED_OUT)
                            );
                            step.store(2, Ordering::Release);
                            // This member does not wait, and there is no other member in its
                            // process that does.
                            reach(4);
                            set.lock_deadline(&mut rma, 0, 0, None)?;
                            set.unlock(&mut rma, 0, 0)?;
                            // Once more, from an empty queue.
                            set.lock(&mut rma, 0, 0)?;
                            set.unlock(&mut rma, 0, 0)?;
                        }
                        _ => {
                            reach(if waits_behind { 2 } else { 3 });
                            set.lock(&mut rma, 0, 0)?;
                            step.store(4, Ordering::Release);
                            std::thread::sleep(Duration::from_millis(5));
                            set.unlock(&mut rma, 0, 0)?;
                        }
                    }
                    rma.sync()
                };
                let results = match hosts {
                    0 => Team::threads(3).quiet().run(work),
                    _ => Team::hosts(hosts).processes(processes).quiet().run(work),
                };
                results
                    .unwrap()
                    .into_iter()
                    .for_each(|result: Result<(), RmaError>| result.unwrap());
            });
        }
    }
}

/// The mutex stays at the place of a member that has timed out, if no other member wants it.
#[test]
fn a_place_that_was_left_is_found_again() {
    everywhere("left", |me| {
        let mut rma = Rma::new(me)?;
        let mut set = rma.mutexes(me, 1)?;
        for _ in 0..50 {
            if me.rank() == 0 {
                set.lock(&mut rma, 0, 0)?;
            }
            rma.sync()?;
            if me.rank() == 1 {
                assert_eq!(set.lock_deadline(&mut rma, 0, 0, Some(Instant::now())), Err(TIMED_OUT));
            }
            rma.sync()?;
            if me.rank() == 0 {
                set.unlock(&mut rma, 0, 0)?;
            }
            rma.sync()?;
            if me.rank() == 1 {
                set.lock(&mut rma, 0, 0)?;
                set.unlock(&mut rma, 0, 0)?;
            }
            rma.sync()?;
        }
        Ok(())
    });
}

/// One member is late, and the others time out and call again until they succeed.
#[test]
fn collective_calls_are_gone_on_with() {
    fn again<T>(
        late: bool,
        mut call: impl FnMut(Option<Instant>) -> Result<T, RmaError>,
    ) -> Result<T, RmaError> {
        if late {
            std::thread::sleep(Duration::from_millis(3));
            return call(None);
        }
        loop {
            match call(soon(200)) {
                Err(TIMED_OUT) => (),
                done => return done,
            }
        }
    }
    everywhere("late", |me| {
        let mut rma = Rma::new(me)?;
        for round in 0..u64::from(cases(32)) {
            let late = round as usize % me.size() == me.rank();
            let memory = again(late, |deadline| rma.allocate_deadline::<u64>(me, 3, deadline))?;
            let right = (me.rank() + 1) % me.size();
            rma.put(&memory, right, 1, &[round + 1])?;
            again(late, |deadline| rma.sync_deadline(deadline))?;
            let mut found = [0; 3];
            rma.get(&memory, me.rank(), 0, &mut found)?;
            assert_eq!(found, [0, round + 1, 0]);
            again(late, |deadline| Ok(me.wait_deadline(deadline)?))?;
            let all = again(late, |deadline| Ok(me.gather_deadline(round, deadline)?))?;
            assert_eq!(all, vec![round; me.size()]);
            rma.free(me, memory)?;
        }
        rma.sync()
    });
}

/// After an allocation has timed out, other collective calls are refused until it is complete.
#[test]
fn an_allocation_that_has_timed_out_comes_first() {
    everywhere("allocation", |me| {
        let mut rma = Rma::new(me)?;
        me.wait()?;
        if me.rank() == 0 {
            while let Err(error) = rma.allocate_deadline::<u64>(me, 3, Some(Instant::now())) {
                assert_eq!(error, TIMED_OUT);
                let unfinished = RmaError::Unfinished;
                assert_eq!(rma.sync(), Err(unfinished.clone()));
                assert_eq!(rma.sync_start(), Err(unfinished.clone()));
                assert_eq!(rma.sync_deadline(None), Err(unfinished.clone()));
                assert_eq!(rma.allocate::<u32>(me, 3).unwrap_err(), unfinished);
                assert_eq!(rma.allocate::<u64>(me, 4).unwrap_err(), unfinished);
                assert_eq!(rma.mutexes(me, 4).unwrap_err(), unfinished);
            }
        } else {
            std::thread::sleep(Duration::from_millis(2));
            rma.allocate::<u64>(me, 3)?;
        }
        rma.sync()
    });
}

/// Rank 0 writes, times out at a sync, and returns. The others call the sync after that.
fn returns_after_a_sync(me: &mut Member, gone: &AtomicUsize) -> Result<u64, RmaError> {
    let mut rma = Rma::new(me)?;
    let memory = rma.allocate::<u64>(me, 1)?;
    if me.rank() == 0 {
        (1..me.size()).try_for_each(|rank| rma.put(&memory, rank, 0, &[7]))?;
        let synced = rma.sync_deadline(Some(Instant::now()));
        drop(rma);
        // Release: pairs with the Acquire below.
        gone.store(1, Ordering::Release);
        return synced.map(|()| 0);
    }
    while gone.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    rma.sync()?;
    let mut word = [0];
    rma.get(&memory, me.rank(), 0, &mut word)?;
    Ok(word[0])
}

#[test]
fn a_member_that_has_timed_out_at_a_sync_between_hosts_may_return() {
    for (hosts, processes, threads) in [(2, 1, 1), (3, 1, 1), (2, 1, 2), (2, 2, 1), (5, 1, 1)] {
        let gone = Arc::new(AtomicUsize::new(0));
        let what = format!("{hosts} x {processes} x {threads}");
        let results = ends(what.clone(), move || {
            let team = Team::hosts(hosts).processes(processes).threads(threads).quiet();
            team.run(|me| returns_after_a_sync(me, &gone)).unwrap()
        });
        assert_eq!(results[0], Err(TIMED_OUT), "{what}");
        assert!(results[1..].iter().all(|result| *result == Ok(7)), "{what}: {results:?}");
    }
}

/// On one host the sync is a barrier: the others pass, or get the error that rank 0 has left.
#[test]
fn a_member_that_has_timed_out_at_a_sync_of_threads_is_missed_at_most() {
    let gone = Arc::new(AtomicUsize::new(0));
    let results = ends("threads".to_owned(), move || {
        Team::threads(3).quiet().run(|me| returns_after_a_sync(me, &gone))
    });
    let results = results.unwrap();
    assert_eq!(results[0], Err(TIMED_OUT));
    let told = |result: &_| matches!(result, Ok(7) | Err(RmaError::Fault(Fault::Left { .. })));
    assert!(results[1..].iter().all(told), "{results:?}");
}

//! Teams on several hosts, which are groups of threads here.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team, TeamError};
use syncline_sync::{BarrierMember, Fault, Silence, SpaceError, barrier::Counter};
use syncline_testkit::cases;

fn late() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(100))
}

/// Checks that no member leaves an episode before all have arrived.
fn check(barrier: &mut impl BarrierMember, arrived: &AtomicUsize, rounds: usize) {
    let members = barrier.members();
    for round in 1..=rounds {
        arrived.fetch_add(1, Ordering::SeqCst);
        if round % 3 == 0 {
            barrier.arrive().unwrap();
            while !barrier.done().unwrap() {
                std::thread::yield_now();
            }
        } else {
            barrier.wait_deadline(late()).unwrap();
        }
        assert!(arrived.load(Ordering::SeqCst) >= members * round, "round {round}");
    }
}

#[test]
fn every_barrier_holds_on_any_number_of_hosts() {
    let rounds = cases(80) as usize;
    let conditions =
        Conditions { jitter: Duration::from_micros(30), seed: 5, ..Conditions::default() };
    for (hosts, processes, threads) in
        [(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (2, 1, 2), (3, 2, 2), (5, 1, 1)]
    {
        let counts = [(); 6].map(|()| AtomicUsize::new(0));
        let team =
            Team::hosts(hosts).processes(processes).threads(threads).quiet().conditions(conditions);
        let ranks = team.run(|me| {
            assert_eq!((me.hosts().count(), me.host()), (hosts, me.rank() / (processes * threads)));
            assert_eq!(me.ranks_on(me.host()).len(), processes * threads);
            check(me.barrier(), &counts[0], rounds);
            check(&mut me.tournament().unwrap(), &counts[1], rounds);
            for (radix, count) in [(2, &counts[2]), (3, &counts[3]), (64, &counts[4])] {
                check(&mut me.dissemination(radix).unwrap(), count, rounds);
            }
            check(&mut me.combined(0).unwrap(), &counts[5], rounds);
            me.rank()
        });
        assert_eq!(ranks.unwrap(), (0..hosts * processes * threads).collect::<Vec<_>>());
    }
}

#[test]
fn threads_take_the_same_barriers() {
    let counts = [(); 3].map(|()| AtomicUsize::new(0));
    let run = |me: &mut Member| {
        check(&mut me.tournament().unwrap(), &counts[0], 100);
        check(&mut me.dissemination(2).unwrap(), &counts[1], 100);
        check(&mut me.combined(2).unwrap(), &counts[2], 100);
    };
    Team::threads(3).quiet().run(run).unwrap();
}

#[test]
fn words_are_gathered_from_all_hosts() {
    let conditions =
        Conditions { jitter: Duration::from_micros(30), seed: 9, ..Conditions::default() };
    for (hosts, processes, threads) in [(1, 1, 2), (2, 1, 1), (3, 1, 2), (2, 2, 1)] {
        let team =
            Team::hosts(hosts).processes(processes).threads(threads).quiet().conditions(conditions);
        let all = team.run(|me| {
            for time in 0..50 {
                let words = me.gather(100 * time + me.rank() as u64).unwrap();
                let expected =
                    (0..me.size() as u64).map(|rank| 100 * time + rank).collect::<Vec<_>>();
                assert_eq!(words, expected);
            }
        });
        all.unwrap();
    }
}

/// Returns the outcome of the members of three hosts when host 1 is cut off. Silence counts after
/// `timeout`, or after the default.
fn cut_off(timeout: Option<Duration>) -> Vec<Result<(), Fault>> {
    let network = Mutex::new(None);
    let team = Team::hosts(3).quiet();
    let team = match timeout {
        Some(timeout) => team.timeout(timeout),
        None => team,
    };
    let found = team.run_on(
        |links| *network.lock().unwrap() = Some(links.clone()),
        |me| {
            let met = me.barrier().wait_deadline(late());
            if me.rank() == 1 {
                network.lock().unwrap().as_ref().unwrap().cut(1);
            }
            // The others may have sent it their arrivals before it was cut off.
            met.and_then(|()| (0..3).try_for_each(|_| me.barrier().wait_deadline(late())))
        },
    );
    found.unwrap()
}

#[test]
fn a_host_that_is_cut_off_is_named_to_the_others() {
    // On a machine that is too busy for a host to send in time, other hosts are named, too: then
    // the test is repeated with a longer timeout.
    let timeouts = [400, 4_000, 20_000];
    let right = |found: &[Result<(), Fault>], timeout| {
        let others = [0, 2].map(|rank| found[rank]);
        others == [Err(Fault::Silent(Silence::new(1, timeout))); 2]
            && matches!(found[1], Err(Fault::Silent(_)))
    };
    let mut seen = Vec::new();
    for timeout in timeouts {
        seen.push((timeout, cut_off(Some(Duration::from_millis(timeout.into())))));
        if right(&seen[seen.len() - 1].1, timeout) {
            return;
        }
    }
    panic!("with no timeout only the host that was cut off is named to the others: {seen:?}");
}

/// Set for a process that is [`silence_of_the_usual_length`].
const SILENT: &str = "SYNCLINE_TEST_SILENT";

/// Does nothing as a test by itself: it runs a team of which a host is cut off, without any setting
/// of timeouts.
#[test]
fn silence_of_the_usual_length() {
    if std::env::var_os(SILENT).is_none() {
        return;
    }
    let usual =
        |fault: &Fault| (0..3).any(|rank| *fault == Fault::Silent(Silence::new(rank, 10_000)));
    let found = cut_off(None);
    assert!(found.iter().all(|found| found.as_ref().is_err_and(usual)), "{found:?}");
}

#[test]
#[ignore = "full: it waits for 10 s"]
fn silence_counts_after_ten_seconds_unless_said_otherwise_and_is_told() {
    let mut team = Command::new(std::env::current_exe().unwrap());
    team.args(["--exact", "hosts::silence_of_the_usual_length", "--nocapture"]);
    let ended = team.env(SILENT, "1").env_remove("SYNCLINE_TIMEOUT").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let line =
        " has not been heard of for 10 s and is taken for dead; SYNCLINE_TIMEOUT sets the limit";
    assert!(said.contains(line), "{said}");
}

/// Independent of the silence of a host, which may last for an hour here.
#[test]
fn a_process_whose_failure_the_network_reports_is_named_at_once() {
    let (network, passed) = (Mutex::new(None), AtomicUsize::new(0));
    let team = Team::hosts(3).quiet().timeout(Duration::from_secs(3600));
    let found = team.run_on(
        |links| *network.lock().unwrap() = Some(links.clone()),
        |me| {
            me.wait().unwrap();
            passed.fetch_add(1, Ordering::Relaxed);
            if me.rank() == 1 {
                // A member that is still in the barrier would be told of the failure there.
                let all = || passed.load(Ordering::Relaxed) == 3;
                me.endpoint().unwrap().wait(None, all).unwrap();
                network.lock().unwrap().as_ref().unwrap().report(1);
                panic!("as if it had died");
            }
            let fault = (0..3).find_map(|_| me.barrier().wait_deadline(late()).err());
            assert_eq!(fault, Some(Fault::Reported { rank: 1 }));
        },
    );
    assert!(matches!(found, Err(TeamError::Panicked { rank: 1, .. })), "{found:?}");
}

#[test]
fn a_panic_and_an_early_end_are_told_on_other_hosts() {
    let faults = Mutex::new(Vec::new());
    let error = Team::hosts(3).quiet().run(|me| {
        assert_ne!(me.rank(), 2, "on purpose");
        let fault = me.barrier().wait_deadline(late());
        faults.lock().unwrap().push(fault);
    });
    assert!(matches!(error, Err(TeamError::Panicked { rank: 2, .. })), "{error:?}");
    for fault in faults.into_inner().unwrap() {
        assert!(
            matches!(fault, Err(Fault::Dead { rank: 2 } | Fault::Left { rank: 2 })),
            "{fault:?}"
        );
    }
    let faults = Team::hosts(2).quiet().run(|me| {
        if me.rank() == 1 {
            return Ok(());
        }
        me.combined(0).unwrap().wait_deadline(late())
    });
    let faults = faults.unwrap();
    assert_eq!(faults[0], Err(Fault::Left { rank: 1 }));
}

#[test]
fn what_needs_common_memory_says_so() {
    let errors = Team::hosts(2).quiet().run(|me| me.make(Counter::within).map(|_| ())).unwrap();
    assert_eq!(errors, [Err(SpaceError::Hosts { hosts: 2 }); 2]);
    assert!(errors[0].unwrap_err().to_string().contains("2 hosts"));
}

/// Rank 0 times out at a barrier, and then returns. The other ranks arrive after that. Returns how
/// the wait of each rank ends.
fn after_one_timed_out(
    me: &mut Member,
    gone: &AtomicUsize,
    wait: impl FnOnce(&mut Member, Option<Instant>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let alone = me.rank() == 0;
    while !alone && gone.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    let deadline = if alone { Some(Instant::now()) } else { late() };
    let waited = wait(me, deadline);
    if alone {
        // Release: pairs with the Acquire above.
        gone.store(1, Ordering::Release);
    }
    waited
}

#[test]
fn a_member_that_has_timed_out_and_returns_is_missed_where_more_than_its_arrival_is_needed() {
    type Wait = fn(&mut Member, Option<Instant>) -> Result<(), Fault>;
    let team: Wait = |me, deadline| me.wait_deadline(deadline);
    let counter: Wait = |me, deadline| me.make(Counter::within).unwrap().wait_deadline(deadline);
    let rounds: Wait = |me, deadline| me.dissemination(2).unwrap().wait_deadline(deadline);
    // The number of hosts, or 0 for a team of threads; the members of each; the wait; the outcome
    // of members that need more than the arrival.
    // The barrier of a team has one round for three hosts, and two for four.
    let left = Err(Fault::Left { rank: 0 });
    for (hosts, threads, wait, told) in [
        (0, 3, counter, Ok(())),
        (0, 3, rounds, left),
        (4, 1, team, left),
        (3, 1, rounds, left),
        (2, 2, team, left),
    ] {
        let gone = AtomicUsize::new(0);
        let one = |me: &mut Member| after_one_timed_out(me, &gone, wait);
        let results = match hosts {
            0 => Team::threads(threads).quiet().run(one),
            _ => Team::hosts(hosts).threads(threads).quiet().run(one),
        };
        let mut results = results.unwrap();
        let others = results.split_off(1);
        assert_eq!(results, [Err(Fault::TimedOut)], "{hosts} x {threads}");
        // Some members need no more of rank 0 than its first round, or get an error for a member
        // that has left because of it.
        let is_left = |result: &_| matches!(result, Err(Fault::Left { .. })) && told.is_err();
        let expected = others.iter().all(|result| result.is_ok() || is_left(result));
        assert!(expected && others.contains(&told), "{hosts} x {threads}: {others:?}");
    }
}

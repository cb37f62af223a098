//! Pools of the members of a team: on threads, processes and hosts.

#[path = "farm/lucky.rs"]
mod lucky;

use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team, TeamError};
use syncline_farm::{
    FarmError, PoolBuilder, TaskError,
    pool::{Forks, Outcome},
};
use syncline_testkit::{again, as_role};

use lucky::Lucky;

/// A host that is silent for a shorter time may only be slow.
const SILENT: Duration = Duration::from_secs(300);

type Sums = Result<Option<(u64, u64)>, FarmError>;

/// Two pools, one after the other: of plain tasks, one of which panics, and of tasks that fork.
fn pools(me: &mut Member) -> Sums {
    let squares = PoolBuilder::new(1).on(
        me,
        |n: u64, _| {
            assert!(n != 13, "no luck");
            vec![n * n; n as usize % 50]
        },
        |pool| {
            let mut sum = 0;
            for done in pool.map(0..500) {
                match done.result {
                    Ok(result) => {
                        assert_eq!(
                            result,
                            vec![done.id.number().pow(2); done.id.number() as usize % 50]
                        );
                        sum += result.iter().sum::<u64>();
                    }
                    Err(error) => {
                        assert_eq!(
                            (done.id.number(), error),
                            (13, TaskError::Panicked { message: "no luck".into() })
                        );
                    }
                }
            }
            assert_eq!((pool.progress().ended, pool.progress().failed), (500, 1));
            sum
        },
    )?;
    let forked = PoolBuilder::new(1).forks().on(me, fibonacci, |pool| pool.run(12).unwrap())?;
    me.wait().unwrap();
    Ok(squares.zip(forked))
}

fn fibonacci(n: u32, forks: &mut Forks<'_, u32, u64>) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (one, two) = (forks.fork(n - 1), forks.fork(n - 2));
    forks.join(two).unwrap() + forks.join(one).unwrap()
}

fn check(sums: Result<Vec<Sums>, TeamError>) {
    let squares = (0..500_u64).filter(|&n| n != 13).map(|n| n * n * (n % 50)).sum::<u64>();
    for (rank, sum) in sums.unwrap().into_iter().enumerate() {
        assert_eq!(sum.unwrap(), (rank == 0).then_some((squares, 144)), "rank {rank}");
    }
}

/// Tasks that end only when they are cancelled; those of a second round are not cancelled.
fn cancelled(me: &mut Member) -> Result<Option<Vec<u64>>, FarmError> {
    PoolBuilder::new(1).batch(1).on(
        me,
        |n: u64, forks| {
            while n < 100 && !forks.is_cancelled() {
                std::thread::yield_now();
            }
            n + u64::from(forks.is_cancelled())
        },
        |pool| {
            let mut results = Vec::new();
            pool.submit(0);
            pool.submit(1);
            // The tasks are running, and do not end by themselves.
            assert!(pool.next_deadline(Some(Instant::now() + Duration::from_millis(20))).is_err());
            pool.cancel();
            results.extend(std::iter::from_fn(|| pool.next()).map(|done| done.result.unwrap()));
            results.sort_unstable();
            results.push(pool.run(100).unwrap());
            results
        },
    )
}

#[test]
fn what_workers_are_at_is_cancelled() {
    for results in [
        Team::threads(3).quiet().run(cancelled).unwrap(),
        Team::hosts(3).timeout(SILENT).quiet().run(cancelled).unwrap(),
    ] {
        assert_eq!(results[0].as_ref().unwrap(), &Some(vec![1, 2, 100]));
        assert!(results[1..].iter().all(|result| matches!(result, Ok(None))));
    }
}

#[test]
fn on_threads() {
    check(Team::threads(2).quiet().run(pools));
    check(Team::threads(4).quiet().run(pools));
}

#[test]
fn on_hosts() {
    check(Team::hosts(2).timeout(SILENT).quiet().run(pools));
    check(Team::hosts(3).threads(2).timeout(SILENT).quiet().run(pools));
    check(Team::hosts(2).processes(2).timeout(SILENT).quiet().run(pools));
}

const ROLE: &str = "SYNCLINE_FARM_TEAM_TEST";

#[test]
fn on_processes() {
    let mut command = again("role");
    command.env(ROLE, "pools");
    for variable in ["SYNCLINE_TEAM", "SYNCLINE_THREADS"] {
        command.env_remove(variable);
    }
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Not a test: the processes of a team.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_some() {
        let team = Team::processes(3).quiet().args(as_role("role"));
        for sum in team.run(pools).unwrap() {
            sum.unwrap();
        }
    }
}

#[test]
fn a_crew_that_a_team_cannot_be() {
    let on = |builder: PoolBuilder, members: usize| {
        let ended =
            Team::threads(members).quiet().run(|me| builder.clone().on(me, |n: u64, _| n, |_| ()));
        ended.unwrap().swap_remove(0).unwrap_err().to_string()
    };
    let why = "a team cannot run a pool that is cold: its members exist already, and stay";
    assert_eq!(on(PoolBuilder::new(1).cold(), 2), why);
    assert!(on(PoolBuilder::new(1).stealing(), 2).contains("stealing"));
    assert_eq!(
        on(PoolBuilder::new(1), 1),
        "the number of members of a team with a pool must be from 2 to 4096, not 1"
    );
}

/// Two members are given up: the one with the batch, and the one with the task alone.
#[test]
fn only_the_task_whose_result_is_garbled_fails() {
    let garbled = |me: &mut Member| {
        PoolBuilder::new(1).batch(6).on(
            me,
            |n: u64, _| Lucky(vec![n * n]),
            |pool| {
                for Outcome { id, result } in pool.map(0..50) {
                    match (id.number(), result) {
                        (13, Err(TaskError::Garbled { .. })) => (),
                        (n, result) => assert_eq!(result, Ok(Lucky(vec![n * n]))),
                    }
                }
            },
        )
    };
    for ended in [
        Team::threads(4).quiet().run(garbled).unwrap(),
        Team::hosts(4).timeout(SILENT).quiet().run(garbled).unwrap(),
    ] {
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    }
}

/// A worker that panics as a member, not in a task, is given up: its tasks are retried by another.
#[test]
fn a_member_that_is_gone_is_told_of() {
    let ended = Team::threads(3).quiet().run(|me| {
        let rank = me.rank();
        let pool = PoolBuilder::new(2).retries(1).on(
            me,
            move |n: u64, _| {
                if rank == 2 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                n + 1
            },
            |pool| pool.map(0..200).map(|done| done.result.unwrap()).sum::<u64>(),
        );
        assert!(rank != 2, "this member is gone");
        pool.unwrap()
    });
    assert!(ended.unwrap_err().to_string().contains("this member is gone"));
}

//! The examples of one-sided memory, and a pool of the team's members, on threads, processes and
//! hosts, and under every MPI of the machine.
//!
//! Processes of a team run this test program again with the single test
//! [`role_of_a_process`] or [`role_of_a_process_of_mpi`].

#[allow(dead_code, reason = "it has a main of its own")]
#[path = "../../examples/histogram.rs"]
mod histogram;
#[allow(dead_code, reason = "as above")]
#[path = "../../examples/pipeline.rs"]
mod pipeline;
#[allow(dead_code, reason = "as above")]
#[path = "../../examples/transpose.rs"]
mod transpose;
#[allow(dead_code, reason = "as above")]
#[path = "../../examples/work_queue.rs"]
mod work_queue;

use std::error::Error;
use std::process::Stdio;

use syncline::farm::pool::Forks;
use syncline::team::{Member, TeamError};
use syncline::{PoolBuilder, Team};
use syncline_testkit::mpi::MPIS;
use syncline_testkit::{again, as_role};

const ROLE: &str = "SYNCLINE_ONE_SIDED_TEST_ROLE";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Runs all three examples with small sizes, and a pool. Returns the number of blocks of the queue
/// that this member has done.
fn all(me: &mut Member) -> Result<usize> {
    transpose::transpose(me, 37)?;
    let (rank, values, _) = histogram::histogram(me, 12_000)?;
    assert_eq!((rank, values), (me.rank(), 12_000 * me.size()));
    pipelined(me)?;
    let (_, done, steps) = work_queue::work_queue(me, 40)?;
    assert!(steps >= done);
    if me.size() > 1 {
        let work = |n: u64, _: &mut Forks<'_, u64, Vec<u64>>| vec![n; 1000];
        let sum = PoolBuilder::new(1).on(me, work, |pool| {
            pool.map(0..300).map(|done| done.result.unwrap().iter().sum::<u64>()).sum::<u64>()
        })?;
        assert_eq!(sum, (me.rank() == 0).then_some(1000 * 299 * 300 / 2));
    }
    Ok(done)
}

/// Runs the pipeline, and compares its result with that of plain loops.
fn pipelined(me: &mut Member) -> Result<()> {
    const BLOCKS: u64 = 40;
    let passed = pipeline::pipeline(me, BLOCKS)?;
    let mut filters = vec![pipeline::Filter::default(); me.size() - 1];
    let mut sum = 0.0;
    for number in 0..BLOCKS {
        let (mut block, mut next) = ([0.0; 64], [0.0; 64]);
        pipeline::source(&mut block, number);
        for filter in &mut filters {
            filter.run(&block, &mut next);
            block = next;
        }
        sum += block.iter().sum::<f64>();
    }
    let last = me.rank() + 1 == me.size();
    assert_eq!(passed.sum, if last { sum } else { 0.0 });
    let on = |rank: usize| me.hosts().of(rank / me.threads());
    let far = !last && on(me.rank()) != on(me.rank() + 1);
    assert_eq!(passed.messages, if far { BLOCKS } else { 0 });
    Ok(())
}

fn check(results: std::result::Result<Vec<Result<usize>>, TeamError>) {
    let done: usize = results.unwrap().into_iter().map(|done| done.unwrap()).sum();
    assert_eq!(done, 40);
}

#[test]
fn on_threads() {
    check(Team::threads(1).quiet().run(all));
    check(Team::threads(3).quiet().run(all));
}

#[test]
fn on_hosts() {
    check(Team::hosts(3).quiet().run(all));
    check(Team::hosts(2).threads(2).quiet().run(all));
    check(Team::hosts(2).processes(2).quiet().run(all));
}

#[test]
fn on_processes() {
    let mut command = again("one_sided::role_of_a_process");
    command.env(ROLE, "all");
    for variable in ["SYNCLINE_TEAM", "SYNCLINE_THREADS"] {
        command.env_remove(variable);
    }
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn under_mpi() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_here()) {
        let shim =
            mpi.shim(|compiler, into| drop(syncline_mpi::build::build(compiler, into).unwrap()));
        for (processes, per_host) in [("3", "9"), ("4", "2"), ("2", "1")] {
            let mut command = mpi.run(std::env::current_exe().unwrap(), processes, &[]);
            command
                .args(as_role("one_sided::role_of_a_process_of_mpi"))
                .env(ROLE, "all")
                .env("SYNCLINE_MPI", &shim);
            command
                .env("SYNCLINE_PER_HOST", per_host)
                // All processes live, though on a loaded machine one may wait long for a core.
                .env("SYNCLINE_TIMEOUT", "300000")
                .env("SYNCLINE_QUIET", "1");
            let ended = command.stdin(Stdio::null()).output().unwrap();
            let wrong = String::from_utf8_lossy(&ended.stderr);
            assert!(
                ended.status.success(),
                "{}, {processes}, {per_host} on a host: {wrong}",
                mpi.name
            );
        }
    }
}

#[test]
#[ignore = "the processes of another test: does nothing by itself"]
fn role_of_a_process_of_mpi() {
    if std::env::var_os(ROLE).is_some() {
        for result in Team::run(all).unwrap() {
            result.unwrap();
        }
    }
}

#[test]
#[ignore = "the processes of another test: does nothing by itself"]
fn role_of_a_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let args = std::env::args_os().skip(1);
    for result in Team::processes(3).threads(2).args(args).quiet().run(all).unwrap() {
        result.unwrap();
    }
}

//! A pool of processes in the trace of its manager.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use syncline_farm::{PoolBuilder, Program};
use syncline_trace::frame::{Frame, TickSpan};
use syncline_trace::{Activity, Reader, Role, VARIABLE, finish, start};

const TASKS: u64 = 40;
/// Far beyond the duration of any wait, on any machine.
const HANG: Duration = Duration::from_secs(300);

#[test]
#[ignore = "the workers of the pool: does nothing by itself"]
fn worker() {
    syncline_farm::serve(|n: u64| n + 1).unwrap();
}

/// The frames of each process.
fn read(path: &Path) -> BTreeMap<u64, Vec<Frame>> {
    let mut reader = Reader::open(path).unwrap();
    let mut streams: BTreeMap<u64, Vec<Frame>> = BTreeMap::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        streams.entry(frame.stream).or_default().push(frame);
    }
    streams
}

fn spans(frames: &[Frame]) -> Vec<TickSpan> {
    let lanes = frames.iter().flat_map(|frame| &frame.lanes);
    lanes.flat_map(|lane| lane.spans()).collect()
}

fn has_role(frames: &[Frame], role: Role) -> bool {
    frames.iter().flat_map(|frame| &frame.lanes).any(|lane| lane.role == Some(role))
}

/// The numbers of the tasks that a process ran.
fn jobs(frames: &[Frame]) -> Vec<u64> {
    let jobs = spans(frames).into_iter().filter(|span| span.activity == Activity::Job);
    jobs.map(|span| span.detail).collect()
}

#[test]
fn workers_record_to_the_file_of_their_manager() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pool.trace");
    assert!(std::env::var_os(VARIABLE).is_none());
    start(&file).unwrap();
    let this = std::env::current_exe().unwrap();
    let quiet = Program::new("sh").args(["-c", "exec \"$0\" \"$@\" >/dev/null"]).arg(this);
    let program = quiet.args(syncline_testkit::as_role("worker"));
    let mut pool = PoolBuilder::new(2).program(program).start::<u64, u64>().unwrap();
    for task in 0..TASKS {
        assert_eq!(pool.submit(task).number(), task);
    }
    let mut results = BTreeSet::new();
    while let Some(outcome) = pool.next() {
        results.insert(outcome.result.unwrap());
    }
    assert_eq!(results, (1..=TASKS).collect());
    // What a worker that is killed has not written is lost, so all of them are waited for.
    let until = Instant::now() + HANG;
    while read(&file).values().map(|frames| jobs(frames).len()).sum::<usize>() < TASKS as usize {
        assert!(Instant::now() < until, "the tasks are not in the file");
        std::thread::sleep(Duration::from_millis(20));
    }
    pool.finish();
    finish().unwrap();

    let streams = read(&file);
    let mut all = Vec::new();
    let (mut managers, mut workers) = (0, BTreeSet::new());
    for frames in streams.values() {
        let of = |activity| spans(frames).into_iter().filter(move |s| s.activity == activity);
        if has_role(frames, Role::Manager) {
            managers += 1;
            assert!(of(Activity::AwaitResult).count() > 0);
            assert!(of(Activity::AwaitProcess).any(|span| span.subject == 1));
        } else {
            let number = (1..=2).find(|&n| has_role(frames, Role::Worker(n)));
            assert!(workers.insert(number.expect("the number of a worker")));
            assert!(of(Activity::AwaitJob).count() > 0);
            all.extend(jobs(frames));
        }
    }
    all.sort_unstable();
    assert_eq!(all, (0..TASKS).collect::<Vec<_>>());
    assert_eq!((managers, workers.len()), (1, 2));
}

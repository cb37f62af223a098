//! A pool of processes in the trace of its manager.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use syncline_farm::{PoolBuilder, Program};
use syncline_trace::frame::{Frame, TickSpan};
use syncline_trace::{Activity, Reader, Role, VARIABLE, finish, start};

/// The variable with the folder in which pairs of tasks meet.
const MEETING: &str = "SYNCLINE_TEST_MEETING";
/// Far beyond the duration of any wait, on any machine.
const HANG: Duration = Duration::from_secs(300);

#[test]
#[ignore = "the workers of the pool: does nothing by itself"]
fn role_of_a_process() {
    let folder = PathBuf::from(std::env::var_os(MEETING).unwrap_or_default());
    let meet = |n: u64| {
        // The tasks of a pair wait for each other, so each worker runs one of them.
        std::fs::write(folder.join(n.to_string()), "").unwrap();
        while !folder.join((n ^ 1).to_string()).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        n + 1
    };
    syncline_farm::serve(meet).unwrap();
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
    let program =
        quiet.args(syncline_testkit::as_role("role_of_a_process")).variable(MEETING, folder.path());
    let mut pool = PoolBuilder::new(2).batch(1).program(program).start::<u64, u64>().unwrap();
    // A worker that finds its next task at once has not waited for it, and what a worker that is
    // killed has not written is lost. So there are more tasks until both have waited, and until all
    // of that is in the file.
    let (until, mut tasks) = (Instant::now() + HANG, 0);
    let of_workers = |frames: &&Vec<Frame>| !has_role(frames, Role::Manager);
    let has_waited =
        |frames: &&Vec<Frame>| spans(frames).iter().any(|span| span.activity == Activity::AwaitJob);
    loop {
        assert!(Instant::now() < until, "the tasks are not in the file");
        let streams = read(&file);
        let waited = streams.values().filter(of_workers).filter(has_waited).count();
        let in_file = streams.values().map(|frames| jobs(frames).len()).sum::<usize>();
        if waited == 2 && in_file as u64 == tasks {
            break;
        }
        if waited < 2 {
            for task in [tasks, tasks + 1] {
                assert_eq!(pool.submit(task).number(), task);
            }
            let mut results = BTreeSet::new();
            while let Some(outcome) = pool.next() {
                results.insert(outcome.result.unwrap());
            }
            assert_eq!(results, [tasks + 1, tasks + 2].into());
            tasks += 2;
        }
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
    assert_eq!(all, (0..tasks).collect::<Vec<_>>());
    assert_eq!((managers, workers.len()), (1, 2));
}

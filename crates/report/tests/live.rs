//! The view of a run while it runs.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use syncline_report::live::{self, Follower, LaneView, State, View};
use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{Activity, ActivityClass, Role};
use syncline_trace::{finish, set_role, span, start};

/// A process records one trace at a time.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn view(follower: &mut Follower) -> View {
    assert!(follower.poll(Duration::MAX).unwrap());
    follower.live().view()
}

/// Polls until a view is as wanted; a test that waits for ever is ended by its runner.
fn until(follower: &mut Follower, so: impl Fn(&View) -> bool) -> View {
    loop {
        let view = view(follower);
        if so(&view) {
            return view;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn worker(view: &View) -> Option<&LaneView> {
    view.lanes.iter().find(|lane| lane.name.starts_with("worker 3"))
}

#[test]
fn a_running_thread_is_seen_with_its_wait() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    let mut follower = Follower::new(&file);
    assert_eq!(view(&mut follower).state, State::Empty);
    start(&file).unwrap();
    let lock = note::new_ids(1);
    note::add(|| [Note::Name { class: ObjectClass::Lock, id: lock, name: "table".into() }]);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let work = move || {
        set_role(Role::Worker(3));
        for iteration in 0..10 {
            drop(span(Activity::Step, 1, iteration));
        }
        let _wait = span(Activity::AwaitLock, lock, 0);
        let _ = ended.recv();
    };
    let thread = thread::spawn(work);
    let waits = |view: &View| {
        let now = worker(view).and_then(|lane| lane.now.clone());
        now.is_some_and(|now| now.class == ActivityClass::Wait && now.seconds > 0.0)
    };
    let seen = until(&mut follower, waits);
    let lane = worker(&seen).unwrap();
    assert_eq!((lane.ended, lane.all_steps), (false, 10));
    assert_eq!(lane.now.as_ref().unwrap().words, "waits for lock \"table\"");
    assert!(seen.elapsed > 0.0 && seen.command.contains("live"), "{seen:?}");
    // The thread of a test before may not have ended yet, and has a lane then.
    let only = lane.clone();
    let seen = View { lanes: vec![only], ..seen };
    assert_eq!(
        seen.common_wait().unwrap(),
        "1 of 1 threads wait now, 1 of them: waits for lock \"table\""
    );
    // No thread does anything else: after a second the run is stuck.
    let stuck = until(&mut follower, |view| matches!(view.state, State::Stuck { .. }));
    let State::Stuck { seconds, what } = stuck.state else { unreachable!() };
    assert!(seconds >= 1.0 && what.ends_with("waits for lock \"table\""), "{what}");
    assert!(live::summary(&[&file]).unwrap().headline.starts_with("The run is stuck"));
    drop(end);
    thread.join().unwrap();
    finish().unwrap();
    let last = until(&mut follower, |view| view.state == State::Ended);
    assert!(worker(&last).unwrap().ended && last.state.is_over());
}

/// Records one step.
fn record(file: &Path) {
    start(file).unwrap();
    drop(span(Activity::Step, 1, 0));
    finish().unwrap();
}

#[test]
fn a_trace_that_is_replaced_is_followed_anew() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    record(&file);
    let mut all = Follower::new(&file);
    let mut new = Follower::new(&file).after(SystemTime::now());
    let steps = |view: &View| view.lanes.iter().map(|lane| lane.all_steps).sum::<u64>();
    assert_eq!((steps(&view(&mut all)), view(&mut new).state), (1, State::Empty));
    for _ in 0..3 {
        record(&file);
        for follower in [&mut all, &mut new] {
            let view = view(follower);
            assert_eq!((steps(&view), view.state), (1, State::Ended));
        }
    }
    assert_eq!(all.bytes(), fs::metadata(&file).unwrap().len());
}

/// The file is replaced at any moment of its opening.
#[test]
fn a_trace_that_is_replaced_while_it_is_opened_is_followed_anew() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    record(&file);
    for _ in 0..500 {
        let mut follower = Follower::new(&file).after(SystemTime::now());
        thread::scope(|scope| {
            scope.spawn(|| record(&file));
            follower.poll(Duration::MAX).unwrap();
        });
        assert_eq!(view(&mut follower).state, State::Ended);
    }
}

#[test]
fn other_hosts_are_followed_and_other_files_are_not() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().unwrap();
    // The file of a host has its name.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let [file, other, copy, text] = ["", host.trim(), "old", "c"]
        .map(|end| folder.path().join(format!("run.trace.{end}").trim_end_matches('.')));
    record(&file);
    record(&other);
    fs::copy(&file, copy).unwrap();
    fs::write(text, "my thesis").unwrap();
    let mut follower = Follower::new(&file);
    // The thread of a test before may not have ended yet, and has a lane without steps then.
    let view_of_both = view(&mut follower);
    let lanes = view_of_both.lanes.iter().filter(|lane| lane.all_steps > 0);
    assert_eq!(lanes.count(), 2, "{:?}", view_of_both.lanes);
    // What is no frame yet is left until it is one.
    let bytes = fs::read(&other).unwrap();
    let mut growing = OpenOptions::new().append(true).open(&file).unwrap();
    for piece in bytes.chunks(bytes.len() / 3 + 1) {
        growing.write_all(piece).unwrap();
        view(&mut follower);
    }
    let steps: u64 = view(&mut follower).lanes.iter().map(|lane| lane.all_steps).sum();
    assert_eq!(steps, 3, "the same frames are read again, whole");
}

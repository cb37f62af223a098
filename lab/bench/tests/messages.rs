//! Checks messages by System V shared memory and words by futex, between threads and between
//! processes, and that they leave nothing behind.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use syncline_lab::baselines::futex_ping_pong::{self, PingPong};
use syncline_lab::baselines::sysv::{Between, Channel, cold, shell};
use tempfile::TempDir;

/// The environment variable that makes this program, started by one of its tests, a worker: the
/// folder.
const FOLDER: &str = "SYNCLINE_TEST_SYSV_FOLDER";
/// The environment variable that makes this program the answering side.
const ANSWER: &str = "SYNCLINE_TEST_PING_PONG";
const PATIENCE: Option<Duration> = Some(Duration::from_secs(300));
const SIZES: [usize; 5] = [1, 2, 1023, 1025, 100_000];
/// The numbers of the processes.
const MANAGER: u8 = 200;
const WORKER: u8 = 201;

/// Keys belong to the machine, and those of two folders may be equal: one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder for channels, used by one test at a time.
struct Scene {
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self { folder: tempfile::tempdir().unwrap(), _alone: alone }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a channel, which is removed when it is dropped, and its other end.
    fn channel(&self, i: u8, j: u8) -> (Channel, Channel) {
        let made = Channel::new(self.path(), i, j).unwrap().waiting(Between::Yield, PATIENCE);
        (made, Channel::join(self.path(), i, j).waiting(Between::Yield, PATIENCE))
    }

    /// Returns the keys of all channels here, computed as glibc and musl do; valid while their
    /// files exist.
    fn keys(&self) -> BTreeSet<i32> {
        let key = |file: fs::DirEntry| {
            let name = file.file_name().into_string().unwrap();
            let from: u64 = name.split('-').nth(1).unwrap().parse().unwrap();
            let status = file.metadata().unwrap();
            (from << 24 | (status.dev() & 0xff) << 16 | status.ino() & 0xffff) as u32 as i32
        };
        fs::read_dir(self.path()).unwrap().map(|file| key(file.unwrap())).collect()
    }

    /// Checks that all channels, with these keys, are removed.
    fn nothing_is_left(&self, keys: &BTreeSet<i32>) {
        assert_eq!(present(keys), 0, "segments are left");
        assert_eq!(fs::read_dir(self.path()).unwrap().count(), 0, "files are left");
    }
}

/// Returns how many of these keys have segments.
fn present(keys: &BTreeSet<i32>) -> usize {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let key = |line: &str| line.split_whitespace().next()?.parse().ok();
    table.lines().skip(1).filter_map(key).filter(|key| keys.contains(key)).count()
}

fn data(size: usize, seed: usize) -> Vec<i32> {
    (0..size).map(|i| (i.wrapping_mul(0x9E37_79B9) ^ seed) as i32).collect()
}

#[test]
fn threads_get_what_was_sent_in_order() {
    let scene = Scene::new();
    for between in [Between::Yield, Between::Sleep(Duration::from_micros(50))] {
        let (mut from, to) = scene.channel(10, 11);
        let mut to = to.waiting(between, PATIENCE);
        let keys = scene.keys();
        assert_eq!(present(&keys), 1);
        thread::scope(|scope| {
            scope.spawn(move || {
                for (seed, size) in SIZES.into_iter().cycle().take(25).enumerate() {
                    to.send(&data(size, seed)).unwrap();
                }
            });
            for (seed, size) in SIZES.into_iter().cycle().take(25).enumerate() {
                assert_eq!(from.receive().unwrap(), data(size, seed));
            }
        });
        drop(from);
        scene.nothing_is_left(&keys);
    }
}

/// Runs the worker that the test of that name has started.
fn worker(folder: &OsStr) {
    // If the shell is killed.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let end = |i, j| Channel::join(Path::new(folder), i, j).waiting(Between::Yield, PATIENCE);
    let (mut from, mut to) = (end(MANAGER, WORKER), end(WORKER, MANAGER));
    for _ in SIZES {
        let mut data = from.receive().unwrap();
        data.reverse();
        to.send(&data).unwrap();
    }
}

/// A worker and its shell. Its drop waits for the end of both; otherwise the worker might recreate
/// files that have been removed.
struct Worker(Child);

impl Worker {
    fn end(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A child that has ended cannot be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
        // Until no process has the other end open.
        let _ = self.0.stdout.take().map(|mut said| said.read_to_end(&mut Vec::new()));
    }
}

#[test]
fn processes_get_what_was_sent_even_before_they_are_born() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return worker(&folder);
    }
    let scene = Scene::new();
    let (from, to) = (scene.channel(WORKER, MANAGER), scene.channel(MANAGER, WORKER));
    let (mut from, mut to) = (from.0, to.0);
    to.send(&data(SIZES[0], 0)).unwrap();
    let keys = scene.keys();
    assert_eq!(present(&keys), 3, "two tags and data");
    let test = "processes_get_what_was_sent_even_before_they_are_born";
    let program = std::env::current_exe().unwrap();
    let mut command = shell(program.as_os_str(), &["--exact".as_ref(), test.as_ref()]);
    let worker = Worker(command.env(FOLDER, scene.path()).stdout(Stdio::piped()).spawn().unwrap());
    for (seed, size) in SIZES.into_iter().enumerate() {
        if seed > 0 {
            to.send(&data(size, seed)).unwrap();
        }
        let mut back = data(size, seed);
        back.reverse();
        assert_eq!(from.receive().unwrap(), back);
    }
    worker.end();
    from.remove().unwrap();
    to.remove().unwrap();
    scene.nothing_is_left(&keys);
}

#[test]
fn no_data_and_no_room_are_errors() {
    let scene = Scene::new();
    let (made, mut end) = scene.channel(12, 13);
    assert_eq!(end.send(&[]).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut end = end.waiting(Between::Yield, Some(Duration::from_millis(20)));
    assert_eq!(end.receive().unwrap_err().kind(), ErrorKind::TimedOut);
    end.send(&[1]).unwrap();
    assert_eq!(end.send(&[2]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(end.receive().unwrap(), [1]);
    let keys = scene.keys();
    drop(made);
    scene.nothing_is_left(&keys);
}

#[test]
fn a_message_that_nobody_receives_is_deleted_even_by_a_panic() {
    let scene = Scene::new();
    let (made, mut end) = scene.channel(14, 15);
    end.send(&data(100_000, 0)).unwrap();
    let keys = scene.keys();
    assert_eq!(present(&keys), 2, "a tag and data");
    let failed = thread::scope(|scope| {
        let failing = move || {
            let _made = made;
            panic!("as a test does that fails");
        };
        scope.spawn(failing).join()
    });
    assert!(failed.is_err());
    scene.nothing_is_left(&keys);
    // Removing a missing channel succeeds as well.
    end.remove().unwrap();
}

#[test]
fn a_program_that_is_not_there_is_told_by_the_shell() {
    let mut child = cold("./no such program".as_ref(), &[]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(127));
    let mut child =
        cold("sh".as_ref(), &["-c".as_ref(), "exit \"$1\"".as_ref(), "a b".as_ref(), "3".as_ref()])
            .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

fn this_program(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env(ANSWER, "1");
    command
}

#[test]
fn two_processes_hand_a_word_to_each_other() {
    if std::env::var_os(ANSWER).is_some() {
        return futex_ping_pong::answer().unwrap();
    }
    let start = Instant::now();
    let mut game =
        PingPong::start(this_program("two_processes_hand_a_word_to_each_other")).unwrap();
    let seconds = game.round_trips(100).unwrap();
    assert!(seconds > 0.0 && seconds < start.elapsed().as_secs_f64());
}

#[test]
fn who_plays_with_nobody_is_told() {
    assert!(
        PingPong::start(Command::new("true")).unwrap_err().to_string().contains("exit status: 0")
    );
    assert_eq!(
        PingPong::start(Command::new("./no such program")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

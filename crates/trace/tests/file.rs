//! Trace files: what is written is read, whatever happens to the file and to the processes.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use proptest::prelude::*;
use syncline_testkit::{cases, property};
use syncline_trace::frame::{Frame, LanePart, TickSpan};
use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{
    Activity, Reader, Role, TraceError, finish, mark, recording_path, set_role, span, start,
};

static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads all frames; returns them with the bytes that were skipped and those at the end.
fn read(path: &Path) -> (Vec<Frame>, u64) {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame);
    }
    (frames, reader.skipped_bytes() + reader.rest_bytes())
}

/// The spans of each stream and thread.
fn spans(frames: &[Frame]) -> BTreeMap<(u64, u32), Vec<TickSpan>> {
    let mut spans: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for frame in frames {
        for lane in frame.lanes.iter().filter(|lane| lane.spans().next().is_some()) {
            spans.entry((frame.stream, lane.thread)).or_default().extend(lane.spans());
        }
    }
    spans
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn threads_names_roles_and_open_spans_are_in_the_file() {
    let _turn = my_turn();
    let folder = folder();
    let file = folder.path().join("a.trace");
    start(&file).unwrap();
    assert_eq!(recording_path().as_ref(), Some(&file));
    let lock = note::new_ids(1);
    note::add(|| [Note::Name { class: ObjectClass::Lock, id: lock, name: "table".into() }]);
    note::fact("rows", 17);
    let open = span(Activity::AwaitLock, lock, 3);
    let work = || {
        set_role(Role::Worker(4));
        for iteration in 0..100_000 {
            drop(span(Activity::Step, 1, iteration));
        }
    };
    thread::Builder::new().name("a worker".into()).spawn(work).unwrap().join().unwrap();
    assert!(matches!(start(&file), Err(TraceError::Recording { .. })));
    let recorded = finish().unwrap().unwrap();
    drop(open);
    assert_eq!((finish().unwrap(), recording_path()), (None, None));

    let (frames, rest) = read(&file);
    assert_eq!(rest, 0);
    assert_eq!(recorded.bytes, fs::metadata(&file).unwrap().len());
    assert!(frames.iter().enumerate().all(|(number, frame)| frame.number == number as u64));
    assert!(frames[0].process.is_some() && frames.last().unwrap().last);
    let notes: Vec<&Note> = frames.iter().flat_map(|frame| &frame.notes).collect();
    assert_eq!(notes.len(), 2);
    let lanes = || frames.iter().flat_map(|frame| &frame.lanes);
    let lost: u64 = lanes().map(|lane| lane.lost).sum();
    let spans: Vec<TickSpan> = spans(&frames).into_values().flatten().collect();
    assert_eq!(spans.len() as u64 + lost, 100_000);
    assert_eq!((recorded.events, recorded.lost), (spans.len() as u64, lost));
    assert!(spans.is_sorted_by_key(|span| span.detail), "iterations are in order");
    assert!(spans.iter().all(|span| span.activity == Activity::Step && span.since <= span.until));
    assert!(lanes().any(|lane| lane.role == Some(Role::Worker(4))));
    assert!(lanes().any(|lane| lane.about.as_ref().is_some_and(|about| about.name == "a worker")));
    let last: BTreeMap<u32, &LanePart> = lanes().map(|lane| (lane.thread, lane)).collect();
    let last = last.values().flat_map(|lane| &lane.open);
    let open: Vec<_> = last.map(|open| (open.activity, open.subject, open.detail)).collect();
    assert_eq!(open, [(Activity::AwaitLock as u8, lock, 3)]);
}

#[test]
fn other_contents_are_left_alone_and_an_old_trace_is_replaced() {
    let _turn = my_turn();
    let folder = folder();
    let file = folder.path().join("a.trace");
    fs::write(&file, "my thesis").unwrap();
    let error = start(&file).unwrap_err().to_string();
    assert!(error.ends_with("a.trace is not a trace of Syncline"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "my thesis");
    assert!(matches!(Reader::open(&file), Err(TraceError::NotATrace { .. })));
    fs::remove_file(&file).unwrap();
    for _ in 0..2 {
        start(&file).unwrap();
        mark(Activity::Mark, 0, 0);
        finish().unwrap();
    }
    let (frames, _) = read(&file);
    assert_eq!(spans(&frames).len(), 1, "only of the last recording");
    let missing = folder.path().join("no/such/folder");
    let error = start(&missing).unwrap_err().to_string();
    assert!(error.starts_with("cannot open the trace "), "{error}");
}

/// Whether the machine has the file whose disk is always full; otherwise prints that a test is
/// skipped.
fn has_full_disk() -> bool {
    let there = Path::new("/dev/full").exists();
    if !there {
        println!("skipped: no /dev/full");
    }
    there
}

#[test]
fn a_full_disk_is_reported_and_harms_nothing() {
    if !has_full_disk() {
        return;
    }
    let _turn = my_turn();
    start(Path::new("/dev/full")).unwrap();
    mark(Activity::Mark, 0, 0);
    let error = finish().unwrap_err().to_string();
    assert!(error.starts_with("cannot write the trace /dev/full: "), "{error}");
}

#[test]
fn another_version_is_named() {
    let folder = folder();
    let file = folder.path().join("a.trace");
    fs::write(&file, [b"SYNCLTRC".as_slice(), &7_u32.to_le_bytes(), &[0; 30]].concat()).unwrap();
    let error = Reader::open(&file).unwrap_err().to_string();
    assert!(
        error.contains("has version 7 of the trace format; this program has version 1"),
        "{error}"
    );
    fs::write(&file, "").unwrap();
    assert!(Reader::open(&file).unwrap().next_frame().unwrap().is_none());
}

/// Returns a trace of several frames.
fn sample(folder: &Path) -> PathBuf {
    let _turn = my_turn();
    let file = folder.join("sample.trace");
    start(&file).unwrap();
    for iteration in 0..100_000 {
        mark(Activity::Step, 1, iteration);
    }
    finish().unwrap();
    file
}

proptest! {
    #![proptest_config(property(64))]

    /// A file that is cut anywhere, and in which bytes were changed, gives some of its frames,
    /// unchanged and in order, and accounts for all other bytes. Without changes these are the
    /// first frames. Each frame has a checksum of 64 bits, and begins where the one before ends.
    #[test]
    fn what_is_intact_is_read(
        cut in 0.0..1.0_f64, changes in proptest::collection::vec((0.0..1.0_f64, 1..=255_u8), 0..4),
    ) {
        let folder = folder();
        let file = sample(folder.path());
        let (whole, _) = read(&file);
        let mut bytes = fs::read(&file).unwrap();
        let length = bytes.len();
        bytes.truncate((length as f64 * cut) as usize);
        for &(place, change) in &changes {
            let place = (bytes.len() as f64 * place) as usize;
            // The first magic decides whether the file is a trace at all.
            if place >= 12 && place < bytes.len() {
                bytes[place] ^= change;
            }
        }
        fs::write(&file, &bytes).unwrap();
        let (frames, rest) = read(&file);
        if changes.is_empty() {
            prop_assert!(whole.starts_with(&frames), "not the first frames");
        }
        let mut whole = whole.into_iter();
        for frame in &frames {
            prop_assert!(whole.any(|original| original == *frame), "another frame, or another order");
        }
        if rest == 0 {
            prop_assert_eq!(frames.is_empty(), bytes.is_empty(), "all bytes are of frames");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = folder();
        let file = folder.path().join("any");
        fs::write(&file, [b"SYNCLTRC\x01\0\0\0".as_slice(), &bytes].concat()).unwrap();
        read(&file);
    }
}

/// The part of the test below that runs in a process of its own.
#[test]
fn member() {
    if std::env::var_os("SYNCLINE_TEST_MEMBER").is_none() {
        return;
    }
    for iteration in 0..50_000 {
        drop(span(Activity::Step, 1, iteration));
    }
    // The environment has started the recording, and the exit of the process ends it.
}

#[test]
fn processes_append_to_one_file_by_the_environment() {
    let folder = folder();
    let file = folder.path().join("team.trace");
    let members: Vec<_> = (0..4)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["member", "--exact"])
                .envs([
                    ("SYNCLINE_TEST_MEMBER", "1".as_ref()),
                    ("SYNCLINE_TRACE", file.as_os_str()),
                ])
                .output()
        })
        .collect();
    for member in members {
        assert!(member.unwrap().status.success());
    }
    // One after the other: each replaces the trace of the one before.
    let (frames, rest) = read(&file);
    assert_eq!((rest, frames.last().map(|frame| frame.last)), (0, Some(true)));
    let all = spans(&frames);
    let lost: u64 = frames.iter().flat_map(|frame| &frame.lanes).map(|lane| lane.lost).sum();
    assert_eq!(all.len(), 1);
    assert_eq!(all.values().map(Vec::len).sum::<usize>() as u64 + lost, 50_000);

    // At the same time: while a process holds the file, others append. This test is that process.
    let _turn = my_turn();
    start(&file).unwrap();
    mark(Activity::Mark, 0, 0);
    let members: Vec<_> = (0..4)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["member", "--exact"])
                .envs([
                    ("SYNCLINE_TEST_MEMBER", "1".as_ref()),
                    ("SYNCLINE_TRACE", file.as_os_str()),
                ])
                .stdout(std::process::Stdio::null())
                .spawn()
        })
        .collect();
    for member in members {
        assert!(member.unwrap().wait().unwrap().success());
    }
    finish().unwrap();
    let (frames, rest) = read(&file);
    assert_eq!(rest, 0);
    assert_eq!(spans(&frames).len(), 5);
    assert_eq!(frames.iter().filter(|frame| frame.last).count(), 5);
}

/// The part of the test below that runs in a process of its own.
#[test]
fn team() {
    if std::env::var_os("SYNCLINE_TEST_TEAM").is_none() {
        return;
    }
    let together = std::sync::Barrier::new(ROLES as usize);
    std::thread::scope(|scope| {
        for rank in 0..ROLES {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                set_role(Role::Member(rank));
            });
        }
    });
}

const ROLES: u32 = 12;

/// The threads whose calls come while another one asks the environment wait for it.
#[test]
fn no_role_is_lost_while_the_environment_is_asked() {
    let folder = folder();
    let file = folder.path().join("team.trace");
    for _ in 0..cases(20) {
        let team = Command::new(std::env::current_exe().unwrap())
            .args(["team", "--exact"])
            .envs([("SYNCLINE_TEST_TEAM", "1".as_ref()), ("SYNCLINE_TRACE", file.as_os_str())])
            .output();
        assert!(team.unwrap().status.success());
        let (frames, _) = read(&file);
        let lanes = frames.iter().flat_map(|frame| &frame.lanes);
        let roles: std::collections::BTreeSet<_> = lanes.filter_map(|lane| lane.role).collect();
        assert_eq!(roles, (0..ROLES).map(Role::Member).collect());
    }
}

#[test]
fn a_file_of_the_environment_that_cannot_be_written_is_one_line() {
    if !has_full_disk() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["member", "--exact"])
        .envs([("SYNCLINE_TEST_MEMBER", "1"), ("SYNCLINE_TRACE", "/dev/full")])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("syncline: SYNCLINE_TRACE=/dev/full: cannot write the trace"), "{text}");
}

#[test]
fn a_wrong_name_in_the_environment_is_one_line_and_the_program_goes_on() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["member", "--exact"])
        .envs([("SYNCLINE_TEST_MEMBER", "1"), ("SYNCLINE_TRACE", "/no/such/folder/file")])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    let line = "syncline: SYNCLINE_TRACE: cannot open the trace /no/such/folder/file: No such file";
    assert!(text.contains(line), "{text}");
}

/// A file that is still written is read further.
#[test]
fn a_reader_continues_where_the_file_ended() {
    let folder = folder();
    let whole = fs::read(sample(folder.path())).unwrap();
    let file = folder.path().join("growing");
    fs::write(&file, &whole[..0]).unwrap();
    let mut reader = Reader::open(&file).unwrap();
    let mut output = OpenOptions::new().append(true).open(&file).unwrap();
    let mut frames = 0;
    for piece in whole.chunks(whole.len() / 7) {
        output.write_all(piece).unwrap();
        while reader.next_frame().unwrap().is_some() {
            frames += 1;
        }
    }
    assert_eq!(
        (frames, reader.skipped_bytes(), reader.rest_bytes()),
        (read(&folder.path().join("sample.trace")).0.len(), 0, 0)
    );
}

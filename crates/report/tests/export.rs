//! Exports of a recorded trace: each span is there once, by its name, and other programs read them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::Value;
use syncline_report::{Trace, export, load::Span, report};
use syncline_testkit::succeed;
use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{Activity, ActivityClass, Role};
use syncline_trace::{finish, mark, set_role, since, span, span_since, start};
use tempfile::TempDir;

/// The task and the lock of [`recorded`].
const TASK: &str = "block 3, 7";
const LOCK: &str = "the \"table\"";

/// Records a trace: two threads with nested spans, requests that overlap, marks, and messages of a
/// process to itself.
fn recorded() -> (TempDir, Trace) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    start(&file).unwrap();
    let [task, lock, disk] = [(); 3].map(|()| note::new_ids(1));
    let name = |class, id, name: &str| Note::Name { class, id, name: name.into() };
    note::add(|| {
        let task = Note::Task { id: task, name: TASK.into(), member: None };
        [task, name(ObjectClass::Lock, lock, LOCK), name(ObjectClass::File, disk, "za.npy")]
    });
    note::fact("team.process", 0);
    let work = |worker| {
        move || {
            set_role(Role::Worker(worker));
            let _all = span(Activity::Section, note::new_ids(1), 17);
            for iteration in 0..200 {
                let reads = [since(), since()];
                let _step = span(Activity::Step, task, iteration);
                drop(span(Activity::AwaitLock, lock, 0));
                let message = (1000 * u64::from(worker) + iteration) << 36;
                mark(Activity::Sent, 0, message);
                mark(Activity::Received, 0, message);
                span_since(Activity::HoldLock, lock, 5, reads[0]);
                for since in reads {
                    span_since(Activity::Read, disk, 4096, since);
                }
            }
        }
    };
    let workers = [0, 1].map(|worker| thread::spawn(work(worker)));
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    finish().unwrap().unwrap();
    let trace = Trace::open(&[&file]).unwrap();
    (folder, trace)
}

fn spans(trace: &Trace) -> Vec<Span> {
    let mut spans = Vec::new();
    trace.for_each(&mut |span| spans.push(*span)).unwrap();
    spans
}

/// Requests to the disk and held locks are not in the time line: the labels of others are theirs.
#[test]
fn the_time_line_names_each_span() {
    let (_folder, trace) = recorded();
    let line = report(&trace).unwrap().time_line;
    let mut shown: Vec<_> = line
        .spans
        .iter()
        .map(|&(lane, activity, since, _, label)| {
            ((since * 1e9).round() as u64, lane, activity, line.labels[label as usize].clone())
        })
        .collect();
    let lines = [ActivityClass::Work, ActivityClass::Wait];
    let spans = spans(&trace).into_iter().filter(|span| lines.contains(&span.activity.class()));
    let mut all: Vec<_> = spans
        .map(|span| (span.since, span.lane as u32, span.activity as u16, trace.label(&span)))
        .collect();
    shown.sort();
    all.sort();
    assert_eq!(shown, all);
}

#[test]
fn every_span_is_a_line_of_values() {
    let (_folder, trace) = recorded();
    let mut output = Vec::new();
    export::csv(&trace, &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "host,pid,thread,role,activity,class,object,subject,detail,since_s,until_s"
    );
    let spans = spans(&trace);
    assert_eq!(lines.len() - 1, spans.len());
    for (line, span) in lines[1..].iter().zip(&spans) {
        let object = trace.label(span).replace('"', "\"\"");
        assert!(line.contains(span.activity.name()) && line.contains(&object), "{line}");
        let until: f64 = line.rsplit_once(',').unwrap().1.parse().unwrap();
        assert_eq!((until * 1e9).round() as u64, span.until, "{line}");
    }
    let step = format!(",worker 1,worker 1,step,work,\"{TASK}, iteration 0\",");
    assert_eq!(lines.iter().filter(|line| line.contains(&step)).count(), 1);
    assert!(text.contains(",waits for a lock,wait,\"the \"\"table\"\"\","), "{text}");
}

/// An output that fails after some bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let (_folder, trace) = recorded();
    let error = export::csv(&trace, &mut Full(10)).unwrap_err().to_string();
    assert!(error.starts_with("cannot write the spans: "), "{error}");
    let error = export::perfetto(&trace, &mut Full(10)).unwrap_err().to_string();
    assert!(error.starts_with("cannot write the trace for Perfetto: "), "{error}");
}

/// Returns a Python that has Perfetto's messages; otherwise prints that the test is skipped.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("SYNCLINE_TEST_PERFETTO").map(PathBuf::from);
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/perfetto/bin/python3");
    let found = named.into_iter().chain([below, "python3".into()]).find(|python| {
        let import = Command::new(python).args(["-c", "import perfetto.protos"]).output();
        import.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        println!("skipped: no python3 with the package perfetto (make test-deps)");
    }
    found
}

/// A slice: class, name, detail, begin relative to the first event, length.
type Slice = (String, String, Option<u64>, u64, u64);

/// Returns the slices and instants of a trace as Perfetto reads it; events must be in the order of
/// time on their track, and nested.
fn slices(read: &Value) -> Vec<Slice> {
    let events = read["events"].as_array().unwrap();
    let time = |event: &Value| event["time"].as_u64().unwrap();
    let begin = events.iter().map(time).min().unwrap();
    let mut open: HashMap<u64, (u64, Vec<Slice>)> = HashMap::new();
    let mut slices = Vec::new();
    for event in events {
        let (now, stack) = open.entry(event["track"].as_u64().unwrap()).or_default();
        assert!(time(event) >= *now, "out of order: {event}");
        *now = time(event);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let detail = event["details"].as_object().unwrap().values().next();
        let slice = || {
            let class = text(&event["categories"][0]);
            (class, text(&event["name"]), detail.and_then(Value::as_u64), time(event) - begin, 0)
        };
        match event["type"].as_str().unwrap() {
            "TYPE_SLICE_BEGIN" => stack.push(slice()),
            "TYPE_SLICE_END" => {
                let mut slice = stack.pop().expect("an end without a begin");
                slice.4 = time(event) - begin - slice.3;
                slices.push(slice);
            }
            "TYPE_INSTANT" => slices.push(slice()),
            other => panic!("{other}"),
        }
    }
    assert!(open.values().all(|(_, stack)| stack.is_empty()), "slices without ends");
    slices
}

#[test]
fn perfetto_reads_every_span_by_its_own_messages() {
    let Some(python) = python() else { return };
    let (_folder, trace) = recorded();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pftrace");
    export::perfetto(&trace, &mut std::fs::File::create(&file).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_perfetto.py");
    let read = succeed(Command::new(python).arg(script).arg(&file));
    let read: Value = serde_json::from_str(&read).unwrap();

    assert_eq!(read["unknown"], Value::Array(Vec::new()), "fields that Perfetto does not have");
    assert_eq!(
        (&read["primary"], &read["default"]),
        (&"BUILTIN_CLOCK_MONOTONIC".into(), &3.into())
    );
    let began = &trace.processes[0].info.began;
    assert_eq!(read["clocks"]["3"], began.monotonic_ns);
    assert_eq!(read["clocks"]["1"], began.realtime_ns);

    let expected = spans(&trace).into_iter().map(|span| {
        let (class, name) = match span.activity.class() {
            ActivityClass::Work if span.activity == Activity::Step => ("work", TASK.to_owned()),
            ActivityClass::Work => ("work", trace.label(&span)),
            ActivityClass::Wait => ("wait", format!("waits for a lock: {LOCK}")),
            _ if span.activity == Activity::HoldLock => {
                ("device", format!("{}: {LOCK}", span.activity.name()))
            }
            ActivityClass::Device => ("device", "read za.npy".to_owned()),
            _ => match span.activity {
                Activity::Sent => ("mark", "sent to 0".to_owned()),
                _ => ("mark", "received from 0".to_owned()),
            },
        };
        let detail = match span.activity {
            Activity::Sent | Activity::Received => Some(span.detail >> 36),
            _ => Some(span.detail),
        };
        (class.to_owned(), name, detail, span.since, span.length())
    });
    let mut expected: Vec<Slice> = expected.collect();
    let begin = expected.iter().map(|slice| slice.3).min().unwrap();
    expected.iter_mut().for_each(|slice| slice.3 -= begin);
    let mut slices = slices(&read);
    slices.sort();
    expected.sort();
    assert_eq!(slices.len(), expected.len());
    assert_eq!(slices, expected);

    // Each flow begins at the mark of the message that it ends at.
    let events = read["events"].as_array().unwrap();
    let ids = |list: &str| -> Vec<(u64, u64)> {
        let of =
            |event: &Value| Some((event[list][0].as_u64()?, event["details"]["number"].as_u64()?));
        events.iter().filter_map(of).collect()
    };
    let (flows, ends) = (ids("flows"), ids("ends"));
    assert_eq!((flows.len(), &flows), (400, &ends));
    assert_eq!(flows.iter().copied().collect::<BTreeMap<_, _>>().len(), 400, "distinct numbers");

    // One process, a track for each thread, and two for requests that overlap.
    let tracks: Vec<&Value> = read["tracks"].as_object().unwrap().values().collect();
    let named = |name: &str| tracks.iter().filter(|track| track["name"] == name).count();
    assert_eq!((named("worker 0"), named("worker 1")), (1, 1));
    assert_eq!((named("requests to the disk 1"), named("requests to the disk 2")), (2, 2));
    assert_eq!((named("requests to the disk 3"), named("locks held 1")), (0, 2));
    assert!(tracks.iter().all(|track| track["parent"] != 0 || track["pid"] == std::process::id()));
    assert!(tracks.iter().all(|track| track["tid"] == 0 || track["tid"] != std::process::id()));
}

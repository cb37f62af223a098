//! What traces have about teams: messages, waits, roles and facts, in files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncline_fabric::endpoint::{Landing, Out, Place, Service};
use syncline_fabric::{Member, Team};
use syncline_testkit::{again, as_role};
use syncline_trace::frame::{Frame, TickSpan};
use syncline_trace::note::{Note, ObjectClass};
use syncline_trace::{Activity, Reader, Role, VARIABLE, finish, start};

/// A process records to one file at a time.
static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> Vec<Frame> {
    let mut reader = Reader::open(path).unwrap();
    let frames = std::iter::from_fn(|| reader.next_frame().unwrap()).collect();
    assert_eq!((reader.skipped_bytes(), reader.rest_bytes()), (0, 0));
    frames
}

/// The spans of all processes.
fn spans(frames: &[Frame]) -> impl Iterator<Item = TickSpan> + '_ {
    frames.iter().flat_map(|frame| &frame.lanes).flat_map(|lane| lane.spans())
}

fn facts(frames: &[Frame]) -> HashMap<&str, &str> {
    let facts = frames.iter().flat_map(|frame| &frame.notes).filter_map(|note| match note {
        Note::Fact { key, value } => Some((&**key, &**value)),
        _ => None,
    });
    facts.collect()
}

fn roles(frames: &[Frame]) -> Vec<Role> {
    let lanes = frames.iter().flat_map(|frame| &frame.lanes);
    let mut roles: Vec<Role> = lanes.filter_map(|lane| lane.role).collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// The sides of each message: its sender, its receiver, its way and its number, and when it was
/// marked.
type Messages = BTreeMap<(u32, u32, u64, u64), u64>;

/// Returns the messages that were sent and those that were received.
fn messages(frames: &[Frame]) -> (Messages, Messages) {
    let (mut sent, mut received) = (Messages::new(), Messages::new());
    for span in spans(frames) {
        let (number, way) = (span.detail >> 36, span.detail >> 32 & 0xf);
        let (from, to) = ((span.detail >> 16) as u32 & 0xffff, span.detail as u32 & 0xffff);
        let (marks, other) = match span.activity {
            Activity::Sent => (&mut sent, to),
            Activity::Received => (&mut received, from),
            _ => continue,
        };
        assert_eq!(span.subject, other);
        let before = marks.insert((from, to, way, number), span.since);
        assert!(before.is_none(), "{span:?} twice");
    }
    (sent, received)
}

/// Counts the long messages that have arrived in its process.
#[derive(Default)]
struct Long(AtomicUsize);

impl Service for Long {
    fn receive(&self, _: usize, _: &[u8], _: &mut Out<'_>) {}

    fn receive_long(&self, _: usize, _: &[u8], len: usize, _: &mut Out<'_>) -> Landing {
        Landing { token: 0, place: Place::owned(vec![0; len]) }
    }

    fn landed(&self, _: usize, _: u64, _: Place, _: &mut Out<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const LONG: usize = 5;
const GATHERS: usize = 7;

fn talk(me: &mut Member) {
    let (service, long) = me.attach(Long::default).unwrap();
    for round in 0..GATHERS as u64 {
        me.gather(round).unwrap();
    }
    if me.thread() == 0 {
        let other = 1 - me.process();
        for nth in 1..=LONG {
            me.endpoint().unwrap().enter(service, |out| {
                let message = out.message();
                out.send_long(other, message, 0, Place::owned(vec![7; nth << 20]));
            });
        }
        let here = || long.0.load(Ordering::Relaxed) == LONG;
        me.endpoint().unwrap().wait(None, here).unwrap();
    }
    me.wait().unwrap();
}

#[test]
fn messages_between_hosts_match_one_to_one() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts.trace");
    start(&file).unwrap();
    Team::hosts(2).threads(2).quiet().run(talk).unwrap();
    finish().unwrap();

    let frames = read(&file);
    let (sent, received) = messages(&frames);
    for (message, until) in &received {
        let since = sent.get(message).unwrap_or_else(|| panic!("{message:?} was not sent"));
        // The counters of two processors may differ a little.
        assert!(*since <= until + 10_000, "{message:?} is received before it is sent");
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let ways = |messages: &Messages| {
            let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for &(_, _, way, number) in messages.keys().filter(|m| (m.0, m.1) == (from, to)) {
                numbers.entry(way).or_default().push(number);
            }
            numbers
        };
        let (out, back) = (ways(&sent), ways(&received));
        for (way, numbers) in &out {
            assert_eq!(*numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "way {way}");
        }
        // Only the last words of a process may not be received any more.
        for (way, numbers) in &back {
            assert_eq!(*numbers, out[way][..numbers.len()]);
        }
        assert!(out.len() >= 2 && out.keys().eq(back.keys()), "{out:?}");
        let long: usize = back.iter().filter(|(way, _)| **way > 0).map(|(_, n)| n.len()).sum();
        assert!(long >= LONG, "{back:?}");
    }

    let gathers =
        spans(&frames).filter(|s| (s.activity, s.subject) == (Activity::AwaitMessage, u32::MAX));
    assert!(gathers.count() >= 4 * GATHERS);
    assert_eq!(spans(&frames).filter(|s| s.activity == Activity::AwaitBarrier).count(), 4);
    // A server that has ended before it was looked at, and has no events, is not in the file.
    let members = [0, 1, 2, 3].map(Role::Member);
    let (others, found): (Vec<_>, _) =
        roles(&frames).into_iter().partition(|role| matches!(role, Role::Server(0 | 1)));
    assert!(found == members, "{others:?} {found:?}");
    let facts = facts(&frames);
    for (key, value) in [
        ("team.members", "4"),
        ("team.processes", "2"),
        ("team.threads", "2"),
        ("team.hosts", "2"),
        ("team.hosts.of", "0 1"),
    ] {
        assert_eq!(facts.get(key), Some(&value), "{key}");
    }
    assert!(!facts.contains_key("team.process"));
}

#[test]
#[ignore = "the launcher, and the processes that it launches: does nothing by itself"]
fn role_of_a_process() {
    // The launcher begins to record by a call, and its processes by the variable.
    if let Some(file) = std::env::var_os("TRACED_LAUNCHER") {
        if std::env::var_os("SYNCLINE_TEAM").is_none() {
            start(Path::new(&file)).unwrap();
        }
        let team = Team::processes(2).quiet().args(as_role("role_of_a_process"));
        team.run(|me| (0..3).for_each(|_| me.wait().unwrap())).unwrap();
    }
}

#[test]
fn launched_processes_record_to_the_file_of_their_launcher() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("launched.trace");
    let mut command = again("role_of_a_process");
    command.env_remove(VARIABLE).env("TRACED_LAUNCHER", &file);
    syncline_testkit::succeed(&mut command);

    let frames = read(&file);
    let mut streams: BTreeMap<u64, Vec<Frame>> = BTreeMap::new();
    frames.iter().for_each(|frame| streams.entry(frame.stream).or_default().push(frame.clone()));
    assert_eq!(streams.len(), 3);
    let mut processes = Vec::new();
    for frames in streams.values() {
        assert!(frames.last().unwrap().last, "every process has ended its recording in order");
        let Some(process) = facts(frames).get("team.process").copied() else {
            assert!(spans(frames).any(|span| span.activity == Activity::AwaitProcess));
            continue;
        };
        processes.push(process.to_owned());
        let name = |note: &Note| match note {
            Note::Name { class: ObjectClass::Barrier, id, name } => Some((*id, name.clone())),
            _ => None,
        };
        let names: HashMap<_, _> = frames.iter().flat_map(|f| &f.notes).filter_map(name).collect();
        let waits: Vec<_> = spans(frames)
            .filter(|span| span.activity == Activity::AwaitBarrier)
            .map(|span| (names[&span.subject].as_str(), span.detail))
            .collect();
        assert!(waits.iter().all(|(name, _)| name.starts_with("barrier 0 of the team")));
        assert_eq!(waits.iter().map(|wait| wait.1).collect::<Vec<_>>(), [0, 1, 2]);
    }
    processes.sort_unstable();
    assert_eq!(processes, ["0", "1"]);
}

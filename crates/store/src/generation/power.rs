//! Simulated power failures: after every change, with every selection of the changes that had not
//! been synced.
//!
//! While a tape is active, all changes of the file system are recorded. A [`Medium`] replays a part
//! of the tape and keeps two states, the one that programs see and the one that is safe; a failure
//! mixes them: any of the names that were not synced may be lost, and any byte of the data. The
//! resulting files are written to a folder and examined.
//!
//! The tests here reject: a lost commit, a torn generation, an output that is neither old nor new;
//! and also a sync that has an effect but is not needed, or a model too lenient to show that it is
//! needed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use syncline_testkit::Random;

use super::disk::Change;
use super::tests::{HEADER, PASSES, contents, folder, identity, is_progress, progress};
use super::{Generations, Leftover, Resumed};
use crate::{Result, checksum::checksum};

/// An entry of the tape; paths are relative to the root.
#[derive(Debug, Clone)]
pub(super) enum Event {
    MakeFolder(PathBuf),
    Create(PathBuf),
    Write(PathBuf, Vec<u8>),
    Sync(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    RemoveFolder(PathBuf),
    /// A commit of this generation begins (`Committing`) or has returned (`Committed`).
    Committing(u64),
    Committed(u64),
    Finishing,
    Finished,
}

struct Tape {
    root: PathBuf,
    events: Vec<Event>,
    /// The number of changes until the power is off.
    left: usize,
}

thread_local! {
    static TAPE: RefCell<Option<Tape>> = const { RefCell::new(None) };
}

/// Called before each change; an error if the power is off.
pub(super) fn before(change: Change<'_>) -> Result<()> {
    TAPE.with_borrow_mut(|tape| match tape {
        Some(Tape { left: 0, .. }) => Err(change.failed(io::Error::other("the power is off"))),
        Some(tape) => {
            tape.left -= 1;
            Ok(())
        }
        None => Ok(()),
    })
}

/// Called after each change; records it.
pub(super) fn after(change: Change<'_>) {
    record(|root| {
        let below = |path: &Path| path.strip_prefix(root).unwrap().to_owned();
        match change {
            Change::MakeFolder(path) => Event::MakeFolder(below(path)),
            Change::Create(path) => Event::Create(below(path)),
            Change::Write(path) => Event::Write(below(path), std::fs::read(path).unwrap()),
            Change::Sync(path) => Event::Sync(below(path)),
            Change::SyncFolder(path) => Event::SyncFolder(below(path)),
            Change::Rename(from, to) => Event::Rename(below(from), below(to)),
            Change::Remove(path) => Event::Remove(below(path)),
            Change::RemoveFolder(path) => Event::RemoveFolder(below(path)),
        }
    });
}

fn record(event: impl FnOnce(&Path) -> Event) {
    TAPE.with_borrow_mut(|tape| {
        if let Some(tape) = tape {
            tape.events.push(event(&tape.root));
        }
    });
}

/// Runs `act` with power for `left` changes, and returns the recorded events.
pub(super) fn taped(root: &Path, left: usize, act: impl FnOnce()) -> Vec<Event> {
    TAPE.set(Some(Tape { root: root.to_owned(), events: Vec::new(), left }));
    act();
    TAPE.take().unwrap().events
}

/// Runs `act` with power for `changes` changes: no later change, not even by a drop, has an effect.
pub(super) fn lasting(changes: usize, act: impl FnOnce()) {
    taped(Path::new("/"), changes, act);
}

/// Runs the computation of a program: resumes from the existing files and continues to the end.
fn compute(output: &Path) -> Result<()> {
    let mut run = match Generations::resume(output, &identity())? {
        Resumed::Nothing if is_result(output) => return Ok(()),
        Resumed::Complete(_) => {
            record(|_| Event::Finished);
            return Ok(());
        }
        Resumed::Underway(run) => run,
        Resumed::Nothing => {
            Generations::discard(output)?;
            let bytes = contents(1).len() as u64;
            Generations::create(output, &identity(), HEADER, bytes)?
        }
    };
    while run.committed() < PASSES {
        let (last, next) = (run.committed(), run.committed() + 1);
        if last > 0 {
            let mut data = vec![0; contents(last).len() - HEADER.len()];
            run.file(last)?.read_exact_at(&mut data, HEADER.len() as u64).unwrap();
            run.check_panel(0, checksum(&data))?;
        }
        let (file, path, wanted) = (run.file(next)?, run.path(next), contents(next));
        for at in [HEADER.len(), HEADER.len() + 10] {
            before(Change::Write(&path))?;
            file.write_all_at(&wanted[at..], at as u64).unwrap();
            after(Change::Write(&path));
        }
        record(|_| Event::Committing(next));
        run.commit(&progress(next))?;
        record(|_| Event::Committed(next));
    }
    record(|_| Event::Finishing);
    run.finish()?;
    record(|_| Event::Finished);
    Ok(())
}

fn is_result(output: &Path) -> bool {
    std::fs::read(output).is_ok_and(|found| found == contents(PASSES))
}

pub(super) const OLD: &[u8] = b"old";

fn prepare() -> (tempfile::TempDir, PathBuf) {
    let root = folder();
    let output = root.path().join("out");
    std::fs::write(&output, OLD).unwrap();
    (root, output)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Node {
    Folder,
    File(usize),
}

type Names = BTreeMap<PathBuf, Node>;

/// The visible and the safe state.
pub(super) struct Medium {
    seen: Names,
    safe: Names,
    /// Changes of names that are not safe yet, each atomic: a change becomes safe when the folder
    /// of its first name is synced.
    pending: Vec<Vec<(PathBuf, Option<Node>)>>,
    /// For each file, the visible bytes and the safe bytes.
    files: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Medium {
    pub(super) fn new() -> Self {
        // The second is that of computations of two outputs.
        let names = Names::from([("out".into(), Node::File(0)), ("two".into(), Node::File(1))]);
        let files = vec![(OLD.to_vec(), OLD.to_vec()); 2];
        Self { seen: names.clone(), safe: names, pending: Vec::new(), files }
    }

    fn file(&mut self, path: &Path) -> &mut (Vec<u8>, Vec<u8>) {
        let Some(&Node::File(file)) = self.seen.get(path) else {
            panic!("no file {}", path.display())
        };
        &mut self.files[file]
    }

    fn change(&mut self, names: Vec<(PathBuf, Option<Node>)>) {
        if names.iter().any(|(name, node)| self.seen.get(name) != node.as_ref()) {
            apply(&mut self.seen, &names);
            self.pending.push(names);
        }
    }

    pub(super) fn replay(&mut self, event: &Event) {
        match event {
            Event::MakeFolder(path) => self.change(vec![(path.clone(), Some(Node::Folder))]),
            Event::Create(path) => {
                self.files.push(Default::default());
                self.change(vec![(path.clone(), Some(Node::File(self.files.len() - 1)))]);
            }
            Event::Write(path, bytes) => self.file(path).0.clone_from(bytes),
            Event::Sync(path) => {
                let (seen, safe) = self.file(path);
                safe.clone_from(seen);
            }
            Event::SyncFolder(path) => {
                let here = |names: &Vec<(PathBuf, _)>| names[0].0.parent() == Some(path);
                for names in self.pending.extract_if(.., |names| here(names)) {
                    apply(&mut self.safe, &names);
                }
            }
            Event::Rename(from, to) => {
                let node = self.seen.get(from).copied();
                self.change(vec![(to.clone(), node), (from.clone(), None)]);
            }
            Event::Remove(path) => self.change(vec![(path.clone(), None)]),
            Event::RemoveFolder(path) => {
                if !self.seen.keys().any(|name| name.parent() == Some(path)) {
                    self.change(vec![(path.clone(), None)]);
                }
            }
            Event::Committing(_) | Event::Committed(_) | Event::Finishing | Event::Finished => {}
        }
    }

    /// Returns the number of changes of names that are not safe yet.
    pub(super) const fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Writes the files that are found after a failure to `root`: `keep` has a bit for each pending
    /// change.
    pub(super) fn fail(&self, keep: u64, random: &mut Random, root: &Path) {
        let mut names = self.safe.clone();
        for (nth, change) in self.pending.iter().enumerate() {
            if keep >> (nth % 64) & 1 == 1 {
                apply(&mut names, change);
            }
        }
        for (name, node) in &names {
            let parent = name.parent().unwrap();
            match node {
                _ if parent != Path::new("") && !names.contains_key(parent) => {}
                Node::Folder => std::fs::create_dir(root.join(name)).unwrap(),
                Node::File(file) => {
                    std::fs::write(root.join(name), self.torn(*file, random)).unwrap()
                }
            }
        }
    }

    /// Returns the bytes of a file: all visible, all safe, or mixed.
    fn torn(&self, file: usize, random: &mut Random) -> Vec<u8> {
        let (seen, safe) = &self.files[file];
        match random.below(3) {
            0 => seen.clone(),
            1 => safe.clone(),
            _ => {
                let length = if random.below(2) == 0 { seen.len() } else { safe.len() };
                let byte = |at| {
                    let from: &Vec<u8> = if random.below(2) == 0 { seen } else { safe };
                    from.get(at).copied().unwrap_or(0)
                };
                (0..length).map(byte).collect()
            }
        }
    }
}

fn apply(names: &mut Names, change: &[(PathBuf, Option<Node>)]) {
    for (name, node) in change {
        match node {
            Some(node) => _ = names.insert(name.clone(), *node),
            None => names.retain(|other, _| !other.starts_with(name)),
        }
    }
}

/// Checks that the files satisfy the guarantees, given the events so far.
fn check(events: &[Event], output: &Path) -> Result<(), String> {
    let (mut lower, mut upper, mut finishing, mut finished) = (0, 0, false, false);
    for event in events {
        match event {
            Event::Committing(generation) => upper = *generation,
            Event::Committed(generation) => lower = *generation,
            Event::Finishing => finishing = true,
            Event::Finished => finished = true,
            _ => {}
        }
    }
    let result = is_result(output);
    if !(if result {
        finishing
    } else {
        !finished && std::fs::read(output).is_ok_and(|found| found == OLD)
    }) {
        return Err(format!("output: result {result}, finishing {finishing}, finished {finished}"));
    }
    let leftover = Generations::leftover(output).map_err(|error| error.to_string())?;
    let fine = match &leftover {
        Leftover::Nothing => lower == 0 || result,
        Leftover::Empty => lower == 0,
        Leftover::Resumable(found) => {
            let slot = output
                .with_file_name("out.syncline")
                .join(format!("generation.{}", found.generation % 2));
            (lower..=upper).contains(&found.generation)
                && is_progress(found)
                && !finished
                && std::fs::read(slot).is_ok_and(|data| data == contents(found.generation))
        }
        Leftover::Complete(found) => found.generation == PASSES && result && !finished,
        Leftover::Busy(_) | Leftover::Unnamed(..) | Leftover::Damaged(_) => false,
    };
    if fine {
        Ok(())
    } else {
        Err(format!("{leftover:?} with {lower} to {upper} committed, result {result}"))
    }
}

/// Simulates a power failure after each event from `from` on, and checks the files; with `go_on`,
/// also resumes from them to the end.
fn fail_everywhere(events: &[Event], from: usize, go_on: bool) -> Result<(), String> {
    let mut medium = Medium::new();
    let mut random = Random::new(events.len() as u64);
    for at in 0..events.len() {
        medium.replay(&events[at]);
        let outcomes = 1_u64 << medium.pending.len().min(6);
        for nth in if at < from { 0..0 } else { 0..outcomes * 2 } {
            let root = folder();
            // Each selection twice, with different data, unless there are too many selections.
            let keep =
                if medium.pending.len() > 6 { random.below(u64::MAX) } else { nth % outcomes };
            medium.fail(keep, &mut random, root.path());
            let output = root.path().join("out");
            let told =
                |why| format!("after {at} events, keeping {keep:b}: {why}; {:?}", &events[at]);
            check(&events[..=at], &output).map_err(told)?;
            if go_on {
                compute(&output).map_err(|error| told(error.to_string()))?;
                let left = Generations::leftover(&output);
                assert!(is_result(&output) && matches!(left, Ok(Leftover::Nothing)), "{left:?}");
            }
        }
    }
    Ok(())
}

/// Returns the tape of a run that is killed after `killed` changes and of a second run that
/// resumes, and the index on the tape at which the second begins.
fn killed_and_resumed(killed: usize) -> (Vec<Event>, usize) {
    let (root, output) = prepare();
    let mut events = taped(root.path(), killed, || {
        let _ = compute(&output);
    });
    let second = events.len();
    events.extend(taped(root.path(), usize::MAX, || compute(&output).unwrap()));
    assert!(is_result(&output));
    (events, second)
}

/// Returns the tape of a run from beginning to end, and the number of its changes.
fn whole_run() -> (Vec<Event>, usize) {
    let (events, _) = killed_and_resumed(usize::MAX);
    let marks = |event: &&Event| {
        matches!(
            event,
            Event::Committing(_) | Event::Committed(_) | Event::Finishing | Event::Finished
        )
    };
    let changes = events.len() - events.iter().filter(marks).count();
    (events, changes)
}

/// Returns the syncs on a tape that have an effect.
fn syncs(events: &[Event]) -> Vec<usize> {
    let mut medium = Medium::new();
    let works = |(nth, event): (usize, &Event)| {
        let pending = medium.pending.len();
        medium.replay(event);
        let works = matches!(event, Event::Sync(_)) || medium.pending.len() < pending;
        works.then_some(nth)
    };
    events.iter().enumerate().filter_map(works).collect()
}

fn without(events: &[Event], nth: usize) -> Vec<Event> {
    [&events[..nth], &events[nth + 1..]].concat()
}

#[test]
fn a_kill_anywhere_leaves_the_old_generation_or_the_new() {
    let (_, changes) = whole_run();
    assert!(changes > 40, "{changes}");
    for killed in 0..changes {
        let (root, output) = prepare();
        let events = taped(root.path(), killed, || assert!(compute(&output).is_err()));
        check(&events, &output).unwrap();
        compute(&output).unwrap();
        assert!(is_result(&output));
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_power_failure_anywhere_leaves_the_old_generation_or_the_new() {
    fail_everywhere(&whole_run().0, 0, true).unwrap();
}

#[test]
fn a_power_failure_after_a_kill_and_a_resume_does_so_too() {
    for killed in 0..whole_run().1 {
        let (events, second) = killed_and_resumed(killed);
        fail_everywhere(&events, second, false)
            .unwrap_or_else(|why| panic!("killed at {killed}: {why}"));
    }
}

#[test]
fn every_sync_of_a_run_is_needed() {
    let (events, _) = whole_run();
    for nth in syncs(&events) {
        assert!(
            fail_everywhere(&without(&events, nth), 0, false).is_err(),
            "{nth}: {:?}",
            events[nth]
        );
    }
}

#[test]
fn the_first_sync_of_a_resumed_run_is_needed() {
    let (mut going_on, mut tidying) = (0, 0);
    for killed in 0..whole_run().1 {
        let (events, second) = killed_and_resumed(killed);
        let Some(nth) = syncs(&events).into_iter().find(|&nth| nth >= second) else { continue };
        let needed = fail_everywhere(&without(&events, nth), second, false).is_err();
        let before = |wanted: fn(&Event) -> bool| events[..second].iter().any(wanted);
        if before(|event| matches!(event, Event::Finishing)) {
            tidying += u32::from(needed);
        } else if before(|event| matches!(event, Event::Committed(_))) {
            going_on += u32::from(needed);
        }
    }
    assert!(going_on > 0 && tidying > 0, "{going_on}, {tidying}");
}

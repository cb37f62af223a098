//! Shared files of runs that live, end and are killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use syncline_testkit::again;

use super::*;

const TARGET: &str = "SYNCLINE_SHARED_TARGET";

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Another process with a shared file, which commits the file when its input ends.
struct Run {
    child: Child,
    path: PathBuf,
    input: Option<ChildStdin>,
    /// Kept open: the process prints to it until it ends.
    _output: BufReader<ChildStdout>,
}

impl Run {
    fn start(target: &Path) -> Self {
        let mut command: Command = again("shared::tests::role_of_a_process");
        command.env(TARGET, target).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // The test harness prints before it, and no end of line after the name of a test.
        let path = loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
            if let Some((_, path)) = line.trim_end().split_once("at: ") {
                break PathBuf::from(path);
            }
        };
        let input = child.stdin.take();
        Run { child, path, input, _output: output }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "a process of the other tests"]
fn role_of_a_process() {
    let Some(target) = std::env::var_os(TARGET) else { return };
    let new = SharedNewFile::create(Path::new(&target), 5000, "another").unwrap();
    println!("at: {}", new.name().path(Path::new(&target)).display());
    std::io::stdout().flush().unwrap();
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).unwrap();
    new.file().write_all_at(&bytes, 0).unwrap();
    new.commit().unwrap();
}

#[test]
fn the_file_of_a_killed_run_is_removed_by_the_next_and_that_of_a_live_run_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.npy");
    let (mut killed, mut alive) = (Run::start(&target), Run::start(&target));
    // Both were alive when the second one began.
    assert!(killed.path.exists() && alive.path.exists() && killed.path != alive.path);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(killed.path.exists());
    let new = SharedNewFile::create(&target, 5000, "rank 0").unwrap();
    let expected = Leftovers { removed: vec![killed.path.clone()], kept: vec![alive.path.clone()] };
    assert_eq!(*new.leftovers(), expected);
    assert!(!killed.path.exists() && alive.path.exists());
    // The live run commits, and this one is dropped.
    alive.input.take().unwrap().write_all(b"alive").unwrap();
    assert!(alive.child.wait().unwrap().success());
    assert_eq!(std::fs::read(&target).unwrap()[..5], *b"alive");
    drop(new);
    assert_eq!(names(folder.path()), ["out.npy"]);
}

#[test]
fn only_hidden_files_of_this_output_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let others = [
        ".out.syncline-0123456789abcde",
        ".out.syncline-0123456789abcdef0",
        ".out.syncline-0123456789abcdeF",
        ".out.syncline-0123456789abcdef.part",
        ".outer.syncline-0123456789abcdef",
        "out.syncline-0123456789abcdef",
    ];
    for name in others {
        std::fs::write(at(name), "").unwrap();
    }
    std::os::unix::fs::symlink(at(others[0]), at(".out.syncline-aaaaaaaaaaaaaaaa")).unwrap();
    std::fs::create_dir(at(".out.syncline-bbbbbbbbbbbbbbbb")).unwrap();
    std::fs::write(at(".out.syncline-cccccccccccccccc"), "").unwrap();
    let before = names(folder.path()).len();
    let found = clear(&at("out")).unwrap();
    assert_eq!(found.removed, [at(".out.syncline-cccccccccccccccc")]);
    assert_eq!((found.kept.len(), names(folder.path()).len()), (0, before - 1));
}

#[test]
fn it_replaces_what_the_run_began_with_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let create = || SharedNewFile::create(&target, 3, "rank 0").unwrap();
    let nothing = FileState::of(&target).unwrap();
    let (first, second) = (create(), create());
    first.file().write_all_at(b"one", 0).unwrap();
    first.commit_over(&nothing).unwrap();
    let refused = second.commit_over(&nothing);
    let Err(Error::Kept { kept, source }) = refused else { panic!("{refused:?}") };
    assert!(matches!(*source, Error::Appeared { .. }), "{source}");
    std::fs::remove_file(kept).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"one");
    let one = FileState::of(&target).unwrap();
    let third = create();
    assert_eq!(third.target(), target);
    third.commit_over(&one).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), [0; 3]);
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_file_that_another_process_does_not_see_is_found() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (target, elsewhere) = (here.path().join("out"), there.path().join("out"));
    let new = SharedNewFile::create(&target, 100, "rank 0 on a").unwrap();
    let name = SharedName::decode(&new.name().encode()).unwrap();
    assert_eq!(name, *new.name());
    let file = name.open(&target, "rank 3 on b").unwrap();
    assert!(is_at(&file, &name.path(&target)));
    let error = || name.open(&elsewhere, "rank 3 on b").unwrap_err().to_string();
    let begins = |sees: &str| {
        let hidden = name.file.display();
        format!(
            "{} is not shared: rank 0 on a wrote {hidden} of 100 bytes beside it, rank 3 on b sees \
             {sees} in {}; ",
            elsewhere.display(),
            there.path().display()
        )
    };
    let found = error();
    assert!(found.starts_with(&begins("no such file")), "{found}");
    // A file of that name that is another.
    let copy = name.path(&elsewhere);
    std::fs::write(&copy, [0; 99]).unwrap();
    let found = error();
    assert!(found.starts_with(&begins("one of 99 bytes")), "{found}");
    std::fs::write(&copy, [0; 100]).unwrap();
    let found = error();
    assert!(found.starts_with(&begins("one with other bytes")), "{found}");
    // A file that is too short for a token is recognised by its name.
    let short = SharedNewFile::create(&target, 5, "rank 0").unwrap();
    short.name().open(&target, "rank 1").unwrap();
    assert!(short.name().open(&elsewhere, "rank 1").is_err());
    assert_eq!(short.name().bytes(), 5);
    for cut in 0..28 {
        assert_eq!(SharedName::decode(&name.encode()[..cut]), None);
    }
    let mut outside = name;
    outside.file = OsString::from("../.out.syncline-0123456789abcdef");
    assert_eq!(SharedName::decode(&outside.encode()), None);
}

#[test]
fn a_full_disk_is_an_error_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let error = SharedNewFile::create(&target, 1 << 60, "rank 0").unwrap_err().to_string();
    let begins = format!("{} needs {} bytes, but only ", target.display(), 1_u64 << 60);
    assert!(error.starts_with(&begins), "{error}");
    assert!(names(folder.path()).is_empty());
    assert!(SharedNewFile::create(folder.path(), 1, "rank 0").is_err());
    assert!(names(folder.path()).is_empty());
    // One file of seven eighths fits, two do not, even if other programs free some room meanwhile.
    let free = crate::newfile::free_bytes(folder.path()).unwrap();
    for bytes in [free / 8 * 7, 1 << 60] {
        let tried = SharedNewFile::create_several(&target, bytes, "rank 0", 2);
        let Err(Error::NoSpace { needed, free, .. }) = tried else { panic!("{tried:?}") };
        assert!(needed == 2 * bytes && free < needed, "{needed}, {free}");
        assert!(names(folder.path()).is_empty());
    }
    let several = SharedNewFile::create_several(&target, 4096, "rank 0", 2).unwrap();
    assert_eq!((several.len(), names(folder.path()).len()), (2, 2));
    drop(several);
    assert!(names(folder.path()).is_empty());
    assert!(SharedNewFile::create(&folder.path().join("no/out"), 1, "rank 0").is_err());
}

/// Runs that begin at the same time remove no file of each other, though each looks for the files
/// of the dead.
#[test]
fn runs_that_begin_together_keep_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Relaxed: a round more or less does not matter.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                clear(&target).unwrap();
            }
        });
        let runs: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let new = SharedNewFile::create(&target, 4096, "rank 0").unwrap();
                        clear(&target).unwrap();
                        assert!(is_at(new.file(), &new.name().path(&target)));
                        new.name().open(&target, "rank 1").unwrap();
                    }
                })
            })
            .collect();
        let done: Vec<_> = runs.into_iter().map(|run| run.join()).collect();
        ended.store(true, Ordering::Relaxed);
        assert!(done.iter().all(Result::is_ok));
    });
    assert!(names(folder.path()).is_empty());
}

#[test]
fn inputs_that_differ_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("za");
    let view = |bytes: &[u8], time: u64| {
        std::fs::write(&path, bytes).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(time);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        let view = InputView::of(&path).unwrap();
        assert_eq!(InputView::decode(&view.encode()), view);
        view
    };
    let mut bytes = vec![7; 300_000];
    // Whole seconds: a file system may keep no more.
    let second = 1_000_000_000;
    let first = view(&bytes, second);
    let error = |other| {
        let error = first.check(&other, &path, "rank 0 on a", "rank 1 on b").unwrap_err();
        error.to_string().split_once(" is not shared: ").unwrap().1.to_owned()
    };
    first.check(&view(&bytes, second), &path, "", "").unwrap();
    let expected =
        "it was modified at 1000000000 ns for rank 0 on a, at 2000000000 ns for rank 1 on b";
    assert_eq!(error(view(&bytes, 2 * second)), expected);
    bytes[299_999] = 8;
    let expected = "it begins or ends with other bytes for rank 0 on a than for rank 1 on b";
    assert_eq!(error(view(&bytes, second)), expected);
    bytes.push(7);
    let expected = "it has 300000 bytes for rank 0 on a, 300001 for rank 1 on b";
    assert_eq!(error(view(&bytes, second)), expected);
    view(b"", second);
    assert!(InputView::of(&folder.path().join("zb")).is_err());
}

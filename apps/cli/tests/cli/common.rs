//! Runs the command, and examines its results.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use syncline_store::{
    DataDir, Element, Layout, Matrix, NewFile, Shape,
    generation::{Identity, Made},
};
use tempfile::TempDir;

/// Far beyond the duration of any run here, on any machine.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// Returns the command with arguments separated by blanks, in `folder`, without this test's own
/// environment variables for it.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = loud(folder, line);
    // A machine may be so slow that progress lines are due, in a test that checks all output.
    if ["run ", "gen ", "convert "].iter().any(|name| line.starts_with(name))
        && !line.contains("--help")
    {
        command.arg("--quiet");
    }
    command
}

/// Like [`command`], with progress lines.
pub(crate) fn loud(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_syncline"));
    command.current_dir(folder).args(line.split_whitespace());
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"SYNCLINE_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Waits until a condition holds; fails if it does not within [`HANG`].
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let late = Instant::now() + HANG;
    while !so() {
        assert!(Instant::now() < late, "{what} has not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns whether this process, and all that it starts, ignore a signal, as in a background job;
/// in this case it prints a line.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1;
    if ignored {
        println!(
            "skipped: signal {} is ignored here, as it is in a job in the background",
            signal.as_raw()
        );
    }
    ignored
}

/// Returns the command as an ordinary user, which then owns the folder with all its contents;
/// `None`, after a line with the reason, if that user may not run it. Root has too many permissions
/// for some tests.
pub(crate) fn as_ordinary_user(folder: &Path, line: &str) -> Option<Command> {
    const NOBODY: u32 = 65534;
    let mut command = command(folder, line);
    if rustix::process::geteuid().is_root() {
        for path in contents(folder).into_keys().chain([folder.to_owned()]) {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
        let mut try_it = Command::new(command.get_program());
        if let Err(error) = try_it.arg("--version").uid(NOBODY).gid(NOBODY).output() {
            println!("skipped: an ordinary user may not run the program: {error}");
            return None;
        }
    }
    Some(command)
}

/// Returns whether the file system of a folder supports the marks by which a complete result is
/// recognised; if not, prints a line.
pub(crate) fn has_marks(folder: &Path) -> bool {
    let path = folder.join("marked");
    let found = Identity::default().mark(&fs::File::create(&path).unwrap(), &Made::default());
    fs::remove_file(&path).unwrap();
    if !found {
        println!("skipped: {} has no extended attributes", folder.display());
    }
    found
}

/// Returns the text of standard error without the progress lines, which come every ten seconds: a
/// disk may take as long.
pub(crate) fn said(stderr: Vec<u8>) -> String {
    let text = String::from_utf8(stderr).unwrap();
    text.split_inclusive('\n').filter(|line| !line.starts_with("progress: ")).collect()
}

/// Returns the command's standard output; the command must succeed.
pub(crate) fn ok(folder: &Path, line: &str) -> String {
    succeeds(command(folder, line), line)
}

/// Like [`ok`], for any command.
pub(crate) fn succeeds(mut command: Command, line: &str) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = said(stderr);
    assert!(status.success(), "{line}: {stderr}");
    assert_eq!(stderr, "", "{line}");
    String::from_utf8(stdout).unwrap()
}

/// Returns the standard output of a run that did its iterations and did not reach its `--until`.
pub(crate) fn unconverged(folder: &Path, line: &str) -> String {
    let Output { status, stdout, stderr } = command(folder, line).output().unwrap();
    assert_eq!((status.code(), said(stderr).as_str()), (Some(3), ""), "{line}");
    String::from_utf8(stdout).unwrap()
}

/// Returns the last line of `run --json`.
pub(crate) fn json(folder: &Path, line: &str) -> Value {
    let stdout = ok(folder, &format!("{line} --json"));
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

/// Returns the one-line error of a command that must fail with `code` and print nothing else.
pub(crate) fn fails_with(code: i32, folder: &Path, line: &str) -> String {
    fails(code, command(folder, line), line)
}

/// Like [`fails_with`], for any command.
pub(crate) fn fails(code: i32, mut command: Command, line: &str) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = said(stderr);
    assert_eq!(status.code(), Some(code), "{line}: {stderr}");
    assert!(stdout.is_empty(), "{line}");
    assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
    let error = stderr.trim_end().strip_prefix("error: ");
    error.unwrap_or_else(|| panic!("{line}: {stderr}")).to_owned()
}

/// Checks that a command fails, changes nothing in its folder, and has all of `parts` in its
/// one-line error.
pub(crate) fn refused(folder: &Path, line: &str, parts: &[&str]) {
    let before = contents(folder);
    let error = fails_with(1, folder, line);
    for part in parts {
        assert!(error.contains(part), "{line}: {error:?} does not say {part:?}");
    }
    assert!(contents(folder) == before, "{line} changed files: {:?}", names(folder));
}

/// Returns all files below a folder, with their contents.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            all.insert(path.clone(), b"folder".to_vec());
            all.append(&mut contents(&path));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            all.insert(path, bytes);
        } else {
            all.insert(path, b"neither".to_vec());
        }
    }
    all
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns all values, row by row.
pub(crate) fn values<T: Element>(matrix: &Matrix<T>) -> Vec<T> {
    let mut values = vec![T::default(); matrix.shape().elements()];
    matrix.read_rows(0..matrix.shape().rows, &mut values).unwrap();
    values
}

/// Returns all values of a `.npy` file.
pub(crate) fn npy(path: &Path) -> Vec<f64> {
    npy_of(path)
}

/// Returns all values of a `.npy` file with elements of this type.
pub(crate) fn npy_of<T: Element>(path: &Path) -> Vec<T> {
    values(&Matrix::open(path).unwrap())
}

/// Returns the values of a matrix of a directory.
pub(crate) fn matrix(dir: &Path, name: &str) -> Vec<f64> {
    values(&DataDir::open(dir).unwrap().matrix(name).unwrap())
}

/// Writes a `.npy` file.
pub(crate) fn write_npy<T: Element>(path: &Path, shape: Shape, values: &[T]) {
    let bytes = Matrix::<T>::file_bytes(true, shape, Layout::RowMajor).unwrap();
    let new = NewFile::create(path, bytes).unwrap();
    let mut matrix = Matrix::<T>::create(&new, true, shape, Layout::RowMajor).unwrap();
    matrix.write_rows(0..shape.rows, values).unwrap();
    drop(matrix);
    new.commit().unwrap();
}

/// Returns the bits of values, to compare values that may be NaN.
pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Returns a folder with data for kernel 23 in `data`; in memory if possible, because the command
/// syncs every file to disk, and the tests create hundreds.
pub(crate) fn lk23(rows: usize, cols: usize) -> TempDir {
    // A container's `/dev/shm` may be too small for all tests at once.
    let roomy = rustix::fs::statvfs("/dev/shm")
        .is_ok_and(|there| there.f_bavail * there.f_frsize > 1 << 29);
    let folder = if roomy {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
    } else {
        tempfile::tempdir()
    };
    filled(folder.unwrap(), rows, cols)
}

/// Like [`lk23`], on disk.
pub(crate) fn lk23_on_disk(rows: usize, cols: usize) -> TempDir {
    filled(tempfile::tempdir().unwrap(), rows, cols)
}

fn filled(folder: TempDir, rows: usize, cols: usize) -> TempDir {
    ok(folder.path(), &format!("gen lk23 data --rows {rows} --cols {cols} --seed 7"));
    folder
}

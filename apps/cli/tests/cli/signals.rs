//! Interrupted and killed runs: the input is unchanged, and no incomplete file has the output's
//! name.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::fd::FromRawFd as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::ptr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{HANG, command, contents, lk23_on_disk, loud, names, said, until};

/// Starts a run that does not end by itself; returns when its workers work.
fn endless(folder: &Path, options: &str) -> Child {
    let line = format!("run lk23 data --iterations 100000000000 --threads 2 {options}");
    start(folder, &line)
}

/// Starts a run that is long; returns when its workers work.
fn start(folder: &Path, line: &str) -> Child {
    start_or_end(folder, line).unwrap_or_else(|output| panic!("{line} ended: {output:?}"))
}

/// Starts a run; returns when its workers work, or its output if it has ended before.
fn start_or_end(folder: &Path, line: &str) -> Result<Child, Output> {
    let child =
        command(folder, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    works(child)
}

/// Waits until the workers of a run work; returns its output if it has ended before.
fn works(mut child: Child) -> Result<Child, Output> {
    // The main thread, the thread that it watches, which works too, and another worker.
    let tasks = format!("/proc/{}/task", child.id());
    let mut ended = false;
    until("two workers", || {
        ended = child.try_wait().unwrap().is_some();
        ended || fs::read_dir(&tasks).unwrap().count() >= 3
    });
    if ended {
        return Err(child.wait_with_output().unwrap());
    }
    // Most signals then arrive in the middle of the work.
    std::thread::sleep(Duration::from_millis(50));
    Ok(child)
}

fn end(child: Child, signal: Signal) -> Output {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn signals_end_a_run_without_a_trace() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    fs::write(path.join("old.npy"), b"an older result").unwrap();
    let before = contents(path);
    let cases = [
        (Signal::INT, Some(130), "interrupted by SIGINT"),
        (Signal::TERM, Some(143), "interrupted by SIGTERM"),
        (Signal::KILL, None, ""),
    ];
    for options in [
        "--executor blocked",
        "--executor blocked --memory 12M",
        "--runner pool --verify --output old.npy --force",
        "--runner threads --order barrier --json",
    ] {
        for (signal, code, message) in cases {
            let output = end(endless(path, options), signal);
            assert_eq!(output.status.code(), code, "{options}: {output:?}");
            assert_eq!(output.status.signal().is_some(), code.is_none());
            let stderr = said(output.stderr);
            assert!(stderr.contains(message) && stderr.lines().count() <= 1, "{options}: {stderr}");
            assert!(output.stdout.is_empty());
            assert!(contents(path) == before, "{options}, {signal:?}: files changed");
        }
    }
}

/// In the first pass nothing is kept; later the last pass is, and the message names `--resume`.
#[test]
fn signals_end_a_streamed_run_at_its_last_pass() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    fs::write(path.join("old.npy"), b"an older result").unwrap();
    let before = contents(path);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // One pass of this number of iterations takes long.
        let line =
            "run lk23 data --iterations 200000 --depth 200000 --output old.npy --force --json";
        let output = end(start(path, line), signal);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stderr = said(output.stderr);
        assert!(stderr.contains("nothing was written") && stderr.lines().count() == 1, "{stderr}");
        assert!(contents(path) == before, "files changed");

        let child = endless(path, "--depth 2 --output old.npy --force --verify");
        until("a pass", || path.join("old.npy.syncline/manifest").exists());
        let output = end(child, signal);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stderr = said(output.stderr);
        let kept = "of 100000000000 iterations are kept, --resume goes on from there";
        assert!(stderr.contains(kept) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(fs::read(path.join("old.npy")).unwrap(), b"an older result");
        fs::remove_dir_all(path.join("old.npy.syncline")).unwrap();
        assert!(contents(path) == before, "files changed");
    }
}

/// A mapped file that shrinks causes one signal of the kernel, and a write beyond the size limit
/// another.
#[test]
fn signals_of_the_kernel_are_errors() {
    // Several times, as threads may fault one after the other or at once.
    for _ in 0..8 {
        let folder = lk23_on_disk(256, 256);
        let path = folder.path();
        let child = endless(path, "--executor blocked");
        fs::File::options()
            .write(true)
            .open(path.join("data/zr.npy"))
            .unwrap()
            .set_len(4096)
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = said(output.stderr);
        assert_eq!(output.status.code(), Some(1), "{:?} {stderr}", output.status);
        assert!(stderr.starts_with("error: ") && stderr.contains("cut short"), "{stderr}");
        assert!(!names(path).contains(&"za.lk23.out.npy".to_owned()));
    }

    let folder = lk23_on_disk(256, 256);
    for options in ["--executor blocked", "--depth 2", "--depth 4"] {
        let run = command(folder.path(), &format!("run lk23 data --iterations 4 {options}"));
        let mut limited = Command::new("sh");
        limited.current_dir(folder.path()).args(["-c", "ulimit -f 100; exec \"$@\"", "_"]);
        let output = limited.arg(run.get_program()).args(run.get_args()).output().unwrap();
        let stderr = said(output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options}: {stderr}");
        assert!(
            stderr.contains("za.lk23.out.npy") && stderr.contains("too large"),
            "{options}: {stderr}"
        );
    }
}

#[test]
#[ignore = "full: 9 s of computing"]
fn an_input_that_is_written_to_under_a_run_in_blocks_is_an_error() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    let input = path.join("data/zu.npy");
    // The change is found at the end of the run, so the run must end: after the write, if it is
    // long enough for this machine.
    for iterations in [3_000, 30_000, 300_000] {
        let line =
            format!("run lk23 data --iterations {iterations} --threads 2 --executor blocked");
        let child = match start_or_end(path, &line) {
            Ok(child) => child,
            Err(output) if output.status.success() => continue,
            Err(output) => panic!("{output:?}"),
        };
        fs::File::options().write(true).open(&input).unwrap().write_all(b"\x93NUMPY").unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = said(output.stderr);
        if output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("zu.npy was changed while it was read"), "{stderr}");
        return;
    }
    panic!("no run has seen that an input was written to");
}

#[test]
fn an_interrupted_gen_leaves_no_directory() {
    // The last size is large enough to be interrupted, on any machine.
    for size in [3000, 6000, 9000] {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("gen lk23 data --rows {size} --cols {size}");
        let child = command(folder.path(), &line).stderr(Stdio::piped()).spawn().unwrap();
        until("the directory", || folder.path().join("data").exists());
        let output = end(child, Signal::INT);
        if output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(contents(folder.path()).is_empty());
        return;
    }
    panic!("gen is not interrupted");
}

/// Whether the command is still computing the drawing, writes it, or prints to a reader that does
/// not read on.
#[test]
fn an_overlay_is_interrupted_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let task = |t: usize| {
        format!("task_of_a_long_name_{t} = {{ writes = ['location_of_a_long_name_{t}'] }}\n")
    };
    fs::write(path.join("o.toml"), format!("[tasks]\n{}", (0..1500).map(task).collect::<String>()))
        .unwrap();
    let before = contents(path);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for line in
            ["overlay grid 1024x1024 --draw s.svg", "overlay grid 40x40", "overlay check o.toml"]
        {
            let mut child =
                command(path, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let tasks = format!("/proc/{}/task", child.id());
            while fs::read_dir(&tasks).unwrap().count() < 2 {
                assert_eq!(child.try_wait().unwrap(), None, "{line} ended");
                std::thread::sleep(Duration::from_millis(1));
            }
            kill_process(Pid::from_child(&child), signal).unwrap();
            // Not read before it has ended: the output does not fit in a pipe.
            let status = child.wait().unwrap();
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            assert_eq!(status.code(), Some(code), "{line}: {stderr}");
            assert!(stderr.starts_with("error: interrupted by SIG"), "{line}: {stderr}");
            assert!(contents(path) == before, "{line}: {:?}", names(path));
        }
    }
}

/// Returns the lines of a stream as they arrive; the channel ends with the stream.
fn lines(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // A carriage return starts a line of a terminal again.
        let mut pieces = BufReader::new(stream);
        let mut piece = Vec::new();
        let mut byte = [0];
        while pieces.read_exact(&mut byte).is_ok() {
            match byte[0] {
                b'\n' | b'\r' => {
                    let line = String::from_utf8_lossy(&std::mem::take(&mut piece)).into_owned();
                    if sender.send(line).is_err() {
                        return;
                    }
                }
                other => piece.push(other),
            }
        }
    });
    receiver
}

/// Returns the next line; fails after [`HANG`].
fn next(lines: &mpsc::Receiver<String>) -> String {
    lines.recv_timeout(HANG).expect("a line")
}

/// SIGUSR1 requests the progress, the rate, the resident memory and the present work; the run
/// continues.
#[test]
fn a_run_says_how_it_stands_when_asked() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    let all = "of 100000000000 iterations safe";
    for (options, first) in [
        ("--executor blocked --block 32 --memory 64M", "iteration "),
        ("--depth 100000 --memory 64M", "pass 1 of "),
        ("--depth 2 --output o.npy --memory 64M", "pass "),
    ] {
        let mut child = endless(path, options);
        let kept = options.contains("o.npy");
        until("a pass", || !kept || path.join("o.npy.syncline/manifest").exists());
        let said = lines(child.stderr.take().unwrap());
        // Between two passes, and between two blocks, no thread computes; on a slow disk that is
        // most of the time.
        let (mut line, mut computes) = (String::new(), false);
        let late = Instant::now() + HANG;
        while !computes {
            assert!(Instant::now() < late, "{options}: no thread computes: {line}");
            kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
            line = next(&said);
            let [rate, memory, now] = [next(&said), next(&said), next(&said)];
            assert!(rate.starts_with("  rate    "), "{rate}");
            assert!(
                memory.starts_with("  memory  ") && memory.ends_with(" MiB, of at most 64.0 MiB"),
                "{memory}"
            );
            assert!(now.starts_with("  now     "), "{now}");
            let told = format!("{line} {rate} {memory} {now}");
            for jargon in ["wave", "band", "piece", "panel", "location", "delayed", "'"] {
                assert!(!told.contains(jargon), "{jargon}: {told}");
            }
            computes = now.contains("compute");
        }
        assert!(line.starts_with(first), "{options}: {line}");
        match options.split(' ').nth(1).unwrap() {
            "100000" => assert!(line.contains(&format!(", 0 {all}")), "{line}"),
            "2" => {
                let safe = line.split(", ").nth(1).unwrap().strip_suffix(all).unwrap().trim();
                assert!(safe.parse::<u64>().unwrap() >= 2, "{line}");
            }
            _ => assert!(line.contains("none of which is safe before the end"), "{line}"),
        }
        drop(end(child, Signal::KILL));
    }
}

/// Returns the two ends of a terminal of this number of columns that does not report its rows.
fn terminal(columns: u16) -> (fs::File, fs::File) {
    let size = libc::winsize { ws_row: 0, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: `ours`, `theirs` and `size` are valid for the call; a null name and null settings are
    // permitted.
    let made = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, ptr::null_mut(), ptr::null(), &raw const size)
    };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors are open, and have no other owner.
    unsafe { (fs::File::from_raw_fd(ours), fs::File::from_raw_fd(theirs)) }
}

/// Returns the drawn lines, without the sequences that move the cursor and without the blanks that
/// clear the rest of a line.
fn drawn(text: &str) -> Vec<String> {
    let text = without_escapes(text);
    let lines = text.split(['\r', '\n']).map(|line| line.trim_end().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// The width comes from the columns alone; at any width the line shows the progress.
#[test]
fn what_is_drawn_fits_the_columns_of_the_terminal() {
    let folder = lk23_on_disk(256, 256);
    for columns in [12, 44, 70, 120] {
        let (mut ours, theirs) = terminal(columns);
        let line = "run lk23 data --iterations 100000000000 --threads 2 --depth 100000 --force";
        let mut run = loud(folder.path(), line);
        let mut child =
            run.env("TERM", "xterm").stdout(Stdio::null()).stderr(theirs).spawn().unwrap();
        drop(run);
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while drawn(&text).iter().filter(|line| line.contains(" %")).count() < 3 {
            let read = ours.read(&mut bytes).unwrap();
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
            assert!(text.len() < 1 << 20, "{columns}: nothing says how much is done: {text}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut lines = drawn(&text);
        // The last line may be incomplete.
        lines.pop();
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap();
        assert!(widest < usize::from(columns), "{columns}: {widest}, {lines:?}");
        let last = lines.last().unwrap();
        let form = match columns {
            12 => last.ends_with(" %") && last.len() <= 5,
            44 => {
                last.starts_with("pass 1/1000000, ") && last.contains(" %") && !last.contains('[')
            }
            70 => last.starts_with("pass 1") && last.contains(" %") && !last.contains('['),
            _ => {
                last.starts_with("pass 1 of 1000000, 0 of 100000000000 iterations safe [")
                    && last.contains("] ")
            }
        };
        assert!(form, "{columns}: {lines:?}");
    }
}

/// Without a terminal, a line comes every ten seconds. The run is stopped most of this time, so
/// that it is in its first pass on any machine.
#[test]
#[ignore = "full: it waits for 10 s"]
fn a_run_off_a_terminal_says_how_far_it_is() {
    let folder = lk23_on_disk(512, 512);
    let line = "run lk23 data --iterations 100000000000 --threads 2 --depth 100000";
    let child =
        loud(folder.path(), line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = works(child).unwrap();
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(10));
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    let said = next(&lines(child.stderr.take().unwrap()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        said.starts_with("progress: pass 1 of 1000000, 0 of 100000000000 iterations safe"),
        "{said}"
    );
}

/// Returns a line without the sequences that move the cursor or set colours.
fn without_escapes(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // ESC [ parameters, and a letter.
            rest.by_ref().skip(1).find(char::is_ascii_alphabetic);
        } else {
            text.push(c);
        }
    }
    text
}

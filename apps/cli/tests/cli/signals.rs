//! Interrupted and killed: the input stays, and nothing stands under the output's name.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{HANG, command, contents, lk23_on_disk, names, until};

/// A run that does not end by itself, with its workers at work.
fn endless(folder: &Path, options: &str) -> Child {
    let line = format!("run lk23 data --iterations 100000000000 --threads 2 {options}");
    start(folder, &line)
}

/// A run, as soon as its workers are at work.
fn start(folder: &Path, line: &str) -> Child {
    let mut child = command(folder, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The main thread, the one that it watches, which works too, and another worker.
    let tasks = format!("/proc/{}/task", child.id());
    while fs::read_dir(&tasks).unwrap().count() < 3 {
        assert_eq!(child.try_wait().unwrap(), None, "{line} ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    child
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
        "--executor blocked --memory 14M",
        "--runner pool --verify --output old.npy",
        "--runner threads --order barrier --json",
    ] {
        for (signal, code, message) in cases {
            let output = end(endless(path, options), signal);
            assert_eq!(output.status.code(), code, "{options}: {output:?}");
            assert_eq!(output.status.signal().is_some(), code.is_none());
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(stderr.contains(message) && stderr.lines().count() <= 1, "{options}: {stderr}");
            assert!(output.stdout.is_empty());
            assert!(contents(path) == before, "{options}, {signal:?}: files changed");
        }
    }
}

/// In the first pass nothing is kept; later the last pass is, and `--resume` is named.
#[test]
fn signals_end_a_streamed_run_at_its_last_pass() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    fs::write(path.join("old.npy"), b"an older result").unwrap();
    let before = contents(path);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // One pass of so many iterations takes long.
        let line = "run lk23 data --iterations 200000 --depth 200000 --output old.npy --json";
        let output = end(start(path, line), signal);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("nothing was written") && stderr.lines().count() == 1, "{stderr}");
        assert!(contents(path) == before, "files changed");

        let child = endless(path, "--depth 2 --output old.npy --verify");
        until("a pass", || path.join("old.npy.syncline/manifest").exists());
        let output = end(child, signal);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let kept = "of 100000000000 iterations are kept, --resume goes on from there";
        assert!(stderr.contains(kept) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(fs::read(path.join("old.npy")).unwrap(), b"an older result");
        fs::remove_dir_all(path.join("old.npy.syncline")).unwrap();
        assert!(contents(path) == before, "files changed");
    }
}

/// What is mapped of a file that gets shorter is a signal of the kernel, and what is written beyond a limit another.
#[test]
fn signals_of_the_kernel_are_errors() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    let child = endless(path, "--executor blocked");
    fs::File::options().write(true).open(path.join("data/zr.npy")).unwrap().set_len(4096).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains("cut short"), "{stderr}");
    assert!(!names(path).contains(&"za.out.npy".to_owned()));

    let folder = lk23_on_disk(256, 256);
    for options in ["--executor blocked", "--depth 2", "--depth 4"] {
        let run = command(folder.path(), &format!("run lk23 data --iterations 4 {options}"));
        let mut limited = Command::new("sh");
        limited.current_dir(folder.path()).args(["-c", "ulimit -f 100; exec \"$@\"", "_"]);
        let output = limited.arg(run.get_program()).args(run.get_args()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{options}: {stderr}");
        assert!(stderr.contains("za.out.npy") && stderr.contains("too large"), "{options}: {stderr}");
    }
}

#[test]
fn an_input_that_is_written_to_under_a_run_in_blocks_is_an_error() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    let input = path.join("data/zu.npy");
    // It is seen at the end of the run, so that the run has to have one: behind the write, if it is long enough for this machine.
    for iterations in [3_000, 30_000, 300_000] {
        let child =
            start(path, &format!("run lk23 data --iterations {iterations} --threads 2 --executor blocked"));
        fs::File::options().write(true).open(&input).unwrap().write_all(b"\x93NUMPY").unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
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
    // The last one is long enough to be caught in, on any machine.
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

#[test]
fn an_interrupted_race_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        // A round takes minutes.
        let line = "bench wave --rows 600 --cols 600 --iterations 300000 --rounds 9 --no-numba";
        let mut child = command(folder.path(), line).stderr(Stdio::piped()).spawn().unwrap();
        let made = || {
            let data = fs::read_dir(folder.path()).unwrap().next()?.unwrap().path();
            Some(fs::read_dir(data).ok()?.count())
        };
        while made() < Some(6) {
            assert_eq!(child.try_wait().unwrap(), None, "{line} ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        let output = end(child, signal);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(contents(folder.path()).is_empty());
    }
}

/// Whether it is still finding what to draw, writes it, or prints for somebody who does not read on.
#[test]
fn an_overlay_is_interrupted_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let task =
        |t: usize| format!("task_of_a_long_name_{t} = {{ writes = ['location_of_a_long_name_{t}'] }}\n");
    fs::write(path.join("o.toml"), format!("[tasks]\n{}", (0..1500).map(task).collect::<String>())).unwrap();
    let before = contents(path);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for line in ["overlay grid 1024x1024 --draw s.svg", "overlay grid 40x40", "overlay check o.toml"] {
            let mut child =
                command(path, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let tasks = format!("/proc/{}/task", child.id());
            while fs::read_dir(&tasks).unwrap().count() < 2 {
                assert_eq!(child.try_wait().unwrap(), None, "{line} ended");
                std::thread::sleep(Duration::from_millis(1));
            }
            kill_process(Pid::from_child(&child), signal).unwrap();
            // Not read before it has ended: what is printed does not fit into a pipe.
            let status = child.wait().unwrap();
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            assert_eq!(status.code(), Some(code), "{line}: {stderr}");
            assert!(stderr.starts_with("error: interrupted by SIG"), "{line}: {stderr}");
            assert!(contents(path) == before, "{line}: {:?}", names(path));
        }
    }
}

/// SIGUSR1 asks which tasks work and who waits for whom; the run goes on.
#[test]
fn a_run_says_how_it_stands_when_asked() {
    let folder = lk23_on_disk(256, 256);
    for (options, task) in [("--executor blocked --block 32", "block"), ("--depth 100000", "wave")] {
        let mut child = endless(folder.path(), options);
        kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
        let mut said = child.stderr.take().unwrap();
        let (tell, told) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let (mut text, mut some) = (String::new(), [0; 4096]);
            while !(text.contains(" steps are done") && text.contains(task)) {
                match said.read(&mut some).unwrap() {
                    0 => break,
                    len => text.push_str(&String::from_utf8_lossy(&some[..len])),
                }
            }
            tell.send(text).unwrap();
        });
        let text = told.recv_timeout(HANG);
        end(child, Signal::KILL);
        reader.join().unwrap();
        let text = text.expect("it says nothing");
        assert!(text.contains(" steps are done") && text.contains(task), "{options}: {text}");
    }
}

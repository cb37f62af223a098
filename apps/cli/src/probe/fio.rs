//! The same requests made by fio, where it is installed.

use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use syncline_store::probe::{Pattern, Scratch};

/// The time that fio may take beyond the one it was given.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the seconds that fio takes per piece of this pattern with direct I/O, or why it was not
/// run.
pub(super) fn per_piece(
    scratch: &Scratch,
    pattern: Pattern,
    time: Duration,
) -> Result<f64, String> {
    let side = scratch.block().rows * 8;
    // The scratch matrix has four blocks in a row.
    let pitch = 4 * side;
    let (what, block, under_way) = match pattern {
        Pattern::Read => ("read".to_owned(), 8 << 20, 4),
        Pattern::Block => ("randread".to_owned(), 8 << 20, 4),
        Pattern::Rows => (format!("read:{}", pitch - side), side, 16),
        Pattern::Row | Pattern::Frame => ("randread".to_owned(), side, 1),
        Pattern::Column => {
            (format!("read:{}", pitch - scratch.alignment()), scratch.alignment(), 16)
        }
        Pattern::Write => ("write".to_owned(), 8 << 20, 4),
    };
    // The file has no other name.
    let file = format!("/proc/{}/fd/{}", std::process::id(), scratch.file().as_raw_fd());
    let mut command = Command::new("fio");
    command
        .args([
            "--name=probe",
            "--direct=1",
            "--ioengine=io_uring",
            "--output-format=json",
            "--invalidate=1",
        ])
        .args(["--allow_file_create=0", "--norandommap"])
        .arg(format!("--filename={file}"))
        .arg(format!("--size={}", scratch.bytes()))
        .arg(format!("--rw={what}"))
        .arg(format!("--bs={block}"))
        .arg(format!("--iodepth={under_way}"));
    match pattern {
        Pattern::Write => command
            .args(["--overwrite=1", "--end_fsync=1"])
            .arg(format!("--io_size={}", scratch.bytes() / 4)),
        _ => command
            .args(["--readonly", "--time_based"])
            .arg(format!("--runtime={}ms", time.as_millis())),
    };
    let text = run(&mut command, time + PATIENCE)?;
    let side = if pattern == Pattern::Write { "write" } else { "read" };
    seconds(&text, side).ok_or_else(|| "its output is not understood".to_owned())
}

/// Returns the seconds per request, from fio's report.
fn seconds(text: &str, side: &str) -> Option<f64> {
    // Warnings may precede the object.
    let object = text.find('{').map(|start| &text[start..])?;
    let report: Value = serde_json::from_str(object).ok()?;
    let side = &report["jobs"][0][side];
    let (runtime, requests) = (side["runtime"].as_f64()?, side["total_ios"].as_f64()?);
    (runtime > 0.0 && requests > 0.0).then(|| runtime / 1e3 / requests)
}

fn run(command: &mut Command, most: Duration) -> Result<String, String> {
    let spawned =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| match error.kind() {
        ErrorKind::NotFound => "not installed".to_owned(),
        _ => error.to_string(),
    })?;
    let read = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut text = String::new();
            // Output that is not text is no report.
            let _ = from.map(|mut from| from.read_to_string(&mut text));
            text
        })
    };
    let out = read(child.stdout.take().map(|from| Box::new(from) as Box<_>));
    let err = read(child.stderr.take().map(|from| Box::new(from) as Box<_>));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < most => thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("it does not end".to_owned());
            }
        }
    };
    let [out, err] = [out, err].map(|text| text.join().unwrap_or_default());
    match status.success() {
        true => Ok(out),
        false => Err(err.lines().last().unwrap_or("it failed without a word").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_understood() {
        let text = r#"fio: a note
            {"jobs": [{"read": {"runtime": 500, "total_ios": 1000}, "write": {"runtime": 0, "total_ios": 0}}]}"#;
        assert_eq!(seconds(text, "read"), Some(0.0005));
        assert_eq!(seconds(text, "write"), None);
        assert_eq!(seconds("nothing", "read"), None);
    }

    #[test]
    fn what_is_not_installed_is_said_to_be_so() {
        let why = run(&mut Command::new("syncline-no-such-program"), PATIENCE);
        assert_eq!(why, Err("not installed".to_owned()));
        let failed = run(Command::new("sh").args(["-c", "echo no >&2; exit 3"]), PATIENCE);
        assert_eq!(failed, Err("no".to_owned()));
        let slow = run(Command::new("sleep").arg("60"), Duration::from_millis(50));
        assert_eq!(slow, Err("it does not end".to_owned()));
    }
}

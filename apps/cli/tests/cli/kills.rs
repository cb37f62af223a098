//! Checks that a run of many passes, killed at any moment, resumes to the same bits, and that
//! damage is reported.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use syncline_testkit::{cases, seed};

use crate::common::{
    HANG, command, contents, fails_with, has_marks, lk23_on_disk, names, ok, until,
};

const ITERATIONS: u64 = 60;
const RUN: &str = "run lk23 data --iterations 60 --output o.npy";

fn spawn(path: &Path, line: &str) -> Child {
    command(path, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Lets a run continue for `time`; returns whether it was killed then, and had not ended before.
fn kill_after(mut child: Child, time: Duration) -> bool {
    std::thread::sleep(time);
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    if let Some(status) = ended {
        assert!(status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    !output.status.success()
}

/// Returns random numbers from a seed that is printed.
fn random(fixed: u64) -> Pcg64Mcg {
    let seed = seed(fixed);
    println!("SYNCLINE_SEED={seed}");
    Pcg64Mcg::seed_from_u64(seed)
}

/// Returns the time of a kill in a round, where an undisturbed run takes `whole`. A few come too
/// late; in the rounds beyond `rounds`, which exist if all have come too late, earlier and earlier
/// ones.
fn moment(random: &mut Pcg64Mcg, whole: Duration, round: u64, rounds: u64) -> Duration {
    let fraction = (random.next_u64() % 1000) as f64 / 900.0;
    whole.mul_f64(fraction / (1 + (round + 1).saturating_sub(rounds)) as f64)
}

/// Returns the result of an undisturbed run.
fn expected(path: &Path) -> Vec<u8> {
    ok(path, &format!("{RUN} --executor blocked --verify"));
    let bytes = fs::read(path.join("o.npy")).unwrap();
    fs::remove_file(path.join("o.npy")).unwrap();
    bytes
}

#[test]
fn killed_runs_are_resumed_to_the_same_bits() {
    let rounds = u64::from(cases(8));
    let folder = lk23_on_disk(400, 300);
    let path = folder.path();
    let (expected, marks) = (expected(path), has_marks(path));
    let mut random = random(25);
    let (mut kills, mut resumed, mut outputs) = (0, 0, 0);
    for round in 0.. {
        if round >= rounds && kills > 0 {
            break;
        }
        let line = |depth| format!("{RUN} --depth {depth} --resume --json");
        let depth = 1 + round % 3;
        // So that kills hit all parts of a run: its start, its passes, its end.
        let begun = Instant::now();
        ok(path, &line(depth));
        let whole = begun.elapsed();
        fs::remove_file(path.join("o.npy")).unwrap();
        loop {
            let depth = 1 + random.next_u64() % 3;
            let time = moment(&mut random, whole, round, rounds);
            if !kill_after(spawn(path, &line(depth)), time) {
                break;
            }
            kills += 1;
            // A file under the output's name is the complete result.
            match fs::read(path.join("o.npy")) {
                Ok(found) => {
                    outputs += 1;
                    assert!(
                        found == expected,
                        "round {round}: a part of a result has the output's name"
                    );
                    if !marks {
                        // Without marks it is a file like any other.
                        fs::remove_file(path.join("o.npy")).unwrap();
                    }
                }
                Err(_) => resumed += u64::from(path.join("o.npy.syncline/manifest").exists()),
            }
            if random.next_u64().is_multiple_of(3) {
                ok(path, &line(depth));
                break;
            }
        }
        assert!(fs::read(path.join("o.npy")).unwrap() == expected, "round {round}: other bits");
        assert_eq!(names(path), ["data", "o.npy"], "round {round}: something is left");
        fs::remove_file(path.join("o.npy")).unwrap();
    }
    println!(
        "{rounds} rounds: {kills} kills, {resumed} of them resumable, {outputs} after the result had its name"
    );
}

/// A run that continues from a result, killed at any moment, leaves either that result or the new
/// one complete; and the run can be resumed.
#[test]
fn killed_runs_from_a_result_leave_that_or_the_new_one() {
    let rounds = u64::from(cases(9));
    let folder = lk23_on_disk(400, 300);
    let path = folder.path();
    if !has_marks(path) {
        return;
    }
    let (new, first) = (expected(path), RUN.replace("60", "20"));
    ok(path, &format!("{first} --depth 20"));
    let old = fs::read(path.join("o.npy")).unwrap();
    let mut random = random(15);
    let (mut kills, mut olds) = (0, 0);
    for round in 0.. {
        if round >= rounds && kills > 0 {
            break;
        }
        // In one pass, and in several.
        let line = format!("{RUN} --depth {} --resume --json", [7, 40, 15][round as usize % 3]);
        ok(path, &format!("{first} --force"));
        let begun = Instant::now();
        ok(path, &line);
        let whole = begun.elapsed();
        ok(path, &format!("{first} --force"));
        loop {
            let time = moment(&mut random, whole, round, rounds);
            if !kill_after(spawn(path, &line), time) {
                break;
            }
            kills += 1;
            let found = fs::read(path.join("o.npy")).unwrap();
            assert!(
                found == old || found == new,
                "round {round}: neither the old result nor the new one"
            );
            olds += u64::from(found == old);
            if random.next_u64().is_multiple_of(3) {
                ok(path, &line);
                break;
            }
        }
        assert!(fs::read(path.join("o.npy")).unwrap() == new, "round {round}: other bits");
        assert_eq!(names(path), ["data", "o.npy"], "round {round}: something is left");
    }
    println!("{rounds} rounds: {kills} kills, {olds} of them before the new result had its name");
}

/// Kills a run when it has committed some of its passes, but not all.
fn leave(path: &Path) {
    let manifest = path.join("o.npy.syncline/manifest");
    let late = Instant::now() + HANG;
    for time in 0.. {
        assert!(Instant::now() < late, "no run was caught between its passes");
        let mut child = spawn(path, &format!("{RUN} --depth 1 --force"));
        until("a pass, or the end", || manifest.exists() || child.try_wait().unwrap().is_some());
        // Earlier and earlier, where the machine is fast.
        let killed = kill_after(child, Duration::from_millis(10) / (time + 1));
        if killed && manifest.exists() && !path.join("o.npy").exists() {
            return;
        }
        // The run was too fast.
        let _ = fs::remove_file(path.join("o.npy"));
    }
}

/// Flips some bits of one byte.
fn flip(file: &Path, at: usize, bits: u8) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= bits;
    fs::write(file, bytes).unwrap();
}

/// Returns the number at the first occurrence of `"name":123` in a text.
fn number(text: &str, name: &str) -> u64 {
    let rest = text.split_once(&format!("\"{name}\":")).unwrap().1;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
}

#[test]
fn flipped_bytes_are_told_each_time() {
    let folder = lk23_on_disk(400, 300);
    let path = folder.path();
    let expected = expected(path);
    leave(path);
    let kept = path.join("o.npy.syncline");
    let manifest = kept.join("manifest");
    let generation = number(&fs::read_to_string(&manifest).unwrap(), "generation");
    let slot =
        kept.join(if generation.is_multiple_of(2) { "generation.0" } else { "generation.1" });
    let mut random = random(7);
    for (file, name) in [(&manifest, "manifest"), (&slot, "generation")] {
        let length = fs::metadata(file).unwrap().len();
        for round in 0..cases(40) {
            // The first and last bytes, and any in between.
            let at = match round {
                0 => 0,
                1 => length - 1,
                2 => 128.min(length - 1),
                _ => random.next_u64() % length,
            } as usize;
            let bits = 1 << (random.next_u64() % 8);
            flip(file, at, bits);
            let before = contents(path);
            let error = fails_with(1, path, &format!("{RUN} --resume --depth {}", 1 + round % 60));
            assert!(
                error.contains(name) && error.contains("--force discards"),
                "{name}, byte {at}: {error}"
            );
            flip(file, at, bits);
            assert!(!path.join("o.npy").exists());
            // The other slot does not matter, and may have been begun.
            let found = contents(path);
            assert!(found[&manifest] == fs::read(&manifest).unwrap() && before.contains_key(&slot));
        }
    }
    ok(path, &format!("{RUN} --resume --verify"));
    assert!(fs::read(path.join("o.npy")).unwrap() == expected);
    // Without an option for leftovers, damage is reported as well; --force starts from the
    // beginning.
    fs::remove_file(path.join("o.npy")).unwrap();
    leave(path);
    flip(&manifest, 5, 1);
    let error = fails_with(1, path, RUN);
    assert!(
        error.contains("manifest") && error.contains("--force discards o.npy.syncline"),
        "{error}"
    );
    ok(path, &format!("{RUN} --force --verify"));
    assert!(fs::read(path.join("o.npy")).unwrap() == expected);
}

/// All passes are done, and only the output has no name yet: damage is found then, too.
#[test]
fn a_generation_that_no_pass_reads_is_checked() {
    let folder = lk23_on_disk(300, 300);
    let path = folder.path();
    let expected = expected(path);
    // The plain loop takes long enough to be interrupted.
    let line = format!("{RUN} --depth 20 --verify");
    let manifest = path.join("o.npy.syncline/manifest");
    loop {
        let mut child = spawn(path, &format!("{line} --force"));
        while child.try_wait().unwrap().is_none() {
            let text = fs::read_to_string(&manifest).unwrap_or_default();
            if text.contains("\"iterations\":60,\"panel_rows\"") {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if manifest.exists() && !path.join("o.npy").exists() {
            break;
        }
        let _ = fs::remove_file(path.join("o.npy"));
    }
    let generation = number(&fs::read_to_string(&manifest).unwrap(), "generation");
    assert_eq!((generation, ITERATIONS), (3, 60));
    let slot = path.join("o.npy.syncline/generation.1");
    for at in [128, 300_000, 300 * 300 * 8 + 127] {
        flip(&slot, at, 4);
        let error = fails_with(1, path, &format!("{line} --resume"));
        assert!(error.contains("damaged") && error.contains("--force discards"), "{error}");
        flip(&slot, at, 4);
    }
    let text = ok(path, &format!("{line} --resume"));
    assert!(text.contains("iterations   60, resumed after 60"), "{text}");
    assert!(fs::read(path.join("o.npy")).unwrap() == expected);
}

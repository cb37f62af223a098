//! How long a worker takes from its start to its first message.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use syncline_farm::{Farm, Program};

use super::super::contest::Side;
use super::Kit;
use super::race::{Group, Outcome, Samples, words};
use super::rivals;
use super::server::Server;
use super::worker::{Role, arguments, program, timed};
use crate::error::Result;

/// Starts of ours that are measured together.
const STARTS: usize = 8;

/// The group.
pub(super) fn group(kit: &Kit<'_>) -> Result<Group> {
    let mut group = Group::new("cold", ("us", 1e3));
    let ours = |program: Outcome<Program>| {
        let mut start = starts(program?)?;
        Ok(move || start(STARTS))
    };
    let this = std::env::current_exe().map_err(words);
    group.add(Side::Ours, COMMAND, ours(program(Role::Hello)));
    group.add(Side::Ours, HOLDING, holding(kit.held));
    group.add(
        Side::Baseline,
        "  its start and end, without a farm",
        this.map(|this| floor(this, &["--version"])),
    );
    for (way, target) in [(SMALL, None), (STATIC, Some("x86_64-unknown-linux-musl"))] {
        let built = small(target);
        group.add(Side::Ours, way, ours(built.clone().map(Program::new)));
        let alone = format!("  start and end, {}", way.trim_start_matches("spawn, "));
        group.add(Side::Baseline, alone, built.map(|path| floor(path, &[])));
    }
    group.add(Side::Baseline, PAPER, rivals::paper_cold(None));
    let python = rivals::python(kit.folder, 0)?;
    let asks = |line: &'static str| python.as_ref().map(|python| python.asks(line, 1)).map_err(Clone::clone);
    group.add(Side::Peer, FORK, asks("cold fork 5"));
    group.add(Side::Peer, "Process, forkserver", asks("cold forkserver 3"));
    group.add(Side::Peer, "Process, spawn", asks("cold spawn 1"));
    let large = rivals::python(kit.folder, kit.held)?.map(|python| python.asks("cold fork 3", 1));
    group.add(Side::Peer, FORK_HOLDING, large);
    rivals::comm_spawn(kit.folder, &mut group)?;
    group.notes.push(format!("holding: a manager that has {} MiB of memory, all of it touched", kit.held));
    Ok(group)
}

/// The names of ours, and of one that they are compared with.
pub(super) const COMMAND: &str = "spawn, this command (glibc)";
pub(super) const HOLDING: &str = "spawn, this command, manager holding memory";
pub(super) const SMALL: &str = "spawn, a small program (glibc)";
pub(super) const STATIC: &str = "spawn, a small program, static (musl)";
pub(super) const FORK: &str = "Process, fork";
pub(super) const PAPER: &str = "published farm: a shell, System V";
const FORK_HOLDING: &str = "Process, fork, manager holding memory";

/// Starts a number of workers, one after the other, in a farm of their own.
pub(super) fn starts(program: Program) -> Outcome<impl FnMut(usize) -> Outcome<Samples> + 'static> {
    let mut farm = Farm::new().map_err(words)?;
    let mut start_one = move || {
        let start = Instant::now();
        let worker = farm.reserve()?;
        farm.send(worker, &41_u64)?;
        farm.start(worker, &program)?;
        let answer: u64 = farm.recv(worker)?;
        let seconds = start.elapsed().as_secs_f64();
        farm.wait(worker, None)?;
        Ok::<_, syncline_farm::FarmError>((answer, seconds))
    };
    let mut once = move || match start_one().map_err(words)? {
        (42, seconds) => Ok(seconds),
        (other, _) => Err(format!("it has sent {other}")),
    };
    Ok(move |count| (0..count).map(|_| once()).collect())
}

/// What cannot be saved: a program that starts and ends.
fn floor(path: PathBuf, arguments: &'static [&'static str]) -> impl FnMut() -> Outcome<Samples> + 'static {
    let once = move || {
        let mut command = Command::new(&path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        timed(|| command.status().map_err(words).map(|_| ()))
    };
    move || (0..STARTS).map(|_| once()).collect()
}

/// Ours, from a process that holds memory.
fn holding(mib: usize) -> Outcome<impl FnMut() -> Outcome<Samples> + 'static> {
    let mut command = Command::new(std::env::current_exe().map_err(words)?);
    command.args(arguments(Role::Manager)).args(["--held", &mib.to_string()]);
    Ok(Server::start(command)?.asks(&STARTS.to_string(), 1))
}

/// Where the small worker's sources are, below the folder of Syncline's.
const SOURCES: &str = "lab/peers/farm_worker";
/// Its name.
const NAME: &str = "farm_worker";

/// The small worker, built with cargo for this machine, or for a target.
fn small(target: Option<&str>) -> Outcome<PathBuf> {
    let folder = rivals::above(&Path::new(SOURCES).join("Cargo.toml"))
        .ok_or_else(|| format!("no {SOURCES} here, which cargo would build"))?;
    if let Some(target) = target {
        let mut rustc = Command::new("rustc");
        let root = rivals::output(rustc.current_dir(&folder).args(["--print", "sysroot"]))?;
        if !Path::new(root.trim()).join("lib/rustlib").join(target).join("lib").is_dir() {
            return Err(format!("Rust has no target {target}: rustup target add {target}"));
        }
    }
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&folder).args(["build", "--release", "--quiet", "--message-format", "json"]);
    cargo.args(["-p", "syncline-farm-worker"]);
    cargo.args(target.iter().flat_map(|target| ["--target", target]));
    eprintln!("building the small worker{}", target.map_or(String::new(), |t| format!(" for {t}")));
    let said = rivals::output(&mut cargo)?;
    said.lines().rev().find_map(executable).ok_or_else(|| "cargo has built no program".to_owned())
}

/// The program that a line of cargo tells of.
fn executable(line: &str) -> Option<PathBuf> {
    let told: serde_json::Value = serde_json::from_str(line).ok()?;
    (told["target"]["name"] == NAME).then(|| told["executable"].as_str().map(PathBuf::from))?
}

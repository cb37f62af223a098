//! The time from the start of a worker to its first message.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use syncline_farm::{Farm, Program};

use super::rivals;
use super::worker::{Role, arguments, program, timed};
use super::{Heat, Kit};
use crate::error::Result;
use crate::peers::{Server, missing, output};
use crate::race::Samples;
use crate::race::Side;

/// The number of our starts that are measured together.
const STARTS: usize = 8;

/// Makes the heat.
pub(super) fn heat(kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("cold", ("us", 1e3));
    let ours = |program: Result<Program>| {
        let mut start = starts(program?)?;
        Ok(move || start(STARTS))
    };
    let this = std::env::current_exe();
    heat.add(Side::Ours, COMMAND, ours(program(Role::Hello)));
    heat.add(Side::Ours, HOLDING, holding(kit.held));
    heat.add(
        Side::Baseline,
        "  its start and end, without a farm",
        Ok(floor(this?, &["--version"])),
    );
    for (way, target) in [(SMALL, None), (STATIC, Some("x86_64-unknown-linux-musl"))] {
        let built = small(target);
        let alone = format!("  start and end, {}", way.trim_start_matches("spawn, "));
        let path = built.as_ref().map_err(ToString::to_string);
        heat.add(
            Side::Baseline,
            alone,
            path.map(|path| floor(path.clone(), &[])).map_err(Into::into),
        );
        heat.add(Side::Ours, way, ours(built.map(Program::new)));
    }
    heat.add(Side::Baseline, PAPER, rivals::paper_cold(None));
    let python = rivals::python(kit.folder, 0);
    heat.ask(&python, FORK, "cold fork 5", 1);
    heat.ask(&python, "Process, forkserver", "cold forkserver 3", 1);
    heat.ask(&python, "Process, spawn", "cold spawn 1", 1);
    heat.ask(&rivals::python(kit.folder, kit.held), FORK_HOLDING, "cold fork 3", 1);
    rivals::comm_spawn(kit.folder, &mut heat)?;
    heat.notes
        .push(format!("holding: a manager that has {} MiB of memory, all of it touched", kit.held));
    Ok(heat)
}

/// Makes the heat of this command as a worker, and of a published farm's.
pub(super) fn plain() -> Result<Heat> {
    let mut heat = Heat::new("cold", ("us", 1e3));
    let mut start = starts(program(Role::Hello)?)?;
    heat.add(Side::Ours, COMMAND, Ok(move || start(STARTS)));
    heat.add(Side::Baseline, PAPER, rivals::paper_cold(None));
    Ok(heat)
}

/// The names of our entries, and of one that they are compared with.
pub(super) const COMMAND: &str = "spawn, this command (glibc)";
pub(super) const HOLDING: &str = "spawn, this command, manager holding memory";
pub(super) const SMALL: &str = "spawn, a small program (glibc)";
pub(super) const STATIC: &str = "spawn, a small program, static (musl)";
pub(super) const FORK: &str = "Process, fork";
pub(super) const PAPER: &str = "published farm: a shell, System V";
const FORK_HOLDING: &str = "Process, fork, manager holding memory";

/// Returns a function that starts a number of workers, one after the other, in a farm of their own.
pub(super) fn starts(program: Program) -> Result<impl FnMut(usize) -> Result<Samples> + 'static> {
    let mut farm = Farm::new()?;
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
    let mut once = move || match start_one()? {
        (42, seconds) => Ok(seconds),
        (other, _) => Err(format!("it has sent {other}").into()),
    };
    Ok(move |count| (0..count).map(|_| once()).collect())
}

/// The lower bound: the start and end of an empty program.
fn floor(
    path: PathBuf,
    arguments: &'static [&'static str],
) -> impl FnMut() -> Result<Samples> + 'static {
    let once = move || {
        let mut command = Command::new(&path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        timed(|| Ok(command.status().map(drop)?))
    };
    move || (0..STARTS).map(|_| once()).collect()
}

/// Measures our starts from a process that holds memory.
fn holding(mib: usize) -> Result<impl FnMut() -> Result<Samples> + 'static> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments(Role::Manager)).args(["--held", &mib.to_string()]);
    Ok(Server::start(command)?.asks(&STARTS.to_string(), 1))
}

/// The folder of the small worker's sources, below Syncline's.
const SOURCES: &str = "lab/peers/farm_worker";
/// The small worker's name.
const NAME: &str = "farm_worker";

/// Builds the small worker with cargo, for this machine or for a target.
fn small(target: Option<&str>) -> Result<PathBuf> {
    let folder = rivals::above(&Path::new(SOURCES).join("Cargo.toml")).ok_or_else(|| {
        missing(
            format!("no {SOURCES} here, which cargo would build"),
            "cd to the sources of Syncline",
        )
    })?;
    if let Some(target) = target {
        let mut rustc = Command::new("rustc");
        let root = output(rustc.current_dir(&folder).args(["--print", "sysroot"]))?;
        if !Path::new(root.trim()).join("lib/rustlib").join(target).join("lib").is_dir() {
            return Err(missing(
                format!("Rust has no target {target}"),
                format!("rustup target add {target}"),
            )
            .into());
        }
    }
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&folder).args(["build", "--release", "--quiet", "--message-format", "json"]);
    cargo.args(["-p", "syncline-farm-worker"]);
    cargo.args(target.iter().flat_map(|target| ["--target", target]));
    eprintln!("building the small worker{}", target.map_or(String::new(), |t| format!(" for {t}")));
    let said = output(&mut cargo)?;
    said.lines().rev().find_map(executable).ok_or_else(|| "cargo has built no program".into())
}

/// Returns the program that a line of cargo's output names.
fn executable(line: &str) -> Option<PathBuf> {
    let told: serde_json::Value = serde_json::from_str(line).ok()?;
    (told["target"]["name"] == NAME).then(|| told["executable"].as_str().map(PathBuf::from))?
}

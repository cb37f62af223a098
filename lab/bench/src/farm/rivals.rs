//! Those of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use serde::Deserialize;
use syncline_baselines::futex_ping_pong::PingPong;
use syncline_baselines::sysv::{Channel, cold};

use super::super::contest::Side;
use super::super::peers::{Workshop, failed};
use super::race::{Group, Outcome, Samples, words};
use super::server::Server;
use super::worker::{MANAGER, PATIENCE, Role, WORKER, arguments, between};
use crate::error::Result;

/// Python's farms.
const PYTHON: &str = include_str!("../../../peers/farm_python.py");
/// MPI's start of a process.
const COMM_SPAWN: (&str, &str) = ("comm_spawn.c", include_str!("../../../peers/comm_spawn.c"));

/// A Python that measures, and holds this many MiB; or why there is none.
pub(super) fn python(folder: &Path, held: usize) -> Result<Outcome<Server>> {
    let script = folder.join("farm_python.py");
    fs::write(&script, PYTHON).map_err(|error| failed("write the peers' sources", error))?;
    let mut command = Command::new("python3");
    // What it compiles of itself has no place.
    command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
    if held > 0 {
        command.args(["--hold", &held.to_string()]);
    }
    Ok(Server::start(command))
}

/// Where a file is: below the current folder, or one above it; the folder.
pub(super) fn above(file: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|folder| folder.join(file).is_file()).map(Path::to_owned)
}

/// What a program says.
pub(super) fn output(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("no {name}"),
        _ => format!("{name}: {error}"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    Err(format!("{name}: {}", line.unwrap_or("it failed without a word").trim()))
}

/// What `comm_spawn` says.
#[derive(Deserialize)]
struct Spawned {
    seconds: Samples,
}

/// Rounds of MPI, whose jobs take seconds to start.
const JOBS: usize = 3;

/// MPI_Comm_spawn by the Open MPI of the path, or the one that the project has installed.
pub(super) fn comm_spawn(folder: &Path, group: &mut Group) -> Result<()> {
    let newer = Path::new("target/mpi/openmpi5/bin/mpicc");
    let newer = above(newer).map(|folder| folder.join(newer));
    let usual = Path::new("mpicc").to_owned();
    let mut why = String::new();
    for mpicc in [Some(usual), newer].into_iter().flatten() {
        // Nothing is compiled by it: a path is no name of a compiler.
        Workshop::new(folder, &[COMM_SPAWN])?;
        let program = folder.join("comm_spawn");
        let made = open_mpi(&mpicc).and_then(|version| {
            let mut compile = Command::new(&mpicc);
            compile.current_dir(folder).args(["-O2", "-o"]).arg(&program).arg(COMM_SPAWN.0);
            output(&mut compile).map(|_| version)
        });
        let version = match made {
            Ok(version) => version,
            Err(other) => {
                why = if why.is_empty() { other } else { why };
                continue;
            }
        };
        let run = move || {
            let mut command = Command::new(mpicc.with_file_name("mpirun"));
            command.args(["--oversubscribe", "--allow-run-as-root", "-n", "1"]).arg(&program).arg("2");
            let said = output(&mut command)?;
            let said: Option<Spawned> = said.lines().rev().find_map(|line| serde_json::from_str(line).ok());
            said.map(|said| said.seconds).ok_or_else(|| "it has said nothing".to_owned())
        };
        if let Some(entry) = group.add(Side::Peer, format!("MPI_Comm_spawn, Open MPI {version}"), Ok(run)) {
            entry.at_most(JOBS);
        }
        return Ok(());
    }
    group.skip("MPI_Comm_spawn", why);
    Ok(())
}

/// The version of an Open MPI.
fn open_mpi(mpicc: &Path) -> Outcome<String> {
    let said = output(Command::new(mpicc).arg("--showme:version"))
        .map_err(|why| if why.starts_with("no ") { why } else { "not an Open MPI".to_owned() })?;
    let version = said.split_once("Open MPI ").and_then(|(_, rest)| rest.split(' ').next());
    version.map(str::to_owned).ok_or_else(|| "not an Open MPI".to_owned())
}

/// A published farm: both ways between the manager and a worker, which is this command. Nothing of
/// it is left behind.
struct Paper {
    to: Channel,
    from: Channel,
    folder: tempfile::TempDir,
    sleep: Option<u64>,
    worker: Option<Child>,
}

impl Paper {
    fn new(sleep: Option<u64>) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("syncline-bench.").tempdir().map_err(words)?;
        let channel = |i, j| {
            let made = Channel::new(folder.path(), i, j).map_err(words)?;
            Ok::<_, String>(made.waiting(between(sleep), PATIENCE))
        };
        let (to, from) = (channel(MANAGER, WORKER)?, channel(WORKER, MANAGER)?);
        Ok(Self { to, from, folder, sleep, worker: None })
    }

    /// Starts the worker, by a shell.
    fn start(&mut self, role: Role) -> Outcome<()> {
        let program = std::env::current_exe().map_err(words)?;
        let mut line = arguments(role).to_vec();
        line.extend(["--folder".to_owned(), self.folder.path().to_string_lossy().into_owned()]);
        line.extend(self.sleep.iter().flat_map(|sleep| ["--sleep".to_owned(), sleep.to_string()]));
        let line: Vec<_> = line.iter().map(AsRef::as_ref).collect();
        self.worker = Some(cold(program.as_os_str(), &line).map_err(words)?);
        Ok(())
    }

    fn trip(&mut self, data: &[i32]) -> Outcome<()> {
        self.to.send(data).map_err(words)?;
        match self.from.receive().map_err(words)?[..] {
            [count] if count as usize == data.len() => Ok(()),
            _ => Err("not what was sent".to_owned()),
        }
    }

    fn end(&mut self) -> Outcome<()> {
        match self.worker.take().map(|mut worker| worker.wait()).transpose().map_err(words)? {
            Some(status) if !status.success() => Err(status.to_string()),
            _ => Ok(()),
        }
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            // After an error. The worker ends at this message, or when nothing has come for a
            // while; the shell with it.
            let _ = self.to.send(&[0]);
            let _ = worker.wait();
        }
    }
}

/// Starts of a published farm that are measured together.
const STARTS: usize = 4;

/// A worker of a published farm, from its start to its first message.
pub(super) fn paper_cold(sleep: Option<u64>) -> Outcome<impl FnMut() -> Outcome<Samples> + 'static> {
    let mut paper = Paper::new(sleep)?;
    let mut once = move || {
        let start = Instant::now();
        paper.start(Role::PaperHello)?;
        let message = paper.from.receive().map_err(words)?;
        let seconds = start.elapsed().as_secs_f64();
        paper.end()?;
        if message == [1] { Ok(seconds) } else { Err("not what was sent".to_owned()) }
    };
    Ok(move || (0..STARTS).map(|_| once()).collect())
}

/// Trips that are not timed.
pub(super) const WARM_UP: usize = 10;

/// Two of 4 bytes each, to a worker of a published farm, and one back. The worker is there during
/// the trips only, as it yields and yields.
pub(super) fn paper_trips(
    sleep: Option<u64>,
    trips: usize,
) -> Outcome<impl FnMut() -> Outcome<Samples> + 'static> {
    // So that what cannot work is known now.
    drop(Paper::new(sleep)?);
    Ok(move || {
        let mut paper = Paper::new(sleep)?;
        paper.start(Role::PaperEcho)?;
        for _ in 0..WARM_UP {
            paper.trip(&[7, 7])?;
        }
        let start = Instant::now();
        for _ in 0..trips {
            paper.trip(&[7, 7])?;
        }
        let seconds = start.elapsed().as_secs_f64() / trips as f64;
        paper.to.send(&[0]).map_err(words)?;
        paper.end()?;
        Ok(vec![seconds])
    })
}

/// A word to another process that sleeps until it comes, and back.
pub(super) fn futex(processor: Option<usize>) -> Outcome<impl FnMut(usize) -> Outcome<f64> + 'static> {
    let mut command = Command::new(std::env::current_exe().map_err(words)?);
    command.args(arguments(Role::Answer));
    command.args(processor.iter().flat_map(|n| ["--processor".to_owned(), n.to_string()]));
    let mut game = PingPong::start(command).map_err(words)?;
    Ok(move |trips| Ok(game.round_trips(trips as u64).map_err(words)? / trips as f64))
}

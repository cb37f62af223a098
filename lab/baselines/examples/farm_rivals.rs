//! Measures a published farm's messages and cold start, and a futex between two processes.
//!
//! Reads what to measure from standard input, a line each, and answers with a line of JSON each, as
//! `lab/peers/farm_python.py` does: `{"what": the line, "seconds": [...]}`, or `"error"`.
//!
//! ```text
//! cold WAY N                 a worker is started by a shell until its first message of one integer is here; then it ends
//! trip WAY N                 one integer to another process and back
//! transfer WAY COUNT N       COUNT integers to another process until it says that it has them
//! futex TRIPS N              a word to another process and back, asleep; the mean of TRIPS, N times
//! ```
//!
//! WAY is `yield`, or `sleep:MICROSECONDS` between two looks at a tag.

use std::error::Error;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use syncline_baselines::futex_ping_pong::{self, PingPong};
use syncline_baselines::sysv::{Between, Channel, cold};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Trips that are not timed.
const WARM_UP: usize = 20;
/// How long anybody waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// Numbers of the processes.
const MANAGER: u8 = 0;
const WORKER: u8 = 1;

fn between(way: &str) -> Result<Between> {
    match way.split_once(':') {
        None if way == "yield" => Ok(Between::Yield),
        Some(("sleep", time)) => Ok(Between::Sleep(Duration::from_micros(time.parse()?))),
        _ => Err("WAY is yield or sleep:MICROSECONDS".into()),
    }
}

/// Both ways between the manager and the worker, as the manager has them, and the worker. Nothing of it is left behind.
struct Farm {
    to: Channel,
    from: Channel,
    worker: Option<Child>,
    folder: tempfile::TempDir,
    way: String,
}

impl Farm {
    fn new(way: &str) -> Result<Self> {
        let (folder, between) = (tempfile::tempdir()?, between(way)?);
        let to = Channel::new(folder.path(), MANAGER, WORKER)?.waiting(between, Some(PATIENCE));
        let from = Channel::new(folder.path(), WORKER, MANAGER)?.waiting(between, Some(PATIENCE));
        Ok(Self { to, from, worker: None, folder, way: way.to_owned() })
    }

    fn start(&mut self, role: &str) -> Result<()> {
        let program = std::env::current_exe()?;
        let arguments = [role.as_ref(), self.folder.path().as_os_str(), self.way.as_ref()];
        self.worker = Some(cold(program.as_os_str(), &arguments)?);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let status = self.worker.take().map(|mut worker| worker.wait()).transpose()?;
        if status.is_some_and(|status| status.success()) { Ok(()) } else { Err(format!("{status:?}").into()) }
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            // After an error. The worker gives up when nothing comes, or ends at this message; the shell with it.
            let _ = self.to.send(&[0]);
            let _ = worker.wait();
        }
    }
}

/// The worker: says that it is there, or answers until it is told to stop by a single 0.
fn work(role: &str, folder: &Path, way: &str) -> Result<()> {
    let wait = between(way)?;
    let mut from = Channel::join(folder, MANAGER, WORKER).waiting(wait, Some(PATIENCE));
    let mut to = Channel::join(folder, WORKER, MANAGER).waiting(wait, Some(PATIENCE));
    if role == "--hello" {
        return Ok(to.send(&[1])?);
    }
    loop {
        let data = from.receive()?;
        if data == [0] {
            return Ok(());
        }
        to.send(&[i32::try_from(data.len())?])?;
    }
}

fn measure(line: &str) -> Result<Vec<f64>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (what, rest) = words.split_first().ok_or("nothing is asked")?;
    let count = |i: usize| Ok::<usize, Box<dyn Error>>(rest.get(i).ok_or("the line is too short")?.parse()?);
    let way = rest.first().copied().unwrap_or_default();
    match *what {
        "cold" => (0..count(1)?).map(|_| once_cold(way)).collect(),
        "trip" => trips(way, &[7], count(1)?),
        "transfer" => {
            let data: Vec<i32> = (0..i32::try_from(count(1)?)?).collect();
            trips(way, &data, count(2)?)
        }
        "futex" => {
            let (trips, n) = (count(0)? as u64, count(1)?);
            let mut other = Command::new(std::env::current_exe()?);
            other.arg("--answer");
            let mut game = PingPong::start(other)?;
            game.round_trips(trips)?;
            (0..n).map(|_| Ok(game.round_trips(trips)? / trips as f64)).collect()
        }
        _ => Err("nothing is called so".into()),
    }
}

fn once_cold(way: &str) -> Result<f64> {
    let mut farm = Farm::new(way)?;
    let start = Instant::now();
    farm.start("--hello")?;
    let message = farm.from.receive()?;
    let seconds = start.elapsed().as_secs_f64();
    farm.end()?;
    if message == [1] { Ok(seconds) } else { Err("not what was sent".into()) }
}

fn trips(way: &str, data: &[i32], n: usize) -> Result<Vec<f64>> {
    let mut farm = Farm::new(way)?;
    farm.start("--echo")?;
    let mut seconds = Vec::with_capacity(n);
    for trip in 0..WARM_UP.min(n) + n {
        let start = Instant::now();
        farm.to.send(data)?;
        let answer = farm.from.receive()?;
        if trip >= WARM_UP.min(n) {
            seconds.push(start.elapsed().as_secs_f64());
        }
        if answer != [i32::try_from(data.len())?] {
            return Err("not what was sent".into());
        }
    }
    farm.to.send(&[0])?;
    farm.end()?;
    Ok(seconds)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {}
        ["--answer"] => return Ok(futex_ping_pong::answer()?),
        [role @ ("--hello" | "--echo"), folder, way] => return work(role, Path::new(folder), way),
        _ => return Err("takes no arguments: what to measure comes by standard input".into()),
    }
    for line in io::stdin().lock().lines() {
        let line = line?;
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        // Debug: quoted as JSON is, for what a line has.
        match measure(line) {
            Ok(seconds) => println!("{{\"what\": {line:?}, \"seconds\": {seconds:?}}}"),
            Err(error) => println!("{{\"what\": {line:?}, \"error\": {:?}}}", error.to_string()),
        }
        io::stdout().flush()?;
    }
    Ok(())
}

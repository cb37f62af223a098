//! Random programs that misuse the C interface, under every launcher: none hangs, crashes, fails
//! without a message or leaves resources behind; and correct programs succeed.
//!
//! When a process of an MPI job has died and all others have ended, `mpirun` itself may hang or
//! crash. Such launchers are counted. If no process has died, that is an error.
//!
//! `SYNCLINE_SEED=5` sets the first seed, `SYNCLINE_KINDS=Kill,Fork` the kinds of misuse, and
//! `SYNCLINE_LIMIT=15` the number of seconds after which a program hangs. A test that fails prints
//! the seed and the text of its program.
//!
//! What is required holds under every schedule: which calls fail depends on the schedule, but a
//! call fails with a message or succeeds. Only the silence of a host is a matter of time, and
//! correct programs have a limit for it that no machine reaches.

mod ends;
mod plan;
#[path = "../tools/mod.rs"]
mod tools;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plan::{Kind, Place, Plan};
use syncline_fabric::Launcher;
use syncline_testkit::mpi::MPIS;
use syncline_testkit::{Tool, again, cases, seed};
use tempfile::TempDir;
use tools::mpi::{STRICT, Site};
use tools::{STATIC, compiled};

/// The number of programs of each launcher.
const PROGRAMS: u32 = 10;
/// The first seed: even two programs are a wrong one and a legal one.
const FIRST: u64 = 4;
/// A program whose seed is a multiple of this is legal.
const LEGAL: u64 = 5;
/// The variable that marks the processes of a program.
const MARK: &str = "SYNCLINE_TEST_MISUSE";
/// The program that the processes of a launched team run.
const LAUNCHED: &str = "SYNCLINE_TEST_LAUNCHED";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

fn kinds() -> Vec<Kind> {
    match std::env::var("SYNCLINE_KINDS") {
        Err(_) => Kind::ALL.to_vec(),
        Ok(names) => {
            let named = |name: &str| Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == name);
            names
                .split(',')
                .map(|name| named(name).unwrap_or_else(|| panic!("no kind {name}")))
                .collect()
        }
    }
}

fn seeds() -> Vec<u64> {
    let first = seed(FIRST);
    (first..).take(cases(PROGRAMS) as usize).collect()
}

/// Returns the processes that have the mark in their environment and are not zombies.
fn marked(mark: &str) -> Vec<u32> {
    let line = format!("{MARK}={mark}").into_bytes();
    let has_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == line)
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_it).collect()
}

fn kill(pids: &[u32]) {
    for pid in pids {
        // Through the shell: `kill` may not exist as a program.
        let _ =
            Command::new("sh").args(["-c", "kill -KILL $0 2>/dev/null", &pid.to_string()]).status();
    }
}

/// Returns the names of this library in the machine's shared memory.
fn named() -> Vec<PathBuf> {
    let there = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    // An MPI's names may contain that of the machine, which may contain "syncline".
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("syncline"))
    };
    there.filter(ours).collect()
}

/// The program, compiled for a place, with the folder of its files.
struct Theatre {
    place: Place,
    /// The folder also keeps the compiled program.
    dir: TempDir,
    program: PathBuf,
    site: Option<Site>,
}

impl Theatre {
    fn new(place: Place) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mpi = match place {
            Place::OpenMpi => Some(&MPIS[0]),
            Place::Mpich => Some(&MPIS[1]),
            _ => None,
        };
        let strict = [&STRICT[..], &["-std=c11", "-g", "-pthread"]].concat();
        if let Some(mpi) = mpi {
            let site = Site::find(mpi)?;
            let program = site.compile("tests/programs/misuse.c", true, &strict);
            return Some(Self { place, dir, program, site: Some(site) });
        }
        let tool = Tool::find("gcc")?;
        let program = compiled(tool, "tests/programs/misuse.c", &strict, &STATIC);
        Some(Self { place, dir, program, site: None })
    }

    fn command(&self, plan: &Plan, text: &Path) -> Command {
        let members = plan.members.to_string();
        let mut command = match (self.place, &self.site) {
            (Place::OpenMpi | Place::Mpich, Some(site)) => {
                let mut command =
                    site.run(&self.program, &members, &plan.per_host.to_string(), None);
                command.env_remove("SYNCLINE_TIMEOUT");
                command
            }
            (Place::Launched, _) => {
                let mut command = again("role_of_a_process");
                command
                    .arg("--quiet")
                    .env(LAUNCHED, &self.program)
                    .env("SYNCLINE_TEST_MEMBERS", members)
                    .env("SYNCLINE_TEST_TEXT", text);
                return command;
            }
            _ => Command::new(&self.program),
        };
        command.arg(text);
        match self.place {
            Place::Hosts => drop(command.args(["--hosts", &members])),
            Place::Threads => drop(command.env("SYNCLINE_THREADS", members)),
            _ => {}
        }
        command
    }

    /// Whether one of the processes runs the program itself, and not its launcher.
    fn plays(&self, pids: &[u32]) -> bool {
        let program = fs::canonicalize(&self.program).unwrap();
        pids.iter()
            .any(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program))
    }

    /// Runs the program of a seed. Returns the end of its launcher, or a description of the
    /// failure.
    fn play(&self, seed: u64, kinds: &[Kind]) -> Result<Launch, String> {
        let kinds = if seed.is_multiple_of(LEGAL) { &[] } else { kinds };
        let plan = Plan::new(self.place, seed, kinds);
        let text = self.dir.path().join("text");
        fs::write(&text, plan.text()).unwrap();
        let mark = format!("{}-{seed}-{:?}", std::process::id(), self.place);
        let limit = Duration::from_secs(number("SYNCLINE_LIMIT").unwrap_or(300));
        let mut command = self.command(&plan, &text);
        command.env(MARK, &mark).env("SYNCLINE_QUIET", "1").env_remove("SYNCLINE_TEAM");
        if plan.misuses.is_empty() {
            command.env("SYNCLINE_TIMEOUT", "300000");
        }
        let before = named();
        let files = ["out", "said"].map(|name| self.dir.path().join(name));
        let [out, said] = files.each_ref().map(|path| fs::File::create(path).unwrap());
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(said).spawn().unwrap();
        let has_begun = || fs::metadata(&files[1]).is_ok_and(|said| said.len() > 0);
        let late = Instant::now() + limit;
        let may_hang = self.site.is_some() && plan.kills();
        let (mut looks, mut alone, mut launch) = (0_u32, 0, Launch::Ended);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() > late {
                break None;
            }
            looks += 1;
            if may_hang && looks.is_multiple_of(200) {
                alone = if has_begun() && !self.plays(&marked(&mark)) { alone + 1 } else { 0 };
            }
            if alone == 8 && launch == Launch::Ended {
                launch = Launch::Hung;
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(5));
        };
        if launch == Launch::Ended
            && self.site.is_some()
            && status.and_then(|s| s.signal()).is_some()
        {
            launch = Launch::Crashed;
        }
        let hangs = if self.plays(&marked(&mark)) { "it hangs" } else { "its launcher hangs" };
        // The processes end with the launcher, or soon after.
        let late = Instant::now() + limit;
        while status.is_some() && !marked(&mark).is_empty() && Instant::now() < late {
            thread::sleep(Duration::from_millis(20));
        }
        let left = marked(&mark);
        kill(&left);
        let _ = child.wait();
        let [_, said] =
            files.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
        let tells = |why: &str| {
            let (place, misuses) = (self.place, &plan.misuses);
            let (members, per_host) = (plan.members, plan.per_host);
            Err(format!(
                "{place:?}, SYNCLINE_SEED={seed}, {members} members, {per_host} on a host, {misuses:?}: {why}\n\
                 --- the text\n{}--- what was said\n{said}---\n",
                plan.text()
            ))
        };
        let Some(status) = status else { return tells(&format!("{hangs} for {limit:?}")) };
        if !left.is_empty() {
            return tells(&format!("processes are left: {left:?}"));
        }
        if said.contains("CRASH") || said.contains("panicked at") {
            return tells(&format!("it crashes: {status}"));
        }
        if launch == Launch::Crashed && !plan.kills() {
            return tells(&format!("its launcher crashes: {status}"));
        }
        // Unless a process was so slow that it was declared dead.
        let silent = said.contains("has not been heard of");
        if said.contains("without MPI_Finalize") && !plan.kills() && !silent {
            return tells(&format!("no process has died, and MPI_Finalize is left out: {status}"));
        }
        if !status.success() && said.trim().is_empty() {
            return tells(&format!("it fails without a word: {status}"));
        }
        if plan.misuses.is_empty() && !(status.success() && said.trim().is_empty()) {
            return tells(&format!("it is right, and does not end well: {status}"));
        }
        let new: Vec<_> = named().into_iter().filter(|name| !before.contains(name)).collect();
        if !new.is_empty() {
            return tells(&format!("names are left: {new:?}"));
        }
        Ok(launch)
    }
}

/// How a launcher ended after its processes had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launch {
    Ended,
    Hung,
    Crashed,
}

fn all(place: Place) {
    let Some(theatre) = Theatre::new(place) else { return };
    let (seeds, kinds) = (seeds(), kinds());
    println!("{place:?}: seeds {} to {}", seeds[0], seeds[seeds.len() - 1]);
    let (mut launches, mut wrong) = (Vec::new(), Vec::new());
    for &seed in &seeds {
        match theatre.play(seed, &kinds) {
            Ok(launch) => launches.push(launch),
            Err(error) => wrong.push(error),
        }
    }
    for (launch, what) in [(Launch::Hung, "hung"), (Launch::Crashed, "crashed")] {
        let count = launches.iter().filter(|&&other| other == launch).count();
        if count > 0 {
            println!("{place:?}: {count} launchers {what} after their processes had ended");
        }
    }
    assert!(wrong.is_empty(), "{} of {} programs:\n{}", wrong.len(), seeds.len(), wrong.join("\n"));
}

/// Defines a test for each place, and a list of all places.
macro_rules! places {
    ($($(#[$when:meta])? $test:ident: $place:ident),*) => {
        const PLACES: &[Place] = &[$(Place::$place),*];

        $(#[test]
        $(#[$when])?
        fn $test() {
            all(Place::$place);
        })*
    };
}

places! {
    by_threads: Threads,
    by_hosts_of_threads: Hosts,
    by_launched_processes: Launched,
    #[ignore = "full: an MPI's launcher takes a second for each program"]
    by_open_mpi: OpenMpi,
    #[ignore = "full: an MPI's launcher takes a second for each program"]
    by_mpich: Mpich
}

/// Does the work of `syncline launch`.
#[test]
#[ignore = "the launcher of another test: does nothing by itself"]
fn role_of_a_process() {
    let Some(program) = std::env::var_os(LAUNCHED) else { return };
    let members = number("SYNCLINE_TEST_MEMBERS").unwrap() as usize;
    let text = std::env::var_os("SYNCLINE_TEST_TEXT").unwrap();
    let run = Launcher::new(program).args([text]).processes(members).run();
    if let Err(error) = &run {
        eprintln!("error: {error}");
    }
    std::process::exit(run.err().map_or(0, |error| error.exit_code().into()));
}

/// The generator produces every kind of misuse, and every word that the program accepts.
#[test]
fn texts_are_those_of_their_seed() {
    for &place in PLACES {
        for seed in 0..300 {
            let [one, other] = [0, 1].map(|_| Plan::new(place, seed, &Kind::ALL).text());
            assert_eq!(one, other);
            assert!(one.lines().count() < 1000 && one.lines().all(|line| line.len() < 200));
        }
    }
}

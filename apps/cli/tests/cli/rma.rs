//! `syncline verify rma` and `farm`: in every place, under every installed MPI; and their behaviour
//! when members are killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use syncline_testkit::mpi::{MPIS, Mpi, SURVIVOR};
use syncline_testkit::{Random, cases, seed};

use crate::common::{HANG, command, ok, succeeds, until};

#[test]
#[ignore = "full: 14 s: all operations in all places"]
fn operations_hold_everywhere() {
    // The suites' own tests have more numbers of members.
    let text = ok(Path::new("."), "verify rma --members 2,4 --rounds 20");
    for name in ["memory", "syncs", "fences", "words", "locks", "barriers", "poison", "mismatch"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert_eq!(line.matches(" 40 ok").count(), 4, "{text}");
    }
}

#[test]
fn pools_hold_everywhere() {
    let text = ok(Path::new("."), "verify farm --members 1,4 --rounds 50");
    for name in ["tasks", "forks"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert_eq!(line.matches(" 100 ok").count(), 4, "{text}");
    }
}

/// Returns the shim for an MPI; `None`, after a line with the reason, if it is not installed.
pub(crate) fn shim(mpi: &Mpi) -> Option<PathBuf> {
    mpi.is_here().then(|| {
        mpi.shim(|compiler, into| {
            let mut build = command(Path::new("."), "mpi build");
            build.arg("--mpicc").arg(compiler).arg("--into").arg(into);
            succeeds(build, "mpi build");
        })
    })
}

/// Returns the command as a number of processes of an MPI; `None`, after a line with the reason, if
/// it is not installed.
pub(crate) fn under(mpi: &Mpi, processes: usize, line: &str) -> Option<Command> {
    let shim = shim(mpi)?;
    let mut command = mpi.run(env!("CARGO_BIN_EXE_syncline"), &processes.to_string(), &[]);
    command.args(line.split_whitespace());
    command.env("SYNCLINE_MPI", shim).env("SYNCLINE_QUIET", "1").stdin(Stdio::null());
    Some(command)
}

/// A `SYNCLINE_TIMEOUT` for tests in which all processes live. On a loaded machine a process may
/// wait for a processor longer than any bound on silence.
pub(crate) fn late() -> String {
    HANG.as_millis().to_string()
}

/// Returns the output of a command that must end within [`HANG`].
pub(crate) fn ends(mut command: Command, what: &str) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    let late = Instant::now() + HANG;
    while !waiting.is_finished() {
        if Instant::now() > late {
            let _ = kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL);
            panic!("{what} hangs");
        }
        sleep(Duration::from_millis(5));
    }
    waiting.join().unwrap()
}

#[test]
#[ignore = "full: 15 jobs under each MPI"]
fn operations_hold_under_mpi() {
    for mpi in &MPIS {
        let shapes = [(2, 9), (2, 1), (4, 9), (4, 2), (4, 1)];
        // The first tasks of a farm have no priority, and the first plans of an overlay are alike.
        let subjects = [("rma", 3), ("farm", 6), ("overlay", 6)]
            .into_iter()
            .flat_map(|subject| shapes.map(|shape| (subject, shape)));
        for ((subject, rounds), (processes, per_host)) in subjects {
            let line = format!("verify {subject} --rounds {rounds}");
            let Some(mut command) = under(mpi, processes, &line) else { break };
            command.env("SYNCLINE_PER_HOST", per_host.to_string()).env("SYNCLINE_TIMEOUT", late());
            let what =
                format!("{}, {subject}, {processes} processes, {per_host} on a host", mpi.name);
            let Output { status, stdout, stderr } = ends(command, &what);
            let (said, wrong) =
                (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            assert!(status.success(), "{what}: {wrong}");
            let hosts = processes.div_ceil(per_host);
            let members = format!("{rounds} rounds ok, {processes} members on {hosts} hosts");
            assert!(said.contains(&members), "{what}: {said}");
            assert_eq!(
                said.contains(&format!("by MPI ({}", mpi.name)),
                hosts > 1,
                "{what}: {said}"
            );
        }
    }
}

#[test]
#[ignore = "full: ranks that spin share the processors"]
fn threads_in_processes_on_hosts_meet_under_mpi() {
    for mpi in &MPIS {
        let Some(mut command) = under(mpi, 4, "verify rma --rounds 5") else { continue };
        command
            .env("SYNCLINE_PER_HOST", "2")
            .env("SYNCLINE_THREADS", "2")
            .env("SYNCLINE_TIMEOUT", late());
        command.env("SYNCLINE_SERVERS", "2");
        let Output { status, stdout, stderr } = ends(command, mpi.name);
        let [said, wrong] =
            [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(status.success(), "{}: {status}: {wrong}{said}", mpi.name);
        assert!(said.contains("8 members on 2 hosts"), "{}: {said}{wrong}", mpi.name);
    }
}

#[test]
fn memory_that_is_not_to_be_had_is_told_by_all() {
    for mpi in &MPIS {
        for per_host in ["9", "1"] {
            let Some(mut command) = under(mpi, 3, "verify rma --rounds 1") else { break };
            command.env("SYNCLINE_MEMORY", "4000000T").env("SYNCLINE_PER_HOST", per_host);
            let Output { status, stderr, .. } = ends(command, mpi.name);
            let said = String::from_utf8_lossy(&stderr);
            assert!(!status.success() && said.contains("error"), "{}: {said}", mpi.name);
        }
    }
}

/// Returns the processes that verify with this number of rounds, which no others have.
fn members(rounds: u64) -> Vec<PathBuf> {
    let mark = rounds.to_string();
    let of = |path: &Path| fs::read(path.join("cmdline")).unwrap_or_default();
    let is = |path: &PathBuf| {
        let line = of(path);
        let mut words = line.split(|&byte| byte == 0);
        let program = words.next().unwrap_or_default();
        program.ends_with(b"/syncline")
            && words.any(|word| word == mark.as_bytes())
            && !line.starts_with(b"launch")
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    all.filter(|path| is(path) && fs::read_link(path.join("exe")).is_ok()).collect()
}

/// Returns the number of kills, and random numbers from a seed that is printed.
fn kills(fixed: u64) -> (u64, Random) {
    let seed = seed(fixed);
    println!("SYNCLINE_SEED={seed}");
    (u64::from(cases(6)), Random::new(seed))
}

/// Returns a number of rounds that no other process verifies with, and that never ends.
fn endless(least: u64, time: u64) -> u64 {
    least + u64::from(std::process::id()) * 200 + time
}

/// Kills one of the members that do not launch others, at a random moment; returns the time until
/// all had ended, and their output.
fn kill_one(
    mut command: Command,
    rounds: u64,
    expected: usize,
    random: &mut Random,
) -> (Duration, String) {
    let said = tempfile::NamedTempFile::new().unwrap();
    let child: Child =
        command.stdout(said.reopen().unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    until("the start of all processes", || members(rounds).len() >= expected);
    until("the start of the run", || {
        fs::read_to_string(said.path()).unwrap().starts_with("verifying")
    });
    let all = members(rounds);
    // From the first common steps to the middle of the run.
    sleep(Duration::from_millis(random.below(400)));
    let launcher = child.id();
    let pid = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap();
    let victims = all.iter().map(pid).filter(|&pid| pid != launcher).collect::<Vec<_>>();
    let victim = victims[random.below(victims.len() as u64) as usize];
    let begun = Instant::now();
    kill_process(Pid::from_raw(victim as i32).unwrap(), Signal::KILL)
        .expect("the victim had ended already");
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    let late = Instant::now() + HANG;
    while !waiting.is_finished() || !members(rounds).is_empty() {
        if Instant::now() > late {
            for path in members(rounds) {
                let _ = kill_process(Pid::from_raw(pid(&path) as i32).unwrap(), Signal::KILL);
            }
            panic!("after the death of {victim} a process hangs");
        }
        sleep(Duration::from_millis(2));
    }
    let took = begun.elapsed();
    let Output { status, stderr, .. } = waiting.join().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{said}");
    (took, said)
}

#[test]
fn a_death_is_named_on_one_host() {
    let (times, mut random) = kills(1);
    let mut longest = Duration::ZERO;
    for time in 0..times {
        let rounds = endless(900_000_000, time);
        let processes = 2 + random.below(3) as usize;
        let line = format!(
            "launch -n {processes} -- {} verify rma --rounds {rounds}",
            env!("CARGO_BIN_EXE_syncline")
        );
        let mut command = command(Path::new("."), &line);
        command.env("SYNCLINE_QUIET", "1");
        // The launcher has the number in its command line, too.
        let (took, said) = kill_one(command, rounds, processes + 1, &mut random);
        longest = longest.max(took);
        assert!(said.contains("killed by signal 9"), "{said}");
        let told = said
            .lines()
            .filter(|line| line.starts_with("error: ") && line.contains("is dead"))
            .count();
        assert_eq!(told, processes - 1, "{said}");
    }
    println!("{times} kills of processes, all had ended after {longest:?} at most");
}

#[test]
fn a_death_ends_a_job_of_mpi() {
    let (times, mut random) = kills(2);
    for mpi in &MPIS {
        let mut longest = Duration::ZERO;
        for time in 0..times.div_ceil(2) {
            let rounds = endless(800_000_000, time);
            let processes = 2 + random.below(3) as usize;
            let line = format!("verify rma --rounds {rounds}");
            let Some(mut command) = under(mpi, processes, &line) else { break };
            command.env("SYNCLINE_PER_HOST", (1 + random.below(2)).to_string());
            let (took, _) = kill_one(command, rounds, processes, &mut random);
            longest = longest.max(took);
        }
        println!(
            "{}: {} kills, all had ended after {longest:?} at most",
            mpi.name,
            times.div_ceil(2)
        );
    }
}

#[test]
fn a_job_goes_on_without_the_dead() {
    let (times, mut random) = kills(3);
    for time in 0..times.div_ceil(2) {
        let (processes, per_host) = (3 + random.below(3) as usize, 1 + random.below(3) as usize);
        let victims = 1 + random.below(2) as usize;
        // Half a second, in either case; more where the machine is so fast that all ends before
        // the victims are killed. No other test has a command with such a number.
        let mut rounds = time + if per_host >= processes { 1021 } else { 71 };
        let gone_on = (0..5).find_map(|_| {
            let job = Job { processes, per_host, victims, rounds };
            rounds *= 4;
            job.run(&mut random)
        });
        match gone_on {
            Some(true) => {}
            Some(false) => return,
            None => panic!("every run had ended before its victims were killed"),
        }
    }
}

/// A job under an MPI that continues after a death.
struct Job {
    processes: usize,
    per_host: usize,
    victims: usize,
    rounds: u64,
}

impl Job {
    /// Runs the job, and kills the victims one after the other. Returns `None` if the job had ended
    /// before; otherwise whether there is such an MPI.
    fn run(self, random: &mut Random) -> Option<bool> {
        let Job { processes, per_host, victims, rounds } = self;
        let line = format!("verify rma --rounds {rounds}");
        let Some(mut command) = under(&SURVIVOR, processes, &line) else { return Some(false) };
        command.env("SYNCLINE_PER_HOST", per_host.to_string());
        let said = tempfile::NamedTempFile::new().unwrap();
        let at_its_end = || fs::File::options().append(true).open(said.path()).unwrap();
        let text = || fs::read_to_string(said.path()).unwrap();
        let mut child = command.stdout(at_its_end()).stderr(at_its_end()).spawn().unwrap();
        let late = Instant::now() + HANG;
        let left = processes - victims;
        let mut killed: Vec<PathBuf> = Vec::new();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < late, "the others hang: {}", text());
            sleep(Duration::from_millis(5));
            // The next victim is killed when the survivors have begun.
            if killed.len() < victims
                && text().contains(&format!("verifying {} members", processes - killed.len()))
            {
                sleep(Duration::from_millis(random.below(100)));
                let mut all = members(rounds);
                all.retain(|path| !killed.contains(path));
                if all.is_empty() {
                    continue;
                }
                let victim = all.swap_remove(random.below(all.len() as u64) as usize);
                let pid =
                    Pid::from_raw(victim.file_name().unwrap().to_str().unwrap().parse().unwrap());
                if kill_process(pid.unwrap(), Signal::KILL).is_ok() {
                    killed.push(victim);
                }
            }
        };
        let said = text();
        assert!(status.success(), "{said}");
        assert_eq!(members(rounds), Vec::<PathBuf>::new());
        if !said.contains(&format!("verifying {left} members")) {
            // All had ended before the kill: the result is that of the members present.
            assert!(said.contains(&format!("{rounds} rounds ok, ")), "{said}");
            return None;
        }
        assert!(
            said.contains(&format!(
                "{} of {processes} processes dead, {left} go on",
                processes - left
            )),
            "{said}"
        );
        assert!(said.contains(&format!("{rounds} rounds ok, {left} members")), "{said}");
        Some(true)
    }
}

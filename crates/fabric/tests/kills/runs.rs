//! Runs teams, and checks their outcome.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use syncline_process::watch::ProcessWatch;
use syncline_testkit::{again, cases, seed};

use crate::plan::{HANG, Plan};

const ROLE: &str = "SYNCLINE_FABRIC_KILLS_ROLE";
const SEED: &str = "SYNCLINE_FABRIC_KILLS_SEED";

/// Returns the role of this process and the seed of its team, if it has a role.
pub(crate) fn role() -> Option<(String, u64)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var(SEED).unwrap().parse().unwrap()))
}

/// Runs teams, and prints the time from a death to its errors.
pub(crate) fn kills(role: &str) {
    let (teams, first) = (u64::from(cases(30)), seed(1));
    let (mut kills, mut times) = (0, Vec::new());
    for seed in first..first + teams {
        let (more, told) = run(role, seed);
        kills += more;
        times.extend(told);
    }
    times.sort_unstable();
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    println!(
        "{role}: {kills} kills, greatest time from a death to its error: {:.1} ms, median {:.1} ms ({} errors, seeds from \
         {first})",
        milliseconds(times[times.len() - 1]),
        milliseconds(times[times.len() / 2]),
        times.len()
    );
}

/// Runs the team of a seed. Returns the number of deaths, and the times until survivors got the
/// error.
fn run(role: &str, seed: u64) -> (u64, Vec<u64>) {
    let plan = Plan::new(role, seed);
    let text = play(role, seed);
    let wrong =
        |why: &str| -> ! { panic!("{role}, SYNCLINE_SEED={seed}: {why}\n{plan:?}\n{text}") };
    let lines = |prefix: &str| {
        let rest = text.lines().filter_map(|line| line.strip_prefix(prefix));
        rest.map(String::from).collect::<Vec<_>>()
    };
    if lines("launcher: ") != ["137"] {
        wrong("the launcher does not say that a process was killed");
    }
    // The launcher reports the deaths, and nothing else; so all others ended with 0, and in time.
    let news = lines("syncline: ").into_iter().filter(|line| !line.contains("members share"));
    let news = news.collect::<Vec<_>>();
    let mut victims = BTreeSet::new();
    for line in &news {
        // `process 3 (pid 7, rank 3) was killed ...`, or
        // `after that, processes 2, 4 to 6 and 8 were killed ...`.
        let of = line.strip_prefix("after that, ").unwrap_or(line);
        let of = of.strip_prefix("processes ").or(of.strip_prefix("process "));
        let of = of.and_then(|of| of.split(['(', 'w']).next());
        let Some(of) = of.filter(|_| line.contains("killed by signal 9")) else {
            wrong("the launcher tells of something else")
        };
        for part in of.replace(" and ", ", ").split(", ") {
            let ends = part.split(" to ").map(|number| number.trim().parse::<usize>());
            let ends: Vec<usize> = ends.map(|end| end.unwrap_or_else(|_| wrong(line))).collect();
            victims.extend(ends[0]..=ends[ends.len() - 1]);
        }
    }
    if victims != plan.victims.iter().map(|victim| victim.process).collect() {
        wrong("the launcher does not tell of the victims");
    }
    let mut times = Vec::new();
    let mut told: HashMap<(usize, usize), usize> = HashMap::new();
    for line in lines("told: ") {
        let [rank, process, time] = line.split(' ').collect::<Vec<_>>()[..] else {
            wrong("garbled")
        };
        *told.entry((rank.parse().unwrap(), process.parse().unwrap())).or_default() += 1;
        times.push(time.parse().unwrap());
    }
    for rank in plan.survivors() {
        // A survivor that detects two deaths in one recovery gets one error only.
        let of = |victim: &usize| told.get(&(rank, *victim)) == Some(&1);
        let any = plan.victims.iter().any(|victim| of(&victim.process));
        if !any || !lines("ended: ").contains(&rank.to_string()) {
            wrong("a survivor was not told, or did not come to its end");
        }
    }
    let pids = lines("pid: ");
    if pids.len() != plan.processes || pids.iter().any(|pid| Path::new("/proc").join(pid).exists())
    {
        wrong("a process is left");
    }
    if !lines("named: ").is_empty() {
        wrong("something of the team has a name in /dev/shm");
    }
    (plan.victims.len() as u64, times)
}

/// Runs a team to its end, and returns all that it wrote to standard error.
fn play(role: &str, seed: u64) -> String {
    let mut command = again("role_of_a_process");
    command.env(ROLE, role).env(SEED, seed.to_string());
    for variable in [
        "SYNCLINE_TEAM",
        "SYNCLINE_THREADS",
        "SYNCLINE_MEMORY",
        "SYNCLINE_PER_HOST",
        "SYNCLINE_QUIET",
    ] {
        command.env_remove(variable);
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let late = Some(Instant::now() + 3 * HANG);
    let watch = ProcessWatch::new(child.id()).unwrap();
    // Its output is read when it has ended: it fits into a pipe.
    let ended = watch.wait_exit(late).unwrap();
    if !ended {
        child.kill().unwrap();
        std::thread::sleep(Duration::from_secs(2)); // its processes end by themselves
    }
    let Output { stderr, .. } = child.wait_with_output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert!(ended, "{role}, SYNCLINE_SEED={seed}: the team hangs\n{text}");
    text
}

//! Farms of real processes: this program, started again. Every wait has a deadline, so that a
//! failure does not hang the test.

mod bulk;
mod descriptors;
mod faults;
mod forked;
mod groups;
mod kills;
mod lucky;
mod messages;
mod pool;
mod random;
mod worker;

use std::time::{Duration, Instant};

use syncline_farm::{Farm, Program, Vpid};

/// Returns a deadline far beyond the duration of any wait, on any machine.
pub(crate) fn late() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(300))
}

/// Returns this program as a worker: the test `worker::process` joins the farm. The output of its
/// test runner is discarded, so that it is not mistaken for that of this one.
pub(crate) fn program() -> Program {
    program_of("worker::process")
}

/// Returns this program as a worker that runs another test.
pub(crate) fn program_of(test: &str) -> Program {
    let this = std::env::current_exe().unwrap();
    let quiet = Program::new("sh").args(["-c", "exec \"$0\" \"$@\" >/dev/null"]).arg(this);
    quiet.args(["--exact", test, "--nocapture", "--quiet"])
}

/// Returns the process IDs of the children of a process. It reads the states of all processes,
/// because a kernel may lack the lists in `/proc/PID/task`.
pub(crate) fn children_of(parent: u32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        // `PID (NAME) STATE PARENT ...`; a name may have any characters.
        let stat = String::from_utf8_lossy(&stat);
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_whitespace().nth(1).and_then(|pid| pid.parse().ok()) == Some(parent)
    };
    numbers.filter(is_child).collect()
}

/// Starts a worker with a role.
pub(crate) fn worker(farm: &mut Farm, role: worker::Role) -> Vpid {
    let vpid = farm.reserve().unwrap();
    farm.send(vpid, &role).unwrap();
    farm.start(vpid, &program()).unwrap();
    vpid
}

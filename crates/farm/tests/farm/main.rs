//! Farms of real processes: this program, started again. Every wait has a deadline, so that a
//! failure does not hang the test.

mod bulk;
mod descriptors;
mod faults;
mod forked;
mod groups;
mod kills;
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

/// Starts a worker with a role.
pub(crate) fn worker(farm: &mut Farm, role: worker::Role) -> Vpid {
    let vpid = farm.reserve().unwrap();
    farm.send(vpid, &role).unwrap();
    farm.start(vpid, &program()).unwrap();
    vpid
}

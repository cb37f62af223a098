//! Farms of real processes: this program, started again. Whatever goes wrong, every wait ends by a
//! deadline.

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

/// Far beyond what any wait takes, on any machine.
pub(crate) fn late() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(300))
}

/// This program as a worker: the test that is called `worker::process` takes part in the farm. What
/// the test runner says there is not to be taken for what it says here.
pub(crate) fn program() -> Program {
    program_of("worker::process")
}

/// The same of another test.
pub(crate) fn program_of(test: &str) -> Program {
    let this = std::env::current_exe().unwrap();
    let quiet = Program::new("sh").args(["-c", "exec \"$0\" \"$@\" >/dev/null"]).arg(this);
    quiet.args(["--exact", test, "--nocapture", "--quiet"])
}

/// A worker that was told what to be.
pub(crate) fn worker(farm: &mut Farm, role: worker::Role) -> Vpid {
    let vpid = farm.reserve().unwrap();
    farm.send(vpid, &role).unwrap();
    farm.start(vpid, &program()).unwrap();
    vpid
}

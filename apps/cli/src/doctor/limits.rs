//! The limits of a process, a user and a control group.

use rustix::process::{Resource, getrlimit};
use syncline_common::units::Bytes;

use super::Check;
use super::machine::read;
use crate::system;

const PART: &str = "limits";

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        files(),
        number(
            "processes",
            getrlimit(Resource::Nproc).current,
            1024,
            "threads and processes of a user; `ulimit -u`",
        ),
        locked(),
        address_space(),
    ];
    checks.extend(system::tasks_limit().map(|limit| {
        number(
            "tasks",
            Some(limit),
            1024,
            "threads and processes of this control group; raise its pids.max",
        )
    }));
    checks.push(tracing());
    checks
}

fn or_unlimited(limit: Option<u64>) -> String {
    limit.map_or("unlimited".to_owned(), |limit| limit.to_string())
}

fn number(name: &'static str, limit: Option<u64>, least: u64, what: &str) -> Check {
    Check::fine(PART, name, or_unlimited(limit)).advise(
        limit.is_some_and(|limit| limit < least),
        format!("teams of hundreds do not start: {what}"),
    )
}

fn files() -> Check {
    let limits = getrlimit(Resource::Nofile);
    let text =
        format!("{}, at most {}", or_unlimited(limits.current), or_unlimited(limits.maximum));
    Check::fine(PART, "open files", text).advise(
        limits.current.is_some_and(|limit| limit < 1024),
        "a launcher has a descriptor for each process: ulimit -n 1024",
    )
}

fn locked() -> Check {
    let limit = getrlimit(Resource::Memlock).current;
    let cards =
        std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut cards| cards.next().is_some());
    let text = limit.map_or("unlimited".to_owned(), |limit| Bytes(limit).to_string());
    Check::fine(PART, "locked memory", text).advise(
        cards && limit.is_some(),
        "there is a network card that reads memory by itself, for which MPI locks it: ulimit -l unlimited",
    )
}

fn address_space() -> Check {
    let limit = getrlimit(Resource::As).current;
    let text = limit.map_or("unlimited".to_owned(), |limit| Bytes(limit).to_string());
    Check::fine(PART, "address space", text).advise(
        limit.is_some(),
        "mapped files and shared memory count, used or not: ulimit -v unlimited, and bound memory by --memory instead",
    )
}

fn tracing() -> Check {
    // Syncline itself uses shared memory within a host, which needs no permission.
    let text = match read("/proc/sys/kernel/yama/ptrace_scope").as_deref() {
        None | Some("0") => "processes of a user may read one another's memory",
        Some(_) => {
            "processes must not read one another's memory: MPI copies twice within a host, Syncline does not mind"
        }
    };
    Check::fine(PART, "ptrace", text)
}

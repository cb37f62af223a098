//! Memory, cores, and the kernel features that waits use.

use std::fs;

use rustix::fs::MemfdFlags;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::thread::{MembarrierQuery, membarrier_query};
use syncline_common::units::Bytes;
use syncline_common::words::plural;
use syncline_memory::room;

use super::Check;
use crate::system;

const PART: &str = "machine";

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![memory(), cores(), kernel(), overcommit()];
    checks.extend(huge_pages());
    checks.extend([memfd(), pidfd(), membarrier(), io_uring()]);
    checks
}

/// Reads a small file of the kernel, without its line break.
pub(super) fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn kernel() -> Check {
    let uname = rustix::system::uname();
    let text = format!(
        "{} {} on {}",
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        uname.machine().to_string_lossy()
    );
    Check::fine(PART, "kernel", text)
}

fn cores() -> Check {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let online =
        read("/sys/devices/system/cpu/online").as_deref().and_then(count).unwrap_or(usable);
    let siblings = read("/sys/devices/system/cpu/smt/active");
    let threads = match siblings.as_deref() {
        Some("1") => ", two threads or more to a core (SMT)",
        Some(_) => ", one thread to a core",
        None => "",
    };
    let quota = system::processors();
    let of_quota = quota.map_or(String::new(), |quota| {
        format!(", of which the control group grants the time of {quota:.1}")
    });
    let check =
        Check::fine(PART, "cores", format!("{usable} of {online} online{threads}{of_quota}"));
    let tight = quota.filter(|quota| *quota < usable as f64);
    let members = tight.map_or(1, |quota| quota.max(1.0) as usize);
    check.advise(
        tight.is_some(),
        format!(
            "members above {members} are stopped for parts of every 100 ms, and members that wait for them wait as long: run at \
             most {members}, or raise the limit (cpu.max)"
        ),
    )
}

/// Counts the numbers of a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let one = |range: &str| match range.split_once('-') {
        Some((first, last)) => {
            last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
        }
        None => range.parse::<usize>().ok().map(|_| 1),
    };
    list.split(',').map(one).sum()
}

fn memory() -> Check {
    let (total, available) = (system::total(), room::left_unswapped());
    let limit = room::limit();
    let mut text = match (total, available) {
        (Some(total), Some(available)) => {
            format!("{} of {} available", Bytes(available), Bytes(total))
        }
        _ => "not told".to_owned(),
    };
    let tight = limit.filter(|limit| total.is_none_or(|total| *limit < total));
    if let Some(limit) = tight {
        text.push_str(&format!(", at most {} for this control group", Bytes(limit)));
    }
    Check::fine(PART, "memory", text).advise(
        available.is_some_and(|available| available < 512 << 20),
        "less than 512 MiB: give sweeps and teams a --memory below that",
    )
}

fn overcommit() -> Check {
    let mode = read("/proc/sys/vm/overcommit_memory").unwrap_or_else(|| "?".to_owned());
    let text = match mode.as_str() {
        "0" => "by a rule of thumb (0)",
        "1" => "always (1)",
        "2" => "never (2)",
        _ => "not told",
    };
    Check::fine(PART, "overcommit", text).advise(
        mode == "2",
        "memory of a team counts as used before it is: give `launch` a --memory no larger than is needed",
    )
}

fn huge_pages() -> Option<Check> {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let mode = text.split(['[', ']']).nth(1)?.to_owned();
    let never = mode == "never";
    Some(Check::fine(PART, "huge pages", mode).advise(
        never,
        "sweeps wait for address translation: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled (root)",
    ))
}

fn there(name: &'static str, there: Result<(), String>, advice: &str) -> Check {
    match there {
        Ok(()) => Check::fine(PART, name, "there"),
        Err(why) => Check::fine(PART, name, format!("not there: {why}")).advise(true, advice),
    }
}

fn memfd() -> Check {
    let made = rustix::fs::memfd_create("syncline-doctor", MemfdFlags::CLOEXEC);
    there(
        "memfd",
        made.map(drop).map_err(|errno| errno.to_string()),
        "processes can share no memory: teams are of threads only; allow memfd_create in this container",
    )
}

fn pidfd() -> Check {
    there(
        "pidfd",
        pidfd_open(getpid(), PidfdFlags::empty()).map(drop).map_err(|errno| errno.to_string()),
        "`syncline launch` cannot watch processes: it needs Linux 5.3, and a container that allows pidfd_open",
    )
}

fn membarrier() -> Check {
    let has = membarrier_query().contains(MembarrierQuery::GLOBAL_EXPEDITED);
    let has = if has { Ok(()) } else { Err("the kernel has none, or forbids it".to_owned()) };
    there(
        "membarrier",
        has,
        "locks take a fence at every release instead: some nanoseconds; allow membarrier to gain them",
    )
}

fn io_uring() -> Check {
    let off = read("/proc/sys/kernel/io_uring_disabled").filter(|mode| mode != "0");
    let old = off.is_none() && !fs::exists("/proc/sys/kernel/io_uring_disabled").unwrap_or(false);
    let text = match &off {
        Some(mode) => format!("switched off ({mode})"),
        None if old => "not told; reads and writes go the plain way where it is missing".to_owned(),
        None => "there".to_owned(),
    };
    Check::fine(PART, "io_uring", text).advise(
        off.is_some(),
        "sweeps read and write the plain way, one piece at a time: sysctl kernel.io_uring_disabled=0 (root)",
    )
}

/// Returns a number and a noun.
pub(super) fn several(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", plural(n as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        let cases = [
            ("0", Some(1)),
            ("0-3", Some(4)),
            ("0-1,4,6-7", Some(5)),
            ("", None),
            ("3-1", None),
            ("x", None),
        ];
        for (list, n) in cases {
            assert_eq!(count(list), n, "{list}");
        }
    }
}

//! What the kernel knows of memory and disk: `/proc` and the control groups.
//!
//! Everything here is `None` where the kernel does not tell.

use std::fs;
use std::path::{Path, PathBuf};

/// The most bytes that this process has had resident so far (`VmHWM`).
pub(crate) fn peak_resident() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM:")
}

/// The bytes that this process has resident now (`VmRSS`).
pub(crate) fn resident() -> Option<u64> {
    kilobytes("/proc/self/status", "VmRSS:")
}

/// Bytes that new work can have: what the system has available, or less if a control group limits us.
pub(crate) fn available() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemAvailable:").into_iter().chain(memory_limit()).min()
}

/// The bytes of memory that the machine has.
pub(crate) fn total() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemTotal:")
}

/// Bytes that this process has caused to be read from disk and written to it, beside the page cache.
pub(crate) fn disk() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let field = |name| line(&text, name)?.parse().ok();
    Some((field("read_bytes:")?, field("write_bytes:")?))
}

fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let kilobytes: u64 = line(&text, name)?.strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn line<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The least memory limit of our control group and those above it, of either version.
pub(crate) fn memory_limit() -> Option<u64> {
    least(&MEMORY, |file| read(file)?.parse().ok())
}

/// How many threads and processes our control group may have.
pub(crate) fn tasks_limit() -> Option<u64> {
    least(&TASKS, |file| read(file)?.parse().ok())
}

/// The time of how many processors our control group may have.
pub(crate) fn processors() -> Option<f64> {
    let quota = |file: &Path| {
        let text = read(file)?;
        // Of version 2 both numbers stand in one file.
        let period = || read(&file.with_file_name("cpu.cfs_period_us"));
        let (quota, period) = match text.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            None => (text, period()?),
        };
        let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
        // Without a limit the one is -1, the other "max".
        (quota > 0.0 && period > 0.0).then_some((quota / period * 1e3) as u64)
    };
    least(&PROCESSORS, quota).map(|thousandths| thousandths as f64 / 1e3)
}

/// Where a controller of either version keeps a limit.
struct Limit {
    controller: &'static str,
    /// The file of version 2; of version 1.
    files: [&'static str; 2],
}

const MEMORY: Limit = Limit { controller: "memory", files: ["memory.max", "memory.limit_in_bytes"] };
const TASKS: Limit = Limit { controller: "pids", files: ["pids.max", "pids.max"] };
const PROCESSORS: Limit = Limit { controller: "cpu", files: ["cpu.max", "cpu.cfs_quota_us"] };

/// The least of our control group and those above it; `max` and files that are not there are none.
fn least(limit: &Limit, value: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().filter_map(|line| limit_files(line, limit)).flatten().filter_map(|file| value(&file)).min()
}

/// The files that may hold a limit for a line of `/proc/self/cgroup`: `NUMBER:CONTROLLERS:PATH`.
///
/// In a container the path may be the host's; the files of the groups above then still are ours.
fn limit_files(line: &str, limit: &Limit) -> Option<Vec<PathBuf>> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => (PathBuf::from("/sys/fs/cgroup"), limit.files[0]),
        _ if controllers.split(',').any(|name| name == limit.controller) => {
            (Path::new("/sys/fs/cgroup").join(limit.controller), limit.files[1])
        }
        _ => return None,
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    Some(groups.map(|group| root.join(group).join(file)).collect())
}

fn read(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells() {
        let (peak, now) = (peak_resident().unwrap(), resident().unwrap());
        assert!(peak > 1 << 16 && now > 1 << 16);
        assert!(available().unwrap() > 1 << 20);
    }

    #[test]
    fn limits_stand_in_the_groups_above_too() {
        let files = |line| {
            let files = limit_files(line, &MEMORY)?;
            Some(files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>())
        };
        let v2 =
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(files("0::/a/b").unwrap(), v2);
        let v1 = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(files("4:memory:/").unwrap(), [v1]);
        assert_eq!(files("4:cpu,memory:/x").unwrap()[1], v1);
        assert_eq!(files("3:cpu,cpuacct:/x"), None);
        assert_eq!(files("nonsense"), None);
        let cpu = limit_files("3:cpu,cpuacct:/", &PROCESSORS).unwrap();
        assert_eq!(cpu, [Path::new("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")]);
    }
}

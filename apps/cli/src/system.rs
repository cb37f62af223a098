//! Memory and disk figures of the operating system, from `/proc` and the control groups.
//!
//! All functions return `None` where the kernel provides no figure.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the peak of resident bytes of this process so far (`VmHWM`).
pub(crate) fn peak_resident() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM:")
}

/// Returns the resident shared memory of this process (`RssShmem`).
pub(crate) fn shared() -> Option<u64> {
    kilobytes("/proc/self/status", "RssShmem:")
}

/// The resident memory of this process, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Anonymous and shared memory, and mapped data, which a memory bound governs.
    pub(crate) governed: u64,
    /// Unwritten pages of the executable and of libraries. How many are resident depends on the
    /// page cache and on how the kernel maps files; the kernel can drop them at any time.
    pub(crate) program: u64,
}

/// Returns the resident memory of this process, counted in its page tables. Without those, the
/// counters of `status` are used, where all file pages count as the program's.
///
/// The call walks all mappings, so it is too slow for the middle of a run.
pub(crate) fn resident() -> Option<Resident> {
    if let Some(resident) =
        fs::read_to_string("/proc/self/smaps").ok().and_then(|text| by_mapping(&text))
    {
        return Some(resident);
    }
    let of = |name| kilobytes("/proc/self/status", name);
    Some(Resident { governed: of("RssAnon:")? + of("RssShmem:")?, program: of("RssFile:")? })
}

/// Sums up `smaps`. Files with an executable mapping are the program's; others are data.
fn by_mapping(smaps: &str) -> Option<Resident> {
    /// A mapping of a file, or an anonymous one: its resident bytes, and those that are private
    /// copies.
    struct Mapping<'s> {
        file: &'s str,
        executable: bool,
        resident: u64,
        anonymous: u64,
    }
    let mut mappings: Vec<Mapping<'_>> = Vec::new();
    for line in smaps.lines() {
        let (first, rest) = line.split_once(char::is_whitespace)?;
        match first {
            "Rss:" => mappings.last_mut()?.resident = bytes(rest)?,
            "Anonymous:" => mappings.last_mut()?.anonymous = bytes(rest)?,
            _ if first.ends_with(':') => {}
            _ => {
                let executable = rest.split_whitespace().next()?.contains('x');
                // No field before the name contains a slash.
                let file = rest.find('/').map_or("", |start| &rest[start..]);
                mappings.push(Mapping { file, executable, resident: 0, anonymous: 0 });
            }
        }
    }
    let programs: HashSet<&str> = mappings
        .iter()
        .filter(|mapping| mapping.executable && !mapping.file.is_empty())
        .map(|mapping| mapping.file)
        .collect();
    let all: u64 = mappings.iter().map(|mapping| mapping.resident).sum();
    let program = mappings
        .iter()
        .filter(|mapping| programs.contains(mapping.file))
        .map(|mapping| mapping.resident.saturating_sub(mapping.anonymous))
        .sum();
    Some(Resident { governed: all.saturating_sub(program), program })
}

/// Returns the bytes available for new work: those of the system, or those that the control groups
/// leave if that is less.
pub(crate) fn available() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemAvailable:").into_iter().chain(memory_room()).min()
}

/// Returns the bytes of memory of the machine.
pub(crate) fn total() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemTotal:")
}

/// Returns the bytes that this process has caused to be read from disk and written to it; accesses
/// to the page cache do not count.
pub(crate) fn disk() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let field = |name| line(&text, name)?.parse().ok();
    Some((field("read_bytes:")?, field("write_bytes:")?))
}

fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    bytes(line(&text, name)?)
}

/// Parses a text like `12 kB` into bytes.
fn bytes(kilobytes: &str) -> Option<u64> {
    kilobytes.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

fn line<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns the smallest memory limit of the process's control group and those above it, of either
/// version.
pub(crate) fn memory_limit() -> Option<u64> {
    least(&MEMORY, |file| read(file)?.parse().ok())
}

/// Returns the memory that the limits of the process's control group and those above it leave for
/// new work: the minimum of limit less usage, where droppable page cache does not count as usage.
fn memory_room() -> Option<u64> {
    least(&MEMORY, |file| {
        let limit: u64 = read(file)?.parse().ok()?;
        let beside = |name| read(&file.with_file_name(name));
        let held = beside("memory.current").or_else(|| beside("memory.usage_in_bytes"));
        let held: u64 = held.and_then(|text| text.parse().ok()).unwrap_or(0);
        let statistics = beside("memory.stat").unwrap_or_default();
        Some(limit.saturating_sub(held.saturating_sub(droppable(&statistics))))
    })
}

/// Returns the page cache of a control group and those below it, from a `memory.stat` of either
/// version.
fn droppable(statistics: &str) -> u64 {
    let of = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok();
        statistics.lines().find_map(value)
    };
    // In version 1, the names without a prefix are of this group alone.
    let of = |name: &str| of(&format!("total_{name}")).or_else(|| of(name)).unwrap_or(0);
    of("inactive_file") + of("active_file")
}

/// Returns the maximum number of threads and processes of the process's control group.
pub(crate) fn tasks_limit() -> Option<u64> {
    least(&TASKS, |file| read(file)?.parse().ok())
}

/// Returns the number of processors whose time the process's control group may use.
pub(crate) fn processors() -> Option<f64> {
    let quota = |file: &Path| {
        let text = read(file)?;
        // In version 2 both numbers are in one file.
        let period = || read(&file.with_file_name("cpu.cfs_period_us"));
        let (quota, period) = match text.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            None => (text, period()?),
        };
        let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
        // No limit is written as -1 in version 1 and as "max" in version 2.
        (quota > 0.0 && period > 0.0).then_some((quota / period * 1e3) as u64)
    };
    least(&PROCESSORS, quota).map(|thousandths| thousandths as f64 / 1e3)
}

/// The files in which a controller of either version keeps a limit.
struct Limit {
    controller: &'static str,
    /// The file of version 2, then that of version 1.
    files: [&'static str; 2],
}

const MEMORY: Limit =
    Limit { controller: "memory", files: ["memory.max", "memory.limit_in_bytes"] };
const TASKS: Limit = Limit { controller: "pids", files: ["pids.max", "pids.max"] };
const PROCESSORS: Limit = Limit { controller: "cpu", files: ["cpu.max", "cpu.cfs_quota_us"] };

/// Returns the minimum over the process's control group and those above it. `max` and missing files
/// impose no limit.
fn least(limit: &Limit, value: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups
        .lines()
        .filter_map(|line| limit_files(line, limit))
        .flatten()
        .filter_map(|file| value(&file))
        .min()
}

/// Returns the files that may hold a limit for a line of `/proc/self/cgroup`:
/// `NUMBER:CONTROLLERS:PATH`.
///
/// In a container the path may be the host's; the files of the groups above still apply.
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
        assert!(peak > 1 << 16 && now.governed > 1 << 14 && now.program > 1 << 16, "{now:?}");
        assert!(available().unwrap() > 1 << 20);
    }

    /// Written memory is governed; mapped pages of the program are not, however many are resident.
    #[test]
    fn resident_memory_is_told_from_the_program() {
        let block = vec![1_u8; 8 << 20];
        let with = resident().unwrap();
        assert!(with.governed > block.len() as u64, "{with:?}");
        let smaps = "\
5500-5600 r-xp 00000000 fe:00 17    /usr/bin/the program
Rss:                 100 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
5600-5700 rw-p 00001000 fe:00 17    /usr/bin/the program
Rss:                  30 kB
Anonymous:            20 kB
5700-5800 rw-p 00000000 00:00 0     [heap]
Rss:                   7 kB
Anonymous:             7 kB
5800-5900 rw-s 00000000 fe:00 18    /data/za.npy
Rss:                   5 kB
Anonymous:             0 kB
5900-5a00 r-xp 00000000 00:00 0     [vdso]
Rss:                   4 kB
Anonymous:             0 kB
";
        let expected = Resident { governed: (20 + 7 + 5 + 4) << 10, program: 110 << 10 };
        assert_eq!(by_mapping(smaps), Some(expected));
        assert_eq!(by_mapping("nonsense"), None);
    }

    #[test]
    fn page_cache_can_be_dropped() {
        let v1 = "cache 5\ninactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 40\n";
        assert_eq!(droppable(v1), 70);
        assert_eq!(droppable("anon 9\ninactive_file 1\nactive_file 2\n"), 3);
        assert_eq!(droppable(""), 0);
    }

    #[test]
    fn limits_stand_in_the_groups_above_too() {
        let files = |line| {
            let files = limit_files(line, &MEMORY)?;
            Some(files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>())
        };
        let v2 = [
            "/sys/fs/cgroup/a/b/memory.max",
            "/sys/fs/cgroup/a/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
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

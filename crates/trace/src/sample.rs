//! What the kernel says of threads and processors, from `/proc`.
//!
//! A file that is missing or has another form gives no sample: the recording goes on without it.

use std::path::{Path, PathBuf};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::frame::{MachineSample, ProcessInfo, ThreadSample};

/// Returns the sample of a thread of this process.
pub(crate) fn thread(thread_id: u32) -> Option<ThreadSample> {
    let read = |file| std::fs::read_to_string(format!("/proc/self/task/{thread_id}/{file}")).ok();
    let mut sample = ThreadSample::default();
    let times = read("schedstat")?;
    let mut times = times.split_whitespace().map(str::parse);
    (sample.ran_ns, sample.queued_ns) = (times.next()?.ok()?, times.next()?.ok()?);
    let line = read("stat")?;
    // The name is in parentheses and may contain any character. Behind it are fields 3 and up.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    sample.major_faults = fields.get(12 - 3)?.parse().ok()?;
    sample.processor = fields.get(39 - 3)?.parse().ok()?;
    let set = sched_getaffinity(Pid::from_raw(thread_id as i32)).ok()?;
    sample.allowed = ranges((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)));
    Some(sample)
}

/// Returns increasing numbers as ranges: `0-3,8`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |&(from, to): &(usize, usize)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Returns what the processors of the machine did.
pub(crate) fn machine(limits: &mut Limits) -> Option<MachineSample> {
    let throttled_ns = limits.throttled();
    Some(MachineSample { processors: processors()?, throttled_ns })
}

fn processors() -> Option<Vec<[u64; 4]>> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let lines = text.lines().filter(|line| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let processors = lines.filter_map(|line| {
        let times: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = times[..] else {
            return None;
        };
        Some([user + nice + system + irq + softirq, idle, iowait, steal])
    });
    Some(processors.collect())
}

/// The limits of processor time of this process: those of its control groups.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// What each group said before, in nanoseconds.
    before: Vec<(PathBuf, u64)>,
    throttled: u64,
}

impl Limits {
    /// Returns the nanoseconds for which the process was stopped since the first call. A process
    /// may be moved between groups meanwhile.
    fn throttled(&mut self) -> u64 {
        let now: Vec<(PathBuf, u64)> = groups()
            .into_iter()
            .filter_map(|file| {
                let throttled = throttled_of(&std::fs::read_to_string(&file).ok()?)?;
                Some((file, throttled))
            })
            .collect();
        let new = now.iter().filter_map(|(file, throttled)| {
            let (_, before) = self.before.iter().find(|(other, _)| other == file)?;
            Some(throttled.saturating_sub(*before))
        });
        // Of nested groups, the narrowest limit counts.
        self.throttled += new.max().unwrap_or(0);
        self.before = now;
        self.throttled
    }
}

/// Returns the files that may say for how long this process was stopped: those of its group and of
/// the groups around it.
fn groups() -> Vec<PathBuf> {
    const MOUNT: &str = "/sys/fs/cgroup";
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut files = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(kind), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let mount = match kind {
            "" => Path::new(MOUNT).to_path_buf(),
            kind if kind.split(',').any(|kind| kind == "cpu") => Path::new(MOUNT).join(kind),
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| mount.join(group).join("cpu.stat")));
    }
    files
}

/// Returns the nanoseconds for which a group was stopped.
fn throttled_of(stat: &str) -> Option<u64> {
    let number = |key: &str, unit: u64| {
        let value = stat.lines().find_map(|line| line.strip_prefix(key))?;
        value.trim().parse::<u64>().ok()?.checked_mul(unit)
    };
    number("throttled_time ", 1).or_else(|| number("throttled_usec ", 1000))
}

/// Returns what is known of this process.
pub(crate) fn process() -> ProcessInfo {
    let uname = rustix::system::uname();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    ProcessInfo {
        pid: std::process::id(),
        host: uname.nodename().to_string_lossy().into_owned(),
        boot: boot.trim().to_owned(),
        command: command.collect(),
        processors: processors().map_or(0, |processors| processors.len() as u32),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began: crate::clock::ClockPair::now(),
        kernel: uname.release().to_string_lossy().into_owned(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges([0, 1, 2, 3, 8, 10, 11].into_iter()), "0-3,8,10-11");
        assert_eq!(ranges(std::iter::empty()), "");
    }

    #[test]
    fn groups_say_for_how_long_they_were_stopped() {
        let first = "nr_periods 26\nnr_throttled 18\nthrottled_time 1126887384\n";
        assert_eq!(throttled_of(first), Some(1_126_887_384));
        let second = "usage_usec 5\nnr_throttled 1\nthrottled_usec 70000\n";
        assert_eq!(throttled_of(second), Some(70_000_000));
        assert_eq!(throttled_of("usage_usec 5\n"), None);
        assert!(groups().iter().all(|file| file.ends_with("cpu.stat")));
    }

    #[test]
    fn a_thread_that_computes_has_run() {
        let Some(before) = thread(rustix::thread::gettid().as_raw_nonzero().get() as u32) else {
            println!("skipped: this kernel has no schedstat");
            return;
        };
        assert!(!before.allowed.is_empty());
        assert_eq!(thread(u32::MAX >> 1), None);
    }
}

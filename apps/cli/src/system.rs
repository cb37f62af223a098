//! Figures of the operating system, from `/proc` and the control groups. What memory is left is in
//! [`syncline_memory::room`].
//!
//! All functions return `None` where the kernel provides no figure.

use std::collections::HashSet;
use std::fs;

use syncline_memory::control_group::{self, Group};

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

/// Returns the maximum number of threads and processes of the process's control group.
pub(crate) fn tasks_limit() -> Option<u64> {
    control_group::of("pids").iter().filter_map(|group| group.number("pids.max")).min()
}

/// Returns the number of processors whose time the process's control group may use.
pub(crate) fn processors() -> Option<f64> {
    let quota = |group: &Group| {
        let (quota, period) = match group.version() {
            2 => {
                let text = group.text("cpu.max")?;
                let (quota, period) = text.split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
            _ => (
                group.text("cpu.cfs_quota_us")?.parse().ok()?,
                group.text("cpu.cfs_period_us")?.parse().ok()?,
            ),
        };
        // No limit is written as -1 in version 1 and as "max" in version 2.
        let (quota, period): (f64, f64) = (quota, period);
        (quota > 0.0 && period > 0.0).then_some((quota / period * 1e3) as u64)
    };
    let least = control_group::of("cpu").iter().filter_map(quota).min();
    least.map(|thousandths| thousandths as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells() {
        let (peak, now) = (peak_resident().unwrap(), resident().unwrap());
        assert!(peak > 1 << 16 && now.governed > 1 << 14 && now.program > 1 << 16, "{now:?}");
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
}

//! The memory available to a program: the least of what the host has and what its control groups
//! allow.
//!
//! | function | host                        | each control group (v2 or v1) up to the root   |
//! |----------|-----------------------------|------------------------------------------------|
//! | [`most`] | `MemTotal`                  | limit                                          |
//! | [`left`] | `MemAvailable` + `SwapFree` | limit - usage + page cache in it (+ free swap) |
//!
//! The minimum over the host and all groups counts. [`left`] subtracts a margin: a sixty-fourth of
//! [`most`], but at most 64 MiB. The kernel does not refuse memory taken beyond these numbers: it
//! kills a process when the memory is touched.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The upper bound of the margin, in bytes.
const MARGIN: u64 = 64 << 20;

/// Returns the number of bytes that this process and others in the same control groups can have at
/// most; `None` if the kernel does not report it.
#[must_use]
pub fn most() -> Option<u64> {
    let limits = groups().into_iter().filter_map(|group| group.limit());
    limits.chain(host("MemTotal:")).min()
}

/// Returns the number of bytes that this process can take at present, less the margin; `None` if
/// the kernel does not report it.
#[must_use]
pub fn left() -> Option<u64> {
    let swap = host("SwapFree:").unwrap_or(0);
    let host = host("MemAvailable:").map(|available| available.saturating_add(swap));
    let least = groups().into_iter().filter_map(|group| group.left(swap)).chain(host).min()?;
    Some(least.saturating_sub(MARGIN.min(most()? / 64)))
}

/// A memory control group.
struct Group {
    folder: PathBuf,
    version: u8,
}

impl Group {
    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// Returns the limit in bytes; `None` if the group has no limit ("max" in version 2, a number
    /// near 2^63 in version 1).
    fn limit(&self) -> Option<u64> {
        let file = if self.version == 2 { "memory.max" } else { "memory.limit_in_bytes" };
        self.number(file).filter(|&limit| limit < 1 << 62)
    }

    fn left(&self, swap: u64) -> Option<u64> {
        let limit = self.limit()?;
        let (file, prefix) = if self.version == 2 {
            ("memory.current", "")
        } else {
            ("memory.usage_in_bytes", "total_")
        };
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let cache = ["active_file ", "inactive_file "]
            .map(|name| field(&stat, &format!("{prefix}{name}")).unwrap_or(0));
        let used = self.number(file)?.saturating_sub(cache.iter().sum());
        Some(limit.saturating_sub(used).saturating_add(self.swap(swap)))
    }

    /// Returns the number of bytes that the group may swap out. In version 1, where one limit
    /// covers memory and swap together, the result is 0.
    fn swap(&self, host: u64) -> u64 {
        if self.version != 2 || host == 0 {
            return 0;
        }
        match (self.number("memory.swap.max"), self.number("memory.swap.current")) {
            (Some(most), Some(current)) => host.min(most.saturating_sub(current)),
            (None, Some(_)) => host,
            _ => 0,
        }
    }
}

/// Returns the control groups of this process and all their ancestors. In a container the path may
/// be that of the host; the files of the ancestors then still describe this process's groups.
fn groups() -> Vec<Group> {
    groups_of(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
}

/// Returns the control groups that a text like `/proc/self/cgroup` names, with all their ancestors.
fn groups_of(text: &str) -> Vec<Group> {
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let (root, version) = match &*controllers {
            "" => ("/sys/fs/cgroup", 2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", 1)
            }
            _ => return None,
        };
        let above = Path::new(path.trim_start_matches('/'))
            .ancestors()
            .map(Path::to_path_buf)
            .collect::<Vec<_>>();
        Some(
            above
                .into_iter()
                .map(move |path| Group { folder: Path::new(root).join(path), version }),
        )
    };
    text.lines().filter_map(of).flatten().collect()
}

/// Returns a field of `/proc/meminfo`, converted from KiB to bytes.
fn host(name: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, name)?.checked_mul(1024)
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .trim()
        .trim_end_matches("kB")
        .trim_end()
        .parse()
        .ok()
}

/// A number of bytes that is displayed and parsed in binary units: "3.2 GiB".
///
/// The units that [`FromStr`] reads (B, K, M, G, T, with or without B or iB) are powers of 1024.
///
/// ```
/// use syncline_memory::room::Size;
///
/// let shown = [17, 1 << 40, 3_435_973_837].map(|bytes| Size(bytes).to_string());
/// assert_eq!(shown, ["17 bytes", "1 TiB", "3.2 GiB"]);
/// assert_eq!("1.5GiB".parse(), Ok(Size(3 << 29)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let power = (self.0.max(1).ilog2() / 10) as usize;
        let Some(unit) = power.checked_sub(1).and_then(|at| units.get(at)) else {
            return write!(f, "{} bytes", self.0);
        };
        let number = format!("{:.1}", self.0 as f64 / (1_u64 << (10 * power)) as f64);
        write!(f, "{} {unit}", number.trim_end_matches(".0"))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start().to_ascii_uppercase();
        let shift = match unit.as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => {
                return Err(
                    "a size is a number and B, K, M, G or T, as in 512M or 1.5GiB".to_owned()
                );
            }
        };
        let too_much = || format!("{text} is more than can be addressed");
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Size).ok_or_else(too_much);
        }
        let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
        let bytes = number * (1_u64 << shift) as f64;
        // 2^62 is far below 2^64, where the conversion to an integer would saturate.
        if bytes < (1_u64 << 62) as f64 { Ok(Size(bytes as u64)) } else { Err(too_much()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ancestors_of_a_group_count() {
        let folders = |text: &str| -> Vec<_> {
            groups_of(text).into_iter().map(|group| (group.folder, group.version)).collect()
        };
        let root = Path::new("/sys/fs/cgroup");
        let second = ["a/b/c", "a/b", "a", ""].map(|path| (root.join(path), 2));
        assert_eq!(folders("0::/a/b/c\n"), second);
        let first = ["memory/d", "memory"].map(|path| (root.join(path), 1));
        assert_eq!(folders("5:cpu:/e\n4:hugetlb,memory:/d\n"), first);
    }

    #[test]
    fn a_unit_begins_at_its_power_of_1024() {
        let shown = [0, 1023, 1024, (1 << 20) - 1, 1 << 20, 1536 << 20, u64::MAX]
            .map(|bytes| Size(bytes).to_string());
        let expected = ["0 bytes", "1023 bytes", "1 KiB", "1024 KiB", "1 MiB", "1.5 GiB", "16 EiB"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn sizes_are_read() {
        let good = [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("2k", 2048),
            ("512M", 512 << 20),
            ("512MB", 512 << 20),
            ("1.5GiB", 3 << 29),
            (" 2 GiB ", 2 << 30),
            (".5K", 512),
            ("1T", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in good {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in
            ["", "G", "-1", "1X", "1.2.3G", "nan", "inf", "1e3", "99999999999T", "99999999.5T", "."]
        {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_kernel_tells() {
        let (most, left) = (most().unwrap(), left().unwrap());
        // The free swap changes; all of it does not.
        assert!(most > 1 << 20 && left < most + host("SwapTotal:").unwrap(), "{left} of {most}");
    }

    /// Creates a group from the contents of its files.
    fn group(version: u8, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        let group = Group { folder: folder.path().to_owned(), version };
        (folder, group)
    }

    #[test]
    fn cache_of_files_counts_as_left_and_shared_memory_does_not() {
        let stat =
            "anon 5\nfile 700\nshmem 600\ninactive_anon 600\nactive_file 70\ninactive_file 30\n";
        let (_folder, two) = group(
            2,
            &[("memory.max", "1000\n"), ("memory.current", "900\n"), ("memory.stat", stat)],
        );
        assert_eq!((two.limit(), two.left(50)), (Some(1000), Some(200)));
        let swap = [
            ("memory.max", "1000"),
            ("memory.current", "900"),
            ("memory.swap.max", "30"),
            ("memory.swap.current", "10"),
        ];
        assert_eq!(group(2, &swap).1.left(50), Some(120));
        assert_eq!(group(2, &[("memory.max", "max\n")]).1.left(0), None);
        let stat = "active_file 1\ntotal_active_file 70\ntotal_inactive_file 30\n";
        let one = [
            ("memory.limit_in_bytes", "1000"),
            ("memory.usage_in_bytes", "900"),
            ("memory.stat", stat),
        ];
        assert_eq!(group(1, &one).1.left(50), Some(200));
        assert_eq!(group(1, &[("memory.limit_in_bytes", "9223372036854771712")]).1.limit(), None);
    }
}

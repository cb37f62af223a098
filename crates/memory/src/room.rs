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
use std::str::FromStr;

use crate::control_group::{self, Group};

/// The upper bound of the margin, in bytes.
const MARGIN: u64 = 64 << 20;

/// Returns the number of bytes that this process and others in the same control groups can have at
/// most; `None` if the kernel does not report it.
#[must_use]
pub fn most() -> Option<u64> {
    limit().into_iter().chain(host("MemTotal:")).min()
}

/// Returns the number of bytes that this process can take at present, less the margin; `None` if
/// the kernel does not report it.
#[must_use]
pub fn left() -> Option<u64> {
    let swap = host("SwapFree:").unwrap_or(0);
    let host = host("MemAvailable:").map(|available| available.saturating_add(swap));
    let groups = control_group::of("memory").into_iter();
    let least = groups.filter_map(|group| left_in(&group, swap)).chain(host).min()?;
    Some(least.saturating_sub(MARGIN.min(most()? / 64)))
}

/// Returns the number of bytes that this process can take at present without swapping, with no
/// margin; `None` if the kernel does not report it.
#[doc(hidden)]
#[must_use]
pub fn left_unswapped() -> Option<u64> {
    let groups = control_group::of("memory").into_iter();
    groups.filter_map(|group| left_in(&group, 0)).chain(host("MemAvailable:")).min()
}

/// Returns the least limit of the control groups in bytes; `None` if none has a limit.
#[doc(hidden)]
#[must_use]
pub fn limit() -> Option<u64> {
    control_group::of("memory").iter().filter_map(limit_of).min()
}

/// Returns the limit of a group in bytes; `None` if it has no limit ("max" in version 2, a number
/// near 2^63 in version 1).
fn limit_of(group: &Group) -> Option<u64> {
    let file = if group.version() == 2 { "memory.max" } else { "memory.limit_in_bytes" };
    group.number(file).filter(|&limit| limit < 1 << 62)
}

/// Returns the number of bytes that the limit of a group leaves, on a host with this free swap.
fn left_in(group: &Group, swap: u64) -> Option<u64> {
    let limit = limit_of(group)?;
    let file = if group.version() == 2 { "memory.current" } else { "memory.usage_in_bytes" };
    let held = group.number(file).unwrap_or(0);
    let used = held.saturating_sub(droppable(&group.text("memory.stat").unwrap_or_default()));
    Some(limit.saturating_sub(used).saturating_add(swap_of(group, swap)))
}

/// Returns the number of bytes that a group may swap out. In version 1, where one limit covers
/// memory and swap together, the result is 0.
fn swap_of(group: &Group, host: u64) -> u64 {
    if group.version() != 2 || host == 0 {
        return 0;
    }
    match (group.number("memory.swap.max"), group.number("memory.swap.current")) {
        (Some(most), Some(current)) => host.min(most.saturating_sub(current)),
        (None, Some(_)) => host,
        _ => 0,
    }
}

/// Returns the page cache of a group and those below it, from a `memory.stat` of either version.
fn droppable(statistics: &str) -> u64 {
    // In version 1, the names without a prefix are of this group alone.
    let of = |name: &str| {
        field(statistics, &format!("total_{name}")).or_else(|| field(statistics, name)).unwrap_or(0)
    };
    of("inactive_file ") + of("active_file ")
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
    fn page_cache_can_be_dropped() {
        let first = "cache 5\ninactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 40\n";
        assert_eq!(droppable(first), 70);
        assert_eq!(droppable("anon 9\ninactive_file 1\nactive_file 2\n"), 3);
        assert_eq!(droppable(""), 0);
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
        let group = Group::in_folder(folder.path(), version);
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
        assert_eq!((limit_of(&two), left_in(&two, 50)), (Some(1000), Some(200)));
        let swap = [
            ("memory.max", "1000"),
            ("memory.current", "900"),
            ("memory.swap.max", "30"),
            ("memory.swap.current", "10"),
        ];
        assert_eq!(left_in(&group(2, &swap).1, 50), Some(120));
        assert_eq!(left_in(&group(2, &[("memory.max", "max\n")]).1, 0), None);
        let stat = "active_file 1\ntotal_active_file 70\ntotal_inactive_file 30\n";
        let one = [
            ("memory.limit_in_bytes", "1000"),
            ("memory.usage_in_bytes", "900"),
            ("memory.stat", stat),
        ];
        assert_eq!(left_in(&group(1, &one).1, 50), Some(200));
        assert_eq!(
            limit_of(&group(1, &[("memory.limit_in_bytes", "9223372036854771712")]).1),
            None
        );
    }
}

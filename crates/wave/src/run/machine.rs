//! What a plan has to know of the machine: its cache, and the rate of a disk.

use syncline_store::direct_io::DirectFile;
use syncline_store::placement::StridedRun;

use crate::Result;

/// The number of bytes that are read to measure the rate of the disk.
const PROBE: u64 = 16 << 20;

/// Returns the bytes of a core's second-level cache, as the kernel reports it; otherwise a small
/// guess.
pub(crate) fn cache_bytes() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let kibibytes = text.ok().and_then(|t| t.trim().strip_suffix('K')?.parse::<u64>().ok());
    kibibytes.map_or(512 << 10, |k| (k << 10).clamp(256 << 10, 4 << 20))
}

/// Returns the bytes per second of the disk, measured by a short read, in at most half of the
/// memory.
pub(crate) fn rate_of(file: &DirectFile, start: u64, memory: u64) -> Result<f64> {
    let len = file.len()?.saturating_sub(start).min(memory / 2).min(PROBE) as usize;
    let range = StridedRun { start: start as usize, len, pitch: len, count: 1 };
    Ok(syncline_store::probe::read(file, range)?.rate())
}

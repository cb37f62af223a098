//! The disk of a folder, as a sweep over matrices in that folder finds it.
//!
//! Cost: an unnamed scratch file of [`SCRATCH`] bytes is written and read once.

use std::fs;
use std::path::Path;

use rustix::fs::XattrFlags;
use syncline_common::units::Bytes;
use syncline_store::probe::{Pattern, Sample, Scratch, Way};

use super::Check;
use super::machine::read;
use crate::error::Error;

const PART: &str = "disk";

/// Sufficient for several pieces of 8 MiB in flight.
const SCRATCH: u64 = 32 << 20;

/// The length of the longest mark of a result.
const MARK: [u8; 160] = [b'-'; 160];

pub(super) fn checks(dir: &Path) -> Result<Vec<Check>, Error> {
    let failed = |source: std::io::Error| Error::Io {
        what: format!("look at the folder {}", dir.display()),
        source,
    };
    let path = &fs::canonicalize(dir).map_err(failed)?;
    let (dir, holds) = match path.parent() {
        Some(parent) if !path.is_dir() => (parent, format!(" (the folder of {})", name_of(path))),
        _ => (path.as_path(), String::new()),
    };
    let stat = rustix::fs::statvfs(dir).map_err(|error| failed(error.into()))?;
    let (free, all) =
        (stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize));
    let kind = kind(&read("/proc/self/mountinfo").unwrap_or_default(), dir)
        .unwrap_or_else(|| "file system".to_owned());
    let folder = format!("{}{holds}: {kind}", dir.display());
    // For example /proc, or a folder of another user. Nothing more can be checked there.
    if let Err(why) = tempfile::tempfile_in(dir) {
        let found = format!("{folder}; no file can be made here: {}", reason(&why));
        return Ok(vec![Check::fine(PART, "folder", found).advise(
            true,
            "no result can be written here, and nothing can be measured: `syncline doctor DIR` looks at another folder",
        )]);
    }
    // Some file systems in memory report no size.
    if all == 0 {
        let mut checks = vec![Check::fine(
            PART,
            "folder",
            format!("{folder}, which does not tell how much is free"),
        )];
        checks.extend(looked_at(dir));
        return Ok(checks);
    }
    let room = format!("{folder}, {} of {} free", Bytes(free), Bytes(all));
    let mut checks = vec![Check::fine(PART, "folder", room).advise(
        free < 2 * SCRATCH,
        "hardly any room: a run of several passes takes that of two results, --verify that of one more",
    )];
    if free < 2 * SCRATCH {
        return Ok(checks);
    }
    checks.extend(looked_at(dir));
    Ok(checks)
}

/// Checks a folder in which files can be created.
fn looked_at(dir: &Path) -> Vec<Check> {
    let mut checks = match Scratch::create(dir, SCRATCH) {
        Ok(scratch) => measured(scratch).into(),
        Err(why) => vec![Check::fine(PART, "speed", format!("not measured: {why}")).advise(
            true,
            "no result can be written here: `syncline doctor DIR` looks at another folder",
        )],
    };
    checks.push(attributes(dir));
    checks
}

/// Returns the last component of a path.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the reason without the path, which the line already contains.
fn reason(why: &std::io::Error) -> String {
    let why = why.to_string();
    why.split(" at path ").next().unwrap_or_default().to_owned()
}

/// Checks the speed, and direct I/O.
fn measured(mut scratch: Scratch) -> [Check; 2] {
    let lacks = scratch.lacks(Way::Direct);
    let way = if lacks.is_none() { Way::Direct } else { Way::Mapped };
    let mut rate = |pattern| {
        Some(Bytes(scratch.measure(pattern, way).as_ref().map(Sample::rate).ok()? as u64))
    };
    let speed = match (rate(Pattern::Read), rate(Pattern::Write)) {
        (Some(read), Some(write)) => {
            let size = Bytes(SCRATCH);
            format!(
                "reads {read}/s, writes {write}/s, a file of {size}; `syncline probe disk` measures at length"
            )
        }
        _ => "not measured: a request failed".to_owned(),
    };
    let direct = match lacks {
        None => Check::fine(PART, "direct I/O", "there: streamed sweeps bypass the page cache"),
        Some(why) => Check::fine(PART, "direct I/O", format!("not there: {why}")).advise(
            true,
            "streamed sweeps go through the page cache, which takes memory beside --memory and copies once more: keep \
             large matrices on a disk of this machine (ext4, xfs)",
        ),
    };
    [Check::fine(PART, "speed", speed), direct]
}

/// Checks whether a file can be marked as a complete result.
fn attributes(dir: &Path) -> Check {
    let marked = tempfile::tempfile_in(dir).and_then(|file| {
        Ok(rustix::fs::fsetxattr(&file, "user.syncline.doctor", &MARK, XattrFlags::empty())?)
    });
    match marked {
        Ok(()) => Check::fine(PART, "attributes", "there: a complete result is known by its mark"),
        Err(why) => Check::fine(PART, "attributes", format!("not there: {why}")).advise(
            true,
            "a complete result cannot be marked: --resume computes it again; mount with user_xattr, or keep results elsewhere",
        ),
    }
}

/// Returns the type of the file system of a folder, from `/proc/self/mountinfo`.
fn kind(mounts: &str, dir: &Path) -> Option<String> {
    // Of the deepest mounts, the last one is visible.
    let of_line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let point = Path::new(before.split(' ').nth(4)?);
        let kind = after.split(' ').next()?.to_owned();
        dir.starts_with(point).then(|| (point.components().count(), kind))
    };
    mounts.lines().filter_map(of_line).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_is_the_file_system() {
        let mounts = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      22 21 0:20 / /dev/shm rw - tmpfs tmpfs rw\n\
                      nonsense\n\
                      23 21 0:21 / /scratch rw - xfs /dev/vdb rw\n\
                      24 21 0:22 / /scratch rw - btrfs /dev/vdc rw";
        let of = |dir| kind(mounts, Path::new(dir)).unwrap();
        assert_eq!(
            [of("/"), of("/home"), of("/dev/shm/x"), of("/scratch/a/b"), of("/scratches")],
            ["ext4", "ext4", "tmpfs", "btrfs", "ext4"]
        );
        assert_eq!(kind("", Path::new("/")), None);
    }
}

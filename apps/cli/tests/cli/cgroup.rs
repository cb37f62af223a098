//! A memory control group around the command: the kernel as the witness of what it takes.
//!
//! A group counts anonymous memory, the page cache that its processes bring in, and what the kernel
//! needs for them. At its limit it drops page cache; when nothing is left to drop, it kills. So a
//! run that survives has kept to the limit with all that cannot be dropped, whatever it says
//! itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A control group of its own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    /// The files of either version.
    files: &'static Files,
}

/// What a version calls its files.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    /// Memory and swap together, or swap alone, and what is to stand there without swap.
    swap: &'static str,
    /// Kills, as a line `oom_kill N`.
    events: &'static str,
    /// Memory and swap together are limited, not swap alone.
    together: bool,
}

const FIRST: Files = Files {
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    events: "memory.oom_control",
    together: true,
};
const SECOND: Files = Files {
    limit: "memory.max",
    swap: "memory.swap.max",
    events: "memory.events",
    together: false,
};

impl Group {
    /// A group with a limit in bytes, and without swap.
    ///
    /// # Errors
    /// Why there can be none.
    pub(crate) fn new(limit: u64) -> Result<Self, String> {
        let mut why = "there is no memory controller".to_owned();
        for (parent, files) in parents() {
            match Self::below(&parent, files, limit) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("{}: {error}", parent.display()),
            }
        }
        Err(format!("no memory control group can be made: {why}"))
    }

    fn below(parent: &Path, files: &'static Files, limit: u64) -> io::Result<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only the number counts.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("syncline-test.{}.{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Self { folder, files };
        group.write(files.limit, limit)?;
        let swap = if files.together { limit } else { 0 };
        let swaps = fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1);
        match group.write(files.swap, swap) {
            Err(error) if swaps => return Err(error),
            _ => {}
        }
        Ok(group)
    }

    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        // As `fs::write`, but a file that is not there is none of a control group.
        let mut file = fs::OpenOptions::new().write(true).open(self.folder.join(file))?;
        io::Write::write_all(&mut file, value.to_string().as_bytes())
    }

    /// Runs a command inside.
    pub(crate) fn run(&self, command: &Command) -> io::Result<Output> {
        // A process joins itself before it becomes the command, so that nothing of it counts
        // elsewhere.
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo 0 >\"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.folder);
        inside.arg(command.get_program()).args(command.get_args());
        command.get_current_dir().map(|folder| inside.current_dir(folder));
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(variable, value),
                None => inside.env_remove(variable),
            };
        }
        inside.output()
    }

    /// How many processes the kernel has killed for want of memory.
    pub(crate) fn kills(&self) -> u64 {
        let events = fs::read_to_string(self.folder.join(self.files.events)).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        events.lines().find_map(count).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is still busy stays until the machine is started anew, and does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where a group may be made: in our own group, or in one above it.
fn parents() -> Vec<(PathBuf, &'static Files)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, files) = match controllers {
            "" => ("/sys/fs/cgroup", &SECOND),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", &FIRST)
            }
            _ => return None,
        };
        let above = Path::new(path.trim_start_matches('/')).ancestors();
        Some(above.map(|group| (Path::new(root).join(group), files)).collect::<Vec<_>>())
    };
    groups.lines().filter_map(of_line).flatten().collect()
}

/// What the kernel needs for the command besides, at most: page tables of all that it has mapped, a
/// stack for each thread.
pub(crate) const fn of_the_kernel(bound: u64, threads: u64) -> u64 {
    (2 << 20) + bound / 256 + threads * (20 << 10)
}

/// Why a control group is no witness for files in this folder, if so.
pub(crate) fn unfit(folder: &Path) -> Option<String> {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    let kind = rustix::fs::statfs(folder).ok()?.f_type as i64;
    [TMPFS, RAMFS].contains(&kind).then(|| {
        format!(
            "files of {} are in memory, and count in the group that writes them",
            folder.display()
        )
    })
}

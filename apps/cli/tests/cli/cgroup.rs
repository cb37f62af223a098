//! A memory control group around the command: the kernel's measure of its memory.
//!
//! A group counts anonymous memory, the page cache that its processes bring in, and the kernel's
//! memory for them. At its limit the kernel drops page cache; when none is left, it kills. A run
//! that survives has therefore kept to the limit with all memory that cannot be dropped, whatever
//! its own report says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A control group, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    /// The file names of the group's version.
    files: &'static Files,
}

/// The file names of a cgroup version.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    /// The file for memory and swap together, or for swap alone, and its value for no swap.
    swap: &'static str,
    /// The file with the number of kills, as a line `oom_kill N`.
    events: &'static str,
    /// Whether memory and swap are limited together, not swap alone.
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
    /// Creates a group with a limit in bytes, and without swap.
    ///
    /// # Errors
    /// The reason why no group can be created.
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
        // Relaxed: only the number matters.
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
        // Like `fs::write`, but it must not create a file, which a control group does not have.
        let mut file = fs::OpenOptions::new().write(true).open(self.folder.join(file))?;
        io::Write::write_all(&mut file, value.to_string().as_bytes())
    }

    /// Runs a command inside the group.
    pub(crate) fn run(&self, command: &Command) -> io::Result<Output> {
        // A shell joins the group before it becomes the command, so that all of the command's
        // memory counts.
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

    /// Returns the number of processes that the kernel has killed for lack of memory.
    pub(crate) fn kills(&self) -> u64 {
        let events = fs::read_to_string(self.folder.join(self.files.events)).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
        events.lines().find_map(count).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A busy group stays until the next boot, and does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns the places where a group may be created: in this process's group, or in one above it.
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

/// Returns the most memory that the kernel needs for the command: page tables of all mappings, and
/// a stack for each thread.
pub(crate) const fn of_the_kernel(bound: u64, threads: u64) -> u64 {
    (2 << 20) + bound / 256 + threads * (20 << 10)
}

/// Returns the reason why a control group cannot measure files in this folder, if there is one.
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

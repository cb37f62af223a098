//! The control groups of this process, of both versions.
//!
//! # Contract
//! A limit of a group holds for all groups below it. So [`of`] returns the group of this process
//! for a controller and all its ancestors, and a bound on the process is the minimum over them. A
//! file that does not exist, or that says `max`, is no number and imposes no limit.
//!
//! # Source
//! Linux, `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1`; the file `/proc/self/cgroup`:
//! cgroups(7).

use std::fs;
use std::path::{Path, PathBuf};

/// A control group.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    version: u8,
}

impl Group {
    /// Returns the version of its hierarchy: 1 or 2.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Returns the content of one of its files, without the line break.
    #[must_use]
    pub fn text(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.folder.join(file)).ok()?.trim().to_owned())
    }

    /// Returns the number in one of its files.
    #[must_use]
    pub fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.parse().ok()
    }

    /// Returns the group of a folder, which holds what a test has written.
    #[cfg(test)]
    pub(crate) fn in_folder(folder: &Path, version: u8) -> Self {
        Self { folder: folder.to_owned(), version }
    }
}

/// Returns the control groups of this process for a controller, such as `memory`, and all their
/// ancestors. In a container the path may be that of the host; the files of the ancestors then
/// still describe this process's groups.
#[must_use]
pub fn of(controller: &str) -> Vec<Group> {
    named(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), controller)
}

/// Returns the control groups that a text like `/proc/self/cgroup` names (in each line
/// `NUMBER:CONTROLLERS:PATH`), with all their ancestors.
fn named(text: &str, controller: &str) -> Vec<Group> {
    let groups = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let root = Path::new("/sys/fs/cgroup");
        let (root, version) = match controllers {
            "" => (root.to_owned(), 2),
            _ if controllers.split(',').any(|name| name == controller) => {
                (root.join(controller), 1)
            }
            _ => return None,
        };
        let ancestors = Path::new(path.trim_start_matches('/')).ancestors();
        let group = |path: &Path| Group { folder: root.join(path), version };
        Some(ancestors.map(group).collect::<Vec<_>>())
    };
    text.lines().filter_map(groups).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ancestors_of_a_group_count() {
        let folders = |text: &str, controller: &str| -> Vec<_> {
            let groups = named(text, controller).into_iter();
            groups.map(|group| (group.folder, group.version)).collect()
        };
        let root = Path::new("/sys/fs/cgroup");
        let second = ["a/b/c", "a/b", "a", ""].map(|path| (root.join(path), 2));
        assert_eq!(folders("0::/a/b/c\n", "memory"), second);
        let first = ["memory/d", "memory"].map(|path| (root.join(path), 1));
        assert_eq!(folders("5:cpu:/e\n4:hugetlb,memory:/d\n", "memory"), first);
        let cpu = ["cpu/e", "cpu"].map(|path| (root.join(path), 1));
        assert_eq!(folders("5:cpu,cpuacct:/e\n4:hugetlb,memory:/d\n", "cpu"), cpu);
        assert_eq!(folders("3:cpuacct:/x\nnonsense\n", "cpu"), []);
    }
}

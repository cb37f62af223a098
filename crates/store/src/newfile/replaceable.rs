//! Whether the last step of a computation can replace or remove what has a name.
//!
//! # Contract
//! The answer is known before the computation, by the rules of Linux:
//!
//! | what has the name, or its folder                | cannot be replaced                       |
//! |-------------------------------------------------|------------------------------------------|
//! | is in a sticky folder, such as `/tmp`           | unless this user is root or owns a part  |
//! | is immutable or append-only (`chattr`)          | by any user                              |
//! | is the place where a file system is mounted     | by any user                              |
//! | is a folder: one inside it is not writable      | by this user: its files are removed      |
//! | is a folder: one inside it is sticky            | as in the first line                     |
//!
//! A link is looked at itself, not what it leads to. The right to write to the folder that has the
//! name is not looked at here.
//!
//! # Costs
//! A few calls of the system; for a folder, those that read all folders in it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags, access, statx};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::folder;
use crate::{Error, Result};

/// Checks that this user can replace or remove what has the path. Nothing there is no error.
///
/// ```
/// use syncline_store::newfile::check_replaceable;
/// # let folder = tempfile::tempdir()?;
/// check_replaceable(&folder.path().join("new.npy"))?;
/// let error = check_replaceable("/proc".as_ref()).unwrap_err().to_string();
/// assert!(error.ends_with("/proc cannot be replaced: a file system is mounted there"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Output`], which names the path and the reason, by the table of this module.
pub fn check_replaceable(path: &Path) -> Result<()> {
    let checked = match fs::symlink_metadata(path) {
        Ok(found) => check(path, &found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    checked.map_err(|why| Error::Output {
        path: path.to_owned(),
        why: format!("cannot be replaced: {why}"),
    })
}

fn check(path: &Path, found: &Metadata) -> Result<(), String> {
    let home = folder(path);
    let of_home = fs::metadata(home).map_err(|error| format!("{}: {error}", home.display()))?;
    if keeps(&of_home, found) {
        let home = home.display();
        return Err(format!("it belongs to another user, and its folder {home} is sticky"));
    }
    if is_mounted(path, &of_home, found) {
        return Err("a file system is mounted there".to_owned());
    }
    let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    if has_attribute(path, AtFlags::SYMLINK_NOFOLLOW, fixed) {
        return Err("it is immutable or append-only (chattr)".to_owned());
    }
    if has_attribute(home, AtFlags::empty(), fixed) {
        let home = home.display();
        return Err(format!("its folder {home} is immutable or append-only (chattr)"));
    }
    if found.is_dir() { check_inside(path) } else { Ok(()) }
}

/// Checks that all that is in a folder can be removed. What another process removes meanwhile is no
/// obstacle.
fn check_inside(path: &Path) -> Result<(), String> {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        match check_one(&folder, &mut folders) {
            Err(Obstacle::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(Obstacle::Io(error)) => return Err(format!("{}: {error}", folder.display())),
            Err(Obstacle::Is(why)) => return Err(why),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// What keeps a folder from being removed, or from being looked at.
enum Obstacle {
    Is(String),
    Io(io::Error),
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Obstacle {
        Obstacle::Io(error)
    }
}

/// Checks that a folder's entries can be removed, and adds its folders to others.
fn check_one(folder: &Path, folders: &mut Vec<PathBuf>) -> Result<(), Obstacle> {
    match access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Err(Errno::NOENT) | Ok(()) => {}
        Err(error) => {
            let folder = folder.display();
            return Err(Obstacle::Is(format!("{folder} may not be written to: {error}")));
        }
    }
    let of_folder = fs::metadata(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
        if is_sticky(of_folder.mode())
            && entry.metadata().is_ok_and(|entry| keeps(&of_folder, &entry))
        {
            let entry = entry.path();
            let entry = entry.display();
            let why = format!("{entry} belongs to another user, and its folder is sticky");
            return Err(Obstacle::Is(why));
        }
    }
    Ok(())
}

/// Returns whether the mode of a folder keeps this user from renaming or removing an entry.
fn keeps(folder: &Metadata, entry: &Metadata) -> bool {
    is_kept_for_its_owner(folder.mode(), (folder.uid(), entry.uid()), geteuid().as_raw())
}

/// Returns whether a folder of this mode lets `user` not rename or remove a file. `owners` are
/// those of the folder and of the file.
const fn is_kept_for_its_owner(mode: u32, owners: (u32, u32), user: u32) -> bool {
    is_sticky(mode) && user != 0 && user != owners.0 && user != owners.1
}

const fn is_sticky(mode: u32) -> bool {
    mode & 0o1000 != 0
}

/// Returns whether a path is the place where a file system is mounted.
fn is_mounted(path: &Path, folder: &Metadata, found: &Metadata) -> bool {
    let mounted = StatxAttributes::MOUNT_ROOT;
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty()) {
        Ok(known) if known.stx_attributes_mask.contains(mounted) => {
            known.stx_attributes.contains(mounted)
        }
        // Before Linux 5.8. Files of overlays may have another device than their folder.
        _ => found.is_dir() && found.dev() != folder.dev(),
    }
}

/// Returns whether a file or folder is known to have one of these attributes. `link` says whether a
/// link is followed.
fn has_attribute(path: &Path, link: AtFlags, attributes: StatxAttributes) -> bool {
    statx(CWD, path, link, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.intersects(attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sticky_folder_keeps_files_of_other_users() {
        let (sticky, plain, mine, other, root) = (0o1777, 0o777, 1000, 1001, 0);
        for (mode, owners, user, is_kept) in [
            (sticky, (root, other), mine, true),
            (sticky, (other, root), mine, true),
            (sticky, (root, mine), mine, false),
            (sticky, (mine, other), mine, false),
            (sticky, (other, other), root, false),
            (plain, (root, other), mine, false),
        ] {
            assert_eq!(is_kept_for_its_owner(mode, owners, user), is_kept, "{owners:?} {user}");
        }
    }

    #[test]
    fn what_can_be_replaced_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("o.zarr/c/0")).unwrap();
        fs::write(at("o.zarr/c/0/1"), "a chunk").unwrap();
        fs::write(at("file"), "").unwrap();
        // A link, itself.
        std::os::unix::fs::symlink("/proc", at("link")).unwrap();
        for name in ["o.zarr", "file", "link", "nothing"] {
            check_replaceable(&at(name)).unwrap();
        }
    }

    #[test]
    fn what_is_removed_meanwhile_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o.zarr");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    fs::create_dir_all(path.join("c/0")).unwrap();
                    fs::write(path.join("c/0/1"), "a chunk").unwrap();
                    fs::remove_dir_all(&path).unwrap();
                }
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                check_replaceable(&path).unwrap();
            }
        });
    }

    #[test]
    fn a_folder_that_holds_one_that_may_not_be_written_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("o.zarr/c");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(inner.join("probe"), "").is_ok() {
            println!("skipped: this user may write to any folder");
            return;
        }
        let error = check_replaceable(&folder.path().join("o.zarr")).unwrap_err().to_string();
        assert!(error.contains("o.zarr/c may not be written to"), "{error}");
    }
}

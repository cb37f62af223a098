//! The names of complete results that cannot get their own.
//!
//! # Contract
//! No file is replaced. A result gets the first of these names that it can get:
//!
//! | name               | fails, for example,                          |
//! |--------------------|----------------------------------------------|
//! | `NAME.PID.EXT`     | if an earlier result has it                  |
//! | `NAME.PID.N.EXT`   | in a folder to which files can only be added |
//! | `.NAME.PID.N.part` | if the file never had this name              |

use std::io;
use std::path::{Path, PathBuf};

use super::rename_new;

/// The number of names that are tried.
const NAMES: u32 = 100;

/// Renames a complete file that cannot get the name `target` to another one beside `target`, on the
/// same file system. Returns the name; `None` if the file stays where it is.
///
/// ```
/// use syncline_store::newfile::keep_file;
/// # let folder = tempfile::tempdir()?;
/// let (file, target) = (folder.path().join("done"), folder.path().join("u.npy"));
/// std::fs::write(&file, "a result")?;
/// let kept = keep_file(&file, &target).unwrap();
/// assert_eq!(kept, folder.path().join(format!("u.npy.{}.npy", std::process::id())));
/// assert_eq!(std::fs::read(kept)?, b"a result");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn keep_file(file: &Path, target: &Path) -> Option<PathBuf> {
    kept_under(target, |kept| rename_new(file, kept))
}

/// Gives a result that cannot get the name `target` another one by `name`, which must not replace a
/// file. Returns the name.
pub(super) fn kept_under(target: &Path, name: impl Fn(&Path) -> io::Result<()>) -> Option<PathBuf> {
    for n in 0..NAMES {
        let kept = kept_name(target, n);
        match name(&kept) {
            Ok(()) => return Some(kept),
            // An earlier result of this process, or of another one of this number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

/// Returns the `n`th name of a result that cannot get the name `target`.
fn kept_name(target: &Path, n: u32) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    if n > 0 {
        name.push(format!(".{n}"));
    }
    if let Some(ending) = target.extension() {
        name.push(".");
        name.push(ending);
    }
    name.into()
}

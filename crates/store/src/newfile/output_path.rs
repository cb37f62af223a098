//! The rule for the name of an output: which path is written for it, and which is refused.
//!
//! # Contract
//! The rule is the same for the command, for Python and for any other caller. It is applied before
//! a computation begins, and needs nothing but the file system.
//!
//! | at the path                                  | result                                    |
//! |----------------------------------------------|-------------------------------------------|
//! | nothing, in a folder that may be written to  | the path                                  |
//! | a file (for a folder of files: a folder)     | the path; its replacement is the caller's |
//! | a link to one of these                       | what it leads to; so the link stays       |
//! | a link to nothing                            | error                                     |
//! | an input, by any name                        | error                                     |
//! | a folder that holds an input, or lies in one | error                                     |
//! | a file of another kind, a device, a socket   | error                                     |
//! | a name of over 200 bytes                     | error: temporary names are made of it     |
//! | a file with a `/` or `/.` at its end         | error: a folder is named so               |
//! | what cannot be replaced at the end           | error: see [`check_replaceable`]          |
//!
//! Several outputs of one computation get their names together, so each is a file of its own, and
//! all are in one folder ([`check_together`]).
//!
//! # Costs
//! A few calls of the system for each input, and those of [`check_replaceable`].

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::{check_replaceable, folder};
use crate::{Error, Result};

/// The length of the longest name of an output, in bytes.
const LONGEST_NAME: usize = 200;

/// The rule for several outputs.
const TOGETHER: &str = "each field has a file of its own, and all are in one folder, in which they \
                        get their names together";

/// What an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// A regular file.
    File,
    /// A folder of files, such as a `.zarr`.
    Folder,
}

/// Returns the path to which an output is written: `path`, or what it leads to if it is a link.
///
/// `inputs` are the files and folders that the computation reads. An output that exists is no
/// error: whether it may be replaced is the decision of the caller.
///
/// ```
/// use syncline_store::newfile::{OutputKind, output_path};
/// # let folder = tempfile::tempdir()?;
/// let (field, link) = (folder.path().join("u.npy"), folder.path().join("link.npy"));
/// std::fs::write(&field, "an input")?;
/// std::os::unix::fs::symlink(&field, &link)?;
/// let error = output_path(&link, OutputKind::File, &[field.clone()]).unwrap_err();
/// assert!(error.to_string().contains("is the input"));
/// assert_eq!(output_path(&link, OutputKind::File, &[])?, field.canonicalize()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Output`], which names the output and the reason, by the table of this module.
pub fn output_path(path: &Path, kind: OutputKind, inputs: &[PathBuf]) -> Result<PathBuf> {
    let refuse = |why: String| Error::Output { path: path.to_owned(), why };
    let cannot = |error: io::Error| refuse(format!("cannot be written: {error}"));
    let ends = |end: &str| path.as_os_str().as_bytes().ends_with(end.as_bytes());
    if kind == OutputKind::File && (ends("/") || ends("/.")) {
        return Err(refuse("is the name of a folder, not of a file".to_owned()));
    }
    let found = match fs::metadata(path) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.is_symlink() {
                return Err(refuse("is a link to nothing".to_owned()));
            }
            None
        }
        Err(error) => return Err(cannot(error)),
    };
    // The target of a link is replaced, not the link.
    let target = match path.is_symlink() {
        true => fs::canonicalize(path).map_err(cannot)?,
        false => path.to_owned(),
    };
    check_folder(&target).map_err(refuse)?;
    for input in inputs {
        check_input(&target, found.as_ref(), input).map_err(refuse)?;
    }
    match (kind, &found) {
        (OutputKind::File, Some(found)) if found.is_dir() => {
            return Err(refuse("is a directory".into()));
        }
        (OutputKind::File, Some(found)) if !found.is_file() => {
            return Err(refuse("is no regular file".into()));
        }
        (OutputKind::Folder, Some(found)) if !found.is_dir() => {
            return Err(refuse("is no directory".into()));
        }
        _ => {}
    }
    check_replaceable(&target).map_err(|error| match error {
        Error::Output { why, .. } => refuse(why),
        other => other,
    })?;
    Ok(target)
}

/// Checks that a file can be created at a path: its folder exists and may be written to, and the
/// name is not too long.
fn check_folder(path: &Path) -> Result<(), String> {
    let length = path.file_name().map_or(0, OsStr::len);
    if length == 0 {
        return Err("has no name".to_owned());
    }
    if length > LONGEST_NAME {
        return Err(format!("has a name of {length} bytes, more than {LONGEST_NAME}"));
    }
    let folder = folder(path);
    if !folder.is_dir() {
        return Err(format!("cannot be written: there is no folder {}", folder.display()));
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let error = io::Error::from(error);
        format!("cannot be written: its folder {}: {error}", folder.display())
    })
}

/// Checks that the outputs of one computation can get their names together: all are in one folder,
/// under any name of the folder, and each is another file. The paths are those that [`output_path`]
/// returns.
///
/// ```
/// use syncline_store::newfile::check_together;
/// # let folder = tempfile::tempdir()?;
/// # let home = folder.path();
/// std::fs::create_dir(home.join("other"))?;
/// check_together(&[home.join("u.npy"), home.join("other/../f.npy")])?;
/// let error = check_together(&[home.join("u.npy"), home.join("other/f.npy")]).unwrap_err();
/// assert!(error.to_string().contains("is not in the folder of the output"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Output`], which names two outputs.
pub fn check_together(paths: &[impl AsRef<Path>]) -> Result<()> {
    let place = |path: &Path| {
        let folder = folder(path);
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        (folder, path.file_name().map(OsStr::to_owned))
    };
    let places: Vec<_> = paths.iter().map(|path| place(path.as_ref())).collect();
    for (n, path) in paths.iter().enumerate() {
        let refuse = |other: usize, how: &str| {
            let (path, other) = (path.as_ref().to_owned(), paths[other].as_ref().display());
            Err(Error::Output { path, why: format!("{how} the output {other}: {TOGETHER}") })
        };
        if let Some(same) = places[..n].iter().position(|place| *place == places[n]) {
            return refuse(same, "is the same file as");
        }
        if places[n].0 != places[0].0 {
            return refuse(0, "is not in the folder of");
        }
    }
    Ok(())
}

/// Checks that an output is not an input, does not hold it, and does not lie in it.
fn check_input(output: &Path, found: Option<&Metadata>, input: &Path) -> Result<(), String> {
    let told =
        |how: &str| Err(format!("{how} the input {}, which is never overwritten", input.display()));
    if found.is_some_and(|found| is_same_file(input, found)) {
        return told("is");
    }
    let (Ok(input), Ok(folder)) = (fs::canonicalize(input), fs::canonicalize(folder(output)))
    else {
        // An input that is not there is an error of its reader.
        return Ok(());
    };
    let output = folder.join(output.file_name().unwrap_or_default());
    if input.starts_with(&output) {
        return told("holds");
    }
    if output.starts_with(&input) {
        return told("lies in");
    }
    Ok(())
}

/// Returns whether `path` is the file `found`, under any name.
fn is_same_file(path: &Path, found: &Metadata) -> bool {
    fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the reason of a refusal.
    fn refused(path: &Path, kind: OutputKind, inputs: &[PathBuf]) -> String {
        match output_path(path, kind, inputs) {
            Err(Error::Output { why, .. }) => why,
            other => panic!("{}: {other:?}", path.display()),
        }
    }

    #[test]
    fn files_and_links_to_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let at = |name: &str| home.join(name);
        fs::create_dir(at("scratch")).unwrap();
        fs::write(at("scratch/old"), "old").unwrap();
        symlink("scratch/old", at("one")).unwrap();
        symlink("one", at("two")).unwrap();
        symlink("scratch", at("folder")).unwrap();
        for (name, written) in [
            ("new", "new"),
            ("scratch/old", "scratch/old"),
            ("one", "scratch/old"),
            ("two", "scratch/old"),
            ("folder/new", "folder/new"),
        ] {
            let found = output_path(&at(name), OutputKind::File, &[at("absent")]).unwrap();
            assert_eq!(found, at(written), "{name}");
        }
        let found = output_path(&at("folder"), OutputKind::Folder, &[]).unwrap();
        assert_eq!(found, at("scratch"));
    }

    #[test]
    fn what_cannot_be_written_or_must_stay_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for store in ["in.zarr", "in.zarr/h", "out.zarr"] {
            fs::create_dir(at(store)).unwrap();
        }
        fs::write(at("u.npy"), "u").unwrap();
        fs::hard_link(at("u.npy"), at("same.npy")).unwrap();
        symlink("u.npy", at("link.npy")).unwrap();
        symlink("nothing", at("dangling.npy")).unwrap();
        symlink("circle.npy", at("circle.npy")).unwrap();
        let inputs = [at("u.npy"), at("in.zarr/h")];
        let long = "x".repeat(LONGEST_NAME + 1);
        for (name, kind, told) in [
            ("u.npy", OutputKind::File, "is the input"),
            ("same.npy", OutputKind::File, "is the input"),
            ("link.npy", OutputKind::File, "is the input"),
            ("in.zarr/../u.npy", OutputKind::File, "is the input"),
            ("in.zarr/h", OutputKind::Folder, "is the input"),
            ("in.zarr", OutputKind::Folder, "holds the input"),
            ("in.zarr/h/new.zarr", OutputKind::Folder, "lies in the input"),
            ("dangling.npy", OutputKind::File, "is a link to nothing"),
            ("circle.npy", OutputKind::File, "cannot be written"),
            ("out.zarr", OutputKind::File, "is a directory"),
            ("u.npy/new", OutputKind::File, "cannot be written"),
            ("absent/new.npy", OutputKind::File, "there is no folder"),
            (&long, OutputKind::File, "a name of 201 bytes"),
            ("new.npy/", OutputKind::File, "is the name of a folder"),
            ("new.npy/.", OutputKind::File, "is the name of a folder"),
        ] {
            let why = refused(&at(name), kind, &inputs);
            assert!(why.contains(told), "{name}: {why}");
        }
        assert_eq!(refused(&at("u.npy"), OutputKind::Folder, &[]), "is no directory");
        assert_eq!(refused(Path::new("/dev/null"), OutputKind::File, &[]), "is no regular file");
    }

    #[test]
    fn outputs_that_cannot_get_their_names_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("other")).unwrap();
        symlink(".", at("here")).unwrap();
        check_together(&[] as &[&Path]).unwrap();
        check_together(&[at("u"), at("here/f"), at("other/../g")]).unwrap();
        for (names, told) in [
            (["u", "f", "other/u"], "other/u is not in the folder of the output"),
            (["u", "f", "here/f"], "here/f is the same file as the output"),
        ] {
            let error = check_together(&names.map(at)).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_folder_that_may_not_be_written_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(folder.path().join("probe"), "").is_ok() {
            println!("skipped: this user may write to any folder");
            return;
        }
        let why = refused(&folder.path().join("new"), OutputKind::File, &[]);
        assert!(why.contains("cannot be written: its folder"), "{why}");
    }
}

use std::os::unix::fs::FileExt;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Creates a file as on a file system without O_TMPFILE.
fn create_named(target: &Path, bytes: u64) -> NewFile {
    let (file, part) = open_named(target).unwrap();
    let (target, part) = (target.to_owned(), Some(part));
    let new = NewFile { file, bytes, target, part, is_damaged: false };
    new.allocate().unwrap();
    new
}

#[test]
fn the_target_is_replaced_only_at_commit() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        std::fs::write(&target, b"old").unwrap();
        let new = create(&target, 3);
        new.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        new.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["out"]);
    }
}

#[test]
fn where_renaming_knows_no_flags() {
    for rename in [rename_by_link, rename_over_own] {
        let folder = tempfile::tempdir().unwrap();
        let (part, target) = (folder.path().join("part"), folder.path().join("target"));
        std::fs::write(&part, b"new").unwrap();
        rename(&part, &target).unwrap();
        assert!(!part.exists() && std::fs::read(&target).unwrap() == b"new");
        std::fs::write(&part, b"newer").unwrap();
        assert_eq!(rename(&part, &target).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(part.exists() && std::fs::read(&target).unwrap() == b"new");
        // Nothing remains of a part that cannot be renamed.
        std::fs::remove_file(&part).unwrap();
        std::fs::remove_file(&target).unwrap();
        assert_eq!(rename(&part, &target).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!target.exists());
    }
}

#[test]
fn permissions_stay_but_the_owner_can_always_write() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    for (old, expected) in [(0o600, 0o600), (0o664, 0o664), (0o444, 0o644), (0o000, 0o600)] {
        std::fs::write(&target, b"old").unwrap();
        std::fs::set_permissions(&target, Permissions::from_mode(old)).unwrap();
        let new = NewFile::create(&target, 1).unwrap();
        assert_eq!(new.file().metadata().unwrap().mode() & 0o777, expected, "{old:o}");
        new.commit().unwrap();
        assert_eq!(target.metadata().unwrap().mode() & 0o777, expected, "{old:o}");
    }
}

#[test]
fn a_result_that_cannot_get_its_name_is_kept() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.npy");
        let then = FileState::of(&target).unwrap();
        let new = create(&target, 3);
        new.file().write_all_at(b"new", 0).unwrap();
        std::fs::write(&target, b"of another program").unwrap();
        let Err(Error::Kept { kept, source }) = new.commit_over(&then) else { panic!() };
        assert!(matches!(*source, Error::Appeared { .. }), "{source}");
        assert_eq!(std::fs::read(&kept).unwrap(), b"new");
        assert_eq!(std::fs::read(&target).unwrap(), b"of another program");
        assert_eq!(names(folder.path()).len(), 2);
        // Even that name may be taken.
        let Err(Error::Kept { kept: second, .. }) = create(&target, 4).commit_over(&then) else {
            panic!()
        };
        assert_eq!(second.metadata().unwrap().len(), 4);
        assert!(second != kept && second.extension() == target.extension());
        assert_eq!(std::fs::read(&kept).unwrap(), b"new");
        assert_eq!(names(folder.path()).len(), 3);
    }
}

#[test]
fn a_result_is_kept_whatever_prevents_the_rename() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.npy");
        let new = create(&target, 3);
        new.file().write_all_at(b"new", 0).unwrap();
        std::fs::create_dir(&target).unwrap();
        let Err(Error::Kept { kept, source }) = new.commit() else { panic!() };
        assert!(matches!(*source, Error::File { action: "rename to", .. }), "{source}");
        assert_eq!(std::fs::read(&kept).unwrap(), b"new");
        assert_eq!(names(folder.path()).len(), 2);
    }
}

#[test]
fn a_file_whose_data_did_not_reach_the_disk_is_not_kept() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let mut new = create(&folder.path().join("out"), 3);
        new.is_damaged = true;
        assert!(matches!(new.commit(), Err(Error::File { action: "write", .. })));
        assert!(names(folder.path()).is_empty());
    }
}

/// Sets an attribute of a file or folder until it is dropped.
struct Attribute<'a>(&'a Path, &'static str);

impl<'a> Attribute<'a> {
    /// Returns `None` if this user or file system cannot set it.
    fn set(path: &'a Path, attribute: &'static str) -> Option<Self> {
        let set = Self(path, attribute);
        let is_set = set.change("+");
        if !is_set {
            println!("skipped: `chattr +{attribute}` fails for {}", path.display());
        }
        is_set.then_some(set)
    }

    fn change(&self, sign: &str) -> bool {
        let change = format!("{sign}{}", self.1);
        let done = std::process::Command::new("chattr").arg(change).arg(self.0).output();
        done.is_ok_and(|done| done.status.success())
    }
}

impl Drop for Attribute<'_> {
    fn drop(&mut self) {
        self.change("-");
    }
}

#[test]
fn an_immutable_target_is_refused_and_what_was_to_replace_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.npy");
    std::fs::write(&target, b"old").unwrap();
    let new = NewFile::create(&target, 3).unwrap();
    let Some(_set) = Attribute::set(&target, "i") else { return };
    let error = output_path(&target, OutputKind::File, &[]).unwrap_err().to_string();
    assert!(error.contains("immutable or append-only"), "{error}");
    let Err(Error::Kept { kept, .. }) = new.commit() else { panic!() };
    assert_eq!(kept.metadata().unwrap().len(), 3);
    assert_eq!(std::fs::read(&target).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
}

/// Names can be added to such a folder, but not changed.
#[test]
fn in_an_append_only_folder_the_error_names_what_is_left() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.npy");
        std::fs::write(&target, b"old").unwrap();
        let new = create(&target, 3);
        let Some(_set) = Attribute::set(folder.path(), "a") else { return };
        let error = output_path(&target, OutputKind::File, &[]).unwrap_err().to_string();
        assert!(error.contains("its folder"), "{error}");
        let Err(Error::Kept { kept, .. }) = new.commit() else { panic!() };
        assert_eq!(kept.metadata().unwrap().len(), 3);
        assert_eq!(names(folder.path()).len(), 2, "nothing is left that the error does not name");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(_set) = Attribute::set(folder.path(), "a") else { return };
    let target = output_path(&folder.path().join("new"), OutputKind::File, &[]).unwrap();
    NewFile::create(&target, 3).unwrap().commit().unwrap();
    assert_eq!(names(folder.path()), ["new"]);
}

#[test]
fn a_new_file_does_not_replace() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let (first, second) =
        (NewFile::create(&target, 1).unwrap(), NewFile::create(&target, 2).unwrap());
    first.commit_new().unwrap();
    assert!(second.commit_new().is_err());
    assert_eq!(std::fs::metadata(&target).unwrap().len(), 1);
    assert_eq!(names(folder.path()), ["out"]);
}

/// A file put at the name after the record stays; the recorded file is replaced, or may have
/// been removed.
#[test]
fn only_what_was_there_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let commit = |then: &FileState| NewFile::create(&target, 1).unwrap().commit_over(then);
    let nothing = FileState::of(&target).unwrap();
    std::fs::write(&target, b"by another").unwrap();
    // What was to replace it is kept.
    let refused = |then: &FileState| {
        let Err(Error::Kept { kept, source }) = commit(then) else { panic!("it was replaced") };
        assert!(matches!(*source, Error::Appeared { .. }), "{source}");
        std::fs::remove_file(kept).unwrap();
    };
    refused(&nothing);
    assert_eq!(std::fs::read(&target).unwrap(), b"by another");
    let something = FileState::of(&target).unwrap();
    std::fs::write(&target, b"by a third").unwrap();
    File::options().write(true).open(&target).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    refused(&something);
    assert_eq!(std::fs::read(&target).unwrap(), b"by a third");
    let something = FileState::of(&target).unwrap();
    assert_eq!(something.to_string().parse(), Ok(something.clone()));
    commit(&something).unwrap();
    std::fs::remove_file(&target).unwrap();
    commit(&something).unwrap();
    assert_eq!(
        (std::fs::metadata(&target).unwrap().len(), names(folder.path())),
        (1, vec!["out".to_owned()])
    );
    for text in ["", "x", "1 2", "1 2 3 4", "nothing "] {
        assert_eq!(text.parse::<FileState>(), Err(()), "{text}");
    }
}

#[test]
fn a_drop_leaves_nothing() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let new = create(&folder.path().join("out"), 1 << 20);
        assert_eq!(new.file().metadata().unwrap().len(), 1 << 20);
        drop(new);
        assert!(names(folder.path()).is_empty());
    }
}

#[test]
fn a_file_that_gets_no_name_leaves_nothing() {
    for create in [|target: &Path, bytes| NewFile::create(target, bytes).unwrap(), create_named] {
        let folder = tempfile::tempdir().unwrap();
        let mut new = create(&folder.path().join("out"), 8);
        new.name_as(&folder.path().join("none/slot")).unwrap_err();
        drop(new);
        assert!(names(folder.path()).is_empty());
    }
}

#[test]
fn two_outputs_of_one_name_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let (first, second) = (create_named(&target, 1), create_named(&target, 2));
    first.commit().unwrap();
    second.commit().unwrap();
    assert_eq!(std::fs::metadata(&target).unwrap().len(), 2);
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn lack_of_room_is_told_in_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let error = NewFile::create(&folder.path().join("out"), u64::MAX / 2).unwrap_err();
    assert!(matches!(error, Error::NoSpace { needed, free, .. } if needed > free), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn bad_targets_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for target in [folder.path().join("none/out"), folder.path().to_owned(), PathBuf::from("/")] {
        assert!(matches!(NewFile::create(&target, 1), Err(Error::File { .. })));
    }
}

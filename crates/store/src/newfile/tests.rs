use std::os::unix::fs::FileExt;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Creates a file as on a file system without O_TMPFILE.
fn create_named(target: &Path, bytes: u64) -> NewFile {
    let (file, part) = open_named(target).unwrap();
    let new = NewFile { file, bytes, target: target.to_owned(), part: Some(part) };
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
    let folder = tempfile::tempdir().unwrap();
    let (part, target) = (folder.path().join("part"), folder.path().join("target"));
    std::fs::write(&part, b"new").unwrap();
    rename_by_link(&part, &target).unwrap();
    assert!(!part.exists() && std::fs::read(&target).unwrap() == b"new");
    std::fs::write(&part, b"newer").unwrap();
    assert_eq!(rename_by_link(&part, &target).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(part.exists() && std::fs::read(&target).unwrap() == b"new");
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
        // Even that name may be taken: then the error is the first one.
        let new = create(&target, 3);
        assert!(matches!(new.commit_over(&then), Err(Error::Appeared { .. })));
        assert_eq!(names(folder.path()).len(), 2);
    }
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
        let new = create(&folder.path().join("out"), 8);
        new.name_as(&folder.path().join("none/slot")).unwrap_err();
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

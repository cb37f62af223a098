//! Failures of direct I/O are errors that name the file, the bytes and the reason.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use syncline_store::{
    Error, Result,
    direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue, Method, ReadRequest, WriteRequest},
};

type Tested = Result<(), Box<dyn std::error::Error>>;

fn methods() -> [IoQueue; 2] {
    [Method::Uring, Method::Plain].map(IoQueue::new)
}

/// Reads one range.
fn read(queue: &mut IoQueue, file: &DirectFile, offset: u64, len: usize) -> Result<()> {
    let mut buffer = IoBuffer::new(file.room(offset, len))?;
    queue.read(&mut [ReadRequest { file, offset, len, into: buffer.as_mut_slice() }])
}

#[test]
fn the_end_of_the_file_is_an_error_only_beyond_it() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("short");
    for bytes in [0, 1, 511, 512, 4096, 10_000] {
        std::fs::write(&path, vec![1; bytes])?;
        let file = DirectFile::open(&path)?;
        for mut queue in methods() {
            read(&mut queue, &file, 0, bytes)?;
            read(&mut queue, &file, bytes as u64, 0)?;
            read(&mut queue, &file, u64::from(bytes > 0), bytes.saturating_sub(1))?;
            for (offset, len) in [
                (0, bytes + 1),
                (bytes / 2, bytes - bytes / 2 + 1),
                (bytes, 1),
                (bytes + 100_000, 7),
            ] {
                let error = read(&mut queue, &file, offset as u64, len).unwrap_err();
                assert!(
                    error.to_string().contains(&format!("short: the file ends at byte {bytes}")),
                    "{error}"
                );
                let Error::Part { action: "read", source, .. } = error else { panic!("{error}") };
                assert_eq!(source.kind(), ErrorKind::UnexpectedEof);
            }
        }
    }
    Ok(())
}

#[test]
fn a_file_truncated_meanwhile_is_an_error_and_leaves_the_queue_usable() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    for mut queue in methods() {
        std::fs::write(&path, vec![1; 20 << 20])?;
        let file = DirectFile::open(&path)?;
        read(&mut queue, &file, 100, (20 << 20) - 100)?;
        OpenOptions::new().write(true).open(&path)?.set_len((9 << 20) + 3)?;
        // Pieces before, across and behind the end of the file are in flight together.
        let error = read(&mut queue, &file, 100, (20 << 20) - 100).unwrap_err();
        assert!(error.to_string().contains("the file ends at byte 9437187"), "{error}");
        read(&mut queue, &file, 100, (9 << 20) + 3 - 100)?;
    }
    Ok(())
}

#[test]
fn what_is_no_file_cannot_be_opened() -> Tested {
    let folder = tempfile::tempdir()?;
    let kind = |path: &Path| match DirectFile::open(path) {
        Err(Error::File { action: "open", path: named, source }) if named == path => source.kind(),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(&folder.path().join("missing")), ErrorKind::NotFound);
    assert_eq!(kind(folder.path()), ErrorKind::IsADirectory);
    assert_eq!(kind(Path::new("/dev/zero")), ErrorKind::Other);
    // Opening a pipe would wait for a writer.
    let pipe = folder.path().join("pipe");
    if Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        assert_eq!(kind(&pipe), ErrorKind::Other);
    }
    Ok(())
}

#[test]
fn the_way_a_file_is_open_must_suffice() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    std::fs::write(&path, [1; 5000])?;
    let reading = std::fs::File::open(&path)?;
    assert!(matches!(DirectFile::of(&reading, &path, true), Err(Error::ReadOnly { .. })));
    let writing = OpenOptions::new().write(true).open(&path)?;
    assert!(matches!(DirectFile::of(&writing, &path, false), Err(Error::File { .. })));
    assert!(matches!(DirectFile::of(&writing, &path, true), Err(Error::File { .. })));
    let appending = OpenOptions::new().read(true).append(true).open(&path)?;
    assert!(matches!(DirectFile::of(&appending, &path, true), Err(Error::File { .. })));
    let both = OpenOptions::new().read(true).write(true).open(&path)?;
    let file = DirectFile::of(&both, &path, false)?;
    for mut queue in methods() {
        let error =
            queue.write(&[WriteRequest { file: &file, offset: 0, from: &[2] }]).unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }));
    }
    assert!(matches!(DirectWriter::new(file, 0), Err(Error::ReadOnly { .. })));
    assert!(std::fs::read(&path)? == [1; 5000]);
    Ok(())
}

#[test]
fn requests_that_make_no_sense_do_nothing() -> Tested {
    let plain = tempfile::tempfile()?;
    plain.write_all_at(&[1; 5000], 0)?;
    let file = DirectFile::of(&plain, Path::new("name"), true)?;
    for mut queue in methods() {
        let mut buffer = IoBuffer::new(8192)?;
        let (good, short) = buffer.as_mut_slice().split_at_mut(4096);
        let needed = file.room(10, 4500);
        let error = queue
            .read(&mut [
                ReadRequest { file: &file, offset: 0, len: 100, into: good },
                ReadRequest { file: &file, offset: 10, len: 4500, into: &mut short[..4000] },
            ])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("name: the buffer has 4000 bytes, {needed} are needed")
        );
        assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
        for (offset, len) in [(u64::MAX, 1), (i64::MAX as u64, 1), (1 << 63, 4096), (0, usize::MAX)]
        {
            let into = buffer.as_mut_slice();
            let error =
                queue.read(&mut [ReadRequest { file: &file, offset, len, into }]).unwrap_err();
            assert!(matches!(error, Error::Range { .. }), "{error}");
            let good = WriteRequest { file: &file, offset: 0, from: &[9] };
            let error = queue
                .write(&[good, WriteRequest { offset: offset.max(1 << 63), ..good }])
                .unwrap_err();
            assert!(matches!(error, Error::Range { .. }), "{error}");
        }
        let mut first = [0];
        plain.read_exact_at(&mut first, 0)?;
        assert_eq!(first, [1]);
        queue.read(&mut [])?;
        queue.write(&[])?;
    }
    assert!(matches!(DirectWriter::new(file, u64::MAX), Err(Error::Range { .. })));
    Ok(())
}

/// A small file system in memory, unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    fn new(folder: &Path, bytes: usize) -> Result<Self, String> {
        let mut mount = Command::new("mount");
        let mount =
            mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(folder);
        let output = mount.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        output.status.success().then(|| Self(folder.to_owned())).ok_or(said)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_is_an_error_and_the_write_can_be_repeated() -> Tested {
    let folder = tempfile::tempdir()?;
    let mounted = match Mounted::new(folder.path(), 1 << 20) {
        Ok(mounted) => mounted,
        Err(why) => {
            eprintln!("skipped: {why}");
            return Ok(());
        }
    };
    let path = mounted.0.join("full");
    for mut queue in methods() {
        let ballast = mounted.0.join("ballast");
        std::fs::write(&ballast, vec![0; 512 << 10])?;
        let mut options = OpenOptions::new();
        let plain = options.read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut buffer = IoBuffer::new(900 << 10)?;
        buffer.as_mut_slice().fill(7);
        let full = |error: Error| {
            assert!(error.to_string().contains("full: No space left on device"), "{error}");
            let Error::Part { action: "write", offset, source, .. } = error else {
                panic!("{error}")
            };
            assert!(offset <= 900 << 10);
            assert_eq!(source.kind(), ErrorKind::StorageFull);
        };
        let file = DirectFile::of(&plain, &path, true)?;
        full(
            queue
                .write(&[WriteRequest { file: &file, offset: 100, from: buffer.as_slice() }])
                .unwrap_err(),
        );
        let mut writer = DirectWriter::new(file, 100)?;
        let (lead, len) = (writer.lead(), (900 << 10) - 512);
        full(writer.write(&mut queue, buffer.as_mut_slice(), len).unwrap_err());
        assert_eq!((writer.position(), writer.lead()), (100, lead));
        std::fs::remove_file(ballast)?;
        buffer.as_mut_slice()[lead..].fill(8);
        writer.write(&mut queue, buffer.as_mut_slice(), len)?;
        writer.finish()?;
        let found = std::fs::read(&path)?;
        assert!(found[100..100 + len].iter().all(|&byte| byte == 8));
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

//! Direct reads and writes of any range transfer the same bytes as those of the standard library.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use proptest::prelude::*;
use syncline_store::{
    NewFile, Result,
    direct_io::{DirectFile, IoBuffer, IoQueue, Method, ReadRequest, WriteRequest},
};
use syncline_testkit::property;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// A length of more than two pieces.
const LONG: usize = (17 << 20) + 4711;

pub(crate) fn methods() -> impl Strategy<Value = Method> {
    prop_oneof![Just(Method::Uring), Just(Method::Plain)]
}

/// Returns bytes that identify their position and, by the salt, their owner.
pub(crate) fn bytes(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|nth| (nth.wrapping_add(salt).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

/// Lengths and offsets at and around blocks and pages, and arbitrary ones.
fn places(end: usize) -> impl Strategy<Value = usize> {
    let near = (0..=end / 512, -1_isize..2)
        .prop_map(|(block, by)| (512 * block).saturating_add_signed(by));
    prop_oneof![near, 0..=end].prop_map(move |place| place.min(end))
}

fn ranges(end: usize) -> impl Strategy<Value = (usize, usize)> {
    (places(end), places(end)).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

/// Reads one range through `queue`.
fn read(queue: &mut IoQueue, file: &DirectFile, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut buffer = IoBuffer::new(file.room(offset, len))?;
    queue.read(&mut [ReadRequest { file, offset, len, into: buffer.as_mut_slice() }])?;
    let lead = if len == 0 { 0 } else { file.lead(offset) };
    Ok(buffer.as_slice()[lead..lead + len].to_vec())
}

proptest! {
    #![proptest_config(property(64))]

    #[test]
    fn many_reads_at_once_are_what_the_standard_library_reads(
        lens in [places(200_000), places(9_000)],
        wanted in prop::collection::vec((0_usize..2, ranges(200_000), any::<bool>()), 0..60),
        method in methods(),
    ) {
        let folder = tempfile::tempdir()?;
        let paths = ["first", "second"].map(|name| folder.path().join(name));
        for (path, len) in paths.iter().zip(lens) {
            std::fs::write(path, bytes(len, len))?;
        }
        let files = [DirectFile::open(&paths[0])?, DirectFile::open(&paths[1])?];
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(which, (start, end), skewed)| {
                let (start, end) = (start.min(lens[which]), end.min(lens[which]));
                (which, start as u64, end - start, usize::from(skewed))
            })
            .collect();
        let rooms = wanted.iter().map(|&(which, offset, len, skew)| files[which].room(offset, len) + skew);
        let mut buffers = rooms.map(IoBuffer::new).collect::<Result<Vec<_>>>()?;
        let mut reads: Vec<_> = wanted
            .iter()
            .zip(&mut buffers)
            .map(|(&(which, offset, len, skew), buffer)| {
                ReadRequest { file: &files[which], offset, len, into: &mut buffer.as_mut_slice()[skew..] }
            })
            .collect();
        IoQueue::new(method).read(&mut reads)?;
        let opened = [File::open(&paths[0])?, File::open(&paths[1])?];
        for (read, &(which, offset, len, _)) in reads.iter().zip(&wanted) {
            let mut expected = vec![0; len];
            opened[which].read_exact_at(&mut expected, offset)?;
            let lead = if len == 0 { 0 } else { read.lead() };
            prop_assert!(read.into[lead..lead + len] == expected);
        }
    }

    #[test]
    fn many_writes_at_once_are_what_the_standard_library_writes(
        len in places(150_000),
        mut cuts in prop::collection::vec(places(200_000), 0..40),
        skews in prop::collection::vec(prop_oneof![Just(None), (0_usize..600).prop_map(Some)], 40),
        method in methods(),
    ) {
        cuts.sort_unstable();
        let (mut expected, after) = (bytes(len, 0), bytes(200_000, 77));
        let plain = tempfile::tempfile()?;
        plain.write_all_at(&expected, 0)?;
        let file = DirectFile::of(&plain, Path::new("file"), true)?;
        // Every second range is written, from memory that is or is not aligned like the file.
        let ranges: Vec<_> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
        let mut buffers = Vec::new();
        for (range, skew) in ranges.iter().zip(skews) {
            let skew = skew.unwrap_or(file.lead(range.start as u64));
            let mut buffer = IoBuffer::new(skew + range.len())?;
            buffer.as_mut_slice()[skew..].copy_from_slice(&after[range.clone()]);
            buffers.push((buffer, skew));
        }
        let writes: Vec<_> = ranges
            .iter()
            .zip(&buffers)
            .map(|(range, (buffer, skew))| {
                WriteRequest { file: &file, offset: range.start as u64, from: &buffer.as_slice()[*skew..] }
            })
            .collect();
        IoQueue::new(method).write(&writes)?;
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            expected.resize(expected.len().max(range.end), 0);
            expected[range.clone()].copy_from_slice(&after[range]);
        }
        prop_assert_eq!(file.len()?, expected.len() as u64);
        let mut found = vec![0; expected.len()];
        plain.read_exact_at(&mut found, 0)?;
        prop_assert!(found == expected);
    }

    #[test]
    fn the_page_cache_and_direct_requests_show_the_same_bytes(
        steps in prop::collection::vec((0_usize..4, ranges(40_000), any::<u8>()), 1..40),
        method in methods(),
    ) {
        let plain = tempfile::tempfile()?;
        let mut expected = bytes(40_000, 5);
        plain.write_all_at(&expected, 0)?;
        let file = DirectFile::of(&plain, Path::new("file"), true)?;
        let mut queue = IoQueue::new(method);
        for (kind, (start, end), byte) in steps {
            let mut found = vec![byte; end - start];
            match kind {
                0 => plain.write_all_at(&found, start as u64)?,
                1 => {
                    let lead = file.lead(start as u64);
                    let mut buffer = IoBuffer::new(lead + found.len())?;
                    buffer.as_mut_slice().fill(byte);
                    let from = &buffer.as_slice()[lead..];
                    queue.write(&[WriteRequest { file: &file, offset: start as u64, from }])?;
                }
                2 => plain.read_exact_at(&mut found, start as u64)?,
                _ => found = read(&mut queue, &file, start as u64, end - start)?,
            }
            if kind < 2 {
                expected[start..end].fill(byte);
            }
            prop_assert!(found == expected[start..end]);
        }
    }
}

#[test]
fn reads_and_writes_of_many_pieces() -> Tested {
    for method in [Method::Uring, Method::Plain] {
        let plain = tempfile::tempfile()?;
        let file = DirectFile::of(&plain, Path::new("file"), true)?;
        let mut queue = IoQueue::new(method);
        let after = bytes(LONG, 3);
        let lead = file.lead(128);
        let mut buffer = IoBuffer::new(file.room(128, LONG))?;
        buffer.as_mut_slice()[lead..lead + LONG].copy_from_slice(&after);
        queue.write(&[WriteRequest {
            file: &file,
            offset: 128,
            from: &buffer.as_slice()[lead..lead + LONG],
        }])?;
        assert_eq!(file.len()?, 128 + LONG as u64);
        let mut found = vec![0; LONG];
        plain.read_exact_at(&mut found, 128)?;
        assert!(found == after);
        buffer.as_mut_slice().fill(0);
        queue.read(&mut [ReadRequest {
            file: &file,
            offset: 128,
            len: LONG,
            into: buffer.as_mut_slice(),
        }])?;
        assert!(buffer.as_slice()[lead..lead + LONG] == after);
    }
    Ok(())
}

#[test]
fn what_waits_in_the_page_cache_is_read_directly() -> Tested {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    let mut queue = IoQueue::new(Method::Auto);
    for round in 0..20 {
        let expected = bytes(100_000, round);
        std::fs::write(&path, &expected)?;
        let file = DirectFile::open(&path)?;
        assert!(read(&mut queue, &file, 0, 100_000)? == expected);
        assert!(read(&mut queue, &file, 99_999, 1)? == expected[99_999..]);
    }
    Ok(())
}

#[test]
fn an_output_without_a_name_is_written_directly() -> Tested {
    let folder = tempfile::tempdir()?;
    let target = folder.path().join("out");
    let new = NewFile::create(&target, 10_000)?;
    let file = DirectFile::of(new.file(), &target, true)?;
    // The file is direct if a named file in the same folder is.
    let named = folder.path().join("named");
    std::fs::write(&named, b"")?;
    assert_eq!(file.is_direct(), DirectFile::open(&named)?.is_direct());
    let mut buffer = IoBuffer::new(10_000)?;
    buffer.as_mut_slice().copy_from_slice(&bytes(10_000, 1));
    IoQueue::new(Method::Auto).write(&[WriteRequest {
        file: &file,
        offset: 0,
        from: buffer.as_slice(),
    }])?;
    new.commit()?;
    assert!(std::fs::read(&target)? == bytes(10_000, 1));
    Ok(())
}

#[test]
fn a_file_in_memory_works_with_or_without_direct_io() -> Tested {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no file system in memory");
        return Ok(());
    };
    let path = folder.path().join("file");
    std::fs::write(&path, bytes(10_000, 1))?;
    for method in [Method::Uring, Method::Plain] {
        let file = DirectFile::open(&path)?;
        assert!(read(&mut IoQueue::new(method), &file, 1000, 9000)? == bytes(10_000, 1)[1000..]);
    }
    Ok(())
}

#[test]
fn queues_of_several_threads_share_a_file() -> Tested {
    const SHARE: usize = 300_000;
    let page = 4096;
    let plain = tempfile::tempfile()?;
    let file = DirectFile::of(&plain, Path::new("file"), true)?;
    let work = |which: usize, mut queue: IoQueue| -> Result<()> {
        // Shares begin on a page boundary, so that no page has two writers.
        let offset = (which * SHARE.next_multiple_of(page)) as u64;
        let mut buffer = IoBuffer::new(file.room(offset, SHARE))?;
        for round in 0..30 {
            buffer.as_mut_slice()[..SHARE].copy_from_slice(&bytes(SHARE, which + round));
            queue.write(&[WriteRequest {
                file: &file,
                offset,
                from: &buffer.as_slice()[..SHARE],
            }])?;
            assert!(
                read(&mut queue, &file, offset + 7, SHARE - 7)? == bytes(SHARE, which + round)[7..]
            );
        }
        Ok(())
    };
    thread::scope(|scope| {
        // The queues are created here and used in other threads.
        let queues = [Method::Uring, Method::Uring, Method::Plain].map(IoQueue::new);
        let threads = queues.into_iter().enumerate().map(|(which, queue)| {
            let work = &work;
            scope.spawn(move || work(which, queue))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

#[test]
fn the_method_in_use_is_told() {
    assert_eq!(IoQueue::new(Method::Plain).method(), Method::Plain);
    assert_eq!(IoQueue::new(Method::Auto).method(), IoQueue::new(Method::Uring).method());
    assert_ne!(IoQueue::new(Method::Auto).method(), Method::Auto);
}

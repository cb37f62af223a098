//! Segments of all three kinds: their bytes, their sharing, and the failures they report.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use proptest::prelude::*;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use syncline_memory::{Access, Advice, Error, Pages, Segment};
use syncline_testkit::{again, property};

const ALL_ADVICE: [Advice; 7] = [
    Advice::Normal,
    Advice::Sequential,
    Advice::Random,
    Advice::WillNeed,
    Advice::DontNeed,
    Advice::PopulateRead,
    Advice::PopulateWrite,
];

fn page() -> usize {
    rustix::param::page_size()
}

fn bytes(segment: &Segment) -> Vec<u8> {
    // SAFETY: the segment is that long, and in these tests no thread writes while it is copied.
    unsafe { std::slice::from_raw_parts(segment.as_ptr(), segment.len()) }.to_vec()
}

fn fill(segment: &Segment, at: usize, data: &[u8]) {
    assert!(at + data.len() <= segment.len());
    // SAFETY: the range was checked, the segment is writable, and no other thread uses it at the
    // time.
    unsafe { segment.as_ptr().add(at).copy_from_nonoverlapping(data.as_ptr(), data.len()) };
}

fn file_of(data: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(data).unwrap();
    file
}

#[test]
fn heap_is_zeroed_aligned_and_writable() {
    for len in [1, 4095, 4096, 4097, 3 << 20] {
        for (pages, align) in [(Pages::Small, page()), (Pages::Huge, 2 << 20)] {
            let segment = Segment::heap(len, pages).unwrap();
            assert_eq!(segment.len(), len);
            assert_eq!(segment.as_ptr() as usize % align, 0);
            assert!(segment.fd().is_none());
            assert!(bytes(&segment).iter().all(|&byte| byte == 0));
            fill(&segment, len - 1, &[9]);
            assert_eq!(bytes(&segment)[len - 1], 9);
        }
    }
}

#[test]
fn empty_segments_work() {
    let memory = Segment::shared(0).unwrap();
    let attached = Segment::from_fd(memory.fd().unwrap().try_clone_to_owned().unwrap()).unwrap();
    let file = Segment::file(&file_of(b"abc"), 3, 0, Access::Read).unwrap();
    let heap = Segment::heap(0, Pages::Huge).unwrap();
    for segment in [heap, memory, attached, file] {
        assert!(segment.is_empty());
        assert!(!segment.as_ptr().is_null());
        assert_eq!(segment.as_ptr() as usize % page(), 0);
        for advice in ALL_ADVICE {
            match segment.advise(0..0, advice) {
                Ok(()) => {}
                Err(Error::ReadOnly { .. }) => assert_eq!(advice, Advice::PopulateWrite),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(matches!(segment.advise(0..1, Advice::Normal), Err(Error::Range { .. })));
    }
}

#[test]
fn advice_keeps_every_byte() {
    let len = 5 * page() + 77;
    let pattern: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    let file = file_of(&vec![0; len + 5]);
    for segment in [
        Segment::heap(len, Pages::Small).unwrap(),
        Segment::heap(len, Pages::Huge).unwrap(),
        Segment::shared(len).unwrap(),
        Segment::file(&file, 5, len, Access::ReadWrite).unwrap(),
    ] {
        fill(&segment, 0, &pattern);
        for advice in ALL_ADVICE {
            for range in [0..len, 1..len - 1, 0..1, len - 1..len, 10..10] {
                segment.advise(range, advice).unwrap();
                assert_eq!(bytes(&segment), pattern, "{advice:?} on {segment:?}");
            }
        }
    }
}

#[test]
fn a_range_outside_is_an_error() {
    let segment = Segment::heap(10, Pages::Small).unwrap();
    #[expect(clippy::reversed_empty_ranges)]
    for range in [0..11, 11..11, 5..4, 0..usize::MAX] {
        let error = segment.advise(range, Advice::Normal).unwrap_err();
        assert!(matches!(error, Error::Range { len: 10, .. }), "{error}");
    }
}

#[test]
fn lengths_beyond_reason_are_errors() {
    for pages in [Pages::Small, Pages::Huge] {
        let error = Segment::heap(usize::MAX, pages).unwrap_err();
        assert!(matches!(error, Error::TooLong { .. }), "{error}");
        let error = Segment::heap(usize::MAX / 4, pages).unwrap_err();
        assert!(matches!(error, Error::Segment { .. }), "{error}");
    }
    assert!(Segment::shared(usize::MAX).is_err());
    let error = Segment::file(&file_of(b"x"), u64::MAX, 2, Access::Read).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
}

#[test]
fn a_file_segment_reads_and_writes_the_file() {
    let mut file = file_of(&[1; 10_000]);
    let segment = Segment::file(&file, 4097, 5000, Access::ReadWrite).unwrap();
    fill(&segment, 0, b"first");
    fill(&segment, 4996, b"last");
    drop(segment);
    let mut expected = vec![1; 10_000];
    expected[4097..4102].copy_from_slice(b"first");
    expected[9093..9097].copy_from_slice(b"last");
    let mut found = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut found).unwrap();
    assert!(found == expected);
}

#[test]
fn a_window_past_the_end_is_an_error() {
    let file = file_of(&[0; 100]);
    let error = Segment::file(&file, 50, 51, Access::Read).unwrap_err();
    assert_eq!(error.to_string(), "cannot map 51 bytes at offset 50 of a file of 100 bytes");
}

#[test]
fn read_only_means_read_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, [0; 100]).unwrap();
    let file = File::open(&path).unwrap();
    let error = Segment::file(&file, 0, 100, Access::ReadWrite).unwrap_err();
    let Error::Segment { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);

    let segment = Segment::file(&file, 0, 100, Access::Read).unwrap();
    segment.advise(0..100, Advice::PopulateRead).unwrap();
    let error = segment.advise(3..7, Advice::PopulateWrite).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { start: 3, end: 7 }), "{error}");
}

/// Populating reports a truncated file as an error, where a touch would raise a bus error.
#[test]
fn populating_a_truncated_file_is_an_error() {
    let file = file_of(&vec![1; 4 * page()]);
    let segment = Segment::file(&file, 10, 4 * page() - 10, Access::ReadWrite).unwrap();
    segment.advise(0..segment.len(), Advice::PopulateRead).unwrap();
    file.set_len(page() as u64).unwrap();
    segment.advise(0..page() - 10, Advice::PopulateRead).unwrap();
    for advice in [Advice::PopulateRead, Advice::PopulateWrite] {
        let error = segment.advise(2 * page()..3 * page(), advice).unwrap_err();
        let Error::Segment { offset, len, source, .. } = &error else { panic!("{error}") };
        assert_eq!((*offset, *len), (2 * page() as u64, page()));
        assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::FAULT.raw_os_error()));
    }
}

#[test]
fn shared_memory_is_private_to_its_user_and_of_fixed_length() {
    let segment = Segment::shared(1000).unwrap();
    let fd = segment.fd().unwrap();
    assert_eq!(rustix::fs::fstat(fd).unwrap().st_mode & 0o7777, 0o600);
    assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    for len in [0, 999, 1001] {
        assert_eq!(rustix::fs::ftruncate(fd, len), Err(rustix::io::Errno::PERM));
    }
}

#[test]
fn attaching_to_something_else_is_an_error() {
    let (pipe, _keep) = std::io::pipe().unwrap();
    let error = Segment::from_fd(OwnedFd::from(pipe)).unwrap_err();
    assert!(error.to_string().ends_with("is not a shared segment"), "{error}");
}

const CHILD: &str = "SYNCLINE_MEMORY_TEST_SEGMENT";

/// Not a test by itself: the child's part of the next test, with the segment as standard input.
#[test]
fn child_of_shared_memory() {
    if std::env::var_os(CHILD).is_some() {
        let fd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let segment = Segment::from_fd(fd).unwrap();
        assert_eq!(segment.len(), 10_000);
        assert_eq!(bytes(&segment)[9_000..9_004], *b"ping");
        fill(&segment, 0, b"pong");
    }
}

#[test]
fn shared_memory_reaches_another_process() {
    let segment = Segment::shared(10_000).unwrap();
    fill(&segment, 9_000, b"ping");
    let fd = segment.fd().unwrap().try_clone_to_owned().unwrap();
    let output =
        again("child_of_shared_memory").env(CHILD, "1").stdin(Stdio::from(fd)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(bytes(&segment)[..4], *b"pong");
}

/// Not a test by itself: the child's part of the next test.
#[test]
fn child_with_a_limit_on_file_sizes() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let limit = Rlimit { current: Some(1 << 20), ..getrlimit(Resource::Fsize) };
    setrlimit(Resource::Fsize, limit).unwrap();
    Segment::shared(1 << 20).unwrap();
    for made in [Segment::shared((1 << 20) + 1), Segment::reserve_shared(Some(2 << 20))] {
        let Err(Error::Segment { source, .. }) = made else { panic!("{made:?}") };
        assert_eq!(source.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
    }
    assert!(Segment::reserve_shared(None).unwrap().len() <= 1 << 20);
}

/// The kernel would end the process with SIGXFSZ.
#[test]
fn a_limit_on_file_sizes_is_an_error() {
    let child = again("child_with_a_limit_on_file_sizes").env(CHILD, "1").output().unwrap();
    assert!(child.status.success(), "{child:?}");
}

#[test]
fn segments_cross_threads() {
    let segment = Segment::heap(100, Pages::Small).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fill(&segment, 50, b"there"));
    });
    std::thread::spawn(move || assert_eq!(bytes(&segment)[50..55], *b"there")).join().unwrap();
}

proptest! {
    #![proptest_config(property(64))]

    /// Any window of a file shows the file's bytes, whatever its offset within a page.
    #[test]
    fn any_window_of_a_file(offset in 0usize..20_000, len in 0usize..20_000) {
        let data: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let file = file_of(&data);
        let segment = Segment::file(&file, offset as u64, len, Access::Read).unwrap();
        segment.advise(0..len, Advice::PopulateRead).unwrap();
        prop_assert!(bytes(&segment) == data[offset..offset + len]);
    }
}

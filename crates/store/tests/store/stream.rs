//! A file written in pieces of any length from any byte on holds those bytes, and its old contents
//! around them.

use std::os::unix::fs::FileExt;
use std::path::Path;

use proptest::prelude::*;
use syncline_store::{
    Error,
    direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue, Method, ReadRequest},
};
use syncline_testkit::property;

use crate::direct::{bytes, methods};

/// Lengths of pieces: less than a block, about a page, and more.
fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let len = prop_oneof![0_usize..600, 4000_usize..4200, Just(512), Just(8192), 0_usize..60_000];
    prop::collection::vec(len, 0..12)
}

proptest! {
    #![proptest_config(property(96))]

    #[test]
    fn a_writer_writes_its_bytes_and_no_others(
        start in prop_oneof![0_usize..5000, Just(0), Just(128), Just(512), Just(4096)],
        before in prop_oneof![Just(0_usize), 0_usize..6000, 100_000_usize..200_000],
        pieces in pieces(),
        skew in prop_oneof![3 => Just(0_usize), 1 => 1_usize..100],
        method in methods(),
    ) {
        let plain = tempfile::tempfile()?;
        let mut expected = bytes(before, 1);
        plain.write_all_at(&expected, 0)?;
        let mut queue = IoQueue::new(method);
        let mut buffer = IoBuffer::new(70_000)?;
        let buffer = &mut buffer.as_mut_slice()[skew..];
        let mut writer = DirectWriter::new(DirectFile::of(&plain, Path::new("file"), true)?, start as u64)?;
        let mut next = start;
        for len in pieces {
            let lead = writer.lead();
            let piece = bytes(len, next + 99);
            buffer[lead..lead + len].copy_from_slice(&piece);
            writer.write(&mut queue, buffer, len)?;
            // Old bytes in the buffer must not have an effect.
            buffer.fill(0xee);
            if len > 0 {
                expected.resize(expected.len().max(next + len), 0);
                expected[next..next + len].copy_from_slice(&piece);
            }
            next += len;
            prop_assert_eq!(writer.position(), next as u64);
        }
        let file = writer.finish()?;
        let len = expected.len();
        prop_assert_eq!(file.len()?, len as u64);
        let mut found = vec![0; len];
        plain.read_exact_at(&mut found, 0)?;
        prop_assert!(found == expected);
        // The file is also read directly, with the last block from the page cache.
        let mut room = IoBuffer::new(file.room(0, len))?;
        queue.read(&mut [ReadRequest { file: &file, offset: 0, len, into: room.as_mut_slice() }])?;
        prop_assert!(room.as_slice()[..len] == expected);
    }
}

#[test]
fn a_buffer_that_is_too_short_is_an_error_and_nothing_is_lost() -> Result<(), Error> {
    let plain = tempfile::tempfile().expect("there is a folder for temporary files");
    let mut queue = IoQueue::new(Method::Auto);
    let mut writer = DirectWriter::new(DirectFile::of(&plain, Path::new("file"), true)?, 0)?;
    writer.write(&mut queue, b"abc".to_vec().as_mut_slice(), 3)?;
    let lead = writer.lead();
    let mut buffer = IoBuffer::new(100)?;
    let error = writer.write(&mut queue, buffer.as_mut_slice(), 101).unwrap_err();
    assert!(
        matches!(error, Error::Room { given: 100, needed, .. } if needed == lead + 101),
        "{error}"
    );
    assert!(writer.write(&mut queue, buffer.as_mut_slice(), usize::MAX).is_err());
    buffer.as_mut_slice()[lead] = b'd';
    writer.write(&mut queue, buffer.as_mut_slice(), 1)?;
    let file = writer.finish()?;
    assert_eq!(file.len()?, 4);
    let mut found = [0; 4];
    plain.read_exact_at(&mut found, 0).expect("four bytes");
    assert_eq!(&found, b"abcd");
    Ok(())
}

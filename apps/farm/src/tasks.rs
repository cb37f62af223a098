//! The source of tasks: the lines of a file, read as they are needed.
//!
//! ```text
//!   poll reports data ──> read: one read, at most 64 KiB ──> next: a task, while one is complete
//! ```
//!
//! Nothing is read before a task is needed and none is there, so an endless input is at most one
//! read ahead. No call blocks, provided that `read` is called only after a poll has reported data.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, OFlags, SeekFrom};
use rustix::io::Errno;
use syncline_process::streams::{self, Stream};

use super::streams::Splitter;
use crate::error::{Error, Result};

/// The number of bytes read at once.
const PIECE: usize = 64 << 10;
/// The maximum length of a task.
const LONGEST: usize = 64 << 20;
/// The maximum length of a file in which tasks are counted.
const COUNTED: u64 = 256 << 20;

/// The tasks of a file, one by one.
#[derive(Debug)]
pub(super) struct Source {
    input: OwnedFd,
    name: String,
    parts: Splitter,
    at_end: bool,
    /// Whether an empty part is a task.
    with_empty: bool,
    /// The number of tasks that `next` has returned.
    given: u64,
    /// The number of all tasks; `Some(None)` if it cannot be determined.
    total: Option<Option<u64>>,
}

impl Source {
    /// Opens the tasks of a file, or of standard input.
    pub(super) fn open(path: Option<&Path>, null: bool) -> Result<Self> {
        let name = path.map_or("standard input".to_owned(), |path| path.display().to_string());
        let opened = match path {
            // For a named pipe whose other end is not open yet, only the poll waits.
            Some(path) => {
                let nonblocking = OFlags::NONBLOCK.bits() as i32;
                OpenOptions::new()
                    .read(true)
                    .custom_flags(nonblocking)
                    .open(path)
                    .map(OwnedFd::from)
            }
            // It would be empty otherwise: see `streams`.
            None if streams::was_closed(Stream::Input) => Err(Errno::BADF.into()),
            None => io::stdin().as_fd().try_clone_to_owned(),
        };
        let input = opened.map_err(|source| Error::Io { what: format!("read {name}"), source })?;
        Ok(Self::new(input, name, if null { 0 } else { b'\n' }))
    }

    fn new(input: OwnedFd, name: String, separator: u8) -> Self {
        let parts = Splitter::new(separator);
        Self { input, name, parts, at_end: false, with_empty: false, given: 0, total: None }
    }

    /// Makes empty lines tasks as well.
    pub(super) fn with_empty(self) -> Self {
        Self { with_empty: true, ..self }
    }

    /// Returns the next task that has been read completely.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let part = self.parts.next();
            // The last part may lack a separator.
            let part = match part {
                None if self.at_end => self.parts.last()?,
                part => part?,
            };
            if self.with_empty || !part.is_empty() {
                self.given += 1;
                return Some(part);
            }
        }
    }

    /// Returns whether there will be no more tasks.
    pub(super) fn is_over(&self) -> bool {
        self.at_end && self.parts.len() == 0
    }

    /// Returns whether all input has been read.
    pub(super) fn is_read(&self) -> bool {
        self.at_end
    }

    /// Returns the number of tasks that `next` has still to return, if it is known: for a file, and
    /// for a pipe whose end was read.
    pub(super) fn left(&mut self) -> Option<u64> {
        if self.at_end {
            let mut counter = Counter::new(self.parts.separator(), self.with_empty);
            counter.add(self.parts.waiting());
            return Some(counter.end());
        }
        if self.total.is_none() {
            self.total = Some(self.count());
        }
        self.total.flatten().map(|total| total.saturating_sub(self.given))
    }

    /// Counts the tasks of a file from the current position, before any was returned.
    fn count(&self) -> Option<u64> {
        let stat = rustix::fs::fstat(&self.input).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_size as u64 > COUNTED || self.given > 0 {
            return None;
        }
        let mut counter = Counter::new(self.parts.separator(), self.with_empty);
        // Bytes already read precede that position.
        counter.add(self.parts.waiting());
        let mut at = rustix::fs::seek(&self.input, SeekFrom::Current(0)).ok()?;
        let mut piece = vec![0; PIECE];
        loop {
            match rustix::io::pread(&self.input, &mut piece[..], at) {
                Ok(0) => return Some(counter.end()),
                Ok(read) => {
                    counter.add(&piece[..read]);
                    at += read as u64;
                }
                Err(_) => return None,
            }
        }
    }

    /// Returns whether a read would return data or the end.
    pub(super) fn is_ready(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        !self.at_end
            && rustix::event::poll(&mut fds, Some(&Timespec::default()))
                .is_ok_and(|ready| ready > 0)
    }

    /// Reads once.
    pub(super) fn read(&mut self) -> Result<()> {
        if self.parts.len() > LONGEST {
            let source = io::Error::other(format!("a task is longer than {} MiB", LONGEST >> 20));
            return Err(Error::Io { what: format!("read {}", self.name), source });
        }
        let mut piece = [0; PIECE];
        match rustix::io::read(&self.input, &mut piece[..]) {
            Ok(0) => self.at_end = true,
            Ok(read) => self.parts.push(&piece[..read]),
            Err(Errno::AGAIN | Errno::INTR) => (),
            Err(errno) => {
                return Err(Error::Io {
                    what: format!("read {}", self.name),
                    source: errno.into(),
                });
            }
        }
        Ok(())
    }
}

/// Counts the tasks in a stream of pieces.
struct Counter {
    separator: u8,
    with_empty: bool,
    tasks: u64,
    /// The number of bytes after the last separator.
    begun: usize,
}

impl Counter {
    fn new(separator: u8, with_empty: bool) -> Self {
        Self { separator, with_empty, tasks: 0, begun: 0 }
    }

    fn add(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte == self.separator {
                self.tasks += u64::from(self.with_empty || self.begun > 0);
                self.begun = 0;
            } else {
                self.begun += 1;
            }
        }
    }

    fn end(self) -> u64 {
        self.tasks + u64::from(self.begun > 0)
    }
}

impl AsFd for Source {
    /// Returns the descriptor for a poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    fn all(text: &[u8], separator: u8) -> Vec<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut source = Source::new(file.into(), String::new(), separator);
        let mut tasks = Vec::new();
        let total = source.left().unwrap();
        while !source.is_over() {
            match source.next() {
                Some(task) => tasks.push(task),
                None => source.read().unwrap(),
            }
        }
        assert_eq!((source.next(), source.left(), total), (None, Some(0), tasks.len() as u64));
        tasks
    }

    #[test]
    fn lines_are_tasks() {
        assert_eq!(all(b"", b'\n'), Vec::<Vec<u8>>::new());
        assert_eq!(all(b"\n\n", b'\n'), Vec::<Vec<u8>>::new());
        assert_eq!(all(b"a\n\nb c\nd", b'\n'), [&b"a"[..], b"b c", b"d"]);
        assert_eq!(all(b"a\nb\0\0c", 0), [&b"a\nb"[..], b"c"]);
        let long = vec![b'x'; 3 * PIECE + 1];
        assert_eq!(all(&long, b'\n'), [long]);
    }

    #[test]
    fn a_pipe_is_counted_when_its_end_was_read() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        let mut source = Source::new(from, String::new(), b'\n').with_empty();
        rustix::io::write(&to, b"a\n\nb").unwrap();
        source.read().unwrap();
        assert_eq!((source.left(), source.next()), (None, Some(b"a".to_vec())));
        drop(to);
        source.read().unwrap();
        assert_eq!(
            (source.left(), source.next(), source.left()),
            (Some(2), Some(Vec::new()), Some(1))
        );
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Source::open(Some(&folder.path().join("x")), false).unwrap_err().to_string();
        assert!(error.contains("/x: No such file"), "{error}");
        let error =
            Source::open(Some(folder.path()), false).unwrap().read().unwrap_err().to_string();
        assert!(error.contains("Is a directory"), "{error}");
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn tasks_are_what_stands_between(lines in prop::collection::vec("[a-z ]{0,6}", 0..30)) {
            let expected: Vec<_> =
                lines.iter().filter(|line| !line.is_empty()).map(|line| line.clone().into_bytes()).collect();
            prop_assert_eq!(all(lines.join("\n").as_bytes(), b'\n'), expected);
        }
    }
}

//! Where tasks come from: the lines of a file, read as they are asked for.
//!
//! ```text
//!   poll says there is something ──> read: one read, of 64 KiB at most ──> next: a task, while there is a whole one
//! ```
//!
//! Nothing is read before a task was asked for and there was none, so of an endless input only one
//! read is ahead. No call blocks, if `read` is called when a poll has said so.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, OFlags, SeekFrom};
use rustix::io::Errno;

use super::streams::Splitter;
use crate::error::{Error, Result};

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// The longest task.
const LONGEST: usize = 64 << 20;
/// Tasks are counted in files up to this length.
const COUNTED: u64 = 256 << 20;

/// Tasks, one by one.
#[derive(Debug)]
pub(super) struct Source {
    input: OwnedFd,
    name: String,
    parts: Splitter,
    at_end: bool,
    /// Whether a part without any byte is a task.
    with_empty: bool,
    /// How many tasks were given away.
    given: u64,
    /// How many there are in all; `Some(None)`: the file does not say.
    total: Option<Option<u64>>,
}

impl Source {
    /// The tasks of a file, or of standard input.
    pub(super) fn open(path: Option<&Path>, null: bool) -> Result<Self> {
        let name = path.map_or("standard input".to_owned(), |path| path.display().to_string());
        let opened = match path {
            // Of a pipe with a name, whose other end is not open yet, only the poll waits.
            Some(path) => {
                let nonblocking = OFlags::NONBLOCK.bits() as i32;
                OpenOptions::new()
                    .read(true)
                    .custom_flags(nonblocking)
                    .open(path)
                    .map(OwnedFd::from)
            }
            None => io::stdin().as_fd().try_clone_to_owned(),
        };
        let input = opened.map_err(|source| Error::Io { what: format!("read {name}"), source })?;
        Ok(Self::new(input, name, if null { 0 } else { b'\n' }))
    }

    fn new(input: OwnedFd, name: String, separator: u8) -> Self {
        let parts = Splitter::new(separator);
        Self { input, name, parts, at_end: false, with_empty: false, given: 0, total: None }
    }

    /// Empty lines are tasks as well.
    pub(super) fn with_empty(self) -> Self {
        Self { with_empty: true, ..self }
    }

    /// The next task that has been read, if there is a whole one.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let part = self.parts.next();
            // The last one may lack its end.
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

    /// Whether there will be no more tasks.
    pub(super) fn is_over(&self) -> bool {
        self.at_end && self.parts.len() == 0
    }

    /// Whether all has been read.
    pub(super) fn is_read(&self) -> bool {
        self.at_end
    }

    /// How many tasks are still to be given away, if that is known: of a file, and of a pipe whose
    /// end was read.
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

    /// Counts the tasks of a file from where it is read, before any was.
    fn count(&self) -> Option<u64> {
        let stat = rustix::fs::fstat(&self.input).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_size as u64 > COUNTED || self.given > 0 {
            return None;
        }
        let mut counter = Counter::new(self.parts.separator(), self.with_empty);
        // What was read already stands before that.
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

    /// Whether a read would find something, or the end.
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

/// Counts tasks in what comes in pieces.
struct Counter {
    separator: u8,
    with_empty: bool,
    tasks: u64,
    /// Bytes behind the last separator.
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
    /// For a poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

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
        #[test]
        fn tasks_are_what_stands_between(lines in prop::collection::vec("[a-z ]{0,6}", 0..30)) {
            let expected: Vec<_> =
                lines.iter().filter(|line| !line.is_empty()).map(|line| line.clone().into_bytes()).collect();
            prop_assert_eq!(all(lines.join("\n").as_bytes(), b'\n'), expected);
        }
    }
}

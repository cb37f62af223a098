//! Pipes from tasks: read without blocking, and standard error line by line.
//!
//! | event                             | bytes read                                              |
//! |-----------------------------------|---------------------------------------------------------|
//! | a poll reports that data is there | one piece                                               |
//! | the task has ended                | all data there, once: other processes may hold the pipe |

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// The number of bytes read at once.
const PIECE: usize = 64 << 10;
/// The maximum length of a line of standard error that is printed whole.
const LONGEST: usize = 64 << 10;

/// The read end of a pipe.
#[derive(Debug)]
pub(super) struct Pipe {
    /// `None` after its end.
    fd: Option<OwnedFd>,
}

impl Pipe {
    /// A missing pipe, or one that cannot be made nonblocking, counts as ended.
    pub(super) fn new(fd: Option<impl Into<OwnedFd>>) -> Self {
        Self { fd: fd.map(Into::into).filter(|fd| rustix::io::ioctl_fionbio(fd, true).is_ok()) }
    }

    /// Returns the descriptor for a poll, until the end of the pipe.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Reads one piece, if there is one.
    pub(super) fn read<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let fd = self.fd.as_ref()?;
        let mut piece = [0; PIECE];
        match rustix::io::read(fd, &mut piece[..]) {
            Ok(0) => self.fd = None,
            Ok(read) => return Some(take(&piece[..read])),
            Err(Errno::AGAIN | Errno::INTR) => (),
            Err(_) => self.fd = None,
        }
        None
    }

    /// Reads the data that is there, and closes the pipe.
    pub(super) fn rest(&mut self, mut take: impl FnMut(&[u8])) {
        let there = self.fd.as_ref().and_then(|fd| rustix::io::ioctl_fionread(fd).ok());
        let mut left = there.unwrap_or(0);
        while left > 0 {
            // There is no other reader, so all of it can be read.
            match self.read(|piece| {
                take(piece);
                piece.len() as u64
            }) {
                Some(read) => left = left.saturating_sub(read),
                None => break,
            }
        }
        self.fd = None;
    }
}

/// Standard error of a task: complete lines, each with a prefix.
#[derive(Debug)]
pub(super) struct Prefixed {
    prefix: String,
    /// An incomplete line.
    begun: Vec<u8>,
}

impl Prefixed {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, begun: Vec::new() }
    }

    /// Adds bytes; returns those that can be printed.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut whole = Vec::new();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() > LONGEST {
                whole.append(&mut self.end());
            }
        }
        whole
    }

    /// Returns the incomplete line unchanged.
    pub(super) fn end_as_it_is(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.begun)
    }

    /// Returns the incomplete line with a line end added, if there is such a line.
    pub(super) fn end(&mut self) -> Vec<u8> {
        if self.begun.is_empty() {
            return Vec::new();
        }
        let mut line = self.prefix.clone().into_bytes();
        line.append(&mut self.begun);
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        line
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct LastWords(Vec<u8>);

impl LastWords {
    /// The number of bytes that are kept, and of lines that are reported.
    const KEPT: usize = 1024;
    const LINES: usize = 3;

    /// Returns the last bytes of a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut words = Self::default();
        words.hear(text);
        words
    }

    /// Adds a piece, and returns it.
    pub(super) fn hear<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let Self(kept) = self;
        kept.extend_from_slice(&piece[piece.len().saturating_sub(Self::KEPT)..]);
        kept.drain(..kept.len().saturating_sub(Self::KEPT));
        piece
    }

    /// Returns the last lines that are not empty, if there are any.
    pub(super) fn told(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0);
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut last: Vec<_> = lines.rev().take(Self::LINES).collect();
        last.reverse();
        (!last.is_empty()).then(|| last.join(" | "))
    }
}

/// Splits a stream of bytes into parts that end with a separator.
#[derive(Debug)]
pub(super) struct Splitter {
    separator: u8,
    bytes: Vec<u8>,
    /// The start of the next part.
    begin: usize,
    /// The end of the range known to contain no separator.
    searched: usize,
}

impl Splitter {
    pub(super) fn new(separator: u8) -> Self {
        Self { separator, bytes: Vec::new(), begin: 0, searched: 0 }
    }

    /// Adds bytes.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the next complete part, without its separator.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        match self.bytes[self.searched..].iter().position(|&byte| byte == self.separator) {
            Some(more) => {
                let part = self.bytes[self.begin..self.searched + more].to_vec();
                self.begin = self.searched + more + 1;
                self.searched = self.begin;
                Some(part)
            }
            None => {
                self.searched = self.bytes.len();
                None
            }
        }
    }

    /// Returns the remaining bytes after the end of the stream.
    pub(super) fn last(&mut self) -> Option<Vec<u8>> {
        let part = self.bytes.split_off(self.begin);
        self.bytes.clear();
        (self.begin, self.searched) = (0, 0);
        Some(part).filter(|part| !part.is_empty())
    }

    /// Returns the separator of the parts.
    pub(super) fn separator(&self) -> u8 {
        self.separator
    }

    /// Returns the bytes of incomplete parts.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Returns the number of bytes of incomplete parts.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.begin
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    #[test]
    fn what_is_there_is_read_though_others_hold_the_pipe() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&to, &[7; 50_000]).unwrap();
        let (mut pipe, mut read) = (Pipe::new(Some(from)), 0);
        pipe.rest(|piece| read += piece.len());
        assert_eq!((read, pipe.fd().is_none()), (50_000, true));
    }

    #[test]
    fn a_line_without_end_comes_in_pieces() {
        let mut lines = Prefixed::new("> ".to_owned());
        let out = lines.take(&vec![b'x'; LONGEST + 1]);
        assert_eq!(out.len(), LONGEST + 4);
        assert!(lines.end().is_empty());
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn lines_are_the_same_however_they_come(pieces in prop::collection::vec("[ab\n]{0,5}", 0..20)) {
            let mut lines = Prefixed::new("> ".to_owned());
            let mut out: Vec<u8> = pieces.iter().flat_map(|piece| lines.take(piece.as_bytes())).collect();
            out.append(&mut lines.end());
            let expected: String = pieces.concat().lines().map(|line| format!("> {line}\n")).collect();
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}

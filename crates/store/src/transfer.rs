//! One piece of a transfer, from its first system request to its last.
//!
//! | answer of the system       | next step                                                       |
//! |----------------------------|-----------------------------------------------------------------|
//! | all bytes needed           | done                                                            |
//! | some bytes                 | retry for the rest, through the page cache if it is not aligned |
//! | interrupted                | retry                                                           |
//! | EINVAL to a direct request | retry through the page cache, like all later requests           |
//! | no bytes                   | an error: the file ends there                                   |
//! | any other error            | an error with name, range and reason                            |

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use rustix::io::Errno;
use syncline_trace::{Activity, since, span_since};

use crate::{Error, Result, direct::DirectFile, traced};

/// The maximal length of a piece in bytes, a multiple of every alignment. Longer pieces are not
/// faster.
pub(crate) const PIECE: usize = 8 << 20;

/// A transfer of up to [`PIECE`] bytes between a file and memory, which is borrowed for the
/// lifetime of the piece.
pub(crate) struct Piece<'a> {
    file: &'a DirectFile,
    memory: Memory<'a>,
    /// The offset in the file of the first byte of `memory`.
    offset: u64,
    /// The number of bytes of `memory` that must be transferred, at least 1; more may be.
    need: usize,
    /// The number of bytes transferred.
    done: usize,
    /// Whether the last request was direct.
    direct: bool,
    /// When the first request was made; 0 if none was, or recording is off.
    since: u64,
}

enum Memory<'a> {
    Into(&'a mut [u8]),
    From(&'a [u8]),
}

/// The next step after a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    Again,
}

/// A request to the kernel.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) write: bool,
    /// Whether the request must be made by a plain call: it is not direct, or the no-wait flag is
    /// refused.
    pub(crate) plainly: bool,
    pub(crate) fd: RawFd,
    pub(crate) pointer: *mut u8,
    pub(crate) len: u32,
    pub(crate) offset: u64,
}

impl<'a> Piece<'a> {
    /// Creates a piece that reads into `into`, of which the first `need` bytes must be in the file.
    pub(crate) const fn read(
        file: &'a DirectFile,
        offset: u64,
        into: &'a mut [u8],
        need: usize,
    ) -> Self {
        Self { file, memory: Memory::Into(into), offset, need, done: 0, direct: false, since: 0 }
    }

    /// Creates a piece that writes `from`.
    pub(crate) const fn write(file: &'a DirectFile, offset: u64, from: &'a [u8]) -> Self {
        let (memory, need) = (Memory::From(from), from.len());
        Self { file, memory, offset, need, done: 0, direct: false, since: 0 }
    }

    /// Returns the number of bytes of memory.
    pub(crate) const fn len(&self) -> usize {
        match &self.memory {
            Memory::Into(bytes) => bytes.len(),
            Memory::From(bytes) => bytes.len(),
        }
    }

    /// Returns the next request. Its pointer is valid for `len` bytes as long as the piece lives;
    /// if the request is a write, for reading only.
    pub(crate) fn request(&mut self) -> Request {
        self.begin();
        let (write, pointer, len) = match &mut self.memory {
            Memory::Into(bytes) => {
                (false, bytes[self.done..].as_mut_ptr(), bytes.len() - self.done)
            }
            Memory::From(bytes) => {
                (true, bytes[self.done..].as_ptr().cast_mut(), bytes.len() - self.done)
            }
        };
        let offset = self.offset + self.done as u64;
        let (file, direct) = self.file.descriptor(offset, pointer.addr(), len);
        self.direct = direct;
        let plainly = !(direct && self.file.is_unwaiting());
        // A piece is within the kernel's limit for a request, 2 GiB less a page.
        Request {
            write,
            plainly,
            fd: file.as_raw_fd(),
            pointer,
            len: len.min(1 << 30) as u32,
            offset,
        }
    }

    /// Returns the number of the file in traces.
    pub(crate) const fn traced(&self) -> u32 {
        self.file.traced()
    }

    /// Notes the time of the first request.
    fn begin(&mut self) {
        if self.since == 0 {
            self.since = since();
        }
    }

    /// Processes the answer to the last request: the number of bytes transferred.
    pub(crate) fn answer(&mut self, answer: Result<usize, Errno>) -> Result<Step> {
        match answer {
            Ok(0) => Err(self.failed(self.nothing())),
            Ok(bytes) => {
                self.done += bytes;
                if self.done < self.need {
                    return Ok(Step::Again);
                }
                let activity = match self.memory {
                    Memory::Into(_) => Activity::Read,
                    Memory::From(_) => Activity::Write,
                };
                span_since(activity, self.traced(), self.done as u64, self.since);
                Ok(Step::Done)
            }
            Err(Errno::INTR) => Ok(Step::Again),
            Err(Errno::INVAL | Errno::OPNOTSUPP) if self.direct => {
                self.file.give_up_direct();
                Ok(Step::Again)
            }
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Records that the file system does not support the flag of the last request.
    pub(crate) fn refuse_flag(&self) {
        self.file.give_up_unwaiting();
    }

    /// Transfers the rest by plain system calls.
    pub(crate) fn plain(mut self) -> Result<()> {
        self.begin();
        let _waits = traced::awaits(self.traced());
        loop {
            let (done, next) = (self.done, self.offset + self.done as u64);
            let answer = match &mut self.memory {
                Memory::Into(bytes) => {
                    let bytes = &mut bytes[done..];
                    let (file, direct) =
                        self.file.descriptor(next, bytes.as_ptr().addr(), bytes.len());
                    self.direct = direct;
                    rustix::io::pread(file, bytes, next)
                }
                Memory::From(bytes) => {
                    let bytes = &bytes[done..];
                    let (file, direct) =
                        self.file.descriptor(next, bytes.as_ptr().addr(), bytes.len());
                    self.direct = direct;
                    rustix::io::pwrite(file, bytes, next)
                }
            };
            if self.answer(answer)? == Step::Done {
                return Ok(());
            }
        }
    }

    /// Returns the reason why no bytes were transferred.
    fn nothing(&self) -> io::Error {
        if matches!(self.memory, Memory::From(_)) {
            return io::Error::new(io::ErrorKind::WriteZero, "the file system takes no more");
        }
        let next = self.offset + self.done as u64;
        let end = self.file.len().map_or(next, |len| len.min(next));
        io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file ends at byte {end}"))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Part {
            action: if matches!(self.memory, Memory::Into(_)) { "read" } else { "write" },
            name: self.file.name().display().to_string(),
            offset: self.offset + self.done as u64,
            len: (self.need - self.done) as u64,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::*;
    use crate::buffer::IoBuffer;

    fn file(bytes: &[u8]) -> (File, DirectFile) {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
        let direct = DirectFile::of(&file, Path::new("name"), true).unwrap();
        (file, direct)
    }

    #[test]
    fn a_piece_goes_on_until_it_has_what_it_needs() {
        let (_, file) = file(&[1; 9000]);
        let mut buffer = IoBuffer::new(8192).unwrap();
        let mut piece = Piece::read(&file, 0, buffer.as_mut_slice(), 6000);
        assert_eq!((piece.request().offset, piece.request().len), (0, 8192));
        assert_eq!(piece.answer(Err(Errno::INTR)).unwrap(), Step::Again);
        assert_eq!(piece.answer(Ok(4096)).unwrap(), Step::Again);
        assert_eq!((piece.request().offset, piece.request().len), (4096, 4096));
        assert_eq!(piece.direct, file.is_direct());
        assert_eq!(piece.answer(Ok(1)).unwrap(), Step::Again);
        // The rest is not aligned.
        assert_eq!((piece.request().offset, piece.request().len), (4097, 4095));
        assert!(!piece.direct);
        assert_eq!(piece.answer(Ok(1903)).unwrap(), Step::Done);
    }

    #[test]
    fn failures_name_the_file_the_range_and_the_reason() {
        let (_, file) = file(&[1; 5000]);
        let mut buffer = IoBuffer::new(8192).unwrap();
        let mut piece = Piece::read(&file, 0, buffer.as_mut_slice(), 6000);
        assert_eq!(piece.answer(Ok(5000)).unwrap(), Step::Again);
        let error = piece.answer(Ok(0)).unwrap_err().to_string();
        assert_eq!(error, "cannot read bytes 5000 to 6000 of name: the file ends at byte 5000");
        let error = piece.answer(Err(Errno::IO)).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read bytes 5000 to 6000 of name: Input/output error"),
            "{error}"
        );
        let mut piece = Piece::write(&file, 10, &[0; 20]);
        assert_eq!(piece.answer(Ok(5)).unwrap(), Step::Again);
        let error = piece.answer(Err(Errno::NOSPC)).unwrap_err().to_string();
        assert!(error.starts_with("cannot write bytes 15 to 30 of name: No space left"), "{error}");
        assert!(piece.answer(Ok(0)).is_err());
        assert!(piece.answer(Err(Errno::INVAL)).is_err());
    }

    #[test]
    fn a_refused_direct_request_goes_through_the_page_cache() {
        let (_, file) = file(&[1; 4096]);
        let mut buffer = IoBuffer::new(4096).unwrap();
        let mut piece = Piece::read(&file, 0, buffer.as_mut_slice(), 4096);
        piece.request();
        if !piece.direct {
            return eprintln!("skipped: no direct I/O in the folder of temporary files");
        }
        let alignment = file.alignment();
        assert_eq!(piece.answer(Err(Errno::INVAL)).unwrap(), Step::Again);
        piece.request();
        assert!(!piece.direct && !file.is_direct());
        assert!(piece.answer(Err(Errno::INVAL)).is_err());
        assert_eq!(file.alignment(), alignment);
    }
}

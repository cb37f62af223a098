//! One piece of a transfer, from its first system request to its last.
//!
//! | the system answers            | then                                                            |
//! |-------------------------------|-----------------------------------------------------------------|
//! | all that is needed            | done                                                            |
//! | some                          | again for the rest, through the page cache if it is not aligned |
//! | interrupted                   | again                                                           |
//! | EINVAL to a direct request    | again through the page cache, and so for the file from now on   |
//! | nothing                       | an error: the file ends there                                   |
//! | any other error               | an error with name, range and reason                            |

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use rustix::io::Errno;

use crate::{Error, Result, direct::DirectFile};

/// Longest piece in bytes, a multiple of every alignment. Longer ones are not faster.
pub(crate) const PIECE: usize = 8 << 20;

/// Up to [`PIECE`] bytes between a file and memory. The memory is borrowed for as long as this lives.
pub(crate) struct Piece<'a> {
    file: &'a DirectFile,
    memory: Memory<'a>,
    /// Where the first byte of `memory` is in the file.
    offset: u64,
    /// Bytes of `memory` that must be transferred; more may be. At least 1.
    need: usize,
    /// Bytes transferred.
    done: usize,
    /// Whether the last request was direct.
    direct: bool,
}

enum Memory<'a> {
    Into(&'a mut [u8]),
    From(&'a [u8]),
}

/// What is to be done after a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    Again,
}

/// A request in the terms of the kernel.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) write: bool,
    /// Whether it must be made by a plain call: it is not direct, or cannot be told not to wait.
    pub(crate) plainly: bool,
    pub(crate) fd: RawFd,
    pub(crate) pointer: *mut u8,
    pub(crate) len: u32,
    pub(crate) offset: u64,
}

impl<'a> Piece<'a> {
    /// Reads `into`, of which the first `need` bytes must be in the file.
    pub(crate) const fn read(
        file: &'a DirectFile,
        offset: u64,
        into: &'a mut [u8],
        need: usize,
    ) -> Self {
        Self { file, memory: Memory::Into(into), offset, need, done: 0, direct: false }
    }

    /// Writes `from`.
    pub(crate) const fn write(file: &'a DirectFile, offset: u64, from: &'a [u8]) -> Self {
        Self { file, memory: Memory::From(from), offset, need: from.len(), done: 0, direct: false }
    }

    /// What to ask of the kernel next. The pointer is good for `len` bytes as long as the piece lives, for
    /// reading only if it is a request to write.
    pub(crate) fn request(&mut self) -> Request {
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
        // A piece is short enough: the kernel itself takes at most 2 GiB less a page.
        Request {
            write,
            plainly,
            fd: file.as_raw_fd(),
            pointer,
            len: len.min(1 << 30) as u32,
            offset,
        }
    }

    /// Takes the answer to the last request: how many bytes were transferred.
    pub(crate) fn answer(&mut self, answer: Result<usize, Errno>) -> Result<Step> {
        match answer {
            Ok(0) => Err(self.failed(self.nothing())),
            Ok(bytes) => {
                self.done += bytes;
                Ok(if self.done < self.need { Step::Again } else { Step::Done })
            }
            Err(Errno::INTR) => Ok(Step::Again),
            Err(Errno::INVAL | Errno::OPNOTSUPP) if self.direct => {
                self.file.give_up_direct();
                Ok(Step::Again)
            }
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Takes the answer that the last request was made with a flag unknown to the file system.
    pub(crate) fn refuse_flag(&self) {
        self.file.give_up_unwaiting();
    }

    /// Transfers the rest by plain system calls.
    pub(crate) fn plain(mut self) -> Result<()> {
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

    /// Why nothing was transferred.
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
        // No longer aligned.
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

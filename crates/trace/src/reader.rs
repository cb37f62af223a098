//! Reading trace files, frame by frame, in memory that does not depend on the file's length.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::frame::{Frame, HEADER, LONGEST, MAGIC, VERSION, checksum};

/// The bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Reads the frames of a file, in their order.
///
/// Damaged parts, such as the end of a file that was cut off, are skipped and counted. A file that
/// is still being written can be read further after its end: [`next_frame`](Self::next_frame)
/// returns `None` at the end, and frames again when there are more.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use syncline_trace::{Activity, Reader, finish, span, start};
///
/// # let folder = std::env::temp_dir().join(format!("syncline-trace-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("run.trace");
/// start(&file)?;
/// drop(span(Activity::Step, 7, 0));
/// finish()?;
///
/// let mut reader = Reader::open(&file)?;
/// let mut steps = 0;
/// while let Some(frame) = reader.next_frame()? {
///     let spans = frame.lanes.iter().flat_map(|lane| lane.spans());
///     steps += spans.filter(|span| span.subject == 7).count();
/// }
/// assert_eq!((steps, reader.skipped_bytes()), (1, 0));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    /// Bytes that were read and not used yet.
    buffer: Vec<u8>,
    /// The position in `buffer` of the next frame.
    at: usize,
    skipped: u64,
    other_version: Option<u32>,
}

impl Reader {
    /// Opens a trace.
    ///
    /// # Errors
    /// If the file cannot be read, does not begin as a trace, or begins with a frame of another
    /// version. An empty file is a trace without frames.
    pub fn open(path: &Path) -> Result<Reader, TraceError> {
        let failed = |source| TraceError::File { what: "open", path: path.to_owned(), source };
        // A pipe would be waited for.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is no regular file")));
        }
        let file = File::open(path).map_err(failed)?;
        let (path, buffer) = (path.to_owned(), Vec::new());
        let mut reader = Reader { file, path, buffer, at: 0, skipped: 0, other_version: None };
        reader.fill(HEADER)?;
        let head = &reader.buffer[..reader.buffer.len().min(HEADER)];
        let common = head.len().min(MAGIC.len());
        if head[..common] != MAGIC[..common] {
            return Err(TraceError::NotATrace { path: reader.path });
        }
        match head.get(8..12).map(|bytes| number(bytes) as u32) {
            Some(version) if version != VERSION => {
                Err(TraceError::OtherVersion { path: reader.path, version })
            }
            _ => Ok(reader),
        }
    }

    /// Returns the next frame that is intact, or `None` at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, TraceError> {
        loop {
            if !self.fill(HEADER)? {
                return Ok(None);
            }
            let head = &self.buffer[self.at..][..HEADER];
            if head[..8] != MAGIC {
                self.skip_to_magic();
                continue;
            }
            let length = number(&head[12..16]) as usize;
            let sum = number(&head[16..24]);
            let version = number(&head[8..12]) as u32;
            if length > LONGEST || version != VERSION {
                if version != VERSION {
                    self.other_version = Some(version);
                }
                self.skip_one();
                continue;
            }
            if !self.fill(HEADER + length)? {
                // A file that is being written ends here for now. If another frame begins within
                // the missing part, this one was cut off.
                if self.magic_after(1).is_none() {
                    return Ok(None);
                }
                self.skip_one();
                continue;
            }
            let payload = &self.buffer[self.at + HEADER..][..length];
            let frame = (checksum(payload) == sum).then(|| postcard::from_bytes(payload).ok());
            let Some(frame) = frame.flatten() else {
                self.skip_one();
                continue;
            };
            self.at += HEADER + length;
            return Ok(Some(frame));
        }
    }

    /// Returns the number of bytes that belong to no intact frame, so far.
    #[must_use]
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of bytes at the end that are no whole frame (yet).
    #[must_use]
    pub fn rest_bytes(&self) -> u64 {
        (self.buffer.len() - self.at) as u64
    }

    /// Returns the version of skipped frames, if some had another version.
    #[must_use]
    pub fn other_version(&self) -> Option<u32> {
        self.other_version
    }

    /// Reads until there are `count` unused bytes, and returns whether there are.
    fn fill(&mut self, count: usize) -> Result<bool, TraceError> {
        if self.buffer.len() - self.at >= count {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        while self.buffer.len() < count {
            let piece = PIECE.max(count - self.buffer.len()) as u64;
            let read = (&mut self.file).take(piece).read_to_end(&mut self.buffer);
            let read = read.map_err(|source| TraceError::File {
                what: "read",
                path: self.path.clone(),
                source,
            })?;
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Skips the first byte of a damaged frame, and all up to the next magic.
    fn skip_one(&mut self) {
        self.at += 1;
        self.skipped += 1;
        self.skip_to_magic();
    }

    fn skip_to_magic(&mut self) {
        let rest = self.buffer.len() - self.at;
        // Without a magic, the last bytes may be the beginning of one.
        let skip = self.magic_after(0).unwrap_or_else(|| rest.saturating_sub(MAGIC.len() - 1));
        self.at += skip;
        self.skipped += skip as u64;
    }

    /// Returns the distance to the next magic that begins `from` bytes or more after the position.
    fn magic_after(&self, from: usize) -> Option<usize> {
        let rest = self.buffer.get(self.at + from..)?;
        rest.windows(MAGIC.len()).position(|window| window == MAGIC).map(|found| found + from)
    }
}

/// Returns a little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

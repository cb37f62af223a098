//! The speed of a disk under the requests of a sweep, measured on an unnamed scratch file.
//!
//! The scratch file is used as one matrix in each layout, cut into the same square blocks:
//!
//! | pattern | read or written data                                  | pieces                     |
//! |---------|-------------------------------------------------------|----------------------------|
//! | read    | a quarter of the file, in consecutive bands of 32 MiB | 8 MiB                      |
//! | block   | blocks of the blocked layout                          | 8 MiB                      |
//! | rows    | a block of the row-major layout                       | a row of the block, 16 KiB |
//! | row     | northern frontiers of the row-major layout, in turn   | a row of the block         |
//! | column  | an eastern frontier of the row-major layout           | one value                  |
//! | frame   | eastern frontiers of the framed layout, in turn       | a column of the block      |
//! | write   | a quarter of the file, overwritten and synced         | 8 MiB                      |
//!
//! Each pattern is measured in two ways: *direct*, by the [`IoQueue`] that streamed sweeps use,
//! with up to 64 pieces in flight; and *mapped*, by the [`Tile`](crate::tile::Tile)s and regions
//! that sweeps in blocks use. Before each sample the page cache is asked to drop the file
//! (`posix_fadvise`, DONTNEED), which takes no privilege. If files live in memory (tmpfs) or
//! O_DIRECT is refused, the direct way is [not available](Scratch::lacks).
//!
//! # The disk model
//! [`Disk`] holds the parameters of a model: a piece of `n` bytes takes `piece + n / read` seconds.
//! Two samples of the mapped way, with long and with short pieces, determine both.
//!
//! # Costs
//! The file is written once, on creation. A sample moves at most a quarter of it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::transfer::PIECE;
use crate::{
    Block, Element, Layout, Matrix, Result,
    buffer::IoBuffer,
    direct::DirectFile,
    io_queue::{IoQueue, Method, ReadRequest},
    placement::StridedRun,
};

mod scratch;
pub use scratch::Scratch;

/// The length of a band, and of all buffers of direct requests together, in bytes.
const BAND: usize = 32 << 20;
/// The length in bytes of the scratch file for measuring a [`Disk`].
const SHORT: u64 = 64 << 20;
/// The number of samples of which a [`Disk`] takes the median.
const ROUNDS: usize = 3;

/// The data that a sample reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Bands, in sequence.
    Read,
    /// Blocks that are each one piece of the file.
    Block,
    /// A block of a row-major file.
    Rows,
    /// Northern rows of blocks of a row-major file.
    Row,
    /// A column of a block of a row-major file.
    Column,
    /// Columns of blocks of a framed file.
    Frame,
    /// Bands, overwritten in sequence, until they are on disk.
    Write,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Block, Self::Rows, Self::Row, Self::Column, Self::Frame, Self::Write];
}

/// The way in which data are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Bypassing the page cache, as streamed sweeps do.
    Direct,
    /// Through a mapping, as sweeps in blocks do.
    Mapped,
}

impl Way {
    /// Both ways.
    pub const ALL: [Self; 2] = [Self::Direct, Self::Mapped];
}

/// The amount of data moved, and the time taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The number of bytes requested: 8 per value of a column, whatever the disk had to read for
    /// them.
    pub bytes: u64,
    /// The number of pieces of the file that hold them; a piece has at most 8 MiB.
    pub pieces: u64,
    /// The time until all bytes were transferred.
    pub time: Duration,
}

impl Sample {
    /// Returns the rate in bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds()
    }

    /// Returns the time per piece in seconds.
    pub fn per_piece(&self) -> f64 {
        self.seconds() / self.pieces.max(1) as f64
    }

    /// Returns the time in seconds, at least a nanosecond, so that rates are finite.
    fn seconds(&self) -> f64 {
        self.time.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.pieces += other.pieces;
        self.time += other.time;
    }

    /// Returns the sample with the median time; `None` if there are no samples.
    #[must_use]
    pub fn median(mut samples: Vec<Self>) -> Option<Self> {
        samples.sort_by_key(|sample| sample.time);
        samples.get(samples.len() / 2).copied()
    }
}

/// The parameters of a disk that a model needs: two for reading, and one for writing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    /// The rate of reading long pieces, in bytes per second.
    pub read: f64,
    /// The rate of writing long pieces, in bytes per second.
    pub write: f64,
    /// The additional time of each piece in seconds: a seek, or the work of a request.
    pub piece: f64,
}

impl Disk {
    /// Computes the parameters that explain the times of samples of long and of short pieces.
    pub fn explaining(long: Sample, short: Sample, write: f64) -> Self {
        let piece = |read: f64| {
            (short.seconds() - short.bytes as f64 / read).max(0.0) / short.pieces.max(1) as f64
        };
        // The overhead of the long pieces is small, so one correction is enough.
        let beside = long.pieces as f64 * piece(long.rate());
        let read = long.bytes as f64 / (long.seconds() - beside).max(long.seconds() / 2.0);
        Self { read, write, piece: piece(read) }
    }

    /// Measures the disk of `folder` with a scratch file of 64 MiB.
    ///
    /// # Errors
    /// The same as those of [`Scratch::create`] and [`Scratch::measure`].
    pub fn below(folder: &Path) -> Result<Self> {
        let mut scratch = Scratch::create(folder, SHORT)?;
        let mut medians = [Sample::default(); 3];
        for (median, pattern) in
            medians.iter_mut().zip([Pattern::Read, Pattern::Rows, Pattern::Write])
        {
            let all = (0..ROUNDS)
                .map(|_| scratch.measure(pattern, Way::Mapped))
                .collect::<Result<_>>()?;
            *median = Sample::median(all).unwrap_or_default();
        }
        let [long, short, write] = medians;
        Ok(Self::explaining(long, short, write.rate()))
    }

    /// Measures the disk of a row-major matrix by reading a few megabytes of it; writing is assumed
    /// to be as fast.
    ///
    /// Returns `None` if there is no disk to measure: in memory, in another layout, and for less
    /// than a megabyte.
    ///
    /// # Errors
    /// [`Error::Part`](crate::Error::Part) if the file cannot be read.
    pub fn of<T: Element>(matrix: &Arc<Matrix<T>>) -> Result<Option<Self>> {
        const LONG: usize = 16 << 20;
        const SHORT: Block = Block { rows: 256, cols: (16 << 10) / size_of::<f64>() };
        let (shape, row) = (matrix.shape(), matrix.shape().cols * T::BYTES);
        let file = match matrix.chunk().file() {
            Some(file) if matrix.layout() == Layout::RowMajor && !matrix.chunk().is_resident() => {
                file
            }
            _ => return Ok(None),
        };
        if shape.elements() * T::BYTES < 1 << 20 {
            return Ok(None);
        }
        let band = Block::new((LONG / row).max(1), shape.cols).clipped(shape);
        let median = |block: Block| -> Result<Option<Sample>> {
            let grid = matrix.grid(block.clipped(shape))?;
            let rounds = (0..ROUNDS.min(grid.len())).map(|round| {
                drop_cached(file);
                let tile = matrix.tile(&grid, round * grid.len() / ROUNDS);
                let pieces = if tile.cols() == shape.cols { 1 } else { tile.rows() };
                mapped((tile.rect().elements() * T::BYTES) as u64, pieces as u64, || {
                    tile.view().map(drop)
                })
            });
            Ok(Sample::median(rounds.collect::<Result<_>>()?))
        };
        let (Some(long), Some(short)) = (median(band)?, median(SHORT)?) else {
            return Ok(None);
        };
        Ok(Some(Self::explaining(long, short, long.rate())))
    }
}

/// Reads ranges of bytes of a file, with up to 64 pieces in flight, and measures the time.
///
/// The memory, at most 32 MiB, is allocated and touched before the clock starts.
///
/// # Errors
/// The same as those of [`IoQueue::read`], and [`Error::Memory`](crate::Error::Memory).
///
/// ```
/// use syncline_store::{probe, direct_io::DirectFile, placement::StridedRun};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("file");
/// std::fs::write(&path, vec![0; 1 << 20])?;
/// let file = DirectFile::open(&path)?;
/// let run = StridedRun { start: 0, len: 1 << 20, pitch: 1 << 20, count: 1 };
/// let sample = probe::read(&file, run)?;
/// assert_eq!((sample.bytes, sample.pieces), (1 << 20, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(file: &DirectFile, ranges: StridedRun) -> Result<Sample> {
    let part = ranges.len.clamp(1, BAND);
    // Each part begins on a page boundary, as direct I/O needs.
    let slot = (part + 2 * file.alignment()).next_multiple_of(rustix::param::page_size());
    let parts: Vec<_> = ranges
        .runs()
        .flat_map(|run| {
            run.clone().step_by(part).map(move |start| (start, part.min(run.end - start)))
        })
        .collect();
    let together = (BAND / slot).clamp(1, parts.len().max(1));
    let mut buffer = IoBuffer::new(slot * together)?;
    buffer.as_mut_slice().iter_mut().step_by(rustix::param::page_size()).for_each(|byte| *byte = 1);
    let mut queue = IoQueue::new(Method::Auto);
    let start = Instant::now();
    for parts in parts.chunks(together) {
        let slots = buffer.as_mut_slice().chunks_mut(slot);
        let mut reads: Vec<_> = slots
            .zip(parts)
            .map(|(into, &(offset, len))| ReadRequest { file, offset: offset as u64, len, into })
            .collect();
        queue.read(&mut reads)?;
    }
    let pieces = ranges.count * ranges.len.div_ceil(PIECE);
    Ok(Sample {
        bytes: (ranges.count * ranges.len) as u64,
        pieces: pieces as u64,
        time: start.elapsed(),
    })
}

fn mapped(bytes: u64, pieces: u64, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let start = Instant::now();
    work()?;
    Ok(Sample { bytes, pieces, time: start.elapsed() })
}

/// Asks the page cache to drop a file's clean pages. This is a hint and never fails.
fn drop_cached(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewFile, Shape};

    #[test]
    fn two_samples_give_two_numbers() {
        let sample =
            |bytes, pieces, millis| Sample { bytes, pieces, time: Duration::from_millis(millis) };
        // 64 MiB/s and 8 ms a piece.
        let (long, short) = (sample(256 << 20, 1, 4008), sample(1 << 20, 64, 512 + 16));
        let disk = Disk::explaining(long, short, 1.0);
        assert!((disk.read / f64::from(64 << 20) - 1.0).abs() < 0.01, "{disk:?}");
        assert!((disk.piece / 0.008 - 1.0).abs() < 0.02, "{disk:?}");
        // Short pieces that are as fast as long ones.
        assert_eq!(Disk::explaining(long, sample(1 << 20, 64, 1), 1.0).piece, 0.0);
    }

    #[test]
    fn a_matrix_tells_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Disk::below(folder.path()).unwrap().read > 0.0);
        let path = folder.path().join("za");
        let shape = Shape::new(300, 4000);
        let bytes = Matrix::<f64>::file_bytes(false, shape, Layout::RowMajor).unwrap();
        NewFile::create(&path, bytes).unwrap().commit().unwrap();
        let matrix = Arc::new(Matrix::<f64>::open_raw(&path, shape, Layout::RowMajor).unwrap());
        let disk = Disk::of(&matrix).unwrap().unwrap();
        assert!(disk.read > 0.0 && disk.piece >= 0.0 && disk.write > 0.0, "{disk:?}");
        let held = Arc::new(Matrix::<f64>::zeros(shape, Layout::RowMajor).unwrap());
        assert_eq!(Disk::of(&held).unwrap(), None);
    }
}

//! What a disk does with the requests of a sweep: measured on a scratch file without a name.
//!
//! The scratch file is seen as one matrix in each layout, cut into the same square blocks:
//!
//! | pattern  | what is read or written                                   | pieces                       |
//! |----------|-----------------------------------------------------------|------------------------------|
//! | read     | a quarter of the file, band after band of 32 MiB          | 8 MiB                        |
//! | block    | blocks of the blocked layout                              | 8 MiB                        |
//! | rows     | a block out of the row-major layout                       | a row of the block, 16 KiB   |
//! | row      | northern frontiers out of row-major, one after the other  | a row of the block           |
//! | column   | an eastern frontier out of row-major                      | one value                    |
//! | frame    | eastern frontiers of the framed layout, one after another | a column of the block        |
//! | write    | a quarter of the file, written over and brought to disk   | 8 MiB                        |
//!
//! Each is done in two ways: *direct*, by the [`IoQueue`] that streamed sweeps use, with up to 16 pieces under
//! way; and *mapped*, by the [`Tile`](crate::Tile)s and regions that sweeps in blocks use. Before each sample the
//! page cache is asked to forget the file (`posix_fadvise`, DONTNEED), which takes no privilege. Where files
//! live in memory (tmpfs), or O_DIRECT is refused, the direct way is [not there](Scratch::lacks).
//!
//! # Two numbers
//! [`Disk`] is what a model can work with: a piece of `n` bytes takes `piece + n / read` seconds. Two samples of
//! the mapped way, of long pieces and of short ones, give both.
//!
//! # Costs
//! The file is written once when it is made. A sample moves at most a quarter of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_memory::Access;

use crate::placement::{Copies, Strided};
use crate::tile::in_bytes;
use crate::transfer::PIECE;
use crate::{
    Block, Chunk, Contents, DirectFile, Element, Error, Grid, IoBuffer, IoQueue, Layout, Matrix, Method,
    NewFile, Placement, Read, Result, Shape, Side, Write, bytes,
};

/// Bytes of a band, and of all buffers of direct requests.
const BAND: usize = 32 << 20;
/// The side of the largest block: the papers'.
const SIDE: usize = 2048;
/// Blocks in a row of blocks of the scratch matrix.
const ACROSS: usize = 4;
/// Frontiers of one sample, at most.
const FRONTIERS: usize = 32;
/// Bytes of the scratch file that a [`Disk`] is measured with.
const SHORT: u64 = 64 << 20;
/// Rounds that a [`Disk`] is the median of.
const ROUNDS: usize = 3;

/// What is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Bands, one after the other.
    Read,
    /// Blocks that are one piece of the file each.
    Block,
    /// A block out of a row-major file.
    Rows,
    /// Rows of blocks, out of a row-major file or a blocked one.
    Row,
    /// A column of a block, out of a row-major file.
    Column,
    /// Columns of blocks in a framed file.
    Frame,
    /// Bands, written over one after the other; until they are on the disk.
    Write,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Block, Self::Rows, Self::Row, Self::Column, Self::Frame, Self::Write];
}

/// How it is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Past the page cache, as streamed sweeps do.
    Direct,
    /// Through a mapping, as sweeps in blocks do.
    Mapped,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Direct, Self::Mapped];
}

/// What was moved, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes that were asked for: of a column, 8 per value, whatever the disk had to read for them.
    pub bytes: u64,
    /// Pieces of the file that they stood in; at most 8 MiB each.
    pub pieces: u64,
    /// Until all were there.
    pub time: Duration,
}

impl Sample {
    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds()
    }

    /// Seconds per piece.
    pub fn per_piece(&self) -> f64 {
        self.seconds() / self.pieces.max(1) as f64
    }

    /// No less than a nanosecond, so that a rate is a number.
    fn seconds(&self) -> f64 {
        self.time.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.pieces += other.pieces;
        self.time += other.time;
    }

    /// The middle one by time, or nothing of nothing.
    #[must_use]
    pub fn median(mut samples: Vec<Self>) -> Option<Self> {
        samples.sort_by_key(|sample| sample.time);
        samples.get(samples.len() / 2).copied()
    }
}

/// The two numbers of a disk that a model needs, and one for writing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    /// Bytes per second of long pieces.
    pub read: f64,
    /// The same, written.
    pub write: f64,
    /// Seconds that a piece takes besides: a seek, or the work of a request.
    pub piece: f64,
}

impl Disk {
    /// What lets samples of long and of short pieces take the time that they did.
    pub fn explaining(long: Sample, short: Sample, write: f64) -> Self {
        let piece =
            |read: f64| (short.seconds() - short.bytes as f64 / read).max(0.0) / short.pieces.max(1) as f64;
        // What the long pieces spent beside moving bytes is little: one correction is enough.
        let beside = long.pieces as f64 * piece(long.rate());
        let read = long.bytes as f64 / (long.seconds() - beside).max(long.seconds() / 2.0);
        Self { read, write, piece: piece(read) }
    }

    /// The disk below `folder`, by a scratch file of 64 MiB.
    ///
    /// # Errors
    /// As [`Scratch::create`] and [`Scratch::measure`].
    pub fn below(folder: &Path) -> Result<Self> {
        let mut scratch = Scratch::create(folder, SHORT)?;
        let mut medians = [Sample::default(); 3];
        for (median, pattern) in medians.iter_mut().zip([Pattern::Read, Pattern::Rows, Pattern::Write]) {
            let all = (0..ROUNDS).map(|_| scratch.measure(pattern, Way::Mapped)).collect::<Result<_>>()?;
            *median = Sample::median(all).unwrap_or_default();
        }
        let [long, short, write] = medians;
        Ok(Self::explaining(long, short, write.rate()))
    }

    /// The disk that a row-major matrix is on, by reading a few megabytes of it; writing is taken to be as fast.
    ///
    /// Nothing where there is no disk to be measured: in memory, in another layout, in less than a megabyte.
    ///
    /// # Errors
    /// [`Error::Part`] when it cannot be read.
    pub fn of<T: Element>(matrix: &Arc<Matrix<T>>) -> Result<Option<Self>> {
        const LONG: usize = 16 << 20;
        const SHORT: Block = Block { rows: 256, cols: (16 << 10) / size_of::<f64>() };
        let (shape, row) = (matrix.shape(), matrix.shape().cols * T::BYTES);
        let file = match matrix.chunk().file() {
            Some(file) if matrix.layout() == Layout::RowMajor && !matrix.chunk().is_resident() => file,
            _ => return Ok(None),
        };
        if shape.elements() * T::BYTES < 1 << 20 {
            return Ok(None);
        }
        let band = Block::new((LONG / row).max(1), shape.cols).clipped(shape);
        let median = |block: Block| -> Result<Option<Sample>> {
            let grid = matrix.grid(block.clipped(shape))?;
            let rounds = (0..ROUNDS.min(grid.len())).map(|round| {
                forget(file);
                let tile = matrix.tile(&grid, round * grid.len() / ROUNDS);
                let pieces = if tile.cols() == shape.cols { 1 } else { tile.rows() };
                mapped((tile.rect().elements() * T::BYTES) as u64, pieces as u64, || tile.view().map(drop))
            });
            Ok(Sample::median(rounds.collect::<Result<_>>()?))
        };
        let (Some(long), Some(short)) = (median(band)?, median(SHORT)?) else {
            return Ok(None);
        };
        Ok(Some(Self::explaining(long, short, long.rate())))
    }
}

/// Reads ranges of bytes of a file, up to 16 pieces under way, and takes the time.
///
/// The memory, at most 32 MiB, is there before the clock starts.
///
/// # Errors
/// As [`IoQueue::read`], and [`Error::Memory`].
///
/// ```
/// use syncline_store::{DirectFile, Strided, probe};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("file");
/// std::fs::write(&path, vec![0; 1 << 20])?;
/// let file = DirectFile::open(&path)?;
/// let sample = probe::read(&file, Strided { start: 0, len: 1 << 20, pitch: 1 << 20, count: 1 })?;
/// assert_eq!((sample.bytes, sample.pieces), (1 << 20, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(file: &DirectFile, ranges: Strided) -> Result<Sample> {
    let part = ranges.len.clamp(1, BAND);
    // Every part begins on a page of its own, which direct I/O needs.
    let slot = (part + 2 * file.alignment()).next_multiple_of(rustix::param::page_size());
    let parts: Vec<_> = ranges
        .runs()
        .flat_map(|run| run.clone().step_by(part).map(move |start| (start, part.min(run.end - start))))
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
            .map(|(into, &(offset, len))| Read { file, offset: offset as u64, len, into })
            .collect();
        queue.read(&mut reads)?;
    }
    let pieces = ranges.count * ranges.len.div_ceil(PIECE);
    Ok(Sample { bytes: (ranges.count * ranges.len) as u64, pieces: pieces as u64, time: start.elapsed() })
}

fn mapped(bytes: u64, pieces: u64, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let start = Instant::now();
    work()?;
    Ok(Sample { bytes, pieces, time: start.elapsed() })
}

/// Asks the page cache to drop a file's pages that are on the disk as well. A hint: it never fails.
fn forget(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// A file to measure a disk with. It never has a name, so that nothing of it stays, however the program ends.
///
/// ```
/// use syncline_store::probe::{Pattern, Scratch, Way};
/// # let folder = tempfile::tempdir()?;
/// let mut scratch = Scratch::create(folder.path(), 8 << 20)?;
/// let sample = scratch.measure(Pattern::Rows, Way::Mapped)?;
/// assert_eq!(sample.pieces as usize, scratch.block().rows);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scratch {
    file: File,
    name: PathBuf,
    direct: DirectFile,
    lacks: Option<&'static str>,
    grid: Grid,
    /// Samples so far: each has its place.
    turn: usize,
}

impl Scratch {
    /// The least file, in bytes.
    pub const LEAST: u64 = 8 << 20;

    /// Makes a file of about `bytes` bytes in `folder`, of numbers that look random, and brings it to disk.
    ///
    /// It is a whole number of rows of blocks; the blocks are of 2048 x 2048 values, or smaller if four of those
    /// would be more than `bytes`.
    ///
    /// # Errors
    /// [`Error::Range`] when it is less than [`LEAST`](Self::LEAST); [`Error::NoSpace`]; [`Error::File`] when the
    /// folder is missing or not writable.
    pub fn create(folder: &Path, bytes: u64) -> Result<Self> {
        let name = folder.join("syncline-probe");
        if bytes < Self::LEAST {
            let name = name.display().to_string();
            return Err(Error::Range { name, what: "bytes at least", count: Self::LEAST, asked: bytes });
        }
        let row_of_blocks = |side: usize| (ACROSS * side * side * size_of::<f64>()) as u64;
        let mut side = SIDE;
        while row_of_blocks(side) > bytes {
            side /= 2;
        }
        let shape = Shape::new((bytes / row_of_blocks(side)) as usize * side, ACROSS * side);
        let grid = Grid::new(shape, Block::new(side, side));
        // The framed layout is the longest.
        let len = Self::layout_of(Pattern::Frame, &grid).stored(shape)? * size_of::<f64>();
        let file = NewFile::create(&name, len as u64)?.into_nameless()?;
        let direct = DirectFile::of(&file, &name, true)?;
        let mut scratch = Self { lacks: None, file, name, direct, grid, turn: 0 };
        scratch.fill(len)?;
        // Only now: a file system may refuse the first request.
        scratch.lacks = match (in_memory(&scratch.file), scratch.direct.is_direct()) {
            (true, _) => Some("the file system keeps files in memory"),
            (false, false) => Some("the file system has no O_DIRECT"),
            (false, true) => None,
        };
        Ok(scratch)
    }

    fn fill(&mut self, len: usize) -> Result<()> {
        let mut buffer = IoBuffer::new(BAND.min(len))?;
        for (nth, value) in buffer.as_mut_slice().chunks_exact_mut(8).enumerate() {
            // Numbers that no disk can shorten (splitmix64).
            let mixed = (nth as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            value.copy_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
        }
        self.write_bytes(len, buffer.as_slice()).map(drop)
    }

    /// Writes the first `len` bytes of the file, band by band.
    fn write_bytes(&self, len: usize, band: &[u8]) -> Result<Sample> {
        let mut queue = IoQueue::new(Method::Auto);
        let sample = mapped(len as u64, len.div_ceil(PIECE) as u64, || {
            for offset in (0..len).step_by(band.len()) {
                let from = &band[..band.len().min(len - offset)];
                queue.write(&[Write { file: &self.direct, offset: offset as u64, from }])?;
            }
            self.sync()
        })?;
        forget(&self.file);
        Ok(sample)
    }

    fn sync(&self) -> Result<()> {
        let failed = |source| Error::File { action: "write", path: self.name.clone(), source };
        self.file.sync_data().map_err(failed)
    }

    /// Bytes of the matrix in it.
    pub const fn bytes(&self) -> u64 {
        (self.grid.shape().elements() * size_of::<f64>()) as u64
    }

    /// The blocks that it is cut into.
    pub const fn block(&self) -> Block {
        self.grid.block_size()
    }

    /// The file, for a cross-check by another program. It is open for reading and writing.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Bytes of a block of the disk: the least that is read directly.
    pub const fn alignment(&self) -> usize {
        self.direct.alignment()
    }

    /// Why a way is not there, if it is not.
    pub fn lacks(&self, way: Way) -> Option<&'static str> {
        self.lacks.filter(|_| way == Way::Direct)
    }

    /// Whether the page cache can be asked to forget the file: without, what is mapped is read from memory.
    pub fn can_be_cold(&self) -> bool {
        !in_memory(&self.file)
    }

    /// Measures once, each time at another place of the file.
    ///
    /// A way that is [not there](Self::lacks) goes through the page cache.
    ///
    /// # Errors
    /// [`Error::Part`], [`Error::File`] when the disk fails; [`Error::Memory`].
    pub fn measure(&mut self, pattern: Pattern, way: Way) -> Result<Sample> {
        self.turn += 1;
        forget(&self.file);
        match (pattern, way) {
            (Pattern::Write, Way::Direct) => self.write_direct(),
            (Pattern::Write, Way::Mapped) => self.write_mapped(),
            (_, Way::Direct) => {
                let mut sum = Sample::default();
                for ranges in self.ranges(pattern)? {
                    sum.add(read(&self.direct, ranges)?);
                }
                Ok(sum)
            }
            (_, Way::Mapped) => self.read_mapped(pattern),
        }
    }

    /// The layout in which a pattern is read, with its blocks.
    fn layout_of(pattern: Pattern, grid: &Grid) -> Layout {
        let block = grid.block_size();
        match pattern {
            Pattern::Block => Layout::Blocked(block),
            Pattern::Frame => Layout::Framed { block, thickness: 1 },
            _ => Layout::RowMajor,
        }
    }

    /// The grid of a pattern: its blocks, or bands.
    fn grid_of(&self, pattern: Pattern) -> Grid {
        let Shape { cols, .. } = self.grid.shape();
        match pattern {
            Pattern::Read | Pattern::Write => {
                // Small files have a few bands all the same.
                let rows = (BAND / (cols * size_of::<f64>())).min(self.grid.shape().rows / 4).max(1);
                Grid::new(self.grid.shape(), Block::new(rows, cols))
            }
            _ => self.grid,
        }
    }

    /// The blocks or bands of a sample.
    fn indices(&self, pattern: Pattern) -> Vec<usize> {
        let all = self.grid_of(pattern).len();
        let count = match pattern {
            Pattern::Read | Pattern::Write => all / 4,
            Pattern::Block => all / 8,
            Pattern::Rows | Pattern::Column => 1,
            Pattern::Row | Pattern::Frame => FRONTIERS,
        };
        let count = count.clamp(1, all);
        let in_order = matches!(pattern, Pattern::Read | Pattern::Write);
        // Otherwise far from one another: what the disk reads ahead is of no use, as in a sweep.
        let far = (all / 2 + 1..all).find(|step| greatest_common_divisor(*step, all) == 1).unwrap_or(1);
        let step = if in_order { 1 } else { far };
        (0..count).map(|nth| (self.turn * count + nth) * step % all).collect()
    }

    /// The bytes of a sample of a pattern that is read.
    fn ranges(&self, pattern: Pattern) -> Result<Vec<Strided>> {
        let place = Placement::new(Self::layout_of(pattern, &self.grid), self.grid_of(pattern))?;
        let one = |index| match pattern {
            Pattern::Row => place.line(index, Side::North),
            Pattern::Column => place.line(index, Side::East),
            Pattern::Frame => place.frontier(index, Side::East),
            _ => match place.sections(index, Copies::One).next().map(|section| section.rows()) {
                Some(rows) if !rows.is_contiguous() => rows,
                _ => {
                    let range = place.block(index);
                    Strided { start: range.start, len: range.len(), pitch: range.len(), count: 1 }
                }
            },
        };
        let bytes = |index| in_bytes(one(index), size_of::<f64>());
        Ok(self.indices(pattern).into_iter().map(bytes).collect())
    }

    fn matrix(&self, layout: Layout, access: Access) -> Result<Matrix> {
        let failed = |source| Error::File { action: "use", path: self.name.clone(), source };
        let file = self.file.try_clone().map_err(failed)?;
        Matrix::new(Chunk::from_file(file, &self.name, access)?, 0, self.grid.shape(), layout)
    }

    fn read_mapped(&self, pattern: Pattern) -> Result<Sample> {
        let matrix = Arc::new(self.matrix(Self::layout_of(pattern, &self.grid), Access::Read)?);
        let grid = self.grid_of(pattern);
        let mut line = vec![0.0; self.block().rows];
        let mut sum = Sample::default();
        for (index, ranges) in self.indices(pattern).into_iter().zip(self.ranges(pattern)?) {
            let tile = matrix.tile(&grid, index);
            let (bytes, pieces) = (ranges.len * ranges.count, ranges.count * ranges.len.div_ceil(PIECE));
            sum.add(mapped(bytes as u64, pieces as u64, || match pattern {
                Pattern::Row => tile.frontier(Side::North, &mut line),
                Pattern::Column | Pattern::Frame => tile.frontier(Side::East, &mut line),
                _ => tile.view().map(drop),
            })?);
        }
        Ok(sum)
    }

    fn write_direct(&self) -> Result<Sample> {
        let rows = self.grid_of(Pattern::Write).block_size().rows;
        let band = rows * self.grid.shape().cols * size_of::<f64>();
        let mut buffer = IoBuffer::new(band)?;
        // What is there already, so that it stays as hard to shorten as it is.
        let failed = |source| Error::File { action: "read", path: self.name.clone(), source };
        self.file.read_exact_at(buffer.as_mut_slice(), 0).map_err(failed)?;
        self.write_bytes(self.indices(Pattern::Write).len() * band, buffer.as_slice())
    }

    fn write_mapped(&self) -> Result<Sample> {
        let grid = self.grid_of(Pattern::Write);
        let mut regions = self.matrix(Layout::RowMajor, Access::ReadWrite)?.into_regions(grid)?;
        let mut row = vec![0.0; grid.shape().cols];
        let failed = |source| Error::File { action: "read", path: self.name.clone(), source };
        self.file.read_exact_at(bytes::of_mut(&mut row), 0).map_err(failed)?;
        let count = self.indices(Pattern::Write).len();
        let bytes =
            regions[..count].iter().map(|region| region.rect().elements() * size_of::<f64>()).sum::<usize>();
        let sample = mapped(bytes as u64, bytes.div_ceil(PIECE) as u64, || {
            for region in &mut regions[..count] {
                let rows = region.rows();
                let mut view = region.view_mut(Contents::Discard)?;
                (0..rows).for_each(|nth| view.row_mut(nth).copy_from_slice(&row));
            }
            self.sync()
        })?;
        drop(regions);
        forget(&self.file);
        Ok(sample)
    }
}

/// Whether the file system has no disk: then O_DIRECT, where it is accepted, means nothing.
fn in_memory(file: &File) -> bool {
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    const RAMFS: rustix::fs::FsWord = 0x8584_58f6;
    rustix::fs::fstatfs(file).is_ok_and(|stat| [TMPFS, RAMFS].contains(&stat.f_type))
}

const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_moves_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::create(folder.path(), 17 << 20).unwrap();
        let side = scratch.block().rows;
        assert_eq!((side, scratch.bytes()), (512, 16 << 20));
        for way in Way::ALL {
            for (pattern, bytes, pieces) in [
                (Pattern::Read, 4 << 20, 1),
                (Pattern::Block, 2 << 20, 1),
                (Pattern::Rows, 2 << 20, side),
                (Pattern::Row, 8 * side * 8, 8),
                (Pattern::Column, side * 8, side),
                (Pattern::Frame, 8 * side * 8, 8),
                (Pattern::Write, 4 << 20, 1),
            ] {
                for _ in 0..3 {
                    let sample = scratch.measure(pattern, way).unwrap();
                    let found = (sample.bytes, sample.pieces);
                    assert_eq!(found, (bytes as u64, pieces as u64), "{pattern:?}, {way:?}");
                    assert!(sample.rate() > 0.0 && sample.per_piece() > 0.0);
                }
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// All bytes are asked for at places of the file that are there, also in the last block.
    #[test]
    fn samples_stay_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::create(folder.path(), Scratch::LEAST).unwrap();
        for turn in 0..40 {
            scratch.turn = turn;
            for pattern in Pattern::ALL {
                let len = scratch.file.metadata().unwrap().len();
                let ranges = scratch.ranges(pattern).unwrap();
                assert!(ranges.iter().all(|ranges| ranges.span().end as u64 <= len));
            }
        }
    }

    #[test]
    fn two_samples_give_two_numbers() {
        let sample = |bytes, pieces, millis| Sample { bytes, pieces, time: Duration::from_millis(millis) };
        // 64 MiB/s and 8 ms a piece.
        let (long, short) = (sample(256 << 20, 1, 4008), sample(1 << 20, 64, 512 + 16));
        let disk = Disk::explaining(long, short, 1.0);
        assert!((disk.read / f64::from(64 << 20) - 1.0).abs() < 0.01, "{disk:?}");
        assert!((disk.piece / 0.008 - 1.0).abs() < 0.02, "{disk:?}");
        // Short pieces that are no slower than long ones.
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

    #[test]
    fn too_little_and_too_much_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Scratch::create(folder.path(), 1 << 20), Err(Error::Range { .. })));
        assert!(matches!(Scratch::create(folder.path(), 1 << 60), Err(Error::NoSpace { .. })));
        let nowhere = folder.path().join("nowhere");
        assert!(matches!(Scratch::create(&nowhere, 8 << 20), Err(Error::File { .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

//! The scratch file: one matrix in each layout, and the data that a sample moves.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use syncline_memory::Access;

use super::{BAND, Pattern, Sample, Way, drop_cached, mapped, read};
use crate::placement::Copies;
use crate::tile::in_bytes;
use crate::transfer::PIECE;
use crate::{
    Block, Error, Grid, Layout, Matrix, NewFile, Result, Shape,
    buffer::IoBuffer,
    bytes,
    chunk::Chunk,
    direct::DirectFile,
    io_queue::{IoQueue, Method, WriteRequest},
    layout::Side,
    placement::{Placement, StridedRun},
    region::Contents,
    traced,
};

/// The side of the largest block, as in the papers.
const SIDE: usize = 2048;
/// The number of blocks in a row of blocks of the scratch matrix.
const ACROSS: usize = 4;
/// The maximal number of frontiers of one sample.
const FRONTIERS: usize = 32;
/// An unnamed file to measure a disk with. Nothing of it remains, however the program ends.
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
    /// The number of samples so far: each uses another part of the file.
    turn: usize,
}

impl Scratch {
    /// The minimal length in bytes.
    pub const LEAST: u64 = 8 << 20;

    /// Creates a file of about `bytes` bytes in `folder`, filled with numbers that look random, and
    /// syncs it to disk.
    ///
    /// The file is a whole number of rows of blocks; a block has 2048 x 2048 values, or fewer if
    /// four such blocks would exceed `bytes`.
    ///
    /// # Errors
    /// [`Error::Range`] if `bytes` is less than [`LEAST`](Self::LEAST); [`Error::NoSpace`];
    /// [`Error::File`] if the folder is missing or not writable.
    pub fn create(folder: &Path, bytes: u64) -> Result<Self> {
        let name = folder.join("syncline-probe");
        if bytes < Self::LEAST {
            let name = name.display().to_string();
            return Err(Error::Range {
                name,
                what: "bytes as its minimum",
                count: Self::LEAST,
                asked: bytes,
            });
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
        // Only after the first writes: a file system may refuse the first request.
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
            // Numbers that no disk can compress (splitmix64).
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
                queue.write(&[WriteRequest { file: &self.direct, offset: offset as u64, from }])?;
            }
            self.sync()
        })?;
        drop_cached(&self.file);
        Ok(sample)
    }

    fn sync(&self) -> Result<()> {
        let failed = |source| Error::File { action: "write", path: self.name.clone(), source };
        let _waits = traced::awaits_named(&self.name);
        self.file.sync_data().map_err(failed)
    }

    /// Returns the number of bytes of the matrix in the file.
    pub const fn bytes(&self) -> u64 {
        (self.grid.shape().elements() * size_of::<f64>()) as u64
    }

    /// Returns the size of the blocks that the matrix is cut into.
    pub const fn block(&self) -> Block {
        self.grid.block_size()
    }

    /// Returns the file, for a cross-check by another program. It is open for reading and writing.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the length of a block of the disk in bytes: the least that is read directly.
    pub const fn alignment(&self) -> usize {
        self.direct.alignment()
    }

    /// Returns the reason why a way is not available; `None` if it is available.
    pub fn lacks(&self, way: Way) -> Option<&'static str> {
        self.lacks.filter(|_| way == Way::Direct)
    }

    /// Returns whether the page cache can be asked to drop the file; otherwise mapped data are read
    /// from memory.
    pub fn can_be_cold(&self) -> bool {
        !in_memory(&self.file)
    }

    /// Takes one sample, each time at another part of the file.
    ///
    /// A way that is [not available](Self::lacks) goes through the page cache.
    ///
    /// # Errors
    /// [`Error::Part`] and [`Error::File`] if the disk fails; [`Error::Memory`].
    pub fn measure(&mut self, pattern: Pattern, way: Way) -> Result<Sample> {
        self.turn += 1;
        drop_cached(&self.file);
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

    /// Returns the layout in which a pattern is read, with its blocks.
    fn layout_of(pattern: Pattern, grid: &Grid) -> Layout {
        let block = grid.block_size();
        match pattern {
            Pattern::Block => Layout::Blocked(block),
            Pattern::Frame => Layout::Framed { block, thickness: 1 },
            _ => Layout::RowMajor,
        }
    }

    /// Returns the grid of a pattern: its blocks, or bands.
    fn grid_of(&self, pattern: Pattern) -> Grid {
        let Shape { cols, .. } = self.grid.shape();
        match pattern {
            Pattern::Read | Pattern::Write => {
                // Small files also have a few bands.
                let rows =
                    (BAND / (cols * size_of::<f64>())).min(self.grid.shape().rows / 4).max(1);
                Grid::new(self.grid.shape(), Block::new(rows, cols))
            }
            _ => self.grid,
        }
    }

    /// Returns the blocks or bands of a sample.
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
        // Other patterns use distant blocks, so that the disk's read-ahead has no effect, as in a
        // sweep.
        let far =
            (all / 2 + 1..all).find(|step| greatest_common_divisor(*step, all) == 1).unwrap_or(1);
        let step = if in_order { 1 } else { far };
        (0..count).map(|nth| (self.turn * count + nth) * step % all).collect()
    }

    /// Returns the ranges of bytes of a sample of a pattern that is read.
    fn ranges(&self, pattern: Pattern) -> Result<Vec<StridedRun>> {
        let place = Placement::new(Self::layout_of(pattern, &self.grid), self.grid_of(pattern))?;
        let one = |index| match pattern {
            Pattern::Row => place.line(index, Side::North),
            Pattern::Column => place.line(index, Side::East),
            Pattern::Frame => place.frontier(index, Side::East),
            _ => match place.sections(index, Copies::One).next().map(|section| section.rows()) {
                Some(rows) if !rows.is_contiguous() => rows,
                _ => {
                    let range = place.block(index);
                    StridedRun {
                        start: range.start,
                        len: range.len(),
                        pitch: range.len(),
                        count: 1,
                    }
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
            let (bytes, pieces) =
                (ranges.len * ranges.count, ranges.count * ranges.len.div_ceil(PIECE));
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
        // The existing data, so that the file remains incompressible.
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
        let bytes = regions[..count]
            .iter()
            .map(|region| region.rect().elements() * size_of::<f64>())
            .sum::<usize>();
        let sample = mapped(bytes as u64, bytes.div_ceil(PIECE) as u64, || {
            for region in &mut regions[..count] {
                let rows = region.rows();
                let mut view = region.view_mut(Contents::Discard)?;
                (0..rows).for_each(|nth| view.row_mut(nth).copy_from_slice(&row));
            }
            self.sync()
        })?;
        drop(regions);
        drop_cached(&self.file);
        Ok(sample)
    }
}

/// Returns whether the file system is in memory: O_DIRECT, even if accepted, then has no meaning.
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

    /// All requested bytes are within the file, also in the last block.
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
    fn too_little_and_too_much_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Scratch::create(folder.path(), 1 << 20), Err(Error::Range { .. })));
        assert!(matches!(Scratch::create(folder.path(), 1 << 60), Err(Error::NoSpace { .. })));
        let nowhere = folder.path().join("nowhere");
        assert!(matches!(Scratch::create(&nowhere, 8 << 20), Err(Error::File { .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

//! The destination of a run whose result must survive a crash.
//!
//! # Contract
//! A run of one pass writes a new file that has no name until it is complete. A run of several
//! passes writes [`Generations`]: every pass writes the next generation and commits it with the
//! checksums of its panels, against which the next pass checks it while reading.
//! [`start`](super::start) determines where a run begins.
//!
//! ```text
//! pass 1        pass 2        pass 3     A crash at any moment leaves the last committed
//!  | write       | read 1, check         generation complete, from which `resume` continues.
//!  v  gen. 1 ───>|
//!  commit        v write gen. 2 ──> ...
//! ```
//!
//! # Source
//! Two alternating copies and a manifest that is renamed into place: shadow paging (R. Lorie,
//! "Physical integrity in a large segmented database", TODS 1977). See [`Generations`].

use std::ops::Range;
use std::path::Path;

use syncline_store::{
    Matrix, NewFile, Shape,
    checksum::Checksum,
    direct_io::{DirectFile, IoBuffer, IoQueue, Method, ReadRequest},
    generation::{Generations, Identity, Progress},
};

use super::sums::Sums;
use crate::Result;
use crate::lanes::Real;
use crate::run::target::{Kind, Target};

/// The bytes of a unit of checksums.
const UNIT: usize = 4 << 20;
/// The bytes read at once when a file is only checked.
const CHECKED: usize = 1 << 20;

/// The destination of a result.
pub(crate) enum Destination {
    /// A file that gets its name when it is complete.
    New(NewFile),
    /// Files that the passes write in turn.
    Generations(Generations),
}

impl From<Destination> for Kind {
    fn from(destination: Destination) -> Kind {
        match destination {
            Destination::New(file) => Kind::New(vec![file]),
            Destination::Generations(generations) => Kind::Generations(generations),
        }
    }
}

/// A committed generation, and the number of rows in its units of checksums.
pub(crate) type Last = (DirectFile, usize);

/// The position of the rows in a file.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    /// The byte offset of the first element.
    pub(crate) start: u64,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
}

impl Panels {
    /// Returns the position of the rows in a result.
    pub(crate) fn of<E: Real>(target: &Target, shape: Shape) -> Self {
        let start = Matrix::<E>::header(target.npy, shape).len() as u64;
        Self { start, row_bytes: shape.cols * E::BYTES, rows: shape.rows }
    }

    /// Returns the number of rows in a unit of checksums.
    pub(crate) fn unit(&self) -> usize {
        (UNIT / self.row_bytes).max(1)
    }
}

impl Destination {
    /// Returns the file that the next pass writes; `path` is that of the result.
    pub(crate) fn next(&mut self, path: &Path) -> Result<DirectFile> {
        match self {
            Destination::New(new) => Ok(DirectFile::of(new.file(), path, true)?),
            Destination::Generations(generations) => {
                let next = generations.committed() + 1;
                let path = generations.path(next);
                Ok(DirectFile::of(&generations.file(next)?, &path, true)?)
            }
        }
    }

    /// Returns whether a later pass compares the data that it reads with checksums.
    pub(crate) fn is_checked(&self) -> bool {
        matches!(self, Destination::Generations(_))
    }

    /// Compares a unit of the last generation with its checksum.
    pub(crate) fn check(&self, unit: usize, sum: u64) -> Result<()> {
        match self {
            Destination::New(_) => Ok(()),
            Destination::Generations(generations) => Ok(generations.check_panel(unit, sum)?),
        }
    }

    /// Records what is known about the computation so far.
    pub(crate) fn record_identity(&mut self, identity: &Identity) {
        if let Destination::Generations(generations) = self {
            generations.record_identity(identity);
        }
    }

    /// Commits the output of the last pass: a run can resume from it now.
    pub(crate) fn commit(&mut self, progress: Progress) -> Result<Option<Last>> {
        if let Destination::Generations(generations) = self {
            let generation = generations.committed() + 1;
            generations.commit(&Progress { generation, ..progress })?;
        }
        self.last()
    }

    /// Returns the last committed generation, opened for reading.
    pub(crate) fn last(&mut self) -> Result<Option<Last>> {
        let Destination::Generations(generations) = self else {
            return Ok(None);
        };
        let generation = generations.committed();
        if generation == 0 {
            return Ok(None);
        }
        let path = generations.path(generation);
        let file = DirectFile::of(&generations.file(generation)?, &path, false)?;
        let unit = generations.progress().map_or(1, |progress| progress.panel_rows.max(1) as usize);
        Ok(Some((file, unit)))
    }

    /// Compares all of the last generation with the checksums of its pass.
    pub(crate) fn check_all(&self, (file, unit): &Last, panels: &Panels) -> Result<()> {
        panels
            .sums(file, *unit)?
            .into_iter()
            .enumerate()
            .try_for_each(|(unit, sum)| self.check(unit, sum))
    }
}

impl Panels {
    /// Returns whether the values in a file are those of the generation that was committed with
    /// `progress`.
    pub(crate) fn are_of(&self, path: &Path, progress: &Progress) -> Result<bool> {
        let unit = progress.panel_rows.max(1) as usize;
        Ok(self.sums(&DirectFile::open(path)?, unit)? == progress.checksums)
    }

    /// Returns the checksums of the units of a file.
    fn sums(&self, file: &DirectFile, unit: usize) -> Result<Vec<u64>> {
        let mut sums = Sums::new(unit, self.rows);
        self.read(file, |rows, bytes| sums.feed(rows, bytes, |_, _| Ok(())))?;
        Ok(sums.into_done())
    }

    /// Returns the checksum of all rows. Calls `go_on` with the size of each piece read; an error
    /// from it ends the sum.
    pub(crate) fn sum(&self, file: &DirectFile, go_on: impl Fn(u64) -> Result<()>) -> Result<u64> {
        let mut sum = Checksum::new();
        self.read(file, |_, bytes| {
            sum.update(bytes);
            go_on(bytes.len() as u64)
        })?;
        Ok(sum.value())
    }

    /// Reads all rows, piece by piece.
    fn read(
        &self,
        file: &DirectFile,
        mut each: impl FnMut(Range<usize>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Panels { start, row_bytes, rows } = *self;
        let piece = (CHECKED / row_bytes).clamp(1, rows);
        let mut queue = IoQueue::new(Method::Auto);
        let mut buffer = IoBuffer::new(piece * row_bytes + 2 * file.alignment())?;
        for row in (0..rows).step_by(piece) {
            let here = row..(row + piece).min(rows);
            let (offset, len) = (start + (row * row_bytes) as u64, here.len() * row_bytes);
            queue.read(&mut [ReadRequest { file, offset, len, into: buffer.as_mut_slice() }])?;
            each(here, &buffer.as_slice()[file.lead(offset)..][..len])?;
        }
        Ok(())
    }
}

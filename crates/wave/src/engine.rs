//! What all engines have in common: bands, pieces and rings of slabs.

use std::ops::Range;
use std::time::Duration;

use syncline_store::direct_io::IoBuffer;

use crate::Result;
use crate::monitor::Monitor;

/// The slabs of an array in memory. A slab is what one position of the first axis holds: a row of
/// a field of two dimensions, a plane of one of three.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slabs {
    /// The address of the first column of the first row, which need not be there.
    pub(crate) start: *mut u8,
    /// The position of the first slab on the first axis.
    pub(crate) first: usize,
    /// The number of bytes from one row to the next.
    pub(crate) pitch: usize,
    /// Of all slabs of an array whose first axis is periodic: the position in the array of the
    /// first slab that a pass reads, and the number of slabs, after which they follow again.
    pub(crate) around: Option<(usize, usize)>,
}

impl Slabs {
    /// Returns the address of the first column of a row. Each slab has `rows` of them.
    #[inline(always)]
    pub(crate) const fn row(&self, slab: usize, (row, rows): (usize, usize)) -> *mut u8 {
        let slab = match self.around {
            None => slab - self.first,
            Some((first, slabs)) => (first + slab) % slabs,
        };
        self.start.wrapping_add((slab * rows + row) * self.pitch)
    }
}

// SAFETY: the users of the address keep other threads from the values, see `Worker::piece`.
unsafe impl Send for Slabs {}
// SAFETY: as for `Send`.
unsafe impl Sync for Slabs {}

/// What a piece reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'j> {
    pub(crate) band: usize,
    /// The positions of the walk.
    pub(crate) range: (isize, isize),
    /// The slabs that come in, of all arrays.
    pub(crate) slabs_in: &'j [Slabs],
    /// The slabs that become final, of the fields; or of all arrays, for an engine that continues.
    pub(crate) slabs_out: &'j [Slabs],
    /// A piece ends early when this is cancelled.
    pub(crate) monitor: &'j Monitor,
}

/// The values that a piece takes over and gives away at the cuts between members of a team, before
/// and after this member in the order of the direction. What they are is a matter of the engine:
/// see the cuts of [strips](crate::strip::cut) and of [ordered rules](crate::engines::ordered).
/// What is given away may be longer than the values; a worker shortens it to them.
#[derive(Default)]
pub(crate) struct Crossing<'c> {
    pub(crate) from_before: Option<&'c [u8]>,
    pub(crate) from_after: Option<&'c [u8]>,
    pub(crate) to_before: Option<&'c mut [u8]>,
    pub(crate) to_after: Option<&'c mut [u8]>,
}

/// The bands of a pass, whose levels follow one another upward.
///
/// ```text
/// band 2, level 0   slabs 8 9 10 11      4 slabs to a band, each level 1 behind the one before
///         level 1   slabs 7 8 9 10
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bands {
    /// The number of slabs of the field.
    pub(crate) slabs: usize,
    /// The number of iterations of the pass.
    pub(crate) levels: usize,
    /// The number of slabs of a band.
    pub(crate) band: usize,
    /// The slabs that the first band has more, and those below the last one that are computed
    /// without being there. Both are 0 but for strips.
    pub(crate) more: (usize, usize),
    /// The number of bands in flight.
    pub(crate) flight: usize,
    /// The slabs by which each level is behind the one before, and the first behind what comes in.
    pub(crate) behind: usize,
    /// The slabs by which what comes in is behind the first slab of a band: 0, or those of the
    /// levels that another engine has run before.
    pub(crate) late: usize,
    /// The slabs whose final values are wanted, and by how many slabs on both sides each level
    /// reads more of the level before.
    pub(crate) wanted: (usize, usize),
    pub(crate) reach: usize,
}

impl Bands {
    /// Returns the number of bands.
    pub(crate) const fn count(&self) -> usize {
        let (first, last) = self.more;
        (self.slabs + self.late + self.levels * self.behind + last)
            .saturating_sub(first)
            .div_ceil(self.band)
    }

    /// Returns the greatest number of slabs of a band.
    pub(crate) fn most_slabs(&self) -> usize {
        (self.band + self.more.0).min(self.slabs).max(1)
    }

    /// Returns the slabs that come in with a band, along the direction.
    pub(crate) fn slabs_in(&self, band: usize) -> Range<usize> {
        self.shifted(band, self.late)
    }

    /// Returns the slabs that a level computes in a band, along the direction.
    pub(crate) fn slabs_at(&self, band: usize, level: usize) -> Range<usize> {
        let (more, (start, end)) = (self.reach * (self.levels - 1 - level), self.wanted);
        let clip = |slab: usize| slab.clamp(start.saturating_sub(more), end + more);
        let Range { start, end } = self.shifted(band, self.late + (level + 1) * self.behind);
        clip(start)..clip(end)
    }

    /// Returns the slabs that are final after a band, along the direction.
    pub(crate) fn slabs_out(&self, band: usize) -> Range<usize> {
        self.slabs_at(band, self.levels - 1)
    }

    fn shifted(&self, band: usize, up: usize) -> Range<usize> {
        let clip = |slab: usize| slab.saturating_sub(up).min(self.slabs);
        let cut = |band: usize| if band == 0 { 0 } else { band * self.band + self.more.0 };
        clip(cut(band))..clip(cut(band + 1))
    }
}

/// All iterations (*levels*) of a pass, band after band, and each band piece by piece.
pub(crate) trait Engine: Sync {
    /// Returns the bands of the pass.
    fn bands(&self) -> &Bands;

    /// Returns the levels that compute anything in a band.
    fn levels_in(&self, _band: usize) -> Range<usize> {
        0..self.bands().levels
    }

    /// Returns the positions over which the pieces of a band go.
    fn walk(&self) -> Range<isize>;

    /// Returns by how many pieces the band before must be ahead.
    fn ahead(&self) -> usize;

    /// Returns the place of a member of a team in the order of the direction, or the member at a
    /// place.
    fn nth(&self, member: usize) -> usize {
        member
    }

    /// Returns the positions of the pieces of a member, each of about `piece` positions.
    fn pieces(&self, _member: usize, piece: usize) -> Vec<(isize, isize)> {
        pieces(self.walk(), None, piece)
    }

    /// Returns the greatest number of bytes that cross a cut in a band: forward, and back. Cut `n`
    /// is the one after the `n`-th member in the order of the direction.
    fn crossing_bytes(&self, _cut: usize) -> [usize; 2] {
        [0, 0]
    }

    /// Returns what a thread needs to run pieces.
    fn worker(&self) -> Result<Box<dyn Worker + '_>>;
}

/// What runs the pieces of an engine, one at a time.
pub(crate) trait Worker: Send {
    /// Runs all levels of a piece. Takes over the values that have crossed the cuts before, and
    /// gives away those that cross them afterwards. Raises `norms`, if given, to the greatest
    /// change in each of the levels that [`levels_in`](Engine::levels_in) the band.
    ///
    /// Returns the time in which values were moved into the memory of the engine and out of it, as
    /// far as the engine knows.
    ///
    /// Ends early when the sweep is cancelled, between two runs of the program: then the pieces
    /// after it must not be run, and what it writes is of no use.
    ///
    /// # Safety
    /// * All pieces before this one in its band have been run, and those of the band before up to
    ///   [`ahead`](Engine::ahead) pieces further (or to its last one); the band that is
    ///   [`flight`](Bands::flight) bands before has ended. No other thread runs a piece of the same
    ///   band, nor a piece of another band for which this does not hold.
    /// * The slabs that come in must be valid for reads, and the slabs that become final for
    ///   writes; no other thread may write the former or access the latter. The final slabs may be
    ///   those of the field that came in with an earlier band.
    /// * Of a part, "all pieces" are those of this member. Its first piece in a band has the values
    ///   from the member before, and its last one those from the member after for the band before.
    /// * The processor must have the instructions of the lanes.
    unsafe fn piece(
        &mut self,
        job: &Job<'_>,
        crossing: &mut Crossing<'_>,
        norms: Option<&mut [f64]>,
    ) -> Duration;
}

/// Returns the positions of the pieces of a walk, or of those of a member: each has `piece`
/// positions. The first one begins with all positions before the walk, and the last one ends with
/// all after it. The last one of a member is longer instead of one that is shorter.
pub(crate) fn pieces(
    walk: Range<isize>,
    of_member: Option<(isize, isize)>,
    piece: usize,
) -> Vec<(isize, isize)> {
    let (start, end) = of_member.unwrap_or((isize::MIN / 2, isize::MAX / 2));
    let inside = start.max(walk.start)..end.min(walk.end);
    let count = match of_member {
        Some(_) => inside.len() / piece,
        None => inside.len().div_ceil(piece),
    };
    let cut = |c: usize| inside.start + (c * piece) as isize;
    let count = count.max(1);
    (0..count)
        .map(|c| {
            let start = if c == 0 { start } else { cut(c) };
            (start, if c + 1 == count { end } else { cut(c + 1) })
        })
        .collect()
}

/// A ring of slabs of one array.
#[derive(Debug)]
pub(super) struct Ring {
    memory: IoBuffer,
    /// The number of slabs, and the bytes from one to the next.
    slots: usize,
    pitch: usize,
    /// 2^64 divided by the number of slabs, rounded up.
    inverse: u64,
}

impl Ring {
    /// Allocates a ring of `slots` slabs, each of `bytes` bytes.
    pub(super) fn new(slots: usize, bytes: usize) -> Result<Self> {
        // An odd number of lines, so that the slabs differ in their sets of the cache.
        let pitch = (bytes.div_ceil(64) | 1) * 64;
        let memory = IoBuffer::new(slots * pitch + 64)?;
        let inverse = (u64::MAX / slots as u64).wrapping_add(1);
        Ok(Ring { memory, slots, pitch, inverse })
    }

    /// Returns the address of a slab; its position is at most the number of slabs below 0.
    #[inline(always)]
    pub(super) fn slab(&self, position: isize) -> *mut u8 {
        let (slots, at) = (self.slots as u64, (position + self.slots as isize) as u64);
        // A product with the inverse is faster than a division, and exact for numbers of 32 bits
        // (D. Lemire, O. Kaser and N. Kurz, "Faster remainder by direct computation", 2019).
        let slot = match at <= u64::from(u32::MAX) && slots > 1 {
            true => {
                let quotient = (u128::from(at) * u128::from(self.inverse)) >> 64;
                (at - quotient as u64 * slots) as usize
            }
            false => (at % slots) as usize,
        };
        self.memory.as_ptr().cast_mut().wrapping_add(slot * self.pitch)
    }
}

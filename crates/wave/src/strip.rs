//! Strips: rows side by side in one vector, skewed so that they do not depend on one another.
//!
//! # The layout
//! A strip is as many rows as a vector has values (`W`). Its vectors run along the diagonal:
//! position `c` of a strip holds, in value `i`, the element of row `i` and column `c - skew * i`.
//!
//! ```text
//!            columns                         position c = 3, skew 1, W = 4
//! row 0   .  .  .  #  .  .  .  .             value 0: column 3      A step from c to c + 1 updates one
//! row 1   .  .  #  .  .  .  .  .             value 1: column 2      point of each row. Its west and
//! row 2   .  #  .  .  .  .  .  .             value 2: column 1      north were updated at c - 1, its
//! row 3   #  .  .  .  .  .  .  .             value 3: column 0      east and south will be at c + 1.
//! ```
//!
//! So a plain loop over positions updates a whole vector per step, with loads that are aligned and
//! in place: west is the vector at `c - 1`; east that at `c + 1`; north that at `c - 1` moved by
//! one value, the last value of the strip above coming in; south that at `c + 1` moved the other
//! way. With a kernel that uses all corners the north-east neighbour must be older, too, and the
//! skew is 2.
//!
//! Side by side at each position stand the vectors of all arrays, the field first: one stream of
//! memory per strip, whatever the number of arrays. This is a *record*.
//!
//! # Time
//! Positions of all strips are compared by `g = c + skew * W * strip`, the column that row 0 would
//! have: at one `g`, all rows of the matrix may be updated, each at its own column. The next
//! iteration may follow `lag = skew + 1` columns behind in the same strip, or anywhere in strips
//! above.
//!
//! # Rows and strips
//! Row 0 is never updated, so strip 0 begins with row 1 (of a matrix whose first row is updated,
//! row 0 is a ghost line, see [`ghosts`]). Row 0 is the last value of strip -1, the last row of the
//! matrix is the first value after the interior. Values of rows that the matrix has not, and
//! positions left of column 0 or right of the last, are there but mean nothing: updates leave them
//! out by a mask.
//!
//! # The ring
//! Strips live in a ring of slots: strip `s` in slot `s mod slots`. What is where when is the
//! affair of the executors; here are only addresses.
//!
//! # Source
//! Skewed vectors are as old as vector computers (L. Lamport, "The parallel execution of DO loops",
//! CACM 1974); chained iterations are time skewing (D. Wonnacott, IJPP 2002).

pub(crate) mod fused;
pub(crate) mod ghosts;
pub(crate) mod masked;
pub(crate) mod pack;
pub(crate) mod tile;

#[cfg(test)]
pub(crate) mod tests;

use std::marker::PhantomData;

use syncline_store::{Element, Shape, direct_io::IoBuffer};

use crate::Result;

/// Strips that are updated together.
pub(crate) const TOGETHER: usize = 4;
/// Iterations that are fused in one loop.
pub(crate) const FUSED: usize = 4;

/// Numbers of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The matrix, with edges and ghost lines (see [`ghosts`]). At least 3 by 3.
    pub(crate) shape: Shape,
    /// Values of a vector: rows of a strip.
    pub(crate) width: usize,
    /// Columns between two rows at one position: 1, or 2 with corners.
    pub(crate) skew: usize,
    /// Vectors of a record: the field and its coefficients.
    pub(crate) arrays: usize,
    /// Strips of the ring. See [`with_slots`](Self::with_slots).
    pub(crate) slots: usize,
}

impl Geometry {
    /// The same with a ring for this many strips, or for all that there are.
    pub(crate) fn with_slots(self, slots: usize) -> Self {
        Geometry { slots: slots.min(self.last_strip() as usize + 2), ..self }
    }

    /// Columns between two iterations in one strip.
    pub(crate) const fn lag(&self) -> usize {
        self.skew + 1
    }

    /// Values of a record.
    pub(crate) const fn record(&self) -> usize {
        self.arrays * self.width
    }

    /// The difference of `g` between two strips.
    pub(crate) const fn step(&self) -> isize {
        (self.skew * self.width) as isize
    }

    /// Positions at which a strip has elements of the matrix, from 0.
    pub(crate) const fn positions(&self) -> usize {
        self.shape.cols + self.skew * (self.width - 1)
    }

    /// Positions before 0 and after the last that updates may touch.
    pub(crate) const fn pad(&self) -> usize {
        let fused = self.skew * self.width * (TOGETHER + FUSED + 1) + self.lag() * (FUSED + 1);
        fused + 2 * self.width
    }

    /// The last strip with a row of the matrix.
    pub(crate) const fn last_strip(&self) -> isize {
        (self.shape.rows.saturating_sub(2) / self.width) as isize
    }

    /// The row of the first value of a strip.
    pub(crate) const fn row(&self, strip: isize) -> isize {
        1 + strip * self.width as isize
    }

    /// The values of a strip whose rows are updated, a bit each.
    pub(crate) const fn interior(&self, strip: isize) -> u32 {
        let all = if self.width == 32 { u32::MAX } else { (1 << self.width) - 1 };
        let left = self.shape.rows as isize - 1 - self.row(strip);
        if strip < 0 || left <= 0 {
            0
        } else if left >= self.width as isize {
            all
        } else {
            (1 << left) - 1
        }
    }

    /// Records from one strip to the next in memory. Not a multiple of a page, so that the strips'
    /// records at one column are not all in one set of the cache.
    const fn stride(&self) -> usize {
        (self.positions() + 2 * self.pad()) | 1
    }

    /// Bytes of a ring of `slots` strips.
    pub(crate) const fn bytes(&self, element: usize) -> u64 {
        (self.slots * self.stride() * self.record() * element) as u64
    }
}

/// Strips in memory.
#[derive(Debug)]
pub(crate) struct Ring<E> {
    pub(crate) geometry: Geometry,
    memory: IoBuffer,
    element: PhantomData<E>,
}

impl<E: Element> Ring<E> {
    /// A ring of zeros.
    pub(crate) fn new(geometry: Geometry) -> Result<Self> {
        let memory = IoBuffer::new(geometry.bytes(E::BYTES) as usize)?;
        Ok(Ring { geometry, memory, element: PhantomData })
    }

    /// The same memory, if it is enough, for another geometry.
    pub(crate) fn fit(&mut self, geometry: Geometry) -> Result<()> {
        if geometry.bytes(E::BYTES) as usize > self.memory.len() {
            *self = Self::new(geometry)?;
        }
        self.geometry = geometry;
        Ok(())
    }

    /// Position 0 of a strip. Valid are the positions from minus [`Geometry::pad`] to
    /// [`Geometry::positions`] plus as many.
    #[inline(always)]
    pub(crate) fn strip(&self, strip: isize) -> *mut E {
        let g = &self.geometry;
        let slot = strip.rem_euclid(g.slots as isize) as usize;
        let record = slot * g.stride() + g.pad();
        self.memory.as_ptr().cast_mut().cast::<E>().wrapping_add(record * g.record())
    }
}

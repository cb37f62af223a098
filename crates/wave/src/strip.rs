//! Strips: rows side by side in one vector, skewed so that they do not depend on one another.
//!
//! # The layout
//! A strip has as many rows as a vector has values (`W`). Its vectors run along the diagonal:
//! position `c` of a strip holds, in value `i`, the element of row `i` and column `c - skew * i`.
//!
//! ```text
//!            columns                        position c = 3, skew 1, W = 4
//! row 0   .  .  .  #  .  .  .  .            value 0: column 3    A step from c to c + 1 updates
//! row 1   .  .  #  .  .  .  .  .            value 1: column 2    one point of each row. Its west
//! row 2   .  #  .  .  .  .  .  .            value 2: column 1    and north were updated at c - 1,
//! row 3   #  .  .  .  .  .  .  .            value 3: column 0    east and south will be at c + 1.
//! ```
//!
//! So a plain loop over positions updates a whole vector per step, with aligned loads and in place.
//! West is the vector at `c - 1`; east is the vector at `c + 1`; north is the vector at `c - 1`
//! shifted by one value, with the last value of the strip above coming in; south is the vector at
//! `c + 1` shifted the other way. With a kernel that uses all corners the north-east neighbour must
//! be updated before the point, too, and the skew is 2.
//!
//! At each position the vectors of all arrays are stored side by side, the field first. Each strip
//! is therefore one stream of memory, whatever the number of arrays. These vectors are a *record*.
//!
//! # Time
//! Positions of different strips are compared by `g = c + skew * W * strip`, the column that row 0
//! would have: at one `g`, all rows of the matrix may be updated, each at its own column. The next
//! iteration may follow `lag = skew + 1` columns behind in the same strip, or anywhere in strips
//! above.
//!
//! # Rows and strips
//! Row 0 is never updated, so strip 0 begins with row 1 (if the first row of the matrix is updated,
//! row 0 is a ghost line, see [`ghosts`]). Row 0 is the last value of strip -1; the last row of the
//! matrix is the first value after the interior. Values of rows outside of the matrix, and
//! positions left of column 0 or right of the last column, exist in memory but have no meaning:
//! updates exclude them with a mask.
//!
//! # The ring
//! Strips are stored in a ring of slots: strip `s` in slot `s mod slots`. The executors decide
//! which strips are in memory at which time; this module only computes addresses.
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

/// The number of strips that are updated together.
pub(crate) const TOGETHER: usize = 4;
/// The number of iterations that are fused in one loop.
pub(crate) const FUSED: usize = 4;

/// The dimensions of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The shape of the matrix, with edges and ghost lines (see [`ghosts`]). At least 3 by 3.
    pub(crate) shape: Shape,
    /// The number of values of a vector, which is the number of rows of a strip.
    pub(crate) width: usize,
    /// The number of columns between adjacent rows at one position: 1, or 2 with corners.
    pub(crate) skew: usize,
    /// The number of vectors of a record: the field and its coefficients.
    pub(crate) arrays: usize,
    /// The number of strips in the ring. See [`with_slots`](Self::with_slots).
    pub(crate) slots: usize,
}

impl Geometry {
    /// Returns the same geometry with a ring for `slots` strips, or for all strips if there are
    /// fewer.
    pub(crate) fn with_slots(self, slots: usize) -> Self {
        Geometry { slots: slots.min(self.last_strip() as usize + 2), ..self }
    }

    /// Returns the number of columns between two iterations in one strip.
    pub(crate) const fn lag(&self) -> usize {
        self.skew + 1
    }

    /// Returns the number of values of a record.
    pub(crate) const fn record(&self) -> usize {
        self.arrays * self.width
    }

    /// Returns the difference of `g` between adjacent strips.
    pub(crate) const fn step(&self) -> isize {
        (self.skew * self.width) as isize
    }

    /// Returns the number of positions, counted from 0, at which a strip has elements of the
    /// matrix.
    pub(crate) const fn positions(&self) -> usize {
        self.shape.cols + self.skew * (self.width - 1)
    }

    /// Returns the number of positions before 0 and after the last that updates may access.
    pub(crate) const fn pad(&self) -> usize {
        let fused = self.skew * self.width * (TOGETHER + FUSED + 1) + self.lag() * (FUSED + 1);
        fused + 2 * self.width
    }

    /// Returns the last strip with a row of the matrix.
    pub(crate) const fn last_strip(&self) -> isize {
        (self.shape.rows.saturating_sub(2) / self.width) as isize
    }

    /// Returns the row of the first value of a strip.
    pub(crate) const fn row(&self, strip: isize) -> isize {
        1 + strip * self.width as isize
    }

    /// Returns a bit mask of the values of a strip whose rows are updated.
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

    /// Returns the number of records from one strip to the next in memory. It is odd, so that the
    /// records of the strips at one column are not all in one set of the cache.
    const fn stride(&self) -> usize {
        (self.positions() + 2 * self.pad()) | 1
    }

    /// Returns the size of the ring, in bytes, for elements of `element` bytes.
    pub(crate) const fn bytes(&self, element: usize) -> u64 {
        (self.slots * self.stride() * self.record() * element) as u64
    }
}

/// A ring of strips in memory.
#[derive(Debug)]
pub(crate) struct Ring<E> {
    pub(crate) geometry: Geometry,
    memory: IoBuffer,
    element: PhantomData<E>,
}

impl<E: Element> Ring<E> {
    /// Allocates a ring filled with zeros.
    pub(crate) fn new(geometry: Geometry) -> Result<Self> {
        let memory = IoBuffer::new(geometry.bytes(E::BYTES) as usize)?;
        Ok(Ring { geometry, memory, element: PhantomData })
    }

    /// Changes the geometry and keeps the memory if it is large enough; allocates a new ring
    /// otherwise.
    pub(crate) fn fit(&mut self, geometry: Geometry) -> Result<()> {
        if geometry.bytes(E::BYTES) as usize > self.memory.len() {
            *self = Self::new(geometry)?;
        }
        self.geometry = geometry;
        Ok(())
    }

    /// Returns the address of position 0 of a strip. The positions from `-pad` to `positions + pad`
    /// are valid, see [`Geometry::pad`] and [`Geometry::positions`].
    #[inline(always)]
    pub(crate) fn strip(&self, strip: isize) -> *mut E {
        let g = &self.geometry;
        let slot = strip.rem_euclid(g.slots as isize) as usize;
        let record = slot * g.stride() + g.pad();
        self.memory.as_ptr().cast_mut().cast::<E>().wrapping_add(record * g.record())
    }
}

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
//! row 0 is a ghost line beyond the matrix). Row 0 is the last value of strip -1; the last row of
//! the matrix is the first value after the interior. Values of rows outside of the matrix, and
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

pub mod fused;
pub mod inner;
pub mod masked;

use std::marker::PhantomData;
use std::ops::Range;

use syncline_store::{Element, Result, Shape, direct_io::IoBuffer};

/// The number of strips that are updated together.
pub const TOGETHER: usize = 4;
/// The number of iterations that are fused in one loop.
pub const FUSED: usize = 4;

/// The dimensions of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The shape of the matrix, with edges and ghost lines. At least 3 by 3.
    pub shape: Shape,
    /// The number of values of a vector, which is the number of rows of a strip.
    pub width: usize,
    /// The number of columns between adjacent rows at one position: 1, or 2 with corners.
    pub skew: usize,
    /// The number of vectors of a record: the field and its coefficients.
    pub arrays: usize,
    /// The number of strips in the ring. See [`with_slots`](Self::with_slots).
    pub slots: usize,
}

impl Geometry {
    /// Returns the same geometry with a ring for `slots` strips, or for all strips if there are
    /// fewer.
    #[inline]
    pub fn with_slots(self, slots: usize) -> Self {
        Geometry { slots: slots.min(self.last_strip() as usize + 2), ..self }
    }

    /// Returns the number of columns between two iterations in one strip.
    #[inline]
    pub const fn lag(&self) -> usize {
        self.skew + 1
    }

    /// Returns the number of values of a record.
    #[inline]
    pub const fn record(&self) -> usize {
        self.arrays * self.width
    }

    /// Returns the difference of `g` between adjacent strips.
    #[inline]
    pub const fn step(&self) -> isize {
        (self.skew * self.width) as isize
    }

    /// Returns the number of positions, counted from 0, at which a strip has elements of the
    /// matrix.
    #[inline]
    pub const fn positions(&self) -> usize {
        self.shape.cols + self.skew * (self.width - 1)
    }

    /// Returns the number of positions before 0 and after the last that updates may access.
    #[inline]
    pub const fn pad(&self) -> usize {
        let fused = self.skew * self.width * (TOGETHER + FUSED + 1) + self.lag() * (FUSED + 1);
        fused + 2 * self.width
    }

    /// Returns the last strip with a row of the matrix.
    #[inline]
    pub const fn last_strip(&self) -> isize {
        (self.shape.rows.saturating_sub(2) / self.width) as isize
    }

    /// Returns the row of the first value of a strip.
    #[inline]
    pub const fn row(&self, strip: isize) -> isize {
        1 + strip * self.width as isize
    }

    /// Returns a bit mask of the values of a strip whose rows are updated.
    #[inline]
    pub const fn interior(&self, strip: isize) -> u32 {
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

    /// Returns all positions that updates may access, which is the window of a ring of whole
    /// strips.
    #[inline]
    pub const fn whole(&self) -> Range<isize> {
        -(self.pad() as isize)..(self.positions() + self.pad()) as isize
    }

    /// Returns the number of records from one strip to the next in a ring with this window. It is
    /// odd, so that the records of the strips at one column are not all in one set of the cache.
    #[inline]
    const fn stride(window: &Range<isize>) -> usize {
        (window.end - window.start) as usize | 1
    }

    /// Returns the size of a ring of whole strips, in bytes, for elements of `element` bytes.
    #[inline]
    pub const fn bytes(&self, element: usize) -> u64 {
        self.bytes_of(&self.whole(), element)
    }

    /// Returns the size of a ring with this window, in bytes, for elements of `element` bytes.
    #[inline]
    pub const fn bytes_of(&self, window: &Range<isize>, element: usize) -> u64 {
        (self.slots * Self::stride(window) * self.record() * element) as u64
    }
}

/// A ring of strips in memory.
///
/// It stores the positions of one *window* of each strip: all of them, or those that one of several
/// hosts accesses.
#[derive(Debug)]
pub struct Ring<E> {
    pub geometry: Geometry,
    window: Range<isize>,
    memory: IoBuffer,
    element: PhantomData<E>,
}

impl<E: Element> Ring<E> {
    /// Allocates a ring of whole strips, filled with zeros.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Self::of(geometry, geometry.whole())
    }

    /// Allocates a ring of the positions of `window`, filled with zeros.
    pub fn of(geometry: Geometry, window: Range<isize>) -> Result<Self> {
        let memory = IoBuffer::new(geometry.bytes_of(&window, E::BYTES) as usize)?;
        Ok(Ring { geometry, window, memory, element: PhantomData })
    }

    /// Changes the ring to one of whole strips of this geometry, see [`fit_to`](Self::fit_to).
    pub fn fit(&mut self, geometry: Geometry) -> Result<()> {
        self.fit_to(geometry, geometry.whole())
    }

    /// Changes the geometry and the window. Keeps the memory if it is large enough; allocates a new
    /// ring otherwise.
    pub fn fit_to(&mut self, geometry: Geometry, window: Range<isize>) -> Result<()> {
        if geometry.bytes_of(&window, E::BYTES) as usize > self.memory.len() {
            *self = Self::of(geometry, window)?;
        } else {
            (self.geometry, self.window) = (geometry, window);
        }
        Ok(())
    }

    /// Returns the positions that are in memory.
    #[inline]
    pub const fn window(&self) -> &Range<isize> {
        &self.window
    }

    /// Returns the address of position 0 of a strip, which need not be in the window. The addresses
    /// of the positions of the window are valid.
    #[inline(always)]
    pub fn strip(&self, strip: isize) -> *mut E {
        let g = &self.geometry;
        let slot = strip.rem_euclid(g.slots as isize) as usize;
        let record = (slot * Geometry::stride(&self.window)) as isize - self.window.start;
        let start = self.memory.as_ptr().cast_mut().cast::<E>();
        start.wrapping_offset(record * g.record() as isize)
    }
}

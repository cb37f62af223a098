//! The window of one array: positions in memory, each with one value of every row.
//!
//! ```text
//! row 0   a b c d        position 0   a . .      skew 1: a column of the window has the values of
//! row 1   e f g h        position 1   b e .      one diagonal, side by side
//! row 2   i j k l        position 2   c f i
//! ```

use std::ops::Range;

use syncline_store::direct_io::IoBuffer;

use crate::Result;

/// A window of one array.
pub(super) struct Window {
    memory: IoBuffer,
    /// The bytes of a value.
    pub(super) bytes: usize,
    /// The number of values from one position to the next.
    pub(super) pitch: usize,
}

/// A row of an array.
pub(super) struct Line {
    /// The address of its first column.
    pub(super) start: *mut u8,
    /// The number of its columns.
    pub(super) cols: usize,
    /// Whether the sweep begins with the last of them.
    pub(super) left: bool,
}

/// From a line to a window, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
}

impl Window {
    /// Allocates a window for values of `bytes` bytes.
    pub(super) fn new(positions: usize, rows: usize, bytes: usize) -> Result<Self> {
        // A position begins at a line of the cache, and positions differ in their sets.
        let pitch = ((rows * bytes).div_ceil(64) | 1) * 64;
        let memory = IoBuffer::new(positions * pitch + 64)?;
        Ok(Window { memory, bytes, pitch: pitch / bytes })
    }

    /// Returns the address of a value, by its position from the first one of the window.
    #[inline(always)]
    pub(super) fn at(&self, position: usize, row: usize) -> *mut u8 {
        let index = position * self.pitch + row;
        self.memory.as_ptr().cast_mut().wrapping_add(index * self.bytes)
    }

    /// Copies the values of some positions between a line and the window, which begins at `base`.
    /// The line is that of a row of the window, each row being `skew` positions later.
    ///
    /// # Safety
    /// The window has the positions, and no other thread accesses it; the line must be valid for
    /// the accesses in the columns of these positions.
    pub(super) unsafe fn copy(
        &self,
        line: &Line,
        (row, skew): (usize, usize),
        base: isize,
        positions: &Range<isize>,
        way: Way,
    ) {
        let (n, later) = (line.cols as isize, (skew * row) as isize);
        let clip = |position: isize| (position - later).clamp(0, n);
        let cols = clip(positions.start)..clip(positions.end);
        if cols.is_empty() {
            return;
        }
        let count = (cols.end - cols.start) as usize;
        let inside = self.at((cols.start + later - base) as usize, row);
        let (first, step) = if line.left { (n - 1 - cols.start, -1) } else { (cols.start, 1) };
        let outside = line.start.wrapping_add(first as usize * self.bytes);
        // SAFETY: the caller guarantees the window and the line, which are of this type.
        unsafe {
            match self.bytes {
                8 => copy::<u64>(outside, step, inside, self.pitch, count, way),
                4 => copy::<u32>(outside, step, inside, self.pitch, count, way),
                2 => copy::<u16>(outside, step, inside, self.pitch, count, way),
                _ => copy::<u8>(outside, step, inside, self.pitch, count, way),
            }
        }
    }
}

/// Copies `count` values between a line, whose values are `step` apart, and a row of a window,
/// whose values are `pitch` apart.
///
/// # Safety
/// All values must be valid for the accesses.
#[inline(always)]
unsafe fn copy<T: Copy>(
    line: *mut u8,
    step: isize,
    window: *mut u8,
    pitch: usize,
    count: usize,
    way: Way,
) {
    let (line, window) = (line.cast::<T>(), window.cast::<T>());
    for i in 0..count {
        let (at, place) = (line.wrapping_offset(step * i as isize), window.wrapping_add(i * pitch));
        // SAFETY: the caller guarantees both.
        unsafe {
            match way {
                Way::In => place.write_unaligned(at.read_unaligned()),
                Way::Out => at.write_unaligned(place.read_unaligned()),
            }
        }
    }
}

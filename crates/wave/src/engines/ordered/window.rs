//! The window of one array: positions in memory, each with one value of every row.
//!
//! ```text
//! row 0   a b c d        position 0   a . .      skew 1: a column of the window has the values of
//! row 1   e f g h        position 1   b e .      one diagonal, side by side
//! row 2   i j k l        position 2   c f i
//! ```
//!
//! Rows that are equally far from one another are copied in squares, which vectors transpose: a
//! square of a skewed row begins one position earlier than that of the row above. The first and the
//! last squares overlap with those beside them. What is in no square is copied one by one: the ends
//! of skewed rows, values of one or two bytes, and rows of which the sweep begins with the last
//! column.

use std::ops::Range;

use syncline_kernel::lanes::dispatch::{Work, dispatch};
use syncline_store::direct_io::IoBuffer;

use crate::Result;
use crate::lanes::{Lanes, Real, Vector};

/// A window of one array.
pub(super) struct Window {
    /// The address of the first row of its first position.
    start: *mut u8,
    /// The memory, if it is the window's own.
    _memory: Option<IoBuffer>,
    /// The bytes of a value.
    pub(super) bytes: usize,
    /// The number of values from one position to the next.
    pub(super) pitch: usize,
}

/// Where points are: the address of the one at position 0 and in row 0, which need not be there,
/// and the bytes from one position or row to the next.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    start: *mut u8,
    step: isize,
    bytes: isize,
}

impl Origin {
    #[inline(always)]
    pub(super) const fn at(&self, position: isize, row: isize) -> *mut u8 {
        self.start.wrapping_offset(position * self.step + row * self.bytes)
    }
}

/// A row of an array.
pub(super) struct Line {
    /// The address of its first column.
    pub(super) start: *mut u8,
    /// The number of its columns.
    pub(super) cols: usize,
    /// Whether the sweep begins with the last of them.
    pub(super) left: bool,
    /// The columns that are copied, along the direction.
    pub(super) copied: Range<usize>,
}

/// From a line to a window, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
}

impl Window {
    /// Returns the bytes from one position to the next.
    pub(super) const fn pitch(rows: usize, bytes: usize) -> usize {
        // A position begins at a line of the cache, and positions differ in their sets.
        ((rows * bytes).div_ceil(64) | 1) * 64
    }

    /// Allocates a window for values of `bytes` bytes.
    pub(super) fn new(positions: usize, rows: usize, bytes: usize) -> Result<Self> {
        let memory = IoBuffer::new(positions * Window::pitch(rows, bytes) + 64)?;
        let window = Window::at_place(memory.as_ptr().cast_mut(), rows, bytes);
        Ok(Window { _memory: Some(memory), ..window })
    }

    /// Returns the window of values that are stored in this way.
    pub(super) const fn at_place(start: *mut u8, rows: usize, bytes: usize) -> Self {
        Window { start, _memory: None, bytes, pitch: Window::pitch(rows, bytes) / bytes }
    }

    /// Returns the address of a value, by its position from the first one of the window.
    #[inline(always)]
    pub(super) fn at(&self, position: usize, row: usize) -> *mut u8 {
        let index = position * self.pitch + row;
        self.start.wrapping_add(index * self.bytes)
    }

    /// Returns the distance in bytes to the point some rows down and columns to the right.
    pub(super) const fn distance(&self, skew: usize, down: isize, right: isize) -> isize {
        let positions = right + skew as isize * down;
        (positions * self.pitch as isize + down) * self.bytes as isize
    }

    /// Returns where the points some bytes from those of the window are, which begins at `base`.
    pub(super) fn origin(&self, base: isize, distance: isize) -> Origin {
        let (step, bytes) = ((self.pitch * self.bytes) as isize, self.bytes as isize);
        Origin { start: self.start.wrapping_offset(distance - base * step), step, bytes }
    }

    /// Copies the values of some positions between lines and the window, which begins at `base`.
    /// The lines are those of the rows from `row` on, each `skew` positions after the one above.
    /// All begin with the first column, and the machine has the lanes.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy), for all lines.
    pub(super) unsafe fn copy_all(
        &self,
        lanes: Lanes,
        lines: &[Line],
        (row, skew): (usize, usize),
        base: isize,
        positions: &Range<isize>,
        way: Way,
    ) {
        let width = lanes.width(self.bytes);
        let has_squares = width > 1 && self.bytes >= size_of::<f32>() && lines.len() >= width;
        if !has_squares || lines[0].left {
            for (i, line) in lines.iter().enumerate() {
                // SAFETY: the conditions are those of this function.
                unsafe { self.copy(line, (row + i, skew), base, positions, way) };
            }
            return;
        }
        let mut done = 0;
        while done < lines.len() {
            // Groups begin at whole vectors of the window. The first one and the last one overlap
            // with those beside them: what both copy is the same.
            let first = done.min(lines.len() - width);
            let group = &lines[first..first + width];
            // SAFETY: the conditions are those of this function.
            unsafe { self.copy_group(lanes, group, (row + first, skew), base, positions, way) };
            done = match first + width < lines.len() {
                true => (row + first + 1).next_multiple_of(width) - row,
                false => lines.len(),
            };
        }
    }

    /// Copies the values of a group, which has as many lines as a vector has values: more than one,
    /// of at least four bytes. The sweep begins with the first column.
    ///
    /// # Safety
    /// As for [`copy_all`](Self::copy_all).
    unsafe fn copy_group(
        &self,
        lanes: Lanes,
        group: &[Line],
        (row, skew): (usize, usize),
        base: isize,
        positions: &Range<isize>,
        way: Way,
    ) {
        let one_by_one = |positions: Range<isize>| {
            for (i, line) in group.iter().enumerate() {
                // SAFETY: the conditions are those of this function.
                unsafe { self.copy(line, (row + i, skew), base, &positions, way) };
            }
        };
        // The positions at which all rows of the group have a column.
        let later = |i: usize| (skew * (row + i)) as isize;
        let cols = || group.iter().enumerate().map(|(i, line)| (later(i), &line.copied));
        let start = cols().map(|(later, cols)| later + cols.start as isize);
        let end = cols().map(|(later, cols)| later + cols.end as isize);
        let start = start.fold(positions.start, isize::max);
        let end = end.fold(positions.end, isize::min);
        let address = |i: usize| group[i].start.addr() as isize;
        let apart = address(1) - address(0);
        let even = (1..group.len()).all(|i| address(i) - address(i - 1) == apart);
        let is_aligned = (address(0) | apart) % self.bytes as isize == 0;
        if end - start < group.len() as isize || !even || !is_aligned {
            return one_by_one(positions.clone());
        }
        let from = (start - later(0)) as usize * self.bytes;
        let work = Squares {
            line: group[0].start.wrapping_add(from),
            apart: apart / self.bytes as isize - skew as isize,
            window: self.at((start - base) as usize, row),
            pitch: self.pitch,
            count: (end - start) as usize,
            way,
        };
        // SAFETY: the lines are equally far apart and have the columns of these positions, which
        // the window has as well; the machine has the lanes.
        unsafe {
            match self.bytes {
                8 => dispatch::<f64, _>(lanes, work),
                _ => dispatch::<f32, _>(lanes, work),
            }
        }
        for rest in [positions.start..start, end..positions.end] {
            if !rest.is_empty() {
                one_by_one(rest);
            }
        }
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
        let [first, end] = [line.copied.start, line.copied.end].map(|col| col as isize);
        let clip = |position: isize| (position - later).clamp(first, end);
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

/// Squares of values: as many rows as a vector has values, and as many positions. The last one
/// overlaps with the one before, where they do not fit in.
struct Squares {
    /// The first value of the first row, and the values from one row's first to the next.
    line: *mut u8,
    apart: isize,
    window: *mut u8,
    pitch: usize,
    /// The number of positions, at least those of a square.
    count: usize,
    way: Way,
}

impl<E: Real> Work<E> for Squares {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        let (line, window) = (self.line.cast::<E>(), self.window.cast::<E>());
        for position in (0..self.count).step_by(L::WIDTH) {
            let position = position.min(self.count - L::WIDTH);
            let line = line.wrapping_add(position);
            let window = window.wrapping_add(position * self.pitch);
            // SAFETY: `Window::copy_group` guarantees the rows and the vectors. A vector moves the
            // bits of any values of this size.
            unsafe {
                match self.way {
                    Way::In => L::transpose_in(line, self.apart, window, self.pitch),
                    Way::Out => L::transpose_out(window, self.pitch, line, self.apart),
                }
            }
        }
    }
}

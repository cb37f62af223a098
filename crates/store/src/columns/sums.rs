//! Checksums of an array that some hosts write, and that others read by other columns.
//!
//! # Contract
//! The array is divided into *units*: a number of rows by the bytes between two *bounds* of a row.
//! A *piece* is the part of one row that one host writes in one unit. The sum of a unit is the sum,
//! modulo 2^64, of a mix of the [`checksum`] and the position of each of its pieces. So the sums of
//! hosts add up, in any order, and a reader that knows the ranges of the writers computes the sums
//! of what it has read:
//!
//! ```text
//!         bounds 0           1           2           3
//!  rows 0..u    |###########|####.......|...........|     # host 0: sums a0, a1, 0
//!               |###########|###........|...........|     . host 1: sums 0,  b1, b2
//!                                                           all:    a0, a1 + b1, b2
//! ```
//! With a bound wherever the range of a reader begins or ends, each reader reads whole units. It
//! subtracts what it reads from the sums of all writers: a unit that is not damaged leaves 0.
//!
//! The mix is a bijection of the checksum for each position. So damage to one piece remains
//! undetected if its checksum does; damage to several, missing pieces, and pieces that were added
//! twice or changed places remain undetected with a probability of about 2^-64. The sum is no
//! defence against forgery.
//!
//! # Why sums of checksums
//! Which columns a member finishes depends on the row, and a member reads some that others have
//! written. Sums of words would need no common bounds, but take five to ten times as long as
//! XXH3 of pieces. If each member checked only what it has written itself, no sums would be
//! exchanged; but a stale copy that a host reads of the columns of another host would get into
//! the result.
//!
//! # Costs
//! The checksum of each piece, and a search among the bounds for each range that is given.
//!
//! Source: the mix is the finalizer of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast
//! splittable pseudorandom number generators", OOPSLA 2014); a sum of hashes of (position, value)
//! pairs is the additive set hash of M. Bellare and D. Micciancio, "A new paradigm for
//! collision-free hashing", EUROCRYPT 1997.

use std::ops::Range;
use std::sync::Arc;

use crate::{Error, Result, checksum::checksum};

/// The distance between the keys of two positions: 2^64 divided by the golden ratio.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sums of the units of an array in some of its columns.
///
/// ```
/// use std::sync::Arc;
/// use syncline_store::columns::UnitSums;
/// // 2 rows of 24 bytes, in one unit of 2 rows by bytes 0 to 16, and one by bytes 16 to 24.
/// let bounds: Arc<[u64]> = Arc::new([0, 16, 24]);
/// let new = |units| UnitSums::new(2, 2, Arc::clone(&bounds), units);
/// let (mut west, mut east) = (new(0..1)?, new(0..2)?);
/// let mut bytes: Vec<u8> = (0..48).collect();
/// // Two hosts write, and their cut moves from row to row.
/// let cut = |row: usize| 16 - 8 * row;
/// for (row, bytes) in bytes.chunks(24).enumerate() {
///     let (at, middle) = (row as u64, cut(row) as u64);
///     west.add(at, 0..middle, &bytes[..cut(row)])?;
///     east.add(at, middle..24, &bytes[cut(row)..])?;
/// }
/// // A host reads the first 16 bytes of each row. They were changed since.
/// bytes[30] += 1;
/// let mut left = new(0..1)?;
/// left.merge(west.units(), west.sums())?;
/// left.merge(east.units(), east.sums())?;
/// for (row, bytes) in bytes.chunks(24).enumerate() {
///     let (at, middle) = (row as u64, cut(row) as u64);
///     left.subtract(at, 0..middle, &bytes[..cut(row)])?;
///     left.subtract(at, middle..16, &bytes[cut(row)..16])?;
/// }
/// assert_eq!(left.damaged(0..2), Some((0..2, 0..16)));
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSums {
    rows: u64,
    /// The number of rows of a unit.
    height: u64,
    bounds: Arc<[u64]>,
    /// The units of the first rows that are summed here, counted from west to east.
    units: Range<usize>,
    /// Those of the first rows from west to east, then those of the next rows.
    sums: Vec<u64>,
}

impl UnitSums {
    /// Creates sums of no bytes, of an array of `rows` rows. A unit has `height` rows, and the
    /// bytes of each between two neighbours in `bounds`, which ascend from 0 to the length of a
    /// row. Of the units of each row, those in `units` are summed.
    ///
    /// # Errors
    /// [`Error::Columns`] if there is no row, no such unit, or a unit without bytes.
    pub fn new(rows: u64, height: u64, bounds: Arc<[u64]>, units: Range<usize>) -> Result<Self> {
        let ascend = bounds.first() == Some(&0) && bounds.is_sorted_by(|a, b| a < b);
        let within = units.start <= units.end && units.end < bounds.len();
        if rows == 0 || height == 0 || !ascend || !within {
            return Err(wrong(format!(
                "{rows} rows have no sums by {height} rows, and units {units:?} of {bounds:?}"
            )));
        }
        let sums = vec![0; rows.div_ceil(height) as usize * units.len()];
        Ok(Self { rows, height, bounds, units, sums })
    }

    /// Adds what one host writes in a row: its bytes `columns`.
    ///
    /// # Errors
    /// [`Error::Columns`] if the bytes are in no unit that is summed here, or `bytes` has another
    /// length; the sums are then unchanged.
    pub fn add(&mut self, row: u64, columns: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.each_piece(row, columns, bytes, u64::wrapping_add)
    }

    /// Subtracts what was read in a row: of the bytes that one host wrote there, `columns`, which
    /// begin and end where that host's do, or at a bound.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn subtract(&mut self, row: u64, columns: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.each_piece(row, columns, bytes, u64::wrapping_sub)
    }

    fn each_piece(
        &mut self,
        row: u64,
        columns: Range<u64>,
        bytes: &[u8],
        change: fn(u64, u64) -> u64,
    ) -> Result<()> {
        let Range { start, end } = columns;
        let (least, most) = (self.bounds[self.units.start], self.bounds[self.units.end]);
        let len = end.checked_sub(start);
        if row >= self.rows || start < least || end > most || len != Some(bytes.len() as u64) {
            let why = format!(
                "{} bytes were summed as bytes {start} to {end} of row {row}, of {} rows from byte \
                 {least} to {most}",
                bytes.len(),
                self.rows
            );
            return Err(wrong(why));
        }
        let row_bytes = self.bounds[self.bounds.len() - 1];
        let first = (row / self.height) as usize * self.units.len();
        let mut unit = self.bounds.partition_point(|&bound| bound <= start) - 1;
        let (mut at, mut bytes) = (start, bytes);
        while at < end {
            let to = self.bounds[unit + 1].min(end);
            let (here, rest) = bytes.split_at((to - at) as usize);
            let position = row.wrapping_mul(row_bytes).wrapping_add(at);
            let piece = mix(checksum(here).wrapping_add(position.wrapping_mul(KEY)));
            let sum = &mut self.sums[first + unit - self.units.start];
            *sum = change(*sum, piece);
            (at, bytes, unit) = (to, rest, unit + 1);
        }
        Ok(())
    }

    /// Adds the [`sums`](Self::sums) of another host, of its [`units`](Self::units). Those of units
    /// that are not summed here are left out.
    ///
    /// # Errors
    /// [`Error::Columns`] if their number is not that of such units; the sums are then unchanged.
    pub fn merge(&mut self, units: Range<usize>, sums: &[u64]) -> Result<()> {
        let high = self.rows.div_ceil(self.height) as usize;
        if sums.len() != high * units.len() {
            let (given, wide) = (sums.len(), units.len());
            return Err(wrong(format!("{given} sums were given for {high} by {wide} units")));
        }
        let common = self.units.start.max(units.start)..self.units.end.min(units.end);
        let own = self.sums.chunks_mut(self.units.len().max(1));
        for (own, other) in own.zip(sums.chunks(units.len().max(1))) {
            for unit in common.clone() {
                let sum = &mut own[unit - self.units.start];
                *sum = sum.wrapping_add(other[unit - units.start]);
            }
        }
        Ok(())
    }

    /// Returns the units of the first rows that are summed here, counted from west to east.
    pub fn units(&self) -> Range<usize> {
        self.units.clone()
    }

    /// Returns the sums: the units of the first rows from west to east, then those of the next.
    pub fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// Returns the rows and the bytes of each row of the first unit with a sum other than 0, of the
    /// units whose last row is in `rows`.
    pub fn damaged(&self, rows: Range<u64>) -> Option<(Range<u64>, Range<u64>)> {
        let high = self.rows.div_ceil(self.height);
        let complete = |rows: u64| if rows >= self.rows { high } else { rows / self.height };
        self.damaged_of(complete(rows.start)..complete(rows.end))
    }

    /// Like [`damaged`](Self::damaged), of the units whose first row is in `rows`: for rows that
    /// are read from the last to the first.
    pub fn damaged_up(&self, rows: Range<u64>) -> Option<(Range<u64>, Range<u64>)> {
        let high = self.rows.div_ceil(self.height);
        let begun = |rows: u64| rows.div_ceil(self.height).min(high);
        self.damaged_of(begun(rows.start)..begun(rows.end))
    }

    /// Returns the first unit with a sum other than 0, of some rows of units.
    fn damaged_of(&self, high: Range<u64>) -> Option<(Range<u64>, Range<u64>)> {
        let across = self.units.len();
        let looked = high.start as usize * across..high.end as usize * across;
        let (first, sums) = (looked.start, self.sums.get(looked)?);
        let nth = first + sums.iter().position(|&sum| sum != 0)?;
        let (row, unit) = ((nth / across) as u64 * self.height, self.units.start + nth % across);
        let rows = row..(row + self.height).min(self.rows);
        Some((rows, self.bounds[unit]..self.bounds[unit + 1]))
    }
}

/// Mixes the bits of a number: a bijection.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn wrong(why: String) -> Error {
    Error::Columns { name: "the array".to_owned(), why }
}

#[cfg(test)]
mod tests {
    use syncline_testkit::{Random, cases, seed};

    use super::*;

    /// An array that hosts write and others read.
    struct Case {
        rows: u64,
        height: u64,
        bounds: Arc<[u64]>,
        /// For each row, the ends of the ranges of the writers.
        writers: Vec<Vec<u64>>,
        bytes: Vec<u8>,
    }

    impl Case {
        fn any(random: &mut Random) -> Case {
            let (rows, row_bytes) = (1 + random.below(40_u64), 2 + random.below(3000_u64));
            let (bounds, writers) = (random.below(6), 1 + random.below(4));
            let mut ends = |count: usize| {
                let mut ends: Vec<u64> = (0..count).map(|_| random.below(row_bytes + 1)).collect();
                ends.push(row_bytes);
                ends.sort_unstable();
                ends
            };
            let mut bounds = [vec![0], ends(bounds)].concat();
            bounds.dedup();
            let writers = (0..rows).map(|_| ends(writers - 1)).collect();
            let bytes = (0..rows * row_bytes).map(|_| random.number() as u8).collect();
            let height = 1 + random.below(12);
            Case { rows, height, bounds: bounds.into(), writers, bytes }
        }

        fn row_bytes(&self) -> u64 {
            self.bounds[self.bounds.len() - 1]
        }

        fn empty(&self, units: Range<usize>) -> UnitSums {
            UnitSums::new(self.rows, self.height, Arc::clone(&self.bounds), units).unwrap()
        }

        fn of_row(&self, bytes: &[u8], row: u64, columns: Range<u64>) -> Vec<u8> {
            let at = |column| (row * self.row_bytes() + column) as usize;
            bytes[at(columns.start)..at(columns.end)].to_vec()
        }

        /// Returns the ranges of the writers in a row.
        fn ranges(&self, row: u64) -> Vec<Range<u64>> {
            let mut start = 0;
            let ends = self.writers[row as usize].iter();
            ends.map(|&end| std::mem::replace(&mut start, end)..end).collect()
        }

        /// Returns the sums of all writers.
        fn written(&self, random: &mut Random) -> UnitSums {
            let all = 0..self.bounds.len() - 1;
            let mut hosts = vec![self.empty(all.clone()); self.writers[0].len()];
            let mut rows: Vec<u64> = (0..self.rows).collect();
            random.shuffle(&mut rows);
            for row in rows {
                for (host, columns) in hosts.iter_mut().zip(self.ranges(row)) {
                    let bytes = self.of_row(&self.bytes, row, columns.clone());
                    host.add(row, columns, &bytes).unwrap();
                }
            }
            let mut sums = self.empty(all);
            random.shuffle(&mut hosts);
            hosts.iter().for_each(|host| sums.merge(host.units(), host.sums()).unwrap());
            sums
        }

        /// Reads the columns of some units of other bytes, in bands; returns the first damage.
        fn read(
            &self,
            random: &mut Random,
            (written, units): (&UnitSums, Range<usize>),
            bytes: &[u8],
        ) -> Option<(Range<u64>, Range<u64>)> {
            let mut left = self.empty(units.clone());
            left.merge(written.units(), written.sums()).unwrap();
            let own = self.bounds[units.start]..self.bounds[units.end];
            let mut row = 0;
            while row < self.rows {
                let band = row..(row + 1 + random.below(15)).min(self.rows);
                for row in band.clone() {
                    for written in self.ranges(row) {
                        let start = written.start.clamp(own.start, own.end);
                        let columns = start..written.end.clamp(own.start, own.end);
                        let bytes = self.of_row(bytes, row, columns.clone());
                        left.subtract(row, columns, &bytes).unwrap();
                    }
                }
                row = band.end;
                if let Some(damage) = left.damaged(band) {
                    return Some(damage);
                }
            }
            assert!(left.sums().iter().all(|&sum| sum == 0));
            None
        }
    }

    #[test]
    fn damage_is_found_by_those_that_read_it_and_named() {
        let seed = seed(51);
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for _ in 0..cases(400) {
            let case = Case::any(&mut random);
            let all = case.bounds.len() - 1;
            let written = case.written(&mut random);
            let first = random.below(all);
            let units = first..first + 1 + random.below(all - first);
            let read = (&written, units.clone());
            assert_eq!(case.read(&mut random, read.clone(), &case.bytes), None);
            let mut damaged = case.bytes.clone();
            let at = random.below(damaged.len());
            damaged[at] ^= 1 << random.below(8);
            let (row, column) = (at as u64 / case.row_bytes(), at as u64 % case.row_bytes());
            let own = case.bounds[units.start]..case.bounds[units.end];
            match case.read(&mut random, read.clone(), &damaged) {
                Some((rows, columns)) => assert!(rows.contains(&row) && columns.contains(&column)),
                None => assert!(!own.contains(&column)),
            }
            // Rows that changed places.
            let len = case.row_bytes() as usize;
            let (one, two) = (random.below(case.rows) as usize, random.below(case.rows) as usize);
            let mut moved = case.bytes.clone();
            (0..len).for_each(|nth| moved.swap(one * len + nth, two * len + nth));
            let of = |bytes: &[u8]| -> Vec<Vec<u8>> {
                (0..case.rows).map(|row| case.of_row(bytes, row, own.clone())).collect()
            };
            let same = of(&moved) == of(&case.bytes);
            assert_eq!(case.read(&mut random, read, &moved).is_none(), same);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let new = |rows, height, bounds: &[u64], units| {
            UnitSums::new(rows, height, Arc::from(bounds), units)
        };
        assert!(new(0, 1, &[0, 8], 0..1).is_err());
        assert!(new(1, 0, &[0, 8], 0..1).is_err());
        assert!(new(1, 1, &[1, 8], 0..1).is_err());
        assert!(new(1, 1, &[0, 8, 8], 0..1).is_err());
        assert!(new(1, 1, &[], 0..1).is_err());
        assert!(new(1, 1, &[0, 8], 0..2).is_err());
        let none = new(1, 1, &[0, 8], 1..1).unwrap();
        assert_eq!((none.sums(), none.damaged(0..1)), (&[][..], None));
        let mut sums = new(3, 2, &[0, 8, 16, 24], 1..3).unwrap();
        assert_eq!((sums.sums(), sums.units()), (&[0; 4][..], 1..3));
        for (row, columns, len) in [(3, 8..16, 8), (0, 8..32, 24), (0, 8..16, 16), (0, 0..8, 8)] {
            let error = sums.add(row, columns, &[1; 24][..len]).unwrap_err().to_string();
            assert!(error.ends_with(", of 3 rows from byte 8 to 24"), "{error}");
        }
        let error = sums.merge(0..3, &[1; 4]).unwrap_err().to_string();
        assert_eq!(error, "the array: 4 sums were given for 2 by 3 units");
        assert_eq!(sums.sums(), &[0; 4]);
        sums.merge(0..2, &[1, 2, 3, 4]).unwrap();
        assert_eq!(sums.sums(), &[2, 0, 4, 0]);
        assert_eq!(sums.damaged(0..1), None);
        assert_eq!(sums.damaged(0..2), Some((0..2, 8..16)));
        assert_eq!(sums.damaged(2..3), Some((2..3, 8..16)));
    }
}

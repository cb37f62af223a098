//! Sums by which the slabs of an array are recognised, in whatever order they are read or written.
//!
//! # Contract
//! The sum of a unit of slabs is that of the checksums of its slabs, each multiplied by an odd
//! number of its own: so slabs that have changed places are noticed as well. A pass that goes up
//! has the same sums as one that goes down, whatever its bands.
//!
//! Units are some slabs from slab 0 on, whichever band reads them: bands depend on memory, threads
//! and vectors, which may be different when a run is resumed.
//!
//! # Costs
//! One XXH3 over each slab that is added: the speed of memory, and some 10 ns for each slab.

use std::ops::Range;

use syncline_store::array::Array;
use syncline_store::checksum::checksum;
use syncline_store::direct_io::{DirectFile, IoBuffer, IoQueue, Method, ReadRequest};

use crate::monitor::Monitor;
use crate::team::sums::Units;
use crate::{Error, Result};

/// The bytes of a unit.
const UNIT: usize = 4 << 20;
/// The bytes that are read at once: fewer than any pass needs, so no plan counts them.
const PIECE: usize = 1 << 20;

/// Returns the number of slabs in a unit of arrays whose largest slab has `slab_bytes` bytes.
pub(crate) fn unit_of(slab_bytes: usize) -> usize {
    (UNIT / slab_bytes.max(1)).max(1)
}

/// The sums of the units of one array.
#[derive(Clone, Debug)]
pub(crate) struct SlabSums {
    unit: usize,
    sums: Vec<u64>,
    /// The number of slabs of each unit that have not been added whole.
    missing: Vec<usize>,
}

impl SlabSums {
    /// Returns the sums of an array of `slabs` slabs, of which none has been added.
    pub(crate) fn new(unit: usize, slabs: usize) -> Self {
        let units = slabs.div_ceil(unit);
        let missing = (0..units).map(|n| unit.min(slabs - n * unit)).collect();
        Self { unit, sums: vec![0; units], missing }
    }

    /// Adds slabs.
    pub(crate) fn add(&mut self, slabs: Range<usize>, bytes: &[u8]) {
        let slab_bytes = (bytes.len() / slabs.len().max(1)).max(1);
        for (slab, bytes) in slabs.zip(bytes.chunks_exact(slab_bytes)) {
            let sum = checksum(bytes).wrapping_mul(2 * slab as u64 + 1);
            let unit = slab / self.unit;
            self.sums[unit] = self.sums[unit].wrapping_add(sum);
            self.missing[unit] -= 1;
        }
    }

    /// Returns the units of some slabs to which all slabs have been added, each with its sum.
    pub(crate) fn complete(&self, slabs: &Range<usize>) -> impl Iterator<Item = (usize, u64)> {
        let units = slabs.start / self.unit..slabs.end.div_ceil(self.unit);
        let of_unit = units.filter(|&unit| self.missing[unit] == 0);
        of_unit.map(|unit| (unit, self.sums[unit]))
    }

    /// Returns the sums.
    pub(crate) fn values(&self) -> &[u64] {
        &self.sums
    }

    /// Returns the sums of an array in memory.
    pub(crate) fn of_array(array: &Array, unit: usize) -> Self {
        let slabs = array.dims()[0];
        let mut sums = Self::new(unit, slabs);
        sums.add(0..slabs, array.bytes());
        sums
    }

    /// Returns the sums of an array in a file, whose slabs begin at byte `start`, with some of its
    /// slabs: those of whole units. Tells the monitor what it reads, and ends when that is
    /// cancelled.
    pub(crate) fn of_file(
        file: &DirectFile,
        (start, slab_bytes): (u64, usize),
        (unit, slabs): (usize, usize),
        which: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Self> {
        let mut sums = Self::new(unit, slabs);
        let piece = (PIECE / slab_bytes.max(1)).clamp(1, which.len().max(1));
        let mut buffer = IoBuffer::new(piece * slab_bytes + 2 * file.alignment())?;
        let mut queue = IoQueue::new(Method::Auto);
        for first in which.clone().step_by(piece) {
            let here = first..(first + piece).min(which.end);
            let (offset, len) = (start + (first * slab_bytes) as u64, here.len() * slab_bytes);
            queue.read(&mut [ReadRequest { file, offset, len, into: buffer.as_mut_slice() }])?;
            sums.add(here, &buffer.as_slice()[file.lead(offset)..][..len]);
            monitor.moved(len as u64);
            if monitor.is_cancelled() {
                return Err(Error::Cancelled { iteration: 0 });
            }
        }
        Ok(sums)
    }
}

/// The sums of a pass.
#[derive(Debug, Default)]
pub(crate) struct PassSums {
    /// The slabs that the pass reads.
    pub(crate) slabs: Vec<Range<usize>>,
    /// Those of the arrays that are read, where they are wanted.
    pub(crate) read: Vec<Option<SlabSums>>,
    /// Those of the fields that are written to files, if they are wanted.
    pub(crate) written: Vec<SlabSums>,
    /// On a team whose members have columns: those of the fields that are read, less what has been
    /// read, and those of the fields that are written.
    pub(crate) left: Option<Units>,
    pub(crate) given: Option<Units>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_depend_on_the_places_of_slabs_but_not_on_their_order() {
        let bytes: Vec<u8> = (0..23 * 5).map(|i| (i * 7 % 251) as u8).collect();
        let array = Array::from_vec(&[23, 5], bytes.clone()).unwrap();
        let expected = SlabSums::of_array(&array, 4);
        assert_eq!(expected.values().len(), 6);
        for band in 1..=23 {
            let (mut sums, mut told) = (SlabSums::new(4, 23), Vec::new());
            for first in (0..23).step_by(band).rev() {
                let end = (first + band).min(23);
                sums.add(first..end, &bytes[first * 5..end * 5]);
                told.extend(sums.complete(&(first..end)));
            }
            // Each unit is told once, when its last slab has been added.
            told.sort_unstable();
            assert!(told.iter().copied().eq(expected.values().iter().copied().enumerate()));
            assert_eq!(sums.values(), expected.values());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [b"ab".to_vec(), bytes.clone()].concat()).unwrap();
        let file = DirectFile::open(&path).unwrap();
        let monitor = Monitor::new();
        let of = |start, which| SlabSums::of_file(&file, (start, 5), (4, 23), which, &monitor);
        assert_eq!(of(2, 0..23).unwrap().values(), expected.values());
        assert_eq!(of(2, 8..16).unwrap().values()[2..4], expected.values()[2..4]);
        assert_eq!(of(2, 20..23).unwrap().values()[5], expected.values()[5]);
        assert!(of(3, 0..23).unwrap_err().to_string().contains("read"));
        monitor.cancel();
        assert!(matches!(of(2, 0..23), Err(Error::Cancelled { .. })));
        let mut swapped = bytes;
        let (first, second) = swapped.split_at_mut(5);
        first.swap_with_slice(&mut second[..5]);
        let array = Array::from_vec(&[23, 5], swapped).unwrap();
        assert_ne!(SlabSums::of_array(&array, 4).values()[0], expected.values()[0]);
    }
}

//! The elements that an operation moves: one run of elements, runs at regular distances in any
//! number of levels, or a list of runs.
//!
//! ```text
//!  contiguous   ■■■■■■                      strided, counts [3, 2, 2], strides [5, 20]
//!  list         ■■  ■■■      ■              ■■■··■■■············■■■··■■■
//!                                           └ 3 elements, 2 times 5 apart, that 2 times 20 apart
//! ```
//! All of these become runs `(there, here, length)`, in order. Between hosts they travel as
//! [`Piece`]s, each of which is a number of equal runs at equal distances. So a section of a matrix
//! takes three words for all its rows.
//!
//! # Elements that occur twice
//! A shape that is written must have each element once. [`Strided::occurs_once`] decides that
//! exactly. Let the levels be in the order of their strides, and let the *extent* of some lowest
//! levels be the distance from their first element to the element after their last one.
//!
//! * A level whose stride is at least the extent of the levels below it repeats them in disjoint
//!   ranges. So an element occurs twice with this level if and only if one does without it, and the
//!   level can be left out where it is above all others.
//! * Lowest levels that leave no gap are one longer run, so they can be left out as well.
//! * The starts of the runs of all other levels are sorted. Runs of equal length overlap if and
//!   only if two neighbours in that order do.
//!
//! Sections of matrices need no third step. Where levels interleave (elements 0, 8, 16 and 12, 20,
//! 28), the third step takes time for `n log n` comparisons and `8 n` bytes for at most `n` runs,
//! fewer than the operation moves. It is left out if the runs have more elements than their extent.

use crate::error::RmaError;

/// A shape of nested levels: runs of elements at regular distances, groups of such runs at regular
/// distances, and so on.
///
/// `counts[0]` elements are contiguous. `counts[1]` of these runs begin `strides[0]` elements
/// apart. `counts[2]` of these groups begin `strides[1]` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided<'a> {
    /// The number of items at each level; at least one level.
    pub counts: &'a [usize],
    /// The distances at each level above the first, in elements.
    pub strides: &'a [usize],
}

impl Strided<'_> {
    /// Returns the distance from the first element to the element after the last one.
    pub(crate) fn extent(&self) -> Result<usize, RmaError> {
        let wrong = |why: String| Err(RmaError::Shape { why });
        let [first, counts @ ..] = self.counts else {
            return wrong("the shape has no levels".to_owned());
        };
        if counts.len() != self.strides.len() {
            let why = format!(
                "{} counts need {} strides, not {}",
                counts.len() + 1,
                counts.len(),
                self.strides.len()
            );
            return wrong(why);
        }
        if self.counts.contains(&0) {
            return Ok(0);
        }
        let mut extent = *first;
        for (stride, count) in self.levels() {
            let more = stride.checked_mul(count - 1).and_then(|more| more.checked_add(extent));
            match more {
                Some(more) => extent = more,
                None => {
                    return wrong(format!(
                        "{count} times a stride of {stride} elements is beyond the address space"
                    ));
                }
            }
        }
        Ok(extent)
    }

    /// Checks that no element occurs twice, as is needed where the shape is written.
    ///
    /// The shape must have an [`extent`](Self::extent) that fits the memory: the memory that this
    /// takes is at most eight bytes for each run.
    pub(crate) fn occurs_once(&self) -> Result<(), RmaError> {
        if self.counts.contains(&0) {
            return Ok(());
        }
        let levels = self.levels();
        // Runs without gaps between them are one longer run.
        let (mut run, mut extent) = (self.counts[0], self.counts[0]);
        // The levels above that run, up to the last whose stride is less than the extent below it.
        let (mut from, mut to, mut short) = (0, 0, None);
        for (at, &(stride, count)) in levels.iter().enumerate() {
            if stride < extent {
                to = at + 1;
                short.get_or_insert((stride, extent));
            }
            extent += stride * (count - 1);
            if short.is_none() && stride == run && at == from {
                (run, from) = (extent, at + 1);
            }
        }
        let Some((stride, below)) = short else { return Ok(()) };
        let levels = &levels[from..to];
        let extent =
            levels.iter().fold(run, |extent, (stride, count)| extent + stride * (count - 1));
        let number = levels.iter().try_fold(1_usize, |all, (_, count)| all.checked_mul(*count));
        // More elements than places: some occur twice.
        let fits = number.filter(|all| all.checked_mul(run).is_some_and(|all| all <= extent));
        let is_once = fits.is_some_and(|number| {
            let mut starts = Vec::with_capacity(number);
            starts.push(0);
            for &(stride, count) in levels {
                let below = starts.len();
                for n in 1..count {
                    starts.extend_from_within(..below);
                    starts[n * below..].iter_mut().for_each(|start| *start += n * stride);
                }
            }
            starts.sort_unstable();
            starts.windows(2).all(|pair| pair[1] - pair[0] >= run)
        });
        if is_once {
            return Ok(());
        }
        let why = format!(
            "runs overlap: a stride of {stride} elements is less than their extent of {below}"
        );
        Err(RmaError::Shape { why })
    }

    /// Returns stride and count of the levels with more than one item, in the order of the strides.
    fn levels(&self) -> Vec<(usize, usize)> {
        let levels = self.strides.iter().copied().zip(self.counts.iter().skip(1).copied());
        let mut levels = levels.filter(|&(_, count)| count > 1).collect::<Vec<_>>();
        levels.sort_unstable();
        levels
    }

    /// Calls `each` with every run of this shape and the matching run of a shape with the same
    /// counts and the strides `other`.
    pub(crate) fn runs(&self, other: &[usize], mut each: impl FnMut(usize, usize, usize)) {
        let [first, counts @ ..] = self.counts else { return };
        if self.counts.contains(&0) {
            return;
        }
        let mut at = vec![0; counts.len()];
        let (mut there, mut here) = (0, 0);
        loop {
            each(there, here, *first);
            let mut level = 0;
            loop {
                let Some(index) = at.get_mut(level) else { return };
                *index += 1;
                there += self.strides[level];
                here += other[level];
                if *index < counts[level] {
                    break;
                }
                there -= self.strides[level] * counts[level];
                here -= other[level] * counts[level];
                *index = 0;
                level += 1;
            }
        }
    }
}

/// A number of equal runs of bytes at equal distances, as it appears in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) count: u32,
    pub(crate) stride: u64,
}

impl Piece {
    /// The number of words of a piece in a message.
    pub(crate) const WORDS: usize = 3;

    pub(crate) fn words(self) -> [u64; Piece::WORDS] {
        [self.offset, u64::from(self.len) | u64::from(self.count) << 32, self.stride]
    }

    pub(crate) fn from_words(words: [u64; Piece::WORDS]) -> Piece {
        let [offset, sizes, stride] = words;
        Piece { offset, len: sizes as u32, count: (sizes >> 32) as u32, stride }
    }

    /// Returns the piece extended by one run, if the run continues it.
    pub(crate) fn and(self, offset: u64, len: u32) -> Option<Piece> {
        let Piece { offset: first, len: each, count, stride } = self;
        if count == 1 && first + u64::from(each) == offset {
            return each.checked_add(len).map(|len| Piece { len, ..self });
        }
        let apart = offset.checked_sub(first)?;
        let next = if count == 1 { apart } else { stride };
        let fits = len == each && apart == next * u64::from(count) && count < u32::MAX;
        fits.then_some(Piece { count: count + 1, stride: next, ..self })
    }

    /// Returns the number of bytes of all runs.
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.len) * u64::from(self.count)
    }

    /// Returns the offset of the byte after the last one; `None` if there is no run, or on
    /// overflow.
    pub(crate) fn end(self) -> Option<u64> {
        let last = u64::from(self.count.checked_sub(1)?).checked_mul(self.stride)?;
        self.offset.checked_add(last)?.checked_add(u64::from(self.len))
    }

    /// Returns the offset of each run.
    pub(crate) fn offsets(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.count)).map(move |n| self.offset + n * self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    #[test]
    fn shapes_that_cannot_be_are_told() {
        let why = |counts: &[usize], strides: &[usize], written| {
            let shape = Strided { counts, strides };
            let extent = shape.extent().and_then(|extent| {
                if written { shape.occurs_once().map(|()| extent) } else { Ok(extent) }
            });
            extent.map_err(|error| error.to_string())
        };
        assert_eq!(why(&[3, 2, 2], &[5, 20], true), Ok(28));
        assert_eq!(why(&[3, 2, 2], &[20, 5], true), Ok(28));
        assert_eq!(why(&[3, 0], &[1], true), Ok(0));
        assert_eq!(why(&[3, 2], &[2], false), Ok(5));
        assert!(why(&[3, 2], &[2], true).unwrap_err().contains("overlap"));
        assert!(why(&[3, 4, 2], &[3, 11], true).unwrap_err().contains("overlap"));
        // Three runs 8 apart, and the same 12 further, between them and behind them.
        assert_eq!(why(&[4, 3, 2], &[8, 12], true), Ok(32));
        assert_eq!(why(&[1, 3, 2, 5], &[8, 12, 29], true), Ok(145));
        assert_eq!(why(&[1, 2, 2, 2], &[3, 5, 7], true), Ok(16));
        // Starts 0, 20, 22 and 42: runs of two are apart, runs of three are not.
        assert_eq!(why(&[2, 2, 2], &[20, 22], true), Ok(44));
        assert!(why(&[3, 2, 2], &[20, 22], true).unwrap_err().contains("stride of 22 elements"));
        assert!(why(&[1, 3, 3], &[2, 4], true).unwrap_err().contains("stride of 4 elements"));
        // More runs than any memory has room for.
        let many = usize::MAX >> 20;
        assert!(why(&[2, many, many], &[1, 1], true).unwrap_err().contains("overlap"));
        assert!(why(&[], &[], true).unwrap_err().contains("no levels"));
        assert!(why(&[1, 2], &[], true).unwrap_err().contains("2 counts need 1 strides, not 0"));
        assert!(why(&[1, usize::MAX], &[8], true).unwrap_err().contains("beyond"));
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn runs_are_those_of_nested_loops(
            levels in proptest::collection::vec((1_usize..4, 0_usize..30, 0_usize..30), 0..4),
            first in 1_usize..5,
        ) {
            let counts = std::iter::once(first).chain(levels.iter().map(|l| l.0)).collect::<Vec<_>>();
            let (there, here): (Vec<_>, Vec<_>) = levels.iter().map(|l| (l.1, l.2)).unzip();
            let mut expected = vec![(0, 0)];
            for (count, there, here) in levels {
                expected = (0..count).flat_map(|n| {
                    expected.iter().map(move |&(a, b)| (a + n * there, b + n * here)).collect::<Vec<_>>()
                }).collect();
            }
            let mut found = Vec::new();
            Strided { counts: &counts, strides: &there }.runs(&here, |a, b, len| {
                assert_eq!(len, first);
                found.push((a, b));
            });
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn what_is_written_is_written_once(
            levels in proptest::collection::vec((1_usize..4, 0_usize..40), 1..5),
            first in 1_usize..5,
        ) {
            let counts = std::iter::once(first).chain(levels.iter().map(|l| l.0)).collect::<Vec<_>>();
            let strides = levels.iter().map(|l| l.1).collect::<Vec<_>>();
            let shape = Strided { counts: &counts, strides: &strides };
            let mut times = std::collections::HashMap::new();
            shape.runs(&strides, |at, _, len| (at..at + len).for_each(|at| *times.entry(at).or_insert(0) += 1));
            // Exactly what is written twice is refused.
            prop_assert_eq!(shape.occurs_once().is_ok(), times.values().all(|&n| n == 1));
            prop_assert_eq!(times.keys().max().map(|last| last + 1), shape.extent().ok());
        }

        #[test]
        fn pieces_are_the_runs_that_they_were_made_of(
            runs in proptest::collection::vec((0_u64..40, 1_u32..3), 1..40),
        ) {
            let mut pieces: Vec<Piece> = Vec::new();
            for &(offset, len) in &runs {
                match pieces.last_mut().and_then(|last| last.and(offset, len).map(|more| (last, more))) {
                    Some((last, more)) => *last = more,
                    None => pieces.push(Piece { offset, len, count: 1, stride: 0 }),
                }
            }
            let bytes = |runs: &mut dyn Iterator<Item = (u64, u32)>| {
                runs.flat_map(|(at, len)| at..at + u64::from(len)).collect::<Vec<_>>()
            };
            let expected = bytes(&mut runs.iter().copied());
            let mut found = pieces.iter().flat_map(|piece| piece.offsets().map(|at| (at, piece.len)));
            prop_assert_eq!(bytes(&mut found), expected);
            for piece in pieces {
                prop_assert_eq!(Piece::from_words(piece.words()), piece);
                let end = piece.offsets().map(|at| at + u64::from(piece.len)).max();
                prop_assert_eq!(piece.end(), end);
            }
        }
    }
}

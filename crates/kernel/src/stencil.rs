//! The stencil of a kernel: the neighbours that its update reads.
//!
//! # Contract
//! A kernel declares its stencil once. The following properties are derived from it here:
//!
//! | derived              | determines                                                      |
//! |----------------------|-----------------------------------------------------------------|
//! | [`Stencil::updated`] | which points of a matrix are updated, and which edges stay      |
//! | `corners` (NE, SW)   | the skew of the strips; that blocks are as wide as the matrix   |
//! | `diagonal` (NW, SE)  | which diagonal blocks are waited for; no order max-parallel     |
//!
//! A declaration is checked before a sweep computes any point: `record` runs the update of a
//! [`PointKernel`](crate::PointKernel) on values that record their origin, and `probe` calls a C
//! function at some points of pseudo-random values. Routines of whole blocks are not checked.
//!
//! Routines of whole blocks may keep state that their first call sets up, so none is called for
//! a trial.
//!
//! # Why a kernel declares neighbours only
//! Whether strips are skewed by 1 or 2, which blocks wait for which, which orders are allowed,
//! which edges stay and what a halo holds all follow from the neighbours that an update reads.
//! An earlier declaration had two flags, of which one was safe by default and one was not, and
//! which could be wrong without an error.

pub(crate) mod probe;
pub(crate) mod record;

use std::fmt;

use syncline_store::{Shape, placement::Rect};

/// One of the eight neighbours that touch a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Neighbour {
    /// In the row above: updated already.
    North,
    /// To the left: updated already.
    West,
    /// To the right: not updated yet.
    East,
    /// In the row below: not updated yet.
    South,
    /// Above and to the left: updated already.
    NorthWest,
    /// Below and to the right: not updated yet.
    SouthEast,
    /// Above and to the right: updated already.
    NorthEast,
    /// Below and to the left: not updated yet.
    SouthWest,
}

impl Neighbour {
    /// All eight neighbours.
    pub const ALL: [Neighbour; 8] = [
        Neighbour::North,
        Neighbour::West,
        Neighbour::East,
        Neighbour::South,
        Neighbour::NorthWest,
        Neighbour::SouthEast,
        Neighbour::NorthEast,
        Neighbour::SouthWest,
    ];

    /// Returns the number of rows down and of columns to the right from the point to the neighbour.
    #[must_use]
    pub const fn offset(self) -> (isize, isize) {
        match self {
            Neighbour::North => (-1, 0),
            Neighbour::West => (0, -1),
            Neighbour::East => (0, 1),
            Neighbour::South => (1, 0),
            Neighbour::NorthWest => (-1, -1),
            Neighbour::SouthEast => (1, 1),
            Neighbour::NorthEast => (-1, 1),
            Neighbour::SouthWest => (1, -1),
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Neighbour::North => "north",
            Neighbour::West => "west",
            Neighbour::East => "east",
            Neighbour::South => "south",
            Neighbour::NorthWest => "north-west",
            Neighbour::SouthEast => "south-east",
            Neighbour::NorthEast => "north-east",
            Neighbour::SouthWest => "south-west",
        })
    }
}

/// The neighbours that the update of a point reads, besides the point itself.
///
/// A point is updated if and only if all these neighbours exist. So the stencil also determines
/// which edges of the matrix keep their values: with [`FIVE_POINT`](Self::FIVE_POINT) all four;
/// with north, west and north-west only the first row and column. A kernel that needs an edge to
/// stay declares a neighbour beyond that edge, whether it reads it or not.
///
/// Fewer neighbours are cheaper: north-east and south-west make the skew of the vectors steeper and
/// require blocks as wide as the matrix; north-west and south-east add two more blocks to wait for.
///
/// ```
/// use syncline_store::{Shape, placement::Rect};
/// # extern crate syncline_kernel as syncline_wave;
/// use syncline_wave::{Neighbour, Stencil};
///
/// const ALIGNMENT: Stencil =
///     Stencil::of(&[Neighbour::North, Neighbour::West, Neighbour::NorthWest]);
/// assert_eq!(ALIGNMENT.to_string(), "north, west and north-west");
/// let shape = Shape::new(4, 6);
/// assert_eq!(ALIGNMENT.updated(shape), Rect { row: 1, col: 1, rows: 3, cols: 5 });
/// assert_eq!(Stencil::FIVE_POINT.updated(shape), Rect { row: 1, col: 1, rows: 2, cols: 4 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stencil(u8);

impl Stencil {
    /// North, west, east and south.
    pub const FIVE_POINT: Stencil =
        Stencil::of(&[Neighbour::North, Neighbour::West, Neighbour::East, Neighbour::South]);
    /// The neighbours of [`FIVE_POINT`](Self::FIVE_POINT), north-west and south-east.
    pub const SEVEN_POINT: Stencil =
        Stencil::FIVE_POINT.union(Stencil::of(&[Neighbour::NorthWest, Neighbour::SouthEast]));
    /// All eight neighbours.
    pub const NINE_POINT: Stencil = Stencil::of(&Neighbour::ALL);

    /// Creates a stencil of these neighbours; with none, each point is updated from itself and its
    /// coefficients alone.
    #[must_use]
    pub const fn of(neighbours: &[Neighbour]) -> Self {
        let (mut bits, mut n) = (0, 0);
        while n < neighbours.len() {
            bits |= neighbours[n].bit();
            n += 1;
        }
        Stencil(bits)
    }

    /// Returns whether the stencil has this neighbour.
    #[must_use]
    #[inline(always)]
    pub const fn has(self, neighbour: Neighbour) -> bool {
        self.0 & neighbour.bit() != 0
    }

    /// Returns the neighbours of either stencil.
    #[must_use]
    #[inline(always)]
    pub const fn union(self, other: Self) -> Self {
        Stencil(self.0 | other.0)
    }

    /// Returns the neighbours of this stencil that `other` does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Stencil(self.0 & !other.0)
    }

    /// Returns whether the stencil has no neighbours.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the neighbours, in the order of [`Neighbour::ALL`].
    pub fn neighbours(self) -> impl Iterator<Item = Neighbour> {
        Neighbour::ALL.into_iter().filter(move |neighbour| self.has(*neighbour))
    }

    /// Returns the points of a matrix of `shape` that are updated: those whose neighbours all
    /// exist. If there are none, the number of rows or of columns is 0.
    #[must_use]
    #[inline(always)]
    pub const fn updated(self, shape: Shape) -> Rect {
        let Margin { north, south, west, east } = self.margin();
        Rect {
            row: north,
            col: west,
            rows: shape.rows.saturating_sub(north + south),
            cols: shape.cols.saturating_sub(west + east),
        }
    }

    /// Returns the number of lines at each edge that stay.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn margin(self) -> Margin {
        use Neighbour::{East, North, NorthEast, NorthWest, South, SouthEast, SouthWest, West};
        Margin {
            north: self.any(North, NorthWest, NorthEast) as usize,
            south: self.any(South, SouthWest, SouthEast) as usize,
            west: self.any(West, NorthWest, SouthWest) as usize,
            east: self.any(East, NorthEast, SouthEast) as usize,
        }
    }

    /// Returns whether the stencil has north-west or south-east.
    #[doc(hidden)]
    #[inline]
    pub const fn diagonal(self) -> bool {
        self.has(Neighbour::NorthWest) || self.has(Neighbour::SouthEast)
    }

    /// Returns whether the stencil has north-east or south-west, which lie across the diagonal
    /// along which points are updated.
    #[doc(hidden)]
    #[inline]
    pub const fn corners(self) -> bool {
        self.has(Neighbour::NorthEast) || self.has(Neighbour::SouthWest)
    }

    const fn any(self, a: Neighbour, b: Neighbour, c: Neighbour) -> bool {
        self.has(a) || self.has(b) || self.has(c)
    }
}

impl FromIterator<Neighbour> for Stencil {
    fn from_iter<I: IntoIterator<Item = Neighbour>>(neighbours: I) -> Self {
        neighbours.into_iter().fold(Stencil::of(&[]), |all, one| all.union(Stencil::of(&[one])))
    }
}

impl fmt::Display for Stencil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.neighbours().map(|neighbour| neighbour.to_string()).collect();
        match names.split_last() {
            None => f.write_str("no neighbour"),
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{} and {last}", others.join(", ")),
        }
    }
}

impl fmt::Debug for Stencil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stencil({self})")
    }
}

/// The number of lines at each edge that are not updated.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    pub north: usize,
    pub south: usize,
    pub west: usize,
    pub east: usize,
}

impl Margin {
    /// One line at each edge.
    pub const ONE: Margin = Margin { north: 1, south: 1, west: 1, east: 1 };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For all 256 stencils, a point is updated if and only if every neighbour of the stencil
    /// exists.
    #[test]
    fn updated_are_the_points_of_which_all_neighbours_exist() {
        for bits in 0..=u8::MAX {
            let stencil = Stencil(bits);
            assert_eq!(stencil.neighbours().collect::<Stencil>(), stencil);
            for (rows, cols) in [(1, 1), (1, 4), (2, 2), (3, 1), (3, 3), (4, 6)] {
                let Rect { row, col, rows: high, cols: wide } =
                    stencil.updated(Shape::new(rows, cols));
                for (j, k) in (0..rows).flat_map(|j| (0..cols).map(move |k| (j, k))) {
                    let exists = |neighbour: Neighbour| {
                        let (down, right) = neighbour.offset();
                        let (j, k) = (j as isize + down, k as isize + right);
                        (0..rows as isize).contains(&j) && (0..cols as isize).contains(&k)
                    };
                    let expected = stencil.neighbours().all(exists);
                    let found = (row..row + high).contains(&j) && (col..col + wide).contains(&k);
                    assert_eq!(found, expected, "{stencil} in {rows} x {cols}: ({j}, {k})");
                }
            }
        }
    }

    #[test]
    fn stencils_have_names() {
        let text = |neighbours: &[Neighbour]| Stencil::of(neighbours).to_string();
        assert_eq!(text(&[]), "no neighbour");
        assert_eq!(text(&[Neighbour::SouthWest]), "south-west");
        assert_eq!(Stencil::FIVE_POINT.to_string(), "north, west, east and south");
        assert_eq!(
            Stencil::NINE_POINT.without(Stencil::SEVEN_POINT).to_string(),
            "north-east and south-west"
        );
    }
}
